"""Text files as people have them: other delimiters, names alone, faults named by their rows."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.adapters import text_blocks, text_files
from piestream.adapters.files import open_source
from piestream.errors import FileError

ONE = "DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN a.ts"
FOUND = [{"detected_at": 2, "a_ts": 2}]


def run(path: Path, **options: Any) -> list[dict[str, Any]]:
    rows: pl.DataFrame = ps.query(f"FROM '{path}' ORDER BY t {ONE}").run(**options)
    return rows.to_dicts()


def faulty(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        run(path)
    return str(caught.value).replace(str(path.parent) + os.sep, "")


@pytest.mark.parametrize(
    ("name", "sign", "options"),
    [
        ("rows.tsv", "\t", {}),
        ("rows.tsv.gz", "\t", {}),
        ("rows.tsv", ";", {"delimiter": ";"}),
        ("rows.csv", "|", {"delimiter": "|"}),
    ],
)
def test_columns_may_be_parted_by_other_signs(
    name: str, sign: str, options: dict[str, str], tmp_path: Path
) -> None:
    text = "t,x\n1,0\n2,5\n".replace(",", sign).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert run(tmp_path / name, **options) == FOUND


@pytest.mark.parametrize(("option", "sign"), [(";", ";"), ("tab", "\t"), ("\\t", "\t")])
def test_the_command_line_takes_a_delimiter(
    option: str, sign: str, tmp_path: Path, piestream: Callable[..., Any]
) -> None:
    (tmp_path / "rows.csv").write_text("t,x\n1,0\n2,5\n".replace(",", sign))
    path, query = str(tmp_path / "rows.csv"), f"FROM s ORDER BY t {ONE}"
    result = piestream("run", "-q", query, path, "--delimiter", option, "-o", "-")
    assert result.stdout == "detected_at,a_ts\n2,2\n"
    assert piestream("check", "-q", query, path, "--delimiter", option).stdout == "ok\n"


@pytest.mark.parametrize("row", ["1;0", "1;0,5", '1;"0,5"'])
def test_a_delimiter_that_was_not_given_is_guessed_at_in_the_error(
    row: str, tmp_path: Path
) -> None:
    message = faulty(tmp_path / "rows.csv", f"t;x\n{row}\n")
    assert message.startswith("rows.csv has one column, 't;x'")
    assert "delimiter=';'" in message


def test_a_name_in_quotes_may_hold_what_separates_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('"t; in s"\n1\n2\n')
    query = 'DEFINE a AS "t; in s" > 1 PATTERN a WITHIN 9 RETURN a.ts'
    path = tmp_path / "rows.csv"
    rows = ps.query(f"FROM '{path}' ORDER BY \"t; in s\" {query}").run()
    assert rows.to_dicts() == FOUND


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "é"])
def test_a_delimiter_is_one_plain_character(delimiter: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("t,x\n1,0\n")
    with pytest.raises(ValueError, match="a delimiter is one character"):
        run(tmp_path / "rows.csv", delimiter=delimiter)


def test_a_delimiter_is_refused_where_there_is_no_csv(tmp_path: Path) -> None:
    (tmp_path / "rows.ndjson").write_text('{"t": 1, "x": 5}\n')
    with pytest.raises(ValueError, match="a delimiter is for CSV, not for ndjson"):
        run(tmp_path / "rows.ndjson", delimiter=";")
    with pytest.raises(TypeError, match="not for a frame"):
        ps.query(f"FROM s ORDER BY t {ONE}").run(pl.DataFrame({"t": [1], "x": [5]}), delimiter=";")
    names = [tmp_path / "a.csv", tmp_path / "b.tsv"]
    for name in names:
        name.write_text("t\n1\n")
    with pytest.raises(ValueError, match="files of one kind are read together, not csv, tsv"):
        open_source([str(name) for name in names])


GERMAN = "t;x;note\n1;0,0;a\n2;9,5;b\n"


def test_numbers_may_have_decimal_commas(tmp_path: Path, piestream: Callable[..., Any]) -> None:
    (tmp_path / "rows.csv").write_text(GERMAN)
    assert run(tmp_path / "rows.csv", delimiter=";", decimal_comma=True) == FOUND
    path, query = str(tmp_path / "rows.csv"), f"FROM s ORDER BY t {ONE}"
    options = ["--delimiter", ";", "--decimal-comma"]
    result = piestream("run", "-q", query, path, *options, "-o", "-")
    assert result.stdout == "detected_at,a_ts\n2,2\n"
    assert piestream("check", "-q", query, path, *options).stdout == "ok\n"


def test_decimal_commas_that_were_not_given_are_guessed_at_in_the_error(
    tmp_path: Path, piestream: Callable[..., Any]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(GERMAN)
    with pytest.raises(FileError, match=r"x seems to hold.*--decimal-comma.*decimal_comma=True"):
        run(path, delimiter=";")
    query = "FROM s ORDER BY t DEFINE a AS x LIKE '%,5' PATTERN a WITHIN 9"
    for options in (["--no-decimal-comma"], ["--type", "x=text"]):
        result = piestream("run", "-q", query, str(path), "--delimiter", ";", *options, "-o", "-")
        assert result.stdout == "detected_at,a_ts,a_te\n2,2,\n"


def test_decimal_commas_are_refused_where_they_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("t,x\n1,0\n")
    with pytest.raises(ValueError, match="say the delimiter"):
        run(tmp_path / "rows.csv", decimal_comma=True)
    (tmp_path / "rows.ndjson").write_text('{"t": 1, "x": 5}\n')
    with pytest.raises(ValueError, match="decimal commas are for CSV, not for ndjson"):
        run(tmp_path / "rows.ndjson", decimal_comma=True)
    with pytest.raises(TypeError, match="decimal commas are for the CSV files"):
        ps.query(f"FROM s ORDER BY t {ONE}").run(pl.DataFrame({"t": [1]}), decimal_comma=True)


@pytest.mark.parametrize("block", [1, 4, 6, 1 << 20])
def test_what_a_short_row_lacks_is_missing_wherever_a_block_begins(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    (tmp_path / "rows.csv").write_text("t,x\n1,0\n2,5\n3\n4,5\n")
    assert [row["a_ts"] for row in run(tmp_path / "rows.csv")] == [2, 4]


def test_a_long_row_is_named_though_a_short_one_comes_before_it(tmp_path: Path) -> None:
    message = faulty(tmp_path / "rows.csv", "t,x\n1,5\n2\n2,5,6\n")
    assert message == "rows.csv, line 4: the row has 3 fields, and 2 columns have names\n  | 2,5,6"


def test_names_alone_are_an_empty_input_where_all_types_are_given(
    tmp_path: Path, piestream: Callable[..., Any]
) -> None:
    (tmp_path / "rows.csv").write_text("t,x\n")
    options = ["--type", "t=int", "--type", "x=float"]
    query = f"FROM s ORDER BY t {ONE}"
    result = piestream("run", "-q", query, str(tmp_path / "rows.csv"), "-o", "-", *options)
    assert (result.exit_code, result.stdout) == (0, "detected_at,a_ts\n")
    result = piestream("run", "-q", query, str(tmp_path / "rows.csv"), *options[:2])
    assert result.exit_code == 1
    assert "say them for all columns: --type" in result.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "rows.ndjson",
            '{"t":1,"x":5}\n{"t":2,"x":\n',
            "rows.ndjson, line 2: this is no JSON object",
        ),
        ("rows.ndjson", '{"t":1,"x":5}\nhello\n', "rows.ndjson, line 2: this is no JSON object"),
        ("rows.ndjson", '[{"t":1,"x":5}]\n', "one object a line, not an array"),
        ("rows.csv", "t,x\n1,5\n2,5,6\n", "rows.csv, line 3: the row has 3 fields"),
        ("rows.csv", "t,x,x\n1,5,6\n", "rows.csv has several columns that are named x"),
    ],
)
def test_an_error_names_the_row(name: str, text: str, message: str, tmp_path: Path) -> None:
    assert message in faulty(tmp_path / name, text)


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_the_row_is_counted_over_the_blocks_of_its_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 100)
    monkeypatch.setattr(text_files, "TYPED_ROWS", 3)
    line = {"csv": "{},{}\n", "ndjson": '{{"t":{},"x":{}}}\n'}[suffix]
    head = "t,x\n" * (suffix == "csv")
    good = head + "".join(line.format(t, 0) for t in range(50))
    (tmp_path / f"rows0.{suffix}").write_text(good)
    (tmp_path / f"rows1.{suffix}").write_text(
        good.replace(line.format(33, 0), line.format(33, '"five"'.strip('"' * (suffix == "csv"))))
    )
    n = 34 + (suffix == "csv")
    with pytest.raises(FileError, match=rf"rows1\.{suffix}, line {n}: .*five[\s\S]*--type"):
        run(tmp_path / f"rows*.{suffix}")


def test_columns_of_one_name_that_nobody_reads_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("t,x,y,y\n1,0,1,1\n2,5,1,1\n")
    assert run(tmp_path / "rows.csv") == FOUND


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("text", ["t,x\n1,0\n2,5\n", "t,x\r\n1,0\r\n2,5", "\ufefft,x\n1,0\n2,5"])
def test_the_size_of_blocks_makes_no_difference(
    text: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    (tmp_path / "rows.csv").write_bytes(text.encode())
    assert run(tmp_path / "rows.csv") == FOUND


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_read_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("t,x\n1,0\n2,5\n",))
    writer.start()
    assert run(pipe) == FOUND
    writer.join()
