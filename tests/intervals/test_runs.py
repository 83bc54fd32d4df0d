"""Where the matcher has to look: held against a row-by-row reference on random bits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from piestream.compiled.primitives import pointer
from piestream.compiled.records import Array, kernel
from piestream.intervals.runs import find_changes, first_row_at

NO_GAP = -1


@kernel
def _first_row_at(times: Array, row: int, end: int, due: int) -> int:
    return first_row_at(pointer(times), row, end, due)


def packed(holds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of bits, 64 a word; what is behind the last row is arbitrary."""
    n_predicates, n_rows = holds.shape
    filled = rng.random((n_predicates, -(-n_rows // 64) * 64)) < 0.5
    filled[:, :n_rows] = holds
    return np.packbits(filled, axis=1, bitorder="little").view(np.uint64)


def looked_at(
    holds: np.ndarray, symbols: np.ndarray, offsets: np.ndarray, times: np.ndarray, gap: int
) -> tuple[list[int], list[int], list[int]]:
    """The same, one row after the other."""
    rows: list[int] = []
    masks: list[int] = []
    found = []
    for first, end in pairwise(offsets.tolist()):
        found.append(len(rows))
        for row in range(first, end):
            changed = row == first or bool((holds[:, row] != holds[:, row - 1]).any())
            silent = row > first and gap >= 0 and int(times[row]) - int(times[row - 1]) > gap
            if changed or silent:
                mask = sum(1 << s for s, p in enumerate(symbols) if holds[p, row])
                rows.append(row)
                masks.append(mask - (1 << 64) if mask >> 63 else mask)
    return rows, masks, [*found, len(rows)]


def same(
    holds: np.ndarray,
    symbols: np.ndarray,
    offsets: np.ndarray,
    times: np.ndarray,
    gap: int,
    rng: np.random.Generator,
) -> None:
    rows, masks, found = find_changes(packed(holds, rng), symbols, offsets, times, gap)
    wanted = looked_at(holds, symbols, offsets, times, gap)
    assert (rows.tolist(), masks.tolist(), found.tolist()) == wanted


@pytest.mark.parametrize("n_predicates", [1, 2, 5])
@pytest.mark.parametrize("density", [0.005, 0.1, 0.5])
def test_changes_of_random_bits(n_predicates: int, density: float) -> None:
    rng = np.random.default_rng(n_predicates)
    lengths = [0, 1, 2, 62, 63, 64, 65, 66, 127, 128, 129, 191, 192, 193, 300]
    for n_rows in [*lengths, *rng.integers(0, 301, 12).tolist()]:
        flips = rng.random((n_predicates, n_rows)) < density
        holds = np.logical_xor.accumulate(flips, axis=1)
        symbols = rng.permutation(np.r_[np.arange(n_predicates), rng.integers(0, n_predicates, 2)])
        for n_cuts in (0, 1, 3, n_rows // 3, n_rows):
            # some partitions of this batch may have no rows at all
            inner = np.sort(rng.integers(0, n_rows + 1, n_cuts))
            offsets = np.r_[0, inner, n_rows].astype(np.int64)
            times = np.cumsum(rng.choice([1, 2, 7], n_rows)).astype(np.int64)
            for first, end in pairwise(offsets):
                times[first:end] -= int(rng.integers(0, 50))  # partitions have their own times
            for gap in (NO_GAP, 0, 1, 6, 7):
                same(holds, symbols, offsets, times, gap, rng)


def test_every_row_may_change_and_every_symbol_hold() -> None:
    """As many changes as rows: the arrays have to grow; 64 symbols fill the mask."""
    rng = np.random.default_rng(0)
    n_rows = 3_000
    holds = np.arange(n_rows)[None, :] % 2 == np.arange(64)[:, None] % 2
    holds[63] = rng.random(n_rows) < 0.5
    offsets = np.array([0, 1_000, 1_001, n_rows], np.int64)
    same(holds, np.arange(64), offsets, np.arange(n_rows), NO_GAP, rng)
    same(holds[63:], np.zeros(64, np.int64), offsets, np.arange(n_rows), NO_GAP, rng)


def test_silences_at_the_ends_of_time() -> None:
    ends = np.iinfo(np.int64)
    times = np.array([ends.min + 1, -5, 0, 1 << 62, ends.max - 1], np.int64)
    holds = np.ones((1, 5), np.bool_)
    for gap in (0, 4, 5, (1 << 62) - 1, 1 << 62, ends.max):
        same(holds, np.zeros(1, np.int64), np.array([0, 5]), times, gap, np.random.default_rng(1))


def test_a_predicate_that_nobody_has_changes_nothing_in_the_masks() -> None:
    rng = np.random.default_rng(2)
    holds = rng.random((3, 200)) < 0.5
    same(holds, np.array([2, 0]), np.array([0, 200]), np.arange(200), NO_GAP, rng)


def test_no_partitions_give_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    empty = np.zeros((1, 0), np.uint64)
    rows, masks, found = find_changes(
        empty, np.zeros(1, np.int64), np.zeros(1, np.int64), nothing, 3
    )
    assert (rows.size, masks.size, found.tolist()) == (0, 0, [0])


def test_the_first_row_at_a_time() -> None:
    rng = np.random.default_rng(3)
    for n_rows in (0, 1, 2, 3, 7, 40, 200):
        times = np.cumsum(rng.integers(1, 4, n_rows)).astype(np.int64)
        for due in range(-1, 4 * n_rows // 2 + 3, 1 + n_rows // 20):
            for row in {0, n_rows // 3, n_rows}:
                for end in {row, (row + n_rows) // 2, n_rows}:
                    late = [r for r in range(row, end) if times[r] >= due]
                    assert _first_row_at(times, row, end, due) == (late[0] if late else end)
