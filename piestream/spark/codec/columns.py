"""One column as wire columns: how its values are encoded and decoded, in Spark SQL and in Polars.

Only 64-bit integers, doubles, strings and the like travel between the JVM and Python: dates and
times as counts, booleans as 0 and 1, structs as their fields. A streaming query goes through
pandas, which turns integers with NULLs into doubles and times into nanoseconds; so a NULL travels
as a 0 and a bit of a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pyspark.sql import types as spark

from piestream.expressions.backends import spark_text
from piestream.spark.codec.types import from_long_sql, to_long_sql

__all__ = [
    "ColumnCodec",
    "Encoding",
    "Masks",
    "WireLayout",
    "mask_bits",
    "mask_sql",
    "mask_words",
]

#: The type in Spark of whole numbers of more than 64 bits.
_WIDE = "decimal(38,0)"
#: The words of the mask, 64 bits a row in each.
Masks = Sequence[NDArray[np.int64]]


class Encoding(Enum):
    """How a value travels."""

    LONG = "as a 64-bit integer"
    DOUBLE = "as a double"
    DECIMAL = "as a decimal number of 38 digits"
    UNCHANGED = "as it is"
    FIELDS = "as its fields"


@dataclass(frozen=True, slots=True)
class ColumnCodec:
    """How one column travels.

    ``wire`` is the number of its wire column. ``null_bit`` is the bit of the mask that is set where
    the value is NULL. -1 stands for none.
    """

    dtype: pl.DataType
    encoding: Encoding
    wire: int = -1
    null_bit: int = -1
    fields: tuple[ColumnCodec, ...] = ()

    @property
    def wires(self) -> list[int]:
        """The wire columns of the value, or of all its fields."""
        if self.encoding is Encoding.FIELDS:
            return [wire for part in self.fields for wire in part.wires]
        return [self.wire]

    # -- in Spark SQL -----------------------------------------------------------------------------

    def encode_sql(
        self,
        path: tuple[str, ...],
        data_type: spark.DataType,
        values: dict[int, str],
        bits: dict[int, str],
        sql: str | None = None,
    ) -> None:
        """Add the expression of each wire column to ``values``, of each NULL bit to ``bits``.

        ``path`` is the column, or the field of one; ``sql`` is an expression to read in its place.
        """
        sql = spark_text.column(*path) if sql is None else sql
        if self.null_bit >= 0:
            bits[self.null_bit] = f"({sql} IS NULL)"
        if self.encoding is Encoding.FIELDS:
            assert isinstance(data_type, spark.StructType)
            for part, inner in zip(self.fields, data_type.fields, strict=True):
                part.encode_sql((*path, inner.name), inner.dataType, values, bits)
        elif self.encoding is Encoding.LONG:
            values[self.wire] = f"coalesce({to_long_sql(sql, data_type)}, 0L)"
        elif self.encoding is Encoding.DOUBLE:
            value = f"CAST({sql} AS DOUBLE)"
            values[self.wire] = value if self.null_bit < 0 else f"coalesce({value}, 0D)"
        elif self.encoding is Encoding.DECIMAL:
            values[self.wire] = f"CAST({sql} AS {_WIDE})"
        else:
            values[self.wire] = sql

    def decode_sql(self, data_type: spark.DataType) -> str:
        """The expression of the column over its wire columns."""
        if self.encoding is Encoding.FIELDS:
            assert isinstance(data_type, spark.StructType)
            parts = ", ".join(
                f"{spark_text.string(inner.name)}, {part.decode_sql(inner.dataType)}"
                for part, inner in zip(self.fields, data_type.fields, strict=True)
            )
            value = f"named_struct({parts})"
        else:
            value = from_long_sql(f"v{self.wire}", data_type)
        if self.null_bit < 0:
            return value
        known = f"(m{self.null_bit // 64} & {_bit_sql(self.null_bit)}) = 0L"
        return f"IF({known}, {value}, NULL)"

    # -- in Polars --------------------------------------------------------------------------------

    def encode(
        self, column: pl.Series, values: dict[int, pl.Series], masks: list[NDArray[np.int64]]
    ) -> None:
        """Add the wire columns to ``values``, and the bits of NULLs to ``masks``."""
        if self.null_bit >= 0 and column.null_count():
            missing = column.is_null().to_numpy().astype(np.int64)
            masks[self.null_bit // 64] |= missing << (self.null_bit % 64)
        if self.encoding is Encoding.FIELDS:
            for number, part in enumerate(self.fields):
                part.encode(column.struct.unnest().to_series(number), values, masks)
        elif self.encoding is Encoding.LONG:
            if isinstance(self.dtype, pl.Duration):
                column = column.cast(pl.Duration("us"))
            values[self.wire] = _without_nulls(column.to_physical(), pl.Int64(), 0)
        elif self.encoding is Encoding.DOUBLE:
            values[self.wire] = _without_nulls(column, pl.Float64(), 0.0)
        elif self.encoding is Encoding.DECIMAL:
            values[self.wire] = column.cast(pl.Decimal(38, 0))
        else:
            values[self.wire] = column.cast(pl.String) if self.dtype == pl.Null else column

    def decode(self, wire: pl.DataFrame, masks: Masks) -> pl.Series:
        """The column, from its wire columns and the mask."""
        missing = mask_bits(masks, self.null_bit) if self.null_bit >= 0 else None
        if missing is not None and not missing.any():
            missing = None
        if self.encoding is Encoding.FIELDS:
            names = [inner.name for inner in self.dtype.fields]  # type: ignore[attr-defined]
            parts = zip(names, self.fields, strict=True)
            column = pl.DataFrame([p.decode(wire, masks).alias(n) for n, p in parts]).to_struct()
            if missing is None:
                return column
            return pl.select(pl.when(pl.Series(~missing)).then(column)).to_series()
        column = wire[f"v{self.wire}"]
        if self.encoding is Encoding.DOUBLE:
            if self.null_bit < 0 and np.isnan(column.to_numpy()).any():
                column = column.fill_nan(None)
        elif self.encoding is Encoding.LONG and self.dtype == pl.Boolean:
            column = column != 0
        elif self.encoding is Encoding.LONG and self.dtype == pl.Date:
            column = column.cast(pl.Int32)
        if missing is not None:
            column = column.set(pl.Series(missing), None)
        return column if column.dtype == self.dtype else column.cast(self.dtype)


@dataclass
class WireLayout:
    """Hands out wire columns and bits of the mask."""

    bits: int = 0
    types: list[str] = field(default_factory=list)

    def codec(self, dtype: pl.DataType, *, null_as_nan: bool = False) -> ColumnCodec:
        """The codec of one more column. ``null_as_nan``: a NULL float may travel as NaN."""
        if isinstance(dtype, pl.Struct):
            bit = self._bit()
            fields = tuple(self.codec(inner.dtype) for inner in dtype.fields)  # type: ignore[arg-type]
            return ColumnCodec(dtype, Encoding.FIELDS, null_bit=bit, fields=fields)
        if dtype.is_float():
            bit = -1 if null_as_nan else self._bit()
            return ColumnCodec(dtype, Encoding.DOUBLE, self._wire("double"), bit)
        if dtype == pl.Int128:
            return ColumnCodec(dtype, Encoding.DECIMAL, self._wire(_WIDE))
        if dtype.is_integer() or dtype == pl.Boolean or dtype.is_temporal():
            return ColumnCodec(dtype, Encoding.LONG, self._wire("bigint"), self._bit())
        return ColumnCodec(dtype, Encoding.UNCHANGED, self._wire(_unchanged_type(dtype)))

    def _wire(self, type: str) -> int:
        self.types.append(type)
        return len(self.types) - 1

    def _bit(self) -> int:
        self.bits += 1
        return self.bits - 1


def _unchanged_type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Decimal):
        return f"decimal({dtype.precision},{dtype.scale})"
    if dtype in (pl.String, pl.Null):
        return "string"
    if dtype == pl.Binary:
        return "binary"
    raise TypeError(f"columns of type {dtype} cannot be used in a query on Spark")


def _without_nulls(column: pl.Series, dtype: pl.DataType, value: float) -> pl.Series:
    """A column of this type with a value for NULL. Polars is called only where there is something
    to do: each of its calls costs more than the rows of a bucket."""
    column = column if column.dtype == dtype else column.cast(dtype)
    return column.fill_null(value) if column.null_count() else column


# -- the mask -------------------------------------------------------------------------------------


def mask_words(bits: int) -> int:
    """How many 64-bit words hold so many bits."""
    return (bits + 63) // 64


def mask_sql(conditions: dict[int, str], words: int) -> list[str]:
    """The words of the mask in Spark SQL, from the condition of each bit."""
    written = []
    for word in range(words):
        bits = [
            f"IF({conditions[bit]}, {_bit_sql(bit)}, 0L)"
            for bit in sorted(conditions)
            if bit // 64 == word
        ]
        written.append("(" + " | ".join(bits or ["0L"]) + f") AS m{word}")
    return written


def mask_bits(masks: Masks, bit: int) -> NDArray[np.bool_]:
    """One bit of the mask, of every row."""
    held: NDArray[np.bool_] = (masks[bit // 64] >> (bit % 64)) & 1 != 0
    return held


def _bit_sql(bit: int) -> str:
    place = bit % 64
    return spark_text.literal(1 << place if place < 63 else -(1 << 63))
