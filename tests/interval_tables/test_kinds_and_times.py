"""Any kind of frame comes back as it went in, and any times that can be compared are."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import piestream as ps

X = {"ts": [0, 10], "te": [5, 15], "name": ["a", "b"]}
Y = {"ts": [3, 12], "te": [8, 14], "size": [1.5, 2.5]}
#: How to make a frame of columns, and columns of a frame.
KINDS: dict[str, tuple[Any, Any]] = {
    "polars": (pl.DataFrame, lambda frame: frame.to_dict(as_series=False)),
    "lazy": (pl.LazyFrame, lambda frame: frame.collect().to_dict(as_series=False)),
    "pandas": (pd.DataFrame, lambda frame: frame.to_dict("list")),
    "pyarrow": (pa.table, lambda table: table.to_pydict()),
    "duckdb": (
        lambda columns: duckdb.from_arrow(pa.table(columns)),
        lambda relation: relation.to_arrow_table().to_pydict(),
    ),
    "events": (
        lambda columns: pl.DataFrame(columns).to_dicts(),
        lambda events: pl.DataFrame(events).to_dict(as_series=False),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_that_goes_in_comes_out(kind: str) -> None:
    make, columns = KINDS[kind]
    x, y = make(X), pl.DataFrame(Y)
    results = {
        "join": (ps.join(x, y, "overlaps; contains"), ps.join(pl.DataFrame(X), y, "overlaps; contains")),
        "left": (ps.join(x, y, "meets", how="left"), ps.join(pl.DataFrame(X), y, "meets", how="left")),
        "relate": (ps.relate(x, y), ps.relate(pl.DataFrame(X), y)),
        "coverage": (ps.coverage(x, y), ps.coverage(pl.DataFrame(X), y)),
        "depth": (ps.depth(x), ps.depth(pl.DataFrame(X))),
        "merge": (ps.merge(x, gap=5), ps.merge(pl.DataFrame(X), gap=5)),
    }  # fmt: skip
    for name, (found, expected) in results.items():
        assert type(found) is type(x), name
        if (kind, name) != ("pandas", "left"):  # where NULL is NA, which equals nothing
            assert columns(found) == expected.to_dict(as_series=False), name
    for piece in ps.join_pieces(x, y, "overlaps"):
        assert type(piece) is type(x)


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_frame_may_be_of_any_kind(kind: str) -> None:
    make, _ = KINDS[kind]
    assert ps.join(pl.DataFrame(X), make(Y), "contains")["size"].to_list() == [2.5]


def _at(*hours: int, zone: str | None = None, unit: Any = "us") -> pl.Series:
    start = datetime(2026, 3, 1)
    times = pl.Series([start + timedelta(hours=h) for h in hours], dtype=pl.Datetime(unit))
    return times if zone is None else times.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)


def test_times_of_different_zones_and_units_are_the_same_instants() -> None:
    x = pl.DataFrame({"ts": _at(0, 4, zone="Asia/Tokyo", unit="ms"), "te": _at(2, 6, zone="UTC")})
    y = pl.DataFrame({"ts": _at(2, 5, zone="America/Lima", unit="ns"), "te": _at(3, 9, zone="UTC")})
    found = ps.relate(x, y)
    assert found["relation"].to_list() == ["meets", "before", "after", "overlaps"]
    assert found.schema["ts_x"] == pl.Datetime("ms", "Asia/Tokyo")
    assert found.schema["ts_y"] == pl.Datetime("ns", "America/Lima")
    near = ps.join(x, y, "before", where="y.ts - x.te <= 3 hours AND y.te - x.ts < 9.5 h")
    assert near["ts_x"].to_list() == [datetime(2026, 3, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo"))]


def test_dates_count_days() -> None:
    x = pl.DataFrame({"ts": [date(2026, 1, 1)], "te": [date(2026, 1, 10)]})
    y = pl.DataFrame({"ts": [date(2026, 1, 12), date(2026, 2, 1)], "te": [date(2026, 3, 1)] * 2})
    found = ps.join(x, y, "before", where="y.ts - x.te <= 1 week")
    assert found["ts_y"].to_list() == [date(2026, 1, 12)]
    assert ps.coverage(y, x.with_columns(te=pl.lit(date(2026, 1, 15))))["covered"].to_list() == [
        timedelta(days=3), timedelta(0),
    ]  # fmt: skip
    assert ps.merge(pl.concat([x, y]), gap="2 d").rows() == [
        (date(2026, 1, 1), date(2026, 3, 1), 3)
    ]


def test_stretches_have_the_type_of_the_times() -> None:
    frame = pl.DataFrame({"ts": _at(0, 1, zone="Asia/Tokyo"), "te": _at(2, 3, zone="Asia/Tokyo")})
    for found in (ps.merge(frame, gap=timedelta(minutes=5)), ps.depth(frame)):
        assert dict(found.schema) == {**frame.schema, "count": pl.Int64}
        assert found["ts"][0] == frame["ts"][0]
    small = pl.DataFrame({"ts": [0], "te": [2]}, schema={"ts": pl.Int16, "te": pl.Int16})
    assert ps.depth(small).schema["te"] == pl.Int16
    assert ps.merge(small.with_columns(pl.col("te").cast(pl.Int64))).schema["ts"] == pl.Int64


def test_the_least_and_greatest_times_have_room() -> None:
    low, high = -(2**63) + 1, 2**63 - 2
    x = pl.DataFrame({"ts": [low, 0], "te": [0, high]})
    y = pl.DataFrame({"ts": [low, high - 1], "te": [low + 1, high]})
    assert ps.relate(x, y)["relation"].to_list() == [
        "started-by", "before", "after", "finished-by",
    ]  # fmt: skip
    assert ps.join(x, y, "before; after", nearest=1)["te_y"].to_list() == [high, low + 1]
    assert ps.join(x, y, "intersects", where="y.ts - x.ts >= 10").rows() == [
        (0, high, high - 1, high)
    ]
    assert ps.merge(x, gap=5).rows() == [(low, high, 2)]
