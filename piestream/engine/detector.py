"""The detector: all state of one query over any number of partitions, as integers.

It takes batches of rows sorted by partition and time, and time alone. It knows neither frames nor
predicates nor where rows come from; batch, sessions and Spark all drive this one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.arrays import with_room
from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.records import ready
from piestream.copies import copied_but
from piestream.engine.adaption import JoinOrderAdaption
from piestream.engine.batches import Batch, Changes, SingleEventBatch
from piestream.engine.calls import Call, LoopState, StoppedError, Workroom, result_rows
from piestream.engine.many_rows import RowCount
from piestream.engine.state import DetectorState
from piestream.engine.timers import DeadlineTimers
from piestream.errors import StateError
from piestream.intervals.runs import find_changes
from piestream.joins.batch import Detected, detect
from piestream.joins.given import judge_rows
from piestream.joins.partition_table import PartitionTable
from piestream.joins.records import Program
from piestream.joins.result_rows import ResultRow
from piestream.joins.rings import ring_words
from piestream.joins.state_records import PoolHeader
from piestream.joins.waiting import WaitingMatch, WaitingStore
from piestream.plan.join_order import Estimate
from piestream.plan.program import CompiledQuery

Words = NDArray[np.int64]

#: Whole partitions are processed in portions of so many rows, between which join orders can change.
_PORTION_ROWS = 1 << 16
#: Rows of a result that are handed on at a time, where they need not come at once.
PORTION_ROWS = 1 << 17
#: Words of a pool, and of a store of waiting matches, at first.
_POOL_WORDS = 1 << 10
_WAITING_WORDS = 1 << 6
#: Words for result rows that every call has.
_LEAST_RESULT_WORDS = 1 << 10
#: Result rows for which there is room at first, of each row that comes: what is not used costs nothing.
_RESULT_ROWS_EACH = 16
#: Slots of a ring whose set of candidates has every level.
_LARGE_RING = 1 << 20
#: The threads of a run share the counters of what they do.
_COUNTING = Lock()


@dataclass(slots=True)
class Work:
    """What the joins have done since the detector was made, whatever the clock says.

    ``steps``: candidates that extension looked at; ``visits``: partners to which a bound was
    propagated; ``deadlines``: partitions whose deadline of MAX GAP came.
    """

    steps: int = 0
    visits: int = 0
    deadlines: int = 0


@cache
def _ready_detect() -> Callable[..., Detected]:
    """The outermost loop without a way through Python, which would count at single events."""
    return ready(detect)


def _maintenance() -> ModuleType:
    """The loops over all of the state: compiled when first needed, which for many is never."""
    from piestream.joins import maintenance

    return maintenance


def _empty_pool(words: int) -> Words:
    pool = np.zeros(words, np.int64)
    PoolHeader.over(pool).used = PoolHeader.size
    return pool


class Detector:
    """The state and the program of one query."""

    def __init__(
        self,
        compiled: CompiledQuery,
        bit_of_symbol: tuple[int, ...],
        rows_found: RowCount | None = None,
    ) -> None:
        self.rows_found = rows_found or RowCount(None)
        self.compiled = compiled
        self.program = compiled.program.copy()  # its join orders change as the state does
        self.adaption = JoinOrderAdaption(compiled, self.program)
        header = self._header
        self.bit_of_symbol = np.array(bit_of_symbol, np.int64)
        self.window = compiled.ticks.within
        self.gap = header.gap
        #: Nothing needs to be done at an event that changes no predicate.
        self.ignores_unchanged = not (self.gap != NONE or header.has_cells or header.counts_events)
        self.result_columns = ResultRow.words(header)
        self.partitions = PartitionTable(self.program)
        self.pool = _empty_pool(_POOL_WORDS)
        self.waiting = self._no_waiting_matches()
        self.timers = DeadlineTimers(self.gap, self.partitions)
        #: Time alone may bring something: a silence ends, or no run follows in time.
        self.waits = self.gap != NONE or self.partitions.has_deadlines
        self.work = Work()
        self._expected = 0  # result rows of a call
        self._event: SingleEventBatch | None = None
        self._room_of_event: tuple[Words, Words, Words]  # what calls over single events work with
        self._stopped = False

    @cached_property
    def _workroom(self) -> Workroom:
        """The room of calls over batches; those over whole partitions have one each."""
        return Workroom(self.program)

    def __deepcopy__(self, memo: dict[int, Any]) -> Detector:
        return copied_but(
            self, memo,
            pool=with_room(self.pool, PoolHeader.over(self.pool).used),
            waiting=with_room(self.waiting, self._waiting_store.words()),
        )  # fmt: skip

    @property
    def _header(self) -> Program:
        return Program.over(self.program)

    def _no_waiting_matches(self) -> Words:
        waiting = np.zeros(_WAITING_WORDS, np.int64)
        WaitingStore.over(waiting).clear()
        return waiting

    # -- partitions -------------------------------------------------------------------------------

    @property
    def n_partitions(self) -> int:
        """One more than the highest number of a partition so far."""
        return self.partitions.count

    def add_partitions(self, count: int) -> Words:
        """New partitions, without any event yet."""
        numbers = self.partitions.add(count)
        self.timers.cancel(numbers)
        return numbers

    def release(self, partitions: Words) -> None:
        """Give back partitions that hold nothing."""
        self.partitions.release(partitions)

    # -- events and time --------------------------------------------------------------------------

    def detect(self, batch: Batch) -> Words:
        """Process a batch; a row of words for every match that became known."""
        return self._concat(self.portions(batch))

    def portions(self, batch: Batch, most_rows: int = INT64_MAX) -> Iterator[Words]:
        """As `detect`, in portions of about so many rows or more, of which some have none."""
        batch = batch.with_intervals()
        yield from self._portions(batch, self._changes(batch), INT64_MIN, most_rows)
        self._adapt(batch.partitions)
        if self.waits and len(batch.partitions):
            self.timers.touch(batch.partitions)

    def detect_event(
        self, partition: int, time: int, mask: int, values: Sequence[Any], is_float: Sequence[bool]
    ) -> Words | None:
        """Process one event of one partition, whose time is after all of its events so far.

        ``mask`` has a bit a symbol; ``values`` are the attributes. None where no match came of it.
        """
        partitions = self.partitions
        if (mask == 0 or self.ignores_unchanged) and partitions.pass_over(partition, time, mask):
            return None
        event = self._event
        if event is None or event.n_columns != len(values):
            event = self._new_event(len(values))
        event.fill(partition, time, mask, values, is_float)
        state = (partitions.words, self.pool, self.waiting)
        self.pool, self.waiting, _, results, n_rows, steps, visits, _ = _ready_detect()(
            self.program,
            state,
            event.arrays,
            event.changes,
            INT64_MIN,
            self._room_of_event,
            False,
            False,
        )
        self.work.steps += steps
        self.work.visits += visits
        rows = result_rows(results, n_rows, self.result_columns)
        if n_rows:
            rows = rows.copy()  # the room is used for the next event
        self._adapt(event.partitions)
        is_open = mask != 0 or partitions.has_deadlines
        if self.waits and is_open and self.timers.needs_touch(partition, time):
            self.timers.touch(event.partitions)
        return rows if n_rows else None

    def _new_event(self, n_columns: int) -> SingleEventBatch:
        """A batch of one event, and room for calls over it."""
        room = Workroom(self.program)
        space = np.empty(_LEAST_RESULT_WORDS + self.result_columns, np.int64)
        self._room_of_event = (room.scratch, room.matches, space)
        self._event = SingleEventBatch(n_columns)
        return self._event

    def detect_whole(
        self, batch: Batch, now: int, threads: int = 1, closes: bool = False,
        enough: int = INT64_MAX,
    ) -> Iterable[Words]:  # fmt: skip
        """Process partitions of which these are all the rows, up to the time ``now``.

        Where it ``closes``, what is open then ends as `close` ends it. It stops where it has found
        more than ``enough`` rows, of which the first ones are the first of all.

        No state is kept, so that partitions can be shared out to threads; the rows come in the
        same order whatever their number.
        """
        batch = batch.with_intervals()
        changes = self._changes(batch)
        edges = batch.shares(threads)
        self._stopped = False
        if len(edges) == 2:
            return self._share(batch, changes, now, edges, closes, enough)

        def found(edge: tuple[int, int]) -> Words:
            return self._concat(self._share(batch, changes, now, edge, closes, enough))

        with ThreadPoolExecutor(len(edges) - 1) as pool:
            try:
                return list(pool.map(found, pairwise(edges)))
            except BaseException:  # the threads stop at their next pause
                self._stopped = True
                raise

    @property
    def next_timeout(self) -> int:
        """Time alone brings nothing before or at this time."""
        return self.timers.earliest

    def advance(self, now: int) -> Words:
        """Time is ``now`` in all partitions: end what MAX GAP ends, and what nothing can continue."""
        nothing = np.empty((0, self.result_columns), np.int64)
        if not self.waits or now <= self.next_timeout:
            return nothing
        expired = self.timers.expired(now)
        self.work.deadlines = self.timers.examined
        if not expired.size:
            return nothing
        batch = Batch.without_rows(expired)
        changes = (batch.times, batch.times, batch.row_offsets)
        found = self._concat(self._portions(batch, changes, now))
        self.timers.touch(expired)  # more may be due later
        return found

    def close(self, now: int, most_rows: int = INT64_MAX) -> Iterator[Words]:
        """No more events come, and time is ``now``: end what is open at the last event of its partition.

        An interval that began with that event ends one tick later. The rows come in portions.
        """
        is_open = self.partitions.column("used") != 0
        if not self._header.rows:
            is_open &= self.partitions.column("mask") != 0
        batch = Batch.without_rows(np.flatnonzero(is_open))
        changes = (batch.times, batch.times, batch.row_offsets)
        return self._portions(batch, changes, now, most_rows, closes=True)

    def _changes(self, batch: Batch) -> Changes:
        changes: Changes = find_changes(
            batch.bits, self.bit_of_symbol, batch.row_offsets, batch.times, self.gap
        )
        return changes

    def _portions(
        self, batch: Batch, changes: Changes, now: int, most_rows: int = INT64_MAX,
        closes: bool = False,
    ) -> Iterator[Words]:  # fmt: skip
        """Work on the state with a call of the loops."""
        state = LoopState(self.partitions.words, self.pool, self.waiting)
        changes = batch.changes_with_intervals(changes)
        call = Call(
            self.program, self._workroom, state, batch.arrays(), changes, now, closes=closes
        )
        call.expected = self._expected
        for rows in call.portions(most_rows):
            self.pool, self.waiting = state.pool, state.waiting
            self._expected = len(rows)
            if len(rows) and self.rows_found.add(len(rows)):
                numbers = batch.partitions
                self.rows_found.sampled(
                    self.adaption.sampled(state.partitions, state.pool, numbers)
                )
            yield rows
        self._note_work(call)

    def _share(
        self, batch: Batch, changes: Changes, now: int, share: Sequence[int], closes: bool,
        enough: int,
    ) -> Iterator[Words]:  # fmt: skip
        """Detect in the partitions from one edge to the other, with a program and room of its own."""
        first, end = share
        program = self.program.copy()
        adaption = JoinOrderAdaption(self.compiled, program, self.adaption.estimate)
        partition = np.zeros(self.partitions.width, np.int64)
        state = LoopState(partition, _empty_pool(PoolHeader.size), self._no_waiting_matches())
        workroom = Workroom(program)
        steps = found = 0
        n_rows = int(batch.row_offsets[end] - batch.row_offsets[first])
        expected = min(PORTION_ROWS, _RESULT_ROWS_EACH * n_rows)
        while first < end and found <= enough:
            until = end
            if adaption.enabled:
                more = batch.row_offsets[first] + _PORTION_ROWS
                until = min(end, max(first + 1, int(np.searchsorted(batch.row_offsets, more))))
            call = Call(
                program, workroom, state, batch.arrays(first, until),
                batch.changes_with_intervals(changes, first, until), now,
                fresh=True, closes=closes, expected=expected,
            )  # fmt: skip
            expected = 0
            for rows in call.portions(min(enough + 1, PORTION_ROWS)):
                if self._stopped:
                    raise StoppedError
                found += len(rows)
                expected = min(expected + len(rows), PORTION_ROWS)
                if len(rows) and self.rows_found.add(len(rows)):
                    first_one = np.zeros(1, np.int64)
                    self.rows_found.sampled(adaption.sampled(partition, state.pool, first_one))
                yield rows
                if found > enough:
                    break
            self._note_work(call)
            steps += call.steps
            if until < end:
                adaption.adapt(steps, partition, state.pool, np.zeros(1, np.int64))
            first = until

    def _concat(self, portions: Iterable[Words]) -> Words:
        """The rows of all portions."""
        some = [rows for rows in portions if len(rows)]
        if not some:
            return np.empty((0, self.result_columns), np.int64)
        return some[0] if len(some) == 1 else np.concatenate(some)

    def _adapt(self, partitions: Words) -> None:
        """Order the joins by how many partners there are now, if it is time to look."""
        self.adaption.adapt(self.work.steps, self.partitions.words, self.pool, partitions)

    def _note_work(self, call: Call) -> None:
        with _COUNTING:
            self.work.steps += call.steps
            self.work.visits += call.visits

    def judge(self, rows: Words, identities: Words) -> NDArray[np.bool_]:
        """Which of these matches are given: see `joins/given.py`, which says what is told of each."""
        passes = np.zeros(len(rows), np.int64)
        given = (
            np.ascontiguousarray(rows).reshape(-1),
            np.ascontiguousarray(identities).reshape(-1),
        )
        self.pool = judge_rows(self.program, self.partitions.words, self.pool, given, passes)
        passed: NDArray[np.bool_] = passes != 0
        return passed

    # -- the state --------------------------------------------------------------------------------

    def compact(self, now: int, closable: bool = False) -> Words:
        """Free what can no longer take part in a match; gives the partitions that hold nothing.

        ``closable``: `close` may be called, so what it would complete is kept.
        """
        idle: Words
        self.pool, idle = _maintenance().compact(
            self.program, self.partitions.words, self.n_partitions, self.pool, now, closable
        )
        if not self.partitions.column("waiting").any():
            self.waiting = self._no_waiting_matches()
        return idle

    def replace_program(self, program: Words) -> None:
        """Go on with a program that differs only in the types of aggregates."""
        self.program[:] = program
        self.adaption.estimate = Estimate()

    def live_intervals(self) -> int:
        """How many intervals are held."""
        tails, heads = (self.partitions.ring_column(field) for field in ("tail", "head"))
        return int((tails - heads).sum())

    def state_bytes(self) -> int:
        """How many bytes of state are in use."""
        waiting = self._waiting_store
        words = self.partitions.rows.size + PoolHeader.over(self.pool).used
        return (words + waiting.used * waiting.match_words()) * self.pool.itemsize

    def awaited_rows(self) -> set[int]:
        """The numbers of all rows of which a match waits for an end, of rows or of runs."""
        store, header = self._waiting_store, self._header
        if not store.used or not header.rows:
            return set()
        width, end = store.match_words(), store.words()
        matches = self.waiting[end - store.used * width : end].reshape(store.used, width)
        numbers = matches[matches[:, WaitingMatch.offset("n_open")] > 0, -header.n_symbols :]
        of_rows = [s for s in range(header.n_symbols) if header.rows >> s & 1]
        return set(numbers[:, of_rows].ravel().tolist())

    def export_state(self, partitions: Sequence[int]) -> DetectorState:
        """The words of these partitions, and of all that they refer to."""
        return DetectorState(
            partitions=self.partitions.rows[np.array(partitions, np.int64)],
            pool=self.pool[: PoolHeader.over(self.pool).used],
            waiting=self.waiting[: self._waiting_store.words()],
            next_timeout=self.next_timeout,
            layout=self._layout,
        )

    def restore_state(self, state: DetectorState) -> Words:
        """Take over an exported state, which must be sound, in a detector without partitions.

        Gives the partitions' numbers.
        """
        partitions = self.add_partitions(state.partitions.size // self.partitions.width)
        self.partitions.rows[:] = state.partitions.reshape(self.partitions.rows.shape)
        self.pool = state.pool
        self.waiting = state.waiting
        if self.compiled.keys or self._header.n_once:
            words = self.partitions.words
            _maintenance().index_all(self.program, words, self.n_partitions, self.pool)
        self.timers.earliest = state.next_timeout
        return partitions

    def check_layout(self, layout: tuple[int, ...]) -> None:
        """Refuse a state whose words are laid out otherwise."""
        if layout != self._layout:
            raise StateError(
                "this state was written by another version of piestream, laid out otherwise"
            )

    @property
    def _waiting_store(self) -> WaitingStore:
        return WaitingStore.over(self.waiting, program=self._header)

    @property
    def _layout(self) -> tuple[int, ...]:
        """The sizes of what the state is made of; a stored state must agree with them."""
        header = self._header
        sizes = [header.partition_words, header.n_automata, header.n_outputs]
        widths = [header.symbols[s].width for s in range(header.n_symbols)]
        return (*sizes, int(ring_words(_LARGE_RING, 0)), *widths)

    def remap_codes(self, column: int, new_codes: Words) -> None:
        """Values of a column have other codes now: ``new_codes[old]``."""
        self._map_codes(column, new_codes, np.zeros(new_codes.size, np.int64), True)

    def used_codes(self, column: int, n_codes: int) -> NDArray[np.bool_]:
        """Which codes of a column occur in the state."""
        used = np.zeros(n_codes, np.int64)
        self._map_codes(column, used, used, False)
        return used > 0

    def _map_codes(self, column: int, new_codes: Words, used: Words, rename: bool) -> None:
        state = (self.partitions.words, self.pool, self.waiting)
        _maintenance().remap_codes(
            self.program, state, self.n_partitions, column, new_codes, used, rename
        )
