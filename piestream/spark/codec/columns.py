"""Spark's types as Polars types, and as the plain columns in which values cross to Python.

Between the JVM and Python only 64-bit integers, doubles, strings and the like cross: dates and
times as counts, booleans as 0 and 1, structs as their fields. pandas stands in the way of a
streaming query, and it turns integers with NULLs into doubles and times into nanoseconds; so a
NULL crosses as a bit of a mask beside a 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
from pyspark.sql import types as spark

__all__ = ["Crossing", "Way", "polars_schema", "polars_type", "quoted", "text", "zone_of"]

LONG, DOUBLE, PLAIN, FIELDS = "long", "double", "plain", "fields"

_SIMPLE: dict[type, pl.DataType] = {
    spark.ByteType: pl.Int8(),
    spark.ShortType: pl.Int16(),
    spark.IntegerType: pl.Int32(),
    spark.LongType: pl.Int64(),
    spark.FloatType: pl.Float32(),
    spark.DoubleType: pl.Float64(),
    spark.BooleanType: pl.Boolean(),
    spark.StringType: pl.String(),
    spark.BinaryType: pl.Binary(),
    spark.DateType: pl.Date(),
    spark.TimestampNTZType: pl.Datetime("us"),
    spark.DayTimeIntervalType: pl.Duration("us"),
    spark.NullType: pl.Null(),
}

_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_MICROSECOND = "INTERVAL '0.000001' SECOND"


def quoted(name: str) -> str:
    """A column's name in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def zone_of(setting: str) -> str:
    """A session's time zone as a name of the time zone database, which Polars wants."""
    if setting in ("Z", "UTC", "GMT", "UT"):
        return "UTC"
    offset = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])0?(\d{1,2})(?::?00)?", setting)
    if offset:
        sign = "-" if offset[1] == "+" else "+"  # the database counts to the west
        return "UTC" if int(offset[2]) == 0 else f"Etc/GMT{sign}{int(offset[2])}"
    try:
        pl.Series([0], dtype=pl.Int64).cast(pl.Datetime("us", setting)).dt.hour()
    except pl.exceptions.PolarsError:
        raise ValueError(
            f"the session's time zone {setting!r} has no name that piestream can use; set "
            "spark.sql.session.timeZone to a name such as 'UTC' or 'Europe/Berlin'"
        ) from None
    return setting


def polars_type(data_type: spark.DataType, zone: str) -> pl.DataType:
    """The Polars type of a column of Spark; Object for what no query can use."""
    if isinstance(data_type, spark.TimestampType):
        return pl.Datetime("us", zone)
    if isinstance(data_type, spark.DecimalType):
        return pl.Decimal(data_type.precision, data_type.scale)
    if isinstance(data_type, spark.StructType):
        return pl.Struct({f.name: polars_type(f.dataType, zone) for f in data_type.fields})
    if isinstance(data_type, spark.StringType):  # also with a collation
        return pl.String()
    return _SIMPLE.get(type(data_type), pl.Object())


def polars_schema(schema: spark.StructType, zone: str) -> dict[str, pl.DataType]:
    """The columns of a Spark frame with their Polars types."""
    return {field.name: polars_type(field.dataType, zone) for field in schema.fields}


@dataclass(frozen=True, slots=True)
class Crossing:
    """How one column crosses: as which plain columns, and where its NULLs are told.

    ``place`` is the number of the plain column, ``flag`` the bit of the mask that is set where
    the value is NULL; -1 where there is none.
    """

    dtype: pl.DataType
    kind: str
    place: int = -1
    flag: int = -1
    fields: tuple[Crossing, ...] = ()

    @property
    def places(self) -> list[int]:
        """The plain columns of the value, or of all its fields."""
        if self.kind == FIELDS:
            return [place for part in self.fields for place in part.places]
        return [self.place]


@dataclass
class Way:
    """Plain columns as they are planned: their types, and how many bits of the mask are taken."""

    types: list[str]
    bits: int = 0

    @classmethod
    def empty(cls, bits: int = 0) -> Way:
        """No columns yet; the first bits of the mask are taken for something else."""
        return cls([], bits)

    def planned(self, dtype: pl.DataType, *, own_nulls: bool = False) -> Crossing:
        """Plan a column's crossing. ``own_nulls``: a NULL double may cross as NaN."""
        if isinstance(dtype, pl.Struct):
            flag = self._flag()
            fields = tuple(self.planned(field.dtype) for field in dtype.fields)  # type: ignore[arg-type]
            return Crossing(dtype, FIELDS, flag=flag, fields=fields)
        if dtype.is_float():
            flag = -1 if own_nulls else self._flag()
            return Crossing(dtype, DOUBLE, self._column("double"), flag)
        if dtype.is_integer() or dtype == pl.Boolean or dtype.is_temporal():
            return Crossing(dtype, LONG, self._column("bigint"), self._flag())
        return Crossing(dtype, PLAIN, self._column(_plain_type(dtype)))

    def _column(self, type: str) -> int:
        self.types.append(type)
        return len(self.types) - 1

    def _flag(self) -> int:
        self.bits += 1
        return self.bits - 1

    @property
    def words(self) -> int:
        """How many 64-bit words the mask has."""
        return (self.bits + 63) // 64

    @property
    def ddl(self) -> list[str]:
        """The plain columns and the mask as they are declared to Spark."""
        columns = [f"v{place} {type}" for place, type in enumerate(self.types)]
        return columns + [f"m{word} bigint" for word in range(self.words)]


def _plain_type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Decimal):
        return f"decimal({dtype.precision},{dtype.scale})"
    if dtype in (pl.String, pl.Null):
        return "string"
    if dtype == pl.Binary:
        return "binary"
    raise TypeError(f"columns of type {dtype} cannot be used in a query on Spark")


# -- in SQL, on the way to Python -------------------------------------------------------------


def as_long(sql: str, data_type: spark.DataType) -> str:
    """An integer, a boolean, a date or a time as a count, in Spark SQL."""
    if isinstance(data_type, spark.DateType):
        return f"CAST(unix_date({sql}) AS BIGINT)"
    if isinstance(data_type, spark.TimestampType):
        return f"unix_micros({sql})"
    if isinstance(data_type, spark.TimestampNTZType):
        # A cast to TIMESTAMP goes by the session's clock, which may skip an hour a year. Where it
        # does not, Spark's optimizer leaves the cast alone, which is several times as quick.
        return (
            f"IF(current_timezone() IN ('UTC', 'Etc/UTC'), unix_micros(CAST({sql} AS TIMESTAMP)), "
            f"unix_date(CAST({sql} AS DATE)) * 86400000000L + hour({sql}) * 3600000000L"
            f" + minute({sql}) * 60000000L"
            f" + CAST(extract(SECOND FROM {sql}) * 1000000 AS BIGINT))"
        )
    if isinstance(data_type, spark.DayTimeIntervalType):
        return (
            f"(extract(DAY FROM {sql}) * 86400000000L + extract(HOUR FROM {sql}) * 3600000000L"
            f" + extract(MINUTE FROM {sql}) * 60000000L"
            f" + CAST(extract(SECOND FROM {sql}) * 1000000 AS BIGINT))"
        )
    return f"CAST({sql} AS BIGINT)"


def outward(
    crossing: Crossing, sql: str, data_type: spark.DataType
) -> Iterator[tuple[int, str, int, str]]:
    """For each plain column its place and its SQL, for each flag its bit and its SQL."""
    null = f"({sql} IS NULL)"
    if crossing.kind == FIELDS:
        assert isinstance(data_type, spark.StructType)
        yield -1, "", crossing.flag, null
        for part, field in zip(crossing.fields, data_type.fields, strict=True):
            yield from outward(part, f"{sql}.{quoted(field.name)}", field.dataType)
    elif crossing.kind == LONG:
        value = f"coalesce({as_long(sql, data_type)}, 0L)"
        yield crossing.place, value, crossing.flag, null
    elif crossing.kind == DOUBLE:
        value = f"CAST({sql} AS DOUBLE)"
        if crossing.flag >= 0:
            value = f"coalesce({value}, 0D)"
        yield crossing.place, value, crossing.flag, null
    else:
        yield crossing.place, sql, -1, ""


def mask_words(flags: dict[int, str], words: int) -> list[str]:
    """The words of the mask in Spark SQL, from the condition of each bit."""
    written = []
    for word in range(words):
        bits = [
            f"IF({flags[bit]}, {_bit(bit % 64)}, 0L)" for bit in sorted(flags) if bit // 64 == word
        ]
        written.append("(" + " | ".join(bits or ["0L"]) + f") AS m{word}")
    return written


def _bit(place: int) -> str:
    return f"{1 << place}L" if place < 63 else "(-9223372036854775807L - 1L)"


# -- in SQL, on the way back ------------------------------------------------------------------


def inward(crossing: Crossing, data_type: spark.DataType) -> str:
    """The column again, in Spark SQL, from its plain columns."""
    known = f"(m{crossing.flag // 64} & {_bit(crossing.flag % 64)}) = 0L"
    if crossing.kind == FIELDS:
        assert isinstance(data_type, spark.StructType)
        parts = ", ".join(
            f"{text(field.name)}, {inward(part, field.dataType)}"
            for part, field in zip(crossing.fields, data_type.fields, strict=True)
        )
        return f"IF({known}, named_struct({parts}), NULL)"
    value = _valued(f"v{crossing.place}", data_type)
    return value if crossing.flag < 0 else f"IF({known}, {value}, NULL)"


def _valued(plain: str, data_type: spark.DataType) -> str:
    if isinstance(data_type, spark.BooleanType):
        return f"({plain} <> 0L)"
    if isinstance(data_type, spark.DateType):
        return f"date_from_unix_date(CAST({plain} AS INT))"
    if isinstance(data_type, spark.TimestampType):
        return f"timestamp_micros({plain})"
    if isinstance(data_type, spark.TimestampNTZType):
        return f"timestampadd(MICROSECOND, {plain}, {_EPOCH})"
    if isinstance(data_type, spark.DayTimeIntervalType):
        return f"({plain} * {_MICROSECOND})"
    return f"CAST({plain} AS {data_type.simpleString()})"


def text(value: str) -> str:
    """A string in Spark SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
