"""Hash tables of rows for left-deep joins: the result queues and partial results of PieStream.

All tables live in one arena. A row is ``[next row of its bucket, earliest start, starts ...]``,
a table is a ring of rows in the order of their triggers, and a bucket is a chain from its oldest
row to its newest. Rows leave from the front of the ring, so they are the first of their chains.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from experiments.peers.pattern import Ints

NEXT, EARLIEST, STARTS = 0, 1, 2
_NOBODY = -1
_FIRST_ROOM = 16


# The columns of a shape, int64[tables + 1, COLUMN + n]: what a table has and where it stands.
WIDTH = 0  #: words of a row
ROWS, BUCKETS = 1, 2  #: first word of the rows, first word of the buckets
ROOM = 3  #: rows that fit (2^k)
HEAD, TAIL = 4, 5  #: the rows held are those from head to tail, by ever growing numbers
KEY, SECOND_KEY = 6, 7  #: the symbols of the key; the second is -1 for a key of one
COLUMN = 8  #: from here: the column of each symbol's start, -1 where the table has none
# The last row is for the arena: its first word is how many words are used.


def shape_of(columns: list[list[int]], keys: list[list[int]], n: int) -> Ints:
    """Empty tables with these symbols as columns, each indexed by these."""
    shape = np.zeros((len(columns) + 1, COLUMN + n), dtype=np.int64)
    shape[:, KEY:] = -1
    for table, symbols in enumerate(columns):
        shape[table, WIDTH] = STARTS + len(symbols)
        for at, symbol in enumerate(symbols):
            shape[table, COLUMN + symbol] = STARTS + at
        shape[table, KEY : KEY + len(keys[table])] = keys[table]
    return shape


@njit(cache=True, nogil=True)
def new_arena(shape: Ints) -> Ints:
    """Room for a few rows of each table."""
    arena = np.empty(1024, dtype=np.int64)
    shape[-1, 0] = 0
    for table in range(len(shape) - 1):
        shape[table, HEAD] = shape[table, TAIL] = 0
        arena = _allotted(arena, shape, table, _FIRST_ROOM)
    return arena


@njit(cache=True, nogil=True)
def _allotted(arena: Ints, shape: Ints, table: int, room: int) -> Ints:
    """A fresh stretch of the arena for a table, its buckets empty."""
    words = room * (shape[table, WIDTH] + 2)
    used = shape[-1, 0]
    if used + words > len(arena):
        larger = np.empty(max(2 * len(arena), used + words), dtype=np.int64)
        larger[:used] = arena[:used]
        arena = larger
    shape[table, ROWS] = used
    shape[table, BUCKETS] = used + room * shape[table, WIDTH]
    shape[table, ROOM] = room
    shape[-1, 0] = used + words
    arena[shape[table, BUCKETS] : shape[-1, 0]] = _NOBODY
    return arena


@njit(cache=True, nogil=True)
def word(shape: Ints, table: int, row: int) -> int:
    """Where a row begins in the arena."""
    return shape[table, ROWS] + (row & (shape[table, ROOM] - 1)) * shape[table, WIDTH]


@njit(cache=True, nogil=True)
def bucket(shape: Ints, table: int, first: int, second: int) -> int:
    """Where the chain of a key begins: its oldest row, and in the next word its newest."""
    mixed = np.uint64(first) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(second) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(32)
    slot = np.int64(mixed & np.uint64(shape[table, ROOM] - 1))
    return shape[table, BUCKETS] + 2 * slot


@njit(cache=True, nogil=True)
def key_of(arena: Ints, shape: Ints, table: int, key_table: int, at: int) -> tuple[int, int]:
    """The key that a row (of this table) has in the index of another, or the same, table."""
    first, second = shape[key_table, KEY], shape[key_table, SECOND_KEY]
    one = arena[at + shape[table, COLUMN + first]]
    two = arena[at + shape[table, COLUMN + second]] if second >= 0 else 0
    return one, two


@njit(cache=True, nogil=True)
def _linked(arena: Ints, shape: Ints, table: int, row: int) -> None:
    at = word(shape, table, row)
    one, two = key_of(arena, shape, table, table, at)
    chain = bucket(shape, table, one, two)
    arena[at + NEXT] = _NOBODY
    if arena[chain] == _NOBODY:
        arena[chain] = row
    else:
        arena[word(shape, table, arena[chain + 1]) + NEXT] = row
    arena[chain + 1] = row


@njit(cache=True, nogil=True)
def with_room(arena: Ints, shape: Ints, table: int) -> Ints:
    """The arena with room for one more row of a table."""
    if shape[table, TAIL] - shape[table, HEAD] < shape[table, ROOM]:
        return arena
    old_rows, old_room = shape[table, ROWS], shape[table, ROOM]
    width = shape[table, WIDTH]
    arena = _allotted(arena, shape, table, 2 * old_room)
    for row in range(shape[table, HEAD], shape[table, TAIL]):
        source = old_rows + (row & (old_room - 1)) * width
        target = word(shape, table, row)
        for column in range(width):
            arena[target + column] = arena[source + column]
        _linked(arena, shape, table, row)
    return arena


@njit(cache=True, nogil=True)
def appended(arena: Ints, shape: Ints, table: int) -> None:
    """Take in the row that was written at the tail, after :func:`with_room`."""
    row = shape[table, TAIL]
    shape[table, TAIL] += 1
    _linked(arena, shape, table, row)


@njit(cache=True, nogil=True)
def expired(arena: Ints, shape: Ints, oldest: int) -> int:
    """Drop rows from the front that began before the window; how many rows are left in all.

    Rows are ordered by trigger, not by start, so one that has expired may stand behind one that
    has not; it is skipped when it is met, and goes one window later at the latest.
    """
    left = 0
    for table in range(len(shape) - 1):
        while shape[table, HEAD] < shape[table, TAIL]:
            at = word(shape, table, shape[table, HEAD])
            if arena[at + EARLIEST] >= oldest:
                break
            one, two = key_of(arena, shape, table, table, at)
            chain = bucket(shape, table, one, two)
            arena[chain] = arena[at + NEXT]
            shape[table, HEAD] += 1
        left += shape[table, TAIL] - shape[table, HEAD]
    return left
