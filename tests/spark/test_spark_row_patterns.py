"""Row patterns on Spark: bounded and streaming frames say what the oracle says."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from tests.engines import cuts
from tests.row_patterns.randoms import Case, random_case, with_what_holds
from tests.row_patterns.test_laws import expected_rows, given_rows
from tests.spark.streams import Player, cut, frame_of, rows_of

_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}
#: Seeds of bounded frames, and of streams, whose cases have rows; one of each gives all rows per match.
_BOUNDED, _STREAMED = (13, 16), (21, 24)


def _frame(cases: dict[int, Case]) -> pl.DataFrame:
    """The rows of a case for each partition."""
    events = [event for key, case in cases.items() for event in case.events(key)]
    return pl.DataFrame(events, schema=_TYPES)


def _cases(seed: int, memory: bool = False) -> dict[int, Case]:
    """A query over three partitions."""
    size = 8 if memory else 20
    first = random_case(seed, size, memory)
    others = [random_case(7 * seed + n, size).rows for n in range(2)]
    if memory:
        others = [with_what_holds(first.query, rows) for rows in others]
    return dict(enumerate((first, *(Case(first.query, rows) for rows in others))))


def _check(cases: dict[int, Case], found: pl.DataFrame) -> None:
    for key, case in cases.items():
        own = given_rows(case, found.filter(pl.col("k") == key))
        assert own == expected_rows(case), f"{case.query}, partition {key}"


@pytest.mark.parametrize(("seed", "memory"), [*((seed, False) for seed in _BOUNDED), (18, True)])
def test_a_bounded_frame_gives_the_matches_of_the_oracle(
    spark: Any, seed: int, memory: bool
) -> None:
    cases = _cases(seed, memory)
    rows = _frame(cases).sample(fraction=1, shuffle=True, seed=seed)
    found = cases[0].query.run(frame_of(spark, rows).repartition(3), buckets=2)
    _check(cases, rows_of(found))


@pytest.mark.parametrize(("seed", "memory"), [*((seed, False) for seed in _STREAMED), (31, True)])
def test_a_stream_gives_the_matches_of_the_oracle_exactly_once(
    spark: Any, seed: int, memory: bool, tmp_path: Path
) -> None:
    cases = _cases(seed, memory)
    rng = Random(seed)
    rows = _frame(cases).sort("t")
    sizes = cuts(len(rows), rng)
    step = -(-len(sizes) // 5)
    sizes = tuple(sum(sizes[at : at + step]) for at in range(0, len(sizes), step))
    parts = [pl.DataFrame(part, schema=_TYPES, orient="row") for part in cut(rows.rows(), sizes)]
    options = {"buckets": 2, "partitioning": rng.choice(("bucket", "key"))}
    player = Player(spark, cases[0].query, rows.clear(), tmp_path, **options)
    player.play(*parts[:2])  # and started again from its checkpoint
    player.play(*parts[2:])
    _check(cases, pl.concat([player.rows(), player.flushed()]))


def test_what_is_calculated_of_dates_and_of_wide_numbers_is_what_a_frame_gives(spark: Any) -> None:
    query = ps.query("""
        FROM s MATCH_RECOGNIZE (
            ORDER BY t
            MEASURES FIRST(COALESCE(A.d, A.hour)) AS either, LAST(COALESCE(d, '2026-01-01 10:00:00')) AS known,
                     FIRST(A.x + 9223372036854775808) AS wide, MAX(x + 9223372036854775808) AS widest,
                     FIRST(x + 9223372036854775808) > 9223372036854775808 AS is_wide
            PATTERN (A B) DEFINE B AS x < 4 OR x IS NULL
        )
    """)
    day, hour = date(2026, 3, 1), datetime(2026, 3, 2, 12)
    events = pl.DataFrame({
        "t": [1, 2, 3, 4], "x": [5, -3, 2**62, None], "d": [day, None, None, day], "hour": [hour] * 4,
    })  # fmt: skip
    wanted = query.run(events)
    assert wanted["wide"].to_list() == [5 + 2**63, 2**62 + 2**63]
    assert wanted["known"].to_list() == [datetime(2026, 1, 1, 10), datetime(2026, 3, 1)]
    found = rows_of(query.run(frame_of(spark, events)))
    found = found.cast({"wide": pl.Int128, "widest": pl.Int128})  # Spark's are of 38 digits
    assert sorted(map(str, found.rows())) == sorted(map(str, wanted.rows()))


def test_slices_of_time_are_refused(spark: Any) -> None:
    text = "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A) DEFINE A AS a)"
    with pytest.raises(ps.QueryError, match="cannot be processed in slices"):
        ps.query(text).run(frame_of(spark, pl.DataFrame(schema=_TYPES)), slices=2)
