"""One open stream of a query: rows in any order that is allowed, result rows out.

Projection (only the columns that matter, predicates evaluated), reordering up to the watermark,
grouping by partition and ordering by time, ties; then the detector. Batch, session and Spark
differ only in which rows they hand over when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, TypedDict

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.copies import copied_but
from piestream.engine.attributes import AttributeColumns
from piestream.engine.batches import Batch
from piestream.engine.bits import stack_bits
from piestream.engine.changes import ChangeCount, cause_of
from piestream.engine.compaction import CompactionClock
from piestream.engine.detector import PORTION_ROWS, Detector
from piestream.engine.many_rows import RowCount
from piestream.engine.memories import OrderedRows
from piestream.engine.partition_order import PartitionOrder
from piestream.engine.partitions import Partitions, WholePartitions
from piestream.engine.past import PastValues, with_past
from piestream.engine.projection import ATTRIBUTE, PREDICATE, TIME, Projection
from piestream.engine.reordering import ReorderBuffer
from piestream.engine.state import StreamState
from piestream.engine.statistics import Statistics
from piestream.engine.validation import check_state, damaged
from piestream.errors import SchemaError, TimeError
from piestream.joins.result_rows import Closing, Phase, ResultRow
from piestream.language.options import AtEnd, OnLate, Ties
from piestream.plan.binding import Binding
from piestream.plan.conditions import Judged
from piestream.plan.outputs import ResultRows, result_frame

Words = NDArray[np.int64]


#: Gives the mask of an event from what is known of its partition's earlier ones.
MaskOf = Callable[[PastValues, int], int]

#: Behind an event of this time there is room for both of the instants at which intervals are closed.
_LAST_CLOSABLE = INT64_MAX - 1 - Closing.TICK_LATER


class StreamKeywords(TypedDict, total=False):
    """The options of a `Stream`."""

    ties: Ties
    lateness: int | None
    on_late: OnLate
    whole: bool
    threads: int
    at_end: AtEnd
    closable: bool
    enough: int
    evaluated: bool


def _needs_state(binding: Binding) -> bool:
    """Whether a partition cannot be worked on in one go, even where all of its rows are there.

    What WHERE lets pass is judged by what is kept of each partition. So what a query in brackets gives at the end
    of its rows comes behind all others.
    """
    if binding.condition is not None and binding.query.limits:
        return True
    return any(_needs_state(part.inner) for part in binding.parts if part.inner is not None)


class Stream:
    """The state of one query over one stream of many partitions.

    If ``lateness`` is None, the input is bounded: the rows of a partition come in order of time,
    whatever the order of the partitions, and nothing is late. If it comes ``whole``, in one `process`,
    no state is kept, and the partitions may be divided among ``threads``; ``at_end`` says whether
    intervals that are open at the end stay open, and the search stops after ``enough`` result rows.
    A ``closable`` stream keeps the matches that closing would complete. Rows that are ``evaluated``
    come with the values of all predicates.

    Each call gives the result rows that it made known. ``detector`` is the part that knows integers
    only; tests and tools may read it, but not call it.
    """

    def __init__(
        self,
        binding: Binding,
        *,
        ties: Ties = "error",
        lateness: int | None = 0,
        on_late: OnLate = "error",
        whole: bool = False,
        threads: int = 1,
        at_end: AtEnd = "open",
        closable: bool = False,
        enough: int = INT64_MAX,
        evaluated: bool = False,
    ) -> None:
        self.binding = binding
        self._is_evaluated = evaluated
        self.detector = self._new_detector(binding)
        self._whole = whole = whole and not _needs_state(binding)
        self._threads = threads
        self._at_end = at_end
        self.closable = closable
        self._enough = enough
        self._finished = False
        self._incomplete: int | None = None
        self._projection = self._new_projection(binding)
        self._buffer = ReorderBuffer(self._projection, ties, lateness, on_late)
        key_schema = {name: binding.schema[name] for name in binding.query.partition_by}
        self._partitions = (
            WholePartitions(key_schema) if whole else Partitions(key_schema, self.detector)
        )
        self._order = PartitionOrder(self._buffer, self._partitions, whole)
        self._attributes = AttributeColumns(binding)
        self._past = PastValues(binding.past)
        self._compaction = CompactionClock()
        self._counts = Statistics()
        #: This very frame is given for an event that completes no match.
        self.no_results = binding.no_results
        #: Called with the result rows that are found, if they are observed.
        self.on_results: Callable[[pl.DataFrame], None] | None = None
        self._observed = True
        self.changes = ChangeCount()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copied_but(self, memo, on_results=self.on_results)

    def _new_projection(self, binding: Binding) -> Projection:
        return Projection(binding, self._is_evaluated)

    def _new_detector(self, binding: Binding) -> Detector:
        assert binding.query.rows is None, "a row pattern has a stream of its own kind"
        return Detector(binding.compiled, binding.bit_of_symbol, RowCount(binding.query))

    # -- rows in ----------------------------------------------------------------------------------

    def process(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Process rows of the input."""
        return self.process_projected(self.project(frame))

    def check_times(self, times: pl.Series) -> None:
        """Refuse rows without a usable time."""
        self._projection.check_times(times)

    def project(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Project rows of the input to the columns that the query needs, for `process_projected`."""
        return self._projection.project(frame)

    def process_projected(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Process projected rows."""
        return self.concatenated(list(self.portions(rows)))

    def portions(self, rows: pl.DataFrame, most_rows: int | None = None) -> Iterator[pl.DataFrame]:
        """As `process_projected`, in portions of about so many result rows; some have none.

        The next one is found when it is asked for, and the stream is of no use before the last.
        """
        if most_rows is None:
            most_rows = min(PORTION_ROWS, self._enough + 1)
        self._projection.check_rows(rows)
        with self.changes:
            with self._unchanged_on_error():
                released = self._buffer.release(rows, self._order.last_instants)
                yield from self._detect(released, most_rows=most_rows)
            if self.lateness is not None and self._buffer.latest != INT64_MIN:
                yield self._advance_watermark(self._buffer.watermark)

    def process_unordered(self, rows: pl.DataFrame, seen: int) -> pl.DataFrame:
        """Process projected rows whose order among themselves does not say which of them is late.

        ``seen`` is the largest time that is known to have been seen elsewhere. Rows that are older
        than the watermark was before them are dropped and counted.
        """
        self._projection.check_rows(rows)
        with self.changes:
            with self._unchanged_on_error():
                self._buffer.observe_time(seen)
                results = list(self._detect(self._buffer.release_unordered(rows)))
            self._compaction.allow()
            if self._buffer.latest != INT64_MIN:
                results.append(self._advance_watermark(self._buffer.watermark))
            return self.concatenated(results)

    def process_event(
        self, time: int, key: Any, mask: int | MaskOf, values: Sequence[Any], sequence: int | None,
        is_float: Sequence[bool],
    ) -> pl.DataFrame | None:  # fmt: skip
        """Process one event without making a frame of it; None where that takes `process`.

        It does where the event is late, ties with another, waits for the watermark or begins a
        partition. ``mask`` has a bit a symbol, or is what gives it from the past of a partition;
        ``values`` are the attributes, and ``sequence`` what orders events of one time.
        """
        partition = self._partitions.number_of.get(key)
        buffer = self._buffer
        if partition is None or buffer.lateness != 0 or time < buffer.latest:
            return None
        if buffer.ties == "last" or buffer.rows is not None:
            return None
        partitions = self.detector.partitions
        last = partitions.last_time(partition)
        if last >= time and (last > time or not self._comes_next(partition, sequence)):
            return None
        self.changes.begun += 1
        if sequence is not None:
            partitions.note_sequence(partition, sequence)
        if not isinstance(mask, int):
            self._past.make_room(partition + 1)
            mask = mask(self._past, partition)
        buffer.latest = time
        self._counts.events += 1
        self._compaction.since += 1
        try:
            found = self.detector.detect_event(partition, time, mask, values, is_float)
        except SystemError as error:
            raise cause_of(error) from None
        result = self.no_results if found is None else self._results(found)
        detector = self.detector
        is_due = self._compaction.is_due(time, detector.window, detector.n_partitions)
        if is_due or time > detector.next_timeout:
            result = self.concatenated([result, self._advance_watermark(time)])
        return result

    def _comes_next(self, partition: int, sequence: int | None) -> bool:
        """Whether an event comes behind the last one of its partition, which has its time."""
        if sequence is not None:
            return self.detector.partitions.last_sequence(partition) < sequence
        return not self._projection.has_ties

    def code_of(self, number: int, value: Any) -> int | None:
        """The code of an attribute's value; None if it is a new one, which takes a frame."""
        return self._attributes.code(number, value)

    # -- time -------------------------------------------------------------------------------------

    def observe_time(self, time: int) -> None:
        """Elsewhere the stream has got to this time: the next call counts on it."""
        self._buffer.observe_time(time)

    def observe_watermark(self, time: int) -> None:
        """All events before ``time`` have come: the next call counts on it."""
        self._buffer.observe_watermark(time)

    def advance(self, time: int) -> pl.DataFrame:
        """All events before ``time`` have come: process what waited for that."""
        if self.lateness is None:
            raise ValueError("a bounded input has no clock to advance")
        with self.changes, self._unchanged_on_error():
            self.observe_watermark(time)
            return self.process(pl.DataFrame(schema=dict(self.binding.schema)))

    def pass_time(self) -> pl.DataFrame:
        """The results that time alone makes known in a bounded input that goes on; all rows so far have come."""
        with self.changes:
            return self._advance_watermark(self.reached)

    def finish(self, at_end: AtEnd | None = None) -> pl.DataFrame:
        """No more events come: process all that waits, at the largest time seen.

        ``at_end`` "close" ends what is open at the last event of its partition.
        """
        return self.concatenated(list(self.last_portions(at_end)))

    def last_portions(
        self, at_end: AtEnd | None = None, most_rows: int = PORTION_ROWS
    ) -> Iterator[pl.DataFrame]:
        """As `finish`, in portions."""
        with self.changes:
            self._check_end(at_end)
            if self._buffer:
                yield from self._detect(self._buffer.drain(), last=True, most_rows=most_rows)
            if self._buffer.latest != INT64_MIN:
                yield self._advance_watermark(self.reached)
            if not self._whole:
                yield from self._closed(at_end, most_rows)
            self._finished = True

    def _closed(self, at_end: AtEnd | None, most_rows: int) -> Iterator[pl.DataFrame]:
        """The results of ending the open intervals, if the input is to be closed."""
        if (at_end or self._at_end) == "close":
            yield from map(self._results, self.detector.close(self.reached, most_rows))
            self._incomplete = 0

    def _check_end(self, at_end: AtEnd | None) -> None:
        """Refuse an end that `_closed` cannot bring about, before anything is changed for it."""
        if (at_end or self._at_end) == "close" and not self._whole:
            self._check_closable()

    def _check_closable(self) -> None:
        """Refuse to close where an interval would end behind the last time that there is."""
        if self.latest > _LAST_CLOSABLE:
            raise TimeError(
                f"at_end='close' cannot end an interval after {self.latest}: that is too close to the "
                "end of 64 bits; leave it out, or shift the times"
            )

    @property
    def _incomplete_rows(self) -> int:
        """How many rows more there were if what is open ended with the input, which has ended.

        They are counted once, at the first call, which uses up the state.
        """
        if self._incomplete is None:
            if not self._finished or self.latest > _LAST_CLOSABLE:
                return 0
            with self.changes:
                closed = self.detector.close(self.reached, PORTION_ROWS)
                self._incomplete = sum(len(self._passing(found)[0].rows) for found in closed)
        return self._incomplete

    @property
    def latest(self) -> int:
        """The largest time seen, or the time that the watermark implies; INT64_MIN if there was none."""
        return self._buffer.latest

    @property
    def reached(self) -> int:
        """The largest time that is known to have come."""
        return self._buffer.reached

    @property
    def next_deadline(self) -> int | None:
        """The earliest watermark at which there is something to do even if no event comes.

        A buffered event is released, MAX GAP ends an interval, or memory is to be freed. None: never.
        """
        deadlines = []
        if self._buffer.next_release is not None:
            deadlines.append(self._buffer.next_release)
        if self.detector.next_timeout != INT64_MAX:
            deadlines.append(self.detector.next_timeout + 1)
        compaction = self._compaction.next_deadline(self.detector.window)
        if self._partitions.number_of and compaction is not None:
            deadlines.append(compaction)
        return min(deadlines, default=None)

    # -- what it is and holds ---------------------------------------------------------------------

    @property
    def ties(self) -> Ties:
        """What becomes of two events of one partition with the same time."""
        return self._buffer.ties

    @property
    def lateness(self) -> int | None:
        """How far events may be out of order, in ticks; None is a bounded input."""
        return self._buffer.lateness

    @property
    def on_late(self) -> OnLate:
        """What becomes of an event that comes after the watermark."""
        return self._buffer.on_late

    def set_observed(self, observed: bool) -> None:
        """Whether anybody is told what is found, by `on_results` and by warnings."""
        self._observed = self.detector.rows_found.warns = observed

    @property
    def plan(self) -> str | None:
        """The plan that it follows, where there are several; None where there is only one."""
        return None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held: no event waits, and no partition is known."""
        return not self._buffer and not self._partitions.number_of

    @property
    def progress(self) -> Statistics:
        """`statistics` without the size of the state, which costs a look at all partitions."""
        return replace(
            self._counts,
            late=self._buffer.dropped,
            waiting=len(self._buffer),
            partitions=len(self._partitions.number_of),
        )

    @property
    def statistics(self) -> Statistics:
        """What the stream has processed and holds now."""
        return replace(
            self.progress,
            live_intervals=self.detector.live_intervals(),
            state_bytes=self.detector.state_bytes() + self._past.size,
            incomplete=self._incomplete_rows,
        )

    def rebind(self, binding: Binding) -> None:
        """Go on with types for columns that have been NULL in every row so far."""
        forms = {a.name: a.form for a in binding.attributes}
        fixed = {column.name for column in self.binding.calculated if not column.is_null}
        if not binding.compiled.same_layout(self.binding.compiled) or any(
            a.name in fixed and forms.get(a.name) != a.form for a in self.binding.attributes
        ):
            raise SchemaError(
                "the type of a column came up too late: say the types when the session is opened, "
                "query.open(schema={...})"
            )
        with self.changes:
            old = self.binding.attributes
            place = {
                a.name: n for n, a in enumerate(old)
            }  # forms of one untyped column are all NULL
            projection = self._new_projection(binding)
            if self._buffer.rows is not None:
                source = {
                    f"{ATTRIBUTE}{n}": f"{ATTRIBUTE}{place[a.name]}"
                    for n, a in enumerate(binding.attributes)
                }
                self._buffer.rows = self._buffer.rows.select(
                    pl.col(source.get(name, name)).cast(dtype).alias(name)
                    for name, dtype in projection.schema.items()
                )
            self.binding = binding
            self._projection = self._buffer.projection = projection
            self.no_results = binding.no_results
            self.detector.replace_program(binding.compiled.program)
            self._partitions.schema = {n: binding.schema[n] for n in binding.query.partition_by}
            self._attributes = AttributeColumns(binding, self._attributes.by_attribute)
            if binding.past:
                self._past.make_room(self.detector.n_partitions)
                self._past = self._past.of_types(binding.past, self.detector.n_partitions)

    def compact(self) -> None:
        """Free what can no longer take part in a match, as `export_state` does before all else."""
        with self.changes:
            at = INT64_MIN if self.lateness is None else self._compaction.at
            self.detector.compact(at, self.closable)
            self._past.make_room(self.detector.n_partitions)

    def export_state(self) -> StreamState:
        """Everything that the stream knows, compacted; `restore_state` makes the stream of it."""
        assert isinstance(self._partitions, Partitions)
        Stream.compact(self)  # queries in brackets are stored, and compacted, for themselves
        used = self._partitions.used()
        return StreamState(
            ties=self.ties,
            lateness=self.lateness,
            on_late=self.on_late,
            latest=self._buffer.latest,
            seen=self._buffer.seen,
            compacted_at=self._compaction.at,
            since_compaction=self._compaction.since,
            counts=replace(self._counts, late=self._buffer.dropped),
            detector=self.detector.export_state(used),
            keys=self._partitions.keys(np.array(used, np.int64)),
            buffered=self._buffer.rows,
            past=self._past.frame(used),
            dictionaries=tuple(self._attributes.values.values()),
        )

    @classmethod
    def restore_state(cls, binding: Binding, state: StreamState) -> Stream:
        """The stream that a state was exported from, of the same query and types.

        A state that no stream can have exported is refused.
        """
        stream = cls(binding, ties=state.ties, lateness=state.lateness, on_late=state.on_late)
        stream.detector.check_layout(state.detector.layout)
        check_state(binding, state, stream._projection.schema)
        assert isinstance(stream._partitions, Partitions)
        stream._partitions.restore(state.keys, stream.detector.restore_state(state.detector))
        if len(stream._partitions.number_of) != stream.detector.n_partitions:
            raise damaged("two partitions have one key")
        stream._buffer.latest = state.latest
        stream._buffer.seen = state.seen
        stream._buffer.rows = state.buffered
        stream._buffer.dropped = state.counts.late
        stream._counts = replace(state.counts)
        stream._compaction.at = state.compacted_at
        stream._compaction.since = state.since_compaction
        try:
            stream._past.restore(state.past)
        except ValueError as error:
            raise damaged(str(error)) from None
        stream._attributes.restore(state.dictionaries)
        return stream

    # -- order ------------------------------------------------------------------------------------

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Rows that are refused leave no trace."""
        buffer = self._buffer
        before = (buffer.rows, buffer.latest, buffer.seen, buffer.dropped, replace(self._counts))
        try:
            yield
        except ValueError:
            buffer.rows, buffer.latest, buffer.seen, buffer.dropped, self._counts = before
            raise

    # -- the detector ------------------------------------------------------------------------------

    def _detect(
        self, rows: pl.DataFrame, last: bool = False, most_rows: int = INT64_MAX
    ) -> Iterator[pl.DataFrame]:
        """The results of rows that need not wait any longer, in portions."""
        if not len(rows):
            return
        rows, partitions, offsets, n_ties = self._order.ordered(rows, last)
        self._counts.ties += n_ties
        self._counts.events += len(rows)
        self._compaction.since += len(rows)
        if not len(rows):
            return
        times = rows[TIME].to_numpy()
        if self._projection.ordered_predicates:  # of columns without a type nothing is kept
            ordered = OrderedRows(partitions, offsets, times, self._whole)
            if not self._whole:
                self._past.make_room(self.detector.n_partitions)
            rows = with_past(rows, self._projection, ordered, self._past)
        columns, known = self._attributes.words(rows, self.detector.remap_codes)
        predicates = [rows[f"{PREDICATE}{i}"] for i in range(len(self.binding.predicates))]
        batch = Batch(partitions, offsets, times, stack_bits(predicates), columns, known)
        try:
            yield from map(self._results, self._found(batch, self.latest, most_rows))
        except MemoryError:
            advice = self.detector.rows_found.advice
            raise MemoryError(f"there is not enough memory for the matches: {advice}") from None
        if self.lateness is None and not self._whole and self._compaction.pass_rows(len(rows)):
            self._compact(INT64_MIN)

    def _found(self, batch: Batch, now: int, most_rows: int = INT64_MAX) -> Iterable[Words]:
        """The result rows of a batch, in portions; a whole input ends at ``now``."""
        if not self._whole:
            return self.detector.portions(batch, most_rows)
        closes = self._at_end == "close"
        if closes:
            self._check_closable()
        return self.detector.detect_whole(batch, now, self._threads, closes, self._enough)

    def _results(self, found: Words) -> pl.DataFrame:
        if not len(found):
            return self.no_results
        rows, left_out = self._passing(found)
        self._counts.matches += int((rows.phases == int(Phase.TRIGGER)).sum())
        self._counts.left_out += left_out
        result = result_frame(self.binding.outputs, rows)
        if self.on_results is not None and self._observed and len(result):
            self.on_results(result)
        return result

    def _passing(self, found: Words) -> tuple[ResultRows, int]:
        """The rows of matches that fulfil WHERE, and how many matches do not."""
        keys = self._partitions.keys(ResultRow.column_of(found, "partition"))
        words = self.binding.compiled.output_words
        rows = ResultRows(found, words, keys, self._attributes.values)
        condition = self.binding.condition
        if condition is None or not len(found):
            return rows, 0
        holds = condition.holds(rows).copy()
        left_out = int((rows.phases[~holds] == int(Phase.TRIGGER)).sum())
        if condition.judged is not None:
            passing = replace(rows, rows=found[holds])
            holds[holds] = self._judge(condition.judged, passing)
        kept = keys.filter(pl.Series(holds)) if keys.width else keys
        return replace(rows, rows=found[holds], keys=kept), left_out

    def _judge(self, judged: Judged, passing: ResultRows) -> NDArray[np.bool_]:
        """Which of the matches that fulfil WHERE are given."""
        return self.detector.judge(*judged.rows(passing))

    def concatenated(self, results: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Results as one frame, without a query of Polars where one of them has all rows."""
        some = [result for result in results if len(result)]
        if not some:
            return self.no_results.clear()
        return some[0] if len(some) == 1 else pl.concat(some)

    # -- the clock --------------------------------------------------------------------------------

    def _advance_watermark(self, now: int) -> pl.DataFrame:
        """Time is ``now`` in all partitions."""
        result = self._results(self.detector.advance(now))
        if self._compaction.pass_time(now, self.detector.window, self.detector.n_partitions):
            self._compact(now)
        return result

    def _unneeded(self, idle: Words, now: int) -> Words:
        """Which of the partitions that hold no interval need not be kept for their earlier events."""
        if not idle.size or not self._past:
            return idle
        self._past.make_room(self.detector.n_partitions)
        needed = self._past.needed(idle, self._partitions.last_times(idle), now)
        self._past.forget(idle[~needed])
        return idle[~needed]

    def _compact(self, now: int) -> None:
        """Free what can no longer take part in a match: state is bounded by the window."""
        idle = self.detector.compact(now, self.closable)
        idle = self._unneeded(idle, now)
        if idle.size and isinstance(self._partitions, Partitions):
            self._partitions.release(idle)
        self._attributes.compact(self.detector.used_codes, self.detector.remap_codes)
