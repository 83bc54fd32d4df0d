"""``UNIT 20 ms``: integers that count lengths other than units, beside the same moments."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.expressions.diagnostics import QueryError

TEXT = """
    FROM s ORDER BY t {unit} MAX GAP 200 ms
    DEFINE a AS x > 1 AT LEAST 60 ms, d AS y > 1 AT MOST 400 ms
    PATTERN a overlaps; contains; before d
    WITHIN 2 s
    EMIT ON COMPLETION
    WHERE d.ts - a.ts > 40 ms
    RETURN a.ts, a.te, d.ts, d.te, d.ts - a.ts AS lag
"""
START = datetime(1970, 1, 1)


def _rows(seed: int) -> pl.DataFrame:
    rng = Random(seed)
    times = sorted(rng.sample(range(700), 400))
    held = {name: rng.random() for name in "xy"}
    columns: dict[str, list[Any]] = {"x": [], "y": []}
    for _ in times:
        for name in held:
            held[name] = rng.uniform(0, 3) if rng.random() < 0.15 else held[name]
            columns[name].append(held[name])
    return pl.DataFrame({"t": times, **columns})


@pytest.mark.parametrize("milliseconds", [10, 20])
def test_ticks_of_a_length_are_the_moments_that_they_stand_for(milliseconds: int) -> None:
    found = 0
    for seed in range(8):
        rows = _rows(seed)
        tick = pl.duration(milliseconds=milliseconds)
        moments = rows.with_columns(t=pl.lit(START) + pl.col("t") * tick)
        expected = ps.query(TEXT.format(unit="")).run(moments)
        query = ps.query(TEXT.format(unit=f"UNIT {milliseconds} ms"))
        frame = query.run(rows)
        at = [(pl.lit(START) + pl.col(n) * tick).alias(n) for n in frame.columns if n != "lag"]
        assert frame.select(*at, pl.col("lag") * tick).rows() == expected.rows()
        session = query.open(lateness=f"{4 * milliseconds} ms")
        pushed = [session.push(part) for part in rows.iter_slices(37)]
        assert pl.concat([*pushed, session.close()]).rows() == frame.rows()
        found += len(frame)
    assert found > 10


def test_a_length_is_written_in_one_way() -> None:
    for written, name in (
        ("1000 ms", "s"),
        ("0.5 s", "500 ms"),
        ("20 msec", "20 ms"),
        ("ms", "ms"),
    ):
        query = ps.query(f"FROM s ORDER BY t UNIT {written} DEFINE a AS x > 1 PATTERN a WITHIN 3 d")
        assert query.streams[0].time_unit == name
        assert ps.query(str(query)) == query
    given = ps.query(
        "FROM s ORDER BY t UNIT :tick DEFINE a AS x PATTERN a WITHIN 3 s", tick="20 ms"
    )
    built = ps.pattern(ps.define("a", "x")).within("3 s").order_by("t", unit="20 ms")
    assert built == given


def test_what_is_no_tick_is_refused() -> None:
    for written, message in (
        ("1500 ns", "a tick cannot last 1500 ns"),
        ("0 ms", "a tick cannot last 0 s"),
        ("20", "20 is not the unit of a time column"),
        ("20 parsecs", "parsecs is not a unit of time"),
    ):
        with pytest.raises(QueryError, match=message):
            ps.query(f"FROM s ORDER BY t UNIT {written} DEFINE a AS x > 1 PATTERN a WITHIN 3 s")
    with pytest.raises(QueryError, match="20 parsecs is not a unit"):
        ps.pattern(ps.define("a", "x")).within("3 s").order_by("t", unit="20 parsecs")
    query = ps.query("FROM s ORDER BY t UNIT 20 ms DEFINE a AS x > 1 PATTERN a WITHIN 30 ms")
    with pytest.raises(QueryError, match="one tick is 20 ms"):
        query.run(_rows(1))


def test_streams_of_one_query_count_the_same() -> None:
    text = """FROM a ORDER BY t UNIT {} WITH b ORDER BY t UNIT {}
        DEFINE x AS a.x > 1, y AS b.y > 1 PATTERN x equals y WITHIN 1 s"""
    rows = _rows(2)
    assert ps.query(text.format("1000 us", "ms")).run({"a": rows, "b": rows}).columns
    with pytest.raises(QueryError, match="count 20 ms, of another 40 ms"):
        ps.query(text.format("20 ms", "40 ms"))


def test_exports_know_how_long_a_tick_is() -> None:
    query = ps.query("FROM s ORDER BY t UNIT 20 ms DEFINE a AS x > 1 PATTERN a WITHIN 1 s")
    found = query.run([{"t": 50, "x": 5}, {"t": 75, "x": 0}])
    assert query.export(found, "mne").splitlines()[2] == "1, 0, match"
    assert query.export(found, "mne").splitlines()[3] == "1, 0, a"


def test_distances_are_compared_with_lengths_in_ticks_of_any_unit() -> None:
    text = (
        "FROM s ORDER BY t UNIT 20 ms DEFINE a AS v = 1, b AS v = 0 "
        "PATTERN a before b AND b.ts - a.te <= 40 ms AND b.ts - a.te >= {least} WITHIN 2 s"
    )
    query = ps.query(text.format(least=1))
    frame = pl.DataFrame({"t": [0, 1, 2, 3, 7], "v": [0, 1, 2, 0, 1]})
    assert query.run(frame)["a_ts"].to_list() == [1]
    with pytest.raises(ps.QueryError, match="no intervals"):
        ps.query(text.format(least=3))
