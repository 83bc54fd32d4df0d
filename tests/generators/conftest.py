"""Brute force over intervals, written from the definitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.randoms import allen_relation

Run = tuple[int, float]


def _runs(holds: np.ndarray, ts: np.ndarray) -> list[Run]:
    """Longest runs ``[start, first time after)``; an open one ends at infinity."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], holds.astype(np.int8)))))
    times = [int(ts[edge]) for edge in edges]
    ends = [*times[1::2], float("inf")] if len(times) % 2 else times[1::2]
    return list(zip(times[0::2], ends, strict=True))


def _relation(x: Run, y: Run) -> str:
    """Allen's name for closed intervals, and for open ones where what comes next cannot matter."""
    (xs, xe), (ys, ye) = x, y
    return "unknown" if xe == ye == float("inf") else allen_relation(xs, xe, ys, ye)


@pytest.fixture(scope="session")
def runs() -> Callable[[np.ndarray, np.ndarray], list[Run]]:
    return _runs


@pytest.fixture(scope="session")
def relation() -> Callable[[Run, Run], str]:
    return _relation
