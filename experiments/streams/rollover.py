"""An LNG tank that rolls over now and then, for the precise-relation experiment of PieStream.

What is going on in the tank (the levels are stylised, the logic is that of real rollovers):

- *Boil-off* ``BOR`` is near 10, a little more at noon, with bounded sensor noise. ``SOBOR`` is
  the slope of its trend as the instrument reports it: steps of 0.005 per second, so a slope
  that is too small to measure is exactly 0.
- The liquid is *stratified*: the density difference ``DD`` of the layers is near 5. When they mix,
  it falls to 0.4, and later builds up again.
- A **rollover** is a surge of boil-off, over 100, from layers that mix meanwhile: `BOR` rises
  through 50 and 100, stays, and comes back, and ``DD`` falls below 1 between the onset and the end
  of the surge.
- **Sloshing** raises boil-off by a few units for some minutes. Before a rollover it is a precursor,
  after it an aftershock. Each such hump is a rise and a fall like those of the rollover itself,
  only not the *next* ones to the surge: what ``before`` takes for a rollover's rise or fall, and
  ``followed-by`` does not.
- A **compressor trip** in a tank that is being mixed looks like a rollover too, but boil-off jumps
  over 100 at once: its rise *meets* the surge. ``before`` then joins the surge with some precursor.
- Without effect on either query: surges while the tank stays stratified (vapour coming back when a
  ship unloads), mixing without a surge, and sloshing by itself.

Each such episode is over before the next one by more than the 10,000 s of the query's window, and
is itself shorter than the window. So how many matches there are does not depend on whether the
window is measured to the trigger or to the completion of a match.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["rollover", "rollover_truth"]

_DAY = 86_400

NORMAL_BOIL_OFF = 10.0
_NOON_RISE = 1.0
_BOIL_OFF_NOISE = 0.2  # at most; all surges cross 50 and 100 by more than twice this a second
_SLOPE_STEP = 0.005
_SLOPE_ERROR = 0.1  # share of the slope, at most: it never turns a rise into a fall

NORMAL_DENSITY_DIFFERENCE = 5.0
_MIXED = 4.6  # what mixing takes away
_DENSITY_NOISE = 0.1  # at most, and slow: less a second than the ramps, so 1 is crossed once
_MIXING_SECONDS = 600
_SETTLING_SECONDS = 900
_SHARE_AT_ONE = (NORMAL_DENSITY_DIFFERENCE - 1.0) / _MIXED

#: From the start of an episode to the start of the next: 7,600 s at most, then the window.
EPISODE_SPACING = 18_000
_LEAD = 600  # the layers may start to mix before the first hump


class _Kind(Enum):
    ROLLOVER = "rollover"
    TRIP = "compressor trip"
    VAPOUR_RETURN = "vapour return"
    MIXING = "mixing"
    SLOSHING = "sloshing"


@dataclass(frozen=True, slots=True)
class _Hump:
    """Boil-off goes up, stays, and comes down again. Times in seconds, height in units of BOR."""

    onset: int
    rise: int
    hold: int
    fall: int
    height: float
    jumps_from: float | None = None  # creeps up to here and is at full height a second later

    @property
    def peak(self) -> int:
        return self.onset + self.rise

    @property
    def wanes(self) -> int:
        return self.peak + self.hold

    @property
    def end(self) -> int:
        return self.wanes + self.fall


@dataclass(slots=True)
class _Episode:
    kind: _Kind
    humps: list[_Hump] = field(default_factory=list)
    surge: _Hump | None = None
    mixed: tuple[int, int] | None = None  # from when until when DD is below 1, give or take noise


def rollover(days: float = 100, seed: int = 0, rollovers: int = 95) -> pl.DataFrame:
    """One reading a second of a tank in which ``rollovers`` true rollovers are planted.

    Columns: ``ts`` (int64, seconds from 0), ``BOR`` (boil-off rate), ``SOBOR`` (its slope a
    second), ``DD`` (density difference). With ``A: SOBOR > 0 AND BOR < 50``, ``B: BOR > 100``,
    ``C: SOBOR < 0 AND BOR < 50 AND BOR > 0``, ``D: DD < 1`` the pattern ::

        A followed-by B AND B followed-by C AND B during;starts;overlaps D
        AND D overlaps;finished-by;contains C AND A followed-by;meets;overlaps D  WITHIN 10000

    finds the planted rollovers and nothing else; with ``before`` for ``followed-by`` about 79 % of
    its matches are false alarms. That share is made to be the published one and hardly depends on
    the seed: precursors and aftershocks (0, 1 or 2 each) come in all nine combinations equally
    often, in random order, and there is one compressor trip for every three rollovers.

    Durations are uniform: humps of sloshing rise for 60–200 s and fall for 60–300 s by 4–15 units;
    surges rise for 120–240 s, hold for 0–300 s and fall for 180–270 s by 120–190 units. Episodes
    are placed at random, at least 18,000 s apart.

    >>> frame = rollover(days=1, seed=0, rollovers=1)
    >>> frame.columns, frame.height
    (['ts', 'BOR', 'SOBOR', 'DD'], 86400)
    >>> bool((frame["BOR"] > 100).any())
    True
    """
    episodes = _plan(days, seed, rollovers)
    seconds = _seconds(days)
    generator = _generator(seed, 1)

    of_day = (np.arange(seconds, dtype=np.int64) % _DAY) / _DAY
    trend = NORMAL_BOIL_OFF + _NOON_RISE * 4 * of_day * (1 - of_day)
    density = _slow_noise(generator, seconds)
    density *= _DENSITY_NOISE
    density += NORMAL_DENSITY_DIFFERENCE
    for episode in episodes:
        for hump in (*episode.humps, *((episode.surge,) if episode.surge else ())):
            trend[hump.onset : hump.end] += _shape(hump)
        if episode.mixed:
            _mix(density, *episode.mixed)

    slope = np.diff(trend, prepend=trend[0])
    slope = np.rint(slope / _SLOPE_STEP) * _SLOPE_STEP
    slope *= 1 + _SLOPE_ERROR * _noise(generator, seconds)
    slope += 0.0  # no negative zeros
    trend += _BOIL_OFF_NOISE * _noise(generator, seconds)
    return pl.DataFrame(
        {
            "ts": np.arange(seconds, dtype=np.int64),
            "BOR": trend,
            "SOBOR": slope,
            "DD": density,
        }
    )


def rollover_truth(days: float = 100, seed: int = 0, rollovers: int = 95) -> pl.DataFrame:
    """The rollovers planted by :func:`rollover` for the same arguments, in order of time.

    ``onset`` is the second in which boil-off begins to rise, ``peak`` the first at full height
    (inside ``B``), ``settled`` the first at which it is back to normal.

    >>> truth = rollover_truth(days=2, seed=0, rollovers=3)
    >>> truth.height, truth.columns
    (3, ['onset', 'peak', 'settled'])
    """
    surges = [
        episode.surge
        for episode in _plan(days, seed, rollovers)
        if episode.kind is _Kind.ROLLOVER and episode.surge
    ]
    return pl.DataFrame(
        {
            "onset": [surge.onset for surge in surges],
            "peak": [surge.peak for surge in surges],
            "settled": [surge.end for surge in surges],
        },
        schema={"onset": pl.Int64, "peak": pl.Int64, "settled": pl.Int64},
    )


def _plan(days: float, seed: int, rollovers: int) -> list[_Episode]:
    """What happens in the tank and when, in order of time."""
    if rollovers < 0:
        raise ValueError(f"rollovers is {rollovers}; it must be at least 0")
    room = _seconds(days) // EPISODE_SPACING
    trips = round(rollovers / 3)
    if rollovers + trips > room:
        raise ValueError(
            f"{rollovers} rollovers do not fit into {days} days; at most {room * 3 // 4} do, "
            f"or take {-(-(rollovers + trips) * EPISODE_SPACING // _DAY)} days"
        )
    harmless = min(round(2 * days), (room - rollovers - trips) * 7 // 10)
    kinds = [_Kind.ROLLOVER] * rollovers + [_Kind.TRIP] * trips
    kinds += [
        (_Kind.VAPOUR_RETURN, _Kind.MIXING, _Kind.SLOSHING, _Kind.SLOSHING)[number % 4]
        for number in range(harmless)
    ]
    # All combinations of (precursors, aftershocks) equally often: see `rollover`.
    combinations = {
        _Kind.ROLLOVER: [(before, after) for before in range(3) for after in range(3)],
        _Kind.TRIP: [(before, after) for before in (1, 2) for after in (0, 1)],
        _Kind.VAPOUR_RETURN: [(before, after) for before in range(3) for after in range(2)],
        _Kind.MIXING: [(before, after) for before in range(2) for after in range(2)],
        _Kind.SLOSHING: [(before, 0) for before in range(1, 5)],
    }
    generator = _generator(seed, 0)
    slack = _seconds(days) - len(kinds) * EPISODE_SPACING
    starts = np.sort(np.floor(generator.random(len(kinds)) * (slack + 1)).astype(np.int64))
    starts += np.arange(len(kinds)) * EPISODE_SPACING
    used = dict.fromkeys(_Kind, 0)
    numbered = []
    for kind in kinds:
        choices = combinations[kind]
        numbered.append((kind, choices[used[kind] % len(choices)]))
        used[kind] += 1
    order = np.argsort(generator.random(len(kinds)), kind="stable")
    return [
        _episode(generator, int(start), *numbered[number])
        for start, number in zip(starts, order, strict=True)
    ]


def _episode(
    generator: np.random.Generator, start: int, kind: _Kind, sloshing: tuple[int, int]
) -> _Episode:
    episode = _Episode(kind)
    clock = start + _LEAD
    for _ in range(sloshing[0]):
        episode.humps.append(_slosh(generator, clock))
        clock = episode.humps[-1].end + _between(generator, 120, 600)
    mixed_from = clock + _between(generator, 30, 300)
    if kind in (_Kind.ROLLOVER, _Kind.VAPOUR_RETURN, _Kind.TRIP):
        episode.surge = surge = _Hump(
            onset=clock,
            rise=_between(generator, 120, 240),
            hold=_between(generator, 0, 300),
            fall=_between(generator, 180, 270),
            height=120 + 70 * generator.random(),
            jumps_from=15 + 10 * generator.random() if kind is _Kind.TRIP else None,
        )
        # DD gets below 1 after A has begun and before B ends: then A and B stand in an allowed
        # relation to D, whichever it is.
        mixed_from = _between(generator, surge.onset + 30, surge.wanes)
        clock = surge.end + _between(generator, 60, 300)
    mixed_until = episode.surge.end if episode.surge else mixed_from + 300
    for _ in range(sloshing[1]):
        episode.humps.append(_slosh(generator, clock))
        mixed_until = episode.humps[-1].end
        clock = mixed_until + _between(generator, 120, 600)
    if kind in (_Kind.ROLLOVER, _Kind.TRIP, _Kind.MIXING):
        # One in three ends in the last fall, so that D overlaps C; the others contain it.
        # The last fall is longer than 50 s below BOR 50, so D is still there when C starts.
        in_the_fall = generator.random() < 1 / 3
        mixed_until += _between(generator, -25, -5) if in_the_fall else _between(generator, 0, 600)
        episode.mixed = (mixed_from, mixed_until)
    return episode


def _slosh(generator: np.random.Generator, onset: int) -> _Hump:
    return _Hump(
        onset=onset,
        rise=_between(generator, 60, 200),
        hold=_between(generator, 0, 60),
        fall=_between(generator, 60, 300),
        height=4 + 11 * generator.random(),
    )


def _shape(hump: _Hump) -> npt.NDArray[np.float64]:
    """What a hump adds to boil-off, for each of its seconds."""
    rising = np.arange(hump.rise) / hump.rise
    falling = 1 - np.arange(hump.fall) / hump.fall
    up = hump.height * _smooth(rising)
    if hump.jumps_from is not None:
        up = hump.jumps_from * rising
    return np.concatenate((up, np.full(hump.hold, hump.height), hump.height * _smooth(falling)))


def _smooth(share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """From 0 to 1 without a kink, and with one run of measurable slope."""
    return share * share * (3 - 2 * share)


def _mix(density: npt.NDArray[np.float64], mixed_from: int, mixed_until: int) -> None:
    """Take the density difference below 1 between the two times, and let it settle again."""
    begins = mixed_from - _SHARE_AT_ONE * _MIXING_SECONDS
    ends = mixed_until + _SHARE_AT_ONE * _SETTLING_SECONDS
    span = np.arange(max(int(begins), 0), min(int(ends) + 1, density.size))
    share = np.minimum((span - begins) / _MIXING_SECONDS, (ends - span) / _SETTLING_SECONDS)
    density[span[0] : span[-1] + 1] -= _MIXED * np.clip(share, 0, 1)


def _slow_noise(generator: np.random.Generator, seconds: int) -> npt.NDArray[np.float64]:
    """Within ±1, straight lines between one uniform draw a minute."""
    knots = _noise(generator, seconds // 60 + 2)
    lines = knots[:-1, None] + np.diff(knots)[:, None] * (np.arange(60) / 60)
    return lines.ravel()[:seconds]


def _noise(generator: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
    return 2 * generator.random(size) - 1


def _between(generator: np.random.Generator, low: int, high: int) -> int:
    return low + int(generator.random() * (high - low + 1))


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,))))


def _seconds(days: float) -> int:
    if days <= 0:
        raise ValueError(f"days is {days}; it must be more than 0")
    return round(days * _DAY)
