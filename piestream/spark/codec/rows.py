"""Events on their way to Python, and result rows on their way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from pyspark.sql import types as spark

from piestream.engine.projection import ATTRIBUTE, KEY, PREDICATE, RAW, SEQUENCE, TIME
from piestream.expressions.backends import spark_text
from piestream.plan.binding import Binding
from piestream.plan.calculated import CalculatedColumn
from piestream.plan.columns import CODE, FLOAT
from piestream.plan.outputs import Output
from piestream.spark.codec.columns import (
    ColumnCodec,
    Encoding,
    WireLayout,
    mask_bits,
    mask_sql,
    mask_words,
)
from piestream.spark.codec.types import spark_type

__all__ = [
    "InputCodec",
    "ResultCodec",
    "RowCodec",
    "WireTime",
    "input_codec",
    "key_sql",
    "result_codec",
]


class WireTime(NamedTuple):
    """How ticks travel: as the wire column ``time``, which is ``(tick + shift) * per_tick``."""

    per_tick: int = 1
    shift: int = 0

    def ticks(self, wire: pl.Series) -> pl.Series:
        """The ticks of the wire column."""
        if self.per_tick != 1:
            wire = wire // self.per_tick
        return wire - self.shift if self.shift else wire


@dataclass(frozen=True)
class RowCodec:
    """How rows travel: as wire columns ``v0, v1, …`` and the words ``m0, m1, …`` of a mask."""

    columns: tuple[tuple[str, ColumnCodec], ...]
    types: tuple[str, ...]
    bits: int

    @property
    def words(self) -> int:
        """The number of words of the mask."""
        return mask_words(self.bits)

    @property
    def ddl(self) -> str:
        """The wire columns as they are declared to Spark."""
        columns = [f"v{wire} {type}" for wire, type in enumerate(self.types)]
        return ", ".join(columns + [f"m{word} bigint" for word in range(self.words)])


@dataclass(frozen=True)
class InputCodec(RowCodec):
    """Events, encoded in the JVM, decoded to projected rows (`piestream.engine.projection`).

    The columns of the keys come first. Predicates that look at one event are evaluated in the JVM
    and are the lowest bits of the mask; ``predicates`` names them as projected columns.
    """

    keys: int
    predicates: tuple[str, ...]
    time: WireTime
    is_sequenced: bool = False  # whether what orders events of one time comes behind the keys

    @property
    def key_columns(self) -> list[str]:
        """The wire columns of the keys, which are equal where the keys are."""
        return [f"v{wire}" for _, codec in self.columns[: self.keys] for wire in codec.wires]

    def decode(self, wire: pl.DataFrame) -> pl.DataFrame:
        """The projected rows of these wire columns."""
        masks = [wire[f"m{word}"].to_numpy() for word in range(self.words)]
        times = self.time.ticks(wire["time"])
        predicates = [
            pl.Series(name, mask_bits(masks, bit)) for bit, name in enumerate(self.predicates)
        ]
        values = [codec.decode(wire, masks).alias(name) for name, codec in self.columns]
        behind = self.keys + self.is_sequenced
        # in the order of Projection.columns
        return pl.DataFrame(
            [
                *values[: self.keys],
                times.alias(TIME),
                *values[self.keys : behind],
                *predicates,
                *values[behind:],
            ]
        )

    @property
    def order_columns(self) -> list[str]:
        """The wire columns that order rows of one time."""
        return [f"v{self.columns[self.keys][1].wire}"] if self.is_sequenced else []


def input_codec(
    binding: Binding, types: dict[str, spark.DataType], time: WireTime
) -> tuple[InputCodec, list[str]]:
    """The codec of a query's events, and the Spark SQL that encodes them (but for their time)."""
    distinct = list(dict.fromkeys(symbol.predicate for symbol in binding.query.symbols))
    early = [number for number, predicate in enumerate(distinct) if not predicate.reads_the_past]
    layout = WireLayout(bits=len(early))
    columns: list[tuple[str, ColumnCodec]] = []
    values: dict[int, str] = {}
    bits = {bit: distinct[number].to_spark_sql(binding.schema) for bit, number in enumerate(early)}

    calculated = {column.name: column for column in binding.calculated}

    def add(name: str, source: str, dtype: pl.DataType, sql: str | None = None) -> None:
        # NaN is a missing value in every engine, so it may stand for NULL here.
        codec = layout.codec(dtype, null_as_nan=True)
        if source in calculated:
            sql = calculated[source].spark_sql
            type = calculated_type(calculated[source], types)
        else:
            type = types[source]
        codec.encode_sql((source,), type, values, bits, sql)
        columns.append((name, codec))

    for name in binding.query.partition_by:
        add(KEY + name, name, binding.schema[name], key_sql(name, types[name]))
    if binding.sequence is not None:
        add(SEQUENCE, binding.sequence.name, binding.sequence.dtype)
        columns[-1] = (SEQUENCE, _as_count(columns[-1][1]))
    for number, attribute in enumerate(binding.attributes):
        dtype = pl.Float64() if attribute.form == FLOAT else binding.attribute_types[attribute.name]
        add(f"{ATTRIBUTE}{number}", attribute.name, dtype)
        if attribute.form not in (FLOAT, CODE):  # the detector wants its count, not the value
            name, codec = columns[-1]
            columns[-1] = (name, _as_count(codec))
    if len(early) < len(distinct):
        for name in binding.predicate_columns:
            add(RAW + name, name, binding.schema[name])
    row_codec = InputCodec(
        tuple(columns),
        tuple(layout.types),
        layout.bits,
        keys=len(binding.query.partition_by),
        predicates=tuple(f"{PREDICATE}{number}" for number in early),
        time=time,
        is_sequenced=binding.sequence is not None,
    )
    encoded = [f"{values[wire]} AS v{wire}" for wire in sorted(values)]
    return row_codec, encoded + mask_sql(bits, row_codec.words)


def calculated_type(
    column: CalculatedColumn, types: Mapping[str, spark.DataType]
) -> spark.DataType:
    """What Spark calculates; times are of the type of a column that is read, if one is like them."""
    same = (types[name] for name, dtype in column.schema.items() if dtype == column.dtype)
    return next(same, None) or spark_type(column.dtype)


def _as_count(codec: ColumnCodec) -> ColumnCodec:
    """The same wire column, decoded as the integer that it is."""
    return ColumnCodec(pl.Int64(), Encoding.LONG, codec.wire, codec.null_bit)


def key_sql(name: str, data_type: spark.DataType) -> str:
    """A partition column whose equal values have equal hashes: NaN is NULL, -0.0 is 0.0."""
    sql = spark_text.column(name)
    if isinstance(data_type, (spark.FloatType, spark.DoubleType)):
        kind = data_type.simpleString()
        return f"(nullif({sql}, CAST('NaN' AS {kind})) + CAST(0 AS {kind}))"
    return sql


@dataclass(frozen=True)
class ResultCodec(RowCodec):
    """Result rows, encoded in Python, decoded in the JVM."""

    def encode(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The wire columns of result rows."""
        values: dict[int, pl.Series] = {}
        masks = [np.zeros(len(rows), np.int64) for _ in range(self.words)]
        for name, codec in self.columns:
            codec.encode(rows[name].alias(""), values, masks)  # Polars reads "^x$" as a pattern
        columns = [values[wire].alias(f"v{wire}") for wire in sorted(values)]
        return pl.DataFrame(columns + [pl.Series(f"m{w}", mask) for w, mask in enumerate(masks)])


def result_codec(
    binding: Binding, types: Mapping[str, spark.DataType]
) -> tuple[ResultCodec, dict[str, str]]:
    """The codec of a query's result, and for each result column the Spark SQL that decodes it.

    ``types`` are those of the input's columns, where there is one input.
    """
    layout = WireLayout()
    columns: list[tuple[str, ColumnCodec]] = []
    decoded: dict[str, str] = {}
    for output in binding.outputs:
        codec = layout.codec(output.dtype)
        columns.append((output.name, codec))
        decoded[output.name] = codec.decode_sql(_result_type(output, types))
    return ResultCodec(tuple(columns), tuple(layout.types), layout.bits), decoded


def _result_type(output: Output, types: Mapping[str, spark.DataType]) -> spark.DataType:
    """The Spark type of a result column: that of the input column whose values it holds."""
    if output.values_of is not None and output.values_of in types:
        return types[output.values_of]
    return spark_type(output.dtype)
