"""Intervals with the instants at which things of them become known, and what instants are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from piestream.language.parts import Source
from tests.oracle.reading import END, KNOWN, START, Row

__all__ = ["GRAIN", "LAST", "OVER", "Known", "announced", "difference", "time_of"]

Time = Fraction | int

#: Where several events have one time: behind all of these come deadlines of that time, and then the end of the
#: input. Differences below a grain measure nothing.
OVER, LAST, GRAIN = Fraction(1, 1 << 21), Fraction(3, 1 << 22), 1 << 20


def time_of(instant: Time) -> Time:
    """The time of an instant; also of one that no event has."""
    return Fraction(math.floor(instant * GRAIN), GRAIN)


@dataclass(frozen=True)
class Known:
    """An interval, and the instants at which things of it become known."""

    start: Time
    end: Time | None  # None: it has not ended as far as is known
    since: Time  # known from this instant on
    end_since: Time | None  # its end is known from this instant on
    number: int  # rows of one number are of one interval
    values: Row | None = None  # of a row of intervals
    valid: Time | None = None  # counts from this instant on
    #: Where a bridged run's predicate does not hold: since when, and from when on it goes on, or it
    #: is known that it does not; None: not yet.
    gaps: tuple[tuple[int, Time | None], ...] = ()

    def ceased_at(self, now: Time) -> int | None:
        """The instant at which it has ended if it does not go on, of which nothing is known at an instant."""
        return next((c for c, over in self.gaps if c <= now and (over is None or now < over)), None)

    def end_at(self, now: Time) -> Time | None:
        """Its end, if that is known at an instant."""
        return self.end if self.end_since is not None and self.end_since <= now else None


def difference(end: Time, since: Time) -> int:
    """The time between two instants."""
    return math.floor(end) - math.floor(since)


def announced(source: Source, rows: list[Row]) -> Iterator[Known]:
    """Intervals as their rows tell them: complete ones at their end, others from their start."""
    start, end = source.start or START, source.end or END
    begun = (
        {}
        if source.id is None
        else {(row[source.id], row[start]): row for row in rows if row[end] is None}
    )
    for number, row in enumerate(rows):
        s, e = row[start], row[end]
        if e is None:
            assert source.id is not None
            same = (r for r in rows if r[source.id] == row[source.id] and r[start] == s)
            ends = [r for r in same if r[end] is not None]
            found = ends[0][end] if ends else None
            yield Known(s, found, s, found, number, row)
        elif source.id is not None and (row[source.id], s) in begun:
            continue
        elif source.known_at_start:
            yield Known(s, e, s, s, number, row)
        elif source.query is not None:
            yield Known(s, e, row[KNOWN], row[KNOWN], number, row)
        else:
            yield Known(s, e, e, e, number, row)
