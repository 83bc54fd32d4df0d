"""Queries over several streams on Spark: what goes in, what comes back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from piestream.archives.archive import archive
from piestream.language import Query, QueryError, parse
from piestream.spark import flush
from tests.spark.streams import InputsPlayer, Player, frame_of, rows_of

TREATED = parse(
    """FROM vitals ORDER BY ts
WITH infusions FROM started TO stopped ID id
PARTITION BY patient
DEFINE fever AS vitals.temp > 38.5, dose AS infusions.drug = 'heparin'
PATTERN dose overlaps; during; meets; contains fever
WITHIN 100
RETURN dose.drug, dose.ts, fever.ts"""
)
VITALS = pl.DataFrame(
    {
        "patient": ["p"] * 7,
        "ts": [0, 10, 20, 30, 40, 50, 60],
        "temp": [37.0, 37.2, 38.9, 39.1, 39.0, 37.8, 37.5],
        "ward": [1] * 7,
    }
)
INFUSIONS = pl.DataFrame(
    {
        "patient": ["p"] * 4,
        "drug": ["heparin", "saline", "heparin", "heparin"],
        "id": [1, 2, 1, 3],
        "started": [5, 6, 5, 30],
        "stopped": [None, 25, 35, 38],
    }
)
FRAMES = {"vitals": VITALS, "infusions": INFUSIONS}


def _expected(query: Query = TREATED) -> pl.DataFrame:
    found = query.run(FRAMES)
    assert len(found)
    return found


def _spark_frames(spark: Any, **frames: pl.DataFrame) -> dict[str, Any]:
    return {key: frame_of(spark, frame) for key, frame in {**FRAMES, **frames}.items()}


def test_the_result_has_the_kind_of_the_first_frame(spark: Any) -> None:
    frames = _spark_frames(spark)
    expected = _expected()
    of_spark = TREATED.run(frames, ties="error")
    assert rows_of(of_spark).equals(expected)
    mixed = TREATED.run({"vitals": frames["vitals"], "infusions": INFUSIONS.to_dicts()})
    assert type(mixed) is type(of_spark)
    assert rows_of(mixed).equals(expected)
    local = TREATED.run({"vitals": VITALS.to_pandas(), "infusions": frames["infusions"]})
    assert pl.from_pandas(local).equals(expected)


def test_files_that_the_query_names_join_spark_frames(spark: Any, tmp_path: Path) -> None:
    INFUSIONS.write_parquet(tmp_path / "infusions.parquet")
    path = f"'{tmp_path}/infusions.parquet'"
    query = parse(str(TREATED).replace("WITH infusions", f"WITH {path} AS infusions"))
    found = query.run({"vitals": frame_of(spark, VITALS)})
    assert rows_of(found).equals(_expected())


def test_one_stream_of_intervals_needs_no_name(spark: Any) -> None:
    query = parse(
        "FROM calls FROM started TO stopped KNOWN AT START DEFINE a AS drug = 'heparin', b AS TRUE "
        "PATTERN a contains; overlaps b WITHIN 90 RETURN a.ts, b.ts"
    )
    rows = INFUSIONS.drop_nulls()
    assert rows_of(query.run(frame_of(spark, rows))).equals(query.run(rows))
    assert len(query.run(rows))


def test_what_is_open_at_the_end_can_be_closed(spark: Any) -> None:
    query = parse(f"{TREATED} EMIT ON COMPLETION")
    vitals = VITALS.head(5)
    frames = {"vitals": vitals, "infusions": INFUSIONS}
    spark_frames = _spark_frames(spark, vitals=vitals)
    for at_end in ("open", "close"):
        expected = query.run(frames, at_end=at_end)
        assert rows_of(query.run(spark_frames, at_end=at_end)).equals(expected)


def test_types_that_differ_become_those_of_all(spark: Any) -> None:
    """Dates and moments, integers of two sizes, and times of the session's zone."""
    query = parse(
        "FROM a ORDER BY t WITH b FROM s TO e PARTITION BY k DEFINE x AS p > 1, y AS b "
        "PATTERN x overlaps; during; starts; contains y WITHIN 30 d RETURN x.ts, y.te, FIRST(x.p) AS p"
    )
    days = pl.Series([1, 2, 3, 4], dtype=pl.Int32).cast(pl.Date)
    a = pl.DataFrame({"k": [7] * 4, "t": days, "p": [0, 5, 5, 0]}, schema_overrides={"k": pl.Int8})
    b = pl.DataFrame({"k": [7], "s": [60 * 3600], "e": [84 * 3600]})
    for zone in (None, "UTC"):
        moments = [
            pl.from_epoch(pl.col(n), time_unit="s").cast(pl.Datetime("us", zone)) for n in "se"
        ]
        frames = {"a": a, "b": b.with_columns(moments)}
        expected = query.run(frames)
        found = rows_of(query.run({key: frame_of(spark, one) for key, one in frames.items()}))
        assert len(expected) == 1
        assert found.equals(expected)
        assert found.schema == expected.schema


def test_a_stream_without_rows_is_none_that_is_missing(spark: Any) -> None:
    frames = _spark_frames(spark, infusions=INFUSIONS.clear())
    assert not len(rows_of(TREATED.run(frames)))
    with pytest.raises(QueryError, match="there are no rows for the stream infusions"):
        TREATED.run({"vitals": frames["vitals"]})


def test_wrong_frames_are_refused(spark: Any, tmp_path: Path) -> None:
    frames = _spark_frames(spark)
    folder = tmp_path / "vitals"
    folder.mkdir()
    live = spark.readStream.schema(frames["vitals"].schema).parquet(str(folder))
    live_infusions = spark.readStream.schema(frames["infusions"].schema).parquet(str(folder))
    named = parse(str(TREATED).replace("WITH infusions", "WITH 'infusions.csv' AS infusions"))
    whole = parse(str(TREATED).replace("PARTITION BY patient", ""))
    refused: list[tuple[Query, Any, dict[str, Any], type[Exception], str]] = [
        (TREATED, {**frames, "vitals": live}, {}, TypeError, "vitals is a streaming frame and infusions is not"),
        (TREATED, {"infusions": INFUSIONS, "vitals": live}, {}, TypeError, "vitals is a streaming frame"),
        (TREATED, {"vitals": live, "infusions": INFUSIONS}, {}, TypeError, "streaming frames of all"),
        (named, {"vitals": live}, {}, TypeError, "infusions is not"),
        (TREATED, {**frames, "infusion": frames["infusions"]}, {}, ValueError, "no stream infusion: did you mean"),
        (TREATED, frames["vitals"], {}, ValueError, "say of which these rows are"),
        (TREATED, {**frames, "infusions": 5}, {}, TypeError, "is no DataFrame"),
        (whole, frames, {"slices": 4}, QueryError, "slices of time"),
        (TREATED, frames, {"threads": 4}, TypeError, "threads is no option for a Spark frame"),
        (parse("FROM vitals ORDER BY ts DEFINE a AS temp > 1 PATTERN a WITHIN 9"), frames, {}, TypeError, "give its frame alone"),
        (TREATED, {**frames, "vitals": frames["vitals"].withColumn("patient", frames["vitals"].ts)}, {}, QueryError, "the column patient has different types"),
        (TREATED, {**frames, "infusions": frames["infusions"].drop("drug")}, {}, QueryError, "there is no column drug"),
    ]  # fmt: skip
    for query, given, options, kind, why in refused:
        with pytest.raises(kind, match=why):
            query.run(given, **options)
    marked = live.selectExpr("*", "timestamp_micros(ts) AS at").withWatermark("at", "1 second")
    with pytest.raises(ValueError, match="leave withWatermark out"):
        TREATED.run({"vitals": marked, "infusions": live_infusions})


def test_one_frame_that_is_read_at_two_times_is_refused(spark: Any) -> None:
    query = parse(
        "FROM infusions ORDER BY started WITH (FROM infusions ORDER BY stopped DEFINE i AS id > 1 "
        "PATTERN i WITHIN 9) AS late DEFINE a AS id = 1, b AS late PATTERN a before b WITHIN 99"
    )
    with pytest.raises(QueryError, match=r"(?s)times in started.*times in stopped.*two names"):
        query.run({"infusions": frame_of(spark, INFUSIONS.drop_nulls())})


def test_rows_that_are_wrong_stop_the_run(spark: Any) -> None:
    wrong = INFUSIONS.with_columns(stopped=pl.col("started"))
    with pytest.raises(Exception, match="an interval ends after it starts"):
        rows_of(TREATED.run(_spark_frames(spark, infusions=wrong)))
    nowhere = INFUSIONS.with_columns(started=pl.lit(None, pl.Int64))
    with pytest.raises(Exception, match="started is NULL"):
        rows_of(TREATED.run(_spark_frames(spark, infusions=nowhere)))


def test_late_rows_of_any_stream_are_dropped_and_counted(spark: Any, tmp_path: Path) -> None:
    """An end row is late by its end, a begin row by its start; one watermark for all."""
    schemas = {key: frame.clear() for key, frame in FRAMES.items()}
    player = InputsPlayer(spark, TREATED, schemas, tmp_path, lateness=10, buckets=2)
    row = {"patient": "p", "drug": "heparin"}
    late = [
        {**row, "id": 8, "started": 29, "stopped": None},  # late: the watermark is 30
        {**row, "id": 9, "started": 1, "stopped": 31},  # in time, by its end
        {**row, "id": 7, "started": 2, "stopped": 28},  # late
    ]
    player.play(
        {"vitals": VITALS.head(5), "infusions": INFUSIONS.clear()},
        {"vitals": VITALS[2:3], "infusions": pl.DataFrame(late, schema=INFUSIONS.schema)},
    )
    assert player.counted("late") == 3
    found = pl.concat([player.rows(), player.flushed()])
    assert found.select("dose_ts", "fever_ts").rows() == [(1, 20)]


def test_a_state_goes_on_with_the_frames_that_it_was_made_with(spark: Any, tmp_path: Path) -> None:
    schemas = {key: frame.clear() for key, frame in FRAMES.items()}
    player = InputsPlayer(spark, TREATED, schemas, tmp_path, lateness=100, buckets=2)
    player.play({"vitals": VITALS.head(3), "infusions": INFUSIONS.head(1)})
    other = parse(str(TREATED).replace("38.5", "39.5"))
    with pytest.raises(Exception, match="belongs to another query"):
        rows_of(flush(other, player.frames(), player.checkpoint))
    player.play({"vitals": VITALS[3:], "infusions": INFUSIONS[1:]})
    found = pl.concat([player.rows(), player.flushed()])
    order = found.columns
    assert found.sort(order).equals(_expected().sort(order))
    assert player.counted("matches") + len(player.flushed()) == len(found)


def test_events_of_one_time_are_in_the_order_that_a_column_says(spark: Any, tmp_path: Path) -> None:
    query = parse(
        "FROM trades ORDER BY ts, seq WITH quotes ORDER BY ts, seq PARTITION BY symbol "
        "DEFINE big AS trades.size > 5, wide AS quotes.spread > 2 "
        "PATTERN big overlaps; meets; before wide WITHIN 3 RETURN FIRST(big.seq) AS seq, big.ts"
    )
    trades = {"symbol": ["p"] * 4, "ts": [1, 1, 1, 2], "seq": [1, 4, 9, 1], "size": [0, 9, 0, 0]}
    quotes = {"symbol": ["p"] * 4, "ts": [1, 1, 2, 2], "seq": [2, 7, 0, 3], "spread": [0, 5, 0, 5]}
    frames = {"trades": pl.DataFrame(trades), "quotes": pl.DataFrame(quotes)}
    expected = query.run(frames)
    assert expected.rows() == [("p", 1, 4, 1), ("p", 2, 4, 1)]
    shuffled = {key: frame.sample(fraction=1, shuffle=True) for key, frame in frames.items()}
    of_spark = query.run({key: frame_of(spark, frame) for key, frame in shuffled.items()})
    assert rows_of(of_spark).equals(expected)
    player = InputsPlayer(spark, query, frames, tmp_path, lateness=1)
    player.play({"trades": frames["trades"][2:], "quotes": frames["quotes"][:1]})
    player.play({"trades": frames["trades"][:2], "quotes": frames["quotes"][1:]})
    found = pl.concat([player.rows(), player.flushed()])
    assert found.sort("detected_at").equals(expected)
    by_row = parse("FROM trades ORDER BY ts, ROW DEFINE a AS size > 5 PATTERN a WITHIN 3")
    with pytest.raises(QueryError, match="rows of a Spark frame stand in no order"):
        by_row.run(frame_of(spark, frames["trades"]))
    inside = parse(f"FROM ({by_row}) AS m DEFINE m AS m PATTERN m WITHIN 3")
    with pytest.raises(QueryError, match="rows of a Spark frame stand in no order"):
        inside.run({"trades": frame_of(spark, frames["trades"])})
    lake = archive(tmp_path / "lake", time="ts", key=[])
    lake.append(frames["trades"])
    assert len(by_row.run(lake)) == len(by_row.run(frames["trades"])) > 0
    with pytest.raises(QueryError, match="rows of a Spark frame stand in no order"):
        by_row.run(lake.on_spark(spark))


def test_runs_of_events_of_one_time_are_bridged_as_in_a_frame(spark: Any, tmp_path: Path) -> None:
    query = parse(
        "FROM s PARTITION BY k ORDER BY ts, seq DEFINE a AS x BRIDGING 2, b AS y "
        "PATTERN a before; meets; overlaps b WITHIN 9 EMIT ON BOTH RETURN FIRST(a.seq) AS seq, a.te"
    )
    rng = Random(5)
    times = sorted(rng.choices(range(12), k=40))
    columns = {"x": [rng.random() < 0.5 for _ in times], "y": [rng.random() < 0.3 for _ in times]}
    keys = {"k": rng.choices(("p", "q"), k=40)}
    frame = pl.DataFrame({"ts": times, "seq": range(40), **keys, **columns})
    expected = query.run(frame)
    assert len(expected) > 5
    late = frame.with_columns(pl.int_range(40).shuffle(seed=1).alias("at")).sort("ts", "at")
    player = Player(spark, query, frame, tmp_path, lateness=1, buckets=2)
    player.play(late[:11].drop("at"), late[11:25].drop("at"))
    player.play(late[25:].drop("at"))
    found = pl.concat([player.rows(), player.flushed()])
    order = found.columns
    assert found.sort(order).equals(expected.sort(order))
    of_spark = rows_of(query.run(frame_of(spark, frame.sample(fraction=1, shuffle=True, seed=2))))
    assert of_spark.sort(order).equals(expected.sort(order))
    numbered = frame_of(spark, frame.with_columns(pl.col("seq").cast(pl.String)))
    with pytest.raises(QueryError, match="as texts, 10 comes before 9"):
        query.run(numbered)


def test_ends_that_are_known_before_they_come_count_as_time(spark: Any) -> None:
    query = parse("""
        FROM levels ORDER BY t MAX GAP 2
        WITH shifts FROM began TO ended KNOWN AT START
        PARTITION BY k
        DEFINE high AS levels.level > 0, shift AS shifts
        PATTERN high during; overlapped_by shift
        WITHIN 40
        RETURN high.ts, high.te, shift.te
    """)
    given = {
        "levels": pl.DataFrame({"k": [1, 1, 2], "t": [10, 13, 13], "level": [0, 2, 2]}),
        "shifts": pl.DataFrame({"k": [1, 2], "began": [11, 11], "ended": [16, 30]}),
    }
    frames = {name: spark.createDataFrame(frame.to_pandas()) for name, frame in given.items()}
    found = sorted(tuple(row) for row in query.run(frames).collect())
    assert found == sorted(query.run(given).rows())
    assert found == [(1, 15, 13, 15, 16), (2, 15, 13, 15, 30)]
