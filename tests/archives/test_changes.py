"""What append, compact and retain do to the rows, and who can read them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import piestream as ps
from piestream.archives.store import Store
from piestream.archives.times import time_in_ticks


def _frame(first: int, rows: int, cars: int = 3) -> pl.DataFrame:
    ts = range(first, first + rows)
    return pl.DataFrame(
        {
            "ts": list(ts),
            "car": [f"car {t % cars}" for t in ts],
            "speed": [float(t % 17) for t in ts],
        }
    )


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort(pl.all())


def test_rows_of_any_kind_are_appended(tmp_path: Path) -> None:
    import duckdb

    frames = [_frame(10 * i, 10) for i in range(6)]
    lake = ps.archive(tmp_path, time="ts", key="car")
    table = frames[3].to_arrow()
    kinds: list[Any] = [
        frames[0], frames[1].lazy(), frames[2].to_pandas(), table, duckdb.from_arrow(frames[4].to_arrow()),
        frames[5].to_dicts(),
    ]  # fmt: skip
    assert [lake.append(rows) for rows in kinds] == [10] * 6
    assert _sorted(lake.scan().collect()).equals(_sorted(pl.concat(frames)))
    with pytest.raises(TypeError, match="is no frame"):
        lake.append("rows.csv")


def test_other_engines_read_the_rows_as_plain_parquet(tmp_path: Path) -> None:
    import duckdb

    rows = _frame(0, 1000)
    lake = ps.archive(tmp_path, time="ts", key="car", page_rows=64, file_rows=300)
    lake.append(rows)
    assert len(lake.files) == 3
    whole = _sorted(rows)
    assert _sorted(pl.read_parquet(tmp_path / "rows")).equals(whole)
    found = duckdb.sql(f"SELECT * FROM '{tmp_path}/rows/*.parquet'").pl()
    assert _sorted(found).equals(whole)
    assert _sorted(pl.DataFrame(pq.read_table(tmp_path / "rows"))).equals(whole)


def test_a_file_is_a_span_of_time_in_order_of_key_and_time(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car", page_rows=64, file_rows=300)
    lake.append(_frame(0, 1000).sample(fraction=1, shuffle=True, seed=1))
    spans = []
    for path in lake.files:
        frame = pl.read_parquet(path)
        assert frame.equals(frame.sort("car", "ts"))
        spans.append((frame["ts"].min(), frame["ts"].max()))
        groups = pq.read_metadata(path)
        pages = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        assert all(rows == 64 for rows in pages[:-1])
        assert 0 < pages[-1] <= 64
    assert spans == [(0, 333), (334, 667), (668, 999)]


def test_rows_of_one_time_stay_in_one_file(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", page_rows=4, file_rows=4)
    lake.append(pl.DataFrame({"ts": [1, 1, 2, 2, 2, 2, 2, 3], "x": range(8)}))
    assert [pl.read_parquet(path)["ts"].to_list() for path in lake.files] == [
        [1, 1, 2, 2, 2, 2, 2], [3],
    ]  # fmt: skip


def test_late_rows_are_there_at_once_and_compact_puts_them_in_place(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car", page_rows=10, file_rows=100)
    late, on_time = _frame(0, 200)[::3], pl.concat([_frame(0, 200)[1::3], _frame(0, 200)[2::3]])
    lake.append(on_time)
    lake.append(late)
    whole = _sorted(_frame(0, 200))
    assert _sorted(lake.scan().collect()).equals(whole)
    assert lake.compact() == 2
    assert _sorted(lake.scan().collect()).equals(whole)
    spans = [pl.read_parquet(path)["ts"] for path in lake.files]
    assert [(s.min(), s.max()) for s in spans] == [(0, 99), (100, 199)]
    assert lake.compact() == 0
    assert lake.verify() == []


def test_of_rows_of_one_key_and_time_the_first_appended_stays_the_first(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car")
    for x in range(5):
        lake.append([{"ts": 1, "car": "a", "x": x}, {"ts": 2, "car": "a", "x": x}])
    lake.compact()
    assert lake.scan().collect()["x"].to_list() == [*range(5), *range(5)]


def test_a_batch_is_appended_once(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts")
    other = ps.archive(tmp_path)
    assert lake.append(_frame(0, 5), batch="monday") == 5
    assert other.append(_frame(0, 5), batch="monday") == 0
    assert other.append(_frame(5, 5), batch=7) == 5
    assert other.append(_frame(0, 0), batch=8) == 0
    assert lake.refresh().rows == 10
    with pytest.raises(TypeError, match="batch is a number or a text"):
        lake.append(_frame(0, 5), batch=1.5)  # type: ignore[arg-type]


def test_retain_removes_exactly_what_is_older(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car", page_rows=10, file_rows=100)
    lake.append(_frame(0, 1000))
    assert lake.retain(since=250) == 250
    assert _sorted(lake.scan().collect()).equals(_sorted(_frame(250, 750)))
    assert lake.retain(keep=99) == 650
    assert lake.rows == 100
    assert lake.verify() == []
    with pytest.raises(TypeError, match="either keep, a duration, or since"):
        lake.retain()


def test_times_are_given_as_a_user_writes_them(tmp_path: Path) -> None:
    rows = pl.DataFrame({"ts": pl.datetime_range(
        datetime(2026, 1, 1), datetime(2026, 1, 10), "1d", time_zone="UTC", eager=True)})  # fmt: skip
    lake = ps.archive(tmp_path, time="ts")
    lake.append(rows)
    assert lake.retain(since="2026-01-03") == 2
    assert lake.retain(since=date(2026, 1, 4)) == 1
    assert lake.retain(since=datetime(2026, 1, 5)) == 1
    assert lake.retain("2 days") == 3
    with pytest.raises(TypeError, match="no time of the column ts"):
        lake.retain(since=5)


_TIMES: list[tuple[pl.DataType, Any, int | None]] = [
    (pl.Int64(), 2, 2),
    (pl.Int64(), np.int32(2), 2),
    (pl.Int64(), 2.5, None),
    (pl.Int64(), True, None),
    (pl.Int64(), "2", None),
    (pl.Date(), date(1970, 1, 3), 2),
    (pl.Date(), "1970-01-03", 2),
    (pl.Date(), "1970-01-03 12:00", None),
    (pl.Date(), datetime(1970, 1, 3, 12), None),
    (pl.Datetime("us"), datetime(1970, 1, 1, 0, 0, 2), 2_000_000),
    (pl.Datetime("us"), "1970-01-01 00:00:02.5", 2_500_000),
    (pl.Datetime("us"), "1970-01-01T00:00:00.0000025", None),
    (pl.Datetime("us"), date(1970, 1, 2), 86_400_000_000),
    (pl.Datetime("us"), datetime(1970, 1, 1, tzinfo=UTC), None),
    (pl.Datetime("us"), "1970-01-01T00:00:02+01:00", None),
    (pl.Datetime("us"), 5, None),
    (pl.Datetime("ms"), datetime(1970, 1, 1, 0, 0, 0, 2_500), None),
    (pl.Datetime("ms"), datetime(1970, 1, 1, 0, 0, 0, 2_000), 2),
    (pl.Datetime("ns"), "1970-01-01T00:00:00.000000002", 2),
    (pl.Datetime("ns"), np.datetime64(3, "ns"), 3),
    (pl.Datetime("ns"), "soon", None),
    (pl.Datetime("us", "Europe/Berlin"), datetime(1970, 1, 1, 1, 0, 2), 2_000_000),
    (pl.Datetime("us", "Europe/Berlin"), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), 2_000_000),
    (pl.Datetime("us", "Europe/Berlin"), "1970-01-01T00:00:02Z", 2_000_000),
    (pl.Datetime("us", "Europe/Berlin"), "1970-01-01 01:00:02", 2_000_000),
    (pl.Datetime("us", "Europe/Berlin"), datetime(2026, 10, 25, 2, 30), None),  # twice that day
]


@pytest.mark.parametrize(("dtype", "given", "ticks"), _TIMES)
def test_a_time_is_taken_exactly_or_refused(
    dtype: pl.DataType, given: Any, ticks: int | None
) -> None:
    if ticks is None:
        with pytest.raises(TypeError, match=r"no time of the column ts.*: give a"):
            time_in_ticks(given, "ts", dtype)
    else:
        assert time_in_ticks(given, "ts", dtype) == ticks


def test_wrong_rows_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car")
    with pytest.raises(ps.SchemaError, match="no column car; their columns are ts, cra"):
        lake.append([{"ts": 1, "cra": "a"}])
    with pytest.raises(ps.SchemaError, match="must be an integer, a date or a datetime"):
        lake.append([{"ts": "x", "car": "a"}])
    lake.append(_frame(0, 5))
    with pytest.raises(ps.SchemaError, match="no column speed, which earlier rows had"):
        lake.append([{"ts": 1, "car": "a"}])
    with pytest.raises(ps.SchemaError, match="speed has type String; earlier rows have Float64"):
        lake.append([{"ts": 1, "car": "a", "speed": "5"}])
    with pytest.raises(
        ps.SchemaError, match=r"speed has 9007199254740993, which .* Float64, cannot"
    ):
        lake.append([{"ts": 1, "car": "a", "speed": 2**53 + 1}])
    with pytest.raises(
        ps.SchemaError, match="ts has type Float64; earlier rows have Int64: cast it"
    ):
        lake.append([{"ts": 1.0, "car": "a", "speed": 5.0}])
    with pytest.raises(ps.SchemaError, match="a column lane, which earlier rows did not have"):
        lake.append([{"ts": 1, "car": "a", "speed": 5.0, "lane": 1}])
    with pytest.raises(ps.TimeError, match="ts is NULL in 1 of the rows"):
        lake.append([{"ts": None, "car": "a", "speed": 5.0}])
    assert lake.generation == 1
    assert lake.rows == 5


@pytest.mark.parametrize(
    ("first", "then"),
    [(pl.Float64, pl.Int64), (pl.Int64, pl.Int8), (pl.Int8, pl.Int64), (pl.Float64, pl.Float32)],
)
def test_numbers_that_the_type_of_earlier_rows_holds_are_taken(
    tmp_path: Path, first: Any, then: Any
) -> None:
    lake = ps.archive(tmp_path, time="ts")
    lake.append(pl.DataFrame({"ts": [1], "x": pl.Series([5], dtype=first)}))
    lake.append(pl.DataFrame({"ts": [2, 3], "x": pl.Series([7, None], dtype=then)}))
    assert lake.scan().collect()["x"].equals(pl.Series("x", [5, 7, None], dtype=first))
    assert lake.verify() == []


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (pl.Datetime("us", "Europe/Berlin"), pl.Datetime("us", "UTC")),
        (pl.Datetime("ns", "UTC"), pl.Datetime("us", "America/Lima")),
        (pl.Datetime("us"), pl.Datetime("ns")),
    ],
)
def test_times_that_the_type_of_earlier_rows_holds_are_taken(
    tmp_path: Path, first: Any, then: Any
) -> None:
    at = pl.Series("ts", [datetime(2026, 3, 1), datetime(2026, 3, 29, 1)])
    zone = first.time_zone and "UTC"
    at = at.dt.replace_time_zone(zone)
    lake = ps.archive(tmp_path, time="ts")
    lake.append(pl.DataFrame({"ts": at[:1].cast(first), "x": at[:1].cast(first)}))
    lake.append(pl.DataFrame({"ts": at[1:].cast(then), "x": at[1:].cast(then)}))
    found = lake.scan().collect()
    assert found["ts"].equals(at.cast(first))
    assert found["x"].equals(found["ts"].alias("x"))


def test_times_that_would_be_others_in_the_type_of_earlier_rows_are_refused(tmp_path: Path) -> None:
    fine, coarse = pl.Datetime("ns"), pl.Datetime("us")
    lake = ps.archive(tmp_path, time="ts")
    lake.append(pl.DataFrame({"ts": pl.Series([1, 2_000], dtype=pl.Int64).cast(coarse)}))
    with pytest.raises(ps.SchemaError, match=r"ts has .* cannot hold"):
        lake.append(pl.DataFrame({"ts": pl.Series([1_000_001], dtype=pl.Int64).cast(fine)}))
    with pytest.raises(ps.SchemaError, match=r"ts has type .*UTC.* cast it"):
        lake.append([{"ts": datetime(2026, 3, 1, tzinfo=UTC)}])
    assert lake.rows == 2


def test_compact_has_the_rows_of_one_file_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car", page_rows=5, file_rows=20)
    rows = _frame(0, 200)
    lake.append(rows[::2])
    lake.append(rows[1::2])
    lake.append(rows[40:41].with_columns(speed=99.0))
    sizes = []
    read = Store._write

    def write(self: Store, manifest: Any, name: str, number: int, frame: pl.DataFrame) -> Any:
        sizes.append(len(frame))
        return read(self, manifest, name, number, frame)

    monkeypatch.setattr(Store, "_write", write)
    monkeypatch.setattr(Store, "read", None)
    assert lake.compact() == 11
    assert len(sizes) == 10
    assert max(sizes) <= 22
    found = lake.scan().collect()
    assert _sorted(found).equals(_sorted(pl.concat([rows, rows[40:41].with_columns(speed=99.0)])))
    assert found.filter(pl.col("ts") == 40)["speed"].to_list() == [40 % 17, 99.0]
    assert lake.verify() == []


def test_paths_are_no_patterns(tmp_path: Path) -> None:
    lakes = [ps.archive(tmp_path / name, time="ts") for name in ("lake[1]", "lake1", "la*")]
    for number, lake in enumerate(lakes):
        lake.append(_frame(100 * number, 10))
        lake.append(_frame(100 * number + 5, 10))
    lakes[0].compact()
    lakes[2].retain(since=206)
    for lake, first, last in zip(lakes, (0, 100, 206), (14, 114, 214), strict=True):
        found = lake.scan().collect()["ts"]
        assert (found.min(), found.max()) == (first, last)
        assert lake.aggregate("MIN(ts)", where="speed >= 0").item() == first
        assert lake.verify() == []
    (tmp_path / "plain[1]").mkdir()
    _frame(0, 5).write_parquet(tmp_path / "plain[1]" / "x.parquet")
    assert ps.archive(tmp_path / "plain[1]").scan().collect().equals(_frame(0, 5))
    assert ps.archive(tmp_path / "plain[1]").rows == 5


def test_columns_are_named_as_one_likes(tmp_path: Path) -> None:
    rows = [{"^t.*$": t, "t1": -t, "*": t % 3, "__time__": t % 2, "__span__": 7} for t in range(40)]
    lake = ps.archive(tmp_path, time="^t.*$", key="*", page_rows=8)
    lake.append(rows)
    lake.append([{**row, "__span__": 8} for row in rows])
    lake.compact()
    found = lake.aggregate(
        "SUM(__time__)", "SUM(__span__)", 'MAX("*")', 'MAX("^t.*$") AS last', between=(1, 40)
    )
    assert found.rows() == [(40, 39 * 15, 2, 39)]
    assert lake.retain(since=30) == 60
    query = ps.query(
        """FROM s PARTITION BY "*" ORDER BY "^t.*$" DEFINE a AS __time__ = 1 PATTERN a WITHIN 9"""
    )
    expected = query.run(lake.scan().collect(), ties="first")
    assert len(expected) > 3
    assert query.run(lake, ties="first").sort(pl.all()).equals(expected.sort(pl.all()))


def test_rows_of_a_file_that_is_cut_stay_before_later_ones(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts", key="car")
    for x in range(3):
        lake.append([{"ts": ts, "car": "a", "x": x} for ts in range(x, 9)])
    lake.retain(since=2)  # cuts the first two files
    assert lake.retain(since=3) == 3
    lake.append([{"ts": ts, "car": "a", "x": 3} for ts in range(9)])
    assert lake.scan().filter(pl.col("ts") == 5).collect()["x"].to_list() == [0, 1, 2, 3]
    lake.compact()
    assert lake.scan().filter(pl.col("ts") == 5).collect()["x"].to_list() == [0, 1, 2, 3]
    assert lake.verify() == []


def test_the_first_rows_give_every_column_a_type(tmp_path: Path) -> None:
    lake = ps.archive(tmp_path, time="ts")
    rows = pl.DataFrame({"ts": [1], "note": [None]})
    with pytest.raises(ps.SchemaError, match="note has type Null: its values are all NULL"):
        lake.append(rows)
    with pytest.raises(ps.SchemaError, match=r"note has type List\(Null\): its values"):
        lake.append([{"ts": 1, "note": []}])
    with pytest.raises(ps.SchemaError, match="note has type Object: its values are Python objects"):
        lake.append(pl.DataFrame({"ts": [1], "note": pl.Series([object()], dtype=pl.Object)}))
    assert lake.generation == 0
    assert lake.append(rows.cast({"note": pl.String})) == 1
    assert lake.append(rows) == 1  # now the type is known
    assert lake.append([{"ts": 1, "note": "x"}]) == 1


def test_a_damaged_manifest_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    ps.archive(tmp_path, time="ts")
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ps.ArchiveError, match=r"no manifest of an archive.*put back a copy"):
        ps.archive(tmp_path)


def test_an_archive_is_opened_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(ps.ArchiveError, match="there is no archive"):
        ps.archive(tmp_path / "lake")
    lake = ps.archive(tmp_path / "lake", time="ts", key=["car"])
    with pytest.raises(ps.ArchiveError, match="has had no rows yet"):
        lake.scan()
    assert ps.archive(tmp_path / "lake").key == ("car",)
    with pytest.raises(ps.ArchiveError, match=r"the time of .* is 'ts', not 't'"):
        ps.archive(tmp_path / "lake", time="t")
    (tmp_path / "lake" / "manifest.json").write_text(
        '{"format": "piestream archive", "version": 9}'
    )
    with pytest.raises(ps.ArchiveError, match="version 9"):
        ps.archive(tmp_path / "lake")
    (tmp_path / "lake" / "manifest.json").write_text("{}")
    with pytest.raises(ps.ArchiveError, match="no manifest"):
        ps.archive(tmp_path / "lake")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ps.ArchiveError, match="a directory with other files"):
        ps.archive(tmp_path, time="ts")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"time": 5}, TypeError, "time is the name of a column, not 5"),
        ({"time": ""}, TypeError, "time is the name of a column"),
        ({"time": "ts", "key": 5}, TypeError, "key is the name of a column, or a list of names"),
        ({"time": "ts", "key": ["car", 5]}, TypeError, "key is the name of a column"),
        ({"time": "ts", "key": {"car": 1}}, TypeError, "key is the name of a column"),
        ({"time": "ts", "key": ["car", "car"]}, ValueError, "car is named twice"),
        ({"time": "ts", "key": "ts"}, ValueError, "ts is named twice"),
        ({"time": "ts", "page_rows": "300"}, TypeError, "page_rows is a number of rows"),
        ({"time": "ts", "page_rows": True}, TypeError, "page_rows is a number of rows"),
        ({"time": "ts", "file_rows": 1.5}, TypeError, "file_rows is a number of rows"),
        ({"time": "ts", "page_rows": 0}, ValueError, "at least 1"),
        ({"time": "ts", "page_rows": 20, "file_rows": 8}, ValueError, "file_rows is 8, and a page"),
        ({"time": "ts", "file_rows": 8}, ValueError, "a page has 16,384 rows"),
    ],
)
def test_an_archive_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, settings: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ps.archive(tmp_path / "lake", **settings)
    assert not (tmp_path / "lake").exists()


def test_the_place_of_an_archive_is_a_path() -> None:
    with pytest.raises(TypeError, match="the place of an archive is a path, not 5"):
        ps.archive(5)  # type: ignore[arg-type]


def test_plain_parquet_is_an_archive_to_read(tmp_path: Path) -> None:
    rows = _frame(0, 100)
    for i in range(4):
        rows[i * 25 : i * 25 + 25].write_parquet(tmp_path / f"{i}.parquet", row_group_size=10)
    lake = ps.archive(tmp_path)
    assert (lake.rows, len(lake.files), len(lake.pages)) == (100, 4, 12)
    assert lake.scan().collect().equals(rows)
    table = lake.pages.table
    assert table["min:ts"].to_list()[:4] == [0, 10, 20, 25]
    assert table["missing:ts"].to_list() == [0] * 12
    assert table["missing:speed"].null_count() == 12  # a NaN is not counted by anybody
    with pytest.raises(ps.ArchiveError, match="are read, not changed"):
        lake.append(rows)
    with pytest.raises(ps.ArchiveError, match="leave out time"):
        ps.archive(tmp_path, time="ts")
    assert ps.archive(tmp_path / "0.parquet").rows == 25


def test_a_plain_file_with_a_type_that_pyarrow_does_not_know_is_read_as_a_whole(
    tmp_path: Path,
) -> None:
    rows = _frame(0, 100).with_columns(large=pl.lit(2**100, pl.Int128))
    rows.write_parquet(tmp_path / "rows.parquet", row_group_size=10)
    lake = ps.archive(tmp_path)
    assert (lake.rows, len(lake.pages)) == (100, 1)
    assert lake.scan().collect().equals(rows)


def test_columns_that_stand_in_the_names_of_folders_are_columns(tmp_path: Path) -> None:
    place = tmp_path / "run=7" / "lake"  # what lies above the directory is no column
    frames = [
        _frame(10 * day, 10).with_columns(day=pl.lit(date(2026, 1, day))) for day in (1, 2, 3)
    ]
    for frame in frames:
        folder = place / f"day={frame['day'][0]}"
        folder.mkdir(parents=True)
        frame.drop("day").write_parquet(folder / "x.parquet", row_group_size=4)
    lake = ps.archive(place)
    whole = pl.concat(frames)
    assert lake.schema == whole.schema
    assert lake.scan().collect().equals(whole)
    query = ps.query("FROM s PARTITION BY day ORDER BY ts DEFINE a AS speed > 9 PATTERN a WITHIN 9")
    expected = query.run(whole)
    assert len(expected) > 0
    assert query.run(lake).sort(pl.all()).equals(expected.sort(pl.all()))
    assert lake.aggregate("COUNT(*)", "MAX(day)", where="ts >= 20").rows() == [
        (20, date(2026, 1, 3))
    ]
