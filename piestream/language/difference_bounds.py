"""What a query says of differences of endpoints: distances, how long intervals last, the window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from piestream.automata.differences import Bound
from piestream.expressions.durations import Duration, tick_length
from piestream.language.distances import Distance
from piestream.language.model import Constraint, Emit

__all__ = ["bounds_of"]


class _Lasting(Protocol):
    """A symbol, defined or to be validated."""

    @property
    def name(self) -> str: ...
    @property
    def at_least(self) -> Duration | None: ...
    @property
    def at_most(self) -> Duration | None: ...


def bounds_of(
    symbols: Iterable[_Lasting],
    constraints: Iterable[Constraint],
    within: Duration,
    emit: Emit,
    unit: str | None,
    in_ticks: bool,
) -> list[Bound]:
    """The bounds whose lengths are in ticks, or those whose lengths have a unit.

    Both cannot be compared, unless the unit of ticks is declared: then all have one.
    """
    symbols = list(symbols)
    found: list[tuple[Duration, Bound]] = []
    for constraint in constraints:
        found += ((d.length, _bound_of(d)) for d in constraint.distances)
    for symbol in symbols:
        found += _lengths(symbol)
    last = "te" if emit is Emit.COMPLETION else "ts"  # known at the report
    for x in symbols:
        for y in symbols:
            if x is not y:
                ends = (x.name, last), (y.name, "ts")
                found.append((within, Bound(*ends, within.amount, part=f"WITHIN {within}")))
    per_tick = 1 if unit is None else tick_length(unit)
    bounds = []
    for length, bound in found:
        if length.in_ticks and unit is not None:
            most = bound.most * per_tick
            bounds.append(Bound(bound.end, bound.since, most, bound.is_strict, bound.part))
        elif length.in_ticks is in_ticks or not length.amount:
            bounds.append(bound)
    return bounds


def _bound_of(distance: Distance) -> Bound:
    end, since = (distance.symbol, distance.which), (distance.other, distance.other_which)
    if distance.is_upper:
        return Bound(end, since, distance.length.amount, distance.is_strict, str(distance))
    return Bound(since, end, -distance.length.amount, distance.is_strict, str(distance))


def _lengths(symbol: _Lasting) -> Iterator[tuple[Duration, Bound]]:
    start, end = (symbol.name, "ts"), (symbol.name, "te")
    least, most = symbol.at_least, symbol.at_most
    if least is not None:
        part = f"{symbol.name} AT LEAST {least}"
        yield least, Bound(start, end, -least.amount, part=part)
    if most is not None:
        yield most, Bound(end, start, most.amount, part=f"{symbol.name} AT MOST {most}")
