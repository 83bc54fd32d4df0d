"""Streams to try queries on: synthetic booleans, a fleet of cars, an LNG tank that rolls over.

All of them are functions from a seed to a Polars frame. They draw uniform numbers from NumPy's
``Generator(PCG64(...))`` and use nothing but ``+ - * /`` and rounding on them, so one seed gives
the same frame, bit for bit, wherever it is run. Nothing but NumPy and Polars is needed.

>>> booleans(symbols=2, events=3, seed=1).columns
['ts', 'a1', 'a2']
"""

# Not loaded on first use: each function is named like its module, and a module that is imported
# after this package would take the function's place in it.
from piestream.generators.booleans import booleans, booleans_chunks
from piestream.generators.rollover import rollover, rollover_truth

__all__ = [
    "booleans",
    "booleans_chunks",
    "rollover",
    "rollover_truth",
]
