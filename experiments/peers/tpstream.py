"""TPStream (Körber et al., EDBT 2018; Körber 2021, chapter 5), as published and corrected.

One operator: a deriver of intervals, a ring buffer of finished intervals for each symbol, and a
matcher that completes a new interval through binary searches in the buffers, in an order that a
cost model chooses for each symbol and that adapts to what is observed.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from experiments.baselines.pace import no_pace
from experiments.baselines.pattern import (
    Ints,
    Pattern,
    Result,
    UnsupportedPatternError,
    one_partition,
)
from experiments.baselines.tpstream_corrected import corrected
from experiments.baselines.tpstream_join import COUNTER_NAMES, tables_of
from experiments.baselines.tpstream_plan import initial_selectivities
from experiments.baselines.tpstream_published import published

__all__ = ["run_corrected", "run_printed", "run_published"]


def run_corrected(
    pattern: Pattern,
    times: Ints,
    masks: Ints,
    *,
    keep: bool = True,
    alpha: float = 0.01,
    threshold: float = 0.2,
    costs: str = "fixed",
    pace: Ints | None = None,
) -> Result:
    """TPStream with every match once and at its earliest instant.

    Complete prefix groups and durations included. ``alpha`` smooths the statistics (0: the first
    plan stays) and ``threshold`` is the relative change that makes a new plan; both are the
    paper's. ``costs``: ``"fixed"``, or ``"paper"`` for equation (2) as printed.

    >>> from piestream.relations import Relation
    >>> pattern = Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100)
    >>> times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
    >>> run_corrected(pattern, times, masks).matches.tolist()
    [[3, 1, 2]]
    """
    pattern.without_precise("TPStream")
    tables = tables_of(pattern)
    shortest, longest = pattern.duration_bounds()
    shares = initial_selectivities(pattern)
    as_printed = _costs(costs)

    def match(times: Ints, masks: Ints, pace: Ints) -> tuple[Ints, int, Ints]:
        found: tuple[Ints, int, Ints] = corrected(
            times, masks, tables, pattern.window, shortest, longest, shares,
            alpha, threshold, as_printed, keep, pace,
        )  # fmt: skip
        return found

    times, masks = one_partition(times, masks)
    match(times[:0], masks[:0], no_pace())  # compiled, or loaded, before the clock starts
    begin = perf_counter()
    matches, count, counters = match(times, masks, no_pace() if pace is None else pace)
    return _result(matches, count, counters, len(times), perf_counter() - begin)


def run_published(
    pattern: Pattern,
    times: Ints,
    masks: Ints,
    *,
    keep: bool = True,
    alpha: float = 0.01,
    threshold: float = 0.2,
    costs: str = "paper",
    ends_first: bool = True,
    open_end: str = "unknown",
    unrelated_only: bool = True,
    purge_open: bool = True,
    deduplicate: bool = True,
    pace: Ints | None = None,
) -> Result:
    """TPStream's Algorithm 4: working sets of all combinations of the open intervals.

    The defaults are the reading under which the printed text is right, apart from being
    exponential in the number of open symbols. Each can be turned back to what is printed:

    - ``ends_first``: intervals that end are worked through before those that start;
    - ``open_end``: ``"unknown"`` (later than everything) or ``"now"``, the current time;
    - ``unrelated_only``: no two open intervals of a combination are of related symbols;
    - ``purge_open``: what is open, or ends, beyond the window is left out, as what is finished;
    - ``deduplicate``: a match found twice at one instant is reported once.

    Each relation is decided on its own, at the third of its endpoints. The paper's two sentences
    on prefix groups (one half of a split constraint at starts, the other at ends) lose matches
    of which one pair was decided by its group and another is decided later; they are left out,
    as are durations: the corrected form has both.
    """
    pattern.without_precise("TPStream")
    pattern.without_durations("TPStream as published")
    if pattern.n_symbols == 1:
        raise UnsupportedPatternError("TPStream as published matches two symbols or more")
    if open_end not in ("unknown", "now"):
        raise ValueError(f"open_end is {open_end!r}; it must be 'unknown' or 'now'")
    tables = tables_of(pattern)
    shares = initial_selectivities(pattern)
    as_printed = _costs(costs)

    def match(times: Ints, masks: Ints, pace: Ints) -> tuple[Ints, int, Ints]:
        found: tuple[Ints, int, Ints] = published(
            times, masks, tables, pattern.window, shares, alpha, threshold, as_printed,
            ends_first, open_end == "now", unrelated_only, purge_open, deduplicate, keep, pace,
        )  # fmt: skip
        return found

    times, masks = one_partition(times, masks)
    match(times[:0], masks[:0], no_pace())
    begin = perf_counter()
    matches, count, counters = match(times, masks, no_pace() if pace is None else pace)
    return _result(matches, count, counters, len(times), perf_counter() - begin)


def run_printed(pattern: Pattern, times: Ints, masks: Ints, *, keep: bool = True) -> Result:
    """TPStream's Algorithm 4 to the letter: its faults are to be counted, not its speed."""
    return run_published(
        pattern,
        times,
        masks,
        keep=keep,
        ends_first=False,
        open_end="now",
        unrelated_only=False,
        purge_open=False,
        deduplicate=False,
    )


def _costs(costs: str) -> bool:
    if costs not in ("paper", "fixed"):
        raise ValueError(f"costs is {costs!r}; it must be 'paper' or 'fixed'")
    return costs == "paper"


def _result(matches: Ints, count: int, counters: Ints, events: int, seconds: float) -> Result:
    named = dict(zip(COUNTER_NAMES, (int(value) for value in np.asarray(counters)), strict=True))
    return Result(matches, count, named | {"events": events}, seconds)
