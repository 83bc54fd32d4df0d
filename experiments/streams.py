"""Patterns and streams that several experiments share."""

from __future__ import annotations

import os

from experiments.baselines import bits
from experiments.baselines.java import CHAIN, VARIABLE
from experiments.baselines.pattern import Pattern
from experiments.peers import Case
from piestream.generators import booleans
from piestream.relations import Relation

__all__ = ["BEFORE_OVERLAPS", "SEED", "chain", "java_there", "synthetic"]

#: The first seed of every stream.
SEED = 0

#: The constraints of TPStream's disconnected pattern (EDBT 2018): A before B, B overlaps C.
BEFORE_OVERLAPS = ((0, 1, Relation.BEFORE), (1, 2, Relation.OVERLAPS))


def chain(symbols: int, window: int = 10_000) -> Pattern:
    """The chain of PieStream's Fig. 4: six relations between neighbours.

    >>> len(chain(4).constraints)
    3
    """
    return Pattern(symbols, tuple((at, at + 1, CHAIN) for at in range(symbols - 1)), window)


def synthetic(pattern: Pattern, events: int, seed: int = SEED, **shape: object) -> Case:
    """A pattern over TPStream's synthetic booleans: situations 10–100 s, gaps 10–50 s, 1 Hz."""
    frame = booleans(pattern.n_symbols, events, seed, **shape)  # type: ignore[arg-type]
    return Case(pattern, *bits(frame))


def java_there() -> bool:
    """Whether a built copy of the authors' Java program is named."""
    return bool(os.environ.get(VARIABLE))
