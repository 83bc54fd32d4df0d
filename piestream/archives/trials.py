"""Trials: where only rows tell how much has to be read, some cores are worked on before all of them.

Statistics tell which pages the cores have, but not always how far behind a match its intervals end, nor how far
before it lies the row that decides an UNTIL. So some pages of the rarest symbol are taken at random, and
what is read for the cores around them is taken to be needed for all others. A trial costs a small part of a
scan: so much is lost where it turns out that a scan costs less.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import TypeVar

import numpy as np

from piestream.archives import costs
from piestream.archives.planning import ArchivePlan
from piestream.archives.selection import Selection, TooFarError

__all__ = ["read_by", "worked_out"]

#: What is expected after a trial may cost so much of a scan: others than those tried may need more.
SURE = 0.6

_Result = TypeVar("_Result")


def worked_out(
    plan: ArchivePlan, work: Callable[[ArchivePlan, Selection], _Result]
) -> tuple[Selection, _Result]:
    """What reads the cores of a plan, and what work on it gives.

    TooFarError says that a scan costs less, or that not even one core can be tried at a small part of its cost.
    """
    most = None
    if plan.is_uncertain:
        found = _tried(plan, work)
        if isinstance(found, tuple):
            return found
        most = costs.most_cost(plan.pages, found, grows=True)
        plan.settle()
    selection = plan.selection()
    if most is not None:
        selection.most = most
    return selection, work(plan, selection)


def read_by(plan: ArchivePlan) -> Selection:
    """What has read the cores of a plan with all that they need; TooFarError as above."""

    def fetched(plan: ArchivePlan, selection: Selection) -> None:
        if plan.cores:
            selection.fetch(plan.cores)

    return worked_out(plan, fetched)[0]


def _tried(
    plan: ArchivePlan, work: Callable[[ArchivePlan, Selection], _Result]
) -> tuple[Selection, _Result] | float:
    """The whole, if it is no more than may be tried, or what it may be expected to cost, as a part of it shows."""
    assert plan.cores is not None
    pages, rare = plan.pages, np.flatnonzero(plan.rare)
    most = costs.trial_cost(pages, bool(plan.query.partition_by)) - plan.looked
    planned = _planned(plan)
    if planned <= most:
        selection = plan.selection()
        selection.most = most
        return selection, work(plan, selection)
    if planned > SURE * costs.scan_cost(pages):
        raise TooFarError
    order = np.random.default_rng(len(rare)).permutation(rare)
    n_tried = int(len(rare) * most / planned)
    while True:
        if n_tried < 1:
            raise TooFarError
        chosen = np.zeros(len(pages), np.bool_)
        chosen[order[:n_tried]] = True
        look = costs.rows_cost(pages, chosen, row=1) * plan.will_look
        part = plan.laid_out(chosen)
        own = _planned(part)
        if own + look <= (most / 2 if n_tried > 1 else most):  # the rest is for what they need
            break
        n_tried //= 2
    if plan.will_look:
        part.settle()
    selection = part.selection()
    selection.most = most - look
    work(part, selection)
    more = (look + selection.cost - own) * len(rare) / n_tried
    expected = planned + max(more, 0)
    if expected > SURE * costs.scan_cost(pages):
        raise TooFarError
    return expected + _deeper(plan, len(rare) / n_tried)


def _deeper(plan: ArchivePlan, times_more: float) -> float:
    """What it costs that of so many times more cores some need rows farther away than those tried.

    The row of a partition that decides an UNTIL is anywhere before: twice as far is looked each time, and all
    rows are worked on once more.
    """
    assert plan.reach is not None
    if not (plan.query.partition_by and plan.reach.latches):
        return 0.0
    assert plan.cores is not None
    rows = float(plan.pages.rows[plan.selection().wanted(*plan.cores)].sum())
    return costs.AGAIN * rows * log2(times_more)


def _planned(plan: ArchivePlan) -> float:
    """The cost of the cores of a plan, as far as it is known."""
    assert plan.cores is not None
    selection = plan.selection()
    return selection.cost_of(selection.wanted(*plan.cores))
