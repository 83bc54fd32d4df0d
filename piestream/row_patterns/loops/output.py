"""The result rows of a match: one, or one for each of its rows."""

from __future__ import annotations

from piestream.compiled.arrays import copy_words, ensure_capacity
from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, pointer
from piestream.compiled.records import Array, Carried, Flags, Record, Words, kernel
from piestream.intervals.aggregates import Columns, add_rows, clear_cell
from piestream.joins.result_rows import Phase, ResultRow
from piestream.row_patterns.loops.records import (
    BITS,
    KNOWN_AT,
    Entry,
    Giving,
    Partition,
    Program,
    What,
)
from piestream.row_patterns.loops.rows import PATH, RESULTS, WORK, rows_of

__all__ = ["Found", "give_match", "give_unmatched"]

_HEAD = ResultRow.offset("outputs")


class Found(Record):
    """A match: its rows ``[first, end)`` among those that are kept, and the states of each."""

    first: int
    end: int
    number: int  # in its partition
    partition: int
    n_results: int  # words of all result rows so far
    result: int  # the first of its result rows
    known: int  # when it became known, of an interval
    end_time: int  # of an interval

    flags: Carried[Flags]  # room for a flag an attribute


@kernel
def _known(row: Words, column: int) -> int:
    """Whether an attribute of a row has a value."""
    return row[KNOWN_AT + column // BITS] >> (column % BITS) & 1


@kernel
def _is_of(program: Program, entry: Entry, path: Words, at: int) -> bool:
    """Whether a row of a match is one of the entry's variables."""
    return entry.variables >> program.variable_of[path[at]] & 1 != 0


@kernel
def _put_value(
    program: Program, partition: Partition, found: Found, entry: Entry, rows: Words, path: Words,
    at: int, outputs: Words,
) -> None:  # fmt: skip
    """Write the value at a row of the match, moved by the entry's shift; NONE is no row."""
    outputs[0] = 0
    outputs[1] = 0
    if at == NONE:
        return
    if entry.column == NONE:
        outputs[0] = 1
        outputs[1] = program.variable_of[path[at]]
        return
    number = found.first + at + entry.shift
    if number < 0 or number >= partition.count:
        return
    row = at_word(rows, number * program.row_words)
    outputs[0] = _known(row, entry.column)
    outputs[1] = row[program.values_at + entry.column]


@kernel
def _first_of(program: Program, entry: Entry, path: Words, until: int) -> int:
    """The row of a match that FIRST means among those before ``until``; NONE if there is none."""
    left = entry.skipped
    for at in range(until):
        if _is_of(program, entry, path, at):
            if left == 0:
                return at
            left -= 1
    return NONE


@kernel
def _last_of(program: Program, entry: Entry, path: Words, until: int) -> int:
    """The row that LAST means."""
    left = entry.skipped
    for back in range(until):
        at = until - 1 - back
        if _is_of(program, entry, path, at):
            if left == 0:
                return at
            left -= 1
    return NONE


@kernel
def _gives(program: Program, path: Words, at: int) -> bool:
    """Whether a row of a match is one of the result, with ALL ROWS PER MATCH."""
    return program.excluded[path[at]] == 0


@kernel
def _fill_selected(
    program: Program, partition: Partition, found: Found, entry: Entry, rows: Words, path: Words,
    results: Words,
) -> None:  # fmt: skip
    """FIRST and LAST in all result rows of a match."""
    width = _HEAD + program.n_outputs
    length = found.end - found.first
    is_first = entry.what == What.FIRST
    result = at_word(results, entry.place)
    if program.giving == Giving.ONE_ROW or entry.is_final:
        select = (
            _first_of(program, entry, path, length)
            if is_first
            else _last_of(program, entry, path, length)
        )
        n_rows = found.n_results // width - found.result
        for number in range(n_rows):
            place = at_word(result, number * width)
            _put_value(program, partition, found, entry, rows, path, select, place)
        return
    chosen = NONE
    left = entry.skipped
    for at in range(length):
        if _is_of(program, entry, path, at):
            if is_first:
                if left == 0:
                    chosen = at
                left -= 1
            elif entry.skipped == 0:
                chosen = at
            else:
                chosen = _last_of(program, entry, path, at + 1)
        if _gives(program, path, at):
            _put_value(program, partition, found, entry, rows, path, chosen, result)
            result = at_word(result, width)
    if length == 0:
        _put_value(program, partition, found, entry, rows, path, NONE, result)


@kernel
def _fill_cell(
    program: Program, partition: Partition, found: Found, entry: Entry, rows: Words, path: Words,
    results: Words, sums: Words,
) -> None:  # fmt: skip
    """The words of an aggregate in all result rows of a match."""
    width = _HEAD + program.n_outputs
    length = found.end - found.first
    result = at_word(results, entry.place)
    cell = entry.cell[0]
    clear_cell(cell, sums)
    is_running = program.giving != Giving.ONE_ROW and entry.is_final == 0
    for at in range(length):
        if _is_of(program, entry, path, at):
            row = at_word(rows, (found.first + at) * program.row_words)
            if program.n_attributes > 0:
                found.flags[cell.column] = _known(row, cell.column)
            add_rows(cell, sums, Columns(at_word(row, program.values_at), found.flags, 1), 0, 1)
        if is_running and _gives(program, path, at):
            copy_words(sums, result, entry.n_words)
            result = at_word(result, width)
    if is_running and length > 0:
        return
    n_rows = found.n_results // width - found.result
    for number in range(n_rows):
        copy_words(sums, at_word(result, number * width), entry.n_words)


@kernel
def _fill_current(
    program: Program, partition: Partition, found: Found, entry: Entry, rows: Words, path: Words,
    results: Words,
) -> None:  # fmt: skip
    """An attribute of the row itself, in each result row."""
    width = _HEAD + program.n_outputs
    result = at_word(results, entry.place)
    for at in range(max(found.end - found.first, 1)):
        if found.end == found.first or _gives(program, path, at):
            row = at_word(rows, (found.first + at) * program.row_words)
            result[0] = _known(row, entry.column)
            result[1] = row[program.values_at + entry.column]
            result = at_word(result, width)


@kernel
def _fill_number(program: Program, found: Found, entry: Entry, results: Words) -> None:
    """The number of the match in all of its result rows."""
    width = _HEAD + program.n_outputs
    numbers = at_word(results, entry.place)
    for number in range(found.n_results // width - found.result):
        numbers[number * width] = found.number


@kernel
def _fill_bound(program: Program, found: Found, entry: Entry, rows: Words, results: Words) -> None:
    """The start or the end of the interval that a match is; it has one result row."""
    result = at_word(results, entry.place)
    starts = entry.what == What.START
    result[0] = rows[found.first * program.row_words] if starts else found.end_time


@kernel
def _new_results(program: Program, found: Found, count: int, store: list[Array]) -> Words:
    """Room for result rows, with what every one begins with; gives the outputs of the first."""
    width = _HEAD + program.n_outputs
    if store[RESULTS].size < found.n_results + count * width:
        store[RESULTS] = ensure_capacity(store[RESULTS], found.n_results, count * width)
    rows = at_word(pointer(store[RESULTS]), found.n_results)
    found.result = found.n_results // width
    for number in range(count):
        row = ResultRow(at_word(rows, number * width))
        row.partition = found.partition
        row.time = found.known
        row.phase = Phase.TRIGGER if number == 0 else Phase.COMPLETION
    found.n_results += count * width
    return at_word(rows, _HEAD)


@kernel
def give_match(program: Program, partition: Partition, found: Found, store: list[Array]) -> None:
    """Write the result rows of a match, whose states are in the path."""
    path = pointer(store[PATH])
    count = 1
    length = found.end - found.first
    if program.giving != Giving.ONE_ROW and length > 0:
        count = 0
        for at in range(length):
            count += 1 if _gives(program, path, at) else 0
    elif program.giving == Giving.ALL_BUT_EMPTY:
        count = 0
    if count == 0:
        return
    results = _new_results(program, found, count, store)
    rows, sums = rows_of(partition, store), pointer(store[WORK])
    for number in range(program.n_entries):
        entry = program.entries[number]
        if entry.what == What.FIRST or entry.what == What.LAST:
            _fill_selected(program, partition, found, entry, rows, path, results)
        elif entry.what == What.CELL:
            _fill_cell(program, partition, found, entry, rows, path, results, sums)
        elif entry.what == What.CURRENT:
            _fill_current(program, partition, found, entry, rows, path, results)
        elif entry.what == What.NUMBER:
            _fill_number(program, found, entry, results)
        else:
            _fill_bound(program, found, entry, rows, results)


@kernel
def give_unmatched(
    program: Program, partition: Partition, found: Found, store: list[Array]
) -> None:
    """Write the result row of a row that is in no match: it has no measures."""
    results = _new_results(program, found, 1, store)
    row = ResultRow(at_word(results, -_HEAD))
    row.phase = Phase.COMPLETION
    for word in range(program.n_outputs):
        results[word] = 0
    rows, path = rows_of(partition, store), pointer(store[PATH])
    for number in range(program.n_entries):
        entry = program.entries[number]
        if entry.what == What.CURRENT:
            _fill_current(program, partition, found, entry, rows, path, results)
