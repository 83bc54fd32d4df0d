"""A query bound to the columns of an input, remembered: binding costs more than small inputs do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from piestream.compiled.constants import INT64_MAX
from piestream.errors import warn_of_result
from piestream.expressions.durations import DurationLike, as_duration
from piestream.language.model import Query
from piestream.plan.binding import Binding, bind

__all__ = ["bound", "lateness_ticks", "warn_of_waits"]


def bound(query: Query, schema: Mapping[str, pl.DataType], *, is_grouped: bool = False) -> Binding:
    """`bind`, remembered for the latest queries and schemas."""
    return _bound(query, query.origin is None, tuple(schema.items()), is_grouped)


@lru_cache(maxsize=64)
def _bound(
    query: Query, _built: bool, schema: tuple[tuple[str, pl.DataType], ...], is_grouped: bool
) -> Binding:
    # Queries are equal whether or not they came from text, but only a text's errors have carets.
    binding = bind(query, dict(schema), is_grouped=is_grouped)
    if query.rows is not None and query.rows.conditions:
        from piestream.plan.row_ways import warn_of_doubling

        warn_of_doubling(query)
    warn_of_waits(query)
    return binding


def warn_of_waits(query: Query) -> None:
    """Warn of a NOT of which a query's windows are over before it can be known that it holds."""
    if query.absences:
        from piestream.language.absence_waits import wait_texts

        for _, text in wait_texts(query):
            warn_of_result(text)


def lateness_ticks(binding: Binding, lateness: DurationLike) -> int:
    """A lateness in ticks of the time column."""
    duration = as_duration(lateness, "the lateness")
    return min(binding.time.ticks(duration, "the lateness"), INT64_MAX)
