"""Deadlines of many partitions, against looking at all of them."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.timers import DeadlineTimers
from piestream.joins.partition_table import PartitionTable
from piestream.plan.binding import bind
from tests.engine.batches import batch_of, detector_of

PROGRAM = bind(
    ps.query("FROM s ORDER BY ts DEFINE a AS a PATTERN a WITHIN 9"),
    {"ts": pl.Int64(), "a": pl.Boolean()},
).compiled.program


class Fleet:
    """Partitions, which of them are open, and the time of each one's last event."""

    def __init__(self, timeout: int, count: int) -> None:
        self.partitions = PartitionTable(PROGRAM)
        self.partitions.add(count)
        self.used = self.partitions.column("used")
        self.used[:] = 0
        self.mask, self.last = (self.partitions.column(f) for f in ("mask", "last_time"))
        self.timers = DeadlineTimers(timeout, self.partitions)
        self.timeout = timeout

    def event(self, partitions: list[int], time: int, opened: list[bool]) -> None:
        numbers = np.array(partitions, np.int64)
        self.used[numbers] = 1
        self.last[numbers] = time
        self.mask[numbers] = opened
        alone = len(partitions) == 1
        if not alone or (self.timers.needs_touch(partitions[0], time) and opened[0]):
            self.timers.touch(numbers)

    def give_away(self, partition: int) -> None:
        self.used[partition], self.mask[partition] = 1, 0
        self.last[partition] = INT64_MIN
        self.timers.cancel(np.array([partition]))

    def expired(self, now: int) -> list[int]:
        """Those that have expired, which close; a model that looks at all of them says the same."""
        columns = (column.tolist() for column in (self.used, self.mask, self.last))
        wanted = [
            number
            for number, (used, mask, last) in enumerate(zip(*columns, strict=True))
            if used and mask and now - last > self.timeout
        ]
        if now <= self.timers.earliest:
            assert wanted == []  # nobody would ask
            return wanted
        found = self.timers.expired(now)
        assert found.tolist() == wanted
        self.mask[found] = 0
        return wanted


@pytest.mark.parametrize("step", [1, 3, 1 << 55])
@pytest.mark.parametrize("timeout", [0, 7, 40, (1 << 60) + 3, (1 << 63) + 9, (1 << 64) - 2])
def test_deadlines_are_those_of_all_partitions_examined(timeout: int, step: int) -> None:
    closed = 0
    for seed in range(30):
        rng = Random(seed)
        fleet = Fleet(timeout, 40)
        now = INT64_MIN + 1 if step > 9 else rng.choice([-(1 << 62), 0, (1 << 62) - 9])
        for _ in range(250):
            now += rng.randint(0, 3) * step
            if now >= INT64_MAX:
                break
            some = rng.sample(range(40), rng.choice([1, 1, 2, 10]))
            fleet.event(some, now, [rng.random() < 0.7 for _ in some])
            idle = [n for n in range(40) if not fleet.mask[n]]
            if idle and rng.random() < 0.3:
                fleet.give_away(rng.choice(idle))
            closed += len(fleet.expired(now))
    assert (closed > 0) == (timeout < 1 << 55 or (step > 9 and timeout < 1 << 63))


def test_a_number_that_is_given_away_again_and_again_is_queued_once() -> None:
    """Its old deadlines lie in the future, and are passed over when they come."""
    fleet = Fleet(1_000, 3)
    fleet.event([1, 2], 0, [True, True])
    assert fleet.expired(1_001) == [1, 2]
    examined = fleet.timers.examined
    for time in range(2_000, 12_000, 10):
        fleet.event([0, 1], time, [True, True])
        assert fleet.expired(time + 1) == []
        fleet.event([0, 1], time + 5, [False, True])
        fleet.give_away(0)
    assert fleet.timers.examined - examined < 30
    assert fleet.expired(20_000) == [1]
    assert fleet.timers.earliest == INT64_MAX  # nothing is left of them


def test_a_silence_that_outlasts_time_is_queued_nowhere() -> None:
    fleet = Fleet((1 << 64) - 2, 3)
    fleet.event([0, 1], 5, [True, True])
    fleet.timers.expired(6)
    for time in range(7, 20):
        fleet.event([0, 1, 2], time, [True, True, True])
    assert fleet.timers.earliest == INT64_MAX
    assert fleet.expired(INT64_MAX - 1) == []


def test_partitions_that_come_and_go_are_closed_by_their_own_silence() -> None:
    """Numbers are given out again long before the deadlines of their past."""
    gap = 50
    query = ps.query(
        f"FROM s PARTITION BY k ORDER BY ts MAX GAP {gap} DEFINE a AS a PATTERN a WITHIN 3 "
        "EMIT ON BOTH RETURN a.te"
    )
    rng = Random(3)
    rows = []
    for car in range(400):  # some stop while open, most do not
        begin = 3 * car + rng.randint(0, 9)
        holds = (car % 2 == 0, True, rng.random() < 0.2)  # some open by their first event
        rows += [{"k": car, "ts": begin + k, "a": a} for k, a in enumerate(holds)]
    frame = pl.DataFrame(rows).sort("ts", maintain_order=True)
    session = query.open()
    found = []
    for event in frame.iter_rows(named=True):
        found += [tuple(row.values()) for row in session.push(event)]
    found += [tuple(row.values()) for row in session.close()]
    assert session.statistics.partitions < 200
    assert sorted(found, key=str) == sorted(query.run(frame).rows(), key=str)


def test_the_numbers_of_a_detector_take_no_deadline_with_them() -> None:
    query = ps.query("FROM s ORDER BY ts MAX GAP 100 DEFINE a AS a PATTERN a WITHIN 2")
    opened = pl.DataFrame({"ts": [0], "a": [True]})
    binding, detector = detector_of(query, opened, 1)
    detector.detect(batch_of(binding, [(0, opened)]))
    detector.advance(101)
    for time in range(200, 260, 10):
        for row in ({"ts": [time], "a": [True]}, {"ts": [time + 1], "a": [False]}):
            detector.detect(batch_of(binding, [(0, pl.DataFrame(row))]))
        idle = detector.compact(time + 9)
        assert idle.tolist() == [0]
        detector.release(idle)
        assert detector.add_partitions(1).tolist() == [0]
    examined = detector.work.deadlines
    detector.detect(batch_of(binding, [(0, pl.DataFrame({"ts": [300], "a": [True]}))]))
    detector.advance(399)
    assert detector.work.deadlines == examined
    detector.advance(401)
    assert detector.work.deadlines == examined + 1
    assert not detector.partitions.column("mask").any()
