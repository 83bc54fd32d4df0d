"""What a streaming frame keeps: values, order, lateness, restarts, refusals."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import piestream.spark
from piestream.demo.fleet import fleet
from piestream.expressions.diagnostics import QueryError
from piestream.language import parse
from tests.spark.streams import Player, frame_of, rows_of

_START = datetime(2024, 3, 10, 6, 59, 58)  # just before New York's clocks go forward
_BIG = 2**53 + 1


def _values(rows: int) -> pl.DataFrame:
    """Every type of column, with NULLs, on the edges of what other types hold exactly."""
    step = timedelta(seconds=1, microseconds=1)
    keys = [None, "a", "", "b'\\`"]
    return pl.DataFrame(
        {
            "key": [keys[i % 4] for i in range(rows)],
            "Big one": [None if i % 4 == 2 else _BIG + i % 2 for i in range(rows)],
            "pair": [{"x": i % 2, "y": None if i % 4 == 3 else 0.5} for i in range(rows)],
            "t": [_START + i * step for i in range(rows)],
            "on": [i // 12 % 2 == 0 for i in range(rows)],
            "whole": [None if i % 5 == 0 else _BIG + i for i in range(rows)],
            "real": [
                None if i % 5 == 1 else float("nan") if i % 5 == 2 else i / 3 for i in range(rows)
            ],
            "text": [None if i % 5 == 3 else f"text {i}" for i in range(rows)],
            "money": [None if i % 7 == 0 else Decimal(i) / 100 for i in range(rows)],
            "day": [date(1969, 12, 30) + timedelta(days=i) for i in range(rows)],
            "at": [datetime(1950, 1, 1, tzinfo=UTC) + i * step for i in range(rows)],
            "yes": [None if i % 3 == 0 else i % 2 == 0 for i in range(rows)],
        },
        schema_overrides={
            "pair": pl.Struct({"x": pl.Int32, "y": pl.Float64}),
            "money": pl.Decimal(20, 2),
            "at": pl.Datetime("us", "America/New_York"),
        },
    )


VALUES = parse(
    """FROM s PARTITION BY "key", "Big one", pair ORDER BY t
DEFINE a AS "on", b AS NOT "on" PATTERN a meets b WITHIN 5 minutes
RETURN a.ts, b.ts, b.te, DURATION(a), FIRST(a.whole), LAST(a.text), MIN(a.money), MAX(a.text),
  MIN(a.day), LAST(a."at"), FIRST(a.yes), SUM(a.whole) AS total, MAX(a."real"), COUNT(a.text),
  STDDEV(a."real"), VARIANCE(a.whole), AVG(a.money), FIRST(a.t), RELATION(a, b) AS how"""
)


@pytest.fixture
def new_york(spark: Any) -> Any:
    """A session whose clock jumps."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def _same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    key = ["detected_at", "first_a_whole", "last_a_text", "min_a_day", "a_ts"]
    found = found.cast(dict(expected.schema))  # type: ignore[arg-type]
    assert_frame_equal(found.sort(key), expected.sort(key))


def test_values_of_every_type_come_through_a_bounded_frame(new_york: Any) -> None:
    values = _values(96)
    expected = VALUES.run(values)
    assert len(expected) > 10
    found = VALUES.run(frame_of(new_york, values))
    assert found.columns == expected.columns
    assert found.schema["pair"].dataType.simpleString() == "struct<x:int,y:double>"
    _same(rows_of(found), expected)


def test_values_of_every_type_come_through_a_stream(new_york: Any, tmp_path: Path) -> None:
    values = _values(96)
    # groups are cut into chunks of seven rows
    new_york.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        player = Player(new_york, VALUES, values, tmp_path, buckets=2, lateness="20 s")
        shuffled = [part.reverse() for part in values.iter_slices(19)]
        player.play(*shuffled)
    finally:
        new_york.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
    _same(pl.concat([player.rows(), player.flushed()]), VALUES.run(values))


CARS = parse(
    """FROM cars PARTITION BY car_id ORDER BY ts MAX GAP 10 s
DEFINE a AS accel > 1, s AS speed > 45 PATTERN a overlaps; during; starts; finishes s
WITHIN 60 s RETURN a.ts, s.ts, s.te"""
)


def test_late_rows_are_dropped_and_counted(spark: Any, tmp_path: Path) -> None:
    cars = fleet(cars=8, seconds=90, seed=2)
    first, second = cars[: len(cars) // 2], cars[len(cars) // 2 :]
    late = first.head(10)  # long before the watermark by now
    player = Player(spark, CARS, cars, tmp_path, lateness="2 s", buckets=3)
    player.play(first, second, late, late)
    found = pl.concat([player.rows(), player.flushed()])
    expected = CARS.run(cars)
    assert_frame_equal(
        found.sort(found.columns), expected.sort(expected.columns), check_dtypes=False
    )
    assert player.counted("late") == 20
    assert player.dropped() == 0, "Spark drops none"
    assert len(cars) * 0.9 < player.counted("events") <= len(cars)
    assert player.counted("matches") == len(player.rows())


def test_rows_come_out_when_the_watermark_passes_them(spark: Any, tmp_path: Path) -> None:
    """Also in a bucket that no row comes to: by a timeout, in a batch without rows."""
    query = parse("FROM s PARTITION BY k ORDER BY t MAX GAP 5 s DEFINE a AS x PATTERN a "
                  "WITHIN 60 s EMIT ON COMPLETION RETURN a.ts, a.te")  # fmt: skip
    start = datetime(2024, 1, 1)

    def rows(*given: tuple[int, int, bool]) -> pl.DataFrame:
        return pl.DataFrame(
            [(k, start + timedelta(seconds=t), x) for k, t, x in given],
            schema={"k": pl.Int64, "t": pl.Datetime("us"), "x": pl.Boolean},
            orient="row",
        )

    player = Player(spark, query, rows(), tmp_path, lateness="3 s", partitioning="key")
    player.play(rows((1, 0, True), (2, 0, True)), rows((2, 20, True)))
    found = player.rows()
    completed = found.select("k", (pl.col("completed_at") - start).dt.total_seconds()).rows()
    assert sorted(completed) == [(1, 5), (2, 5)]
    kept = spark.read.format("statestore").load(player.checkpoint)
    assert {row.key.g0 for row in kept.collect()} >= {2}


def test_a_frame_keeps_its_own_watermark(spark: Any, tmp_path: Path) -> None:
    cars = fleet(cars=5, seconds=60, seed=4).with_columns(pl.col("ts").dt.replace_time_zone("UTC"))
    player = Player(spark, CARS, cars, tmp_path, buckets=2)
    player.watermark = ("ts", "4 seconds")
    player.play(*cars.iter_slices(80))
    found = pl.concat([player.rows(), player.flushed()])
    expected = CARS.run(cars)
    assert_frame_equal(
        found.sort(found.columns), expected.sort(expected.columns), check_dtypes=False
    )
    with pytest.raises(ValueError, match="has a watermark on ts already"):
        CARS.run(player.frame(), lateness="2 s")


@pytest.mark.parametrize("kind", ["datetime", "own watermark", "date", "unit", "fine"])
def test_a_stream_may_begin_before_1970(spark: Any, tmp_path: Path, kind: str) -> None:
    """Spark's watermark stands at 1970 till then, and its late filter would drop what is older."""
    # a tick is a day; the last are after 1970
    ticks = pl.Series("n", [day for day in range(-60, 25) for _ in range(2)])
    rows = pl.DataFrame({"k": [0, 1] * (len(ticks) // 2), "x": (ticks * 37).abs() % 5, "n": ticks})
    day = 86_400_000_000_000
    of_ticks = {
        "datetime": ticks.cast(pl.Int32).cast(pl.Date).cast(pl.Datetime("us")),
        "own watermark": ticks.cast(pl.Int32).cast(pl.Date).cast(pl.Datetime("us", "UTC")),
        "date": ticks.cast(pl.Int32).cast(pl.Date),
        "unit": ticks,
        "fine": ticks * day + 1,
    }
    rows = rows.with_columns(of_ticks[kind].alias("t"))
    unit = {"unit": " UNIT day", "fine": " UNIT ns"}.get(kind, "")
    query = parse(f"""FROM s PARTITION BY k ORDER BY t{unit} DEFINE a AS x > 1, b AS x < 3
PATTERN a before; overlaps; meets b WITHIN 20 days RETURN a.ts, b.ts, SUM(b.n) AS total""")
    expected = query.run(rows)
    assert len(expected) > 20
    own = kind == "own watermark"
    player = Player(spark, query, rows, tmp_path, lateness=None if own else "9 days", buckets=3)
    player.watermark = ("t", "9 days") if own else None
    player.play(*(part.reverse() for part in rows.iter_slices(18)))
    assert len(player.rows()) > 20
    found = pl.concat([player.rows(), player.flushed()])
    assert_frame_equal(
        found.sort(found.columns), expected.sort(expected.columns), check_dtypes=False
    )
    assert player.counted("late") == player.dropped() == 0


def test_what_cannot_be_is_refused_before_the_stream_starts(spark: Any) -> None:
    rate = spark.readStream.format("rate").load()
    query = parse("FROM r ORDER BY timestamp DEFINE a AS value > 1 PATTERN a WITHIN 5 s")
    assert query.run(rate).isStreaming
    with pytest.raises(ValueError, match="on_late is 'drop'"):
        query.run(rate, on_late="error")
    with pytest.raises(ValueError, match="partitioning is"):
        query.run(rate, partitioning="bucktes")
    with pytest.raises(ValueError, match="at least 1"):
        query.run(rate, buckets=0)
    with pytest.raises(TypeError, match="slices is an option of a bounded Spark frame"):
        query.run(rate, slices=3)
    with pytest.raises(TypeError, match="partitioning is an option of a streaming Spark frame"):
        query.run(spark.range(5).withColumnRenamed("id", "timestamp"), partitioning="key")
    with pytest.raises(TypeError, match="threads is no option for a Spark frame"):
        query.run(rate, threads=2)
    with pytest.raises(TypeError, match="no option bucket: did you mean buckets"):
        piestream.spark.run(query, rate, bucket=8)
    with pytest.raises(QueryError, match=r"did you mean|no column|valeu"):
        parse("FROM r ORDER BY timestamp DEFINE a AS valeu > 1 PATTERN a WITHIN 5 s").run(rate)


def test_a_polars_predicate_is_refused(spark: Any) -> None:
    import piestream as ps

    query = ps.pattern(ps.define("a", pl.col("id") > 1)).within(5).order_by("id")
    with pytest.raises(QueryError, match="Spark cannot run"):
        query.run(spark.range(5))


def test_a_null_time_is_an_error(spark: Any) -> None:
    frame = spark.sql("SELECT CAST(NULL AS TIMESTAMP) AS t, 1 AS x")
    query = parse("FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 5 s")
    with pytest.raises(Exception, match="time column t is NULL"):
        query.run(frame).collect()


@pytest.mark.parametrize("end", [2**63 - 1, -(2**63)])
def test_the_ends_of_64_bits_are_no_times(spark: Any, tmp_path: Path, end: int) -> None:
    """As on any other frame."""
    query = parse("FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 5")
    rows = pl.DataFrame({"t": [3, end], "x": [1, 0]})
    with pytest.raises(
        ValueError, match=r"holds -?9223372036854775\d+, an end of the 64-bit range"
    ):
        query.run(rows)
    with pytest.raises(Exception, match=r"holds -?9223372036854775\d+, an end of the 64-bit range"):
        query.run(frame_of(spark, rows)).collect()
    next_to = pl.DataFrame({"t": [end + 1 if end < 0 else end - 1, 3], "x": [1, 1]})
    found = query.run(frame_of(spark, next_to))
    assert_frame_equal(rows_of(found), query.run(next_to.sort("t")), check_dtypes=False)
    with pytest.raises(Exception, match=r"further from 0 than Spark's clock.*UNIT ns, us, ms or s"):
        Player(spark, query, rows, tmp_path).play(rows)


def test_ties_are_an_error_in_a_bounded_frame(spark: Any) -> None:
    frame = frame_of(spark, pl.DataFrame({"t": [1, 1], "x": [1, 0]}))
    query = parse("FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 5")
    with pytest.raises(Exception, match="same time"):
        query.run(frame).collect()
    assert len(query.run(frame, ties="first").collect()) == 1


@pytest.mark.parametrize(
    "previous",
    [
        "",
        " OR accel < PREV(accel) - 0.8 BRIDGING 5 s",
        " OR AVG(accel - PREV(accel, 3)) OVER 6 s > 0.2 OR MAX(accel) OVER 3 EVENTS < -0.5",
    ],
)
@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION"])
def test_slices_of_time_give_the_rows_of_one_stream(spark: Any, previous: str, emit: str) -> None:
    cars = fleet(cars=3, seconds=2400, seed=9).filter(pl.col("car_id") == 2)
    query = parse(f"""FROM cars ORDER BY ts MAX GAP 7 s
DEFINE a AS accel > 0.4{previous}, s AS speed > 55, c AS lateral > 0
PATTERN a overlaps; during; starts; finishes s AND a before; meets c
WITHIN 40 s EMIT ON {emit} RETURN a.ts, s.ts, s.te, AVG(s.speed), c.ts""")
    expected = query.run(cars)
    assert len(expected) > 30
    found = query.run(frame_of(spark, cars).repartition(4), slices=5)
    assert found.rdd.getNumPartitions() > 2
    order = ["detected_at", "a_ts"] if emit == "TRIGGER" else ["completed_at", "a_ts"]
    order += ["s_ts", "c_ts"]
    assert_frame_equal(rows_of(found).sort(order), expected.sort(order))


def test_slices_refuse_what_they_cannot_do(spark: Any) -> None:
    query = parse("FROM s ORDER BY id DEFINE a AS id > 0 PATTERN a WITHIN 5 EMIT ON BOTH")
    with pytest.raises(QueryError, match="EMIT ON BOTH"):
        query.run(spark.range(50), slices=4)
    for predicate, message in (("id > 3 UNTIL id > 9", "UNTIL"), ("PREV(id, 30) > 1", "30 events")):
        query = parse(f"FROM s ORDER BY id DEFINE a AS {predicate} PATTERN a WITHIN 5")
        with pytest.raises(QueryError, match=message):
            query.run(spark.range(50), slices=4)


def test_earlier_events_are_the_same_in_spark(spark: Any, tmp_path: Path) -> None:
    query = parse("""FROM cars PARTITION BY car_id ORDER BY ts MAX GAP 9 s
LET smooth = AVG(accel) OVER 8 s
LET change = smooth - PREV(smooth, 2)
DEFINE a AS smooth > 0.1 UNTIL smooth < 0, b AS change < 0 OR STDDEV(speed) OVER 5 EVENTS > 4
PATTERN a overlaps; contains; starts; before b
WITHIN 40 s
RETURN a.ts, b.ts""")
    cars = fleet(cars=9, seconds=400, seed=11)
    expected = query.run(cars)
    assert len(expected) > 30
    bounded = rows_of(query.run(frame_of(spark, cars)))
    player = Player(spark, query, cars, tmp_path, lateness="4 s", buckets=3)
    player.play(*cars.iter_slices(len(cars) // 4 + 1))
    streamed = pl.concat([player.rows(), player.flushed()])
    for found in (bounded, streamed):
        assert_frame_equal(
            found.sort(found.columns), expected.sort(expected.columns), check_dtypes=False
        )
