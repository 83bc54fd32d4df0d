"""Warnings about results show the line of the caller, whatever leads to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app

FRAME = pl.DataFrame({"ts": [1, 2, 5], "x": [5, 0, 5]})
#: Queries are bound and warned of once, so that each one here is a new one.
_NUMBERS = count(100)

ABSENT = (
    "FROM s ORDER BY ts DEFINE a AS x > 1, c AS x > 2 "
    "PATTERN a AND NOT (c after a AND c.ts - a.te <= {}) WITHIN 9"
)
OF_TWO = ABSENT.replace("c AS x", "c AS t.x").replace("a AS x", "a AS s.x").replace(
    "DEFINE", "WITH t ORDER BY ts DEFINE", 1
)  # fmt: skip
LIMITED = ps.query("FROM s ORDER BY ts DEFINE a AS x > 1 PATTERN a WITHIN 9")
DOUBLING = (
    "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN ((A | B)+ C) "
    "DEFINE C AS SUM(A.x) > {})"
)


def _query(text: str) -> ps.Query:
    return ps.query(text.format(next(_NUMBERS)))


def _of_both(rows: Any) -> Mapping[str, Any]:
    return {"s": rows, "t": rows}


@pytest.mark.parametrize(
    "call",
    [
        lambda: _query(ABSENT).run(FRAME),
        lambda: _query(ABSENT).run(FRAME.lazy()),
        lambda: _query(ABSENT).run(FRAME.to_dicts()),
        lambda: _query(ABSENT).open(schema=dict(FRAME.schema)),
        lambda: _query(ABSENT).open().push(FRAME),
        lambda: _query(ABSENT).diagnose(FRAME),
        lambda: _query(OF_TWO).run(_of_both(FRAME)),
        lambda: _query(OF_TWO).open(schema=_of_both(dict(FRAME.schema))),
        lambda: _query(DOUBLING).run(FRAME),
        lambda: _query(DOUBLING).open(schema=dict(FRAME.schema)),
        lambda: LIMITED.run(FRAME, limit=1),
    ],
)  # fmt: skip
def test_a_warning_shows_the_line_of_the_call(call: Callable[[], object]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert [(one.category, one.filename) for one in caught] == [(ps.ResultWarning, __file__)]


def test_check_warns_of_a_not_that_is_waited_for_beyond_the_window(tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text(ABSENT.replace("PATTERN", "\nPATTERN").format(9))
    checked = CliRunner().invoke(app, ["check", str(path)])
    assert (checked.exit_code, checked.stdout) == (0, "ok\n")
    assert "warning: line 2, column 15: no match can be reported in time" in checked.stderr
    assert "^" in checked.stderr
    path.write_text(ABSENT.format(8))
    assert CliRunner().invoke(app, ["check", str(path)]).stderr == ""
