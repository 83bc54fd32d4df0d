"""What steps of a condition do with values on its stack: two words each, what is known, and the value."""

from __future__ import annotations

import math

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.primitives import as_floats, at_word
from piestream.compiled.records import Words, kernel
from piestream.row_patterns.loops.records import Operator, Truth

__all__ = ["change", "combine", "select"]

#: From 2**52 on every float is whole.
_ALL_WHOLE = 2.0**52
_PENDING, _KNOWN, _NULL = int(Truth.PENDING), int(Truth.KNOWN), int(Truth.NULL)


@kernel
def _truncate(value: float, top: Words) -> None:
    """A float without its fraction; NULL where 64 bits do not hold it."""
    if value >= -(2.0**63) and value < 2.0**63:
        top[1] = int(value)
    else:
        top[0] = _NULL


@kernel
def _rounded_whole(value: float) -> float:
    if not abs(value) < _ALL_WHOLE:
        return value
    whole: float = np.floor(abs(value))
    if abs(value) - whole >= 0.5:
        whole += 1.0
    return whole if value >= 0.0 else -whole


@kernel
def _rounded(value: float, digits: int) -> float:
    """The nearest number of so many digits behind the point; halves away from zero."""
    if digits > 0:
        scale = 10.0**digits
        return _rounded_whole(value * scale) / scale
    return _rounded_whole(value)


@kernel
def _function(operator: int, operand: int, value: float, top: Words) -> None:
    """A function of a float."""
    values = as_floats(at_word(top, 1))
    if operator == Operator.ABS_FLOAT:
        values[0] = abs(value)
    elif operator == Operator.FLOOR:
        values[0] = np.floor(value)
    elif operator == Operator.CEILING:
        values[0] = np.ceil(value)
    elif operator == Operator.ROUND:
        values[0] = _rounded(value, operand)
    elif operator == Operator.EXPONENTIAL:
        values[0] = math.exp(value)
    elif operator == Operator.SIGN_FLOAT:
        top[1] = 1 if value > 0.0 else -1 if value < 0.0 else 0
    elif operator == Operator.LOGARITHM:
        if value > 0.0:
            values[0] = math.log(value)
        else:
            top[0] = _NULL
    elif value >= 0.0:
        values[0] = np.sqrt(value)
    else:
        top[0] = _NULL


@kernel
def change(operator: int, operand: int, top: Words) -> None:
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
    elif operator == Operator.SIGN_INT:
        top[1] = 1 if top[1] > 0 else -1 if top[1] < 0 else 0
    else:
        _function(operator, operand, values[0], top)


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
    elif operator == Operator.POWER:
        values[0] = x**y
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
def combine(operator: int, left: Words, right: Words) -> None:
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
def select(top: Words) -> None:
    """CASE: of the two values behind a condition the first if it is true, else the second."""
    chosen = 2 if top[0] == _KNOWN and top[1] != 0 else 4
    if top[0] != _PENDING:
        top[0], top[1] = top[chosen], top[chosen + 1]
