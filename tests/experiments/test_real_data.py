"""What the programs on real data compare: on rows like them, plain Python finds what the queries find."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import polars as pl
import pytest

from experiments.real_data import flights, trades
from experiments.real_data.plain import averages, bridged, runs, until

_START = datetime(2026, 3, 1, 12)


def _messages(seed: int) -> Iterator[dict[str, Any]]:
    """The messages of a few flights, with silences, in steps that real ones have."""
    rng = Random(seed)
    for number in range(6):
        time, altitude, rate = _START + timedelta(seconds=rng.randrange(9)), 6000.0, 0.0
        for _ in range(700):
            time += timedelta(seconds=rng.choice((1, 1, 1, 1, 2, 5 if rng.random() < 0.9 else 90)))
            if rng.random() < 0.02:
                rate = rng.choice((-1500.0, -900.0, -400.0, 0.0, 0.0, 64.0, 800.0, 1500.0))
            noise = rng.choice((0.0, 0.0, 0.0, 64.0, -192.0))
            altitude = min(max(altitude + rate / 20, 800.0), 21000.0)
            yield {
                "icao24": f"{number:06x}",
                "callsign": f"ABC{number % 4}",
                "time": time,
                "altitude": altitude + rng.choice((0.0,) * 60 + (400.0,)),
                "vertical_rate": rate + noise,
                "groundspeed": float(round(150 + altitude / 80)),
            }


@pytest.fixture(scope="module")
def messages() -> pl.DataFrame:
    return pl.DataFrame(list(_messages(7)), schema_overrides={"time": pl.Datetime("ms")})


@pytest.mark.parametrize("title", flights.CASES)
def test_plain_python_finds_what_a_query_finds_in_flights(
    title: str, messages: pl.DataFrame
) -> None:
    count, same = flights.compared(flights.CASES[title], messages)
    assert same
    assert count > 0


@pytest.mark.parametrize("title", trades.ORDERS)
def test_plain_python_finds_what_a_query_finds_in_trades(title: str) -> None:
    rng = Random(3)
    times = sorted(_START + timedelta(milliseconds=rng.randrange(400)) for _ in range(900))
    prices = [100 + 0.25 * rng.randrange(4) for _ in times]
    rows = pl.DataFrame({"time": times, "price": prices}).with_row_index("seq")
    count, found, same = trades.compared(title, rows)
    assert same
    assert found > 5
    assert (count < len(rows)) == title.startswith("ties")


def test_what_plain_python_finds() -> None:
    times = [_START + timedelta(seconds=s) for s in (0, 1, 2, 3, 9, 10)]
    silence = timedelta(seconds=5)
    found = runs(times, [True, False, True, True, True, None], silence)
    assert [(r.start, r.end, r.events) for r in found] == [
        (times[0], times[1], 1),
        (times[2], times[3] + silence, 2),
        (times[4], times[5], 1),
    ]
    joined = bridged(times, found, timedelta(seconds=1))
    assert [(r.start, r.events) for r in joined] == [(times[0], 5)]
    assert [r.end for r in runs(times[:1], [True], silence, times[-1])] == [times[0] + silence]
    assert until([True, False, False, True], [False, False, True, True]) == [
        True,
        True,
        False,
        False,
    ]
    assert list(averages(times[:4], [1.0, 2.0, 3.0, 4.0], timedelta(seconds=2))) == [
        1,
        1.5,
        2.5,
        3.5,
    ]
