"""What could be changed so that an expected match appears: one function a kind of change.

Each proposes queries that differ in one place, with how large the change is. They need not be right:
whoever asks them runs what they propose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from piestream.diagnosis.intervals import bounds_of, unbridged
from piestream.diagnosis.parts import (
    START,
    duration_of_ticks,
    forever,
    with_window,
    without_limits,
)
from piestream.diagnosis.target import OPEN, Target
from piestream.expressions.columns import column_named
from piestream.language.distances import Distance, distances_of, normalized
from piestream.language.emission import limits_text
from piestream.language.model import Query
from piestream.language.parts import Constraint, Symbol
from piestream.language.windows import NO_WINDOW, all_windows
from piestream.relations import (
    ANY,
    ENDPOINT_ORDER,
    PRECISE_FORM,
    EndpointOrder,
    Relation,
    compare,
    names,
    relation_of,
    said,
)
from piestream.show.table import cell_text

__all__ = [
    "MovedEndpoint",
    "PairMiss",
    "Proposal",
    "bridges",
    "durations",
    "limits",
    "pair_misses",
    "relations",
    "shift",
    "wide",
    "windows",
    "with_relations",
    "with_symbol",
]

#: So many of the nearest distances between runs are tried on each side of the one that is bridged, and
#: where none is.
_MOST_GAPS, _MOST_FIRST_GAPS = 8, 2


@dataclass(frozen=True, slots=True)
class MovedEndpoint:
    """Another start or end in a row of intervals: of all rows that say ``was`` and the rest of it.

    >>> frames = {"calls": pl.DataFrame({"began": [1, 5], "ended": [4, 9]})}
    >>> moved = MovedEndpoint("calls", "ended", 4, 5, {"began": 1})
    >>> moved.of(frames)["calls"].rows()
    [(1, 5), (5, 9)]
    """

    stream: str  # the input
    column: str
    was: Any
    to: Any
    where: Mapping[
        str, Any
    ]  # the other columns that tell the row: its other endpoint, its ID, keys

    def of(self, frames: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Rows of all inputs, with the endpoint moved."""
        frame = frames[self.stream]
        same = [
            column_named(name).eq_missing(pl.lit(value, frame.schema[name]))
            for name, value in {**self.where, self.column: self.was}.items()
        ]
        to = pl.lit(self.to, frame.schema[self.column])
        moved = pl.when(pl.all_horizontal(same)).then(to).otherwise(column_named(self.column))
        return {**frames, self.stream: frame.with_columns(moved.alias(self.column))}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changed query, the kind and the size of the change (0 is none), and what it is in words.

    Where a row of the data is changed, the query is as it was.
    """

    kind: str
    query: Query
    size: float
    text: str
    moved: MovedEndpoint | None = None


def with_symbol(query: Query, changed: Symbol) -> Query:
    """A query with another symbol of the same name."""
    symbols = tuple(changed if s.name == changed.name else s for s in query.symbols)
    return replace(query, symbols=symbols)


def windows(target: Target) -> Iterator[Proposal]:
    """Longer windows."""
    query, time = target.rows.query, target.rows.time
    windows = {
        one.symbol: time.ticks(one.length, "WITHIN")
        for one, _ in all_windows((), query.within, query.windows)
    }
    of_all = None if query.within == NO_WINDOW else time.ticks(query.within, "WITHIN")

    def exceeded(match: dict[str, Any]) -> dict[str | None, tuple[int, int]]:
        """The windows that are too short for a match, and how long they would have to be."""
        takes = {name: int(match["report"] - match[f"{START}{name}"]) for name in windows}
        found: dict[str | None, tuple[int, int]] = {
            name: (takes[name], length) for name, length in windows.items() if takes[name] > length
        }
        if of_all is not None and _duration_of_match(match) > of_all:
            found[None] = _duration_of_match(match), of_all
        return found

    def excess(match: dict[str, Any]) -> float:
        return sum((takes - had) / max(had, 1) for takes, had in exceeded(match).values())

    for match in target.nearest(with_window(query, forever(time)), excess):
        longer = exceeded(match)
        if not longer:
            continue
        lengths = {name: duration_of_ticks(takes, time) for name, (takes, _) in longer.items()}
        changed = replace(
            query,
            within=lengths.get(None, query.within),
            windows=tuple(
                replace(one, length=lengths.get(one.symbol, one.length)) for one in query.windows
            ),
        )
        shown = [
            cell_text(target.length(takes)) + (f" from {name}" if name else "")
            for name, (takes, _) in longer.items()
        ]
        text = (
            f"the match takes {' and '.join(shown)} (WITHIN {query.within_text}); with WITHIN "
            f"{changed.within_text} it matches"
        )
        yield Proposal("window", changed, excess(match), text)


def _duration_of_match(match: dict[str, Any]) -> int:
    return int(match["report"] - min(v for k, v in match.items() if k.startswith(START)))


def limits(target: Target) -> Iterator[Proposal]:
    """Without ONCE PER, NO OVERLAP, COOLDOWN and LIMIT."""
    query = target.rows.query
    if query.limits:
        written = " ".join(limits_text(query.limits, query.limits.once_per))
        text = f"{written} leaves the match out, for others were given before it"
        yield Proposal("limits", without_limits(query), 0, text)


def durations(target: Target) -> Iterator[Proposal]:
    """Another bound on the lengths of a symbol's intervals, or on the number of their events."""
    for symbol in target.rows.query.present:
        bounds = bounds_of(target.rows, symbol)
        for attribute, bound, word in (
            ("at_least", bounds.at_least, "AT LEAST"),
            ("at_most", bounds.at_most, "AT MOST"),
            ("at_least_events", bounds.fewest, "AT LEAST"),
            ("at_most_events", bounds.most, "AT MOST"),
        ):
            if bound is not None:
                yield from _other_bound(target, symbol, attribute, bound, word)


def _other_bound(
    target: Target, symbol: Symbol, attribute: str, bound: int, word: str
) -> Iterator[Proposal]:
    query, name = target.rows.query, symbol.name
    of_events = attribute.endswith("events")

    def size(match: dict[str, Any]) -> int:
        run = target.interval(name, match)
        return int(run["events"] if of_events else run["te"] - run["ts"])

    without: Any = {attribute: None}
    lifted = with_symbol(query, replace(symbol, **without))
    matches = target.nearest(lifted, lambda match: abs(size(match) - bound))
    for match in matches:
        reached = size(match)
        breaks = reached < bound if attribute.startswith("at_least") else reached > bound
        if not breaks:
            continue
        at = cell_text(target.time(match[f"{START}{name}"]))
        new: Any = reached if of_events else duration_of_ticks(reached, target.rows.time)
        events = " EVENTS" * of_events
        has = (
            f"had {reached:,} events"
            if of_events
            else f"lasted {cell_text(target.length(reached))}"
        )
        was = f"{word} {getattr(symbol, attribute)}{events}"
        text = f"{name} {has} from {at} ({was}); with {word} {new}{events} it matches"
        changed = with_symbol(query, replace(symbol, **{attribute: new}))
        yield Proposal("duration", changed, abs(reached - bound) / max(bound, 1), text)


def bridges(target: Target) -> Iterator[Proposal]:
    """Runs that are one interval at a longer distance, or no longer at a shorter one."""
    for number, symbol in enumerate(target.rows.query.symbols):
        bridge = target.rows.binding.compiled.ticks.bridging[number]
        if symbol.bridging is None:
            yield from _first_bridges(target, symbol)
        if symbol.bridging is None or bridge is None:
            continue
        found = unbridged(target.rows, symbol)
        ends = found.sort("ts").select(
            pl.col("te").alias("end"), (pl.col("ts").shift(-1) - pl.col("te")).alias("gap")
        )
        gaps = ends.drop_nulls().sort("gap", "end").unique("gap", keep="first", maintain_order=True)
        longer = gaps.filter(pl.col("gap") > bridge)
        shorter = gaps.filter(pl.col("gap") <= bridge, pl.col("gap") > 1).reverse()
        for some, less in ((longer, 0), (shorter, 1)):
            for end, gap in some.head(_MOST_GAPS).iter_rows():
                yield _other_bridge(target, symbol, bridge, end, gap, gap - less)


def _first_bridges(target: Target, symbol: Symbol) -> Iterator[Proposal]:
    """BRIDGING where there is none, over distances that are shorter than the runs on either side."""
    query = target.rows.query
    if query.is_sequenced or query.absences or query.streams[symbol.stream].is_ready_made:
        return
    runs = unbridged(target.rows, symbol).sort("ts").select("ts", "te")
    gap, length = pl.col("ts").shift(-1) - pl.col("te"), pl.col("te") - pl.col("ts")
    shorter = pl.min_horizontal(length, length.shift(-1))
    gaps = runs.select(pl.col("te").alias("end"), gap.alias("gap"), shorter.alias("shorter"))
    gaps = gaps.filter(pl.col("gap") < pl.col("shorter")).sort("gap", "end")
    gaps = gaps.unique("gap", keep="first", maintain_order=True).head(_MOST_FIRST_GAPS)
    for end, ticks, of_run in gaps.iter_rows():
        new = duration_of_ticks(ticks, target.rows.time)
        text = (
            f"{symbol.name} is interrupted for {cell_text(target.length(ticks))} from "
            f"{cell_text(target.time(end))}; with BRIDGING {new} it matches"
        )
        changed = with_symbol(query, replace(symbol, bridging=new))
        yield Proposal("bridging", changed, 1 + ticks / of_run, text)


def _other_bridge(
    target: Target, symbol: Symbol, bridge: int, end: int, gap: int, ticks: int
) -> Proposal:
    new = duration_of_ticks(ticks, target.rows.time)
    length, at = cell_text(target.length(gap)), cell_text(target.time(end))
    text = (
        f"{symbol.name} is interrupted for {length} from {at} (BRIDGING {symbol.bridging}); "
        f"with BRIDGING {new} it matches"
    )
    changed = with_symbol(target.rows.query, replace(symbol, bridging=new))
    return Proposal("bridging", changed, abs(ticks - bridge) / max(bridge, 1), text)


@dataclass(frozen=True)
class PairMiss:
    """Two intervals that would make a match if their relation were allowed."""

    constraint: Constraint
    spans: tuple[tuple[int, int], tuple[int, int]]
    held: Relation  # the relation that they are in
    match: dict[str, Any]
    size: float  # how far an endpoint would have to move, by the shorter interval's length

    def text(self, target: Target) -> str:
        """The two, and what they would have to be."""
        x, y = self.constraint.x, self.constraint.y
        first, second = (f"[{target.shown(s)}, {target.shown(e)})" for s, e in self.spans)
        needed = said(self.constraint.relations)
        return f"{x} {first} {names(self.held)[0]} {y} {second} (needs {needed})"


def pair_misses(target: Target) -> Iterator[PairMiss]:
    """The nearest intervals of each constraint that are in no allowed relation, but would match."""
    query = target.rows.query
    for constraint in query.constraints:

        def change(match: dict[str, Any], c: Constraint = constraint) -> float:
            return shift(target.span(c.x, match), target.span(c.y, match), c.relations)

        for match in target.nearest(with_relations(query, constraint, ANY), change):
            spans = target.span(constraint.x, match), target.span(constraint.y, match)
            if spans[0][1] == spans[1][1] == OPEN:
                continue
            x, y = (target.instants(name, match) for name in (constraint.x, constraint.y))
            miss = PairMiss(constraint, spans, relation_of(*x, *y), match, change(match))
            if not miss.held & constraint.relations:
                yield miss


def with_relations(query: Query, constraint: Constraint, relations: Relation) -> Query:
    """A query with other relations in one of its constraints."""
    changed = replace(constraint, relations=relations)
    return replace(
        query, constraints=tuple(changed if c == constraint else c for c in query.constraints)
    )


def relations(target: Target) -> Iterator[Proposal]:
    """One more relation between two symbols."""
    for miss in pair_misses(target):
        more = miss.constraint.relations | miss.held
        changed = with_relations(target.rows.query, miss.constraint, more)
        text = f"{miss.text(target)}; with {names(miss.held)[0]} allowed it matches"
        yield Proposal("relation", changed, miss.size, text)


def distances(target: Target) -> Iterator[Proposal]:
    """Another length of a distance."""
    lengths = target.rows.binding.compiled.ticks.distances
    for number, constraint in enumerate(target.rows.query.constraints):
        for place in range(len(constraint.distances)):
            yield from _other_distance(target, number, place, lengths[number][place])


def _other_distance(target: Target, number: int, place: int, bound: int) -> Iterator[Proposal]:
    query = target.rows.query
    constraint = query.constraints[number]
    distance = constraint.distances[place]
    end, other = (distance.symbol, distance.which), (distance.other, distance.other_which)

    def changed(instead: tuple[Distance, ...]) -> Query:
        kept = constraint.distances[:place] + instead + constraint.distances[place + 1 :]
        fitting = replace(constraint, distances=normalized(constraint.x, constraint.y, kept))
        before, after = query.constraints[:number], query.constraints[number + 1 :]
        return replace(query, constraints=(*before, fitting, *after))

    def reached(match: dict[str, Any]) -> int:
        at, since = (target.span(name, match)[which == "te"] for name, which in (end, other))
        return at - since

    def excess(match: dict[str, Any]) -> float:
        return abs(reached(match) - bound)

    for match in target.nearest(changed(()), excess):
        length = reached(match)
        if abs(length) >= OPEN >> 1:
            continue
        new = duration_of_ticks(length, target.rows.time)
        comparison = "<=" if distance.is_upper else ">="
        instead = distances_of(end, other, comparison, new.amount, new.in_ticks)
        shown = cell_text(target.length(length))
        text = f"{'.'.join(end)} - {'.'.join(other)} is {shown} (needs {distance}); with {instead[0]} it matches"
        yield Proposal("distance", changed(instead), excess(match) / max(bound, 1), text)


def shift(x: tuple[int, int], y: tuple[int, int], allowed: Relation) -> float:
    """How far endpoints would have to move for an allowed relation, by the shorter interval's length."""
    distances = (x[0] - y[0], x[0] - y[1], x[1] - y[0], x[1] - y[1])
    signs = EndpointOrder(*(compare(d, 0) for d in distances))
    length = min(x[1] - x[0], y[1] - y[0])
    found = []
    for relation, order in ENDPOINT_ORDER.items():
        if relation & wide(allowed):
            wrong = [
                abs(d) + (wanted != 0)
                for d, sign, wanted in zip(distances, signs, order, strict=True)
                if sign != wanted
            ]
            found.append(max(wrong, default=0))
    return min(found, default=0) / max(length, 1)


def wide(allowed: Relation) -> Relation:
    """A set with the wide form of each relation that is allowed in its precise form."""
    return Relation(
        allowed | sum(loose for loose, precise in PRECISE_FORM.items() if allowed & precise)
    )
