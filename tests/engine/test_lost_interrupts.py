"""Nothing that an interruption may end is called where NumPy would lose the exception."""

from __future__ import annotations

import enum
from typing import Any

import polars as pl
import pytest

import piestream as ps


@pytest.mark.parametrize("clauses", ["", "EMIT ON BOTH", "WHERE a.te > 0"])
def test_numpy_looks_nothing_up_in_an_enum(clauses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def looked(cls: type, name: str) -> Any:
        looked_up.append(name)
        raise AttributeError(name)

    query = ps.query(f"FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 {clauses}")
    rows = pl.DataFrame({"t": range(6), "x": [0, 2, 2, 0, 2, 0]})
    expected = query.open().push(rows)
    # Python 3.11 has this method, in which a signal may be handled; NumPy drops what it raises
    monkeypatch.setattr(enum.EnumMeta, "__getattr__", looked, raising=False)
    found = query.open().push(rows)
    assert not [name for name in looked_up if name.startswith("__array")]
    assert found.equals(expected)
