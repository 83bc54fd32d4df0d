"""Every folder in ``tests/cases``, on every engine. Adding a bug is adding a folder."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from piestream.expressions.diagnostics import QueryError
from tests import folders
from tests.engines import ENGINES, parse, run

_FOLDERS = sorted(path.parent for path in folders.CASES.glob("*/query.sql"))


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_case(folder: Path, engine: str) -> None:
    case = folders.read(folder)
    query = parse(case.text)
    for attempt in range(1 if engine in ("oracle", "event") else 4):
        found, plan = run(engine, query, case.stream, Random(f"{folder.name} {attempt}"))
        cells = folders.table(found, query, case.stream)
        why = folders.differs(case.matches, cells, len(query.partition_by))
        assert why is None, f"{engine} on {folder.name}, plan {plan}\n{why}"


_HEAD = "FROM events ORDER BY ts DEFINE a AS p = 1, b AS q = 1, c AS r = 1 PATTERN "

#: Queries that the authors' program ran with a window of 0, with half of a pattern, or not at all.
REFUSED = {
    "an unknown unit": _HEAD + "a before b AND b before c WITHIN 5 parsecs",
    "a unit that is missing": _HEAD + "a before b AND b before c WITHIN seconds",
    "no window": _HEAD + "a before b AND b before c",
    "a window of more than 64 bits": _HEAD + "a before b AND b before c WITHIN 10000000000 s",
    "OR between clauses": _HEAD + "a before b OR b before c WITHIN 5",
    "a symbol that is not defined": _HEAD + "a before b AND b before c AND c before e WITHIN 5",
    "a symbol that is never used": _HEAD + "a before b WITHIN 5",
    "an unknown function": _HEAD + "a before b AND b before c WITHIN 5 RETURN NOPE(a.zz) AS x",
    "a symbol in RETURN that is not defined": _HEAD
    + "a before b AND b before c WITHIN 5 RETURN e.ts",
    "text after the end": _HEAD + "a before b AND b before c WITHIN 5 RETURN a.ts and more",
    "a symbol that is defined twice": "FROM events DEFINE a AS p = 1, a AS q = 1, b AS r = 1 "
    "PATTERN a before b WITHIN 5",
    "a parenthesis that is not closed": "FROM events DEFINE a AS (p = 1, b AS q = 1 "
    "PATTERN a before b WITHIN 5",
    "a pattern in two pieces": "FROM events DEFINE a AS p, b AS q, c AS r, d AS s "
    "PATTERN a before b AND c before d WITHIN 5",
    "a symbol with itself": "FROM events DEFINE a AS p PATTERN a before a WITHIN 5",
    "constraints that no intervals satisfy": _HEAD
    + "a overlaps b AND b overlaps c AND a after c WITHIN 5",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_a_faulty_query_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        parse(text)


def test_there_are_cases() -> None:
    assert {"figure1", "java_before_without_a_partner"} <= {folder.name for folder in _FOLDERS}
