"""The scan of one step of extension through a listed constraint: pairs one by one, ranges by the orders."""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word
from piestream.compiled.records import kernel, separate_kernel
from piestream.joins.boxes import Box, box_in
from piestream.joins.checks import passes
from piestream.joins.keys import bucket_of, equal_keys, next_with_key
from piestream.joins.listed import can_complete, discard, is_held, pair_at, set_aside
from piestream.joins.matches import Matches, Scanned
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import Join, Step
from piestream.joins.scratch import ScanCursor, ScanRange, Scratch
from piestream.joins.state_records import PairLists, Slot
from piestream.joins.uncertain import first_run_apart, is_apart, last_run_apart

__all__ = ["scan_listed"]


@kernel
def _next_list_range(partition: Partition, join: Join, source: Slot, cursor: ScanCursor) -> bool:
    """Move on to the next range of the source's partners in a listed constraint; False after all."""
    target = join.target
    ring = partition.ring(target)
    of_rows = partition.program.rows >> target & 1
    while cursor.range < ScanRange.LATER:
        cursor.range += 1
        cursor.next = NONE
        if cursor.range == ScanRange.PAIRS:
            cursor.next = PairLists(source.partners(join.partners)).completing
            return True
        if cursor.range == ScanRange.EARLIER:
            if not join.allows_earlier:
                continue
            if not of_rows:
                cursor.next = ring.head
                cursor.last = last_run_apart(partition, target, join.source, source)
        elif not join.allows_later or source.end == OPEN:
            continue
        elif not of_rows:
            cursor.next = first_run_apart(partition, join.source, source, target)
            cursor.last = ring.tail - 1
            latest = join.target_last_ended_before
            if cursor.last >= cursor.next and ring.latest()[latest] == NONE:
                cursor.last -= 1  # it has not been inserted yet
        if join.bucket != NONE:
            cursor.lo = ring.head if of_rows else cursor.next
            cursor.next = NONE
            if source[join.key] == 1 and ring.capacity:
                cursor.next = ring.pool[bucket_of(ring, join.key, source, join.bucket)] - 1
        return True
    return False


@kernel
def _next_listed_with_key(
    partition: Partition, scratch: Scratch, join: Join, source: Slot, cursor: ScanCursor, floor: int
) -> int:
    """The next partner in the cursor's range that has the source's key, and can complete a match."""
    target = join.target
    ring = partition.ring(target)
    of_rows = partition.program.rows >> target & 1
    while cursor.next >= cursor.lo:
        candidate, looked = next_with_key(
            ring, join.target_key, join.chain, cursor.next, cursor.lo, source[join.key + 1]
        )
        scratch.steps += 1 + looked
        if candidate == NONE:
            break
        slot = ring.slot(candidate)
        cursor.next = slot[join.chain] - 1
        if not of_rows:
            is_there = candidate <= cursor.last
        elif cursor.range == ScanRange.EARLIER:
            is_there = is_apart(partition, target, slot, join.source, source)
        else:
            is_there = is_apart(partition, join.source, source, target, slot)
        if is_there and can_complete(partition, target, candidate, floor):
            return candidate
    cursor.next = NONE
    return NONE


@kernel
def _next_listed(
    partition: Partition, scratch: Scratch, join: Join, source: Slot, cursor: ScanCursor, floor: int
) -> int:
    """The next partner in the cursor's range that can complete a match, else NONE.

    What cannot as a match must not begin before ``floor`` may still be held, and then keeps its pairs.
    """
    target = join.target
    if cursor.range == ScanRange.PAIRS:
        constraint = partition.program.constraints[join.constraint]
        while cursor.next != NONE:
            scratch.steps += 1
            pair_id = cursor.next
            pair = pair_at(partition, constraint, pair_id)
            candidate = pair.ids[1 - join.side]
            cursor.next = pair.next[join.side]
            if not is_held(partition, target, candidate, scratch.floor):
                discard(partition, constraint, pair_id, scratch.floor)
            elif not can_complete(partition, target, candidate, floor):
                set_aside(partition, constraint, join.side, pair_id)
            else:
                return candidate
        return NONE
    if join.bucket != NONE:
        return _next_listed_with_key(partition, scratch, join, source, cursor, floor)
    ring = partition.ring(target)
    while cursor.next <= cursor.last:
        candidate, looked = ring.next_candidate(cursor.next, cursor.last)
        scratch.steps += 1 + looked
        cursor.next = candidate + 1
        if candidate > cursor.last:
            return NONE
        if can_complete(partition, target, candidate, floor):
            return candidate
        ring.clear_candidate(candidate)
    return NONE


@kernel
def _rows_in_range(
    partition: Partition, join: Join, source: Slot, cursor: ScanCursor, floor: int
) -> Box:
    """The rows in the cursor's range that can complete a match."""
    if cursor.range == ScanRange.EARLIER:
        order = partition.order(join.target, BY_END)
        last = source[partition.program.start_instant] - 1
        return box_in(order, INT64_MIN, last, INT64_MIN, INT64_MAX, floor)
    order = partition.order(join.target, BY_START)
    first = source[partition.program.end_instant] + 1
    return box_in(order, first, INT64_MAX, INT64_MIN, INT64_MAX, floor)


@kernel
def _scan_rows(
    partition: Partition, scratch: Scratch, join: Join, step: Step, cursor: ScanCursor,
    matches: Matches, is_last: bool, floor: int,
) -> int:  # fmt: skip
    """What `scan` does, of the rows in one range; EXHAUSTED at its end."""
    target = join.target
    bound = scratch.bound
    source = Slot(at_word(partition.pool, bound[join.source].place))
    box = _rows_in_range(partition, join, source, cursor, floor)
    has_checks = step.checked | step.keyed != 0
    ends_late = cursor.range == ScanRange.LATER and partition.program.bridged >> join.source & 1
    candidate = cursor.next
    steps = 0
    outcome = Scanned.EXHAUSTED
    while True:
        candidate, looked = box.following(candidate)
        steps += looked
        if candidate == NONE:
            break
        slot = box.ring.slot(candidate)
        if ends_late and not is_apart(partition, join.source, source, target, slot):
            continue
        if has_checks and not passes(partition, join, step, slot, candidate, bound):
            continue
        bound[target].slot_id = candidate
        if not is_last:
            bound[target].place = box.ring.place(candidate)
            outcome = Scanned.BOUND
            break
        if scratch.n_matches == matches.capacity:
            outcome = Scanned.FULL
            break
        matches.write(scratch.n_matches, bound)
        scratch.n_matches += 1
    cursor.next = candidate
    scratch.steps += steps
    return outcome


@separate_kernel
def scan_listed(
    partition: Partition, scratch: Scratch, join: Join, step: Step, cursor: ScanCursor,
    matches: Matches, is_last: bool, floor: int,
) -> int:  # fmt: skip
    """What `scan` does, of a constraint of intervals that came as rows."""
    target = join.target
    ring = partition.ring(target)
    bound = scratch.bound
    source = Slot(at_word(partition.pool, bound[join.source].place))
    of_rows = partition.program.rows >> target & 1 and join.bucket == NONE
    while True:
        candidate = NONE
        if of_rows and cursor.range > ScanRange.PAIRS:
            outcome = _scan_rows(partition, scratch, join, step, cursor, matches, is_last, floor)
            if outcome != Scanned.EXHAUSTED:
                return outcome
        elif cursor.range != ScanRange.NONE:
            candidate = _next_listed(partition, scratch, join, source, cursor, floor)
        if candidate == NONE:
            if not _next_list_range(partition, join, source, cursor):
                return Scanned.EXHAUSTED
            continue
        slot = ring.slot(candidate)
        if join.key != NONE and not equal_keys(slot, join.target_key, source, join.key):
            continue
        if not passes(partition, join, step, slot, candidate, bound):
            continue
        bound[target].slot_id = candidate
        bound[target].place = ring.place(candidate)
        if not is_last:
            return Scanned.BOUND
        if scratch.n_matches == matches.capacity:
            return Scanned.FULL
        matches.write(scratch.n_matches, bound)
        scratch.n_matches += 1
