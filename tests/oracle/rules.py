"""Relations that hold between intervals, and aggregates over rows, as the tables of the rules have them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from piestream.language.parts import Constraint
from piestream.relations import ALL_NAMES

__all__ = ["AGGREGATES", "COMPARED", "INVERSE", "PRECISE", "allowed_by", "holding", "value_of"]

Time = Fraction | int

COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
INVERSE = dict(zip(ALL_NAMES, reversed(ALL_NAMES), strict=True))
#: That nothing lies between is asked for, too.
PRECISE = frozenset(("followed-by", "follows"))


def allowed_by(constraint: Constraint) -> frozenset[str]:
    """The names of the relations that a constraint allows."""
    return frozenset(n for bit, n in enumerate(ALL_NAMES) if constraint.relations >> bit & 1)


def holding(xs: Time, xe: Time, ys: Time, ye: Time, quiet: bool) -> frozenset[str]:
    """The relations between ``[xs, xe)`` and ``[ys, ye)``, given whether nothing lies between."""
    table = {
        "before": xe < ys,
        "followed-by": xe < ys and quiet,
        "meets": xe == ys,
        "overlaps": xs < ys < xe < ye,
        "finished-by": xs < ys and xe == ye,
        "contains": xs < ys and ye < xe,
        "starts": xs == ys and xe < ye,
        "equals": xs == ys and xe == ye,
        "started-by": xs == ys and ye < xe,
        "during": ys < xs and xe < ye,
        "finishes": ys < xs and xe == ye,
        "overlapped-by": ys < xs < ye < xe,
        "met-by": ye == xs,
        "follows": ye < xs and quiet,
        "after": ye < xs,
    }
    return frozenset(name for name, holds in table.items() if holds)


def value_of(value: Any) -> Any:
    """A value, None where it is missing."""
    return None if isinstance(value, float) and math.isnan(value) else value


def _variance(values: list[Any]) -> float | None:
    """The variance of a sample; NULL below two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def _deviation(values: list[Any]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


def _over_known(of: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """An aggregate that ignores NULL, and is NULL when nothing else is there."""

    def value(values: list[Any]) -> Any:
        known = [v for v in values if v is not None]
        return of(known) if known else None

    return value


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "FIRST": lambda values: values[0],
    "LAST": lambda values: values[-1],
    "COUNT": lambda values: sum(v is not None for v in values),
    "MIN": _over_known(min),
    "MAX": _over_known(max),
    "SUM": _over_known(lambda v: math.fsum(v) if isinstance(v[0], float) else sum(v)),
    "AVG": _over_known(lambda v: math.fsum(v) / len(v)),
    "STDDEV": _over_known(_deviation),
    "VARIANCE": _over_known(_variance),
}
