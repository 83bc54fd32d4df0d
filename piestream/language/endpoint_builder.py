"""Endpoints of symbols in the query builder: comparisons of two of them, or of their distance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

from piestream.expressions.diagnostics import QueryError
from piestream.expressions.durations import Duration, DurationLike, as_duration
from piestream.language.distances import distances_of
from piestream.language.endpoints import relations_where
from piestream.language.pattern_builder import Pair, PatternBuilder
from piestream.relations import ANY

if TYPE_CHECKING:
    from piestream.language.symbols import SymbolBuilder

__all__ = ["DistanceBuilder", "EndpointBuilder", "ShiftedEndpoint"]


class _Comparable(ABC):
    """What makes a constraint where it is compared."""

    __slots__ = ()

    @abstractmethod
    def _compared(self, sign: str, other: object) -> PatternBuilder:
        """The constraint; QueryError if it cannot be compared with that."""

    def __lt__(self, other: object) -> PatternBuilder:
        return self._compared("<", other)

    def __le__(self, other: object) -> PatternBuilder:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> PatternBuilder:
        return self._compared(">", other)

    def __ge__(self, other: object) -> PatternBuilder:
        return self._compared(">=", other)

    def __eq__(self, other: object) -> PatternBuilder:  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> PatternBuilder:  # type: ignore[override]
        return self._compared("!=", other)

    __hash__ = None  # type: ignore[assignment]


class EndpointBuilder(_Comparable):
    """``a.ts`` or ``a.te``; comparing two of them, or their difference, makes a constraint.

    >>> from piestream.language.symbols import define
    >>> a, b = define("a", "x > 1"), define("b", "y > 1")
    >>> a.ts < b.ts
    a before; meets; overlaps; finished-by; contains b
    >>> a.te == b.te
    a finished-by; equals; finishes b
    >>> b.ts - a.te <= "10 s"
    b.ts - a.te <= 10 s
    >>> b.ts <= a.te + "10 s"
    b.ts - a.te <= 10 s
    """

    __slots__ = ("symbol", "which")

    def __init__(self, symbol: SymbolBuilder, which: str) -> None:
        self.symbol = symbol
        self.which = which

    def __repr__(self) -> str:
        return f"{self.symbol.name}.{self.which}"

    @overload
    def __sub__(self, other: EndpointBuilder) -> DistanceBuilder: ...
    @overload
    def __sub__(self, other: DurationLike) -> ShiftedEndpoint: ...
    def __sub__(self, other: EndpointBuilder | DurationLike) -> DistanceBuilder | ShiftedEndpoint:
        if isinstance(other, EndpointBuilder):
            return DistanceBuilder(self, other)
        length, minus = _signed(other)
        return ShiftedEndpoint(self, length, not minus)

    def __add__(self, other: DurationLike) -> ShiftedEndpoint:
        if isinstance(other, EndpointBuilder):
            raise QueryError(
                f"two endpoints have a difference, and no sum: write {self!r} - {other!r}"
            )
        return ShiftedEndpoint(self, *_signed(other))

    __radd__ = __add__

    def _compared(self, sign: str, other: object) -> PatternBuilder:
        if isinstance(other, ShiftedEndpoint):
            return (self - other.endpoint).bounded(sign, other.length, other.minus)
        if not isinstance(other, EndpointBuilder):
            raise QueryError(
                f"{self!r} can be compared with an endpoint of another symbol, not with {other!r}"
            )
        relations = relations_where(self.which, sign, other.which)
        return PatternBuilder((Pair(self.symbol, other.symbol, relations),))


class ShiftedEndpoint(_Comparable):
    """``a.te + "10 s"``: comparing it with an endpoint of another symbol makes a constraint.

    >>> from piestream.language.symbols import define
    >>> a, b = define("a", "x > 1"), define("b", "y > 1")
    >>> b.ts - "3 s" > a.te
    b.ts - a.te > 3 s
    """

    __slots__ = ("endpoint", "length", "minus")

    def __init__(self, endpoint: EndpointBuilder, length: Duration, minus: bool) -> None:
        self.endpoint, self.length, self.minus = endpoint, length, minus

    def __repr__(self) -> str:
        return f"{self.endpoint!r} {'-' if self.minus else '+'} {self.length}"

    def _compared(self, sign: str, other: object) -> PatternBuilder:
        if not isinstance(other, EndpointBuilder):
            raise QueryError(
                f"{self!r} can be compared with an endpoint of another symbol, not with {other!r}"
            )
        return (self.endpoint - other).bounded(sign, self.length, not self.minus)


class DistanceBuilder(_Comparable):
    """``b.ts - a.te``; comparing it with a length makes a constraint.

    A length is text, a timedelta or an int that counts ticks; a negative one turns the difference.

    >>> from piestream.language.symbols import define
    >>> a, b = define("a", "x > 1"), define("b", "y > 1")
    >>> a.before(b) & (b.ts - a.te < "10 s")
    a before b AND b.ts - a.te < 10 s
    >>> (b.te - a.te).between(-3, 5)
    a.te - b.te <= 3 AND b.te - a.te <= 5
    """

    __slots__ = ("end", "since")

    def __init__(self, end: EndpointBuilder, since: EndpointBuilder) -> None:
        if end.symbol == since.symbol:
            raise QueryError(
                f"{end!r} - {since!r} is how long {end.symbol.name} lasts: give its definition "
                "at_least or at_most"
            )
        self.end, self.since = end, since

    def __repr__(self) -> str:
        return f"{self.end!r} - {self.since!r}"

    def _compared(self, sign: str, other: object) -> PatternBuilder:
        return self.bounded(sign, *_signed(other))

    def bounded(self, sign: str, bound: Duration, minus: bool) -> PatternBuilder:
        """The constraint that compares it with a length, or with the negative of one."""
        if sign == "!=":
            raise QueryError(f"a distance is not compared by !=: {self!r} takes <, <=, ==, >= or >")
        end, since = self.end, self.since
        distances = distances_of(
            (end.symbol.name, end.which),
            (since.symbol.name, since.which),
            sign,
            -bound.amount if minus else bound.amount,
            bound.in_ticks,
        )
        return PatternBuilder((Pair(end.symbol, since.symbol, ANY, distances),))

    def between(self, least: DurationLike, most: DurationLike) -> PatternBuilder:
        """At least and at most so long, both inclusive: ``b.ts - a.te BETWEEN 5 s AND 10 s``.

        >>> from piestream.language.symbols import define
        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> (b.ts - a.te).between("5 s", "10 s")
        b.ts - a.te BETWEEN 5 s AND 10 s
        """
        (low,), (high,) = self._compared(">=", least).pairs, self._compared("<=", most).pairs
        return PatternBuilder((replace(low, distances=low.distances + high.distances),))


def _signed(length: Any) -> tuple[Duration, bool]:
    """A length without its sign, and whether that is negative."""
    minus = length < timedelta(0) if isinstance(length, timedelta) else False
    minus = length < 0 if isinstance(length, int) else minus
    return as_duration(-length if minus else length, "the distance"), minus
