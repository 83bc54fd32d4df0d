"""The function that Spark calls for a bucket, called without Spark."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice

import numpy as np
import pandas as pd
import polars as pl
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark

from piestream.adapters.binding import bound
from piestream.errors import StateError
from piestream.language import Query, parse
from piestream.language.options import Ties
from piestream.spark.bounded import BoundedTask
from piestream.spark.clock import EventClock
from piestream.spark.codec.rows import WireTime, input_codec, result_codec
from piestream.spark.state import BucketStep
from piestream.spark.worker_plan import EventsPlan

TEXT = """FROM s PARTITION BY k ORDER BY t MAX GAP 50
DEFINE a AS x > 0 PATTERN a WITHIN 100 EMIT ON COMPLETION"""
SCHEMA = {"k": pl.Int64(), "t": pl.Int64(), "x": pl.Int64()}
TYPES: dict[str, spark.DataType] = dict.fromkeys(SCHEMA, spark.LongType())
_ORIGIN = 1 << 51  # where tick 0 without a unit lies on Spark's clock
_PAST_THE_FILTER = 1 << 52  # beyond Spark's late filter


@dataclass
class State:
    """What Spark's GroupState does."""

    watermark: int = 0
    kept: tuple[bytes] | None = None
    timeout: int | None = None
    history: list[int | None] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        return self.kept is not None

    @property
    def get(self) -> tuple[bytes]:
        assert self.kept is not None
        return self.kept

    def update(self, kept: tuple[bytes]) -> None:
        self.kept = kept

    def remove(self) -> None:
        self.kept = None

    def setTimeoutTimestamp(self, when: int) -> None:  # noqa: N802
        assert when > self.watermark, "Spark refuses a timeout that is not ahead"
        self.timeout = when

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802
        return self.watermark


def _worker_plan(query: Query, time: WireTime, ties: Ties) -> EventsPlan:
    binding = bound(query, SCHEMA)
    encoder, _ = input_codec(binding, TYPES, time)
    result, _ = result_codec(binding, TYPES)
    return EventsPlan(query, result, ties, tuple(SCHEMA.items()), encoder)


def step(
    text: str = TEXT, lateness: int = 10, buckets: int = 4, ties: Ties = "first"
) -> BucketStep:
    query = parse(text)
    binding = bound(query, SCHEMA)
    clock = EventClock.of(binding, lateness, None)
    plan = _worker_plan(query, clock.wire_time, ties)
    return BucketStep(plan, clock, buckets)


def wire_rows(*rows: tuple[int, int, bool]) -> pd.DataFrame:
    """Rows of (key, time, predicate) as wire columns, as the JVM sends them."""
    keys, times, holds = (np.array(column) for column in zip(*rows, strict=True))
    micros = (times + _ORIGIN + _PAST_THE_FILTER) * 1000
    return pd.DataFrame(
        {"v0": keys, "m0": holds.astype(np.int64), "g0": keys.astype(np.int32), "time": micros}
    )


def call(function: BucketStep, state: State, *frames: pd.DataFrame) -> list[tuple[int, ...]]:
    """One call: the result rows as (key, completed, start, end)."""
    state.timeout = None  # Spark forgets it with every call
    found = []
    for frame in function((0,), iter(frames), state):
        rows = frame[frame["kind"] == 0]
        found += [tuple(int(v) for v in row) for row in rows[["v0", "v1", "v2", "v3"]].to_numpy()]
    return found


def counts(function: BucketStep, state: State, *frames: pd.DataFrame) -> dict[int, int]:
    """One call: the counts that it reports, by kind."""
    table = pd.concat(list(function((0,), iter(frames), state)))
    rows = table[table["kind"] > 0]
    return dict(zip(rows["kind"].tolist(), rows["m0"].tolist(), strict=True))


def test_chunks_and_disorder_are_one_batch() -> None:
    function, state = step(), State()
    rows = [(1, 5, False), (1, 1, True), (2, 3, True), (2, 9, False), (1, 40, True)]
    found = call(function, state, wire_rows(*rows[:2]), wire_rows(*rows[2:]))
    assert sorted(found) == [(1, 5, 1, 5), (2, 9, 3, 9)]


def test_rows_below_the_watermark_that_spark_still_delivers_are_dropped_and_counted() -> None:
    function, state = step(), State()
    call(function, state, wire_rows((1, 100, True)))
    state.watermark = 100 + _ORIGIN - function.clock.delay
    assert counts(function, state, wire_rows((1, 89, True), (2, 90, True)))[1] == 1


def test_a_bucket_waits_for_the_watermark_of_others() -> None:
    function, state = step(), State()
    assert call(function, state, wire_rows((1, 1, True), (1, 5, False))) == []
    timeout = state.timeout
    assert timeout is not None
    # the first row is due when 11 was seen somewhere
    state.watermark = timeout + 1
    assert function.clock.latest_seen(state.watermark) == 11
    assert call(function, state) == []
    state.watermark = 15 + _ORIGIN - function.clock.delay
    assert call(function, state) == [(1, 5, 1, 5)]


def test_max_gap_ends_a_run_in_a_quiet_bucket() -> None:
    function, state = step(lateness=0), State()
    call(function, state, wire_rows((1, 1, True)))
    assert state.timeout is not None
    state.watermark = state.timeout + 1
    assert function.clock.latest_seen(state.watermark) == 52
    assert call(function, state) == [(1, 51, 1, 51)]


@pytest.mark.parametrize("buckets", [0, 4])
def test_idle_partitions_are_freed(buckets: int) -> None:
    function, state = step(lateness=0, buckets=buckets), State()
    call(function, state, wire_rows(*((k, k + 1, k % 2 == 0) for k in range(50))))
    full = len(state.get[0])
    for _ in range(200):
        if state.timeout is None:
            break
        state.watermark = state.timeout + 1
        call(function, state)
    assert state.timeout is None, "an idle bucket is never called again"
    if buckets:
        assert len(state.get[0]) < full / 2
    else:
        assert not state.exists


def test_a_state_of_another_number_of_buckets_is_refused() -> None:
    state = State()
    call(step(buckets=4), state, wire_rows((1, 1, True)))
    with pytest.raises(StateError, match=r"written with buckets=4.*now runs with buckets=8"):
        call(step(buckets=8), state, wire_rows((1, 2, True)))
    with pytest.raises(StateError, match="partitioning='key'"):
        call(step(buckets=0), state, wire_rows((1, 2, True)))


def test_a_state_of_another_lateness_or_ties_is_refused() -> None:
    """Spark's watermark of before would be read as one with the new delay."""
    state = State()
    call(step(lateness=10), state, wire_rows((1, 1, True)))
    with pytest.raises(StateError, match=r"lateness of 10 ticks and ties='first'.* with 30 and"):
        call(step(lateness=30), state, wire_rows((1, 2, True)))
    with pytest.raises(StateError, match="and 'last': run it as it was"):
        call(step(ties="last"), state, wire_rows((1, 2, True)))


def test_a_state_of_another_query_is_refused() -> None:
    state = State()
    call(step(), state, wire_rows((1, 1, True)))
    with pytest.raises(StateError, match="another query"):
        call(step(TEXT.replace("100", "200")), state, wire_rows((1, 2, True)))


def test_a_state_of_another_version_is_refused() -> None:
    state = State()
    call(step(), state, wire_rows((1, 1, True)))
    kept = bytearray(state.get[0])
    struct.pack_into("<H", kept, 8, 7)
    state.kept = (bytes(kept),)
    with pytest.raises(StateError, match="version 7"):
        call(step(), state, wire_rows((1, 2, True)))
    state.kept = (b"something else",)
    with pytest.raises(StateError, match="not the state"):
        call(step(), state, wire_rows((1, 2, True)))


def test_a_bounded_partition_is_processed_a_chunk_at_a_time() -> None:
    """Also one that never ends: nothing but what lives in the window is held."""
    query = parse(TEXT)
    worker = BoundedTask(_worker_plan(query, WireTime(), "error"))
    taken: list[int] = []

    def chunks() -> Iterator[pl.DataFrame]:
        for number in count():
            taken.append(number)
            yield pl.DataFrame(
                {"v0": [1, 1], "m0": [1, 0], "time": [2 * number, 2 * number + 1], "latest": [0, 0]}
            )

    found = list(islice(worker.results(chunks()), 5))
    assert sum(len(frame) for frame in found) >= 4
    assert len(taken) <= 6


@pytest.mark.parametrize("per_tick", [None, 1, 1_000, 1_000_000, 1_000_000_000])
@pytest.mark.parametrize("lateness", [0, 1, 7, 12_345])
def test_the_clock_turns_watermarks_back_into_what_was_seen(
    per_tick: int | None, lateness: int
) -> None:
    binding = bound(parse(TEXT), SCHEMA)
    base = EventClock.of(binding, lateness, None)
    scale = 1_000_000 if per_tick is None else per_tick
    clock = EventClock(per_tick, lateness, -(-lateness * scale // 1_000_000) + 1)
    assert base.delay == lateness + 1
    start = 0 if per_tick is None else 10**17 // scale
    for tick in (start + 1, start + 999, start + 123_456):
        # Spark takes the largest time in whole milliseconds, less the delay
        micros = (tick + (_ORIGIN if per_tick is None else 0)) * scale // 1_000
        watermark = micros // 1_000 - clock.delay
        assert tick - 1_000_000 // scale <= clock.latest_seen(watermark) <= tick
        assert (
            clock.latest_seen(clock.watermark_at(tick))
            >= tick
            > clock.latest_seen(clock.watermark_at(tick) - 1)
        )
        # no row that is on time is at or before Spark's watermark
        on_time = (tick - lateness + (_ORIGIN if per_tick is None else 0)) * scale // 1_000
        assert on_time > watermark * 1_000
