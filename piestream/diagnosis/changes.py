"""What could be changed in a query so that an expected match appears: one function a kind of change.

Each proposes queries that differ in one place, with how large the change is. They need not be right:
whoever asks them runs what they propose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from piestream.diagnosis.intervals import bounds_of
from piestream.diagnosis.parts import START, duration_of_ticks, forever, without_limits
from piestream.diagnosis.target import Target
from piestream.language.distances import Distance, distances_of, normalized
from piestream.language.emission import limits_text
from piestream.language.model import Query, Symbol
from piestream.relations import (
    ANY,
    ENDPOINT_ORDER,
    EndpointOrder,
    Relation,
    compare,
    names,
    relation_of,
)
from piestream.show.table import cell_text

__all__ = ["CHANGES", "Proposal"]

#: Of each place in the query so many of the nearest proposals are made.
_NEAREST = 3
#: The end of what is open: after all others.
_OPEN = 1 << 62


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changed query, the kind and the size of the change (0 is none), and what it is in words."""

    kind: str
    query: Query
    size: float
    text: str


def _with_symbol(query: Query, changed: Symbol) -> Query:
    symbols = tuple(changed if s.name == changed.name else s for s in query.symbols)
    return replace(query, symbols=symbols)


def windows(target: Target) -> Iterator[Proposal]:
    """A longer window."""
    query, time = target.rows.query, target.rows.time
    within = target.rows.binding.compiled.ticks.within
    for match in target.nearest(replace(query, within=forever(time)), _duration_of_match, _NEAREST):
        length = _duration_of_match(match)
        if length > within:
            shown = cell_text(target.length(length))
            changed = replace(query, within=duration_of_ticks(length, time))
            text = f"the match takes {shown} (WITHIN {query.within}); with WITHIN {changed.within} it matches"
            yield Proposal("window", changed, (length - within) / max(within, 1), text)


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
    for symbol in target.rows.query.symbols:
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
        run = target.run_of(name, match[f"{START}{name}"])
        return int(run["events"] if of_events else run["te"] - run["ts"])

    without: Any = {attribute: None}
    lifted = _with_symbol(query, replace(symbol, **without))
    matches = target.nearest(lifted, lambda match: abs(size(match) - bound), _NEAREST)
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
        changed = _with_symbol(query, replace(symbol, **{attribute: new}))
        yield Proposal("duration", changed, abs(reached - bound) / max(bound, 1), text)


def relations(target: Target) -> Iterator[Proposal]:
    """One more relation between two symbols."""
    query = target.rows.query
    for number, constraint in enumerate(query.constraints):
        x, y = constraint.x, constraint.y

        def change(match: dict[str, Any], x: str = x, y: str = y, c: int = number) -> float:
            return _shift(
                target.span(x, match), target.span(y, match), query.constraints[c].relations
            )

        def with_relations(allowed: Relation, number: int = number) -> Query:
            constraints = list(query.constraints)
            constraints[number] = replace(constraints[number], relations=allowed)
            return replace(query, constraints=tuple(constraints))

        for match in target.nearest(with_relations(ANY), change, _NEAREST):
            (xs, xe), (ys, ye) = spans = target.span(x, match), target.span(y, match)
            if xe == ye == _OPEN:
                continue
            relation = relation_of(xs, xe, ys, ye)
            if relation & constraint.relations:
                continue
            held, needed = names(relation)[0], "; ".join(names(constraint.relations))
            shown = [f"[{target.shown(s)}, {target.shown(e)})" for s, e in spans]
            text = f"{x} {shown[0]} {held} {y} {shown[1]} (needs {needed}); with {held} allowed it matches"
            yield Proposal(
                "relation", with_relations(constraint.relations | relation), change(match), text
            )


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

    for match in target.nearest(changed(()), excess, _NEAREST):
        length = reached(match)
        if abs(length) >= _OPEN >> 1:
            continue
        new = duration_of_ticks(length, target.rows.time)
        comparison = "<=" if distance.is_upper else ">="
        instead = distances_of(end, other, comparison, new.amount, new.in_ticks)
        shown = cell_text(target.length(length))
        text = f"{'.'.join(end)} - {'.'.join(other)} is {shown} (needs {distance}); with {instead[0]} it matches"
        yield Proposal("distance", changed(instead), excess(match) / max(bound, 1), text)


def _shift(x: tuple[int, int], y: tuple[int, int], allowed: Relation) -> float:
    """How far endpoints would have to move for an allowed relation, by the shorter interval's length."""
    distances = (x[0] - y[0], x[0] - y[1], x[1] - y[0], x[1] - y[1])
    signs = EndpointOrder(*(compare(d, 0) for d in distances))
    length = min(x[1] - x[0], y[1] - y[0])
    found = []
    for relation, order in ENDPOINT_ORDER.items():
        if relation & _wide(allowed):
            wrong = [
                abs(d) + (wanted != 0)
                for d, sign, wanted in zip(distances, signs, order, strict=True)
                if sign != wanted
            ]
            found.append(max(wrong, default=0))
    return min(found, default=0) / max(length, 1)


def _wide(allowed: Relation) -> Relation:
    """A set with the wide form of each relation that is allowed in its precise form."""
    from piestream.relations import PRECISE_FORM

    return Relation(
        allowed | sum(wide for wide, precise in PRECISE_FORM.items() if allowed & precise)
    )


def thresholds(target: Target) -> Iterator[Proposal]:
    """Another number that a column is compared with."""
    from piestream.diagnosis.thresholds import proposed

    for symbol in target.rows.query.symbols:
        for changed, size, text in proposed(target, symbol):
            query = _with_symbol(target.rows.query, changed)
            yield Proposal("threshold", query, size, text)


#: A new clause that filters adds what could be changed in it.
CHANGES: tuple[Callable[[Target], Iterator[Proposal]], ...] = (
    limits,
    thresholds,
    durations,
    windows,
    distances,
    relations,
)
