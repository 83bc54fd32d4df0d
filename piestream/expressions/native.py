"""Predicates that are given as Polars expressions: what they may do, and how they are bound."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import polars as pl

from piestream.expressions.backends.polars import for_every_row
from piestream.expressions.columns import columns_named
from piestream.expressions.diagnostics import QueryError, did_you_mean

__all__ = ["bound_expression", "check_expression"]


def check_expression(expression: pl.Expr) -> None:
    """QueryError unless the expression has one result, of one event."""
    if expression.meta.has_multiple_outputs():
        raise QueryError("a predicate is one expression with one result, not several columns")
    if not _reads_one_event(expression):
        raise QueryError(
            "a Polars predicate may only look at one event: no shift, window, aggregate or Python function "
            "(the value at the event before is PREV(column) in a text predicate)"
        )


def bound_expression(
    serialized: bytes, text: str, names: tuple[str, ...], schema: Mapping[str, Any]
) -> pl.Expr:
    """The expression over a frame of this schema, where NULL and NaN are missing values."""
    for name in names:
        if name not in schema:
            near = did_you_mean(name, schema)
            raise QueryError(
                f"the predicate {text} needs the column {name}, which is not there"
                + (f"; {near}" if near else "")
            )
    expression = pl.Expr.deserialize(io.BytesIO(serialized))
    empty = pl.DataFrame(schema={name: schema[name] for name in names})
    try:
        result = empty.select(expression).to_series().dtype
    except pl.exceptions.PolarsError as error:
        raise QueryError(f"the predicate {text} does not fit the frame: {error}") from None
    if result != pl.Boolean:
        raise QueryError(f"the predicate {text} is not true or false but {result}")
    floats = [name for name in names if schema[name] in (pl.Float32, pl.Float64)]
    if not floats:
        return for_every_row(expression.fill_null(False))

    # Polars orders a NaN above every number, so the expression is given columns with NULL in its
    # place.
    def without_nan(values: pl.Series) -> pl.Series:
        frame = values.struct.unnest().with_columns(
            [c.fill_nan(None) for c in columns_named(floats)]
        )
        return frame.select(expression.fill_null(False)).to_series()

    return pl.struct(columns_named(names)).map_batches(
        without_nan, return_dtype=pl.Boolean, is_elementwise=True
    )


def _reads_one_event(expression: pl.Expr) -> bool:
    """Whether no part of an expression reads other rows; Polars judges only the outermost part."""
    pending = [expression]
    while pending:
        part = pending.pop()
        try:
            if part.meta.is_literal():
                continue
            if not (part.meta.is_row_separable() and part.meta.is_length_preserving()):
                return False
            pending += part.meta.pop()
        except pl.exceptions.PolarsError:  # a Python function, whose inside cannot be seen
            return False
    return True
