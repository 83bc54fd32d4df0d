"""Extension: from an item that was just decided to all matches that it completes.

A seed binds one or two symbols; every step binds one more through a constraint's index and checks
the constraints that close a cycle. Nothing partial is stored: a cursor a step says where it stands.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word
from piestream.compiled.records import inline_kernel, kernel
from piestream.intervals.ticks import plus
from piestream.joins.checks import passes
from piestream.joins.keys import bucket_of, equal_keys, next_with_key
from piestream.joins.matches import Matches, Scanned
from piestream.joins.pairs import first_live_partner, relations_of
from piestream.joins.partition import Partition
from piestream.joins.records import Join, Program, ScanMode, Seed, Step
from piestream.joins.rings import Ring
from piestream.joins.scan_listed import scan_listed
from piestream.joins.scratch import Paused, ScanCursor, ScanRange, Scratch
from piestream.joins.state_records import Slot

#: The depth of an extension that is finished.
DONE = -1


@inline_kernel
def _next_range(program: Program, ring: Ring, join: Join, source: Slot, cursor: ScanCursor) -> bool:
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
        cursor.next = ring.first_after(program, source, join.first_starting_after)
        cursor.last = ring.tail - 1
        if join.bucket != NONE:
            if cursor.next > cursor.last:
                continue
            cursor.lo = cursor.next
            cursor.next = ring.pool[bucket_of(ring, join.key, source, join.bucket)] - 1
        return True
    return False


@inline_kernel
def begin_scan(partition: Partition, join: Join, cursor: ScanCursor, floor: int) -> None:
    """Put the cursor before the first range."""
    has_ranges = join.last_ended_before != NONE or join.first_starting_after != NONE
    if has_ranges and not join.listed:
        ring = Ring(partition.rings[join.target], partition.pool, join.width)
        ring.expire(floor, join.kept_from, join.kept)
    cursor.range = ScanRange.NONE
    cursor.next = 1
    cursor.last = 0


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
    lead = join.lead
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
                partition.program, ring, join, source, cursor
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
        if min(slot.match_bound, plus(slot.start, lead)) < floor:
            if mode == ScanMode.ALL:  # it is none until its bound increases
                ring.clear_candidate(candidate)
            continue
        if candidate == ring.tail - 1:
            if not partition.valid >> target & 1:
                continue
            if cursor.range == ScanRange.LATER and slot[join.target_last_ended_before] < source_id:
                continue
        if mode == ScanMode.ALL_CHECKED or mode == ScanMode.ENDS_CHECKED:
            possible = relations_of(partition.program, source, slot)
            if possible & join.allowed != possible:
                continue
        if has_checks and not passes(partition, join, step, slot, candidate, bound):
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


@inline_kernel
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
            scanned = scan_listed(
                scratch.scan_listed_at, partition, scratch, join, step, cursor, matches, is_last, floor
            )  # fmt: skip
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
