"""Events on their way to Python, and result rows on their way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pyspark.sql import types as spark

from piestream.engine.projection import ATTRIBUTE, KEY, PREDICATE, RAW, TIME
from piestream.plan.binding import Binding
from piestream.plan.columns import CODE, FLOAT
from piestream.plan.outputs import Output
from piestream.spark.codec.columns import (
    DOUBLE,
    FIELDS,
    LONG,
    Crossing,
    Way,
    inward,
    mask_words,
    outward,
    quoted,
)

__all__ = ["Incoming", "Outgoing", "arrivals", "departures"]

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Incoming:
    """How the plain columns of events become narrow rows (see `piestream.engine.stream`).

    Predicates that look at one event are evaluated in the JVM and cross as bits of the mask.
    """

    columns: tuple[tuple[str, Crossing], ...]  # the keys first
    keys: int
    predicates: tuple[str, ...]  # the narrow name of each bit of the mask, from the lowest
    words: int
    clock: tuple[int, int]  # time in ticks is v // clock[0] - clock[1]

    @property
    def key_columns(self) -> list[str]:
        """The plain columns of the keys: of equal keys, they are equal."""
        places = (place for _, part in self.columns[: self.keys] for place in part.places)
        return [f"v{place}" for place in places]

    def narrow(self, plain: pl.DataFrame) -> pl.DataFrame:
        """The narrow rows of these plain columns."""
        masks = [plain[f"m{word}"].to_numpy() for word in range(self.words)]
        per_tick, shift = self.clock
        times = plain["time"]
        if per_tick != 1:
            times = times // per_tick
        if shift:
            times = times - shift
        truths = [
            pl.Series(name, _bits(masks, place)) for place, name in enumerate(self.predicates)
        ]
        values = [_value(plain, masks, part).alias(name) for name, part in self.columns]
        # in the order of Stream.narrow
        return pl.DataFrame(
            [*values[: self.keys], times.alias(TIME), *truths, *values[self.keys :]]
        )


def arrivals(
    binding: Binding, types: dict[str, spark.DataType], clock: tuple[int, int]
) -> tuple[Incoming, list[str]]:
    """How a query's events cross, and the Spark SQL that sends them (without their time)."""
    predicates = list(dict.fromkeys(s.predicate for s in binding.query.symbols))
    early = [place for place, predicate in enumerate(predicates) if not predicate.previous]
    flags = {bit: predicates[place].to_spark_sql(binding.schema) for bit, place in enumerate(early)}
    way = Way.empty(len(early))
    columns: list[tuple[str, Crossing]] = []
    values: dict[int, str] = {}

    def send(name: str, sql: str, dtype: pl.DataType, data_type: spark.DataType) -> None:
        # NaN is a missing value in every engine (SPEC 2.3), so it may stand for NULL here.
        crossing = way.planned(dtype, own_nulls=True)
        for place, value, flag, null in outward(crossing, sql, data_type):
            if place >= 0:
                values[place] = value
            if flag >= 0:
                flags[flag] = null
        columns.append((name, crossing))

    for name in binding.query.partition_by:
        send(KEY + name, key_sql(name, types[name]), binding.schema[name], types[name])
    for number, attribute in enumerate(binding.attributes):
        dtype, sql = binding.schema[attribute.name], quoted(attribute.name)
        if attribute.form == FLOAT:
            send(f"{ATTRIBUTE}{number}", sql, pl.Float64(), types[attribute.name])
        else:
            send(f"{ATTRIBUTE}{number}", sql, dtype, types[attribute.name])
            if attribute.form != CODE:  # the detector wants its count, not the value
                name, crossing = columns[-1]
                plain = Crossing(pl.Int64(), LONG, crossing.place, crossing.flag)
                columns[-1] = (name, plain)
    if len(early) < len(predicates):
        for name in dict.fromkeys((*binding.predicate_columns, *binding.previous)):
            send(RAW + name, quoted(name), binding.schema[name], types[name])
    expressions = [f"{values[place]} AS v{place}" for place in sorted(values)]
    expressions += mask_words(flags, way.words)
    names = tuple(f"{PREDICATE}{place}" for place in early)
    return Incoming(
        tuple(columns), len(binding.query.partition_by), names, way.words, clock
    ), expressions


def key_sql(name: str, data_type: spark.DataType) -> str:
    """A partition column whose equal values have equal hashes: NaN is NULL, -0.0 is 0.0."""
    sql = quoted(name)
    if isinstance(data_type, (spark.FloatType, spark.DoubleType)):
        kind = data_type.simpleString()
        return f"(nullif({sql}, CAST('NaN' AS {kind})) + CAST(0 AS {kind}))"
    return sql


def _bits(masks: Sequence[NDArray[np.int64]], place: int) -> Bits:
    bits: Bits = (masks[place // 64] >> (place % 64)) & 1 != 0
    return bits


def _value(plain: pl.DataFrame, masks: Sequence[NDArray[np.int64]], part: Crossing) -> pl.Series:
    """A column from its plain columns."""
    missing = _bits(masks, part.flag) if part.flag >= 0 else None
    if part.kind == FIELDS:
        names = [field.name for field in part.dtype.fields]  # type: ignore[attr-defined]
        fields = [_value(plain, masks, p).alias(n) for n, p in zip(names, part.fields, strict=True)]
        column = pl.DataFrame(fields).to_struct()
        if missing is not None and missing.any():
            known = pl.Series(~missing)
            column = pl.select(pl.when(known).then(column)).to_series()
        return column
    column = plain[f"v{part.place}"]
    if part.kind == DOUBLE:
        if missing is None and np.isnan(column.to_numpy()).any():
            column = column.fill_nan(None)
    elif part.kind == LONG and part.dtype == pl.Boolean:
        column = column != 0
    elif part.kind == LONG and part.dtype == pl.Date:
        column = column.cast(pl.Int32)
    if missing is not None and missing.any():
        column = column.set(pl.Series(missing), None)
    return column if column.dtype == part.dtype else column.cast(part.dtype)


@dataclass(frozen=True)
class Outgoing:
    """How result rows become plain columns."""

    columns: tuple[tuple[str, Crossing], ...]
    types: tuple[str, ...]
    words: int

    def plain(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The plain columns of result rows."""
        values: dict[int, pl.Series] = {}
        masks = [np.zeros(len(rows), np.int64) for _ in range(self.words)]
        for name, part in self.columns:
            _spread(rows[name], part, values, masks)
        columns = [values[place].alias(f"v{place}") for place in sorted(values)]
        return pl.DataFrame(columns + [pl.Series(f"m{w}", mask) for w, mask in enumerate(masks)])

    @property
    def ddl(self) -> str:
        """The plain columns as they are declared to Spark."""
        return ", ".join(Way(list(self.types), 64 * self.words).ddl)


def departures(binding: Binding, types: dict[str, spark.DataType]) -> tuple[Outgoing, list[str]]:
    """How a query's result crosses, and the Spark SQL that reads it."""
    way = Way.empty()
    columns, expressions = [], []
    for output in binding.outputs:
        crossing = way.planned(output.dtype)
        columns.append((output.name, crossing))
        data_type = _result_type(output, types)
        expressions.append(f"{inward(crossing, data_type)} AS {quoted(output.name)}")
    return Outgoing(tuple(columns), tuple(way.types), way.words), expressions


def _result_type(output: Output, types: dict[str, spark.DataType]) -> spark.DataType:
    """The Spark type of a result column: that of the input column whose values it holds."""
    if output.values_of is not None:
        return types[output.values_of]
    if output.dtype == pl.Int64:
        return spark.LongType()
    if output.dtype == pl.Float64:
        return spark.DoubleType()
    return spark.DayTimeIntervalType() if output.dtype.is_temporal() else spark.StringType()


def _spread(
    column: pl.Series,
    part: Crossing,
    values: dict[int, pl.Series],
    masks: list[NDArray[np.int64]],
) -> None:
    if part.flag >= 0 and column.null_count():
        missing = column.is_null().to_numpy().astype(np.int64)
        masks[part.flag // 64] |= missing << (part.flag % 64)
    if part.kind == FIELDS:
        for number, inner in enumerate(part.fields):
            _spread(column.struct.unnest().to_series(number), inner, values, masks)
    elif part.kind == LONG:
        if isinstance(part.dtype, pl.Duration):
            column = column.cast(pl.Duration("us"))
        values[part.place] = _filled(column.to_physical(), pl.Int64(), 0)
    elif part.kind == DOUBLE:
        values[part.place] = _filled(column, pl.Float64(), 0.0)
    else:
        values[part.place] = column.cast(pl.String) if part.dtype == pl.Null else column


def _filled(column: pl.Series, dtype: pl.DataType, value: float) -> pl.Series:
    """A column of this type without NULLs. What there is nothing to do for is not asked of Polars:
    each of its calls costs more than the rows of a bucket."""
    column = column if column.dtype == dtype else column.cast(dtype)
    return column.fill_null(value) if column.null_count() else column
