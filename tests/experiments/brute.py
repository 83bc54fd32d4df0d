"""Matches by enumeration, with the decision rules that the methods differ in.

The oracle of the library's tests knows one rule, the earliest instant; ``test_brute`` holds this
one against it. Decisions are found by trying what can come next, not by a table of endpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random

import numpy as np

from experiments.peers.pattern import Ints, Pattern
from piestream.relations import ALL_NAMES, ALLEN, Relation

#: An interval: the rows of its start and of its end (None: open), and the row that makes it valid.
Interval = tuple[int, int | None, int]

SINGLES = (*ALLEN, Relation.FOLLOWED_BY, Relation.FOLLOWS)

#: Allen's relations in the library's order, each with an example of endpoints xs, xe, ys, ye.
_EXAMPLES = {
    (0, 1, 2, 3): Relation.BEFORE,
    (0, 1, 1, 2): Relation.MEETS,
    (0, 2, 1, 3): Relation.OVERLAPS,
    (0, 2, 1, 2): Relation.FINISHED_BY,
    (0, 3, 1, 2): Relation.CONTAINS,
    (0, 1, 0, 2): Relation.STARTS,
    (0, 1, 0, 1): Relation.EQUALS,
    (0, 2, 0, 1): Relation.STARTED_BY,
    (1, 2, 0, 3): Relation.DURING,
    (1, 2, 0, 2): Relation.FINISHES,
    (1, 3, 0, 2): Relation.OVERLAPPED_BY,
    (1, 2, 0, 1): Relation.MET_BY,
    (2, 3, 0, 1): Relation.AFTER,
}


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
def _allen(xs: int, xe: int, ys: int, ye: int) -> Relation:
    order = {value: place for place, value in enumerate(sorted({xs, xe, ys, ye}))}
    return _EXAMPLES[order[xs], order[xe], order[ys], order[ye]]


def intervals(times: Ints, masks: Ints, given: Pattern) -> list[list[Interval]]:
    """The runs of each bit that keep, or may still keep, their duration."""
    found: list[list[Interval]] = []
    for bit in range(given.n_symbols):
        holds = [bool(mask >> bit & 1) for mask in masks] + [False]
        runs: list[Interval] = []
        for row, true in enumerate(holds[:-1]):
            if not true or (row and holds[row - 1]):
                continue
            after = next(k for k in range(row, len(holds)) if not holds[k])
            end = after if after < len(masks) else None
            length = [int(t - times[row]) for t in times]
            least, most = given.at_least[bit], given.at_most[bit]
            if most is not None:
                if end is not None and least <= length[end] <= most:
                    runs.append((row, end, end))
                continue
            last = len(masks) - 1 if end is None else end
            valid = next((k for k in range(row, last + 1) if length[k] >= least), None)
            if valid is not None:
                runs.append((row, end, valid))
        found.append(runs)
    return found


def _decided(
    allowed: Relation, x: Interval, y: Interval, pair: list[int], alone: bool
) -> int | None:
    """The row at which a pair is decided; None if it never is. ``pair``: the letters of a row."""
    for now in range(max(x[0], y[0]), len(pair)):
        # What is not known at this row can be in either order, or at once, later.
        x_ends = [x[1]] if x[1] is not None and x[1] <= now else [now + 1, now + 2]
        y_ends = [y[1]] if y[1] is not None and y[1] <= now else [now + 1, now + 2]
        possible = set()
        for xe, ye in product(x_ends, y_ends):
            held = _allen(x[0], xe, y[0], ye)
            quiet = not any(pair[min(xe, ye) : max(x[0], y[0])])
            if held is Relation.BEFORE and quiet:
                held |= Relation.FOLLOWED_BY
            if held is Relation.AFTER and quiet:
                held |= Relation.FOLLOWS
            possible.add(held)
        singles = [r for r in SINGLES if r & allowed] if alone else [allowed]
        if any(all(held & single for held in possible) for single in singles):
            return now
        if len(x_ends) == len(y_ends) == 1:
            return None
    return None


def matches(given: Pattern, times: Ints, masks: Ints, rule: str = "sets") -> list[tuple[int, ...]]:
    """Report times and starts, sorted.

    ``rule`` is ``"sets"`` (a pair is decided when its relation will be an allowed one, whatever
    comes next), ``"alone"`` (when it will be one certain relation) or ``"completion"`` (when both
    intervals have ended; open ones never match).
    """
    runs = intervals(times, masks, given)
    if rule == "completion":
        runs = [[(s, e, e) for s, e, _ in of if e is not None] for of in runs]
    letters = {
        (x, y): [int(mask >> x & 1) * 2 + int(mask >> y & 1) for mask in masks]
        for x, y, _ in given.constraints
    }

    @cache
    def decided(number: int, x: Interval, y: Interval) -> int | None:
        a, b, allowed = given.constraints[number]
        return _decided(allowed, x, y, letters[a, b], rule == "alone")

    def extend(bound: list[Interval]) -> Iterator[tuple[int, ...]]:
        at = len(bound)
        if at == given.n_symbols:
            rows = [interval[2] for interval in bound]
            for number, (x, y, _) in enumerate(given.constraints):
                rows.append(decided(number, bound[x], bound[y]) or 0)
            report = int(times[max(rows)])
            starts = [int(times[interval[0]]) for interval in bound]
            if report - min(starts) <= given.window:
                yield (report, *starts)
            return
        for interval in runs[at]:
            chosen = [*bound, interval]
            if all(
                max(x, y) != at or decided(number, chosen[x], chosen[y]) is not None
                for number, (x, y, _) in enumerate(given.constraints)
            ):
                yield from extend(chosen)

    return sorted(extend([]))


def named(relations: Relation) -> list[str]:
    """Names for a failure message."""
    return [name for bit, name in enumerate(ALL_NAMES) if relations >> bit & 1]
