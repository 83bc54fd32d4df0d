"""One stream in many partitions."""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.streams.booleans import booleans
from experiments.streams.patterns import SEED

__all__ = ["in_partitions"]


def in_partitions(symbols: int, events: int, keys: int, *, text_keys: bool = False) -> pl.DataFrame:
    """Synthetic booleans cut into ``keys`` pieces of equal length, which then run side by side.

    The rows of all partitions are mixed, in order of time, as events of many cars come in. Up to
    the cuts, there are as many runs as in one partition, however many keys there are.

    >>> in_partitions(1, 4, 2).select("ts", "key").rows()
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    """
    length = events // keys
    order = np.arange(length * keys).reshape(keys, length).T.ravel()
    mixed = booleans(symbols, length * keys, SEED)[order].with_columns(
        pl.Series("ts", np.repeat(np.arange(length), keys)),
        pl.Series("key", np.tile(np.arange(keys), length)),
    )
    return mixed.with_columns(pl.format("car {}", "key").alias("key")) if text_keys else mixed
