"""Queries over several streams through the public API: what goes in, what comes back, mistakes."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import piestream as ps
from piestream.adapters.input_session import InputFeed
from piestream.engine.combined import CombinedStream
from piestream.plan.combined import bind_combined

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
    with pytest.raises(ps.TieError, match=r"of b; .* ORDER BY t, seq takes all of them"):
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


@pytest.mark.parametrize(
    ("bound", "found"),
    [
        ("AT LEAST 3 EVENTS", [(7, 1)]),  # at the third event of a, whatever comes of b before
        ("AT LEAST 4 EVENTS", []),
        ("AT MOST 3 EVENTS", [(9, 1)]),
        ("AT MOST 2 EVENTS", []),
        ("AT LEAST 2 EVENTS AT LEAST 5", [(6, 1)]),  # the duration is reached with an event of b
    ],
)
@pytest.mark.parametrize("by", ["frames", "events"])
def test_bounds_on_events_count_those_of_the_symbols_own_stream(
    bound: str, found: list[tuple[int, int]], by: str
) -> None:
    text = (
        f"FROM a ORDER BY t WITH b ORDER BY t DEFINE x AS a.p > 0 {bound}, y AS b.q > 0 "
        "PATTERN x overlaps; contains; finished-by y WITHIN 50 RETURN x.ts"
    )
    a = [{"t": t, "p": p} for t, p in ((1, 1), (4, 1), (7, 1), (9, 0), (20, 0))]
    b = [{"t": t, "q": q} for t, q in ((0, 0), (2, 1), (3, 1), (5, 1), (6, 1), (8, 1), (20, 1))]
    query = ps.query(text)
    if by == "frames":
        rows = query.run({"a": a, "b": b})
    else:
        session = query.open(schema={"a": {"t": int, "p": int}, "b": {"t": int, "q": int}})
        both = [*(("a", row) for row in a), *(("b", row) for row in b)]
        rows = []
        for stream, row in sorted(both, key=lambda one: one[1]["t"]):
            rows += session.push(row, stream=stream)
        rows += session.close()
    assert [tuple(row.values()) for row in rows] == found


def test_equal_texts_of_two_streams_are_a_join_key() -> None:
    """Rows of one stream are found among those of the other by a text that both have."""
    n = 300
    orders = pl.DataFrame(
        {"s": range(n), "e": [t + 1 for t in range(n)], "name": [f"n{t % 100}" for t in range(n)]}
    )
    bills = orders.with_columns(pl.col("s", "e") + 1_000, name=pl.col("name").reverse())
    text = (
        "FROM orders FROM s TO e WITH bills FROM s TO e DEFINE o AS orders, b AS bills "
        "PATTERN o before b WITHIN 9000 WHERE FIRST(o.name) = FIRST(b.name) RETURN o.ts, b.ts"
    )
    query = ps.query(text)
    found = query.run({"orders": orders, "bills": bills})
    starts = [(o, b + 1_000) for o in range(n) for b in range(n) if o % 100 == (n - 1 - b) % 100]
    assert sorted(row[1:] for row in found.rows()) == starts
    schemas = {"orders": orders.schema, "bills": bills.schema}
    assert len(bind_combined(query, schemas).compiled.keys) == 1
    session, rows = query.open(schema=schemas), []
    for part in orders.iter_slices(70):
        rows += session.push(part, stream="orders").rows()
    for part in bills.iter_slices(70):
        rows += session.push(part, stream="bills").rows()
        session = query.open(state=session.snapshot())
    rows += session.close().rows()
    assert sorted(rows) == sorted(found.rows())


_OPEN = "FROM i FROM s TO e ID id DEFINE x AS n > 0, y AS n < 0 PATTERN x {} y WITHIN 50 "


def test_rows_without_an_end_are_closed_at_the_last_instant_of_their_partition() -> None:
    rows = [{"id": 1, "n": 1, "s": 1, "e": None}, {"id": 2, "n": -1, "s": 4, "e": None}]
    query = ps.query(_OPEN.format("started-by; overlaps; contains; finished-by"))
    returning = ps.query(f"{query} RETURN x.te, y.te, DURATION(y), RELATION(x, y)")
    assert query.run(rows) == query.run(rows, at_end="close")
    rows += [{"id": 3, "n": 0, "s": 7, "e": None}]
    # both end together at the last instant, so neither overlaps the other
    complete = ps.query(str(returning).replace("RETURN", "EMIT ON COMPLETION RETURN"))
    assert complete.run(rows) == []
    (found,) = complete.run(rows, at_end="close")
    assert [*found.values()] == [7, 7, 7, 3, "finished-by"]


def test_a_row_that_begins_with_the_last_instant_ends_a_tick_later() -> None:
    rows = [{"id": 1, "n": 1, "s": 1, "e": None}, {"id": 2, "n": -1, "s": 4, "e": None}]
    session = ps.query(_OPEN.format("overlaps") + "RETURN x.te, y.te").open()
    assert session.push(rows) == []
    (found,) = session.close(at_end="close")
    assert found == {"detected_at": 4, "x_te": 4, "y_te": None}
    both = ps.query(_OPEN.format("overlaps") + "EMIT ON COMPLETION RETURN x.te, y.te")
    assert both.run(rows, at_end="close") == [{"completed_at": 5, "x_te": 4, "y_te": 5}]


def test_a_duration_of_a_row_is_judged_by_the_end_that_it_is_given() -> None:
    rows = [{"id": 1, "n": 1, "s": 1, "e": None}, {"id": 2, "n": 0, "s": 9, "e": None}]
    for bound, count in (("AT LEAST 8", 1), ("AT LEAST 9", 0), ("AT MOST 8", 1), ("AT MOST 7", 0)):
        text = f"FROM i FROM s TO e ID id DEFINE x AS n > 0 {bound} PATTERN x WITHIN 50"
        query = ps.query(f"{text} EMIT ON COMPLETION")
        assert len(query.run(rows, at_end="close")) == count, bound


def test_a_run_and_a_row_that_are_closed_end_together() -> None:
    text = (
        "FROM a ORDER BY t WITH i FROM s TO e ID id DEFINE x AS a.p > 0, y AS i "
        "PATTERN x finished-by y WITHIN 50 RETURN x.te, y.te"
    )
    inputs = {
        "a": [{"t": 1, "p": 1}, {"t": 5, "p": 1}],
        "i": [{"s": 2, "e": None, "id": 1}, {"s": 3, "e": 5, "id": 2}],  # the second ends before
    }
    found = ps.query(text).run(inputs, at_end="close")
    assert found == [{"detected_at": 5, "x_te": 5, "y_te": 5}]


def test_statistics_count_what_closing_rows_would_add() -> None:
    query = ps.query("FROM i FROM s TO e ID id DEFINE x AS i PATTERN x WITHIN 9 EMIT ON COMPLETION")
    session = query.open()
    session.push([{"id": 1, "s": 1, "e": None}, {"id": 2, "s": 3, "e": None}])
    assert session.close() == []
    assert session.statistics.incomplete == 2


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


NESTED = """
    FROM {s} ORDER BY ts
    WITH (FROM s DEFINE p AS x > 1 AT LEAST 2 PATTERN p WITHIN 50) AS n
    DEFINE u AS s.x = 0, v AS n
    PATTERN u meets v
    WITHIN 50
"""


def test_a_query_in_brackets_is_closed_where_all_rows_come_at_once(tmp_path: Path) -> None:
    rows = pl.DataFrame({"ts": [1, 2, 9], "x": [0, 5, 5]})
    expected = [(9, 1, 2, 2, 9)]
    whole = ps.query(NESTED.format(s="s"))
    assert whole.run({"s": rows}, at_end="close").rows() == expected
    assert whole.run({"s": rows}).rows() == []
    rows.write_csv(tmp_path / "s.csv")
    of_files = ps.query(NESTED.format(s=f"'{tmp_path}/s.csv' AS s"))
    assert of_files.run(at_end="close").rows() == expected
    session = whole.open()
    session.push(rows, stream="s")
    with pytest.raises(ps.QueryError, match="bit by bit"):
        session.close(at_end="close")
    assert session.close().rows() == []


def test_a_row_that_waits_for_other_streams_costs_the_same_however_many_wait() -> None:
    session, most, time = _TWO.open(), [], 0
    for until in (200, 3_000):
        while time < until:
            time += 1
            session.push({"t": time, "p": 0}, stream="a")
        tracemalloc.start()
        session.advance(time)
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 2 * most[0]  # the numbers of all that wait would be ten times as much
    session.push({"t": 3_000, "q": 0}, stream="b")
    assert session.statistics.events + session.statistics.waiting == 3_001
    with pytest.raises(ps.LateEventError):
        session.push({"t": 2_999, "q": 0}, stream="b")


def test_what_a_query_in_brackets_gives_at_its_end_finds_what_was_given_before() -> None:
    bracket = "(FROM {0}_in ORDER BY ts DEFINE x AS b PATTERN x WITHIN 100 {1}) AS {0}"
    judged = (
        "WHERE x.te IS NOT NULL NO OVERLAP"  # what is kept of its partitions says which are given
    )
    query = ps.query(
        f"FROM {bracket.format('late', judged)} WITH {bracket.format('soon', '')} "
        "DEFINE a AS soon, d AS late PATTERN d after a WITHIN 100 RETURN a.ts, d.ts"
    )
    rows = {
        name: pl.DataFrame({"ts": [at], "b": [True]})
        for name, at in (("late_in", 9), ("soon_in", 1))
    }
    assert query.run(rows, at_end="close").rows() == [(10, 1, 9)]


SILENT = ps.query(
    "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 0, b AS SILENCE LONGER THAN 1 "
    "PATTERN a met-by b WITHIN 9 RETURN a.ts, b.ts, FIRST(a.note) AS note"
)
LATE = [
    {"k": 1, "t": 4, "x": None, "note": None},
    {"k": 1, "t": 6, "x": 2, "note": None},
    {"k": 2, "t": 6, "x": None, "note": None},
    {"k": 1, "t": 8, "x": 0, "note": None},
    {"k": 1, "t": 10, "x": 3, "note": "late"},
    {"k": 1, "t": 11, "x": 0, "note": None},
    {"k": 1, "t": 20, "x": 1, "note": "x"},
    {"k": 1, "t": 21, "x": None, "note": None},
]


def _pushed_one_by_one(session: ps.Session, as_frames: bool) -> list[dict[str, Any]]:
    found = []
    for row in LATE:
        rows: Any = pl.DataFrame([row]) if as_frames else row
        given = session.push(rows)
        found += given.to_dicts() if as_frames else given
    return found


@pytest.mark.parametrize("as_frames", [False, True])
def test_a_column_that_was_missing_so_far_gets_its_type_when_a_value_comes(as_frames: bool) -> None:
    session = SILENT.open()
    expected = SILENT.run(pl.DataFrame(LATE)).to_dicts()
    assert len(expected) == 3
    assert _pushed_one_by_one(session, as_frames) == expected
    seen = session.statistics
    assert (seen.events + seen.waiting, seen.matches) == (len(LATE), 3)


@pytest.mark.parametrize("place", [(CombinedStream, "process_inputs"), (InputFeed, "_keep")])
def test_a_call_in_which_a_type_comes_up_may_be_interrupted(
    monkeypatch: pytest.MonkeyPatch, place: tuple[type, str]
) -> None:
    work = getattr(*place)

    def interrupted(*given: Any) -> Any:
        work(*given)
        raise KeyboardInterrupt

    session = SILENT.open()
    found = session.push(LATE[0])
    for row in LATE[1:5]:
        with monkeypatch.context() as patch:
            patch.setattr(*place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.push(row)
        found += session.push(row)
    assert found + session.push(LATE[5:]) == SILENT.run(LATE)


@pytest.mark.parametrize("as_frames", [False, True])
@pytest.mark.parametrize("most", ["_MOST_CALLS", "_MOST_BYTES"])
def test_a_type_that_comes_up_too_late_is_refused(
    as_frames: bool, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"piestream.adapters.input_session.{most}", 1)
    with pytest.raises(ps.SchemaError, match=r"had Null before: say the types when the session is"):
        _pushed_one_by_one(SILENT.open(), as_frames)
    types = {"k": int, "t": int, "x": int, "note": str}
    assert len(_pushed_one_by_one(SILENT.open(schema=types), as_frames)) == 3


def test_a_type_that_comes_up_after_a_snapshot_is_refused_and_nothing_is_lost() -> None:
    session = SILENT.open()
    session.push(LATE[0])
    session = SILENT.open(state=session.snapshot())
    with pytest.raises(ps.SchemaError, match="had Null before"):
        session.push(LATE[1])
    assert session.push({**LATE[1], "x": None}) == session.advance(9) == []
    assert session.statistics.events == 2


def test_a_type_that_does_not_fit_is_refused_and_leaves_the_session_as_it_was() -> None:
    session = SILENT.open()
    session.push(LATE[0])
    with pytest.raises(ps.QueryError, match="cannot mix"):
        session.push({**LATE[1], "x": "much"})
    assert session.push(LATE[1:4]) + session.push(LATE[4:]) == SILENT.run(LATE)


def test_times_that_were_given_meanwhile_are_given_again() -> None:
    session = SILENT.open(lateness=1)
    found = session.push(LATE[0])
    session.advance(5)
    found += session.push(LATE[2])
    found += session.advance(7)
    found += session.push({"k": 1, "t": 8, "x": 2, "note": None})
    found += session.push({"k": 1, "t": 12, "x": 2, "note": "y"})
    found += session.close()
    assert [(row["a_ts"], row["b_ts"]) for row in found] == [(8, 4)]
