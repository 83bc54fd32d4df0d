"""Spark's types: as Polars types, and as the 64-bit integers that stand for their values."""

from __future__ import annotations

import re
from datetime import datetime

import polars as pl
from pyspark.sql import types as spark

from piestream.expressions.backends import spark_text

__all__ = [
    "converted_sql",
    "from_long_sql",
    "polars_schema",
    "spark_type",
    "to_long_sql",
    "zone_of",
]

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

_SIMPLE_TYPES: dict[pl.DataType, type[spark.DataType]] = {
    dtype: data_type for data_type, dtype in _SIMPLE.items()
}

_EPOCH = spark_text.literal(datetime(1970, 1, 1))
_MICROSECOND = "INTERVAL '0.000001' SECOND"


def zone_of(setting: str) -> str:
    """A session's time zone as a name of the time zone database, which Polars wants.

    >>> zone_of("GMT+2")
    'Etc/GMT-2'
    """
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


def polars_schema(schema: spark.StructType, zone: str) -> dict[str, pl.DataType]:
    """The columns of a Spark frame with their Polars types."""
    return {field.name: _polars_type(field.dataType, zone) for field in schema.fields}


def _polars_type(data_type: spark.DataType, zone: str) -> pl.DataType:
    """The Polars type of a column of Spark; Object for what no query can use."""
    if isinstance(data_type, spark.TimestampType):
        return pl.Datetime("us", zone)
    if isinstance(data_type, spark.DecimalType):
        return pl.Decimal(data_type.precision, data_type.scale)
    if isinstance(data_type, spark.StructType):
        return pl.Struct({f.name: _polars_type(f.dataType, zone) for f in data_type.fields})
    if isinstance(data_type, spark.StringType):  # also with a collation
        return pl.String()
    return _SIMPLE.get(type(data_type), pl.Object())


def spark_type(dtype: pl.DataType) -> spark.DataType:
    """The Spark type of a column that is of this type in Polars.

    >>> spark_type(pl.List(pl.Int64()))
    Traceback (most recent call last):
    TypeError: columns of type List(Int64) cannot be used in a query on Spark
    """
    if isinstance(dtype, pl.Datetime):
        return spark.TimestampNTZType() if dtype.time_zone is None else spark.TimestampType()
    if isinstance(dtype, pl.Duration):
        return spark.DayTimeIntervalType()
    if dtype == pl.Int128:
        return spark.DecimalType(38, 0)
    if isinstance(dtype, pl.Decimal):
        return spark.DecimalType(dtype.precision or 38, dtype.scale)
    if isinstance(dtype, pl.Struct):
        fields = (spark.StructField(f.name, spark_type(f.dtype)) for f in dtype.fields)  # type: ignore[arg-type]
        return spark.StructType(list(fields))
    if dtype not in _SIMPLE_TYPES:
        raise TypeError(f"columns of type {dtype} cannot be used in a query on Spark")
    return _SIMPLE_TYPES[dtype]()


def converted_sql(sql: str, given: spark.DataType, wanted: spark.DataType) -> str:
    """A value as one of another type. A date is its midnight in UTC, as it is in Polars."""
    is_moment = isinstance(wanted, (spark.TimestampType, spark.TimestampNTZType))
    if isinstance(given, spark.DateType) and is_moment:
        return from_long_sql(f"({to_long_sql(sql, given)} * 86400000000L)", wanted)
    return f"CAST({sql} AS {wanted.simpleString()})"


def to_long_sql(sql: str, data_type: spark.DataType) -> str:
    """An integer, a boolean, or the count of days or microseconds of a date or a time."""
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


def from_long_sql(sql: str, data_type: spark.DataType) -> str:
    """A value of this type from what `to_long_sql` gives; other types are cast."""
    if isinstance(data_type, spark.BooleanType):
        return f"({sql} <> 0L)"
    if isinstance(data_type, spark.DateType):
        return f"date_from_unix_date(CAST({sql} AS INT))"
    if isinstance(data_type, spark.TimestampType):
        return f"timestamp_micros({sql})"
    if isinstance(data_type, spark.TimestampNTZType):
        return f"timestampadd(MICROSECOND, {sql}, {_EPOCH})"
    if isinstance(data_type, spark.DayTimeIntervalType):
        return f"({sql} * {_MICROSECOND})"
    return f"CAST({sql} AS {data_type.simpleString()})"
