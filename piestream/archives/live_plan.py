"""Which plan a query over live streams and archives follows, by what each is expected to cost.

The cost of a plan is that of the rows that are worked on for each row that comes, as in the equations
of DejaVu: a part that goes on with every row costs its rows, c; one that is asked for regions costs the
rows of these, M·P·c, and with a cache only those in which they do not overlap, M·min(P, Δ)·c. The
matches M, the rows of a region P and their distance Δ are those of the latest rows of the archive; the
unit is a row of a region in a query of intervals, and what else costs how much of it was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from piestream.archives.live_reach import PartReach
from piestream.archives.live_regions import Regions, merged
from piestream.archives.live_rows import ALL, ArchivedRows
from piestream.compiled.constants import INT64_MIN
from piestream.engine.combined import open_stream
from piestream.engine.projection import TIME
from piestream.engine.union import END, START, CombinedProjection
from piestream.errors import StreamError
from piestream.language.live_plan import LivePlan
from piestream.plan.binding import Binding

__all__ = ["LEAST_ROWS", "ROWS_BETWEEN", "Choice", "Costs", "Sample", "choose"]

#: So many of the archive's latest rows are the sample for the estimates.
_SAMPLE_ROWS = 1 << 11
#: A smaller sample is not used.
LEAST_ROWS = 1 << 8
#: A session chooses again after so many rows, or once its archives have twice as many.
ROWS_BETWEEN = 1 << 20
#: What a row of a region costs a pattern of rows, if it costs 1 in a query of intervals; one with a memory.
_ROW_PATTERN, _WITH_MEMORY = 4.0, 20.0
#: What each row costs that comes, whatever is done with it; and to hold it for regions of a live stream.
_ROW, _HELD = 2.0, 1.5
#: What a row costs more where matches are looked for everywhere, region behind region.
_EVERYWHERE = 1.5
#: A plan that does more is chosen where it saves at least such a part of the cost.
_LEAST_SAVED = 0.05


@dataclass(frozen=True)
class Costs:
    """What each plan is expected to cost a row, the parts that go on with every row costing 1 or more."""

    eager: float
    live_first: float
    live_first_cached: float
    archive_first: float
    archive_first_cached: float
    of_rows: int

    @property
    def listed(self) -> dict[tuple[str, bool], float]:
        """The costs of the plans, each with whether it caches; of equal ones the first is chosen."""
        return {
            ("live-first", True): self.live_first_cached,
            ("live-first", False): self.live_first,
            ("archive-first", True): self.archive_first_cached,
            ("archive-first", False): self.archive_first,
            ("eager", True): self.eager,
        }


@dataclass(frozen=True)
class Choice:
    """A plan that has been chosen, and why."""

    order: str
    caches: bool
    everywhere: tuple[int, ...]  # the parts over archives whose matches are looked for everywhere
    why: str
    costs: Costs | None = None

    def does_as(self, other: Choice) -> bool:
        """Whether two choices are of the same plan, for whatever reasons."""
        return replace(self, why="", costs=None) == replace(other, why="", costs=None)

    @property
    def lazy_live(self) -> bool:
        """Whether live matches are looked for only around those in archives."""
        return self.order == "archive-first"

    def __str__(self) -> str:
        cache = "with" if self.caches else "without"
        return f"{self.order} {cache} cache: {self.why}"


@dataclass(frozen=True)
class Sample:
    """What a choice is made by: the parts of a query, and the rows that lie in its archive."""

    union: CombinedProjection
    live: frozenset[int]
    present: frozenset[int]  # the parts of which a match has intervals
    reaches: Mapping[int, PartReach]
    window: int
    inner: Mapping[int, Binding]
    archived: Mapping[int, ArchivedRows]
    converted: Callable[[int, pl.DataFrame], pl.DataFrame | None]

    def latest_rows(self) -> pl.DataFrame | None:
        """The latest rows of the archive with the columns that all parts read; None: not all has them."""
        if len(self.archived) != 1 or len(self.live) != 1:
            return None
        (rows,) = self.archived.values()
        (live,) = self.live
        columns = list(dict.fromkeys((*rows.binding.columns, *self.inner[live].columns)))
        return rows.latest_rows(columns, _SAMPLE_ROWS)


def choose(plan: LivePlan, sample: Sample, forced_lazy_live: bool | None) -> Choice:
    """The plan that a query follows; ``forced_lazy_live`` is how a stored state was left."""
    archived = tuple(sorted(sample.archived))
    far = tuple(n for n in archived if not sample.reaches[n].is_local)
    # where matches have nothing of live streams, nothing there leads to those in archives
    leading = () if sample.present & sample.live else sample.present.difference(far)
    everywhere = tuple(sorted({*far, *leading}))
    may_be_lazy = forced_lazy_live is not False
    is_local = all(sample.reaches[n].is_local for n in sample.live)
    may_be_lazy &= is_local and not sample.present <= sample.live
    order: str = plan.order
    cache, why, costs = plan.cache, "it was asked for", None
    if forced_lazy_live is not None and (order == "archive-first") != forced_lazy_live:
        order = "archive-first" if forced_lazy_live else "live-first" if order != "eager" else order
        why = "the state that the session goes on from was left by it"
    elif order == "archive-first" and not may_be_lazy:
        order = "eager"
        why = "a match has nothing of an archive"
        if not is_local:
            why = "matches in the live streams depend on all rows before"
    if order == "auto" or cache is None:
        costs = _costs(sample)
        was_open = order == "auto"
        order, cache, reason = _cheapest(costs, order, cache, may_be_lazy)
        why = reason if was_open else why
    if far and order == "live-first":
        names = ", ".join(str(sample.union.binding.parts[n].source.name) for n in far)
        why += f"; matches of {names} depend on all rows before and are looked for everywhere"
    if leading and order == "live-first":
        why += "; a match has nothing of live streams, so archives are looked at everywhere"
    return Choice(order, cache, archived if order != "live-first" else everywhere, why, costs)


def _cheapest(
    costs: Costs | None, order: str, cache: bool | None, may_be_lazy: bool
) -> tuple[str, bool, str]:
    """The plan of least cost of those that are left open."""
    if costs is None:
        order = "live-first" if order == "auto" else order
        return (
            order,
            cache is not False,
            "there are too few rows of it in the archive to reckon with",
        )
    best: tuple[float, str, bool] | None = None
    for (one, caches), cost in costs.listed.items():
        if order not in ("auto", one) or (cache is not None and cache != caches and one != "eager"):
            continue
        if one == "archive-first" and not may_be_lazy:
            continue
        if best is None or cost < best[0] * (1 - _LEAST_SAVED):
            best = cost, one, caches
    assert best is not None
    cost, order, caches = best
    others = ", ".join(
        f"{one}{'' if one == 'eager' else ' with cache' if with_cache else ' without'} {other:.2f}"
        for (one, with_cache), other in costs.listed.items()
        if (one, with_cache) != (order, caches)
    )
    why = f"it costs about {cost:.2f} a row ({others}), by the latest {costs.of_rows:,} rows"
    return order, caches if cache is None else cache, why


def _costs(sample: Sample) -> Costs | None:
    """What each plan would have cost over the latest rows of the archive."""
    rows = sample.latest_rows()
    if rows is None or len(rows) < LEAST_ROWS:
        return None
    (live,), (past,) = sample.live, sample.archived
    matches = {}
    for number in (live, past):
        converted = sample.converted(number, rows)
        if converted is None:
            return None
        try:
            matches[number] = _matches(sample, number, converted)
        except StreamError:  # what is wrong with the rows is reported where they are needed
            return None
    cost = {number: _cost(sample.inner[number]) for number in matches}
    n = len(rows)
    every = rows_of(sample, past, rows)
    around_live, overlapped_live = _region_rows(sample, matches[live], every)
    around_past, overlapped_past = _region_rows(sample, matches[past], every)
    c_live, c_past = cost[live], cost[past]
    return Costs(
        eager=_ROW + c_live + _EVERYWHERE * c_past,
        live_first=_ROW + c_live + c_past * around_live / n,
        live_first_cached=_ROW + c_live + c_past * overlapped_live / n,
        archive_first=_ROW + _HELD + _EVERYWHERE * c_past + c_live * around_past / n,
        archive_first_cached=_ROW + _HELD + _EVERYWHERE * c_past + c_live * overlapped_past / n,
        of_rows=n,
    )


def rows_of(sample: Sample, number: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The keys and the times of rows, by partition and time."""
    archived = sample.archived[number]
    converted = sample.converted(number, rows)
    assert converted is not None
    return archived.held(converted).select(*archived.keys, TIME).sort(*archived.keys, TIME)


def _matches(sample: Sample, number: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The matches of a part in some rows, as rows of the union."""
    stream = open_stream(sample.inner[number], ties="first", lateness=None, whole=True)
    found = pl.concat([stream.process(rows), stream.finish("open")])
    return sample.union.of_stream(number, found)


def _region_rows(sample: Sample, found: pl.DataFrame, rows: pl.DataFrame) -> tuple[int, int]:
    """How many rows the regions around matches have, and how many do where overlaps count once."""
    if not len(found):
        return 0, 0
    keys = [name for name in rows.columns if name != TIME]
    spans = Regions(
        found.with_columns(pl.lit(0, pl.Int8).alias(ALL)).select(keys),
        np.maximum(found[TIME].to_numpy() - sample.window, INT64_MIN + 1),
        np.maximum(found[END].fill_null(0).to_numpy(), found[START].to_numpy()),
    )
    return _count(spans, rows, keys), _count(merged(spans, keys), rows, keys)


def _count(spans: Regions, rows: pl.DataFrame, keys: list[str]) -> int:
    """How many rows lie in spans."""
    total = 0
    known = rows.select(keys).unique().with_row_index("partition")
    places = rows.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
    numbered = spans.keys.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
    of_span = numbered["partition"].fill_null(len(known)).to_numpy()
    for number in np.unique(of_span):
        times = places.filter(pl.col("partition") == int(number))[TIME].to_numpy()
        mine = of_span == number
        first = np.searchsorted(times, spans.firsts[mine], "left")
        last = np.searchsorted(times, spans.lasts[mine], "right")
        total += int((last - first).sum())
    return total


def _cost(inner: Binding) -> float:
    rows = inner.query.rows
    if rows is None:
        return 1.0
    return _WITH_MEMORY if rows.conditions else _ROW_PATTERN
