"""One huge stream without partitions, cut into slices of time that are worked on side by side.

A match that is reported at ``r`` lies within ``[r - WITHIN, r]``. So a slice that owns the reports
of ``[b, e)`` begins to read at the last event before ``b - WITHIN``: a run that was on before that
event gets a wrong start, but one that is too early for any match of the slice, and every later run
is whole. Each match is reported in exactly one slice, at its own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.language.model import Emit
from piestream.plan.binding import Binding
from piestream.spark.clock import bounded, time_sql

__all__ = ["Slices", "sliced"]

#: A slice reads WITHIN more than it owns; it should own several times as much.
_OWN = 4


@dataclass(frozen=True)
class Slices:
    """Where the slices begin: ``starts[i]`` is the first report of slice i, ``reads[i]`` its first
    event; the lowest 64-bit number for the first slice. ``latest`` is the last event of all."""

    starts: tuple[int, ...]
    reads: tuple[int, ...]
    latest: int

    @property
    def slice_sql(self) -> str:
        """In Spark SQL over the column ``time``, a row for each slice that reads an event."""
        owner = " + ".join(["0", *(f"IF(time >= {_long(at)}, 1, 0)" for at in self.starts[1:])])
        last = " + ".join(["0", *(f"IF(time >= {_long(at)}, 1, 0)" for at in self.reads[1:])])
        return f"explode(sequence({owner}, {last}))"

    def end_of(self, number: int) -> int:
        """Time up to which a slice knows that silences are over."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else INT64_MAX
        return min(end, self.latest)

    def kept(self, binding: Binding, number: int, found: pl.DataFrame) -> pl.DataFrame:
        """The rows that a slice owns: their report time is in it."""
        if not len(found):
            return found
        report = found.columns[len(binding.query.partition_by)]
        times = found[report].to_physical().cast(pl.Int64)
        keep = times >= self.starts[number]
        if number + 1 < len(self.starts):
            keep &= times < self.starts[number + 1]
        return found.filter(keep)


def sliced(binding: Binding, types: dict[str, Any], frame: Any, count: int) -> Slices:
    """Cut a frame into at most so many slices of about equal numbers of events.

    This looks at the times in the frame, twice.
    """
    query = binding.query
    if query.emit is Emit.BOTH:
        raise query.fault(
            ("emit",),
            "EMIT ON BOTH cannot be worked on in time slices: a match may complete in any later one",
            "leave slices out, or use EMIT ON TRIGGER or ON COMPLETION",
        )
    time = time_sql(binding, types)
    within = binding.compiled.ticks.within
    shares = ", ".join(f"{part / count:.6f}" for part in range(1, count))
    times = frame.selectExpr(f"{time} AS t")
    first, latest, cuts = times.selectExpr(
        "min(t)", "max(t)", f"percentile_approx(t, array({shares}), 2000)"
    ).first()
    starts: list[int] = []
    for cut in cuts or []:
        room = starts[-1] if starts else first
        if int(cut) - room > _OWN * within:
            starts.append(int(cut))
    reads = _before(times, [bounded(start - within) for start in starts])
    if any(symbol.predicate.previous for symbol in query.symbols):
        reads = _before(times, reads)  # PREV at the first event that counts needs one more
    low = INT64_MIN
    return Slices((low, *starts), (low, *reads), latest if latest is not None else low)


def _before(times: Any, limits: list[int]) -> list[int]:
    """For each limit the last time before it; the lowest number if there is none."""
    if not limits:
        return []
    found = times.selectExpr(*(f"max(IF(t < {_long(limit)}, t, NULL))" for limit in limits)).first()
    return [INT64_MIN if time is None else int(time) for time in found]


def _long(number: int) -> str:
    return f"{number}L" if number > INT64_MIN else f"({number + 1}L - 1L)"
