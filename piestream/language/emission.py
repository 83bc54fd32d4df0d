"""What is left out of a result: ``ONCE PER s NO OVERLAP COOLDOWN 10 min LIMIT 3``.

All four are filters on the ordered rows of a partition: whether a match is given is judged by those
that were given before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import Duration
from piestream.expressions.tokens import Kind
from piestream.language.cursor import Cursor

__all__ = [
    "EMISSION_CLAUSES",
    "MOST_MATCHES",
    "NO_LIMITS",
    "EmissionLimits",
    "read_limit",
    "read_no_overlap",
    "read_once_per",
]

#: The clauses that stand behind EMIT.
EMISSION_CLAUSES = ("ONCE PER", "NO OVERLAP", "COOLDOWN", "LIMIT")
#: The largest number of LIMIT.
MOST_MATCHES = 1 << 62


@dataclass(frozen=True, slots=True)
class EmissionLimits:
    """Which matches of a partition are given, if not all.

    >>> import piestream as ps
    >>> query = ps.query(
    ...     "FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 ONCE PER a COOLDOWN 60 LIMIT 3"
    ... )
    >>> query.limits.once_per, query.limits.limit
    (('a',), 3)
    """

    #: Of the matches with the same intervals of these symbols only one is given.
    once_per: tuple[str, ...] = ()
    #: A match that began before the report of the last one given is left out.
    no_overlap: bool = False
    #: None is given within this time after one.
    cooldown: Duration | None = None
    #: So many are given.
    limit: int | None = None

    def __bool__(self) -> bool:
        return self != NO_LIMITS


NO_LIMITS = EmissionLimits()


def read_once_per(cursor: Cursor, spans: dict[tuple[str, ...], Span]) -> tuple[str, ...]:
    """The symbols of ONCE PER; notes where each stands."""
    found = []
    for part in cursor.split(","):
        name = part.take_name("a symbol")
        if name is not None:
            part.expect_end("a symbol")
            found.append(name.text)
            spans["once_per", name.text] = name.span
    return tuple(found)


def read_no_overlap(cursor: Cursor) -> bool:
    """NO OVERLAP stands alone."""
    cursor.expect_end("NO OVERLAP")
    return True


def read_limit(cursor: Cursor) -> int | None:
    """The number of LIMIT."""
    token = cursor.take()
    number = token.value if token.kind is Kind.PARAMETER else None
    if token.kind is Kind.NUMBER:
        number = min(Decimal(token.text), Decimal(MOST_MATCHES + 1))
        number = int(number) if number == number.to_integral_value() else None
    cursor.expect_end("LIMIT")
    fault = limit_fault(number)
    if fault is not None:
        cursor.report(token, fault, "write it like LIMIT 10")
        return None
    assert isinstance(number, int)
    return number


def limit_fault(number: object) -> str | None:
    """What is wrong with a number of matches."""
    if isinstance(number, bool) or not isinstance(number, int):
        return "LIMIT needs a whole number of matches"
    if not 0 < number <= MOST_MATCHES:
        return f"LIMIT is from 1 to {MOST_MATCHES}"
    return None


def limits_text(limits: EmissionLimits, names: Sequence[str]) -> list[str]:
    """The clauses as they are written; ``names`` are the symbols of ONCE PER as they are written."""
    lines = []
    if names:
        lines.append("ONCE PER " + ", ".join(names))
    if limits.no_overlap:
        lines.append("NO OVERLAP")
    if limits.cooldown is not None:
        lines.append(f"COOLDOWN {limits.cooldown}")
    if limits.limit is not None:
        lines.append(f"LIMIT {limits.limit}")
    return lines
