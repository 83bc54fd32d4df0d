"""What a query says of differences of endpoints: distances, how long intervals last, its windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from piestream.automata.differences import MOST_LENGTH, Bound, Differences, End, close
from piestream.expressions.durations import NANOSECONDS, Duration, tick_length
from piestream.language.absences import Absence
from piestream.language.distances import Distance
from piestream.language.lateness import Lateness
from piestream.language.parts import Constraint, Emit
from piestream.language.windows import NO_WINDOW, Window, all_windows
from piestream.relations import ANY

__all__ = [
    "AbsenceBounds",
    "LastEndpoint",
    "absence_bounds",
    "amount_of",
    "bounds_of",
    "kept_after_end",
    "known_at_report",
    "lasting_of",
    "silent_for",
    "too_long",
]


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
    windows: Iterable[Window],
    emit: Emit,
    unit: str | None,
    in_ticks: bool,
    absent: Iterable[_Lasting] = (),
    more: Iterable[tuple[Duration, Bound]] = (),
) -> list[Bound]:
    """The bounds whose lengths are in ticks, or those whose lengths have a unit.

    Both cannot be compared, unless the unit of ticks is declared: then all have one. Windows say nothing
    of symbols that are absent. ``more`` bounds come with the lengths that they are made of.
    """
    symbols = list(symbols)
    found: list[tuple[Duration, Bound]] = list(more)
    for constraint in constraints:
        found += ((d.length, _bound_of(d)) for d in constraint.distances)
    for symbol in (*symbols, *absent):
        found += _lengths(symbol)
    last = "te" if emit is Emit.COMPLETION else "ts"  # known at the report
    for window, clause in all_windows([symbol.name for symbol in symbols], within, windows):
        length, start = window.length, (window.symbol, "ts")
        for symbol in symbols:
            if symbol.name != window.symbol:
                bound = Bound((symbol.name, last), start, length.amount, part=clause)
                found.append((length, bound))
    per_tick = 1 if unit is None else tick_length(unit)
    bounds = []
    for length, bound in found:
        if length.in_ticks and unit is not None:
            most = bound.most * per_tick
            bounds.append(Bound(bound.end, bound.since, most, bound.is_strict, bound.part))
        elif length.in_ticks is in_ticks or not length.amount:
            bounds.append(bound)
    return bounds


def known_at_report(
    symbols: Iterable[_Lasting], within: Duration, windows: Iterable[Window]
) -> Iterator[tuple[Duration, Bound]]:
    """What windows say of symbols whose lengths are known only when they have lasted so long.

    By the report an interval has lasted AT LEAST so long, or, with AT MOST, has ended.

    >>> from piestream.expressions.durations import as_duration
    >>> from piestream.language.draft import SymbolSpec
    >>> symbols = [SymbolSpec("a", None), SymbolSpec("b", None, at_least=as_duration(6))]
    >>> for _, bound in known_at_report(symbols, as_duration(10), ()):
    ...     print(bound.end, bound.since, bound.most, bound.part)
    ('b', 'ts') ('a', 'ts') 4 b AT LEAST 6, WITHIN 10
    """
    symbols = list(symbols)
    for window, clause in all_windows([symbol.name for symbol in symbols], within, windows):
        length, since = window.length, (window.symbol, "ts")
        for symbol in symbols:
            least, most = symbol.at_least, symbol.at_most
            if least is not None and least.in_ticks is length.in_ticks:
                part = f"{symbol.name} AT LEAST {least}, {clause}"
                rest = length.amount - least.amount
                if symbol.name != window.symbol:
                    yield length, Bound((symbol.name, "ts"), since, rest, part=part)
            if most is not None:
                part = f"{symbol.name} AT MOST {most}, {clause}"
                yield length, Bound((symbol.name, "te"), since, length.amount, part=part)


def silent_for(symbol: str, least: Duration) -> tuple[Duration, Bound]:
    """How long a SILENCE LONGER THAN this lasts."""
    part = f"{symbol} AS SILENCE LONGER THAN {least}"
    return least, Bound((symbol, "ts"), (symbol, "te"), -least.amount, True, part)


def kept_after_end(
    symbols: Iterable[_Lasting],
    constraints: Iterable[Constraint],
    within: Duration,
    windows: Iterable[Window],
    emit: Emit,
    unit: str | None,
    has_equal_times: bool = False,
) -> dict[str, Duration | None]:
    """How long intervals of the symbols without a window are kept after their ends; None: no end.

    A match is reported within the window of another symbol. How much later the interval of that starts
    is bounded by relations and distances. For ``has_equal_times`` see `automata.differences.close`.

    >>> import piestream as ps
    >>> q = ps.query(
    ...     "FROM s DEFINE a AS x > 1, b AS y > 1 PATTERN b.ts - a.te < 4 WITHIN 9 OF b"
    ... )
    >>> print(kept_after_end(q.symbols, q.constraints, q.within, q.windows, q.emit, None)["a"])
    13
    """
    symbols, constraints, windows = list(symbols), list(constraints), list(windows)
    names = [symbol.name for symbol in symbols]
    having = [window for window, _ in all_windows(names, within, windows)]
    rest = [name for name in names if name not in {window.symbol for window in having}]
    if not rest:
        return {}
    in_ticks = unit is None and all(window.length.in_ticks for window in having)
    relations = {(c.x, c.y): c.relations for c in constraints if c.relations != ANY}
    bounds = bounds_of(symbols, constraints, within, windows, emit, unit, in_ticks)
    closed = close(names, relations, bounds, has_equal_times)
    if closed is None:  # then there is no match
        return dict.fromkeys(rest, Duration(0, in_ticks))
    kept: dict[str, Duration | None] = {}
    for name in rest:
        lengths = []
        for window in having:
            most = closed.most((window.symbol, "ts"), (name, "te"))
            if most is not None:
                lengths.append(amount_of(window.length, unit) + most[0])
        kept[name] = Duration(max(0, min(lengths)), in_ticks) if lengths else None
    return kept


def too_long(
    constraints: Iterable[Constraint], windows: Iterable[Window], unit: str | None
) -> str | None:
    """What to say of a length that is so long that it bounds nothing, if there is one.

    >>> from piestream.expressions.durations import as_duration
    >>> too_long((), [Window("a", as_duration("40 w"))], None)
    >>> print(too_long((), [Window("a", as_duration("14000 d"))], None))
    14000 d is too long to bound it: write less than 13,343 d (36 years)
    """
    lengths = [window.length for window in windows]
    lengths += [distance.length for one in constraints for distance in one.distances]
    most = f"{_LONGEST_DAYS:,} d (36 years)"
    for length in lengths:
        if amount_of(length, unit) >= MOST_LENGTH:
            less = f"{MOST_LENGTH:,} ticks" if length.in_ticks and unit is None else most
            return f"{length} is too long to bound it: write less than {less}"
    return None


_LONGEST_DAYS = MOST_LENGTH // NANOSECONDS["d"]


@dataclass(frozen=True, slots=True)
class LastEndpoint:
    """An interval that is absent could begin, or end, so long after an endpoint, and no later."""

    which: str  # "ts", or "te" of what may become known at its end
    since: End  # an endpoint of the match
    most: int  # ticks or nanoseconds; negative: it begins before the endpoint
    is_strict: bool  # whether it lies before that instant
    in_ticks: bool
    late: int = 0  # how long after that it may become known


@dataclass(frozen=True, slots=True)
class _AtMost:
    """That the intervals of a symbol last no longer than so."""

    name: str
    at_most: Duration
    at_least: Duration | None = None


@dataclass(frozen=True, slots=True)
class AbsenceBounds:
    """How long an absence is waited for, and how long intervals of its symbol are kept for it."""

    latest: tuple[LastEndpoint, ...]  # the first that passes counts; none: nothing bounds it
    kept: Duration | None  # after their ends; None: nothing bounds it


def absence_bounds(
    present: Iterable[_Lasting],
    absent: _Lasting,
    constraints: Iterable[Constraint],
    absence: Absence,
    within: Duration,
    windows: Iterable[Window],
    emit: Emit,
    unit: str | None,
    which: str = "ts",
    has_equal_times: bool = False,
    late: Lateness | None = None,
) -> AbsenceBounds:
    """What relations, distances and lengths say of the intervals that NOT speaks of.

    ``which`` is the endpoint that is later than now while nothing is known of an interval, unless that may
    become known so ``late``. For ``has_equal_times`` see `automata.differences.close`.

    >>> import piestream as ps
    >>> q = ps.query(
    ...     "FROM s DEFINE a AS x > 1, c AS y > 1 "
    ...     "PATTERN a AND NOT (c after a AND c.ts - a.te <= 4) WITHIN 9"
    ... )
    >>> found = absence_bounds(
    ...     q.present, q.symbols[1], (), q.absences[0], q.within, q.windows, q.emit, None
    ... )
    >>> found.latest
    (LastEndpoint(which='ts', since=('a', 'te'), most=4, is_strict=False, in_ticks=True, late=0),)
    >>> print(found.kept)
    9
    """
    present, windows = list(present), list(windows)
    names = [symbol.name for symbol in present]
    having = [window for window, _ in all_windows(names, within, windows)]
    in_ticks = unit is None and all(window.length.in_ticks for window in having)
    all_constraints = [*constraints, *absence.constraints]
    lasting = lasting_of(absent, late)
    behind = 0 if late is None else amount_of(late.length, unit)
    if late is not None and not late.may_come_at_end:
        which = late.which
    relations = {(c.x, c.y): c.relations for c in all_constraints if c.relations != ANY}
    bounds = bounds_of(
        present, all_constraints, within, windows, emit, unit, in_ticks, absent=lasting
    )
    closed = close([*names, absence.symbol], relations, bounds, has_equal_times)
    if closed is None:  # then it always holds
        return AbsenceBounds(
            (LastEndpoint(which, (names[0], "ts"), 0, True, in_ticks),), Duration(0, in_ticks)
        )
    lengths = []
    for window in having:
        most = closed.most((window.symbol, "ts"), (absence.symbol, "te"))
        if most is not None:
            lengths.append(amount_of(window.length, unit) + most[0])
    kept = Duration(max(0, min(lengths)), in_ticks) if lengths else None
    without = bounds_of(
        present, all_constraints, NO_WINDOW, (), emit, unit, in_ticks, absent=lasting
    )
    closed = close([*names, absence.symbol], relations, without, has_equal_times)
    assert closed is not None
    found = _latest(closed, names, (absence.symbol, which), in_ticks)
    return AbsenceBounds(tuple(replace(last, late=behind) for last in found), kept)


def lasting_of(absent: _Lasting, late: Lateness | None) -> list[_Lasting]:
    """What is said of how long intervals of an absent symbol last, of which some may become known ``late``."""
    if late is None or late.may_come_at_end or late.which == "te":
        return [absent]
    return [absent, _AtMost(absent.name, late.length)]


def _latest(
    closed: Differences, names: Iterable[str], absent: End, in_ticks: bool
) -> Iterator[LastEndpoint]:
    for end in ((name, which) for name in names for which in ("ts", "te")):
        most = closed.most(absent, end)
        if most is not None:
            yield LastEndpoint(absent[1], end, most[0], most[1], in_ticks)


def amount_of(length: Duration, unit: str | None) -> int:
    """The amount of a duration: of ticks whose unit is declared, in nanoseconds."""
    return length.amount * (tick_length(unit) if length.in_ticks and unit is not None else 1)


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
