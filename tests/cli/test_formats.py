"""Every format in, every format out, in pieces of any size: the same matches."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import piestream as ps
from piestream.adapters import file_run, files, text_blocks
from piestream.adapters.files import open_source
from piestream.language.options import FileOptions

from .conftest import QUERY

FORMATS = ("parquet", "csv", "ndjson")


@pytest.fixture(scope="session")
def matches(events: pl.DataFrame) -> pl.DataFrame:
    found: pl.DataFrame = ps.query(QUERY).run(events)
    assert len(found) > 100
    return found


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """What is left of the types in every text format; matches of one car keep their order."""
    return frame.sort("car_id", maintain_order=True).with_columns(
        pl.col("detected_at", "f_ts", "b_te").cast(pl.Datetime("us")),
        pl.col("car_id").cast(pl.Int64),
    )


def read(path: Path | io.BytesIO, format: str) -> pl.DataFrame:
    if format == "parquet":
        return pl.read_parquet(path)
    if format == "csv":
        return pl.read_csv(path, try_parse_dates=True)
    return pl.read_ndjson(path).with_columns(
        pl.col("detected_at", "f_ts", "b_te").str.to_datetime(time_unit="us")
    )


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_every_format_goes_in_and_out(
    source: str, to: str, folder: Path, matches: pl.DataFrame, piestream: Any, tmp_path: Path
) -> None:
    out = tmp_path / f"found.{to}"
    result = piestream("run", folder / "query.sql", folder / f"events.{source}", "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert_frame_equal(as_text(read(out, to)), as_text(matches))
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_parquet_keeps_the_types(
    folder: Path, matches: pl.DataFrame, piestream: Any, tmp_path: Path
) -> None:
    out = tmp_path / "found.parquet"
    piestream("run", folder / "query.sql", folder / "events.parquet", "-o", out)
    assert pl.read_parquet_schema(out) == matches.schema


@pytest.mark.parametrize("format", FORMATS)
def test_standard_input_and_output(
    format: str, folder: Path, matches: pl.DataFrame, piestream: Any
) -> None:
    result = piestream(
        *("run", folder / "query.sql", "-", "--format", format),
        *("-o", "-", "--output-format", format),
        stdin=(folder / f"events.{format}").read_bytes(),
    )
    assert result.exit_code == 0
    found = read(io.BytesIO(result.stdout_bytes), format)
    assert_frame_equal(as_text(found), as_text(matches))


def test_the_query_may_come_from_standard_input(folder: Path, piestream: Any) -> None:
    by_file = piestream("run", folder / "query.sql", folder / "events.csv", "-o", "-")
    by_pipe = piestream("run", "-", folder / "events.csv", "-o", "-", stdin=QUERY)
    by_text = piestream("run", "-q", QUERY, folder / "events.csv", "-o", "-")
    assert by_file.stdout == by_pipe.stdout == by_text.stdout
    assert by_file.stdout.count("\n") > 100


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("ties", ["error", "last"])
def test_small_pieces_find_what_the_whole_does(
    format: str, ties: Any, folder: Path, matches: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_run, "WHOLE_ROWS", 100)
    monkeypatch.setattr(files, "CHUNK_ROWS", 37)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1000)
    source = open_source([str(folder / f"events.{format}")])
    run = file_run.FileRun(ps.query(QUERY), source, FileOptions(ties=ties))
    pieces = list(run.results())
    assert len(pieces) > 100
    assert sum(len(piece) > 0 for piece in pieces) > 10  # they came as they became known
    assert_frame_equal(as_text(pl.concat(pieces)), as_text(matches))


def test_files_follow_one_another_and_may_be_compressed(
    events: pl.DataFrame, matches: pl.DataFrame, piestream: Any, tmp_path: Path
) -> None:
    cut = len(events) // 2
    for number, part in enumerate((events[:cut], events[cut:])):
        (tmp_path / f"part{number}.csv.gz").write_bytes(gzip.compress(part.write_csv().encode()))
    result = piestream("run", "-q", QUERY, tmp_path / "part*.csv.gz", "-o", "-")
    assert result.exit_code == 0, result.stderr
    found = read(io.BytesIO(result.stdout_bytes), "csv")
    assert_frame_equal(as_text(found), as_text(matches))


@pytest.mark.parametrize("format", FORMATS)
def test_a_query_that_names_its_files_runs_alone(
    format: str,
    folder: Path,
    matches: pl.DataFrame,
    piestream: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)  # a relative path is relative to the working directory
    text = QUERY.replace("FROM fleet", f"FROM 'events.{format}'")
    assert_frame_equal(as_text(ps.query(text).run()), as_text(matches))
    result = piestream("run", "-q", text, "-o", "-")
    assert_frame_equal(as_text(read(io.BytesIO(result.stdout_bytes), "csv")), as_text(matches))


def test_quoted_line_ends_do_not_cut_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = pl.DataFrame({"t": range(200), "text": ['a "b",\nc\n', "d"] * 100, "x": [1.5, 2] * 100})
    rows.write_csv(tmp_path / "rows.csv")
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)
    found = pl.concat(open_source([str(tmp_path / "rows.csv")]).chunks(rows.columns))
    assert_frame_equal(found, rows)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-01-01T00:00:00Z", pl.Datetime("us", "UTC")),
        ("2024-01-01T00:00:00.5+02:00", pl.Datetime("us", "UTC")),
        ("2024-01-01 00:00:00", pl.Datetime("us")),
        ("2024-01-01", pl.Date()),
        ("yesterday", pl.String()),
        ("2024-01-01 and so on", pl.String()),
    ],
)
def test_times_in_json_are_found_by_their_look(
    text: str, kind: pl.DataType, tmp_path: Path
) -> None:
    (tmp_path / "rows.ndjson").write_text(f'{{"when": "{text}"}}\n{{"when": null}}\n')
    source = open_source([str(tmp_path / "rows.ndjson")])
    assert source.schema == {"when": kind}
    (rows,) = source.chunks(["when"])
    assert rows["when"].null_count() == 1


def test_columns_that_are_not_needed_may_hold_anything(tmp_path: Path, piestream: Any) -> None:
    lines = [f"{t},{t % 2},{'text' if t > 15_000 else 1}" for t in range(20_000)]
    (tmp_path / "rows.csv").write_text("\n".join(["t,x,rest", *lines]))
    query = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"
    result = piestream("run", "-q", query, tmp_path / "rows.csv", "--quiet", "-o", "-")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 10_001)


def test_a_type_may_be_given(tmp_path: Path, piestream: Any) -> None:
    lines = [f"{t},{t % 2 * 0.75 if t > 15_000 else 0}" for t in range(20_000)]
    (tmp_path / "rows.csv").write_text("\n".join(["t,x", *lines]))
    query = "FROM s ORDER BY t DEFINE a AS x > 0.5 PATTERN a WITHIN 9"
    arguments = ("run", "-q", query, tmp_path / "rows.csv", "-o", "-")
    guessed = piestream(*arguments)
    assert guessed.exit_code == 1
    assert "line 15003: column x: '0.75' is no whole number\n  | 15001,0.75\n" in guessed.stderr
    assert "--type x=float" in guessed.stderr
    result = piestream(*arguments, "--type", "x=float")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 2501)


def test_durations_in_csv_are_iso_8601(tmp_path: Path, piestream: Callable[..., Any]) -> None:
    (tmp_path / "rows.csv").write_text(
        "t,x\n2024-01-01 00:00:00,1\n2024-01-01 00:00:04.5,0\n2024-01-01 00:00:05,1\n"
    )
    query = "FROM s DEFINE a AS x > 0 AT MOST 1 min PATTERN a WITHIN 1 min RETURN DURATION(a) AS d"
    result = piestream("run", "-q", query, tmp_path / "rows.csv", "-o", "-")
    assert result.stdout == "detected_at,d\n2024-01-01T00:00:04.500000,PT4.5S\n"
