"""Rows in, matches out: what a batch makes certain in each partition.

A call returns after some hundredths of a second, for Python to be asked whether to go on; the next one
goes on from its `Progress`.

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
from piestream.row_patterns.loops.reach import KNOWN_OUTCOMES
from piestream.row_patterns.loops.records import (
    BITS,
    KNOWN_AT,
    Frontier,
    Giving,
    Partition,
    Program,
    Progress,
    Search,
    Stage,
)
from piestream.row_patterns.loops.rows import (
    BLOCKS,
    POOL,
    RESULTS,
    WORK,
    forget_rows,
    give_room_back,
    room_for_rows,
    rows_of,
)
from piestream.row_patterns.loops.threads import begin_threads

__all__ = [
    "NO_ROOM",
    "PROGRESS_WORDS",
    "UNDECIDED",
    "BatchArrays",
    "Matched",
    "State",
    "deadline_of_heads",
    "end_stage",
    "match_rows",
    "new_store",
    "next_stage",
    "take_event",
    "variable_masks",
]

#: What `take_event` gives.
NO_ROOM, UNDECIDED, DECIDED = range(3)
#: So many rows are read again at once; of more, the outcomes are found together.
_FEW_ROWS = 16
_FOUND_AT = Progress.offset("found")
#: Words of a progress.
PROGRESS_WORDS = _FOUND_AT + Found.size
#: The words of partitions, the pool of their rows, the blocks of threads with memory.
State = tuple[Array, Array, Array]
#: Partition g has the rows from ``offsets[g]`` to ``offsets[g + 1]``: the numbers of the partitions,
#: ``offsets``, the rows' times, their attributes, and which of these are known.
BatchArrays = tuple[Array, Array, Times, WordRows, FlagRows]
#: The pool and the blocks, the result rows, and how many words of these there are.
Matched = tuple[Array, Array, Array, int]


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
    store: list[Array],
) -> None:  # fmt: skip
    """Find out what rows from one on, or the end of the partition, have made certain."""
    rows, scratch = rows_of(partition, store), pointer(store[WORK])
    closes = search.frontier == Frontier.END
    if not search.resumes:
        undecided = follow_head(program, partition, rows, first_new, search.now, scratch)
        if undecided and not closes:
            return
    search_linearly(program, partition, search, found, store)
    if not search.is_paused:
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
    rows = room_for_rows(program, partition, end - first, store)
    for row in range(first, end):
        kept = at_word(rows, partition.count * program.row_words)
        values, flags = at_word(columns, row), at_word(known, row)
        _keep_row(program, kept, times[row], masks[row], values, flags, n_rows)
        partition.count += 1
        partition.last_time = times[row]


@kernel
def new_store(program: Program, pool_array: Array, blocks_array: Array) -> list[Array]:
    """The arrays that a call works with, see `rows`."""
    empty = np.empty(0, np.int64)
    work = np.zeros(program.work_words + KNOWN_OUTCOMES, np.int64)
    stack = np.zeros(program.stack_words, np.int64)
    store = [pool_array, np.empty(64, np.int64), empty, empty, empty, work, empty]
    store += [blocks_array, empty, empty, empty, empty, stack]
    return store


@kernel
def next_stage(
    program: Program, partitions_array: Array, partition_words: int, batch: BatchArrays,
    masks_array: Array, progress: Progress, found: Found, store: list[Array],
) -> Partition:  # fmt: skip
    """Keep the next rows of the batch, or go on to its next partition; gives the one worked on.

    So many rows are kept at once that no more are there at a time than a match may need.
    """
    numbers, offsets, times, columns, known = batch
    group = progress.group
    place = 0 if progress.is_whole else numbers[group]
    partition = Partition(at_word(pointer(partitions_array), place * partition_words), program)
    found.partition = numbers[group]
    search = progress.search[0]
    search.resumes = search.is_paused
    search.is_paused = 0
    if search.resumes:
        return partition
    if progress.stage == Stage.BEGIN:
        if progress.is_whole:
            reset_partition(partition)
        progress.row = offsets[group]
        progress.stage = Stage.ROWS
    if progress.stage == Stage.ROWS:
        end = min(offsets[group + 1], progress.row + progress.most_rows)
        n_rows: int = columns.shape[1]
        take_rows(
            program, partition, progress.row, end, n_rows, pointer(times), pointer(masks_array),
            pointer(columns), pointer(known), store,
        )  # fmt: skip
        search.work_left -= end - progress.row
        progress.row = end
        progress.stage = Stage.SEARCH
        if end == offsets[group + 1] and progress.closes and not program.as_intervals:
            progress.stage = Stage.END  # what is known before the end has its own instant
    search.frontier = Frontier.END if progress.stage == Stage.END else Frontier.MORE
    return partition


@kernel
def end_stage(
    program: Program, partition: Partition, progress: Progress, end: int, store: list[Array]
) -> None:
    """A search has come to its end, or to a pause; ``end`` is behind the partition's rows."""
    search = progress.search[0]
    if search.is_paused == 0:
        if progress.row < end:
            progress.stage = Stage.ROWS
        elif progress.stage == Stage.SEARCH and progress.closes:
            progress.stage = Stage.END
        else:
            progress.stage = Stage.BEGIN
            progress.group += 1
            if not progress.is_whole:
                give_room_back(program, partition, store)
    if search.work_left < 0:
        progress.is_paused = 1


@kernel
def match_rows(
    program_array: Array, state: State, partition_words: int, batch: BatchArrays,
    masks_array: Array, progress_array: Array,
) -> Matched:  # fmt: skip
    """Read the rows of a batch, up to a pause; to go on, call it again with what it gave."""
    partitions_array, pool_array, blocks_array = state
    program = Program(pointer(program_array))
    progress = Progress(pointer(progress_array))
    search = progress.search[0]
    flags_array = np.zeros(program.n_attributes + 1, np.uint8)
    found = Found(at_word(pointer(progress_array), _FOUND_AT), pointer(flags_array))
    found.n_results = 0
    progress.is_paused = 0
    n_groups, offsets = batch[0].size, pointer(batch[1])
    store = new_store(program, pool_array, blocks_array)
    while progress.group < n_groups and not progress.is_paused:
        row = progress.row
        begins = progress.stage == Stage.BEGIN
        partition = next_stage(
            program, partitions_array, partition_words, batch, masks_array, progress, found, store
        )
        if begins:
            row = offsets[progress.group]
            if partition.head == partition.count - (progress.row - row):
                begin_threads(program, partition)
        first_new = partition.count - (progress.row - row)
        end = offsets[progress.group + 1]
        _work_on(program, partition, search, found, first_new, store)
        end_stage(program, partition, progress, end, store)
    keep_alive(program_array)
    keep_alive(progress_array)
    keep_alive(flags_array)
    keep_alive(state)
    keep_alive(batch)
    keep_alive(masks_array)
    return store[POOL], store[BLOCKS], store[RESULTS], found.n_results


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
