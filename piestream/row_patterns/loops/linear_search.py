"""The search for matches whose conditions read one row each: linear, whatever the pattern.

When the match that begins at the head of a partition is decided, the outcomes at all kept rows are
found at once, and matches are given up to the first row whose outcome depends on rows to come.
"""

from __future__ import annotations

from piestream.compiled.arrays import ensure_capacity
from piestream.compiled.constants import INT64_MIN, NONE
from piestream.compiled.primitives import pointer
from piestream.compiled.records import Array, Words, kernel
from piestream.intervals.ticks import plus
from piestream.row_patterns.loops.certainty import decided_at, find_certainty
from piestream.row_patterns.loops.output import Found, give_match, give_unmatched
from piestream.row_patterns.loops.reach import find_reach, reached, walk
from piestream.row_patterns.loops.records import (
    Frontier,
    Giving,
    Partition,
    Program,
    Search,
    Skipping,
)
from piestream.row_patterns.loops.rows import CERTAIN, PATH, REACH, WINDOW_REACH, WORK, rows_of
from piestream.row_patterns.loops.threads import is_undecided, step_threads

__all__ = ["follow_head", "give_interval", "next_row", "search_linearly"]

#: What becomes of the match that begins at a row.
_FAILS, _MATCHES, _WAITS = range(3)


@kernel
def _find_limit(program: Program, partition: Partition, rows: Words, search: Search) -> None:
    """Move the limit to the first row that is beyond WITHIN of the row of the search."""
    width = program.row_words
    latest = plus(rows[search.row * width], program.within)
    while search.limit < partition.count and rows[search.limit * width] <= latest:
        search.limit += 1


@kernel
def _outcome(
    program: Program, partition: Partition, search: Search, first: int, rows: Words, reach: Words,
    path: Words, store: list[Array],
) -> int:  # fmt: skip
    """What becomes of the match that begins at the row of the search; its states are in the path.

    The outcomes without WITHIN are known of all rows from ``first`` on. Where the match without WITHIN
    is too long, or not known, the rows within are looked at by themselves.
    """
    row = search.row
    n_rows = partition.count
    start = program.first_start if partition.dropped + row == 0 else 0
    matches = reached(program, reach, row - first, start, 0)
    waits = reached(program, reach, row - first, start, 1)
    if not matches and not waits:
        return _FAILS
    search.limit = max(search.limit, row)
    _find_limit(program, partition, rows, search)
    latest = plus(rows[row * program.row_words], program.within)
    is_over = search.limit < n_rows or search.now > latest or partition.is_after(latest)
    if matches:
        length = walk(program, rows, first, row, n_rows, search.frontier, reach, start, path)
        search.end = row + length
        if search.end <= search.limit:
            return _MATCHES
    elif not is_over:
        return _WAITS
    size = 2 * program.set_words
    store[WINDOW_REACH] = ensure_capacity(store[WINDOW_REACH], 0, (search.limit - row + 1) * size)
    window = pointer(store[WINDOW_REACH])
    search.work_left -= search.limit - row
    behind = Frontier.CUT if search.limit < n_rows else Frontier.CUT_OR_END
    find_reach(program, rows, row, search.limit, behind, window, pointer(store[WORK]))
    if reached(program, window, 0, start, 1):
        return _WAITS
    if not reached(program, window, 0, start, 0):
        return _FAILS
    search.end = row + walk(program, rows, row, row, search.limit, behind, window, start, path)
    return _MATCHES


@kernel
def next_row(program: Program, first: int, end: int, path: Words) -> int:
    """Where the search goes on behind a match of the rows ``[first, end)``."""
    length = end - first
    if length == 0 or program.skipping == Skipping.TO_NEXT_ROW:
        return first + 1
    if program.skipping == Skipping.PAST_LAST_ROW:
        return end
    chosen = NONE
    for at in range(length):
        if program.skip_to >> program.variable_of[path[at]] & 1:
            chosen = at
            if program.skipping == Skipping.TO_FIRST:
                break
    return first + chosen


@kernel
def give_interval(
    program: Program, partition: Partition, search: Search, found: Found, store: list[Array]
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
def search_linearly(
    program: Program, partition: Partition, search: Search, found: Found, store: list[Array]
) -> None:
    """Give all matches that are certain, in the order of their first rows, up to the next pause."""
    first = partition.head
    n_rows = partition.count
    size = 2 * program.set_words
    store[REACH] = ensure_capacity(store[REACH], 0, (n_rows - first + 1) * size)
    rows = rows_of(partition, store)
    reach = pointer(store[REACH])
    find_reach(program, rows, first, n_rows, search.frontier, reach, pointer(store[WORK]))
    if not program.as_intervals:
        found.known = 0
    else:
        n_words = (n_rows - first + 1) * program.n_states
        store[CERTAIN] = ensure_capacity(store[CERTAIN], 0, n_words)
        certain = pointer(store[CERTAIN])
        find_certainty(program, rows, first, n_rows, search.frontier, reach, certain)
        if not search.resumes:
            found.known = INT64_MIN
    store[PATH] = ensure_capacity(store[PATH], 0, n_rows - first)
    path = pointer(store[PATH])
    search.row = first
    search.limit = first
    search.is_paused = 0
    while search.row < n_rows:
        search.work_left -= 1
        if search.work_left < 0 and search.row > first:
            search.is_paused = 1
            break
        outcome = _outcome(program, partition, search, first, rows, reach, path, store)
        if outcome == _WAITS:
            break
        found.first = search.row
        found.end = search.row
        if program.as_intervals:
            certain = pointer(store[CERTAIN])
            decided = decided_at(program, partition, rows, first, search.row, reach, certain)
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
            if not give_interval(program, partition, search, found, store):
                break
        elif search.frontier == Frontier.MORE and behind >= n_rows:
            break  # measures read rows to come
        else:
            partition.matches += 1
            found.number = partition.matches
            give_match(program, partition, found, store)
        search.work_left -= found.end - found.first
        partition.matched_until = max(partition.matched_until, partition.dropped + found.end)
        search.row = next_row(program, found.first, found.end, path)
    partition.head = search.row


@kernel
def follow_head(
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
    return is_undecided(program, partition) and now <= latest and not partition.is_after(latest)
