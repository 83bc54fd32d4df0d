"""When the state of a stream is compacted: state is bounded by the window, and the work by the events."""

from __future__ import annotations

from piestream.compiled.constants import INT64_MIN

__all__ = ["CompactionClock"]

#: The state of a bounded input is compacted after so many rows.
_ROWS = 1 << 22
#: Compaction goes through all partitions, so it waits for an eighth as many events, at least these.
_EVENTS = 16
#: A stream in which little comes is compacted all the same, after so many windows.
_QUIET_WINDOWS = 8


class CompactionClock:
    """Counts the rows since the last compaction, and decides when the next one is due."""

    def __init__(self) -> None:
        self.at = INT64_MIN  # the time of the last one, or of the first watermark
        self.since = 0  # events and advances since then
        self._rows = 0

    def allow(self) -> None:
        """Behind a micro-batch, which costs more than a small compaction."""
        self.since += _EVENTS

    def is_due(self, now: int, window: int, n_partitions: int) -> bool:
        """Whether half a window has passed, and enough rows have come to pay for a compaction."""
        if now - self.at <= window // 2:
            return False
        return self.since >= max(_EVENTS, n_partitions // 8)

    def pass_time(self, now: int, window: int, n_partitions: int) -> bool:
        """Time is ``now``: whether to compact, which counts as done."""
        self.since += 1
        if self.at == INT64_MIN:
            self.at = now
            return False
        is_quiet = now - self.at > _QUIET_WINDOWS * (window + 1)
        if not is_quiet and not self.is_due(now, window, n_partitions):
            return False
        self.at = now
        self.since = 0
        return True

    def pass_rows(self, n_rows: int) -> bool:
        """The same for rows of a bounded input, which has no watermark to go by."""
        self._rows += n_rows
        if self._rows <= _ROWS:
            return False
        self._rows = 0
        return True

    def next_deadline(self, window: int) -> int | None:
        """The earliest watermark at which it may be due; None before the first."""
        return None if self.at == INT64_MIN else self.at + window // 2 + 1
