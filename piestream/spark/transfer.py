"""Frames between this process and Spark, where the streams of one query are frames of both kinds."""

from __future__ import annotations

from typing import Any

import polars as pl
from pyspark.sql import types as spark

from piestream.adapters.read_columns import columns_to_read
from piestream.expressions.backends import spark_text
from piestream.language.model import Query
from piestream.plan.columns import is_moment
from piestream.spark.codec.types import polars_schema, spark_type, zone_of

__all__ = ["local_frame", "spark_frame"]


def local_frame(frame: Any, reader: Query) -> pl.DataFrame:
    """A bounded Spark frame as a Polars one of the columns that a query reads."""
    zone = zone_of(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    types = polars_schema(frame.schema, zone)
    read = columns_to_read(reader, list(types), lambda name: is_moment(types[name]))
    names = map(spark_text.column, read)
    columns = pl.from_arrow(frame.selectExpr(*(f"{name} AS {name}" for name in names)).toArrow())
    assert isinstance(columns, pl.DataFrame)
    return columns


def spark_frame(session: Any, frame: pl.DataFrame) -> Any:
    """A Polars frame as a bounded Spark frame."""
    frame = frame.select(_for_spark(column) for column in frame)
    fields = [spark.StructField(name, spark_type(dtype)) for name, dtype in frame.schema.items()]
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return session.createDataFrame(table, spark.StructType(fields))


def _for_spark(column: pl.Series) -> pl.Series:
    """A column with a type that Spark has: no integers without sign, no times but microseconds."""
    dtype = column.dtype
    if dtype.is_unsigned_integer():
        return column.cast(pl.Int64)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return column.cast(pl.String)
    if isinstance(dtype, pl.Datetime) and dtype.time_unit != "us":
        rounded = column.cast(pl.Datetime("us", dtype.time_zone))
        if not rounded.cast(dtype).equals(column):
            raise ValueError(
                f"{column.name} holds times finer than the microseconds that Spark has: round them"
            )
        return rounded
    return column
