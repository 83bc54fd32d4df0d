"""The numbers that a status has: each is declared once, for files, terminals and Prometheus alike."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MEASURES", "Measure"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a status, what it counts, and its name in Prometheus without ``piestream_``.

    >>> Measure("late", "late_events", "Events that came too late.", is_counter=True).full_name
    'piestream_late_events_total'
    """

    name: str  # that of `Statistics`, where it has one
    metric: str
    help: str
    is_counter: bool = False

    @property
    def full_name(self) -> str:
        """Its name in Prometheus."""
        return f"piestream_{self.metric}{'_total' * self.is_counter}"


MEASURES = (
    Measure("events", "events", "Events that were processed.", is_counter=True),
    Measure("matches", "matches", "Matches that were reported.", is_counter=True),
    Measure("late", "late_events", "Events that were dropped because they were late.", is_counter=True),
    Measure("ties", "tied_events", "Events that were left out because another of their partition has the same time.", is_counter=True),
    Measure("left_out", "filtered_matches", "Matches that WHERE did not let pass.", is_counter=True),
    Measure("batches", "batches", "Micro-batches that have ended.", is_counter=True),
    Measure("waiting", "waiting_events", "Events that wait for the watermark."),
    Measure("partitions", "partitions", "Partitions in memory."),
    Measure("live_intervals", "live_intervals", "Intervals that can still be in a match."),
    Measure("state_bytes", "state_bytes", "Size of the state in bytes."),
    Measure("incomplete", "incomplete_rows", "Rows that are missing because intervals are open where the input ended."),
    Measure("batch_seconds", "batch_seconds", "How long the latest micro-batch took."),
)  # fmt: skip
