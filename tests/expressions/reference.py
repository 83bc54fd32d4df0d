"""A second evaluator of predicates, written as plainly as can be: the tests' judge.

It walks the tree as written (not the typed form that the library translates) and knows only
SQL's rules: None is NULL, a NaN is NULL, whole numbers have 64 bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from piestream.expressions import syntax as tree


def holds(node: tree.Node, event: Mapping[str, Any], previous: Mapping[str, Any] | None) -> bool:
    return evaluate(node, event, previous) is True


def settled(value: Any) -> Any:
    """NULL for what no engine may show: NaN, and whole numbers of more than 64 bits."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if type(value) is int and not -(2**63) <= value < 2**63:
        return None
    return value


def evaluate(node: tree.Node, event: Mapping[str, Any], previous: Mapping[str, Any] | None) -> Any:
    def at(part: tree.Node) -> Any:
        return settled(evaluate(part, event, previous))

    match node:
        case tree.Column(name):
            return settled(event[name])
        case tree.Previous(operand, 1):
            return None if previous is None else settled(evaluate(operand, previous, None))
        case tree.Literal(value):
            return value
        case tree.And(operands):
            values = [at(o) for o in operands]
            return False if False in values else None if None in values else True
        case tree.Or(operands):
            values = [at(o) for o in operands]
            return True if True in values else None if None in values else False
        case tree.Not(operand):
            value = at(operand)
            return None if value is None else not value
        case tree.Between(value, low, high):
            parts = (tree.Comparison(">=", value, low), tree.Comparison("<=", value, high))
            return at(tree.And(parts))
        case tree.OneOf(value, members):
            return at(tree.Or(tuple(tree.Comparison("=", value, m) for m in members)))
        case tree.Is(value, tree.Literal(None)):
            return at(value) is None
        case tree.Is(value, tree.Literal(True | False as truth)):
            return at(value) is truth
        case tree.Is(value, other):
            a, b = at(value), at(other)
            return a is b if a is None or b is None else compared("=", a, b)
        case tree.Case(branches, otherwise):
            return next((at(r) for c, r in branches if at(c) is True), at(otherwise))
        case tree.Choice(tree.Form.COALESCE, arguments):
            return next((v for v in map(at, arguments) if v is not None), None)
        case tree.Choice(tree.Form.GREATEST, arguments):
            return max((v for v in map(at, arguments) if v is not None), default=None)
        case tree.Choice(tree.Form.LEAST, arguments):
            return min((v for v in map(at, arguments) if v is not None), default=None)
        case tree.Choice(tree.Form.NULLIF, (value, other)):
            a, b = at(value), at(other)
            return None if a is None or (b is not None and compared("=", a, b)) else a
        case tree.Like(value, pattern, escape, any_case):
            text = at(value)
            return None if text is None else like(text, pattern, escape, any_case)
        case tree.Cast(value, to):
            operand = at(value)
            return None if operand is None else cast(operand, to)
        case tree.Comparison(operator, left, right):
            a, b = at(left), at(right)
            return None if a is None or b is None else compared(operator, a, b)
        case tree.Arithmetic(operator, left, right):
            a, b = at(left), at(right)
            return None if a is None or b is None else calculated(operator, a, b)
        case tree.Concatenation(left, right):
            a, b = at(left), at(right)
            return None if a is None or b is None else a + b
        case tree.Minus(operand):
            value = at(operand)
            return None if value is None else -value
        case tree.Call(name, arguments):
            values = [at(a) for a in arguments]
            return None if None in values else called(name, *values)
    raise AssertionError(node)


def compared(sign: str, a: Any, b: Any) -> bool:
    if isinstance(a, float) != isinstance(b, float):
        a, b = float(a), float(b)
    if isinstance(a, date) and isinstance(b, str):
        b = datetime.fromisoformat(b) if isinstance(a, datetime) else date.fromisoformat(b)
    return {
        "=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
    }[sign]  # fmt: skip


def calculated(sign: str, a: Any, b: Any) -> Any:
    if sign in "/%" and b == 0:
        return None
    if sign == "/":
        return float(a) / float(b)
    if sign == "%":
        return a - b * (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
    return a + b if sign == "+" else a - b if sign == "-" else a * b


def like(text: str, pattern: str, escape: str | None, any_case: bool) -> bool:
    expression = ""
    signs = iter(pattern.lower() if any_case else pattern)
    for sign in signs:
        if escape is not None and sign == escape:
            expression += re.escape(next(signs))
        else:
            expression += {"%": "[\\s\\S]*", "_": "[\\s\\S]"}.get(sign, re.escape(sign))
    return re.fullmatch(expression, text.lower() if any_case else text) is not None


def cast(value: Any, to: str) -> Any:
    if to == "BOOLEAN":
        return value != 0
    if to == "STRING":
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str):
        form = r"[+-]?\d+" if to == "BIGINT" else r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
        if not re.fullmatch(form, value.strip(" "), re.ASCII):
            return None
        return int(value) if to == "BIGINT" else float(value)
    if to == "BIGINT":
        return None if isinstance(value, float) and math.isinf(value) else int(value)
    return float(value)


def called(name: str, *values: Any) -> Any:
    x = values[0]
    match name:
        case "ABS":
            return abs(x)
        case "SIGN":
            return (x > 0) - (x < 0)
        case "FLOOR" | "CEIL" | "ROUND" if isinstance(x, int) or math.isinf(x):
            return x
        case "FLOOR":
            return float(math.floor(x))
        case "CEIL":
            return float(math.ceil(x))
        case "ROUND":
            scale = 10.0 ** values[1] if len(values) > 1 else 1.0
            if math.isinf(x * scale):
                return x * scale / scale
            whole, broken = divmod(abs(x * scale), 1.0)
            return math.copysign(whole + (broken >= 0.5), x) / scale
        case "SQRT":
            return math.sqrt(x) if x >= 0 else None
        case "LN":
            return math.log(x) if x > 0 else None
        case "LOG10":
            return math.log(x) / math.log(10) if x > 0 else None
        case "POWER":
            return power(x, values[1])
        case "EXP":
            return math.exp(x) if x < 709 else math.inf
        case "LOWER":
            return x.lower()
        case "UPPER":
            return x.upper()
        case "LENGTH":
            return len(x)
        case "TRIM":
            return x.strip(" ")
        case "LTRIM":
            return x.lstrip(" ")
        case "RTRIM":
            return x.rstrip(" ")
        case "CONCAT":
            return "".join(values)
        case "SUBSTRING":
            start = values[1] - 1
            return x[start:] if len(values) < 3 else x[start : start + values[2]]
        case "REVERSE":
            return "".join(reversed(x))
        case "STARTS_WITH":
            return x[: len(values[1])] == values[1]
        case "EXTRACT DOW":
            return (x.weekday() + 1) % 7
    match name.split():
        case "EXTRACT", "YEAR" | "MONTH" | "DAY" | "HOUR" | "MINUTE" | "SECOND" as part:
            return getattr(x, part.lower())
    raise AssertionError(f"{name} is not in the reference")


def power(base: float, exponent: float) -> float | None:
    """IEEE 754's power, where that is a real number."""
    odd = not math.isinf(exponent) and exponent % 2 == 1
    if base == 0 and exponent < 0:
        return math.copysign(math.inf, base) if odd else math.inf
    if base < 0 and not math.isinf(base) and not math.isinf(exponent) and exponent % 1 != 0:
        return None
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and odd else math.inf
