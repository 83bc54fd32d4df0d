"""For your own tests: strategies that draw queries and streams, and the laws as functions.

The laws hold for every query and every stream. Assert them for your own queries on your own data,
and on data that hypothesis draws. The strategies need hypothesis; the laws do not.

>>> import polars as pl, piestream as ps
>>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
>>> frame = pl.DataFrame({"t": [1, 2, 3, 4], "x": [5, 0, 5, 5]})
>>> assert_same_however_cut(query, frame, seed=7)
>>> assert_same_in_any_order(query, frame, seed=7)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl

from piestream.expressions.durations import DurationLike, as_duration
from piestream.language.model import Query
from piestream.relations import ALL_NAMES, names, relation_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from piestream.language.options import Ties
    from piestream.plan.columns import TimeColumn

__all__ = [
    "assert_partitions_are_independent",
    "assert_same_however_cut",
    "assert_same_in_any_order",
    "assert_survives_restoring",
    "events",
    "queries",
]

#: What `events` calls the time and the key, and what `queries` expects.
TIME, KEY = "t", "k"


# -- strategies ---------------------------------------------------------------------------------


def queries(
    symbols: Sequence[str] = ("a", "b", "c"), *, partitioned: bool = False
) -> SearchStrategy[Query]:
    """Queries over boolean columns that have the names of the symbols, as `events` draws them.

    Every query can be satisfied: an interval is planted for each symbol, and each constraint
    allows the relation of the planted pair, and perhaps more.
    """
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: Any) -> Query:
        from piestream.language import parse

        spans = {}
        for name in symbols:
            start = draw(st.integers(0, 6))
            spans[name] = start, draw(st.integers(start + 1, 8))
        clauses = []
        for place in range(1, len(symbols)):
            x, y = symbols[draw(st.integers(0, place - 1))], symbols[place]
            planted = names(relation_of(*spans[x], *spans[y]))
            allowed = {*planted, *draw(st.sets(st.sampled_from(ALL_NAMES)))}
            clauses.append(f"{x} {'; '.join(sorted(allowed))} {y}")
        text = [
            "FROM stream" + (f" PARTITION BY {KEY}" if partitioned else "") + f" ORDER BY {TIME}",
            "MAX GAP 5" if draw(st.booleans()) else "",
            "DEFINE " + ", ".join(f"{name} AS {name}" for name in symbols),
            "PATTERN " + (" AND ".join(clauses) or symbols[0]),
            f"WITHIN {draw(st.integers(1, 60))}",
            f"EMIT ON {draw(st.sampled_from(['TRIGGER', 'COMPLETION', 'BOTH']))}",
        ]
        return parse("\n".join(text))

    return drawn()


def events(
    symbols: Sequence[str] = ("a", "b", "c"),
    *,
    columns: Mapping[str, SearchStrategy[Any]] | None = None,
    partitions: int = 1,
    max_size: int = 40,
) -> SearchStrategy[pl.DataFrame]:
    """Streams as Polars frames, in order of time and without ties.

    The columns are the time ``t`` (integers), with more than one partition the key ``k``, a
    boolean for every symbol, and ``columns`` of your own. Values hold for a while, so that there
    are runs to relate.
    """
    from hypothesis import strategies as st

    more = dict(columns or {})

    @st.composite
    def drawn(draw: Any) -> pl.DataFrame:
        count = draw(st.integers(0, max_size))
        steps = draw(st.lists(st.sampled_from((1, 1, 1, 2, 9)), min_size=count, max_size=count))
        times: list[int] = []
        for step in steps:
            times.append(step + (times[-1] if times else 0))
        found = {TIME: pl.Series(times, dtype=pl.Int64)}
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


# -- laws ---------------------------------------------------------------------------------------


def assert_same_however_cut(
    query: Query, frame: pl.DataFrame, seed: int = 0, *, ties: Ties = "error"
) -> None:
    """A session gives the rows of a run over the whole frame, however the stream is cut.

    Both know that a silence is over from later events of other partitions.
    """
    expected = query.run(frame, ties=ties)
    session = query.open(ties=ties, schema=frame.schema)
    found = [session.push(part) for part in _pieces(_in_order(query, frame), Random(seed))]
    _check(query, expected, [*found, session.close()], f"cut with seed {seed}")


def assert_same_in_any_order(
    query: Query, frame: pl.DataFrame, seed: int = 0, *, lateness: DurationLike | None = None
) -> None:
    """Events that come in disorder, but within ``lateness``, change nothing.

    Left out, it is 5 ticks of an integer time column, 5 s of timestamps and 5 days of dates.
    """
    rng = Random(seed)
    ordered = _in_order(query, frame)
    time = _time(query, frame)
    if lateness is None:
        lateness = "5 d" if time.dtype == pl.Date else "5 s" if time.needs_units else 5
    most = time.ticks(as_duration(lateness, "the lateness"), "the lateness")
    ticks = ordered[time.name].to_physical().to_list()
    delayed = [tick + rng.randint(0, most) for tick in ticks]
    arrival = sorted(range(len(delayed)), key=delayed.__getitem__)
    session = query.open(lateness=lateness, schema=frame.schema)
    found = [session.push(part) for part in _pieces(ordered[arrival], rng)]
    _check(query, query.run(frame), [*found, session.close()], f"order of seed {seed}")


def assert_survives_restoring(query: Query, frame: pl.DataFrame, seed: int = 0) -> None:
    """A session that is stored and opened again after every push gives the same rows."""
    session = query.open(schema=frame.schema)
    found = []
    for part in _pieces(_in_order(query, frame), Random(seed)):
        found.append(session.push(part))
        session = query.open(state=session.snapshot())
    _check(query, query.run(frame), [*found, session.close()], f"restored, seed {seed}")


def assert_partitions_are_independent(query: Query, frame: pl.DataFrame) -> None:
    """Each partition has the matches that it has alone.

    It does not hold for queries with MAX GAP, SILENCE or NOT: by events of other partitions it is known
    that time has passed.
    """
    waits = query.streams[0].max_gap is not None or query.has_silences or bool(query.absences)
    if waits or not query.partition_by:
        raise ValueError(
            "this law is about queries with PARTITION BY, and without MAX GAP, SILENCE and NOT"
        )
    alone = [query.run(part) for part in frame.partition_by(query.partition_by)]
    _check(query, query.run(frame), alone, "each partition alone")


def _pieces(frame: pl.DataFrame, rng: Random) -> list[pl.DataFrame]:
    """The frame cut anywhere; some pieces may be empty."""
    edges = [0, *sorted(rng.randint(0, len(frame)) for _ in range(rng.randint(0, 6))), len(frame)]
    return [frame[start:end] for start, end in pairwise(edges)]


def _time(query: Query, frame: pl.DataFrame) -> TimeColumn:
    from piestream.adapters.binding import bound
    from piestream.adapters.inputs import Inputs, bound_inputs

    if not query.is_combined:
        return bound(query, frame.schema).time
    key = Inputs(query).name_of(None)
    return bound_inputs(query, {key: frame.schema}).binding.parts[0].binding.time


def _in_order(query: Query, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort(_time(query, frame).name, maintain_order=True)


def _check(query: Query, expected: pl.DataFrame, found: Sequence[pl.DataFrame], how: str) -> None:
    """The same rows in the same order within each partition; across partitions no order counts."""
    wanted, got = _by_key(query, [expected]), _by_key(query, found)
    for key in [*wanted, *(key for key in got if key not in wanted)]:
        if wanted.get(key, []) != got.get(key, []):
            raise AssertionError(
                f"{how}: partition {key} gave\n  {got.get(key, [])}\nand not\n"
                f"  {wanted.get(key, [])}\nof the query\n{query}"
            )


def _by_key(query: Query, frames: Sequence[pl.DataFrame]) -> dict[str, list[str]]:
    """Rows as text (a float is as exact as its text, and a NULL equals a NULL) by partition."""
    parts: dict[str, list[str]] = {}
    width = len(query.partition_by)
    for frame in frames:
        for row in frame.iter_rows():
            parts.setdefault(repr(row[:width]), []).append(repr(row[width:]))
    return parts
