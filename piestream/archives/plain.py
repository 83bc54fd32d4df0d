"""Parquet files that something else has written: an archive with the statistics that they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from piestream.archives.footers import Identity, identity_of, is_settled
from piestream.archives.pages import FILE, Pages, scanned
from piestream.archives.statistics import FIRST, HIGHEST, LOWEST, MISSING, ROWS, as_seen
from piestream.errors import FileError

__all__ = ["parquet_files", "plain_pages"]


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a directory, or the file itself; hidden ones and folders are left out."""
    if path.is_file():
        return [path]
    found = sorted(path.rglob("*.parquet"))
    return [one for one in found if one.is_file() and not _is_hidden(one.relative_to(path))]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def plain_pages(root: Path, paths: Sequence[Path]) -> Pages:
    """The row groups of some files of a directory, with the statistics that PyArrow finds in them.

    Without PyArrow nothing is known of a file but its rows, so that it is read as a whole. Of files that
    are what they were the last time nothing is parsed again, once they are some seconds old.
    """
    identities = tuple(map(identity_of, paths))
    if all(map(is_settled, identities)):
        return _pages_of(root, tuple(paths), identities)
    return replace(_pages_of.__wrapped__(root, tuple(paths), identities), is_settled=False)


@lru_cache(maxsize=4)
def _pages_of(root: Path, paths: tuple[Path, ...], identities: tuple[Identity, ...]) -> Pages:
    """The pages of files by what tells these from others."""
    try:
        in_folders, schema = _columns(root, paths)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FileError(f"{root} cannot be read: {error}") from None
    seen = {name: as_seen(name, dtype) for name, dtype in schema.items()}
    types: dict[str, pl.DataType] = {FILE: pl.Int64(), FIRST: pl.Int64(), ROWS: pl.Int64()}
    for name, column in seen.items():
        types[MISSING + name] = pl.Int64()
        if column is not None:
            dtype = pl.DataFrame(schema={name: schema[name]}).select(column).schema[name]
            types |= {LOWEST + name: dtype, HIGHEST + name: dtype}
    in_files = pl.Schema({n: dtype for n, dtype in schema.items() if n not in in_folders})
    rows = [row for number, path in enumerate(paths) for row in _row_groups(number, path, in_files)]
    columns = {name: [row.get(name) for row in rows] for name in types}
    table = pl.DataFrame([_column(name, columns[name], dtype) for name, dtype in types.items()])
    return Pages(
        schema, paths, table, has_exact_bounds=False, in_folders=in_folders,
        identities=identities,
    )  # fmt: skip


def _columns(root: Path, paths: Sequence[Path]) -> tuple[Mapping[str, pl.DataType], pl.Schema]:
    """The columns that stand in the names of folders, and all columns of the rows.

    Those in the names of folders above the directory are read, and are none of its columns.
    """
    folders = [part for path in paths for part in path.relative_to(root).parts[:-1]]
    names = {part.split("=", 1)[0] for part in folders if "=" in part}
    if not names:
        return {}, scanned(paths, {}).collect_schema()
    own = pl.scan_parquet(list(paths), glob=False, hive_partitioning=False).collect_schema()
    every = pl.scan_parquet(list(paths), glob=False, hive_partitioning=True).collect_schema()
    above = [part for part in root.resolve().parts if "=" in part]
    read = names | {part.split("=", 1)[0] for part in (*above, *root.parts) if "=" in part}
    schema = {name: dtype for name, dtype in every.items() if name in own or name in names}
    return {name: dtype for name, dtype in every.items() if name in read}, pl.Schema(schema)


def _column(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    """A column of statistics; where they do not fit their type nothing is known."""
    try:
        if dtype.is_temporal():
            ticks = pl.Int32 if dtype == pl.Date else pl.Int64
            return pl.Series(name, values, dtype=ticks, strict=True).cast(dtype)
        return pl.Series(name, values, dtype=dtype, strict=True)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return pl.Series(name, [None] * len(values), dtype=dtype)


def _row_groups(number: int, path: Path, schema: pl.Schema) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow.parquet as pq

        metadata = pq.read_metadata(path)
    except (ImportError, NotImplementedError):  # or it has a type that PyArrow does not know
        count = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        yield {FILE: number, FIRST: 0, ROWS: count}
        return
    except (OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read: {error}") from None
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    # a column may be named as a field of another one is: "a.b"
    places = [n for n, one in enumerate(paths) if one in schema and paths.count(one) == 1]
    first = 0
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        row: dict[str, Any] = {FILE: number, FIRST: first, ROWS: found.num_rows}
        for place in places:
            row |= _bounds(found.column(place), schema[paths[place]])
        first += found.num_rows
        if found.num_rows:
            yield row


def _bounds(column: Any, dtype: pl.DataType) -> dict[str, Any]:
    """What is known of one column of a row group."""
    name = column.path_in_schema
    try:
        statistics = column.statistics
        if statistics is None:
            return {}
        found: dict[str, Any] = {}
        if statistics.has_null_count and not (dtype.is_float() or isinstance(dtype, pl.Decimal)):
            found[MISSING + name] = statistics.null_count  # of floats a NaN is missing too
        if statistics.has_min_max:
            low, high = _ends(statistics, dtype)
            if low == low and high == high:  # else there is a NaN, and the statistics are no bounds
                found |= {LOWEST + name: low, HIGHEST + name: high}
    except (ValueError, OverflowError, ArithmeticError, NotImplementedError):
        return {}
    return found


def _ends(statistics: Any, dtype: pl.DataType) -> tuple[Any, Any]:
    """The least and the largest value; of times in ticks, of which datetimes of Python lose some."""
    if not dtype.is_temporal():
        return statistics.min, statistics.max
    kind = str(statistics.logical_type)
    unit = _UNITS.get(dtype.time_unit) if isinstance(dtype, pl.Datetime) else "Date"
    if unit is None or unit not in kind:
        return None, None
    return statistics.min_raw, statistics.max_raw


#: How Parquet calls the units of times.
_UNITS = {"ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
