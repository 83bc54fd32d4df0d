"""The state of a stream as values: what a snapshot stores, whatever its bytes look like."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.statistics import Statistics
from piestream.language.options import OnLate, Ties

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DetectorState:
    """The words of a detector: those of its partitions, and what they refer to."""

    partitions: Words
    pool: Words
    waiting: Words  # matches that wait for their completion
    next_timeout: int
    layout: tuple[int, ...]  # the sizes of what the words are made of


@dataclass(frozen=True, slots=True)
class StreamState:
    """Everything that a stream knows."""

    ties: Ties
    lateness: int | None
    on_late: OnLate
    latest: int  # says what the watermark is
    seen: int  # the largest time seen
    compacted_at: int
    since_compaction: int
    counts: Statistics
    detector: DetectorState
    keys: pl.DataFrame  # of the detector's partitions, a row each; no columns without PARTITION BY
    buffered: pl.DataFrame | None
    past: pl.DataFrame  # what predicates read of each partition's earlier events
    dictionaries: tuple[pl.Series, ...]
