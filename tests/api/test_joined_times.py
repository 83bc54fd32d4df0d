"""A date and its time of day in two columns of a file: one column of times is made of both."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app

QUERY = "FROM '{}' DEFINE a AS x > 1 PATTERN a WITHIN 9 s RETURN a.ts, a.te"
ROWS = "Date,Time,x\n04/01/2026,10:00:01,5\n04/01/2026, 10:00:02,7\n04/01/2026,10:00:03,0\n"
EUROPEAN = "datetime(Date, Time):%d/%m/%Y %H:%M:%S"


def _found(tmp_path: Path, text: str, written: str, name: str = "a.csv", **options: Any) -> Any:
    file = tmp_path / name
    file.write_text(text)
    return ps.query(QUERY.format(file)).run(types={"when": written}, **options)


def test_a_column_of_times_is_made_of_two(tmp_path: Path) -> None:
    first, last = datetime(2026, 1, 4, 10, 0, 1), datetime(2026, 1, 4, 10, 0, 3)
    rows = _found(tmp_path, ROWS, EUROPEAN, at_end="close").rows()
    assert rows == [(first, first, None)]
    iso = ROWS.replace("04/01/2026", "2026-01-04")
    complete = QUERY.replace("RETURN", "EMIT ON COMPLETION RETURN")
    (tmp_path / "b.csv").write_text(iso)
    query = ps.query(complete.format(tmp_path / "b.csv"))
    assert query.run(types={"when": "datetime(Date,Time)"}).rows() == [(last, first, last)]


def test_files_of_json_and_of_many_blocks_have_it_too(tmp_path: Path) -> None:
    lines = [
        f'{{"Date": "2026-01-{1 + n // 86400:02}", "Time": "{n // 3600 % 24:02}:{n // 60 % 60:02}:'
        f'{n % 60:02}", "x": {n % 7}}}'
        for n in range(100_000)
    ]
    found = _found(tmp_path, "\n".join(lines) + "\n", "datetime(Date,Time)", "a.ndjson")
    frame = pl.DataFrame({"n": range(100_000)}).select(
        when=pl.lit(datetime(2026, 1, 1)) + pl.duration(seconds="n"), x=pl.col("n") % 7
    )
    text = QUERY.format("unused.csv")
    assert found.rows() == ps.query(text).run(frame).rows()


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    query = QUERY.format(tmp_path / "a.csv")
    shown = CliRunner().invoke(app, ["run", "-q", query, "--type", f"when={EUROPEAN}"])
    assert shown.exit_code == 0, shown.output
    assert "2026-01-04 10:00:01" in shown.stdout


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("datetime(Date)", "made of several other columns"),
        ("datetime(Date,when)", "made of several other columns"),
        ("datetime(Date,Tim)", "no column Tim"),
        ("datetime(Date,Time)", r"line 2.*when=datetime\(Date,Time\):%d/%m/%Y %H:%M:%S"),
        (
            "datetime(Date,Time):%d/%m/%y %H:%M",
            "line 2.*no datetime written as %d/%m/%y %H:%M",
        ),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, written: str, message: str) -> None:
    with pytest.raises((ps.FileError, ValueError), match=message):
        _found(tmp_path, ROWS, written)


def test_a_time_that_cannot_be_read_is_named_with_its_line(tmp_path: Path) -> None:
    text = ROWS.replace("10:00:02", "25:00:02")
    with pytest.raises(ps.FileError, match="line 3"):
        _found(tmp_path, text, EUROPEAN)


def test_the_parts_have_no_other_type_and_the_name_is_new(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    query = ps.query(QUERY.format(tmp_path / "a.csv"))
    with pytest.raises(ValueError, match="leave its type out"):
        query.run(types={"when": EUROPEAN, "Date": "date"})
    with pytest.raises(ps.FileError, match="has a column x"):
        query.run(types={"x": EUROPEAN})


def test_frames_are_told_what_to_do() -> None:
    frame = pl.DataFrame({"Date": ["2026-01-04"], "Time": ["10:00:01"], "x": [5]})
    for column in ("Date", "Time"):
        query = ps.query(f"FROM s ORDER BY {column} DEFINE a AS x > 1 PATTERN a WITHIN 9 s")
        with pytest.raises(ps.QueryError, match=r"concat_str..Date., .Time."):
            query.run(frame)
    advised = frame.with_columns(
        when=pl.concat_str("Date", "Time", separator=" ").str.to_datetime()
    )
    query = ps.query("FROM s ORDER BY when DEFINE a AS x > 1 PATTERN a WITHIN 9 s")
    assert len(query.run(advised)) == 1
