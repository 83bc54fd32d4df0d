"""The detector: all state of one query over any number of partitions, as integers.

It takes batches of rows sorted by partition and time, and time alone. It knows neither frames nor
predicates nor where rows come from; batch, sessions and Spark all drive this one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piestream.compiled import layout as at
from piestream.engine.timers import InactivityTimers
from piestream.intervals.runs import find_changes
from piestream.joins import batch as loops
from piestream.joins.rings import ring_words, unwritten
from piestream.plan.join_order import Estimate
from piestream.plan.program import Tables, write_plan

Words = NDArray[np.int64]
Changes = tuple[Words, Words, Words]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of several partitions, those of a partition together and in order of time.

    ``bits[p]`` are the bits of distinct predicate p, ``columns`` the attributes that RETURN
    aggregates, as words, and ``known`` where they have a value.
    """

    partitions: Words
    row_offsets: Words
    times: Words
    bits: NDArray[np.uint64]
    columns: Words
    known: NDArray[np.uint8]


def _nothing_waits() -> Words:
    """A store of waiting matches without any."""
    waiting = np.zeros(64, np.int64)
    waiting[at.WAITING_FREE] = at.NOWHERE
    return waiting


def _state() -> ModuleType:
    """The loops over all of the state: compiled when first needed, which for many is never."""
    from piestream.joins import maintenance as state

    return state


def _shares(row_offsets: Words, threads: int) -> list[int]:
    """Where to cut the partitions into shares of about as many rows."""
    n_partitions = len(row_offsets) - 1
    wanted = np.arange(1, threads) * (int(row_offsets[-1]) // max(threads, 1))
    inner = np.searchsorted(row_offsets, wanted)
    return sorted({0, n_partitions, *(int(cut) for cut in inner if 0 < cut < n_partitions)})


class _One:
    """The arrays of a batch of one row, to be used again and again."""

    def __init__(self, n_columns: int) -> None:
        self.partitions = np.zeros(1, np.int64)
        self.offsets = np.array([0, 1], np.int64)
        self.times = np.zeros(1, np.int64)
        self.row = np.zeros(1, np.int64)
        self.mask = np.zeros(1, np.int64)
        self.columns = np.zeros((n_columns, 1), np.int64)
        self.floats = self.columns.view(np.float64)
        self.known = np.zeros((n_columns, 1), np.uint8)


@dataclass(slots=True)
class Work:
    """What the joins have done since the detector was made, whatever the clock says.

    ``steps``: candidates that extension looked at; ``visits``: partners that reach was offered to;
    ``deadlines``: partitions whose silence was looked at.
    """

    steps: int = 0
    visits: int = 0
    deadlines: int = 0


#: After so many steps of extension the plan is looked at again, in so many partitions and intervals
#: of each: while there are few, no order is worth a look. It is changed where some number of
#: partners is more than twice, or less than half, of what it was.
_SURVEY_STEPS = 1 << 19
#: Whole partitions are worked through in portions of so many rows, between which that can be done.
_PORTION_ROWS = 1 << 16
_SURVEY_PARTITIONS = 16
_SURVEY_INTERVALS = 128
_PLAN_AGAIN = 2.0
#: Words for result rows that every call has.
_LEAST_WORDS = 1 << 10
#: Slots of a ring that has every level of bits.
_LARGE_RING = 1 << 20


class Detector:
    """State and compiled tables of one query."""

    def __init__(self, tables: Tables, bit_of_symbol: tuple[int, ...]) -> None:
        self.tables = tables
        self.code = tables.code.copy()  # its plan changes as the state does
        self.estimate = Estimate()
        self.adapts = tables.plan.matters
        self.surveyed = 0  # steps at the last survey
        self.bit_of_symbol = np.array(bit_of_symbol, np.int64)
        self.words = int(self.code[at.PARTITION_WORDS])
        self.gap = int(self.code[at.GAP])  # a word; NOWHERE: none
        silence = self.gap % (1 << 64)  # the same as a length
        self.window = int(self.code[at.WINDOW].astype(np.uint64))
        #: Nothing needs to be done at an event that changes no predicate.
        self.unwatched = self.gap == at.NOWHERE and not self.code[at.HAS_CELLS]
        self.n_partitions = 0
        self.parts = np.zeros(0, np.int64)
        self.pool = np.zeros(1024, np.int64)
        self.pool[at.POOL_USED] = at.POOL_WORDS
        self.waiting = _nothing_waits()
        self.silences = InactivityTimers(silence)
        self.result_words = at.ROW_OUTPUTS + tables.n_outputs
        self.free: list[int] = []
        self.expected = 0  # result rows of a call
        self.work = Work()
        self._counting = Lock()
        self._viewed: Words | None = None
        self.one = _One(0)

    def add_partitions(self, count: int) -> Words:
        """New partitions, without any event yet."""
        again = [self.free.pop() for _ in range(min(count, len(self.free)))]
        first = self.n_partitions
        self.n_partitions += count - len(again)
        if self.n_partitions * self.words > self.parts.size:
            larger = np.zeros(2 * self.n_partitions * self.words, np.int64)
            larger[: self.parts.size] = self.parts
            self.parts = larger
        new = np.array([*again, *range(first, self.n_partitions)], np.int64)
        states = self._states
        states[new] = 0
        states[new, self.code[at.ENDED_AT] :] = at.NEVER
        states[new, at.DUE] = at.INT64_MAX
        states[new, at.USED] = 1
        states[new, at.LAST_TIME] = at.INT64_MIN
        self.silences.drop(new)
        return new

    @property
    def _states(self) -> Words:
        """The words of all partitions, a row each: a view."""
        states: Words = self.parts[: self.n_partitions * self.words].reshape(-1, self.words)
        return states

    @property
    def next_silence(self) -> int:
        """No silence is over before or at this time."""
        return self.silences.earliest

    @next_silence.setter
    def next_silence(self, time: int) -> None:
        self.silences.earliest = time

    def last_time(self, partition: int) -> int:
        """The time of the last event of a partition."""
        return self.parts_view[partition * self.words + at.LAST_TIME]

    def last_times(self, partitions: Words) -> Words:
        """The time of the last event of each partition."""
        times: Words = self._states[partitions, at.LAST_TIME]
        return times

    def detect(self, batch: Batch) -> Words:
        """Work through a batch; a row of words for every match that became known."""
        changes = find_changes(
            batch.bits, self.bit_of_symbol, batch.row_offsets, batch.times, self.gap
        )
        rows = self._detect(batch, changes, at.INT64_MIN)
        self._adapt(batch.partitions)
        if self.gap != at.NOWHERE and len(batch.partitions):
            self.silences.heard(batch.partitions, self._states)
        return rows

    def _adapt(self, partitions: Words) -> None:
        """Every so many steps, order the joins by how many partners there are now."""
        if not self.adapts or self.work.steps - self.surveyed < _SURVEY_STEPS:
            return
        self.surveyed = self.work.steps
        self.estimate = self._planned(
            self.code, self.parts, self.pool, partitions[:_SURVEY_PARTITIONS], self.estimate
        )

    def _planned(
        self, code: Words, parts: Words, pool: Words, partitions: Words, used: Estimate
    ) -> Estimate:
        """Put the plan that suits the live state into ``code``, if it differs enough."""
        plan = self.tables.plan
        counts = np.zeros(8 * len(plan.edges), np.int64)
        _state().survey(code, parts, pool, partitions, _SURVEY_INTERVALS, counts)
        estimate = Estimate.from_counts(counts.tolist(), plan.edges)
        if not estimate.partners or not estimate.differs(used, _PLAN_AGAIN):
            return used
        write_plan(code, plan, estimate)
        return estimate

    def replace_code(self, code: Words) -> None:
        """Go on with tables that differ only in the types of aggregates."""
        self.code = code.copy()
        self.estimate = Estimate()

    def advance(self, now: int) -> Words:
        """Time is ``now`` in all partitions: end what silence has ended."""
        none = np.empty((0, self.result_words), np.int64)
        if self.gap == at.NOWHERE or now <= self.next_silence:
            return none
        silent = self.silences.over(now, self._states)
        self.work.deadlines = self.silences.looked_at
        if not silent.size:
            return none
        nothing = np.zeros(0, np.int64)
        offsets = np.zeros(silent.size + 1, np.int64)
        batch = Batch(
            silent,
            offsets,
            nothing,
            np.zeros((0, 0), np.uint64),
            np.zeros((0, 0), np.int64),
            np.zeros((0, 0), np.uint8),
        )
        return self._detect(batch, (nothing, nothing, offsets), now)

    def detect_one(
        self, partition: int, time: int, mask: int, values: Sequence[Any], is_float: Sequence[bool]
    ) -> Words | None:
        """Work on one event of one partition, whose time is after all of its events so far.

        ``mask`` has a bit a symbol; ``values`` are the attributes. None where no match came of it.
        """
        at_partition = partition * self.words
        state = self.parts_view
        if (
            state[at_partition + at.MASK] == mask
            and state[at_partition + at.DUE] > time
            and (mask == 0 or self.unwatched)
        ):
            state[at_partition + at.LAST_TIME] = time
            return None
        one = self.one
        if len(values) != len(one.columns):
            one = self.one = _One(len(values))
        one.partitions[0] = partition
        one.times[0] = time
        one.mask[0] = mask
        for number, value in enumerate(values):
            known = value is not None and value == value  # a NaN is a missing value
            one.known[number, 0] = known
            one.columns[number, 0] = 0
            if known:
                (one.floats if is_float[number] else one.columns)[number, 0] = value
        self.pool, self.waiting, rows, count, steps, visits = loops.detect(
            self.code,
            self.parts,
            self.pool,
            self.waiting,
            one.partitions,
            one.offsets,
            one.times,
            one.row,
            one.mask,
            one.offsets,
            one.columns,
            one.known,
            at.INT64_MIN,
            np.empty(max(_LEAST_WORDS, self.result_words), np.int64),
            False,
        )
        found = self._rows(rows, count, steps, visits)
        self._adapt(one.partitions)
        if self.gap != at.NOWHERE and self.silences.is_news(partition, time) and mask:
            self.silences.heard(one.partitions, self._states)
        return found if count else None

    @property
    def parts_view(self) -> memoryview:
        """The partitions' words as Python integers."""
        if self._viewed is not self.parts:
            self._viewed, self._view = self.parts, memoryview(self.parts)  # type: ignore[arg-type]
        return self._view

    def _detect(self, batch: Batch, changes: Changes, now: int) -> Words:
        self.pool, self.waiting, *found = loops.detect(
            self.code,
            self.parts,
            self.pool,
            self.waiting,
            batch.partitions,
            batch.row_offsets,
            batch.times,
            *changes,
            batch.columns,
            batch.known,
            now,
            self._space(),
            False,
        )
        return self._rows(*found)

    def detect_whole(self, batch: Batch, now: int, threads: int = 1) -> Words:
        """Work through partitions of which these are all the rows, up to the time ``now``.

        No state is kept, so that partitions can be shared out to threads; the rows come in the
        same order whatever their number.
        """
        changes = find_changes(
            batch.bits, self.bit_of_symbol, batch.row_offsets, batch.times, self.gap
        )
        edges = _shares(batch.row_offsets, threads)
        if len(edges) == 2:
            return self._detect_share(batch, changes, now, edges)
        with ThreadPoolExecutor(len(edges) - 1) as pool:
            shares = pool.map(
                lambda edge: self._detect_share(batch, changes, now, edge), pairwise(edges)
            )
            return np.concatenate(list(shares))

    def _detect_share(
        self, batch: Batch, changes: Changes, now: int, share: Sequence[int]
    ) -> Words:
        """Detect in the partitions from one edge to the other, with tables and room of its own."""
        first, end = share
        code = self.code.copy()
        parts = np.zeros(self.words, np.int64)
        pool = np.zeros(at.POOL_WORDS, np.int64)
        waiting = np.zeros(at.WAITING_WORDS, np.int64)
        rows, masks, offsets = changes
        estimate = self.estimate
        unsurveyed = 0
        results = []
        while first < end:
            until = end
            if self.adapts:
                enough = batch.row_offsets[first] + _PORTION_ROWS
                until = min(end, max(first + 1, int(np.searchsorted(batch.row_offsets, enough))))
            pool, waiting, found, count, steps, visits = loops.detect(
                code,
                parts,
                pool,
                waiting,
                batch.partitions[first:until],
                batch.row_offsets[first : until + 1],
                batch.times,
                rows,
                masks,
                offsets[first : until + 1],
                batch.columns,
                batch.known,
                now,
                self._space(),
                True,
            )
            results.append(self._rows(found, count, steps, visits))
            unsurveyed += steps
            if until < end and unsurveyed >= _SURVEY_STEPS:
                unsurveyed = 0
                estimate = self._planned(code, parts, pool, np.zeros(1, np.int64), estimate)
            first = until
        return np.concatenate(results) if len(results) != 1 else results[0]

    def _space(self) -> Words:
        """Space for the result rows of a call: what of it is not touched costs nothing."""
        expected = self.expected + self.expected // 4 + 1
        space: Words = unwritten(max(_LEAST_WORDS, expected * self.result_words))
        return space

    def _rows(self, rows: Words, count: int, steps: int, visits: int) -> Words:
        """Result rows, a view of columns that lie one after the other; the work is noted."""
        with self._counting:  # threads share the counters
            self.work.steps += steps
            self.work.visits += visits
        self.expected = count
        room = rows.size // self.result_words
        columns = rows[: room * self.result_words].reshape(self.result_words, room)
        found: Words = columns[:, :count].T
        return found

    def forget(self, now: int) -> Words:
        """Free what can no longer take part in a match; gives the partitions that hold nothing."""
        idle: Words
        self.pool, idle = _state().compact(self.code, self.parts, self.n_partitions, self.pool, now)
        if not self._states[:, at.WAITING].any():
            self.waiting = _nothing_waits()
        return idle

    def release(self, partitions: Words) -> None:
        """Give back partitions that hold nothing."""
        self._states[partitions, at.USED] = 0
        self.free.extend(int(p) for p in partitions)

    def live_intervals(self) -> int:
        """How many intervals are held."""
        rings = self._rings()
        return int((rings[..., at.RING_TAIL] - rings[..., at.RING_HEAD]).sum())

    def _rings(self) -> Words:
        """The descriptors of the rings, by partition and symbol."""
        states = self._states
        end = at.RINGS + self.tables.n_symbols * at.RING_WORDS
        return states[:, at.RINGS : end].reshape(len(states), self.tables.n_symbols, at.RING_WORDS)

    def state_bytes(self) -> int:
        """How many bytes of state are in use."""
        words = self.n_partitions * self.words + self.pool[at.POOL_USED]
        record = 1 + 2 * self.tables.n_symbols + self.tables.n_outputs
        return 8 * int(words + self.waiting[at.WAITING_USED] * record)

    @property
    def layout(self) -> list[int]:
        """The sizes of what the state is made of; a stored state must agree with them."""
        first = int(self.code[at.SYMBOLS_AT])
        widths = self.code[first + at.SYM_WIDTH :: at.SYM_WORDS][: self.tables.n_symbols]
        beside = ring_words(_LARGE_RING, 0)  # the bits beside the slots of a ring
        sizes = [self.words, int(self.code[at.N_READERS]), self.tables.n_outputs, beside]
        return [*sizes, *widths.tolist()]

    def used_waiting(self) -> Words:
        """The waiting matches without the room kept for more."""
        record = 1 + 2 * self.tables.n_symbols + self.tables.n_outputs
        return self.waiting[: at.WAITING_WORDS + self.waiting[at.WAITING_USED] * record]

    def recode(self, column: int, moved: Words) -> None:
        """Values of a column have new codes: ``moved[old]`` is the new one."""
        self._visit(column, moved, np.zeros(moved.size, np.int64), True)

    def held_codes(self, column: int, n_codes: int) -> NDArray[np.bool_]:
        """Which codes of a column anything still holds."""
        held = np.zeros(n_codes, np.int64)
        self._visit(column, held, held, False)
        return held > 0

    def _visit(self, column: int, moved: Words, held: Words, rename: bool) -> None:
        _state().visit_codes(
            self.code,
            self.parts,
            self.n_partitions,
            self.pool,
            self.waiting,
            column,
            moved,
            held,
            rename,
        )
