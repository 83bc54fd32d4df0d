"""Aggregates from statistics are those of the rows."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives.requests import aggregation_of

_ALL = [
    "COUNT(*)", "COUNT(x)", "SUM(x)", "AVG(x)", "MIN(x)", "MAX(x)", "SUM(n)", "AVG(n)", "MAX(n)",
    "MIN(s)", "MAX(s)", "MIN(ts) AS first", "SUM(u)", "SUM(h)", "MAX(c)",
]  # fmt: skip


def _frame(random: Random, n: int) -> pl.DataFrame:
    def maybe(value: Any) -> Any:
        return None if random.random() < 0.1 else value

    floats = [0.1, -0.0, 1e16, -1e16, 1.0, 1e-300, math.nan, 3.25]
    return pl.DataFrame(
        {
            "ts": [random.randrange(0, 10_000) for _ in range(n)],
            "car": [random.randrange(3) for _ in range(n)],
            "x": [maybe(random.choice(floats)) for _ in range(n)],
            "n": [maybe(random.choice([1, -7, 2**40, -(2**40)])) for _ in range(n)],
            "s": [maybe(random.choice(["a", "b" * 80, "z" * 80, "zz"])) for _ in range(n)],
            "u": [maybe(random.randrange(2**53)) for _ in range(n)],
            "h": [maybe(random.choice([0.5, 1e10])) for _ in range(n)],
            "c": [maybe(random.choice(["x", "y"])) for _ in range(n)],
        },
        schema_overrides={"u": pl.UInt64, "h": pl.Float32, "c": pl.Categorical},
    )


def _expected(frame: pl.DataFrame) -> dict[str, Any]:
    """What the aggregates of some rows are, by exact arithmetic."""
    found: dict[str, Any] = {"count": len(frame)}
    for name in ("x", "n", "u", "h"):
        values = [Fraction(v) for v in frame[name].to_list() if v is not None and v == v]
        total = sum(values, Fraction(0))
        rounded = float(total) if frame.schema[name].is_float() else int(total)
        found[f"sum_{name}"] = rounded if values else None
        found[f"avg_{name}"] = rounded / len(values) if values else None
    there = [v for v in frame["x"].to_list() if v is not None and v == v]
    found |= {
        "count_x": len(there),
        "min_x": min(there, default=None),
        "max_x": max(there, default=None),
    }
    found |= {"max_n": frame["n"].max(), "min_s": frame["s"].min(), "max_s": frame["s"].max()}
    found |= {"first": frame["ts"].min(), "max_c": frame["c"].cast(pl.String).max()}
    return found


@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_of_exact_arithmetic_over_the_rows(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    frame = _frame(random, 600)
    lake = ps.archive(tmp_path / "own", time="ts", key=random.choice([None, "car"]),
                      page_rows=random.choice([1, 7, 50]), file_rows=200)  # fmt: skip
    for first in range(0, 600, 250):
        lake.append(frame[first : first + 250])
    if seed % 2:
        lake.compact()
    for where in (None, "x > 0", "n = 1 OR ts < 4000", "s LIKE 'z%'", pl.col("ts") > 5000):
        for every in (None, 100, 3000):
            for between in (None, (2000, 7001), (None, 500), (9_000, None), (5, 5)):
                found = lake.aggregate(*_ALL, every=every, where=where, between=between)
                first, end = between or (None, None)
                rows = frame.filter(pl.col("ts") >= (first or 0), pl.col("ts") < (end or 10**9))
                if where is not None:
                    predicate = (
                        where
                        if isinstance(where, pl.Expr)
                        else pl.sql_expr(where.replace("x > 0", "x > 0 AND NOT x = 'NaN'::double"))
                    )
                    rows = rows.filter(predicate)
                if every is None:
                    expected = [_expected(rows)]
                else:
                    groups = rows.group_by(pl.col("ts") // every).__iter__()
                    expected = [
                        {"ts": key * every, **_expected(group)}
                        for (key,), group in sorted(groups, key=lambda one: one[0])
                    ]
                names = found.columns
                assert found.rows() == [tuple(one[name] for name in names) for one in expected]


def test_only_the_pages_at_the_edges_are_read(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1)
    frame = pl.DataFrame(
        {"ts": [start + timedelta(seconds=i) for i in range(50_000)], "x": range(50_000)}
    )
    lake = ps.archive(tmp_path, time="ts", page_rows=100, file_rows=5000)
    lake.append(frame)

    def pages_read(aggregate: str, every: Any, where: Any, between: Any) -> int:
        wanted = aggregation_of(lake.pages, "ts", [aggregate], every, where, between)
        wanted.result()
        return wanted.pages_read

    window = (start + timedelta(seconds=1234), start + timedelta(seconds=43_210))
    assert pages_read("SUM(x)", None, None, window) == 2
    assert pages_read("AVG(x)", None, None, None) == 0
    assert pages_read("AVG(x)", "1 h", None, None) == 0  # a page is 100 s, an hour 36 pages
    assert pages_read("AVG(x)", "90 min", "x >= 150", window) == 2
    assert pages_read("MAX(x)", None, "x >= 150 AND x < 250", None) == 2
    found = lake.aggregate("MAX(x)", every="1 h", between=window)
    assert found["ts"].to_list()[:2] == [start, start + timedelta(hours=1)]
    assert found["max_x"].to_list()[-1] == 43_209


def test_infinite_and_very_large_values(tmp_path: Path) -> None:
    for number, (values, total) in enumerate([
        ([1.0, math.inf], math.inf), ([math.inf, -math.inf], None), ([1e308, 1e308], math.inf),
        ([1e308, 1e308, -1e308], 1e308), ([-1e308, -1e308], -math.inf), ([math.nan], None),
    ]):  # fmt: skip
        lake = ps.archive(tmp_path / str(number), time="ts", page_rows=1)
        lake.append(pl.DataFrame({"ts": range(len(values)), "x": values}))
        assert lake.aggregate("SUM(x)").item() == total
    lake = ps.archive(tmp_path / "whole", time="ts")
    lake.append(pl.DataFrame({"ts": [1, 2], "x": [2**63 - 1, 1]}))
    assert lake.aggregate("SUM(x)", "AVG(x)").rows() == [(None, 2.0**62)]


def test_plain_files_are_aggregated_by_what_is_known_of_them(tmp_path: Path) -> None:
    ts = [datetime(2026, 1, 1) + timedelta(microseconds=i) for i in range(1000)]
    frame = pl.DataFrame({"ts": ts, "n": range(1000), "s": ["z" * 99] * 1000})
    frame = frame.with_columns(pl.col("ts").cast(pl.Datetime("ns")) + pl.duration(nanoseconds=7))
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=100)
    lake = ps.archive(tmp_path)
    found = lake.aggregate("COUNT(n)", "SUM(n)", "MIN(ts)", "MAX(s)", where="n < 150")
    assert found.rows() == [(150, sum(range(150)), ts[0], "z" * 99)]
    assert found["min_ts"].equals(frame["ts"][:1].alias("min_ts"))


def test_files_that_others_replace_meanwhile_are_looked_for_again(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts")
    for ts in range(3):
        lake.append([{"ts": ts, "x": ts}])
    assert lake.pages.n_rows == 3
    assert ps.archive(tmp_path).compact() == 3
    assert lake.aggregate("SUM(x)", where="x + 0 * ts > 0", between=(0, 9)).item() == 3


def test_wrong_aggregates_are_explained(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts")
    lake.append(pl.DataFrame({"ts": [1], "speed": [1.5], "name": ["a"]}))
    for text, message in {
        "AVRG(speed)": "did you mean AVG",
        "FIRST(speed)": "the aggregates are COUNT, SUM",
        "AVG(sped)": "did you mean speed",
        "AVG(name)": "AVG is of numbers; name has type String",
        "AVG(*)": "only COUNT may be of",
        "speed": "this is no aggregate",
        "SUM(speed), MAX(speed)": "each aggregate is a text of its own",
    }.items():
        with pytest.raises(ps.QueryError, match=message):
            lake.aggregate(text)
    with pytest.raises(ps.QueryError, match="named sum_speed: name one with AS"):
        lake.aggregate("SUM(speed)", "SUM(speed)")
    with pytest.raises(ps.QueryError, match="cannot read earlier ones"):
        lake.aggregate("SUM(speed)", where="speed > PREV(speed)")
    with pytest.raises(ps.QueryError, match="there is no column sped: did you mean speed"):
        lake.aggregate("SUM(speed)", where=pl.col("sped") > 3)
    with pytest.raises(ps.QueryError, match="parameter :most has no value"):
        lake.aggregate("SUM(speed)", where="speed < :most")
    with pytest.raises(TypeError, match="parameters fill the text of where"):
        lake.aggregate("SUM(speed)", parameters={"most": 3})
    assert lake.aggregate("SUM(speed)", where="name = :n", parameters={"n": "a"}).item() == 1.5
    assert lake.aggregate("COUNT(*)", where="name = :n", parameters={"n": "b"}).item() == 0
    with pytest.raises(ValueError, match="no column of times goes so far"):
        lake.aggregate("SUM(speed)", every=2**70)
    with pytest.raises(ValueError, match=r"page_rows is .* it is at most"):
        ps.archive(tmp_path / "large", time="ts", page_rows=2**70)
    with pytest.raises(TypeError, match="at least one aggregate"):
        lake.aggregate()
    with pytest.raises(ValueError, match="a span has a length"):
        lake.aggregate("COUNT(*)", every=0)
    with pytest.raises(TypeError, match="an aggregate is a text"):
        lake.aggregate(5)  # type: ignore[arg-type]
    for between in (5, "2026", (1,), {1: 2}):
        with pytest.raises(TypeError, match="between is two times"):
            lake.aggregate("COUNT(*)", between=between)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="where is a predicate"):
        lake.aggregate("COUNT(*)", where=5)  # type: ignore[arg-type]
    assert lake.aggregate('MAX("name") AS top', "COUNT(*) AS n").rows() == [("a", 1)]


def test_categories_are_in_the_order_of_their_column(tmp_path: Path) -> None:
    levels = pl.Enum(["low", "middle", "high"])
    rows = pl.DataFrame({"t": range(40), "level": ["high", "low", None, "middle"] * 10})
    rows = rows.with_columns(
        pl.col("level").cast(levels), text=pl.col("level").cast(pl.Categorical)
    )
    lake = ps.archive(tmp_path, time="t", page_rows=4)
    lake.append(rows)
    found = lake.aggregate("MIN(level)", "MAX(level)", "MAX(text)", between=(3, 30))
    assert found.rows() == [("low", "high", "middle")]
    assert found.schema["max_level"] == levels
    split = lake.aggregate("MAX(level)", every=2, between=(2, 6))
    assert split["max_level"].to_list() == ["middle", "high"]


def test_a_span_of_the_calendar_and_a_file_that_is_gone_are_told(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path / "lake", time="t")
    lake.append(pl.DataFrame({"t": range(9), "x": range(9)}))
    with pytest.raises(
        ps.QueryError, match=r"unknown unit: month \(.*write days; the units are ns, us"
    ):
        lake.aggregate("SUM(x)", every="1 month")
    with pytest.raises(ps.QueryError, match=r"in t are integers .* as in every=5"):
        lake.aggregate("SUM(x)", every="4 s")
    for path in (tmp_path / "lake" / "rows").iterdir():
        path.unlink()
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    for ask in (lambda: query.run(lake), lambda: lake.aggregate("SUM(x)", every=4, where="x > 3")):
        with pytest.raises(ps.StreamError, match=r"a file of the archive .* is missing: .*parquet"):
            ask()
