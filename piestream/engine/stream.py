"""One open stream of a query: rows in any order that is allowed, result rows out.

Narrowing (only the columns that matter, predicates evaluated), reordering up to the watermark,
grouping by partition and ordering by time, ties; then the detector. Batch, session and Spark
differ only in which rows they hand over when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.layout import INT64_MAX, INT64_MIN, PHASE_TRIGGER, ROW_PARTITION, ROW_PHASE
from piestream.engine import ordering as order
from piestream.engine.detector import Batch, Detector
from piestream.engine.dictionaries import Dictionary
from piestream.engine.partitions import Partitions, WholePartitions
from piestream.engine.previous import make_room, with_previous
from piestream.engine.projection import ATTRIBUTE, PREDICATE, TIME, Projection
from piestream.errors import LateEventError, OrderError, SchemaError, TieError
from piestream.plan.binding import CODE, FLOAT, Binding, stack_bits
from piestream.plan.outputs import result_frame

Ties = Literal["error", "first", "last"]
OnLate = Literal["error", "drop"]

Words = NDArray[np.int64]

#: A bounded input is tidied up (room, dictionaries) after so many rows.
_TIDY_ROWS = 1 << 22
#: A sweep goes through all partitions, so it waits for an eighth as many events, at least these.
_SWEPT_EVENTS = 16
#: A stream in which little comes is swept all the same, after so many windows.
_QUIET_WINDOWS = 8


@dataclass(slots=True)
class Statistics:
    """What a stream has seen and holds.

    ``events`` were worked on; ``late`` ones and those left out of ``ties`` were not; ``waiting``
    ones wait for the watermark.
    """

    events: int = 0
    late: int = 0
    ties: int = 0
    waiting: int = 0
    matches: int = 0
    partitions: int = 0
    live_intervals: int = 0
    state_bytes: int = 0


class Stream:
    """The state of one query over one stream of many partitions.

    ``lateness`` None is a bounded input: rows of a partition come in order of time, whatever the
    order of the partitions, and nothing is late. Where it comes ``whole``, in one `take`, no state
    is kept, and partitions may be shared out to ``threads``.
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
    ) -> None:
        self.binding = binding
        self.whole = whole
        self.threads = threads
        self.ties = ties
        self.lateness = lateness
        self.on_late = on_late
        self.detector = Detector(binding.tables, binding.bit_of_symbol)
        query = binding.query
        key_schema = {name: binding.schema[name] for name in query.partition_by}
        self.partitions = (
            WholePartitions(key_schema) if whole else Partitions(key_schema, self.detector)
        )
        self.dictionaries = {
            number: Dictionary(binding.schema[attribute.name])
            for number, attribute in enumerate(binding.attributes)
            if attribute.form == CODE
        }
        #: The columns of PREV at each partition's latest event, by the partition's number.
        self.previous = {name: pl.Series(dtype=binding.schema[name]) for name in binding.previous}
        self.buffer: pl.DataFrame | None = None
        self.latest = INT64_MIN  # the largest time seen
        self.swept = INT64_MIN
        self.unswept = 0  # events and advances since the last sweep
        self.untidied = 0
        self.seen = Statistics()
        self.nothing = pl.DataFrame(schema=binding.result_schema)
        self.projection = Projection(binding)

    # -- rows in ----------------------------------------------------------------------------------

    def take(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Take rows in; gives the result rows that became known."""
        return self.take_narrow(self.narrow(frame))

    def take_narrow(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Take rows in that hold only what the detector needs (see `narrow`)."""
        before = (self.buffer, self.latest, replace(self.seen))
        try:
            ready = self._ready(rows)
            results = [self._work(ready)] if len(ready) else []
        except ValueError:
            self.buffer, self.latest, self.seen = before
            raise
        if self.lateness is not None and self.latest != INT64_MIN:
            results.append(self._pass(self.watermark))
        return _together(self.binding, results)

    def take_one(
        self, time: int, key: Any, mask: int, values: Sequence[Any], is_float: Sequence[bool]
    ) -> pl.DataFrame | None:
        """Take one event in the short way; None where it must take the long one.

        That is where it is late, ties with another, waits for the watermark or begins a partition.
        """
        number = self.partitions.number_of.get(key)
        if number is None or time < self.latest or self.lateness != 0 or self.ties == "last":
            return None
        if self.buffer is not None or self.detector.last_time(number) >= time:
            return None
        self.latest = time
        self.seen.events += 1
        self.unswept += 1
        found = self.detector.detect_one(number, time, mask, values, is_float)
        if time > self.detector.next_silence or self._sweep_due(time):
            results = [] if found is None else [self._results(found)]
            return _together(self.binding, [*results, self._pass(time)])
        return self.nothing if found is None else self._results(found)

    def take_watermarked(self, rows: pl.DataFrame, seen: int) -> pl.DataFrame:
        """Take narrow rows in whose order among themselves says nothing about which is late.

        ``seen`` is the largest time that is known to have been seen elsewhere. Lateness is judged
        once for all rows, by what had been seen before them: rows that are older than the
        watermark was are left out and counted.
        """
        assert self.lateness is not None
        self.projection.check_times(rows[TIME])
        before = (self.buffer, self.latest, replace(self.seen))
        try:
            self.latest = max(self.latest, seen)
            late = rows[TIME] < self.watermark
            if late.any():
                self.seen.late += int(late.sum())
                rows = rows.filter(~late)
            if len(rows):
                self.latest = max(self.latest, int(rows[TIME].max()))  # type: ignore[arg-type]
            ready = self._passed(rows)
            results = [self._work(ready)] if len(ready) else []
        except ValueError:
            self.buffer, self.latest, self.seen = before
            raise
        self.unswept += _SWEPT_EVENTS  # a micro-batch costs more than a small sweep
        if self.latest != INT64_MIN:
            results.append(self._pass(self.watermark))
        return _together(self.binding, results)

    def advance(self, now: int) -> pl.DataFrame:
        """All events before ``now`` have come: work on what waited for that."""
        if self.lateness is None:
            raise ValueError("a bounded input has no clock to advance")
        self.latest = max(self.latest, _later(now, self.lateness))
        return self.take_narrow(self.narrow(pl.DataFrame(schema=dict(self.binding.schema))))

    def finish(self) -> pl.DataFrame:
        """No more events come: work on all that waits, at the largest time seen."""
        results = []
        if self.buffer is not None and len(self.buffer):
            ready, self.buffer = self.buffer, None
            results.append(self._work(ready, last=True))
        if self.latest != INT64_MIN:
            results.append(self._pass(self.latest))
        return _together(self.binding, results)

    @property
    def watermark(self) -> int:
        """Events before this time are late."""
        assert self.lateness is not None
        return max(self.latest - self.lateness, INT64_MIN)

    @property
    def statistics(self) -> Statistics:
        """What the stream has seen and holds now."""
        return replace(
            self.seen,
            waiting=0 if self.buffer is None else len(self.buffer),
            partitions=len(self.partitions.number_of),
            live_intervals=self.detector.live_intervals(),
            state_bytes=self.detector.state_bytes(),
        )

    def rebind(self, binding: Binding) -> None:
        """Go on with types for columns that have been NULL in every row so far."""
        old = self.detector.code
        new = binding.tables.code
        same_words = list(self.binding.tables.words.values()) == list(binding.tables.words.values())
        if old.size != new.size or not same_words:
            raise SchemaError(
                "the type of a column came up too late: say the types when the session is opened, "
                "query.open(schema={...})"
            )
        was = self.binding.attributes
        place = {a.name: n for n, a in enumerate(was)}  # forms of one untyped column are all NULL
        kept = {was[n]: dictionary for n, dictionary in self.dictionaries.items()}
        projection = Projection(binding)
        if self.buffer is not None:
            typed = projection.rows(pl.DataFrame(schema=dict(binding.schema))).schema
            source = {
                f"{ATTRIBUTE}{n}": f"{ATTRIBUTE}{place[a.name]}"
                for n, a in enumerate(binding.attributes)
            }
            self.buffer = self.buffer.select(
                pl.col(source.get(name, name)).cast(dtype).alias(name)
                for name, dtype in typed.items()
            )
        self.binding = binding
        self.projection = projection
        self.nothing = pl.DataFrame(schema=binding.result_schema)
        self.detector.replace_code(new)
        self.partitions.schema = {n: binding.schema[n] for n in binding.query.partition_by}
        self.dictionaries = {
            n: kept.get(a) or Dictionary(binding.schema[a.name])
            for n, a in enumerate(binding.attributes)
            if a.form == CODE
        }
        self.previous = {n: v.cast(binding.schema[n]) for n, v in self.previous.items()}

    def narrow(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Narrow rows of a frame, as `take_narrow` takes them."""
        return self.projection.rows(frame)

    # -- order ------------------------------------------------------------------------------------

    def _ready(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Enter new rows; gives those that the watermark has passed."""
        if self.lateness is None:
            if len(rows):
                self.latest = max(self.latest, int(rows[TIME].max()))  # type: ignore[arg-type]
            if self.ties != "last" or self.whole:
                return rows
            return rows if self.buffer is None else pl.concat([self.buffer, rows])
        if len(rows):
            rows = self._without_late(rows)
        return self._passed(rows)

    def _passed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that the watermark has passed, of these and of those that waited for it."""
        if self.buffer is not None and len(self.buffer):
            rows = pl.concat([self.buffer, rows])
        passed = (
            rows[TIME] < self.watermark if self.ties == "last" else (rows[TIME] <= self.watermark)
        )
        if passed.all():
            self.buffer = None
            return rows
        if self.ties == "error":
            self._refuse_ties(rows)
        self.buffer = rows.filter(~passed)
        return rows.filter(passed)

    def _refuse_ties(self, rows: pl.DataFrame) -> None:
        """Refuse ties when they come, not when the watermark passes them: later they block it."""
        again = rows.select(~pl.struct(*self.projection.keys, TIME).is_first_distinct()).to_series()
        if again.any():
            raise self._tie(rows, int(again.arg_max() or 0))

    def _tie(self, rows: pl.DataFrame, row: int) -> TieError:
        return TieError(
            f"two events of one partition have the same time: {self.projection.named(rows, row)}; "
            "ties='first' keeps the first of them, ties='last' the last"
        )

    def _without_late(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Without the rows that are older than the watermark was when they came."""
        assert self.lateness is not None
        times = rows[TIME].to_numpy()
        reached = np.maximum.accumulate(times)
        before = np.maximum(np.concatenate(([self.latest], reached[:-1])), self.latest)
        # times are above the reserved lowest value, so that the first event is never late
        low = INT64_MIN + self.lateness
        late = times < np.where(before < low, INT64_MIN, before - self.lateness)
        n_late = int(late.sum())
        if n_late and self.on_late == "error":
            row = int(late.argmax())
            raise LateEventError(
                f"{self.projection.named(rows, row)} is late: {self.projection.time(int(before[row]))} was seen before "
                f"and the lateness is {self.projection.length(self.lateness)}; give a larger lateness, "
                "or on_late='drop'"
            )
        self.latest = max(self.latest, int(reached[-1]))
        if n_late:
            self.seen.late += n_late
            rows = rows.filter(~pl.Series(late))
        return rows

    def _ordered(self, rows: pl.DataFrame, last: bool) -> tuple[pl.DataFrame, Words, Words]:
        """Rows by partition and time without ties; the partitions, and where their rows begin."""
        grouped = order.group(rows, self.projection.keys)
        partitions = self.partitions.known(grouped.keys)
        held = self.partitions.last_times(partitions)
        faults = order.order_faults(grouped.times, grouped.offsets, held)
        if faults & order.UNSORTED:
            grouped = grouped.in_time_order()
            faults = order.order_faults(grouped.times, grouped.offsets, held)
        rows, offsets, times = grouped.sorted_rows(), grouped.offsets, grouped.times
        if faults & order.BACKWARDS:
            row = order.first_backwards(times, offsets, held)
            raise OrderError(
                f"{self.projection.named(rows, row)} comes after a later one of its partition; sort "
                "the input by time, or give a lateness"
            )
        if faults & order.TIED:
            keep = order.untied(times, offsets, held, self.ties == "last")
            if self.ties == "error":
                raise self._tie(rows, int(np.flatnonzero(~keep)[0]))
            self.seen.ties += int(keep.size - keep.sum())
            rows, offsets = rows.filter(pl.Series(keep)), order.kept_offsets(keep, offsets)
        if self.ties == "last" and self.lateness is None and not (last or self.whole):
            # the next rows may hold another event of the same time
            hold = np.zeros(len(rows), np.bool_)
            hold[(offsets[1:] - 1)[offsets[1:] > offsets[:-1]]] = True
            self.buffer = rows.filter(pl.Series(hold))
            rows, offsets = rows.filter(pl.Series(~hold)), order.kept_offsets(~hold, offsets)
        partitions = self.partitions.admit(grouped.keys, partitions)
        some = offsets[1:] > offsets[:-1]
        return rows, partitions[some], np.concatenate(([0], offsets[1:][some]))

    # -- the detector ------------------------------------------------------------------------------

    def _work(self, rows: pl.DataFrame, last: bool = False) -> pl.DataFrame:
        """Work on rows that are due."""
        rows, partitions, offsets = self._ordered(rows, last)
        self.seen.events += len(rows)
        self.unswept += len(rows)
        if not len(rows):
            return _together(self.binding, [])
        if self.previous:
            stored = None if self.whole else self.previous
            if stored is not None:
                make_room(stored, self.detector.n_partitions)
            rows = with_previous(rows, self.projection, partitions, offsets, stored)
        columns, known = self._attributes(rows)
        predicates = [rows[f"{PREDICATE}{i}"] for i in range(len(self.binding.predicates))]
        times = rows[TIME].to_numpy()
        batch = Batch(partitions, offsets, times, stack_bits(predicates), columns, known)
        if self.whole:
            return self._results(self.detector.detect_whole(batch, self.latest, self.threads))
        result = self._results(self.detector.detect(batch))
        if self.lateness is None:  # no watermark tells when to tidy up
            self.untidied += len(rows)
            if self.untidied > _TIDY_ROWS:
                self.untidied = 0
                self._forget(INT64_MIN)
        return result

    def _pass(self, now: int) -> pl.DataFrame:
        """Time is ``now`` everywhere."""
        result = self._results(self.detector.advance(now))
        self.unswept += 1
        if self.swept == INT64_MIN:
            self.swept = now
        elif self._sweep_due(now) or now - self.swept > _QUIET_WINDOWS * (self.detector.window + 1):
            self.swept = now
            self.unswept = 0
            self._forget(now)
        return result

    def _sweep_due(self, now: int) -> bool:
        """Whether half a window has gone by, and enough has come for a sweep to be worth it."""
        enough = max(_SWEPT_EVENTS, self.detector.n_partitions // 8)
        return self.unswept >= enough and now - self.swept > self.detector.window // 2

    def _forget(self, now: int) -> None:
        """Free what can no longer take part in a match (SPEC: state is bounded by the window)."""
        idle = self.detector.forget(now)
        if idle.size and not self.previous and isinstance(self.partitions, Partitions):
            self.partitions.forget(idle)
        for number, dictionary in self.dictionaries.items():
            held = self.detector.held_codes(number, len(dictionary.values))
            if 2 * held.sum() < held.size:
                self.detector.recode(number, dictionary.keep(held))

    def _results(self, found: Words) -> pl.DataFrame:
        self.seen.matches += int((found[:, ROW_PHASE] == PHASE_TRIGGER).sum())
        keys = self.partitions.keys(found[:, ROW_PARTITION])
        values = {number: kept.values for number, kept in self.dictionaries.items()}
        return result_frame(self.binding, found, keys, values)

    def _attributes(self, rows: pl.DataFrame) -> tuple[Words, NDArray[np.uint8]]:
        attributes = self.binding.attributes
        columns = np.zeros((len(attributes), len(rows) if attributes else 0), np.int64)
        known = np.zeros(columns.shape, np.uint8)
        for number, attribute in enumerate(attributes):
            column = rows[f"{ATTRIBUTE}{number}"]
            known[number] = column.is_not_null().to_numpy()
            if attribute.form == CODE:
                dictionary = self.dictionaries[number]
                moved = dictionary.learn(column)
                if moved is not None:
                    self.detector.recode(number, moved)
                column = dictionary.codes(column)
            if attribute.form == FLOAT:
                columns[number] = column.fill_null(0.0).to_numpy().view(np.int64)
            else:
                columns[number] = column.fill_null(0).to_numpy()
        return columns, known


def _later(now: int, lateness: int) -> int:
    return min(now + lateness, INT64_MAX - 1)


def _together(binding: Binding, results: list[pl.DataFrame]) -> pl.DataFrame:
    some = [result for result in results if len(result)]
    if not some:
        return results[0] if results else pl.DataFrame(schema=binding.result_schema)
    return some[0] if len(some) == 1 else pl.concat(some)
