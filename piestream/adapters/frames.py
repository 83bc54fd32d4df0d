"""The kinds of frames: any of them to a Polars frame, and result rows back to the same kind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import polars as pl

from piestream.adapters.read_columns import columns_to_read, pandas_may_be_time
from piestream.errors import SchemaError
from piestream.language.model import Query
from piestream.plan.columns import is_moment

__all__ = ["Kind", "as_kind", "as_polars"]

#: What result rows are given as; "events" are dicts.
Kind = Literal["polars", "pandas", "pyarrow", "duckdb", "events"]


def as_polars(frame: Any, query: Query | None = None) -> tuple[pl.DataFrame, Kind]:
    """A frame as a Polars frame of the columns that a query reads, and its kind for `as_kind`.

    Without a query all columns are read.
    """
    if isinstance(frame, pl.DataFrame):
        types = frame.schema
        read = _columns(query, types.names(), lambda name: is_moment(types[name]))
        return (frame if read == frame.columns else frame[read]), "polars"
    if isinstance(frame, Mapping):
        raise TypeError("a dict is no frame: give pl.DataFrame(columns), or a list of dicts")
    import narwhals as nw

    try:
        wrapped = nw.from_native(frame)
    except TypeError:
        raise TypeError(_no_frame(frame)) from None
    except nw.exceptions.DuplicateError as error:
        message = " ".join(str(error).split())
        raise SchemaError(f"a frame's columns need different names. {message}") from None
    implementation = wrapped.implementation
    if implementation.is_duckdb():
        needed = wrapped.select(_typed_columns(wrapped, query))
        columns: pl.DataFrame = needed.collect(backend="polars").to_native()
        return columns, "duckdb"
    if isinstance(wrapped, nw.LazyFrame):
        raise TypeError(
            _NOT_COLLECTED.get(implementation.value, f"{implementation} frames are not supported")
        )
    if implementation.is_pandas():
        frame = _with_index(frame)
        read = _columns(query, list(frame.columns), lambda name: pandas_may_be_time(frame[name]))
        with _pyarrow_for_pandas():
            return _of_pandas(nw.from_native(frame[read])), "pandas"
    kind: Kind = "pyarrow" if implementation.is_pyarrow() else "polars"
    return wrapped.select(_typed_columns(wrapped, query)).to_polars(), kind


def _columns(
    query: Query | None, names: list[str], may_be_time: Callable[[str], bool]
) -> list[str]:
    """The columns to read of these."""
    return names if query is None else columns_to_read(query, names, may_be_time)


def _typed_columns(wrapped: Any, query: Query | None) -> list[str]:
    """The columns that a query reads of a frame whose types are known without its values."""
    types = wrapped.collect_schema()
    return _columns(query, types.names(), lambda name: types[name].is_temporal())


#: How to make a frame or an event of a value that is neither, by the name of its type.
_INSTEAD = {
    "RecordBatch": "pa.Table.from_batches([batch]) is one",
    "RecordBatchReader": "reader.read_all() is one",
    "ndarray": "pl.DataFrame(array, schema=[names of columns]) is one",
    "Series": "an event is a dict: series.to_dict() of a pandas row",
    "bytes": "an event is a dict: json.loads(text) of JSON",
    "Archive": "query.run(archive) reads what it needs; elsewhere give its rows, archive.scan().collect(), "
    "or some of them, archive.scan().filter(…).collect()",
    "SparkArchive": "query.run takes it; elsewhere give rows, archive.scan().collect()",
}


#: What to do with frames whose rows are elsewhere, by what narwhals calls them.
_NOT_COLLECTED = {
    "pyspark": "a Spark frame goes to query.run, whether it is bounded or streaming; elsewhere give "
    "its rows: frame.toArrow()",
}


def _no_frame(thing: Any) -> str:
    if isinstance(thing, str) and thing.lstrip()[:1] in ("{", "["):
        return f"{thing!r} is no frame; {_INSTEAD['bytes']}"
    if isinstance(thing, str | os.PathLike):
        return (
            f"{str(thing)!r} is no frame; a query reads files that FROM 'path' names; "
            "elsewhere read it first, as pl.read_csv(path)"
        )
    kind = type(thing).__name__
    known = "give a Polars, pandas, PyArrow, DuckDB or Spark one, or a list of dicts"
    hint = _INSTEAD.get(kind, known)
    return f"an object of type {kind} is no DataFrame that piestream knows: {hint}"


@contextmanager
def _pyarrow_for_pandas() -> Iterator[None]:
    """Say how to install what reads pandas frames, where it is missing."""
    try:
        yield
    except ImportError as error:
        if "pyarrow" not in str(error):
            raise
        raise ImportError(
            "frames of pandas are read and made with pyarrow, which is missing: "
            "pip install 'piestream[pandas]'"
        ) from None


#: What converting pandas columns of mixed Python objects may raise.
_UNCONVERTED = (TypeError, ValueError, NotImplementedError, pl.exceptions.PolarsError)


def _with_index(frame: Any) -> Any:
    """A pandas frame whose named index is columns too, as in pandas' own methods.

    Times in an index without a name are the column ``index``, as ``reset_index()`` calls them.
    """
    index = frame.index
    if index.nlevels == 1 and index.name is None and index.dtype.kind == "M":
        index = index.rename("index")
    levels = [n for n in index.names if isinstance(n, str) and n not in frame.columns]
    return frame.set_axis(index).reset_index(level=levels) if levels else frame


def _of_pandas(frame: Any) -> pl.DataFrame:
    """A pandas frame as a Polars one. Columns of mixed objects are kept: the query may not read them."""

    def column(name: str) -> pl.Series:
        try:
            return pl.Series(name, frame[name].to_polars())
        except _UNCONVERTED:
            return pl.Series(name, frame[name].to_list(), dtype=pl.Object)

    try:
        columns: pl.DataFrame = frame.to_polars()
    except _UNCONVERTED:
        columns = pl.DataFrame([column(name) for name in frame.columns])
    # Objects that are all missing say nothing of their type; Polars takes them for strings.
    unknown = [
        column.name for column in columns
        if column.dtype == pl.String and column.null_count() == len(column)
        and frame[column.name].to_native().dtype == object
    ]  # fmt: skip
    return columns.with_columns(pl.lit(None).alias(name) for name in unknown)


def as_kind(kind: Kind, result: pl.DataFrame) -> Any:
    """Result rows as the kind of the input."""
    if kind == "events":
        return result.to_dicts()
    if kind == "pandas":
        return _as_pandas(result)
    if kind == "pyarrow":
        return result.to_arrow()
    if kind == "duckdb":
        import duckdb

        return duckdb.from_arrow(result.to_arrow())
    return result


def _as_pandas(result: pl.DataFrame) -> Any:
    """A pandas frame whose types do not depend on what is NULL in it: integers stay integers."""
    import pandas as pd

    with _pyarrow_for_pandas():
        import pyarrow as pa

    integers = (pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype)
    unsigned = (pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype, pd.UInt64Dtype)
    nullable = {pa.from_numpy_dtype(dtype.type): dtype() for dtype in (*integers, *unsigned)}
    nullable[pa.bool_()] = pd.BooleanDtype()
    return result.to_pandas(types_mapper=nullable.get)
