"""A live stream of Spark beside an archive: its micro-batches go into one session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.spark import live_batches
from piestream.spark.transfer import spark_frame

_QUERY = ps.query("""
    FROM (FROM trades ORDER BY ts DEFINE down AS price < PREV(price) PATTERN down WITHIN 10
          RETURN FIRST(down.price) AS top) AS fall
    WITH (FROM ARCHIVE 'trades' ORDER BY ts DEFINE up AS price > PREV(price) PATTERN up WITHIN 10
          RETURN LAST(up.price) AS top) AS rise
    PARTITION BY symbol
    DEFINE f AS fall.top > 0, r AS rise.top > 0
    PATTERN r before; meets; overlaps f
    WITHIN 7
    RETURN r.ts AS r_ts, f.te AS f_te
""")
_TICKS = pl.DataFrame(
    {
        "ts": range(16),
        "symbol": ["X"] * 16,
        "price": [1.0, 2.0, 5.0, 4.0, 3.0, 6.0, 6.0, 2.0, 2.0, 1.0, 4.0, 3.0, 5.0, 2.0, 1.0, 1.0],
    }
)


@pytest.fixture
def lake(tmp_path: Path) -> ps.Archive:
    """An archive of the first ticks."""
    found = ps.archive(tmp_path / "trades", time="ts", key="symbol")
    found.append(_TICKS[:4])
    return found


class _Written:
    """What was written for each batch."""

    def __init__(self) -> None:
        self.rows: dict[int, list[tuple[Any, ...]]] = {}
        self.fails = False

    def __call__(self, found: Any, number: int) -> None:
        if self.fails:
            self.fails = False
            raise OSError("the disk is full")
        self.rows[number] = [tuple(row) for row in found.collect()]


def test_batches_that_come_again_give_the_same_rows_and_are_worked_on_once(
    spark: Any, lake: ps.Archive, tmp_path: Path
) -> None:
    written = _Written()
    live = _TICKS[4:]
    expected = _QUERY.run({"trades": live}, archives={"trades": lake}).rows()
    batches = live_batches(_QUERY, tmp_path / "state", written, archives={"trades": lake})
    frames = [spark_frame(spark, live[first : first + 4]) for first in (0, 4, 8)]
    batches(frames[0], 0)
    written.fails = True
    with pytest.raises(OSError, match="full"):
        batches(frames[1], 1)
    lake.append(_TICKS[:2].with_columns(symbol=pl.lit("Y")))
    batches(frames[1], 1)
    first = dict(written.rows)
    again = live_batches(_QUERY, tmp_path / "state", written, archives={"trades": lake})
    again(frames[1], 1)
    assert written.rows == first
    again(frames[2], 2)
    known = [row for number in sorted(written.rows) for row in written.rows[number]]
    assert known == [row for row in expected if row[1] < 15]
    with pytest.raises(ps.StateError, match="state of batch 2, and this is batch 0"):
        again(frames[0], 0)


def test_a_batch_whose_state_could_not_be_stored_is_worked_on_anew(
    spark: Any, lake: ps.Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, live = _Written(), _TICKS[4:]
    expected = _QUERY.run({"trades": live}, archives={"trades": lake}).rows()
    batches = live_batches(_QUERY, tmp_path / "state", written, archives={"trades": lake})
    frames = [spark_frame(spark, live[first : first + 4]) for first in (0, 4, 8)]
    batches(frames[0], 0)
    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", _refuse)
        with pytest.raises(OSError, match="full"):
            batches(frames[1], 1)
    batches(frames[1], 1)
    batches(frames[2], 2)
    known = [row for number in sorted(written.rows) for row in written.rows[number]]
    assert known == [row for row in expected if row[1] < 15]


def test_a_restart_with_another_lateness_is_refused(
    spark: Any, lake: ps.Archive, tmp_path: Path
) -> None:
    frames = [spark_frame(spark, _TICKS[first : first + 4]) for first in (4, 8)]
    for number, lateness in enumerate((2, 2, 5)):
        batches = live_batches(
            _QUERY, tmp_path / "state", _Written(), archives={"trades": lake}, lateness=lateness
        )
        if lateness == 5:
            with pytest.raises(ps.StateError, match="lateness is 2 in this state, not 5"):
                batches(frames[1], number)
        else:
            batches(frames[number], number)


def _refuse(path: Path, data: bytes) -> None:
    raise OSError("the disk is full")


def test_a_streaming_frame_reads_the_archive_as_it_is_at_each_batch(
    spark: Any, lake: ps.Archive, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    live = _TICKS[4:]
    written = _Written()
    batches = live_batches(_QUERY, tmp_path / "state", written, archives={"trades": lake})
    frame = spark.readStream.schema("ts bigint, symbol string, price double").parquet(str(source))
    running = frame.writeStream.foreachBatch(batches).option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    for number, piece in enumerate((live[:6], live[6:])):
        piece.write_parquet(source / f"{number}.parquet")
        running.trigger(availableNow=True).start().awaitTermination()
        lake.append(piece)
    expected = _QUERY.run({"trades": live}, archives={"trades": lake}).rows()
    known = [row for number in sorted(written.rows) for row in written.rows[number]]
    assert known == [row for row in expected if row[1] < 15]
    # batches of a new checkpoint have the numbers of those that are done
    anew = frame.writeStream.foreachBatch(batches).option(
        "checkpointLocation", str(tmp_path / "another")
    )
    with pytest.raises(Exception, match="has the state of another checkpoint"):
        anew.trigger(availableNow=True).start().awaitTermination()
    assert [row for number in sorted(written.rows) for row in written.rows[number]] == known


def test_a_batch_whose_state_before_is_not_there_is_refused(
    spark: Any, lake: ps.Archive, tmp_path: Path
) -> None:
    batches = live_batches(_QUERY, tmp_path / "state", _Written(), archives={"trades": lake})
    with pytest.raises(ps.StateError, match="no state of batch 2, and this is batch 3"):
        batches(spark_frame(spark, _TICKS[4:8]), 3)


def test_a_spark_frame_is_refused_with_what_takes_it(spark: Any) -> None:
    with pytest.raises(
        TypeError, match="what piestream.spark.live_batches makes".replace(".", r"\.")
    ):
        _QUERY.run(spark_frame(spark, _TICKS))
