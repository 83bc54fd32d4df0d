"""The pictures of the gallery, from the data of its programs: docs/gallery/*.svg."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

import piestream as ps
from docs.drawing.lanes import Bar, Curve, Lane, lanes_picture
from examples import flights, football, glucose, rain, spark_tasks

__all__ = ["gallery_pictures"]

LOG = Path(spark_tasks.__file__).with_suffix(".ndjson")


def football_picture() -> str:
    """Ten seconds of the third match."""
    start, end = 1_227_000, 1_237_000
    played = football.streams()
    found = ps.query(football.QUERY).run(played)
    how = dict(found.select("pass_id", "how").rows())
    stretch = (
        (pl.col("match") == 3)
        & (pl.col("period") == 2)
        & (pl.col("ts") < end)
        & (pl.col("te") > start)
    )

    def bars(stream: str) -> list[Bar]:
        return [
            Bar(row["ts"], row["te"], how.get(row["id"], ""), faded=row["id"] not in how)
            for row in played[stream].filter(stretch).iter_rows(named=True)
        ]

    pressures = [Bar(bar.start, bar.end) for bar in bars("pressures")]
    return lanes_picture(
        "Passes and pressures of ten seconds, and the relation of each pass to a pressure",
        [Lane("pass", "blue", bars("passes")), Lane("pressure", "orange", pressures)],
        [(time, _clock(time / 1000)) for time in range(start, end + 1, 1000)],
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _minutes(times: pl.Series, since: datetime) -> list[float]:
    return [(time - since) / timedelta(minutes=1) for time in times]


def glucose_picture() -> str:
    """Cereal flakes, and the glucose of the three hours after them."""
    data = glucose.streams()
    found = ps.query(glucose.QUERY).run(data).filter(id="2133-018", meal_meal="cereal flakes")
    match = found.row(0, named=True)
    eaten = match["meal_ts"]
    readings = data["glucose"].filter(
        pl.col("id") == "2133-018",
        pl.col("time").is_between(eaten - timedelta(minutes=30), eaten + timedelta(minutes=210)),
    )
    high = (match["high_ts"] - eaten) / timedelta(minutes=1)
    lasted = match["lasted"] / timedelta(minutes=1)
    points = zip(_minutes(readings["time"], eaten), readings["gl"].to_list(), strict=True)
    return lanes_picture(
        "A meal of cereal flakes overlaps the time in which glucose is above 140",
        [
            Lane("meal: two hours", "blue", [Bar(0, 120, "cereal flakes")]),
            Lane("high: gl > 140", "orange", [Bar(high, high + lasted, f"{lasted:.0f} min")]),
        ],
        [(minute, f"{minute} min") for minute in range(-30, 211, 30)],
        curve=Curve("glucose, mg/dl", list(points), [140]),
    )


def flights_picture() -> str:
    """The descent that levels off most often."""
    messages = flights.messages()
    found = ps.query(flights.QUERY).run(messages)
    key = ["icao24", "callsign"]
    counts = found.group_by(key).agg(pl.len(), start=pl.col("level_ts").min())
    chosen = counts.sort("len", *key, descending=[True, False, False]).row(0, named=True)
    flight = messages.filter(icao24=chosen["icao24"], callsign=chosen["callsign"])
    intervals = ps.query(flights.QUERY).intervals(flight)
    since = chosen["start"] - timedelta(minutes=6)
    levels = set(_minutes(found.filter(icao24=chosen["icao24"])["level_ts"], since))

    def bars(symbol: str) -> list[Bar]:
        rows = intervals.filter(pl.col("symbol") == symbol, pl.col("valid"))
        pairs = zip(_minutes(rows["ts"], since), _minutes(rows["te"], since), strict=True)
        return [Bar(s, e, faded=symbol == "level" and s not in levels) for s, e in pairs]

    seen = flight.filter(pl.col("time").is_between(since, since + timedelta(minutes=20)))
    points = zip(_minutes(seen["time"], since), seen["altitude"].to_list(), strict=True)
    return lanes_picture(
        f"The descent of {chosen['callsign']}: it levels off {chosen['len']} times",
        [Lane("down, again", "blue", bars("down")), Lane("level", "orange", bars("level"))],
        [(minute, f"{minute} min") for minute in range(0, 21, 4)],
        curve=Curve("altitude, ft", list(points), [15_000]),
    )


def rain_picture() -> str:
    """An evening of rain at Newark, and how many departures were waiting."""
    start = datetime(2013, 6, 10, 16, tzinfo=UTC)
    end = start + timedelta(hours=12)
    data = rain.streams()
    here = pl.col("origin") == "EWR"
    rains = rain.rains(data["weather"]).filter(here, pl.col("te") > start, pl.col("ts") < end)
    waits = data["waits"].filter(here).rename({"due": "ts", "departed": "te"})
    depth = ps.depth(waits, on="origin").filter(pl.col("te") > start, pl.col("ts") < end)

    def hours(times: pl.Series) -> list[float]:
        return [minute / 60 for minute in _minutes(times, start)]

    bars = [Bar(s, e) for s, e in zip(hours(rains["ts"]), hours(rains["te"]), strict=True)]
    steps = zip(hours(depth["ts"]), hours(depth["te"]), depth["count"].to_list(), strict=True)
    points = [
        (min(max(time, 0.0), 12.0), float(n))
        for since, until, n in steps
        for time in (since, until)
    ]
    return lanes_picture(
        "An evening of rain at Newark, and how many departures were waiting",
        [Lane("rain (hours in UTC)", "blue", bars)],
        [(hour, f"{(start + timedelta(hours=hour)):%H:%M}") for hour in range(0, 13, 2)],
        curve=Curve("departures waiting", points, [0, 20]),
    )


def spark_picture() -> str:
    """The stage that was held up, a lane for each core."""
    with LOG.open(encoding="utf-8") as lines:
        ran = spark_tasks.tasks(lines)
    match = spark_tasks.held_up(ran).sort("waited").row(-1, named=True)
    stage = ran.filter(stage=match["stage"])
    since = stage["ts"][0]
    cores: list[list[Bar]] = []
    for number, start, end in stage.select("id", pl.col("ts", "te") - since).rows():
        # the driver may say a little late that a task has finished
        free = next((core for core in cores if core[-1].end <= start + 100), None)
        if free is None:
            cores.append(free := [])
        free.append(Bar(start, end, f"task {number}"))
    alone = match["alone_ts"] - since
    lanes = [Lane(f"core {number}", "blue", bars) for number, bars in enumerate(cores, 1)]
    lanes.append(
        Lane("one task alone", "orange", [Bar(alone, alone + match["waited"], "finishes task 7")])
    )
    last = (stage["te"].max() - since) // 1000 + 1
    return lanes_picture(
        "The last task of a stage runs alone at its end",
        lanes,
        [(second * 1000, f"{second} s") for second in range(last + 1)],
    )


def gallery_pictures() -> Iterator[tuple[str, str]]:
    """The name and the picture of each entry."""
    yield "football", football_picture()
    yield "glucose", glucose_picture()
    yield "flights", flights_picture()
    yield "rain", rain_picture()
    yield "spark-tasks", spark_picture()
