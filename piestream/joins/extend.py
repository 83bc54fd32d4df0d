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
    CON_SIDES,
    CON_WORDS,
    CONSTRAINTS_AT,
    END,
    N_SYMBOLS,
    NOWHERE,
    PIECE_EARLIER,
    PIECE_LATER,
    PIECE_PAIRS,
    REACH,
    RING_HEAD,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    SEED_END,
    SEED_FIRST,
    SEED_WORDS,
    SEEDS_AT,
    SIDE_ALLOWED,
    SIDE_EARLIER,
    SIDE_LATER,
    SIDE_LO,
    SIDE_WALK,
    SIDE_WORDS,
    START,
    STEP_CHECKS,
    STEP_CHECKS_END,
    STEP_CONSTRAINT,
    STEP_SIDE,
    STEP_TARGET,
    STEP_WORDS,
    STEPS_AT,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    VALID,
    WALK_ALL,
    WALK_ALL_CHECKED,
    WALK_ENDS,
    WALK_ENDS_CHECKED,
    WALK_WORDS,
)
from piestream.joins.pairs import is_pair, possible_relations, symbol_on
from piestream.joins.rings import bit_of, bit_word, expire, next_worthy, slot_of
from piestream.loops import BOOL, INT, WORDS, compiled

#: The depth of a walk that has ended.
DONE = -1

# what is kept of each depth of the walk
_PIECE, _NEXT, _LAST, _LO, _HI, _WALK = range(WALK_WORDS)


@compiled(BOOL, WORDS, WORDS, WORDS, INT, INT, INT, INT, WORDS, INT)
def _open_piece(code, part, pool, block, here, ring, width, walk, at):
    """Move on to the next range of partners of the interval at ``here``; False after the last."""
    head = part[ring + RING_HEAD]
    tail = part[ring + RING_TAIL]
    while walk[at + _PIECE] < PIECE_EARLIER:
        piece = walk[at + _PIECE] + 1
        walk[at + _PIECE] = piece
        walk[at + _WALK] = WALK_ALL
        if piece == PIECE_PAIRS:
            lo = pool[here + code[block + SIDE_LO]]
            hi = pool[here + code[block + SIDE_LO] + 1]
            if lo == NOWHERE or hi < head:
                continue
            how = code[block + SIDE_WALK]
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
            if code[block + SIDE_LATER] == NOWHERE:
                continue
            walk[at + _NEXT] = head
            walk[at + _LAST] = pool[here + code[block + SIDE_LATER]]
            return True
        if code[block + SIDE_EARLIER] == NOWHERE:
            continue
        start = pool[here + code[block + SIDE_EARLIER]]
        if start == NOWHERE:  # this interval has not ended
            continue
        if start > head and pool[slot_of(part, ring, width, start - 1) + START] > pool[here + END]:
            start -= 1  # the slot that was open then was dropped and given to a later interval
        walk[at + _NEXT] = max(start, head)
        walk[at + _LAST] = tail - 1
        return True
    return False


@compiled(types.UniTuple(INT, 3), WORDS, WORDS, WORDS, INT, INT, WORDS, WORDS, WORDS, INT, INT, INT)
def extend(code, part, pool, floor, seed, bound, walk, found, room, count, depth):
    """Append to ``found`` the slot ids of every match that the seed's bound intervals complete.

    ``bound`` holds each symbol's slot id in its first half and its place in the pool in the second.
    The walk begins at depth 0. It gives the number found and DONE, or, where there is no ``room`` in
    ``found`` for more, the depth at which to go on with a larger one; and how many candidates, or
    words of 64 that were passed over, it looked at.
    """
    n = code[N_SYMBOLS]
    symbols = code[SYMBOLS_AT]
    entry = code[SEEDS_AT] + seed * SEED_WORDS
    first = code[STEPS_AT] + code[entry + SEED_FIRST] * STEP_WORDS
    depth_end = code[entry + SEED_END] - code[entry + SEED_FIRST]
    steps = 0
    entering = True
    while depth >= 0:
        if depth == depth_end:
            if count == room:
                return count, depth, steps
            for s in range(n):
                found[count * n + s] = bound[s]
            count += 1
            depth -= 1
            entering = False
            continue

        step = first + depth * STEP_WORDS
        at = depth * WALK_WORDS
        target = code[step + STEP_TARGET]
        side = code[step + STEP_SIDE]
        con = code[CONSTRAINTS_AT] + code[step + STEP_CONSTRAINT] * CON_WORDS
        block = con + CON_SIDES + side * SIDE_WORDS
        source = symbol_on(code, con, side)
        width = code[symbols + target * SYM_WORDS + SYM_WIDTH]
        ring = RINGS + target * RING_WORDS
        here = bound[n + source]
        if entering:
            expire(part, pool, ring, width, floor)
            walk[at + _PIECE] = 0
            walk[at + _NEXT] = 1
            walk[at + _LAST] = 0
            entering = False

        tail = part[ring + RING_TAIL]
        stepped = False
        while not stepped:
            candidate = walk[at + _NEXT]
            how = walk[at + _WALK]
            if how == WALK_ALL:
                asked = candidate
                candidate = next_worthy(part, pool, ring, width, candidate, walk[at + _LAST])
                steps += max(candidate - asked, 0) >> 6
            if candidate > walk[at + _LAST]:
                if not _open_piece(code, part, pool, block, here, ring, width, walk, at):
                    break
                continue
            steps += 1
            # where to go after this one
            following = candidate + 1
            if how == WALK_ENDS:
                following = max(following, walk[at + _HI])
            elif how == WALK_ENDS_CHECKED and candidate > walk[at + _LO]:
                following = max(following, walk[at + _HI] - 1)
            walk[at + _NEXT] = following

            slot = slot_of(part, ring, width, candidate)
            if pool[slot + REACH] < floor:
                if how == WALK_ALL:  # it will not be worth a visit until its reach grows
                    pool[bit_word(part, ring, width, candidate)] &= ~bit_of(part, ring, candidate)
                continue
            if candidate == tail - 1:
                if not part[VALID] >> target & 1:
                    continue
                if walk[at + _PIECE] == PIECE_EARLIER:
                    later = code[con + CON_SIDES + (1 - side) * SIDE_WORDS + SIDE_LATER]
                    if pool[slot + later] < bound[source]:
                        continue
            if how >= WALK_ALL_CHECKED:
                possible = possible_relations(
                    pool[here + START], pool[here + END], pool[slot + START], pool[slot + END]
                )
                if possible & code[block + SIDE_ALLOWED] != possible:
                    continue
            stepped = True
            check = code[CHECKS_AT] + code[step + STEP_CHECKS] * CHECK_WORDS
            check_end = code[CHECKS_AT] + code[step + STEP_CHECKS_END] * CHECK_WORDS
            while check < check_end:
                other = code[check + CHECK_OTHER]
                if code[check + CHECK_CONSTRAINT] == NOWHERE:
                    if pool[slot + START] == pool[bound[n + other] + START]:
                        stepped = False
                        break
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
                    stepped = False
                    break
                check += CHECK_WORDS
            if stepped:
                bound[target] = candidate
                bound[n + target] = slot
        if stepped:
            depth += 1
            entering = True
        else:
            depth -= 1
    return count, DONE, steps
