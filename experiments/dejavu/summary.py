"""What queries over live streams and archives cost, in one table: ``python -m experiments.dejavu.summary``.

Each number is the least CPU time of a few runs, on one thread. Trades are left out where the package that
has them is not installed (`experiments.streams.ticks`).
"""

from __future__ import annotations

import os

# One thread: Polars reads this when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import least_cost, rows_and_times, shown
from experiments.dejavu.common import PLANS, query_of, signals
from experiments.streams import SEED
from experiments.streams.ticks import trades, walk

__all__ = ["main"]

_WINDOW = 500
_WAYS: tuple[Literal["eager", "auto"], ...] = ("eager", "auto")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    n, times = rows_and_times(
        __doc__, arguments, 64_000, "of prices; of situations 5 times as many", times=3
    )
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            *_prices(Path(folder), n, times),
            *_situations(Path(folder), 5 * n, times),
            *_pushes(Path(folder), n, times),
            *_frames(Path(folder), 25 * n, times),
        ]
    print(shown([{"what": what, "measured": found} for what, found in rows]))


Table = Iterator[tuple[str, str]]


def _prices(folder: Path, n: int, times: int) -> Table:
    """DejaVu's query in each plan."""
    query = query_of(_WINDOW, "fall", "drop and rise", above=10)
    for name, ticks in (("a random walk", walk(n)), ("trades", trades(n))):
        if ticks is None:
            continue
        lake = _lake(folder / name, ticks.head(n // 4))
        rates = {
            plan: (n - n // 4) / _least(times, _session(query, ticks.tail(n - n // 4), lake, plan))
            for plan in PLANS
            if plan != "auto"
        }
        best = max(rates.values()) / rates["live-first"]
        listed = "; ".join(f"{plan}: {_rounded(rate)}" for plan, rate in rates.items())
        yield (
            f"DejaVu's query over {name}, a window of {_WINDOW}, rows/s",
            f"{listed}; the best is {best:.0f} times the first",
        )


def _situations(folder: Path, n: int, times: int) -> Table:
    """Situations, with a cache and without, where regions overlap and where they do not."""
    for apart, window in ((50, 1000), (200, 200)):
        ticks = signals(n, apart, 25)
        lake = _lake(folder / f"every {apart}", ticks.head(n // 4))
        rest, query = ticks.tail(n - n // 4), query_of(window)
        ways = {
            plan: _session(query, rest, lake, plan) for plan in ("live-first", "live-first, cache")
        }
        plain, cached = (cpu for cpu, _ in least_cost(ways, 2 * times + 1).values())
        title = f"situations each {apart} ticks, a window of {window:,}"
        if apart < window:
            rates = (_rounded(len(rest) / seconds) for seconds in (plain, cached))
            yield f"{title}: live-first without and with cache, rows/s", " and ".join(rates)
        else:
            yield (
                f"{title}: with cache, where no regions overlap",
                f"{plain / cached:.2f} times as fast as without",
            )


def _pushes(folder: Path, n: int, times: int) -> Table:
    """A push, and the choice of a plan."""
    ticks = signals(n, 50, 25)
    query, lake = query_of(_WINDOW), _lake(folder / "pushes", ticks.head(n // 4))
    for size in (200, 1):
        pieces = list(ticks.tail(n - n // 4).head(40 * size).iter_slices(size))

        def pushed(pieces: list[pl.DataFrame] = pieces) -> None:
            session = query.open(archives={"ticks": lake}, plan="live-first")
            for piece in pieces:
                session.push(piece)

        rows = "one row" if size == 1 else f"{size} rows"
        yield f"a push of {rows}", f"{1e3 * _least(times, pushed) / len(pieces):.1f} ms"
    few = ticks.tail(1)
    chosen, fixed = (
        _least(times, _session(query, few, lake, plan)) for plan in ("auto", "live-first, cache")
    )
    yield "to choose a plan", f"{1e3 * max(chosen - fixed, 0):.0f} ms"


def _frames(folder: Path, n: int, times: int) -> Table:
    """A run over a frame of few live matches, beside a large archive of many symbols."""
    n_symbols = 200
    draw = np.random.default_rng(SEED)
    steps = draw.choice([-1.0, 1.0], (n // n_symbols, n_symbols))
    past = pl.DataFrame(
        {
            "ts": np.repeat(np.arange(n // n_symbols), n_symbols),
            "symbol": np.tile(np.arange(n_symbols), n // n_symbols),
            "price": (100 + np.cumsum(steps, axis=0)).ravel(),
        }
    )
    lake = ps.archive(folder / "frames", time="ts", key="symbol", page_rows=10_000)
    lake.append(past)
    at = np.sort(draw.choice(n // n_symbols - 1, 10, replace=False))
    live = pl.DataFrame(
        {
            "ts": np.repeat(at, 2) + np.tile([0, 1], 10),
            "symbol": np.repeat(draw.integers(0, n_symbols, 10), 2),
            "hot": [True, False] * 10,
        }
    ).unique(["ts", "symbol"], keep="first", maintain_order=True)
    query = ps.query(
        "FROM (FROM news ORDER BY ts DEFINE n AS hot PATTERN n WITHIN 60) AS report "
        "WITH (FROM ARCHIVE 'ticks' ORDER BY ts DEFINE up AS price > PREV(price) AT LEAST 5 EVENTS PATTERN up "
        "WITHIN 60) AS rise PARTITION BY symbol DEFINE r AS report.n_ts >= 0, u AS rise.up_ts >= 0 "
        "PATTERN u before; meets; overlaps r WITHIN 70"
    )
    given = {"news": live}
    seconds = [
        _least(times, partial(query.run, given, archives={"ticks": lake}, plan=plan))
        for plan in _WAYS
    ]
    yield (
        f"a run of 10 live matches beside an archive of {n:,} rows: in all rows, and around them",
        " and ".join(f"{1e3 * one:.0f} ms" for one in seconds),
    )


def _lake(path: Path, rows: pl.DataFrame) -> ps.Archive:
    found = ps.archive(path, time="ts", page_rows=1024)
    found.append(rows)
    return found


def _session(query: ps.Query, rows: pl.DataFrame, lake: ps.Archive, plan: str) -> Callable[[], Any]:
    """A session that is given all rows at once."""

    def through() -> int:
        session = query.open(archives={"ticks": lake}, plan=PLANS[plan])
        return len(session.push(rows)) + len(session.close())

    return through


def _least(times: int, work: Callable[[], Any]) -> float:
    """The least CPU seconds of some runs, the first of which loads the code."""
    found = []
    for _ in range(times + 1):
        before = time.process_time()
        work()
        found.append(time.process_time() - before)
    return min(found[1:])


def _rounded(rate: float) -> str:
    """A rate with two digits that mean something.

    >>> _rounded(267_900.0), _rounded(3_961.0)
    ('270,000', '4,000')
    """
    digits = len(str(int(rate))) - 2
    return f"{round(rate, -digits):,.0f}"


if __name__ == "__main__":
    main()
