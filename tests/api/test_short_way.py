"""Single events of ordinary types are worked on without a frame, and mean what they mean in one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

import piestream as ps
from piestream.adapters import feeds

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 10, 24, 22, 0)
#: The clocks of Berlin are put back in the night of the 25th.
TIMES: dict[str, Callable[[int], Any]] = {
    "integers": lambda at: at,
    "days": lambda at: date(1969, 12, 1) + timedelta(days=at),
    "datetimes": lambda at: START + timedelta(minutes=at),
    "instants": lambda at: (START + timedelta(minutes=at)).replace(tzinfo=UTC),
    "Berlin": lambda at: (START + timedelta(minutes=at)).replace(tzinfo=UTC).astimezone(BERLIN),
    "offsets": lambda at: (
        (START + timedelta(minutes=at))
        .replace(tzinfo=UTC)
        .astimezone(timezone(timedelta(hours=at % 3)))
    ),
}
#: A predicate, and the values of its column.
VALUES: dict[str, tuple[str, Callable[[Random], Any]]] = {
    "floats": ("x > 1", lambda rng: rng.choice((0.5, 1.5, float("nan"), None))),
    "whole numbers beside floats": ("x / 2 > 1", lambda rng: rng.choice((0.5, 3, 1, None))),
    "whole numbers": ("x % 3 = 1", lambda rng: rng.choice((1, 2, 4, None))),
    "truths": ("x", lambda rng: rng.choice((True, False, None))),
    "texts": ("UPPER(x) LIKE 'O%'", lambda rng: rng.choice(("on", "off", "no", None))),
    "decimals": ("x > 1.2", lambda rng: rng.choice((Decimal("1.25"), Decimal("1.15"), None))),
    "days": (
        "x > DATE '2026-10-25'",
        lambda rng: date(2026, 10, 24) + timedelta(rng.randint(0, 3)),
    ),
    "datetimes": (
        "HOUR(x) < 2",
        lambda rng: rng.choice((None, START + timedelta(hours=rng.randint(0, 9)))),
    ),
    "Berlin": (
        "HOUR(x) = 2",
        lambda rng: (
            (START + timedelta(minutes=rng.randint(0, 300))).replace(tzinfo=UTC).astimezone(BERLIN)
        ),
    ),
    "before": ("x > PREV(x)", lambda rng: rng.choice((0.5, 1.5, 2, None))),
    "texts before": ("x <> PREV(x)", lambda rng: rng.choice(("on", "off", None))),
    "decimals before": ("x > PREV(x)", lambda rng: rng.choice((Decimal("1.25"), Decimal("1.15")))),
    "days before": ("x > PREV(x)", lambda rng: date(2026, 1, rng.randint(1, 9))),
    "Berlin before": (
        "x > PREV(x)",
        lambda rng: (
            (START + timedelta(minutes=rng.randint(0, 300))).replace(tzinfo=UTC).astimezone(BERLIN)
        ),
    ),
}
RETURNS = "RETURN a.ts, a.te, FIRST(a.x) AS first, LAST(a.x) AS last, COUNT(a.x) AS n"


def _first(value: Callable[[Random], Any], rng: Random) -> Any:
    """A value that says its column's type: none is missing, and a whole number is no float."""
    drawn = (value(rng) for _ in range(1000))
    return next(v for v in drawn if v is not None and not (isinstance(v, int) and v == 3))


def _events(time: str, values: str, seed: int, n: int = 90) -> list[dict[str, Any]]:
    rng, value = Random(seed), VALUES[values][1]
    events = [{"t": TIMES[time](at), "k": at % 2, "x": value(rng)} for at in range(n)]
    first = 0.5 if values in ("before", "whole numbers beside floats") else _first(value, rng)
    events[0]["x"] = events[1]["x"] = first
    return events


def _query(values: str, time: str, returns: str = RETURNS) -> ps.Query:
    window = {"integers": "50", "days": "50 d"}.get(time, "50 min")
    return ps.query(
        f"FROM s PARTITION BY k ORDER BY t DEFINE a AS {VALUES[values][0]} PATTERN a "
        f"WITHIN {window} EMIT ON COMPLETION {returns}"
    )


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("time", ["integers", "instants"])
@pytest.mark.parametrize("restored", [False, True])
def test_single_events_give_the_rows_of_a_frame(values: str, time: str, restored: bool) -> None:
    query = _query(values, time)
    for seed in range(5):
        events = _events(time, values, seed)
        session = query.open()
        rows = []
        for number, event in enumerate(events):
            rows += session.push(event)
            if restored and number % 7 == 6:
                session = query.open(state=session.snapshot())
        expected = query.run(events)
        assert expected
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))


@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("kind", ["events", "frames"])
def test_times_of_single_events_are_those_of_a_frame(time: str, kind: str) -> None:
    query = _query("floats", time)
    events = _events(time, "floats", seed=3)
    expected = query.run(events)
    session = query.open()
    rows = [row for event in events[:40] for row in session.push(event)]
    if kind == "frames":
        for event in events[40:]:
            rows += session.push([event])
    else:
        rows += [row for event in events[40:] for row in session.push(event)]
    assert sorted(map(repr, rows)) == sorted(map(repr, expected))


def _refuse(*_: object) -> None:
    raise AssertionError("a frame was made of an event")


@pytest.mark.parametrize("values", [v for v in VALUES if not v.startswith("Berlin")])
@pytest.mark.parametrize("time", TIMES)
def test_events_of_ordinary_types_take_the_short_way(
    values: str, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = _query(values, time, "RETURN a.ts, LAST(a.x) AS last")
    events = _events(time, values, seed=1, n=150)
    session = query.open()
    for event in events[:100]:  # all texts and numbers are known then
        session.push(event)
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "events_frame", _refuse)
        for event in events[100:]:
            session.push(event)


@pytest.mark.parametrize("key", [date(2026, 1, 1), START, START.replace(tzinfo=UTC), "p", 7, True])
def test_times_may_be_keys_of_single_events(key: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    session = query.open()
    session.push({"t": 1, "k": key, "x": 0})
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "events_frame", _refuse)
        assert session.push({"t": 2, "k": key, "x": 5}) == [
            {"k": key, "detected_at": 2, "a_ts": 2, "a_te": None}
        ]


def test_frames_and_single_events_share_what_prev_reads() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > PREV(x) PATTERN a WITHIN 9 RETURN a.ts")
    session = query.open()
    given = [
        session.push(pl.DataFrame({"t": [1], "x": [5]})).rows(),
        session.push({"t": 2, "x": 6}),
        session.push({"t": 3, "x": 1}),
        session.push(pl.DataFrame({"t": [4], "x": [2]})).rows(),
        session.push({"t": 5, "x": 1}),
        query.open(state=session.snapshot()).push({"t": 6, "x": 2}),
    ]
    assert [bool(rows) for rows in given] == [False, True, False, True, False, True]
