"""The aggregates of RETURN, as queries name them.

A method of `AggregateMethods` declares one: its name in capitals is the function in a query's text,
the method is the builder's, its first line of documentation is the one in the docs, and a column
that has a default may be left out. `piestream.plan.aggregates` says how each is computed, and
refuses to be imported as long as one of the two is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from piestream.expressions.refusals import AGGREGATE_NAMES
from piestream.language.arguments import check_name
from piestream.language.parts import Aggregate, Return
from piestream.language.printer import alias_of, item_text

__all__ = ["AGGREGATES", "AggregateFunction", "AggregateMethods", "ReturnBuilder"]


@dataclass(frozen=True)
class ReturnBuilder:
    """Something that a match returns; its name comes from `returning`, or is the default.

    >>> from piestream.language.symbols import define
    >>> define("s", "speed > 70").max("speed").alias("top").item
    Aggregate(function='MAX', symbol='s', column='speed', alias='top')
    """

    item: Return

    def alias(self, name: str) -> ReturnBuilder:
        """The same under another name."""
        check_name(name, "a column")
        return ReturnBuilder(replace(self.item, alias=name))

    def _compared(self, sign: str, other: object) -> NoReturn:
        raise TypeError(
            f'a condition on a match is a text: .where("{item_text(self.item)} {sign} {other}")'
        )

    def __lt__(self, other: object) -> NoReturn:
        self._compared("<", other)

    def __le__(self, other: object) -> NoReturn:
        self._compared("<=", other)

    def __gt__(self, other: object) -> NoReturn:
        self._compared(">", other)

    def __ge__(self, other: object) -> NoReturn:
        self._compared(">=", other)


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """What a query may say of one aggregate."""

    name: str
    summary: str
    needs_column: bool  # else it may also be taken of the events themselves: COUNT(s)
    other_spellings: tuple[str, ...]  # refused, with a hint that gives the name


_declared: dict[str, AggregateFunction] = {}
#: Every aggregate by its name, in the order in which errors and the docs list them.
AGGREGATES: Mapping[str, AggregateFunction] = MappingProxyType(_declared)

_Method = TypeVar("_Method", bound=Callable[..., ReturnBuilder])


def _aggregate(*other_spellings: str) -> Callable[[_Method], _Method]:
    """Declare the aggregate that a method of the builder returns."""

    def declare(method: Any) -> Any:
        name = method.__name__.upper()
        first_line = (method.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        needs_column = signature(method).parameters["column"].default is Parameter.empty
        _declared[name] = AggregateFunction(
            name, first_line[:1].lower() + first_line[1:], needs_column, other_spellings
        )
        AGGREGATE_NAMES.add(name)
        return method

    return declare


class AggregateMethods:
    """The aggregates that a symbol can return, over the events of its interval.

    >>> from piestream.language.builder import pattern
    >>> from piestream.language.symbols import define
    >>> s = define("s", "speed > 70")
    >>> print(pattern(s).within("5 minutes").returning(s.avg("speed"), s.count()))
    FROM stream
    DEFINE s AS speed > 70
    PATTERN s
    WITHIN 5 min
    RETURN AVG(s.speed), COUNT(s)
    """

    name: str

    def _over(self, function: str, column: str | None) -> ReturnBuilder:
        if column is not None or AGGREGATES[function].needs_column:
            check_name(column, "a column")
        alias = alias_of(function, self.name, column)
        return ReturnBuilder(Aggregate(function, self.name, column, alias))

    @_aggregate()
    def first(self, column: str) -> ReturnBuilder:
        """The value at the interval's first event, NULL if it is NULL there."""
        return self._over("FIRST", column)

    @_aggregate()
    def last(self, column: str) -> ReturnBuilder:
        """The value at the interval's last known event, NULL if it is NULL there."""
        return self._over("LAST", column)

    @_aggregate()
    def min(self, column: str) -> ReturnBuilder:
        """The least value."""
        return self._over("MIN", column)

    @_aggregate()
    def max(self, column: str) -> ReturnBuilder:
        """The greatest value."""
        return self._over("MAX", column)

    @_aggregate()
    def sum(self, column: str) -> ReturnBuilder:
        """The sum; that of whole numbers is exact, and NULL beyond 64 bits."""
        return self._over("SUM", column)

    @_aggregate("MEAN")
    def avg(self, column: str) -> ReturnBuilder:
        """The mean."""
        return self._over("AVG", column)

    @_aggregate()
    def count(self, column: str | None = None) -> ReturnBuilder:
        """The number of values that are not NULL; without a column, the number of events."""
        return self._over("COUNT", column)

    @_aggregate("STD", "STDDEV_SAMP")
    def stddev(self, column: str) -> ReturnBuilder:
        """The standard deviation of a sample, NULL below two values."""
        return self._over("STDDEV", column)

    @_aggregate("VAR", "VAR_SAMP")
    def variance(self, column: str) -> ReturnBuilder:
        """The variance of a sample, NULL below two values."""
        return self._over("VARIANCE", column)
