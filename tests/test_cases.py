"""Every folder in ``tests/cases``, on every engine. Adding a bug is adding a folder."""

from __future__ import annotations

from random import Random

import pytest

from tests import folders
from tests.engines import ENGINES, parse, run

_FOLDERS = sorted(path.parent for path in folders.CASES.glob("*/query.sql"))


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_case(folder: folders.Path, engine: str) -> None:
    case = folders.read(folder)
    query = parse(case.text)
    for attempt in range(1 if engine in ("oracle", "event") else 4):
        found, plan = run(engine, query, case.stream, Random(f"{folder.name} {attempt}"))
        cells = folders.table(found, query, case.stream)
        why = folders.differs(case.matches, cells, len(query.partition_by))
        assert why is None, f"{engine} on {folder.name}, plan {plan}\n{why}"


def test_there_are_cases() -> None:
    assert {"figure1", "java_before_without_a_partner"} <= {folder.name for folder in _FOLDERS}
