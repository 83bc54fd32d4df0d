"""Archives on Spark: the rows are those of Polars, and only what can have a match is read."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs
from piestream.archives.on_spark import SparkArchive
from piestream.spark.archives import with_frames
from tests.spark.streams import rows_of

_BRAKING = """
    FROM cars PARTITION BY car ORDER BY ts
    DEFINE b AS braking, s AS speed > 60 PATTERN b during; overlaps; meets; before s
    WITHIN 30 RETURN b.ts, s.ts
"""
_START = datetime(2026, 3, 1)


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "_READ", 0)
    monkeypatch.setattr(costs, "_PAGE", 0)
    monkeypatch.setattr(costs, "_RUN", 0)
    monkeypatch.setattr(costs, "_RUN_BY_KEY", 0)
    monkeypatch.setattr(costs, "_PLAN", 0)
    monkeypatch.setattr(costs, "_PLAN_OF_PAGE", 0)
    monkeypatch.setattr(costs, "TRIED", 0.5)


def _rows(n: int = 6000) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "ts": range(n),
            "car": [f"it's {t % 3}" for t in range(n)],
            "speed": [50.0 + t * t % 37 for t in range(n)],
            "braking": [t % 3 == 1 and 3410 < t < 3490 and t % 5 == 0 for t in range(n)],
        }
    )


def _lake(path: Path, rows: pl.DataFrame) -> ps.Archive:
    lake = ps.archive(path, time="ts", key="car", page_rows=50, file_rows=1000)
    lake.append(rows)
    return lake


@pytest.mark.parametrize("kind", ["whole numbers", "times", "plain"])
def test_spark_reads_the_files_and_pages_where_a_match_can_be(
    spark: Any, tmp_path: Path, kind: str
) -> None:
    rows, text = _rows(), _BRAKING
    if kind == "times":
        rows = rows.with_columns(ts=_START + pl.col("ts") * timedelta(seconds=1))
        text = text.replace("WITHIN 30", "WITHIN 30 s")
    if kind == "plain":
        folder = tmp_path / "b[2]"
        (folder / "day=1").mkdir(parents=True)
        rows.write_parquet(folder / "day=1" / "rows.parquet", row_group_size=100)
        lake = ps.archive(folder)
    else:
        lake = _lake(tmp_path / "a*[1]", rows)
    query = ps.query(text)
    given = lake.on_spark(spark)
    found = rows_of(query.run(given))
    expected = query.run(rows)
    assert len(expected) > 5
    assert found.sort(found.columns).equals(expected.sort(expected.columns))
    frame = with_frames(query, given)
    assert len(frame.inputFiles()) <= 3
    assert frame.count() < len(rows) // 4


def test_of_nothing_nothing_is_read(spark: Any, tmp_path: Path) -> None:
    query = ps.query(_BRAKING.replace("AS braking", "AS speed > 1000"))
    given = _lake(tmp_path, _rows(600)).on_spark(spark)
    assert query.run(given).count() == 0
    assert with_frames(query, given).count() == 0


@pytest.mark.parametrize("more", ["MAX GAP", "BRIDGING"])
def test_a_silence_ends_a_run_though_nothing_follows_where_it_is_read(
    spark: Any, tmp_path: Path, more: str
) -> None:
    silent = (pl.col("ts") % 25 == 0) & (pl.col("ts") < 1000)
    rows = pl.DataFrame({"ts": range(6000)}).with_columns(
        car=pl.when(silent).then(pl.lit("a")).otherwise(pl.lit("b")), x=pl.col("ts") == 975
    )
    lake = ps.archive(tmp_path, time="ts", key="car", page_rows=20, file_rows=1000)
    lake.append(rows)
    query = ps.query(
        "FROM s PARTITION BY car ORDER BY ts MAX GAP 30 DEFINE a AS x"
        f"{' BRIDGING 9' * (more == 'BRIDGING')} PATTERN a WITHIN 150 EMIT ON COMPLETION"
    )
    given = lake.on_spark(spark)
    assert with_frames(query, given).count() < 100
    assert rows_of(query.run(given)).rows() == query.run(rows).rows() != []


def test_files_that_others_have_replaced_are_looked_for_again(spark: Any, tmp_path: Path) -> None:
    rows, query = _rows(600).with_columns(braking=pl.col("ts") == 300), ps.query(_BRAKING)
    lake = _lake(tmp_path, rows[::2])
    lake.append(rows[1::2])
    given = ps.archive(tmp_path).on_spark(spark)
    assert lake.compact() > 0
    expected = query.run(rows)
    found = rows_of(query.run(given))
    assert found.sort(pl.all()).equals(expected.sort(pl.all()))


def test_what_is_open_ends_with_its_partition(spark: Any, tmp_path: Path) -> None:
    rows = _rows(600).with_columns(braking=pl.col("ts") > 590)
    query = ps.query(_BRAKING.replace("b during; overlaps", "b during; finishes; overlaps; starts"))
    found = rows_of(query.run(_lake(tmp_path, rows).on_spark(spark), at_end="close"))
    expected = query.run(rows, at_end="close")
    assert len(expected) > len(query.run(rows))
    assert found.sort(pl.all()).equals(expected.sort(pl.all()))


def test_of_several_archives_the_rows_around_matches_are_given_to_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = _rows(2000).with_columns(braking=pl.col("ts").is_between(300, 305))
    query = ps.query(
        """FROM one ORDER BY ts WITH two ORDER BY ts PARTITION BY car
        DEFINE b AS one.braking, s AS two.speed > 60 PATTERN b overlaps; before; during s WITHIN 30"""
    )
    lake = _lake(tmp_path, rows).on_spark(spark)
    given: Any = {"one": lake, "two": lake}
    frames = with_frames(query, given)
    assert all(frame.count() < len(rows) // 4 for frame in frames.values())
    found = rows_of(query.run(given))
    expected = query.run({"one": rows, "two": rows})
    assert len(expected)
    assert found.sort(pl.all()).equals(expected.sort(pl.all()))
    monkeypatch.setattr("piestream.spark.archives._MOST_GIVEN", 3)
    beside = with_frames(query, {"one": lake, "two": spark.createDataFrame(rows.to_pandas())})
    assert beside["one"].count() == len(rows)


@pytest.mark.parametrize(
    ("text", "at_end"),
    [
        (_BRAKING.replace("speed > 60", "speed > PREV(speed, 2)"), "open"),
        (_BRAKING.replace("speed > 60", "AVG(speed) OVER 9 > 65"), "open"),
        (_BRAKING + " EMIT ON BOTH", "open"),
        (_BRAKING + " EMIT ON BOTH LIMIT 7", "open"),
        (_BRAKING + " EMIT ON COMPLETION", "close"),
        (_BRAKING + " EMIT ON BOTH ONCE PER b", "close"),
        (_BRAKING.replace("BY car", "BY car, lane"), "close"),
        (
            "FROM cars MATCH_RECOGNIZE (PARTITION BY car ORDER BY ts MEASURES LAST(B.ts) AS ts, "
            "NEXT(LAST(B.speed)) AS then PATTERN (A B{1,3} $) DEFINE A AS braking, B AS speed > 1)",
            "open",
        ),
    ],
)
def test_few_pages_are_given_to_spark_wherever_matches_end(
    spark: Any, tmp_path: Path, text: str, at_end: Literal["open", "close"]
) -> None:
    ts = pl.col("ts")
    rows = _rows().filter((pl.col("car") != "it's 1") | (ts < 3480) | (ts > 5000))
    rows = rows.filter((pl.col("car") != "it's 2") | (ts < 3484))
    rows = rows.with_columns(
        braking=pl.col("braking") | ts.is_in([3479, 3482]), speed=pl.col("speed") - ts % 2
    ).with_columns(lane=ts // 3 % 2)
    query, given = ps.query(text), _lake(tmp_path, rows).on_spark(spark)
    assert with_frames(query, given, at_end).count() < len(rows) // 2
    expected = query.run(rows, at_end=at_end)
    assert len(expected)
    found = rows_of(query.run(given, at_end=at_end))
    assert found.sort(pl.all()).equals(expected.sort(pl.all()))


def test_all_is_read_where_matches_depend_on_rows_far_away(spark: Any, tmp_path: Path) -> None:
    rows = _rows(600).with_columns(braking=pl.col("ts").is_between(300, 305))
    query = ps.query(
        """FROM one ORDER BY ts WITH two ORDER BY ts PARTITION BY car
        DEFINE b AS one.braking, s AS two.speed > 60 PATTERN b overlaps s WITHIN 30 EMIT ON BOTH"""
    )
    lake = _lake(tmp_path, rows).on_spark(spark)
    given: Any = {"one": lake, "two": lake}
    frame = with_frames(query, given)["one"]
    assert frame.count() == len(rows)
    assert not isinstance(frame, SparkArchive)
    found = rows_of(query.run(given))
    expected = query.run({"one": rows, "two": rows})
    assert found.sort(pl.all()).equals(expected.sort(pl.all()))
