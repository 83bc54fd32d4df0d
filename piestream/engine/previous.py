"""PREV: the values at the previous event of each partition, and the predicates that read them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.projection import PREDICATE, RAW, Projection
from piestream.expressions.predicate import PREVIOUS_PREFIX

Words = NDArray[np.int64]


def make_room(stored: dict[str, pl.Series], n_partitions: int) -> None:
    """Room for the values of partitions that are new."""
    for name, values in stored.items():
        missing = n_partitions - len(values)
        if missing > 0:
            stored[name] = values.extend_constant(None, missing)


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
