"""What is kept of a partition's earlier events: a memory for each PREV, window and UNTIL of a predicate.

A memory is read for the rows of many partitions at once, in order, or for one event; both bring it
up to date. It holds partitions by their numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MIN
from piestream.copies import Copied, copied_but
from piestream.expressions.typed import Previous, Until, Window
from piestream.plan.past import PastColumn

__all__ = ["Memory", "OrderedRows", "as_lists", "memory_of"]

Words = NDArray[np.int64]


@dataclass(frozen=True)
class OrderedRows:
    """Rows by partition and time: the partitions' numbers, and where the rows of each begin.

    ``is_whole``: they are all that their partitions have, and nothing is kept of them.
    """

    partitions: Words
    offsets: Words
    times: Words
    is_whole: bool

    @cached_property
    def groups(self) -> Words:
        """Which of the partitions each row is of."""
        return np.repeat(np.arange(len(self.partitions)), np.diff(self.offsets))

    @cached_property
    def positions(self) -> Words:
        """The number of each row among those of its partition."""
        return np.arange(len(self.times)) - self.offsets[self.groups]


class Memory(Protocol):
    """The memory of one column of the past."""

    column: PastColumn

    def make_room(self, n_partitions: int) -> None:
        """Room for so many partitions, of which the new ones have no past."""

    def evaluate(self, operands: Sequence[pl.Series], rows: OrderedRows) -> pl.Series:
        """The column at these rows."""

    def take(self, partition: int, time: int, operands: Sequence[Any]) -> Any:
        """The value at one more event of a partition."""

    def forget(self, partitions: Words) -> None:
        """Partitions whose numbers may be given to others."""

    def is_needed(self, partitions: Words, last_times: Words, now: int) -> NDArray[np.bool_]:
        """Of which partitions something is kept that an event after ``now`` may read."""

    def frame(self, partitions: Sequence[int]) -> pl.DataFrame:
        """All that is kept of some partitions, a row each."""

    def restore(self, frame: pl.DataFrame) -> None:
        """Take over what `frame` gave, for the partitions from 0 on; ValueError if it cannot be."""

    @property
    def size(self) -> int:
        """How many bytes are kept."""


def memory_of(column: PastColumn) -> Memory:
    """A memory for a column of the past."""
    if isinstance(column.node, Window):
        from piestream.engine.window_memory import WindowMemory  # its loops are compiled

        return WindowMemory(column)
    return LatchMemory(column) if isinstance(column.node, Until) else PreviousMemory(column)


#: So many partitions have values that single events brought, before these are written to columns.
_MOST_WAITING = 1 << 12


class PreviousMemory:
    """PREV: the latest values of each partition, ``depth`` places each, around which they go.

    What single events bring waits as Python's values, the earliest first, until somebody needs the
    columns.
    """

    def __init__(self, column: PastColumn) -> None:
        assert isinstance(column.node, Previous)
        self.column = column
        self.depth = column.node.events
        self._values = pl.Series(dtype=column.dtype)
        self._next = np.zeros(0, np.int64)  # the place of the earliest value, which goes next
        self._waiting: dict[int, deque[Any]] = {}  # newer than what is in the columns

    def __deepcopy__(self, memo: dict[int, Any]) -> PreviousMemory:
        waiting = {partition: values.copy() for partition, values in self._waiting.items()}
        return copied_but(self, memo, _waiting=waiting)

    def make_room(self, n_partitions: int) -> None:
        missing = n_partitions - len(self._next)
        if missing > 0:
            more = max(missing, len(self._next))
            self._values = self._values.extend_constant(None, more * self.depth)
            self._next = np.concatenate([self._next, np.zeros(more, np.int64)])

    def evaluate(self, operands: Sequence[pl.Series], rows: OrderedRows) -> pl.Series:
        (values,) = operands
        heads = np.flatnonzero(rows.positions < self.depth)
        shifted = values.shift(self.depth)
        if rows.is_whole:
            nothing = pl.repeat(None, len(heads), dtype=values.dtype, eager=True)
            return shifted.scatter(heads, nothing)
        self._write_waiting()
        counts = np.diff(rows.offsets)
        places = (self._next[rows.partitions][rows.groups] + rows.positions) % self.depth
        places += rows.partitions[rows.groups] * self.depth
        found = shifted.scatter(heads, self._values.gather(places[heads]))
        tails = np.flatnonzero(counts[rows.groups] - rows.positions <= self.depth)
        self._values = self._values.scatter(places[tails], values.gather(tails))
        self._next[rows.partitions] = (self._next[rows.partitions] + counts) % self.depth
        return found

    def take(self, partition: int, time: int, operands: Sequence[Any]) -> Any:
        waiting = self._waiting.get(partition)
        if waiting is None:
            if len(self._waiting) >= _MOST_WAITING:
                self._write_waiting()
            waiting = self._waiting[partition] = deque(self._latest(partition), self.depth)
        earlier = waiting[0]
        waiting.append(operands[0])
        return earlier

    def _latest(self, partition: int) -> list[Any]:
        """The values of a partition, the earliest first."""
        first = partition * self.depth
        values = self._values[first : first + self.depth].to_list()
        earliest = int(self._next[partition])
        return values[earliest:] + values[:earliest]

    def _write_waiting(self) -> None:
        if not self._waiting:
            return
        partitions = np.array(list(self._waiting), np.int64)
        places = (partitions[:, None] * self.depth + np.arange(self.depth)).ravel()
        values = [value for waiting in self._waiting.values() for value in waiting]
        self._values = self._values.scatter(places, _column(values, self._values.dtype))
        self._next[partitions] = 0
        self._waiting = {}

    def forget(self, partitions: Words) -> None:
        self._write_waiting()
        places = (partitions[:, None] * self.depth + np.arange(self.depth)).ravel()
        nothing = pl.repeat(None, len(places), dtype=self._values.dtype, eager=True)
        self._values = self._values.scatter(places, nothing)

    def is_needed(self, partitions: Words, last_times: Words, now: int) -> NDArray[np.bool_]:
        return np.ones(len(partitions), np.bool_)

    def frame(self, partitions: Sequence[int]) -> pl.DataFrame:
        self._write_waiting()
        own = np.array(partitions, np.int64)
        places = (self._next[own][:, None] + np.arange(self.depth)) % self.depth
        places += own[:, None] * self.depth
        values = self._values.gather(places.ravel())
        return as_lists(self.column.name, values, np.full(len(own), self.depth))

    def restore(self, frame: pl.DataFrame) -> None:
        (lists,) = frame
        if len(lists) and (lists.null_count() or not (lists.list.len() == self.depth).all()):
            raise ValueError("PREV has as many values of each partition as it goes back")
        self._values = lists.explode() if len(lists) else pl.Series(dtype=self.column.dtype)
        self._next = np.zeros(len(lists), np.int64)
        self._waiting = {}

    @property
    def size(self) -> int:
        return int(self._values.estimated_size()) + self._next.nbytes


def as_lists(name: str, values: pl.Series, counts: Words) -> pl.DataFrame:
    """Values as a column of lists of these lengths."""
    frame = pl.DataFrame({"row": np.repeat(np.arange(len(counts)), counts), name: values.alias("")})
    grouped = frame.group_by("row", maintain_order=True).agg(pl.col(name))
    rows = pl.DataFrame({"row": np.arange(len(counts))})
    empty = pl.lit([], dtype=pl.List(values.dtype))
    found = rows.join(grouped, on="row", how="left", maintain_order="left")
    return found.select(pl.col(name).fill_null(empty))


def _column(values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Python's values as a column; times in a zone as instants."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        instants = [None if value is None else value.astimezone(UTC) for value in values]
        return pl.Series(instants, dtype=pl.Datetime("us", "UTC")).cast(dtype)
    if isinstance(dtype, pl.Datetime):
        return pl.Series(values, dtype=pl.Datetime("us")).cast(dtype)
    return pl.Series(values, dtype=dtype)


class LatchMemory(Copied):
    """UNTIL: whether it is true at the latest event, a flag a partition.

    The end of a silence that is longer than MAX GAP makes it false.
    """

    def __init__(self, column: PastColumn) -> None:
        self.column = column
        self._flags = np.zeros(0, np.bool_)
        self._times = np.zeros(0, np.int64)  # of the latest events, where there is a gap

    def make_room(self, n_partitions: int) -> None:
        missing = n_partitions - len(self._flags)
        if missing > 0:
            more = max(missing, len(self._flags))
            self._flags = np.concatenate([self._flags, np.zeros(more, np.bool_)])
            self._times = np.concatenate([self._times, np.full(more, INT64_MIN)])

    def evaluate(self, operands: Sequence[pl.Series], rows: OrderedRows) -> pl.Series:
        start, stop = (operand.to_numpy() for operand in operands)
        decisive = start | stop
        firsts = rows.offsets[:-1]
        before = np.zeros(len(firsts), np.bool_)
        if not rows.is_whole:
            before = self._flags[rows.partitions]
        if self.column.gap is not None and len(rows.times):
            last = np.roll(rows.times, 1)
            last[firsts] = rows.times[firsts]
            if not rows.is_whole:
                last[firsts] = self._times[rows.partitions]
            silent = rows.times.view(np.uint64) - last.view(np.uint64) > np.uint64(self.column.gap)
            decisive |= silent
        places = np.where(decisive, np.arange(len(decisive)), -1)
        latest = np.maximum.accumulate(places) if len(places) else places
        decided = latest >= firsts[rows.groups]
        found = np.where(decided, (start & ~stop)[latest], before[rows.groups])
        if not rows.is_whole:
            lasts = rows.offsets[1:] - 1
            self._flags[rows.partitions] = found[lasts]
            self._times[rows.partitions] = rows.times[lasts]
        return pl.Series(found)

    def take(self, partition: int, time: int, operands: Sequence[Any]) -> Any:
        start, stop = operands
        gap = self.column.gap
        holds = bool(self._flags[partition])
        if gap is not None and time - int(self._times[partition]) > gap:
            holds = False
        holds = stop is not True and (holds or start is True)
        self._flags[partition], self._times[partition] = holds, time
        return holds

    def forget(self, partitions: Words) -> None:
        self._flags[partitions], self._times[partitions] = False, INT64_MIN

    def is_needed(self, partitions: Words, last_times: Words, now: int) -> NDArray[np.bool_]:
        return self._flags[partitions]

    def frame(self, partitions: Sequence[int]) -> pl.DataFrame:
        own = np.array(partitions, np.int64)
        times = pl.Series(self._times[own]).alias("latest " + self.column.name)
        return pl.DataFrame([pl.Series(self._flags[own]).alias(self.column.name), times])

    def restore(self, frame: pl.DataFrame) -> None:
        flags, times = frame
        if flags.null_count() or times.null_count():
            raise ValueError("whether UNTIL is true is known of each partition")
        self._flags, self._times = flags.to_numpy(writable=True), times.to_numpy(writable=True)

    @property
    def size(self) -> int:
        return self._flags.nbytes + self._times.nbytes
