"""Extension for ONCE PER, COOLDOWN and NO OVERLAP: of the matches of which one is given, only the first.

Of the matches of one event that have the same intervals of ONCE PER only the first may be given; and
under COOLDOWN or NO OVERLAP, of all matches of an event. The first is the one that comes first in the
result: with the earliest starts, symbol by symbol in the order in which rows are sorted. So where the
symbols that tell such matches *apart* are bound, a branch is left as soon as nothing in it can
precede the match found before (branch and bound). Later candidates of a range only start later: with
the first that is left, the range is.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer, signed, trailing_zeros
from piestream.compiled.records import (
    Array,
    Carried,
    Record,
    Words,
    kernel,
    method,
    separate_kernel,
)
from piestream.joins.boxes import least_start
from piestream.joins.extend import DONE, begin_scan, scan
from piestream.joins.given import earliest_given, identify, was_given
from piestream.joins.matches import Matches, Scanned
from piestream.joins.orders import scattered
from piestream.joins.partition import Partition
from piestream.joins.records import Program, ScanMode, Seed
from piestream.joins.scan_listed import scan_listed
from piestream.joins.scratch import Paused, Scratch
from piestream.joins.state_records import NO_MATCH


@kernel
def _bound_before(program: Program, seed: Seed, depth: int) -> int:
    """The symbols (as bits) that are bound before the step at this depth."""
    bound = NONE
    for number in range(seed.step + depth, seed.step_end):
        bound &= ~(1 << program.joins[program.steps[number].join].target)
    return bound


@kernel
def _earliest_start(partition: Partition, s: int, floor: int) -> int:
    """An instant before which no interval of a symbol that is still to be bound starts."""
    ring = partition.ring(s)
    symbol = partition.program.symbols[s]
    if not ring.capacity:
        return INT64_MIN
    if partition.program.rows >> s & 1:
        return least_start(partition.program, symbol.first_start(floor))
    last = ring.tail - 1
    candidate = ring.next_candidate(ring.head, last)[0]
    while candidate <= last:
        slot = ring.slot(candidate)
        if min(slot.match_bound, symbol.own_bound(slot)) >= floor:
            return slot[partition.program.start_instant]
        ring.clear_candidate(candidate)  # it is none until its bound increases
        candidate = ring.next_candidate(candidate + 1, last)[0]
    return INT64_MAX


class Found(Record):
    """The matches of an event by their intervals of the symbols that tell them apart: a hash table."""

    numbers: Words  # of matches, NONE where there is none

    capacity: Carried[int]  # a power of two, more than matches
    matches: Carried[Matches]
    program: Carried[Program]

    @method
    def place_of(self, ids: Words) -> int:
        """The place of the match with these ids, by symbol; if there is none, where it belongs."""
        program = self.program
        mixed = np.uint64(0)
        for k in range(program.n_apart):
            mixed = scattered(signed(mixed >> np.uint64(1)) ^ ids[program.apart[k]])
        place = signed(mixed >> np.uint64(1)) & (self.capacity - 1)
        while self.numbers[place] != NONE:
            theirs = at_word(self.matches, self.numbers[place] * program.n_symbols)
            k = 0
            while k < program.n_apart and theirs[program.apart[k]] == ids[program.apart[k]]:
                k += 1
            if k == program.n_apart:
                break
            place = (place + 1) & (self.capacity - 1)
        return place


@kernel
def _table_of(matches: Matches, program: Program, count: int) -> Array:
    """The words of a table with these first matches, and room for more."""
    capacity = 8
    while capacity < 4 * count:
        capacity *= 2
    words = np.full(capacity, NONE, np.int64)
    found = Found(pointer(words), capacity, matches, program)
    for number in range(count):
        found.numbers[found.place_of(at_word(matches, number * program.n_symbols))] = number
    keep_alive(words)
    return words


@kernel
def _may_precede(
    partition: Partition, scratch: Scratch, bound: int, ids: Words, floor: int
) -> bool:
    """Whether a match with the intervals bound so far may precede another one in the result."""
    program = partition.program
    for k in range(program.n_symbols):
        s = program.sort_order[k]
        theirs = partition.ring(s).slot(ids[s])[program.start_instant]
        if bound >> s & 1:
            mine = partition.ring(s).slot(scratch.bound[s].slot_id)[program.start_instant]
        else:
            mine = _earliest_start(partition, s, floor)
        if mine != theirs:
            return mine < theirs
    for k in range(program.n_symbols):  # intervals that came as rows may start together
        s = program.sort_order[k]
        if not bound >> s & 1:
            return program.rows != 0
        mine = partition.row_number(s, scratch.bound[s].slot_id)
        theirs = partition.row_number(s, ids[s])
        if mine != theirs:
            return mine < theirs
    return False


class _Left(IntEnum):
    """Whether a branch is cut off, and why."""

    NO = 0
    GIVEN = 1  # a match with the intervals of ONCE PER was given before
    LATER = 2  # nothing in it precedes what was found at this event
    OVERLAPS = 3  # it began before the last match that was given was reported


@kernel
def _begins_before(partition: Partition, scratch: Scratch, bound: int, time: int) -> bool:
    """Whether an interval of the symbols (as bits) that are bound began before a time."""
    while bound:
        s = trailing_zeros(bound)
        bound &= bound - 1
        if partition.ring(s).slot(scratch.bound[s].slot_id).start < time:
            return True
    return False


@kernel
def _left_out(
    partition: Partition, scratch: Scratch, found: Found, bound: int, room: Words, floor: int
) -> int:
    """Whether no match with what is bound is given, and why (`_Left`).

    ``room`` is for the ids of all symbols, and behind them for an identity.
    """
    program = partition.program
    for s in range(program.n_symbols):
        room[s] = scratch.bound[s].slot_id  # those that are not bound are not looked at
    if program.no_overlap:  # not all of these are below the floor, where symbols have windows
        began = earliest_given(partition, NO_MATCH)
        symbols = bound & (NONE if program.n_symbols == 64 else (1 << program.n_symbols) - 1)
        if began != NO_MATCH and _begins_before(partition, scratch, symbols, began):
            return _Left.OVERLAPS
    if program.n_once and not program.once_symbols & ~bound:
        identity = at_word(room, program.n_symbols)
        identify(partition, room, identity)
        if was_given(partition, identity):
            return _Left.GIVEN
    if program.apart_symbols & ~bound:
        return _Left.NO
    number = found.numbers[found.place_of(room)]
    if number == NONE:
        return _Left.NO
    ids = at_word(found.matches, number * program.n_symbols)
    if _may_precede(partition, scratch, bound, ids, floor):
        return _Left.NO
    return _Left.LATER


@kernel
def _take(scratch: Scratch, found: Found, room: Words) -> None:
    """Write down the bound match, in place of one that it precedes."""
    program = found.program
    for s in range(program.n_symbols):
        room[s] = scratch.bound[s].slot_id
    place = found.place_of(room)
    if found.numbers[place] == NONE:
        found.numbers[place] = scratch.n_matches
        scratch.n_matches += 1
    found.matches.write(found.numbers[place], scratch.bound)


@separate_kernel
def extend_to_first(partition: Partition, scratch: Scratch, matches: Matches, floor: int) -> bool:
    """Do what `extend` does, but write down only matches that may be given."""
    program = partition.program
    seed = program.seeds[scratch.seed]
    n_steps = seed.step_end - seed.step
    depth = scratch.depth
    bound = _bound_before(program, seed, depth)
    begins = True
    room_array = np.empty(program.n_symbols + 2 * program.n_once, np.int64)
    room = pointer(room_array)
    table = _table_of(matches, program, scratch.n_matches)
    found = Found(pointer(table), table.size, matches, program)
    if depth == 0 and _left_out(partition, scratch, found, bound, room, floor):
        depth = DONE
    while depth >= 0:
        if depth == n_steps:
            if scratch.n_matches == matches.capacity:
                scratch.depth = depth
                keep_alive(table)
                return False
            _take(scratch, found, room)
            if 2 * scratch.n_matches > table.size:
                table = _table_of(matches, program, scratch.n_matches)
                found = Found(pointer(table), table.size, matches, program)
            depth -= 1
            begins = False
            continue
        step = program.steps[seed.step + depth]
        join = program.joins[step.join]
        cursor = scratch.cursors[depth]
        if begins:
            if scratch.steps + scratch.visits >= scratch.pause_at:
                scratch.paused = Paused.INSIDE
                scratch.depth = depth
                keep_alive(table)
                return False
            begin_scan(partition, join, cursor, floor)
        bound &= ~(1 << join.target)
        if join.listed:
            scanned = scan_listed(
                scratch.scan_listed_at, partition, scratch, join, step, cursor, matches, False, floor
            )  # fmt: skip
        else:
            scanned = scan(partition, scratch, join, step, cursor, matches, False, floor)
        begins = scanned == Scanned.BOUND
        if not begins:
            depth -= 1
            continue
        are_told_apart = not program.apart_symbols & ~bound
        bound |= 1 << join.target
        left = _left_out(partition, scratch, found, bound, room, floor)
        if left == _Left.NO:
            depth += 1
            continue
        begins = False
        may_end = not join.listed and cursor.mode != ScanMode.BY_KEY
        if left == _Left.LATER and are_told_apart and may_end:
            cursor.next = cursor.last + 1
    scratch.depth = DONE
    keep_alive(room_array)
    keep_alive(table)
    return True
