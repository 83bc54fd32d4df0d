"""Threads with memory: all ways in which a match can have come to a row, preferred first.

A thread is a state, the registers that conditions may still read from there, and the node of its last
row, from which its path goes back. Of threads that are equal but for their paths only the preferred one
goes on, for what can follow is the same; so there are never more of them than states and values of
registers. A thread is unsure where a condition on its way depends on a row that is yet to come.
"""

from __future__ import annotations

from piestream.compiled.arrays import copy_words, ensure_capacity
from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.primitives import at_word, pointer
from piestream.compiled.records import Array, Words, kernel
from piestream.row_patterns.loops.conditions import (
    Reading,
    clear_registers,
    forget_unread,
    read_row,
    truth_of,
)
from piestream.row_patterns.loops.records import Frontier, Mode, Partition, Program, Truth
from piestream.row_patterns.loops.rows import EQUALS, FOLLOWING, STACK, THREADS, rows_of
from piestream.row_patterns.loops.thread_blocks import (
    Thread,
    new_node,
    thread_at,
    thread_words,
)

__all__ = ["add_start", "complete_threads", "first_complete", "is_settled", "step_following"]

#: Least words of the table in which equal threads are found; there are two for each thread.
_LEAST_EQUALS = 64


@kernel
def add_start(program: Program, partition: Partition, start: int, store: list[Array]) -> None:
    """A thread that begins at a row, behind all others."""
    count = partition.n_following
    width = thread_words(program)
    store[THREADS] = ensure_capacity(store[THREADS], count * width, width)
    thread = thread_at(program, pointer(store[THREADS]), count)
    thread.state = program.first_start if start == 0 else 0
    thread.node = NONE
    thread.start = start
    thread.is_unsure = 0
    clear_registers(program, thread.registers)
    partition.n_following = count + 1


@kernel
def _is_equal(program: Program, thread: Thread, other: Thread, by_start: bool) -> bool:
    """Whether what can follow is the same for two threads."""
    if thread.state != other.state or thread.is_unsure != other.is_unsure:
        return False
    if by_start and thread.start != other.start:
        return False
    for word in range(program.register_words):
        if thread.registers[word] != other.registers[word]:
            return False
    return True


@kernel
def _hash_of(program: Program, thread: Thread, by_start: bool) -> int:
    value = thread.state * 2 + thread.is_unsure
    if by_start:
        value = value * 1000003 + thread.start
    for word in range(program.register_words):
        value = (value ^ (value >> 29)) * 1000003 + thread.registers[word]
    value ^= value >> 32
    return value ^ (value >> 15)


@kernel
def _begin_equals(count: int, store: list[Array]) -> None:
    """A table of threads with room for so many, in which there is none yet.

    Its first word says how long it is, the second which entries are of this row.
    """
    size = _LEAST_EQUALS
    while size < 4 * count:
        size *= 2
    if store[EQUALS].size < 2 + 2 * size:
        store[EQUALS] = ensure_capacity(store[EQUALS], 0, 2 + 2 * size)
        table = pointer(store[EQUALS])
        for word in range(store[EQUALS].size):
            table[word] = 0
    table = pointer(store[EQUALS])
    table[0] = size
    table[1] += 1


@kernel
def _is_new(program: Program, threads: Words, number: int, store: list[Array]) -> bool:
    """Whether no thread before this one is equal to it.

    Where WITHIN is over for one sooner than for the other, what can follow is not the same.
    """
    by_start = program.mode == Mode.INCREMENTAL and program.within != INT64_MAX
    table = pointer(store[EQUALS])
    size = table[0]
    thread = thread_at(program, threads, number)
    at = _hash_of(program, thread, by_start) & (size - 1)
    while table[2 + 2 * at] == table[1]:
        other = thread_at(program, threads, table[3 + 2 * at])
        if _is_equal(program, thread, other, by_start):
            return False
        at = (at + 1) & (size - 1)
    table[2 + 2 * at] = table[1]
    table[3 + 2 * at] = number
    return True


@kernel
def _note_complete(partition: Partition, node: int, end: int) -> None:
    partition.has_match = 1
    partition.best_node = node
    partition.best_end = end


@kernel
def _room_for(program: Program, found: int, store: list[Array]) -> Words:
    """Room for the threads behind a row that can come of one thread more, and be looked up."""
    width = thread_words(program)
    most = found + program.n_states + 1
    if store[FOLLOWING].size < most * width:
        store[FOLLOWING] = ensure_capacity(store[FOLLOWING], found * width, (most - found) * width)
    return pointer(store[FOLLOWING])


@kernel
def _follow(
    program: Program, partition: Partition, thread: Thread, target: int, reading: Reading,
    found: int, store: list[Array],
) -> bool:  # fmt: skip
    """Let a thread read the row in a state, if it can, as the one with this number behind it."""
    rows = rows_of(partition, store)
    variable = program.variable_of[target]
    if rows[reading.row * program.row_words + 1] >> variable & 1 == 0:
        return False
    threads = pointer(store[FOLLOWING])
    new = thread_at(program, threads, found)
    copy_words(thread.registers, new.registers, program.register_words)
    read_row(program, new.registers, variable, reading, rows)
    truth = truth_of(program, variable, new.registers, reading, rows, pointer(store[STACK]))
    if truth == Truth.NULL:
        return False
    new.state = target
    new.start = thread.start
    new.is_unsure = 1 if truth == Truth.PENDING or thread.is_unsure != 0 else 0
    forget_unread(program, new.registers, target)
    if not _is_new(program, threads, found, store):
        return False
    new.node = new_node(partition, target, thread.node, store)
    return True


@kernel
def _pass_on(program: Program, thread: Thread, found: int, store: list[Array]) -> None:
    """Keep a complete match that is unsure, in its place among the threads."""
    new = thread_at(program, pointer(store[FOLLOWING]), found)
    copy_words(at_word(thread, 0), at_word(new, 0), thread_words(program))
    new.state = program.accept


@kernel
def step_following(
    program: Program, partition: Partition, reading: Reading, end: int, store: list[Array]
) -> None:
    """Read a row into the threads, which come to its end; complete matches are noted.

    ``end`` is the number of the row, counted from the first of the partition.
    """
    n_old = partition.n_following
    found = 0
    has_ended = False
    _begin_equals(n_old + program.n_states, store)
    for number in range(n_old):
        _room_for(program, found, store)
        _keep_room_for_equals(program, found, store)
        thread = thread_at(program, pointer(store[THREADS]), number)
        if thread.state == program.accept:
            _pass_on(program, thread, found, store)
            found += 1
            continue
        state = thread.state
        for at in range(program.successors_from[state], program.successors_from[state + 1]):
            target = program.successors[at]
            if target == program.accept_at_end:
                continue
            if target != program.accept:
                if _follow(program, partition, thread, target, reading, found, store):
                    found += 1
            elif program.mode == Mode.INCREMENTAL:
                continue
            elif thread.is_unsure != 0:
                _pass_on(program, thread, found, store)
                found += 1
                if program.mode == Mode.PREFERRED:
                    break
            elif not has_ended:
                _note_complete(partition, thread.node, end)
                has_ended = True
        if has_ended and program.mode == Mode.PREFERRED:
            break  # what comes behind is less preferred than this match
    partition.n_following = found
    store[THREADS], store[FOLLOWING] = store[FOLLOWING], store[THREADS]


@kernel
def _keep_room_for_equals(program: Program, found: int, store: list[Array]) -> None:
    """Make the table of threads longer where it is half full."""
    size = pointer(store[EQUALS])[0]
    if 2 * (found + program.n_states) <= size:
        return
    _begin_equals(found + program.n_states, store)
    threads = pointer(store[FOLLOWING])
    for number in range(found):
        if thread_at(program, threads, number).state != program.accept:
            _is_new(program, threads, number, store)


@kernel
def is_settled(program: Program, partition: Partition, store: list[Array]) -> bool:
    """Whether the preferred thread is complete, and prefers that to going on."""
    if program.mode != Mode.PREFERRED or partition.n_following == 0:
        return False
    thread = thread_at(program, pointer(store[THREADS]), 0)
    if thread.is_unsure != 0:
        return False
    first = program.successors_from[thread.state]
    if first == program.successors_from[thread.state + 1]:
        return False
    return program.successors[first] == program.accept


@kernel
def complete_threads(
    program: Program, partition: Partition, frontier: int, end: int, store: list[Array]
) -> bool:
    """No thread reads any more: note the match that is complete; False where that is not certain."""
    threads = pointer(store[THREADS])
    for number in range(partition.n_following):
        thread = thread_at(program, threads, number)
        if thread.state == program.accept:
            return False
        for at in range(
            program.successors_from[thread.state], program.successors_from[thread.state + 1]
        ):
            target = program.successors[at]
            is_complete = target == program.accept
            if target == program.accept_at_end:
                is_complete = frontier == Frontier.END
                if frontier == Frontier.CUT_OR_END:
                    return False
            if is_complete:
                if thread.is_unsure != 0:
                    return False
                _note_complete(partition, thread.node, end)
                return True
    return True


@kernel
def first_complete(program: Program, partition: Partition, store: list[Array]) -> int:
    """The first of the threads that are complete; NONE if there is none."""
    threads = pointer(store[THREADS])
    for number in range(partition.n_following):
        thread = thread_at(program, threads, number)
        if thread.node == NONE:
            continue
        for at in range(
            program.successors_from[thread.state], program.successors_from[thread.state + 1]
        ):
            if program.successors[at] == program.accept:
                return number
    return NONE
