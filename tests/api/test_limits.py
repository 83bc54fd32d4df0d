"""How large a query may be."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps


def nested(count: int) -> ps.Query:
    """Symbols inside one another: x above 0, above 1, …"""
    defined = ", ".join(f"s{i} AS x > {i}" for i in range(count))
    inside = " AND ".join(f"s{i} contains s{i + 1}" for i in range(count - 1))
    return ps.query(f"FROM s ORDER BY t DEFINE {defined} PATTERN {inside} WITHIN 1000")


def test_sixty_four_symbols_are_matched() -> None:
    top = 64
    climb = [*range(1, top + 1), *range(top - 1, -1, -1)]
    result = nested(64).run(pl.DataFrame({"t": range(len(climb)), "x": climb}))
    assert result.height == 1
    assert result["s0_ts"].item() == 0
    assert result["s63_ts"].item() == 63


def test_sixty_five_are_refused() -> None:
    with pytest.raises(ps.QueryError, match="at most 64 symbols, this has 65"):
        nested(65)


def test_a_window_of_more_than_64_bits_is_refused_where_it_has_a_unit() -> None:
    with pytest.raises(ps.QueryError, match="64-bit"):
        ps.query("FROM s DEFINE a AS x PATTERN a WITHIN 200000000 d")


def test_a_query_is_a_value() -> None:
    import pickle

    query = nested(3)
    assert ps.query(str(query)) == query
    assert hash(ps.query(str(query))) == hash(query)
    assert pickle.loads(pickle.dumps(query)) == query
    assert nested(4) != query


def test_a_window_of_more_ticks_than_there_are_holds_everything() -> None:
    query = ps.query(
        f"FROM s ORDER BY t DEFINE a AS x > 1, b AS x < 0 PATTERN a before b WITHIN {2**65}"
    )
    frame = pl.DataFrame({"t": [-(2**63) + 1, 0, 2**63 - 2], "x": [5, 0, -1]})
    assert query.run(frame).height == 1
