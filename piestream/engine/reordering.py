"""Events that come out of order: which are late, which wait for the watermark, which it releases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.copies import Copied
from piestream.engine.columns import joined, kept
from piestream.engine.ordering import Instants
from piestream.engine.plain_values import plain_values
from piestream.engine.projection import SEQUENCE, TIME, Projection
from piestream.errors import LateEventError, TieError
from piestream.language.options import OnLate, Ties

#: Of so few rows Python says sooner than Polars whether any tie.
_FEW_ROWS = 256
#: Gives the last events that were worked on, of the partitions with these keys.
LastInstants = Callable[[pl.DataFrame], Instants]


class ReorderBuffer(Copied):
    """Holds projected rows back until the watermark passes them.

    The watermark is the largest time seen less the lateness. ``lateness`` None is a bounded input:
    there is no watermark, nothing is late, and rows are released as they come.

    Where a column orders events of one time, one is late besides that comes when a later one of its
    time and partition has been released, which the watermark had reached.
    """

    def __init__(
        self, projection: Projection, ties: Ties, lateness: int | None, on_late: OnLate
    ) -> None:
        self.projection = projection
        self.ties = ties
        self.lateness = lateness
        self.on_late = on_late
        self.is_unordered = False  # whether rows come by `release_unordered`
        self.rows: pl.DataFrame | None = None
        self.latest = INT64_MIN  # the largest time seen, or later: the watermark follows from it
        self.seen = INT64_MIN  # the largest time seen
        self.dropped = 0  # late rows that were left out

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    @property
    def watermark(self) -> int:
        """Events before this time are late."""
        assert self.lateness is not None
        return max(self.latest - self.lateness, INT64_MIN)

    @property
    def reached(self) -> int:
        """The time that is known to have come: no event before the watermark will."""
        return self.latest if self.lateness is None else max(self.seen, self.watermark)

    @property
    def next_release(self) -> int | None:
        """The watermark that releases the first of the rows, None if there is none."""
        if self.rows is None or not len(self.rows):
            return None
        first = int(self.rows[TIME].min())  # type: ignore[arg-type]
        return first + self._waits

    @property
    def _waits(self) -> bool:
        """Whether an event waits until the watermark has passed its time, rather than reached it."""
        if self.is_unordered and self.projection.sequence_columns:
            return True
        return self.ties == "last" or self.projection.waits

    def observe_time(self, time: int) -> None:
        """The stream has got to this time, whether or not an event of that time comes here."""
        self.latest = max(self.latest, time)
        self.seen = max(self.seen, time)

    def observe_watermark(self, time: int) -> None:
        """All events before this time have come, though nothing later need have been seen."""
        assert self.lateness is not None
        self.latest = max(self.latest, min(time + self.lateness, INT64_MAX - 1))

    def release(self, rows: pl.DataFrame, last_instants: LastInstants) -> pl.DataFrame:
        """Add rows in the order in which they came; gives all that need not wait any longer."""
        if self.lateness is not None:
            return self.passed(self._on_time(rows, last_instants) if len(rows) else rows)
        if len(rows):
            self.observe_time(int(rows[TIME].max()))  # type: ignore[arg-type]
        return rows if self.rows is None else pl.concat([self.drain(), rows])

    def release_unordered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Add rows whose order among themselves does not say which of them is late.

        All are judged by the watermark as it was before them.
        """
        self.is_unordered = True
        return self.passed(self.without_late(rows, unordered=True))

    def without_late(
        self, rows: pl.DataFrame, unordered: bool = False, before: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Drop the late ones of rows that came.

        ``before`` are rows that are kept elsewhere, with all that the watermark has not passed.
        """
        if not unordered:
            return self._on_time(rows, None, before)
        late = rows[TIME] < self.watermark
        if late.any():
            self.dropped += int(late.sum())
            rows = rows.filter(~late)
        if len(rows):
            self.observe_time(int(rows[TIME].max()))  # type: ignore[arg-type]
        return rows

    def hold(self, rows: pl.DataFrame) -> None:
        """Keep rows of a bounded input until the next ones have come."""
        self.rows = rows

    def drain(self) -> pl.DataFrame:
        """Give all rows, whatever the watermark."""
        assert self.rows is not None
        rows, self.rows = self.rows, None
        return rows

    def passed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that the watermark has passed, of these and of those that waited for it."""
        if self.rows is not None and len(self.rows):
            rows = joined([self.rows, rows])
        times = rows[TIME].to_numpy()
        passed = times < self.watermark if self._waits else times <= self.watermark
        if passed.all():
            self.rows = None
            return rows
        if self.ties == "error" and self.projection.has_ties and self._may_tie(rows, times):
            self._refuse_ties(rows)
        self.rows = kept(rows, ~passed)
        return kept(rows, passed)

    def _may_tie(self, rows: pl.DataFrame, times: NDArray[np.int64]) -> bool:
        """Whether some rows may tie. It costs less than to know."""
        if len(np.unique(times)) == len(times):
            return False
        if len(rows) > _FEW_ROWS:
            return True
        names = self.projection.tie_names
        return len(set(zip(*(plain_values(rows[name]) for name in names), strict=True))) < len(rows)

    def _refuse_ties(self, rows: pl.DataFrame) -> None:
        """Refuse ties when they come, not when the watermark passes them: later they block it."""
        columns = self.projection.tie_columns
        again = rows.select(~pl.struct(*columns).is_first_distinct()).to_series()
        if again.any():
            raise tie_error(self.projection, rows, int(again.arg_max() or 0))

    def _on_time(
        self,
        rows: pl.DataFrame,
        last_instants: LastInstants | None,
        before_these: pl.DataFrame | None = None,
    ) -> pl.DataFrame:
        """Without the rows that are older than the watermark was when they came."""
        assert self.lateness is not None
        times = rows[TIME].to_numpy()
        reached = np.maximum.accumulate(times)
        before = np.maximum(np.concatenate(([self.latest], reached[:-1])), self.latest)
        # times are above the reserved lowest value, so that the first event is never late
        low = INT64_MIN + self.lateness
        watermarks = np.where(before < low, INT64_MIN, before - self.lateness)
        late = times < watermarks
        overtaken = late
        if self.projection.sequence_columns and not self._waits:
            at_watermark = times == watermarks
            if last_instants is not None and at_watermark.any():
                before_these = self._came_before(rows, last_instants)
            if before_these is not None and at_watermark.any():
                overtaken = late | (at_watermark & self._overtaken(rows, before_these))
        n_late = int(overtaken.sum())
        if n_late and self.on_late == "error":
            row = int(overtaken.argmax())
            raise LateEventError(self._why_late(rows, row, int(before[row]), bool(late[row])))
        late = overtaken
        self.observe_time(int(reached[-1]))
        if n_late:
            self.dropped += n_late
            rows = rows.filter(~pl.Series(late))
        return rows

    def _came_before(self, rows: pl.DataFrame, last_instants: LastInstants) -> pl.DataFrame:
        """The last event of each partition that has some of these rows, and what waits."""
        columns = [*self.projection.keys, TIME, SEQUENCE]
        keys = rows.select(self.projection.keys).unique(maintain_order=True)
        if not self.projection.keys:
            keys = pl.DataFrame({"only": [0]})
        last = last_instants(keys)
        assert last.sequences is not None
        ends = pl.DataFrame({TIME: last.times, SEQUENCE: last.sequences})
        before = [keys.hstack(ends).select(columns)]
        if self.rows is not None:
            before.append(self.rows.select(columns))
        return pl.concat(before)

    def _overtaken(self, rows: pl.DataFrame, before: pl.DataFrame) -> NDArray[np.bool_]:
        """Which rows come behind a later one of their time and partition."""
        columns = [*self.projection.keys, TIME, SEQUENCE]
        came = pl.concat([before.select(columns), rows.select(columns)])
        group = [*self.projection.keys, TIME]
        highest = pl.col(SEQUENCE).cum_max().over(group)
        behind = came.select(pl.col(SEQUENCE) < highest).to_series()[-len(rows) :]
        return behind.to_numpy()

    def _why_late(self, rows: pl.DataFrame, row: int, seen: int, by_time: bool) -> str:
        """The error for a late event, and the latest time that was seen before it."""
        projection = self.projection
        assert self.lateness is not None
        if not by_time:
            return (
                f"{projection.row_name(rows, row)} is late: a later event of the same time has been "
                "worked on; give a lateness, or on_late='drop'"
            )
        return (
            f"{projection.row_name(rows, row)} is late: {projection.time_text(seen)} "
            f"was seen before and the lateness is {projection.length_text(self.lateness)}; "
            "give a larger lateness, or on_late='drop'"
        )


def tie_error(projection: Projection, rows: pl.DataFrame, row: int) -> TieError:
    """The error for a row that has the time of another of its partition."""
    binding = projection.binding
    time, what, advice = binding.time.name, "time", ""
    if binding.sequence is not None:
        what = f"{time} and {binding.sequence.name}"
    else:
        advice = (
            f"; ORDER BY {time}, seq takes all of them, in the order of a column such as seq, "
            f"and ORDER BY {time}, ROW in that of their rows"
        )
    if not binding.query.partition_by:
        advice += "; PARTITION BY tells events of different things apart"
    return TieError(
        f"two events of one partition have the same {what}: {projection.row_name(rows, row)}; "
        f"ties='first' keeps the first of them, ties='last' the last{advice}"
    )
