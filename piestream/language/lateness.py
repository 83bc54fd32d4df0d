"""How late matches of a query in brackets may become known: what bounds how long a NOT waits for them.

Where a query has BRIDGING or a NOT, and where it is a row pattern, its matches may become known after they have
ended. So of one of which nothing is known yet it cannot be said that it ends later than now. Its window says what
can: one that becomes known later than now began less than ``WITHIN`` ago, and lasts no longer than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from piestream.expressions.durations import Duration
from piestream.language.row_patterns import MatchMode, RowPattern, SkipMode
from piestream.language.windows import NO_WINDOW

if TYPE_CHECKING:
    from piestream.language.model import Query

__all__ = ["Lateness", "lateness_of", "why_unbounded"]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How long a match may have been over, or have begun, when it becomes known.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1 BRIDGING 2 PATTERN a WITHIN 60 EMIT ON COMPLETION")
    >>> lateness_of(query)
    Lateness(which='ts', length=Duration(amount=60, in_ticks=True), may_come_at_end=False)
    """

    which: str  # it is known no later than so long after its start ("ts"), or less after its end ("te")
    length: Duration
    may_come_at_end: bool = False  # or at its end, however long it has lasted


def lateness_of(query: Query) -> Lateness | None:
    """How late matches of a query may become known; None: nothing bounds that."""
    if query.rows is not None:
        if query.rows.within is None or why_unbounded(query) is not None:
            return None
        return Lateness("ts", query.rows.within, may_come_at_end=True)
    if query.within != NO_WINDOW:
        return Lateness("ts", query.within)
    lengths = [window.length for window in query.windows]
    if len({length.in_ticks for length in lengths}) > 1:
        lengths = lengths[:1]
    return Lateness("te", min(lengths, key=lambda length: length.amount))


def why_unbounded(query: Query) -> tuple[str, str] | None:
    """Why nothing bounds how late matches of a row pattern become known, and what to do; None if something does."""
    rows = query.rows
    if rows is None:
        return None
    if rows.mode is not MatchMode.PREFERRED or rows.skip.mode is not SkipMode.PAST_LAST_ROW:
        why = "its matches may overlap, and become known in order: one may wait for the row behind another one"
        return why, "leave out AFTER MATCH SKIP, which then is PAST LAST ROW, and the mode"
    if _reads_ahead(rows):
        return "it waits for the rows that NEXT reads", "say the same without NEXT"
    if rows.within is None:
        return (
            "without WITHIN a match may stay open for ever",
            "write WITHIN behind its PATTERN (…)",
        )
    return None


def _reads_ahead(rows: RowPattern) -> bool:
    items = [item for measure in rows.measures for _, item in measure.items]
    items += [item for condition in rows.conditions for _, item in condition.all_items]
    return any(item.shift > 0 for item in items)
