"""TPStream's aggressive drivers: the full query and the simplified one, on a fleet of cars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

import piestream as ps
from experiments.harness.conclusions import agreement, factor, ratio, standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below, time_curves
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import Sweep
from experiments.harness.tables import (
    by_input,
    memory_table,
    pivot,
    select,
    thousands,
    time_tables,
)
from experiments.peers import title
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, Case
from piestream.demo.fleet import fleet
from piestream.relations import Relation, names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    "piestream",
    "tpstream",
    "tpstream-published",
    "piestream-paper",
    "piestream-paper-changes",
    "iseq",
    "duckdb",
    "polars",
    "siddhi",
    "flink",
)
_R = Relation
_WITHIN = 300
#: Accelerating A, speeding B, braking C. What the papers print as *finishes* is finished-by.
VARIANTS = {
    "full": (
        _R.MEETS | _R.OVERLAPS | _R.STARTS | _R.DURING,
        _R.CONTAINS | _R.FINISHED_BY | _R.OVERLAPS | _R.MEETS,
    ),
    "simplified": (_R.MEETS | _R.OVERLAPS, _R.OVERLAPS | _R.MEETS),
}


def thresholds(frame: pl.DataFrame) -> tuple[str, str, str]:
    """Predicates as in the papers: 90th percentile of acceleration, 99th of speed, 90th of braking."""
    accel = frame["accel"]
    push = accel.filter(accel > 0).quantile(0.9)
    brake = accel.filter(accel < 0).quantile(0.1)
    fast = frame["speed"].quantile(0.99)
    return f"accel > {push or 0.0}", f"speed > {fast or 0.0}", f"accel < {brake or 0.0}"


def case_of(variant: str, frame: pl.DataFrame, predicates: tuple[str, str, str]) -> Case:
    """The papers' query, without durations, as in their experiments."""
    first, second = VARIANTS[variant]
    pattern = Pattern(3, ((0, 1, first), (1, 2, second), (0, 2, _R.BEFORE)), _WITHIN)
    defined = ", ".join(f"{name} AS {text}" for name, text in zip("abc", predicates, strict=True))
    query = ps.query(
        f"FROM cars PARTITION BY car_id ORDER BY ts DEFINE {defined} "
        f"PATTERN a {';'.join(names(first))} b AND b {';'.join(names(second))} c "
        f"AND a before c WITHIN {_WITHIN} s "
        "RETURN FIRST(b.car_id) AS id, AVG(b.speed) AS avg_speed, a.ts"
    )
    return Case(pattern, frame, predicates, tick=1_000_000, key="car_id", explicit_query=query)


def rows(size: Size) -> Iterator[Row]:
    """A row a variant, length of stream, form of the input and method."""
    cars, seconds = size.of((30, 900), (200, 1800), (1000, 18_000))
    whole = fleet(cars, seconds, SEED).select("ts", "car_id", "accel", "speed")
    predicates = thresholds(whole)
    start = whole["ts"][0]
    for variant in VARIANTS:
        sweep = Sweep(size)
        for share in size.of((1,), (4, 1), (8, 4, 2, 1)):
            frame = whole.filter(pl.col("ts") < start + pl.duration(seconds=seconds // share))
            case = case_of(variant, frame, predicates)
            yield from sweep.compared(case, METHODS, variant=variant, cars=cars, seed=SEED)


def tables(rows: Rows) -> str:
    """Times, memory, counts."""
    index = ["variant", "events"]
    counts = [
        f"Matches, input: *{form}*:\n\n"
        + pivot(found, index, lambda row: thousands(row["matches"]), measured="matches")
        for form, found in by_input(rows)
    ]
    return "\n\n".join([time_tables(rows, index), memory_table(rows, index), *counts])


def conclusions(rows: Rows) -> str:
    """Who is quicker, and full against simplified."""
    return "\n\n".join([
        standing(rows, ["variant", "events"]),
        f"**Alternatives.** {_alternatives(rows)}",
        f"**Agreement.** {agreement(rows, ['variant', 'events'])}",
    ])  # fmt: skip


def _alternatives(rows: Rows) -> str:
    """What the alternatives in the constraints cost each method."""
    most = max(row["events"] for row in rows)
    texts = []
    for form, found in by_input(select(rows, events=most)):
        ratios = []
        for full in select(found, variant="full"):
            simplified = select(found, variant="simplified", peer=full["peer"])
            compared = ratio(full, simplified[0]) if simplified else None
            if compared:
                kind = "" if compared[1] else " (cold)"
                ratios.append(f"{title(full['peer'])} {factor(compared[0])}{kind}")
        texts.append(f"*{form}*: {', '.join(ratios)}")
    return f"Time of the full query over that of the simplified one at {most:,} events: {'; '.join(texts)}."


def draw(rows: Rows, figure: Figure) -> None:
    """A column a variant, a line a form of the input."""
    forms = by_input(rows)
    panels = figure.subplots(len(forms), len(VARIANTS), sharey=True, sharex=True, squeeze=False)
    for line, (form, found) in zip(panels, forms, strict=True):
        for axes, variant in zip(line, VARIANTS, strict=True):
            time_curves(axes, select(found, variant=variant), "events", log_x=True)
            axes.set_title(f"{variant}, {form}")
        line[0].set_ylabel("CPU ms")
    for axes in panels[-1]:
        axes.set_xlabel("events")
    legend_below(figure)


def headline(rows: Rows) -> dict[str, Rows]:
    """All events."""
    most = max(row["events"] for row in rows)
    return {variant: select(rows, variant=variant, events=most) for variant in VARIANTS}


EXPERIMENT = Experiment(
    "drivers",
    "TPStream, Fig. 5a and 5b: aggressive drivers",
    "How long does the aggressive-driver query take, and what do alternatives in its constraints "
    "cost? The papers find TPStream linear and insensitive to them.",
    "A fleet in the manner of Linear Road (`piestream.demo.fleet`), one report a second and car, all "
    "cars mixed in order of time; thresholds are the papers' percentiles (90th of acceleration and "
    "of braking, 99th of speed), no durations, WITHIN 5 minutes. *Full* is the query of the papers' "
    "Listing 1, *simplified* allows meets and overlaps only. piestream partitions the stream by car "
    "where it is given the raw frame; all else is given the cars one after another as one stream, "
    "with a silence longer than the window between two. piestream's query also returns the average "
    "speed, which no other method computes; the others' derivers trust that each car's rows are in order of "
    "time and that the numbers of cars are small, both of which piestream finds out.",
    rows,
    tables,
    conclusions,
    draw,
    (9.5, 6.6),
    headline=headline,
    methods=METHODS,
)
