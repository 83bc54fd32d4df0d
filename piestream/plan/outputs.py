"""From result words to the columns that RETURN asks for."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.layout import (
    OPEN,
    PHASE_COMPLETION,
    ROW_OUTPUTS,
    ROW_PHASE,
    ROW_TIME,
)
from piestream.intervals import aggregates as agg
from piestream.language.model import Aggregate, DurationOf, Emit, Endpoint, RelationOf
from piestream.plan.binding import CODE, FLOAT, Binding, Output
from piestream.plan.program import Cell
from piestream.relations import Relation, names

Words = NDArray[np.int64]


def result_frame(
    binding: Binding, rows: Words, keys: pl.DataFrame, values: dict[int, pl.Series]
) -> pl.DataFrame:
    """The rows of the detector as a frame of the query's result columns.

    ``keys`` holds the partition columns of each row, ``values`` what the codes of a column without
    a numeric form stand for.
    """
    schema = binding.result_schema
    if not len(rows):
        return pl.DataFrame(schema=schema)
    columns = [keys[name].alias(name) for name in binding.query.partition_by]
    report = list(schema)[len(columns)]
    columns.append(_times(binding, rows[:, ROW_TIME]).alias(report))
    if binding.query.emit is Emit.BOTH:
        completed = pl.Series("phase", rows[:, ROW_PHASE] == PHASE_COMPLETION)
        phases = pl.select(
            pl.when(completed).then(pl.lit("completion")).otherwise(pl.lit("trigger"))
        ).to_series()
        columns.append(phases.alias("phase"))
    for output in binding.outputs:
        words = [rows[:, ROW_OUTPUTS + binding.tables.words[w]] for w in output.wanted]
        column = keys[output.key] if output.key else _column(binding, output, words, values)
        columns.append(column.cast(output.dtype).alias(output.item.alias))
    return pl.DataFrame(columns)


def _column(
    binding: Binding, output: Output, words: list[Words], values: dict[int, pl.Series]
) -> pl.Series:
    item = output.item
    if isinstance(item, Endpoint):
        if output.wanted[0].what == "ts":  # always known
            return _times(binding, words[0])
        return _times(binding, words[0], unknown=words[0] == OPEN)
    if isinstance(item, DurationOf):
        starts, ends = words
        # a length of more than 63 bits is no length that a column could hold
        unknown = (ends == OPEN) | ((ends < 0) != (starts < 0)) & (ends - starts < 0)
        return binding.time.as_lengths(_series(np.where(unknown, 0, ends - starts), unknown))
    if isinstance(item, RelationOf):
        return _relations(output, words)
    return _aggregate(output, item, words, values)


def _series(words: Words, unknown: NDArray[np.bool_] | None = None) -> pl.Series:
    """Words as a column, NULL where unknown."""
    column = pl.Series("", np.ascontiguousarray(words))
    if unknown is None or not unknown.any():
        return column
    return column.set(pl.Series(unknown), None)


def _times(binding: Binding, ticks: Words, unknown: NDArray[np.bool_] | None = None) -> pl.Series:
    return binding.time.as_times(_series(ticks, unknown))


def _aggregate(
    output: Output, item: Aggregate, words: list[Words], values: dict[int, pl.Series]
) -> pl.Series:
    if item.function == "COUNT":
        return _series(words[0])
    cell = output.wanted[-1].what
    attribute = output.attribute
    assert isinstance(cell, Cell)
    assert attribute is not None
    if item.function in ("FIRST", "LAST", "MIN", "MAX"):
        known, value = words
        return _valued(output, cell, value, known != 1, values)
    if item.function == "STDDEV":
        count, spread = words
        with np.errstate(invalid="ignore", divide="ignore"):
            deviation = np.sqrt(np.ascontiguousarray(spread).view(np.float64) / (count - 1))
        return _floats(deviation, count < 2)
    total, rough, count = words
    if cell_kind(output) == agg.SUM_INT:
        return _whole_sum(item, total, rough, count)
    sums = np.ascontiguousarray(total).view(np.float64)
    if item.function == "SUM":
        return _floats(sums, count == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _floats(sums / count, count == 0)


def cell_kind(output: Output) -> int:
    """The kind of the first aggregate that an output is made of."""
    cell = output.wanted[0].what
    assert isinstance(cell, Cell)
    return cell.kind


def _whole_sum(item: Aggregate, total: Words, rough: Words, count: Words) -> pl.Series:
    """SUM or AVG of integers: exact while the sum fits 64 bits; beyond, SUM is NULL."""
    sums = np.ascontiguousarray(rough).view(np.float64)
    beyond = np.abs(sums - total) > 2.0**62  # what has wrapped round is off by 2^64
    if item.function == "SUM":
        return _series(total, (count == 0) | beyond)
    with np.errstate(invalid="ignore", divide="ignore"):
        return _floats(np.where(beyond, sums, total) / count, count == 0)


def _floats(numbers: NDArray[np.float64], unknown: NDArray[np.bool_]) -> pl.Series:
    column = pl.Series("", np.ascontiguousarray(numbers))
    return column.set(pl.Series(unknown), None) if unknown.any() else column


def _valued(
    output: Output,
    cell: Cell,
    words: Words,
    unknown: NDArray[np.bool_],
    values: dict[int, pl.Series],
) -> pl.Series:
    """Words of a column's own form as its values."""
    assert output.attribute is not None
    if output.attribute.form == CODE:
        places = _series(np.where(unknown, 0, words), unknown)
        return values[cell.column].gather(places)
    if output.attribute.form == FLOAT:
        return _floats(np.ascontiguousarray(words).view(np.float64), unknown)
    column = _series(np.where(unknown, 0, words), unknown)
    if output.dtype == pl.Date:
        return column.cast(pl.Int32)
    return column


#: Allen's relation by the signs of xs-ys, xs-ye, xe-ys, xe-ye, each -1, 0 or 1.
_BY_SIGNS = {
    (-1, -1, -1, -1): Relation.BEFORE,
    (-1, -1, 0, -1): Relation.MEETS,
    (-1, -1, 1, -1): Relation.OVERLAPS,
    (-1, -1, 1, 0): Relation.FINISHED_BY,
    (-1, -1, 1, 1): Relation.CONTAINS,
    (0, -1, 1, -1): Relation.STARTS,
    (0, -1, 1, 0): Relation.EQUALS,
    (0, -1, 1, 1): Relation.STARTED_BY,
    (1, -1, 1, -1): Relation.DURING,
    (1, -1, 1, 0): Relation.FINISHES,
    (1, -1, 1, 1): Relation.OVERLAPPED_BY,
    (1, 0, 1, 1): Relation.MET_BY,
    (1, 1, 1, 1): Relation.AFTER,
}


def _relations(output: Output, words: list[Words]) -> pl.Series:
    """The names of the relations that hold; an open end is later than every known one."""
    xs, xe, ys, ye = words[:4]
    signs = np.stack([np.sign(_compare(a, b)) for a, b in ((xs, ys), (xs, ye), (xe, ys), (xe, ye))])
    code = (signs + 1).T @ np.array([27, 9, 3, 1])
    unknown = (xe == OPEN) & (ye == OPEN)
    named = [""] * 81
    for pattern, relation in _BY_SIGNS.items():
        place = int((np.array(pattern) + 1) @ np.array([27, 9, 3, 1]))
        named[place] = names(relation)[0]
    allowed = output.allowed
    before, after = (_place(r) for r in (Relation.BEFORE, Relation.AFTER))
    if allowed & Relation.FOLLOWED_BY and not allowed & Relation.BEFORE:
        named[before] = "followed-by"
    if allowed & Relation.FOLLOWS and not allowed & Relation.AFTER:
        named[after] = "follows"
    column = pl.Series(named, dtype=pl.String).gather(pl.Series(code.astype(np.uint32)))
    for wanted, flag in zip(output.wanted[4:], words[4:], strict=True):
        is_x = wanted.symbol == output.wanted[0].symbol
        name, place = ("follows", after) if is_x else ("followed-by", before)
        column = column.set(pl.Series((flag == 1) & (code == place)), name)
    return column.set(pl.Series(unknown), None) if unknown.any() else column


def _compare(a: Words, b: Words) -> Words:
    """Negative, zero or positive as a < b, a = b, a > b, whatever their distance."""
    return (a > b).astype(np.int64) - (a < b).astype(np.int64)


def _place(relation: Relation) -> int:
    pattern = next(p for p, r in _BY_SIGNS.items() if r == relation)
    return int((np.array(pattern) + 1) @ np.array([27, 9, 3, 1]))
