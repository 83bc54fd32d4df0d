"""Laws of tables of intervals, over any that Hypothesis can think of."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

import piestream as ps
from piestream.relations import ALL_NAMES, Relation, inverse, names
from tests.interval_tables import brute
from tests.interval_tables.brute import Row
from tests.interval_tables.cases import frame_of

_times = st.integers(-(2**62), 2**62) | st.integers(-5, 5)
_rows = st.lists(
    st.builds(
        lambda ts, length, key: Row(ts, ts + length, key),
        _times,
        st.integers(1, 4) | st.integers(1, 2**61),
        st.sampled_from(["a", "b", None]),
    ),
    max_size=12,
)
_relations = st.integers(1, (1 << len(ALL_NAMES)) - 1).map(Relation)


def _pairs(found: pl.DataFrame) -> list[tuple[int, int]]:
    return found.select("row_x", "row_y").rows()


@settings(deadline=None, max_examples=200)
@given(_rows, _rows)
def test_each_pair_has_the_relation_that_its_definition_says(xs: list[Row], ys: list[Row]) -> None:
    found = ps.relate(frame_of(xs), frame_of(ys), on="k")
    expected = brute.join(xs, ys, brute.HOLDS)
    assert found.select("row_x", "row_y", "relation").rows() == expected


@settings(deadline=None, max_examples=200)
@given(_rows, _rows, _relations)
def test_x_and_y_exchanged_give_the_inverse_relations(
    xs: list[Row], ys: list[Row], relations: Relation
) -> None:
    x, y = frame_of(xs), frame_of(ys)
    there = ps.join(x, y, relations, on="k", relation="how")
    back = ps.join(y, x, inverse(relations), on="k", relation="how")
    assert sorted(_pairs(there)) == sorted((b, a) for a, b in _pairs(back))
    inverses = {name: names(inverse(Relation(1 << i)))[0] for i, name in enumerate(ALL_NAMES)}
    one = {(a, b): how for a, b, how in there.select("row_x", "row_y", "how").rows()}
    other = {(b, a): inverses[how] for a, b, how in back.select("row_x", "row_y", "how").rows()}
    assert one == other


@settings(deadline=None, max_examples=200)
@given(_rows, _rows, _relations, st.integers(1, 4))
def test_the_nearest_are_among_all_and_nearer_than_the_rest(
    xs: list[Row], ys: list[Row], relations: Relation, nearest: int
) -> None:
    x, y = frame_of(xs), frame_of(ys)
    every = _pairs(ps.join(x, y, relations, on="k"))
    kept = _pairs(ps.join(x, y, relations, on="k", nearest=nearest))
    assert set(kept) <= set(every)
    for i, row in enumerate(xs):
        mine = [b for a, b in kept if a == i]
        rest = [b for a, b in every if a == i and b not in mine]
        assert len(mine) == min(nearest, len(mine) + len(rest))
        gaps = [[brute.gap(row, ys[b]) for b in part] for part in (mine, rest)]
        assert not gaps[1] or max(gaps[0]) <= min(gaps[1])


@settings(deadline=None, max_examples=200)
@given(_rows)
def test_a_union_is_covered_and_touches_no_other(rows: list[Row]) -> None:
    frame = frame_of([Row(row.ts, row.te, row.key or "none") for row in rows])
    unions = ps.merge(frame, on="k")
    assert unions["count"].sum() == len(rows)
    assert ps.merge(unions.drop("count"), on="k").drop("count").equals(unions.drop("count"))
    assert ps.coverage(frame, unions, on="k")["covered_share"].to_list() == [1.0] * len(rows)
    stretches = ps.depth(frame, on="k")
    assert ps.merge(stretches.drop("count"), on="k").drop("count").equals(unions.drop("count"))
