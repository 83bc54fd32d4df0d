"""SUM and AVG of integers beyond 64 bits."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps

QUERY = ps.query(
    "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 100 EMIT ON COMPLETION "
    "RETURN SUM(a.y) AS total, AVG(a.y) AS mean"
)


@pytest.mark.parametrize(
    ("value", "total"),
    [(2**60, 6 * 2**60), (2**61, None), (-(2**62), None), (2**62, None), (-(2**60), -6 * 2**60)],
)
def test_a_sum_that_does_not_fit_is_null_and_the_mean_is_right(
    value: int, total: int | None
) -> None:
    frame = pl.DataFrame({"t": range(7), "x": [5] * 6 + [0], "y": [value] * 7})
    row = QUERY.run(frame).to_dicts()[0]
    assert row["total"] == total
    assert row["mean"] == pytest.approx(value)
