"""What a join can be asked for besides pairs: rows without partners, pieces, names, keys."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.interval_tables import joining
from tests.interval_tables import brute
from tests.interval_tables.cases import frame_of, random_case

X = pl.DataFrame({"id": ["p", "q", None], "ts": [0, 10, 20], "te": [5, 15, 25], "v": [1, 2, 3]})
Y = pl.DataFrame({"id": ["p", "p", None], "ts": [3, 4, 21], "te": [8, 9, 22], "v": [7, 8, 9]})


def test_rows_without_a_partner_are_kept_or_chosen(seeds: list[int]) -> None:
    for seed in seeds:
        case = random_case(seed)
        x, y = frame_of(case.xs), frame_of(case.ys)
        pairs = brute.join(case.xs, case.ys, case.names, case.distances)
        with_partner = {i for i, _, _ in pairs}
        lonely = [(i, None, None) for i in range(len(x)) if i not in with_partner]

        left = ps.join(x, y, case.relations, on="k", where=case.where, how="left", relation="how")
        found = left.select("row_x", "row_y", "how").rows()
        assert found == sorted([*pairs, *lonely], key=lambda pair: pair[0]), f"seed {seed}"
        for how, wanted in (("semi", True), ("anti", False)):
            chosen = ps.join(x, y, case.relations, on="k", where=case.where, how=how)  # type: ignore[arg-type]
            expected = [i for i in range(len(x)) if (i in with_partner) == wanted]
            assert chosen["row"].to_list() == expected, f"seed {seed}, {how}"
            assert chosen.columns == x.columns


def test_pieces_are_the_join_cut_into_pieces(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        case = random_case(seed)
        x, y = frame_of(case.xs), frame_of(case.ys)
        whole = ps.join(x, y, case.relations, on="k", how="left")
        pieces = list(ps.join_pieces(x, y, case.relations, on="k", how="left", rows=7))
        assert all(len(piece) <= 7 for piece in pieces)
        assert pl.concat(pieces).equals(whole)


def test_pieces_of_a_large_result_stay_small_and_lose_nothing() -> None:
    n = 40_000
    x = pl.DataFrame({"row": range(n), "ts": range(n), "te": range(1, n + 1)})
    sizes = [len(p) for p in ps.join_pieces(x, x, "contains; equals; meets; met-by", rows=5_000)]
    assert sum(sizes) == n + 2 * (n - 1)
    assert max(sizes) <= 5_000


@pytest.mark.parametrize("descending", [False, True])
def test_no_piece_is_much_larger_than_asked_for(descending: bool) -> None:
    n = 3_000
    x = pl.DataFrame({"row": range(n), "ts": range(n), "te": range(n, 2 * n)})
    if descending:
        x = x.reverse()
    prepared = joining._prepared(
        x, x, "intersects", None, None, None, "inner", None, "ts", "te", ("_x", "_y")
    )
    sizes = [len(piece.x_rows) for piece in prepared.finder.pieces(20_000)]
    assert sum(sizes) == n * n
    assert max(sizes) <= 20_000 + n
    whole = ps.join(x, x, "overlaps")
    assert pl.concat(ps.join_pieces(x, x, "overlaps", rows=10_000)).equals(whole)


def test_equal_names_get_suffixes_and_keys_stay_one_column() -> None:
    found = ps.join(X, Y, "overlaps", on="id")
    assert found.columns == ["id", "ts_x", "te_x", "v_x", "ts_y", "te_y", "v_y"]
    assert found.rows() == [("p", 0, 5, 1, 3, 8, 7), ("p", 0, 5, 1, 4, 9, 8)]
    found = ps.join(X, Y, "overlaps", on="id", suffixes=("", "_right"))
    assert found.columns == ["id", "ts", "te", "v", "ts_right", "te_right", "v_right"]


def test_columns_have_their_own_names_on_each_side() -> None:
    y = Y.rename({"ts": "began", "te": "ended", "id": "name"})
    for end in (("te", "ended"),):
        found = ps.join(X, y, "overlaps", on={"id": "name"}, start=("ts", "began"), end=end,
                        where="y.began - x.te BETWEEN -2 AND -2")  # fmt: skip
        assert found.columns == ["id", "ts", "te", "v_x", "began", "ended", "v_y"]
        assert found.rows() == [("p", 0, 5, 1, 3, 8, 7)]


def test_missing_keys_have_no_partner() -> None:
    assert ps.join(X, Y, "contains", on="id").rows() == []
    assert ps.join(X, Y, "contains").rows() == [(None, 20, 25, 3, None, 21, 22, 9)]
    x = pl.DataFrame({"k": [float("nan"), 0.0, None], "ts": [0, 0, 0], "te": [2, 2, 2]})
    assert ps.join(x, x, "equals", on="k").rows() == [(0.0, 0, 2, 0, 2)]
    assert ps.coverage(x, x, on="k")["covering"].to_list() == [0, 1, 0]


def test_missing_keys_are_a_group_of_unions_and_depths() -> None:
    rows = pl.DataFrame({"k": [None, "a", None], "ts": [0, 0, 1], "te": [2, 1, 3]})
    assert ps.merge(rows, on="k").rows() == [(None, 0, 3, 2), ("a", 0, 1, 1)]
    assert ps.depth(rows, on=["k"]).rows() == [
        (None, 0, 1, 1), (None, 1, 2, 2), (None, 2, 3, 1), ("a", 0, 1, 1),
    ]  # fmt: skip


def test_keys_may_be_several_columns_of_several_types() -> None:
    x = pl.DataFrame({"a": [1, 1, 2], "b": ["u", "v", "u"], "ts": [0, 0, 0], "te": [9, 9, 9]})
    y = x.with_columns(pl.col("a").cast(pl.Int16), pl.col("b").cast(pl.Categorical))
    found = ps.join(x, y, "equals", on=["a", "b"])
    assert found.select("a", "b").rows() == [(1, "u"), (1, "v"), (2, "u")]


@pytest.mark.parametrize("step", [1, 10**17])
def test_keys_may_be_integers_near_each_other_or_far_apart(step: int) -> None:
    keys = [3 * step, None, -2 * step, 3 * step]
    frame = pl.DataFrame({"row": range(4), "k": keys, "ts": [0] * 4, "te": [1] * 4})
    found = ps.join(frame, frame.with_columns(pl.col("k").cast(pl.Int128)), "equals", on="k")
    assert found.select("row_x", "row_y").rows() == [(0, 0), (0, 3), (2, 2), (3, 0), (3, 3)]


def test_rows_need_not_come_in_order_of_time() -> None:
    x = pl.DataFrame({"row": range(3), "ts": [9, 1, 5], "te": [10, 8, 6]})
    y = pl.DataFrame({"row": range(3), "ts": [5, 1, 3], "te": [6, 2, 4]})
    found = ps.join(x, y, "intersects; after")
    assert found.select("row_x", "row_y").rows() == [
        (0, 1), (0, 2), (0, 0), (1, 1), (1, 2), (1, 0), (2, 1), (2, 2), (2, 0),
    ]  # fmt: skip


def test_a_pair_row_has_its_relation() -> None:
    case = random_case(3)
    pairs = [(x, y) for x in case.xs for y in case.ys]
    frame = pl.DataFrame(
        {
            "a": [x.ts for x, _ in pairs], "b": [x.te for x, _ in pairs],
            "c": [y.ts for _, y in pairs], "d": [y.te for _, y in pairs],
        }
    )  # fmt: skip
    found = ps.relate(frame, start=("a", "c"), end=("b", "d"), relation="how")
    assert found.drop("how").equals(frame)
    assert found["how"].to_list() == [brute.relation_of(x, y) for x, y in pairs]


def test_relate_gives_every_pair_with_equal_keys(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        case = random_case(seed)
        found = ps.relate(frame_of(case.xs), frame_of(case.ys), on="k")
        expected = brute.join(case.xs, case.ys, brute.HOLDS)
        assert found.select("row_x", "row_y", "relation").rows() == expected


@pytest.mark.parametrize("empty", ["x", "y", "both"])
@pytest.mark.parametrize("on", [None, "id"])
def test_empty_frames_give_empty_results_of_the_same_columns(empty: str, on: str | None) -> None:
    x = X.clear() if empty in ("x", "both") else X
    y = Y.clear() if empty in ("y", "both") else Y
    full = ps.join(X, Y, "intersects", on=on, relation="r")
    for nearest in (None, 2):
        found = ps.join(x, y, "intersects; before", on=on, relation="r", nearest=nearest)
        assert (found.rows(), found.schema) == ([], full.schema)
    assert len(ps.join(x, y, "before", on=on, how="left")) == len(x)
    assert len(ps.join(x, y, "before", on=on, how="anti")) == len(x)
    assert ps.coverage(x, y, on=on)["covering"].to_list() == [0] * len(x)
    assert ps.merge(X.clear(), on=on).schema == ps.merge(X, on=on).schema
    assert ps.depth(X.clear(), on=on).schema == ps.depth(X, on=on).schema
