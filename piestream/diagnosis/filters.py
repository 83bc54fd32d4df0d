"""Clauses that leave out matches of the pattern: how each is written, and a query without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from piestream.diagnosis.parts import forever, with_window, without_absences, without_limits
from piestream.language.emission import limits_text
from piestream.language.model import Query
from piestream.language.parts import Emit
from piestream.language.printer import absence_text
from piestream.plan.columns import TimeColumn

__all__ = ["ABSENCE", "COMPLETION", "CONDITION", "LIMITS", "WINDOW", "Filter"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A clause that leaves out matches: how it is written, and the query without it."""

    name: str
    is_used: Callable[[Query], bool]
    written: Callable[[Query], str]
    lifted: Callable[[Query, TimeColumn], Query]


ABSENCE = Filter(
    "absence",
    is_used=lambda query: bool(query.absences),
    written=lambda query: " AND ".join(map(absence_text, query.absences)),
    lifted=lambda query, time: without_absences(query),
)
WINDOW = Filter(
    "window",
    is_used=lambda query: True,
    written=lambda query: f"WITHIN {query.within_text}",
    lifted=lambda query, time: with_window(query, forever(time)),
)
COMPLETION = Filter(
    "completion",
    is_used=lambda query: query.emit is Emit.COMPLETION,
    written=lambda query: "EMIT ON COMPLETION",
    lifted=lambda query, time: replace(query, emit=Emit.TRIGGER),
)
CONDITION = Filter(
    "condition",
    is_used=lambda query: query.where is not None,
    written=lambda query: f"WHERE {query.where}",
    lifted=lambda query, time: replace(query, where=None),
)
LIMITS = Filter(
    "limits",
    is_used=lambda query: bool(query.limits),
    written=lambda query: " ".join(limits_text(query.limits, query.limits.once_per)),
    lifted=lambda query, time: without_limits(query),
)
