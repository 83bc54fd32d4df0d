"""The values in the windows of all partitions: queues in one pool of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX
from piestream.copies import Copied
from piestream.engine.memories import OrderedRows, as_lists
from piestream.expressions.typed import Window
from piestream.intervals.exact_sums import ExactSum
from piestream.intervals.windows import (
    ENTRY_WORDS,
    HEAD_WORDS,
    Kind,
    Progress,
    QueueHead,
    WindowPlan,
    slide,
)
from piestream.plan.past import PastColumn

__all__ = ["WindowMemory"]

Words = NDArray[np.int64]

_FIRST, _LAST, _BLOCK, _SEEN = (
    QueueHead.offset(field) for field in ("first", "last", "block", "seen")
)


def _kind(column: PastColumn) -> Kind:
    assert isinstance(column.node, Window)
    function = column.node.function
    if function in ("SUM", "MIN", "MAX"):
        function += "_FLOAT" if column.operand_types[0] == pl.Float64 else "_INT"
    return Kind[function]


class WindowMemory(Copied):
    """AVG(x) OVER 30 s and its like: the values in the window of each partition."""

    def __init__(self, column: PastColumn) -> None:
        node = column.node
        assert isinstance(node, Window)
        assert node.length is not None
        self.column = column
        self.kind = _kind(column)
        self.of_events = node.of_events
        self.length = min(node.length, INT64_MAX)
        self._head_words, self._entry_words = HEAD_WORDS[self.kind], ENTRY_WORDS[self.kind]
        self._heads = np.zeros(0, np.int64)
        self._pool = np.zeros(1 << 8, np.int64)
        self._top = 0
        self._scratch = np.zeros(ExactSum.size, np.int64)
        self._plan = self._plan_of(fresh=False)
        self._single = [np.zeros(1, np.int64) for _ in range(4)]
        self._single_flags = [np.zeros((1, 1), np.uint8) for _ in range(2)]
        self._single_offsets = np.array([0, 1])

    def _plan_of(self, *, fresh: bool) -> Words:
        return np.array(
            WindowPlan.packed(
                kind=self.kind, of_events=self.of_events, length=self.length, fresh=fresh,
                head_words=self._head_words, entry_words=self._entry_words,
            )
        )  # fmt: skip

    @property
    def _rows(self) -> Words:
        """The heads, a row a partition: a view."""
        rows: Words = self._heads.reshape(-1, self._head_words)
        return rows

    def make_room(self, n_partitions: int) -> None:
        missing = n_partitions - len(self._rows)
        if missing > 0:
            more = max(missing, len(self._rows)) * self._head_words
            self._heads = np.concatenate([self._heads, np.zeros(more, np.int64)])

    def evaluate(self, operands: Sequence[pl.Series], rows: OrderedRows) -> pl.Series:
        (values,) = operands
        known = np.array(values.is_not_null().to_numpy(), np.uint8).reshape(1, -1)
        out, found = np.zeros(len(values), np.int64), np.zeros((1, len(values)), np.uint8)
        groups, heads, plan = rows.partitions, self._heads, self._plan
        if rows.is_whole:
            groups, heads = np.zeros_like(groups), np.zeros(self._head_words, np.int64)
            plan = self._plan_of(fresh=True)
        words = self._words(values)
        times = np.ascontiguousarray(rows.times)
        self._slide(plan, heads, (groups, rows.offsets), (times, words, known), (out, found))
        return self._series(out, found[0].view(np.bool_))

    def _slide(
        self,
        plan: Words,
        heads: Words,
        groups: tuple[Words, Words],
        given: tuple[Words, Words, NDArray[np.uint8]],
        results: tuple[Words, NDArray[np.uint8]],
    ) -> None:
        progress = np.array(Progress.packed(group=0, row=0, top=self._top))
        is_own = heads is self._heads
        (times, words, known), (out, found) = given, results
        while not slide(
            plan,
            heads,
            self._pool,
            *groups,
            times,
            words,
            known,
            out,
            found,
            self._scratch,
            progress,
        ):
            heads = heads.copy()  # what was before a change is kept
            self._enlarge(heads, progress)
            if is_own:
                self._heads = heads
        self._top = Progress.over(progress).top

    def _enlarge(self, heads: Words, progress: Words) -> None:
        """Another pool, in which all queues lie at the beginning, and any of them can be doubled."""
        rows = heads.reshape(-1, self._head_words)
        width, pool = self._entry_words, self._pool
        live = rows[:, _LAST] - rows[:, _FIRST]
        words = live * width
        starts = np.concatenate([[0], np.cumsum(words)])
        sources = np.repeat(rows[:, _BLOCK] + rows[:, _FIRST] * width - starts[:-1], words)
        larger = np.zeros(max(1 << 8, 4 * int(starts[-1]), pool.size // 2) + (1 << 8), np.int64)
        larger[: starts[-1]] = pool[sources + np.arange(int(starts[-1]))]
        middle = QueueHead.offset("middle")
        rows[:, middle] = np.maximum(rows[:, middle] - rows[:, _FIRST], 0)
        rows[:, _BLOCK], rows[:, _FIRST], rows[:, _LAST] = starts[:-1], 0, live
        rows[:, QueueHead.offset("room")] = live
        self._pool = larger
        Progress.over(progress).top = int(starts[-1])

    def _words(self, values: pl.Series) -> Words:
        if self.kind == Kind.COUNT:
            return np.zeros(len(values), np.int64)
        if values.dtype == pl.Float64:
            words: Words = values.fill_null(0.0).to_numpy().view(np.int64)
        else:
            words = values.to_physical().cast(pl.Int64).fill_null(0).to_numpy()
        return np.ascontiguousarray(words)

    def _series(self, out: Words, found: NDArray[np.bool_]) -> pl.Series:
        dtype = self.column.dtype
        values = pl.Series(out.view(np.float64) if dtype == pl.Float64 else out)
        if not found.all():
            values = values.set(pl.Series(~found), None)
        if dtype == pl.Date:
            values = values.cast(pl.Int32)
        return values.cast(dtype)

    def take(self, partition: int, time: int, operands: Sequence[Any]) -> Any:
        value = operands[0]
        groups, times, words, out = self._single
        known, found = self._single_flags
        groups[0], times[0], known[0, 0] = partition, time, value is not None
        if value is not None and self.kind != Kind.COUNT:
            if self.column.operand_types[0] == pl.Float64:
                words.view(np.float64)[0] = value
            else:
                words[0] = value
        self._slide(
            self._plan, self._heads, (groups, self._single_offsets), (times, words, known),
            (out, found),
        )  # fmt: skip
        if not found[0, 0]:
            return None
        return (out.view(np.float64) if self.column.dtype == pl.Float64 else out)[0].item()

    def forget(self, partitions: Words) -> None:
        self._rows[partitions] = 0

    def is_needed(self, partitions: Words, last_times: Words, now: int) -> NDArray[np.bool_]:
        if self.of_events:
            return np.ones(len(partitions), np.bool_)
        behind = np.int64(now).astype(np.uint64) - last_times.astype(np.uint64)
        return (last_times >= now) | (behind < np.uint64(self.length))

    def frame(self, partitions: Sequence[int]) -> pl.DataFrame:
        rows = self._rows[np.array(partitions, np.int64)]
        counts = rows[:, _LAST] - rows[:, _FIRST]
        starts = np.cumsum(counts) - counts
        width = self._entry_words
        places = np.repeat(rows[:, _BLOCK] + (rows[:, _FIRST] - starts) * width, counts)
        places += np.arange(len(places)) * width
        name = self.column.name
        values = self._operands(self._pool[places + 1])
        return pl.concat(
            [
                as_lists("times " + name, pl.Series(self._pool[places]), counts),
                as_lists(name, values, counts),
                pl.DataFrame({"seen " + name: rows[:, _SEEN]}),
            ],
            how="horizontal",
        )

    def _operands(self, words: Words) -> pl.Series:
        """Values of the operand from the words in which they are kept."""
        dtype = self.column.operand_types[0]
        if self.kind == Kind.COUNT:
            return pl.Series(words)
        if dtype == pl.Float64:
            return pl.Series(words.view(np.float64))
        return pl.Series(words)

    def restore(self, frame: pl.DataFrame) -> None:
        times, values, seen = frame
        counts = times.list.len().to_numpy().astype(np.int64)
        flat_times = times.list.explode().drop_nulls()
        flat_values = values.list.explode().drop_nulls()
        if times.null_count() or values.null_count() or seen.null_count():
            raise ValueError("a window is missing")
        same = (times.list.len() == values.list.len()).all()
        if not same or len(flat_times) != counts.sum() or len(flat_values) != counts.sum():
            raise ValueError("every value in a window has a time")
        offsets = np.concatenate([[0], np.cumsum(counts)])
        all_times = np.ascontiguousarray(flat_times.to_numpy())
        rows = OrderedRows(np.arange(len(counts)), offsets, all_times, is_whole=False)
        # several events may have one time, but each has its own number
        backwards = np.diff(all_times) < int(self.of_events)
        if backwards[rows.positions[1:] > 0].any():
            raise ValueError("the times in a window fall")
        last = seen.to_numpy()
        if self.of_events and (all_times > last[rows.groups]).any():
            raise ValueError("a window holds events that have not come")
        self._heads = np.zeros(len(counts) * self._head_words, np.int64)
        self._pool, self._top = np.zeros(1 << 8, np.int64), 0
        self._refill(rows, flat_values)
        self._rows[:, _SEEN] = last

    def _refill(self, rows: OrderedRows, values: pl.Series) -> None:
        """Put values into empty windows: none is too old for the latest of them."""
        plan = self._plan_of(fresh=False)
        record = WindowPlan.over(plan)
        record.of_events, record.length = 0, -1  # without its sign the longest of all
        known = np.ones((1, len(values)), np.uint8)
        out, found = np.zeros(len(values), np.int64), np.zeros((1, len(values)), np.uint8)
        words = self._words(values) if self.kind != Kind.COUNT else np.zeros(len(values), np.int64)
        self._slide(
            plan, self._heads, (rows.partitions, rows.offsets), (rows.times, words, known),
            (out, found),
        )  # fmt: skip

    @property
    def size(self) -> int:
        return self._heads.nbytes + self._pool.nbytes
