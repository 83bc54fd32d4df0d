"""Archives whose statistics promise more than their rows keep, and what is decoded of them all the same.

What a query selects of an archive is chosen by what is known of pages. Here this is misleading: on most pages
a condition can be true as far as bounds tell, and is true of no row; what a trial of a few pages shows is not so
for a few others; partitions have their next row far away, or none. So much is read that a scan is better. The
table has for each case how many values (rows by columns) are decoded beside those of a scan, which is never more
than 1.05, and what it costs beside a scan.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import archived, forced, least_cost, shown
from piestream.adapters.inputs import Inputs
from piestream.archives import pages as archive_pages
from piestream.archives import several
from piestream.archives.decoded import DecodedPages
from piestream.language.options import AtEnd

__all__ = ["CASES", "Case", "counted", "main", "misleading"]


def misleading(rows: int, page_rows: int, every: int) -> pl.DataFrame:
    """Rows of a drive in which bounds promise much.

    Every so many-th page of the first quarter has a row at which ``brake`` is true, and so has one page at the
    end of the third. On every page there are rows with a large x, with a large y, with small ones; ``both`` are
    large, or small, only around the first of these pages, so that what needs both is near for them, and for the last
    one far away. The ``unit`` of a row is seldom that of another one, of which bounds tell nothing.
    """
    draw = np.random.default_rng(7)
    ts = np.arange(rows)
    page, place = ts // page_rows, ts % page_rows
    n_pages = -(-rows // page_rows)
    middle = page_rows // 2
    is_early = (page % every == every // 2) & (page < n_pages // 4)
    is_rare = is_early | (page == 3 * n_pages // 4)
    near = np.abs(place - middle)
    x, y = draw.normal(0, 1, rows), draw.normal(0, 1, rows)
    x[place == 0], y[place == 1] = 9, 9
    x[place == 2], y[place == 3] = -9, -9
    for sign, at in ((9, (4, 14)), (-9, (9, 24))):
        chosen = is_early & np.isin(middle - place, at)
        x[chosen] = y[chosen] = sign
        chosen = is_early & np.isin(place - middle, at)
        x[chosen] = y[chosen] = -sign
    unit = draw.permutation(rows) // 3
    unit[near > 2] = draw.integers(0, 40, rows)[near > 2]
    return pl.DataFrame(
        {
            "ts": ts,
            "car": draw.integers(0, 8, rows),
            "unit": np.where(is_early & (near < 9), page // every % 8, unit),
            "brake": is_rare & (near < 2),
            "speed": draw.normal(60, 5, rows).round(2),
            "x": x.round(3),
            "y": y.round(3),
            "heat": np.cumsum(draw.normal(0, 0.01, rows)).round(3),
        }
    )


_LARGE, _SMALL = "x > 5 AND y > 5", "x < -5 AND y < -5"


@dataclass(frozen=True)
class Case:
    """A query, and which of its inputs are archives."""

    text: str
    at_end: AtEnd = "open"
    inputs: tuple[str, ...] = ()
    #: Pages are taken by this key.
    key: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    def given(self, lake: ps.Archive) -> Any:
        """What the query is given."""
        return lake if not self.inputs else dict.fromkeys(self.inputs, lake)


def _simple(
    f: str, *, keys: str = "", relations: str = "before; overlaps", emit: str = "", within: int = 20,
    before: str = "", **settings: Any,
) -> Case:  # fmt: skip
    by = f"PARTITION BY {keys} " if keys else ""
    return Case(
        f"FROM s {by}ORDER BY ts DEFINE b AS brake, f AS {f} {before}"
        f"PATTERN b {relations} f WITHIN {within} {emit} RETURN MAX(f.heat) AS heat, b.ts",
        **settings,
    )


#: By what misleads each.
CASES: dict[str, Case] = {
    "nothing does": _simple("speed > 66"),
    "UNTIL, of no row": _simple("x > 5 AND y > 50 UNTIL x < -50 AND y < -5"),
    "UNTIL, of a few": _simple(f"{_LARGE} UNTIL {_SMALL}"),
    "UNTIL by key": _simple(f"{_LARGE} UNTIL {_SMALL}", keys="car", key="car"),
    "UNTIL by two keys": _simple(f"{_LARGE} UNTIL {_SMALL}", keys="car, unit"),
    "UNTIL and a limit": _simple(f"{_LARGE} UNTIL {_SMALL}", emit="LIMIT 3"),
    "EMIT ON BOTH": _simple(f"NOT ({_LARGE})", relations="during", emit="EMIT ON BOTH"),
    "both by key": _simple(f"NOT ({_LARGE})", keys="car", relations="during", emit="EMIT ON BOTH"),
    "both and UNTIL": _simple(f"{_SMALL} UNTIL {_LARGE}", emit="EMIT ON BOTH", relations="before"),
    "both, by two keys": _simple(
        f"NOT ({_LARGE})", keys="car, unit", relations="during; starts", emit="EMIT ON BOTH"
    ),
    "at_end=close": _simple("speed > 60", at_end="close"),
    "close by two keys": _simple("speed > 50", keys="car, unit", at_end="close"),
    "close by rare keys": _simple("speed > 50", keys="unit, car", at_end="close", within=3),
    "close and both": _simple(
        f"NOT ({_LARGE})", keys="unit, car", relations="during; starts; equals",
        emit="EMIT ON BOTH", at_end="close",
    ),
    "PREV": _simple("speed > PREV(speed, 3)", keys="car, unit"),
    "PREV by rare keys": _simple("speed > PREV(speed, 2)", keys="unit, car"),
    "MAX GAP": Case(
        "FROM s PARTITION BY unit, car ORDER BY ts MAX GAP 50000 DEFINE b AS brake, f AS speed > 50 "
        "PATTERN b starts; during; equals f WITHIN 20"
    ),
    "NOT": Case(
        f"FROM s ORDER BY ts DEFINE b AS brake, f AS speed > 60, c AS {_LARGE} UNTIL {_SMALL} "
        "PATTERN b before; overlaps f AND NOT (c intersects b) WITHIN 20"
    ),
    "row pattern by rare keys": Case(
        "FROM s MATCH_RECOGNIZE (PARTITION BY unit, car ORDER BY ts MEASURES FIRST(B.ts) AS b, "
        "LAST(F.ts) AS f PATTERN (B X{0,3} F) DEFINE B AS brake, F AS speed > 60)"
    ),
    "two streams": Case(
        f"FROM s ORDER BY ts WITH t ORDER BY ts DEFINE b AS s.brake, f AS t.{_LARGE} "
        "PATTERN b before; overlaps f WITHIN 20".replace(" AND y", " AND t.y"),
        inputs=("s", "t"),
    ),
    "two streams and UNTIL": Case(
        f"FROM s ORDER BY ts WITH t ORDER BY ts DEFINE b AS s.brake, f AS t.{_LARGE} UNTIL t.{_SMALL} "
        "PATTERN b before; overlaps f WITHIN 20".replace(" AND y", " AND t.y"),
        inputs=("s", "t"),
    ),
    "two streams, UNTIL, by key": Case(
        "FROM s ORDER BY ts WITH t ORDER BY ts PARTITION BY car DEFINE b AS s.brake, "
        f"f AS t.{_LARGE} UNTIL t.{_SMALL} "
        "PATTERN b before; overlaps f WITHIN 20".replace(" AND y", " AND t.y"),
        inputs=("s", "t"),
    ),
}  # fmt: skip


@dataclass
class Count:
    """How much has been decoded."""

    values: int = 0
    reads: int = 0


@contextmanager
def counted() -> Iterator[Count]:
    """Count the values (rows by columns) that are decoded of archives, and how often reading begins."""
    found = Count()
    collected, all_rows = archive_pages._collected, several._all_rows

    def counting(scans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
        frames = collected(scans)
        found.values += sum(frame.width * frame.height for frame in frames)
        found.reads += len(frames)
        return frames

    def counting_all(
        inputs: Inputs, key: str, archive: ps.Archive, kept: DecodedPages
    ) -> pl.DataFrame:
        before = found.values
        rows = all_rows(inputs, key, archive, kept)
        if found.values == before:
            found.values += rows.width * rows.height
            found.reads += 1
        return rows

    archive_pages._collected, several._all_rows = counting, counting_all
    try:
        yield found
    finally:
        archive_pages._collected, several._all_rows = collected, all_rows


def decoded(query: ps.Query, case: Case, lake: ps.Archive, is_selecting: bool | None) -> Count:
    """What is decoded for a query, as `forced` says."""
    with counted() as found, forced(is_selecting):
        query.run(case.given(lake), threads=1, at_end=case.at_end)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--page-rows", type=int, default=1000)
    parser.add_argument("--every", type=int, nargs="+", default=[20])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    size = parser.parse_args(arguments)
    table: list[dict[str, object]] = []
    for every in size.every:
        frame = misleading(size.rows, size.page_rows, every)
        for key in dict.fromkeys(CASES[name].key for name in size.cases):
            with archived([frame], size.page_rows, key=key) as lake:
                own = [name for name in size.cases if CASES[name].key == key]
                table += [_line(name, every, lake, size.times) for name in own]
    print(shown(table))


def _line(name: str, every: int, lake: ps.Archive, times: int) -> dict[str, object]:
    case = CASES[name]
    query = ps.query(case.text)

    def run(is_selecting: bool | None) -> None:
        with forced(is_selecting):
            query.run(case.given(lake), threads=1, at_end=case.at_end)

    ways: dict[str, Callable[[], object]] = {
        "scans": partial(run, False),
        "decides": partial(run, None),
    }
    cost = {way: least[0] for way, least in least_cost(ways, times).items()}
    scan, own = (decoded(query, case, lake, way) for way in (False, None))
    return {
        "query": name,
        "one page in": every,
        "values decoded / those of a scan": f"{own.values / scan.values:.3f}",
        "reads": own.reads,
        **{way: f"{1e3 * seconds:.0f} ms" for way, seconds in cost.items()},
        "decides / scans": f"{cost['decides'] / cost['scans']:.2f}",
    }


if __name__ == "__main__":
    main()
