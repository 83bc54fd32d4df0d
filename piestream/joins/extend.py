"""Extension: from what was just decided to all matches that it completes.

A seed binds one or two symbols; every step binds one more through a constraint's index and checks
the constraints that close a cycle. Nothing partial is stored: a cursor a step says where it stands.
"""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import Carried, Record, Rows, inline_kernel, kernel, method
from piestream.joins.keys import bucket_of, equal_keys, next_with_key
from piestream.joins.listed import can_complete, discard, is_held, is_listed, pair_at, set_aside
from piestream.joins.orders import BY_END, BY_START, box_in
from piestream.joins.pairs import first_live_partner, is_pair, possible_relations
from piestream.joins.partition import Partition
from piestream.joins.records import (
    Bound,
    Check,
    Join,
    PairLists,
    Paused,
    Program,
    ScanCursor,
    ScanMode,
    ScanRange,
    Scratch,
    Seed,
    Slot,
    Step,
)
from piestream.joins.rings import Ring
from piestream.joins.semijoin import every_row_symbol_can_complete
from piestream.joins.uncertain import first_start_apart, is_apart, last_end_apart

#: The depth of an extension that is finished.
DONE = -1


class Scanned(IntEnum):
    """Why the scan of a step stopped."""

    EXHAUSTED = 0
    BOUND = 1  # a candidate is bound to the step's target
    FULL = 2  # so it is, and it completes a match for which the buffer has no room


class Matches(Record):
    """The matches found at one event: of each, the slot ids of its intervals by symbol."""

    capacity: Carried[int]
    n_symbols: Carried[int]

    @method
    def write(self, number: int, bound: Rows[Bound]) -> None:
        """Write down the match that is bound."""
        n = self.n_symbols
        for s in range(n):
            self[number * n + s] = bound[s].slot_id

    @method
    def copy(self, first: int, to: int, count: int) -> None:
        """Copy so many matches."""
        n = self.n_symbols
        for word in range(count * n):
            self[to * n + word] = self[first * n + word]

    @method
    def bind(self, number: int, s: int, slot_id: int) -> None:
        """Put an interval into a match."""
        self[number * self.n_symbols + s] = slot_id


@kernel
def _next_range(ring: Ring, join: Join, source: Slot, cursor: ScanCursor) -> bool:
    """Move on to the next range of the source's partners; False after the last."""
    head = ring.head
    if join.key != NONE and source[join.key] != 1:
        return False  # NULL is equal to nothing
    while cursor.range < ScanRange.LATER:
        cursor.range += 1
        cursor.mode = ScanMode.ALL if join.bucket == NONE else ScanMode.BY_KEY
        if cursor.range == ScanRange.PAIRS:
            partners = source.partners(join.partners)
            lo = partners.lo
            hi = partners.hi
            if lo == NONE or hi < head:
                continue
            cursor.mode = join.scan
            cursor.lo = lo
            cursor.hi = hi
            cursor.last = hi
            cursor.next = first_live_partner(join.scan, partners, head)
            return True
        if cursor.range == ScanRange.EARLIER:
            if join.last_ended_before == NONE:
                continue
            cursor.next = head
            cursor.last = source[join.last_ended_before]
            if join.bucket != NONE:
                cursor.next = min(source[join.latest_with_key], ring.tail - 1)
                cursor.lo = head
                cursor.last = ring.tail - 1
            return True
        if join.first_starting_after == NONE or source[join.first_starting_after] == NONE:
            continue  # the source has not ended
        cursor.next = ring.first_after(source, join.first_starting_after)
        cursor.last = ring.tail - 1
        if join.bucket != NONE:
            if cursor.next > cursor.last:
                continue
            cursor.lo = cursor.next
            cursor.next = ring.pool[bucket_of(ring, join.key, source, join.bucket)] - 1
        return True
    return False


@kernel
def _is_listed_pair(
    partition: Partition, check: Check, slot: Slot, slot_id: int, other: Slot, other_id: int
) -> bool:
    """Whether two intervals that have been inserted are a pair of a listed constraint."""
    constraint = partition.program.constraints[check.constraint]
    mine = constraint.sides[check.side]
    s = constraint.symbols[check.side]
    s_other = constraint.symbols[1 - check.side]
    if mine.allows_earlier and is_apart(partition, s_other, other, s, slot):
        return True
    if mine.allows_later and is_apart(partition, s, slot, s_other, other):
        return True
    if check.side == 0:
        return is_listed(partition, constraint, slot_id, other_id)
    return is_listed(partition, constraint, other_id, slot_id)


@kernel
def _fits(
    partition: Partition, target: int, checked: int, slot: Slot, slot_id: int, bound: Rows[Bound]
) -> bool:
    """Whether a candidate fits symbols (as bits) that are bound: so cycles close."""
    program = partition.program
    first = target * program.n_symbols
    while checked:
        s = trailing_zeros(checked)
        checked &= checked - 1
        check = program.checks[first + s]
        other = Slot(at_word(partition.pool, bound[s].place))
        other_id = bound[s].slot_id
        if check.constraint == NONE:
            if slot[check.side] == other[check.side]:
                return False
        elif program.constraints[check.constraint].listed != NONE:
            if not _is_listed_pair(partition, check, slot, slot_id, other, other_id):
                return False
        elif not is_pair(
            program.constraints[check.constraint], check.side, slot, slot_id, other, other_id
        ):
            return False
    return True


@kernel
def _has_equal_keys(
    partition: Partition, join: Join, keyed: int, slot: Slot, bound: Rows[Bound]
) -> bool:
    """Whether the keys of a candidate are those of symbols (as bits) that are bound."""
    program = partition.program
    first = join.target * program.n_symbols
    while keyed:
        s = trailing_zeros(keyed)
        keyed &= keyed - 1
        check = program.checks[first + s]
        other = Slot(at_word(partition.pool, bound[s].place))
        mine = 0 if join.target < s else 1
        # by the first key of its partners the source has found them
        for number in range(check.keys + (s == join.source), check.keys_end):
            words = program.equal_keys[number].words
            if not equal_keys(slot, words[mine], other, words[1 - mine]):
                return False
    return True


@kernel
def _passes(
    partition: Partition, join: Join, step: Step, slot: Slot, slot_id: int, bound: Rows[Bound]
) -> bool:
    """Whether a candidate fulfils what the step checks of it."""
    if step.checked and not _fits(partition, join.target, step.checked, slot, slot_id, bound):
        return False
    return not step.keyed or _has_equal_keys(partition, join, step.keyed, slot, bound)


@kernel
def begin_scan(partition: Partition, join: Join, cursor: ScanCursor, floor: int) -> None:
    """Put the cursor before the first range."""
    has_ranges = join.last_ended_before != NONE or join.first_starting_after != NONE
    if has_ranges and not join.listed:
        Ring(partition.rings[join.target], partition.pool, join.width).expire(floor)
    cursor.range = ScanRange.NONE
    cursor.next = 1
    cursor.last = 0


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
                last_end = last_end_apart(partition, target, join.source, source)
                cursor.next = ring.head
                cursor.last = ring.first_ending_from(last_end + 1) - 1
        elif not join.allows_later or source.end == OPEN:
            continue
        elif not of_rows:
            first_start = first_start_apart(partition, join.source, source)
            cursor.next = ring.first_starting_from(first_start)
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
    """The next partner in the cursor's range that can complete a match, else NONE."""
    target = join.target
    if cursor.range == ScanRange.PAIRS:
        constraint = partition.program.constraints[join.constraint]
        while cursor.next != NONE:
            scratch.steps += 1
            pair_id = cursor.next
            pair = pair_at(partition, constraint, pair_id)
            candidate = pair.ids[1 - join.side]
            cursor.next = pair.next[join.side]
            if not is_held(partition, target, candidate, floor):
                discard(partition, constraint, pair_id, floor)
            elif not can_complete(partition, target, candidate, floor):
                set_aside(partition, constraint, join.side, pair_id)
            else:
                return candidate
        return NONE
    if join.bucket != NONE:
        return _next_listed_with_key(partition, scratch, join, source, cursor, floor)
    ring = partition.ring(target)
    if partition.program.rows >> target & 1:
        is_earlier = cursor.range == ScanRange.EARLIER
        by = BY_END if is_earlier else BY_START
        first = INT64_MIN if is_earlier else source.end + 1
        last = source.start - 1 if is_earlier else INT64_MAX
        order = partition.order(target, by)
        box = box_in(order, first, last, INT64_MIN, INT64_MAX, floor)
        candidate, looked = box.following(cursor.next)
        scratch.steps += looked
        while candidate != NONE and not (
            is_earlier or is_apart(partition, join.source, source, target, ring.slot(candidate))
        ):
            candidate, looked = box.following(candidate)
            scratch.steps += looked
        cursor.next = candidate
        return candidate
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
def scan_listed(
    partition: Partition, scratch: Scratch, join: Join, step: Step, cursor: ScanCursor,
    matches: Matches, is_last: bool, floor: int,
) -> int:  # fmt: skip
    """What `scan` does, of a constraint of intervals that came as rows."""
    target = join.target
    ring = partition.ring(target)
    bound = scratch.bound
    source = Slot(at_word(partition.pool, bound[join.source].place))
    while True:
        candidate = NONE
        if cursor.range != ScanRange.NONE:
            candidate = _next_listed(partition, scratch, join, source, cursor, floor)
        if candidate == NONE:
            if not _next_list_range(partition, join, source, cursor):
                return Scanned.EXHAUSTED
            continue
        slot = ring.slot(candidate)
        if join.key != NONE and not equal_keys(slot, join.target_key, source, join.key):
            continue
        if not _passes(partition, join, step, slot, candidate, bound):
            continue
        bound[target].slot_id = candidate
        bound[target].place = ring.place(candidate)
        if not is_last:
            return Scanned.BOUND
        if scratch.n_matches == matches.capacity:
            return Scanned.FULL
        matches.write(scratch.n_matches, bound)
        scratch.n_matches += 1


@inline_kernel
def scan(
    partition: Partition, scratch: Scratch, join: Join, step: Step, cursor: ScanCursor,
    matches: Matches, is_last: bool, floor: int,
) -> int:  # fmt: skip
    """Bind the step's next candidate to its target; of the last step, write down all the matches.

    Gives why it stopped (`Scanned`).
    """
    target = join.target
    ring = Ring(partition.rings[target], partition.pool, join.width)
    bound = scratch.bound
    source_id = bound[join.source].slot_id
    source = Slot(at_word(partition.pool, bound[join.source].place))
    has_ranges = join.last_ended_before != NONE or join.first_starting_after != NONE
    has_checks = step.checked | step.keyed != 0
    has_key = join.key != NONE
    outcome = Scanned.EXHAUSTED
    steps = 0
    following = cursor.next
    last = cursor.last
    mode = cursor.mode
    while True:
        candidate = following
        if mode == ScanMode.ALL and candidate < last:
            candidate, looked = ring.next_candidate(candidate, last)
            steps += looked
        elif mode == ScanMode.BY_KEY and candidate <= last:
            candidate, looked = next_with_key(
                ring, join.target_key, join.chain, candidate, cursor.lo, source[join.key + 1]
            )
            steps += looked
            if candidate == NONE:
                candidate = last + 1
        if candidate > last:
            if (cursor.range == ScanRange.PAIRS and not has_ranges) or not _next_range(
                ring, join, source, cursor
            ):
                break
            following = cursor.next
            last = cursor.last
            mode = cursor.mode
            continue
        steps += 1
        following = candidate + 1
        if mode == ScanMode.ENDS:
            following = max(following, cursor.hi)
        elif mode == ScanMode.ENDS_CHECKED and candidate > cursor.lo:
            following = max(following, cursor.hi - 1)

        place = ring.place(candidate)
        slot = Slot(at_word(partition.pool, place))
        if mode == ScanMode.BY_KEY:
            following = slot[join.chain] - 1
        elif has_key and not equal_keys(slot, join.target_key, source, join.key):
            continue
        if min(slot.match_bound, slot.start) < floor:
            if mode == ScanMode.ALL:  # it is none until its bound increases
                ring.clear_candidate(candidate)
            continue
        if candidate == ring.tail - 1:
            if not partition.valid >> target & 1:
                continue
            if cursor.range == ScanRange.LATER and slot[join.target_last_ended_before] < source_id:
                continue
        if mode == ScanMode.ALL_CHECKED or mode == ScanMode.ENDS_CHECKED:
            possible = possible_relations(source.start, source.end, slot.start, slot.end)
            if possible & join.allowed != possible:
                continue
        if has_checks and not _passes(partition, join, step, slot, candidate, bound):
            continue
        bound[target].slot_id = candidate
        bound[target].place = place
        if not is_last:
            outcome = Scanned.BOUND
            break
        if scratch.n_matches == matches.capacity:
            outcome = Scanned.FULL
            break
        matches.write(scratch.n_matches, bound)
        scratch.n_matches += 1
    cursor.next = following
    scratch.steps += steps
    return outcome


@kernel
def _emit_product(program: Program, seed: Seed, scratch: Scratch, matches: Matches) -> bool:
    """Write down the cached matches once more, with what the steps before them bind now.

    False where the buffer has no room for them.
    """
    first = scratch.n_matches
    count = scratch.cached_end - scratch.cached_matches
    if first + count > matches.capacity:
        return False
    matches.copy(scratch.cached_matches, first, count)
    for number in range(seed.step, seed.independent):
        s = program.joins[program.steps[number].join].target
        for match in range(first, first + count):
            matches.bind(match, s, scratch.bound[s].slot_id)
    scratch.n_matches += count
    scratch.steps += count
    return True


@kernel
def extend(partition: Partition, scratch: Scratch, matches: Matches, floor: int) -> bool:
    """Write down every match that the seed's bound intervals complete.

    ``scratch.bound`` holds the interval of each symbol. It begins at depth 0 and is DONE in the end.
    False where the buffer is full or the call pauses (`Scratch.paused`): call again, with a larger
    buffer if it is full, and it goes on where it was.

    What is found from the seed's independent step on does not depend on what the steps before it
    bound: it is looked for once, and emitted for every other binding of those.
    """
    program = partition.program
    seed = program.seeds[scratch.seed]
    n_steps = seed.step_end - seed.step
    independent = seed.independent - seed.step
    depth = scratch.depth
    begins = True
    if depth == 0:
        scratch.cached_matches = NONE
        scratch.cached_end = NONE
        if program.rows and n_steps and not every_row_symbol_can_complete(partition, floor):
            scratch.depth = DONE
            return True
    while depth >= 0:
        if depth == n_steps:
            if scratch.n_matches == matches.capacity:
                scratch.depth = depth
                return False
            matches.write(scratch.n_matches, scratch.bound)
            scratch.n_matches += 1
            depth -= 1
            begins = False
            continue
        if depth == independent and begins:
            if scratch.cached_end != NONE:
                if not _emit_product(program, seed, scratch, matches):
                    scratch.depth = depth
                    return False
                depth -= 1
                begins = False
                continue
            scratch.cached_matches = scratch.n_matches
        step = program.steps[seed.step + depth]
        join = program.joins[step.join]
        cursor = scratch.cursors[depth]
        if begins:
            if scratch.steps + scratch.visits >= scratch.pause_at:
                scratch.paused = Paused.INSIDE
                scratch.depth = depth
                return False
            begin_scan(partition, join, cursor, floor)
        is_last = depth + 1 == n_steps
        if join.listed:
            scanned = scan_listed(partition, scratch, join, step, cursor, matches, is_last, floor)
        else:
            scanned = scan(partition, scratch, join, step, cursor, matches, is_last, floor)
        if scanned == Scanned.FULL:
            scratch.depth = n_steps
            return False
        begins = scanned == Scanned.BOUND
        if begins:
            depth += 1
            continue
        if depth == independent and scratch.cached_end == NONE:
            scratch.cached_end = scratch.n_matches
            if scratch.cached_end == scratch.cached_matches:
                break  # then nothing is found, whatever the steps before bind
        depth -= 1
    scratch.depth = DONE
    return True
