"""The columns of the result: which words the loops write for each, and how it is made of them.

A kind of column is a class that has both sides. A query's columns are found once for its input;
the loops write their words (`Output.words`), a row a match; `Output.column` reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import OPEN
from piestream.intervals.aggregates import CellKind
from piestream.joins import result_rows
from piestream.language.model import Query
from piestream.language.parts import Aggregate, Emit
from piestream.plan.aggregates import AGGREGATIONS, Calculation, Computation, Selection
from piestream.plan.columns import (
    CODE,
    COUNTED,
    FLOAT,
    INTEGER,
    ROW,
    SUMMED,
    Attribute,
    InputColumns,
    TimeColumn,
)
from piestream.plan.program import Cell, OutputWord
from piestream.relations import (
    ENDPOINT_ORDER,
    PRECISE_FORM,
    RELATIONS_BY_ORDER,
    EndpointOrder,
    Relation,
    names,
)

Words = NDArray[np.int64]

#: The columns in which a stream of matches has their starts and ends; no RETURN can name them so.
MATCH_START, MATCH_END = "start:", "end:"
#: And in which it has the times at which they became known, where these may be later than the ends.
MATCH_KNOWN = "known:"

#: What looks at one event, whatever the rows of other streams besides.
_OF_ONE_EVENT = (Selection(CellKind.FIRST), Selection(CellKind.LAST))


@dataclass(frozen=True)
class ResultRows:
    """Result rows as the loops wrote them, and what their words stand for."""

    rows: Words  # a row a match, whose words are a `ResultRow`
    place: Mapping[OutputWord, int]  # where each output word is among them
    keys: pl.DataFrame  # the partition columns of each row
    dictionaries: Mapping[int, pl.Series]  # the values that the codes of an attribute stand for
    at_trigger: bool = False  # whether words are those that were known at the trigger

    def __getitem__(self, word: OutputWord) -> Words:
        if self.at_trigger:
            word = replace(word, at_trigger=True)
        return result_rows.ResultRow.column_of(self.rows, "outputs", self.place[word])

    @property
    def partitions(self) -> Words:
        """The number of each row's partition."""
        return result_rows.ResultRow.column_of(self.rows, "partition")

    @property
    def times(self) -> Words:
        """The time of each report."""
        return result_rows.ResultRow.column_of(self.rows, "time")

    @property
    def phases(self) -> Words:
        """What each row reports."""
        return result_rows.ResultRow.column_of(self.rows, "phase") % 2

    @cached_property
    def _latest_end(self) -> Words | None:
        """Where rows report the closing of a partition: the last time that is shown as it is."""
        closing = result_rows.ResultRow.column_of(self.rows, "phase") // 2
        if not closing.any():
            return None
        last_event = self.times - (closing == result_rows.Closing.TICK_LATER)
        return np.where(closing == result_rows.Closing.NO, OPEN, last_event)

    def ends(self, word: OutputWord) -> Words:
        """The ends of intervals as they are shown."""
        return self.shown(self[word])

    def shown(self, ends: Words) -> Words:
        """Such ends as they are shown."""
        latest = self._latest_end
        return ends if latest is None else ends - ((ends > latest) & (ends != OPEN))


@dataclass(frozen=True)
class Output(ABC):
    """A column of the result."""

    name: str
    dtype: pl.DataType

    @property
    @abstractmethod
    def words(self) -> tuple[OutputWord, ...]:
        """The words that the loops write for it in every result row."""

    @abstractmethod
    def column(self, found: ResultRows) -> pl.Series:
        """Its values, one a result row; their type may still be one that casts to its own."""

    @property
    def values_of(self) -> str | None:
        """The input column whose values it holds, if it holds any column's."""
        return None


@dataclass(frozen=True)
class PartitionKey(Output):
    """A partition column, as itself or as an aggregate that can have no other value."""

    key: str

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return ()

    @property
    def values_of(self) -> str:
        return self.key

    def column(self, found: ResultRows) -> pl.Series:
        return found.keys[self.key]


@dataclass(frozen=True)
class ReportTime(Output):
    """When the match was reported: ``detected_at`` or ``completed_at``."""

    time: TimeColumn

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return ()

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        return self.time.as_times(nullable(found.times))


@dataclass(frozen=True)
class Phase(Output):
    """Which of its two rows of EMIT ON BOTH this is of a match."""

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return ()

    def column(self, found: ResultRows) -> pl.Series:
        completed = pl.Series(found.phases == int(result_rows.Phase.COMPLETION))
        return pl.select(
            pl.when(completed).then(pl.lit("completion")).otherwise(pl.lit("trigger"))
        ).to_series()


@dataclass(frozen=True)
class EndpointTime(Output):
    """``s.ts`` or ``s.te``."""

    time: TimeColumn
    symbol: int
    which: str

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.symbol, self.which),)

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        (word,) = self.words
        if self.which == "ts":
            return self.time.as_times(nullable(found[word]))  # a start is always known
        ends = found.ends(word)
        return self.time.as_times(nullable(ends, ends == OPEN))


@dataclass(frozen=True)
class InstantNumber(Output):
    """The instant of an endpoint, or of the report, as a number."""

    symbol: int
    which: str  # "start", "end" or "report"

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.symbol, self.which),)

    def column(self, found: ResultRows) -> pl.Series:
        (word,) = self.words
        return nullable(found[word], found[word] == OPEN)


@dataclass(frozen=True)
class IntervalDuration(Output):
    """``DURATION(s)``."""

    time: TimeColumn
    symbol: int

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return _endpoints(self.symbol)

    def column(self, found: ResultRows) -> pl.Series:
        return self.time.as_lengths(self.ticks(found))

    def ticks(self, found: ResultRows) -> pl.Series:
        """The durations in ticks."""
        of_start, of_end = self.words
        start, end = found[of_start], found.ends(of_end)
        # a duration of more than 63 bits fits no column
        unknown = (end == OPEN) | ((end < 0) != (start < 0)) & (end - start < 0)
        return nullable(np.where(unknown, 0, end - start), unknown)


@dataclass(frozen=True)
class RelationName(Output):
    """``RELATION(x, y)``."""

    x: int
    y: int
    allowed: Relation  # between the two, as the pattern says
    is_sequenced: bool = False  # whether instants are other words than times
    bridged: frozenset[int] = frozenset()  # symbols whose intervals may have ended, or go on
    is_listed: bool = False  # whether it is known of each interval which end it follows

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        followers = [word for _, _, word in self._followers]
        since = [OutputWord(s, "since") for s in (self.x, self.y) if s in self.bridged]
        return (*self._instants, *followers, *since)

    @cached_property
    def _instants(self) -> tuple[OutputWord, ...]:
        """The start and the end of x, then those of y."""
        which = ("start", "end") if self.is_sequenced else ("ts", "te")
        return tuple(OutputWord(symbol, one) for symbol in (self.x, self.y) for one in which)

    @cached_property
    def _followers(self) -> list[tuple[Relation, Relation, OutputWord]]:
        """The pairs of a wide and a precise relation that only a word of its own can tell apart."""
        what = "followed" if self.is_listed else "follows"
        follower = {
            Relation.FOLLOWED_BY: OutputWord(self.y, what, other=self.x),
            Relation.FOLLOWS: OutputWord(self.x, what, other=self.y),
        }
        return [
            (wide, precise, follower[precise])
            for wide, precise in PRECISE_FORM.items()
            if self.allowed & wide and self.allowed & precise
        ]

    @cached_property
    def _names(self) -> pl.Series:
        """The name for each order of the endpoints, by the order's number."""
        named = [next(iter(names(relation)), "") for relation in RELATIONS_BY_ORDER]
        for wide, precise in PRECISE_FORM.items():
            if self.allowed & precise and not self.allowed & wide:
                named[ENDPOINT_ORDER[wide].number] = names(precise)[0]
        return pl.Series(named, dtype=pl.String)

    def column(self, found: ResultRows) -> pl.Series:
        """The name where all that may be known gives one."""
        outlooks = [self._name(found, x_end, y_end) for x_end, y_end in self._outlooks(found)]
        column = outlooks[0]
        for other in outlooks[1:]:
            column = column.set(column.ne_missing(other), None)
        return column

    def _outlooks(self, found: ResultRows) -> Iterator[tuple[Words, Words]]:
        """The ends that the two intervals may have: as they are, or where predicates ceased to hold."""
        _, x_word, _, y_word = self._instants
        for x_end in self._ends(found, self.x, x_word):
            for y_end in self._ends(found, self.y, y_word):
                yield x_end, y_end

    def _ends(self, found: ResultRows, symbol: int, word: OutputWord) -> Iterator[Words]:
        end = found[word]
        yield end
        if symbol in self.bridged:
            yield np.where(end == OPEN, found[OutputWord(symbol, "since")], end)

    def _name(self, found: ResultRows, xe: Words, ye: Words) -> pl.Series:
        """An open end is later than now: how it compares with one that is later too, is not known."""
        xs, ys = (found[word] for word in self._instants[::2])
        order = _endpoint_orders(xs, xe, ys, ye)
        column = self._names.gather(pl.Series(order.astype(np.uint32)))
        for wide, precise, word in self._followers:
            end = xe if precise == Relation.FOLLOWED_BY else ye
            follows = found[word] == (end if self.is_listed else 1)
            is_precise = follows & (order == ENDPOINT_ORDER[wide].number)
            column = column.set(pl.Series(is_precise), names(precise)[0])
        if self.is_sequenced:  # each of these ends is known when it comes
            unknown = (xe == OPEN) & (ye == OPEN)
        else:
            now = found.times
            x_end, y_end = found.shown(xe), found.shown(ye)
            unknown = ((xe == OPEN) & (y_end > now)) | ((ye == OPEN) & (x_end > now))
        return column.set(pl.Series(unknown), None) if unknown.any() else column


@dataclass(frozen=True)
class MatchBound(Output):
    """The earliest start or the latest end of all intervals: where a match as an interval lies."""

    time: TimeColumn
    symbols: tuple[int, ...]
    which: str  # "ts" or "te"

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return tuple(OutputWord(symbol, self.which) for symbol in self.symbols)

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        if self.which == "ts":
            bound = np.stack([found[word] for word in self.words]).min(axis=0)
        else:
            bound = np.stack([found.ends(word) for word in self.words]).max(axis=0)
        return self.time.as_times(nullable(bound))


@dataclass(frozen=True)
class CalculatedValue(Output):
    """An aggregate that calculates a number, from the values of a column or from the events."""

    symbol: int
    calculation: Calculation
    number: int = 0  # of the attribute that holds the values; cells of events read none
    #: Where rows stand for groups of rows: of each kind of cell the attribute that has what groups add to it.
    of_groups: tuple[tuple[CellKind, int], ...] = ()

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        if not self.of_groups:
            return _cell_words(self.symbol, self.calculation, self.number)
        numbers = dict(self.of_groups)
        return tuple(
            OutputWord(self.symbol, Cell(self.symbol, CellKind.SUM_INT, numbers[kind]), part)
            for kind, part in self.calculation.words
        )

    def column(self, found: ResultRows) -> pl.Series:
        return nullable(*self.calculation.finish(*(found[word] for word in self.words)))


@dataclass(frozen=True)
class SelectedValue(Output):
    """An aggregate that gives one of the values of a column."""

    symbol: int
    number: int
    attribute: Attribute
    selection: Selection

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return _cell_words(self.symbol, self.selection, self.number)

    @property
    def values_of(self) -> str:
        return self.attribute.name

    def column(self, found: ResultRows) -> pl.Series:
        known, value = (found[word] for word in self.words)
        unknown = known != 1
        if self.attribute.form == FLOAT:
            return nullable(np.ascontiguousarray(value).view(np.float64), unknown)
        column = nullable(np.where(unknown, 0, value), unknown)
        if self.attribute.form == CODE:
            return found.dictionaries[self.number].gather(column)
        return column.cast(pl.Int32) if self.dtype == pl.Date else column


def report_columns(
    query: Query, schema: Mapping[str, pl.DataType], time: TimeColumn
) -> tuple[Output, ...]:
    """What every result row begins with: the keys, when it was reported, and the phase."""
    report = "completed_at" if query.emit is Emit.COMPLETION else "detected_at"
    outputs: list[Output] = [PartitionKey(n, schema[n], n) for n in query.partition_by]
    outputs.append(ReportTime(report, time.dtype, time))
    if query.emit is Emit.BOTH:
        outputs.append(Phase("phase", pl.String()))
    return tuple(outputs)


def match_bounds(query: Query, time: TimeColumn) -> tuple[Output, ...]:
    """Where a match lies, as the row of a stream of intervals: from its start to its end."""
    present = set(query.present)
    symbols = tuple(s for s, symbol in enumerate(query.symbols) if symbol in present)
    known = (ReportTime(MATCH_KNOWN, time.dtype, time),) if query.is_known_late else ()
    return (
        MatchBound(MATCH_START, time.dtype, time, symbols, "ts"),
        MatchBound(MATCH_END, time.dtype, time, symbols, "te"),
        *known,
    )


def result_frame(outputs: tuple[Output, ...], found: ResultRows) -> pl.DataFrame:
    """Result rows as a frame of the result's columns."""
    if not len(found.rows):
        return pl.DataFrame(schema={output.name: output.dtype for output in outputs})
    return pl.DataFrame([of_type(o.column(found), o.dtype).alias(o.name) for o in outputs])


def aggregate_output(
    query: Query,
    columns: InputColumns,
    item: Aggregate,
    symbol: int,
    attributes: dict[Attribute, int],
    clause: str | None = None,
) -> Output:
    """The output of an aggregate over the events of a symbol; a new attribute gets a number."""
    stream = columns.stream
    aggregation = AGGREGATIONS[item.function]

    def number_of(attribute: Attribute) -> int:
        return attributes.setdefault(attribute, len(attributes))

    if item.column is None and query.is_combined:
        rows = aggregation.over[INTEGER]
        assert isinstance(rows, Calculation), "what needs no column counts rows"
        number = number_of(Attribute(ROW, INTEGER, stream))
        return CalculatedValue(item.alias, rows.dtype, symbol, rows, number)
    if item.column is None:
        over_events = aggregation.over_events
        assert over_events is not None, "the language declares that it needs a column"
        of_groups = _of_groups(columns, ROW, over_events, number_of)
        return CalculatedValue(item.alias, over_events.dtype, symbol, over_events, 0, of_groups)
    where = ("column", item.alias)
    dtype = columns.dtype(item.column, where, clause or item.function)
    form = aggregation.form_of(dtype)
    if form is None:
        raise query.fault(
            where, f"{item.function} needs a numeric column; {item.column} has type {dtype}"
        )
    computation = aggregation.over[form]
    is_selected = isinstance(computation, Selection)
    if is_selected and item.column in query.partition_by and query.rows is None:
        return PartitionKey(item.alias, dtype, item.column)
    of_groups = _of_groups(columns, item.column, computation, number_of)
    if of_groups and isinstance(computation, Calculation):
        return CalculatedValue(item.alias, computation.dtype, symbol, computation, 0, of_groups)
    carried = query.is_combined and computation in _OF_ONE_EVENT
    attribute = Attribute(item.column, form, stream, carried)
    number = number_of(attribute)
    if isinstance(computation, Selection):
        return SelectedValue(item.alias, dtype, symbol, number, attribute, computation)
    return CalculatedValue(item.alias, computation.dtype, symbol, computation, number)


#: What a group of rows adds to the cells of which the order of rows does not count.
_FORMS_OF_GROUPS = {CellKind.ROWS: SUMMED, CellKind.COUNT: COUNTED, CellKind.SUM_INT: SUMMED}


def _of_groups(
    columns: InputColumns,
    name: str,
    computation: Computation,
    number_of: Callable[[Attribute], int],
) -> tuple[tuple[CellKind, int], ...]:
    """The attributes with what groups of rows add to each cell; none where single rows are needed."""
    kinds = dict.fromkeys(kind for kind, _ in computation.words)
    if not columns.is_grouped or not kinds.keys() <= _FORMS_OF_GROUPS.keys():
        return ()
    return tuple((kind, number_of(Attribute(name, _FORMS_OF_GROUPS[kind]))) for kind in kinds)


def _endpoints(symbol: int) -> tuple[OutputWord, OutputWord]:
    return OutputWord(symbol, "ts"), OutputWord(symbol, "te")


def _cell_words(symbol: int, computation: Computation, column: int) -> tuple[OutputWord, ...]:
    return tuple(
        OutputWord(symbol, Cell(symbol, kind, column), part) for kind, part in computation.words
    )


def nullable(values: NDArray[Any], unknown: NDArray[np.bool_] | None = None) -> pl.Series:
    """Words or numbers as a column, NULL where unknown."""
    column = pl.Series("", np.ascontiguousarray(values))
    if unknown is None or not unknown.any():
        return column
    return column.set(pl.Series(unknown), None)


def of_type(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    return column if column.dtype == dtype else column.cast(dtype)


def _endpoint_orders(xs: Words, xe: Words, ys: Words, ye: Words) -> Words:
    """`EndpointOrder.number` of every row; no difference is taken, since it might overflow."""

    def compared(a: Words, b: Words) -> Any:
        return (a > b).astype(np.int64) - (a < b).astype(np.int64)

    order = EndpointOrder(compared(xs, ys), compared(xs, ye), compared(xe, ys), compared(xe, ye))
    numbers: Any = order.number
    return np.asarray(numbers, np.int64)
