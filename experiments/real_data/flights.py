"""Three hours of ADS-B messages around Paris: ``python -m experiments.real_data.flights``.

The data is a file inside the package traffic: ``pip install --no-deps -r examples/requirements.txt``. Each
line has the number of matches, and whether plain Python finds the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

import piestream as ps
from examples.flights import messages
from experiments.real_data.plain import (
    Run,
    Ties,
    averages,
    before_in_row,
    bridged,
    by_flight,
    runs,
    until,
)

__all__ = ["CASES", "Case", "compared", "main"]

_KEYS = ["icao24", "callsign"]
_HEAD = "FROM flights PARTITION BY icao24, callsign ORDER BY time"
_GAP = timedelta(minutes=1)
_ENDED = "WITHIN 12 h EMIT ON COMPLETION"
_LEVEL = "level AS vertical_rate BETWEEN -100 AND 100 AND altitude > 1000 AT LEAST 1 min"
_FINAL = "final AS vertical_rate < -300 AND altitude < 4000 AT LEAST 30 s"
_CLIMB = "climb AS vertical_rate > 500 AND altitude < 10000 AT LEAST 30 s"
_FAST = "fast AS groundspeed > 250, low AS altitude < 10000"
_Rows = list[tuple[Any, ...]]


def _ended(found: list[Run], least: timedelta = timedelta(0)) -> _Rows:
    return [(r.start, r.end, r.events) for r in found if r.end is not None and r.lasts(least)]


def _level(rows: pl.DataFrame) -> list[Run]:
    level = rows["vertical_rate"].is_between(-100, 100) & (rows["altitude"] > 1000)
    (now,) = rows["now"].unique()
    return runs(rows["time"].to_list(), level.to_list(), _GAP, now)


def _levels(rows: pl.DataFrame) -> _Rows:
    return _ended(_level(rows), _GAP)


def _bridged_levels(rows: pl.DataFrame) -> _Rows:
    return _ended(bridged(rows["time"].to_list(), _level(rows), timedelta(seconds=5)), _GAP)


def _descents(rows: pl.DataFrame) -> _Rows:
    rate = rows["vertical_rate"]
    sinks = until((rate < -1200).to_list(), (rate > -600).to_list())
    return _ended(runs(rows["time"].to_list(), sinks))


def _sinking(rows: pl.DataFrame) -> _Rows:
    return _ended(runs(rows["time"].to_list(), (rows["vertical_rate"] < -1200).to_list()))


def _climbing_again(rows: pl.DataFrame) -> Iterator[tuple[Run, Run]]:
    """A final approach that has ended, and a climb within two minutes of it."""
    times, least = rows["time"].to_list(), timedelta(seconds=30)
    rate, altitude = rows["vertical_rate"], rows["altitude"]
    finals = runs(times, ((rate < -300) & (altitude < 4000)).to_list())
    climbs = runs(times, ((rate > 500) & (altitude < 10000)).to_list())
    for final in finals:
        for climb in climbs:
            if final.end is None or not (final.lasts(least) and climb.lasts(least)):
                continue
            if timedelta(0) <= climb.start - final.end <= timedelta(minutes=2):
                yield final, climb


def _go_arounds(rows: pl.DataFrame) -> _Rows:
    return [(final.start, climb.start) for final, climb in _climbing_again(rows)]


def _overlaps(rows: pl.DataFrame) -> Iterator[tuple[Run, Run]]:
    times = rows["time"].to_list()
    for fast in runs(times, (rows["groundspeed"] > 250).to_list()):
        for low in runs(times, (rows["altitude"] < 10000).to_list()):
            end = fast.end
            is_later = low.end is None or (end is not None and low.end > end)
            if end is not None and fast.start < low.start < end and is_later:
                yield fast, low


def _overlaps_within(rows: pl.DataFrame) -> _Rows:
    window = timedelta(minutes=5)
    found = _overlaps(rows)
    return [(f.start, w.start) for f, w in found if f.end is not None and f.end - f.start <= window]


def _overlaps_of_low(rows: pl.DataFrame) -> _Rows:
    window = timedelta(minutes=5)
    found = _overlaps(rows)
    return [(f.start, w.start) for f, w in found if f.end is not None and f.end - w.start <= window]


def _slow(rows: pl.DataFrame) -> _Rows:
    times, length = rows["time"].to_list(), timedelta(seconds=30)
    mean = averages(times, rows["groundspeed"].to_list(), length)
    return _ended(runs(times, [value < 250 for value in mean]))


def _jumps(rows: pl.DataFrame) -> _Rows:
    altitudes = rows["altitude"].to_list()
    pairs = zip(altitudes, before_in_row(altitudes), strict=True)
    jumped = [before is not None and abs(now - before) > 300 for now, before in pairs]
    return _ended(runs(rows["time"].to_list(), jumped))


def _levels_while_low(rows: pl.DataFrame) -> _Rows:
    times, least = rows["time"].to_list(), timedelta(seconds=30)
    level = rows["vertical_rate"].is_between(-100, 100) & (rows["altitude"] > 1000)
    return [
        (low.start, one.start)
        for low in runs(times, (rows["altitude"] < 20000).to_list())
        for one in runs(times, level.to_list())
        if one.end is not None and one.lasts(least)
        if low.start < one.start and (one.end < low.end if low.end else one.end <= low.last)
    ]


def _once_per_low(rows: pl.DataFrame) -> _Rows:
    first: dict[Any, Any] = {}
    for low, level in _levels_while_low(rows):
        first.setdefault(low, level)
    return list(first.items())


def _whole_traffic(rows: pl.DataFrame) -> _Rows:
    rows = rows.sort("time", maintain_order=True)
    found = runs(rows["time"].to_list(), (rows["altitude"] < 3000).to_list())
    return [(r.start, r.end, r.events) for r in found if r.end is not None and r.events >= 5]


def _first_of_each_time(rows: pl.DataFrame) -> _Rows:
    return _whole_traffic(rows.unique("time", keep="first", maintain_order=True))


@dataclass(frozen=True)
class Case:
    """A query, and what plain Python finds in the rows of a flight, or in all."""

    text: str
    plain: Callable[[pl.DataFrame], _Rows]
    by_flight: bool = True
    ties: Ties = "error"


_LOW = (
    f"{_HEAD} DEFINE low AS altitude < 20000, level AS vertical_rate BETWEEN -100 AND 100 "
    "AND altitude > 1000 AT LEAST 30 s PATTERN low contains level WITHIN 12 h"
)
_MANY = f"DEFINE low AS altitude < 3000 AT LEAST 5 EVENTS PATTERN low {_ENDED} RETURN low.ts, low.te, COUNT(low) AS n"
_COUNTED = f"{_ENDED} RETURN a.ts, a.te, COUNT(a) AS n"
CASES = {
    "level for a minute": Case(
        f"{_HEAD} MAX GAP 1 min DEFINE {_LEVEL} PATTERN level {_ENDED} "
        "RETURN level.ts, level.te, COUNT(level) AS n",
        _levels,
    ),
    "… BRIDGING 5 s": Case(
        f"{_HEAD} MAX GAP 1 min DEFINE {_LEVEL} BRIDGING 5 s PATTERN level {_ENDED} "
        "RETURN level.ts, level.te, COUNT(level) AS n",
        _bridged_levels,
    ),
    "sinks by 1,200 ft/min": Case(
        f"{_HEAD} DEFINE a AS vertical_rate < -1200 PATTERN a {_COUNTED}", _sinking
    ),
    "… UNTIL by less than 600": Case(
        f"{_HEAD} DEFINE a AS vertical_rate < -1200 UNTIL vertical_rate > -600 PATTERN a {_COUNTED}",
        _descents,
    ),
    "climb.ts - final.te <= 2 min": Case(
        f"{_HEAD} DEFINE {_FINAL}, {_CLIMB} PATTERN final before; meets climb "
        "AND climb.ts - final.te <= 2 min WITHIN 3 h RETURN final.ts, climb.ts",
        _go_arounds,
    ),
    "low contains level": Case(
        f"{_LOW} EMIT ON TRIGGER RETURN low.ts, level.ts", _levels_while_low
    ),
    "… ONCE PER low": Case(
        f"{_LOW} EMIT ON TRIGGER ONCE PER low RETURN low.ts, level.ts", _once_per_low
    ),
    "fast overlaps low WITHIN 5 min": Case(
        f"{_HEAD} DEFINE {_FAST} PATTERN fast overlaps low WITHIN 5 min RETURN fast.ts, low.ts",
        _overlaps_within,
    ),
    "… WITHIN 5 min OF low": Case(
        f"{_HEAD} DEFINE {_FAST} PATTERN fast overlaps low WITHIN 5 min OF low RETURN fast.ts, low.ts",
        _overlaps_of_low,
    ),
    "AVG(groundspeed) OVER 30 s": Case(
        f"{_HEAD} DEFINE a AS AVG(groundspeed) OVER 30 s < 250 PATTERN a {_COUNTED}", _slow
    ),
    "PREV(altitude)": Case(
        f"{_HEAD} DEFINE a AS ABS(altitude - PREV(altitude)) > 300 PATTERN a {_COUNTED}", _jumps
    ),
    "all messages, ORDER BY time, ROW": Case(
        f"FROM flights ORDER BY time, ROW {_MANY}", _whole_traffic, by_flight=False
    ),
    "all messages, ties='first'": Case(
        f"FROM flights ORDER BY time {_MANY}", _first_of_each_time, by_flight=False, ties="first"
    ),
}


def compared(case: Case, rows: pl.DataFrame) -> tuple[int, bool]:
    """How many matches there are, and whether plain Python finds the same ones."""
    found = ps.query(case.text).run(rows, ties=case.ties)
    names = [name for name in found.columns if name not in (*_KEYS, "detected_at", "completed_at")]
    known = rows.with_columns(now=pl.col("time").max())
    parts = by_flight(known, _KEYS) if case.by_flight else [known]
    wanted = [row for part in parts for row in case.plain(part)]
    return len(found), sorted(found.select(names).rows()) == sorted(wanted)


def main() -> None:
    """Print what each query finds in the flights."""
    rows = messages()
    times = rows["time"].n_unique()
    print(f"{len(rows):,} messages at {times:,} times, of {len(rows.unique(_KEYS))} flights")
    for title, case in CASES.items():
        count, same = compared(case, rows)
        print(f"{title:34} {count:6,} {'as plain Python' if same else 'OTHERWISE IN PLAIN PYTHON'}")


if __name__ == "__main__":
    main()
