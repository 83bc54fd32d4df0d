"""Any DataFrame in, the same kind back, with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import piestream as ps

QUERY = ps.query(
    """
    FROM cars PARTITION BY car ORDER BY t
    DEFINE a AS accel > 8, s AS speed > 70
    PATTERN a overlaps s WITHIN 60
    RETURN FIRST(s.driver) AS driver, AVG(s.speed), MAX(a.accel), a.ts, a.te, RELATION(a, s) AS how
    """
)
CARS = pl.DataFrame(
    {
        "t": [1, 2, 3, 4, 5, 1, 2],
        "car": ["x", "x", "x", "x", "x", "y", "y"],
        "accel": [9.0, 9.5, 9.0, 0.0, 0.0, 9.0, 0.0],
        "speed": [60, 75, 80, 82, 60, 60, 80],
        "driver": ["Ada", "Ada", "Ada", "Ada", "Ada", None, None],
    }
)
ROWS = [
    {
        "car": "x",
        "detected_at": 4,
        "driver": "Ada",
        "avg_s_speed": 79.0,
        "max_a_accel": 9.5,
        "a_ts": 1,
        "a_te": 4,
        "how": "overlaps",
    }
]
SCHEMA = {
    "car": pl.String(),
    "detected_at": pl.Int64(),
    "driver": pl.String(),
    "avg_s_speed": pl.Float64(),
    "max_a_accel": pl.Float64(),
    "a_ts": pl.Int64(),
    "a_te": pl.Int64(),
    "how": pl.String(),
}

#: For each kind: how to make one, its type, and its rows as dictionaries.
KINDS: dict[str, tuple[Callable[[pl.DataFrame], Any], type, Callable[[Any], pl.DataFrame]]] = {
    "Polars": (lambda frame: frame, pl.DataFrame, lambda frame: frame),
    "Polars lazy": (lambda frame: frame.lazy(), pl.LazyFrame, lambda frame: frame.collect()),
    "pandas": (lambda frame: frame.to_pandas(), pd.DataFrame, pl.from_pandas),
    "PyArrow": (lambda frame: frame.to_arrow(), pa.Table, pl.from_arrow),
    "DuckDB": (
        lambda frame: duckdb.from_arrow(frame.to_arrow()),
        duckdb.DuckDBPyRelation,
        lambda relation: relation.pl(),
    ),
}

kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_a_run_gives_back_the_kind_that_it_was_given(kind: str) -> None:
    make, kept, rows = KINDS[kind]
    result = QUERY.run(make(CARS))
    assert isinstance(result, kept)
    assert rows(result).to_dicts() == ROWS


@kinds
def test_an_empty_result_has_the_columns_and_types_of_a_full_one(kind: str) -> None:
    make, kept, rows = KINDS[kind]
    for nothing in (CARS.filter(pl.col("car") == "y"), CARS.clear()):
        result = QUERY.run(make(nothing))
        assert isinstance(result, kept)
        found = rows(result)
        assert found.height == 0
        assert found.columns == list(SCHEMA)
        if kind != "pandas":  # an empty pandas column of objects has lost its type
            assert dict(found.schema) == SCHEMA


@kinds
def test_a_session_gives_back_the_kind_that_was_pushed(kind: str) -> None:
    make, kept, rows = KINDS[kind]
    if kind == "Polars lazy":
        kept, rows = pl.DataFrame, lambda frame: frame  # what was pushed has been collected
    session = QUERY.open()
    in_order = CARS.sort("t", maintain_order=True)
    first, second = session.push(make(in_order[:5])), session.push(make(in_order[5:]))
    last = session.close()
    assert all(isinstance(result, kept) for result in (first, second, last))
    assert [*rows(first).to_dicts(), *rows(second).to_dicts()] == ROWS
    assert rows(last).height == 0


def test_the_input_is_not_changed() -> None:
    frame = CARS.to_pandas()
    before = frame.copy(deep=True)
    QUERY.run(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_a_lazy_frame_is_read_only_as_far_as_the_query_needs() -> None:
    with_trap = CARS.lazy().with_columns(
        trap=pl.col("speed").map_batches(lambda _: 1 / 0, return_dtype=pl.Int64)
    )
    assert QUERY.run(with_trap).collect().to_dicts() == ROWS


def test_columns_that_the_query_does_not_read_may_be_of_any_type() -> None:
    odd = CARS.with_columns(odd=pl.Series([object()] * len(CARS), dtype=pl.Object))
    assert QUERY.run(odd).to_dicts() == ROWS


def test_pandas_times_keep_their_zone() -> None:
    frame = pd.DataFrame(
        {
            "at": pd.to_datetime(["2024-05-01 10:00", "2024-05-01 10:05"]).tz_localize(
                "Europe/Rome"
            ),
            "v": [1, 0],
        }
    )
    query = ps.query("FROM s DEFINE a AS v > 0 PATTERN a WITHIN 1 h EMIT ON COMPLETION")
    result = query.run(frame)
    assert str(result["a_ts"].dt.tz) == "Europe/Rome"
    assert result["a_ts"].tolist() == [frame["at"][0]]


def test_a_pandas_column_with_missing_numbers_has_missing_values() -> None:
    frame = pd.DataFrame({"t": [1, 2, 3], "v": [5.0, None, 5.0]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS v > 1 PATTERN a WITHIN 9 EMIT ON COMPLETION")
    assert query.run(frame)["a_te"].tolist() == [2]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_a_query_reads_the_files_that_it_names(suffix: str, tmp_path: Path) -> None:
    for number, part in enumerate((CARS[:3], CARS[3:])):
        getattr(part, f"write_{suffix}")(tmp_path / f"part{number}.{suffix}")
    text = str(QUERY).replace("FROM cars", f"FROM '{tmp_path}/part*.{suffix}'")
    assert ps.query(text).run().to_dicts() == ROWS


def test_csv_times_are_read_as_times(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("at,v\n2024-01-01T00:00:00,1\n2024-01-01T00:00:05,0\n")
    text = f"FROM '{tmp_path}/s.csv' DEFINE a AS v > 0 PATTERN a WITHIN 1 min EMIT ON COMPLETION"
    assert ps.query(text).run()["a_te"].to_list() == [datetime(2024, 1, 1, 0, 0, 5)]


@pytest.mark.parametrize("thing", [5, pd.Series([1]), {1, 2}, pl.Series([1])])
def test_what_is_no_frame_is_refused(thing: object) -> None:
    with pytest.raises(TypeError, match="DataFrame that piestream knows"):
        QUERY.run(thing)


def test_a_query_without_files_needs_a_frame() -> None:
    with pytest.raises(ps.QueryError, match="names no file to read"):
        QUERY.run()


def test_files_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events.txt").write_text("t,v\n")
    query = f"FROM '{tmp_path}/events.txt' ORDER BY t DEFINE a AS v PATTERN a WITHIN 9"
    with pytest.raises(ValueError, match=r"\.parquet"):
        ps.query(query).run()


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no-such-file\.csv"):
        ps.query("FROM 'no-such-file.csv' ORDER BY t DEFINE a AS v PATTERN a WITHIN 9").run()


def test_pandas_times_of_integers_stay_exact_beside_a_null() -> None:
    start = 2**53 + 1
    frame = pd.DataFrame({"t": [start, start + 2, start + 4], "v": [1, 0, 1]})
    result = ps.query("FROM s ORDER BY t DEFINE a AS v > 0 PATTERN a WITHIN 9 EMIT ON BOTH").run(
        frame
    )
    assert int(result["a_te"].dropna().iloc[0]) == start + 2
    assert str(result["a_te"].dtype).lower() == "int64"


@pytest.mark.parametrize("dtype", ["uint64", "int32", "UInt64", "uint8"])
def test_integers_of_pandas_of_any_width_stay_integers_beside_null(dtype: str) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 EMIT ON BOTH")
    last = 2**60 + 3 if "64" in dtype else 3
    frame = pd.DataFrame({"t": pd.Series([last - 2, last - 1, last], dtype=dtype), "x": [5, 0, 5]})
    result = query.run(frame)
    assert result["a_te"].isna().tolist() == [True, False, True]
    assert result["a_te"][1] == last - 1
    assert set(result.dtypes[["detected_at", "a_ts", "a_te"]].astype(str)) == {
        dtype.replace("uint", "UInt").replace("int3", "Int3")
    }


def test_objects_of_pandas_that_are_all_missing_are_of_any_type() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 OR x IS NULL PATTERN a WITHIN 9")
    missing = pd.DataFrame({"t": [1, 2], "x": pd.Series([None, None], dtype=object)})
    assert len(query.run(missing)) == 1
    session = query.open()
    assert len(session.push(missing)) == 1
    assert len(session.push(pd.DataFrame({"t": [3, 4], "x": [0, 5]}))) == 1
