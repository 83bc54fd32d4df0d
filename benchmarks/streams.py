"""Queries and streams that several programs share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

import piestream as ps
from piestream.generators import booleans

__all__ = ["NEIGHBOURS", "chain", "in_partitions", "pattern_of", "seed"]

#: The seed of every stream, written into the results.
seed = 0

#: What the paper's Fig. 4 allows between neighbours of the chain.
NEIGHBOURS = "meets;overlaps;overlapped-by;starts;started-by;contains"


def pattern_of(
    symbols: int,
    clauses: Sequence[str],
    within: int,
    *,
    returns: str = "",
    source: str = "s",
    holds: str = "{0}",
    partition_by: str = "",
) -> ps.Query:
    """Symbols a1, a2, … that are columns; ``holds`` is what a column has to fulfil."""
    names = [f"a{number}" for number in range(1, symbols + 1)]
    partition = f" PARTITION BY {partition_by}" if partition_by else ""
    text = (
        f"FROM {source}{partition} ORDER BY ts DEFINE "
        + ", ".join(f"{name} AS {holds.format(name)}" for name in names)
        + f" PATTERN {' AND '.join(clauses)} WITHIN {within}"
    )
    return ps.query(f"{text} RETURN {returns}" if returns else text)


def chain(
    symbols: int,
    within: int = 10_000,
    *,
    returns: str = "a1.ts",
    source: str = "s",
    holds: str = "{0}",
    partition_by: str = "",
) -> ps.Query:
    """The chain of the paper's Fig. 4."""
    return pattern_of(
        symbols,
        [f"a{k} {NEIGHBOURS} a{k + 1}" for k in range(1, symbols)],
        within,
        returns=returns,
        source=source,
        holds=holds,
        partition_by=partition_by,
    )


def in_partitions(symbols: int, events: int, keys: int, *, text_keys: bool = False) -> pl.DataFrame:
    """One stream cut into ``keys`` pieces of equal length, which then run side by side.

    The rows of all partitions are mixed, in order of time, as events of many cars come in. Up to
    the cuts, there are as many runs as in one partition, however many keys there are.
    """
    length = events // keys
    frame = booleans(symbols, length * keys, seed)
    order = np.arange(length * keys).reshape(keys, length).T.ravel()
    key = np.tile(np.arange(keys), length)
    mixed = frame[order].with_columns(
        pl.Series("ts", np.repeat(np.arange(length), keys)), pl.Series("key", key)
    )
    return mixed.with_columns(pl.format("car {}", "key").alias("key")) if text_keys else mixed
