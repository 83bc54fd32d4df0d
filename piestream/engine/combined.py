"""One open stream of a query that reads several streams, intervals, or other queries.

Rows of all streams wait in one buffer for one watermark. An instant is worked on when the watermark
has passed it: by then all rows of it have come, of whatever stream. A query in brackets is an open
stream of its own, whose result rows come in as intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN, OPEN
from piestream.engine import ordering
from piestream.engine.announced import AnnouncedIntervals, AnnouncedRows
from piestream.engine.batches import Batch, IntervalRows
from piestream.engine.bits import stack_bits
from piestream.engine.detector import PORTION_ROWS
from piestream.engine.instants import EventRows, Instants, merged, silences
from piestream.engine.partitions import Partitions
from piestream.engine.previous import with_previous
from piestream.engine.projection import ATTRIBUTE, PREDICATE, TIME, Projection
from piestream.engine.reordering import tie_error
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.engine.union import (
    END,
    ID,
    NUMBER,
    START,
    STREAM,
    CombinedProjection,
    own_column,
)
from piestream.engine.validation import damaged
from piestream.language.model import StreamKind
from piestream.language.options import AtEnd, OnLate, Ties
from piestream.plan.binding import Binding, input_key

__all__ = ["CombinedStream", "open_stream", "stream_kind"]

Words = NDArray[np.int64]

#: The rows of each input that come together, by its name.
Frames = Mapping[str, pl.DataFrame]


def open_stream(binding: Binding, **options: Any) -> Stream:
    """The open stream of a query, whatever it reads."""
    return stream_kind(binding)(binding, **options)


def stream_kind(binding: Binding) -> type[Stream]:
    """The class of the open streams of a query."""
    if binding.query.rows is not None:
        # its loops are compiled when first needed, which for many is never
        from piestream.engine.row_stream import RowStream

        return RowStream
    return CombinedStream if binding.parts else Stream


@dataclass(slots=True)
class CarriedState:
    """What one stream of events hands on from batch to batch, by the partition's number."""

    last_times: Words
    bits: NDArray[np.bool_]  # a row for each predicate
    values: dict[int, pl.Series]  # of attributes that are carried on
    previous: dict[str, pl.Series]  # the columns of PREV at the latest event

    def make_room(self, count: int) -> None:
        """Room for partitions that are new."""
        missing = count - len(self.last_times)
        if missing > 0:
            self.last_times = np.concatenate([self.last_times, np.full(missing, INT64_MIN)])
            more = np.zeros((len(self.bits), missing), np.bool_)
            self.bits = np.concatenate([self.bits, more], axis=1)
            for number, values in self.values.items():
                self.values[number] = values.extend_constant(None, missing)
        for name, values in self.previous.items():
            if count > len(values):
                self.previous[name] = values.extend_constant(None, count - len(values))

    def frame(self) -> pl.DataFrame:
        """All of it as columns."""
        columns = [pl.Series("last", self.last_times)]
        columns += [pl.Series(f"bit {n}", bits) for n, bits in enumerate(self.bits)]
        columns += [values.alias(f"value {n}") for n, values in self.values.items()]
        columns += [values.alias(f"previous {n}") for n, values in self.previous.items()]
        return pl.DataFrame(columns)

    def of(self, frame: pl.DataFrame) -> CarriedState:
        """The state that a frame of these columns is of."""
        bits = [frame[f"bit {n}"].to_numpy() for n in range(len(self.bits))]
        return CarriedState(
            frame["last"].to_numpy().copy(),
            np.array(bits, np.bool_).reshape(len(bits), len(frame)),
            {n: frame[f"value {n}"] for n in self.values},
            {n: frame[f"previous {n}"] for n in self.previous},
        )

    def forget(self, partitions: Words) -> None:
        """Partitions that hold nothing any more; their numbers may be given again."""
        self.last_times[partitions] = INT64_MIN
        self.bits[:, partitions] = False


@dataclass(slots=True)
class _Merged:
    """The instants of a batch, and what holds at each."""

    instants: Instants
    bits: list[pl.Series] = field(default_factory=list)
    columns: dict[int, pl.Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _KnownIntervals:
    """The rows of intervals of a batch, by group and instant."""

    rows: pl.DataFrame  # of the union
    groups: Words
    starts: Words
    ends: Words
    symbols: Words
    numbers: Words

    def as_rows(
        self, some: NDArray[np.bool_], columns: Words, known: NDArray[np.uint8]
    ) -> IntervalRows:
        """As the detector takes them, for the groups in which there is some instant."""
        offsets = np.searchsorted(self.groups, np.arange(len(some) + 1)).astype(np.int64)
        return IntervalRows(
            np.concatenate(([0], offsets[1:][some])),
            self.rows[TIME].to_numpy(),
            self.starts,
            self.ends,
            self.symbols,
            self.numbers,
            np.ascontiguousarray(columns),
            np.ascontiguousarray(known),
        )


class CombinedStream(Stream):
    """The state of one query over several streams of many partitions."""

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
        enough: int = INT64_MAX - 1,
    ) -> None:
        options: dict[str, Any] = {"ties": ties, "lateness": lateness, "on_late": on_late}
        options |= {"whole": whole, "threads": threads, "at_end": at_end, "closable": closable}
        super().__init__(binding, **options, enough=enough)
        self.inner = {
            number: open_stream(part.inner, **options)
            for number, part in enumerate(binding.parts)
            if part.inner is not None
        }
        self._carried = {
            number: self._no_state(number)
            for number, part in enumerate(binding.parts)
            if part.source.kind is StreamKind.EVENTS
        }
        self._announced = {
            number: AnnouncedIntervals(self._union.schema[own_column(number, ID)])
            for number, part in enumerate(binding.parts)
            if part.source.id is not None
        }
        self._gaps = self._gap_ticks()
        self._next_silence = INT64_MAX  # no silence ends anything before or at this time
        self._next_number = 0  # of an interval

    def _new_projection(self, binding: Binding) -> Projection:
        return CombinedProjection(binding)

    @property
    def _union(self) -> CombinedProjection:
        assert isinstance(self._projection, CombinedProjection)
        return self._projection

    def _gap_ticks(self) -> dict[int, int]:
        query, time = self.binding.query, self.binding.time
        return {
            number: query.ticks(
                query.part(number, "max_gap"), source.max_gap, time.nanoseconds_per_tick
            )
            for number, source in enumerate(query.streams)
            if source.max_gap is not None
        }

    def _no_state(self, number: int) -> CarriedState:
        part = self.binding.parts[number]
        carried = {
            n: pl.Series(dtype=self._union.schema[self._attribute_column(n)])
            for n in part.attributes
            if self.binding.attributes[n].carried
        }
        schema = part.binding.schema
        return CarriedState(
            np.zeros(0, np.int64),
            np.zeros((len(part.predicates), 0), np.bool_),
            carried,
            {name: pl.Series(dtype=schema[name]) for name in part.binding.previous},
        )

    def _attribute_column(self, number: int) -> str:
        """The column of an attribute among the rows of the union."""
        stream = self.binding.attributes[number].stream
        place = self.binding.parts[stream].attributes.index(number)
        return own_column(stream, f"{ATTRIBUTE}{place}")

    # -- rows in ----------------------------------------------------------------------------------

    def process_inputs(
        self, frames: Frames, seen: int | None = None, *, unordered: bool = False
    ) -> pl.DataFrame:
        """Process rows of inputs, given by their names.

        ``seen``: the largest time of rows that come with these, of whatever input. ``unordered``
        rows are judged late by the watermark before them, not by each other.
        """
        union = self._union
        own = [
            self._numbered(number, union.of_stream(number, frames[part.key]))
            for number, part in enumerate(self.binding.parts)
            if part.inner is None and part.key in frames
        ]
        rows = pl.concat([pl.DataFrame(schema=union.schema), *own])
        if seen is None:
            seen = self._latest_of(frames)
        return self.process_union(rows, frames, seen, unordered)

    def process_union(
        self, rows: pl.DataFrame, frames: Frames, seen: int, unordered: bool = False
    ) -> pl.DataFrame:
        """Process rows of the union, and of the inputs those that queries in brackets read."""
        buffer = self._buffer
        with self._change:
            with self._unchanged_on_error():
                if buffer.lateness is not None and len(rows):
                    rows = buffer.without_late(rows, unordered)
                rows = self._union.with_ends(rows)
                for number, stream in self.inner.items():
                    stream.closable = self.closable
                    found = _inner_results(stream, frames, seen, unordered)
                    known = self._numbered(number, self._union.of_stream(number, found))
                    rows = pl.concat([rows, known])
                buffer.observe_time(seen)
                released = rows if buffer.lateness is None else buffer.passed(rows)
                results = [self._detect_until(released, self._limit)]
            if self.lateness is not None and buffer.latest != INT64_MIN:
                results.append(self._advance_watermark(buffer.watermark))
            self.changes += 1
            return self._concat(results)

    @property
    def _limit(self) -> int:
        """The time up to which, it not included, everything is known."""
        return self.latest if self.lateness is None else self._buffer.watermark

    def _latest_of(self, frames: Frames) -> int:
        """The largest instant in rows of inputs."""
        seen = self.latest
        for number, part in enumerate(self.binding.parts):
            if part.inner is not None:
                seen = max(seen, _latest(self.inner[number], frames))
            elif part.key in frames:
                times = self._union.of_stream(number, frames[part.key])[TIME]
                seen = max(seen, int(times.max() if len(times) else INT64_MIN))  # type: ignore[arg-type]
        return seen

    def _numbered(self, number: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of intervals with numbers that no other interval has had."""
        part = self.binding.parts[number]
        if not part.source.is_ready_made or part.source.id is not None or not len(rows):
            return rows
        first = self._next_number
        self._next_number = first + int(rows[NUMBER].max()) + 1  # type: ignore[arg-type]
        return rows.with_columns(pl.col(NUMBER) + first)

    def process_event(self, *_: Any) -> None:
        """Single events take the way of frames: rows of other streams may come for their instant."""

    def process(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Process rows of the only input."""
        (key,) = {part.key for part in self.binding.parts if part.inner is None}
        return self.process_inputs({key: frame})

    # -- time -------------------------------------------------------------------------------------

    def observe_time(self, time: int) -> None:
        """Elsewhere the stream has got to this time: the next call counts on it."""
        super().observe_time(time)
        for stream in self.inner.values():
            stream.observe_time(time)

    def advance(self, time: int) -> pl.DataFrame:
        """All rows before ``time`` have come: process what waited for that."""
        if self.lateness is None:
            raise ValueError("a bounded input has no clock to advance")
        self._buffer.observe_watermark(time)
        return self.process_inputs({}, self._buffer.latest)

    def last_portions(
        self, at_end: AtEnd | None = None, most_rows: int = PORTION_ROWS
    ) -> Iterator[pl.DataFrame]:
        """What is left when no more rows come, at the largest time seen.

        ``at_end`` "close" ends what is open at the last instant of its partition.
        """
        with self._change:
            inner = [
                self._numbered(number, self._union.of_stream(number, stream.finish(at_end)))
                for number, stream in self.inner.items()
            ]
            rows = pl.concat([pl.DataFrame(schema=self._union.schema), *inner])
            if self._buffer:
                rows = pl.concat([self._buffer.drain(), rows])
            yield self._detect_until(rows, self.latest)
            if self.lateness is not None and self._buffer.latest != INT64_MIN:
                yield self._advance_watermark(self._buffer.latest)
            if not self._whole:
                yield from self._closed(at_end, most_rows)
            self._finished = True
            self.changes += 1

    @property
    def next_deadline(self) -> int | None:
        """The earliest watermark at which there is something to do even if no row comes."""
        deadlines = [super().next_deadline, *(s.next_deadline for s in self.inner.values())]
        if self._next_silence != INT64_MAX:
            deadlines.append(self._next_silence + 1)
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

    def input_schemas(self) -> dict[str, dict[str, pl.DataType]]:
        """The columns that are read of each input, of queries in brackets too."""
        found: dict[str, dict[str, pl.DataType]] = {}
        for number, part in enumerate(self.binding.parts):
            if part.inner is None:
                columns = {name: part.binding.schema[name] for name in part.binding.columns}
                found.setdefault(part.key, {}).update(columns)
                continue
            inner = self.inner[number]
            if isinstance(inner, CombinedStream):
                below = inner.input_schemas()
            else:
                schema = inner.binding.schema
                key = input_key(inner.binding.query.streams[0])
                below = {key: {name: schema[name] for name in inner.binding.columns}}
            for key, columns in below.items():
                found.setdefault(key, {}).update(columns)
        return found

    def export_counters(self) -> dict[str, int]:
        """The numbers that a state has besides those of its parts."""
        return {"next_number": self._next_number, "next_silence": self._next_silence}

    def export_parts(self) -> list[pl.DataFrame | Stream]:
        """What each part hands on, in the order of the partitions in use; or its own stream."""
        assert isinstance(self._partitions, Partitions)
        used = pl.Series(self._partitions.used(), dtype=pl.UInt32)
        parts: list[pl.DataFrame | Stream] = []
        for number in range(len(self.binding.parts)):
            if number in self.inner:
                parts.append(self.inner[number])
            elif number in self._carried:
                state = self._carried[number]
                state.make_room(self.detector.n_partitions)
                parts.append(state.frame()[used])
            elif number in self._announced:
                places = {int(p): place for place, p in enumerate(used.to_list())}
                parts.append(self._announced[number].frame(places))
            else:
                parts.append(pl.DataFrame())
        return parts

    def restore_parts(self, parts: list[pl.DataFrame | Stream], counters: dict[str, int]) -> None:
        """Take over what `export_parts` and `export_counters` gave, in a stream just restored."""
        self._next_number = counters["next_number"]
        self._next_silence = counters["next_silence"]
        for number, part in enumerate(parts):
            if isinstance(part, Stream):
                self.inner[number] = part
            elif number in self._carried:
                expected = self._carried[number].frame().schema
                count = self.detector.n_partitions
                if part.schema != expected or len(part) != count:
                    raise damaged("what a stream hands on does not fit its columns")
                self._carried[number] = self._carried[number].of(part)
            elif number in self._announced:
                if part.schema != self._announced[number].frame({}).schema:
                    raise damaged("the intervals that have begun do not fit their columns")
                self._announced[number].restore(part)

    @property
    def _remembers(self) -> bool:
        """Whether partitions that hold nothing are kept, for the values of their latest events."""
        return any(part.binding.previous for part in self.binding.parts)

    def _compact(self, now: int) -> None:
        super()._compact(now)
        used = set(self._partitions.number_of.values())
        free = [n for n in range(self.detector.n_partitions) if n not in used]
        for state in self._carried.values():
            state.make_room(self.detector.n_partitions)
            state.forget(np.array(free, np.int64))
        for announced in self._announced.values():
            announced.forget(now - self.detector.window - 1, set(free))

    # -- the detector -----------------------------------------------------------------------------

    def _detect_until(self, rows: pl.DataFrame, limit: int) -> pl.DataFrame:
        """The results of all instants before ``limit``, whose rows these are."""
        silent = self._silent(limit)
        if not len(rows) and not silent.size:
            return self.no_results
        rows, numbers, group_of = self._sorted(rows, silent)
        self._counts.events += len(rows)
        self._since_compaction += len(rows)
        stored = not self._whole
        intervals = self._known_intervals(rows, numbers, group_of)
        found = self._merge(rows, numbers, group_of, limit, stored)
        batch = self._batch(found, numbers, intervals)
        if self._whole:
            closes = self._at_end == "close"
            if closes:
                self._check_closable()
            portions = self.detector.detect_whole(batch, limit, self._threads, closes, self._enough)
            return self._concat(list(map(self._results, portions)))
        return self._results(self.detector.detect(batch))

    def _silent(self, limit: int) -> Words:
        """The partitions in which a silence may have ended something before ``limit``."""
        if self._next_silence >= limit:
            return np.zeros(0, np.int64)
        due: list[Words] = []
        following = INT64_MAX
        for number, gap in self._gaps.items():
            state = self._carried[number]
            is_open = np.flatnonzero(state.bits.any(axis=0))
            times = state.last_times[is_open]
            passed = np.array(limit).astype(np.uint64) - times.astype(np.uint64)  # without sign
            over = (times < limit) & (passed > np.uint64(gap))
            due.append(is_open[over])
            if len(times[~over]):
                following = min(following, int(times[~over].min()) + gap)
        self._next_silence = min(following, INT64_MAX)
        return np.unique(np.concatenate(due)) if due else np.zeros(0, np.int64)

    def _sorted(self, rows: pl.DataFrame, silent: Words) -> tuple[pl.DataFrame, Words, Words]:
        """Rows by partition, time and stream; the partitions' numbers; the group of each row.

        Behind the partitions of the rows stand those that are only ``silent``.
        """
        union = self._union
        grouped = ordering.group(rows, union.keys)
        if not len(rows):
            return rows, silent, np.zeros(0, np.int64)
        partitions = self._partitions.known(grouped.keys)
        group_of = np.repeat(np.arange(len(grouped.offsets) - 1), np.diff(grouped.offsets))
        rows = grouped.sorted_rows()
        times, streams = rows[TIME].to_numpy(), rows[STREAM].to_numpy()
        order = np.lexsort((streams, times, group_of))
        rows, group_of = rows[order], group_of[order]
        keep = self._untied(rows, group_of)
        if not keep.all():
            if self.ties == "error":
                raise tie_error(union, rows, int(np.flatnonzero(~keep)[0]))
            self._counts.ties += int(keep.size - keep.sum())
            rows, group_of = rows.filter(pl.Series(keep)), group_of[keep]
        numbers = self._partitions.admit(grouped.keys, partitions)
        return rows, np.concatenate([numbers, np.setdiff1d(silent, numbers)]), group_of

    def _untied(self, rows: pl.DataFrame, group_of: Words) -> NDArray[np.bool_]:
        """Which rows stay when one event of each stream and time does."""
        times, streams = rows[TIME].to_numpy(), rows[STREAM].to_numpy()
        ready = np.array([part.source.is_ready_made for part in self.binding.parts])
        again = np.zeros(len(rows), np.bool_)
        again[1:] = (
            (group_of[1:] == group_of[:-1])
            & (times[1:] == times[:-1])
            & (streams[1:] == streams[:-1])
            & ~ready[streams[1:]]
        )
        keep = ~again
        if self.ties == "last":
            keep = np.ones(len(rows), np.bool_)
            keep[:-1] = ~again[1:]
        return keep

    def _merge(
        self, rows: pl.DataFrame, numbers: Words, group_of: Words, limit: int, stored: bool
    ) -> _Merged:
        """The instants of rows, with the predicates and the values that hold at each."""
        streams, times = rows[STREAM].to_numpy(), rows[TIME].to_numpy()
        n_groups = len(numbers)
        mine = {
            number: np.flatnonzero(streams == number) for number in range(len(self.binding.parts))
        }
        events: dict[int, EventRows] = {}
        frames: dict[int, pl.DataFrame] = {}
        lists: list[tuple[Words, Words]] = []
        ends: dict[int, tuple[Words, Words]] = {}
        for number, at in mine.items():
            lists.append((group_of[at], times[at]))
            if number not in self._carried:
                continue
            state = self._carried[number] if stored else self._no_state(number)
            if stored:
                state.make_room(self.detector.n_partitions)
            frames[number], events[number] = self._event_rows(
                number, rows[at], numbers, lists[-1], state if stored else None
            )
            if number in self._gaps:
                ends[number] = silences(events[number], self._gaps[number], limit)
        instants = merged(n_groups, [*lists, *ends.values()])
        found = _Merged(instants)
        end_places = dict(zip(ends, instants.places[len(lists) :], strict=True))
        for number, one in events.items():
            places = instants.places[number]
            silent = end_places.get(number, np.zeros(0, np.int64))
            latest = instants.latest(n_groups, one.groups, places, silent)
            nothing = np.zeros((len(one.bits), 1), np.bool_)
            bits = np.concatenate([one.last_bits, one.bits, nothing], axis=1)[:, latest]
            found.bits += [pl.Series(row) for row in bits]
            self._carry(number, found, frames[number], numbers, latest, stored)
            if stored:
                self._store(number, found.instants, one, bits, numbers)
        for number in mine.keys() - self._carried.keys():
            self._no_values(number, found)
        return found

    def _event_rows(
        self,
        number: int,
        rows: pl.DataFrame,
        numbers: Words,
        where: tuple[Words, Words],
        state: CarriedState | None,
    ) -> tuple[pl.DataFrame, EventRows]:
        """The rows of one stream of events, with all of its predicates."""
        groups, times = where
        own = self._union.own_rows(number, rows)
        part = self.binding.parts[number]
        if part.binding.previous:
            some, firsts = np.unique(groups, return_index=True)
            offsets = np.concatenate([firsts, [len(groups)]]).astype(np.int64)
            previous = None if state is None else state.previous
            own = with_previous(own, self._union.parts[number], numbers[some], offsets, previous)
        bits = np.zeros((len(part.predicates), len(own)), np.bool_)
        for place in range(len(part.predicates)):
            bits[place] = own[f"{PREDICATE}{place}"].fill_null(False).to_numpy()
        if state is None:
            last_times = np.full(len(numbers), INT64_MIN)
            last_bits = np.zeros((len(part.predicates), len(numbers)), np.bool_)
        else:
            last_times, last_bits = state.last_times[numbers], state.bits[:, numbers]
        return own, EventRows(groups, times, bits, last_times, last_bits)

    def _carry(
        self,
        number: int,
        found: _Merged,
        own: pl.DataFrame,
        numbers: Words,
        latest: Words,
        stored: bool,
    ) -> None:
        """The values of one stream's attributes at all instants."""
        part = self.binding.parts[number]
        n_instants = len(found.instants.times)
        for place, attribute in enumerate(part.attributes):
            values = own[f"{ATTRIBUTE}{place}"]
            if not self.binding.attributes[attribute].carried:
                at = pl.Series(found.instants.places[number], dtype=pl.UInt32)
                column = pl.repeat(None, n_instants, dtype=values.dtype, eager=True)
                found.columns[attribute] = column.scatter(at, values) if len(at) else column
                continue
            before = pl.repeat(None, len(numbers), dtype=values.dtype, eager=True)
            state = self._carried[number].values
            if stored:
                before = state[attribute].gather(pl.Series(numbers))
            nothing = pl.repeat(None, 1, dtype=values.dtype, eager=True)
            column = pl.concat([before, values, nothing]).gather(pl.Series(latest))
            found.columns[attribute] = column
            if stored:
                last = found.instants.offsets[1:] - 1
                some = found.instants.offsets[1:] > found.instants.offsets[:-1]
                state[attribute] = state[attribute].scatter(
                    pl.Series(numbers[some]), column.gather(pl.Series(last[some]))
                )

    def _store(
        self,
        number: int,
        instants: Instants,
        rows: EventRows,
        bits: NDArray[np.bool_],
        numbers: Words,
    ) -> None:
        """Keep what one stream's latest event of each partition says."""
        state = self._carried[number]
        some = instants.offsets[1:] > instants.offsets[:-1]
        state.bits[:, numbers[some]] = bits[:, instants.offsets[1:][some] - 1]
        state.last_times[numbers[rows.groups]] = rows.times  # the last of each stays
        if number in self._gaps:
            is_open = state.bits[:, numbers].any(axis=0)
            first = int(state.last_times[numbers[is_open]].min(initial=INT64_MAX))
            self._next_silence = min(self._next_silence, first + self._gaps[number], INT64_MAX)

    def _no_values(self, number: int, found: _Merged) -> None:
        """Rows of intervals have their values for themselves, not at instants."""
        for attribute in self.binding.parts[number].attributes:
            dtype = self._union.schema[self._attribute_column(attribute)]
            found.columns[attribute] = pl.repeat(
                None, len(found.instants.times), dtype=dtype, eager=True
            )

    def _known_intervals(
        self, rows: pl.DataFrame, numbers: Words, group_of: Words
    ) -> _KnownIntervals | None:
        """The rows of intervals among these, told apart; None where no stream has any."""
        ready = np.array([part.source.is_ready_made for part in self.binding.parts])
        if not ready.any():
            return None
        streams = rows[STREAM].to_numpy()
        at = np.flatnonzero(ready[streams])
        rows, groups, streams = rows[at], group_of[at], streams[at]
        starts = rows[START].to_numpy().copy()
        is_open = rows[END].is_null().to_numpy()
        own_numbers = rows[NUMBER].fill_null(0).to_numpy().copy()
        symbols = np.zeros(len(rows), np.int64)
        keep = np.ones(len(rows), np.bool_)
        for number in np.flatnonzero(ready):
            mine = np.flatnonzero(streams == number)
            symbols[mine] = self._symbols_of(int(number), rows[mine])
            announced = self._announced.get(int(number))
            if announced is None:
                continue
            times = rows[TIME].to_numpy()[mine]
            mine = mine[np.lexsort((is_open[mine], times, groups[mine]))]
            ids = rows[own_column(int(number), ID)].gather(pl.Series(mine)).to_list()
            of_rows = AnnouncedRows(
                numbers[groups[mine]], starts[mine], is_open[mine], ids, symbols[mine]
            )
            found = announced.number(of_rows, self._take_number)
            own_numbers[mine], starts[mine] = found.numbers, found.starts
            symbols[mine], keep[mine] = found.symbols, found.keep
        self._counts.ties += int(keep.size - keep.sum())
        ends = rows[END].fill_null(OPEN).to_numpy()
        return _KnownIntervals(
            rows.filter(pl.Series(keep)),
            groups[keep],
            starts[keep],
            ends[keep],
            symbols[keep],
            own_numbers[keep],
        )

    def _symbols_of(self, number: int, rows: pl.DataFrame) -> Words:
        """A bit for each symbol whose predicate holds of a row of intervals."""
        part = self.binding.parts[number]
        own = self._union.own_rows(number, rows)
        taken = np.zeros(len(rows), np.uint64)
        bits = iter(part.binding.bit_of_symbol)
        for symbol, one in enumerate(self.binding.query.symbols):
            if one.stream == number:
                holds = own[f"{PREDICATE}{next(bits)}"].fill_null(False).to_numpy()
                taken |= holds.astype(np.uint64) << np.uint64(symbol)
        return taken.view(np.int64)

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _batch(self, found: _Merged, numbers: Words, intervals: _KnownIntervals | None) -> Batch:
        instants = found.instants
        n_attributes = len(self.binding.attributes)
        values = pl.DataFrame(
            {f"{ATTRIBUTE}{number}": found.columns[number] for number in range(n_attributes)}
        )
        if n_attributes and intervals is not None:
            names = {self._attribute_column(n): f"{ATTRIBUTE}{n}" for n in range(n_attributes)}
            values = pl.concat([values, intervals.rows.select(list(names)).rename(names)])
        columns, known = self._attributes(values)
        n_instants = len(instants.times)
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
            else intervals.as_rows(some, columns[:, n_instants:], known[:, n_instants:]),
        )


def _latest(stream: Stream, frames: Frames) -> int:
    """The largest time in the rows of inputs that a query in brackets reads."""
    if isinstance(stream, CombinedStream):
        return stream._latest_of(frames)
    frame = frames.get(input_key(stream.binding.query.streams[0]))
    if frame is None or not len(frame):
        return stream.latest
    times = stream.project(frame)[TIME]
    stream.check_times(times)
    return max(stream.latest, int(times.max()))  # type: ignore[arg-type]


def _inner_results(stream: Stream, frames: Frames, seen: int, unordered: bool) -> pl.DataFrame:
    """The matches of a query in brackets that rows of inputs make known."""
    if isinstance(stream, CombinedStream):
        return stream.process_inputs(frames, seen, unordered=unordered)
    frame = frames.get(input_key(stream.binding.query.streams[0]))
    if stream.lateness is None or frame is None:
        stream.observe_time(seen)
    if frame is None:
        frame = pl.DataFrame(schema=dict(stream.binding.schema))
    if unordered:
        return stream.process_unordered(stream.project(frame), seen)
    return stream.process(frame)
