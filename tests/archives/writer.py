"""A process that changes an archive until it is killed: it prints what it has been told is done."""

from __future__ import annotations

import random
import sys
from typing import Any

import polars as pl

import piestream as ps

#: Rows of one batch.
ROWS = 300


def rows_of(batch: int) -> pl.DataFrame:
    """The rows of a batch; every third one comes late."""
    first = batch * ROWS if batch % 3 else max(0, (batch - 2) * ROWS + 7)
    ts = [first + i for i in range(ROWS)]
    return pl.DataFrame({"ts": ts, "car": [i % 7 for i in range(ROWS)], "batch": [batch] * ROWS})


def opened(path: str) -> Any:
    """The archive of the test."""
    return ps.archive(path, time="ts", key="car", page_rows=50, file_rows=500)


def main(path: str, first: int, seed: int) -> None:
    """Append batches from the first on, and compact now and then."""
    lake = opened(path)
    draw = random.Random(seed)
    print("ready", flush=True)
    for batch in range(first, first + 10_000):
        lake.append(rows_of(batch), batch=batch)
        print(batch, flush=True)
        if draw.random() < 0.5:
            lake.compact()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
