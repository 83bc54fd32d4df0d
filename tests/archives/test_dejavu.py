"""The tables of DejaVu (DEBS 2011), as a live stream beside an archive of the same ticks.

There an interval ends with its last row; here it ends with the row after that. So each end is one tick
later, and so is the recency.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives.live_stream import LiveStream
from piestream.engine.union import END, START

_PRICES = (10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3)
_TICKS = pl.DataFrame(
    {"ts": range(11), "symbol": ["X"] * 11, "price": [float(price) for price in _PRICES]}
)
_QUERY = """
    FROM trades MATCH_RECOGNIZE (
        ORDER BY ts MEASURES FIRST(A.price) AS init, LAST(B.price) AS low
        INCREMENTAL MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B+) WITHIN 20 DEFINE B AS B.price < PREV(B.price)) AS fall
    WITH ARCHIVE 'trades' MATCH_RECOGNIZE (
        ORDER BY ts MEASURES FIRST(A.price) AS init, LAST(D.price) AS high
        MAXIMAL MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B+ C* D+) WITHIN 20
        DEFINE B AS B.price < PREV(B.price),
               C AS C.price >= PREV(C.price) AND C.price <= A.price,
               D AS D.price > PREV(D.price) AND D.price > A.price) AS rise
    PARTITION BY symbol
    DEFINE l AS fall.low > 0, a AS rise.high > 0
    PATTERN a before; meets; overlaps l
    WITHIN 30
    WHERE l.te - a.ts <= :recency
    RETURN a.ts AS ts, l.te AS te, l.init AS live_init, l.low AS live_min, a.init AS init, a.high AS high
"""
_PLANS = [
    ps.LivePlan(order, cache=cache)  # type: ignore[arg-type]
    for order in ("eager", "live-first", "archive-first")
    for cache in (True, False)
]


@pytest.fixture
def lake(tmp_path: Path) -> ps.Archive:
    """An archive of the first ticks."""
    found = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    found.append(_TICKS[:4])
    return found


def _rows(
    lake: ps.Archive, plan: ps.LivePlan, recency: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """When each row is given, with it, as DejaVu writes it."""
    query = ps.query(_QUERY, recency=recency + 1)
    session = query.open(archives={"trades": lake}, plan=plan)
    pushed = ((tick["ts"][0], session.push(tick)) for tick in _TICKS.iter_slices(1))
    for time, found in [*pushed, (11, session.close())]:
        for _, _, ts, te, *values in found.rows():
            yield time, (ts, te - 1, *values)


@pytest.mark.parametrize("plan", _PLANS, ids=str)
def test_table_1_in_each_plan(lake: ps.Archive, plan: ps.LivePlan) -> None:
    assert sorted(row for _, row in _rows(lake, plan, 7)) == [
        (2, 5, 7, 6, 6, 7),
        (2, 7, 11, 8, 6, 7),
        (2, 9, 8, 3, 6, 7),
        (4, 7, 11, 8, 7, 11),
        (4, 9, 8, 3, 7, 11),
    ]


@pytest.mark.parametrize(("recency", "rows"), [(7, 5), (6, 4), (5, 4), (3, 2), (2, 0)])
def test_how_many_rows_each_recency_leaves(lake: ps.Archive, recency: int, rows: int) -> None:
    assert len(list(_rows(lake, ps.LivePlan(), recency))) == rows


def test_tables_3_and_4_both_orders_give_each_row_with_the_tick_that_decides_it(
    lake: ps.Archive,
) -> None:
    # a fall is certain with the row after its last one, and an instant is over with the next row
    expected = {5: 7, 7: 9, 9: 11}
    for order in ("live-first", "archive-first"):
        for time, row in _rows(lake, ps.LivePlan(order), 7):  # type: ignore[arg-type]
            assert time == expected[row[1]]


_A1, _A2 = (2, 4), (4, 6)
_L2, _L3, _L4, _L5, _L6 = (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)


@pytest.mark.parametrize(
    ("order", "part", "changes"),
    [
        # Table 3 has {a1} from 05 on, {a1, a2} from 07 on, {a2} from 10 on
        ("live-first", 1, {0: [], 6: [_A1], 8: [_A1, _A2], 12: [_A2]}),
        # Table 4 has {l3} from 05 on, {l3, l4} from 07 on, {l3, l4, l5} from 09 on, {l4, l5} from 10 on; here
        # a region has what begins with it, too, and what is in the window stays
        (
            "archive-first", 0,
            {
                0: [], 6: [_L2], 7: [_L2, _L3], 9: [_L2, _L3, _L4], 11: [_L2, _L3, _L4, _L5],
                12: [_L3, _L4, _L5], 13: [_L3, _L4, _L5, _L6],
            },
        ),
    ],
)  # fmt: skip
def test_tables_3_and_4_the_cache_has_the_matches_of_the_latest_regions(
    lake: ps.Archive, order: Any, part: int, changes: dict[int, list[tuple[int, int]]]
) -> None:
    # behind the table the price falls once more, so that there is a region to come
    more = pl.DataFrame({"ts": [11, 12, 13], "symbol": ["X"] * 3, "price": [2.0, 4.0, 4.0]})
    query = ps.query(_QUERY.replace("WITHIN 30", "WITHIN 8"), recency=8)
    session = query.open(archives={"trades": lake}, plan=ps.LivePlan(order, cache=True))
    found = {}
    cached: list[tuple[int, int]] | None = None
    for tick in pl.concat([_TICKS, more]).iter_slices(1):
        session.push(tick)
        stream = session._stream
        assert isinstance(stream, LiveStream)
        before, cached = cached, _cached(stream, part)
        if cached != before:
            found[tick["ts"][0]] = cached
    assert found == changes


def _cached(stream: LiveStream, part: int) -> list[tuple[int, int]]:
    """The matches that a part keeps, from their first row to their last."""
    kept = stream.parts[part].cached
    return (
        sorted((start, end - 1) for start, end in kept.select(START, END).rows())
        if len(kept)
        else []
    )


def _counted(window: int, cache: bool, tmp_path: Path) -> tuple[LiveStream, int]:
    """A session over a live match each 50 ticks and one in the archive each 25, at its end."""
    n = 3000
    ticks = pl.DataFrame(
        {"ts": range(n), "falls": [i % 50 == 49 for i in range(n)],
         "rises": [i % 25 == 7 for i in range(n)]}
    )  # fmt: skip
    query = ps.query(
        """
        FROM (FROM t ORDER BY ts DEFINE f AS falls PATTERN f WITHIN 5) AS fall
        WITH (FROM ARCHIVE 't' ORDER BY ts DEFINE r AS rises PATTERN r WITHIN 5) AS rise
        DEFINE l AS fall.f_ts > 0, a AS rise.r_ts > 0
        PATTERN a before; meets; overlaps l WITHIN :window
        """,
        window=window,
    )
    found = ps.archive(tmp_path / f"{window} {cache}", time="ts")
    found.append(ticks[:1500])
    session = query.open(archives={"t": found}, plan=ps.LivePlan("live-first", cache=cache))
    for piece in ticks[1500:].iter_slices(50):
        session.push(piece)
    stream = session._stream
    assert isinstance(stream, LiveStream)
    return stream, (n - 1500) // 50 - 1  # the last match is not certain yet


@pytest.mark.parametrize("window", [10, 50, 100, 500])
def test_table_5_a_cache_leaves_of_each_region_the_rows_since_the_one_before(
    window: int, tmp_path: Path
) -> None:
    plain, regions = _counted(window, cache=False, tmp_path=tmp_path)
    caching, _ = _counted(window, cache=True, tmp_path=tmp_path)
    per_region = plain.parts[1].n_rows / regions
    assert window <= per_region <= window + 3
    rest = (caching.parts[1].n_rows - window) / (regions - 1)
    assert min(window, 50) - 3 <= rest <= min(window, 50) + 3
    cached = len(caching.parts[1].cached)
    assert window // 25 - 1 <= cached <= window // 25 + 3
