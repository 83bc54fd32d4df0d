"""Extension: from what was just decided to all matches that it completes.

A seed binds one or two symbols; every step binds one more through a constraint's index and checks
the constraints that close a cycle. Nothing partial is stored: a cursor a step says where it stands.
"""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import Carried, Record, Rows, inline_kernel, kernel, method
from piestream.joins.pairs import first_live_partner, is_pair, possible_relations
from piestream.joins.partition import Partition
from piestream.joins.records import (
    Bound,
    Join,
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

#: The depth of an extension that is finished.
DONE = -1


class _Scanned(IntEnum):
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
    while cursor.range < ScanRange.LATER:
        cursor.range += 1
        cursor.mode = ScanMode.ALL
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
            return True
        if join.first_starting_after == NONE or source[join.first_starting_after] == NONE:
            continue  # the source has not ended
        cursor.next = ring.first_after(source, join.first_starting_after)
        cursor.last = ring.tail - 1
        return True
    return False


@kernel
def _passes(
    partition: Partition, target: int, checked: int, slot: Slot, slot_id: int, bound: Rows[Bound]
) -> bool:
    """Whether a candidate fits the symbols (as bits) that close a cycle."""
    program = partition.program
    first = target * program.n_symbols
    while checked:
        s = trailing_zeros(checked)
        checked &= checked - 1
        check = program.checks[first + s]
        other = Slot(at_word(partition.pool, bound[s].place))
        if check.constraint == NONE:
            if slot.start == other.start:
                return False
        elif not is_pair(
            program.constraints[check.constraint],
            check.side,
            slot,
            slot_id,
            other,
            bound[s].slot_id,
        ):
            return False
    return True


@kernel
def _begin_scan(partition: Partition, join: Join, cursor: ScanCursor, floor: int) -> None:
    """Put the cursor before the first range."""
    if join.last_ended_before != NONE or join.first_starting_after != NONE:
        Ring(partition.rings[join.target], partition.pool, join.width).expire(floor)
    cursor.range = ScanRange.NONE
    cursor.next = 1
    cursor.last = 0


@inline_kernel
def _scan(
    partition: Partition, scratch: Scratch, step: Step, cursor: ScanCursor, matches: Matches,
    is_last: bool, floor: int,
) -> int:  # fmt: skip
    """Bind the step's next candidate to its target; of the last step, write down all the matches.

    Gives why it stopped (`_Scanned`).
    """
    join = partition.program.joins[step.join]
    checked = step.checked
    target = join.target
    ring = Ring(partition.rings[target], partition.pool, join.width)
    bound = scratch.bound
    source_id = bound[join.source].slot_id
    source = Slot(at_word(partition.pool, bound[join.source].place))
    has_ranges = join.last_ended_before != NONE or join.first_starting_after != NONE
    outcome = _Scanned.EXHAUSTED
    steps = 0
    following = cursor.next
    last = cursor.last
    mode = cursor.mode
    while True:
        candidate = following
        if mode == ScanMode.ALL and candidate < last:
            candidate, looked = ring.next_candidate(candidate, last)
            steps += looked
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
        if min(slot.match_bound, slot.start) < floor:
            if mode == ScanMode.ALL:  # it is none until its bound increases
                ring.clear_candidate(candidate)
            continue
        if candidate == ring.tail - 1:
            if not partition.valid >> target & 1:
                continue
            if cursor.range == ScanRange.LATER and slot[join.target_last_ended_before] < source_id:
                continue
        if mode >= ScanMode.ALL_CHECKED:
            possible = possible_relations(source.start, source.end, slot.start, slot.end)
            if possible & join.allowed != possible:
                continue
        if checked and not _passes(partition, target, checked, slot, candidate, bound):
            continue
        bound[target].slot_id = candidate
        bound[target].place = place
        if not is_last:
            outcome = _Scanned.BOUND
            break
        if scratch.n_matches == matches.capacity:
            outcome = _Scanned.FULL
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
        cursor = scratch.cursors[depth]
        if begins:
            if scratch.steps + scratch.visits >= scratch.pause_at:
                scratch.paused = Paused.INSIDE
                scratch.depth = depth
                return False
            _begin_scan(partition, program.joins[step.join], cursor, floor)
        is_last = depth + 1 == n_steps
        scanned = _scan(partition, scratch, step, cursor, matches, is_last, floor)
        if scanned == _Scanned.FULL:
            scratch.depth = n_steps
            return False
        begins = scanned == _Scanned.BOUND
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
