"""The detector of a row pattern: its state over any number of partitions, as integers.

To a stream it is what `piestream.engine.detector.Detector` is for a pattern of intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.arrays import with_room
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.copies import copied_but
from piestream.engine.batches import Batch, SingleEventBatch
from piestream.engine.calls import StoppedError
from piestream.engine.many_rows import RowCount
from piestream.engine.row_calls import RowCall, RowState
from piestream.engine.state import DetectorState
from piestream.errors import StateError
from piestream.joins.result_rows import ResultRow
from piestream.plan.program import CompiledQuery
from piestream.row_patterns.loops.matching import (
    NO_ROOM,
    UNDECIDED,
    deadline_of_heads,
    take_event,
    variable_masks,
)
from piestream.row_patterns.loops.partition_table import RowPartitionTable, forget_threads
from piestream.row_patterns.loops.records import BlocksHeader, Partition, PoolHeader, Program
from piestream.row_patterns.loops.rows import compact_pool, remap_kept_codes

__all__ = ["RowDetector"]

Words = NDArray[np.int64]


def _empty_pool() -> Words:
    pool = np.zeros(PoolHeader.size, np.int64)
    PoolHeader.over(pool).used = PoolHeader.size
    return pool


def _empty_blocks() -> Words:
    blocks = np.zeros(BlocksHeader.size, np.int64)
    BlocksHeader.over(blocks).used = BlocksHeader.size
    return blocks


class RowDetector:
    """The state and the program of one row pattern."""

    def __init__(self, compiled: CompiledQuery, bit_of_variable: tuple[int, ...]) -> None:
        self.rows_found = RowCount(None)
        self.compiled = compiled
        self.program = compiled.program.copy()
        self.bit_of_symbol = np.array(bit_of_variable, np.int64)
        self.window = compiled.ticks.within
        self.partitions = RowPartitionTable(self.program)
        self.pool = _empty_pool()
        #: Where threads with memory lie; they are followed again where a state is restored.
        self.blocks = _empty_blocks()
        self.has_memory = bool(self._header.has_memory)
        self.result_columns = ResultRow.offset("outputs") + self._header.n_outputs
        self._event = SingleEventBatch(0)
        self._scratch = np.zeros(self._header.n_states + self._header.set_words, np.int64)
        #: No partition's head has a WITHIN that is over before or at this time.
        self.next_timeout = INT64_MIN if self._has_window else INT64_MAX
        self._stopped = False

    def __deepcopy__(self, memo: dict[int, Any]) -> RowDetector:
        return copied_but(self, memo, pool=with_room(self.pool, PoolHeader.over(self.pool).used))

    @property
    def _header(self) -> Program:
        return Program.over(self.program)

    @property
    def gives_intervals(self) -> bool:
        """Whether its matches are intervals of a larger query."""
        return self._header.as_intervals != 0

    @property
    def _has_window(self) -> bool:
        return self.window != INT64_MAX

    # -- partitions -------------------------------------------------------------------------------

    @property
    def n_partitions(self) -> int:
        """One more than the highest number of a partition so far."""
        return self.partitions.count

    def add_partitions(self, count: int) -> Words:
        """New partitions, without any event yet."""
        return self.partitions.add(count)

    # -- events and time --------------------------------------------------------------------------

    def portions(self, batch: Batch, most_rows: int = INT64_MAX) -> Iterator[Words]:
        """Process a batch; the result rows that it makes known, of which some portions have none."""
        yield from self._portions(batch, self._masks(batch), INT64_MIN)

    def detect_event(
        self, partition: int, time: int, mask: int, values: Sequence[Any], is_float: Sequence[bool]
    ) -> Words | None:
        """Process one event of one partition; None where no row came of it."""
        event = self._event
        if event.n_columns != len(values):
            event = self._event = SingleEventBatch(len(values))
        event.fill(partition, time, mask, values, is_float)
        numbers, offsets, times, columns, known = event.arrays
        taken = NO_ROOM
        if not self.has_memory:
            taken = take_event(
                self.program, self.partitions.words, self.partitions.width, self.pool, partition,
                time, mask, columns.reshape(-1), known.reshape(1, -1), self._scratch,
            )  # fmt: skip
        if self._has_window:
            self.next_timeout = min(self.next_timeout, time)
        if taken == UNDECIDED:
            return None
        if taken == NO_ROOM:
            batch = Batch(numbers, offsets, times, np.zeros((0, 0), np.uint64), columns, known)
            found = self._match(batch, np.array([mask]), INT64_MIN)
        else:
            found = self._match(Batch.without_rows(numbers), times, INT64_MIN)
        return found if len(found) else None

    def detect_whole(
        self, batch: Batch, now: int, threads: int = 1, closes: bool = True,
        enough: int = INT64_MAX,
    ) -> Iterable[Words]:  # fmt: skip
        """Process partitions of which these are all the rows; no state is kept.

        The rows come in the same order whatever the number of threads. The partitions end with their
        last rows; those of a larger query do only if it ``closes``, and time has got to ``now``.
        """
        masks = self._masks(batch)
        edges = batch.shares(threads)
        closes = closes or not self.gives_intervals
        now = now if self.gives_intervals else INT64_MIN
        self._stopped = False

        def share(edge: tuple[int, int]) -> Iterator[Words]:
            words = np.zeros(self.partitions.width, np.int64)
            Partition.over(words, program=self._header).reset()
            state = RowState(words, self.partitions.width, _empty_pool(), _empty_blocks())
            arrays = batch.arrays(*edge)
            found = 0
            for rows in self._results(
                RowCall(self.program, state, arrays, masks, now, closes, True)
            ):
                if self._stopped:
                    raise StoppedError
                yield rows
                found += len(rows)
                if found > enough:
                    return

        if len(edges) == 2:
            return share((edges[0], edges[1]))
        with ThreadPoolExecutor(len(edges) - 1) as pool:
            try:
                return list(pool.map(lambda edge: self._concat(share(edge)), pairwise(edges)))
            except BaseException:  # the threads stop at their next pause
                self._stopped = True
                raise

    def advance(self, now: int) -> Words:
        """No row to come is earlier than ``now``: WITHIN is over for what began long before."""
        nothing = np.empty((0, self.result_columns), np.int64)
        if now <= self.next_timeout or not self._has_window:
            return nothing
        numbers = self._due(now)
        if not numbers.size:
            return nothing
        found = self._match(Batch.without_rows(numbers), np.zeros(0, np.int64), now)
        self._due(now)
        return found

    def _due(self, now: int) -> Words:
        """The partitions in whose heads WITHIN is over; notes when it is in another one."""
        numbers, following = deadline_of_heads(
            self.program, self.partitions.words, self.partitions.width, self.n_partitions,
            self.pool, now,
        )  # fmt: skip
        self.next_timeout = int(following)
        return np.asarray(numbers)

    def close(self, most_rows: int = INT64_MAX) -> Iterator[Words]:
        """No more events come: every partition ends with its last row."""
        numbers = np.arange(self.n_partitions)
        nothing = np.zeros(0, np.int64)
        yield from self._portions(Batch.without_rows(numbers), nothing, INT64_MIN, closes=True)

    def _masks(self, batch: Batch) -> Words:
        masks: Words = variable_masks(batch.bits, self.bit_of_symbol, len(batch.times))
        return masks

    def _match(self, batch: Batch, masks: Words, now: int) -> Words:
        return self._concat(self._portions(batch, masks, now))

    def _portions(
        self, batch: Batch, masks: Words, now: int, closes: bool = False
    ) -> Iterator[Words]:
        """Work on the state with a call of the loops."""
        if self._has_window and len(batch.times):
            first = int(batch.times[batch.row_offsets[:-1]].min(initial=INT64_MAX))
            self.next_timeout = min(self.next_timeout, first)
        state = RowState(self.partitions.words, self.partitions.width, self.pool, self.blocks)
        for rows in self._results(RowCall(self.program, state, batch.arrays(), masks, now, closes)):
            self.pool, self.blocks = state.pool, state.blocks
            yield rows
        header = PoolHeader.over(self.pool)
        if 2 * header.wasted > header.used:
            self._compact_pool()
        blocks = BlocksHeader.over(self.blocks)
        if 2 * blocks.wasted > blocks.used:
            self._compact_blocks()

    def _results(self, call: RowCall) -> Iterator[Words]:
        for words in call.portions():
            yield words.reshape(-1, self.result_columns)

    def _concat(self, portions: Iterable[Words]) -> Words:
        """The rows of all portions."""
        some = [rows for rows in portions if len(rows)]
        if len(some) == 1:
            return some[0]
        return np.concatenate([np.empty((0, self.result_columns), np.int64), *some])

    # -- the state --------------------------------------------------------------------------------

    def _compact_pool(self) -> None:
        words, count = self.partitions.words, self.n_partitions
        used = words[: count * self.partitions.width]
        self.pool = compact_pool(self.program, used, count, self.pool)

    def _compact_blocks(self) -> None:
        from piestream.row_patterns.loops.memory_search import compact_blocks

        words, count = self.partitions.words, self.n_partitions
        used = words[: count * self.partitions.width]
        width = self.partitions.width
        self.blocks = compact_blocks(self.program, used, width, count, self.blocks)

    def compact(self, now: int, closable: bool = False) -> Words:
        """Free what nothing reads; no partition is released, for its matches are numbered."""
        self._compact_pool()
        return np.zeros(0, np.int64)

    def replace_program(self, program: Words) -> None:
        """Go on with a program that differs only in the types of aggregates."""
        self.program[:] = program

    def live_intervals(self) -> int:
        """How many rows are held."""
        return int(self.partitions.column("count").sum())

    def state_bytes(self) -> int:
        """How many bytes of state are in use."""
        words = self.partitions.rows.size + PoolHeader.over(self.pool).used
        words += BlocksHeader.over(self.blocks).used
        return words * self.pool.itemsize

    def export_state(self, partitions: Sequence[int]) -> DetectorState:
        """The words of these partitions, and the rows that they keep."""
        rows = self.partitions.rows[np.array(partitions, np.int64)]
        forget_threads(rows)
        return DetectorState(
            partitions=rows,
            pool=self.pool[: PoolHeader.over(self.pool).used],
            waiting=np.zeros(0, np.int64),
            next_timeout=self.next_timeout,
            layout=self._layout,
        )

    def restore_state(self, state: DetectorState) -> Words:
        """Take over an exported state, which must be sound, in a detector without partitions."""
        numbers = self.add_partitions(state.partitions.size // self.partitions.width)
        self.partitions.rows[:] = state.partitions.reshape(self.partitions.rows.shape)
        self.blocks = _empty_blocks()
        self.pool = state.pool
        self.next_timeout = state.next_timeout
        return numbers

    def check_layout(self, layout: tuple[int, ...]) -> None:
        """Refuse a state whose words are laid out otherwise."""
        if layout != self._layout:
            raise StateError(
                "this state was written by another version of piestream, laid out otherwise"
            )

    @property
    def _layout(self) -> tuple[int, ...]:
        return (self.partitions.width, self._header.row_words, self._header.n_states)

    def remap_codes(self, column: int, new_codes: Words) -> None:
        """Values of a column have other codes now: ``new_codes[old]``."""
        remap_kept_codes(
            self.program, self.partitions.words, self.partitions.width, self.n_partitions,
            self.pool, column, new_codes, np.zeros(0, np.int64),
        )  # fmt: skip
        if self.has_memory:
            from piestream.row_patterns.loops.thread_codes import remap_thread_codes

            remap_thread_codes(
                self.program, self.partitions.words, self.partitions.width, self.n_partitions,
                self.blocks, column, new_codes,
            )  # fmt: skip

    def used_codes(self, column: int, n_codes: int) -> NDArray[np.bool_]:
        """Which codes of a column occur in the state."""
        used = np.zeros(n_codes, np.int64)
        remap_kept_codes(
            self.program, self.partitions.words, self.partitions.width, self.n_partitions,
            self.pool, column, np.zeros(0, np.int64), used,
        )  # fmt: skip
        return used > 0
