"""Extension: from what was just decided to all matches that it completes.

A seed binds one or two symbols; every step binds one more through a constraint's index and checks
the constraints that close a cycle. Nothing partial is stored: the walk is a stack of ranges.
"""

from __future__ import annotations

from numba import types

from piestream.joins.layout import (
    CHECK_CONSTRAINT,
    CHECK_OTHER,
    CHECK_SIDE,
    CHECK_WORDS,
    CHECKS_AT,
    END,
    N_SYMBOLS,
    NOWHERE,
    PIECE_EARLIER,
    PIECE_LATER,
    PIECE_PAIRS,
    REACH,
    RING_HEAD,
    RING_TAIL,
    SEED_END,
    SEED_FIRST,
    SEED_SPLIT,
    SEED_WORDS,
    SEEDS_AT,
    START,
    STEP_ALLOWED,
    STEP_CHECKS,
    STEP_CHECKS_END,
    STEP_EARLIER,
    STEP_LATER,
    STEP_LO,
    STEP_MET,
    STEP_RING,
    STEP_SOURCE,
    STEP_TARGET,
    STEP_WALK,
    STEP_WIDTH,
    STEP_WORDS,
    STEPS_AT,
    VALID,
    WALK_ALL,
    WALK_ALL_CHECKED,
    WALK_ENDS,
    WALK_ENDS_CHECKED,
    WALK_WORDS,
)
from piestream.joins.pairs import first_after, is_pair, possible_relations
from piestream.joins.rings import expire, next_worthy, slot_of, unmark
from piestream.loops import BOOL, INT, NOTHING, WORDS, compiled

#: The depth of a walk that has ended.
DONE = -1

# what is kept of each depth of the walk
_PIECE, _NEXT, _LAST, _LO, _HI, _WALK = range(WALK_WORDS)

# what is kept of the matches that are repeated: the first of them, and behind the last
_AGAIN, _AGAIN_END = range(2)


@compiled(BOOL, WORDS, WORDS, WORDS, INT, INT, WORDS, INT)
def _open_piece(code, part, pool, step, here, walk, at):
    """Move on to the next range of partners of the interval at ``here``; False after the last."""
    ring = code[step + STEP_RING]
    head = part[ring + RING_HEAD]
    while walk[at + _PIECE] < PIECE_EARLIER:
        piece = walk[at + _PIECE] + 1
        walk[at + _PIECE] = piece
        walk[at + _WALK] = WALK_ALL
        if piece == PIECE_PAIRS:
            lo = pool[here + code[step + STEP_LO]]
            hi = pool[here + code[step + STEP_LO] + 1]
            if lo == NOWHERE or hi < head:
                continue
            how = code[step + STEP_WALK]
            walk[at + _WALK] = how
            walk[at + _LO] = lo
            walk[at + _HI] = hi
            walk[at + _LAST] = hi
            start = max(lo, head)
            if start > lo and how == WALK_ENDS:
                start = hi
            elif start > lo + 1 and how == WALK_ENDS_CHECKED:
                start = max(start, hi - 1)
            walk[at + _NEXT] = start
            return True
        if piece == PIECE_LATER:
            if code[step + STEP_LATER] == NOWHERE:
                continue
            walk[at + _NEXT] = head
            walk[at + _LAST] = pool[here + code[step + STEP_LATER]]
            return True
        if code[step + STEP_EARLIER] == NOWHERE:
            continue
        if pool[here + code[step + STEP_EARLIER]] == NOWHERE:  # this interval has not ended
            continue
        walk[at + _NEXT] = first_after(
            part, pool, ring, code[step + STEP_WIDTH], here, code[step + STEP_EARLIER]
        )
        walk[at + _LAST] = part[ring + RING_TAIL] - 1
        return True
    return False


@compiled(BOOL, WORDS, WORDS, INT, INT, INT, WORDS, INT)
def _passes(code, pool, step, slot, candidate, bound, n):
    """Whether a candidate fulfils the constraints that close a cycle."""
    check = code[CHECKS_AT] + code[step + STEP_CHECKS] * CHECK_WORDS
    check_end = code[CHECKS_AT] + code[step + STEP_CHECKS_END] * CHECK_WORDS
    while check < check_end:
        other = code[check + CHECK_OTHER]
        if code[check + CHECK_CONSTRAINT] == NOWHERE:
            if pool[slot + START] == pool[bound[n + other] + START]:
                return False
        elif not is_pair(
            code,
            pool,
            code[check + CHECK_CONSTRAINT],
            code[check + CHECK_SIDE],
            slot,
            candidate,
            bound[n + other],
            bound[other],
        ):
            return False
        check += CHECK_WORDS
    return True


@compiled(NOTHING, WORDS, INT, WORDS, INT)
def _write(found, match, bound, n):
    """Write down the match that is bound."""
    for s in range(n):
        found[match * n + s] = bound[s]


@compiled(NOTHING, WORDS, INT, WORDS, INT, INT, INT, WORDS)
def _repeat(code, seed, found, first, count, to, bound):
    """Write down matches once more, with what is bound now by the steps before the split."""
    n = code[N_SYMBOLS]
    entry = code[SEEDS_AT] + seed * SEED_WORDS
    for word in range(count * n):
        found[to * n + word] = found[first * n + word]
    for step in range(code[entry + SEED_FIRST], code[entry + SEED_SPLIT]):
        s = code[code[STEPS_AT] + step * STEP_WORDS + STEP_TARGET]
        for k in range(to, to + count):
            found[k * n + s] = bound[s]


@compiled(
    types.UniTuple(INT, 3), WORDS, WORDS, WORDS, INT, INT, WORDS, WORDS, WORDS, WORDS, INT, INT, INT
)
def extend(code, part, pool, floor, seed, bound, walk, again, found, room, count, depth):
    """Append to ``found`` the slot ids of every match that the seed's bound intervals complete.

    ``bound`` holds each symbol's slot id in its first half and its place in the pool in the second.
    The walk begins at depth 0. It gives the number found and DONE, or, where there is no ``room`` in
    ``found`` for more, the depth at which to go on with a larger one; and how many candidates, and
    words that tell of many at once, it looked at.

    What is found from the seed's split on does not depend on what the steps before it bound: it is
    looked for once, noted in ``again``, and repeated for every other binding of those.
    """
    n = code[N_SYMBOLS]
    entry = code[SEEDS_AT] + seed * SEED_WORDS
    first = code[STEPS_AT] + code[entry + SEED_FIRST] * STEP_WORDS
    depth_end = code[entry + SEED_END] - code[entry + SEED_FIRST]
    split = code[entry + SEED_SPLIT] - code[entry + SEED_FIRST]
    steps = 0
    entering = True
    if depth == 0:
        again[_AGAIN] = NOWHERE
        again[_AGAIN_END] = NOWHERE
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
            if again[_AGAIN_END] != NOWHERE:
                more = again[_AGAIN_END] - again[_AGAIN]
                if count + more > room:
                    return count, depth, steps
                _repeat(code, seed, found, again[_AGAIN], more, count, bound)
                count += more
                steps += more
                depth -= 1
                entering = False
                continue
            again[_AGAIN] = count

        step = first + depth * STEP_WORDS
        at = depth * WALK_WORDS
        target = code[step + STEP_TARGET]
        width = code[step + STEP_WIDTH]
        ring = code[step + STEP_RING]
        source = code[step + STEP_SOURCE]
        here = bound[n + source]
        ranged = code[step + STEP_LATER] != NOWHERE or code[step + STEP_EARLIER] != NOWHERE
        checked = code[step + STEP_CHECKS] < code[step + STEP_CHECKS_END]
        if entering:
            if ranged:
                expire(part, pool, ring, width, floor)
            walk[at + _PIECE] = 0
            walk[at + _NEXT] = 1
            walk[at + _LAST] = 0
            entering = False
        following = walk[at + _NEXT]
        last = walk[at + _LAST]
        how = walk[at + _WALK]
        stepped = False
        while not stepped:
            candidate = following
            if how == WALK_ALL and candidate < last:
                candidate, looked = next_worthy(part, pool, ring, width, candidate, last)
                steps += looked
            if candidate > last:
                if (walk[at + _PIECE] == PIECE_PAIRS and not ranged) or not _open_piece(
                    code, part, pool, step, here, walk, at
                ):
                    break
                following = walk[at + _NEXT]
                last = walk[at + _LAST]
                how = walk[at + _WALK]
                continue
            steps += 1
            # where to go after this one
            following = candidate + 1
            if how == WALK_ENDS:
                following = max(following, walk[at + _HI])
            elif how == WALK_ENDS_CHECKED and candidate > walk[at + _LO]:
                following = max(following, walk[at + _HI] - 1)

            slot = slot_of(part, ring, width, candidate)
            if min(pool[slot + REACH], pool[slot + START]) < floor:
                if how == WALK_ALL:  # it will not be worth a visit until its reach grows
                    unmark(part, pool, ring, width, candidate)
                continue
            if candidate == part[ring + RING_TAIL] - 1:
                if not part[VALID] >> target & 1:
                    continue
                if walk[at + _PIECE] == PIECE_EARLIER and (
                    pool[slot + code[step + STEP_MET]] < bound[source]
                ):
                    continue
            if how >= WALK_ALL_CHECKED:
                possible = possible_relations(
                    pool[here + START], pool[here + END], pool[slot + START], pool[slot + END]
                )
                if possible & code[step + STEP_ALLOWED] != possible:
                    continue
            if checked and not _passes(code, pool, step, slot, candidate, bound, n):
                continue
            bound[target] = candidate
            bound[n + target] = slot
            if depth + 1 < depth_end:
                stepped = True
            elif count == room:
                walk[at + _NEXT] = following
                return count, depth_end, steps
            else:
                _write(found, count, bound, n)
                count += 1
        walk[at + _NEXT] = following
        if stepped:
            depth += 1
            entering = True
            continue
        if depth == split and again[_AGAIN_END] == NOWHERE:
            again[_AGAIN_END] = count
            if count == again[_AGAIN]:
                break
        depth -= 1
    return count, DONE, steps
