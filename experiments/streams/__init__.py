"""Streams: the papers' synthetic booleans and LNG tank, and the cases made of them.

The generators are functions from a seed to a Polars frame. They draw uniform numbers from NumPy's
``Generator(PCG64(...))`` and use nothing but ``+ - * /`` and rounding on them, so one seed gives
the same frame, bit for bit, wherever it is run.

>>> booleans(symbols=2, events=3, seed=1).columns
['ts', 'a1', 'a2']
"""

from __future__ import annotations

from experiments.streams.bits import bits, one_after_another
from experiments.streams.booleans import booleans, booleans_chunks
from experiments.streams.cases import Case, of_bits, query_of, synthetic
from experiments.streams.interval_events import interval_events
from experiments.streams.partitions import in_partitions
from experiments.streams.patterns import BEFORE_OVERLAPS, SEED, STARTS_BEFORE_OVERLAPS
from experiments.streams.restless import restless
from experiments.streams.rollover import rollover, rollover_truth

__all__ = [
    "BEFORE_OVERLAPS",
    "SEED",
    "STARTS_BEFORE_OVERLAPS",
    "Case",
    "bits",
    "booleans",
    "booleans_chunks",
    "in_partitions",
    "interval_events",
    "of_bits",
    "one_after_another",
    "query_of",
    "restless",
    "rollover",
    "rollover_truth",
    "synthetic",
]
