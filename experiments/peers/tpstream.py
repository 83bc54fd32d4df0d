"""TPStream (Körber et al., EDBT 2018; Körber 2021, chapter 5), as published and corrected.

One operator: a deriver of intervals, a ring buffer of finished intervals for each symbol, and a
matcher that completes a new interval through binary searches in the buffers, in an order that a
cost model chooses for each symbol and that adapts to what is observed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.pace import no_pace
from experiments.peers.forms import EVENTS, changes
from experiments.peers.parts.derivers import Masks
from experiments.peers.parts.tpstream_corrected import corrected
from experiments.peers.parts.tpstream_join import COUNTER_NAMES, Planning, tables_of
from experiments.peers.parts.tpstream_plan import initial_selectivities
from experiments.peers.parts.tpstream_published import Reading, published
from experiments.peers.pattern import Ints, Pattern, Result, UnsupportedPatternError
from experiments.peers.peer import Matcher

__all__ = ["corrected_matcher", "printed_matcher", "published_matcher"]


def corrected_matcher(
    pattern: Pattern,
    *,
    keep: bool = True,
    alpha: float = 0.01,
    threshold: float = 0.2,
    costs: str = "fixed",
    shares: np.ndarray | None = None,
    pace: Ints | None = None,
) -> Matcher:
    """TPStream with every match once and at its earliest instant.

    Complete prefix groups and durations included. ``alpha`` smooths the statistics (0: the first
    plan stays) and ``threshold`` is the relative change that makes a new plan; both are the
    paper's. ``costs``: ``"fixed"``, or ``"paper"`` for equation (2) as printed. ``shares``: the
    selectivities that the first plan is made for, by default the paper's.

    >>> from piestream.relations import Relation
    >>> pattern = Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100)
    >>> matcher = corrected_matcher(pattern)
    >>> matcher.over(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0]))().matches.tolist()
    [[3, 1, 2]]
    """
    pattern.without_precise("TPStream")
    tables = tables_of(pattern)
    lengths = pattern.duration_bounds()
    planning = Planning(
        initial_selectivities(pattern) if shares is None else shares,
        alpha,
        threshold,
        _as_printed(costs),
    )

    def match(given: Masks) -> Result:
        return _result(
            given.events,
            *corrected(
                given.times, given.masks, tables, pattern.window, lengths, planning, keep, _paced(pace)
            ),
        )  # fmt: skip

    return Matcher(match, changes(pattern) if pace is None else EVENTS)


def published_matcher(
    pattern: Pattern,
    *,
    keep: bool = True,
    alpha: float = 0.01,
    threshold: float = 0.2,
    costs: str = "paper",
    pace: Ints | None = None,
    **reading: Any,
) -> Matcher:
    """TPStream's Algorithm 4: working sets of all combinations of the open intervals.

    The defaults of the ``reading`` are those under which the printed text is right, apart from being
    exponential in the number of open symbols. Each can be turned back to what is printed:

    - ``ends_first``: intervals that end are processed before those that start;
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
    tables = tables_of(pattern)
    planning = Planning(initial_selectivities(pattern), alpha, threshold, _as_printed(costs))
    chosen = _reading(**reading)

    def match(given: Masks) -> Result:
        return _result(
            given.events,
            *published(
                given.times, given.masks, tables, pattern.window, planning, chosen, keep, _paced(pace)
            ),
        )  # fmt: skip

    return Matcher(match, changes(pattern) if pace is None else EVENTS)


def printed_matcher(pattern: Pattern, *, keep: bool = True) -> Matcher:
    """TPStream's Algorithm 4 to the letter: its faults are to be counted, not its speed."""
    return published_matcher(
        pattern,
        keep=keep,
        ends_first=False,
        open_end="now",
        unrelated_only=False,
        purge_open=False,
        deduplicate=False,
    )


def _reading(
    ends_first: bool = True,
    open_end: str = "unknown",
    unrelated_only: bool = True,
    purge_open: bool = True,
    deduplicate: bool = True,
) -> Reading:
    if open_end not in ("unknown", "now"):
        raise ValueError(f"open_end is {open_end!r}; it must be 'unknown' or 'now'")
    return Reading(ends_first, open_end == "now", unrelated_only, purge_open, deduplicate)


def _as_printed(costs: str) -> bool:
    if costs not in ("paper", "fixed"):
        raise ValueError(f"costs is {costs!r}; it must be 'paper' or 'fixed'")
    return costs == "paper"


def _paced(pace: Ints | None) -> Ints:
    return no_pace() if pace is None else pace


def _result(events: int, matches: Ints, count: int, counters: Ints) -> Result:
    named = dict(zip(COUNTER_NAMES, (int(value) for value in np.asarray(counters)), strict=True))
    return Result(matches, int(count), named | {"events": events})
