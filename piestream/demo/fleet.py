"""A fleet on an expressway that reports once a second, in the manner of Linear Road.

The model, one step a second, all cars at once:

- **Trips.** A car is on the road for 10–40 min and away for 2–15 min, again and again, so that a
  car's stream has silences. It enters at one of the first 40 ramps (a mile apart) at 36–45 mph.
  About 73 % of the fleet is on the road at any time.
- **Driving.** A driver wants to go at a speed between 55 and 75 mph and gets there with an
  acceleration proportional to the difference (at most 2.5 m/s², at least −3 m/s²), plus noise that
  returns to zero. Every two minutes or so he overtakes: 7–13 mph more, and a change of lane.
- **Car following.** Stop-and-go waves run against the traffic at 5 m/s, 9 km apart. In a wave, of
  200–700 m, nobody goes faster than 11–22 mph. So cars that are close slow down and speed up
  together, as in a queue; they do not see each other one by one.
- **Lane changes.** A lane is 3.5 m wide and crossed in 4, 6 or 8 s: lateral acceleration to the
  new side in the first half (0.88, 0.39 or 0.22 m/s²) and back in the second.
- **Aggressive drivers**, one in eight. Stuck in a wave they may sprint: 4–6 s at 8.1–9 m/s², hold
  that speed for 2–34 s, in most cases with a sharp change of lane (2 or 4 s), and then brake hard
  at −9.3 to −11 m/s² for 2–4 s, or coast. The thresholds of the papers' query are far beyond what
  a car and a driver do (5 s above 8 m/s² add 89 mph), so these episodes are exaggerated with
  purpose. Other drivers never accelerate like that, and brake like that once in two hours.

Speed is the integral of acceleration: the acceleration of a report acts for the second after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["fleet", "fleet_chunks"]

Floats = npt.NDArray[np.float64]
Ticks = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Metres a second in one mile an hour.
MPH = 0.44704
MILE = 1609.344

_TRIP = (600, 2400)
_AWAY = (120, 900)
_RAMPS = 40
_LANES = 3  # 1 is where cars enter, 3 is the fast one
_LANE_WIDTH = 3.5

_WAVES = 64
_WAVE_SPACING = 9_000.0
_WAVE_SPEED = 5.0

_AGGRESSIVE = 1 / 8
_OVERTAKES_A_SECOND = 1 / 120
_CHANGES_A_SECOND = 1 / 240
_EMERGENCIES_A_SECOND = 1 / 7200
_SPRINTS_A_SECOND = 0.1  # of being stuck

_DRAWS = 8  # uniform numbers for each car and second, used or not: the stream has no other input

_START = datetime(2024, 1, 1)


def fleet(
    cars: int = 200, seconds: int = 1800, seed: int = 0, *, start: datetime = _START
) -> pl.DataFrame:
    """One report a second from each car that is on the road, sorted by time, then by car.

    ======== =============== ========================================================
    column   type            unit
    ======== =============== ========================================================
    car_id   Int32           1 … cars
    ts       Datetime, µs    whole seconds from ``start``
    speed    Float64         mph, never negative
    accel    Float64         m/s², from this report to the next one
    lateral  Float64         m/s², positive to the left (to a higher lane)
    lane     Int8            1 (right) … 3 (left)
    position Float64         m along the road
    ======== =============== ========================================================

    Between reports of one second, ``speed`` grows by ``accel / 0.44704`` and ``position`` by the
    mean of the two speeds. The stream does not depend on ``seconds``: a longer one begins with the
    shorter one. See the module's text for the model and its distributions.

    >>> frame = fleet(cars=20, seconds=60, seed=3)
    >>> frame.columns
    ['car_id', 'ts', 'speed', 'accel', 'lateral', 'lane', 'position']
    >>> frame.height < 20 * 60 and frame["speed"].min() >= 0
    True
    """
    chunk = max(seconds, 1)
    frames = list(fleet_chunks(cars, seconds, seed, start=start, chunk=chunk))
    return frames[0] if frames else _Recorder(cars, 0).frame(0, start)


def fleet_chunks(
    cars: int = 200,
    seconds: int = 1800,
    seed: int = 0,
    *,
    start: datetime = _START,
    chunk: int = 60,
) -> Iterator[pl.DataFrame]:
    """The stream of :func:`fleet` in frames of ``chunk`` seconds, for more than memory holds.

    >>> whole = fleet(cars=20, seconds=100, seed=3)
    >>> pl.concat(fleet_chunks(cars=20, seconds=100, seed=3, chunk=30)).equals(whole)
    True
    """
    for name, count, least in (("cars", cars, 1), ("seconds", seconds, 0), ("chunk", chunk, 1)):
        if count < least:
            raise ValueError(f"{name} is {count}; it must be at least {least}")
    return _chunks(_Traffic(cars, seed), cars, seconds, start, chunk)


def _chunks(
    traffic: _Traffic, cars: int, seconds: int, start: datetime, chunk: int
) -> Iterator[pl.DataFrame]:
    for first in range(0, seconds, chunk):
        stop = min(first + chunk, seconds)
        recorder = _Recorder(cars, stop - first)
        for tick in range(first, stop):
            traffic.step(tick, recorder, tick - first)
        yield recorder.frame(first, start)


class _Recorder:
    """What the cars report in some seconds: a row a second, a column a car."""

    def __init__(self, cars: int, seconds: int) -> None:
        shape = (seconds, cars)
        self.present: Mask = np.empty(shape, dtype=np.bool_)
        self.speed: Floats = np.empty(shape)
        self.accel: Floats = np.empty(shape)
        self.lateral: Floats = np.empty(shape)
        self.lane: npt.NDArray[np.int8] = np.empty(shape, dtype=np.int8)
        self.position: Floats = np.empty(shape)

    def frame(self, first: int, start: datetime) -> pl.DataFrame:
        """The reports of those present, in order of time, then of car."""
        second, car = np.nonzero(self.present)
        ts = np.datetime64(start, "us") + (first + second).astype("timedelta64[s]")
        reported = self.present
        return pl.DataFrame(
            {
                "car_id": (car + 1).astype(np.int32),
                "ts": ts.astype("datetime64[us]"),
                "speed": self.speed[reported],
                "accel": self.accel[reported],
                "lateral": self.lateral[reported],
                "lane": self.lane[reported],
                "position": self.position[reported],
            }
        )


class _Traffic:
    """All cars at one moment. Speeds in m/s; times are whole seconds, the past means *not now*."""

    def __init__(self, cars: int, seed: int) -> None:
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        waves = self._random.random((2, _WAVES))
        self._wave_length = 200 + 500 * waves[0]
        self._wave_flow = 5 + 5 * waves[1]

        drawn = self._random.random((7, cars))
        self._aggressive: Mask = drawn[0] < _AGGRESSIVE
        # The mean of two draws: most drivers like to go at about 65 mph.
        liking = (drawn[1] + drawn[2]) / 2
        self._cruise: Floats = MPH * np.where(self._aggressive, 64 + 12 * liking, 55 + 20 * liking)
        share = (_TRIP[0] + _TRIP[1]) / (_TRIP[0] + _TRIP[1] + _AWAY[0] + _AWAY[1])
        self._present: Mask = drawn[3] < share
        # The trips and absences that second 0 falls into are already under way.
        self._until: Ticks = 1 + np.floor(
            drawn[4] * np.where(self._present, _whole(_TRIP, drawn[3]), _whole(_AWAY, drawn[3]))
        ).astype(np.int64)
        self._speed: Floats = self._cruise.copy()
        self._position: Floats = drawn[5] * _RAMPS * MILE
        self._lane: npt.NDArray[np.int64] = 1 + np.floor(drawn[6] * _LANES).astype(np.int64)
        self._noise: Floats = np.zeros(cars)

        past = np.full(cars, -1, dtype=np.int64)
        self._overtakes_until: Ticks = past.copy()
        self._overtakes_by: Floats = np.zeros(cars)
        self._sprints_until: Ticks = past.copy()
        self._holds_until: Ticks = past.copy()
        self._brakes_until: Ticks = past.copy()
        self._push: Floats = np.zeros(cars)
        self._brake: Floats = np.zeros(cars)
        self._swerves_at: Ticks = past.copy()
        self._change_began: Ticks = np.full(cars, -100, dtype=np.int64)
        self._change_half: Ticks = np.full(cars, 1, dtype=np.int64)  # seconds to one side
        self._change_to: Ticks = np.full(cars, 1, dtype=np.int64)  # +1 left, -1 right

    def step(self, tick: int, record: _Recorder, row: int) -> None:
        """Report this second, and drive on to the next."""
        drawn = self._random.random((_DRAWS, self._speed.size))
        self._enter_and_leave(tick, drawn)
        stuck, flow = self._wave_here(tick)
        self._decide(tick, stuck, drawn)
        lateral = self._lateral(tick, drawn)
        accel = self._accelerate(tick, stuck, flow, drawn)

        record.present[row] = self._present
        record.speed[row] = self._speed / MPH
        record.accel[row] = accel
        record.lateral[row] = lateral
        record.lane[row] = self._lane
        record.position[row] = self._position

        later = self._speed + accel
        self._position += (self._speed + later) / 2
        self._speed = later

    def _enter_and_leave(self, tick: int, drawn: Floats) -> None:
        due = self._until <= tick
        leave = due & self._present
        enter = due & ~self._present
        self._present ^= due
        self._until[leave] = tick + _whole(_AWAY, drawn[0, leave])
        self._until[enter] = tick + _whole(_TRIP, drawn[0, enter])
        self._position[enter] = np.floor(drawn[1, enter] * _RAMPS) * MILE
        self._speed[enter] = MPH * (36 + 9 * drawn[2, enter])
        self._lane[enter] = 1
        self._noise[enter] = 0
        for ends in (self._overtakes_until, self._sprints_until, self._holds_until):
            ends[enter] = tick
        self._brakes_until[enter] = tick
        self._swerves_at[enter] = -1
        self._change_began[enter] = -100

    def _wave_here(self, tick: int) -> tuple[Mask, Floats]:
        """Who is in a stop-and-go wave, and how fast the wave there lets them go."""
        along = self._position + _WAVE_SPEED * tick
        number = np.floor(along / _WAVE_SPACING)
        wave = number.astype(np.int64) % _WAVES
        return along - number * _WAVE_SPACING < self._wave_length[wave], self._wave_flow[wave]

    def _decide(self, tick: int, stuck: Mask, drawn: Floats) -> None:
        """Who begins a manoeuvre in this second."""
        calm = self._present & (self._brakes_until <= tick)
        impulse = drawn[3]
        overtake = calm & ~stuck & (impulse < _OVERTAKES_A_SECOND)
        self._overtakes_until[overtake] = tick + _whole((12, 30), drawn[0, overtake])
        self._overtakes_by[overtake] = 3 + 3 * drawn[1, overtake]
        wander = calm & (impulse > 1 - _CHANGES_A_SECOND)
        change = overtake | wander
        self._change_lane(tick, change, _whole((2, 4), drawn[2, change]), drawn)

        emergency = calm & (drawn[4] > 1 - _EMERGENCIES_A_SECOND)
        sprint = calm & stuck & self._aggressive & (self._speed < 10)
        sprint &= drawn[4] < _SPRINTS_A_SECOND
        for begin in (emergency, sprint):
            self._push[begin] = 8.1 + 0.9 * drawn[0, begin]
            self._brake[begin] = 9.3 + 1.7 * drawn[1, begin]
        # The impulse is below its bound, so this is a fresh uniform draw for those who sprint.
        mood = drawn[4, sprint] / _SPRINTS_A_SECOND
        push_for = np.where(mood < 0.2, 4, np.where(mood < 0.85, 5, 6))
        hold_for = _whole((2, 34), drawn[2, sprint])
        self._sprints_until[sprint] = tick + push_for
        self._holds_until[sprint] = tick + push_for + hold_for
        brakes = drawn[5, sprint] < 0.85
        self._brakes_until[sprint] = self._holds_until[sprint] + np.where(
            brakes, _whole((2, 4), drawn[6, sprint]), 0
        )
        swerves = drawn[7, sprint] < 0.85
        at = tick + push_for + np.floor(drawn[7, sprint] / 0.85 * hold_for).astype(np.int64)
        self._swerves_at[sprint] = np.where(swerves, at, -1)
        self._sprints_until[emergency] = tick
        self._holds_until[emergency] = tick
        self._brakes_until[emergency] = tick + _whole((1, 2), drawn[5, emergency])

        swerve = self._present & (self._swerves_at == tick)
        self._change_lane(tick, swerve, _whole((1, 2), drawn[2, swerve]), drawn)

    def _change_lane(self, tick: int, who: Mask, half: Ticks, drawn: Floats) -> None:
        free = tick >= self._change_began + 2 * self._change_half
        half = half[free[who]]
        who = who & free
        lane = self._lane[who]
        either = np.where(drawn[5, who] < 0.5, 1, -1)
        self._change_to[who] = np.where(lane == 1, 1, np.where(lane == _LANES, -1, either))
        self._change_began[who] = tick
        self._change_half[who] = half

    def _lateral(self, tick: int, drawn: Floats) -> Floats:
        """Half the width in the first half of the time, by constant acceleration; then back."""
        age = tick - self._change_began
        changing = age < 2 * self._change_half
        crossing = age == self._change_half
        self._lane[crossing] += self._change_to[crossing]
        side = np.where(age < self._change_half, self._change_to, -self._change_to)
        lateral: Floats = np.where(changing, side * (_LANE_WIDTH / self._change_half**2), 0.0)
        lateral += 0.1 * (2 * drawn[6] - 1)  # keeping the lane
        return lateral

    def _accelerate(self, tick: int, stuck: Mask, flow: Floats, drawn: Floats) -> Floats:
        wanted = self._cruise + np.where(tick < self._overtakes_until, self._overtakes_by, 0)
        wanted = np.where(stuck, np.minimum(wanted, flow), wanted)
        # Near normal, from uniform draws: bounded, and the same on every machine.
        self._noise = 0.8 * self._noise + 0.3 * (drawn[5] + drawn[6] + drawn[7] - 1.5)
        accel = np.clip((wanted - self._speed) / 4, -3, 2.5) + self._noise
        braking = tick < self._brakes_until
        accel = np.where(braking, -self._brake * (1 + 0.03 * drawn[0]), accel)
        holding = tick < self._holds_until
        accel = np.where(holding, self._noise, accel)
        sprinting = tick < self._sprints_until
        accel = np.where(sprinting, self._push * (1 + 0.03 * drawn[0]), accel)
        forwards: Floats = np.maximum(accel, -self._speed)  # nobody drives backwards
        return forwards


def _whole(bounds: tuple[int, int], uniform: Floats) -> Ticks:
    """Whole numbers between the bounds, both included."""
    low, high = bounds
    drawn: Ticks = low + np.floor(uniform * (high - low + 1)).astype(np.int64)
    return drawn
