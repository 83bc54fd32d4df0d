"""Predicates evaluated on statistics: for each page, true of all rows, of none, or of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.archives.statistics import HIGHEST, LOWEST, MISSING, ROWS
from piestream.expressions.backends.bounds import Bounds, truth_of
from piestream.expressions.backends.polars import for_every_row
from piestream.expressions.predicate import Predicate
from piestream.expressions.typed import Expression, Until

__all__ = ["Verdict", "may_decide", "verdicts"]

Flags = NDArray[np.bool_]
MayHave = Callable[[str, Any], Flags | None]


@dataclass(frozen=True)
class Verdict:
    """What is known of one predicate, for each page."""

    can_hold: Flags  # else it is true of none of the rows
    always_holds: Flags  # it is true of all of them
    starts: Flags | None = None  # with UNTIL: where what it begins with can hold

    @property
    def can_start(self) -> Flags:
        """The pages on which an interval can start."""
        return self.can_hold if self.starts is None else self.starts


def verdicts(
    predicates: Sequence[Predicate],
    schema: Mapping[str, pl.DataType],
    table: pl.DataFrame,
    may_have: MayHave | None = None,
) -> list[Verdict]:
    """The verdicts of statistics, a row a page, on some predicates over columns of these types.

    ``may_have`` gives the pages on which a column may have a value, where more than bounds is known.
    """
    return [_verdict(predicate, schema, table, may_have) for predicate in predicates]


def _verdict(
    predicate: Predicate,
    schema: Mapping[str, pl.DataType],
    table: pl.DataFrame,
    may_have: MayHave | None,
) -> Verdict:
    nothing = Verdict(np.ones(len(table), np.bool_), np.zeros(len(table), np.bool_))
    if predicate.is_polars:
        return nothing
    typed = predicate.typed(schema)
    found = _judged(typed, table, may_have)
    if found is None:
        return nothing
    starts = _judged(typed.start, table, may_have) if isinstance(typed, Until) else None
    return Verdict(found[0], ~found[1], None if starts is None else starts[0])


def may_decide(latch: Until, table: pl.DataFrame, may_have: MayHave | None) -> Flags:
    """The pages with rows after which it may be known whether UNTIL is true."""
    found = np.zeros(len(table), np.bool_)
    for part in (latch.start, latch.stop):
        judged = _judged(part, table, may_have)
        found |= True if judged is None else judged[0]
    return found


def _judged(
    expression: Expression, table: pl.DataFrame, may_have: MayHave | None
) -> tuple[Flags, Flags] | None:
    """Where a condition may be true, and where it may be anything else; None: it is not known."""

    def column(name: str) -> Bounds | None:
        if LOWEST + name not in table.columns:
            return None
        missing = pl.col(MISSING + name)
        return Bounds(
            pl.col(LOWEST + name), pl.col(HIGHEST + name),
            (missing < pl.col(ROWS)).fill_null(True), (missing > 0).fill_null(True),
        )  # fmt: skip

    def has(name: str, value: Any) -> pl.Expr | None:
        found = None if may_have is None else may_have(name, value)
        return None if found is None else pl.lit(pl.Series(found))

    truth = truth_of(expression, column, has)
    judged = [truth.true.alias("true"), (truth.false | truth.null).alias("other")]
    try:
        found = table.select(judged)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        # evaluated on a bound that no row needs to have, it may fail where no row does
        return None
    if len(found) != len(table):  # it depends on no column
        found = table.select(map(for_every_row, judged))
    may_be = [found[name].fill_null(True).to_numpy().copy() for name in ("true", "other")]
    return may_be[0], may_be[1]
