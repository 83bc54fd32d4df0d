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
from numba import njit, types
from numpy.typing import NDArray

from piestream.binding import CODE, FLOAT, Binding, stack_bits
from piestream.detector import Batch, Detector
from piestream.dictionary import Dictionary
from piestream.errors import LateEventError, OrderError, SchemaError, TieError, TimeError
from piestream.joins.layout import INT64_MAX, INT64_MIN, PHASE_TRIGGER, ROW_PARTITION, ROW_PHASE
from piestream.loops import TIMES
from piestream.partitions import Partitions, WholePartitions
from piestream.query.predicates import PREVIOUS_PREFIX
from piestream.results import result_frame

Ties = Literal["error", "first", "last"]
OnLate = Literal["error", "drop"]

TIME = "time"
KEY = "key:"
PREDICATE = "predicate:"
ATTRIBUTE = "attribute:"
RAW = "raw:"


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
        self.seen = Statistics()
        self.nothing = pl.DataFrame(schema=binding.result_schema)
        self.early = [i for i, s in enumerate(_distinct(binding)) if not s.previous]

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
        self._check_times(rows[TIME])
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
        self.binding = binding
        self.nothing = pl.DataFrame(schema=binding.result_schema)
        self.detector.replace_code(new)
        self.partitions.schema = {n: binding.schema[n] for n in binding.query.partition_by}
        self.dictionaries = {
            number: self.dictionaries.get(number) or Dictionary(binding.schema[attribute.name])
            for number, attribute in enumerate(binding.attributes)
            if attribute.form == CODE
        }
        self.previous = {n: v.cast(binding.schema[n]) for n, v in self.previous.items()}
        if self.buffer is not None:
            typed = self.narrow(pl.DataFrame(schema=dict(binding.schema))).schema
            self.buffer = self.buffer.cast(dict(typed))

    # -- from a user's columns to narrow rows ------------------------------------------------------

    def narrow(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Keys, time in ticks, a boolean a predicate, and the attributes that RETURN aggregates.

        Predicates with PREV need the order of events first; their columns are carried along.
        """
        binding = self.binding
        columns = [
            _missing_as_null(pl.col(name), binding.schema[name]).alias(KEY + name)
            for name in binding.query.partition_by
        ]
        columns.append(pl.col(binding.time.name).to_physical().cast(pl.Int64).alias(TIME))
        columns += [binding.predicates[i].alias(f"{PREDICATE}{i}") for i in self.early]
        for number, attribute in enumerate(binding.attributes):
            value = pl.col(attribute.name)
            if attribute.form == FLOAT:
                value = value.cast(pl.Float64).fill_nan(None)
            elif attribute.form != CODE:
                value = value.to_physical().cast(pl.Int64)
            columns.append(value.alias(f"{ATTRIBUTE}{number}"))
        if len(self.early) < len(binding.predicates):
            raw = dict.fromkeys((*binding.predicate_columns, *binding.previous))
            columns += [pl.col(name).alias(RAW + name) for name in raw]
        try:
            rows = frame.select(columns)
        except pl.exceptions.InvalidOperationError as error:
            raise TimeError(
                f"the time column {binding.time.name} holds values beyond 64 bits: {error}"
            ) from None
        self._check_times(rows[TIME])
        return rows

    def _check_times(self, times: pl.Series) -> None:
        name = self.binding.time.name
        if times.null_count():
            row = int(times.is_null().arg_max() or 0)
            raise TimeError(
                f"the time column {name} is NULL in row {row} of the rows given; every event needs "
                "a time: filter these rows out"
            )
        if not len(times):
            return
        for reserved in (INT64_MIN, INT64_MAX):
            if (times.min() if reserved == INT64_MIN else times.max()) == reserved:
                raise TimeError(
                    f"the time column {name} holds {reserved}, an end of the 64-bit range, which "
                    "is reserved; times must lie strictly between the ends"
                )

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
        passed = rows[TIME] < self.watermark if self.ties == "last" else (
            rows[TIME] <= self.watermark
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
        keys = [KEY + name for name in self.binding.query.partition_by]
        again = rows.select(~pl.struct(*keys, TIME).is_first_distinct()).to_series()
        if again.any():
            raise self._tie(rows, int(again.arg_max() or 0))

    def _tie(self, rows: pl.DataFrame, row: int) -> TieError:
        return TieError(
            f"two events of one partition have the same time: {self._named(rows, row)}; "
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
                f"{self._named(rows, row)} is late: {self._time(int(before[row]))} was seen before "
                f"and the lateness is {self._lateness_text()}; give a larger lateness, "
                "or on_late='drop'"
            )
        self.latest = max(self.latest, int(reached[-1]))
        if n_late:
            self.seen.late += n_late
            rows = rows.filter(~pl.Series(late))
        return rows

    def _ordered(
        self, rows: pl.DataFrame, last: bool
    ) -> tuple[pl.DataFrame, NDArray[np.int64], NDArray[np.int64]]:
        """Rows by partition and time without ties; the partitions, and where their rows begin."""
        keys = [KEY + name for name in self.binding.query.partition_by]
        order: NDArray[np.int64] | None = None
        if keys:
            groups = (
                rows.select(keys)
                .with_row_index("row")
                .group_by(keys, maintain_order=True)
                .agg(pl.col("row"))
            )
            lengths = groups["row"].list.len().to_numpy()
            if len(groups) > 1:
                order = groups["row"].explode().to_numpy().astype(np.int64)
            distinct = groups.select(keys)
        else:
            lengths = np.array([len(rows)])
            distinct = pl.DataFrame({"only": [0]})
        partitions = self.partitions.known(distinct)
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        times = rows[TIME].to_numpy()
        if order is not None:
            times = times[order]
        held = self.partitions.last_times(partitions)
        faults = _order_faults(times, offsets, held)
        if faults & _UNSORTED:
            group = np.repeat(np.arange(len(lengths)), lengths)
            by_time = np.lexsort((times, group))
            order = by_time if order is None else order[by_time]
            times = times[by_time]
            faults = _order_faults(times, offsets, held)
        if order is not None:
            rows = rows[order]
        if faults & _BACKWARDS:
            row = int(offsets[:-1][times[offsets[:-1]] < held][0])
            raise OrderError(
                f"{self._named(rows, row)} comes after a later one of its partition; sort the "
                "input by time, or give a lateness"
            )
        if faults & _TIED:
            keep = _untied(times, offsets, held, self.ties == "last")
            n_left_out = int(keep.size - keep.sum())
            if n_left_out and self.ties == "error":
                raise self._tie(rows, int(np.flatnonzero(~keep)[0]))
            self.seen.ties += n_left_out
            rows, offsets = rows.filter(pl.Series(keep)), _kept_offsets(keep, offsets)
        if self.ties == "last" and self.lateness is None and not (last or self.whole):
            # the next rows may hold another event of the same time
            ends = offsets[1:] - 1
            hold = np.zeros(len(rows), np.bool_)
            hold[ends[offsets[1:] > offsets[:-1]]] = True
            self.buffer = rows.filter(pl.Series(hold))
            rows, offsets = rows.filter(pl.Series(~hold)), _kept_offsets(~hold, offsets)
        partitions = self.partitions.admit(distinct, partitions)
        some = offsets[1:] > offsets[:-1]
        return rows, partitions[some], np.concatenate(([0], offsets[1:][some]))

    # -- the detector ------------------------------------------------------------------------------

    def _work(self, rows: pl.DataFrame, last: bool = False) -> pl.DataFrame:
        """Work on rows that are due."""
        rows, partitions, offsets = self._ordered(rows, last)
        self.seen.events += len(rows)
        if not len(rows):
            return _together(self.binding, [])
        if self.previous:
            rows = self._with_previous(rows, partitions, offsets)
        columns, known = self._attributes(rows)
        predicates = [rows[f"{PREDICATE}{i}"] for i in range(len(self.binding.predicates))]
        times = rows[TIME].to_numpy()
        batch = Batch(partitions, offsets, times, stack_bits(predicates), columns, known)
        if self.whole:
            return self._results(self.detector.detect_whole(batch, self.latest, self.threads))
        return self._results(self.detector.detect(batch))

    def _pass(self, now: int) -> pl.DataFrame:
        """Time is ``now`` everywhere."""
        result = self._results(self.detector.advance(now))
        if self.swept == INT64_MIN:
            self.swept = now
        elif self._sweep_due(now):
            self.swept = now
            self._forget(now)
        return result

    def _sweep_due(self, now: int) -> bool:
        """Whether half a window has gone by, so that a sweep is worth its while."""
        return now - self.swept > max(self.detector.window // 2, 0)

    def _forget(self, now: int) -> None:
        """Free what can no longer take part in a match (SPEC: state is bounded by the window)."""
        idle = self.detector.forget(now)
        if idle.size and not self.previous:  # PREV has no horizon
            self.partitions.forget(idle)
        for number, dictionary in self.dictionaries.items():
            held = self.detector.held_codes(number, len(dictionary.values))
            if 2 * held.sum() < held.size:
                self.detector.recode(number, dictionary.keep(held))

    def _results(self, found: NDArray[np.int64]) -> pl.DataFrame:
        self.seen.matches += int((found[:, ROW_PHASE] == PHASE_TRIGGER).sum())
        keys = self.partitions.keys(found[:, ROW_PARTITION])
        values = {number: kept.values for number, kept in self.dictionaries.items()}
        return result_frame(self.binding, found, keys, values)

    def _attributes(self, rows: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
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

    def _with_previous(
        self, rows: pl.DataFrame, partitions: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> pl.DataFrame:
        """Add the predicates that read the previous event of their partition."""
        binding = self.binding
        firsts = pl.Series(offsets[:-1])
        lasts = pl.Series(offsets[1:] - 1)
        numbers = pl.Series(partitions)
        columns = [rows[RAW + name].alias(name) for name in binding.predicate_columns]
        for name in binding.previous:
            values = rows[RAW + name]
            stored = self.previous[name]
            missing = self.detector.n_partitions - len(stored)
            if missing > 0:
                stored = stored.extend_constant(None, missing)
            if values.dtype == pl.Null:  # a column without any value so far
                columns.append(values.alias(PREVIOUS_PREFIX + name))
                self.previous[name] = stored
                continue
            before = (
                pl.repeat(None, len(firsts), dtype=values.dtype, eager=True)
                if self.whole
                else stored.gather(numbers)
            )
            shifted = values.shift(1).scatter(firsts, before)
            columns.append(shifted.alias(PREVIOUS_PREFIX + name))
            if not self.whole:
                self.previous[name] = stored.scatter(numbers, values.gather(lasts))
        late = [i for i in range(len(binding.predicates)) if i not in self.early]
        evaluated = pl.DataFrame(columns).select(
            binding.predicates[i].alias(f"{PREDICATE}{i}") for i in late
        )
        return rows.hstack(evaluated)

    # -- what an error says ------------------------------------------------------------------------

    def _named(self, rows: pl.DataFrame, row: int) -> str:
        keys = [
            f"{name} = {rows[KEY + name][row]!r}" for name in self.binding.query.partition_by
        ]
        return "the event " + ", ".join(
            [*keys, f"{self.binding.time.name} = {self._time(rows[TIME][row])}"]
        )

    def _time(self, ticks: int) -> str:
        return str(self.binding.time.as_times(pl.Series([ticks]))[0])

    def _lateness_text(self) -> str:
        return str(self.binding.time.as_lengths(pl.Series([self.lateness]))[0])


def _distinct(binding: Binding) -> list:
    """The distinct predicates, in the order of their bits."""
    seen = dict.fromkeys(symbol.predicate for symbol in binding.query.symbols)
    return list(seen)


def _missing_as_null(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    return column.fill_nan(None) if dtype.is_float() else column


def _later(now: int, lateness: int) -> int:
    return min(now + lateness, INT64_MAX - 1)


def _together(binding: Binding, results: list[pl.DataFrame]) -> pl.DataFrame:
    some = [result for result in results if len(result)]
    if not some:
        return results[0] if results else pl.DataFrame(schema=binding.result_schema)
    return some[0] if len(some) == 1 else pl.concat(some)


_UNSORTED, _TIED, _BACKWARDS = 1, 2, 4


@njit(types.int64(TIMES, types.int64[::1], types.int64[::1]), cache=True, nogil=True)
def _order_faults(times, offsets, held):
    """Which of _UNSORTED, _TIED and _BACKWARDS (against the last event worked on) occur."""
    faults = 0
    for g in range(offsets.size - 1):
        last = held[g]
        for row in range(offsets[g], offsets[g + 1]):
            time = times[row]
            if time <= last:
                if time == last:
                    faults |= _TIED
                else:
                    faults |= _BACKWARDS if row == offsets[g] else _UNSORTED
            last = time
    return faults


def _untied(
    times: NDArray[np.int64],
    offsets: NDArray[np.int64],
    held: NDArray[np.int64],
    keep_last: bool,
) -> NDArray[np.bool_]:
    """Which of the sorted rows stay when one of each time does; those worked on have come first."""
    again = np.zeros(len(times), np.bool_)
    again[1:] = times[1:] == times[:-1]
    firsts = offsets[:-1]
    again[firsts] = False
    keep = ~again
    if keep_last:
        keep = np.ones(len(times), np.bool_)
        keep[:-1] = ~again[1:]
    tied = times == np.repeat(held, np.diff(offsets))  # with the last event worked on
    return keep & ~tied


def _kept_offsets(keep: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where partitions begin once only the kept rows remain."""
    return np.concatenate(([0], np.cumsum(keep)))[offsets].astype(np.int64)
