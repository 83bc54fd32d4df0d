"""Patterns in the query builder: constraints between symbols, joined by ``|`` and ``&``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piestream.expressions.diagnostics import QueryError
from piestream.language.distances import Distance
from piestream.language.parts import Constraint
from piestream.language.printer import constraint_texts
from piestream.relations import Relation, inverse

if TYPE_CHECKING:
    from piestream.language.symbols import SymbolBuilder

__all__ = ["Pair", "PatternBuilder", "PatternPart", "as_pattern"]


class PatternPart(ABC):
    """What a pattern can be made of: constraints, or a symbol alone."""

    @abstractmethod
    def _as_pattern(self) -> PatternBuilder:
        """It as a pattern by itself."""

    def __and__(self, other: PatternBuilder | SymbolBuilder) -> PatternBuilder:
        """Both; a symbol alone is a pattern, too: ``a & ~c.after(a)``."""
        mine, more = self._as_pattern(), as_pattern(other)
        return PatternBuilder(mine.pairs + more.pairs, mine.absences + more.absences)


@dataclass(frozen=True)
class Pair:
    """A constraint on two symbols; the pattern of a single symbol has no ``y``."""

    x: SymbolBuilder
    y: SymbolBuilder | None
    relations: Relation
    distances: tuple[Distance, ...] = ()

    def texts(self) -> list[str]:
        """What a query writes for it."""
        if self.y is None:
            return [self.x.name]
        constraint = Constraint(self.x.name, self.y.name, self.relations, self.distances)
        return list(constraint_texts(constraint))


@dataclass(frozen=True)
class PatternBuilder(PatternPart):
    """Constraints: ``|`` joins alternatives on one pair, ``&`` joins constraints.

    >>> from piestream.language.symbols import define
    >>> a, b, c = define("a", "x > 1"), define("b", "y > 1"), define("c", "z > 1")
    >>> (a.meets(b) | b.after(a)) & b.contains(c)
    a before; meets b AND b contains c

    ``~`` says that no interval satisfies all of some constraints: one of their symbols is absent, and
    stands nowhere else.

    >>> a.before(b) & ~(c.after(a) & (c.ts - a.te <= "10 s"))
    a before b AND NOT (c after a AND c.ts - a.te <= 10 s)
    >>> a & ~c.during(a)
    a AND NOT (c during a)
    """

    pairs: tuple[Pair, ...]
    absences: tuple[tuple[Pair, ...], ...] = ()

    def _as_pattern(self) -> PatternBuilder:
        return self

    def __repr__(self) -> str:
        parts = [text for pair in self.pairs for text in pair.texts()]
        for pairs in self.absences:
            parts.append(f"NOT ({' AND '.join(text for pair in pairs for text in pair.texts())})")
        return " AND ".join(parts)

    def __invert__(self) -> PatternBuilder:
        if self.absences:
            raise QueryError(
                "a NOT stands in another: join absences with &, each with a ~ of its own"
            )
        return PatternBuilder((), (self.pairs,))

    def __or__(self, other: PatternBuilder) -> PatternBuilder:
        if self.absences or as_pattern(other).absences:
            raise QueryError("an absence is no alternative: join it with &")
        if len(self.pairs) != 1 or len(as_pattern(other).pairs) != 1:
            raise QueryError("| joins alternatives on one pair; constraints are joined with &")
        (left,), (right,) = self.pairs, as_pattern(other).pairs
        if left.y is None or right.y is None:
            raise QueryError("| joins relations between two symbols")
        if left.distances or right.distances:
            raise QueryError("a distance holds besides the relations: join it with &")
        relations = right.relations
        if (right.x, right.y) == (left.y, left.x):
            relations = inverse(relations)
        elif (right.x, right.y) != (left.x, left.y):
            raise QueryError(
                f"| joins alternatives on one pair, not on {left.x.name}, {left.y.name} "
                f"and {right.x.name}, {right.y.name}; join constraints with &"
            )
        return PatternBuilder((Pair(left.x, left.y, left.relations | relations),))

    def __bool__(self) -> bool:
        raise TypeError(
            "a constraint is neither true nor false: join constraints with & and |, "
            "and write (a.ts < b.ts) & (b.ts <= a.te) for a.ts < b.ts <= a.te"
        )


def as_pattern(given: PatternBuilder | SymbolBuilder) -> PatternBuilder:
    """The constraints of a pattern; those of a single symbol are none.

    >>> from piestream.language.symbols import define
    >>> as_pattern(define("a", "x > 1"))
    a
    """
    if isinstance(given, PatternPart):
        return given._as_pattern()
    raise QueryError(f"a pattern is made of symbols and their relations, not of {given!r}")
