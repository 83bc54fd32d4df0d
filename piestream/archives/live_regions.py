"""Regions of time of partitions, in which matches are looked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from piestream.archives.pages import Words
from piestream.compiled.constants import INT64_MIN
from piestream.engine.projection import TIME

__all__ = ["OrderedRows", "Regions", "earlier", "merged"]

_PARTITION = "partition:"


class Regions:
    """Regions of time of partitions, ends included: ``keys`` has a row for each."""

    def __init__(self, keys: pl.DataFrame, firsts: Words, lasts: Words) -> None:
        self.keys = keys
        self.firsts = firsts
        self.lasts = lasts

    def __len__(self) -> int:
        return len(self.firsts)

    def only(self, chosen: Any) -> Regions:
        """Some of them."""
        return Regions(self.keys.filter(pl.Series(chosen)), self.firsts[chosen], self.lasts[chosen])


def merged(regions: Regions, keys: list[str]) -> Regions:
    """Regions of which those of one partition that overlap or touch are one, in order of time."""
    rows = regions.keys.with_columns(
        pl.Series("first", regions.firsts), pl.Series("last", regions.lasts)
    ).sort("first", maintain_order=True)
    reached = pl.col("last").cum_max().shift(1).over(keys)
    begins = (pl.col("first") > reached + 1).fill_null(True)
    rows = rows.with_columns(begins.alias("begins"))
    rows = rows.with_columns(pl.col("begins").cast(pl.Int64).cum_sum().over(keys).alias("span"))
    found = (
        rows.group_by([*keys, "span"], maintain_order=True)
        .agg(pl.col("first").min(), pl.col("last").max())
        .sort("first", maintain_order=True)
    )
    return Regions(found.select(keys), found["first"].to_numpy(), found["last"].to_numpy())


class OrderedRows:
    """Rows by partition and instant, in which the places of regions are looked up."""

    def __init__(
        self, rows: pl.DataFrame, keys: list[str], instants: list[str], wanted: pl.DataFrame
    ) -> None:
        numbered = wanted.unique().with_row_index(_PARTITION)
        found = rows.join(numbered, on=keys, how="inner", nulls_equal=True)
        self._rows = found.sort(_PARTITION, *instants, maintain_order=True)
        of_region = (
            wanted.join(numbered, on=keys, how="left", nulls_equal=True, maintain_order="left")[
                _PARTITION
            ]
            .to_numpy()
            .astype(np.int64)
        )
        partitions = self._rows[_PARTITION].to_numpy().astype(np.int64)
        self._times = self._rows[TIME].to_numpy()
        #: Where the partition of each region begins and ends.
        self.begins = np.searchsorted(partitions, of_region, "left")
        self.ends = np.searchsorted(partitions, of_region, "right")

    def first_from(self, least: Words) -> Words:
        """For each region the place of the first row of its partition whose time is not below a least one."""
        low, high = self.begins.copy(), self.ends.copy()
        while (low < high).any():
            middle = (low + high) // 2
            last = max(len(self._times) - 1, 0)
            below = (low < high) & (self._times[np.minimum(middle, last)] < least)
            high = np.where((low < high) & ~below, middle, high)
            low = np.where(below, middle + 1, low)
        return low

    def at(self, places: Words) -> pl.DataFrame:
        """The rows at some places."""
        found: pl.DataFrame = self._rows[places].drop(_PARTITION)
        return found


def earlier(times: Words, length: int) -> Words:
    """Times so much earlier, or before all times."""
    return np.where(times < INT64_MIN + length, INT64_MIN, times - length)
