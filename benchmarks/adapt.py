"""A stream whose rates change, and every join order that the query's spelling can force.

``a before b AND a before c AND b before c``, where a : b : c occur 1 : 1 : 1, then 1 : 50 : 50, then
50 : 1 : 1. The order of DEFINE and of PATTERN breaks ties of the plan; spellings that take the
same number of steps in every phase are one order. ``steps`` depends on no clock.

A row a phase and order, in a session that has come through the phases before (with the plan's own
adaption, if it has one, at work: then all spellings come to the same). ``times_best`` compares with
the order that is best in that phase.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import accumulate, pairwise, permutations

import polars as pl

import piestream as ps
from benchmarks.measure import Row, Scale, Yardstick
from benchmarks.streams import seed
from piestream.binding import bind
from piestream.generators import booleans
from piestream.stream import Stream

TITLE = "Rates that change"
COLUMNS = ("phase", "order", "spellings", "events", "matches", "steps", "cpu_s", "times_best",
           "steps_times_best", "ratio_to_yardstick")  # fmt: skip

RATIOS = ((1, 1, 1), (1, 50, 50), (50, 1, 1))
_CLAUSES = ("a before b", "a before c", "b before c")


def spellings() -> Iterator[ps.Query]:
    """The same query, 36 times."""
    for names in permutations("abc"):
        for clauses in permutations(_CLAUSES):
            defined = ", ".join(f"{name} AS {name}" for name in names)
            yield ps.query(
                f"FROM s ORDER BY ts DEFINE {defined} PATTERN {' AND '.join(clauses)} "
                "WITHIN 1000 RETURN a.ts"
            )


def rows(scale: Scale) -> Iterator[Row]:
    """One row a phase and order."""
    parts = _stream(scale.of(1, 4, 20))
    orders: dict[tuple[int, ...], list[ps.Query]] = {}
    for query in spellings():
        steps = tuple(steps for _, steps, _ in _phases(query, parts))
        orders.setdefault(steps, []).append(query)
    measured: dict[tuple[int, ...], list[list[tuple[int, int, float]]]] = {o: [] for o in orders}
    for _ in range(scale.of(1, 3, 7)):  # in turns, so that noise falls on all
        for order, (query, *_) in orders.items():
            measured[order].append(_phases(query, parts))
    for number, ratios in enumerate(RATIOS):
        yardstick = Yardstick(parts[number])
        for _ in range(5):
            yardstick.pass_once()
        least_steps = min(order[number] for order in orders)
        cpu = {o: min(run[number][2] for run in runs) for o, runs in measured.items()}
        for order, runs in measured.items():
            matches, steps, _ = runs[0][number]
            yield {
                "phase": ":".join(map(str, ratios)),
                "order": _named(orders[order][0]),
                "spellings": len(orders[order]),
                "events": len(parts[number]),
                "matches": matches,
                "steps": steps,
                "cpu_s": cpu[order],
                "times_best": cpu[order] / min(cpu.values()),
                "steps_times_best": steps / max(least_steps, 1),
                "ratio_to_yardstick": cpu[order] / yardstick.seconds,
            }


def _stream(thousands: int) -> list[pl.DataFrame]:
    """One stream, cut where its rates change; the first phase, full of matches, is short."""
    lengths = [1_000 * thousands, 10_000 * thousands, 10_000 * thousands]
    starts = [0, *accumulate(lengths)]
    phases = list(zip(starts, RATIOS, strict=False))
    frame = booleans(3, starts[-1], seed, situation=(2, 10), gap=(2, 10), phases=phases)
    frame = frame.rename({"a1": "a", "a2": "b", "a3": "c"})
    return [frame[start:end] for start, end in pairwise(starts)]


def _phases(query: ps.Query, parts: list[pl.DataFrame]) -> list[tuple[int, int, float]]:
    """Matches, steps and CPU seconds of each phase, in one stream."""
    stream = Stream(bind(query, parts[0].schema), lateness=0)
    told = []
    for part in parts:
        steps = stream.detector.work.steps
        before = time.process_time()
        matches = len(stream.take(part))
        spent = time.process_time() - before
        told.append((matches, stream.detector.work.steps - steps, spent))
    return told


def _named(query: ps.Query) -> str:
    """A spelling in short: the order of definitions, then of clauses."""
    clauses = ", ".join(f"{c.x}{c.y}" for c in query.constraints)
    return f"{''.join(symbol.name for symbol in query.symbols)}: {clauses}"
