"""Absences: ``NOT (c after a AND c.ts - a.te <= 10 s)``, of which no interval may satisfy all."""

from __future__ import annotations

from dataclasses import dataclass

from piestream.language.parts import Constraint

__all__ = ["Absence"]


@dataclass(frozen=True, slots=True)
class Absence:
    """A match counts if no interval of ``symbol`` satisfies all of the constraints.

    Each constraint relates that symbol to one of the match, which it is not itself; there is at most
    one a pair, and ``x`` is the symbol that is defined first, as in the other constraints of a query.

    >>> import piestream as ps
    >>> query = ps.query(
    ...     "FROM s DEFINE a AS x > 1, c AS y > 1 "
    ...     "PATTERN a AND NOT (c after a AND c.ts - a.te <= 9) WITHIN 99"
    ... )
    >>> query.absences[0].symbol, query.absences[0].present
    ('c', ('a',))
    """

    symbol: str
    constraints: tuple[Constraint, ...]

    @property
    def present(self) -> tuple[str, ...]:
        """The symbols of the match that the absent one is related to, in the order of DEFINE."""
        return tuple(c.y if c.x == self.symbol else c.x for c in self.constraints)
