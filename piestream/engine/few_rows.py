"""The projection of a few rows, without a query of Polars: that costs more than the rows do.

Predicates are evaluated by compiled Python, as those of single events are, from the same typed trees.
Columns whose values in Python may differ from those in a frame are left to Polars.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from piestream.engine.columns import repeated
from piestream.expressions.predicate import compile_mask
from piestream.plan.columns import CODE, FLOAT, ROW

if TYPE_CHECKING:
    from piestream.engine.projection import Projection

__all__ = ["FewRows"]

#: Of more rows Polars is faster.
MOST_ROWS = 32
#: The types of columns whose values are the same in Python.
_SAME = frozenset(
    {pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32}
    | {pl.Float64, pl.String, pl.Date}
)
_TIMES = frozenset({pl.Date, pl.Int64, pl.Int32, pl.Int16, pl.Int8})
#: The days that Python has dates for, as a column of dates counts them.
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
#: The ticks of a day.
_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class FewRows:
    """Projects a few rows as a `Projection` does, where `FewRows.of` finds that it can."""

    def __init__(self, projection: Projection, mask: Callable[[Any, Any], int]) -> None:
        self._names = projection.names
        self._binding = projection.binding
        self._raw = projection.raw_columns
        self._mask = mask
        self._n_predicates = len(projection.row_predicates)
        self._read = self._binding.predicate_columns

    @classmethod
    def of(cls, projection: Projection) -> FewRows | None:
        """The same for a few rows; None where it takes Polars."""
        binding = projection.binding
        schema = binding.schema
        predicates = [projection.predicates[n] for n in projection.row_predicates]
        if binding.sequence is not None or binding.calculated:
            return None
        if any(schema[name].is_float() for name in binding.query.partition_by):
            return None
        if not _is_time(schema[binding.time.name]):
            return None
        if not all(_is_same(schema[name]) for name in binding.predicate_columns):
            return None
        mask = compile_mask(predicates, schema)
        return None if mask is None else cls(projection, mask)

    def project(self, frame: pl.DataFrame) -> list[pl.Series] | None:
        """The projected columns; None if something is wrong with the rows, which the way over Polars reports."""
        binding = self._binding
        if not all(_is_in_python(frame[name]) for name in self._read):
            return None
        try:
            columns = [frame[name] for name in binding.query.partition_by]
            columns.append(frame[binding.time.name].cast(pl.Int64))
            columns += self._predicates(frame)
            for attribute in binding.attributes:
                if attribute.name == ROW:
                    columns.append(repeated(1, pl.Int64(), len(frame)))
                    continue
                column = frame[attribute.name]
                if attribute.form == FLOAT:
                    column = column.cast(pl.Float64)
                    if column.null_count() < np.isnan(column.to_numpy()).sum():
                        return None
                elif attribute.form != CODE:
                    column = column.cast(pl.Int64)
                columns.append(column)
            columns += [frame[name] for name in self._raw]
        except (OverflowError, pl.exceptions.PolarsError):
            return None
        return [column.alias(name) for name, column in zip(self._names, columns, strict=True)]

    def _predicates(self, frame: pl.DataFrame) -> list[pl.Series]:
        """The predicates of a row, a column each."""
        if not self._n_predicates:
            return []
        names = self._read
        values = [frame[name].to_list() for name in names]
        events = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
        bits = [self._mask(event, None) for event in events or [{}] * len(frame)]
        return [
            pl.Series([bool(one >> n & 1) for one in bits], dtype=pl.Boolean)
            for n in range(self._n_predicates)
        ]


def _is_same(dtype: pl.DataType) -> bool:
    """Whether values of a type are in Python what they are in a frame."""
    if isinstance(dtype, pl.Datetime):
        return dtype.time_zone is None and dtype.time_unit != "ns"
    return dtype in _SAME


def _is_in_python(column: pl.Series) -> bool:
    """Whether Python has the dates and times of a column: those of the years 1 to 9999."""
    if not column.dtype.is_temporal():
        return True
    days = column.to_physical()
    if isinstance(column.dtype, pl.Datetime):
        days //= _PER_DAY[column.dtype.time_unit]
    return bool(days.is_between(_FIRST_DAY, _LAST_DAY).all())


def _is_time(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Datetime) or dtype in _TIMES
