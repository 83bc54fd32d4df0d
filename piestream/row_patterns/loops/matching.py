"""Rows in, matches out: what a batch makes certain in each partition.

A partition keeps its rows from the first at which it is not decided whether a match begins. A row takes
part in a search at most as often as there are sets of threads, so that the work is linear in the rows,
whatever the pattern.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.primitives import at_word, keep_alive, pointer, signed
from piestream.compiled.records import (
    Array,
    BitRows,
    FlagRows,
    Flags,
    Times,
    WordRows,
    Words,
    kernel,
)
from piestream.intervals.ticks import plus
from piestream.row_patterns.loops.linear_search import follow_head, search_linearly
from piestream.row_patterns.loops.output import Found
from piestream.row_patterns.loops.records import (
    BITS,
    KNOWN_AT,
    Frontier,
    Giving,
    Partition,
    Program,
    Search,
)
from piestream.row_patterns.loops.rows import (
    POOL,
    RESULTS,
    WORK,
    forget_rows,
    new_row,
    rows_of,
)
from piestream.row_patterns.loops.threads import begin_threads

__all__ = [
    "FOUND_WORDS",
    "NO_ROOM",
    "SEARCH_WORDS",
    "UNDECIDED",
    "deadline_of_heads",
    "match_rows",
    "reset_partition",
    "take_event",
    "take_rows",
    "variable_masks",
]

#: What `take_event` gives.
NO_ROOM, UNDECIDED, DECIDED = range(3)
#: So many rows are read again at once; of more, the outcomes are found together.
_FEW_ROWS = 16
SEARCH_WORDS, FOUND_WORDS = Search.size, Found.size


@kernel
def variable_masks(bits_array: BitRows, bit_of_variable: Array, n_rows: int) -> Array:
    """For each row the variables that hold there, a bit each."""
    masks_array = np.zeros(n_rows, np.int64)
    masks = pointer(masks_array)
    n_words = bits_array.shape[1]
    bits = pointer(bits_array)
    for variable in range(bit_of_variable.size):
        words = at_word(bits, bit_of_variable[variable] * n_words)
        for row in range(n_rows):
            bit = signed(words[row >> 6] >> np.uint64(row & 63)) & 1
            masks[row] |= bit << variable
    keep_alive(bits_array)
    return masks_array


@kernel
def _work_on(
    program: Program, partition: Partition, search: Search, found: Found, first_new: int,
    closes: bool, store: list[Array],
) -> None:  # fmt: skip
    """Find out what rows from one on, or the end of the partition, have made certain."""
    rows, scratch = rows_of(partition, store), pointer(store[WORK])
    undecided = follow_head(program, partition, rows, first_new, search.now, scratch)
    if closes:
        search.frontier = Frontier.END
    elif undecided:
        return
    search_linearly(program, partition, search, found, store)
    begin_threads(program, partition)
    if not closes:
        follow_head(program, partition, rows, partition.head, search.now, scratch)


@kernel
def _keep_row(
    program: Program, kept: Words, time: int, mask: int, values: Words, known: Flags, step: int
) -> None:
    """Write a row; its attributes and whether they are known lie ``step`` words apart."""
    kept[0] = time
    kept[1] = mask
    for word in range(KNOWN_AT, program.values_at):
        kept[word] = 0
    for column in range(program.n_attributes):
        kept[program.values_at + column] = values[column * step]
        flag = signed(known[column * step])
        kept[KNOWN_AT + column // BITS] |= flag << (column % BITS)


@kernel
def _is_passed_over(program: Program, partition: Partition) -> bool:
    """Whether no match begins at the head, and there are few rows behind it to be read again."""
    fails = partition.n_threads == 0 and partition.has_match == 0
    is_short = partition.count - partition.head <= _FEW_ROWS
    return fails and is_short and program.giving != Giving.ALL_AND_UNMATCHED


@kernel
def take_event(
    program_array: Array,
    partitions_array: Array,
    partition_words: int,
    pool_array: Array,
    number: int,
    time: int,
    mask: int,
    values: Array,
    known: FlagRows,
    scratch: Array,
) -> int:
    """Read one row of a partition, if there is room; a match is not looked for.

    Gives NO_ROOM, UNDECIDED where there is nothing to look for yet, or DECIDED.
    """
    program = Program(pointer(program_array))
    place = at_word(pointer(partitions_array), number * partition_words)
    partition = Partition(place, program)
    rows = at_word(pointer(pool_array), partition.base)
    if partition.count == partition.capacity:
        if 2 * (partition.head - program.context) < partition.capacity:
            return NO_ROOM
        if forget_rows(program, partition, rows) == 0:
            return NO_ROOM
    if partition.head == partition.count:
        begin_threads(program, partition)
    kept = at_word(rows, partition.count * program.row_words)
    _keep_row(program, kept, time, mask, pointer(values), pointer(known[0]), 1)
    partition.count += 1
    partition.last_time = time
    first = partition.count - 1
    undecided = follow_head(program, partition, rows, first, INT64_MIN, pointer(scratch))
    while not undecided and _is_passed_over(program, partition):
        partition.head += 1
        begin_threads(program, partition)
        head = partition.head
        undecided = follow_head(program, partition, rows, head, INT64_MIN, pointer(scratch))
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)
    keep_alive(values)
    keep_alive(known)
    keep_alive(scratch)
    return UNDECIDED if undecided else DECIDED


@kernel
def reset_partition(partition: Partition) -> None:
    """Make these words a partition without any row, which keeps its places in pools."""
    base, capacity = partition.base, partition.capacity
    block, block_words = partition.block, partition.block_words
    partition.reset()
    partition.base, partition.capacity = base, capacity
    partition.block, partition.block_words = block, block_words


@kernel
def take_rows(
    program: Program, partition: Partition, first: int, end: int, n_rows: int, times: Words,
    masks: Words, columns: Words, known: Flags, store: list[Array],
) -> None:  # fmt: skip
    """Keep the rows ``[first, end)`` of a batch, whose attributes lie ``n_rows`` words apart."""
    for row in range(first, end):
        kept = new_row(program, partition, store)
        values, flags = at_word(columns, row), at_word(known, row)
        _keep_row(program, kept, times[row], masks[row], values, flags, n_rows)
        partition.last_time = times[row]


@kernel
def match_rows(
    program_array: Array, partitions_array: Array, partition_words: int, pool_array: Array,
    numbers_array: Array, offsets_array: Array, times_array: Times, masks_array: Array,
    columns_array: WordRows, known_array: FlagRows, now: int, closes: bool, is_whole: bool,
) -> tuple[Array, Array, int]:  # fmt: skip
    """Read rows of partitions; gives the pool, the result rows, and how many words of these there are.

    No row to come is earlier than ``now``. Where it ``closes``, no rows come at all. Partitions of a
    ``whole`` input are worked on one after the other in the first one's place.
    """
    program = Program(pointer(program_array))
    numbers, offsets = pointer(numbers_array), pointer(offsets_array)
    times, masks = pointer(times_array), pointer(masks_array)
    columns, known = pointer(columns_array), pointer(known_array)
    empty = np.empty(0, np.int64)
    work = np.zeros(2 * program.n_states + 2 * program.set_words + 8, np.int64)
    store = [pool_array, np.empty(64, np.int64), empty, empty, empty, work, empty]
    flags_array = np.zeros(program.n_attributes + 1, np.uint8)
    flags: Flags = pointer(flags_array)
    found_array = np.zeros(FOUND_WORDS, np.int64)
    found = Found(pointer(found_array), flags)
    search_array = np.zeros(SEARCH_WORDS, np.int64)
    search = Search(pointer(search_array))
    search.now = now
    for group in range(numbers_array.size):
        place = 0 if is_whole else numbers[group]
        partition = Partition(at_word(pointer(partitions_array), place * partition_words), program)
        if is_whole:
            reset_partition(partition)
        if partition.head == partition.count:
            begin_threads(program, partition)
        found.partition = numbers[group]
        first, end = offsets[group], offsets[group + 1]
        n_rows: int = columns_array.shape[1]
        take_rows(program, partition, first, end, n_rows, times, masks, columns, known, store)
        search.frontier = Frontier.MORE
        if closes and program.as_intervals:  # what is known before the end has its own instant
            _work_on(
                program, partition, search, found, partition.count - (end - first), False, store
            )
            first = end
        _work_on(program, partition, search, found, partition.count - (end - first), closes, store)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(flags_array)
    keep_alive(found_array)
    keep_alive(search_array)
    return store[POOL], store[RESULTS], found.n_results


@kernel
def deadline_of_heads(
    program_array: Array, partitions_array: Array, partition_words: int, n_partitions: int,
    pool_array: Array, now: int,
) -> tuple[Array, int]:  # fmt: skip
    """The partitions in which WITHIN is over before ``now``, and when it is in another one."""
    program = Program(pointer(program_array))
    due_array = np.empty(n_partitions, np.int64)
    due = 0
    following = INT64_MAX
    for number in range(n_partitions):
        place = at_word(pointer(partitions_array), number * partition_words)
        partition = Partition(place, program)
        if partition.used == 0 or partition.head >= partition.count:
            continue
        row = at_word(pointer(pool_array), partition.base + partition.head * program.row_words)
        latest = plus(row[0], program.within)
        if latest < now:
            due_array[due] = number
            due += 1
        else:
            following = min(following, latest)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)
    return due_array[:due], following
