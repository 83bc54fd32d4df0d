"""What a query is: one frozen value, made by the parser and by the builder alike.

Nothing here knows of engines or frames. Two queries are equal when they say the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Union

from piestream.relations import Relation

if TYPE_CHECKING:
    from piestream.query.predicates import Predicate

#: Nanoseconds in each unit of time, from the canonical name.
NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time: nanoseconds if a unit was written, else a bare count of ticks."""

    amount: int
    in_ticks: bool = False


class Emit(Enum):
    """When a match makes a row."""

    TRIGGER = "TRIGGER"
    COMPLETION = "COMPLETION"
    BOTH = "BOTH"


@dataclass(frozen=True, slots=True)
class Symbol:
    """``name AS predicate AT LEAST d``: bounds are inclusive, None where there is none."""

    name: str
    predicate: Predicate
    at_least: Duration | None = None
    at_most: Duration | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """The relations allowed between two different symbols, at most one constraint a pair."""

    x: str
    y: str
    relations: Relation


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``AVG(s.speed) AS avg_s_speed``; ``COUNT(s)`` has no column."""

    function: str  # FIRST LAST MIN MAX SUM AVG COUNT STDDEV
    symbol: str
    column: str | None
    alias: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``s.ts`` or ``s.te``."""

    symbol: str
    which: str  # "ts" or "te"
    alias: str


@dataclass(frozen=True, slots=True)
class Length:
    """``DURATION(s)``: te - ts, NULL while te is not known."""

    symbol: str
    alias: str


@dataclass(frozen=True, slots=True)
class Holds:
    """``RELATION(x, y)``: the name of the relation that holds, NULL while not yet known."""

    x: str
    y: str
    alias: str


Return = Union[Aggregate, Endpoint, Length, Holds]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a query says. ``Query`` (the public class) is this with the user's methods."""

    symbols: tuple[Symbol, ...]  # in DEFINE order; all of them appear in the pattern
    constraints: tuple[Constraint, ...]  # normalised: one a pair; x is defined before y
    within: Duration
    returns: tuple[Return, ...]  # never empty: the default is written out
    source: str | None = None  # FROM name, or a path
    source_is_path: bool = False
    partition_by: tuple[str, ...] = ()
    order_by: str | None = None
    time_unit: str | None = None  # declared unit of an integer time column: a key of NANOSECONDS
    max_gap: Duration | None = None
    emit: Emit = Emit.TRIGGER
