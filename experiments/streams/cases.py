"""A pattern over a stream, in the forms in which the methods take it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from experiments.peers.parts.derivers import (
    Bits,
    Masks,
    Runs,
    apart_of,
    bits_of_frame,
    changes_of_bits,
    changes_of_frame,
    runs_of_bits,
)
from experiments.peers.pattern import Ints, Pattern, UnsupportedPatternError, one_partition
from experiments.streams.bits import derived
from experiments.streams.booleans import booleans
from experiments.streams.patterns import SEED
from piestream.relations import names

__all__ = ["Case", "columns_of", "of_bits", "query_of", "synthetic"]


@dataclass(frozen=True)
class Case:
    """A pattern over a stream: a raw frame and what its columns mean.

    The time column is ``ts``; ``tick`` says how many of its units are a tick of the pattern. With a
    ``key`` the rows are those of many partitions, in order of time.
    """

    pattern: Pattern
    frame: pl.DataFrame
    #: SQL over the frame's columns, one for each symbol of the pattern.
    predicates: tuple[str, ...]
    tick: int = 1
    key: str | None = None
    #: The query, where it is more than the pattern.
    explicit_query: ps.Query | None = None

    @cached_property
    def query(self) -> ps.Query:
        """The pattern as a user writes it."""
        return self.explicit_query or query_of(self.pattern)

    @property
    def events(self) -> int:
        """How many rows the frame has."""
        return self.frame.height

    def head(self, events: int) -> Case:
        """The same pattern over the first events."""
        return replace(self, frame=self.frame.head(events))

    def between(self, first: int, end: int) -> Case:
        """The same pattern over the events from one row to another."""
        return replace(self, frame=self.frame[first:end])

    @cached_property
    def expressions(self) -> list[pl.Expr]:
        """The predicates as Polars takes them."""
        return [pl.sql_expr(predicate) for predicate in self.predicates]

    def derive(self) -> tuple[Ints, Ints]:
        """Times and masks of all events, made of the frame."""
        return derived(
            self.frame, self.expressions, tick=self.tick, key=self.key, window=self.pattern.window
        )

    @property
    def apart(self) -> int:
        """Ticks by which partitions are moved apart where they become one stream; 0 without a key."""
        if self.key is None or not self.events:
            return 0
        return apart_of(self.frame["ts"].to_physical().to_numpy(), self.tick, self.pattern.window)[
            1
        ]

    def changes(self) -> Masks:
        """The events that change a symbol, made of the frame."""
        pattern = self.pattern
        if self.key is not None and not any(pattern.at_least):
            return changes_of_frame(
                self.frame, self.expressions, key=self.key, tick=self.tick, window=pattern.window
            )
        return changes_of_bits(self._packed(), pattern.at_least)

    def runs(self) -> tuple[list[Runs], int]:
        """The intervals of each symbol, made of the frame, and how far partitions are apart."""
        at_least = self.pattern.at_least
        if self.key is not None and not any(at_least):
            times, masks, _ = self.changes()
            bits = Bits.of(times, masks, self.pattern.n_symbols, self.apart)
        else:
            bits = self._packed()
        return runs_of_bits(bits, at_least), bits.apart

    def _packed(self) -> Bits:
        if self.key is None:
            return bits_of_frame(self.frame, self.expressions, tick=self.tick)
        return Bits.of(*self.derive(), self.pattern.n_symbols, self.apart)

    @cached_property
    def bits(self) -> tuple[Ints, Ints]:
        """Times and masks, made beforehand."""
        return one_partition(*self.derive())


def columns_of(pattern: Pattern) -> tuple[str, ...]:
    """The Boolean columns of a pattern's symbols: ``a1``, ``a2``, …"""
    return tuple(f"a{at + 1}" for at in range(pattern.n_symbols))


def query_of(
    pattern: Pattern,
    *,
    returns: str | None = None,
    source: str = "s",
    holds: str = "{0}",
    partition_by: str = "",
) -> ps.Query:
    """A pattern over bits as a query over the columns ``a1``, ``a2``, … and ``ts``.

    ``returns``: by default the starts of all symbols; ``holds``: what a column has to fulfil.

    >>> from piestream.relations import Relation
    >>> print(query_of(Pattern(2, ((0, 1, Relation.MEETS),), 9)).within)
    9
    """
    columns = columns_of(pattern)
    defined = []
    for name, least, most in zip(columns, pattern.at_least, pattern.at_most, strict=True):
        if least and most is not None:
            raise UnsupportedPatternError("both bounds on a duration: no experiment has them")
        length = f" AT LEAST {least}" if least else "" if most is None else f" AT MOST {most}"
        defined.append(f"{name} AS {holds.format(name)}{length}")
    clauses = [f"a{x + 1} {';'.join(names(r))} a{y + 1}" for x, y, r in pattern.constraints]
    if returns is None:
        returns = ", ".join(f"{name}.ts" for name in columns)
    return ps.query(
        f"FROM {source} {f'PARTITION BY {partition_by}' if partition_by else ''} ORDER BY ts "
        f"DEFINE {', '.join(defined)} PATTERN {' AND '.join(clauses) or 'a1'} "
        f"WITHIN {pattern.window} {f'RETURN {returns}' if returns else ''}"
    )


def synthetic(pattern: Pattern, events: int, seed: int = SEED, **shape: Any) -> Case:
    """A pattern over TPStream's synthetic booleans: situations 10–100 s, gaps 10–50 s, 1 Hz."""
    frame = booleans(pattern.n_symbols, events, seed, **shape)
    return Case(pattern, frame, columns_of(pattern))


def of_bits(pattern: Pattern, times: Ints, masks: Ints) -> Case:
    """A pattern over a stream that is given as times and masks.

    >>> case = of_bits(Pattern(1, (), 9), np.array([3, 4]), np.array([1, 0]))
    >>> case.frame.rows(), [array.tolist() for array in case.bits]
    ([(3, True), (4, False)], [[3, 4], [1, 0]])
    """
    columns = columns_of(pattern)
    frame = pl.DataFrame({"ts": times} | _truths(masks, columns))
    return Case(pattern, frame, columns)


def _truths(masks: Ints, columns: Sequence[str]) -> dict[str, np.ndarray]:
    return {name: (masks >> bit & 1).astype(np.bool_) for bit, name in enumerate(columns)}
