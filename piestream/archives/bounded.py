"""Whether statistics bound how much has to be read for cores, although only rows tell how much it is.

The bounds of a page are values of rows. So a condition on one column that is true of a bound is true of a row
there: on such a page an UNTIL is decided, or a symbol ends. Beyond it nothing has to be read. This is known of
pages of one partition, and where there is only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from piestream.archives import costs
from piestream.archives.cores import Core, Flags, Spans, touches
from piestream.archives.pages import Pages, Words
from piestream.archives.statistics import HIGHEST, LOWEST, has_exact_bounds
from piestream.archives.verdicts import may_decide
from piestream.compiled.constants import INT64_MIN
from piestream.expressions.typed import Until
from piestream.language.parts import Emit
from piestream.plan.past import PastColumn

if TYPE_CHECKING:
    from piestream.archives.planning import ArchivePlan

__all__ = ["is_bounded", "latest_ends", "latest_firsts"]

_IS_KNOWN = "__known__"


def is_bounded(plan: ArchivePlan, cores: Sequence[Core]) -> bool:
    """Whether all that may be needed for some cores of a plan costs less than a scan."""
    reach, query, pages = plan.reach, plan.query, plan.pages
    assert reach is not None
    is_both = query.emit is Emit.BOTH
    if reach.rows_behind or len(query.partition_by) > 1 or (is_both and reach.is_bridged):
        return False
    times = pages.times(plan.binding.time.name)
    assert times is not None
    deciding = [_deciding(pages, column) for column in reach.latches]
    latest = latest_ends(plan, cores) if is_both else np.zeros(len(cores), np.int64)
    last_of = dict(zip(cores, latest.tolist(), strict=True))
    more, longer = np.zeros(len(pages), np.bool_), []
    for here, is_own, cells, own in _by_partition(plan, cores):
        starts = np.array([core.start for core in own], np.int64)
        lasts = np.array([max(core.last, last_of[core]) for core in own], np.int64)
        for may, sure in deciding:
            since = latest_firsts(sure & is_own, times, starts)
            more |= may & here & touches(Spans.of(since, starts - 1), *times)
        spans = Spans.of(starts, lasts)
        longer += [
            Core(cells, int(first), int(last), int(first))
            for first, last in zip(spans.firsts, spans.lasts, strict=True)
        ]
    selection = plan.selection()
    more |= selection.wanted(*longer)
    again = costs.AGAIN * float(pages.rows[more].sum()) if is_both else 0.0
    return selection.cost_of(more) + again <= costs.scan_cost(pages)


def latest_ends(plan: ArchivePlan, cores: Sequence[Core]) -> Words:
    """Up to which time all intervals of matches of each core have ended, as far as statistics tell."""
    times = plan.pages.times(plan.binding.time.name)
    assert times is not None
    found = np.full(len(cores), times[1].max())
    if len(plan.query.partition_by) > 1 or (plan.reach is not None and plan.reach.is_bridged):
        return found
    ends = _ends(plan)
    place = {core: number for number, core in enumerate(cores)}
    for _, is_own, _, own in _by_partition(plan, cores):
        lasts = np.array([core.last for core in own], np.int64)
        latest = lasts
        for sure in ends:
            latest = np.maximum(latest, _next_lasts(sure & is_own, times, lasts))
        found[[place[core] for core in own]] = latest
    return found


def _by_partition(
    plan: ArchivePlan, cores: Sequence[Core]
) -> Iterator[tuple[Flags, Flags, tuple[int, int], list[Core]]]:
    """The cores of the same cells, with the pages that may have rows of them, and those of their partition alone."""
    ranges, every = plan.ranges, np.ones(len(plan.pages), np.bool_)
    by_cells: dict[tuple[int, int], list[Core]] = {}
    for core in cores:
        by_cells.setdefault(core.cells, []).append(core)
    for cells, own in by_cells.items():
        if not plan.query.partition_by:
            yield every, every, cells, own
        elif ranges is None or cells[0] != cells[1] or cells[0] < 0 or cells[0] % 2:
            yield every, ~every, cells, own  # they may be of several partitions
        else:
            is_own = (ranges.lows == cells[0]) & (ranges.highs == cells[0]) & ~ranges.nulls
            yield ranges.reach(cells), is_own, cells, own


def _deciding(pages: Pages, latch: PastColumn) -> tuple[Flags, Flags]:
    """The pages that may have rows that decide an UNTIL, and those that have some."""
    assert isinstance(latch.node, Until)
    may = may_decide(latch.node, pages.table, pages.may_have)
    if latch.gap is not None:  # all rows tell whether one that decides is followed by a silence
        may = np.ones(len(pages), np.bool_)
    return may, _has_some(pages, latch.operands[0]) | _has_some(pages, latch.operands[1])


def _ends(plan: ArchivePlan) -> list[Flags]:
    """For each symbol that matches have the pages with a row at which it does not hold."""
    binding, pages = plan.binding, plan.pages
    latches = [column for column in binding.past if isinstance(column.node, Until)]
    stops = {column.node.key: column.operands[1] for column in latches}
    distinct = list(dict.fromkeys(symbol.predicate for symbol in plan.query.symbols))
    found = []
    for predicate in dict.fromkeys(symbol.predicate for symbol in plan.query.present):
        node = None if predicate.is_polars else predicate.typed(pages.schema)
        condition = binding.predicates[distinct.index(predicate)]
        ending = stops[node.key] if isinstance(node, Until) else ~condition.fill_null(False)
        found.append(_has_some(pages, ending))
    return found


def _has_some(pages: Pages, condition: pl.Expr) -> Flags:
    """The pages with a row of which a condition on one column is certainly true."""
    none = np.zeros(len(pages), np.bool_)
    names = set(condition.meta.root_names())
    name = names.pop() if len(names) == 1 else ""
    dtype = pages.schema.get(name)
    is_known = pages.has_exact_bounds and dtype is not None and LOWEST + name in pages.table.columns
    if not is_known or dtype is None or dtype == pl.String or not has_exact_bounds(dtype):
        return none
    found = none
    for end in (LOWEST, HIGHEST):
        value = pl.col(end + name).cast(dtype)
        try:
            values = pages.table.select(value.alias(name), value.is_not_null().alias(_IS_KNOWN))
            there = values.select(condition.fill_null(False) & pl.col(_IS_KNOWN))
        except pl.exceptions.PolarsError:  # as of an overflow
            return none
        found = found | there.to_series().to_numpy()
    return found


def latest_firsts(sure: Flags, times: tuple[Words, Words], starts: Words) -> Words:
    """Where the latest of some pages that end before times begin; the lowest time where there is none."""
    firsts, lasts = times[0][sure], times[1][sure]
    order = np.argsort(lasts, kind="stable")
    latest = np.concatenate(([INT64_MIN], np.maximum.accumulate(firsts[order])))
    return np.asarray(latest[np.searchsorted(lasts[order], starts)], np.int64)


def _next_lasts(sure: Flags, times: tuple[Words, Words], after: Words) -> Words:
    """Where the first of some pages that begin after times end; the end of all where there is none."""
    firsts, lasts = times[0][sure], times[1][sure]
    order = np.argsort(firsts, kind="stable")
    earliest = np.minimum.accumulate(lasts[order][::-1])[::-1]
    found = np.append(earliest, times[1].max())
    return np.asarray(found[np.searchsorted(firsts[order], after, "right")], np.int64)
