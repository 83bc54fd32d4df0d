"""State as bytes: it goes on where it was, and what cannot be read is refused."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.engine.snapshot import VERSION

TEXT = """
FROM s PARTITION BY k ORDER BY t MAX GAP 9
DEFINE a AS x > 1, b AS y > PREV(y)
PATTERN a before; meets; overlaps; contains b
WITHIN 30 EMIT ON BOTH RETURN FIRST(a.w), MAX(a.w), COUNT(b), STDDEV(b.y), a.te, b.te
"""
QUERY = ps.query(TEXT)
EVENTS = pl.DataFrame(
    {
        "k": ["u", "v"] * 20,
        "t": range(40),
        "x": [5, 5, 5, 0, 0, 5, 0, 0] * 5,
        "y": [1, 2, 3, 9, 9, 1, 2, 8, 1, 4] * 4,
        "w": ["p", "q", None, "o"] * 10,
    }
)


def restored(session: ps.Session) -> ps.Session:
    found: ps.Session = QUERY.open(state=session.snapshot())
    return found


def test_a_session_goes_on_as_if_it_had_never_been_away() -> None:
    expected = QUERY.run(EVENTS).rows()
    session, found = QUERY.open(), []
    for row in EVENTS.iter_slices(1):
        found += session.push(row).rows()
        session = restored(session)
    found += session.close().rows()
    assert len(found) > 20
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_options_and_statistics_are_part_of_the_state() -> None:
    session = QUERY.open(lateness=5, on_late="drop", ties="last")
    session.push(EVENTS)
    again = restored(session)
    assert again.statistics == session.statistics
    again.push(EVENTS[:1])
    assert again.statistics.late == session.statistics.late + 1


def test_the_same_state_is_the_same_bytes() -> None:
    session = QUERY.open(lateness=5, on_late="drop")
    session.push(EVENTS)
    assert session.snapshot() == session.snapshot() == restored(session).snapshot()


@pytest.fixture
def state() -> bytes:
    session = QUERY.open()
    session.push(EVENTS)
    blob: bytes = session.snapshot()
    return blob


def test_another_version_is_refused(state: bytes) -> None:
    other = state[:10] + (VERSION + 1).to_bytes(4, "little") + state[14:]
    with pytest.raises(ps.StateError, match=f"version {VERSION + 1}; .* reads version {VERSION}"):
        QUERY.open(state=other)


@pytest.mark.parametrize(
    "changed", ["WITHIN 31", "x > 2", "contains; equals b", "EMIT ON TRIGGER", "MIN(a.w)"]
)
def test_the_state_of_another_query_is_refused(state: bytes, changed: str) -> None:
    said = {
        "WITHIN 31": "WITHIN 30",
        "x > 2": "x > 1",
        "contains; equals b": "contains b",
        "EMIT ON TRIGGER": "EMIT ON BOTH",
        "MIN(a.w)": "MAX(a.w)",
    }
    other = ps.query(TEXT.replace(said[changed], changed))
    with pytest.raises(ps.StateError, match="another query"):
        other.open(state=state)


def test_a_query_that_says_the_same_reads_it(state: bytes) -> None:
    same = ps.query(str(QUERY).lower().replace("from s", "FROM otherwise_named"))
    assert same == QUERY
    assert same.open(state=state).statistics.events == len(EVENTS)


def test_damage_is_refused_wherever_it_is(state: bytes) -> None:
    for place in range(14, len(state), max(1, len(state) // 97)):
        damaged = state[:place] + bytes([state[place] ^ 1]) + state[place + 1 :]
        with pytest.raises(ps.StateError, match=r"damaged|another query"):
            QUERY.open(state=damaged)
    for length in (0, 5, 12, 60, len(state) - 1):
        with pytest.raises(ps.StateError):
            QUERY.open(state=state[:length])
    with pytest.raises(ps.StateError):
        QUERY.open(state=state + b"\0")


@pytest.mark.parametrize("thing", ["text", 5, b"", b"GIF89a"])
def test_what_is_no_state_is_refused(thing: object) -> None:
    with pytest.raises(ps.StateError, match="state"):
        QUERY.open(state=thing)  # type: ignore[arg-type]


def test_before_the_first_row_there_is_no_state() -> None:
    with pytest.raises(ps.StateError, match="nothing was pushed yet"):
        QUERY.open().snapshot()


def test_rows_of_other_types_are_refused_after_it_too(state: bytes) -> None:
    session = QUERY.open(state=state)
    with pytest.raises(ps.SchemaError, match="column x has type Float64"):
        session.push(EVENTS[-1:].with_columns(pl.col("x").cast(pl.Float64), pl.col("t") + 50))


OPTIONS = {"lateness": 3, "on_late": "drop", "ties": "first", "schema": {"t": int, "x": int}}
OTHERS = {"lateness": 0, "on_late": "error", "ties": "last", "schema": {"t": int, "x": float}}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_differs_from_the_stored_one_is_refused(option: str) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    session = query.open(**OPTIONS)
    session.push({"t": 1, "x": 5})
    state = session.snapshot()
    assert query.open(state, **OPTIONS).snapshot() == state
    assert query.open(state, **{option: OPTIONS[option]}).snapshot() == state
    with pytest.raises(ps.StateError, match=r"in this state, not .*leave them out"):
        query.open(state, **{option: OTHERS[option]})


@pytest.mark.parametrize("kind", ["event", "list", "polars", "pandas", "pyarrow"])
def test_a_restored_session_gives_back_the_kind_that_was_pushed(kind: str) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [1], "x": [5]})
    pushed = {
        "event": frame.to_dicts()[0],
        "list": frame.to_dicts(),
        "polars": frame,
        "pandas": frame.to_pandas(),
        "pyarrow": frame.to_arrow(),
    }[kind]
    session = query.open(lateness=3)
    session.push(pushed)
    again = query.open(session.snapshot())
    assert type(again.advance(2)) is type(session.advance(2))
    assert type(again.close()) is type(session.close())
