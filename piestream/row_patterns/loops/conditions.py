"""Conditions that read other rows of a match: what is kept of it, and whether a row may follow.

A thread has registers, which are brought up to date with a row before the condition of the row's
variable is looked at. A condition is a list of steps on a stack; each value on it has two words, the
value and what is known of it. What depends on a row that is yet to come is pending.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import as_floats, at_word
from piestream.compiled.records import Carried, Flags, Record, Words, kernel
from piestream.intervals.aggregates import Columns, add_rows
from piestream.row_patterns.loops.calculation import change, combine, select
from piestream.row_patterns.loops.records import (
    BITS,
    KNOWN_AT,
    Holding,
    Operator,
    Program,
    Register,
    Truth,
)

__all__ = ["Reading", "clear_registers", "forget_unread", "read_row", "truth_of"]

_PENDING, _KNOWN, _NULL = int(Truth.PENDING), int(Truth.KNOWN), int(Truth.NULL)


class Reading(Record):
    """The row that is read, among the rows that are kept, and what is known around it."""

    row: int
    count: int  # of rows that are kept
    is_last: int  # whether no rows come behind them
    dropped: int  # how many rows came before them
    number: int  # of the match

    flags: Carried[Flags]  # room for a flag an attribute


@kernel
def clear_registers(program: Program, words: Words) -> None:
    """No row has been read."""
    for number in range(program.n_registers):
        register = program.registers[number]
        place = at_word(words, register.place)
        for word in range(register.n_words):
            place[word] = 0


@kernel
def forget_unread(program: Program, words: Words, state: int) -> None:
    """Clear the registers that are read on no way from a state, so that threads can be equal."""
    live = program.live[state]
    for number in range(program.n_registers):
        if live >> number & 1 == 0:
            register = program.registers[number]
            for word in range(register.n_words):
                words[register.place + word] = 0


@kernel
def _put_value(
    program: Program, reading: Reading, rows: Words, column: int, shift: int, target: Words
) -> None:
    """The value of an attribute at a row before or behind, and what is known of it."""
    number = reading.row + shift
    target[0] = 0
    target[1] = 0
    if number >= reading.count:
        target[0] = _NULL if reading.is_last != 0 else _PENDING
    elif number >= 0:
        row = at_word(rows, number * program.row_words)
        if row[KNOWN_AT + column // BITS] >> (column % BITS) & 1:
            target[0] = _KNOWN
            target[1] = row[program.values_at + column]


@kernel
def _put_item(
    program: Program, register: Register, reading: Reading, rows: Words, variable: int,
    target: Words,
) -> None:  # fmt: skip
    if register.column == NONE:
        target[0] = _KNOWN
        target[1] = variable
    else:
        _put_value(program, reading, rows, register.column, register.shift, target)


@kernel
def read_row(program: Program, words: Words, variable: int, reading: Reading, rows: Words) -> None:
    """Bring registers up to date with a row that is one of a variable."""
    for number in range(program.n_registers):
        register = program.registers[number]
        if register.variables >> variable & 1 == 0:
            continue
        place = at_word(words, register.place)
        if register.holding == Holding.LAST:
            for word in range(2 * register.skipped + 1, 1, -1):
                place[word] = place[word - 2]
            _put_item(program, register, reading, rows, variable, place)
        elif register.holding == Holding.FIRST:
            if place[0] <= register.skipped:
                if place[0] == register.skipped:
                    _put_item(program, register, reading, rows, variable, at_word(place, 1))
                place[0] += 1
        else:
            cell = register.cell[0]
            row = at_word(rows, reading.row * program.row_words)
            column = cell.column
            if program.n_attributes > 0:
                flag = row[KNOWN_AT + column // BITS] >> (column % BITS) & 1
                reading.flags[column] = flag
            values = Columns(at_word(row, program.values_at), reading.flags, 1)
            add_rows(cell, place, values, 0, 1)


@kernel
def _is_wrapped(total: int, rough: float) -> bool:
    """Whether a sum modulo 2^64 is not the sum."""
    return abs(rough - total) > 2.0**62


@kernel
def _put_sum(operator: int, words: Words, sum_at: int, count_at: int, top: Words) -> None:
    """A sum or mean of the words of its cells, and their count."""
    count = words[count_at]
    top[0] = _NULL if count == 0 else _KNOWN
    sums = as_floats(at_word(words, sum_at))
    values = as_floats(at_word(top, 1))
    total = words[sum_at]
    if operator == Operator.SUM_INT:
        top[1] = total
        if _is_wrapped(total, sums[1]):
            top[0] = _NULL
    elif operator == Operator.SUM_FLOAT:
        values[0] = sums[0]
    elif count > 0:
        if operator == Operator.MEAN_FLOAT:
            values[0] = sums[0] / count
        elif _is_wrapped(total, sums[1]):
            values[0] = sums[1] / count
        else:
            values[0] = total / count


@kernel
def _put_spread(operator: int, words: Words, at: int, top: Words) -> None:
    """A variance or a deviation of the words of its cell."""
    count = words[at]
    values = as_floats(at_word(top, 1))
    top[0] = _NULL
    if count > 1:
        top[0] = _KNOWN
        variance = as_floats(at_word(words, at))[2] / (count - 1)
        values[0] = variance**0.5 if operator == Operator.DEVIATION else variance


@kernel
def _put(
    program: Program, operator: int, operand: int, other: int, words: Words, reading: Reading,
    rows: Words, top: Words,
) -> None:  # fmt: skip
    """Put a value on the stack."""
    top[0] = _KNOWN
    if operator == Operator.REGISTER:
        top[0] = words[operand]
        top[1] = words[operand + 1]
    elif operator == Operator.CURRENT:
        _put_value(program, reading, rows, operand, other, top)
    elif operator == Operator.CONSTANT:
        top[1] = operand
    elif operator == Operator.NULL:
        top[0] = _NULL
        top[1] = 0
    elif operator == Operator.BIT:
        top[1] = rows[reading.row * program.row_words + 1] >> operand & 1
    elif operator == Operator.COUNT:
        top[1] = words[operand]
    elif operator == Operator.NUMBER:
        top[1] = reading.number
    elif operator == Operator.VARIANCE or operator == Operator.DEVIATION:
        _put_spread(operator, words, operand, top)
    else:
        _put_sum(operator, words, operand, other, top)


@kernel
def truth_of(
    program: Program, variable: int, words: Words, reading: Reading, rows: Words, stack: Words
) -> int:
    """Whether the condition of a variable holds of a row with which registers are up to date.

    Gives KNOWN where it does, NULL where it does not, and PENDING.
    """
    first = program.steps_from[variable]
    end = program.steps_from[variable + 1]
    if first == end:
        return _KNOWN
    height = 0
    for number in range(first, end):
        step = program.steps[number]
        operator = step.operator
        top = at_word(stack, 2 * height)
        if operator < Operator.NOT:
            _put(program, operator, step.operand, step.other, words, reading, rows, top)
            height += 1
        elif operator < Operator.AND:
            change(operator, step.operand, at_word(stack, 2 * height - 2))
        elif operator < Operator.SELECT:
            height -= 1
            combine(operator, at_word(stack, 2 * height - 2), at_word(stack, 2 * height))
        else:
            height -= 2
            select(at_word(stack, 2 * height - 2))
    if stack[0] == _KNOWN and stack[1] == 0:
        return _NULL
    return stack[0]
