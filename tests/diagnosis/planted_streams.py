"""Near misses planted in queries over several streams: of events, rows of intervals, other queries.

``python -m tests.diagnosis.planted_streams 1000`` counts how many are ranked first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl

import piestream as ps
from piestream.demo.fleet import fleet
from piestream.diagnosis.parts import with_inner
from piestream.expressions.durations import Duration

_SECOND = 1_000_000_000

#: Two streams of events, and braking as rows of intervals; or as matches of a query.
_DEFINED = """
    FROM engine ORDER BY ts
    WITH gps ORDER BY ts
    WITH {brakes}
    PARTITION BY car_id
    DEFINE a AS engine.accel > 8 AT LEAST 3 s, s AS gps.speed > 60 AT LEAST 2 s, d AS {d}
    PATTERN a meets; overlaps; starts; during s AND a before d AND s meets; before d
    WITHIN 5 min
"""
ROWS = ps.query(_DEFINED.format(brakes="brakes FROM began TO ended", d="brakes.strength > 9"))
BRACKETS = ps.query(
    _DEFINED.format(
        brakes="(FROM engine DEFINE hard AS accel < -9 PATTERN hard WITHIN 1 min) AS brakes",
        d="brakes",
    )
)
_BRAKES = ps.query("""
    FROM engine PARTITION BY car_id ORDER BY ts DEFINE d AS accel < -9 PATTERN d WITHIN 1 h
    EMIT ON COMPLETION RETURN d.ts AS began, d.te AS ended, MIN(d.accel) AS least
""")


@dataclass(frozen=True)
class Planted:
    """A query and the rows of its streams in which a match just fails, where, and for what."""

    query: ps.Query
    rows: Mapping[str, pl.DataFrame]
    partition: dict[str, Any]
    between: tuple[Any, Any]
    kind: str
    words: str  # that a change which mends it has


def _streams(cars: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of the streams: GPS has every second row, at other times."""
    brakes = _BRAKES.run(cars)
    return {
        "engine": cars.select("car_id", "ts", "accel"),
        "gps": cars.select("car_id", "ts", "speed"),
        "brakes": brakes.select("car_id", "began", "ended", strength=-pl.col("least")),
    }


def planted(count: int, seed: int = 0) -> Iterator[Planted]:
    """So many of them, of every kind."""
    rng = Random(seed)
    made = 0
    kinds = [
        (query, kind)
        for query in (ROWS, BRACKETS)
        for kind in ("event threshold", "last threshold", "duration", "window", "relation")
    ] + [(BRACKETS, "inner duration"), (ROWS, "endpoint")]
    while made < count:
        streams = _streams(fleet(cars=400, seconds=1800, seed=rng.randrange(1 << 30)))
        cars = streams["engine"]["car_id"].unique().to_list()
        of = {
            car: {name: rows.filter(pl.col("car_id") == car) for name, rows in streams.items()}
            for car in cars
        }
        for match in ROWS.run(streams).rows(named=True):
            query, kind = kinds[made % len(kinds)]
            own = dict(of[match["car_id"]])
            found = _plant(query, kind, own, match, rng)
            if found is not None and made < count:
                made += 1
                yield found


def _plant(
    query: ps.Query, kind: str, rows: dict[str, pl.DataFrame], match: dict[str, Any], rng: Random
) -> Planted | None:
    """Make one match fail in one way; None if another match is left where it was."""
    starts = [match[f"{name}_ts"] for name in "asd"]
    less = rng.uniform(0.01, 0.3)
    first, words = kind, ""
    if kind == "event threshold":
        first, words = "threshold", "gps.speed"
        inside = pl.col("ts").is_between(match["s_ts"], match["s_te"], closed="left")
        run = rows["gps"].filter(inside)
        if not len(run):
            return None
        rows["gps"] = rows["gps"].with_columns(
            pl.when(inside).then(60 - less).otherwise("speed").alias("speed")
        )
    elif kind == "last threshold":
        first, words = "threshold", "brakes.strength" if query is ROWS else "engine.accel"
        this = pl.col("began") == match["d_ts"]
        rows["brakes"] = rows["brakes"].with_columns(
            pl.when(this).then(9 - less).otherwise("strength").alias("strength")
        )
        run = pl.col("ts").is_between(match["d_ts"], match["d_te"], closed="left")
        if query is BRACKETS:
            rows["engine"] = rows["engine"].with_columns(
                pl.when(run).then(-9 + less).otherwise("accel").alias("accel")
            )
    elif kind == "duration":
        length = ROWS.intervals(rows).filter(symbol="a", ts=match["a_ts"])["duration"][0]
        bound = Duration((int(length.total_seconds()) + 1) * _SECOND)
        a, *rest = query.symbols
        words = "a lasted"
        query = replace(query, symbols=(replace(a, at_least=bound), *rest))
    elif kind == "inner duration":
        first, words = "duration", "hard lasted"
        length = match["d_te"] - match["d_ts"]
        bound = Duration((int(length.total_seconds()) + 1) * _SECOND)
        inner = query.streams[2].query
        assert inner is not None
        hard = replace(inner.symbols[0], at_least=bound)
        query = with_inner(query, 2, replace(inner, symbols=(hard,)))
    elif kind == "relation":  # s begins a second after the end of a
        late = pl.col("ts").is_between(match["s_ts"], match["a_te"])
        rows["gps"] = rows["gps"].with_columns(
            pl.when(late).then(30.0).otherwise("speed").alias("speed")
        )
        starts[1] = match["a_te"] + timedelta(seconds=1)
    elif kind == "endpoint":  # the row of d begins a second before the end of s
        if match["s_te"] is None or match["s_te"] > match["d_ts"]:
            return None
        early = match["s_te"] - timedelta(seconds=1)
        this = pl.col("began") == match["d_ts"]
        rows["brakes"] = rows["brakes"].with_columns(
            pl.when(this).then(pl.lit(early)).otherwise("began").alias("began")
        )
        first, words = "endpoint", "brakes.began"
    else:
        seconds = int((match["detected_at"] - min(starts)).total_seconds()) - 1
        query = replace(query, within=Duration(max(seconds, 3) * _SECOND))
        words = "WITHIN"
    names = [stream.name for stream in query.inputs]
    rows = {name: frame for name, frame in rows.items() if name in names}
    case = Planted(
        query, rows, {"car_id": match["car_id"]}, (min(starts), max(starts)), first, words
    )
    return None if appears(case, query) else case


def is_first(case: Planted, found: Any) -> bool:
    """Whether the planted near miss is ranked first."""
    first = next(iter(found.near_misses), None)
    if first is None:
        return False
    if case.kind == "endpoint":  # the relation may be allowed instead, which is as large a change
        moved = next((m for m in found.near_misses if m.kind == "endpoint"), None)
        return moved is not None and moved.size == first.size and case.words in moved.text
    return first.kind == case.kind and case.words in first.text


def looked_into(case: Planted) -> Any:
    """What `why_not` says of a planted near miss."""
    return case.query.why_not(case.rows, partition=case.partition, between=case.between)


def appears(case: Planted, query: ps.Query, rows: Any = None) -> bool:
    """Whether a query has a match in the rows, where it is expected."""
    found = query.run(dict(rows or case.rows))
    return not found.filter(
        pl.all_horizontal(pl.col(f"{n}_ts").is_between(*case.between) for n in "asd")
    ).is_empty()


if __name__ == "__main__":
    first: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for case in planted(int(sys.argv[1])):
        found = looked_into(case)
        total[case.kind] += 1
        first[case.kind] += is_first(case, found)
        if not is_first(case, found):
            print(case.kind, case.words, case.between, found, sep="\n")
        for miss in found.near_misses:
            assert appears(case, miss.query, miss.moved and miss.moved.of(case.rows)), miss
    print({kind: f"{first[kind]} of {number}" for kind, number in total.items()})
