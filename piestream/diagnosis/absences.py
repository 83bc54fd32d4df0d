"""When nothing could come any more that a NOT of a match excludes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from piestream.diagnosis.parts import forever, identity, with_window, without_absences
from piestream.language.absences import Absence
from piestream.language.emission import NO_LIMITS
from piestream.language.model import Query
from piestream.language.parts import Emit
from piestream.plan.columns import TimeColumn

__all__ = ["AbsenceDecision", "alone"]


@dataclass(frozen=True, slots=True)
class AbsenceDecision:
    """A NOT of a match, and from when on no interval could satisfy it, the match being there."""

    text: str
    symbol: str
    decided_at: Any


def alone(query: Query, absence: Absence, time: TimeColumn) -> Query:
    """The matches of a query with one of its absences alone, each when that is decided."""
    others = {other.symbol for other in query.absences} - {absence.symbol}
    part = with_window(without_absences(query, others), forever(time))
    return replace(part, returns=identity(part), emit=Emit.TRIGGER, where=None, limits=NO_LIMITS)
