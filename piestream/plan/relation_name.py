"""The column of ``RELATION(x, y)``: which relation two intervals of a match have, once that is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import OPEN
from piestream.plan.outputs import Output, ResultRows
from piestream.plan.program import OutputWord
from piestream.relations import (
    ENDPOINT_ORDER,
    PRECISE_FORM,
    RELATIONS_BY_ORDER,
    EndpointOrder,
    Relation,
    names,
)

__all__ = ["RelationName"]

Words = NDArray[np.int64]


@dataclass(frozen=True)
class RelationName(Output):
    """``RELATION(x, y)``."""

    x: int
    y: int
    allowed: Relation  # by the pattern, between the two
    is_sequenced: bool = False  # whether instants are other words than times
    bridged: frozenset[int] = frozenset()  # symbols whose intervals may have ended, or go on
    is_listed: bool = False  # whether it is known of each interval which end it follows

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        followers = [word for _, _, word in self._followers]
        since = [OutputWord(s, "since") for s in (self.x, self.y) if s in self.bridged]
        return (*self._instants, *followers, *since)

    @cached_property
    def _instants(self) -> tuple[OutputWord, ...]:
        """The start and the end of x, then those of y."""
        which = ("start", "end") if self.is_sequenced else ("ts", "te")
        return tuple(OutputWord(symbol, one) for symbol in (self.x, self.y) for one in which)

    @cached_property
    def _followers(self) -> list[tuple[Relation, Relation, OutputWord]]:
        """The pairs of a wide and a precise relation that only a word of its own can tell apart."""
        what = "followed" if self.is_listed else "follows"
        follower = {
            Relation.FOLLOWED_BY: OutputWord(self.y, what, other=self.x),
            Relation.FOLLOWS: OutputWord(self.x, what, other=self.y),
        }
        return [
            (wide, precise, follower[precise])
            for wide, precise in PRECISE_FORM.items()
            if self.allowed & wide and self.allowed & precise
        ]

    @cached_property
    def _names(self) -> pl.Series:
        """The name for each order of the endpoints, by the order's number."""
        named = [next(iter(names(relation)), "") for relation in RELATIONS_BY_ORDER]
        for wide, precise in PRECISE_FORM.items():
            if self.allowed & precise and not self.allowed & wide:
                named[ENDPOINT_ORDER[wide].number] = names(precise)[0]
        return pl.Series(named, dtype=pl.String)

    def column(self, found: ResultRows) -> pl.Series:
        """The name where all that may be known gives one."""
        outlooks = [self._name(found, x_end, y_end) for x_end, y_end in self._outlooks(found)]
        column = outlooks[0]
        for other in outlooks[1:]:
            column = column.set(column.ne_missing(other), None)
        return column

    def _outlooks(self, found: ResultRows) -> Iterator[tuple[Words, Words]]:
        """The ends that the two intervals may have: as they are, or where predicates ceased to hold."""
        _, x_word, _, y_word = self._instants
        for x_end in self._ends(found, self.x, x_word):
            for y_end in self._ends(found, self.y, y_word):
                yield x_end, y_end

    def _ends(self, found: ResultRows, symbol: int, word: OutputWord) -> Iterator[Words]:
        end = found[word]
        yield end
        if symbol in self.bridged:
            yield np.where(end == OPEN, found[OutputWord(symbol, "since")], end)

    def _name(self, found: ResultRows, xe: Words, ye: Words) -> pl.Series:
        """An open end is later than now: how it compares with one that is later too, is not known."""
        xs, ys = (found[word] for word in self._instants[::2])
        order = _endpoint_orders(xs, xe, ys, ye)
        column = self._names.gather(pl.Series(order.astype(np.uint32)))
        for wide, precise, word in self._followers:
            end = xe if precise == Relation.FOLLOWED_BY else ye
            follows = found[word] == (end if self.is_listed else 1)
            is_precise = follows & (order == ENDPOINT_ORDER[wide].number)
            column = column.set(pl.Series(is_precise), names(precise)[0])
        if self.is_sequenced:  # each of these ends is known when it comes
            unknown = (xe == OPEN) & (ye == OPEN)
        else:
            now = found.times
            x_end, y_end = found.shown(xe), found.shown(ye)
            unknown = ((xe == OPEN) & (y_end > now)) | ((ye == OPEN) & (x_end > now))
        return column.set(pl.Series(unknown), None) if unknown.any() else column


def _endpoint_orders(xs: Words, xe: Words, ys: Words, ye: Words) -> Words:
    """`EndpointOrder.number` of every row; no difference is taken, since it might overflow."""

    def compared(a: Words, b: Words) -> Any:
        return (a > b).astype(np.int64) - (a < b).astype(np.int64)

    order = EndpointOrder(compared(xs, ys), compared(xs, ye), compared(xe, ys), compared(xe, ye))
    numbers: Any = order.number
    return np.asarray(numbers, np.int64)
