"""Distances: how far two endpoints of two symbols lie apart, ``d.ts - a.te <= 10 s``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from piestream.expressions.durations import Duration

__all__ = ["MIRRORED", "Distance", "distance_texts", "distances_of", "normalized"]

#: What a comparison becomes when both of its sides change their signs.
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}

#: A bound on ``y.<y_which> - x.<x_which>``: which endpoints, whether an upper one, in ticks or not.
_Bound = tuple[str, str, bool, bool]


@dataclass(frozen=True, slots=True)
class Distance:
    """``symbol.which - other.other_which`` compared with a length, which is not negative.

    >>> print(Distance("d", "ts", "a", "te", "<=", Duration(10, in_ticks=True)))
    d.ts - a.te <= 10
    """

    symbol: str
    which: str
    other: str
    other_which: str
    comparison: str  # "<", "<=", ">", ">="
    length: Duration

    def __str__(self) -> str:
        return f"{_difference(self, str)} {self.comparison} {self.length}"

    @property
    def is_upper(self) -> bool:
        """Whether the difference may not be greater than the length."""
        return self.comparison in ("<", "<=")

    @property
    def is_strict(self) -> bool:
        """Whether the difference may not be the length itself."""
        return self.comparison in ("<", ">")

    def seen_from(self, x: str) -> tuple[str, str, str, int]:
        """As a bound on ``y - x``: the endpoints of x and of y, the comparison, the signed amount.

        >>> Distance("a", "ts", "b", "te", "<=", Duration(10, in_ticks=True)).seen_from("a")
        ('ts', 'te', '>=', -10)
        """
        if self.other == x:
            return self.other_which, self.which, self.comparison, self.length.amount
        return self.which, self.other_which, MIRRORED[self.comparison], -self.length.amount


def distances_of(
    symbol: tuple[str, str], other: tuple[str, str], comparison: str, amount: int, in_ticks: bool
) -> tuple[Distance, ...]:
    """The distances of ``symbol - other <comparison> amount``, whose amount may be negative.

    >>> for distance in distances_of(("d", "ts"), ("a", "te"), ">=", -5, True):
    ...     print(distance)
    a.te - d.ts <= 5
    """
    if comparison in ("=", "=="):
        return tuple(
            one
            for bound in (">=", "<=")
            for one in distances_of(symbol, other, bound, amount, in_ticks)
        )
    if amount < 0:
        symbol, other, comparison, amount = other, symbol, MIRRORED[comparison], -amount
    return (Distance(*symbol, *other, comparison, Duration(amount, in_ticks)),)


def normalized(x: str, y: str, distances: Iterable[Distance]) -> tuple[Distance, ...]:
    """The distances of a pair in one form: of those on the same endpoints only the closest bound.

    Lengths in ticks and lengths with a unit cannot be compared before the time column is known.
    """
    closest: dict[_Bound, tuple[int, str]] = {}
    for distance in distances:
        x_which, y_which, comparison, amount = distance.seen_from(x)
        is_upper = comparison in ("<", "<=")
        key = (x_which, y_which, is_upper, distance.length.in_ticks)
        found = closest.get(key, (amount, comparison))
        if amount == found[0]:
            is_closer = comparison in ("<", ">")
        else:
            is_closer = amount < found[0] if is_upper else amount > found[0]
        closest[key] = (amount, comparison) if is_closer else found
    parts: list[Distance] = []
    for key in sorted(closest):
        x_which, y_which, _, in_ticks = key
        amount, comparison = closest[key]
        parts += distances_of((y, y_which), (x, x_which), comparison, amount, in_ticks)
    return tuple(parts)


def distance_texts(
    distances: Iterable[Distance], name: Callable[[str], str] = str
) -> Iterator[str]:
    """What a query writes for the distances of a pair, those on the same difference as one.

    >>> ten = Duration(10, in_ticks=True)
    >>> both = [Distance("d", "ts", "a", "te", sign, ten) for sign in (">=", "<=")]
    >>> list(distance_texts(both))
    ['d.ts - a.te = 10']
    """
    of: dict[str, list[Distance]] = {}
    for distance in distances:
        of.setdefault(_difference(distance, name), []).append(distance)
    for difference, bounds in of.items():
        by_comparison: Mapping[str, Duration] = {b.comparison: b.length for b in bounds}
        if len(bounds) == 2 and by_comparison.keys() == {"<=", ">="}:
            least, most = by_comparison[">="], by_comparison["<="]
            if least == most:
                yield f"{difference} = {least}"
            else:
                yield f"{difference} BETWEEN {least} AND {most}"
        else:
            yield from (f"{difference} {b.comparison} {b.length}" for b in bounds)


def _difference(distance: Distance, name: Callable[[str], str]) -> str:
    first = f"{name(distance.symbol)}.{distance.which}"
    return f"{first} - {name(distance.other)}.{distance.other_which}"
