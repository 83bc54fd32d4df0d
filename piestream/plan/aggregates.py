"""How the aggregates of RETURN are computed: one record each, from running cells to values.

A record says over which columns an aggregate can be taken, which words of which cells it needs
(`piestream.intervals.aggregates` keeps the cells), and what it makes of them in a result row.
How queries name the aggregates, `piestream.language.aggregates` declares; both must be complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.intervals.aggregates import CELL_SIZE, CellKind
from piestream.language import aggregates as language
from piestream.plan.columns import CODE, FLOAT, INTEGER, own_form

Words = NDArray[np.int64]

#: Numbers, a result row each, and where there is none.
Finished = tuple[NDArray[Any], Union[NDArray[np.bool_], None]]


@dataclass(frozen=True, slots=True)
class Selection:
    """One of the column's own values; the cell holds whether it is known, and the value."""

    cell: CellKind

    @property
    def words(self) -> tuple[tuple[CellKind, int], ...]:
        """The words that a result row needs: the kind of a cell, and which of its words."""
        return (self.cell, 0), (self.cell, 1)


@dataclass(frozen=True, slots=True)
class Calculation:
    """A number that is made of words of cells."""

    words: tuple[tuple[CellKind, int], ...]  # the kind of a cell, and which of its words
    dtype: pl.DataType
    finish: Callable[..., Finished]  # of these words, as columns


Computation = Union[Selection, Calculation]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """How one aggregate is computed."""

    #: Over a column, by the form of its values. What has nothing for codes takes numbers only.
    over: Mapping[str, Computation]
    #: Over the events themselves, where it needs no column.
    over_events: Calculation | None = None

    def form_of(self, dtype: pl.DataType) -> str | None:
        """The form in which it takes the values of a column; None where it takes none of them."""
        own = own_form(dtype)
        if CODE not in self.over and not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
            return None
        return own if own in self.over else FLOAT


def _in_every_form(computation: Computation) -> dict[str, Computation]:
    return dict.fromkeys((INTEGER, FLOAT, CODE), computation)


def _as_floats(words: Words) -> NDArray[np.float64]:
    return np.ascontiguousarray(words).view(np.float64)


def _number_of(count: Words) -> Finished:
    return count, None


def _whole_sum(total: Words, rough: Words, count: Words) -> Finished:
    """Exact while the sum fits 64 bits; beyond, NULL."""
    return total, (count == 0) | _wrapped(total, rough)


def _sum(total: Words, _: Words, count: Words) -> Finished:
    return _as_floats(total), count == 0


def _whole_mean(total: Words, rough: Words, count: Words) -> Finished:
    sums = np.where(_wrapped(total, rough), _as_floats(rough), total)
    return _quotient(sums, count), count == 0


def _mean(total: Words, _: Words, count: Words) -> Finished:
    return _quotient(_as_floats(total), count), count == 0


def _wrapped(total: Words, rough: Words) -> NDArray[np.bool_]:
    """Whether a sum modulo 2^64 is not the sum: then it is off by 2^64 from that of floats."""
    wrapped: NDArray[np.bool_] = np.abs(_as_floats(rough) - total) > 2.0**62
    return wrapped


def _variance(count: Words, squares: Words) -> Finished:
    """Of a sample, from the sum of squared deviations from the mean (Welford's M2)."""
    return _quotient(_as_floats(squares), count - 1), count < 2


def _deviation(count: Words, squares: Words) -> Finished:
    variance, unknown = _variance(count, squares)
    with np.errstate(invalid="ignore"):
        return np.sqrt(variance), unknown


def _quotient(numbers: NDArray[Any], count: Words) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient: NDArray[np.float64] = numbers / count
    return quotient


# A sum of integers and one of floats are kept in equally many words.
_WHOLE_SUM = ((CellKind.SUM_INT, 0), (CellKind.SUM_INT, 1), (CellKind.COUNT, 0))
_FLOAT_SUM = ((CellKind.SUM_FLOAT, 0), (CellKind.SUM_FLOAT, 1), (CellKind.COUNT, 0))
_SPREAD = ((CellKind.SPREAD, 0), (CellKind.SPREAD, 2))  # how many values, their squared deviations

_MINIMUM, _MAXIMUM = Selection(CellKind.MIN_INT), Selection(CellKind.MAX_INT)

AGGREGATIONS: Mapping[str, Aggregation] = {
    "FIRST": Aggregation(_in_every_form(Selection(CellKind.FIRST))),
    "LAST": Aggregation(_in_every_form(Selection(CellKind.LAST))),
    "MIN": Aggregation(
        {INTEGER: _MINIMUM, FLOAT: Selection(CellKind.MIN_FLOAT), CODE: _MINIMUM},
    ),
    "MAX": Aggregation(
        {INTEGER: _MAXIMUM, FLOAT: Selection(CellKind.MAX_FLOAT), CODE: _MAXIMUM},
    ),
    "SUM": Aggregation(
        {
            INTEGER: Calculation(_WHOLE_SUM, pl.Int64(), _whole_sum),
            FLOAT: Calculation(_FLOAT_SUM, pl.Float64(), _sum),
        }
    ),
    "AVG": Aggregation(
        {
            INTEGER: Calculation(_WHOLE_SUM, pl.Float64(), _whole_mean),
            FLOAT: Calculation(_FLOAT_SUM, pl.Float64(), _mean),
        }
    ),
    "COUNT": Aggregation(
        _in_every_form(Calculation(((CellKind.COUNT, 0),), pl.Int64(), _number_of)),
        over_events=Calculation(((CellKind.ROWS, 0),), pl.Int64(), _number_of),
    ),
    "STDDEV": Aggregation({FLOAT: Calculation(_SPREAD, pl.Float64(), _deviation)}),
    "VARIANCE": Aggregation({FLOAT: Calculation(_SPREAD, pl.Float64(), _variance)}),
}


def check_complete(
    declared: Mapping[str, language.AggregateFunction], computed: Mapping[str, Aggregation]
) -> None:
    """Refuse aggregates that a query may name and that nothing computes, and the other way."""
    for name in declared.keys() ^ computed.keys():
        missing = "declared in piestream.language" if name in computed else "computed here"
        raise TypeError(f"the aggregate {name} is not {missing}")
    for name, aggregation in computed.items():
        if FLOAT not in aggregation.over:
            raise TypeError(f"the aggregate {name} is not computed over floats")
        if declared[name].needs_column != (aggregation.over_events is None):
            raise TypeError(f"the aggregate {name} is declared with another kind of operand")
        # a column of NULLs may turn out to be of any type, and no word may move then
        sizes = {tuple(CELL_SIZE[kind] for kind, _ in c.words) for c in aggregation.over.values()}
        if len(sizes) != 1:
            raise TypeError(f"the aggregate {name} needs more words in one form than in another")


check_complete(language.AGGREGATES, AGGREGATIONS)
