"""Short streams on which all relations occur."""

from __future__ import annotations

import numpy as np

from experiments.peers.pattern import Ints

__all__ = ["restless"]


def restless(symbols: int, events: int, seed: int) -> tuple[Ints, Ints]:
    """Times and masks whose bits often change together, so that all relations occur; ends in silence.

    >>> times, masks = restless(2, 50, seed=1)
    >>> len(times), int(masks[-1])
    (50, 0)
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    times = np.cumsum(generator.integers(1, 4, events)).astype(np.int64)
    lively = generator.random(events) < 0.5
    flips = generator.random((events, symbols)) < np.where(lively, 0.5, 0.2)[:, None]
    truths = np.cumsum(flips, axis=0) % 2
    truths[-1] = 0
    return times, (truths << np.arange(symbols)).sum(axis=1).astype(np.int64)
