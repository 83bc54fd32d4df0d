"""How long a match waits for what may not be there at least, where that is longer than its windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING

from piestream.automata.differences import Bound, Differences, End, Pair, close
from piestream.expressions.durations import Duration
from piestream.language.absences import Absence
from piestream.language.difference_bounds import (
    amount_of,
    bounds_of,
    lasting_of,
    silent_for,
)
from piestream.language.parts import Constraint, Emit
from piestream.language.windows import NO_WINDOW, Window, all_windows
from piestream.relations import ANY, ENDPOINT_ORDER, PRECISE_FORM, Relation, convex_parts

if TYPE_CHECKING:
    from piestream.language.model import Query

__all__ = ["UNLESS_CLOSED", "wait_texts"]

#: What is said besides where the end of the input can make a match known.
UNLESS_CLOSED = ', unless at_end="close" makes it known'

#: Which endpoints an order of two intervals compares (`relations.EndpointOrder`).
_COMPARED = (("ts", "ts"), ("ts", "te"), ("te", "ts"), ("te", "te"))
_PRECISE = Relation(sum(PRECISE_FORM.values()))


def wait_texts(query: Query) -> Iterator[tuple[str, str]]:
    """Symbols that are absent, with what is to be said if no match can be reported in time for one.

    That is so if an interval of it may come at any instant before some endpoint of a match and a length, and
    that is after the window.

    >>> import piestream as ps
    >>> text = "FROM s DEFINE a AS x > 1, c AS y > 1 PATTERN a AND NOT (c after a AND c.ts - a.te <= 9)"
    >>> for window in (9, 10):
    ...     print(window, *(said for _, said in wait_texts(ps.query(f"{text} WITHIN {window}"))))
    9 no match can be reported in time: that no c comes is known later than 9 after the start of a, and WITHIN 9 is over by then
    10
    """
    unit = next((stream.time_unit for stream in query.streams if stream.time_unit), None)
    names = [symbol.name for symbol in query.present]
    windows = list(all_windows(names, query.within, query.windows))
    for absence in query.absences:
        found = _Waiting.of(query, absence, unit)
        for window, _ in windows if found is not None else ():
            assert found is not None
            said = found.said_of(window)
            if said is not None:
                yield absence.symbol, said
                break


class _Waiting:
    """Until when an interval of an absent symbol may come, beside whatever match there is."""

    def __init__(
        self, query: Query, absence: Absence, unit: str | None, closed: Differences
    ) -> None:
        self.names = [symbol.name for symbol in query.present]
        self.unless = UNLESS_CLOSED if _may_be_known_by_an_end(query) else ""
        self.closed, self.unit = closed, unit
        late = query.stream_of(absence.symbol).lateness
        which = query.stream_of(absence.symbol).known_by if late is None else late.which
        self.absent: End = (absence.symbol, which)
        self.late = (
            0 if late is None else amount_of(late.length, unit)
        )  # after that it may become known

    @classmethod
    def of(cls, query: Query, absence: Absence, unit: str | None) -> _Waiting | None:
        """None where that depends on the match, or on other intervals of the symbol."""
        symbol = query.symbol(absence.symbol)
        late = query.stream_of(absence.symbol).lateness
        if late is not None and late.may_come_at_end:
            return None
        same = {s.name for s in query.present if query.same_predicate(s, symbol)}
        of_absent = tuple(_among_runs(one, same) for one in absence.constraints)
        if symbol.bridging is not None or any(len(_parts(one)) > 1 for one in of_absent):
            return None
        if any(one.relations & _PRECISE for one in of_absent):
            return None
        names = [one.name for one in query.present]
        in_ticks = unit is None and query.within.in_ticks
        in_ticks = in_ticks and all(window.length.in_ticks for window in query.windows)
        present = list(query.present)
        orders: list[Bound] | None = []
        related = (*query.constraints, *of_absent)
        if query.is_sequenced and query.stream_of(absence.symbol).has_times_only:
            orders = _orders_of_times(of_absent)
            related = query.constraints
        if orders is None:
            return None
        alone, with_absent = (
            close(
                [*names, *dict.fromkeys(one.name for one in absent)],
                _relations(pairs),
                [
                    *bounds_of(
                        present,
                        limited,
                        NO_WINDOW,
                        (),
                        query.emit,
                        unit,
                        in_ticks,
                        absent,
                        _of_silences(query, [*names, *(one.name for one in absent[:1])]),
                    ),
                    *further,
                ],
                query.is_sequenced,
            )
            for pairs, limited, absent, further in (
                (query.constraints, query.constraints, (), ()),
                (related, (*query.constraints, *of_absent), lasting_of(symbol, late), orders),
            )
        )
        if alone is None or with_absent is None:
            return None
        ends = [(name, which) for name in names for which in ("ts", "te")]
        if any(alone.most(*two) != with_absent.most(*two) for two in permutations(ends, 2)):
            return None  # of some matches it is known at once
        return cls(query, absence, unit, with_absent)

    def said_of(self, window: Window) -> str | None:
        """What is to be said of a window that is over before it is known that none comes."""
        since = (window.symbol, "ts")
        waits = []
        for end in ((name, which) for name in self.names for which in ("ts", "te")):
            latest = self.closed.most(self.absent, end)
            before = self.closed.most(since, end) if end != since else (0, False)
            if latest is not None:
                if before is None:
                    return None
                waits.append((latest[0] - before[0] + self.late, before[1]))
        if not waits:
            return None
        wait, is_later = min(waits)
        length = amount_of(window.length, self.unit)
        if wait < length or (wait == length and not is_later):
            return None
        shown = Duration(wait, window.length.in_ticks and self.unit is None)
        name = self.absent[0]
        return (
            f"no match can be reported in time{self.unless}: that no {name} comes is known "
            f"{'later than' * is_later or 'at least'} {shown} after the start of {window.symbol}, "
            f"and WITHIN {window.length} is over by then"
        )


def _may_be_known_by_an_end(query: Query) -> bool:
    """Whether the end of an interval may make a match known, which the end of the input can be, too.

    That is shown with the last event, so that it may be in time whatever time has decided since.
    """
    if query.emit is Emit.COMPLETION or len(query.present) > 1:
        return True
    (symbol,) = query.present
    return symbol.at_most is not None or symbol.at_most_events is not None


def _among_runs(constraint: Constraint, same: Collection[str]) -> Constraint:
    """A constraint between two runs of one predicate, of which one lies behind the other."""
    if constraint.x in same or constraint.y in same:
        apart = Relation.BEFORE | Relation.AFTER | _PRECISE
        return replace(constraint, relations=constraint.relations & apart)
    return constraint


def _parts(constraint: Constraint) -> list[Relation]:
    """The ranges of orders that a constraint allows."""
    return list(convex_parts(constraint.relations))


def _of_silences(query: Query, names: Iterable[str]) -> Iterator[tuple[Duration, Bound]]:
    """How long silences last, which are longer than what defines them."""
    for name in names:
        silence = query.stream_of(name).silence
        if silence is not None:
            yield silent_for(name, silence.longer_than)


def _orders_of_times(constraints: Iterable[Constraint]) -> list[Bound] | None:
    """What relations say of an interval whose endpoints are times, before all events of these.

    Beside events of one time nothing of it lies between two of them, and none of these is where it starts or ends.
    None: relations ask for that.
    """
    found = []
    for one in constraints:
        of_parts = [order for part, order in ENDPOINT_ORDER.items() if part & one.relations]
        for ends, signs in zip(_COMPARED, zip(*of_parts, strict=True), strict=True):
            x, y = zip((one.x, one.y), ends, strict=True)
            if not any(signs):
                return None
            if 1 not in signs:
                found.append(Bound(x, y, 0, is_strict=True))
            if -1 not in signs:
                found.append(Bound(y, x, 0, is_strict=True))
    return found


def _relations(constraints: Iterable[Constraint]) -> Mapping[Pair, Relation]:
    """What a constraint allows to each pair, if not anything."""
    return {(c.x, c.y): c.relations for c in constraints if c.relations != ANY}
