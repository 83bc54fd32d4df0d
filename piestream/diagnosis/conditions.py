"""The kinds of conditions that a query can have: the one place where diagnoses learn of them.

A new kind adds an entry here. What it does not have is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from piestream.diagnosis import changes, filters
from piestream.diagnosis.absent_changes import absences
from piestream.diagnosis.changes import Proposal
from piestream.diagnosis.filters import Filter
from piestream.diagnosis.moved_endpoints import moved_endpoints
from piestream.diagnosis.parts import pair, with_inner
from piestream.diagnosis.row_changes import lengths, quantifiers, row_windows, skips
from piestream.diagnosis.row_thresholds import row_thresholds
from piestream.diagnosis.silences import silences
from piestream.diagnosis.target import Target
from piestream.diagnosis.thresholds import thresholds
from piestream.language.model import Query
from piestream.language.parts import Constraint
from piestream.language.printer import constraint_text
from piestream.plan.columns import TimeColumn

#: Of each place in a query in brackets so many changes are tried, of which some matter to the whole.
_INNER = 8

__all__ = ["CONDITIONS", "FILTERS", "ROW_CONDITIONS", "Condition", "ConditionKind"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the intervals of some symbols that is decided at an instant of its own.

    ``alone`` is the query of it and these symbols only: it reports its matches when it is decided.
    """

    text: str
    symbols: tuple[str, ...]
    alone: Query
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class ConditionKind:
    """A kind of condition, and what is asked about it.

    - ``filter``: the step of the funnel that says how many matches it leaves out. The steps put the
      filters back in the order of the registry, each on what those before it left.
    - ``decided``: for why, the conditions of this kind in a query, to ask when each was decided.
    - ``changes``: for why_not, the changes of it that might make an expected match appear. Each has
      one place and a size; they need not be right, for each proposal is run.
    """

    name: str
    filter: Filter | None = None
    decided: Callable[[Query, TimeColumn], Iterator[Condition]] | None = None
    changes: Callable[[Target], Iterator[Proposal]] | None = None


def _pairs(query: Query, time: TimeColumn) -> Iterator[Condition]:
    for constraint in query.constraints:
        alone = pair(query, constraint, time)
        yield Condition(
            constraint_text(constraint), (constraint.x, constraint.y), alone, constraint
        )


def _in_brackets(target: Target) -> Iterator[Proposal]:
    """The same changes of queries in brackets, but for thresholds: these are found from outside."""
    rows = target.rows
    for number, inner_rows in rows.inner.items():
        inner = Target(inner_rows, target.first, target.last, {}, by_earliest=True, count=_INNER)
        for kind in CONDITIONS:
            if kind.changes is None or kind.changes is thresholds:
                continue
            for proposal in kind.changes(inner):
                whole = with_inner(rows.query, number, proposal.query)
                text = f"in {rows.query.streams[number].name}, {proposal.text}"
                yield replace(proposal, query=whole, text=text)


#: Filters stand in the order of their effect: limits see what all others leave.
CONDITIONS = (
    ConditionKind("threshold", changes=thresholds),
    ConditionKind("duration", changes=changes.durations),
    ConditionKind("bridging", changes=changes.bridges),
    ConditionKind("silence", changes=silences),
    ConditionKind("relation", decided=_pairs, changes=changes.relations),
    ConditionKind("distance", changes=changes.distances),
    ConditionKind("endpoint", changes=moved_endpoints),
    ConditionKind("absence", filter=filters.ABSENCE, changes=absences),
    ConditionKind("window", filter=filters.WINDOW, changes=changes.windows),
    ConditionKind("completion", filter=filters.COMPLETION),
    ConditionKind("condition", filter=filters.CONDITION),
    ConditionKind("limits", filter=filters.LIMITS, changes=changes.limits),
    ConditionKind("query in brackets", changes=_in_brackets),
)

#: What a row pattern has instead.
ROW_CONDITIONS = (
    ConditionKind("threshold", changes=row_thresholds),
    ConditionKind("length", changes=lengths),
    ConditionKind("quantifier", changes=quantifiers),
    ConditionKind("window", changes=row_windows),
    ConditionKind("skip", changes=skips),
)

FILTERS = tuple(kind.filter for kind in CONDITIONS if kind.filter is not None)
