"""Data that is out of order, late, tied or without a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import piestream as ps
from piestream.adapters import file_run, files

QUERY = "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"
ROWS = pl.DataFrame(
    {"k": [1, 2] * 500, "t": [t for t in range(500) for _ in "ab"], "x": [0, 1, 1, 1, 0] * 200}
)


@pytest.fixture
def chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if these few rows were very many."""
    monkeypatch.setattr(file_run, "WHOLE_ROWS", 100)
    monkeypatch.setattr(files, "CHUNK_ROWS", 50)


@pytest.fixture
def shuffled(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    ROWS.sample(fraction=1, shuffle=True, seed=4).write_parquet(path, row_group_size=50)
    return path


def expected() -> pl.DataFrame:
    found: pl.DataFrame = ps.query(QUERY).run(ROWS)
    return found.sort("k", maintain_order=True)


def test_a_short_input_need_not_be_in_order(shuffled: Path, piestream: Any, tmp_path: Path) -> None:
    out = tmp_path / "found.parquet"
    assert piestream("run", "-q", QUERY, shuffled, "-o", out).exit_code == 0
    assert_frame_equal(pl.read_parquet(out).sort("k", maintain_order=True), expected())


@pytest.mark.usefixtures("chunked")
def test_a_long_input_out_of_order_is_refused_with_what_to_do(
    shuffled: Path, piestream: Any, tmp_path: Path
) -> None:
    out = tmp_path / "found.parquet"
    result = piestream("run", "-q", QUERY, shuffled, "-o", out)
    assert result.exit_code == 1
    assert "comes after a later one of its partition" in result.stderr
    assert "--sort" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == [shuffled]  # nothing half made is left


@pytest.mark.usefixtures("chunked")
def test_sort_reads_everything_and_sorts_it(shuffled: Path, piestream: Any, tmp_path: Path) -> None:
    out = tmp_path / "found.parquet"
    assert piestream("run", "-q", QUERY, shuffled, "--sort", "-o", out).exit_code == 0
    assert_frame_equal(pl.read_parquet(out).sort("k", maintain_order=True), expected())


@pytest.mark.usefixtures("chunked")
def test_query_run_sorts_what_from_names(shuffled: Path) -> None:
    query = QUERY.replace("FROM s", f"FROM '{shuffled}'")
    assert_frame_equal(ps.query(query).run().sort("k", maintain_order=True), expected())


@pytest.mark.usefixtures("chunked")
def test_lateness_lets_events_be_out_of_order_by_so_much(piestream: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    ROWS.sort((pl.col("t") / 7).floor(), -pl.col("t")).write_ndjson(path)
    out = tmp_path / "found.parquet"
    assert piestream("run", "-q", QUERY, path, "--lateness", "7", "-o", out).exit_code == 0
    assert_frame_equal(pl.read_parquet(out).sort("k", maintain_order=True), expected())


def test_late_events_fail_or_are_dropped_and_counted(piestream: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t,x\n1,1,1\n1,10,0\n1,2,1\n1,11,1\n")
    arguments = ("run", "-q", QUERY, path, "--lateness", "3")
    refused = piestream(*arguments)
    assert refused.exit_code == 1
    assert "the event k = 1, t = 2 is late" in refused.stderr
    dropped = piestream(*arguments, "--on-late", "drop")
    assert dropped.exit_code == 0
    assert "3 events, 2 matches" in dropped.stderr
    assert "; 1 late, 0 ties, " in dropped.stderr


def test_ties_fail_or_are_left_out_and_counted(piestream: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("k,t,x\n1,1,0\n1,2,0\n1,2,1\n1,3,0\n")
    refused = piestream("run", "-q", QUERY, path)
    assert refused.exit_code == 1
    assert "k = 1, t = 2" in refused.stderr
    assert "--ties first" in refused.stderr
    first = piestream("run", "-q", QUERY, path, "--ties", "first")
    assert "3 events, 0 matches" in first.stderr
    last = piestream("run", "-q", QUERY, path, "--ties", "last")
    assert "3 events, 1 match " in last.stderr
    assert "0 late, 1 ties" in last.stderr


@pytest.mark.usefixtures("chunked")
@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet"])
def test_an_event_without_time_is_named_by_its_row(
    format: str, piestream: Any, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{format}"
    rows = ROWS.with_columns(t=pl.when(pl.int_range(pl.len()) != 777).then("t"))
    getattr(rows, f"write_{format}")(path)
    result = piestream("run", "-q", QUERY, path)
    assert result.exit_code == 1
    place = {"csv": "line 779", "ndjson": "line 778", "parquet": "row 778"}[format]
    assert f"rows.{format}, {place}: the time column t has no value here" in result.stderr
