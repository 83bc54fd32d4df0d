"""PREV: the values at the previous event of each partition, and the predicates that read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.projection import PREDICATE, RAW, Projection
from piestream.expressions.predicate import PREVIOUS_PREFIX

Words = NDArray[np.int64]


#: So many partitions have values that single events brought, before these are written to columns.
_MOST_WAITING = 1 << 12


class PreviousValues:
    """The columns of PREV at each partition's latest event, by the partition's number.

    What single events bring waits as Python's values until somebody needs the columns.
    """

    def __init__(self, columns: dict[str, pl.Series]) -> None:
        self._columns = columns
        self._latest: dict[int, Sequence[Any]] = {}  # newer than what is in the columns

    def __bool__(self) -> bool:
        return bool(self._columns)

    def of(self, partition: int) -> dict[str, Any] | None:
        """The values at the latest event; None where Python's values would not do."""
        latest = self._latest.get(partition)
        if latest is None:
            latest = [column[partition] for column in self._columns.values()]
            if any(isinstance(value, datetime) and value.tzinfo is not None for value in latest):
                return None  # clocks may show it twice
        return dict(zip(self._columns, latest, strict=True))

    def put(self, partition: int, values: Sequence[Any]) -> None:
        """Take over the values of a single event."""
        self._latest[partition] = values
        if len(self._latest) > _MOST_WAITING:
            self.columns(0)

    def columns(self, n_partitions: int) -> dict[str, pl.Series]:
        """The columns, with room for so many partitions."""
        columns = self._columns
        for name, column in columns.items():
            missing = n_partitions - len(column)
            if missing > 0:
                columns[name] = column.extend_constant(None, missing)
        if self._latest:
            partitions = pl.Series(list(self._latest))
            for place, (name, column) in enumerate(columns.items()):
                values = [latest[place] for latest in self._latest.values()]
                columns[name] = column.scatter(partitions, _column(values, column.dtype))
            self._latest = {}
        return columns


def _column(values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    """Python's values as a column; times in a zone as instants."""
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        instants = [None if value is None else value.astimezone(UTC) for value in values]
        return pl.Series(instants, dtype=pl.Datetime("us", "UTC")).cast(dtype)
    if isinstance(dtype, pl.Datetime):
        return pl.Series(values, dtype=pl.Datetime("us")).cast(dtype)
    return pl.Series(values, dtype=dtype)


def with_previous(
    rows: pl.DataFrame,
    projection: Projection,
    partitions: Words,
    offsets: Words,
    stored: dict[str, pl.Series] | None,
) -> pl.DataFrame:
    """Rows in order, with the predicates that read the previous event of their partition.

    ``stored`` holds the values at each partition's latest event, by the partition's number, and is
    brought up to date; without it the rows are all that their partitions have.
    """
    binding = projection.binding
    firsts = pl.Series(offsets[:-1])
    lasts = pl.Series(offsets[1:] - 1)
    numbers = pl.Series(partitions)
    columns = [rows[RAW + name].alias(name) for name in binding.predicate_columns]
    for name in binding.previous:
        values = rows[RAW + name]
        if values.dtype == pl.Null:  # a column without any value so far
            columns.append(values.alias(PREVIOUS_PREFIX + name))
            continue
        if stored is None:
            before = pl.repeat(None, len(firsts), dtype=values.dtype, eager=True)
        else:
            before = stored[name].gather(numbers)
            stored[name] = stored[name].scatter(numbers, values.gather(lasts))
        columns.append(values.shift(1).scatter(firsts, before).alias(PREVIOUS_PREFIX + name))
    evaluated = pl.DataFrame(columns).select(
        binding.predicates[i].alias(f"{PREDICATE}{i}") for i in projection.ordered_predicates
    )
    return rows.hstack(evaluated)
