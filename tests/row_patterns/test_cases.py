"""Every folder in ``tests/row_cases``: as a frame, a session, single events, and by the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from tests.row_patterns.oracle import Match, item_value, matches
from tests.row_patterns.randoms import with_what_holds

_FOLDERS = sorted(Path(__file__).parent.parent.glob("row_cases/*/query.sql"))


def _read(path: Path) -> tuple[ps.Query, pl.DataFrame, list[dict[str, Any]]]:
    folder = path.parent
    query = ps.query(path.read_text(encoding="utf-8"))
    return query, pl.read_csv(folder / "events.csv"), pl.read_csv(folder / "matches.csv").to_dicts()


@pytest.mark.parametrize("path", _FOLDERS, ids=lambda path: path.parent.name)
def test_a_case(path: Path) -> None:
    query, events, expected = _read(path)
    assert query.run(events).to_dicts() == expected
    session = query.open(schema=events.schema)
    given = [row for event in events.to_dicts() for row in session.push(event)]
    given += session.close()
    assert sorted(given, key=str) == sorted(expected, key=str)
    cut = query.open(schema=events.schema)
    pieces = [cut.push(part) for part in events.iter_slices(3)]
    assert pl.concat([*pieces, cut.close()]).sort(pl.all()).rows() == sorted(
        tuple(row.values()) for row in expected
    )


@pytest.mark.parametrize("path", _FOLDERS, ids=lambda path: path.parent.name)
def test_the_oracle_agrees_with_a_case(path: Path) -> None:
    query, events, expected = _read(path)
    rows = query.rows
    assert rows is not None
    for measure in rows.measures:
        if measure.expression.only_name is None:
            raise AssertionError("the oracle gives items, and this measure is an expression")
    time = query.streams[0].order_by or ""
    found: list[dict[str, Any]] = []
    for key, part in events.group_by(query.partition_by, maintain_order=True):
        given = with_what_holds(query, [{**e, "t": e[time]} for e in part.to_dicts()])
        for match in matches(rows, given):
            found.append(
                dict(zip(query.partition_by, key, strict=True)) | _row(query, given, match)
            )
    assert found == expected


def _row(query: ps.Query, given: list[dict[str, Any]], match: Match) -> dict[str, Any]:
    rows = query.rows
    assert rows is not None
    return {
        measure.alias: item_value(rows, given, match, len(match.path), item)
        for measure in rows.measures
        for _, item in measure.items
    }
