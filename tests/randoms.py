"""Random scenarios: a seed makes a query and events on which it is likely to have matches.

``scenario(seed)`` is a pure function, so a seed in a failure message is enough to see it again.
Every query is satisfiable by construction: intervals are planted first, and each constraint
allows at least the relation of its planted pair. A parser that refuses one is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

import piestream as ps
from piestream.expressions.diagnostics import QueryError
from piestream.language.aggregates import AGGREGATES
from piestream.language.parts import Aggregate, DurationOf, Emit, Endpoint, RelationOf, Return
from piestream.relations import ALL_NAMES, Relation
from tests.absent_randoms import with_absences
from tests.clock import CLOCKS, Clock
from tests.oracle import Row, TooManyMatchesError
from tests.scenario import RELATION_SETS, Clause, Definition, Limits, Scenario, Where
from tests.shares import USUAL, Shares
from tests.truth import (
    Expression,
    Past,
    binary,
    column,
    is_null,
    literal,
    negated,
    over,
    previous,
    until,
)

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["random_scenario", "scenario", "scenarios"]

#: Relations that are decided together before any of them is decided alone, and other families.
_GROUPS = (
    ("overlaps", "finished-by", "contains"),
    ("overlapped-by", "finishes", "during"),
    ("starts", "equals", "started-by"),
    ("starts", "equals"),
    ("overlaps", "contains"),
    ("before", "meets"),
    ("before", "followed-by"),
    ("after", "follows"),
    ("meets", "overlaps", "starts", "during"),
    ("met-by", "after"),
    ("during", "starts", "finishes", "equals"),
    ("followed-by", "meets"),
    ("before", "after"),
    # The partners of one interval lie at both ends of what it touches, with others in between.
    ("overlaps", "overlapped-by"),
    ("meets", "met-by"),
    ("started-by", "finished-by"),
    ("meets", "overlapped-by"),
    ("overlaps", "finished-by", "started-by", "overlapped-by"),
    ALL_NAMES,
)
_NAMES = ("a", "b", "c", "d", "s", "x1", "Zeta", "low_speed", "m", "Q")
#: The events of a planted match: what the constraints are made from, and most streams replay.
_PLANTED = 7
#: More than this many combinations, whether or not in the window, teach nothing and take long.
_MOST = 400


@lru_cache(maxsize=4096)
def scenario(seed: int) -> Scenario:
    """The scenario of a seed, always the same."""
    return random_scenario(Random(seed), name=f"seed {seed}", absences=0.2)


def sequenced(seed: int, on_spark: bool = False, bridged: bool = True) -> Scenario:
    """A scenario in which many events have one time; a column, or their order, tells them apart."""
    drawn = scenario(seed)
    is_bridged = any(definition.bridging is not None for definition in drawn.definitions)
    if drawn.clock.kind == "ns" or (is_bridged and not bridged):
        return sequenced(seed + 1_000_003, on_spark, bridged)
    return in_sequence(drawn, Random(f"sequence {seed}"), on_spark)


@lru_cache(maxsize=1024)
def absent_in_sequence(seed: int) -> Scenario:
    """A scenario with what may not be there, in which many events have one time."""
    rng = Random(f"absent in sequence {seed}")
    while True:
        drawn = random_scenario(rng, name=f"absent in sequence {seed}", absences=1)
        if drawn.absences and drawn.clock.kind != "ns" and len(drawn.rows) < 40:
            return in_sequence(drawn, rng)


def in_sequence(drawn: Scenario, rng: Random, on_spark: bool = False) -> Scenario:
    """A scenario with coarser times, so that many events have one."""
    beat = drawn.clock.beats(1)
    coarse = beat * rng.choice((2, 3, 5, 10**6))
    kind = rng.choice(("seq", "seq", "ROW"))
    dtype = rng.choice((pl.Int64(), pl.Int16(), pl.UInt64()))
    if on_spark:
        kind, dtype = "seq", pl.Int64()
    rows, last = [], 0
    for row in drawn.rows:
        ties = drawn.ties != "error" and kind == "seq"
        last += rng.choice((0, 1, 1, 7)) if ties else 1
        rows.append({**row, "ts": row["ts"] // coarse * beat, "seq": last})
    found = drawn.having(
        rows=tuple(rows),
        schema={**drawn.schema, "seq": dtype},
        sequence=kind,
        within=None if drawn.within is None else max(drawn.within, 3),
    )
    short = Random(f"{rng.random()} of no length")
    shorter = found.having(definitions=tuple(_of_no_length(d, short) for d in found.definitions))
    try:
        ps.query(shorter.text())
    except QueryError:  # distances and relations need lengths
        return found
    return shorter


def _of_no_length(one: Definition, rng: Random) -> Definition:
    """A definition, now and then of what ends at the time of its start, or goes on at that of its end."""
    if one.bridging is not None and rng.random() < 0.2:
        one = replace(one, bridging=0)
    if one.at_most is not None and one.at_least is None and rng.random() < 0.2:
        one = replace(one, at_most=0)
    return one


def scenarios() -> SearchStrategy[Scenario]:
    """The same scenarios as a strategy of hypothesis; ``tests.shrink`` makes its finds small."""
    from hypothesis import strategies

    # A seed and not hypothesis' own source of chance: a stream takes more draws than it allows.
    return strategies.integers(0, 2**32).map(scenario)


def random_scenario(
    rng: Random, *, name: str = "", absences: float = 0, shares: Shares = USUAL
) -> Scenario:
    """A scenario drawn from a source of chance; so often with absences, if it may have them."""
    count = rng.choices((1, 2, 3, 4, 5, 6), (2, 8, 7, 4, 2, 1))[0]
    (clock,) = rng.choices([c for _, c in CLOCKS], [weight for weight, _ in CLOCKS])
    definitions, planted = _definitions(rng, count, shares)
    symbols = tuple(definition.name for definition in definitions)
    clauses = _clauses(rng, definitions, planted, shares)
    keys = rng.choices(((), ("k",), ("n2",), ("k", "n2")), (4, 4, 1, 1))[0]
    emit = rng.choice(tuple(Emit))
    within = rng.choices((rng.randint(2, 12), rng.randint(12, 40), 10_000), (2, 2, 6))[0]
    # A window must hold the durations that are asked for; a disjoint chain needs them all.
    least = [d.at_least for d in definitions if d.at_least is not None]
    drawn = Scenario(
        definitions=definitions,
        clauses=clauses,
        rows=(),
        schema=_SCHEMA,
        clock=clock,
        within=max(within, sum(least), 1),
        max_gap=rng.randint(1, 6) if rng.random() < shares.max_gap else None,
        emit=emit,
        keys=keys,
        returns=_returns(rng, symbols, clauses) if rng.random() < 0.6 else (),
        ties=rng.choices(("error", "first", "last"), (shares.untied, 1, 1))[0],
        name=name,
    )
    if rng.random() < shares.where:
        drawn = drawn.having(where=partial(_where, rng.random(), symbols, clauses))
    drawn = drawn.having(limits=_limits(shares.source(rng, "limits"), drawn, shares))
    drawn = drawn.having(definitions=_bridged(copy(rng), definitions, shares))
    chance = shares.source(rng, "distances")
    drawn = drawn.having(clauses=_with_distances(chance, drawn, planted, shares))
    length = rng.choices((0, 1, rng.randint(2, 15), rng.randint(15, 40)), (1, 1, 5, 20))[0]
    if count <= 3 and rng.random() < 0.03:
        # Long enough for intervals to leave the window and for room to be used again.
        length = rng.randint(100, 200)
        drawn = drawn.having(within=max(rng.randint(4, 25), sum(least)))
    chance = shares.source(rng, "windows")
    drawn = present = drawn.having(**_windows(chance, drawn, planted, shares))
    if absences:
        drawn = with_absences(copy(rng), drawn, planted, absences)
    while True:
        rows = _rows(rng, present, planted, length)
        try:
            found = drawn.having(rows=rows).expected(most=_MOST * (10 if length > 40 else 1))
        except TooManyMatchesError:
            length = length * 2 // 3
            continue
        is_bridged = any(one.bridging is not None for one in drawn.definitions)
        if not found and drawn.absences and (is_bridged or len(rows) % 4):
            drawn = present
        if not found and is_bridged:
            return drawn.having(rows=rows).without_bridges()  # bridged, it teaches little
        return drawn.having(rows=rows, had_matches=bool(found))


# The query


def _bridged(
    rng: Random, definitions: tuple[Definition, ...], shares: Shares
) -> tuple[Definition, ...]:
    """The definitions, now and then with runs that are bridged."""
    rng = Random(f"{rng.random()} bridged")  # whatever else chance decides by the same draws
    if rng.random() < 1 - shares.bridged:
        return definitions
    lengths = {d.predicate.text: rng.choice((None, 1, 1, 2, 3, 5)) for d in definitions}
    return tuple(
        replace(d, bridging=lengths[d.predicate.text] if rng.random() < 0.9 else None)
        for d in definitions
    )


def _with_distances(
    rng: Random, drawn: Scenario, planted: dict[str, tuple[int, int]], shares: Shares
) -> tuple[Clause, ...]:
    """The clauses, some of them with distances that the planted match keeps, or replaced by these."""
    rng.random()
    starts = [start for start, _ in planted.values()]
    lasting = all(
        (d.at_least or 0) <= planted[d.name][1] - planted[d.name][0] <= (d.at_most or _PLANTED)
        for d in drawn.definitions
    )
    is_drawn = rng.random() >= 1 - shares.distances
    if not is_drawn or not lasting or max(starts) - min(starts) > (drawn.within or 0):
        return drawn.clauses
    found: list[Clause] = []
    for clause in drawn.clauses:
        count = rng.choices((0, 1, 2), (3, 4, 1))[0]
        if not count or rng.random() < 0.7:
            found.append(clause)
        for _ in range(count):
            x, y = rng.choice(((clause.x, clause.y), (clause.y, clause.x)))
            of_x, of_y = rng.choice(("ts", "te")), rng.choice(("ts", "te"))
            holds = planted[y][of_y == "te"] - planted[x][of_x == "te"]
            slack, more = rng.choice((1, 4, 15, 30)), rng.choice((2, 9, 30))
            sign = rng.choice(("<", "<=", "<=", ">", ">", ">=", ">=", "BETWEEN", "BETWEEN", "="))
            beats = {
                "<": (holds + slack + 1,),
                "<=": (holds + slack,),
                ">": (holds - slack - 1,),
                ">=": (holds - slack,),
                "=": (holds,),
                "BETWEEN": (holds - slack, holds + more),
            }[sign]
            written, turned = rng.choice(("; ", "full")), rng.random() < 0.3
            distance = of_x, of_y, sign, beats
            found.append(Clause(x, y, distance=distance, written=written, turned=turned))
    return tuple(found)


#: Of these signs of ``y - x``, those that bound how long before y, and how long behind it, x may lie.
_UPPER, _LOWER = ("<", "<=", "=", "BETWEEN"), (">", ">=", "=", "BETWEEN")


def _windows(
    rng: Random, drawn: Scenario, planted: dict[str, tuple[int, int]], shares: Shares
) -> dict[str, Any]:
    """Windows of some symbols, long enough for the planted match, beside that of all or instead."""
    rng.random()
    if rng.random() < 1 - shares.windows:
        return {}
    named = set(rng.sample(drawn.symbols, rng.randint(1, len(drawn.symbols))))
    last = max(end for _, end in planted.values())
    is_alone = rng.random() < 0.7
    while is_alone:  # of the others something must say how long they are kept after their ends
        missing = [s for s in drawn.symbols if s not in named and not _is_bounded(s, named, drawn)]
        if not missing:
            break
        named.add(missing[0])
    least = {one.name: one.at_least or 0 for one in drawn.definitions}
    windows = []
    for name in rng.sample(drawn.symbols, len(drawn.symbols)):
        shortest = max(last - planted[name][0], least[name], 1)
        length = shortest + rng.choice((rng.randint(0, 12), rng.randint(9, 40), 60, 200))
        if name in named:
            windows.append((name, length))
    lengths = {length for _, length in windows}
    if is_alone and len(named) == len(drawn.symbols) and len(lengths) == 1:
        return {"within": lengths.pop()}
    return {"windows": tuple(windows), **({"within": None} if is_alone else {})}


def _is_bounded(symbol: str, named: set[str], drawn: Scenario) -> bool:
    """Whether a clause says that an interval of a symbol ends not long before one with a window."""
    for clause in drawn.clauses:
        if symbol not in (clause.x, clause.y) or not named & {clause.x, clause.y}:
            continue
        if clause.distance is not None:
            bounding = _UPPER if clause.x == symbol else _LOWER
            if clause.distance[2] in bounding:
                return True
            continue
        earlier = Relation.BEFORE | Relation.FOLLOWED_BY
        if clause.y == symbol:
            earlier = Relation.AFTER | Relation.FOLLOWS
        if not clause.relations() & earlier:
            return True
    return False


def _limits(rng: Random, drawn: Scenario, shares: Shares) -> Limits:
    """Which matches are given, if not all."""
    if rng.random() < 1 - shares.limits or (drawn.where is not None and drawn.emit is Emit.BOTH):
        return Limits()
    symbols = drawn.symbols
    is_once = rng.random() < shares.once_per
    once = rng.sample(symbols, rng.randint(1, len(symbols))) if is_once else []
    return Limits(
        tuple(once),
        rng.random() < shares.each_limit,
        rng.randint(0, 6) if rng.random() < shares.each_limit else None,
        rng.randint(1, 5) if rng.random() < shares.each_limit else None,
    )


def _definitions(
    rng: Random, count: int, shares: Shares
) -> tuple[tuple[Definition, ...], dict[str, tuple[int, int]]]:
    names = rng.sample(_NAMES, count)
    while True:
        definitions: list[Definition] = []
        planted: dict[str, tuple[int, int]] = {}
        flags = rng.sample(("b0", "b1", "b2", "b3", "b4", "b5"), 6)
        for name in names:
            if definitions and rng.random() < 0.12:
                predicate = rng.choice(definitions).predicate
            else:
                predicate = _predicate(rng, flags, shares)
            start = rng.randint(0, _PLANTED - 2)
            end = rng.randint(start + 1, _PLANTED - 1)
            planted[name] = start, end
            least, most = rng.choices(
                (
                    (None, None),
                    (rng.randint(0, end - start + 1), None),
                    (None, rng.randint(1, 6)),
                    (rng.randint(0, end - start), rng.randint(end - start, 7)),
                ),
                (8, 2, 1, 1),
            )[0]
            events = rng.choices(
                (
                    (None, None),
                    (rng.randint(0, end - start), None),
                    (None, rng.randint(end - start, 7)),
                    (rng.randint(0, end - start), rng.randint(end - start, 7)),
                ),
                (shares.uncounted, 3, 1, 1),
            )[0]
            definitions.append(Definition(name, predicate, least, most, *events))
        if all(
            planted[x.name][1] < planted[y.name][0] or planted[y.name][1] < planted[x.name][0]
            for i, x in enumerate(definitions)
            for y in definitions[:i]
            if x.predicate == y.predicate
        ):
            return tuple(definitions), planted


def _predicate(
    rng: Random, flags: list[str], shares: Shares, *, is_part: bool = False
) -> Expression:
    """Mostly a boolean column of its own, which makes rich runs; sometimes anything else."""
    if rng.random() < shares.past:
        found = _of_the_past(rng, is_part or rng.random() < 0.5)
        is_whole = "UNTIL" in found.text
        return found if is_whole else binary(rng.choice(("AND", "OR")), column("b4"), found)
    kind = rng.random()
    if kind < 0.6 and flags:
        return column(flags.pop())
    if kind < 0.66:
        return negated(column(rng.choice(("b0", "b1", "b2"))))
    if kind < 0.76:
        sign = rng.choice((">", ">=", "<", "<=", "=", "<>"))
        return binary(sign, column(rng.choice(("n0", "n1"))), literal(rng.randint(1, 3)))
    if kind < 0.84:
        sign = rng.choice((">", ">=", "<", "<="))
        return binary(sign, column("f0"), literal(rng.choice((0.25, 0.5))))
    if kind < 0.89:
        return binary(rng.choice((">", ">=", "=")), column("n0"), previous("n0"))
    if kind < 0.92:
        return binary("=", column("w0"), literal(rng.choice(("red", "blue"))))
    if kind < 0.94:
        return is_null(column(rng.choice(("f0", "w0"))), negate=rng.random() < 0.5)
    if kind < 0.96:
        return binary("<", binary("+", column("n0"), column("n1")), literal(4))
    inner = [_predicate(rng, [], shares, is_part=True) for _ in range(2)]
    return binary(rng.choice(("AND", "OR")), inner[0], inner[1])


def _clauses(
    rng: Random,
    definitions: Sequence[Definition],
    planted: dict[str, tuple[int, int]],
    shares: Shares,
) -> tuple[Clause, ...]:
    """A tree, star or chain over the symbols, now and then closed to cycles."""
    names = [definition.name for definition in definitions]
    rng.shuffle(names)
    shape = rng.choice(("chain", "star", "tree"))
    pairs = []
    for i in range(1, len(names)):
        pairs.append(
            (names[{"chain": i - 1, "star": 0, "tree": rng.randrange(i)}[shape]], names[i])
        )
    if len(names) > 2 and rng.random() < 0.45:
        free = [(x, y) for x in names for y in names if x < y]
        free = [p for p in free if p not in pairs and p[::-1] not in pairs]
        pairs += rng.sample(free, rng.randint(1, min(2, len(free)))) if free else []
    if pairs and rng.random() < 0.06:
        pairs.append(rng.choice(pairs))  # two constraints on one pair intersect
    clauses = []
    for x, y in pairs:
        if rng.random() < 0.5:
            x, y = y, x
        is_set = bool(shares.sets) and rng.random() < shares.sets
        draw = _set_clause if is_set else _clause
        clauses.append(draw(rng, x, y, planted[x] + planted[y], len(names)))
    return tuple(clauses)


def _clause(rng: Random, x: str, y: str, ends: tuple[int, int, int, int], symbols: int) -> Clause:
    if rng.random() < 0.06:
        of_x, of_y = rng.choice(("ts", "te")), rng.choice(("ts", "te"))
        left = ends[0] if of_x == "ts" else ends[1]
        right = ends[2] if of_y == "ts" else ends[3]
        if left <= right:
            sign = "<=" if rng.random() < 0.5 else ("<" if left < right else "=")
            return Clause(x, y, comparison=(of_x, sign, of_y), turned=rng.random() < 0.3)
    holds = allen_relation(*ends)
    if rng.random() < 0.35:
        holds = {"before": "followed-by", "after": "follows"}.get(holds, holds)
    if rng.random() < 0.4:
        groups = [group for group in _GROUPS if holds in group]
        names = set(rng.choice(groups or [(holds,)]))
    else:
        more = rng.choices((0, 1, 2, 4, 7, 10), (3, 2, 2, 2, 1, 1))[0] + max(0, symbols - 2)
        names = {holds, *rng.sample(ALL_NAMES, min(more, 15))}
    listed = sorted(names)
    rng.shuffle(listed)
    written = rng.choice(("; ", ";", " | ", "full"))
    return Clause(x, y, tuple(listed), written=written, turned=rng.random() < 0.2)


def _set_clause(
    rng: Random, x: str, y: str, ends: tuple[int, int, int, int], symbols: int
) -> Clause:
    """A set of relations by its name, and what is missing of the planted pair's relation."""
    holds = allen_relation(*ends)
    found = rng.choice(
        [name for name, of in RELATION_SETS.items() if holds in of] or [*RELATION_SETS]
    )
    more = rng.sample(ALL_NAMES, rng.choice((0, 0, 0, 1, 3)))
    names = dict.fromkeys((*RELATION_SETS[found], holds, *more))
    return Clause(
        x, y, tuple(names), written=rng.choice(("; ", " | ", "full")), set_name=found,
        turned=rng.random() < 0.2,
    )  # fmt: skip


def allen_relation(xs: float, xe: float, ys: float, ye: float) -> str:
    """The Allen relation of two intervals, of which at most one is open (its end is infinity)."""
    if xe < ys:
        return "before"
    if ye < xs:
        return "after"
    if xe == ys:
        return "meets"
    if ye == xs:
        return "met-by"
    starts = (xs > ys) - (xs < ys)
    ends = (xe > ye) - (xe < ye)
    return {
        (-1, -1): "overlaps",
        (-1, 0): "finished-by",
        (-1, 1): "contains",
        (0, -1): "starts",
        (0, 0): "equals",
        (0, 1): "started-by",
        (1, -1): "during",
        (1, 0): "finishes",
        (1, 1): "overlapped-by",
    }[starts, ends]


def _returns(rng: Random, symbols: Sequence[str], clauses: Sequence[Clause]) -> tuple[Return, ...]:
    items: list[Return] = []
    for place in range(rng.randint(1, 6)):
        of = rng.choice(symbols)
        kind = rng.random()
        if kind < 0.25:
            which = rng.choice(("ts", "te"))
            items.append(Endpoint(of, which, rng.choice((f"r{place}", f"{of}_{which}"))))
        elif kind < 0.35:
            items.append(DurationOf(of, f"r{place}"))
        elif kind < 0.55 and clauses:
            x, y = rng.sample(symbols, 2)
            if rng.random() < 0.8:
                pair = rng.choice(clauses)
                x, y = rng.choice(((pair.x, pair.y), (pair.y, pair.x)))
            items.append(RelationOf(x, y, f"r{place}"))
        elif kind < 0.65:
            items.append(Aggregate("COUNT", of, None, f"r{place}"))
        else:
            function = rng.choice(tuple(AGGREGATES))
            columns = ["n0", "n1", "f0"]
            if function in ("FIRST", "LAST", "COUNT"):
                columns += ["w0", "b0", "k"]
            name = rng.choice(columns)
            default = f"{function.lower()}_{of}_{name}"
            items.append(Aggregate(function, of, name, rng.choice((f"r{place}", default))))
    unique = {item.alias: item for item in items}
    return tuple(unique.values())


def _where(seed: float, symbols: Sequence[str], clauses: Sequence[Clause], clock: Clock) -> Where:
    """A condition on matches, often with an equality of values that are known from the start."""
    rng = Random(seed)
    items: dict[str, Return] = {}

    def given(item: Return, text: str) -> Expression:
        items[text] = replace(item, alias=text)
        return column(text)

    def aggregate(function: str, of: str, name: str) -> Expression:
        return given(Aggregate(function, of, name, ""), f"{function}({of}.{name})")

    def end(of: str) -> Expression:
        which = rng.choice(("ts", "te"))
        return given(Endpoint(of, which, ""), f"{of}.{which}")

    def equality() -> Expression:
        x, y = rng.sample(symbols, 2)
        if clauses and rng.random() < 0.7:
            pair = rng.choice(clauses)
            x, y = pair.x, pair.y
        name = rng.choice(("n0", "n1", "w0", "b0", "f0", "k"))
        other = rng.choice(("n0", "n1", "f0")) if name in ("n0", "n1", "f0") else name
        return binary("=", aggregate("FIRST", x, name), aggregate("FIRST", y, other))

    def comparison() -> Expression:
        of, kind = rng.choice(symbols), rng.random()
        sign = rng.choice(("<", "<=", ">", ">=", "<>"))
        beats = rng.randint(1, 4)
        ticks = Expression(clock.text(beats), lambda row, before: clock.beats(beats))
        if kind < 0.2:
            lasting = given(DurationOf(of, ""), f"DURATION({of})")
            return binary(sign, lasting, ticks)
        if kind < 0.4:
            return binary(sign, binary("-", end(of), end(rng.choice(symbols))), ticks)
        if kind < 0.5 and clauses:
            pair = rng.choice(clauses)
            how = given(RelationOf(pair.x, pair.y, ""), f"RELATION({pair.x}, {pair.y})")
            return binary(rng.choice(("=", "<>")), how, literal(rng.choice(ALL_NAMES)))
        if kind < 0.6:
            return is_null(end(of), negate=rng.random() < 0.5)
        if kind < 0.7:
            counted = given(Aggregate("COUNT", of, None, ""), f"COUNT({of})")
            return binary(sign, counted, literal(rng.randint(1, 3)))
        function = rng.choice(
            [name for name in AGGREGATES if name not in ("COUNT", "STDDEV", "VARIANCE")]
        )
        name = rng.choice(("n0", "n1"))
        if function in ("FIRST", "LAST") and rng.random() < 0.2:
            return binary("=", aggregate(function, of, "w0"), literal("red"))
        return binary(sign, aggregate(function, of, name), literal(rng.choice((1, 2, 2.5))))

    parts = [comparison()] if len(symbols) == 1 or rng.random() < 0.5 else [equality()]
    while rng.random() < 0.4:
        parts.append(equality() if len(symbols) > 1 and rng.random() < 0.4 else comparison())
    condition = parts[0]
    for part in parts[1:]:
        condition = binary("AND" if rng.random() < 0.7 else "OR", condition, part)
    if rng.random() < 0.1:
        condition = negated(condition)
    return Where(condition, tuple(items.values()))


# The events

_SCHEMA: dict[str, pl.DataType] = {
    "ts": pl.Int64(),
    "k": pl.String(),
    "n2": pl.Int64(),
    **{f"b{i}": pl.Boolean() for i in range(6)},
    "n0": pl.Int64(),
    "n1": pl.Int64(),
    "f0": pl.Float64(),
    "w0": pl.String(),
}


def _value(rng: Random, name: str) -> Any:
    if rng.random() < 0.05:
        return None
    if name[0] == "b":
        return rng.random() < 0.55
    if name[0] == "n":
        return rng.randint(0, 4)
    if name[0] == "f":
        return rng.choice((0.0, 0.25, 0.5, 0.75, float("nan")))
    return rng.choice(("red", "green", "blue"))


def _rows(
    rng: Random, drawn: Scenario, planted: dict[str, tuple[int, int]], length: int
) -> tuple[Row, ...]:
    """Events whose columns hold their values for a while, so that there are runs to relate.

    Now and then the planted match is played, so that there is something to find.
    """
    keys = _keys(rng, drawn)
    weights = [rng.choice((1, 1, 4)) for _ in keys]
    held = {key: {name: _value(rng, name) for name in _SCHEMA} for key in keys}
    playing: dict[_Key, int] = {}
    change = rng.choice((0.3, 0.5, 0.8))
    # Slow columns beside quick ones: long intervals that hold many short ones.
    changes = {name: rng.choice((change, change, 0.1, 0.9)) for name in _SCHEMA}
    steps = rng.choice(((1,), (1,), (1, 1, 1, 2), (1, 2, 3), (1, 1, 1, 9), (0, 1, 1, 2)))
    beat, origin = _origin(rng, drawn.clock)
    at, last = origin, dict.fromkeys(keys, origin - 1)
    rows: list[Row] = []
    for _ in range(length):
        key = rng.choices(keys, weights)[0]
        if playing and rng.random() < 0.8:
            key = rng.choice(tuple(playing))
        at += rng.choice(steps) * beat
        # Two events of a partition at one time only where ties are not errors.
        if at <= last[key] and (drawn.ties == "error" or rng.random() < 0.5):
            at = last[key] + beat
        last[key] = at
        before, values = dict(held[key]), held[key]
        for name in values:
            if rng.random() < changes[name]:
                values[name] = _value(rng, name)
        if key not in playing and rng.random() < 0.35:
            playing[key] = -1
        if key in playing:
            past = Past(({**before, "ts": at - beat},), drawn.clock)
            values["ts"] = at
            _play(rng, drawn.definitions, planted, playing[key], values, past)
            playing[key] += 1
            if playing[key] >= _PLANTED:
                del playing[key]
        rows.append({**values, "ts": at, "k": key[0], "n2": key[1]})
    return tuple(rows)


_Key = tuple[str | None, int | None]


def _keys(rng: Random, drawn: Scenario) -> list[_Key]:
    pool: list[_Key] = [("one", 1)]
    if drawn.keys == ("n2",):
        pool = [("one", n) for n in (1, 2, -3, None)]
    elif drawn.keys == ("k",):
        pool = [(k, 1) for k in ("one", "two", None, "")]
    elif drawn.keys:
        pool = [(k, n) for k in ("one", "two", None, "") for n in (1, 2, None)]
    return rng.sample(pool, min(len(pool), rng.choice((1, 2, 2, 3, 4))))


def _of_the_past(rng: Random, is_part: bool) -> Expression:
    """A predicate that reads earlier events: PREV, windows, windows of these, UNTIL."""

    def value(depth: int) -> Expression:
        inner = column(rng.choice(("n0", "n1", "f0")))
        if depth and rng.random() < 0.3:
            inner = binary("-", inner, previous(inner.text, rng.choice((1, 1, 2, 3))))
        elif depth and rng.random() < 0.2:
            inner = window(0)
        return inner

    def window(depth: int) -> Expression:
        function = rng.choice(("AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV"))
        inner = value(depth)
        if function == "COUNT" and rng.random() < 0.5:
            inner = column("w0")
        if rng.random() < 0.5:
            return over(function, inner, beats=rng.choice((1, 2, 2, 3, 5, 12)))
        return over(function, inner, events=rng.choice((1, 2, 2, 3, 5, 12)))

    def condition() -> Expression:
        kind = rng.random()
        if kind < 0.4:
            return column(rng.choice(("b0", "b1", "b2", "b3")))
        if kind < 0.5:
            return binary(rng.choice((">", "<", "=")), column("n0"), literal(rng.randint(0, 4)))
        if kind < 0.6:
            of = rng.choice((column("w0"), column("n1"), window(1)))
            return binary("=", of, previous(of, rng.choice((1, 2, 3, 7))))
        sign = rng.choice((">", ">=", "<", "<=", "<>"))
        return binary(sign, window(1), literal(rng.choice((0, 0.25, 0.5, 1, 2, 2.5, 6))))

    if rng.random() < 0.4 and not is_part:
        return until(condition(), condition())
    return condition()


def _play(
    rng: Random,
    definitions: Sequence[Definition],
    planted: dict[str, tuple[int, int]],
    step: int,
    values: dict[str, Any],
    past: Past,
) -> None:
    """Draws values again until every predicate is as the planted match wants it, if it can be."""
    wanted: dict[str, bool] = {}
    for one in definitions:
        start, end = planted[one.name]
        wanted[one.predicate.text] = wanted.get(one.predicate.text, False) or start <= step < end
    for _ in range(40):
        wrong = [
            one
            for one in definitions
            if one.predicate.holds(values, past) is not wanted[one.predicate.text]
        ]
        if not wrong:
            return
        for name in _COLUMN.findall(rng.choice(wrong).predicate.text):
            values[name] = _value(rng, name)


_COLUMN = re.compile(r"\b[bfnw]\d\b")


def _origin(rng: Random, clock: Clock) -> tuple[int, int]:
    """The ticks between events, and the time of the first: also below zero."""
    beat = clock.beats(1)
    day = 86_400_000_000_000
    per_day = {"int": 100, "int-ms": 100, "date": 1, "ms": day // 10**6, "ns": day}
    base = per_day.get(clock.kind, day // 1_000) * rng.choice((0, 19_700, -3, 1))
    if rng.random() < 0.2 and beat >= 10 and clock.kind not in ("date", "ns"):
        beat //= 10
    return beat, base
