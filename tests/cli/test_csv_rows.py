"""Rows of CSV that do not fit, and lines that are none: refused or passed over wherever they stand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.adapters import text_blocks
from piestream.adapters.csv_rows import RowShape, line_count, rows_of
from piestream.errors import FileError

#: Queries that read all columns, some of them, and the first alone.
READ = {
    "all": "a AS x > 1 AND note <> 'q'",
    "some": "a AS x > 1",
    "first": "a AS t > 1",
}


def run(path: Path, predicate: str = READ["some"], **options: Any) -> list[dict[str, Any]]:
    query = f"FROM '{path}' ORDER BY t DEFINE {predicate} PATTERN a WITHIN 9 RETURN a.ts"
    rows: pl.DataFrame = ps.query(query).run(**options)
    return rows.to_dicts()


def fault(path: Path, text: str, predicate: str = READ["some"], **options: Any) -> str:
    path.write_bytes(text.encode())
    with pytest.raises(FileError) as caught:
        run(path, predicate, **options)
    return str(caught.value).removeprefix(f"{path}, ")


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("block", [1, 16, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0,a\n2,5,b,9\n", "line 3: the row has 4 fields, and 3 columns have names\n  | 2,5,b,9"),
        ("1,0,a\n2,5,b,9", "line 3: the row has 4 fields, and 3 columns have names\n  | 2,5,b,9"),
        ("1,0,a\n2,5,b,\n", "line 3: the row has 4 fields, and 3 columns have names\n  | 2,5,b,"),
        ("1,0\n2\n3,5,b,,x\n", "line 4: the row has 5 fields, and 3 columns have names\n  | 3,5,b,,x"),
        ('1,0,"a\nb"\n2,5,b,9\n', "line 4: the row has 4 fields, and 3 columns have names\n  | 2,5,b,9"),
        (
            '1,0,"a\n""b"\n2,5,"b,\n",9\n',
            'line 4: the row has 4 fields, and 3 columns have names\n  | 2,5,"b,\\n",9',
        ),
        ("1,0,a\r\n2,5,b,9\r\n", "line 3: the row has 4 fields, and 3 columns have names\n  | 2,5,b,9"),
        ("1,0,a\n\n\n2,5,b,9\n", "line 5: the row has 4 fields, and 3 columns have names\n  | 2,5,b,9"),
    ],
)  # fmt: skip
def test_a_row_with_too_many_fields_is_refused_whatever_is_read(
    text: str, message: str, block: int, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    assert fault(tmp_path / "rows.csv", f"t,x,note\n{text}", READ[read]) == message


def test_names_that_stand_below_other_lines_are_thought_of(tmp_path: Path) -> None:
    text = "703165,SAND POINT\nt,x,note\n1,0,a\n"
    message = fault(tmp_path / "station.csv", text)
    assert message.startswith(
        "line 2: the row has 3 fields, and 2 columns have names\n  | t,x,note"
    )
    assert "if they stand further down, leave out the lines above: tail -n +2" in message


def test_a_long_row_is_refused_with_other_delimiters(tmp_path: Path) -> None:
    text = "t;x;note\n1;0,5;a\n2;5,5;b;9\n"
    message = fault(tmp_path / "rows.csv", text, delimiter=";", decimal_comma=True)
    assert message == "line 3: the row has 4 fields, and 3 columns have names\n  | 2;5,5;b;9"
    message = fault(tmp_path / "rows.tsv", "t\tx\n1\t0\n2\t5\t9\n")
    assert message == "line 3: the row has 3 fields, and 2 columns have names\n  | 2\\t5\\t9"


def test_a_separator_in_quotes_separates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('"t","x","a, ""quoted"" note"\n1,0,"a,b"\n2,"5","c ""d, e"" f"\n3,0,""\n')
    assert run(path) == [{"detected_at": 2, "a_ts": 2}]


def test_line_and_row_belong_to_the_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several rows cannot be read, and values hold line ends."""
    monkeypatch.setattr("piestream.adapters.text_files.TYPED_ROWS", 3)
    rows = [f'{t},{t % 3},"n\n{t}"' for t in range(1000)]
    rows[700] = '700,seven hundred,"n\n700"'
    rows[900] = '900,nine hundred,"n\n900"'
    message = fault(tmp_path / "rows.csv", "t,x,note\n" + "\n".join(rows))
    assert message.startswith(
        "line 1402: column x: 'seven hundred' is no whole number\n"
        '  | 700,seven hundred,"n\\n700"\n'
        "  = the types of columns are those of the first rows"
    )


@pytest.mark.parametrize("block", [1, 16, 1 << 20])
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize(
    "text",
    [
        "1,0,a\n2,5,b\n\n",
        "1,0,a\n2,5,b\n  \n\t\n",
        "\n1,0,a\n\n2,5,b",
        "1,0,a\r\n\r\n2,5,b\r\n\r\n",
    ],
)
def test_blank_lines_are_passed_over(
    text: str, read: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    path = tmp_path / "rows.csv"
    path.write_bytes(f"t,x,note\n{text}".encode())
    assert run(path, READ[read]) == [{"detected_at": 2, "a_ts": 2}]


def test_blank_lines_are_passed_over_in_a_file_of_one_column(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("\nt\n\n1\n2\n\n3\n\n")
    assert run(tmp_path / "rows.csv", "a AS t = 2") == [{"detected_at": 2, "a_ts": 2}]


def test_a_row_of_separators_alone_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("t,x,note\n1,0,a\n\n,,\n")
    with pytest.raises(ps.TimeError) as caught:
        run(tmp_path / "rows.csv")
    assert str(caught.value).endswith(
        "rows.csv, line 4: the time column t has no value here, and every event needs a time\n  | ,,"
    )


def test_a_long_row_is_cut_where_it_is_shown_and_holds_no_control_signs(tmp_path: Path) -> None:
    message = fault(tmp_path / "rows.csv", "t,x\n1,0\n2,5,\x1b[31m" + "z" * 10_000 + "\n")
    shown = message.split("\n")[1]
    assert shown.startswith("  | 2,5,\\x1b[31mzzz")
    assert shown.endswith("zz ...")
    assert len(shown) < 220


@pytest.mark.parametrize("seed", range(200))
def test_the_quick_look_at_a_block_agrees_with_a_look_at_each_row(seed: int) -> None:
    """Random rows, quoted and not, short, blank and too long, against a reader of single signs."""
    rng = random.Random(seed)
    columns = rng.randint(1, 4)
    fields = ["1", "ab", '"a,b"', '"a,b,,c"', '"a\nb"', '"say ""so"""', '""', ""]
    rows, expected, line = [], None, 7
    for _ in range(rng.randint(1, 8)):
        count = rng.choice([columns] * 6 + [max(1, columns - 1), columns + 1, 0])
        row = ",".join(rng.choice(fields) for _ in range(count))
        rows.append(row + rng.choice(["\n", "\r\n"]))
        if count > columns and expected is None:
            expected = line
        line += rows[-1].count("\n")
    text = "".join(rows).encode()
    shape = RowShape(",", b",".join([b"n"] * columns) + b"\n")
    assert line_count(text) == line - 7
    if expected is not None:
        with pytest.raises(FileError, match=rf"^rows\.csv, line {expected}: "):
            shape.checked("rows.csv", text, 7)
        return
    whole = [row.encode() for row in rows if row.strip()]
    assert shape.checked("rows.csv", text, 7) == b"".join(whole)
    assert [row for _, row in rows_of(text)] == whole
