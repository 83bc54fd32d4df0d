"""Small scenarios for examples that are worked out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl

from tests.scenario import Clause, Definition, Scenario
from tests.truth import column

__all__ = ["lasting", "scene", "values"]

Rows = list[dict[str, Any]]


def scene(*clauses: Clause, times: tuple[int, ...] = (), **bits: str) -> Scenario:
    """Symbols whose predicates are the columns of their names."""
    length = max(len(word) for word in bits.values())
    times = times or tuple(range(1, length + 1))
    rows = tuple(
        {"ts": at, **{name: word[k : k + 1] == "1" for name, word in bits.items()}}
        for k, at in enumerate(times)
    )
    return Scenario(
        definitions=tuple(Definition(name, column(name)) for name in bits),
        clauses=clauses,
        rows=rows,
        schema={"ts": pl.Int64(), **{name: pl.Boolean() for name in bits}},
    )


def lasting(scenario: Scenario, least: int | None, most: int | None) -> Scenario:
    """The scenario with a duration constraint on its first symbol."""
    first, *others = scenario.definitions
    return scenario.having(
        definitions=(Definition(first.name, first.predicate, least, most), *others)
    )


def values(rows: Rows) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]
