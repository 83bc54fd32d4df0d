"""Result rows: what is known of a match at its report, in the order that SPEC 4 promises."""

from __future__ import annotations

import numpy as np

from piestream.joins.layout import (
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
from piestream.joins.rings import slot_of
from piestream.loops import ARRAY, BOOL, INT, NOTHING, WORDS, at_word, compiled


@compiled(BOOL, WORDS, INT, INT, WORDS, INT)
def _comes_first(keys, a, b, order, n):
    """Whether the record of keys at ``a`` comes before that at ``b``."""
    for k in range(n):
        difference = keys[a + order[k]] - keys[b + order[k]]
        if difference:
            return difference < 0
    return False


@compiled(ARRAY, WORDS, ARRAY, WORDS, INT)
def in_order(keys, places, order, n):
    """The places of records of n keys, sorted by their keys: a merge sort from the bottom up."""
    count = places.size
    source = places
    if count < 2:
        return source
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


@compiled(NOTHING, WORDS, WORDS, WORDS, WORDS, INT, WORDS, INT)
def _write_outputs(code, part, pool, found, match, rows, at):
    """Write the output words of the match whose slot ids are at ``found[match]``."""
    symbols = code[SYMBOLS_AT]
    for o in range(code[N_OUTPUTS]):
        out = code[OUTPUTS_AT] + o * OUT_WORDS
        s = code[out + OUT_SYMBOL]
        width = code[symbols + s * SYM_WORDS + SYM_WIDTH]
        slot = slot_of(part, RINGS + s * RING_WORDS, width, found[match + s])
        word = pool[slot + code[out + OUT_WORD]]
        if code[out + OUT_KIND] != OUT_SLOT_WORD:
            word = np.int64(word == found[match + code[out + OUT_OTHER]])
        rows[at + o] = word


@compiled(NOTHING, WORDS, WORDS, WORDS, WORDS, WORDS, INT, WORDS, INT, INT)
def _await_completion(code, part, pool, waiting, found, match, rows, outputs_at, time):
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
        slot = slot_of(part, RINGS + s * RING_WORDS, code[sym + SYM_WIDTH], found[match + s])
        waiting[at + WAITING_STARTS + s] = pool[slot + START]
        waiting[at + WAITING_STARTS + n + s] = NOWHERE
        if pool[slot + END] >= time:
            still_open += 1
            waiting[at + WAITING_STARTS + n + s] = pool[slot + code[sym + SYM_WATCH]]
            pool[slot + code[sym + SYM_WATCH]] = record
    waiting[at + WAITING_OPEN] = still_open
    for o in range(n_outputs):
        waiting[at + 1 + 2 * n + o] = rows[outputs_at + o]
    part[WAITING] += 1


@compiled(NOTHING, WORDS, WORDS, INT, WORDS, WORDS, WORDS, WORDS, WORDS, INT)
def report(code, part, partition, pool, waiting, found, rows, scratch, time):
    """Write a row for every match found at this event, and note those that will complete.

    There must be room for them in ``rows`` and in ``waiting``.
    """
    n = code[N_SYMBOLS]
    n_outputs = code[N_OUTPUTS]
    row_words = ROW_OUTPUTS + n_outputs
    count = scratch[SCRATCH_FOUND]
    written = scratch[SCRATCH_ROWS]
    places = np.zeros(0, np.int64)
    if count > 1:
        order = at_word(code, code[ORDER_AT])
        # slot ids of one symbol grow with its starts, so they order matches as the starts do
        places = in_order(found, np.arange(0, count * n, n), order, n)
    for k in range(count):
        place = places[k] if count > 1 else 0
        at = written * row_words
        rows[at + ROW_PARTITION] = partition
        rows[at + ROW_TIME] = time
        rows[at + ROW_PHASE] = PHASE_TRIGGER
        _write_outputs(code, part, pool, found, place, rows, at + ROW_OUTPUTS)
        written += 1
        if code[EMIT_BOTH]:
            _await_completion(
                code, part, pool, waiting, found, place, rows, at + ROW_OUTPUTS, time
            )
    scratch[SCRATCH_ROWS] = written


@compiled(NOTHING, WORDS, WORDS, INT, WORDS, WORDS, WORDS, WORDS, INT, INT)
def complete(code, part, partition, pool, waiting, rows, scratch, time, ended):
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
        slot = slot_of(part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1)
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
    row_words = ROW_OUTPUTS + n_outputs
    written = scratch[SCRATCH_ROWS]
    order = at_word(code, code[ORDER_AT])
    for place in in_order(waiting, done[:count] + WAITING_STARTS, order, n):
        at = written * row_words
        rows[at + ROW_PARTITION] = partition
        rows[at + ROW_TIME] = time
        rows[at + ROW_PHASE] = PHASE_COMPLETION
        record = place - WAITING_STARTS
        for o in range(n_outputs):
            rows[at + ROW_OUTPUTS + o] = waiting[record + 1 + 2 * n + o]
        written += 1
        waiting[record + WAITING_OPEN] = 0
        waiting[record + WAITING_STARTS] = waiting[WAITING_FREE]
        waiting[WAITING_FREE] = (record - WAITING_WORDS) // words
    part[WAITING] -= count
    scratch[SCRATCH_ROWS] = written
