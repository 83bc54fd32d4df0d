"""Descents that level off on their way: ``python -m examples.flights``.

The data is three hours of ADS-B messages around Paris, the collection ``quickstart`` of traffic.
"""

from __future__ import annotations

import gzip
from datetime import timedelta
from statistics import median

import polars as pl

import piestream as ps
from examples.sources import file_of

QUERY = """\
FROM flights PARTITION BY icao24, callsign ORDER BY time MAX GAP 1 min
DEFINE down  AS vertical_rate < -500 AT LEAST 30 s,
       level AS vertical_rate BETWEEN -300 AND 300 AND altitude < 15000 AT LEAST 30 s,
       again AS vertical_rate < -500 AT LEAST 30 s
PATTERN down meets; followed-by level
    AND level meets; followed-by again
WITHIN 20 min
RETURN level.ts, level.te, AVG(level.altitude) AS altitude
"""

DESCENTS = """\
FROM flights PARTITION BY icao24, callsign ORDER BY time MAX GAP 1 min
DEFINE down AS vertical_rate < -500 AND altitude < 15000 AT LEAST 30 s
PATTERN down WITHIN 1 h
"""


def messages() -> pl.DataFrame:
    """The messages that say how fast an aircraft rises or sinks."""
    path = file_of("traffic", "data/samples/collections/quickstart.json.gz")
    return (
        pl.read_json(gzip.decompress(path.read_bytes()))
        .with_columns(time=pl.from_epoch("timestamp", "ms"))
        .filter(pl.col("vertical_rate").is_not_null(), pl.col("altitude").is_not_null())
        .select("icao24", "callsign", "time", "altitude", "vertical_rate", "groundspeed")
    )


def main() -> None:
    """Print how many descents level off, how long and how high."""
    flights = messages()
    found = ps.query(QUERY).run(flights)
    key = ["icao24", "callsign"]
    descents = ps.query(DESCENTS).run(flights).unique(key)
    stepped = found.unique(key)
    lasted = (found["level_te"] - found["level_ts"]).dt.total_seconds().to_list()
    print(f"{len(flights):,} messages of {len(flights.unique(key))} flights")
    print(f"{len(descents)} descend, {len(stepped)} of them level off: {len(found)} times")
    total = timedelta(seconds=sum(lasted))
    print(f"median of a level stretch: {median(lasted):.0f} s, all of them: {total}")
    heights = found.group_by((pl.col("altitude") / 1000).floor().cast(int) * 1000).len()
    for height, count in heights.sort("len", "altitude", descending=True).head(3).rows():
        print(f"from {height:,} ft: {count}")


if __name__ == "__main__":
    main()
