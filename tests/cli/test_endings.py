"""How a run ends badly: a clear error, exit 1, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from piestream.adapters import text_blocks
from piestream.adapters.text_blocks import whole_lines
from piestream.errors import FileError

QUERY = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"
FOUND = "detected_at,a_ts,a_te\n1,1,\n"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="speaks of POSIX signals and files")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("t,x\n1,1\n2,0\n")
    return path


def shell(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``piestream "$@"`` with what a shell can do to its streams."""
    program = f'{sys.executable} -m piestream "$@" {command}'
    told = [str(argument) for argument in arguments]
    return subprocess.run(
        ["sh", "-c", program, "sh", *told], capture_output=True, text=True, timeout=120
    )


# -- signals -----------------------------------------------------------------------------------------


def live(target: Path, before: str = "") -> subprocess.Popen[bytes]:
    """A run that waits for more data, and has begun its output."""
    command = f'{before} exec {sys.executable} -m piestream "$@"'
    arguments = ("run", "-q", QUERY, "-", "--format", "csv", "--lateness", "0", "-o", str(target))
    process = subprocess.Popen(
        ["sh", "-c", command, "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(b"t,x\n1,1\n2,0\n")
    process.stdin.flush()
    waited = time.monotonic() + 60
    while not list(target.parent.iterdir()):  # the file that becomes the result
        assert time.monotonic() < waited
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_signal_to_end_leaves_no_partial_file(name: str, suffix: str, tmp_path: Path) -> None:
    process = live(tmp_path / f"found.{suffix}")
    number = getattr(signal, name)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told.decode().splitlines()[-1]) == (
        128 + number,
        f"ended by {name}",
    )
    assert list(tmp_path.iterdir()) == []


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    process = live(tmp_path / "found.csv", before='trap "" HUP;')
    process.send_signal(signal.SIGHUP)
    process.communicate(b"3,1\n", timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "found.csv").read_text() == FOUND + "3,3,\n"


# -- streams that are closed or full -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-q", QUERY, "-", "--format", "csv"], "standard input cannot be read: Bad file"),
        (["-q", QUERY, "-", "--format", "parquet"], "standard input cannot be copied: Bad file"),
        (["-", "rows.csv"], "cannot read the query from standard input: Bad file"),
    ],
)
def test_a_closed_standard_input_is_named(arguments: list[str], said: str) -> None:
    done = shell("<&-", "run", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-q", QUERY, "ROWS", "-o", "-"],
        ["run", "-q", QUERY, "ROWS", "-o", "-", "--output-format", "parquet"],
        ["run", "-q", QUERY, "ROWS"],
        ["check", "-q", QUERY],
        ["explain", "-q", QUERY],
        ["--version"],
    ],
)
@pytest.mark.parametrize(
    ("where", "why"), [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")]
)
def test_an_output_that_takes_nothing_is_named(
    arguments: list[str], where: str, why: str, rows: Path
) -> None:
    done = shell(where, *(rows if a == "ROWS" else a for a in arguments))
    assert done.returncode == 1
    assert done.stderr.startswith("cannot write standard output: ")
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet"])
def test_a_device_that_is_full_is_named(format: str, rows: Path) -> None:
    done = shell("", "run", "-q", QUERY, rows, "-o", "/dev/full", "--output-format", format)
    assert done.returncode == 1
    assert done.stderr.startswith("cannot write /dev/full: ")
    assert "No space left on device" in done.stderr
    assert Path("/dev/full").exists()


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_messages_that_nobody_can_read_do_not_make_a_result_fail(where: str, rows: Path) -> None:
    done = shell(where, "run", "-q", QUERY, rows, "-o", "-")
    assert (done.returncode, done.stdout) == (0, FOUND)


def test_what_libraries_print_does_not_get_into_files_where_streams_are_closed(rows: Path) -> None:
    out = rows.with_name("found.csv")
    assert shell("<&- >&- 2>&-", "run", "-q", QUERY, rows, "-o", out).returncode == 0
    code = (
        "import os; from piestream.cli.process import open_standard_streams as opened; opened(); "
        f"file = open({str(rows)!r}); assert file.fileno() > 2"
    )
    program = f'{sys.executable} -c "$1" <&- >&- 2>&-'
    done = subprocess.run(["sh", "-c", program, "sh", code], timeout=60)
    assert done.returncode == 0
    assert out.read_text() == FOUND


# -- files that are replaced -------------------------------------------------------------------------


def test_a_read_only_file_is_not_replaced(rows: Path, piestream: Any) -> None:
    old = rows.with_name("found.csv")
    old.write_text("precious")
    old.chmod(0o444)
    result = piestream("run", "-q", QUERY, rows, "-o", old)
    assert result.exit_code == 1
    assert result.stderr == f"{old} is read-only: write the matches to another file\n"
    assert old.read_text() == "precious"


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_written(
    exists: bool, rows: Path, piestream: Any
) -> None:
    other = rows.parent / "other"
    other.mkdir()
    if exists:
        (other / "target.csv").write_text("old")
    link = rows.with_name("found.csv")
    link.symlink_to("other/target.csv")
    assert piestream("run", "-q", QUERY, rows, "-o", link).exit_code == 0
    assert os.readlink(link) == "other/target.csv"
    assert (other / "target.csv").read_text() == FOUND
    assert [path.name for path in other.iterdir()] == ["target.csv"]


def test_a_link_to_nowhere_is_told(rows: Path, piestream: Any) -> None:
    link = rows.with_name("found.csv")
    link.symlink_to("nowhere/target.csv")
    result = piestream("run", "-q", QUERY, rows, "-o", link)
    assert result.exit_code == 2
    assert "whose directory does not exist" in result.stderr


def test_a_file_that_is_replaced_keeps_its_permissions(rows: Path, piestream: Any) -> None:
    secret = rows.with_name("found.csv")
    secret.touch()
    secret.chmod(0o600)
    assert piestream("run", "-q", QUERY, rows, "-o", secret).exit_code == 0
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text() == FOUND


# -- files that were cut -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('t,x,s\n1,1,a\n2,0,"ab', "ends inside of quotes: it seems to have been cut"),
        ('t,x,s\n1,1,a\n2,0,"ab""', "ends inside of quotes: it seems to have been cut"),
        ('t,x,s\n1,1,a\n2,0,"ab\nc\n', "ends inside of quotes: it seems to have been cut"),
        ("t,x,s\n1,1,a\n2,0", "ends in the middle of a row, after 2 of 3 fields"),
        ("t,x,s\n1,1,a\n2", "ends in the middle of a row, after 1 of 3 fields"),
        ('t,x,s\n1,1,"a\nb"\n2,0', "ends in the middle of a row, after 2 of 3 fields"),
    ],
)
@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_a_file_that_was_cut_is_refused(
    text: str, said: str, block: int, piestream: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", block)
    path = tmp_path / "rows.csv"
    path.write_text(text)
    out = tmp_path / "found.csv"
    result = piestream("run", "-q", QUERY, path, "-o", out)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{path} {said}")
    assert not out.exists()


@pytest.mark.parametrize(
    "text",
    [
        't,x,s\n1,1,a\n2,0,"b"',
        "t,x,s\n1,1,a\n2,0,",
        't,x,s\n1,1,a\n2,0,"a ""b"""\n',
        "t,x,s\n1,1,a\n2,0,b\r\n",
    ],
)
def test_a_file_that_is_whole_is_read_however_it_ends(
    text: str, piestream: Any, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    result = piestream("run", "-q", QUERY, path, "-o", "-")
    assert (result.exit_code, result.stdout) == (0, FOUND), result.stderr


@pytest.mark.parametrize("delimiter", [",", None])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    delimiter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "_LONGEST_FIELD", 1000)
    taken = []

    def blocks() -> Any:
        for number in range(1000):
            taken.append(number)
            yield b"t,x\n" + b"1" * 100 if not number else b"1" * 100

    with pytest.raises(FileError, match="many has a line of more than"):
        list(whole_lines(blocks(), "many", delimiter))
    assert len(taken) < 15


# -- what a terminal would obey ----------------------------------------------------------------------

HOSTILE = "\x1b]0;title\x07\x1b[31mred\u202e\x9b"
SHOWN = "\\x1b]0;title\\x07\\x1b[31mred\\u202e\\x9b"


def test_escape_sequences_in_data_do_not_reach_the_terminal(tmp_path: Path, piestream: Any) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_text(
        '{"t":1,"x":1,"s":"'
        + HOSTILE.replace("\x1b", "\\u001b").replace("\x07", "\\u0007")
        + '"}\n'
    )
    query = f'{QUERY} RETURN FIRST(a.s) AS "{HOSTILE}"'
    result = piestream("run", "-q", query, path)
    assert result.exit_code == 0
    name, _, cells = result.stdout.splitlines()
    assert name.split() == ["detected_at", SHOWN]
    assert cells.split() == ["1", SHOWN]


def test_escape_sequences_do_not_come_back_in_errors(tmp_path: Path, piestream: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"t,x,{HOSTILE}\n1,1,1\n")
    for query in (QUERY.replace("x >", "y >"), f"{QUERY} {HOSTILE}", f"FROM '{HOSTILE}'"):
        result = piestream("run", "-q", query, path)
        assert result.exit_code == 1
        assert SHOWN in result.stderr
        assert not set(HOSTILE) & set(result.stderr) & {"\x1b", "\x07", "\u202e", "\x9b"}
    explained = piestream("explain", "-q", QUERY.replace("x > 0", f"s = '{HOSTILE}'"))
    assert SHOWN in explained.stdout
    assert "\x1b" not in explained.stdout
