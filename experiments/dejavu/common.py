"""Ticks, queries and sessions that DejaVu's experiments are made of."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any
from weakref import finalize

import numpy as np
import polars as pl

import piestream as ps
from experiments.benchmarks.common import measured
from experiments.harness.measure import Row, Size
from experiments.streams.ticks import walk

__all__ = ["PLANS", "cell", "named", "query_of", "signals", "speedup"]

#: The plans that are compared: their names, the order and whether known matches are kept.
PLANS: dict[str, ps.LivePlan] = {
    "live-first": ps.LivePlan("live-first", cache=False),
    "live-first, cache": ps.LivePlan("live-first", cache=True),
    "archive-first": ps.LivePlan("archive-first", cache=False),
    "archive-first, cache": ps.LivePlan("archive-first", cache=True),
    "eager": ps.LivePlan("eager"),
    "auto": ps.LivePlan(),
}

#: So many ticks load the code.
_WARM_ROWS = 400

_LIVE = {
    "signal": "(FROM ticks ORDER BY ts DEFINE s AS live PATTERN s WITHIN 20 RETURN s.ts AS n)",
    "fall": "(FROM ticks ORDER BY ts DEFINE s AS price < PREV(price) AT LEAST {least} EVENTS PATTERN s "
    "WITHIN 200 RETURN s.ts AS n)",
}
_PAST = {
    "signal": "(FROM ARCHIVE 'ticks' ORDER BY ts DEFINE s AS past PATTERN s WITHIN 20 RETURN s.ts AS n)",
    "rise": "(FROM ARCHIVE 'ticks' ORDER BY ts DEFINE s AS price > PREV(price) AT LEAST {least} EVENTS "
    "PATTERN s WITHIN 200 RETURN s.ts AS n)",
    "situations": "(FROM ARCHIVE 'ticks' ORDER BY ts DEFINE s AS past, d AS price < PREV(price), "
    "u AS price > PREV(price) PATTERN s before; meets; overlaps; starts; during d AND d meets u WITHIN 20 "
    "RETURN s.ts AS n)",
    "rows": "ARCHIVE 'ticks' MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n AFTER MATCH SKIP TO NEXT "
    "ROW PATTERN (A B) WITHIN 20 DEFINE A AS past)",
    "rows with memory": "ARCHIVE 'ticks' MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n AFTER MATCH SKIP "
    "TO NEXT ROW PATTERN (A B+) WITHIN 20 DEFINE A AS past, B AS B.price < A.price)",
    "drop and rise": "ARCHIVE 'ticks' MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n MAXIMAL MATCH "
    "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ C* D+) WITHIN 20 DEFINE B AS B.price < PREV(B.price), "
    "C AS C.price >= PREV(C.price) AND C.price <= A.price, D AS D.price > PREV(D.price) AND D.price > A.price)",
}


def query_of(window: int, live: str = "signal", past: str = "signal", least: int = 1,
             least_past: int = 1, above: int = -1) -> ps.Query:  # fmt: skip
    """What is looked for: something live, and something before it of which ``n`` is above a number."""
    return ps.query(
        f"FROM {_LIVE[live].format(least=least)} AS now "
        f"WITH {_PAST[past].format(least=least_past)} AS before "
        f"DEFINE l AS now.n > -1, a AS before.n > {above} "
        f"PATTERN a before; meets; overlaps l WITHIN {window} RETURN a.ts AS a_ts, l.te AS l_te"
    )


def signals(n: int, live: int, past: int) -> pl.DataFrame:
    """Ticks of which each so many is one that counts, live and in the past."""
    ticks = np.arange(n)
    return walk(n).with_columns(live=ticks % live == live - 1, past=ticks % past == past // 3)


def _session(
    query: ps.Query, ticks: pl.DataFrame, plan: ps.LivePlan, piece: int, archives: bool
) -> Callable[[], Row]:
    """All ticks through a session, whose archive has the first quarter of them."""
    first = len(ticks) // 4
    pieces = list(ticks[first:].iter_slices(piece))
    folder = tempfile.mkdtemp()
    runs = iter(range(1_000_000))

    def lake() -> ps.Archive:
        found = ps.archive(Path(folder, str(next(runs)), "ticks"), time="ts", page_rows=1024)
        found.append(ticks[:first])
        return found

    kept = lake()
    _warm(query, ticks.head(_WARM_ROWS), plan)

    def through() -> Row:
        own = lake() if archives else kept
        session = query.open(archives={"ticks": own}, plan=plan)
        found = 0
        for rows in pieces:
            found += len(session.push(rows))
            if archives:
                own.append(rows)
        found += len(session.close())
        return {"matches": found, **_counted(session)}

    finalize(through, rmtree, folder)
    return through


def _warm(query: ps.Query, ticks: pl.DataFrame, plan: ps.LivePlan) -> None:
    """Load the code that a session runs, over a few ticks."""
    with tempfile.TemporaryDirectory() as folder:
        lake = ps.archive(Path(folder, "ticks"), time="ts")
        lake.append(ticks.head(len(ticks) // 2))
        session = query.open(archives={"ticks": lake}, plan=plan)
        session.push(ticks.tail(len(ticks) // 2))
        session.close()


def _counted(session: ps.Session) -> Row:
    """How many rows each part worked on, and how many were read of the archive."""
    stream: Any = session._stream
    worked = sum(part.n_rows for part in stream.parts.values())
    stores = stream.stores.values()
    read = sum(store.archived.n_read for store in stores if store.archived is not None)
    in_memory = max((store.size for store in stores), default=0)
    return {"worked": worked, "read": read, "in_memory": in_memory, "plan": stream.choice.order}


def cell(
    size: Size, query: ps.Query, ticks: pl.DataFrame, plan: str | ps.LivePlan, *,
    piece: int = 1 << 20, archives: bool = False, **about: Any,
) -> Row:  # fmt: skip
    """The measurement of one plan on some ticks."""
    chosen = PLANS[plan] if isinstance(plan, str) else plan
    return measured(
        _session, query, ticks, chosen, piece, archives, size=size, events=len(ticks) * 3 // 4,
        describe=dict, **about,
    )  # fmt: skip


def named(rows: list[Row], **where: Any) -> Row | None:
    """The row of a case, if it was measured to its end."""
    for row in rows:
        if all(row.get(name) == value for name, value in where.items()):
            return row if row.get("events_per_s") else None
    return None


def speedup(one: Row | None, other: Row | None) -> str:
    """How many times as many rows a second a case works on as another."""
    if one is None or other is None:
        return "an unknown number of"
    return f"{one['events_per_s'] / other['events_per_s']:,.2f}"
