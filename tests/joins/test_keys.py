"""Join keys: equalities of WHERE whose values are known from the start of an interval."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.engine.stream import Stream
from piestream.plan.binding import bind

KEYED = "WHERE FIRST(a.product) = FIRST(b.product)"
#: The same condition, which is no equality of two values.
JUDGED = "WHERE FIRST(a.product) - FIRST(b.product) = 0"


def events(count: int, products: int, dtype: Any = None, seed: int = 1) -> pl.DataFrame:
    """So many intervals of a and of b in turn, of one event each, with a product at random."""
    ts = np.arange(4 * count)
    product = np.random.default_rng(seed).integers(0, products, ts.size)
    frame = pl.DataFrame({"ts": ts, "x": ts % 4 == 0, "y": ts % 4 == 2, "product": product})
    return frame if dtype is None else frame.with_columns(pl.col("product").cast(dtype))


def query(pattern: str, where: str, within: int = 10**9, define: str = "") -> ps.Query:
    text = f"FROM s ORDER BY ts DEFINE a AS x{define}, b AS y{define} PATTERN {pattern}"
    return ps.query(f"{text} WITHIN {within} {where} RETURN a.ts, b.ts, FIRST(a.product)")


def work(asked: ps.Query, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows, and the steps of extension that they took."""
    stream = Stream(bind(asked, frame.schema), lateness=None, whole=True)
    return stream.process(frame), stream.detector.work.steps


@pytest.mark.parametrize("pattern", ["a before b", "a after b", "a before; after b"])
def test_intervals_with_equal_keys_cost_the_matching_pairs(pattern: str) -> None:
    frame = events(2_000, 1_000)
    keyed, steps = work(query(pattern, KEYED), frame)
    judged, all_pairs = work(query(pattern, JUDGED), frame)
    assert keyed.rows() == judged.rows()
    assert len(keyed) > 1_500
    assert all_pairs > 1_900_000
    assert steps < 3 * len(keyed) + 4_000


def test_twice_the_intervals_with_as_many_partners_each_take_twice_the_steps() -> None:
    (_, once), (_, twice) = (work(query("a before b", KEYED), events(n, n)) for n in (2_000, 4_000))
    assert twice < 2.2 * once


@pytest.mark.parametrize("dtype", [pl.String, pl.Float64, pl.Int8, pl.UInt64, pl.Categorical])
def test_keys_may_have_any_type(dtype: Any) -> None:
    frame = events(200, 60)
    found, _ = work(
        query("a before b", KEYED),
        frame.with_columns(pl.col("product").cast(pl.String).cast(dtype)),
    )
    expected, _ = work(query("a before b", JUDGED), frame)
    assert found.drop("first_a_product").rows() == expected.drop("first_a_product").rows()
    assert len(found) > 100


def test_texts_of_two_columns_are_keys_and_new_ones_keep_them_so() -> None:
    """Each batch brings texts of one column that come between those of the other."""
    frame = events(400, 60).with_columns(pl.col("product").cast(pl.String).alias("text"))
    frame = frame.with_columns(other=pl.when("y").then("text").otherwise(pl.lit("~")))
    frame = frame.with_columns(text=pl.when("y").then(pl.lit("!")).otherwise("text"))
    text = "FROM s ORDER BY ts DEFINE a AS x, b AS y PATTERN a before b WITHIN 500 {} RETURN a.ts, b.ts"
    keyed = ps.query(text.format("WHERE FIRST(a.text) = FIRST(b.other)"))
    plain = ps.query(text.format("WHERE FIRST(a.product) - FIRST(b.product) = 0"))
    (found, steps), (expected, all_pairs) = work(keyed, frame), work(plain, frame)
    assert found.rows() == expected.rows()
    assert len(found) > 100
    assert 5 * steps < all_pairs
    session, rows = keyed.open(), []
    for at in range(0, len(frame), 90):
        rows += session.push(frame[at : at + 90]).rows()
        session = keyed.open(state=session.snapshot())
    assert rows == expected.rows()


def test_a_text_whose_column_was_null_at_first_is_a_key() -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS p = 1, b AS p = 2 PATTERN a before b WITHIN 50 "
        "WHERE FIRST(a.x) = FIRST(b.y) RETURN a.ts, b.ts, FIRST(a.x)"
    )
    session, rows = query.open(), []
    for t, p, x, y in [(1, 1, None, "v"), (2, 0, None, "v"), (3, 2, None, "w"), (4, 0, "u", "w"),
                       (5, 1, "w", "a"), (6, 0, "w", "a"), (7, 2, "w", "w")]:  # fmt: skip
        rows += session.push({"t": t, "p": p, "x": x, "y": y})
    assert [tuple(row.values()) for row in rows] == [(7, 5, 7, "w")]


def test_both_zeros_are_one_key_and_nothing_is_equal_to_null() -> None:
    frame = pl.DataFrame(
        {
            "ts": range(8),
            "x": [True, False, True, False, True, False, False, False],
            "y": [False, False, False, False, False, False, True, False],
            "product": [0.0, 1, None, 1, float("nan"), 1, -0.0, 1],
        }
    )
    assert work(query("a before b", KEYED), frame)[0]["a_ts"].to_list() == [0]
    nulls = frame.with_columns(product=pl.lit(None, pl.Float64))
    assert not len(work(query("a before b", KEYED), nulls)[0])


@pytest.mark.parametrize("dtype", [pl.Int64, pl.String])
@pytest.mark.parametrize("define", ["", " AT MOST 2", " AT LEAST 2"])
def test_keys_outlive_growth_compaction_new_codes_and_snapshots(dtype: Any, define: str) -> None:
    """The index is made anew wherever slots move, values get other codes, or runs are taken back."""
    rng = Random(f"{dtype} {define}")
    n = 600
    frame = pl.DataFrame(
        {
            "ts": range(n),
            "x": [rng.random() < 0.5 for _ in range(n)],
            "y": [rng.random() < 0.5 for _ in range(n)],
            "product": [rng.randint(0, 3) * (1 + i // 100) for i in range(n)],
        }
    )
    text = query("a before; overlaps; meets b", KEYED, 60, define)
    plain = query("a before; overlaps; meets b", JUDGED, 60, define)
    expected = plain.run(frame).rows()
    assert len(expected) > 50
    frame = frame.with_columns(pl.col("product").cast(dtype))
    assert [row[:3] for row in text.run(frame).rows()] == [row[:3] for row in expected]
    session, found, at = text.open(), [], 0
    while at < n:
        size = rng.choice((1, 3, 50))
        found += session.push(frame[at : at + size]).rows()
        at += size
        if rng.random() < 0.3:
            session = text.open(state=session.snapshot())
    assert [row[:3] for row in found] == [row[:3] for row in expected]


def test_a_key_between_symbols_that_no_constraint_connects_is_checked_on_the_way() -> None:
    frame = events(150, 20).with_columns(z=pl.col("ts") % 4 == 3)
    text = (
        "FROM s ORDER BY ts DEFINE a AS x, b AS y, c AS z PATTERN a before b AND b before c "
        "WITHIN 40 WHERE FIRST(a.product) {} FIRST(c.product) {} RETURN a.ts, b.ts, c.ts"
    )
    keyed, steps = work(ps.query(text.format("=", "")), frame)
    judged, more = work(ps.query(text.format("-", "= 0")), frame)
    assert keyed.rows() == judged.rows()
    assert len(keyed) > 0
    assert steps <= more


def test_each_of_several_keys_of_two_symbols_is_checked_on_the_way() -> None:
    frame = events(150, 5).with_columns(z=pl.col("ts") % 4 == 3, lane=pl.col("ts") // 7 % 5)
    text = (
        "FROM s ORDER BY ts DEFINE a AS x, b AS y, c AS z PATTERN c before a AND a before b "
        "WITHIN 100 WHERE FIRST(a.product) = FIRST(b.product) AND FIRST(b.lane) {} FIRST(a.lane) {} "
        "RETURN a.ts, b.ts, c.ts"
    )
    keyed, steps = work(ps.query(text.format("=", "")), frame)
    judged, more = work(ps.query(text.format("-", "= 0")), frame)
    assert keyed.rows() == judged.rows()
    assert len(keyed) > 0
    assert 3 * steps < more


def test_explanations_say_which_equalities_are_join_keys() -> None:
    explained = query("a before b", KEYED + " AND COUNT(a) = COUNT(b)").explain()
    assert explained.section("Where") == (
        "FIRST(a.product) = FIRST(b.product) AND COUNT(a) = COUNT(b): "
        "judged at the report of a match\n"
        "FIRST(a.product) = FIRST(b.product): a join key, known from the start of an interval"
    )
    nothing = query("a before b", "WHERE FIRST(a.product) = FIRST(b.product) OR a.ts > 5").explain()
    assert "join key" not in nothing.section("Where")
