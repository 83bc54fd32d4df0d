"""Queries over several streams through the public API: what goes in, what comes back, mistakes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import piestream as ps

_TWO = ps.query("""
    FROM a ORDER BY t WITH b ORDER BY t
    DEFINE x AS p > 1, y AS b.q > 1
    PATTERN x overlaps; contains y WITHIN 90 RETURN x.ts, y.ts
""")
_A = {"t": [1, 3, 5, 9], "p": [5, 7, 0, 0]}
_B = {"t": [2, 4, 6], "q": [0, 9, 0]}
_FOUND = [(5, 1, 4)]


def test_mixed_kinds_of_frames_give_the_kind_of_the_first() -> None:
    a, b = pl.DataFrame(_A), pd.DataFrame(_B)
    assert _TWO.run({"a": a, "b": b}).rows() == _FOUND
    assert isinstance(_TWO.run({"b": b, "a": a}), pd.DataFrame)
    assert _TWO.run({"a": a.to_dicts(), "b": a.with_columns(q="p").lazy()}) == []
    assert isinstance(_TWO.run({"a": a.lazy(), "b": b}), pl.LazyFrame)


def test_times_of_different_units_are_one_clock() -> None:
    start = datetime(2026, 1, 1)

    def moments(column: str, values: list[int], ticks: list[int], unit: str) -> pl.DataFrame:
        times = [start + timedelta(seconds=tick) for tick in ticks]
        frame = pl.DataFrame({"t": times, column: values})
        return frame.with_columns(pl.col("t").cast(pl.Datetime(unit)))  # type: ignore[arg-type]

    query = ps.query(str(_TWO).replace("WITHIN 90", "WITHIN 90 s"))
    a, b = moments("p", _A["p"], _A["t"], "ms"), moments("q", _B["q"], _B["t"], "ns")
    found = query.run({"a": a, "b": b})
    assert found.schema["detected_at"] == pl.Datetime("ns")
    assert found["detected_at"].to_list() == [start + timedelta(seconds=5)]


def test_clocks_that_do_not_mix_are_refused_by_their_columns() -> None:
    b = pl.DataFrame({"t": [datetime(2026, 1, 1)], "q": [1]})
    with pytest.raises(ps.QueryError, match=r"a \(t, Int64\).*b \(t, Datetime"):
        _TWO.run({"a": pl.DataFrame(_A), "b": b})


def test_streams_are_missed_and_misspelt_by_name() -> None:
    a = pl.DataFrame(_A)
    with pytest.raises(ps.QueryError, match="there are no rows for the stream b"):
        _TWO.run({"a": a})
    with pytest.raises(ValueError, match="reads no stream c: its streams are a, b"):
        _TWO.run({"a": a, "c": a})
    with pytest.raises(ValueError, match="say of which these rows are"):
        _TWO.open().push({"t": 1, "p": 2})


def test_rows_wait_until_the_types_of_all_streams_are_known() -> None:
    session = _TWO.open()
    assert session.push({"t": 1, "p": 5}, stream="a") == []
    with pytest.raises(ps.StateError, match="nothing was pushed yet"):
        session.snapshot()
    assert session.push({"t": 4, "q": 9}, stream="b") == []
    assert session.push({"t": 5, "p": 0}, stream="a") == []
    assert session.advance(6) == [{"detected_at": 5, "x_ts": 1, "y_ts": 4}]


def test_a_late_row_is_late_by_the_clock_of_all_streams() -> None:
    session = _TWO.open()
    session.push(pl.DataFrame(_A), stream="a")
    with pytest.raises(ps.LateEventError, match="of b is late"):
        session.push(pl.DataFrame(_B), stream="b")
    late = _TWO.open(on_late="drop", lateness=6)
    late.push(pl.DataFrame(_A), stream="a")
    late.push(pl.DataFrame(_B), stream="b")
    assert late.statistics.late == 1


def test_two_events_of_one_stream_tie_and_of_two_streams_do_not() -> None:
    a, b = pl.DataFrame(_A), pl.DataFrame({"t": [1, 3], "q": [9, 9]})
    assert _TWO.run({"a": a, "b": b}).height == 0
    with pytest.raises(ps.TieError, match="of b"):
        _TWO.run({"a": a, "b": pl.concat([b, b])})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"s": 5, "e": 5}, "starts at 5 and ends at 5"),
        ({"s": 6, "e": 5}, "starts at 6 and ends at 5"),
        ({"s": None, "e": 5}, "s is NULL in row 1"),
        ({"s": 5, "e": None}, "needs an ID"),
    ],
)
def test_rows_that_are_no_intervals_are_refused(row: dict[str, int], message: str) -> None:
    query = ps.query("FROM i FROM s TO e DEFINE x AS i PATTERN x WITHIN 9")
    with pytest.raises(ps.StreamError, match=message):
        query.run([{"s": 1, "e": 2}, row])


def test_a_beginning_that_comes_twice_counts_once() -> None:
    query = ps.query("FROM i FROM s TO e ID id DEFINE x AS i PATTERN x WITHIN 9 EMIT ON BOTH")
    rows = [{"id": 1, "s": 1, "e": None}] * 2 + [{"id": 1, "s": 1, "e": 4}]
    assert [row["phase"] for row in query.run(rows)] == ["trigger", "completion"]


def test_files_in_from_and_with_are_read(tmp_path: Path) -> None:
    pl.DataFrame(_A).write_csv(tmp_path / "a.csv")
    pl.DataFrame(_B).write_parquet(tmp_path / "b.parquet")
    text = str(_TWO).replace("FROM a", f"FROM '{tmp_path}/a.csv' AS a")
    text = text.replace("WITH b", f"WITH '{tmp_path}/b.parquet' AS b")
    query = ps.query(text)
    assert query.run().rows() == _FOUND
    assert query.run({"b": pl.DataFrame(_B)}).rows() == _FOUND


def test_a_match_that_closes_with_the_input_is_an_interval_of_the_next_query() -> None:
    runs = "FROM (FROM a ORDER BY t DEFINE x AS p > 1 PATTERN x WITHIN 50) AS runs"
    query = ps.query(f"{runs} DEFINE r AS runs PATTERN r WITHIN 50 RETURN r.ts, r.te")
    a = pl.DataFrame({"t": [1, 3, 9], "p": [5, 7, 7]})
    assert query.run(a).rows() == []
    assert query.run(a, at_end="close").rows() == [(9, 1, 9)]
