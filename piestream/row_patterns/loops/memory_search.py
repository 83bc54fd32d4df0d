"""The search for matches whose conditions read other rows of them, or of which the longest are given.

From each row at which a match may begin, threads are followed row by row until the match there is
certain, as far as rows are known. Where a condition waits for rows behind its own, the threads read on
from there on trial, to see whether the match depends on these at all.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import copy_words, ensure_capacity
from piestream.compiled.constants import INT64_MIN, NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, kernel
from piestream.intervals.ticks import plus
from piestream.row_patterns.loops.conditions import Reading
from piestream.row_patterns.loops.following import (
    add_start,
    complete_threads,
    first_complete,
    is_settled,
    step_following,
)
from piestream.row_patterns.loops.linear_search import give_interval, next_row
from piestream.row_patterns.loops.output import Found, give_match, give_unmatched
from piestream.row_patterns.loops.records import (
    BlocksHeader,
    Frontier,
    Giving,
    Mode,
    Partition,
    Program,
    Search,
)
from piestream.row_patterns.loops.rows import PATH, THREADS, TRIED, rows_of
from piestream.row_patterns.loops.thread_blocks import (
    drop_nodes_at_times,
    load_threads,
    path_of,
    save_threads,
    thread_at,
    thread_words,
)

__all__ = ["compact_blocks", "search_with_memory"]

#: What becomes of the match that begins at a row.
FAILS, MATCHES, WAITS = range(3)
_BLOCKS_HEAD = BlocksHeader.size


@kernel
def _restart(program: Program, partition: Partition, store: list[Array]) -> None:
    """Follow the match that begins at the head, from there on."""
    partition.is_followed = 1
    partition.followed_until = partition.dropped + partition.head
    partition.n_nodes = 0
    partition.n_kept_nodes = 0
    partition.n_following = 0
    partition.has_match = 0
    partition.best_node = NONE
    partition.best_end = 0
    if program.mode != Mode.INCREMENTAL:
        add_start(program, partition, partition.followed_until, store)


@kernel
def _frontier_at(partition: Partition, search: Search, latest: int, row: int, time: int) -> int:
    """What comes behind the rows before this one, of which threads may read one until ``latest``."""
    if row < partition.count:
        return Frontier.CUT if time > latest else Frontier.MORE
    if search.frontier == Frontier.END:
        return Frontier.END
    is_over = search.now > latest or partition.is_after(latest)
    return Frontier.CUT_OR_END if is_over else Frontier.MORE


@kernel
def _time_at(program: Program, partition: Partition, row: int, store: list[Array]) -> int:
    if row >= partition.count:
        return 0
    return rows_of(partition, store)[row * program.row_words]


@kernel
def _read_until(
    program: Program, partition: Partition, search: Search, reading: Reading, latest: int,
    until: int, store: list[Array],
) -> int:  # fmt: skip
    """Let threads read the rows before ``until``, as long as that decides anything, up to a pause.

    Gives what comes behind the rows that they have read.
    """
    while True:
        row = partition.followed_until - partition.dropped
        time = _time_at(program, partition, row, store)
        frontier = _frontier_at(partition, search, latest, row, time)
        if partition.n_following == 0 or frontier != Frontier.MORE or row >= until:
            return frontier
        if is_settled(program, partition, store):
            return frontier
        if not search.on_trial:
            if search.work_left < 0:
                search.is_paused = 1
                return frontier
            search.work_left -= partition.n_following
            drop_nodes_at_times(program, partition, store)
        reading.row = row
        step_following(program, partition, reading, partition.followed_until, store)
        partition.followed_until += 1


@kernel
def _decide(
    program: Program, partition: Partition, search: Search, frontier: int, latest: int,
    store: list[Array],
) -> int:  # fmt: skip
    """What becomes of the match whose threads have come as far as they can."""
    end = partition.followed_until
    row = end - partition.dropped  # the first that they have not read
    last = max(partition.head, row - 1) + program.horizon
    if partition.n_following > 0:
        if frontier == Frontier.MORE and not is_settled(program, partition, store):
            return WAITS
        by_row = frontier == Frontier.CUT and not complete_threads(
            program, partition, Frontier.CUT_OR_END, end, store
        )  # the end of the partition might have come before that row
        if not complete_threads(program, partition, frontier, end, store):
            return WAITS
        if frontier == Frontier.END:
            last = partition.count
        elif by_row:
            last = row
        elif frontier != Frontier.MORE:
            search.decided = latest
            return MATCHES if partition.has_match != 0 else FAILS
    search.decided = partition.last_time
    if last < partition.count:
        search.decided = _time_at(program, partition, last, store)
    return MATCHES if partition.has_match != 0 else FAILS


@kernel
def _outcome(
    program: Program, partition: Partition, search: Search, reading: Reading, store: list[Array]
) -> int:
    """What becomes of the match that begins at the head."""
    first = _time_at(program, partition, partition.head, store)
    latest = plus(first, program.within)
    known = partition.count
    if search.frontier != Frontier.END:
        known = partition.count - program.horizon
    frontier = _read_until(program, partition, search, reading, latest, known, store)
    if search.is_paused:
        return WAITS
    row = partition.followed_until - partition.dropped
    if partition.n_following == 0 or frontier != Frontier.MORE or row >= partition.count:
        return _decide(program, partition, search, frontier, latest, store)
    if program.as_intervals or is_settled(program, partition, store):
        return _decide(program, partition, search, frontier, latest, store)
    return _on_trial(program, partition, search, reading, latest, store)


@kernel
def _on_trial(
    program: Program, partition: Partition, search: Search, reading: Reading, latest: int,
    store: list[Array],
) -> int:  # fmt: skip
    """As `_outcome`, of threads that read rows whose conditions wait for others."""
    words = partition.n_following * thread_words(program)
    store[TRIED] = ensure_capacity(store[TRIED], 0, words)
    copy_words(pointer(store[THREADS]), pointer(store[TRIED]), words)
    until, nodes = partition.followed_until, partition.n_nodes
    threads, has_match = partition.n_following, partition.has_match
    node, end = partition.best_node, partition.best_end
    search.on_trial = 1
    frontier = _read_until(program, partition, search, reading, latest, partition.count, store)
    search.on_trial = 0
    outcome = _decide(program, partition, search, frontier, latest, store)
    if outcome == WAITS:
        partition.followed_until, partition.n_nodes = until, nodes
        partition.n_following, partition.has_match = threads, has_match
        partition.best_node, partition.best_end = node, end
        copy_words(pointer(store[TRIED]), pointer(store[THREADS]), words)
    return outcome


@kernel
def _begin_reading(partition: Partition, search: Search, reading: Reading) -> None:
    reading.count = partition.count
    reading.dropped = partition.dropped
    reading.is_last = 1 if search.frontier == Frontier.END else 0
    reading.number = partition.matches + 1


@kernel
def search_with_memory(
    program: Program, partition: Partition, search: Search, reading: Reading, found: Found,
    store: list[Array],
) -> None:  # fmt: skip
    """Give all matches of a partition that are certain, up to the next pause."""
    _begin_reading(partition, search, reading)
    search.is_paused = 0
    if not search.resumes:
        found.known = INT64_MIN if program.as_intervals else 0
    if partition.is_followed == 0:
        _restart(program, partition, store)
    else:
        load_threads(program, partition, store)
    if program.mode == Mode.INCREMENTAL:
        _give_incremental(program, partition, search, reading, found, store)
    else:
        _give_in_order(program, partition, search, reading, found, store)
    save_threads(program, partition, store)


@kernel
def _give(
    program: Program, partition: Partition, search: Search, found: Found, store: list[Array]
) -> bool:
    """Give the match that was found; False while it depends on rows to come what is given."""
    if program.as_intervals:
        return give_interval(program, partition, search, found, store)
    behind = found.end - 1 + program.lookahead
    if search.frontier != Frontier.END and behind >= partition.count:
        return False
    partition.matches += 1
    found.number = partition.matches
    give_match(program, partition, found, store)
    return True


@kernel
def _give_in_order(
    program: Program, partition: Partition, search: Search, reading: Reading, found: Found,
    store: list[Array],
) -> None:  # fmt: skip
    """Give matches in the order of their first rows, up to the first that is not certain."""
    while partition.head < partition.count:
        search.work_left -= 1
        outcome = _outcome(program, partition, search, reading, store)
        if outcome == WAITS:
            return
        found.first = partition.head
        found.end = partition.head
        found.known = max(found.known, search.decided)
        if outcome == FAILS:
            is_matched = partition.dropped + partition.head < partition.matched_until
            if program.giving == Giving.ALL_AND_UNMATCHED and not is_matched:
                give_unmatched(program, partition, found, store)
            partition.head += 1
            _restart(program, partition, store)
            continue
        found.end = partition.best_end - partition.dropped
        path_of(partition, partition.best_node, found.end - found.first, store)
        if not _give(program, partition, search, found, store):
            _restart(program, partition, store)
            return  # rows to come are read by measures, or say where an interval ends
        search.work_left -= found.end - found.first
        reading.number = partition.matches + 1
        partition.matched_until = max(partition.matched_until, partition.best_end)
        partition.head = next_row(program, found.first, found.end, pointer(store[PATH]))
        _restart(program, partition, store)


@kernel
def _drop_outdated(program: Program, partition: Partition, now: int, store: list[Array]) -> None:
    """Drop the threads, which are in the order of their first rows, that are too old to read on."""
    threads = pointer(store[THREADS])
    rows = rows_of(partition, store)
    width = thread_words(program)
    gone = 0
    while gone < partition.n_following:
        thread = thread_at(program, threads, gone)
        time = rows[(thread.start - partition.dropped) * program.row_words]
        if plus(time, program.within) >= now:
            break
        gone += 1
    if gone > 0:
        rest = (partition.n_following - gone) * width
        copy_words(at_word(threads, gone * width), threads, rest)
        partition.n_following -= gone


@kernel
def _give_incremental(
    program: Program, partition: Partition, search: Search, reading: Reading, found: Found,
    store: list[Array],
) -> None:  # fmt: skip
    """Give for each row the longest match that ends there, as soon as its conditions are known."""
    ahead = max(program.horizon, program.lookahead)
    known = partition.count
    if search.frontier != Frontier.END:
        known = partition.count - ahead
    while partition.followed_until - partition.dropped < known:
        if search.work_left < 0:
            search.is_paused = 1
            break
        search.work_left -= partition.n_following + 1
        row = partition.followed_until - partition.dropped
        _drop_outdated(program, partition, _time_at(program, partition, row, store), store)
        drop_nodes_at_times(program, partition, store)
        add_start(program, partition, partition.followed_until, store)
        reading.row = row
        step_following(program, partition, reading, partition.followed_until, store)
        partition.followed_until += 1
        if partition.followed_until <= partition.given_until:
            continue
        partition.given_until = partition.followed_until
        number = first_complete(program, partition, store)
        if number == NONE:
            continue
        thread = thread_at(program, pointer(store[THREADS]), number)
        found.first = thread.start - partition.dropped
        found.end = row + 1
        path_of(partition, thread.node, found.end - found.first, store)
        last = min(row + ahead, partition.count - 1)
        found.known = max(found.known, _time_at(program, partition, last, store))
        _give(program, partition, search, found, store)
    now = search.now
    if partition.followed_until - partition.dropped < partition.count:  # rows that wait for others
        unread = partition.followed_until - partition.dropped
        now = min(now, _time_at(program, partition, unread, store))
    _drop_outdated(program, partition, now, store)
    first = partition.followed_until
    if partition.n_following > 0:
        first = thread_at(program, pointer(store[THREADS]), 0).start
    partition.head = first - partition.dropped


@kernel
def compact_blocks(
    program_array: Array, partitions_array: Array, partition_words: int, n_partitions: int,
    blocks_array: Array,
) -> Array:  # fmt: skip
    """The blocks of all partitions without those that they have left."""
    program = Program(pointer(program_array))
    words = _BLOCKS_HEAD
    for number in range(n_partitions):
        place = at_word(pointer(partitions_array), number * partition_words)
        words += Partition(place, program).block_words
    compacted = np.zeros(words, np.int64)
    at = _BLOCKS_HEAD
    for number in range(n_partitions):
        place = at_word(pointer(partitions_array), number * partition_words)
        partition = Partition(place, program)
        source = at_word(pointer(blocks_array), partition.block)
        copy_words(source, at_word(pointer(compacted), at), partition.block_words)
        partition.block = at
        at += partition.block_words
    header = BlocksHeader(pointer(compacted))
    header.used = at
    header.wasted = 0
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(blocks_array)
    return compacted
