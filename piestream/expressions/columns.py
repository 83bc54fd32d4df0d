"""Columns by their names, whatever those are: Polars takes some names for patterns."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from polars import selectors

__all__ = ["column_named", "columns_named"]


def column_named(name: str) -> pl.Expr:
    """The column of this name; `polars.col` would take ``*`` and ``^…$`` for several columns.

    >>> frame = pl.DataFrame({"x2": [1], "^x2$": [7], "*": [8]})
    >>> frame.select(column_named("^x2$"), column_named("*")).rows()
    [(7, 8)]
    """
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        return selectors.by_name(name).as_expr()
    return pl.col(name)


def columns_named(names: Iterable[str]) -> list[pl.Expr]:
    """The columns of these names."""
    return [column_named(name) for name in names]
