"""Near misses planted in a generated fleet: a match that just fails in one way, which is known.

``python -m tests.diagnosis.planted 1000`` counts how many are ranked first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl

import piestream as ps
from piestream.demo.fleet import fleet
from piestream.expressions.durations import Duration

QUERY = ps.query("""
    FROM cars PARTITION BY car_id ORDER BY ts
    DEFINE a AS accel > 8 AT LEAST 3 s, s AS speed > 60 AT LEAST 2 s, d AS accel < -9
    PATTERN a meets; overlaps; starts; during s AND a before d AND s meets; before d
    WITHIN 5 min
""")
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Planted:
    """A query and a car's rows in which a match just fails, where it would be, and for what."""

    query: ps.Query
    rows: pl.DataFrame
    partition: dict[str, Any]
    between: tuple[Any, Any]
    kind: str
    symbol: str | None


def planted(count: int, seed: int = 0) -> Iterator[Planted]:
    """So many of them, of every kind."""
    rng = Random(seed)
    made = 0
    while made < count:
        rows = fleet(cars=400, seconds=1800, seed=rng.randrange(1 << 30))
        cars = rows.partition_by("car_id", as_dict=True)
        for match in QUERY.run(rows).rows(named=True):
            kind = ("threshold", "duration", "window", "relation")[made % 4]
            found = _plant(kind, cars[match["car_id"],], match, rng)
            if found is not None and made < count:
                made += 1
                yield found


def _plant(kind: str, rows: pl.DataFrame, match: dict[str, Any], rng: Random) -> Planted | None:
    """Make one match fail in one way; None if another match is left where it was."""
    query, symbol = QUERY, None
    starts = [match[f"{name}_ts"] for name in "asd"]
    if kind == "threshold":
        symbol = "d"
        inside = pl.col("ts").is_between(match["d_ts"], match["d_ts"].replace(second=59))
        run = inside & (pl.col("accel") < -9)
        rows = rows.with_columns(
            pl.when(run).then(-9 + rng.uniform(0.01, 0.3)).otherwise("accel").alias("accel")
        )
    elif kind == "duration":
        symbol = "a"
        length = QUERY.intervals(rows).filter(symbol="a", ts=match["a_ts"])["duration"][0]
        bound = Duration((int(length.total_seconds()) + 1) * _SECOND)
        first, *rest = QUERY.symbols
        query = replace(QUERY, symbols=(replace(first, at_least=bound), *rest))
    elif kind == "relation":  # s begins a second after the end of a
        late = pl.col("ts").is_between(match["s_ts"], match["a_te"])
        rows = rows.with_columns(pl.when(late).then(30.0).otherwise("speed").alias("speed"))
        starts[1] = match["a_te"] + timedelta(seconds=1)
    else:
        seconds = int((match["detected_at"] - min(starts)).total_seconds()) - 1
        query = replace(QUERY, within=Duration(max(seconds, 3) * _SECOND))
    between = min(starts), max(starts)
    here = query.run(rows).filter(
        pl.all_horizontal(pl.col(f"{n}_ts").is_between(*between) for n in "asd")
    )
    if len(here):
        return None
    return Planted(query, rows, {"car_id": match["car_id"]}, between, kind, symbol)


def changed_symbol(before: ps.Query, after: ps.Query) -> str | None:
    """The symbol that a change is about."""
    pairs = zip(before.symbols, after.symbols, strict=True)
    return next((x.name for x, y in pairs if replace(x) != replace(y)), None)


def is_first(case: Planted, found: Any) -> bool:
    """Whether the planted near miss is ranked first."""
    if not found.near_misses:
        return False
    first = found.near_misses[0]
    return first.kind == case.kind and (
        case.symbol is None or changed_symbol(found.query, first.query) == case.symbol
    )


def looked_into(case: Planted) -> Any:
    """What `why_not` says of a planted near miss."""
    return case.query.why_not(case.rows, partition=case.partition, between=case.between)


def appears(case: Planted, query: ps.Query) -> bool:
    """Whether the changed query has a match among all the rows, where it is expected."""
    found = query.run(case.rows)
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
            print(case.kind, case.symbol, case.between, found, sep="\n")
        assert all(appears(case, miss.query) for miss in found.near_misses)
    print({kind: f"{first[kind]} of {number}" for kind, number in total.items()})
