"""For your own tests: strategies that draw queries and streams, and the laws as functions.

The laws hold for every query and every stream. Assert them for your own queries on your own data,
and on data that hypothesis draws. The strategies need hypothesis; the laws do not.

>>> import polars as pl, piestream as ps
>>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
>>> frame = pl.DataFrame({"t": [1, 2, 3, 4], "x": [5, 0, 5, 5]})
>>> assert_same_however_cut(query, frame, seed=7)
>>> assert_same_in_any_order(query, frame, seed=7)
"""

from piestream.testing.laws import (
    assert_partitions_are_independent,
    assert_same_however_cut,
    assert_same_in_any_order,
    assert_survives_restoring,
)
from piestream.testing.strategies import THINGS, events, queries

__all__ = [
    "THINGS",
    "assert_partitions_are_independent",
    "assert_same_however_cut",
    "assert_same_in_any_order",
    "assert_survives_restoring",
    "events",
    "queries",
]
