"""``piestream run --why``, and the line for a run on a terminal that gives no rows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from piestream.cli.app import app

_QUERY = "FROM s ORDER BY t DEFINE a AS x > 9 PATTERN a WITHIN 9"


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "s.csv"
    path.write_text("t,x\n1,5\n2,0\n")
    return str(path)


def test_why_prints_the_funnel_instead_of_matches(data: str) -> None:
    result = CliRunner().invoke(app, ["run", "-q", _QUERY, data, "--why"])
    assert result.exit_code == 0
    assert result.stdout.startswith("EVENTS\n  2 events, from 1 to 2\n")
    assert result.stdout.endswith("RESULT\n  0 matches: a (x > 9) never holds; x is from 0 to 5\n")


def test_why_reads_standard_input() -> None:
    arguments = ["run", "-q", _QUERY, "-", "--format", "csv", "--why"]
    result = CliRunner().invoke(app, arguments, input="t,x\n1,5\n")
    assert "1 event, from 1 to 1" in result.stdout


def test_why_gives_no_matches_to_write(data: str, tmp_path: Path) -> None:
    arguments = ["run", "-q", _QUERY, data, "--why", "-o", str(tmp_path / "out.csv")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--why prints where the rows went" in result.stderr


def _run_on_a_terminal(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    app(["run", "-q", _QUERY, *arguments], standalone_mode=False)
    return capsys.readouterr().err


def test_a_run_on_a_terminal_without_rows_says_where_they_went(
    data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = _run_on_a_terminal([data], capsys, monkeypatch)
    last = (
        "0 matches: a (x > 9) never holds; x is from 0 to 5; run it with --why to see each step\n"
    )
    assert said.endswith(last)
    assert "--why" not in _run_on_a_terminal([data, "--quiet"], capsys, monkeypatch)


def test_a_large_run_is_not_looked_into_by_itself(
    data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from piestream.cli import why

    monkeypatch.setattr(why, "_BY_ITSELF", 1)
    said = _run_on_a_terminal([data], capsys, monkeypatch)
    assert said.endswith("no rows: run it with --why to see each step\n")


def test_nothing_is_said_where_there_is_no_terminal(data: str) -> None:
    result = CliRunner().invoke(app, ["run", "-q", _QUERY, data])
    assert "--why" not in result.stderr
