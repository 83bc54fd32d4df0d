"""Prices tick by tick: a random walk, and trades of the E-mini S&P 500 future."""

from __future__ import annotations

import numpy as np
import polars as pl

from examples.sources import file_of
from experiments.streams.patterns import SEED

__all__ = ["trades", "walk"]


def walk(n: int) -> pl.DataFrame:
    """A price that goes up and down at random, tick by tick."""
    steps = np.random.default_rng(SEED).choice([-1.0, 1.0], n)
    return pl.DataFrame({"ts": np.arange(n), "price": 1000.0 + np.cumsum(steps)})


def trades(n: int) -> pl.DataFrame | None:
    """The price at the end of each second with trades of the E-mini S&P 500 future, by seconds.

    They are of 3 September 2013, from 7:00 on, and a file inside the package ``mlfinpy``; None where that is
    not installed.
    """
    try:
        path = file_of("mlfinpy", "dataset/data/tick_data.csv")
    except FileNotFoundError:
        return None
    rows = pl.read_csv(path, try_parse_dates=True)
    seconds = pl.col("DateTime").dt.epoch("s").alias("ts")
    found = rows.group_by(seconds, maintain_order=True).agg(price=pl.col("Price").last())
    since = pl.datetime(2013, 9, 3, 7).dt.epoch("s")
    return found.filter(pl.col("ts") >= since).with_columns(pl.col("ts") - since).head(n)
