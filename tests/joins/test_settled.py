"""Which befores have an earlier side that is settled when their later side begins."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.binding import bind
from piestream.joins import layout as at
from piestream.joins.tables import Tables
from piestream.query.model import Query


def _tables(query: Query) -> Tables:
    schema = {"ts": pl.Int64(), **{name: pl.Boolean() for name in "abcd"}}
    return bind(query, schema).tables


@pytest.mark.parametrize(
    ("pattern", "settled"),
    [
        ("a before b", {"a b"}),
        ("b after a", {"a b"}),
        ("a before b AND b before c AND c before d", {"a b", "b c", "c d"}),
        ("a before c AND b before c AND c before d", {"a c", "b c", "c d"}),
        # b may still begin: what lies behind a, seen from c, is not settled
        ("a before b AND a before c", set()),
        ("a overlaps b AND b before c", set()),
        ("a before;meets b AND b before c", set()),
        ("a before b AND b before;meets c", {"a b"}),
        ("a before;after b", set()),
    ],
)
def test_befores_whose_earlier_side_is_settled(pattern: str, settled: set[str]) -> None:
    names = sorted({word for word in pattern.split() if len(word) == 1})
    defined = ", ".join(f"{name} AS {name}" for name in names)
    tables = _tables(ps.query(f"FROM s ORDER BY ts DEFINE {defined} PATTERN {pattern} WITHIN 9"))
    found = set()
    for number in range(tables.code[at.N_CONSTRAINTS]):
        entry = tables.code[at.CONSTRAINTS_AT] + number * at.CON_WORDS
        for side in range(2):
            block = entry + at.CON_SIDES + side * at.SIDE_WORDS
            if tables.code[block + at.SIDE_LATER] == at.NOWHERE:
                continue
            if tables.code[block + at.SIDE_BEST] != at.NOWHERE:
                ends = tables.code[entry + at.CON_X], tables.code[entry + at.CON_Y]
                later, earlier = ends[side], ends[1 - side]
                found.add(f"{names[earlier]} {names[later]}")
    assert found == settled
