"""Strategies of hypothesis: queries of every kind, and the streams that they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from piestream.expressions.diagnostics import did_you_mean
from piestream.language.model import Query

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["KEY", "SEQUENCE", "THINGS", "TIME", "events", "queries"]

#: What `events` calls the time, the key and what orders events of one time, and `queries` expects.
TIME, KEY, SEQUENCE = "t", "k", "seq"

#: What `queries` draws beside relations, if nothing else is said.
THINGS = (
    "MAX GAP",
    "AT LEAST",
    "EVENTS",
    "UNTIL",
    "OVER",
    "BRIDGING",
    "SILENCE",
    "distances",
    "NOT",
    "WITHIN OF",
    "WHERE",
    "limits",
)


def queries(
    symbols: Sequence[str] = ("a", "b", "c"),
    *,
    partitioned: bool = False,
    sequenced: bool = False,
    streams: Sequence[str] = ("stream",),
    using: Collection[str] = THINGS,
) -> SearchStrategy[Query]:
    """Queries over boolean columns that have the names of the symbols, as `events` draws them.

    Every query can be satisfied: an interval is planted for each symbol, and each constraint
    allows what the planted pair is, and perhaps more. ``using`` says what may be drawn beside
    relations, of `THINGS`. With several ``streams``, the symbols are of them in turn.
    """
    from hypothesis import strategies as st

    from piestream.testing.drawn import drawn_query

    for name in using:
        if name not in THINGS:
            near = did_you_mean(name, THINGS) or f"there are {', '.join(THINGS)}"
            raise ValueError(f"queries are not drawn using {name!r}: {near}")
    if not symbols or not streams or len(streams) > len(symbols):
        raise ValueError("a query needs a symbol, and a symbol for each of its streams")

    @st.composite
    def drawn(draw: Any) -> Query:
        return drawn_query(
            draw,
            tuple(symbols),
            tuple(streams),
            KEY if partitioned else None,
            SEQUENCE if sequenced else None,
            frozenset(using),
        )

    return drawn()


def events(
    symbols: Sequence[str] = ("a", "b", "c"),
    *,
    columns: Mapping[str, SearchStrategy[Any]] | None = None,
    partitions: int = 1,
    max_size: int = 40,
    sequenced: bool = False,
) -> SearchStrategy[pl.DataFrame]:
    """Streams as Polars frames, in order of time and without ties.

    The columns are the time ``t`` (integers), with more than one partition the key ``k``, a
    boolean for every symbol, and ``columns`` of your own. Values hold for a while, so that there
    are runs to relate. If ``sequenced``, many events have one time, and the column ``seq`` orders them.
    """
    from hypothesis import strategies as st

    more = dict(columns or {})

    @st.composite
    def drawn(draw: Any) -> pl.DataFrame:
        count = draw(st.integers(0, max_size))
        lengths = (0, 0, 1, 2, 9) if sequenced else (1, 1, 1, 2, 9)
        steps = draw(st.lists(st.sampled_from(lengths), min_size=count, max_size=count))
        times: list[int] = []
        for step in steps:
            times.append(step + (times[-1] if times else 0))
        found = {TIME: pl.Series(times, dtype=pl.Int64)}
        if sequenced:
            found[SEQUENCE] = pl.Series(range(count), dtype=pl.Int64)
        if partitions > 1:
            names = [f"p{number}" for number in range(partitions)]
            keys = st.lists(st.sampled_from(names), min_size=count, max_size=count)
            found[KEY] = pl.Series(draw(keys), dtype=pl.String)
        for name in symbols:
            turns = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
            first = draw(st.booleans())
            values = [
                value for k, run in enumerate(turns) for value in [first ^ (k % 2 == 1)] * run
            ]
            found[name] = pl.Series(values[:count], dtype=pl.Boolean)
        for name, values_of in more.items():
            found[name] = pl.Series(draw(st.lists(values_of, min_size=count, max_size=count)))
        return pl.DataFrame(found)

    return drawn()
