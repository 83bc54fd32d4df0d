"""The end of an input: what is open in a partition then ends, in the order of `Closing`."""

from __future__ import annotations

from piestream.compiled.arrays import copy_words, ensure_capacity
from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import Array, kernel, separate_kernel
from piestream.intervals.ticks import lasts
from piestream.joins.boxes import box_in
from piestream.joins.bridges import held_before
from piestream.joins.orders import BY_START
from piestream.joins.partition import Partition
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, BridgedSlot, PoolHeader


@kernel
def runs_of_last_event(partition: Partition) -> int:
    """The symbols (as bits) of which the open run began with the last event."""
    last = partition.last_time
    if partition.program.is_sequenced:
        last = partition.last_instant()
    began = 0
    rest = held_before(partition)
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        slot = partition.ring(s).latest()
        if slot[partition.program.start_instant] == last:
            began |= 1 << s
    return began


@kernel
def last_end(partition: Partition) -> int:
    """The time of the last event, or that behind it at which MAX GAP has ended or interrupted an interval."""
    program = partition.program
    latest = partition.last_time
    if not program.bridged or program.gap == NONE:
        return latest
    for s in range(program.n_symbols):
        ring = partition.ring(s)
        if ring.head == ring.tail:
            continue
        end = ring.latest().end
        if end == OPEN and partition.bridges().interrupted >> s & 1:
            end = BridgedSlot(ring.latest()).since
        if end != OPEN:
            latest = max(latest, end)
    return latest


@kernel
def open_row_before(partition: Partition, s: int, instant: int) -> int:
    """An interval of a symbol's rows that began before an instant and has not ended, else NONE."""
    order = partition.order(s, BY_START)
    return box_in(order, NO_MATCH, instant - 1, OPEN, OPEN, NO_MATCH).following(NONE)[0]


@kernel
def any_open_row_before(partition: Partition, instant: int) -> bool:
    """Whether an interval that came as a row began before an instant and has not ended."""
    rest = partition.program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if open_row_before(partition, s, instant) != NONE:
            return True
    return False


@kernel
def possible_silence(partition: Partition, s: int, reached: int) -> int:
    """The last event of a symbol's stream, if it is not known whether a silence has begun with it; else NONE.

    The symbol may not be there, so that the event has a slot. Deadlines have passed that are before ``reached``.
    """
    longest = partition.program.symbols[s].silence
    if longest == NONE:
        return NONE
    slot_id = open_row_before(partition, s, OPEN)
    if slot_id != NONE and lasts(partition.ring(s).slot(slot_id).start, reached, longest + 1):
        return NONE
    return slot_id


@kernel
def any_possible_silence(partition: Partition, reached: int) -> bool:
    """Whether there is one of any symbol."""
    rest = partition.program.rows & partition.program.absent
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if possible_silence(partition, s, reached) != NONE:
            return True
    return False


@separate_kernel
def keep_before_end(partition: Partition, pool_array: Array, scratch: Scratch) -> Array:
    """Keep a partition, and the intervals of its symbols, as they are before the end of its input.

    So that what has been decided of an absence by then stays so. Gives the pool, or a larger one.
    """
    program = partition.program
    words = program.partition_words
    for s in range(program.n_symbols):
        words += partition.rings[s].capacity * program.symbols[s].width
    if words > scratch.before_words:
        scratch.before_room = PoolHeader(pointer(pool_array)).used
        scratch.before_words = max(words, 2 * scratch.before_words)
        pool_array = ensure_capacity(pool_array, scratch.before_room, scratch.before_words)
        header = PoolHeader(pointer(pool_array))
        header.used += scratch.before_words
        header.wasted += scratch.before_words  # the next partition takes its place
    to = scratch.before_room
    scratch.before = to
    pool = pointer(pool_array)
    copy_words(at_word(partition, 0), at_word(pool, to), program.partition_words)
    kept = Partition(at_word(pool, to), program, pool)
    to += program.partition_words
    for s in range(program.n_symbols):
        ring = kept.rings[s]
        count = ring.capacity * program.symbols[s].width
        copy_words(at_word(pool, ring.base), at_word(pool, to), count)
        ring.base = to
        to += count
    keep_alive(pool_array)
    return pool_array
