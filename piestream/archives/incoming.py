"""Rows that are appended: of whatever kind they come, they have the columns of those that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from piestream.adapters.event_columns import event_list
from piestream.adapters.frames import as_polars
from piestream.archives.manifest import Manifest
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.errors import SchemaError, TimeError
from piestream.plan.columns import is_moment

__all__ = ["as_frame", "fitting"]


def as_frame(rows: Any) -> pl.DataFrame:
    """Rows of any kind as a Polars frame of all their columns."""
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    events = event_list(rows)
    if events is None:
        frame, _ = as_polars(rows)
        return frame
    if not events:
        raise ValueError("an empty list has no columns: give a frame without rows instead")
    if not all(isinstance(event, Mapping) for event in events):
        raise TypeError("a list of rows is a list of dicts")
    return pl.DataFrame(events, infer_schema_length=None)


def fitting(frame: pl.DataFrame, manifest: Manifest) -> tuple[pl.DataFrame, Manifest]:
    """Rows with the columns of the archive, which the first ones decide."""
    schema = manifest.columns
    if schema is None:
        for name in (manifest.time, *manifest.key):
            if name not in frame.columns:
                listed = ", ".join(frame.columns)
                raise SchemaError(f"the rows have no column {name}; their columns are {listed}")
        dtype = frame.schema[manifest.time]
        if not (dtype.is_integer() or is_moment(dtype)) or dtype in (pl.Int128, pl.UInt128):
            raise SchemaError(
                f"the time column {manifest.time} has type {dtype}; it must be an integer, a date or "
                "a datetime"
            )
        for name, dtype in frame.schema.items():
            _refuse_unknown(name, dtype)
        manifest = manifest.with_schema(frame.schema)
    else:
        frame = _as_before(frame, schema)
    missing = frame[manifest.time].null_count()
    if missing:
        raise TimeError(
            f"the time column {manifest.time} is NULL in {missing} of the rows; every row needs a time"
        )
    _refuse_far(frame[manifest.time])
    return frame, manifest


def _refuse_far(times: pl.Series) -> None:
    """Refuse times that no event may have."""
    ticks = times.alias("times").to_physical()  # Polars would take some names for patterns
    for time in (ticks.min(), ticks.max()):
        if isinstance(time, int) and not INT64_MIN < time < INT64_MAX:
            raise TimeError(
                f"the time column {times.name} holds {time}; times must lie strictly between the ends of "
                "the 64-bit range"
            )


def _refuse_unknown(name: str, dtype: pl.DataType) -> None:
    """Refuse a column whose type later rows could not have, or that no file can keep."""
    if _holds(dtype, pl.Null):
        raise SchemaError(
            f"column {name} has type {dtype}: its values are all NULL, so it is not known what type it "
            "has. Give it the one that it will have, such as with_columns(pl.col(...).cast(pl.String)); "
            "the first rows decide the types of an archive"
        )
    if _holds(dtype, pl.Object):
        raise SchemaError(
            f"column {name} has type {dtype}: its values are Python objects, which a file cannot keep. "
            "Leave it out, or give its values one type such as numbers or texts"
        )


def _holds(dtype: pl.DataType, kind: type[pl.DataType]) -> bool:
    """Whether a type, or one inside it, is of a kind."""
    if isinstance(dtype, pl.List | pl.Array):
        return _holds(pl.Series(dtype=dtype.inner).dtype, kind)
    if isinstance(dtype, pl.Struct):
        return any(_holds(pl.Series(dtype=f.dtype).dtype, kind) for f in dtype.fields)
    return dtype == kind


def _as_before(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """Rows with the columns of earlier ones, whose types they must have, or numbers that these hold."""
    columns = []
    for name, dtype in schema.items():
        if name not in frame.columns:
            raise SchemaError(f"the rows have no column {name}, which earlier rows had")
        columns.append(_of_type(frame[name], dtype))
    unknown = [name for name in frame.columns if name not in schema]
    if unknown:
        raise SchemaError(f"the rows have a column {unknown[0]}, which earlier rows did not have")
    return pl.DataFrame(columns)


def _are_times(own: pl.DataType, dtype: pl.DataType) -> bool:
    """Whether both are dates with times, with zones or without."""
    if not isinstance(own, pl.Datetime) or not isinstance(dtype, pl.Datetime):
        return False
    return (own.time_zone is None) == (dtype.time_zone is None)


def _of_type(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column in the type of earlier rows, where that changes no value.

    Whole numbers are taken for floats, too, and times of another unit, or with another zone.
    """
    own, name = column.dtype, column.name
    if own in (dtype, pl.Null):
        return column.cast(dtype)
    holds_more = own.is_integer() and (dtype.is_integer() or dtype.is_float())
    if holds_more or (own == pl.Float32 and dtype == pl.Float64) or _are_times(own, dtype):
        found = column.cast(dtype, strict=False)
        is_changed = (found.cast(own, strict=False) != column).fill_null(
            True
        ) & column.is_not_null()
        if own.is_float() or not is_changed.any():
            return found
        raise SchemaError(
            f"column {name} has {column.filter(is_changed)[0]}, which the type of earlier rows, {dtype}, "
            "cannot hold: leave such rows out, or append all rows to an archive whose first rows have "
            f"the type {own}"
        )
    hint = "cast it"
    if own.is_float() and dtype.is_integer():
        hint = (
            "cast it if its values are whole, or append all rows to an archive whose first rows have "
            "floats: an archive of floats takes whole numbers, but not the other way round"
        )
    raise SchemaError(f"column {name} has type {own}; earlier rows have {dtype}: {hint}")
