"""Rows in, matches out: what a batch makes certain in each partition.

A partition keeps its rows from the first at which it is not decided whether a match begins. When the
match that begins there is decided, the outcomes at all kept rows are found at once, and matches are
given up to the first row whose outcome depends on rows to come. A row takes part in that at most as
often as there are sets of threads, so that the work is linear in the rows, whatever the pattern.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import ensure_capacity
from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer, signed
from piestream.compiled.records import (
    Array,
    BitRows,
    FlagRows,
    Flags,
    Record,
    Times,
    WordRows,
    Words,
    kernel,
)
from piestream.intervals.ticks import plus
from piestream.row_patterns.loops.certainty import decided_at, find_certainty
from piestream.row_patterns.loops.output import Found, give_match, give_unmatched
from piestream.row_patterns.loops.reach import find_reach, reached, walk
from piestream.row_patterns.loops.records import (
    BITS,
    KNOWN_AT,
    Frontier,
    Giving,
    Partition,
    Program,
    Skipping,
)
from piestream.row_patterns.loops.rows import (
    CERTAIN,
    PATH,
    POOL,
    REACH,
    RESULTS,
    WINDOW_REACH,
    WORK,
    forget_rows,
    new_row,
    rows_of,
)
from piestream.row_patterns.loops.threads import begin_threads, is_undecided, step_threads

__all__ = [
    "NO_ROOM",
    "UNDECIDED",
    "deadline_of_heads",
    "match_rows",
    "take_event",
    "variable_masks",
]

#: What `take_event` gives.
NO_ROOM, UNDECIDED, DECIDED = range(3)
#: So many rows are read again at once; of more, the outcomes are found together.
_FEW_ROWS = 16
#: What becomes of the match that begins at a row.
_FAILS, _MATCHES, _WAITS = range(3)


class _Search(Record):
    """A search for matches among the kept rows of a partition."""

    now: int  # no row to come is earlier
    frontier: int  # what comes behind the last row
    row: int  # at which a match is to begin
    limit: int  # the first row that is too late for it
    end: int  # behind its last row


_SEARCH_WORDS = _Search.size
_FOUND_WORDS = Found.size


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
def _find_limit(program: Program, partition: Partition, rows: Words, search: _Search) -> None:
    """Move the limit to the first row that is beyond WITHIN of the row of the search."""
    width = program.row_words
    latest = plus(rows[search.row * width], program.within)
    while search.limit < partition.count and rows[search.limit * width] <= latest:
        search.limit += 1


@kernel
def _walk_from(
    program: Program, partition: Partition, search: _Search, end: int, frontier: int, first: int,
    which: int, store: list[Array],
) -> int:  # fmt: skip
    """The states of the match that begins at the row of the search; gives how many rows it has."""
    start = program.first_start if partition.dropped + search.row == 0 else 0
    store[PATH] = ensure_capacity(store[PATH], 0, end - search.row)
    rows = rows_of(partition, store)
    reach = pointer(store[which])
    path = pointer(store[PATH])
    return walk(program, rows, first, search.row, end, frontier, reach, start, path)


@kernel
def _outcome(
    program: Program, partition: Partition, search: _Search, first: int, store: list[Array]
) -> int:
    """What becomes of the match that begins at the row of the search; its states are in the path.

    The outcomes without WITHIN are known of all rows from ``first`` on. Where the match without WITHIN
    is too long, or not known, the rows within are looked at by themselves.
    """
    row = search.row
    n_rows = partition.count
    start = program.first_start if partition.dropped + row == 0 else 0
    rows = rows_of(partition, store)
    reach = pointer(store[REACH])
    matches = reached(program, reach, row - first, start, 0)
    waits = reached(program, reach, row - first, start, 1)
    if not matches and not waits:
        return _FAILS
    search.limit = max(search.limit, row)
    _find_limit(program, partition, rows, search)
    latest = plus(rows[row * program.row_words], program.within)
    is_over = search.limit < n_rows or search.now > latest or partition.last_time >= latest
    if matches:
        frontier = search.frontier
        search.end = row + _walk_from(
            program, partition, search, n_rows, frontier, first, REACH, store
        )
        if search.end <= search.limit:
            return _MATCHES
    elif not is_over:
        return _WAITS
    size = 2 * program.set_words
    store[WINDOW_REACH] = ensure_capacity(store[WINDOW_REACH], 0, (search.limit - row + 1) * size)
    window = pointer(store[WINDOW_REACH])
    rows = rows_of(partition, store)
    behind = Frontier.CUT if search.limit < n_rows else Frontier.CUT_OR_END
    find_reach(program, rows, row, search.limit, behind, window, pointer(store[WORK]))
    if reached(program, window, 0, start, 1):
        return _WAITS
    if not reached(program, window, 0, start, 0):
        return _FAILS
    search.end = row + _walk_from(
        program, partition, search, search.limit, behind, row, WINDOW_REACH, store
    )
    return _MATCHES


@kernel
def _next_row(program: Program, found: Found, path: Words) -> int:
    """Where the search goes on behind a match."""
    length = found.end - found.first
    if length == 0 or program.skipping == Skipping.TO_NEXT_ROW:
        return found.first + 1
    if program.skipping == Skipping.PAST_LAST_ROW:
        return found.end
    chosen = NONE
    for at in range(length):
        if program.skip_to >> program.variable_of[path[at]] & 1:
            chosen = at
            if program.skipping == Skipping.TO_FIRST:
                break
    return found.first + chosen


@kernel
def _give_interval(
    program: Program, partition: Partition, search: _Search, found: Found, store: list[Array]
) -> bool:
    """Give the match that was found as an interval; False while its end is not known.

    A match without rows is none.
    """
    partition_end = partition.last_time
    behind = found.end - 1 + program.lookahead
    has_rows = found.end > found.first
    if has_rows:
        if search.frontier == Frontier.MORE and behind >= partition.count:
            return False
        rows = rows_of(partition, store)
        width = program.row_words
        start = rows[found.first * width]
        known = rows[behind * width] if behind < partition.count else partition_end
        found.end_time = max(partition_end, start + 1)
        if found.end < partition.count:
            found.end_time = rows[found.end * width]
        found.known = max(found.known, known, found.end_time)
    partition.matches += 1
    found.number = partition.matches
    if has_rows:
        give_match(program, partition, found, store)
    return True


@kernel
def _search(
    program: Program, partition: Partition, search: _Search, found: Found, store: list[Array]
) -> None:
    """Give all matches that are certain, in the order of their first rows."""
    first = partition.head
    n_rows = partition.count
    size = 2 * program.set_words
    store[REACH] = ensure_capacity(store[REACH], 0, (n_rows - first + 1) * size)
    rows = rows_of(partition, store)
    reach = pointer(store[REACH])
    find_reach(program, rows, first, n_rows, search.frontier, reach, pointer(store[WORK]))
    found.known = 0
    if program.as_intervals:
        n_words = (n_rows - first + 1) * program.n_states
        store[CERTAIN] = ensure_capacity(store[CERTAIN], 0, n_words)
        certain = pointer(store[CERTAIN])
        find_certainty(program, rows, first, n_rows, search.frontier, reach, certain)
        found.known = INT64_MIN
    search.row = first
    search.limit = first
    while search.row < n_rows:
        outcome = _outcome(program, partition, search, first, store)
        if outcome == _WAITS:
            break
        found.first = search.row
        found.end = search.row
        if program.as_intervals:
            reach = pointer(store[REACH])
            certain = pointer(store[CERTAIN])
            decided = decided_at(
                program, partition, rows_of(partition, store), first, search.row, reach, certain
            )
            found.known = max(found.known, decided)
        if outcome == _FAILS:
            is_matched = partition.dropped + search.row < partition.matched_until
            if program.giving == Giving.ALL_AND_UNMATCHED and not is_matched:
                give_unmatched(program, partition, found, store)
            search.row += 1
            continue
        found.end = search.end
        behind = search.end - 1 + program.lookahead
        if program.as_intervals:
            if not _give_interval(program, partition, search, found, store):
                break
        elif search.frontier == Frontier.MORE and behind >= n_rows:
            break  # measures read rows to come
        else:
            partition.matches += 1
            found.number = partition.matches
            give_match(program, partition, found, store)
        partition.matched_until = max(partition.matched_until, partition.dropped + found.end)
        search.row = _next_row(program, found, pointer(store[PATH]))
    partition.head = search.row


@kernel
def _follow_head(
    program: Program, partition: Partition, rows: Words, first: int, now: int, scratch: Words
) -> bool:
    """Read the kept rows from one on into the threads of the head; whether it is undecided then."""
    width = program.row_words
    row = first
    if partition.head >= partition.count:
        return True  # there is no row at which a match could begin
    latest = plus(rows[partition.head * width], program.within)
    while row < partition.count:
        if not is_undecided(program, partition) or rows[row * width] > latest:
            return False
        step_threads(program, partition, rows[row * width + 1], scratch)
        row += 1
    return is_undecided(program, partition) and now <= latest and partition.last_time < latest


@kernel
def _work_on(
    program: Program, partition: Partition, search: _Search, found: Found, first_new: int,
    closes: bool, store: list[Array],
) -> None:  # fmt: skip
    """Find out what rows from one on, or the end of the partition, have made certain."""
    rows, scratch = rows_of(partition, store), pointer(store[WORK])
    undecided = _follow_head(program, partition, rows, first_new, search.now, scratch)
    if closes:
        search.frontier = Frontier.END
    elif undecided:
        return
    _search(program, partition, search, found, store)
    begin_threads(program, partition)
    if not closes:
        _follow_head(program, partition, rows, partition.head, search.now, scratch)


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
    undecided = _follow_head(program, partition, rows, first, INT64_MIN, pointer(scratch))
    while not undecided and _is_passed_over(program, partition):
        partition.head += 1
        begin_threads(program, partition)
        head = partition.head
        undecided = _follow_head(program, partition, rows, head, INT64_MIN, pointer(scratch))
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)
    keep_alive(values)
    keep_alive(known)
    keep_alive(scratch)
    return UNDECIDED if undecided else DECIDED


@kernel
def match_rows(
    program_array: Array,
    partitions_array: Array,
    partition_words: int,
    pool_array: Array,
    numbers_array: Array,
    offsets_array: Array,
    times_array: Times,
    masks_array: Array,
    columns_array: WordRows,
    known_array: FlagRows,
    now: int,
    closes: bool,
    is_whole: bool,
) -> tuple[Array, Array, int]:
    """Read rows of partitions; gives the pool, the result rows, and how many words of these there are.

    No row to come is earlier than ``now``. Where it ``closes``, no rows come at all. Partitions of a
    ``whole`` input are worked on one after the other in the first one's place.
    """
    program = Program(pointer(program_array))
    numbers = pointer(numbers_array)
    offsets = pointer(offsets_array)
    times = pointer(times_array)
    masks = pointer(masks_array)
    columns = pointer(columns_array)
    known = pointer(known_array)
    n_rows: int = columns_array.shape[1]
    empty = np.empty(0, np.int64)
    work = np.zeros(2 * program.n_states + 2 * program.set_words + 8, np.int64)
    store = [pool_array, np.empty(64, np.int64), empty, empty, empty, work, empty]
    flags_array = np.zeros(program.n_attributes + 1, np.uint8)
    flags: Flags = pointer(flags_array)
    found_array = np.zeros(_FOUND_WORDS, np.int64)
    found = Found(pointer(found_array), flags)
    search_array = np.zeros(_SEARCH_WORDS, np.int64)
    search = _Search(pointer(search_array))
    search.now = now
    for group in range(numbers_array.size):
        place = 0 if is_whole else numbers[group]
        partition = Partition(at_word(pointer(partitions_array), place * partition_words), program)
        if is_whole:
            base = partition.base
            capacity = partition.capacity
            partition.reset()
            partition.base = base
            partition.capacity = capacity
        if partition.head == partition.count:
            begin_threads(program, partition)
        found.partition = numbers[group]
        n_before = offsets[group + 1] - offsets[group]
        for row in range(offsets[group], offsets[group + 1]):
            kept = new_row(program, partition, store)
            values = at_word(columns, row)
            flags_of_row = at_word(known, row)
            _keep_row(program, kept, times[row], masks[row], values, flags_of_row, n_rows)
            partition.last_time = times[row]
        search.frontier = Frontier.MORE
        first_new = partition.count - n_before
        if closes and program.as_intervals:  # what is known before the end has its own instant
            _work_on(program, partition, search, found, first_new, False, store)
            first_new = partition.count
        _work_on(program, partition, search, found, first_new, closes, store)
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
