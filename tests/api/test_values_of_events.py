"""An event's values are taken as they are, or refused: nothing is guessed."""

from __future__ import annotations

from datetime import UTC, date, datetime

import polars as pl
import pytest

import piestream as ps


@pytest.mark.parametrize(
    ("dtype", "first", "wrong"),
    [
        (pl.Date(), date(2024, 3, 1), datetime(2024, 3, 2, 5)),
        (pl.Date(), date(2024, 3, 1), "2024-03-02"),
        (pl.Datetime("us"), datetime(2024, 3, 1), datetime(2024, 3, 2, tzinfo=UTC)),
        (pl.Datetime("us"), datetime(2024, 3, 1), 1_709_300_000_000_000),
        (pl.Datetime("us", "UTC"), datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 2)),
        (pl.Datetime("ms"), datetime(2024, 3, 1), datetime(2024, 3, 2, 0, 0, 0, 1)),
        (pl.Int64(), 1, True),
        (pl.Int64(), 1, 2.0),
    ],
)
def test_a_time_of_another_kind_is_refused_and_changes_nothing(
    dtype: pl.DataType, first: object, wrong: object
) -> None:
    within = "9" if dtype.is_integer() else "9 d"
    query = ps.query(
        f"FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN {within} EMIT ON COMPLETION"
    )
    session = query.open(schema={"t": dtype, "x": pl.Int64})
    session.push({"t": first, "x": 5})
    before = session.snapshot()
    with pytest.raises(ps.SchemaError, match="column t holds"):
        session.push({"t": wrong, "x": 5})
    with pytest.raises(ps.SchemaError, match="no time of the column t, which holds"):
        session.advance(wrong)
    assert session.snapshot() == before
