"""Rows of one partition, and of a stretch of time in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.diagnosis.rows import GivenRows, in_partition, latest_rows
from piestream.errors import SchemaError
from piestream.expressions.columns import column_named
from piestream.plan.combined import input_readers
from piestream.show.table import cell_text

__all__ = ["numbers_of", "of_partition", "plain", "stretch"]

#: So many of the partitions that there are are named where another one is asked for.
_MOST_NAMED = 5


def plain(value: Any) -> Any:
    """A value of a row; None for what frames call missing."""
    if value is None or value != value:
        return None
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.item() if type(value).__module__ == "numpy" else value


def numbers_of(result: pl.DataFrame, row: Mapping[str, Any]) -> list[int]:
    """The rows of a result that have the values of a row that is asked about; one at least."""
    shown = [name for name in result.columns if name in row]
    same = [
        number
        for number, found in enumerate(result.select(shown).rows())
        if all(plain(row[name]) == plain(value) for name, value in zip(shown, found, strict=True))
    ]
    if not same:
        raise ValueError("this is no match of the query in these rows")
    return same


def of_partition(rows: GivenRows, keys: Mapping[str, Any], needs: str) -> GivenRows:
    """The rows of one partition, in order of time.

    The latest rows of all stay too, whatever their partition: they say how late it is.
    """
    missing = [name for name in rows.keys if name not in keys]
    if missing:
        wanted = ", ".join(f'"{name}": …' for name in rows.keys)
        raise SchemaError(
            f"{needs} needs the partition, {{{wanted}}}: {', '.join(missing)} is missing"
        )
    partition = {name: plain(keys[name]) for name in rows.keys}
    _check_partition(rows, partition)
    found = {}
    for key, frame in rows.inputs.items():
        chosen = in_partition(frame.schema, partition)
        times = rows.time_columns[key]
        mine = frame.filter(chosen).sort(times[0], maintain_order=True)
        latest = latest_rows(frame, times)
        others = latest.filter(~in_partition(latest.schema, partition))
        found[key] = pl.concat([mine, others])
    return replace(rows.with_inputs(found), partition=partition)


def _check_partition(rows: GivenRows, partition: Mapping[str, Any]) -> None:
    """ValueError if no input has rows of a partition: some that there are are named."""
    times = rows.times
    for name, value in partition.items():
        known = times.schema[name]
        if value is not None and not _is_like(value, known):
            raise ValueError(f"{name} is a column of {known}, and {value!r} is none of its values")
    if not partition or len(times.filter(in_partition(times.schema, partition))):
        return
    shown = ", ".join(f"{name} = {cell_text(value)}" for name, value in partition.items())
    keys = times.select(map(column_named, partition)).unique(maintain_order=True)
    named = [", ".join(cell_text(value) for value in key) for key in keys.head(_MOST_NAMED).rows()]
    one = " and ".join(partition)
    there = f"{one} is {' or '.join(named)}" if named else "there are no rows at all"
    more = f", or one of {len(keys) - len(named):,} more" * (len(keys) > len(named))
    raise ValueError(f"there are no rows of the partition {shown}: {there}{more}")


def _is_like(value: Any, dtype: pl.DataType) -> bool:
    """Whether a value can be one of a column."""
    try:
        pl.select(pl.lit(None, dtype).eq_missing(pl.lit(value)))
    except PolarsError:
        return False
    return True


def stretch(rows: GivenRows, first: int, last: int) -> GivenRows:
    """The rows of one partition, in order of time, around a stretch of time.

    What begins in it, and is known by its end, is what it is among all rows.
    """
    whole = set(_read_from_the_first(rows))
    return rows.with_inputs(
        {
            key: _around(frame, rows.time_columns[key], INT64_MIN if key in whole else first, last)
            for key, frame in rows.inputs.items()
        }
    )


def _read_from_the_first(rows: GivenRows) -> Iterator[str | None]:
    """The inputs of which every row may count: how far back they are read is not known.

    Those are the inputs of predicates that read the past, of queries in brackets, and of rows that come
    twice.
    """
    for symbol in rows.query.symbols:
        if symbol.predicate.reads_the_past:
            yield rows.key_of(symbol.stream)
    for number, stream in enumerate(rows.query.streams):
        if stream.id is not None:
            yield rows.key_of(number)
    for part in rows.binding.parts:
        if part.inner is not None:
            yield from (reader.key for reader in input_readers(part.inner))


def _around(frame: pl.DataFrame, times: Sequence[str], first: int, last: int) -> pl.DataFrame:
    """The rows that share an instant with a stretch of time, with the nearest on both sides.

    From one row before it on, no run begins too early; at those behind it, it is known to be over.
    """
    columns = [column_named(name).to_physical().cast(pl.Int64) for name in times]
    spans = frame.select(
        pl.min_horizontal(columns).alias("start"),
        pl.max_horizontal(*(column.fill_null(INT64_MAX) for column in columns)).alias("end"),
    )
    start, end = spans["start"], spans["end"]
    before, after = end.filter(end < first), start.filter(start > last)
    least: Any = first if before.is_empty() else before.max()
    most: Any = last if after.is_empty() else after.min()
    return frame.filter((end >= least) & (start <= most))
