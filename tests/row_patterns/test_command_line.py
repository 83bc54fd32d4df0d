"""A row pattern on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from piestream.cli.app import app

_QUERY = """
    FROM 'events.csv' MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n
    PATTERN (A+) DEFINE A AS x > {least})
"""


@pytest.fixture(autouse=True)
def _events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text("t,x\n1,5\n2,6\n3,0\n")
    Path("query.sql").write_text(_QUERY.format(least=1))
    Path("none.sql").write_text(_QUERY.format(least=9))


def _output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def test_run_writes_the_measures() -> None:
    assert "n\n2\n" in _output("run", "query.sql", "--output-format", "csv")


def test_a_run_without_rows_says_so() -> None:
    assert "0 matches" in _output("run", "none.sql")
    assert "AFTER MATCH SKIP" in _output("run", "none.sql", "--why")


def test_why_says_where_the_rows_went() -> None:
    assert "VARIABLES" in _output("run", "query.sql", "--why")


def test_a_trace_has_the_matches_and_their_variables() -> None:
    assert '"name": "A"' in _output("run", "query.sql", "--output-format", "trace")
    Path("untimed.sql").write_text(_QUERY.format(least=1).replace("ORDER BY t", ""))
    said = _output("run", "untimed.sql", "--output-format", "trace")
    assert "an export of matches needs the time column" in said


def test_check_and_explain_read_it() -> None:
    assert _output("check", "query.sql") == "ok\n"
    assert "AUTOMATON" in _output("explain", "query.sql")
