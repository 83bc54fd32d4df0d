"""What an explanation says of absences: until when each is waited for."""

from __future__ import annotations

from collections.abc import Iterator

from piestream.expressions.durations import Duration
from piestream.language.absence_waits import wait_texts
from piestream.language.absences import Absence
from piestream.language.difference_bounds import LastEndpoint, absence_bounds
from piestream.language.model import Query
from piestream.language.printer import absence_text

__all__ = ["absence_lines"]


def absence_lines(query: Query) -> Iterator[str]:
    """Each ``NOT (…)``, and when no interval can satisfy it any more.

    >>> import piestream as ps
    >>> query = ps.query(
    ...     "FROM s DEFINE a AS x > 1, c AS y > 1 "
    ...     "PATTERN a AND NOT (c after a AND c.ts - a.te <= 9) WITHIN 60"
    ... )
    >>> print(*absence_lines(query), sep="\\n")
    NOT (c after a AND c.ts - a.te <= 9)
      a c that has not begun can begin no later than a.te + 9 ticks
      if none has begun by then, this is decided then, whether an event comes or not
      one that has begun is waited for until its endpoints, or time alone, rule it out
      if it is certain to satisfy this, the match is gone at once
    a match is reported once all else of it is known and no c can satisfy this any more
    """
    late = dict(wait_texts(query))
    for absence in query.absences:
        yield absence_text(absence)
        if absence.symbol in late:
            yield f"  {late[absence.symbol]}"
        bounds = list(_nearest(query, absence))
        for bound in bounds:
            yield f"  a {absence.symbol} that has not {_unseen(bound)} {_lies(bound)}"
        if bounds:
            unseen = _unseen(bounds[0])
            by = "then" if len(bounds) == 1 else "the first of these instants"
            if bounds[0].late:
                length = Duration(bounds[0].late, bounds[0].in_ticks)
                by = f"{length}{' ticks' * bounds[0].in_ticks} after {by}, as it may become known so late"
            yield f"  if none has {unseen} by {by}, this is decided then, whether an event comes or not"
        yield "  one that has begun is waited for until its endpoints, or time alone, rule it out"
        yield "  if it is certain to satisfy this, the match is gone at once"
    named = " or ".join(absence.symbol for absence in query.absences)
    yield f"a match is reported once all else of it is known and no {named} can satisfy this any more"


def _nearest(query: Query, absence: Absence) -> Iterator[LastEndpoint]:
    """The bounds on what is absent and not known; none that follows from one on the same symbol."""
    unit = next((stream.time_unit for stream in query.streams if stream.time_unit), None)
    symbol, source = query.symbol(absence.symbol), query.stream_of(absence.symbol)
    found = absence_bounds(
        query.present, symbol, query.constraints, absence, query.within, query.windows, query.emit,
        unit, source.known_by, query.is_sequenced, source.lateness,
    ).latest  # fmt: skip
    by_end = {bound.since: bound for bound in found if bound.since[0] in absence.present}
    for (name, which), bound in by_end.items():
        earlier = by_end.get((name, "ts"))
        if which == "ts" or earlier is None or bound.most < earlier.most:
            yield bound


def _unseen(bound: LastEndpoint) -> str:
    """What has not been seen of an interval of which nothing is known."""
    return "begun" if bound.which == "ts" and not bound.late else "come"


def _lies(bound: LastEndpoint) -> str:
    """When an interval can begin, or end, at the latest."""
    end = f"{bound.since[0]}.{bound.since[1]}"
    if bound.most:
        length = Duration(abs(bound.most), bound.in_ticks)
        end += f" {'+' if bound.most > 0 else '-'} {length}{' ticks' * bound.in_ticks}"
    verb = "begin" if bound.which == "ts" else "end"
    return f"must {verb} before {end}" if bound.is_strict else f"can {verb} no later than {end}"
