"""Batches for a detector, made by hand from a frame for each partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

import piestream as ps
from piestream.engine.batches import Batch
from piestream.engine.bits import stack_bits
from piestream.engine.detector import Detector
from piestream.joins.result_rows import ResultRow
from piestream.plan.binding import Binding, bind
from piestream.plan.columns import FLOAT

__all__ = ["batch_of", "by_partition", "detector_of", "found_whole", "masks_of", "one_by_one"]


def detector_of(query: ps.Query, frame: pl.DataFrame, partitions: int) -> tuple[Binding, Detector]:
    """A detector of a query over the columns of a frame, with so many partitions."""
    binding = bind(query, frame.schema)
    detector = Detector(binding.compiled, binding.bit_of_symbol)
    assert detector.add_partitions(partitions).tolist() == list(range(partitions))
    return binding, detector


def _words(binding: Binding, rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    columns = np.zeros((len(binding.attributes), len(rows) if binding.attributes else 0), np.int64)
    known = np.zeros(columns.shape, np.uint8)
    for number, attribute in enumerate(binding.attributes):
        column = rows[attribute.name]
        if attribute.form == FLOAT:
            column = column.fill_nan(None)
            columns[number] = column.fill_null(0.0).cast(pl.Float64).to_numpy().view(np.int64)
        else:
            columns[number] = column.fill_null(0).cast(pl.Int64).to_numpy()
        known[number] = column.is_not_null().to_numpy()
    return columns, known


def batch_of(binding: Binding, pieces: Sequence[tuple[int, pl.DataFrame]]) -> Batch:
    """The rows of several partitions; those without rows are left out."""
    some = [(number, piece) for number, piece in pieces if len(piece)]
    rows = pl.concat([piece for _, piece in some])
    columns, known = _words(binding, rows)
    return Batch(
        np.array([number for number, _ in some], np.int64),
        np.cumsum([0, *(len(piece) for _, piece in some)]).astype(np.int64),
        rows["ts"].to_numpy(),
        stack_bits([rows.select(p.alias("p"))["p"] for p in binding.predicates]),
        columns,
        known,
    )


def masks_of(binding: Binding, rows: pl.DataFrame) -> list[int]:
    """A bit for each symbol that holds, as signed words."""
    holds = [rows.select(p.alias("p"))["p"].to_list() for p in binding.predicates]
    masks = []
    for row in range(len(rows)):
        mask = sum(1 << s for s, bit in enumerate(binding.bit_of_symbol) if holds[bit][row])
        masks.append(mask - (1 << 64) if mask >> 63 else mask)
    return masks


def one_by_one(
    binding: Binding, detector: Detector, pieces: Sequence[tuple[int, pl.DataFrame]]
) -> list[tuple[int, ...]]:
    """Every event alone, in order of time whatever its partition."""
    is_float = [attribute.form == FLOAT for attribute in binding.attributes]
    events = []
    for number, piece in pieces:
        values = [piece[attribute.name].to_list() for attribute in binding.attributes]
        for row, (time, mask) in enumerate(
            zip(piece["ts"].to_list(), masks_of(binding, piece), strict=True)
        ):
            events.append((time, number, mask, [column[row] for column in values]))
    found: list[tuple[int, ...]] = []
    for time, number, mask, values in sorted(events, key=lambda event: event[:2]):
        rows = detector.detect_event(number, time, mask, values, is_float)
        if rows is not None:
            found += map(tuple, rows.tolist())
    return found


def by_partition(rows: Sequence[Sequence[int]]) -> dict[int, list[tuple[int, ...]]]:
    """Result rows by their partition, in the order in which they came."""
    parts: dict[int, list[tuple[int, ...]]] = {}
    for row in rows:
        parts.setdefault(row[ResultRow.offset("partition")], []).append(tuple(row))
    return parts


def found_whole(detector: Detector, batch: Batch, now: int, threads: int = 1) -> np.ndarray:
    """What a detector finds in whole partitions, in one array."""
    return np.concatenate(list(detector.detect_whole(batch, now, threads)))
