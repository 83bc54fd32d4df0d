"""A seed draws the same scenario in every process, so that a failure can be seen again."""

from __future__ import annotations

import os
import subprocess
import sys

_DRAWN = """
from tests import mixed, mixed_streams, randoms, stream_scenario
for seed in range(2):
    for draw in (randoms.scenario, randoms.sequenced, randoms.absent_in_sequence, mixed.mixed):
        drawn = draw(seed)
        print(drawn.text(), drawn.rows)
    for kinds in stream_scenario.KINDS.values():
        drawn = stream_scenario.combined_scenario(seed, kinds)
        print(drawn.query, drawn.inputs)
    drawn = mixed_streams.mixed_streams(seed)
    print(drawn.query, drawn.inputs)
"""


def test_a_seed_draws_the_same_in_every_process() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _DRAWN],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hashes in ("1", "2")
    ]
    first, second = (process.communicate()[0].splitlines() for process in processes)
    assert len(first) > 20
    assert first == second
