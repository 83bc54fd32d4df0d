"""Examples whose results others have published, and properties that a table's user relies on."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import piestream as ps

#: Twenty closing prices, one a day, that tutorials of the clause use.
_TICKER = pl.DataFrame(
    {
        "symbol": ["ACME"] * 20,
        "day": range(1, 21),
        "price": [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22],
    }
)
_V = "DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)"


def _run(clauses: str, frame: pl.DataFrame = _TICKER) -> list[tuple[object, ...]]:
    query = ps.query(f"FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day {clauses})")
    return query.run(frame).drop("symbol").rows()


def test_the_v_shapes_of_the_ticker() -> None:
    found = _run(f"""
        MEASURES STRT.day AS start_day, LAST(DOWN.day) AS bottom_day, LAST(UP.day) AS end_day
        ONE ROW PER MATCH AFTER MATCH SKIP TO LAST UP
        PATTERN (STRT DOWN+ UP+) {_V}
    """)
    assert found == [(5, 6, 10), (10, 12, 13), (14, 16, 18)]


def test_all_rows_of_the_v_shapes_with_running_and_final_values() -> None:
    found = _run(f"""
        MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS var,
                 RUNNING COUNT(UP.day) AS so_far, FINAL COUNT(UP.day) AS in_all
        ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST UP
        PATTERN (STRT DOWN+ UP+) {_V}
    """)
    assert found[:6] == [
        (5, 1, "STRT", 0, 4, 25),
        (6, 1, "DOWN", 0, 4, 12),
        (7, 1, "UP", 1, 4, 15),
        (8, 1, "UP", 2, 4, 20),
        (9, 1, "UP", 3, 4, 24),
        (10, 1, "UP", 4, 4, 25),
    ]
    assert [row[0] for row in found[6:]] == [10, 11, 12, 13, 14, 15, 16, 17, 18]


def test_the_w_shape_of_the_ticker() -> None:
    found = _run(f"""
        MEASURES FIRST(STRT.day) AS a, LAST(UP.day) AS b
        PATTERN (STRT DOWN+ UP+ DOWN+ UP+) {_V}
    """)
    assert found == [(5, 13)]


def test_the_live_matches_of_dejavus_first_table() -> None:
    """Falls of one step each, so that the longest match that ends at an event is any that does."""
    prices = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
    frame = pl.DataFrame({"symbol": ["x"] * 11, "day": range(11), "price": prices})
    found = _run(
        """
        MEASURES A.day AS ts, LAST(B.day) AS te, A.price AS init_price, LAST(B.price) AS min_price
        ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B+) DEFINE B AS B.price < PREV(B.price)
        """,
        frame,
    )
    assert found == [(0, 1, 10, 6), (2, 3, 6, 5), (4, 5, 7, 6), (6, 7, 11, 8), (8, 9, 8, 3)]


def test_empty_matches_are_numbered_and_have_no_rows() -> None:
    frame = pl.DataFrame({"symbol": ["x"] * 4, "day": [1, 2, 3, 4], "price": [1, 9, 9, 1]})
    measures = "MEASURES MATCH_NUMBER() AS n, COUNT(*) AS rows, FIRST(A.price) AS p"
    rest = "PATTERN (A*) DEFINE A AS price > 5"
    assert _run(f"{measures} {rest}", frame) == [(1, 0, None), (2, 2, 9), (3, 0, None)]
    assert _run(f"{measures} ALL ROWS PER MATCH OMIT EMPTY MATCHES {rest}", frame) == [
        (2, 2, 1, 9, 9),
        (3, 2, 2, 9, 9),
    ]


def test_unmatched_rows_have_no_measures() -> None:
    frame = pl.DataFrame({"symbol": ["x"] * 4, "day": [1, 2, 3, 4], "price": [1, 9, 9, 1]})
    found = _run(
        "MEASURES MATCH_NUMBER() AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS "
        "PATTERN (A+) DEFINE A AS price > 5",
        frame,
    )
    assert found == [(1, None, 1), (2, 1, 9), (3, 1, 9), (4, None, 1)]


def test_nested_quantifiers_take_linear_time() -> None:
    """A search that backtracks does not come to an end on a thousand of these rows."""
    n = 1_000_000
    held = np.ones(n + 1, np.bool_)
    held[-1] = False
    frame = pl.DataFrame({"t": np.arange(n + 1), "a": held})
    text = "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN ((A+)+ {}) DEFINE A AS a, B AS {})"
    assert ps.query(text.format("B", "NOT a")).run(frame).rows() == [(n + 1,)]
    assert ps.query(text.format("B", "a AND NOT a")).run(frame).rows() == []
    session = ps.query(text.format("B", "t < 0")).open()
    for part in frame[:200_000].iter_slices(1_000):
        assert not len(session.push(part))


def test_a_session_keeps_no_more_rows_than_can_be_in_a_match() -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES LAST(A.t) AS n PATTERN (A{3}) DEFINE A AS x > 0)"
    )
    session = query.open()
    rows = pl.DataFrame({"t": range(5_000), "x": [1, 1, 0, 1, 1] * 1_000})
    given = pl.concat([session.push(part) for part in rows.iter_slices(7)])
    assert len(given) == len(query.run(rows)) == 999
    assert session.statistics.live_intervals <= 16


def test_what_stays_open_for_long_is_followed_event_by_event() -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(t) AS a, COUNT(*) AS n PATTERN (A+ B) "
        "DEFINE A AS x = 1, B AS x = 2)"
    )
    rows = [{"t": t, "x": x} for t, x in enumerate([*[1] * 40, 0, 1, 1, 2, *[1] * 50, 2])]
    session = query.open()
    given = [(row["t"], found) for row in rows for found in session.push(row)]
    assert given == [(43, {"a": 41, "n": 3}), (94, {"a": 44, "n": 51})]
    assert [found for _, found in given] == query.run(rows)


def test_within_cuts_a_match_off_when_time_has_passed() -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(A.t) AS a, LAST(A.t) AS b "
        "PATTERN (A+) WITHIN 10 s DEFINE A AS x > 0)"
    )
    start = datetime(2026, 1, 1)
    session = query.open()
    for seconds in (0, 4):
        assert session.push({"t": start + timedelta(seconds=seconds), "x": 1}) == []
    assert session.advance(start + timedelta(seconds=10)) == []
    found = session.advance(start + timedelta(seconds=11))
    assert found == [{"a": start, "b": start + timedelta(seconds=4)}]
    assert session.close() == []


def test_the_end_of_a_partition_may_still_come_when_within_is_over() -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A A $) WITHIN 2 "
        "DEFINE A AS x > 0)"
    )
    rows = [{"t": t, "x": 1} for t in (1, 3)]
    assert query.run(rows) == [{"n": 2}]
    session = query.open()
    assert [session.push(row) for row in rows] == [[], []]
    assert session.close() == [{"n": 2}]
    session = query.open()
    assert [session.push(row) for row in [*rows, {"t": 9, "x": 0}]] == [[], [], []]
    assert session.close() == []


def test_texts_times_and_floats_come_back_as_they_are() -> None:
    frame = pl.DataFrame(
        {
            "k": ["a", "a", "a"],
            "t": [datetime(2026, 1, d) for d in (1, 2, 3)],
            "name": ["z", None, "m"],
            "f": [1.5, float("nan"), 2.5],
        }
    )
    query = ps.query("""
        FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY t
        MEASURES FIRST(A.name) AS first, LAST(A.name) AS last, MIN(name) AS least, LAST(A.t) AS seen,
                 AVG(f) AS mean, k || '!' AS shout, f / 0 AS nothing
        PATTERN (A+) DEFINE A AS TRUE)
    """)
    (row,) = query.run(frame).rows()
    assert row == (
        "a", "z", "m", "m", datetime(2026, 1, 3), 2.0, "a!", None,
    )  # fmt: skip


def test_every_kind_of_frame_comes_back() -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS x > 1)"
    )
    frame = pl.DataFrame({"t": [1, 2, 3], "x": [5, 6, 0]})
    assert query.run(frame.lazy()).collect().rows() == [(2,)]
    assert query.run(frame.to_pandas())["n"].tolist() == [2]
    assert query.run(frame.to_arrow()).to_pylist() == [{"n": 2}]
    assert query.run(frame.to_dicts()) == [{"n": 2}]
    assert query.run(frame[:0]).schema == {"n": pl.Int64}


def test_files_are_read_by_a_row_pattern(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pl.DataFrame({"t": [3, 1, 2], "x": [0, 5, 6]}).write_parquet(path)
    query = ps.query(
        f"FROM '{path}' MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS x > 1)"
    )
    assert query.run().rows() == [(2,)]


def test_a_large_frame_in_one_partition_gives_what_its_parts_would() -> None:
    n = 200_000
    frame = pl.DataFrame({"t": np.arange(n), "x": np.arange(n) % 7})
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(A.t) AS a, COUNT(*) AS n "
        "PATTERN (A B{6}) DEFINE A AS x = 0, B AS x > PREV(x))"
    )
    assert len(query.run(frame)) == n // 7
    with pytest.warns(ps.ResultWarning):
        assert len(query.run(frame, limit=5)) == 5


def test_a_damaged_state_is_refused() -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS x > 1)"
    )
    session = query.open()
    session.push([{"t": 1, "x": 5}])
    state = session.snapshot()
    assert query.open(state=state).close() == [{"n": 1}]
    with pytest.raises(ps.StateError):
        query.open(state=state[:-1])
    other = ps.query(str(query).replace("A+", "A*"))
    with pytest.raises(ps.StateError, match="another query"):
        other.open(state=state)
