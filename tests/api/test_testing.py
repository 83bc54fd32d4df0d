"""The strategies and laws that users can import."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import piestream as ps
from piestream import testing


@settings(max_examples=25, deadline=None)
@given(testing.queries(), testing.events(), st.integers(0, 99))
def test_the_laws_hold_of_what_the_strategies_draw(
    query: ps.Query, frame: pl.DataFrame, seed: int
) -> None:
    testing.assert_same_however_cut(query, frame, seed)
    testing.assert_same_in_any_order(query, frame, seed)
    testing.assert_survives_restoring(query, frame, seed)


@settings(max_examples=25, deadline=None)
@given(
    testing.queries("ab", partitioned=True),
    testing.events("ab", partitions=3, columns={"v": st.integers(0, 9)}),
)
def test_the_laws_hold_of_partitions(query: ps.Query, frame: pl.DataFrame) -> None:
    assert frame.columns == ["t", "k", "a", "b", "v"]
    testing.assert_same_however_cut(query, frame, 1)
    if query.streams[0].max_gap is None:
        testing.assert_partitions_are_independent(query, frame)


class _Forgetful:
    """A query whose sessions forget the first match."""

    def __init__(self, query: ps.Query) -> None:
        self.query = query

    def __str__(self) -> str:
        return str(self.query)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    def open(self, **options: Any) -> Any:
        session = self.query.open(**options)
        push = session.push
        session.push = lambda rows: push(rows)[1:]
        return session


@pytest.mark.parametrize(
    "law",
    [
        testing.assert_same_however_cut,
        testing.assert_same_in_any_order,
        testing.assert_survives_restoring,
    ],
)
def test_a_broken_law_is_reported_with_the_query(law: Any) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [1, 2, 30], "x": [5, 0, 0]})
    law(query, frame)
    with pytest.raises(AssertionError, match="DEFINE a AS x > 1"):
        law(_Forgetful(query), frame, 0)


def test_a_law_is_not_asserted_where_it_does_not_apply() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    with pytest.raises(ValueError, match="PARTITION BY"):
        testing.assert_partitions_are_independent(query, pl.DataFrame({"t": [1], "x": [5]}))
