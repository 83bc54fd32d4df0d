"""A query meets the columns of its input: types, ticks, compiled tables, output columns.

Everything here happens once per query and schema. What it makes is handed to the detector, which
knows of integers only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from piestream.expressions.diagnostics import QueryError, did_you_mean
from piestream.expressions.durations import NANOSECONDS, Duration
from piestream.intervals import aggregates as agg
from piestream.language.model import (
    Aggregate,
    DurationOf,
    Emit,
    Endpoint,
    Query,
    RelationOf,
    Return,
)
from piestream.plan.program import Cell, OutputWord, Tables, Ticks, compile_tables
from piestream.relations import Relation, inverse

_NANOSECONDS_OF = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_DAY = NANOSECONDS["d"]

#: How a column's values lie in the 64-bit words of an aggregate.
INTEGER, FLOAT, CODE = "integer", "float", "code"

_NOTHING = Relation(0)


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The time column: its type, and what one tick of it is."""

    name: str
    dtype: pl.DataType
    nanoseconds_per_tick: int | None

    @property
    def length_dtype(self) -> pl.DataType:
        """The type of a difference of two times."""
        if isinstance(self.dtype, pl.Datetime):
            return pl.Duration(self.dtype.time_unit)
        return pl.Duration("ms") if self.dtype == pl.Date else pl.Int64()

    def as_times(self, ticks: pl.Series) -> pl.Series:
        """Ticks as values of the column's own type."""
        if self.dtype == pl.Date:
            return ticks.cast(pl.Int32).cast(pl.Date)
        return ticks.cast(self.dtype)

    def as_lengths(self, ticks: pl.Series) -> pl.Series:
        """Differences of ticks as a user reads them."""
        if self.dtype == pl.Date:
            return (ticks * 86_400_000).cast(pl.Duration("ms"))
        return ticks.cast(self.length_dtype)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An input column that RETURN aggregates, in one of its forms."""

    name: str
    form: str


@dataclass(frozen=True)
class Output:
    """One column of the result: its name, its type, and the words that it is made of."""

    item: Return
    dtype: pl.DataType
    wanted: tuple[OutputWord, ...]
    attribute: Attribute | None = None
    key: str | None = None  # the partition column that the item is
    allowed: Relation = _NOTHING  # between the symbols of RELATION


@dataclass(frozen=True)
class Binding:
    """A query bound to the schema of its input."""

    query: Query
    schema: Mapping[str, pl.DataType] = field(repr=False)
    time: TimeColumn
    attributes: tuple[Attribute, ...]
    outputs: tuple[Output, ...]
    tables: Tables = field(repr=False)
    predicates: tuple[pl.Expr, ...] = field(repr=False)  # each distinct one once
    bit_of_symbol: tuple[int, ...] = ()
    previous: tuple[str, ...] = ()  # columns inside PREV(...)

    @cached_property
    def predicate_columns(self) -> tuple[str, ...]:
        """The input columns that predicates read, without those of PREV."""
        columns: dict[str, None] = {}
        for symbol in self.query.symbols:
            columns.update(dict.fromkeys(symbol.predicate.columns))
        return tuple(columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All the input columns that are read."""
        wanted = [*self.query.partition_by, self.time.name, *self.predicate_columns]
        wanted += [*self.previous, *(a.name for a in self.attributes)]
        return tuple(dict.fromkeys(wanted))

    @cached_property
    def result_schema(self) -> dict[str, pl.DataType]:
        """The columns of the result and their types."""
        report = "completed_at" if self.query.emit is Emit.COMPLETION else "detected_at"
        schema = {name: self.schema[name] for name in self.query.partition_by}
        schema[report] = self.time.dtype
        if self.query.emit is Emit.BOTH:
            schema["phase"] = pl.String()
        for output in self.outputs:
            schema[output.item.alias] = output.dtype
        return schema

    @cached_property
    def fingerprint(self) -> bytes:
        """What a stored state must agree with: the query's meaning and the types it works on."""
        query = self.query if self.query.path else replace(self.query, source=None)
        said = [str(query), str(self.time.dtype), *map(str, self.attributes)]
        said += [f"{name} {self.schema[name]}" for name in self.columns]
        return hashlib.sha256("\n".join(said).encode()).digest()


def bind(query: Query, schema: Mapping[str, pl.DataType]) -> Binding:
    """Bind a query to the columns of its input. All faults found are raised together."""
    return _Binder(query, dict(schema)).bound()


class _Binder:
    def __init__(self, query: Query, schema: dict[str, pl.DataType]) -> None:
        self.query = query
        self.schema = schema
        self.errors: list[QueryError] = []

    def bound(self) -> Binding:
        query = self.query
        time = self.time_column()
        for name in query.partition_by:
            if self.known(name, ("partition_by", name), "PARTITION BY"):
                self.usable(name, ("partition_by", name), "PARTITION BY")
        predicates: list[pl.Expr] = []
        bit_of: dict[object, int] = {}
        previous: dict[str, None] = {}
        for symbol in query.symbols:
            previous.update(dict.fromkeys(symbol.predicate.previous))
            if symbol.predicate in bit_of:
                continue
            bit_of[symbol.predicate] = len(predicates)
            try:
                predicates.append(symbol.predicate.to_polars(self.schema))
            except QueryError as error:
                self.errors.append(error)
        ticks = self.ticks(time) if time is not None else None
        outputs = [self.output(item, time) for item in query.returns] if time is not None else []
        if self.errors:
            raise QueryError.gathered(self.errors)
        assert time is not None
        assert ticks is not None
        kept = tuple(output for output in outputs if output is not None)
        attributes = tuple(dict.fromkeys(o.attribute for o in kept if o.attribute is not None))
        wanted: list[OutputWord] = []
        placed: list[Output] = []
        for output in kept:
            words = output.wanted
            if output.attribute is not None:
                column = attributes.index(output.attribute)
                words = tuple(_of_column(word, column) for word in words)
            placed.append(replace(output, wanted=words))
            wanted.extend(words)
        return Binding(
            query=query,
            schema=self.schema,
            time=time,
            attributes=attributes,
            outputs=tuple(placed),
            tables=compile_tables(query, ticks, tuple(wanted)),
            predicates=tuple(predicates),
            bit_of_symbol=tuple(bit_of[symbol.predicate] for symbol in query.symbols),
            previous=tuple(previous),
        )

    def fault(self, where: tuple[str, ...], message: str, hint: str | None = None) -> None:
        self.errors.append(self.query.fault(where, message, hint))

    def known(self, name: str, where: tuple[str, ...], clause: str) -> bool:
        if name in self.schema:
            return True
        hint = did_you_mean(name, self.schema) or f"the columns are {', '.join(self.schema)}"
        times = [n for n, dtype in self.schema.items() if _is_moment(dtype)]
        if clause == "ORDER BY" and len(times) == 1:
            hint = f"{times[0]} holds times: write ORDER BY {times[0]}; {hint}"
        if not self.schema:
            hint = "the input has no columns at all"
        self.fault(where, f"{clause}: there is no column {name}", hint)
        return False

    def usable(self, name: str, where: tuple[str, ...], clause: str) -> bool:
        if self.schema[name] != pl.Object:
            return True
        self.fault(
            where, f"{clause} cannot use the column {name}: its type is Object",
            f"it holds Python objects: make numbers, strings or times of {name} first",
        )  # fmt: skip
        return False

    def time_column(self) -> TimeColumn | None:
        query = self.query
        name = query.order_by
        if name is None:
            found = [n for n, dtype in self.schema.items() if _is_moment(dtype)]
            if len(found) != 1:
                what = f"several date or datetime columns: {', '.join(found)}"
                self.fault(
                    ("order_by",),
                    f"the input has {what if found else 'no date or datetime column'}, "
                    "so the time column must be named",
                    "write ORDER BY and the name of the time column after FROM or PARTITION BY",
                )
                return None
            name = found[0]
        elif not self.known(name, ("order_by",), "ORDER BY"):
            return None
        dtype = self.schema[name]
        if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
            unit = query.time_unit
            return TimeColumn(name, dtype, None if unit is None else NANOSECONDS[unit])
        if not _is_moment(dtype):
            self.fault(
                ("order_by",),
                f"the time column {name} has type {dtype}; it must be an integer, "
                "a date or a datetime",
                _how_to_time(name, dtype),
            )
            return None
        if query.time_unit is not None:
            self.fault(
                ("time_unit",),
                f"UNIT is for integer time columns; {name} has type {dtype}, which has its own",
            )
        unit = dtype.time_unit if isinstance(dtype, pl.Datetime) else None
        per_tick = _DAY if unit is None else _NANOSECONDS_OF[unit]
        return TimeColumn(name, dtype, per_tick)

    def ticks(self, time: TimeColumn) -> Ticks | None:
        query = self.query

        def of(where: tuple[str, ...], duration: Duration | None) -> int | None:
            if duration is None:
                return None
            try:
                return query.ticks(where, duration, time.nanoseconds_per_tick)
            except QueryError as error:
                self.errors.append(error)
                return None

        at_least = tuple(of(("at_least", s.name), s.at_least) for s in query.symbols)
        at_most = tuple(of(("at_most", s.name), s.at_most) for s in query.symbols)
        max_gap = of(("max_gap",), query.max_gap)
        within = of(("within",), query.within)
        return None if within is None else Ticks(within, max_gap, at_least, at_most)

    def output(self, item: Return, time: TimeColumn) -> Output | None:
        if isinstance(item, Endpoint):
            symbol = self.number(item.symbol)
            return Output(item, time.dtype, (OutputWord(symbol, item.which),))
        if isinstance(item, DurationOf):
            symbol = self.number(item.symbol)
            return Output(
                item, time.length_dtype, (OutputWord(symbol, "ts"), OutputWord(symbol, "te"))
            )
        if isinstance(item, RelationOf):
            x, y = self.number(item.x), self.number(item.y)
            words = [OutputWord(s, end) for s in (x, y) for end in ("ts", "te")]
            relations = self.relations(item.x, item.y)
            if relations & Relation.BEFORE and relations & Relation.FOLLOWED_BY:
                words.append(OutputWord(y, "follows", other=x))
            if relations & Relation.AFTER and relations & Relation.FOLLOWS:
                words.append(OutputWord(x, "follows", other=y))
            return Output(item, pl.String(), tuple(words), allowed=relations)
        return self.aggregate(item)

    def relations(self, x: str, y: str) -> Relation:
        """What the pattern allows between two symbols; every Allen relation if it says nothing."""
        for constraint in self.query.constraints:
            if (constraint.x, constraint.y) == (x, y):
                return constraint.relations
            if (constraint.x, constraint.y) == (y, x):
                return inverse(constraint.relations)
        return Relation((1 << len(Relation)) - 1) & ~(Relation.FOLLOWED_BY | Relation.FOLLOWS)

    def number(self, name: str) -> int:
        return [symbol.name for symbol in self.query.symbols].index(name)

    def aggregate(self, item: Aggregate) -> Output | None:
        symbol = self.number(item.symbol)

        def cell(kind: int) -> Cell:
            return Cell(symbol, kind, 0)

        if item.column is None:
            return Output(item, pl.Int64(), (OutputWord(symbol, cell(agg.ROWS)),))
        if not self.known(item.column, ("column", item.alias), item.function):
            return None
        dtype = self.schema[item.column]
        function = item.function
        if not self.usable(item.column, ("column", item.alias), function):
            return None
        if function in ("FIRST", "LAST", "MIN", "MAX") and item.column in self.query.partition_by:
            return Output(item, dtype, (), key=item.column)
        count = OutputWord(symbol, cell(agg.COUNT))
        if function == "COUNT":
            attribute = Attribute(item.column, _own_form(dtype))
            return Output(item, pl.Int64(), (count,), attribute)
        if function in ("SUM", "AVG", "STDDEV"):
            if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
                self.fault(
                    ("column", item.alias),
                    f"{function} needs a numeric column; {item.column} has type {dtype}",
                )
                return None
            exact = _own_form(dtype) == INTEGER and function != "STDDEV"
            attribute = Attribute(item.column, INTEGER if exact else FLOAT)
            if function == "STDDEV":
                words = tuple(OutputWord(symbol, cell(agg.SPREAD), part) for part in (0, 2))
                return Output(item, pl.Float64(), words, attribute)
            kind = agg.SUM_INT if exact else agg.SUM_FLOAT
            words = (*(OutputWord(symbol, cell(kind), part) for part in (0, 1)), count)
            whole = exact and function == "SUM"
            return Output(item, pl.Int64() if whole else pl.Float64(), words, attribute)
        form = _own_form(dtype)
        attribute = Attribute(item.column, form)
        if function in ("FIRST", "LAST"):
            kind = agg.FIRST if function == "FIRST" else agg.LAST
            words = tuple(OutputWord(symbol, cell(kind), part) for part in (0, 1))
            return Output(item, dtype, words, attribute)
        kinds = {
            ("MIN", FLOAT): agg.MIN_FLOAT,
            ("MAX", FLOAT): agg.MAX_FLOAT,
            ("MIN", INTEGER): agg.MIN_INT,
            ("MAX", INTEGER): agg.MAX_INT,
            ("MIN", CODE): agg.MIN_INT,
            ("MAX", CODE): agg.MAX_INT,
        }
        words = tuple(OutputWord(symbol, cell(kinds[function, form]), part) for part in (0, 1))
        return Output(item, dtype, words, attribute)


def _how_to_time(name: str, dtype: pl.DataType) -> str | None:
    """What makes a time column of one that is none."""
    if dtype == pl.String:
        return (
            f'make times of it: pl.col("{name}").str.to_datetime() in Polars, '
            f'pd.to_datetime(frame["{name}"]) in pandas, '
            f"datetime.fromisoformat(text) of an event, --type {name}=datetime of a file"
        )
    if dtype.is_float():
        return (
            f'make whole ticks of it, such as (pl.col("{name}") * 1000).cast(pl.Int64) of seconds, '
            f"and say what they are: ORDER BY {name} UNIT ms"
        )
    if dtype == pl.Null:
        return "every event needs a time"
    if dtype == pl.Time:
        return "a time of day comes again every day: add the date"
    if isinstance(dtype, pl.Duration):
        return f'count it from an instant, as datetime(2026, 1, 1) + pl.col("{name}") does'
    if dtype.is_nested():
        return "an event is one row; many rows are a frame, such as pl.DataFrame(columns)"
    if "pandas.period" in str(dtype):
        return f'take the start of each period: frame["{name}"].dt.to_timestamp()'
    return None


def _of_column(wanted: OutputWord, column: int) -> OutputWord:
    """The wanted word with its cell on the column's number, known only now."""
    cell = wanted.what
    assert isinstance(cell, Cell)
    return OutputWord(wanted.symbol, Cell(cell.symbol, cell.kind, column), wanted.part)


def _is_moment(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Datetime) or dtype == pl.Date


def _own_form(dtype: pl.DataType) -> str:
    """The form in which a column's values can be compared and given back exactly."""
    if dtype.is_float():
        return FLOAT
    if dtype in (pl.UInt64, pl.Int128, pl.UInt128) or isinstance(dtype, pl.Decimal):
        return CODE
    if dtype.is_integer() or dtype.is_temporal() or dtype in (pl.Boolean, pl.Null):
        return INTEGER
    return CODE


def stack_bits(columns: Sequence[pl.Series]) -> np.ndarray:
    """Boolean columns as rows of 64-bit words, the first row in the lowest bit."""
    n_rows = len(columns[0]) if columns else 0
    bits = np.zeros((len(columns), (n_rows + 63) // 64), np.uint64)
    in_bytes = bits.view(np.uint8)
    for number, column in enumerate(columns):
        packed = np.packbits(column.to_numpy(), bitorder="little")
        in_bytes[number, : packed.size] = packed
    return bits
