"""Events of one stream, given as two: the other one has only those at which a column changes."""

from __future__ import annotations

from random import Random

import polars as pl

import piestream as ps


def rows_of_one_and_two(rng: Random, define: str, rows: int, often: float) -> int:
    """How many rows a query has, whether both its symbols read one stream or each its own.

    ``define`` is what follows the streams, with braces for the streams of x and of y, which is true so
    ``often``. Several events have one time.
    """
    one = ps.query("FROM s ORDER BY t, q " + define.format("", ""))
    two = ps.query("FROM s ORDER BY t, q WITH o ORDER BY t, q " + define.format("s.", "o."))
    times = sorted(rng.choices(range(8), k=rows))
    frame = pl.DataFrame(
        {
            "t": times,
            "q": range(rows),
            "x": [rng.random() < 0.5 for _ in times],
            "y": [rng.random() < often for _ in times],
        }
    )
    changes = frame.filter(pl.col("y").ne_missing(pl.col("y").shift()))
    expected = one.run(frame)
    found = two.run({"s": frame, "o": changes})
    assert found.rows() == expected.rows(), f"{one}\n{frame.rows()}"
    return len(expected)
