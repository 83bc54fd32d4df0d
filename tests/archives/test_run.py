"""Queries over archives: what is read of them, and the ways to name one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, run, statistics, store
from piestream.archives.run import ArchiveRun
from piestream.archives.source import source_of
from piestream.language.options import FileOptions, Ties
from tests.archives.cars import BRAKING, assert_same, car_rows, lake_of, n_read


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives as small as these would be read as a whole."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "_READ", 0)
    monkeypatch.setattr(costs, "_PAGE", 0)
    monkeypatch.setattr(costs, "_RUN", 0)
    monkeypatch.setattr(costs, "_RUN_BY_KEY", 0)
    monkeypatch.setattr(costs, "_PLAN", 0)
    monkeypatch.setattr(costs, "_PLAN_OF_PAGE", 0)
    monkeypatch.setattr(costs, "TRIED", 0.5)


@pytest.mark.parametrize("key", ["car", None])
def test_only_what_lies_around_the_rarest_symbol_is_read(tmp_path: Path, key: str | None) -> None:
    rows = car_rows()
    lake = lake_of(tmp_path, rows, key)
    query = ps.query(BRAKING)
    found = query.run(lake)
    assert len(found) > 50
    assert_same(found, query.run(rows))
    assert n_read(query, lake) < (5000 if key else 2000)


def test_of_one_key_only_its_pages_are_read(tmp_path: Path) -> None:
    rows = car_rows(cars=20).with_columns(braking=(pl.col("braking") & (pl.col("car") == 7)))
    lake = lake_of(tmp_path, rows)
    query = ps.query(BRAKING)
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) < 600


def test_of_a_text_that_is_rare_only_its_pages_are_read(tmp_path: Path) -> None:
    names = pl.Series([f"n{n * 7919 % 997}" for n in range(40_000)])
    rows = car_rows(cars=1).with_columns(name=names.scatter(20_000, "n500x"))
    lake = lake_of(tmp_path, rows, None)
    query = ps.query(BRAKING.replace("AS braking", "AS name = 'n500x'"))
    assert_same(query.run(lake), query.run(rows))
    assert 0 < n_read(query, lake) < 3000
    assert lake.aggregate("COUNT(*)", where="name = 'n500x'").item() == 1


def test_files_without_filters_lie_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = pl.Series([f"n{n % 97}" for n in range(40_000)])
    rows = car_rows(cars=1).with_columns(name=names.scatter([5_000, 20_000], "n50x"))
    with monkeypatch.context() as earlier:
        earlier.setattr(store, "page_filters", lambda *_: pl.DataFrame())
        lake = lake_of(tmp_path, rows[:13_000], None)
    lake.append(rows[13_000:])
    query = ps.query(BRAKING.replace("AS braking", "AS name = 'n50x'"))
    assert_same(query.run(lake), query.run(rows))
    assert lake.aggregate("COUNT(*)", where="name = 'n50x'").item() == 2
    assert n_read(query, lake) < 16_000
    assert lake.verify() == []


def test_an_archive_that_others_have_replaced_is_scanned_as_it_is_by_then(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, car_rows(2000)[::2])
    lake.append(car_rows(2000)[1::2])
    stale = ps.archive(tmp_path)
    assert lake.compact() == 2
    assert len(stale.scan().collect()) == 2000
    lake.files[0].unlink()
    with pytest.raises(ps.ArchiveError, match=r"is missing: .*its verify\(\) tells all that are"):
        stale.scan()


@pytest.mark.parametrize("has_filters", [True, False])
def test_filters_tell_where_the_row_before_is_on_pages_with_many_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filters: bool
) -> None:
    monkeypatch.setattr(statistics, "_MOST_KEYS", 10)
    if not has_filters:
        monkeypatch.setattr(store, "page_filters", lambda *_: pl.DataFrame())
    cars = pl.Series([f"c{t * 7919 % 997}" for t in range(40_000)]).scatter([1000, 20_010], "c5x")
    rows = car_rows().with_columns(car=cars, speed=pl.lit(70.0), braking=pl.col("ts") == 20_010)
    lake = lake_of(tmp_path, rows, None)
    query = ps.query(
        "FROM s PARTITION BY car ORDER BY ts DEFINE b AS braking, s AS speed > 60 "
        "PATTERN b starts; equals; during s WITHIN 20"
    )
    assert_same(query.run(lake), query.run(rows))
    assert (n_read(query, lake) < 2000) == has_filters


def test_what_takes_the_matches_of_a_frame_says_what_to_give_of_an_archive(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, car_rows(1000))
    with pytest.raises(TypeError, match=r"give its rows, archive\.scan\(\)\.collect\(\)"):
        ps.query(BRAKING).export(lake, "trace")


def test_where_a_symbol_is_nowhere_nothing_is_read(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, car_rows())
    query = ps.query(BRAKING.replace("speed > 60", "speed > 1000 AND NOT braking"))
    assert len(query.run(lake)) == 0
    assert query.run(lake).schema == query.run(car_rows()).schema
    assert n_read(query, lake) == 0


@pytest.mark.parametrize(
    "predicate",
    [
        "speed > PREV(speed, 3)",
        "AVG(speed) OVER 20 EVENTS > 60",
        "AVG(speed) OVER 100 > 60",
        "PREV(AVG(speed) OVER 4 EVENTS) > 60",
        "speed > 66 BRIDGING 6",
    ],
)
@pytest.mark.parametrize("key", ["car", None])
def test_what_intervals_need_of_earlier_rows_is_read_too(
    tmp_path: Path, predicate: str, key: str | None
) -> None:
    rows = car_rows()
    lake = lake_of(tmp_path, rows, key, page_rows=10)
    query = ps.query(BRAKING.replace("speed > 60", predicate).replace("WITHIN 300", "WITHIN 30"))
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) < 5000


@pytest.mark.parametrize(
    ("least", "absence"),
    [
        (70, "c after b AND c.ts - b.te <= 20"),
        (73, "c before b AND b.ts - c.te <= 500"),  # before the window
        (73, "c before b AND b.ts - c.ts <= 500"),
        (68, "c intersects b"),
    ],
)
def test_what_is_absent_is_looked_for_around_matches_only(
    tmp_path: Path, least: int, absence: str
) -> None:
    rows = car_rows()
    lake = lake_of(tmp_path, rows)
    query = ps.query(
        "FROM cars PARTITION BY car ORDER BY ts "
        f"DEFINE b AS braking, s AS speed > 60, c AS speed > {least} "
        f"PATTERN b during; overlaps; meets; before s AND NOT ({absence}) WITHIN 300"
    )
    found = query.run(lake)
    assert 0 < len(found) < len(ps.query(BRAKING).run(rows))
    assert_same(found, query.run(rows))
    assert n_read(query, lake) < 9000


def test_what_is_absent_may_end_at_the_first_row_that_is_read(tmp_path: Path) -> None:
    ts = pl.Series("ts", [1, 90, 100, 101, 120])
    rows = pl.DataFrame({"ts": ts, "a": ts == 100, "c": ts == 1})
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c before a AND a.ts - c.te <= 10) WITHIN 15"
    )
    lake = lake_of(tmp_path, rows, None, page_rows=1)
    assert n_read(query, lake) > 0
    assert_same(query.run(lake), query.run(rows))
    assert len(query.run(rows)) == 0


@pytest.mark.parametrize("key", ["car", None])
@pytest.mark.parametrize(
    ("hot", "cold", "holds_before"),
    [(20_000, 20_000, False), (15_000, 15_000, True), (14_000, 15_000, False)],
    ids=["near", "far away it began", "far away it ended"],
)
def test_what_until_says_is_known_from_the_last_row_that_decides_it(
    tmp_path: Path, key: str | None, hot: int, cold: int, holds_before: bool
) -> None:
    ts = pl.col("ts")
    rows = car_rows().with_columns(
        hot=(ts % 700 < 8) & ~ts.is_between(hot, 20_030),
        cold=(ts % 900 < 8) & ~ts.is_between(cold, 20_060),
    )
    lake = lake_of(tmp_path, rows, key)
    query = ps.query(BRAKING.replace("speed > 60", "hot UNTIL cold"))
    found = query.run(lake)
    assert (len(found) == 0) == holds_before
    assert_same(found, query.run(rows))
    assert 0 < n_read(query, lake) < 3000


def test_what_until_says_is_read_of_all_where_it_is_known_from_far_away(tmp_path: Path) -> None:
    rows = car_rows().with_columns(
        speed=pl.when(pl.col("ts") % 40 < 4).then(0.1).otherwise("speed")
    )
    lake = lake_of(tmp_path, rows)
    never = "ts BETWEEN 20010 AND 20013 OR speed = 0.125 UNTIL speed = 0.375"
    query = ps.query(BRAKING.replace("speed > 60", never))
    found = query.run(lake)
    assert len(found) == 4
    assert_same(found, query.run(rows))
    assert n_read(query, lake) == len(rows)


@pytest.mark.parametrize("key", ["car", None])
@pytest.mark.parametrize(("is_far", "emit"), [(True, ""), (True, "EMIT ON BOTH"), (False, "")])
def test_little_is_read_before_all_is_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, is_far: bool, emit: str
) -> None:
    monkeypatch.setattr(costs, "TRIED", 1 / 20)
    times = pl.col("ts")
    rows = car_rows(120_000).with_columns(
        braking=times % 4000 < 4,
        go=times % 50 == 0, stop=(times % 50 == 1) & (times < (1 if is_far else 200_000)),
        other=times % 3 == 0,
    )  # fmt: skip
    lake = lake_of(tmp_path, rows, key)
    text = "s AS (go OR speed < 0) AND other UNTIL stop AND other"
    query = ps.query(BRAKING.replace("s AS speed > 60", text).replace("300", "10") + emit)
    assert_same(query.run(lake), query.run(rows))
    work = ArchiveRun(query, source_of(lake), FileOptions())
    assert work.plan.is_uncertain
    list(work.results())
    decoded = work.plan.decoder.decoded.any(axis=1)
    if work.read_rows == len(rows):
        assert 0 < lake.pages.rows[decoded].sum() < len(rows) / 20
    assert is_far or work.read_rows < len(rows)
    assert not is_far or key or work.read_rows == len(rows)


@pytest.mark.parametrize("count", ["AT LEAST 600 EVENTS", "AT MOST 900 EVENTS", "AT MOST 2 EVENTS"])
def test_of_what_is_absent_as_many_events_are_read_as_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: str
) -> None:
    monkeypatch.setattr(costs, "_LEAST_MARGIN_BEFORE", 1.0)  # of so few rows it is given up soon
    rows = car_rows().with_columns(speed=pl.when(pl.col("ts") < 19_000).then(0).otherwise(99))
    lake = lake_of(tmp_path, rows)
    query = ps.query(
        f"FROM cars PARTITION BY car ORDER BY ts DEFINE b AS braking, d AS speed > 40 {count} "
        "PATTERN b AND NOT (d intersects b) WITHIN 300"
    )
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) < 9000


def test_where_what_is_absent_is_counted_over_bridges_all_is_read(tmp_path: Path) -> None:
    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    lake = lake_of(tmp_path, rows)
    query = ps.query(
        "FROM cars PARTITION BY car ORDER BY ts "
        "DEFINE b AS braking, c AS speed > 40 BRIDGING 9 AT LEAST 6 EVENTS "
        "PATTERN b AND NOT (c intersects b) WITHIN 300"
    )
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) == len(rows)


@pytest.mark.parametrize("predicate", ["speed > 60", "speed > PREV(speed, 3)"])
@pytest.mark.parametrize("limit", ["", " NO OVERLAP"])
def test_events_of_one_time_are_read_narrowly_too(
    tmp_path: Path, predicate: str, limit: str
) -> None:
    rows = car_rows().with_columns(pl.col("ts") // 12, seq=-pl.col("ts") % 12)
    lake = lake_of(tmp_path, rows)
    query = ps.query(BRAKING.replace("ORDER BY ts", "ORDER BY ts, seq") + limit)
    query = ps.query(str(query).replace("speed > 60", predicate).replace("300", "30"))
    found = query.run(lake)
    assert len(found)
    assert_same(found, query.run(rows))
    assert n_read(query, lake) < 5000


@pytest.mark.parametrize(
    "text",
    [
        BRAKING.replace("speed > 60", "PREV(speed) > 60 UNTIL speed < 50"),
        BRAKING.replace("speed > 60", "PREV(AVG(speed) OVER 100) > 60"),
    ],
)
def test_what_depends_on_rows_far_away_is_found_by_reading_all(tmp_path: Path, text: str) -> None:
    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    lake = lake_of(tmp_path, rows)
    query = ps.query(text)
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) == len(rows)
    assert_same(query.run(lake, at_end="close"), query.run(rows, at_end="close"))


@pytest.mark.parametrize("limit", ["", "NO OVERLAP", "COOLDOWN 3 LIMIT 9"])
def test_what_holds_until_something_began_before_what_is_read_with_limits_too(
    tmp_path: Path, limit: str
) -> None:
    ts = pl.int_range(400, eager=True).alias("ts")
    for begins, count in (([150, 169, 301], 1), ([169, 301], 2)):
        rows = pl.DataFrame(
            [ts, ts.is_in(begins).alias("go"), ts.is_in([173, 303]).alias("stop"),
             ts.is_in([177, 305]).alias("hit")]
        )  # fmt: skip
        lake = lake_of(tmp_path / str(count), rows, None, page_rows=1)
        query = ps.query(
            "FROM s ORDER BY ts DEFINE a AS hit, b AS go UNTIL stop PATTERN b before a "
            f"WITHIN 15 {limit}"
        )
        assert len(query.run(rows)) == count
        assert_same(query.run(lake), query.run(rows))
        assert n_read(query, lake) < 200


@pytest.mark.parametrize("key", ["car", None])
def test_until_is_decided_by_a_silence_too(tmp_path: Path, key: str | None) -> None:
    ts = pl.col("ts")
    rows = car_rows(400_000).filter(~ts.is_between(19_000, 19_900) | (ts % 4 == 1))
    rows = rows.with_columns(
        braking=ts.is_between(20_000, 20_040), go=ts < 3, stop=(ts < 9) & (ts >= 3)
    )
    lake = lake_of(tmp_path, rows, key)
    text = BRAKING.replace("speed > 60", "go UNTIL stop OR speed < 0")
    for gap, is_long in ((800, False), (1200, True)):
        query = ps.query(text.replace("ORDER BY ts", f"ORDER BY ts MAX GAP {gap}"))
        assert_same(query.run(lake), query.run(rows))
        assert n_read(query, lake) < (25_000 if is_long else 20_000)


@pytest.mark.parametrize("key", ["car", None])
def test_what_is_open_at_the_end_is_closed_where_its_partition_ends(
    tmp_path: Path, key: str | None
) -> None:
    ts = pl.col("ts")
    rows = car_rows().filter((pl.col("car") != 1) | (ts < 20_020))
    rows = rows.with_columns(braking=(pl.col("braking") & (pl.col("car") < 2)) | (ts >= 39_990))
    lake = lake_of(tmp_path, rows, key)
    for partition_by in ("PARTITION BY car", ""):
        query = ps.query(
            f"FROM cars {partition_by} ORDER BY ts DEFINE b AS braking, s AS speed > 55 "
            "PATTERN b finishes; overlaps; equals; contains; starts s WITHIN 60 EMIT ON COMPLETION"
        )
        expected = query.run(rows, at_end="close")
        assert len(expected) > len(query.run(rows))
        assert_same(query.run(lake, at_end="close"), expected)
        work = ArchiveRun(query, source_of(lake), FileOptions(at_end="close"))
        list(work.results())
        assert (work.read_rows < 5000) == (key is not None or not partition_by)


@pytest.mark.parametrize("keys", ["car, lane", "lane, car"])
@pytest.mark.parametrize("emit", ["EMIT ON BOTH", "LIMIT 5", "EMIT ON BOTH ONCE PER b"])
def test_which_partitions_of_several_keys_end_is_found_by_reading_on(
    tmp_path: Path, keys: str, emit: str
) -> None:
    ts, car = pl.col("ts"), pl.col("car")
    rows = car_rows().with_columns(lane=ts // 3 % 2 * 10 + car)
    rows = rows.filter((car != 1) | (ts < 20_020)).with_columns(
        braking=(pl.col("braking") & (car < 2)) | (ts >= 39_990)
    )
    lake = lake_of(tmp_path, rows, "car")
    query = ps.query(
        f"FROM cars PARTITION BY {keys} ORDER BY ts DEFINE b AS braking, s AS speed > 55 "
        f"PATTERN b finishes; overlaps; equals; contains; starts s WITHIN 60 {emit}"
    )
    expected = query.run(rows, at_end="close")
    assert len(expected)
    assert_same(query.run(lake, at_end="close"), expected)
    work = ArchiveRun(query, source_of(lake), FileOptions(at_end="close"))
    list(work.results())
    assert work.read_rows < 15_000 or keys == "lane, car"  # lanes have no lists on pages


@pytest.mark.parametrize("limit", ["ONCE PER b", "LIMIT 3", "NO OVERLAP", "COOLDOWN 9"])
def test_limits_judge_what_is_found_on_few_pages(tmp_path: Path, limit: str) -> None:
    rows = car_rows().with_columns(braking=pl.col("ts") % 9000 < 40)
    lake = lake_of(tmp_path, rows)
    query = ps.query(f"{BRAKING} {limit}")
    found = query.run(lake)
    assert 4 <= len(found) < len(ps.query(BRAKING).run(lake))
    assert_same(found, query.run(rows))
    assert n_read(query, lake) < 20_000


@pytest.mark.parametrize("limit", ["", "ONCE PER b", "LIMIT 3", "NO OVERLAP", "COOLDOWN 9"])
def test_ends_of_matches_are_looked_for_behind_their_reports(tmp_path: Path, limit: str) -> None:
    times = pl.col("ts")
    rows = car_rows().with_columns(
        braking=times % 20_000 < 40, speed=pl.when(times % 20_000 < 2000).then(70.0).otherwise(5.0)
    )
    lake = lake_of(tmp_path, rows)
    query = ps.query(BRAKING.replace("before", "before; starts; equals") + f" EMIT ON BOTH {limit}")
    found = query.run(lake)
    assert found["phase"].value_counts().height == 2
    assert (found["s_te"] - found["s_ts"]).max() == 2000  # type: ignore[operator]
    assert_same(found, query.run(rows))
    assert n_read(query, lake) < 20_000


def test_pages_that_statistics_decide_are_not_decoded(tmp_path: Path) -> None:
    rows = car_rows(cars=1).with_columns(
        speed=pl.when(pl.col("ts") % 5000 < 4990).then(70.0).otherwise(5)
    )
    lake = lake_of(tmp_path, rows, None)
    query = ps.query(BRAKING.replace("WITHIN 300", "WITHIN 20000") + " RETURN b.ts, s.ts")
    assert_same(query.run(lake), query.run(rows))
    assert len(query.run(lake)) > 0
    assert n_read(query, lake) < 1500


@pytest.mark.parametrize("key", ["car", None])
def test_of_long_intervals_statistics_give_aggregates(tmp_path: Path, key: str | None) -> None:
    draw = np.random.default_rng(2)
    rows = car_rows(cars=1).with_columns(
        heat=draw.normal(0, 5, 40_000) + 0.1, level=pl.col("ts") % 977
    )
    rows = rows.with_columns(load=pl.when(pl.col("ts") % 3 > 0).then(pl.col("level") - 400))
    lake = lake_of(tmp_path, rows, key)
    asked = {
        "MAX(f.heat) AS most, MIN(f.heat) AS least, FIRST(f.level) AS l, MAX(f.ts) AS last, "
        "MIN(b.heat) AS b": True,
        "COUNT(f) AS n, LAST(f.heat) AS h": True,
        "SUM(f.load) AS total, AVG(f.load) AS mean, COUNT(f.load) AS n, MIN(f.load) AS least, "
        "MAX(f.load) AS most, COUNT(f.heat) AS hot, COUNT(b) AS b": True,
        "SUM(f.heat) AS s": False,  # depends on the order in which they are added
        "STDDEV(f.level) AS d": False,
    }
    for values, is_little in asked.items():
        query = ps.query(
            "FROM s PARTITION BY car ORDER BY ts DEFINE b AS braking, f AS level >= 0 "
            f"PATTERN b during f WITHIN 40000 RETURN {values}"
        )
        assert_same(query.run(lake), query.run(rows))
        assert len(query.run(lake)) == 1
        assert (n_read(query, lake) < 600) == is_little, values


def test_sums_that_may_leave_64_bits_are_added_row_by_row(tmp_path: Path) -> None:
    rows = car_rows(cars=1).with_columns(n=(pl.col("ts") + 1) * 2**40)
    lake = lake_of(tmp_path, rows)
    query = ps.query(
        "FROM s PARTITION BY car ORDER BY ts DEFINE b AS braking, f AS speed > 0 PATTERN b during f "
        "WITHIN 40000 RETURN SUM(f.n) AS total, AVG(f.n) AS mean"
    )
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) > 10_000
    assert query.run(rows)["total"].to_list() == [None]


@pytest.mark.parametrize("key", ["car", None])
def test_an_interval_begins_on_its_page_though_another_partition_has_the_row_before(
    tmp_path: Path, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    rows = pl.DataFrame(
        {
            "ts": range(12),
            "car": [1, 1, 1, 2, *[1] * 8],
            "fast": [False] * 3 + [True] * 5 + [False] * 4,
            "heat": [5.0, 5.0, 5.0, 5.0, 7.0, 9.0, 6.0, 8.0, 1.0, 1.0, 1.0, 1.0],
        }
    )
    lake = lake_of(tmp_path, rows[:4], key, page_rows=4)
    lake.append(rows[4:])
    query = ps.query(
        "FROM s PARTITION BY car ORDER BY ts DEFINE f AS fast, a AS NOT fast PATTERN f meets a "
        "WITHIN 20 RETURN FIRST(f.heat) AS l"
    )
    assert len(query.run(rows)) == 1
    assert_same(query.run(lake), query.run(rows))


def test_an_interval_goes_on_in_a_later_file_though_other_partitions_lie_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    partitions = [(1, 5)] * 12 + [(1, 7)] * 2 + [(2, 5)] * 2 + [(1, 5)] * 2
    rows = pl.DataFrame(
        {
            "ts": [*range(12), 10, 11, 10, 11, 20, 21],
            "car": [car for car, _ in partitions],
            "lane": [lane for _, lane in partitions],
            "fast": [False] * 2 + [True] * 14 + [False] * 2,
            "heat": range(18),
        }
    )
    lake = ps.archive(tmp_path / "lake", time="ts", key=["car", "lane"], page_rows=4)
    lake.append(rows[:16])  # the lowest keys of its last page are of no partition there
    lake.append(rows[16:])
    query = ps.query(
        "FROM s PARTITION BY car, lane ORDER BY ts DEFINE f AS fast, a AS NOT fast "
        "PATTERN f meets a WITHIN 90 RETURN LAST(f.heat) AS l"
    )
    assert query.run(rows)["l"].to_list() == [11]
    assert_same(query.run(lake), query.run(rows))


@pytest.mark.parametrize("column", ["flag", "far"], ids=["none is kept", "beyond 64 bits"])
def test_pages_without_the_symbol_need_no_sum(
    tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    rows = pl.DataFrame({"ts": range(24), "fast": [6 <= ts < 14 for ts in range(24)]}).with_columns(
        flag=pl.col("ts") % 3 > 0,
        far=pl.when(pl.col("fast")).then(1).otherwise(2**62),
    )
    lake = lake_of(tmp_path, rows, None, page_rows=4)
    query = ps.query(
        "FROM s ORDER BY ts DEFINE f AS fast, a AS NOT fast PATTERN f meets a WITHIN 90 "
        f"RETURN SUM(f.{column}) AS total, AVG(f.{column}) AS mean"
    )
    assert_same(query.run(lake), query.run(rows))


def test_a_row_pattern_measures_what_is_calculated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    rows = pl.DataFrame({"ts": range(24), "fast": [ts % 8 < 3 for ts in range(24)]})
    lake = lake_of(tmp_path, rows, None, page_rows=4)
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES SUM(A.ts * 2) AS total, COUNT(A.ts + 1) AS n "
        "PATTERN (A+) WITHIN 9 DEFINE A AS fast)"
    )
    assert_same(query.run(lake), query.run(rows))


@pytest.mark.parametrize("ties", ["first", "last"])
@pytest.mark.parametrize(
    ("times", "begin"), [([3, 4, 5, 6], 4), ([4, 5, 5, 6], 3)], ids=["two pages", "one page"]
)
def test_rows_that_do_not_count_beside_others_of_their_time_count_on_no_page(
    tmp_path: Path, ties: Ties, times: list[int], begin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    rows = pl.DataFrame(
        {
            "ts": [0, 1, 2, 3, *times, 7, 8, 9, 10],
            "fast": [begin <= number < 8 for number in range(12)],
            "heat": [5.0, 5.0, 5.0, 5.0, 7.0, 2.0, 12.0, 8.0, 1.0, 1.0, 1.0, 1.0],
        }
    )
    lake = lake_of(tmp_path, rows, None, page_rows=4)
    for values in ("f.ts", "FIRST(f.heat) AS l", "MIN(f.heat) AS l, MAX(f.heat) AS m"):
        query = ps.query(
            "FROM s ORDER BY ts DEFINE f AS fast, a AS NOT fast PATTERN f meets a WITHIN 20 "
            f"RETURN {values}"
        )
        assert len(query.run(rows, ties=ties)) == 1
        assert_same(query.run(lake, ties=ties), query.run(rows, ties=ties))


def test_columns_are_decoded_where_something_depends_on_them(tmp_path: Path) -> None:
    rows = car_rows(cars=1).with_columns(heat=pl.lit(1.5))
    lake = lake_of(tmp_path, rows, None, page_rows=10)
    query = ps.query(BRAKING + " RETURN AVG(b.heat) AS heat, s.ts")
    assert_same(query.run(lake), query.run(rows))
    work = ArchiveRun(query, source_of(lake), FileOptions())
    list(work.results())
    decoder = work.plan.decoder
    counts = dict(zip(decoder.columns, decoder.decoded.sum(axis=0).tolist(), strict=True))
    assert (counts["heat"], counts["braking"]) == (4, 0)
    assert counts["speed"] > 20


def test_a_run_that_began_long_before_the_pages_that_are_read_is_none_of_theirs(
    tmp_path: Path,
) -> None:
    rows = car_rows().with_columns(speed=pl.lit(70.0))
    lake = lake_of(tmp_path, rows)
    query = ps.query(BRAKING)
    assert len(query.run(rows)) == len(query.run(lake)) == 0
    assert n_read(query, lake) < 20_000


def test_a_silence_ends_a_run_though_nothing_follows_where_it_is_read(tmp_path: Path) -> None:
    rows = pl.DataFrame({"ts": range(5000), "car": [1] * 5000})
    rows = rows.with_columns(
        x=pl.col("ts") == 1000, car=pl.when(pl.col("ts") == 1000).then(2).otherwise(1)
    )
    query = ps.query(
        "FROM s PARTITION BY car ORDER BY ts MAX GAP 5 DEFINE a AS x PATTERN a WITHIN 50 EMIT ON COMPLETION"
    )  # fmt: skip
    lake = lake_of(tmp_path, rows)
    assert query.run(lake).rows() == query.run(rows).rows() == [(2, 1005, 1000, 1005)]
    assert n_read(query, lake) < 2500


def test_a_limit_stops_and_says_so(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, car_rows())
    with pytest.warns(ps.ResultWarning, match="stopped at limit=3"):
        assert len(ps.query(BRAKING).run(lake, limit=3)) == 3


def test_two_rows_of_one_time_are_an_error_as_in_a_frame(tmp_path: Path) -> None:
    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    rows = pl.concat([rows, rows.filter(pl.col("ts") == 3010)])
    lake = lake_of(tmp_path, rows)
    with pytest.raises(ps.TieError, match=r"the event car = \d, ts = 3010"):
        ps.query(BRAKING).run(lake)
    for ties in ("first", "last"):
        assert_same(ps.query(BRAKING).run(lake, ties=ties), ps.query(BRAKING).run(rows, ties=ties))


def test_two_rows_of_one_time_in_a_large_archive_are_named_without_reading_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    rows = pl.concat([rows, rows.filter(pl.col("ts") == 3010)])
    lake = lake_of(tmp_path, rows)
    monkeypatch.setattr(run, "_WHOLE_ROWS", 1000)
    monkeypatch.setattr(run, "_scanned", None)
    with pytest.raises(ps.TieError, match=r"same time: the event car = \d, ts = 3010"):
        ps.query(BRAKING).run(lake)


def test_a_key_whose_name_is_a_pattern_selects_pages(tmp_path: Path) -> None:
    rows = car_rows(6000).rename({"car": "^b.*$", "ts": "*"})
    rows = rows.with_columns(braking=pl.col("speed") > 76)
    lake = ps.archive(tmp_path, time="*", key="^b.*$", page_rows=50, file_rows=2000)
    lake.append(rows)
    query = ps.query(
        """
        FROM cars PARTITION BY "^b.*$" ORDER BY "*"
        DEFINE b AS braking, s AS speed > 60 PATTERN b during; overlaps; meets; before s WITHIN 30
        """
    )
    expected = query.run(rows)
    assert len(expected) > 0
    assert_same(query.run(lake), expected)
    assert n_read(query, lake) < 3000


def test_files_that_others_replace_meanwhile_are_looked_for_again(tmp_path: Path) -> None:
    rows = car_rows(6000)
    lake = lake_of(tmp_path, rows[:3000])
    lake.append(rows[3000:].with_columns(ts=pl.col("ts") - 2000))
    query = ps.query(
        "FROM s PARTITION BY car ORDER BY ts DEFINE s AS speed > 60 PATTERN s WITHIN 9"
    )
    before = query.run(lake, ties="first")
    assert ps.archive(tmp_path).compact() > 0
    assert_same(query.run(lake, ties="first"), before)


def test_a_directory_is_named_by_from_and_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from piestream.cli.app import app

    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    lake_of(tmp_path / "lake", rows)
    (tmp_path / "plain").mkdir()
    rows.write_parquet(tmp_path / "plain" / "rows.parquet", row_group_size=100)
    expected = ps.query(BRAKING).run(rows)
    assert len(expected)
    for name in ("lake", "plain"):
        path = tmp_path / name
        assert_same(ps.query(BRAKING.replace("FROM cars", f"FROM '{path}'")).run(), expected)
        target = tmp_path / "found.parquet"
        with pytest.raises(SystemExit):
            app(["run", "-q", BRAKING, str(path), "-o", str(target)])
        assert_same(pl.read_parquet(target), expected)
        assert f" events, {len(expected)} matches" in capsys.readouterr().err


def test_the_command_line_selects_too_where_that_is_worth_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from piestream.cli.app import app

    rows = car_rows()
    lake_of(tmp_path / "lake", rows, None)
    with pytest.raises(SystemExit):
        app(["run", "-q", BRAKING, str(tmp_path / "lake"), "--all"])
    events = re.search(r"([\d,]+) events, (\d+) matches", capsys.readouterr().err)
    assert events is not None
    assert 0 < int(events[1].replace(",", "")) < 2000
    assert int(events[2]) == len(ps.query(BRAKING).run(rows))


def test_few_rows_are_all_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    lake = lake_of(tmp_path, car_rows())
    assert n_read(ps.query(BRAKING), lake) == 40_000


_FALL = """
    FROM cars MATCH_RECOGNIZE (
        PARTITION BY car ORDER BY ts
        MEASURES FIRST(HIT.ts) AS hit, COUNT(SLOW.*) AS slow, MATCH_NUMBER() AS n
        PATTERN (FAST HIT+ SLOW*) WITHIN 200
        DEFINE FAST AS speed > 60, HIT AS braking, SLOW AS speed < PREV(speed)
    )
"""


def test_row_patterns_read_what_lies_around_a_variable_they_cannot_do_without(
    tmp_path: Path,
) -> None:
    rows = car_rows().with_columns(braking=pl.col("ts") % 9000 < 40)
    lake = lake_of(tmp_path, rows)
    query = ps.query(_FALL)
    expected = query.run(rows)
    assert expected["n"].max() > 2  # type: ignore[operator]
    assert_same(query.run(lake), expected)
    assert n_read(query, lake) < 20_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("HIT+ SLOW*) WITHIN 200", "HIT{1,9} SLOW{0,30}) "),
        ("FAST HIT+ SLOW*) WITHIN 200", "PERMUTE(HIT, SLOW?, FAST{2})) "),
        ("FAST HIT+", "^ FAST{0,3} HIT+"),
        ("SLOW*", "SLOW* FAST{0,3} $"),
        ("COUNT(SLOW.*)", "NEXT(LAST(SLOW.speed), 3)"),
        ("COUNT(SLOW.*)", "PREV(FIRST(FAST.speed), 7)"),
    ],
)
def test_row_patterns_read_the_rows_beside_their_matches(
    tmp_path: Path, old: str, new: str
) -> None:
    ts, is_hit = pl.col("ts"), pl.col("ts").is_in([3003, 3006, 3009, 0, 20])
    rows = car_rows().with_columns(braking=is_hit | (ts > 39_990))
    lake = lake_of(tmp_path, rows)
    query = ps.query(_FALL.replace(old, new))
    assert str(query) != str(ps.query(_FALL))
    expected = query.run(rows)
    assert len(expected)
    assert_same(query.run(lake), expected)
    assert n_read(query, lake) < 8000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" WITHIN 200", ""),
        ("HIT+ SLOW*) WITHIN 200", "HIT{1,900} SLOW{0,9})"),
        ("HIT+ SLOW*", "HIT* SLOW*"),
        ("FAST HIT+ SLOW*) WITHIN 200", "FAST* HIT SLOW)"),
    ],
)
def test_row_patterns_whose_matches_depend_on_rows_far_away_read_all(
    tmp_path: Path, old: str, new: str
) -> None:
    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    lake = lake_of(tmp_path, rows)
    query = ps.query(_FALL.replace(old, new))
    assert_same(query.run(lake), query.run(rows))
    assert n_read(query, lake) == len(rows)


def test_reads_of_many_stretches_are_begun_some_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ps.archive(tmp_path / "lake", time="ts", page_rows=5)
    lake.append(pl.DataFrame({"ts": range(6_000)}))
    wanted = np.arange(0, 1_200, 8)
    together, collect_all = [], pl.collect_all

    def counted(scans: list[pl.LazyFrame], **options: object) -> list[pl.DataFrame]:
        together.append(len(scans))
        return collect_all(scans, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(pl, "collect_all", counted)
    found = pl.concat(lake.pages.read(wanted, ["ts"]))
    assert found["ts"].to_list() == [5 * page + n for page in wanted for n in range(5)]
    assert sum(together) == len(wanted)
    assert max(together) <= 64


def test_until_is_not_decided_by_a_silence_that_max_gap_allows(tmp_path: Path) -> None:
    # it has held since 49500, so what is up again at 50000 begins nothing; only rows from before tell
    rows = pl.DataFrame({"ts": range(0, 100_000, 5)}).with_columns(
        up=pl.col("ts").is_in([49_500, 50_000, 90_000]),
        down=pl.col("ts").is_in([80_000, 89_900]),
        on=pl.col("ts").is_in([50_010, 90_010]),
    )
    lake = ps.archive(tmp_path / "lake", time="ts", page_rows=10)
    lake.append(rows)
    query = ps.query(
        "FROM s ORDER BY ts MAX GAP 9 DEFINE f AS up UNTIL down, b AS on PATTERN f contains b WITHIN 60"
    )
    found = query.run(lake)
    assert_same(found, query.run(rows))
    assert found["f_ts"].to_list() == [90_000]
    assert n_read(query, lake) < len(rows)
