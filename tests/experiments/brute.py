"""Random patterns and streams, and the matches of the oracle with the decision rules that the methods differ in."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import numpy as np

from experiments.peers.pattern import Ints, Pattern
from piestream.expressions.durations import Duration
from piestream.language.model import Query
from piestream.language.parts import Constraint, Endpoint, Symbol
from piestream.relations import ALL_NAMES, ALLEN, Relation
from tests.oracle import holding, inputs_of
from tests.oracle.known import Known, Time
from tests.oracle.pairs import Pairs
from tests.oracle.streams import partitions
from tests.truth import column

SINGLES = (*ALLEN, Relation.FOLLOWED_BY, Relation.FOLLOWS)
NAMES = "abcdefgh"


def stream(rng: Random, symbols: int, rows: int) -> tuple[Ints, Ints]:
    """Times with gaps of 1 to 3, and masks whose bits flip now and then, often together."""
    times = np.cumsum([rng.randint(1, 3) for _ in range(rows)]).astype(np.int64)
    mask, masks = 0, []
    for _ in range(rows):
        flip = rng.random()
        for bit in range(symbols):
            if rng.random() < (0.5 if flip < 0.5 else 0.2):
                mask ^= 1 << bit
        masks.append(mask)
    return times, np.array(masks, dtype=np.int64)


def pattern(
    rng: Random,
    symbols: int,
    *,
    cycles: bool = True,
    durations: bool = False,
    precise: bool = False,
) -> Pattern:
    """A connected pattern: a random tree of constraints, sometimes with an edge more."""
    relations = SINGLES if precise else ALLEN
    pairs = [(rng.randrange(y), y) for y in range(1, symbols)]
    if cycles and symbols > 2 and rng.random() < 0.4:
        pairs.append((0, symbols - 1))
    rng.shuffle(pairs)
    constraints = {}
    for x, y in pairs:
        chosen = Relation(0)
        if rng.random() < 0.4:  # a complete prefix group, now and then with more
            at = rng.choice((3, 6, 9))
            chosen = Relation(0b111 << at)
        for _ in range(rng.choice((0, 1, 2, 4)) or (0 if chosen else 1)):
            chosen |= rng.choice(relations)
        constraints[x, y] = chosen
    least = tuple(rng.choice((0, 0, 2, 4)) for _ in range(symbols)) if durations else ()
    most = tuple(rng.choice((None, None, None, 6)) for _ in range(symbols)) if durations else ()
    return Pattern(
        symbols,
        tuple((x, y, r) for (x, y), r in constraints.items()),
        window=rng.choice((4, 9, 20, 10_000)),
        at_least=least,
        at_most=most,
    )


@cache
def related(xs: int, xe: int, ys: int, ye: int) -> Relation:
    """The relation of Allen's that two intervals have."""
    return Relation(sum(1 << ALL_NAMES.index(n) for n in holding(xs, xe, ys, ye, False)))


def _as_query(given: Pattern) -> Query:
    """A pattern as a query, whose symbols are letters."""

    def ticks(count: int | None) -> Duration | None:
        return None if count is None else Duration(count, in_ticks=True)

    names = NAMES[: given.n_symbols]
    return Query(
        symbols=tuple(
            Symbol(name, None, ticks(given.at_least[at]), ticks(given.at_most[at]))  # type: ignore[arg-type]
            for at, name in enumerate(names)
        ),
        constraints=tuple(Constraint(names[x], names[y], r) for x, y, r in given.constraints),
        within=Duration(given.window, in_ticks=True),
        returns=tuple(Endpoint(name, "ts", f"{name}_ts") for name in names),
    )


def _rows_of(times: Ints, masks: Ints, names: str) -> list[dict[str, int | bool]]:
    """A stream as the oracle reads it."""
    return [
        {"ts": int(time)} | {name: bool(mask >> at & 1) for at, name in enumerate(names)}
        for time, mask in zip(times, masks, strict=True)
    ]


def matches(given: Pattern, times: Ints, masks: Ints, rule: str = "sets") -> list[tuple[int, ...]]:
    """Report times and starts, sorted.

    ``rule`` is ``"sets"`` (a pair is decided when its relation will be an allowed one, whatever
    comes next), ``"alone"`` (when it will be one certain relation) or ``"completion"`` (when both
    intervals have ended; open ones never match).
    """
    query, names = _as_query(given), NAMES[: given.n_symbols]
    truth = {name: column(name) for name in names}
    inputs = inputs_of(query, _rows_of(times, masks, names), truth)
    ((_, partition),) = partitions(query, inputs)
    alone = [
        [Pairs(partition.history, (replace(c, relations=one),)) for one in SINGLES if one & c.relations]
        for c in query.constraints
    ]  # fmt: skip

    def report(bound: dict[str, Known], trigger: Time) -> Time | None:
        """The instant at which a match is reported by the rule; None if it is not."""
        if rule == "sets":
            return trigger
        if rule == "completion":
            ends = [known.end for known in bound.values()]
            return None if None in ends else max(end for end in ends if end is not None)
        found = [known.valid or 0 for known in bound.values()]
        for constraint, singles in zip(query.constraints, alone, strict=True):
            x, y = constraint.x, constraint.y
            decided = [pairs.decided(x, y, bound[x], bound[y]) for pairs in singles]
            if not any(at is not None for at in decided):
                return None
            found.append(min(at for at in decided if at is not None))
        return max(found)

    rows = []
    for bound, trigger in partition.combinations():
        starts = [int(bound[name].start) for name in names]
        at = report(bound, trigger)
        if at is not None and at - min(starts) <= given.window:
            rows.append((int(at), *starts))
    return sorted(rows)
