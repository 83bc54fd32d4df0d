"""Aggregates over the latest events of a partition: AVG(x) OVER 30 s, MAX(x) OVER 5 EVENTS.

Each partition has a queue of the values in its window, from the earliest to the latest. An event
takes those that have left the window from its front, and puts its own at its end. Sums are exact, so
that a value is taken away as it was added; an extreme is found by the two stacks of a queue: the
values up to ``middle`` know the extreme from there on, of the others one is kept. So every value is
looked at a fixed number of times, and what comes out depends on what is in the window alone.

Nothing that was in a queue is overwritten: with the words of its head, a queue is as it was before.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Annotated

import numpy as np

from piestream.compiled.primitives import as_floats, at_word, keep_alive, pointer
from piestream.compiled.records import Array, FlagRows, Record, Rows, Times, Words, kernel
from piestream.intervals.exact_sums import ExactSum
from piestream.intervals.ticks import lasts

__all__ = ["ENTRY_WORDS", "HEAD_WORDS", "Kind", "Progress", "QueueHead", "WindowPlan", "slide"]


class Kind(IntEnum):
    """What is calculated of a window, and of what."""

    COUNT = 0
    SUM_INT = 1
    SUM_FLOAT = 2
    AVG = 3
    STDDEV = 4
    MIN_INT = 5
    MAX_INT = 6
    MIN_FLOAT = 7
    MAX_FLOAT = 8


class QueueHead(Record):
    """Where the queue of a partition lies, and what is known of its values.

    What only sums need comes last, and is not there for other kinds.
    """

    seen: int  # events of the partition so far
    block: int  # the first of its entries in the pool
    room: int
    first: int  # of its entries that are in the window
    last: int  # behind them
    middle: int  # entries before it know the extreme of all from there up to it
    extreme: int  # of the entries from there on
    high: int  # of a sum of whole numbers: high * 2^32 + low
    low: int
    beyond: int  # values that are no part of a sum: those that are infinite, or too large to square
    negative: int  # of those, the ones below 0
    total: Annotated[Rows[ExactSum], 1]
    squares: Annotated[Rows[ExactSum], 1]


class WindowPlan(Record):
    """What is calculated."""

    kind: int
    of_events: int  # whether the length is a number of events
    length: int
    fresh: int  # whether each group begins without a past
    head_words: int
    entry_words: int


class Progress(Record):
    """How far the loop has come: it stops where there is no room in the pool."""

    group: int
    row: int  # of the group, to go on with; 0 at its beginning
    top: int  # of the pool, behind what is used


#: A value's time, itself, and the extreme from there up to the middle.
ENTRY_WORDS = {kind: 3 if kind >= Kind.MIN_INT else 2 for kind in Kind}
HEAD_WORDS = {
    kind: QueueHead.offset("high")
    if kind == Kind.COUNT or kind >= Kind.MIN_INT
    else QueueHead.offset("beyond")
    if kind == Kind.SUM_INT
    else QueueHead.offset("squares")
    if kind != Kind.STDDEV
    else QueueHead.size
    for kind in Kind
}

_EXTREME = QueueHead.offset("extreme")
_SMALLEST = 4
_HALF = 32
_LOW = (1 << _HALF) - 1
#: Floats are summed as multiples of 2^60: no sum of finite ones is beyond all floats. Below 2^-960
#: that would lose bits, and they count as 0.
_SCALE, _UNSCALE = 2.0**-60, 2.0**60
_TINY = 2.0**-960
#: Squares of what lies between these are floats, and so are their errors.
_LEAST_SQUARED, _MOST_SQUARED = 2.0**-450, 2.0**450


@kernel
def _better(kind: int, x: Words, y: Words) -> bool:
    """Whether the first of two values is the more extreme one."""
    if kind == Kind.MIN_INT:
        return x[0] < y[0]
    if kind == Kind.MAX_INT:
        return x[0] > y[0]
    if kind == Kind.MIN_FLOAT:
        return as_floats(x)[0] < as_floats(y)[0]
    return as_floats(x)[0] > as_floats(y)[0]


@kernel
def _reckon(kind: int, head: QueueHead, value: Words, sign: int) -> None:
    """Add a value to the sums, or take it away."""
    if kind == Kind.SUM_INT:
        head.high += sign * (value[0] >> _HALF)
        head.low += sign * (value[0] & _LOW)
    elif kind == Kind.SUM_FLOAT or kind == Kind.AVG:
        x = as_floats(value)[0]
        if math.isinf(x):
            head.beyond += sign
            head.negative += sign * (x < 0.0)
        elif abs(x) >= _TINY:
            head.total[0].add(sign * x * _SCALE)
    elif kind == Kind.STDDEV:
        x = as_floats(value)[0]
        if abs(x) > _MOST_SQUARED:
            head.beyond += sign
        elif abs(x) >= _LEAST_SQUARED:
            head.total[0].add(sign * x)
            head.squares[0].add_product(x, x, sign)


@kernel
def _leave_front(kind: int, head: QueueHead, entries: Words, width: int) -> None:
    """Take the earliest value out of the queue."""
    if kind < Kind.MIN_INT:
        _reckon(kind, head, at_word(entries, head.first * width + 1), -1)
    elif head.first >= head.middle:  # the entries behind the middle get to know their extremes
        best = head.last - 1
        for place in range(head.last - 1, head.first - 1, -1):
            value = at_word(entries, place * width + 1)
            if _better(kind, value, at_word(entries, best * width + 1)):
                best = place
            value[1] = entries[best * width + 1]
        head.middle = head.last
    head.first += 1


@kernel
def _enter(kind: int, head: QueueHead, entries: Words, width: int, time: int, word: int) -> None:
    """Put the value of an event at the end of the queue."""
    entry = at_word(entries, head.last * width)
    entry[0] = time
    entry[1] = word
    if kind < Kind.MIN_INT:
        _reckon(kind, head, at_word(entry, 1), 1)
    else:
        extreme = at_word(head, _EXTREME)
        if head.last == max(head.first, head.middle) or _better(kind, at_word(entry, 1), extreme):
            head.extreme = word
    head.last += 1


@kernel
def _deviation(head: QueueHead, count: int, spread: ExactSum) -> float:
    """The standard deviation of a sample, from its exact moments."""
    spread.count = 0
    total, squares = as_floats(head.total[0].parts), as_floats(head.squares[0].parts)
    for i in range(head.squares[0].count):
        spread.add_product(squares[i], float(count), 1)
    for i in range(head.total[0].count):
        for j in range(head.total[0].count):
            spread.add_product(total[i], total[j], -1)
    variance = spread.rounded() / (float(count) * float(count - 1))
    return math.sqrt(variance)


@kernel
def _result(
    kind: int, head: QueueHead, entries: Words, width: int, spread: ExactSum, out: Words
) -> int:
    """Write what the window gives, and say whether that is not NULL."""
    count = head.last - head.first
    floats = as_floats(out)
    if kind == Kind.COUNT:
        out[0] = count
        return 1
    if count == 0:
        return 0
    if kind == Kind.SUM_INT:
        high = head.high + (head.low >> _HALF)
        out[0] = (high << _HALF) + (head.low & _LOW)
        return 1 if -(1 << 31) <= high < 1 << 31 else 0
    if kind == Kind.SUM_FLOAT or kind == Kind.AVG:
        if head.beyond:
            if 0 < head.negative < head.beyond:
                return 0  # the one infinity less the other is no number
            floats[0] = -math.inf if head.negative else math.inf
        else:
            total = head.total[0].rounded()
            floats[0] = (total / float(count) if kind == Kind.AVG else total) * _UNSCALE
        return 1
    if kind == Kind.STDDEV:
        if count < 2 or head.beyond:
            return 0
        floats[0] = _deviation(head, count, spread)
        return 1
    has_front = head.first < head.middle
    if has_front:
        out[0] = entries[head.first * width + 2]
    if head.middle < head.last and (not has_front or _better(kind, at_word(head, _EXTREME), out)):
        out[0] = head.extreme
    return 1


@kernel
def _make_room(
    head: QueueHead, pool: Words, pool_words: int, width: int, progress: Progress
) -> bool:
    """Move a queue that is full to the free end of the pool; False if there is no room."""
    live = head.last - head.first
    room = max(_SMALLEST, 2 * live)
    if progress.top + room * width > pool_words:
        return False
    source = at_word(pool, head.block + head.first * width)
    target = at_word(pool, progress.top)
    for word in range(live * width):
        target[word] = source[word]
    head.block = progress.top
    head.room = room
    head.middle = max(head.middle - head.first, 0)
    head.first = 0
    head.last = live
    progress.top += room * width
    return True


@kernel
def slide(
    plan_array: Array,
    heads_array: Array,
    pool_array: Array,
    groups_array: Array,
    offsets_array: Array,
    times_array: Times,
    values_array: Times,
    known_array: FlagRows,
    out_array: Array,
    found_array: FlagRows,
    scratch_array: Array,
    progress_array: Array,
) -> bool:
    """What the windows give at the rows of groups, in order of time; False where room is missing.

    A group is the rows of the partition whose number it has. ``found`` says of each row whether the
    result is not NULL, as ``known`` does of the values.
    """
    plan = WindowPlan(pointer(plan_array))
    heads, pool = pointer(heads_array), pointer(pool_array)
    groups, offsets = pointer(groups_array), pointer(offsets_array)
    times, values, known = pointer(times_array), pointer(values_array), pointer(known_array)
    out, found = pointer(out_array), pointer(found_array)
    spread = ExactSum(pointer(scratch_array))
    progress = Progress(pointer(progress_array))
    kind, width, length = plan.kind, plan.entry_words, plan.length
    while progress.group < groups_array.size:
        group = progress.group
        head = QueueHead(at_word(heads, groups[group] * plan.head_words))
        if plan.fresh and progress.row == 0:
            block, room = head.block, head.room
            for word in range(plan.head_words):
                head[word] = 0
            head.block, head.room = block, room
        row = offsets[group] + progress.row
        while row < offsets[group + 1]:
            if head.last == head.room and not _make_room(
                head, pool, pool_array.size, width, progress
            ):
                progress.row = row - offsets[group]
                return False
            entries = at_word(pool, head.block)
            time = times[row]
            if plan.of_events:
                head.seen += 1
                time = head.seen
            while head.first < head.last and lasts(entries[head.first * width], time, length):
                _leave_front(kind, head, entries, width)
            if known[row]:
                _enter(kind, head, entries, width, time, values[row])
            found[row] = np.uint8(_result(kind, head, entries, width, spread, at_word(out, row)))
            row += 1
        progress.group += 1
        progress.row = 0
    keep_alive(plan_array)
    keep_alive(heads_array)
    keep_alive(pool_array)
    keep_alive(groups_array)
    keep_alive(offsets_array)
    keep_alive(times_array)
    keep_alive(values_array)
    keep_alive(known_array)
    keep_alive(out_array)
    keep_alive(found_array)
    keep_alive(scratch_array)
    keep_alive(progress_array)
    return True
