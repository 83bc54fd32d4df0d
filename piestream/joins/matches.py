"""The matches that extension finds at one event, and why the scan of a step stops."""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.records import Carried, Record, Rows, method
from piestream.joins.scratch import Bound

__all__ = ["Matches", "Scanned"]


class Scanned(IntEnum):
    """Why the scan of a step stopped."""

    EXHAUSTED = 0
    BOUND = 1  # a candidate is bound to the step's target
    FULL = 2  # so it is, and it completes a match for which the buffer has no room


class Matches(Record):
    """The matches found at one event: of each, the slot ids of its intervals by symbol."""

    capacity: Carried[int]
    n_symbols: Carried[int]

    @method
    def write(self, number: int, bound: Rows[Bound]) -> None:
        """Write down the match that is bound."""
        n = self.n_symbols
        for s in range(n):
            self[number * n + s] = bound[s].slot_id

    @method
    def copy(self, first: int, to: int, count: int) -> None:
        """Copy so many matches."""
        n = self.n_symbols
        for word in range(count * n):
            self[to * n + word] = self[first * n + word]

    @method
    def bind(self, number: int, s: int, slot_id: int) -> None:
        """Put an interval into a match."""
        self[number * self.n_symbols + s] = slot_id
