"""Random tables of intervals: few instants, so that endpoints coincide, and few keys."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import polars as pl

from tests.interval_tables.brute import HOLDS, Distance, Row

__all__ = ["Case", "frame_of", "random_case", "random_rows"]

_NAMES = [*HOLDS, "followed-by", "follows"]


@dataclass(frozen=True)
class Case:
    """Two tables, and what a join asks of a pair."""

    xs: list[Row]
    ys: list[Row]
    names: list[str]
    distances: list[Distance]
    nearest: int | None

    @property
    def relations(self) -> str:
        return "; ".join(self.names)

    @property
    def where(self) -> str | None:
        return " AND ".join(map(str, self.distances)) or None


def frame_of(rows: list[Row]) -> pl.DataFrame:
    """Rows with their numbers, as a frame."""
    return pl.DataFrame(
        {
            "row": range(len(rows)),
            "k": [row.key for row in rows],
            "ts": [row.ts for row in rows],
            "te": [row.te for row in rows],
        },
        schema={"row": pl.Int64, "k": pl.String, "ts": pl.Int64, "te": pl.Int64},
    )


def random_rows(random: Random, most: int, instants: int, keys: list[str | None]) -> list[Row]:
    rows = []
    for _ in range(random.randint(0, most)):
        ts = random.randrange(instants)
        longest = random.choice([2, 5, instants])
        rows.append(Row(ts, ts + random.randint(1, longest), random.choice(keys)))
    if random.random() < 0.3:
        rows.sort(key=lambda row: (row.ts, row.te))
    return rows


def random_case(seed: int) -> Case:
    """A case of its own for each seed."""
    random = Random(seed)
    instants = random.choice([4, 12, 40])
    keys: list[str | None] = random.choice([["a"], ["a", "b"], ["a", "b", "c", None]])
    most = random.choice([3, 10, 40])
    names = random.sample(_NAMES, random.choice([1, 1, 2, 3, random.randint(1, len(_NAMES))]))
    distances = []
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        sides = random.sample("xy", 2)
        ends = [(side, random.choice(["ts", "te"])) for side in sides]
        sign = random.choice(["<", "<=", "=", ">=", ">"])
        ticks = random.randint(-instants // 2, instants // 2)
        distances.append(Distance(ends[0], ends[1], sign, ticks))
    nearest = random.choice([None, None, 1, 2, 5])
    xs, ys = (random_rows(random, most, instants, keys) for _ in range(2))
    return Case(xs, ys, names, distances, nearest)
