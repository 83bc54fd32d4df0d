"""What is left out of the result: ONCE PER, NO OVERLAP, COOLDOWN and LIMIT.

A match is judged by those of its partition that were given before it. What that takes is the number
of these, the time of the last, and for ONCE PER which intervals they had: a ring of records, as long
as a window, with a hash index. A bucket lies in a word of each place of the ring and holds the latest
record of it; each record has the one before it in its bucket (as in `joins/keys.py`, ids only fall
along such a chain, which ends where they are no longer kept).

The judgement alone decides. What is certain to be left out is not looked for besides (`joins/first.py`).
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.primitives import (
    at_word,
    keep_alive,
    pointer,
    signed,
    trailing_zeros,
    within,
)
from piestream.compiled.records import Array, Words, kernel
from piestream.intervals.ticks import minus, plus
from piestream.joins.orders import BY_START, scattered
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.rings import Ring, grow_ring
from piestream.joins.state_records import NO_MATCH, GivenMatch, Slot


@kernel
def identify(partition: Partition, ids: Words, identity: Words) -> None:
    """Write down the identity of the intervals of ONCE PER: start and row number of each."""
    program = partition.program
    for k in range(program.n_once):
        s = program.once[k]
        identity[2 * k] = partition.ring(s).slot(ids[s])[program.start_instant]
        identity[2 * k + 1] = partition.row_number(s, ids[s])


@kernel
def _bucket(ring: Ring, identity: Words, count: int) -> GivenMatch:
    """The place that heads the matches with the hash of these words."""
    mixed = scattered(count)
    for word in range(count):
        mixed = scattered(signed(mixed >> np.uint64(1)) ^ identity[word])
    place = signed(mixed >> np.uint64(1)) & (ring.capacity - 1)
    return GivenMatch(ring.slot(place))


@kernel
def was_given(partition: Partition, identity: Words) -> bool:
    """Whether a match with these intervals has been given."""
    ring = partition.given_matches()
    if not ring.capacity:
        return False
    count = 2 * partition.program.n_once
    at = _bucket(ring, identity, count).bucket - 1
    while at >= ring.head:
        match = GivenMatch(ring.slot(at))
        word = 0
        while word < count and match.identity[word] == identity[word]:
            word += 1
        if word == count:
            return True
        at = match.chained - 1
    return False


@kernel
def _chain(ring: Ring, number: int, count: int) -> None:
    """Put a record into its bucket."""
    match = GivenMatch(ring.slot(number))
    bucket = _bucket(ring, match.identity, count)
    match.chained = bucket.bucket
    bucket.bucket = number + 1


@kernel
def index_given(partition: Partition) -> None:
    """Make the index anew, in a ring that was moved or comes from elsewhere."""
    ring = partition.given_matches()
    for place in range(ring.capacity):
        GivenMatch(ring.slot(place)).bucket = 0
    for number in range(ring.head, ring.tail):
        _chain(ring, number, 2 * partition.program.n_once)


@kernel
def _earliest_kept(partition: Partition, s: int) -> int:
    """When the first of a symbol's intervals began that are kept."""
    ring = partition.ring(s)
    if ring.head == ring.tail:
        return INT64_MAX
    if not partition.program.rows >> s & 1:
        return ring.slot(ring.head)[partition.program.start_instant]
    by_start = partition.order(s, BY_START)
    at = by_start.root
    if at == NONE:
        return INT64_MAX
    while by_start.node(at).left != NONE:
        at = by_start.node(at).left
    return by_start.slot(at)[partition.program.start_instant]


@kernel
def forget_given(partition: Partition, floor: int) -> None:
    """Forget what was given before a match began that can be reported at a floor.

    Where the intervals of ONCE PER are all kept after their ends, it is those of which one is gone.
    """
    program = partition.program
    ring = partition.given_matches()
    if program.given_kept != NONE:
        ring.expire(floor, 0, program.given_kept)
        return
    while ring.head < ring.tail:
        match = GivenMatch(ring.slot(ring.head))
        is_gone = False
        for k in range(program.n_once):
            is_gone = is_gone or match.identity[2 * k] < _earliest_kept(partition, program.once[k])
        if not is_gone:
            break
        ring.head += 1


@kernel
def room_to_give(
    place: Words, program: Program, pool_array: Array, count: int, floor: int
) -> Array:
    """The pool with room for so many records more; those that no match can repeat go."""
    header = Partition(place, program, pointer(pool_array)).rings[program.given_ring]
    if header.capacity:
        forget_given(Partition(place, program, pointer(pool_array)), floor)
    while header.tail - header.head + count > header.capacity:
        pool_array = grow_ring(header, pool_array, program.given_width)
        index_given(Partition(place, program, pointer(pool_array)))
        keep_alive(pool_array)
    return pool_array


@kernel
def is_barred(partition: Partition, time: int) -> bool:
    """Whether no match reported at this time is given, whatever it is."""
    program = partition.program
    given = partition.given()
    if program.limit != NONE and given.count >= program.limit:
        return True
    return (
        program.cooldown != NONE
        and given.count > 0
        and time <= plus(given.latest, program.cooldown)
    )


@kernel
def earliest_given(partition: Partition, floor: int) -> int:
    """Before which time a match must not begin to be given; at least ``floor``."""
    given = partition.given()
    if partition.program.no_overlap and given.count:
        return max(floor, given.latest)
    return floor


@kernel
def judge(partition: Partition, identity: Words, earliest: int, time: int, instant: int) -> bool:
    """Whether a match is given that begins at ``earliest`` and is reported now; notes that it is.

    ``earliest`` is an instant, and ``instant`` that of the report. For ONCE PER there must be room.
    """
    program = partition.program
    given = partition.given()
    if is_barred(partition, time):
        return False
    if program.no_overlap and given.count:
        latest = partition.sequence().given if program.is_sequenced else given.latest
        if earliest < latest:
            return False
    if program.n_once and was_given(partition, identity):
        return False
    given.count += 1
    given.latest = time
    if program.is_sequenced:
        partition.sequence().given = instant
    if program.n_once:
        ring = partition.given_matches()
        match = GivenMatch(ring.slot(ring.tail))
        match.time = time
        for word in range(2 * program.n_once):
            match.identity[word] = identity[word]
        ring.tail += 1
        _chain(ring, ring.tail - 1, 2 * program.n_once)
    return True


@kernel
def is_spent(partition: Partition, slot: Slot) -> bool:
    """Whether a match with this run has been given, and no other is."""
    identity = np.zeros(2, np.int64)
    identity[0] = slot[partition.program.start_instant]
    spent = was_given(partition, pointer(identity))
    keep_alive(identity)
    return spent


@kernel
def spend(partition: Partition, ids: Words) -> None:
    """Bar the run of a match that was given from all others."""
    rest = partition.program.given_once
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        partition.ring(s).slot(ids[s]).match_bound = NO_MATCH
        partition.ring(s).clear_candidate(ids[s])


@kernel
def is_remembered(partition: Partition, now: int) -> bool:
    """Whether the matches given so far restrict matches of intervals that are not held.

    They may begin later, or be held elsewhere (`archives/live_limits.py`).
    """
    program = partition.program
    if program.given_at == NONE or not partition.given().count:
        return False
    if program.limit != NONE:
        return True
    if program.given_ring != NONE:
        given = partition.given_matches()
        if given.head < given.tail:
            return True
    return program.cooldown != NONE and now <= plus(partition.given().latest, program.cooldown)


@kernel
def judge_rows(
    program_array: Array, partitions_array: Array, pool_array: Array, judged: tuple[Array, Array],
    passes: Array,
) -> Array:  # fmt: skip
    """Judge matches in the order of their rows; gives the pool.

    ``judged``: of each match its partition, the time of its report, its earliest start and its report
    as instants; and its identity.
    """
    of_rows, identities = judged
    program = Program(pointer(program_array))
    partitions = pointer(partitions_array)
    words = program.partition_words
    place = partitions
    for k in range(passes.size):
        row = at_word(pointer(of_rows), 4 * k)
        place = within(partitions, row[0] * words, words)
        time = row[1]
        if program.n_once:
            pool_array = room_to_give(place, program, pool_array, 1, minus(time, program.shortest))
        partition = Partition(place, program, pointer(pool_array))
        identity = at_word(pointer(identities), 2 * program.n_once * k)
        passes[k] = judge(partition, identity, row[2], time, row[3])
        keep_alive(pool_array)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(judged)
    return pool_array
