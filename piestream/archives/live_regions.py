"""Regions of time of partitions, in which matches are looked for."""

from __future__ import annotations

from typing import Any

import polars as pl

from piestream.archives.pages import Words

__all__ = ["Regions", "merged"]


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
