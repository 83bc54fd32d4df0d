"""Queries over several streams, some of them archives: what is read of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs
from piestream.archives.several import rows_of_inputs
from piestream.language.options import FileOptions
from tests.archives.cars import assert_same, car_rows, lake_of


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives as small as these would be read as a whole."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "_READ", 0)
    monkeypatch.setattr(costs, "_PAGE", 0)
    monkeypatch.setattr(costs, "_PLAN", 0)
    monkeypatch.setattr(costs, "_PLAN_OF_PAGE", 0)


_SEVERAL = """
    FROM one ORDER BY ts WITH two ORDER BY ts PARTITION BY car
    DEFINE a AS one.braking, b AS two.speed < 55 PATTERN a overlaps; before b WITHIN 200
"""


def test_of_several_archives_only_what_lies_around_the_rarest_symbol_is_read(
    tmp_path: Path,
) -> None:
    rows = car_rows()
    lake, other = lake_of(tmp_path / "one", rows), lake_of(tmp_path / "two", rows, None)
    query = ps.query(_SEVERAL)
    expected = query.run({"one": rows, "two": rows})
    assert len(expected) > 0
    for given in ({"one": lake, "two": other}, {"one": lake, "two": rows.to_pandas()}):
        assert_same(query.run(given), expected)
        chosen = rows_of_inputs(query, given, FileOptions())
        assert len(chosen["one"]) < 1000
    assert len(rows_of_inputs(query, {"one": lake, "two": other}, FileOptions())["two"]) < 1000


@pytest.mark.parametrize("key", ["car", None])
def test_of_several_archives_only_the_keys_of_the_rarest_symbol_are_read(
    tmp_path: Path, key: str | None
) -> None:
    rows = car_rows(cars=20).with_columns(braking=pl.col("braking") & (pl.col("car") == 7))
    given = {name: lake_of(tmp_path / name, rows, key, page_rows=20) for name in ("one", "two")}
    query = ps.query(_SEVERAL)
    expected = query.run({"one": rows, "two": rows})
    assert len(expected) > 0
    assert_same(query.run(given), expected)
    for chosen in rows_of_inputs(query, given, FileOptions()).values():
        assert chosen["car"].unique().to_list() == [7]
        assert len(chosen) < 40


@pytest.mark.parametrize("key", ["car", None])
def test_of_several_archives_nothing_is_read_where_the_rarest_symbol_is_on_no_row(
    tmp_path: Path, key: str | None
) -> None:
    rows = car_rows().with_columns(level=pl.when(pl.col("braking")).then(pl.lit(0)).otherwise(5))
    given = {name: lake_of(tmp_path / name, rows, key) for name in ("one", "two")}
    query = ps.query(_SEVERAL.replace("braking", "level = 3"))
    assert len(query.run(given)) == 0
    assert all(not len(one) for one in rows_of_inputs(query, given, FileOptions()).values())


def test_of_several_archives_runs_are_bridged_to_those_before_what_is_read(tmp_path: Path) -> None:
    ts = pl.int_range(60, eager=True).alias("ts")
    frames = {
        "one": pl.DataFrame([ts, (ts.is_between(0, 10) | ts.is_between(14, 17)).alias("x")]),
        "two": pl.DataFrame([ts, ts.is_in([15, 16, 30]).alias("y")]),
    }
    given = {
        name: lake_of(tmp_path / name, rows, None, page_rows=1) for name, rows in frames.items()
    }
    for bridge, count in ((3, 0), (2, 1)):
        query = ps.query(
            f"FROM one ORDER BY ts WITH two ORDER BY ts DEFINE a AS one.x BRIDGING {bridge}, "
            "b AS two.y PATTERN a contains b WITHIN 3"
        )
        assert len(rows_of_inputs(query, given, FileOptions())["one"]) < 60
        assert len(query.run(frames)) == count
        assert_same(query.run(given), query.run(frames))


def test_intervals_of_an_archive_are_read_where_they_start_or_end_beside_a_match(
    tmp_path: Path,
) -> None:
    rows = car_rows()
    draw = np.random.default_rng(3)
    began = np.arange(0, 40_000, 10)
    intervals = pl.DataFrame(
        {"a": began, "b": began + draw.integers(1, 90, 4000), "car": draw.integers(0, 4, 4000)}
    ).with_columns(kind=pl.col("a") % 3)
    lake = lake_of(tmp_path / "one", rows)
    other = ps.archive(tmp_path / "two", time="a", page_rows=50, file_rows=1000)
    other.append(intervals)
    query = ps.query(
        """
        FROM one ORDER BY ts WITH two FROM a TO b PARTITION BY car
        DEFINE x AS one.braking, y AS two.kind = 1 PATTERN x overlaps; before; contains y WITHIN 200
        """
    )
    expected = query.run({"one": rows, "two": intervals})
    assert len(expected) > 0
    given = {"one": lake, "two": other}
    assert_same(query.run(given), expected)
    chosen = rows_of_inputs(query, given, FileOptions())
    assert len(chosen["one"]) < 1000
    assert len(chosen["two"]) < 400


def test_files_of_several_archives_that_others_replace_are_looked_for_again(
    tmp_path: Path,
) -> None:
    rows = car_rows(6000).with_columns(braking=pl.col("ts").is_between(3000, 3040))
    pieces = rows[::2], rows[1::2]
    lake = lake_of(tmp_path / "one", pieces[0])
    lake.append(pieces[1])
    query = ps.query(_SEVERAL)
    expected = query.run({"one": rows, "two": rows})
    assert len(expected) > 0
    assert ps.archive(lake.path).compact() > 0
    assert_same(query.run({"one": lake, "two": rows}), expected)
    stale = ps.archive(lake.path)
    stale.files[0].unlink()
    with pytest.raises(ps.ArchiveError, match=r"one is missing: .*its verify\(\) tells"):
        query.run({"one": stale, "two": rows})


def test_archives_are_read_whole_where_it_matters(tmp_path: Path) -> None:
    rows = car_rows(2000)
    lake = lake_of(tmp_path, rows)
    query = ps.query(_SEVERAL + "EMIT ON BOTH")
    given = {"one": rows, "two": lake}
    assert len(rows_of_inputs(query, given, FileOptions())["two"]) == 2000
    assert_same(query.run(given), query.run({"one": rows, "two": rows}))


@pytest.mark.parametrize("key", ["car", None])
def test_an_archive_that_several_streams_read_is_read_around_the_matches_too(
    tmp_path: Path, key: str | None
) -> None:
    rows = car_rows()
    lake = lake_of(tmp_path / "one", rows, key, page_rows=20)
    twice = ps.query(_SEVERAL)
    assert_same(_query_of_paths(lake.path).run(), twice.run({"one": rows, "two": rows}))
    chosen = rows_of_inputs(twice, {"one": lake, "two": lake}, FileOptions())
    assert max(map(len, chosen.values())) < 1000
    inside = "DEFINE c AS speed < 55 PATTERN c WITHIN 9"
    query = ps.query(
        f"FROM cars ORDER BY ts WITH (FROM cars PARTITION BY car ORDER BY ts {inside}) AS slow "
        "WITH (FROM cars PARTITION BY car ORDER BY ts DEFINE d AS braking PATTERN d WITHIN 90) AS brake "
        "PARTITION BY car DEFINE a AS cars.speed > 65, b AS brake, s AS slow "
        "PATTERN b overlaps; before; during; contains a AND b overlaps; before s WITHIN 200"
    )
    expected = query.run(rows)
    assert len(expected) > 0
    assert_same(query.run(lake), expected)
    found = rows_of_inputs(query, lake, FileOptions())["cars"]
    assert len(found) < 1500
    assert found.height == found.unique().height


def _query_of_paths(path: Path) -> ps.Query:
    """The query of two streams that are the same directory."""
    text = _SEVERAL.replace("FROM one", f"FROM '{path}' AS one")
    return ps.query(text.replace("WITH two", f"WITH '{path}' AS two"))


@pytest.mark.parametrize("inside", ["x", "y"])
@pytest.mark.parametrize(
    "absent", ["f contains a AND f.te - a.te <= 15", "f before a AND a.ts - f.te <= 5"]
)
def test_what_may_not_be_there_of_a_query_in_brackets_need_not_be(
    tmp_path: Path, inside: str, absent: str
) -> None:
    ts = pl.int_range(400, eager=True).alias("ts")
    frames = {
        "s": pl.DataFrame([ts, ts.is_in([100, 101, 200, 300]).alias("braking")]),
        "t": pl.DataFrame([ts, ts.is_between(150, 205).alias("x"), ts.is_in([98, 350]).alias("y")]),
    }
    query = ps.query(
        f"FROM s ORDER BY ts WITH (FROM t ORDER BY ts DEFINE u AS {inside} PATTERN u WITHIN 100) AS g "
        f"DEFINE a AS s.braking, f AS g PATTERN a AND NOT ({absent}) WITHIN 20 RETURN a.ts"
    )
    given = {
        name: lake_of(tmp_path / name, rows, None, page_rows=5) for name, rows in frames.items()
    }
    expected = query.run(frames)
    assert len(expected) > 0
    assert_same(query.run(given), expected)


def _silent(cars: int = 4) -> pl.DataFrame:
    """Rows of cars of which one says nothing for a while after it has braked, and now and then."""
    rows = car_rows(cars=cars)
    ts, is_one = pl.col("ts"), pl.col("car") == 2
    quiet = ts.is_between(20_050, 20_100) | (ts % 5000).is_between(1000, 1080)
    return rows.filter(~(quiet & is_one))


@pytest.mark.parametrize("emit", ["", " EMIT ON COMPLETION", " NO OVERLAP"])
def test_silences_are_looked_for_around_the_rarest_symbol_only(tmp_path: Path, emit: str) -> None:
    rows = _silent()
    lake = lake_of(tmp_path, rows)
    query = ps.query(
        "FROM cars PARTITION BY car ORDER BY ts DEFINE b AS braking, q AS SILENCE LONGER THAN 30 "
        "PATTERN b before; overlaps; meets q WITHIN 300" + emit
    )
    expected = query.run(rows)
    assert len(expected) == 1
    assert_same(query.run(lake), expected)
    assert len(rows_of_inputs(query, lake, FileOptions())["cars"]) < 2000


def test_a_silence_at_the_end_of_an_archive_is_known_as_time_has_passed(tmp_path: Path) -> None:
    rows = car_rows().filter((pl.col("ts") < 20_100) | (pl.col("car") == 0))
    query = ps.query(
        "FROM cars PARTITION BY car ORDER BY ts DEFINE b AS braking, q AS SILENCE LONGER THAN 200 "
        "PATTERN b before; overlaps; meets q WITHIN 400"
    )
    expected = query.run(rows)
    assert len(expected) == 3
    assert_same(query.run(lake_of(tmp_path, rows)), expected)


def test_a_query_with_nothing_but_silences_reads_all(tmp_path: Path) -> None:
    rows = _silent()
    query = ps.query(
        "FROM cars PARTITION BY car ORDER BY ts DEFINE q AS SILENCE LONGER THAN 30 "
        "PATTERN q WITHIN 300"
    )
    lake = lake_of(tmp_path, rows)
    assert_same(query.run(lake), query.run(rows))
    assert len(rows_of_inputs(query, lake, FileOptions())["cars"]) == len(rows)


@pytest.mark.parametrize(
    "inside",
    [
        "DEFINE b AS braking, s AS speed > 60 PATTERN b overlaps; during; before s WITHIN 90",
        "DEFINE b AS braking, s AS speed > PREV(speed) PATTERN b overlaps; contains s WITHIN 90",
    ],
)
def test_an_archive_in_brackets_is_read_around_the_matches_of_the_whole(
    tmp_path: Path, inside: str
) -> None:
    rows = car_rows()
    query = ps.query(
        f"FROM (FROM cars PARTITION BY car ORDER BY ts {inside}) AS fall "
        "WITH other ORDER BY ts PARTITION BY car "
        "DEFINE f AS fall, slow AS other.speed < 50 PATTERN f intersects; before slow WITHIN 200"
    )
    expected = query.run({"cars": rows, "other": rows})
    assert len(expected) > 0
    given = {"cars": lake_of(tmp_path / "cars", rows), "other": lake_of(tmp_path / "other", rows)}
    assert_same(query.run(given), expected)
    for chosen in rows_of_inputs(query, given, FileOptions()).values():
        assert 0 < len(chosen) < 4000


@pytest.mark.parametrize(
    "inside",
    [
        "DEFINE b AS braking PATTERN b WITHIN 90 LIMIT 1",
        "DEFINE b AS braking PATTERN b WITHIN 90 NO OVERLAP",
        "DEFINE b AS braking, s AS speed > 60 PATTERN b before s WITHIN 90 ONCE PER b COOLDOWN 500",
        "MATCH_RECOGNIZE (PARTITION BY car ORDER BY ts MEASURES COUNT(*) AS n PATTERN (B+) WITHIN 90 DEFINE B AS braking)",
        "MATCH_RECOGNIZE (PARTITION BY car ORDER BY ts MEASURES MATCH_NUMBER() AS n PATTERN (B{1,9}) DEFINE B AS braking)",
    ],
)
def test_what_is_found_in_brackets_is_looked_for_where_what_was_found_before_counts(
    tmp_path: Path, inside: str
) -> None:
    rows = car_rows()
    order = "" if "MATCH_RECOGNIZE" in inside else "PARTITION BY car ORDER BY ts"
    query = ps.query(
        f"FROM (FROM cars {order} {inside}) AS fall WITH other ORDER BY ts PARTITION BY car "
        "DEFINE f AS fall, slow AS other.speed < 50 PATTERN f intersects; before slow WITHIN 200"
    )
    given = {"cars": lake_of(tmp_path / "cars", rows), "other": rows}
    expected = query.run({"cars": rows, "other": rows})
    assert len(expected) > 0
    assert_same(query.run(given), expected)
    assert len(rows_of_inputs(query, given, FileOptions())["cars"]) < 4000


def test_what_was_found_before_in_brackets_counts_however_long_ago(tmp_path: Path) -> None:
    ts = pl.int_range(40_000, eager=True).alias("ts")
    hits = ts.is_in([20_000, 20_080, 20_160, 20_240])  # each within the cooldown of the one before
    rows = pl.DataFrame([ts, hits.alias("hit"), (ts == 20_250).alias("end")])
    lake = lake_of(tmp_path, rows, None)
    for limit, count in (("COOLDOWN 100", 0), ("COOLDOWN 79", 1), ("LIMIT 3", 0), ("LIMIT 4", 1)):
        query = ps.query(
            f"FROM (FROM s ORDER BY ts DEFINE h AS hit PATTERN h WITHIN 9 {limit}) AS f "
            "WITH s ORDER BY ts DEFINE a AS f, e AS s.end PATTERN a before e WITHIN 30"
        )
        assert len(query.run(rows)) == count
        assert_same(query.run(lake), query.run(rows))
        assert len(rows_of_inputs(query, lake, FileOptions())["s"]) < 2000


@pytest.mark.parametrize("key", ["car", None])
@pytest.mark.parametrize(
    ("streams", "count"),
    [
        ("FROM two PARTITION BY car ORDER BY ts DEFINE a AS braking, q AS SILENCE", 2),
        (
            "FROM one ORDER BY ts WITH two ORDER BY ts PARTITION BY car "
            "DEFINE a AS one.braking, q AS SILENCE OF two", 2,
        ),
        ("FROM one ORDER BY ts WITH two ORDER BY ts DEFINE a AS one.braking, q AS SILENCE OF two", 1),
    ],
)  # fmt: skip
def test_a_silence_that_may_not_be_there_is_known_from_the_row_before(
    tmp_path: Path, key: str | None, streams: str, count: int
) -> None:
    rows, ts = car_rows(), pl.col("ts")
    is_silent = ts.is_between(10_000, 20_300) & (pl.col("car") < 2)
    frames = {"one": rows, "two": rows.filter(~is_silent | (ts == 20_000))}
    query = ps.query(streams + " LONGER THAN 9 PATTERN a AND NOT (q intersects a) WITHIN 200")
    frames = {name: frames[name] for name in (stream.name for stream in query.inputs) if name}
    given = {name: lake_of(tmp_path / name, frame, key) for name, frame in frames.items()}
    expected = query.run(frames)
    assert len(expected) == count
    assert_same(query.run(given), expected)
    chosen = rows_of_inputs(query, given, FileOptions())
    is_known = key is not None or "PARTITION" not in streams or len(given) == 1
    assert len(chosen["two"]) < (9000 if is_known else 40_000)


@pytest.mark.parametrize(
    "predicate",
    [
        "two.speed < PREV(two.speed, 2)",
        "AVG(two.speed) OVER 30 < 59",
        "two.speed < 55 UNTIL two.speed > 70",
    ],
)
def test_of_several_archives_what_predicates_read_of_earlier_rows_is_read_too(
    tmp_path: Path, predicate: str
) -> None:
    rows = car_rows()
    given = {name: lake_of(tmp_path / name, rows, page_rows=10) for name in ("one", "two")}
    query = ps.query(_SEVERAL.replace("two.speed < 55", predicate))
    expected = query.run({"one": rows, "two": rows})
    assert len(expected) > 0
    assert_same(query.run(given), expected)
    assert len(rows_of_inputs(query, given, FileOptions())["two"]) < 1500
