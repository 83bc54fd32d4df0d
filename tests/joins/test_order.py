"""Matches of one event in the order of their keys, and what of them is found only once."""

from __future__ import annotations

import numpy as np
import pytest

import piestream as ps
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.primitives import pointer
from piestream.compiled.records import Array, kernel
from piestream.joins.records import Program
from piestream.joins.sort import sorted_places
from piestream.plan.binding import bind
from tests.joins.counting import stream_of
from tests.joins.streams import Pattern, check

LONGEST = 1 << 62


@kernel
def _in_order(keys: Array, places: Array, order: Array, n: int) -> Array:
    return sorted_places(pointer(keys), places, pointer(order), n)


@pytest.mark.parametrize("count", [0, 1, 2, 23, 24, 25, 300, 5000])
@pytest.mark.parametrize("width", [1, 3, 200, LONGEST])
def test_records_come_in_the_order_of_their_keys(count: int, width: int) -> None:
    """Keys that fit into one word, and keys that do not; negative ones too."""
    rng = np.random.default_rng(count)
    n = 5
    order = rng.permutation(n)
    keys = rng.integers(-width, width, (count, n))
    wanted = sorted(range(count), key=lambda record: keys[record][order].tolist())
    found = _in_order(keys.ravel(), np.arange(0, count * n, n), order, n) // n
    assert keys[found].tolist() == keys[wanted].tolist()
    assert sorted(found.tolist()) == list(range(count))


def test_keys_further_apart_than_a_word_counts() -> None:
    keys = np.array([[INT64_MAX - k if k % 2 else INT64_MIN + k] for k in range(40)])
    found = _in_order(keys.ravel(), np.arange(40), np.zeros(1, np.int64), 1)
    assert keys.ravel()[found].tolist() == sorted(keys.ravel().tolist())


#: c is decided last, in the middle: many a and b on one side of it, many d and e on the other.
TWO_SIDES = ("b contains a", "b overlaps c", "c overlaps d", "d contains e")


def two_sides(size: int) -> dict[str, list[tuple[int, int]]]:
    """One b with ``size`` a in it, one d with ``size`` e in it, and c ends when all are there."""
    end = 10 * size
    return {
        "a": [(4 + 8 * k, 7 + 8 * k) for k in range(size)],
        "b": [(2, end)],
        "c": [(end - 1, end + 2 * end)],
        "d": [(end + 1, 4 * end)],
        "e": [(end + 4 + 8 * k, end + 7 + 8 * k) for k in range(size)],
    }


@pytest.mark.parametrize("size", [3, 8])
def test_the_product_of_two_sides_is_whole_and_in_order(size: int) -> None:
    rows = check(Pattern(TWO_SIDES, 50 * size), stream_of(two_sides(size)), at_least=size * size)
    assert len(rows) == size * size


def test_a_seed_in_the_middle_splits_its_steps() -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, b AS b, c AS c, d AS d, e AS e "
        f"PATTERN {' AND '.join(TWO_SIDES)} WITHIN 9"
    )
    compiled = bind(query, stream_of(two_sides(2)).schema).compiled
    seeds = Program.over(compiled.program).seeds
    splits = {
        name: seeds[number].independent - seeds[number].step
        for number, name in enumerate(compiled.steps)
    }
    # a whole side is bound before the split; with one side there is none
    assert splits == {"a, b": 3, "b, c": 1, "c, d": 2, "d, e": 3}
