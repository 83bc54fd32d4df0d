"""A predicate means the same in Polars, in Python, and to a plain second evaluator."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest

from piestream.language import Predicate, QueryError, compile_mask
from tests.expressions.reference import holds
from tests.expressions.trees import SCHEMA, Expressions, past_of, rows, with_past


def frame_of(events: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.DataFrame(events, schema=SCHEMA)
    return with_past(frame)


@pytest.mark.parametrize("seed", range(12))
def test_polars_python_and_the_reference_agree(seed: int) -> None:
    random = Random(seed)
    expressions = Expressions(random)
    events = rows(random, 40)
    before: list[dict[str, Any] | None] = [None, *events[:-1]]
    frame = frame_of(events)
    checked = 0
    predicates = []
    for _ in range(40):
        text = expressions.truth(3)
        try:
            predicate = Predicate.parse(text)
            in_polars = predicate.to_polars(SCHEMA)
        except QueryError as error:  # the generator may mix types; nothing else may go wrong
            if not any(word in str(error) for word in ("mix", "whole numbers", "cast")):
                raise
            continue
        checked += 1
        predicates.append(predicate)
        again = Predicate.parse(predicate.text)
        assert again == predicate, text
        assert again.tree == predicate.tree, text  # equality itself trusts the text
        assert predicate.tree is not None
        expected = [holds(predicate.tree, e, p) for e, p in zip(events, before, strict=True)]
        function = predicate.to_python(SCHEMA)
        assert function is not None
        in_python = [function(e, past_of(p)) for e, p in zip(events, before, strict=True)]
        assert in_python == expected, text
        assert frame.select(in_polars).to_series().to_list() == expected, text
    assert checked > 20
    masks = compile_mask(predicates, SCHEMA)
    assert masks is not None
    for event, previous in zip(events, before, strict=True):
        mask = masks(event, past_of(previous))
        for bit, predicate in enumerate(predicates):
            assert predicate.tree is not None
            assert bool(mask >> bit & 1) is holds(predicate.tree, event, previous), predicate


#: What DuckDB means by these is what we mean, apart from NaN, which the rows leave out.
DUCKDB = [
    "i > 1 AND NOT (f < 2 OR s = 'a')",
    "i IN (1, 7, NULL)",
    "i NOT IN (1, 7)",
    "i NOT IN (1, NULL) OR b",
    "f BETWEEN -3 AND 2.5",
    "s LIKE 'a%' OR s NOT LIKE '_'",
    "s ILIKE 'A!%%' ESCAPE '!'",
    "COALESCE(f, i, 0) >= 1",
    "NULLIF(s, 'a') IS NULL",
    "CASE WHEN b THEN i WHEN c THEN 5 END > 3",
    "i % 3 = -1",
    "i IS DISTINCT FROM 7",
    "b IS NOT TRUE",
    "GREATEST(i, f) > 2",
    "LEAST(i, j) < 0",
    "LENGTH(s) = 2 AND UPPER(s) = 'AB'",
    "SUBSTRING(s, 2, 1) = 'b'",
    "TRIM(s) || 'x' = 'ax'",
    "FLOOR(f) = 2 OR CEIL(f) = 3",
    "ROUND(f) = 3 OR ROUND(f) = -3",
    "ABS(i) = 7 AND SIGN(i) = -1",
    "EXTRACT(DOW FROM d) = 4 OR EXTRACT(HOUR FROM t) = 23",
    "d < DATE '2026-01-03' AND t > TIMESTAMP '2026-01-01 00:00:00'",
    "i / 2 = 3.5",
    "b",
    "(b AND c) IS NULL",
]


@pytest.mark.parametrize("text", DUCKDB)
def test_duckdb_means_the_same(text: str) -> None:
    import duckdb

    small = [row | {"i": None if row["i"] is None else row["i"] % 20 - 10} for row in
             rows(Random(text), 60)]  # fmt: skip
    for row in small:
        for name in ("f", "g"):
            if row[name] is not None and abs(row[name]) < 1e9 and row[name] == row[name]:
                continue
            row[name] = None
    frame = pl.DataFrame(small, schema=SCHEMA)
    ours = frame.select(Predicate.parse(text).to_polars(SCHEMA)).to_series().to_list()
    table = frame.to_arrow()
    relation = duckdb.connect().from_arrow(table)
    theirs = [bool(row[0]) for row in relation.project(f"coalesce({text}, false)").fetchall()]
    assert ours == theirs
