"""What values of text files mean: dates, missing values, encodings, compression; or what to say."""

from __future__ import annotations

import bz2
import gzip
import lzma
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.adapters import text_blocks
from piestream.errors import FileError

PRICES = "Date,price\n1/4/1999,9\n1/5/1999,3\n1/6/1999,9\n"
FALLS = "DEFINE a AS price < 5 PATTERN a WITHIN 60 d RETURN a.ts"


def run(path: Path, rest: str = f"ORDER BY Date {FALLS}", **options: Any) -> list[Any]:
    rows: pl.DataFrame = ps.query(f"FROM '{path}' {rest}").run(**options)
    return rows["a_ts"].to_list()


# -- dates and times -------------------------------------------------------------------------------
@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_a_date_that_two_formats_fit_is_refused(
    suffix: str, tmp_path: Path, piestream: Any
) -> None:
    path = tmp_path / f"prices.{suffix}"
    path.write_text(PRICES if suffix == "csv" else '{"Date": "1/5/1999", "price": 3}\n')
    query = f"FROM s ORDER BY Date {FALLS}"
    result = piestream("run", "-q", query, path, "--type", "Date=date")
    assert result.exit_code == 1
    assert "line 2: " in result.stderr or suffix == "ndjson"
    assert "may begin with the day or with the month; give the format, --type" in result.stderr
    assert '"Date=date:%d/%m/%Y" or "Date=date:%m/%d/%Y"' in result.stderr


def test_a_format_says_what_comes_first(tmp_path: Path, piestream: Any) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(PRICES)
    assert run(path, types={"Date": "date:%m/%d/%Y"}) == [date(1999, 1, 5)]
    assert run(path, types={"Date": "date:%d/%m/%Y"}) == [date(1999, 5, 1)]
    query, said = f"FROM s ORDER BY Date {FALLS}", ("--type", "Date=date:%m/%d/%Y")
    result = piestream("run", "-q", query, path, *said, "-o", "-")
    assert result.stdout == "detected_at,a_ts\n1999-01-05,1999-01-05\n"
    assert piestream("check", "-q", query, path, *said).stdout == "ok\n"


def test_dates_that_are_not_year_first_are_never_guessed(tmp_path: Path) -> None:
    """Also where nothing is said of them, and where one of them could be read in one way only."""
    path = tmp_path / "prices.csv"
    path.write_text(PRICES.replace("1/6/1999,9", "1/13/1999,8"))
    with pytest.raises(ps.QueryError, match='"Date=date:%m/%d/%Y", in Python run'):
        run(path)
    with pytest.raises(ps.QueryError, match="the time column Date has type String"):
        run(path)
    assert run(
        path, "ORDER BY price DEFINE a AS Date = '1/5/1999' PATTERN a WITHIN 9 RETURN a.ts"
    ) == [3]


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("datetime:%d.%m.%Y %H:%M", "02.01.2024 03:04", datetime(2024, 1, 2, 3, 4)),
        ("datetime:%m/%d/%y %I:%M %p", "1/2/24 3:04 PM", datetime(2024, 1, 2, 15, 4)),
        ("datetime:%Y-%m-%dT%H:%M:%S%z", "2024-01-02T03:04:05+0200",
         datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("date:%Y%m%d", "20240102", date(2024, 1, 2)),
        ("date", "2024-01-02", date(2024, 1, 2)),
        ("datetime", "2024-01-02", datetime(2024, 1, 2)),
        ("datetime", "2024-01-02 03:04", datetime(2024, 1, 2, 3, 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_dates_and_times_have_formats(
    suffix: str, type: str, value: str, expected: object, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{suffix}"
    path.write_text(
        f"Date,price\n{value},3\n" if suffix == "csv" else f'{{"Date": "{value}", "price": 3}}\n'
    )
    assert run(path, types={"Date": type}) == [expected]


def test_a_value_that_does_not_fit_its_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES + "13/6/1999,9\n")
    with pytest.raises(FileError) as caught:
        run(tmp_path / "prices.csv", types={"Date": "date:%m/%d/%Y"})
    assert str(caught.value).endswith(
        "line 5: column Date: '13/6/1999' is no date written as %m/%d/%Y\n  | 13/6/1999,9"
    )


def test_later_dates_are_not_read_otherwise_than_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 16)
    monkeypatch.setattr("piestream.adapters.text_files.TYPED_ROWS", 1)
    (tmp_path / "prices.csv").write_text("Date,price\n1999-04-01,9\n2/4/1999,3\n")
    with pytest.raises(FileError, match="line 3: column Date: '2/4/1999' may begin with the day"):
        run(tmp_path / "prices.csv")


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("dat", "the type of Date: there is no type dat: did you mean date"),
        ("int:%d", "only dates and times have a format, not int"),
        ("date:dmy", "a format is written like %m/%d/%Y"),
        (int, "the type of Date is int, float, bool, text, date, datetime, or a Polars type"),
    ],
)
def test_a_type_that_is_none_is_refused(type: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES)
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "prices.csv", types={"Date": type})


def test_polars_types_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("Date,price\n5,3\n")
    rest = f"ORDER BY Date {FALLS.replace('60 d', '60')}"
    query = ps.query(f"FROM '{tmp_path / 'rows.csv'}' {rest}")
    assert query.run(types={"Date": pl.Int16()}).schema["a_ts"] == pl.Int16


# -- missing values --------------------------------------------------------------------------------
NA = "t,x\n1,0\n2,NA\n3,5\n4,-\n"
FIVE = "ORDER BY t DEFINE a AS x IS NULL OR x > 1 PATTERN a WITHIN 9 RETURN a.ts, COUNT(a) AS n"


def test_words_may_stand_for_missing_values(tmp_path: Path, piestream: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(NA)
    assert run(path, FIVE, null=["NA", "-"]) == [2]
    path.write_text(NA.replace("-", ""))
    assert run(path, FIVE, null="NA") == [2]
    path.write_text(NA)
    said = ("--null", "NA", "--null", "-")
    result = piestream("run", "-q", f"FROM s {FIVE}", path, *said, "-o", "-")
    assert result.stdout.splitlines()[1].startswith("2,2,")
    assert piestream("check", "-q", f"FROM s {FIVE}", path, *said).stdout == "ok\n"


def test_words_that_seem_to_stand_for_missing_values_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(NA)
    with pytest.raises(ps.QueryError) as caught:
        run(path, FIVE)
    assert (
        "column x holds numbers, and 'NA': if NA and - stand for a missing value, say so: "
        "--null NA --null -, in Python run(null=['NA', '-'])"
    ) in str(caught.value)
    path.write_text("t,x\n2024-01-01,0\nn/a,5\n")
    with pytest.raises(ps.QueryError, match="column t holds times, and 'n/a': if n/a stands for"):
        run(path, "ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 s RETURN a.ts")


@pytest.mark.parametrize(
    ("value", "stray", "column", "type", "others"),
    [
        ("5", "5x", "x", "int", "numbers"),
        ("5.5", "1e", "x", "float", "numbers"),
        ("2026-01-01 00:00:01", "2026-13-01 00:00:01", "t", "datetime", "times"),
        ("2026-01-01", "2026-02-30", "t", "date", "times"),
    ],
)
def test_one_value_that_is_none_is_named_and_its_line_can_be_found(
    tmp_path: Path, value: str, stray: str, column: str, type: str, others: str
) -> None:
    path = tmp_path / "rows.csv"
    values = [value] * 20 + [stray] + [value] * 9
    lines = [f"{n},{v}" if column == "x" else f"{v},{n}" for n, v in enumerate(values)]
    path.write_text("t,x\n" + "\n".join(lines) + "\n")
    rest = "ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN a.ts"
    with pytest.raises(ps.QueryError) as caught:
        run(path, rest if column == "x" else rest.replace("9", "9 d"))
    assert f'column {column} holds {others}, and {stray!r}: --type "{column}={type}"' in str(
        caught.value
    )
    with pytest.raises(FileError, match=f"line 22: column {column}: '{stray}' is no "):
        run(path, rest if column == "x" else rest.replace("9", "9 d"), types={column: type})


def test_a_column_of_identifiers_is_a_column_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n" + "".join(f"{n},{n}\n" for n in range(20)) + "20,5x\n")
    rest = "ORDER BY t DEFINE a AS x = '5x' PATTERN a WITHIN 9 RETURN a.ts"
    assert run(path, rest) == [20]


def test_a_late_word_for_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piestream.adapters.text_files.TYPED_ROWS", 1)
    (tmp_path / "rows.csv").write_text(NA)
    with pytest.raises(
        FileError, match=r"line 3: column x: 'NA' is no .*\n.*\n.*--null NA, in Python"
    ):
        run(tmp_path / "rows.csv", FIVE)


def test_text_may_hold_such_words(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(NA)
    assert run(
        tmp_path / "rows.csv", "ORDER BY t DEFINE a AS x = 'NA' PATTERN a WITHIN 9 RETURN a.ts"
    ) == [2]


@pytest.mark.parametrize("null", ["", [], ["NA", ""], 0])
def test_a_word_for_what_is_missing_is_a_word(null: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(NA)
    with pytest.raises(ValueError, match="null is a word for what is missing"):
        run(tmp_path / "rows.csv", FIVE, null=null)


# -- bytes -----------------------------------------------------------------------------------------
CITIES = "t,x,city\n1,0,Köln\n2,5,Nîmes\n"
WHERE = "ORDER BY t DEFINE a AS city LIKE '%îm%' PATTERN a WITHIN 9 RETURN a.ts"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"]
)
@pytest.mark.parametrize("block", [3, 1 << 20])
def test_text_may_be_in_other_encodings(
    encoding: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piestream: Any
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(CITIES.encode(encoding))
    assert run(path, WHERE, encoding=encoding) == [2]
    result = piestream(
        *(
            "run",
            "-q",
            f"FROM s {WHERE}",
            "-",
            "--format",
            "csv",
            "--encoding",
            encoding,
            "-o",
            "-",
        ),
        stdin=path.read_bytes(),
    )
    assert result.stdout == "detected_at,a_ts\n2,2\n"


@pytest.mark.parametrize("predicate", ["city LIKE '%îm%'", "x > 1"])
def test_text_that_is_no_utf8_is_named_whatever_is_read(predicate: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(CITIES.encode("latin-1"))
    with pytest.raises(FileError) as caught:
        run(
            tmp_path / "rows.csv",
            f"ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN 9 RETURN a.ts",
        )
    assert str(caught.value).endswith(
        "line 2: the byte 0xf6 is no UTF-8\n  | 1,0,K\\xf6ln\n"
        "  = say what the text is in, for example --encoding latin-1, in Python run(encoding='latin-1')"
    )


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize("block", [5, 1 << 20])
@pytest.mark.parametrize("way", ["file", "standard input"])
def test_gzip_is_recognized(
    way: str, block: int, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piestream: Any
) -> None:
    """Whatever the name says; also in several pieces that follow one another."""
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    path = tmp_path / name
    path.write_bytes(gzip.compress(CITIES[:12].encode()) + gzip.compress(CITIES[12:].encode()))
    query = f"FROM s {WHERE}"
    if way == "file":
        assert run(path, WHERE) == [2]
        return
    for options in ([], ["--lateness", "0"]):
        result = piestream(
            *("run", "-q", query, "-", "--format", "csv", "-o", "-", *options),
            stdin=path.read_bytes(),
        )
        assert result.stdout == "detected_at,a_ts\n2,2\n"


def test_gzip_that_ends_early_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(CITIES.encode())[:-9])
    with pytest.raises(FileError, match="cannot be decompressed: it ends in the middle"):
        run(path, WHERE)
    path.write_bytes(gzip.compress(CITIES.encode())[:-8] + b"12345678")
    with pytest.raises(FileError, match="cannot be decompressed: "):
        run(path, WHERE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bz2.compress(CITIES.encode()), "is compressed by bzip2; make text of it first: bzip2 -dc"),
        (lzma.compress(CITIES.encode()), "is compressed by xz; make text of it first: xz -dc"),
        (b"\x28\xb5\x2f\xfd....", "is compressed by zstd; make text of it first: zstd -dc"),
        (b"PK\x03\x04......", "is a zip archive or a spreadsheet"),
        (b"PAR1....", "holds Parquet and no text; say so with --format parquet"),
        (CITIES.encode("utf-16"), "is in UTF-16; say so with --encoding utf-16"),
        (CITIES.replace("\n", "\r").encode(), "ends its lines with CR alone; convert it first"),
    ],
)
def test_what_is_no_text_is_named(
    content: bytes, message: str, tmp_path: Path, piestream: Any
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        run(path, WHERE)
    result = piestream("run", "-q", f"FROM s {WHERE}", "-", "--format", "csv", stdin=content)
    assert result.exit_code == 1
    assert f"standard input {message}" in result.stderr


# -- names -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    ["\ufefft,x\n1,0\n2,5\n", "t,x\r\n1,0\r\n2,5\r\n", '"t","x"\n1,0\n2,5\n', 't,"x"\n1,0\n2,5'],
)
def test_a_file_may_begin_with_a_mark_and_end_its_lines_as_windows_does(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_bytes(text.encode())
    rest = "ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN a.ts"
    assert run(tmp_path / "rows.csv", rest) == [2]


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(
        FileError, match=r"rows\.csv is empty: a CSV file begins with its column names"
    ):
        run(tmp_path / "rows.csv")


def test_names_alone_are_an_empty_input_where_types_are_given(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("Date,price\n")
    assert run(tmp_path / "rows.csv", types={"Date": "date", "price": "int"}) == []
    with pytest.raises(FileError, match=r"say them for all columns: --type .*in Python run"):
        run(tmp_path / "rows.csv", types={"Date": "date"})


# -- remote ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["https://localhost/rows.csv", "s3://bucket/rows.ndjson"])
def test_remote_text_is_refused_in_a_sentence(name: str, piestream: Any) -> None:
    result = piestream("run", "-q", f"FROM s {WHERE}", name)
    assert result.exit_code == 2
    format = name.rsplit(".")[-1]
    assert result.stderr.splitlines()[-1] == (
        f"{name} is remote, and of remote files only Parquet is read; text comes from the disk or from "
        f"standard input: curl -s {name} | piestream run QUERY.SQL - --format {format}"
    )


def test_remote_parquet_that_cannot_be_read_is_named_in_a_sentence(piestream: Any) -> None:
    result = piestream("run", "-q", f"FROM s {WHERE}", "nowhere://bucket/rows.parquet")
    assert result.exit_code == 1
    assert result.stderr.startswith("nowhere://bucket/rows.parquet cannot be read: ")
    assert "remote Parquet is read from s3, gs, az" in result.stderr
    assert result.stderr.count("\n") == 1


def test_options_of_text_are_refused_where_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"t": [1], "x": [5]}).write_parquet(path)
    for options in ({"null": "NA"}, {"types": {"t": "int"}}, {"encoding": "latin-1"}):
        with pytest.raises(ValueError, match="arquet"):
            run(path, WHERE, **options)
        with pytest.raises(TypeError, match="FROM names, not for a frame"):
            ps.query(f"FROM s {WHERE}").run(pl.read_parquet(path), **options)  # type: ignore[call-overload]


def test_advice_on_a_column_goes_with_the_faults_that_are_about_it(
    tmp_path: Path, piestream: Any
) -> None:
    (tmp_path / "rows.csv").write_text("Date,price\n1/4/1999,9\n")
    query = "FROM s ORDER BY date DEFINE a AS low > 1 PATTERN a WITHIN 9 d"
    of_time, of_column = piestream("run", "-q", query, tmp_path / "rows.csv").stderr.split("\n\n")[
        1:
    ]
    assert "did you mean Date?; column Date: '1/4/1999' may begin with" in of_time
    assert of_column.rstrip().endswith(
        "the columns are Date, price; a text stands in single quotes"
    )
