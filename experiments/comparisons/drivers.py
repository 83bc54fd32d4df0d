"""TPStream's aggressive drivers: the full query and the simplified one, on a fleet of cars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import piestream as ps
from experiments.baselines import BASELINES
from experiments.baselines.pattern import Ints, Pattern
from experiments.cells import Sweep, apart
from experiments.experiment import (
    Experiment,
    curves,
    grown,
    lost_text,
    one,
    pivot,
    select,
    stopped_text,
    thousands,
)
from experiments.measure import Row, Rows, Size
from experiments.peers import DETECTOR, ENGINE, PAPER_SPARED, Case, title
from experiments.streams import SEED, one_after_another
from piestream.demo.fleet import fleet
from piestream.relations import Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = (
    DETECTOR,
    "tpstream",
    "tpstream-published",
    "piestream-paper",
    PAPER_SPARED,
    "iseq",
    "duckdb",
    "polars",
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
_TEXT = {
    "full": ("meets;overlaps;starts;during", "contains;finished-by;overlaps;meets"),
    "simplified": ("meets;overlaps", "overlaps;meets"),
}


def thresholds(frame: pl.DataFrame) -> tuple[float, float, float]:
    """As in the papers: 90th percentile of acceleration, 99th of speed, 90th of braking."""
    accel = frame["accel"]
    push = accel.filter(accel > 0).quantile(0.9)
    brake = accel.filter(accel < 0).quantile(0.1)
    return float(push or 0), float(frame["speed"].quantile(0.99) or 0), float(brake or 0)


def query(variant: str, limits: tuple[float, float, float]) -> ps.Query:
    """The papers' query, without durations, as in their experiments."""
    first, second = _TEXT[variant]
    push, fast, brake = limits
    return ps.query(
        f"FROM cars PARTITION BY car_id ORDER BY ts DEFINE a AS accel > {push}, "
        f"b AS speed > {fast}, c AS accel < {brake} "
        f"PATTERN a {first} b AND b {second} c AND a before c WITHIN 5 minutes "
        "RETURN FIRST(b.car_id) AS id, AVG(b.speed) AS avg_speed, a.ts"
    )


def _bits(frame: pl.DataFrame, limits: tuple[float, float, float]) -> tuple[Ints, Ints]:
    push, fast, brake = limits
    accel, speed = frame["accel"].to_numpy(), frame["speed"].to_numpy()
    masks = (accel > push) + 2 * (speed > fast) + 4 * (accel < brake)
    seconds = frame["ts"].to_physical().to_numpy() // 1_000_000
    cars = frame["car_id"].to_numpy().astype(np.int64)
    return one_after_another(cars, seconds - seconds[0], masks.astype(np.int64), _WITHIN)


def whole_query(frame: pl.DataFrame, asked: ps.Query) -> Callable[[], pl.DataFrame]:
    """A run of the whole query, on one thread."""
    asked.run(frame.head(1_000), threads=1)
    return partial(asked.run, frame, threads=1)


def _found(found: pl.DataFrame) -> Row:
    return {"matches": len(found)}


def rows(size: Size) -> Iterator[Row]:
    """A row a variant, length of stream and peer."""
    cars, seconds = size.of((10, 200), (200, 1800), (1000, 18_000))
    whole = fleet(cars, seconds, SEED).select("ts", "car_id", "accel", "speed")
    limits = thresholds(whole)
    start = whole["ts"][0]
    for variant, (first, second) in VARIANTS.items():
        asked = query(variant, limits)
        pattern = Pattern(3, ((0, 1, first), (1, 2, second), (0, 2, _R.BEFORE)), _WITHIN)
        sweep = Sweep(size)
        for share in size.of((1,), (4, 1), (8, 4, 2, 1)):
            frame = whole.filter(pl.col("ts") < start + pl.duration(seconds=seconds // share))
            told: Row = {"variant": variant, "cars": cars, "events": frame.height, "seed": SEED}
            row = {
                **told,
                "peer": ENGINE,
                **apart(whole_query, frame, asked, size=size, told=_found),
            }
            if row.get("cpu_s"):
                row["events_per_s"] = frame.height / row["cpu_s"]
            yield row
            case = Case(pattern, *_bits(frame, limits))
            for row in sweep.compared(case, PEERS, variant=variant, cars=cars, seed=SEED):
                # A peer's stream has a row more a car, see `one_after_another`.
                yield {**row, **told}


def tables(rows: Rows) -> str:
    """CPU time, memory, rates, counts."""
    return (
        "CPU milliseconds:\n\n" + pivot(rows, ["variant", "events"])
        + "\n\n" + grown(rows, ["variant", "events"])
        + "\n\nEvents per CPU second:\n\n"
        + pivot(rows, ["variant", "events"], "events_per_s", show=thousands)
        + "\n\nMatches:\n\n" + pivot(rows, ["variant", "events"], "matches", show=thousands)
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Full against simplified, ours against theirs."""
    most = max(row["events"] for row in rows)
    ratios = []
    for peer in ("piestream", *PEERS):
        full = one(rows, "cpu_s", variant="full", events=most, peer=peer)
        simple = one(rows, "cpu_s", variant="simplified", events=most, peer=peer)
        if full and simple:
            ratios.append(f"{title(peer)} {full / simple:.2f}")
    here = select(rows, variant="full", events=most)
    counts = {row["peer"]: row["matches"] for row in here if "matches" in row}
    kinds: dict[str, set[int]] = {}
    for peer, count in counts.items():
        reports = (
            BASELINES[peer].reports
            if peer in BASELINES
            else ("relation" if peer == PAPER_SPARED else "earliest")
        )
        kinds.setdefault(reports, set()).add(count)
    differ = [f"{kind} {sorted(found)}" for kind, found in kinds.items() if len(found) > 1]
    agreement = (
        f"**Numbers of matches differ**: {'; '.join(differ)}"
        if differ
        else "Methods that report at the same instants find the same number of matches: at the "
        f"earliest {min(kinds['earliest'])}, at the certainty of one relation "
        f"{min(kinds.get('relation', {0}))}, at completion {min(kinds.get('completion', {0}))} (full query, all "
        "events); who reports later loses to the window some matches that others are in time for"
    )
    return (
        "**What it means.** Nobody minds the alternatives much; time of the full query over the "
        f"simplified one at {most:,} events: {', '.join(ratios)}. {agreement}. "
        "piestream's whole query also splits the mixed stream into cars, evaluates three "
        "comparisons and averages the speed; the peers get the cars one after the other as one "
        f"stream of bits (a silence longer than the window between two).{stopped_text(rows, ['variant', 'events'])}\n\n"
        + lost_text(
            rows,
            ["variant", "events"],
            "A car is rarely in any of the three states, so a method's work is small beside "
            "reading the stream: the whole query also sorts rows into partitions and reads "
            "floating-point columns, which the peers are spared. Compare the detector, which is "
            "given what they are given.",
        )
    )


def draw(rows: Rows, figure: Figure) -> None:
    """A picture a variant."""
    pictures = figure.subplots(1, 2, sharey=True)
    for axes, variant in zip(pictures, VARIANTS, strict=True):
        curves(axes, select(rows, variant=variant), "events", scale=1000)
        axes.set(xlabel="events", title=variant)
    pictures[0].set_ylabel("CPU ms")
    handles = pictures[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4)


def headline(rows: Rows) -> dict[str, Rows]:
    """All events."""
    most = max(row["events"] for row in rows)
    return {variant: select(rows, variant=variant, events=most) for variant in VARIANTS}


EXPERIMENT = Experiment(
    "drivers",
    "TPStream, Fig. 5a and 5b: aggressive drivers",
    "How long does the aggressive-driver query take, and what do alternatives in its constraints "
    "cost? The papers find TPStream linear and insensitive to them.",
    "A fleet in the manner of Linear Road (`piestream.demo.fleet`), one report a second and "
    "car; thresholds are the papers' percentiles (90th of acceleration and of braking, 99th of "
    "speed), no durations, WITHIN 5 minutes. *Full* is the query of the papers' Listing 1, "
    "*simplified* allows meets and overlaps only.",
    rows,
    tables,
    meaning,
    draw,
    (9.0, 4.4),
    headline=headline,
)
