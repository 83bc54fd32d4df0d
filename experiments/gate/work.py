"""The work that the gate measures: queries over frames, events, processes, each with a goal where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from experiments.peers.pattern import Pattern
from experiments.streams import SEED, booleans, query_of
from piestream.demo.fleet import fleet

__all__ = ["PROCESSES", "WORKS", "Process", "Work"]

Frames = Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Work:
    """One row of the gate's table: something that `worker.ACTIONS` does with frames."""

    name: str
    action: str
    query: str
    #: Its input, with so many times fewer rows.
    frames: Callable[[int], Frames]
    #: So many calls are one measurement.
    number: int = 1
    #: ``cpu`` seconds, ``wall`` seconds, or the most ``bytes`` that are held.
    clock: str = "cpu"
    #: What one call is divided by, and its name: rows, matches, events, calls.
    units: int = 1
    unit: str = "call"
    goal: str = ""
    #: How many threads Polars has.
    threads: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Process:
    """One row of the gate's table: a program in a process of its own."""

    name: str
    program: str
    #: Nothing is compiled when it starts.
    cold: bool = False
    #: The process that its time is divided by, of the same side.
    yardstick: str = ""
    goal: str = ""


def _one(frame: Callable[..., pl.DataFrame], rows: int, **more: Any) -> Callable[[int], Frames]:
    return lambda fewer: {"s": frame(rows // fewer, **more)}


# -- the drivers ---------------------------------------------------------------------------------------

_CARS, _SECONDS = 3_000, 400
_DRIVERS = """
    FROM s PARTITION BY car_id ORDER BY ts MAX GAP 30 s
    DEFINE a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s,
           c AS lateral > 0.5 OR lateral < -0.5, d AS accel < -9
    PATTERN a meets; overlaps; starts; during s AND s contains; overlaps; finished_by c
        AND c overlaps; meets; before d AND a before d
    WITHIN 5 minutes RETURN AVG(s.speed) AS avg_speed, s.ts, s.te
"""


def _drivers(cars: int, order: str) -> pl.DataFrame:
    """A fleet in order of time, by car, or by a text for each car."""
    frame = fleet(cars, _SECONDS, SEED)
    if order == "car":
        return frame.sort("car_id", "ts", maintain_order=True)
    if order == "text":
        return frame.with_columns(("car-" + pl.col("car_id").cast(pl.String)).alias("car_id"))
    return frame


def _driver(name: str, order: str, goal: str = "", **more: Any) -> Work:
    given: dict[str, Any] = {"units": 0, "unit": "row", "more": {"yardstick": {"key": "car_id"}}}
    return Work(
        f"drivers, {name}",
        "run",
        _DRIVERS,
        _one(_drivers, _CARS, order=order),
        goal=goal,
        **(given | more),
    )


# -- booleans ------------------------------------------------------------------------------------------


def _booleans(events: int, symbols: int) -> pl.DataFrame:
    return booleans(symbols, events, SEED)


def _chain(symbols: int, events: int) -> Work:
    goal = "1.5 × of 4244688"
    return Work(
        f"Fig. 4a, {symbols} symbols", "run", str(query_of(Pattern.chain(symbols))),
        _one(_booleans, events, symbols=symbols), units=events, unit="row", goal=goal,
    )  # fmt: skip


def _over_booleans(
    name: str, text: str, symbols: int = 3, events: int = 200_000, **more: Any
) -> Work:
    """A query over some of the columns ``a1``, ``a2``, … at one event a second."""
    given: dict[str, Any] = {"units": events, "unit": "row"} | more
    return Work(
        name, "run", f"FROM s ORDER BY ts {text}", _one(_booleans, events, symbols=symbols), **given
    )


_THREE = "DEFINE a AS a1, b AS a2, c AS a3 "


def _numbers(events: int, symbols: int = 4, zone: str | None = None) -> pl.DataFrame:
    """Numbers between 0 and 1, above a half while a Boolean holds, at one event a second."""
    frame = booleans(symbols, events, SEED).with_columns(
        pl.when(column).then(0.9).otherwise(0.1).alias(column)
        for column in (f"a{at + 1}" for at in range(symbols))
    )
    if zone is not None:
        moment = pl.from_epoch(pl.col("ts") + 1_700_000_000, "s")
        frame = frame.with_columns(moment.dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
    return frame


def _pairs(events: int) -> pl.DataFrame:
    """Two symbols that hold by turns at every other event: as many matches as the window allows."""
    ts = np.arange(events)
    return pl.DataFrame({"ts": ts, "a1": ts % 4 == 0, "a2": ts % 4 == 2})


def _intervals(count: int) -> pl.DataFrame:
    """Intervals of two kinds that overlap, with a number each."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    start = np.sort(rng.integers(0, count * 10, count))
    end = start + rng.integers(1, 80, count)
    frame = pl.DataFrame({"start": start, "end": end, "kind": rng.integers(0, 2, count)})
    return frame.with_row_index("id").sort("end")


def _two_streams(events: int, every: int, fewer: int) -> Frames:
    """One stream as two, of which the second has only some of the events."""
    frame = _numbers(events // fewer)
    others = frame.select("ts", "a3", "a4").gather_every(every)
    return {"s": frame.select("ts", "a1", "a2"), "r": others}


_CHAIN = str(query_of(Pattern.chain(4)))
_PUSHED = str(query_of(Pattern.chain(4), holds="{0} > 0.5"))
_TRADES = """
    FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(down.ts) AS began, LAST(up.ts) AS ended
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (down down+ up up+)
    DEFINE down AS a1 < PREV(a1), up AS a1 > PREV(a1))
"""


def _walk(events: int) -> pl.DataFrame:
    """A random walk."""
    rng = np.random.Generator(np.random.PCG64(SEED))
    return pl.DataFrame({"ts": np.arange(events), "a1": rng.integers(-3, 4, events).cumsum()})


def _push(name: str, text: str, goal: str, zone: str | None = None) -> Work:
    events = 5_000
    return Work(name, "push each", text, _one(_numbers, events, zone=zone), units=events, unit="event",
                goal=goal, more={"time": "ts", "step": 10 * events})  # fmt: skip


def _works() -> Iterator[Work]:
    yield _driver("interleaved", "time", "≤ 2 × group_by")
    yield _driver("sorted by car", "car", "≤ 1.3 × group_by")
    yield _driver("keys are texts", "text", "≤ 2 × integers")
    yield _driver("memory", "time", clock="bytes", goal="input + 20 %", more={})
    yield _driver("two threads", "time", clock="wall", threads=2, goal="≥ 1.8 × of one",
                  more={"options": {"threads": 2}})  # fmt: skip
    for symbols, events in ((4, 400_000), (8, 400_000), (24, 200_000)):
        yield _chain(symbols, events)
    yield _over_booleans(
        "before and overlaps", _THREE + "PATTERN a before b AND b overlaps c WITHIN 2000"
    )
    yield _over_booleans("star", "DEFINE a AS a1, b AS a2, c AS a3, d AS a4 PATTERN a overlaps; contains b "
                    "AND a overlaps; contains c AND a overlaps; contains d WITHIN 1000", 4)  # fmt: skip
    yield _over_booleans(
        "cycle", _THREE + "PATTERN a before b AND b overlaps c AND a before c WITHIN 1000"
    )
    yield _over_booleans("durations", "DEFINE a AS a1 AT LEAST 30, b AS a2 AT MOST 60 "
                    "PATTERN a overlaps; meets; before b WITHIN 300", 2)  # fmt: skip
    yield _over_booleans("aggregates", "DEFINE a AS a1, b AS a2 PATTERN a overlaps b WITHIN 300 "
                    "RETURN AVG(a.ts) AS x, MAX(b.ts) AS y, COUNT(a) AS n", 2)  # fmt: skip
    yield _over_booleans(
        "NOT", _THREE + "PATTERN a before b AND NOT (c after a AND c before b) WITHIN 200"
    )
    yield _over_booleans(
        "distance", _THREE + "PATTERN a before b AND b.ts - a.te <= 20 AND b overlaps c WITHIN 300"
    )
    yield _over_booleans(
        "BRIDGING", "DEFINE a AS a1 BRIDGING 15, b AS a2 PATTERN a overlaps b WITHIN 500", 2
    )
    yield Work("rows with an ID", "run",
               "FROM s FROM start TO end ID id DEFINE a AS kind = 0, b AS kind = 1 "
               "PATTERN a overlaps b WITHIN 200", _one(_intervals, 100_000),
               units=100_000, unit="row")  # fmt: skip
    yield Work("row pattern", "run", _TRADES, _one(_walk, 200_000), units=200_000, unit="row")
    yield Work("two streams", "run",
               "FROM s ORDER BY ts WITH r ORDER BY ts DEFINE a AS s.a1 > 0.5, b AS r.a3 > 0.5 "
               "PATTERN a overlaps b WITHIN 300", partial(_two_streams, 200_000, 2),
               units=300_000, unit="row")  # fmt: skip
    yield Work("archive", "archive", "FROM s ORDER BY ts DEFINE a AS a1 > 0.95, b AS a2 > 0.5 "
               "PATTERN a overlaps b WITHIN 300", _one(_rare_moments, 1_000_000), units=1_000_000, unit="row",
               more={"archive": {"time": "ts"}})  # fmt: skip
    yield Work("matches written, three columns", "run",
               "FROM s ORDER BY ts DEFINE a AS a1, b AS a2 PATTERN a before b WITHIN 400 RETURN a.ts, b.ts",
               _one(_pairs, 40_000), units=980_000, unit="match", goal="≤ 25 ns")  # fmt: skip
    yield Work("a frame of 100 events", "run", _CHAIN, _one(_booleans, 100, symbols=4), number=40,
               goal="≤ 0.1 ms")  # fmt: skip
    yield Work("a frame of 4 events", "run", _CHAIN, _one(_booleans, 4, symbols=4), number=40)
    yield Work("a query's text", "parse", _DRIVERS, lambda _: {}, number=20)
    yield _push("push of one event", _PUSHED, "≤ 2 µs")
    with_past = _PUSHED.replace("a1 > 0.5", "a1 > 0.5 AND PREV(a1) > 0", 1)
    yield _push("push with PREV", with_past, "≤ 5 µs")
    yield _push("push with OVER", _PUSHED.replace("a1 > 0.5", "AVG(a1) OVER 5 > 0.5", 1), "≤ 5 µs")
    in_seconds = _PUSHED.replace("WITHIN 10000", "WITHIN 10000 s")
    yield _push("push in a time zone", in_seconds, "≤ 5 µs", "Europe/Berlin")
    yield Work("push to two streams", "push streams",
               "FROM s ORDER BY ts WITH r ORDER BY ts DEFINE a AS s.a1 > 0.5, b AS r.a3 > 0.5 "
               "PATTERN a overlaps b WITHIN 300", partial(_two_streams, 500, 1), units=1_000, unit="event",
               goal="≤ 10 µs", more={"time": "ts", "step": 5_000})  # fmt: skip
    yield Work("push of 100 rows", "push frames", _CHAIN, _one(_booleans, 20_000, symbols=4), units=200,
               unit="push", more={"rows": 100})  # fmt: skip
    yield Work(
        "snapshot of 5,000 partitions", "snapshot", _DRIVERS, _one(_first_minute, 5_000), number=3
    )


def _first_minute(cars: int) -> pl.DataFrame:
    return fleet(cars, 60, SEED)


def _rare_moments(events: int) -> pl.DataFrame:
    """Two columns of which the first is high in one stretch of the stream."""
    frame = _numbers(events, 2)
    high = pl.col("ts").is_between(events // 2, events // 2 + 5_000)
    return frame.with_columns(a1=pl.when(high).then(pl.col("a1") * 1.1).otherwise(pl.col("a1")))


_FIRST_MATCH = """
import polars as pl, piestream as ps
query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a overlaps b WITHIN 9")
found = query.run(pl.DataFrame({"t": [1, 2, 3, 4], "x": [0, 2, 2, 0], "y": [0, 0, 2, 2]}))
assert len(found) == 1, found
"""

WORKS: tuple[Work, ...] = tuple(_works())
PROCESSES: tuple[Process, ...] = (
    Process("import polars", "import polars"),
    Process("import piestream", "import piestream"),
    Process("a process to its first match", _FIRST_MATCH, yardstick="import polars",
            goal="≤ 2 × import polars"),
    Process("first use ever", _FIRST_MATCH, cold=True, goal="as any other process"),
)  # fmt: skip
