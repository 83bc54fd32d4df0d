"""One open stream of a query that reads several streams, intervals, or other queries.

Rows of all streams wait in one buffer for one watermark. An instant is worked on when the watermark
has passed it: by then all rows of it have come, of whatever stream. A query in brackets is an open
stream of its own, whose result rows come in as intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.batches import Batch
from piestream.engine.bits import stack_bits
from piestream.engine.columns import joined
from piestream.engine.detector import PORTION_ROWS
from piestream.engine.event_streams import EventStreams, MergedRows
from piestream.engine.instant_numbers import InstantNumbers
from piestream.engine.interval_streams import IntervalStreams, KnownIntervals, values_of_all
from piestream.engine.partitions import Partitions
from piestream.engine.projection import TIME, Projection
from piestream.engine.silences import Silences
from piestream.engine.sorted_rows import SilenceRows, sorted_rows
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream, StreamKeywords
from piestream.engine.union import END, NUMBER, START, CombinedProjection
from piestream.engine.validation import damaged
from piestream.errors import StreamError
from piestream.joins.scratch import IS_OVER
from piestream.language.model import Query
from piestream.language.options import AtEnd
from piestream.plan.binding import Binding, input_key
from piestream.plan.program import numbers_instants

__all__ = [
    "CombinedStream",
    "Frames",
    "JoinStream",
    "inner_results",
    "open_stream",
    "refuse_closing",
    "stream_kind",
]

Words = NDArray[np.int64]

_NO_VALUES = pl.DataFrame()

#: The rows of each input that come together, by its name.
Frames = Mapping[str, pl.DataFrame]


def open_stream(binding: Binding, **options: Unpack[StreamKeywords]) -> Stream:
    """The open stream of a query, whatever it reads."""
    return stream_kind(binding)(binding, **options)


def stream_kind(binding: Binding) -> type[Stream]:
    """The class of the open streams of a query."""
    if binding.query.rows is not None:
        # its loops are compiled when first needed, which for many is never
        from piestream.engine.row_stream import RowStream

        return RowStream
    return CombinedStream if binding.parts else Stream


def refuse_closing(query: Query) -> None:
    """Refuse to end what is open where that would lie in the past.

    What a query in brackets completes then is known at the last event of its partition, which the
    query around it has passed, unless all rows come at once.
    """
    for number, stream in enumerate(query.streams):
        if stream.query is not None:
            raise query.fault(
                query.part(number, "source"),
                "at_end='close' cannot end a query in brackets where rows come bit by bit",
                "run the query over whole frames or files, or leave at_end out",
            )


#: The columns of what numbers the instants, among those of a stream's state.
_NUMBERED = frozenset(InstantNumbers().frame([]).columns)


class CombinedStream(Stream):
    """The state of one query over several streams of many partitions."""

    def __init__(self, binding: Binding, **options: Unpack[StreamKeywords]) -> None:
        super().__init__(binding, **options)
        self.inner = self._open_inner({**options, "enough": INT64_MAX})
        self._events = EventStreams(binding, self._union, self._whole)
        self._intervals = IntervalStreams(binding, self._union)
        self._instants: InstantNumbers | None = None
        if numbers_instants(binding.query):
            self._instants = InstantNumbers(
                any(s.is_ready_made and s.silence is None for s in binding.query.streams)
            )
        self._silences = Silences(binding, self._events.carried, self._whole)

    def _open_inner(self, options: StreamKeywords) -> dict[int, Stream]:
        """The open streams of queries in brackets."""
        return {
            number: open_stream(part.inner, **options)
            for number, part in enumerate(self.binding.parts)
            if part.inner is not None
        }

    def _new_projection(self, binding: Binding) -> Projection:
        return CombinedProjection(binding)

    @property
    def _union(self) -> CombinedProjection:
        assert isinstance(self._projection, CombinedProjection)
        return self._projection

    def set_observed(self, observed: bool) -> None:
        """Whether anybody is told what is found, by `on_results` and by warnings."""
        super().set_observed(observed)
        for stream in self.inner.values():
            stream.set_observed(observed)

    # -- rows in ----------------------------------------------------------------------------------

    def process_inputs(
        self, frames: Frames, seen: int | None = None, *, unordered: bool = False
    ) -> pl.DataFrame:
        """Process rows of inputs, given by their names.

        ``seen``: the largest time of rows that come with these, of whatever input. ``unordered``
        rows are judged late by the watermark before them, not by each other.
        """
        union, intervals = self._union, self._intervals
        given = {
            number: union.of_stream(number, frames[part.key])
            for number, part in enumerate(self.binding.parts)
            if part.source.is_input and part.key in frames
        }
        if seen is None:
            latest = (self._latest_given(number, rows) for number, rows in given.items())
            seen = max(self.reached, self._latest_inside(frames), *latest)
        with self.changes:
            first = intervals.next_number
            try:
                own = [intervals.numbered(number, rows) for number, rows in given.items()]
                rows = joined([union.no_rows, *own])
                return self.process_union(rows, frames, seen, unordered)
            except StreamError:
                intervals.next_number = first
                raise

    def process_union(
        self, rows: pl.DataFrame, frames: Frames, seen: int, unordered: bool = False
    ) -> pl.DataFrame:
        """Process rows of the union, and of the inputs those that queries in brackets read."""
        buffer = self._buffer
        with self.changes:
            with self._unchanged_on_error():
                if buffer.lateness is not None and len(rows):
                    rows = buffer.without_late(rows, unordered)
                rows = self._union.with_ends(rows)
                for number, stream in self.inner.items():
                    stream.closable = self.closable
                    found = inner_results(stream, frames, seen, unordered)
                    known = self._intervals.numbered(number, self._union.of_stream(number, found))
                    rows = joined([rows, known])
                buffer.observe_time(seen)
                released = rows if buffer.lateness is None else buffer.passed(rows)
                results = [self._detect_until(released, self._limit)]
            if unordered:
                self._compaction.allow()
            if self.lateness is not None and buffer.latest != INT64_MIN:
                results.append(self._advance_watermark(buffer.watermark))
            return self.concatenated(results)

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Rows that are refused leave no trace, but for those that went through a query in brackets."""
        before = [stream.changes.begun for stream in self.inner.values()]
        try:
            with super()._unchanged_on_error():
                yield
        except StreamError:
            if [stream.changes.begun for stream in self.inner.values()] != before:
                self.changes.begun += 1
            raise

    @property
    def _limit(self) -> int:
        """The time up to which, it not included, everything is known."""
        return self.latest if self.lateness is None else self._buffer.watermark

    def _latest_of(self, frames: Frames) -> int:
        """The largest instant in rows of inputs."""
        seen = max(self.reached, self._latest_inside(frames))
        for number, part in enumerate(self.binding.parts):
            if part.source.is_input and part.key in frames:
                rows = self._union.of_stream(number, frames[part.key])
                seen = max(seen, self._latest_given(number, rows))
        return seen

    def _latest_given(self, number: int, rows: pl.DataFrame) -> int:
        """The largest instant in rows of an input: of those that are all there are, also of their ends."""
        latest = _latest_time(rows)
        if self.lateness is None and self.binding.parts[number].source.known_at_start:
            end = rows[END].max()
            return latest if end is None else max(latest, int(end))  # type: ignore[arg-type]
        return latest

    @property
    def latest_known(self) -> int:
        """The largest instant of all that is known, ends that are still to come included."""
        waiting = self._buffer.rows
        inside = [s.latest_known for s in self.inner.values() if isinstance(s, CombinedStream)]
        own = INT64_MIN if waiting is None else _latest_time(waiting)
        return max(self.reached, own, *inside)

    def _latest_inside(self, frames: Frames) -> int:
        """The largest instant in rows of inputs that queries in brackets read."""
        return max((_latest(stream, frames) for stream in self.inner.values()), default=INT64_MIN)

    def process_event(self, *_: Any) -> None:
        """Single events take the way of frames: rows of other streams may come for their instant."""

    def process(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Process rows of the only input."""
        (key,) = {part.key for part in self.binding.parts if part.source.is_input}
        return self.process_inputs({key: frame})

    # -- time -------------------------------------------------------------------------------------

    def observe_time(self, time: int) -> None:
        """Elsewhere the stream has got to this time: the next call counts on it."""
        super().observe_time(time)
        for stream in self.inner.values():
            stream.observe_time(time)

    def observe_watermark(self, time: int) -> None:
        """All rows before ``time`` have come: the next call counts on it."""
        super().observe_watermark(time)
        for stream in self.inner.values():
            stream.observe_watermark(time)

    def advance(self, time: int) -> pl.DataFrame:
        """All rows before ``time`` have come: process what waited for that."""
        if self.lateness is None:
            raise ValueError("a bounded input has no clock to advance")
        with self.changes, self._unchanged_on_error():
            self.observe_watermark(time)
            return self.process_inputs({}, self.reached)

    def last_portions(
        self, at_end: AtEnd | None = None, most_rows: int = PORTION_ROWS
    ) -> Iterator[pl.DataFrame]:
        """What is left when no more rows come, at the largest time seen.

        ``at_end`` "close" ends what is open at the last instant of its partition.
        """
        with self.changes:
            self._check_end(at_end)
            self.observe_time(self.latest_known)
            inner = [
                self._intervals.numbered(
                    number, self._union.of_stream(number, stream.finish(at_end))
                )
                for number, stream in self.inner.items()
            ]
            if self._buffer:
                inner = [self._buffer.drain(), *inner]
            rows = joined([self._union.no_rows, *inner])
            yield self._detect_until(rows, self.reached)
            if self._buffer.latest != INT64_MIN and not self._whole:
                yield self._advance_watermark(self.reached)
            if not self._whole:
                yield from self._closed(at_end, most_rows)
            self._finished = True

    @property
    def next_deadline(self) -> int | None:
        """The earliest watermark at which there is something to do even if no row comes."""
        deadlines = [super().next_deadline, *(s.next_deadline for s in self.inner.values())]
        if self._events.next_silence != INT64_MAX:
            deadlines.append(self._events.next_silence + 1)
        if self._silences.next_deadline != INT64_MAX:
            deadlines.append(self._silences.next_deadline + 1)
        return min((d for d in deadlines if d is not None), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held: no row waits, and no partition is known."""
        return super().is_empty and all(stream.is_empty for stream in self.inner.values())

    @property
    def progress(self) -> Statistics:
        """`statistics` without the size of the state, which costs a look at all partitions."""
        inner = [stream.progress for stream in self.inner.values()]
        own = super().progress
        return replace(
            own,
            late=own.late + sum(one.late for one in inner),
            ties=own.ties + sum(one.ties for one in inner),
            waiting=own.waiting + sum(one.waiting for one in inner),
        )

    @property
    def statistics(self) -> Statistics:
        """What the stream has processed and holds now, its queries in brackets included."""
        inner = [stream.statistics for stream in self.inner.values()]
        own = super().statistics
        return replace(
            own,
            live_intervals=own.live_intervals + sum(one.live_intervals for one in inner),
            state_bytes=own.state_bytes + sum(one.state_bytes for one in inner),
        )

    # -- the state --------------------------------------------------------------------------------

    def compact(self) -> None:
        """Free what can no longer take part in a match, in queries in brackets too."""
        super().compact()
        for stream in self.inner.values():
            stream.compact()

    def export_counters(self) -> dict[str, int]:
        """The numbers that a state has besides those of its parts."""
        counters = {
            "next_number": self._intervals.next_number,
            "next_silence": self._events.next_silence,
        }
        if self._silences:
            counters["passed"] = self._silences.passed
            counters["next_deadline"] = self._silences.next_deadline
        return counters

    def export_parts(self) -> list[pl.DataFrame | Stream]:
        """The state of each part between batches, in the order of the partitions in use; or its own stream."""
        assert isinstance(self._partitions, Partitions)
        used = self._partitions.used()
        self._make_room()
        carried, announced = self._events.carried, self._intervals.announced
        parts: list[pl.DataFrame | Stream] = []
        for number in range(len(self.binding.parts)):
            if number in self.inner:
                parts.append(self.inner[number])
            elif number in carried:
                part = carried[number].frame(used)
                if self._instants is not None and number == min(carried):
                    part = part.hstack(self._instants.frame(list(used)))
                parts.append(part)
            elif number in announced:
                parts.append(announced[number].frame({p: n for n, p in enumerate(used)}))
            elif number in self._silences.numbers:
                symbols = self._intervals.silence_symbols[number]
                parts.append(self._silences.frame(number, used, symbols))
            else:
                parts.append(pl.DataFrame())
        return parts

    @staticmethod
    def stored_streams(binding: Binding, counters: Mapping[str, int]) -> set[int]:
        """The parts of which `export_parts` gives a stream of its own."""
        return {number for number, part in enumerate(binding.parts) if part.inner is not None}

    def restore_parts(self, parts: list[pl.DataFrame | Stream], counters: dict[str, int]) -> None:
        """Take over what `export_parts` and `export_counters` gave, in a stream just restored."""
        carried, announced = self._events.carried, self._intervals.announced
        self._intervals.next_number = counters["next_number"]
        self._events.next_silence = counters["next_silence"]
        if self._silences:
            self._silences.passed = counters["passed"]
            self._silences.next_deadline = counters["next_deadline"]
        for number, part in enumerate(parts):
            if isinstance(part, Stream):
                self.inner[number] = part
            elif number in carried:
                if self._instants is not None and number == min(carried):
                    own = [name for name in part.columns if name not in _NUMBERED]
                    self._instants.restore(part.drop(own))
                    part = part.select(own)
                expected = carried[number].frame([]).schema
                count = self.detector.n_partitions
                if part.schema != expected or len(part) != count:
                    raise damaged("what a stream hands on does not fit its columns")
                carried[number] = carried[number].of(part)
            elif number in announced:
                if part.schema != announced[number].frame({}).schema:
                    raise damaged("the intervals that have begun do not fit their columns")
                announced[number].restore(part)
            elif number in self._silences.numbers:
                count = self.detector.n_partitions
                if part.schema != self._silences.frame(number, [], 0).schema:
                    raise damaged("the silences that have begun do not fit their columns")
                if not part["partition"].is_between(0, count, closed="left").all():
                    raise damaged("a silence is that of no partition")
                self._silences.restore(number, part, count)

    def _make_room(self) -> None:
        """Room for partitions that are new."""
        self._events.make_room(self.detector.n_partitions)
        self._silences.make_room(self.detector.n_partitions)

    def _unneeded(self, idle: Words, now: int) -> Words:
        """Which of the partitions that hold no interval need not be kept for their earlier events."""
        if any(part.binding.past for part in self.binding.parts):
            return idle[:0]
        if self._silences:
            self._make_room()
            idle = idle[~self._silences.await_deadlines(idle)]
        return idle

    def _compact(self, now: int) -> None:
        super()._compact(now)
        used = set(self._partitions.number_of.values())
        free = [n for n in range(self.detector.n_partitions) if n not in used]
        self._make_room()
        awaited = self.detector.awaited_rows()
        gone = np.array(free, np.int64)
        self._silences.forget(lambda n: self._intervals.kept_since(n, now), awaited, gone)
        self._events.forget(gone)
        earliest = self._intervals.forget(now, awaited, set(free))
        if self._instants is not None:
            # an end that is still to come finds its interval by its start
            waiting = self._buffer.rows if self._instants.keeps_times else None
            starts = [] if waiting is None else waiting[START].drop_nulls().bottom_k(1).to_list()
            earliest = min([earliest, *starts])
            self._instants.forget(max(earliest, INT64_MIN), set(free))

    # -- the detector -----------------------------------------------------------------------------

    def _detect_until(self, rows: pl.DataFrame, limit: int) -> pl.DataFrame:
        """The results of all instants before ``limit``, whose rows these are."""
        came, n_ties = sorted_rows(rows, self._union, self._partitions, self.ties)
        self._counts.ties += n_ties
        due = self._due(limit)
        if due.size:  # behind the partitions of the rows
            numbers = np.concatenate([came.numbers, np.setdiff1d(due, came.numbers)])
            came = replace(came, numbers=numbers)
        if not len(came.numbers):
            self._silences.pass_time(limit)
            return self.no_results
        self._counts.events += len(came.rows)
        self._compaction.since += len(came.rows)
        if not self._whole:
            self._make_room()
        silent: list[SilenceRows] = []
        if self._silences:
            silent = self._silences.found(came, limit, self._intervals.take_numbers)
            self._silences.pass_time(limit)
        found = self._events.merged(came, silent, limit)
        if self._instants is not None:
            shift = self._instants.add(found.instants, came.numbers)
            found.numbers = 2 * found.instants.times + shift
            found.counts.append(shift + IS_OVER * found.instants.is_over)
            self._events.keep_instants(came, found)
        intervals = self._intervals.known(came, silent, found, self._instants)
        self._counts.ties += 0 if intervals is None else intervals.repeated
        batch = self._batch(found, came.numbers, intervals)
        return self.concatenated(list(map(self._results, self._found(batch, limit))))

    def _due(self, limit: int) -> Words:
        """The partitions in which time alone may bring something before ``limit``."""
        silent, due = self._events.silent(limit), self._silences.due(limit)
        return np.union1d(silent, due) if due.size else silent

    def _batch(self, found: MergedRows, numbers: Words, intervals: KnownIntervals | None) -> Batch:
        instants = found.instants
        values = _NO_VALUES
        if self.binding.attributes:
            values = values_of_all(found, intervals, self._union)
        n_instants = len(instants.times)
        n_intervals = 0 if intervals is None else len(intervals.instants)
        words = self._attributes.words(values, self.detector.remap_codes)
        columns, known = found.with_counts(*words, n_intervals)
        some = instants.offsets[1:] > instants.offsets[:-1]
        offsets = np.concatenate(([0], instants.offsets[1:][some]))
        return Batch(
            numbers[some],
            offsets,
            instants.times,
            stack_bits(found.bits),
            np.ascontiguousarray(columns[:, :n_instants]),
            np.ascontiguousarray(known[:, :n_instants]),
            None
            if intervals is None
            else intervals.as_rows(
                some, columns[:, n_instants:], known[:, n_instants:], found.numbers
            ),
        )


class JoinStream(CombinedStream):
    """Joins intervals that have been found elsewhere, whatever their streams are."""

    def _open_inner(self, options: StreamKeywords) -> dict[int, Stream]:
        return {}

    def joined(self, rows: pl.DataFrame, passed: int) -> pl.DataFrame:
        """The results of intervals that are all there are, as rows of the union.

        Time before ``passed`` has passed in all partitions.
        """
        self._buffer.observe_time(passed)
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(NUMBER))
        return self.concatenated([self._detect_until(rows, passed), *self.last_portions()])


def _latest_time(rows: pl.DataFrame) -> int:
    """The largest instant of rows of the union."""
    return int(rows[TIME].max()) if len(rows) else INT64_MIN  # type: ignore[arg-type]


def _latest(stream: Stream, frames: Frames) -> int:
    """The largest time in the rows of inputs that a query in brackets reads."""
    if isinstance(stream, CombinedStream):
        return stream._latest_of(frames)
    frame = frames.get(input_key(stream.binding.query.streams[0]))
    if frame is None or not len(frame):
        return stream.reached
    times = stream.project(frame)[TIME]
    stream.check_times(times)
    return max(stream.reached, int(times.max()))  # type: ignore[arg-type]


def inner_results(stream: Stream, frames: Frames, seen: int, unordered: bool) -> pl.DataFrame:
    """The matches of a query in brackets that rows of inputs make known."""
    if isinstance(stream, CombinedStream):
        return stream.process_inputs(frames, seen, unordered=unordered)
    frame = frames.get(input_key(stream.binding.query.streams[0]))
    nothing = pl.DataFrame(schema=dict(stream.binding.schema))
    if not unordered:
        if stream.lateness is None or frame is None:
            stream.observe_time(seen)
        found = stream.process(nothing if frame is None else frame)
        if stream.latest >= seen:
            return found
        stream.observe_time(seen)  # it has got there in other streams
        return pl.concat([found, stream.process(nothing)])
    rows = stream.project(nothing if frame is None else frame)
    found = stream.process_unordered(rows, stream.reached)
    stream.observe_time(seen)
    return pl.concat([found, stream.process(nothing)])
