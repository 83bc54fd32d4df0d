"""States of detectors whose intervals come as rows, with wrong words: refused, or worked on.

Some words of a sound state are changed. What the check lets pass goes on with the rest of its rows.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np

from piestream.engine.detector import Detector
from piestream.engine.state import DetectorState
from piestream.joins.validation import Damage
from piestream.plan.binding import Binding
from tests.attacks.workers import main
from tests.joins.rows import Scene, batch_of, damage_of, detector_of, random_scene, rows_of

_WORDS = (0, 1, -1, 2, 3, 63, 64, 1 << 20, 1 << 40, (1 << 63) - 1, -(1 << 63))
_SCENES = 60


@cache
def _states() -> tuple[tuple[Scene, Binding, DetectorState, int], ...]:
    """Scenes in their middles, with what their detectors hold."""
    states = []
    for seed in range(_SCENES):
        scene = random_scene(seed)
        if scene is None:
            continue
        binding, detector = detector_of(scene)
        middle = max(1, 2 * len(scene.times) // 3)
        detector.detect(batch_of(scene, binding, 0, middle, rows_of(scene)))
        detector.compact(scene.times[middle - 1])
        state = detector.export_state([0])
        assert damage_of(binding, state) == Damage.NOTHING
        states.append((scene, binding, state, middle))
    return tuple(states)


def _hurt(draw: random.Random, words: np.ndarray) -> np.ndarray:
    """Some words changed: to others of the same, to numbers nearby, to odd ones."""
    words = words.copy()
    flat = words.reshape(-1)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        place = draw.randrange(flat.size)
        near = int(flat[place]) + draw.choice([-8, -2, -1, 1, 2, 8])
        other = int(flat[draw.randrange(flat.size)])
        flat[place] = (draw.choice([*_WORDS, other, other, near, near]) + (1 << 63)) % (1 << 64) - (
            1 << 63
        )
    return words


def one(seed: int) -> str:
    """Use a hurt state, if it is not refused."""
    draw = random.Random(seed)
    scene, binding, state, middle = draw.choice(_states())
    part = draw.choice(["partitions", "pool", "pool", "pool", "waiting"])
    hurt = replace(
        state,
        partitions=state.partitions.copy(),
        pool=state.pool.copy(),
        waiting=state.waiting.copy(),
    )
    hurt = replace(hurt, **{part: _hurt(draw, getattr(hurt, part))})
    if damage_of(binding, hurt) != Damage.NOTHING:
        return "refused"
    detector = Detector(binding.compiled, binding.bit_of_symbol)
    detector.restore_state(hurt)
    rows = rows_of(scene)
    end = len(scene.times)
    for first in range(middle, end):
        detector.detect(batch_of(scene, binding, first, first + 1, rows))
        if draw.random() < 0.3:
            detector.compact(scene.times[first])
    detector.compact(scene.times[-1])
    return "opened"


def warm_up() -> None:
    """Compile, and make the states."""
    _states()


if __name__ == "__main__":
    main("tests.attacks.row_states", one, warm_up=warm_up)
