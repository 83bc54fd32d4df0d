"""Extension: from what was just decided to all matches that it completes.

A seed binds one or two symbols; every step binds one more through a constraint's index and checks
the constraints that close a cycle. Nothing partial is stored: the walk is a stack of ranges.
"""

from __future__ import annotations

from piestream.compiled.layout import (
    NOWHERE,
    PIECE_EARLIER,
    PIECE_LATER,
    PIECE_PAIRS,
    WALK_ALL,
    WALK_ALL_CHECKED,
    WALK_ENDS,
    WALK_ENDS_CHECKED,
)
from piestream.compiled.loops import at_word
from piestream.compiled.records import Rows, Words, kernel
from piestream.joins.pairs import is_pair, possible_relations
from piestream.joins.partition import Partition
from piestream.joins.records import Bound, Query, Scratch, Slot, Step, Walk
from piestream.joins.rings import Ring

#: The depth of a walk that has ended.
DONE = -1


@kernel
def _open_piece(ring: Ring, step: Step, here: Slot, walk: Walk) -> bool:
    """Move on to the next range of partners of the interval at ``here``; False after the last."""
    head = ring.head
    while walk.piece < PIECE_EARLIER:
        walk.piece += 1
        walk.how = WALK_ALL
        if walk.piece == PIECE_PAIRS:
            lo = here[step.lo]
            hi = here[step.lo + 1]
            if lo == NOWHERE or hi < head:
                continue
            walk.how = step.walk
            walk.lo = lo
            walk.hi = hi
            walk.last = hi
            start = max(lo, head)
            if start > lo and step.walk == WALK_ENDS:
                start = hi
            elif start > lo + 1 and step.walk == WALK_ENDS_CHECKED:
                start = max(start, hi - 1)
            walk.next = start
            return True
        if walk.piece == PIECE_LATER:
            if step.later == NOWHERE:
                continue
            walk.next = head
            walk.last = here[step.later]
            return True
        if step.earlier == NOWHERE or here[step.earlier] == NOWHERE:  # `here` has not ended
            continue
        walk.next = ring.first_after(here, step.earlier)
        walk.last = ring.tail - 1
        return True
    return False


@kernel
def _passes(
    query: Query, step: Step, slot: Slot, candidate: int, bound: Rows[Bound], pool: Words
) -> bool:
    """Whether a candidate fulfils the constraints that close a cycle."""
    for number in range(step.check, step.check_end):
        check = query.checks[number]
        other = bound[check.other]
        there = Slot(at_word(pool, other.place))
        if check.constraint == NOWHERE:
            if slot.start == there.start:
                return False
        elif not is_pair(
            query.constraints[check.constraint], check.side, slot, candidate, there, other.slot_id
        ):
            return False
    return True


@kernel
def _write(found: Words, match: int, bound: Rows[Bound], n: int) -> None:
    """Write down the match that is bound."""
    for s in range(n):
        found[match * n + s] = bound[s].slot_id


@kernel
def _repeat(
    query: Query, seed: int, found: Words, first: int, count: int, to: int, bound: Rows[Bound]
) -> None:
    """Write down matches once more, with what is bound now by the steps before the split."""
    n = query.n_symbols
    for word in range(count * n):
        found[to * n + word] = found[first * n + word]
    for number in range(query.seeds[seed].step, query.seeds[seed].split):
        s = query.steps[number].target
        for k in range(to, to + count):
            found[k * n + s] = bound[s].slot_id


@kernel
def extend(
    part: Partition,
    scratch: Scratch,
    floor: int,
    seed: int,
    found: Words,
    room: int,
    count: int,
    depth: int,
) -> tuple[int, int, int]:
    """Append to ``found`` the slot ids of every match that the seed's bound intervals complete.

    ``scratch.bound`` holds the interval of each symbol.
    The walk begins at depth 0. It gives the number found and DONE, or, where there is no ``room`` in
    ``found`` for more, the depth at which to go on with a larger one; and how many candidates, and
    words that tell of many at once, it looked at.

    What is found from the seed's split on does not depend on what the steps before it bound: it is
    looked for once, noted in ``again``, and repeated for every other binding of those.
    """
    query = part.query
    bound = scratch.bound
    n = query.n_symbols
    first = query.seeds[seed].step
    depth_end = query.seeds[seed].step_end - first
    split = query.seeds[seed].split - first
    steps = 0
    entering = True
    if depth == 0:
        scratch.again = NOWHERE
        scratch.again_end = NOWHERE
    while depth >= 0:
        if depth == depth_end:
            if count == room:
                return count, depth, steps
            _write(found, count, bound, n)
            count += 1
            depth -= 1
            entering = False
            continue
        if depth == split and entering:
            if scratch.again_end != NOWHERE:
                more = scratch.again_end - scratch.again
                if count + more > room:
                    return count, depth, steps
                _repeat(query, seed, found, scratch.again, more, count, bound)
                count += more
                steps += more
                depth -= 1
                entering = False
                continue
            scratch.again = count

        step = query.steps[first + depth]
        walk = scratch.walks[depth]
        target = step.target
        ring = Ring(part.rings[target], part.pool, step.width)
        source = bound[step.source]
        here = Slot(at_word(part.pool, source.place))
        ranged = step.later != NOWHERE or step.earlier != NOWHERE
        checked = step.check < step.check_end
        if entering:
            if ranged:
                ring.expire(floor)
            walk.piece = 0
            walk.next = 1
            walk.last = 0
            entering = False
        following = walk.next
        last = walk.last
        how = walk.how
        stepped = False
        while not stepped:
            candidate = following
            if how == WALK_ALL and candidate < last:
                candidate, looked = ring.next_worthy(candidate, last)
                steps += looked
            if candidate > last:
                if (walk.piece == PIECE_PAIRS and not ranged) or not _open_piece(
                    ring, step, here, walk
                ):
                    break
                following = walk.next
                last = walk.last
                how = walk.how
                continue
            steps += 1
            # where to go after this one
            following = candidate + 1
            if how == WALK_ENDS:
                following = max(following, walk.hi)
            elif how == WALK_ENDS_CHECKED and candidate > walk.lo:
                following = max(following, walk.hi - 1)

            place = ring.place(candidate)
            slot = Slot(at_word(part.pool, place))
            if min(slot.reach, slot.start) < floor:
                if how == WALK_ALL:  # it will not be worth a visit until its reach grows
                    ring.unmark(candidate)
                continue
            if candidate == ring.tail - 1:
                if not part.valid >> target & 1:
                    continue
                if walk.piece == PIECE_EARLIER and slot[step.met] < source.slot_id:
                    continue
            if how >= WALK_ALL_CHECKED:
                possible = possible_relations(here.start, here.end, slot.start, slot.end)
                if possible & step.allowed != possible:
                    continue
            if checked and not _passes(query, step, slot, candidate, bound, part.pool):
                continue
            bound[target].slot_id = candidate
            bound[target].place = place
            if depth + 1 < depth_end:
                stepped = True
            elif count == room:
                walk.next = following
                return count, depth_end, steps
            else:
                _write(found, count, bound, n)
                count += 1
        walk.next = following
        if stepped:
            depth += 1
            entering = True
            continue
        if depth == split and scratch.again_end == NOWHERE:
            scratch.again_end = count
            if count == scratch.again:
                break
        depth -= 1
    return count, DONE, steps
