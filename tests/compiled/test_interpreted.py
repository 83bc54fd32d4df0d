"""The loops run in Python, with every access checked, and say what they say compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SEEDS = 2
_OUT_OF_BOUNDS = """
import numpy as np
from piestream.compiled.primitives import pointer, within
from piestream.joins.partition import Partition
from piestream.joins.rings import Ring
words, header = np.zeros(40, np.int64), np.array([8, 4, 0, 2])
ring = Ring(pointer(header), pointer(words), 5)
ring.slot(1)[4] = 1
try:
    ring.slot(1)[5]  # the first word of the slot after it
except IndexError as error:
    print("refused:", error)
"""


def _run(*arguments: str) -> str:
    environment = {**os.environ, "PIESTREAM_INTERPRETED": "1"}
    run = subprocess.run(
        [sys.executable, *arguments], cwd=_ROOT, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_laws_hold_of_interpreted_loops() -> None:
    laws = ("-m", "pytest", "-p", "no:cacheprovider", "tests/test_laws.py", "--laws", str(_SEEDS))
    of_loops = ("-k", "not worth_trying and not parser")
    assert "passed" in _run(*laws, *of_loops, "-o", "addopts=--import-mode=importlib")


def test_interpreted_loops_join_tables_of_intervals() -> None:
    laws = ("-m", "pytest", "-p", "no:cacheprovider", "tests/interval_tables", "--laws", "40")
    assert "passed" in _run(*laws, "-k", "random", "-o", "addopts=--import-mode=importlib")


def test_an_access_beyond_a_slot_is_refused() -> None:
    assert "refused: Slot: word 13 + 5 is not in [13, 18)" in _run("-c", _OUT_OF_BOUNDS)


def test_nothing_is_compiled() -> None:
    code = (
        "from piestream.joins import batch, maintenance\n"
        "from piestream.engine import ordering\n"
        "print({type(f).__name__ for m in (batch, maintenance, ordering)"
        " for f in vars(m).values() if getattr(f, '__module__', '').startswith('piestream.joins')})"
    )
    assert "CPUDispatcher" not in _run("-c", code)
