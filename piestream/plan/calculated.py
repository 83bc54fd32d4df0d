"""Columns that a row pattern calculates of each row of its input, as if they were columns of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, get_args

import polars as pl

from piestream.expressions.backends.polars import value_expression
from piestream.expressions.backends.python import ValueFunction, value_function
from piestream.expressions.backends.spark import spark_value
from piestream.expressions.typed import (
    Arithmetic,
    Call,
    Coalesce,
    Comparison,
    Const,
    Convert,
    Expression,
    Extreme,
    Field,
    Like,
    Member,
    Not,
    children,
)
from piestream.expressions.types import Kind

__all__ = [
    "CalculatedColumn",
    "CalculatedColumns",
    "attribute_types",
    "columns_read",
    "is_null",
    "with_columns",
]

#: What no column of an input is called.
_PREFIX = "calculated:"
_TYPES: Mapping[Kind, pl.DataType] = {
    Kind.BOOL: pl.Boolean(),
    Kind.INT: pl.Int64(),
    Kind.FLOAT: pl.Float64(),
    Kind.STRING: pl.String(),
}


@dataclass(frozen=True)
class CalculatedColumn:
    """A value of each row, in all engines."""

    name: str
    typed: Expression = field(repr=False)
    dtype: pl.DataType
    expression: pl.Expr = field(repr=False, compare=False)
    schema: Mapping[str, Any] = field(repr=False, compare=False)  # of what it reads

    def __deepcopy__(self, memo: object) -> CalculatedColumn:
        return self  # it never changes

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(self.schema)

    @cached_property
    def reader(self) -> ValueFunction | None:
        """A function that gives the value of one event; None where that takes a frame.

        It does for times of a zone: clocks show some of them twice.
        """
        types = (*self.schema.values(), self.dtype)
        if any(isinstance(t, pl.Datetime) and t.time_zone is not None for t in types):
            return None
        return value_function(self.typed)

    @property
    def is_null(self) -> bool:
        """Whether it is NULL for certain."""
        return is_null(self.typed)

    @property
    def spark_sql(self) -> str:
        """The value in Spark."""
        return spark_value(self.typed)


class CalculatedColumns:
    """The calculated columns of one query, which are numbered as they come up."""

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self._schema = schema
        self._found: dict[Expression, CalculatedColumn] = {}

    def of(self, typed: Expression) -> CalculatedColumn:
        """The column that has the values of an expression over the input's columns."""
        if typed not in self._found:
            schema = {name: self._schema[name] for name in columns_read(typed)}
            expression = value_expression(typed, schema)
            dtype = pl.Int128() if typed.type.is_wide else _TYPES.get(typed.type.kind)
            if dtype is None:  # times keep the type of the column that they come of
                dtype = pl.DataFrame(schema=schema).select(expression.alias("value")).dtypes[0]
            name = f"{_PREFIX}{len(self._found)}"
            column = CalculatedColumn(name, typed, dtype, expression.cast(dtype), schema)
            self._found[typed] = column
        return self._found[typed]

    def all(self) -> tuple[CalculatedColumn, ...]:
        """All that there are by now."""
        return tuple(self._found.values())


def is_null(typed: Expression) -> bool:
    """Whether an expression is NULL for certain, as of columns that have no type yet."""
    if typed.type.kind is Kind.NULL or (isinstance(typed, Const) and typed.value is None):
        return True
    if isinstance(typed, Arithmetic | Call | Comparison | Convert | Like | Member | Not):
        return any(map(is_null, children(typed)))
    return isinstance(typed, Coalesce | Extreme) and all(map(is_null, children(typed)))


def columns_read(typed: Expression) -> tuple[str, ...]:
    """The columns that a typed expression reads, each once."""
    if isinstance(typed, Field):
        return (typed.name,)
    return tuple(dict.fromkeys(name for part in children(typed) for name in columns_read(part)))


def with_columns(typed: Expression, others: Mapping[str, Expression]) -> Expression:
    """The expression in which other expressions stand for some columns."""
    if isinstance(typed, Field):
        return others.get(typed.name, typed)

    def mapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(mapped, value))
        return with_columns(value, others) if isinstance(value, _NODES) else value

    return replace(
        typed, **{each.name: mapped(getattr(typed, each.name)) for each in fields(typed)}
    )


_NODES = get_args(Expression)


def attribute_types(
    schema: Mapping[str, pl.DataType], calculated: Iterable[CalculatedColumn]
) -> dict[str, pl.DataType]:
    """The types of all that may be an attribute."""
    return {**schema, **{column.name: column.dtype for column in calculated}}
