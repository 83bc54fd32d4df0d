"""One huge stream without partitions, cut into slices of time that are processed side by side.

A match that is reported at ``r`` lies within ``[r - WITHIN, r]``. So a slice that owns the reports
of ``[b, e)`` begins to read at the last event before ``b - WITHIN``: a run that was on before that
event gets a wrong start, but one that is too early for any match of the slice, and every later run
is whole. With BRIDGING it begins so much earlier, so that it has the end of each run that one in the
slice goes on with. Each match is reported in exactly one slice, at its own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.expressions.backends import spark_text
from piestream.expressions.typed import Previous, Until, Window
from piestream.language.parts import Emit
from piestream.plan.binding import Binding
from piestream.plan.past import PastColumn
from piestream.spark.clock import clamped

__all__ = ["Slices", "cut_slices"]

#: A slice reads WITHIN more than it owns; it should own several times as much.
_OWNED_WINDOWS = 4
#: So many events the first one of a slice may read back: each takes a look at all times.
_MOST_BACK = 10


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
        return f"explode(sequence({_count_passed(self.starts)}, {_count_passed(self.reads)}))"

    def latest_in(self, number: int) -> int:
        """The time that the stream has got to at the end of a slice."""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else INT64_MAX
        return min(end, self.latest)

    def owned(self, binding: Binding, number: int, found: pl.DataFrame) -> pl.DataFrame:
        """The rows that a slice owns: their report time is in it."""
        if not len(found):
            return found
        report = found.columns[len(binding.query.partition_by)]
        times = found[report].to_physical().cast(pl.Int64)
        keep = times >= self.starts[number]
        if number + 1 < len(self.starts):
            keep &= times < self.starts[number + 1]
        return found.filter(keep)


def _count_passed(limits: tuple[int, ...]) -> str:
    """In Spark SQL, the number of the last slice whose limit ``time`` has passed."""
    passed = (f"IF(time >= {spark_text.literal(limit)}, 1, 0)" for limit in limits[1:])
    return " + ".join(["0", *passed])


def cut_slices(binding: Binding, times: Any, count: int) -> Slices:
    """Cut a stream into at most so many slices of about equal numbers of events.

    ``times`` is a Spark frame with the events' ticks in the column ``t``; it is read twice.
    """
    query = binding.query
    if query.emit is Emit.BOTH:
        raise query.fault(
            ("emit",),
            "EMIT ON BOTH cannot be processed in slices of time: a match may complete in any later "
            "one",
            "leave slices out, or use EMIT ON TRIGGER or ON COMPLETION",
        )
    if any(isinstance(column.node, Until) for column in binding.past):
        raise query.fault(
            None,
            "UNTIL cannot be processed in slices of time: it may depend on any earlier event",
            "leave slices out",
        )
    back = sum(_events_back(column) for column in binding.past)
    if back > _MOST_BACK:
        raise query.fault(
            None,
            f"what reads {back} events back cannot be processed in slices of time",
            f"leave slices out, or go back at most {_MOST_BACK} events",
        )
    absent = {absence.symbol for absence in query.absences}
    if any(s.name in absent and s.at_least_events is not None for s in query.symbols):
        raise query.fault(
            None,
            "the events of what is absent cannot be counted in slices of time: nothing bounds when it began",
            "leave slices out, or say AT LEAST with a duration",
        )
    looks_back = binding.compiled.ticks.looks_back
    if looks_back is None:
        raise query.fault(
            ("within",),
            "this cannot be processed in slices of time: nothing bounds how long an interval without "
            "a window lasts",
            "leave slices out, or give every symbol a window",
        )
    bridging = binding.compiled.ticks.bridging
    within = looks_back + max((b for b in bridging if b is not None), default=0)
    within += _ticks_of_absences(binding)
    within += sum(_ticks_back(column) for column in binding.past)
    shares = ", ".join(f"{part / count:.6f}" for part in range(1, count))
    first, latest, cuts = times.selectExpr(
        "min(t)", "max(t)", f"percentile_approx(t, array({shares}), 2000)"
    ).first()
    starts: list[int] = []
    for cut in cuts or []:
        previous = starts[-1] if starts else first
        if int(cut) - previous > _OWNED_WINDOWS * within:
            starts.append(int(cut))
    reads = _last_before(times, [clamped(start - within) for start in starts])
    for _ in range(back):
        reads = _last_before(
            times, reads
        )  # what goes back at the first event that counts needs more
    lowest = INT64_MIN
    return Slices((lowest, *starts), (lowest, *reads), latest if latest is not None else lowest)


def _events_back(column: PastColumn) -> int:
    """How many events a column reads behind the current one."""
    node = column.node
    if isinstance(node, Previous):
        return node.events
    return (node.length or 0) - 1 if isinstance(node, Window) and node.of_events else 0


def _ticks_of_absences(binding: Binding) -> int:
    """How far back what is absent counts, beyond the window: when it began, as far as that is asked."""
    ticks = binding.compiled.ticks
    kept = [ticks.kept[s].length for s in ticks.absent]
    lengths = [length for of in ticks.absent_distances for pair in of for length in pair]
    lasting = [(ticks.at_least[s] or 0) + (ticks.at_most[s] or 0) for s in ticks.absent]
    return max(kept, default=0) + max(lengths, default=0) + max(lasting, default=0)


def _ticks_back(column: PastColumn) -> int:
    """How far a window of a duration reaches back."""
    node = column.node
    return (node.length or 0) if isinstance(node, Window) and not node.of_events else 0


def _last_before(times: Any, limits: list[int]) -> list[int]:
    """For each limit the last time before it; the lowest number if there is none."""
    if not limits:
        return []
    found = times.selectExpr(
        *(f"max(IF(t < {spark_text.literal(limit)}, t, NULL))" for limit in limits)
    ).first()
    return [INT64_MIN if time is None else int(time) for time in found]
