"""Result rows: what is known of a match at its report, in the order that SPEC 4 promises."""

from __future__ import annotations

import numpy as np
from numba import types

from piestream.compiled.layout import (
    EMIT_BOTH,
    END,
    N_OUTPUTS,
    N_SYMBOLS,
    NOWHERE,
    ORDER_AT,
    OUT_KIND,
    OUT_OTHER,
    OUT_SLOT_WORD,
    OUT_SYMBOL,
    OUT_WORD,
    OUT_WORDS,
    OUTPUTS_AT,
    PHASE_COMPLETION,
    PHASE_TRIGGER,
    RING_BASE,
    RING_CAPACITY,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    ROW_OUTPUTS,
    ROW_PARTITION,
    ROW_PHASE,
    ROW_TIME,
    SCRATCH_FOUND,
    SCRATCH_ROWS,
    START,
    SYM_WATCH,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    WAITING,
    WAITING_FREE,
    WAITING_OPEN,
    WAITING_STARTS,
    WAITING_USED,
    WAITING_WORDS,
)
from piestream.compiled.loops import (
    ARRAY,
    BOOL,
    INT,
    NOTHING,
    WORDS,
    at_word,
    compiled,
    leading_zeros,
    pointer,
)
from piestream.joins.rings import Ring

#: Fewer records than this are sorted by looking at their keys.
_FEW = 24
_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS


@compiled(BOOL, WORDS, INT, INT, WORDS, INT)
def _comes_first(keys, a, b, order, n):
    """Whether the record of keys at ``a`` comes before that at ``b``."""
    for k in range(n):
        one = keys[a + order[k]]
        other = keys[b + order[k]]
        if one != other:
            return one < other
    return False


@compiled(ARRAY, WORDS, ARRAY, WORDS, INT)
def _merged(keys, places, order, n):
    """The places of records of n keys, sorted by their keys: a merge sort from the bottom up."""
    count = places.size
    source = places
    target = np.empty(count, np.int64)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle = min(low + width, count)
            high = min(low + 2 * width, count)
            left = low
            right = middle
            for to in range(low, high):
                if left < middle and (
                    right >= high or not _comes_first(keys, source[right], source[left], order, n)
                ):
                    target[to] = source[left]
                    left += 1
                else:
                    target[to] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@compiled(INT, INT)
def _bits(number):
    """How many bits a number without sign takes."""
    return 64 - np.int64(leading_zeros(np.uint64(number)))


@compiled(types.Tuple((ARRAY, INT, INT)), WORDS, ARRAY, WORDS, INT)
def _packed(keys, places, order, n):
    """All keys of each record in one word, its number in the lowest bits, if they fit.

    Records of one event differ in few keys, and in them by little. Gives the words, how many bits
    numbers take, and how many are taken; more than 63: they do not fit.
    """
    count = places.size
    own_ends = np.empty(2 * n, np.int64)
    lowest = pointer(own_ends)
    highest = at_word(lowest, n)
    for s in range(n):
        lowest[s] = keys[places[0] + s]
        highest[s] = lowest[s]
    for k in range(1, count):
        at = places[k]
        for s in range(n):
            lowest[s] = min(lowest[s], keys[at + s])
            highest[s] = max(highest[s], keys[at + s])
    numbers = _bits(count - 1)
    taken = numbers
    own_fields = np.empty(3 * n, np.int64)
    fields = pointer(own_fields)
    n_fields = 0
    for k in range(n):
        s = order[k]
        bits = _bits(highest[s] - lowest[s])
        if bits:
            taken += bits
            fields[3 * n_fields] = s
            fields[3 * n_fields + 1] = lowest[s]
            fields[3 * n_fields + 2] = bits
            n_fields += 1
    words = np.empty(count, np.int64)
    if taken <= 63:
        for k in range(count):
            at = places[k]
            word = 0
            for f in range(n_fields):
                word = word << fields[3 * f + 2] | (keys[at + fields[3 * f]] - fields[3 * f + 1])
            words[k] = word << numbers | k
    own_ends[0] = own_fields[0] = 0  # the pointers needed them up to here
    return words, numbers, taken


@compiled(ARRAY, WORDS, ARRAY, WORDS, INT)
def in_order(keys, places, order, n):
    """The places of records of n keys, sorted by their keys."""
    count = places.size
    if count < _FEW:
        return _merged(keys, places, order, n) if count > 1 else places
    words, numbers, taken = _packed(keys, places, order, n)
    if taken > 63:
        return _merged(keys, places, order, n)
    target = np.empty(count, np.int64)
    room = np.empty(_DIGITS, np.int64)
    for shift in range(numbers, taken, _DIGIT_BITS):  # by one digit after the other
        room[:] = 0
        for k in range(count):
            room[words[k] >> shift & (_DIGITS - 1)] += 1
        to = 0
        for digit in range(_DIGITS):
            to, room[digit] = to + room[digit], to
        for k in range(count):
            digit = words[k] >> shift & (_DIGITS - 1)
            target[room[digit]] = words[k]
            room[digit] += 1
        words, target = target, words
    for k in range(count):
        target[k] = places[words[k] & ((1 << numbers) - 1)]
    return target


@compiled(NOTHING, WORDS, WORDS, WORDS, WORDS, ARRAY, WORDS, INT, INT)
def _write_outputs(code, part, pool, found, places, rows, room, row):
    """Write the output words of the matches whose slot ids are at ``found[places[k]]``."""
    for o in range(code[N_OUTPUTS]):
        out = code[OUTPUTS_AT] + o * OUT_WORDS
        s = code[out + OUT_SYMBOL]
        ring = RINGS + s * RING_WORDS
        width = code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH]
        offset = code[out + OUT_WORD]
        column = at_word(rows, (ROW_OUTPUTS + o) * room + row)
        if code[out + OUT_KIND] == OUT_SLOT_WORD:
            base = part[ring + RING_BASE] + offset
            last = part[ring + RING_CAPACITY] - 1
            for k in range(places.size):
                column[k] = pool[base + (found[places[k] + s] & last) * width]
        else:
            other = code[out + OUT_OTHER]
            for k in range(places.size):
                slot = Ring(at_word(part, ring), pool, width).place(found[places[k] + s])
                column[k] = pool[slot + offset] == found[places[k] + other]


@compiled(NOTHING, WORDS, WORDS, WORDS, WORDS, WORDS, INT, WORDS, INT, INT, INT)
def _await_completion(code, part, pool, waiting, found, match, rows, room, row, time):
    """Enter a triggered match into the lists of those of its intervals that end now or later.

    What triggers a match with all ends known is one of these ends, so there is always one.
    """
    n = code[N_SYMBOLS]
    n_outputs = code[N_OUTPUTS]
    words = 1 + 2 * n + n_outputs
    symbols = code[SYMBOLS_AT]
    if waiting[WAITING_FREE] != NOWHERE:
        record = waiting[WAITING_FREE]
        waiting[WAITING_FREE] = waiting[WAITING_WORDS + record * words + WAITING_STARTS]
    else:
        record = waiting[WAITING_USED]
        waiting[WAITING_USED] += 1
    at = WAITING_WORDS + record * words
    still_open = 0
    for s in range(n):
        sym = symbols + s * SYM_WORDS
        ring = Ring(at_word(part, RINGS + s * RING_WORDS), pool, code[sym + SYM_WIDTH])
        slot = ring.place(found[match + s])
        waiting[at + WAITING_STARTS + s] = pool[slot + START]
        waiting[at + WAITING_STARTS + n + s] = NOWHERE
        if pool[slot + END] >= time:
            still_open += 1
            waiting[at + WAITING_STARTS + n + s] = pool[slot + code[sym + SYM_WATCH]]
            pool[slot + code[sym + SYM_WATCH]] = record
    waiting[at + WAITING_OPEN] = still_open
    for o in range(n_outputs):
        waiting[at + 1 + 2 * n + o] = rows[(ROW_OUTPUTS + o) * room + row]
    part[WAITING] += 1


@compiled(NOTHING, WORDS, WORDS, INT, WORDS, WORDS, WORDS, WORDS, INT, WORDS, INT)
def report(code, part, partition, pool, waiting, found, rows, room, scratch, time):
    """Write a row for every match found at this event, and note those that will complete.

    ``rows`` holds one column of ``room`` words after the other. There must be room for the matches
    in it and in ``waiting``.
    """
    n = code[N_SYMBOLS]
    count = scratch[SCRATCH_FOUND]
    written = scratch[SCRATCH_ROWS]
    # slot ids of one symbol grow with its starts, so they order matches as the starts do
    order = at_word(code, code[ORDER_AT])
    places = in_order(found, np.arange(0, count * n, n), order, n)
    for row in range(written, written + count):
        rows[ROW_PARTITION * room + row] = partition
        rows[ROW_TIME * room + row] = time
        rows[ROW_PHASE * room + row] = PHASE_TRIGGER
    _write_outputs(code, part, pool, found, places, rows, room, written)
    if code[EMIT_BOTH]:
        for k in range(count):
            _await_completion(
                code, part, pool, waiting, found, places[k], rows, room, written + k, time
            )
    scratch[SCRATCH_ROWS] = written + count


@compiled(NOTHING, WORDS, WORDS, INT, WORDS, WORDS, WORDS, INT, WORDS, INT, INT)
def complete(code, part, partition, pool, waiting, rows, room, scratch, time, ended):
    """Write the completion rows of waiting matches whose last interval is among ``ended``."""
    n = code[N_SYMBOLS]
    n_outputs = code[N_OUTPUTS]
    words = 1 + 2 * n + n_outputs
    done = np.empty(part[WAITING], np.int64)
    count = 0
    for s in range(n):
        if not ended >> s & 1:
            continue
        sym = code[SYMBOLS_AT] + s * SYM_WORDS
        ring = RINGS + s * RING_WORDS
        slot = Ring(at_word(part, ring), pool, code[sym + SYM_WIDTH]).place(
            part[ring + RING_TAIL] - 1
        )
        record = pool[slot + code[sym + SYM_WATCH]]
        pool[slot + code[sym + SYM_WATCH]] = NOWHERE
        while record != NOWHERE:
            at = WAITING_WORDS + record * words
            for o in range(n_outputs):
                out = code[OUTPUTS_AT] + o * OUT_WORDS
                if code[out + OUT_SYMBOL] == s and code[out + OUT_KIND] == OUT_SLOT_WORD:
                    waiting[at + 1 + 2 * n + o] = pool[slot + code[out + OUT_WORD]]
            waiting[at + WAITING_OPEN] -= 1
            if waiting[at + WAITING_OPEN] == 0:
                done[count] = at
                count += 1
            record = waiting[at + WAITING_STARTS + n + s]
    written = scratch[SCRATCH_ROWS]
    order = at_word(code, code[ORDER_AT])
    for place in in_order(waiting, done[:count] + WAITING_STARTS, order, n):
        rows[ROW_PARTITION * room + written] = partition
        rows[ROW_TIME * room + written] = time
        rows[ROW_PHASE * room + written] = PHASE_COMPLETION
        record = place - WAITING_STARTS
        for o in range(n_outputs):
            rows[(ROW_OUTPUTS + o) * room + written] = waiting[record + 1 + 2 * n + o]
        written += 1
        waiting[record + WAITING_OPEN] = 0
        waiting[record + WAITING_STARTS] = waiting[WAITING_FREE]
        waiting[WAITING_FREE] = (record - WAITING_WORDS) // words
    part[WAITING] -= count
    scratch[SCRATCH_ROWS] = written
