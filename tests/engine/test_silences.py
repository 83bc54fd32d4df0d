"""Deadlines of many partitions, against looking at all of them."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.compiled import layout as at
from piestream.engine.timers import InactivityTimers
from tests.engine.batches import batch_of, detector_of

WORDS = 8


class Fleet:
    """Partitions, who of them is open, and when each spoke last; told to both sides."""

    def __init__(self, silence: int, count: int) -> None:
        self.silences = InactivityTimers(silence)
        self.silence = silence
        self.states = np.zeros((count, WORDS), np.int64)
        self.states[:, at.LAST_TIME] = at.INT64_MIN

    def speak(self, partitions: list[int], time: int, opened: list[bool]) -> None:
        numbers = np.array(partitions, np.int64)
        self.states[numbers, at.USED] = 1
        self.states[numbers, at.LAST_TIME] = time
        self.states[numbers, at.MASK] = opened
        alone = len(partitions) == 1
        if not alone or (self.silences.is_news(partitions[0], time) and opened[0]):
            self.silences.heard(numbers, self.states)

    def give_away(self, partition: int) -> None:
        self.states[partition, [at.USED, at.MASK]] = 1, 0
        self.states[partition, at.LAST_TIME] = at.INT64_MIN
        self.silences.drop(np.array([partition]))

    def silent(self, now: int) -> list[int]:
        """Those that are over, which close; a model that looks at all of them says the same."""
        states = self.states.tolist()
        wanted = [
            number
            for number, words in enumerate(states)
            if words[at.USED] and words[at.MASK] and now - words[at.LAST_TIME] > self.silence
        ]
        if now <= self.silences.earliest:
            assert wanted == []  # nobody would ask
            return wanted
        found = self.silences.over(now, self.states)
        assert found.tolist() == wanted
        self.states[found, at.MASK] = 0
        return wanted


@pytest.mark.parametrize("step", [1, 3, 1 << 55])
@pytest.mark.parametrize("silence", [0, 7, 40, (1 << 60) + 3, (1 << 63) + 9, (1 << 64) - 2])
def test_deadlines_are_those_of_all_partitions_looked_at(silence: int, step: int) -> None:
    closed = 0
    for seed in range(30):
        rng = Random(seed)
        fleet = Fleet(silence, 40)
        now = at.INT64_MIN + 1 if step > 9 else rng.choice([-(1 << 62), 0, (1 << 62) - 9])
        for _ in range(250):
            now += rng.randint(0, 3) * step
            if now >= at.INT64_MAX:
                break
            some = rng.sample(range(40), rng.choice([1, 1, 2, 10]))
            fleet.speak(some, now, [rng.random() < 0.7 for _ in some])
            idle = [n for n in range(40) if not fleet.states[n, at.MASK]]
            if idle and rng.random() < 0.3:
                fleet.give_away(rng.choice(idle))
            closed += len(fleet.silent(now))
    assert (closed > 0) == (silence < 1 << 55 or (step > 9 and silence < 1 << 63))


def test_a_number_that_is_given_away_again_and_again_is_queued_once() -> None:
    """Its old deadlines lie in the future, and are passed over when they come."""
    fleet = Fleet(1_000, 3)
    fleet.speak([1, 2], 0, [True, True])
    assert fleet.silent(1_001) == [1, 2]
    looked_at = fleet.silences.looked_at
    for time in range(2_000, 12_000, 10):
        fleet.speak([0, 1], time, [True, True])
        assert fleet.silent(time + 1) == []
        fleet.speak([0, 1], time + 5, [False, True])
        fleet.give_away(0)
    assert fleet.silences.looked_at - looked_at < 30
    assert fleet.silent(20_000) == [1]
    assert fleet.silences.earliest == at.INT64_MAX  # nothing is left of them


def test_a_silence_that_outlasts_time_is_queued_nowhere() -> None:
    fleet = Fleet((1 << 64) - 2, 3)
    fleet.speak([0, 1], 5, [True, True])
    fleet.silences.over(6, fleet.states)
    for time in range(7, 20):
        fleet.speak([0, 1, 2], time, [True, True, True])
    assert fleet.silences.earliest == at.INT64_MAX
    assert fleet.silent(at.INT64_MAX - 1) == []


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
        idle = detector.forget(time + 9)
        assert idle.tolist() == [0]
        detector.release(idle)
        assert detector.add_partitions(1).tolist() == [0]
    looked_at = detector.work.deadlines
    detector.detect(batch_of(binding, [(0, pl.DataFrame({"ts": [300], "a": [True]}))]))
    detector.advance(399)
    assert detector.work.deadlines == looked_at
    detector.advance(401)
    assert detector.work.deadlines == looked_at + 1
    assert not detector.parts[at.MASK]
