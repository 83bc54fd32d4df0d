"""A stream whose rates change, worked with every fixed join order and with the order that adapts.

``a before b AND a before c AND b before c``, where a : b : c occur 1 : 1 : 1, then 1 : 50 : 50, then
50 : 1 : 50. A fixed order is a ranking of the symbols and of the constraints: next comes the symbol of
lowest rank that a constraint connects, through the constraint of lowest rank.

One row a phase and order, in a session that has come through the phases before. ``steps`` are the
candidates looked at, which no clock disturbs. ``times_best`` compares with the fixed order that is
best in that phase.

What adaption itself costs is said twice. ``adapting`` is the share of the CPU time that went into
looking at the live state and ordering anew. The order ``replayed`` is the same orders, put in by hand
between the same pushes, without any look at the state; ``beyond_replayed`` is how much more CPU time
the run took that adapts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, permutations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import piestream as ps
from benchmarks.measure import Row, Scale, Yardstick
from benchmarks.streams import seed
from piestream.engine.stream import Stream
from piestream.generators import booleans
from piestream.plan.binding import Binding, bind
from piestream.plan.join_order import Check, Estimate, Step
from piestream.plan.program import Plan, write_plan

TITLE = "Rates that change"
COLUMNS = ("phase", "order", "events", "matches", "steps", "cpu_s", "times_best",
           "steps_times_best", "adapting", "beyond_replayed", "ratio_to_yardstick")  # fmt: skip

RATIOS = ((1, 1, 1), (1, 50, 50), (50, 1, 50))
ADAPTIVE = "adaptive"
REPLAYED = "replayed"
QUERY = (
    "FROM s ORDER BY ts DEFINE a AS a, b AS b, c AS c "
    "PATTERN a before b AND a before c AND b before c WITHIN 10000 RETURN a.ts"
)
#: Rows pushed at a time: between two pushes the order may change.
_PUSHED = 1 << 14


class Fixed(Plan):
    """A plan that orders by rank, whatever the live state is."""

    def __init__(self, plan: Plan, symbols: Sequence[int], constraints: Sequence[int]) -> None:
        super().__init__(plan.edges, plan.twins)
        self.seeds = plan.seeds
        self.matters = False
        self.symbols = symbols
        self.constraints = constraints

    def steps(self, estimate: Estimate) -> dict[str, tuple[Step, ...]]:
        """The steps of every seed."""
        return {name: self._ranked(bound) for name, bound in self.seeds.items()}

    def _ranked(self, bound: Sequence[int]) -> tuple[Step, ...]:
        done = list(bound)
        steps = []
        for _ in range(len(self.symbols) - len(done)):
            near = {
                edge.other(s) for edge in self.edges for s in done if s in (edge.x, edge.y)
            } - {*done}  # fmt: skip
            target = min(near, key=self.symbols.index)
            via, *others = (
                number
                for number in self.constraints
                if target in (self.edges[number].x, self.edges[number].y)
                and self.edges[number].other(target) in done
            )
            source = self.edges[via].other(target)
            checks = tuple(
                Check(e, self.edges[e].side(target), self.edges[e].other(target)) for e in others
            )
            steps.append(Step(target, via, self.edges[via].side(source), checks))
            done.append(target)
        return tuple(steps)


def orders(adaptive: Binding) -> Mapping[str, Binding]:
    """Every fixed order that differs from the others, and the one that adapts."""
    plan = adaptive.tables.plan
    names = [symbol.name for symbol in adaptive.query.symbols]
    pairs = [f"{names[edge.x]}{names[edge.y]}" for edge in plan.edges]
    found: dict[Any, tuple[str, Binding]] = {}
    for symbols in permutations(range(len(names))):
        for constraints in permutations(range(len(pairs))):
            fixed = Fixed(plan, symbols, constraints)
            code = adaptive.tables.code.copy()
            write_plan(code, fixed, Estimate())
            label = f"{''.join(names[s] for s in symbols)} by {', '.join(pairs[c] for c in constraints)}"
            tables = replace(adaptive.tables, code=code, plan=fixed)
            found.setdefault(code.tobytes(), (label, replace(adaptive, tables=tables)))
    return {ADAPTIVE: adaptive, **dict(found.values())}


@dataclass(frozen=True, slots=True)
class Phase:
    """What one phase took in one run."""

    matches: int
    steps: int
    cpu: float
    adapting: float


def rows(scale: Scale) -> Iterator[Row]:
    """One row a phase and order."""
    parts = _stream(*scale.of((2_000, 4_000), (20_000, 200_000), (100_000, 3_000_000)))
    bindings = orders(bind(ps.query(QUERY), parts[0].schema))
    runs: dict[str, list[list[Phase]]] = {order: [] for order in bindings}
    for _ in range(scale.of(1, 3, 5)):  # in turns, so that noise falls on all
        for order, binding in bindings.items():
            runs[order].append(_run(binding, parts))
        orders_taken = _orders_taken(bindings[ADAPTIVE], parts)
        runs.setdefault(REPLAYED, []).append(_run(bindings[ADAPTIVE], parts, orders_taken))
    for number, ratios in enumerate(RATIOS):
        yardstick = Yardstick(parts[number])
        for _ in range(5):
            yardstick.pass_once()
        best = {
            order: min((run[number] for run in told), key=lambda phase: phase.cpu)
            for order, told in runs.items()
        }
        fixed = [phase for order, phase in best.items() if order not in (ADAPTIVE, REPLAYED)]
        least_cpu, least_steps = min(p.cpu for p in fixed), min(p.steps for p in fixed)
        for order, phase in best.items():
            yield {
                "phase": ":".join(map(str, ratios)),
                "order": order,
                "events": len(parts[number]),
                "matches": phase.matches,
                "steps": phase.steps,
                "cpu_s": phase.cpu,
                "times_best": phase.cpu / least_cpu,
                "steps_times_best": phase.steps / max(least_steps, 1),
                "adapting": phase.adapting / phase.cpu,
                "beyond_replayed": (
                    phase.cpu / best[REPLAYED].cpu - 1 if order == ADAPTIVE else None
                ),
                "ratio_to_yardstick": phase.cpu / yardstick.seconds,
                "load": os.getloadavg()[0],
            }


def _stream(first: int, others: int) -> list[pl.DataFrame]:
    """One stream, cut where its rates change; the first phase, full of matches, is short."""
    starts = [0, *accumulate([first, others, others])]
    phases = list(zip(starts, RATIOS, strict=False))
    frame = booleans(3, starts[-1], seed, situation=(5, 20), gap=(20, 100), phases=phases)
    frame = frame.rename({"a1": "a", "a2": "b", "a3": "c"})
    return [frame[start:end] for start, end in pairwise(starts)]


def _pushes(part: pl.DataFrame) -> Iterator[pl.DataFrame]:
    return part.iter_slices(_PUSHED)


def _orders_taken(binding: Binding, parts: list[pl.DataFrame]) -> list[NDArray[np.int64]]:
    """The tables that each push of the adapting run was worked with."""
    stream = Stream(binding, lateness=0)
    taken = []
    for part in parts:
        for rows in _pushes(part):
            taken.append(stream.detector.code.copy())
            stream.take(rows)
    return taken


def _run(
    binding: Binding,
    parts: list[pl.DataFrame],
    orders_taken: Sequence[NDArray[np.int64]] | None = None,
) -> list[Phase]:
    """One run through all phases; with ``orders_taken``, these and no others."""
    stream = Stream(binding, lateness=0)
    detector = stream.detector
    detector.adapts = detector.adapts and orders_taken is None
    given = iter(orders_taken or ())
    adapt = detector._adapt
    spent = [0.0]

    def adapted(*arguments: Any) -> None:
        before = time.thread_time()
        adapt(*arguments)
        spent[0] += time.thread_time() - before

    detector._adapt = adapted  # type: ignore[method-assign]
    told = []
    for part in parts:
        steps, spent[0] = detector.work.steps, 0.0
        before = time.process_time()
        matches = 0
        for rows in _pushes(part):
            detector.code = next(given, detector.code)
            matches += len(stream.take(rows))
        cpu = time.process_time() - before
        told.append(Phase(matches, detector.work.steps - steps, cpu, spent[0]))
    return told
