"""Ratios of two sides, round by round, with an interval that needs no assumption about their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import comb
from statistics import median

__all__ = ["LIMIT", "Ratio", "Verdict", "ratio"]

#: A ratio above it is a step that says why, or does not land.
LIMIT = 1.03
#: How likely the median of all rounds that there could be lies inside an interval, at least.
_COVERED = 0.93


class Verdict(Enum):
    """Judgement of a work by the rounds so far."""

    SLOWER = "slower"
    QUICKER = "quicker"
    SAME = ""
    OPEN = "?"


@dataclass(frozen=True)
class Ratio:
    """Now over base: the median of the rounds, and the order statistics around it."""

    median: float
    low: float
    high: float
    rounds: int

    @property
    def verdict(self) -> Verdict:
        """Slower if the median is above the limit and the interval excludes that nothing has changed."""
        if self.low > 1 and self.median > LIMIT:
            return Verdict.SLOWER
        if self.high < 1 and self.median < 1 / LIMIT:
            return Verdict.QUICKER
        return Verdict.SAME if self.high <= 1.1 and self.median <= LIMIT else Verdict.OPEN


def ratio(base: Sequence[float], now: Sequence[float]) -> Ratio:
    """Compare two sides that were measured in turns.

    >>> ratio([1.0, 1.0, 1.0, 1.0, 1.0], [1.1, 1.0, 1.2, 1.1, 1.1])
    Ratio(median=1.1, low=1.0, high=1.2, rounds=5)
    """
    found = sorted(b / a for a, b in zip(base, now, strict=True))
    outside = _left_out(len(found))
    return Ratio(median(found), found[outside], found[-1 - outside], len(found))


def _left_out(rounds: int) -> int:
    """Number of the least, and of the largest, ratios that an interval leaves out.

    Each ratio is as likely above the true median as below it, so that the number below it is binomial.

    >>> _left_out(5), _left_out(8), _left_out(11)
    (0, 1, 2)
    """
    outside, tail = 0, 1
    while outside + 1 < rounds / 2:
        more = tail + comb(rounds, outside + 1)
        if 1 - 2 * more / 2**rounds < _COVERED:
            return outside
        outside, tail = outside + 1, more
    return outside
