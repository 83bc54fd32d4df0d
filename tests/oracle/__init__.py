"""The oracle: what a query means, by enumeration, from docs/semantics.md and docs/streams.md.

It shares nothing with the engine but the frozen query model. Intervals are pairs of instants, with what is known
of them when; runs, silences, rows of intervals and matches of other queries are the same here. It lists them, tries all
combinations, and settles "whatever comes next" by trying what may come. It is slow and meant to be obviously right.
Queries over several streams are asked of `tests.oracle.streams`; one stream of events is the case of these with one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from piestream.language.model import Query
from piestream.language.parts import Return
from tests.clock import Clock
from tests.oracle import streams
from tests.oracle.limits import Reported, given, in_windows
from tests.oracle.reading import WHERE, Condition, Inputs, Row, TieError
from tests.oracle.rules import holding
from tests.oracle.streams import TooManyMatchesError
from tests.truth import Expression

__all__ = [
    "Reported", "Row", "TieError", "TooManyMatchesError", "given", "holding", "in_windows", "inputs_of", "matches",
]  # fmt: skip


def inputs_of(
    query: Query,
    rows: Sequence[Row],
    truth: Mapping[str, Expression],
    *,
    clock: Clock | None = None,
    time: str = "ts",
    ties: str = "error",
    until: int | None = None,
    at_end: str = "open",
    most: int = 1_000_000,
    where: tuple[Expression, Sequence[Return]] | None = None,
) -> Inputs:
    """Rows of one stream of events as the inputs of a query that reads nothing else.

    ``truth`` holds the predicate of each symbol; equal ones are equal predicates. ``rows`` hold their time in ticks
    of ``clock``; ``until`` is the time up to which time is known, by default the largest one in the input.
    ``where`` is the condition on a match with the items that it reads, each named by its text.
    """
    (source,) = (one for one in query.streams if one.silence is None)
    if until is None:
        until = max((row[source.order_by or time] for row in rows), default=0)
    told: dict[str, Any] = dict(truth)
    if where is not None:
        told[WHERE] = Condition(*where)
    return Inputs({str(source.name): rows}, told, clock or Clock(), ties, until, most, at_end, time)


def matches(
    query: Query, rows: Sequence[Row], truth: Mapping[str, Expression], **options: Any
) -> list[dict[str, Any]]:
    """The rows that a query has on the events of its one stream, partition by partition.

    >>> from piestream.expressions.durations import Duration
    >>> from piestream.language.parts import Constraint, Endpoint, Symbol
    >>> from piestream.relations import Relation
    >>> from tests.truth import column
    >>> query = Query(
    ...     symbols=(Symbol("a", None), Symbol("b", None)),
    ...     constraints=(Constraint("a", "b", Relation.MEETS),),
    ...     within=Duration(9, in_ticks=True),
    ...     returns=(Endpoint("a", "ts", "a_ts"),),
    ... )
    >>> events = [{"ts": 4, "a": True, "b": False}, {"ts": 6, "a": False, "b": True}]
    >>> matches(query, events, {"a": column("a"), "b": column("b")})
    [{'detected_at': 6, 'a_ts': 4}]
    """
    return streams.matches(query, inputs_of(query, rows, truth, **options))
