"""Conditions that read other rows of a match: what is kept of it, and whether a row may follow.

A thread has registers, which are brought up to date with a row before the condition of the row's
variable is looked at. A condition is a list of steps on a stack; each value on it has two words, the
value and what is known of it. What depends on a row that is yet to come is pending.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.primitives import as_floats, at_word
from piestream.compiled.records import Carried, Flags, Record, Words, kernel
from piestream.intervals.aggregates import Columns, add_rows
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
def _truncate(value: float, top: Words) -> None:
    """A float without its fraction; NULL where 64 bits do not hold it."""
    if value >= -(2.0**63) and value < 2.0**63:
        top[1] = int(value)
    else:
        top[0] = _NULL


@kernel
def _change(operator: int, top: Words) -> None:
    """Make another value of the one at the top."""
    if operator == Operator.IS_NULL:
        if top[0] != _PENDING:
            top[1] = 1 if top[0] == _NULL else 0
            top[0] = _KNOWN
        return
    if top[0] != _KNOWN:
        return
    values = as_floats(at_word(top, 1))
    if operator == Operator.NOT:
        top[1] = 1 - top[1]
    elif operator == Operator.TO_FLOAT:
        values[0] = float(top[1])
    elif operator == Operator.TO_INT:
        _truncate(values[0], top)
    elif operator == Operator.ABS_INT:
        if top[1] == INT64_MIN:
            top[0] = _NULL
        top[1] = abs(top[1])
    elif operator == Operator.ABS_FLOAT:
        values[0] = abs(values[0])
    elif values[0] >= 0.0:
        values[0] = values[0] ** 0.5
    else:
        top[0] = _NULL


@kernel
def _join(operator: int, left: Words, right: Words) -> None:
    """AND, OR and COALESCE, in which one operand may decide whatever the other is."""
    if operator == Operator.COALESCE:
        if left[0] == _NULL:
            left[0] = right[0]
            left[1] = right[1]
        return
    decisive = 0 if operator == Operator.AND else 1
    if left[0] == _KNOWN and left[1] == decisive:
        return
    if right[0] == _KNOWN and right[1] != decisive:
        return
    if right[0] == _KNOWN or right[0] == _PENDING or left[0] == _KNOWN:
        left[0] = right[0]
        left[1] = right[1]


@kernel
def _calculate_int(operator: int, x: int, y: int, result: Words) -> None:
    """Whole numbers of 64 bits; what does not fit is NULL."""
    if operator == Operator.ADD_INT:
        total = x + y
        if (x >= 0) == (y >= 0) and (total >= 0) != (x >= 0):
            result[0] = _NULL
        result[1] = total
    elif operator == Operator.SUBTRACT_INT:
        rest = x - y
        if (x >= 0) != (y >= 0) and (rest >= 0) != (x >= 0):
            result[0] = _NULL
        result[1] = rest
    elif operator == Operator.MULTIPLY_INT:
        if abs(float(x) * float(y)) > 2.0**62 and _is_too_large(x, y):
            result[0] = _NULL
        result[1] = x * y
    elif y == 0:
        result[0] = _NULL
    elif y == -1:
        result[1] = 0
    else:
        rest = x % y
        result[1] = rest - y if rest != 0 and (x < 0) != (y < 0) else rest


@kernel
def _is_too_large(x: int, y: int) -> bool:
    """Whether a product is beyond 64 bits; neither factor is 0."""
    if x == INT64_MIN or y == INT64_MIN:
        return x != 1 and y != 1
    limit = INT64_MAX // abs(y)
    if abs(x) <= limit:
        return False
    # the one product that fits though its negative does not
    return not ((x < 0) != (y < 0) and x * y == INT64_MIN and abs(x) - 1 <= limit)


@kernel
def _calculate_float(operator: int, x: float, y: float, result: Words) -> None:
    """Floats; what is no number is NULL."""
    values = as_floats(at_word(result, 1))
    if operator == Operator.ADD_FLOAT:
        values[0] = x + y
    elif operator == Operator.SUBTRACT_FLOAT:
        values[0] = x - y
    elif operator == Operator.MULTIPLY_FLOAT:
        values[0] = x * y
    elif y == 0.0:
        result[0] = _NULL
    else:
        values[0] = x / y
    if result[0] == _KNOWN and values[0] != values[0]:
        result[0] = _NULL


@kernel
def _compare(operator: int, left: Words, right: Words) -> None:
    """Compare two values, of which both are known."""
    x, y = left[1], right[1]
    a, b = as_floats(at_word(left, 1))[0], as_floats(at_word(right, 1))[0]
    if operator == Operator.EQUAL_INT:
        holds = x == y
    elif operator == Operator.UNEQUAL_INT:
        holds = x != y
    elif operator == Operator.LESS_INT:
        holds = x < y
    elif operator == Operator.AT_MOST_INT:
        holds = x <= y
    elif operator == Operator.EQUAL_FLOAT:
        holds = a == b
    elif operator == Operator.UNEQUAL_FLOAT:
        holds = a != b
    elif operator == Operator.LESS_FLOAT:
        holds = a < b
    else:
        holds = a <= b
    left[1] = 1 if holds else 0


@kernel
def _choose(operator: int, left: Words, right: Words) -> None:
    """GREATEST and LEAST of the values that are not NULL."""
    if left[0] == _PENDING or right[0] == _NULL:
        return
    if right[0] == _PENDING or left[0] == _NULL:
        is_right = True
    else:
        a, b = as_floats(at_word(left, 1))[0], as_floats(at_word(right, 1))[0]
        if operator == Operator.GREATEST_INT:
            is_right = right[1] > left[1]
        elif operator == Operator.LEAST_INT:
            is_right = right[1] < left[1]
        elif operator == Operator.GREATEST_FLOAT:
            is_right = b > a
        else:
            is_right = b < a
    if is_right:
        left[0] = right[0]
        left[1] = right[1]


@kernel
def _combine(operator: int, left: Words, right: Words) -> None:
    """Make one value of two, in the place of the left one."""
    if operator <= Operator.COALESCE:
        _join(operator, left, right)
    elif operator >= Operator.GREATEST_INT:
        _choose(operator, left, right)
    elif left[0] != _KNOWN or right[0] != _KNOWN:
        is_null = left[0] == _NULL or right[0] == _NULL
        left[0] = _NULL if is_null else _PENDING
    elif operator < Operator.ADD_INT:
        _compare(operator, left, right)
    elif operator <= Operator.REMAINDER:
        _calculate_int(operator, left[1], right[1], left)
    else:
        a, b = as_floats(at_word(left, 1))[0], as_floats(at_word(right, 1))[0]
        _calculate_float(operator, a, b, left)


@kernel
def _select(top: Words) -> None:
    """CASE: of the two values behind a condition the first if it is true, else the second."""
    chosen = 2 if top[0] == _KNOWN and top[1] != 0 else 4
    if top[0] != _PENDING:
        top[0], top[1] = top[chosen], top[chosen + 1]


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
            _change(operator, at_word(stack, 2 * height - 2))
        elif operator < Operator.SELECT:
            height -= 1
            _combine(operator, at_word(stack, 2 * height - 2), at_word(stack, 2 * height))
        else:
            height -= 2
            _select(at_word(stack, 2 * height - 2))
    if stack[0] == _KNOWN and stack[1] == 0:
        return _NULL
    return stack[0]
