"""Limits on what is given: windows, and what the matches of a partition that come before leave of a match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from piestream.language.model import Query
from piestream.language.windows import NO_WINDOW
from tests.clock import Clock

__all__ = ["Reported", "given", "in_windows"]

T = TypeVar("T")
Time = Fraction | int


@dataclass(frozen=True, slots=True)
class Reported(Generic[T]):
    """A match in the order of the result: when it is reported, and where its intervals start.

    Instants are times, or pairs of a time and what tells events of one time apart.
    """

    time: int
    starts: Mapping[str, Any]
    match: T
    instant: Any = None  # of the report, where that is not its time
    intervals: Mapping[str, Any] | None = None  # what tells them apart, where their starts do not

    def of(self, symbol: str) -> Any:
        """The mark that tells the interval of a symbol from others."""
        return (self.intervals or self.starts)[symbol]


def given(query: Query, clock: Clock, reported: Sequence[Reported[T]]) -> list[Reported[T]]:
    """Of the matches of a partition those that are given, each judged by those before."""
    limits = query.limits
    cooldown = None if limits.cooldown is None else clock.ticks(limits.cooldown)
    kept: list[Reported[T]] = []
    for one in reported:
        same = [k for k in kept if all(k.of(s) == one.of(s) for s in limits.once_per)]
        if limits.once_per and same:
            continue
        if limits.no_overlap and kept:
            last = kept[-1].time if kept[-1].instant is None else kept[-1].instant
            if min(one.starts.values()) < last:
                continue
        if cooldown is not None and kept and one.time - kept[-1].time <= cooldown:
            continue
        if limits.limit is not None and len(kept) >= limits.limit:
            continue
        kept.append(one)
    return kept


def in_windows(query: Query, clock: Clock, starts: Mapping[str, Time], report: Time) -> bool:
    """True if a match, or a part of one, is within the windows of all symbols and of some."""
    if query.within != NO_WINDOW and report - min(starts.values()) > clock.ticks(query.within):
        return False
    return all(
        report - starts[w.symbol] <= clock.ticks(w.length)
        for w in query.windows
        if w.symbol in starts
    )
