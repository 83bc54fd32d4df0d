"""Any DataFrame in, the same kind back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import polars as pl

from piestream.adapters.records import frame_of, listed, types_of
from piestream.compiled.constants import INT64_MAX
from piestream.engine.reordering import OnLate, Ties
from piestream.engine.stream import Stream
from piestream.errors import SchemaError
from piestream.language.model import Query
from piestream.language.symbols import DurationLike
from piestream.plan.binding import Binding, bind

#: Rows worked on at a time where an input can be cut: enough to amortise, small enough to stay in
#: the cache.
CHUNK_ROWS = 1 << 18
#: How many matches may come of one piece of a frame, about: room for more than were expected is made
#: by copying. So the first piece shows how thick they come, and the next ones have as many rows as
#: suit that, but not fewer than so many.
_PIECE_MATCHES = 1 << 19
_FIRST_ROWS = 1 << 16
_LEAST_ROWS = 1 << 12


def run(
    query: Query,
    frame: Any = None,
    *,
    ties: Ties | None = None,
    lateness: DurationLike | None = None,
    on_late: OnLate | None = None,
    threads: int | None = None,
    delimiter: str | None = None,
    decimal_comma: bool | None = None,
    **of_spark: Any,
) -> Any:
    """Every match in an input; see `piestream.Query.run`, whose other options are those of Spark.

    Partitions of a large frame are shared out to ``threads``, by default as many as there are cores;
    the rows and their order do not depend on it. A ``delimiter`` parts the columns of CSV files,
    whose numbers may be written with a ``decimal_comma``.
    """
    if frame is not None and (delimiter, decimal_comma) != (None, None):
        what = "a delimiter is" if decimal_comma is None else "decimal commas are"
        raise TypeError(f"{what} for the CSV files that FROM names, not for a frame")
    of_spark = {name: value for name, value in of_spark.items() if value is not None}
    if type(frame).__module__.startswith("pyspark.sql"):
        from piestream import spark

        if threads is not None:
            raise TypeError("threads is no option for a Spark frame: Spark shares out the work")
        return spark.run(query, frame, ties=ties, lateness=lateness, on_late=on_late, **of_spark)
    if of_spark:
        told = "is an option" if len(of_spark) == 1 else "are options"
        raise TypeError(f"{', '.join(of_spark)} {told} of Spark frames; this is none")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads is a number from 1 on, not {threads!r}")
    ties = ties or "error"
    check_options(ties, on_late or "error")
    if frame is None:
        from piestream.adapters.files import run_from

        return run_from(query, ties=ties, delimiter=delimiter, decimal_comma=decimal_comma)
    if isinstance(frame, pl.LazyFrame):
        return run_polars(query, frame, ties=ties, threads=threads)
    events = listed(frame)
    if events is None:
        columns, kind = as_polars(frame)
    elif events:
        columns, kind = frame_of(events, bound(query, types_of(events, query))), "events"
    else:
        raise ValueError("an empty list has no columns: give a frame without rows instead")
    return as_kind(kind, run_polars(query, columns, ties=ties, threads=threads))


def check_options(ties: str, on_late: str) -> None:
    """Refuse options that are not there."""
    for name, value, allowed in (
        ("ties", ties, ("error", "first", "last")),
        ("on_late", on_late, ("error", "drop")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is one of {', '.join(map(repr, allowed))}, not {value!r}")


def run_polars(
    query: Query,
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    ties: Ties = "error",
    threads: int | None = None,
) -> Any:
    """Run over a Polars frame."""
    lazy = isinstance(frame, pl.LazyFrame)
    schema = frame.collect_schema()
    binding = bound(query, schema)
    needed = frame.select(binding.columns)
    if isinstance(needed, pl.LazyFrame):
        needed = needed.collect()
    if threads is None:
        threads = (os.cpu_count() or 1) if len(needed) >= CHUNK_ROWS else 1
    cut = _can_be_cut(binding, needed)
    stream = Stream(binding, ties=ties, lateness=None, whole=not cut, threads=threads)
    results = _in_pieces(stream, needed) if cut else [stream.process(needed)]
    results.append(stream.finish())
    result = pl.concat(results)
    return result.lazy() if lazy else result


def _can_be_cut(binding: Binding, frame: pl.DataFrame) -> bool:
    """Whether the frame is a large single partition in order of time: pieces stay in the cache."""
    times = frame[binding.time.name]
    return (
        not binding.query.partition_by
        and len(frame) > _FIRST_ROWS
        and not times.null_count()
        and times.is_sorted()
    )


def _in_pieces(stream: Stream, frame: pl.DataFrame) -> list[pl.DataFrame]:
    """Take a frame in pieces, of fewer rows where many matches come of them."""
    results = []
    first, rows = 0, _FIRST_ROWS
    while first < len(frame):
        results.append(stream.process(frame[first : first + rows]))
        first += rows
        fitting = rows * _PIECE_MATCHES // max(len(results[-1]), 1)
        rows = max(_LEAST_ROWS, min(fitting, 4 * rows, CHUNK_ROWS))
    return results


def bound(query: Query, schema: pl.Schema | dict[str, pl.DataType]) -> Binding:
    """`bind`, remembered."""
    return _bound(query, query.origin is None, tuple(schema.items()))


@lru_cache(maxsize=64)
def _bound(query: Query, _built: bool, schema: tuple[tuple[str, pl.DataType], ...]) -> Binding:
    return bind(query, dict(schema))


def as_polars(frame: Any) -> tuple[pl.DataFrame, str]:
    """A frame as a Polars frame, and its kind for `as_kind`."""
    if isinstance(frame, pl.DataFrame):
        return frame, "polars"
    if isinstance(frame, Mapping):
        raise TypeError("a dict is no frame: give pl.DataFrame(columns), or a list of dicts")
    import narwhals as nw

    try:
        known = nw.from_native(frame)
    except TypeError:
        raise TypeError(_no_frame(frame)) from None
    except nw.exceptions.DuplicateError as error:
        told = " ".join(str(error).split())
        raise SchemaError(f"a frame's columns need different names. {told}") from None
    implementation = known.implementation
    if implementation.is_duckdb():
        columns: pl.DataFrame = known.collect(backend="polars").to_native()
        return columns, "duckdb"
    if isinstance(known, nw.LazyFrame):
        raise TypeError(f"{implementation} frames are not supported")
    if implementation.is_pandas():
        return _of_pandas(nw.from_native(_with_index(frame))), "pandas"
    return known.to_polars(), "pyarrow" if implementation.is_pyarrow() else "polars"


#: What makes a frame, or an event, of what is none.
_INSTEAD = {
    "RecordBatch": "pa.Table.from_batches([batch]) is one",
    "RecordBatchReader": "reader.read_all() is one",
    "ndarray": "pl.DataFrame(array, schema=[names of columns]) is one",
    "Series": "an event is a dict: series.to_dict() of a pandas row",
    "bytes": "an event is a dict: json.loads(text) of JSON",
}


def _no_frame(thing: Any) -> str:
    if isinstance(thing, str) and thing.lstrip()[:1] in ("{", "["):
        return f"{thing!r} is no frame; {_INSTEAD['bytes']}"
    if isinstance(thing, str | os.PathLike):
        return f"{str(thing)!r} is no frame; a query reads files that FROM 'path' names"
    kind = type(thing).__name__
    known = "give a Polars, pandas, PyArrow, DuckDB or Spark one, or a list of dicts"
    hint = _INSTEAD.get(kind, known)
    return f"an object of type {kind} is no DataFrame that piestream knows: {hint}"


#: What pandas columns of mixed Python objects make of an attempt to convert them.
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
    """A pandas frame as a Polars one. Columns of mixed objects stay so: perhaps nobody reads them."""

    def column(name: str) -> pl.Series:
        try:
            return pl.Series(name, frame[name].to_polars())
        except _UNCONVERTED:
            return pl.Series(name, frame[name].to_list(), dtype=pl.Object)

    try:
        columns: pl.DataFrame = frame.to_polars()
    except _UNCONVERTED:
        return pl.DataFrame([column(name) for name in frame.columns])
    return columns


def as_kind(kind: str, result: pl.DataFrame) -> Any:
    """Result rows in the kind that the input had."""
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
    import pyarrow as pa

    nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return result.to_pandas(types_mapper=nullable.get)


def lateness_ticks(binding: Binding, lateness: Any) -> int:
    """A lateness in ticks of the time column."""
    from piestream.expressions.durations import as_duration

    duration = as_duration(lateness, "the lateness")
    return min(duration.ticks(binding.time.nanoseconds_per_tick, "the lateness"), INT64_MAX)
