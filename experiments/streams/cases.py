"""Patterns and streams that several experiments share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from experiments.baselines import bits
from experiments.baselines.java import CHAIN, VARIABLE
from experiments.baselines.pattern import Ints, Pattern
from experiments.peers import Case
from piestream.generators import booleans
from piestream.relations import Relation

__all__ = [
    "BEFORE_OVERLAPS",
    "SEED",
    "STARTS_BEFORE_OVERLAPS",
    "chain",
    "java_there",
    "one_after_another",
    "synthetic",
]

#: The first seed of every stream.
SEED = 0

#: The constraints of TPStream's disconnected pattern (EDBT 2018): A before B, B overlaps C.
BEFORE_OVERLAPS = ((0, 1, Relation.BEFORE), (1, 2, Relation.OVERLAPS))

#: And of the dissertation: A starts B, B before C, C overlaps D.
STARTS_BEFORE_OVERLAPS = (
    (0, 1, Relation.STARTS),
    (1, 2, Relation.BEFORE),
    (2, 3, Relation.OVERLAPS),
)


def chain(symbols: int, window: int = 10_000) -> Pattern:
    """The chain of PieStream's Fig. 4: six relations between neighbours.

    >>> len(chain(4).constraints)
    3
    """
    return Pattern(symbols, tuple((at, at + 1, CHAIN) for at in range(symbols - 1)), window)


def synthetic(pattern: Pattern, events: int, seed: int = SEED, **shape: Any) -> Case:
    """A pattern over TPStream's synthetic booleans: situations 10–100 s, gaps 10–50 s, 1 Hz."""
    frame = booleans(pattern.n_symbols, events, seed, **shape)
    return Case(pattern, *bits(frame))


def java_there() -> bool:
    """Whether a built copy of the authors' Java program is named."""
    return bool(os.environ.get(VARIABLE))


def one_after_another(keys: Ints, times: Ints, masks: Ints, window: int) -> tuple[Ints, Ints]:
    """The streams of many partitions as one stream, for methods that know no partitions.

    Each partition's stream is moved behind the one before it by more than the window, and ends
    with a row of silence beyond its own window: no match spans two of them, and none is added.

    >>> one_after_another(np.array([1, 2]), np.array([0, 0]), np.array([1, 1]), window=5)
    (array([ 0,  6, 12, 18]), array([1, 0, 1, 0]))
    """
    order = np.lexsort((times, keys))
    keys, times, masks = keys[order], times[order], masks[order]
    last = np.flatnonzero(np.append(keys[1:] != keys[:-1], True))
    apart = int(times.max() - times.min()) + 2 * (window + 1)
    shift = np.searchsorted(keys[last], keys) * apart
    moved = times - times.min() + shift
    ends = moved[last] + window + 1
    return np.insert(moved, last + 1, ends), np.insert(masks, last + 1, 0)
