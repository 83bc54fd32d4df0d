"""Typed predicates as one generated Python function over an event that is a dict.

A session that is given one event at a time cannot afford a DataFrame for it. SQL's three truth
values become two Python expressions for every condition, *it is true* and *it is false*; NOT
exchanges them, and NULL is where neither holds. A NaN needs no test in a comparison: Python
finds every comparison with it false but ``!=``, which is therefore never generated for floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never
from zoneinfo import ZoneInfo

from piestream.expressions.backends import python_runtime as runtime
from piestream.expressions.functions.record import Inline
from piestream.expressions.like import like_regex
from piestream.expressions.limits import MOST_WRITTEN
from piestream.expressions.syntax import ArithmeticOperator, ComparisonOperator
from piestream.expressions.typed import (
    And,
    Arithmetic,
    Call,
    Case,
    Coalesce,
    Comparison,
    Const,
    Convert,
    Expression,
    Extreme,
    Field,
    IsNull,
    Like,
    Member,
    Not,
    Or,
    Previous,
    Until,
    Window,
)
from piestream.expressions.types import LEAST_WIDE, MOST_WIDE, Kind, Type

__all__ = [
    "Event",
    "MaskFunction",
    "PredicateFunction",
    "ValueFunction",
    "mask_function",
    "truth_function",
    "value_function",
]

Event = Mapping[str, Any]
#: A function takes an event, and the values of what reads the past, by their keys; None: all NULL.
PredicateFunction = Callable[[Event, Event | None], bool]
MaskFunction = Callable[[Event, Event | None], int]
ValueFunction = Callable[[Event, Event | None], Any]


def truth_function(expression: Expression) -> PredicateFunction | None:
    """A function of (event, values of the past) that is true where the predicate is.

    None if it would be too large, or its source too deep for Python.
    """
    writer = _Writer()
    try:
        condition = writer.true(expression)
        compiled: PredicateFunction = writer.compiled(
            [*writer.loads(), f"return True if {condition} else False"]
        )
    except _TOO_LARGE:
        return None
    return compiled


def mask_function(expressions: Sequence[Expression]) -> MaskFunction | None:
    """A function of (event, values of the past): bit i is set where predicate i is true.

    None if it would be too large, or its source too deep for Python.
    """
    writer = _Writer()
    body = ["mask = 0"]
    try:
        for bit, expression in enumerate(expressions):
            body.append(f"if {writer.true(expression)}: mask |= {1 << bit}")
        compiled: MaskFunction = writer.compiled([*writer.loads(), *body, "return mask"])
    except _TOO_LARGE:
        return None
    return compiled


def value_function(expression: Expression) -> ValueFunction | None:
    """A function of (event, values of the past) that gives a value, None where that is NULL.

    None if it would be too large, or its source too deep for Python.
    """
    writer = _Writer()
    try:
        value = writer.maybe(expression)
        compiled: ValueFunction = writer.compiled([*writer.loads(), f"return {value}"])
    except _TOO_LARGE:
        return None
    return compiled


class _TooLargeError(Exception):
    pass


#: Python's compiler finds sources with many brackets inside each other wrong, or too deep.
_TOO_LARGE = (_TooLargeError, SyntaxError, RecursionError, MemoryError)


def _bounded(source: str) -> str:
    if len(source) > MOST_WRITTEN:
        raise _TooLargeError
    return source


class _Writer:
    def __init__(self) -> None:
        self.variables: dict[tuple[str, bool], str] = {}
        self.namespace: dict[str, Any] = {}
        self.temporaries = 0

    def compiled(self, body: list[str]) -> Any:
        source = "def predicate(event, past):\n" + "".join(f"    {line}\n" for line in body)
        exec(compile(source, "<piestream predicate>", "exec"), self.namespace)
        return self.namespace["predicate"]

    def loads(self) -> list[str]:
        lines = []
        for (name, is_past), variable in self.variables.items():
            if is_past:
                lines.append(f"{variable} = None if past is None else past[{name!r}]")
            else:
                lines.append(f"{variable} = event[{name!r}]")
        return lines

    def constant(self, value: Any) -> str:
        name = f"k{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    # Conditions

    def true(self, expression: Expression) -> str:
        """An expression that is truthy exactly where the condition is TRUE."""
        return _bounded(self._true(expression))

    def _true(self, expression: Expression) -> str:
        match expression:
            case And(operands):
                return "(" + " and ".join(self.true(o) for o in operands) + ")"
            case Or(operands):
                return "(" + " or ".join(self.true(o) for o in operands) + ")"
            case Not(operand):
                return self.false(operand)
            case Comparison(operator, left, right):
                return self._compared(operator, left, right)
            case IsNull(Const(value)):
                return str(value is None)
            case IsNull(operand):
                return f"(({self.temporary()} := {self.maybe(operand)}) is None)"
            case Member() | Like():
                return self._tested(expression, "")
            case Const(value):
                return "True" if value else "False"
            case (
                Field() | Arithmetic() | Case() | Coalesce() | Extreme() | Call() | Convert()
                | Previous() | Window() | Until()
            ):  # fmt: skip
                guards, value = self.value(expression)
                return "(" + " and ".join([*guards, value]) + ")"
            case _:
                assert_never(expression)

    def false(self, expression: Expression) -> str:
        """An expression that is truthy exactly where the condition is FALSE."""
        return _bounded(self._false(expression))

    def _false(self, expression: Expression) -> str:
        match expression:
            case And(operands):
                return "(" + " or ".join(self.false(o) for o in operands) + ")"
            case Or(operands):
                return "(" + " and ".join(self.false(o) for o in operands) + ")"
            case Not(operand):
                return self.true(operand)
            case Comparison(operator, left, right):
                return self._compared(_OPPOSITE[operator], left, right)
            case IsNull(Const(value)):
                return str(value is not None)
            case IsNull(operand):
                return f"(({self.temporary()} := {self.maybe(operand)}) is not None)"
            case Member() | Like():
                return self._tested(expression, "not ")
            case Const(value):
                return "True" if value is False else "False"
            case (
                Field() | Arithmetic() | Case() | Coalesce() | Extreme() | Call() | Convert()
                | Previous() | Window() | Until()
            ):  # fmt: skip
                guards, value = self.value(expression)
                return "(" + " and ".join([*guards, f"not {value}"]) + ")"
            case _:
                assert_never(expression)

    def _compared(self, operator: ComparisonOperator, left: Expression, right: Expression) -> str:
        if isinstance(right, Const) and isinstance(left, Convert) and right.value is not None:
            # Below 2**53 a whole number compares with a float as its float does.
            small = isinstance(right.value, float) and abs(right.value) < 2**53
            if small and left.operand.type.kind is Kind.INT:
                left = left.operand
        guards, a = self.value(left)
        more, b = self.value(right)
        guards = guards + more
        if operator == "<>" and left.type.kind is Kind.FLOAT:
            x, y = self.temporary(), self.temporary()
            test = f"(({x} := {a}) < ({y} := {b}) or {x} > {y})"
        else:
            test = f"{a} {_PYTHON_OPERATOR.get(operator, operator)} {b}"
        return "(" + " and ".join([*guards, test]) + ")"

    def _tested(self, expression: Member | Like, negation: str) -> str:
        guards, value = self.value(expression.operand)
        if isinstance(expression, Member):
            members = frozenset(
                _python_constant(v, expression.operand.type) for v in expression.values
            )
            if expression.operand.type.kind is Kind.FLOAT:
                name = self.temporary()
                guards = [*guards, f"({name} := {value}) == {name}"]
                value = name
            test = f"{value} in {self.constant(members)}"
        else:
            pattern = re.compile(like_regex(expression.parts, r"\Z"))
            test = f"{self.constant(pattern.match)}({value}) is not None"
        return "(" + " and ".join([*guards, f"{negation}({test})"]) + ")"

    # Values

    def maybe(self, expression: Expression) -> str:
        """An expression for the value, None where it is NULL or a NaN."""
        return _bounded(self._maybe(expression))

    def _maybe(self, expression: Expression) -> str:
        if isinstance(expression, Const):
            return "None" if expression.value is None else self.value(expression)[1]
        if expression.type.kind is Kind.NULL:
            return "None"
        if expression.type.kind is Kind.BOOL and not isinstance(
            expression, (Field, Case, Coalesce, Extreme, *_PAST)
        ):
            return f"(True if {self.true(expression)} else False if {self.false(expression)} else None)"
        guards, value = self.value(expression)
        if expression.type.kind is Kind.FLOAT:
            name = self.temporary()
            guards = [*guards, f"({name} := {value}) == {name}"]
            value = name
        return f"({value} if {' and '.join(guards)} else None)" if guards else value

    def value(self, expression: Expression) -> tuple[list[str], str]:
        """Conditions, and an expression for the value that holds where they all do."""
        match expression:
            case Field(name, type):
                return self._field(name, False, type)
            case Previous(key) | Window(key) | Until(key):
                return self._field(key, True, replace(expression.type, stored=None))
            case Const(None):
                return ["False"], self.constant(None)
            case Const(value, type):
                ready = _python_constant(value, type)
                plain = isinstance(ready, (int, float, str))
                return [], repr(ready) if plain else self.constant(ready)
            case Arithmetic(operator, left, right, type):
                return self._arithmetic(operator, left, right, type)
            case Case(branches, otherwise):
                chain = self.maybe(otherwise)
                for condition, result in reversed(branches):
                    chain = f"({self.maybe(result)} if {self.true(condition)} else {chain})"
                return self._held(chain)
            case Coalesce(operands):
                *firsts, chain = (self.maybe(o) for o in operands)
                for first in reversed(firsts):
                    name = self.temporary()
                    chain = f"({name} if ({name} := ({first})) is not None else {chain})"
                return self._held(chain)
            case Extreme(is_greatest, operands):
                pick = self.constant(runtime.greatest if is_greatest else runtime.least)
                return self._held(f"{pick}({', '.join(self.maybe(o) for o in operands)})")
            case Call():
                return self._call(expression)
            case Convert(operand, type):
                return self._convert(operand, type)
            case Comparison() | And() | Or() | Not() | IsNull() | Member() | Like():
                return self._held(self.maybe(expression))
            case _:
                assert_never(expression)

    def _held(self, expression: str) -> tuple[list[str], str]:
        name = self.temporary()
        return [f"({name} := {expression}) is not None"], name

    def _field(self, name: str, is_past: bool, type: Type) -> tuple[list[str], str]:
        variable = self.variables.setdefault((name, is_past), f"v{len(self.variables)}")
        if type.kind is Kind.NULL:
            return ["False"], variable
        present = f"{variable} is not None"
        if type.stored == "Decimal":
            return [present], f"{self.constant(float)}({variable})"
        return [present], variable

    def _arithmetic(
        self, operator: ArithmeticOperator, left: Expression, right: Expression, type: Type
    ) -> tuple[list[str], str]:
        guards, a = self.value(left)
        more, b = self.value(right)
        guards = guards + more
        match operator:
            case "/" | "%":
                if not (isinstance(right, Const) and right.value):
                    name = self.temporary()
                    guards.append(f"({name} := {b}) != 0")
                    b = name
                if operator == "/":
                    return guards, f"({a} / {b})"
                return guards, f"{self.constant(runtime.remainder)}({a}, {b})"
            case "+" | "-" | "*":
                if type.kind is Kind.FLOAT:
                    return guards, f"({a} {operator} {b})"
                name = self.temporary()
                least, most = -(2**63), 2**63 - 1
                if type.is_wide:
                    least, most = LEAST_WIDE, MOST_WIDE
                guards.append(f"{least} <= ({name} := {a} {operator} {b}) <= {most}")
                return guards, name
            case _:
                assert_never(operator)

    def _convert(self, operand: Expression, type: Type) -> tuple[list[str], str]:
        source, target = operand.type.kind, type.kind
        if source is Kind.BOOL:
            held, name = self._held(self.maybe(operand))
            readers = {Kind.STRING: runtime.truth_text, Kind.INT: int, Kind.FLOAT: float}
            return held, f"{self.constant(readers[target])}({name})"
        guards, value = self.value(operand)
        match source, target:
            case Kind.INT, Kind.INT:  # of a wide one
                name = self.temporary()
                return [*guards, f"{-(2**63)} <= ({name} := {value}) <= {2**63 - 1}"], name
            case Kind.INT, Kind.FLOAT:
                return guards, f"{self.constant(float)}({value})"
            case Kind.INT, Kind.BOOL:
                return guards, f"({value} != 0)"
            case Kind.FLOAT, Kind.BOOL:
                name = self.temporary()
                return [*guards, f"({name} := {value}) == {name}"], f"({name} != 0)"
            case Kind.DATE, Kind.DATETIME:
                zone = ZoneInfo(type.zone) if type.zone else None
                return guards, f"{self.constant(runtime.midnight)}({value}, {self.constant(zone)})"
            case Kind.DATETIME, Kind.DATETIME:
                return guards, value
            case Kind.INT | Kind.DATE, Kind.STRING:
                return guards, f"{self.constant(str)}({value})"
        reader = _PARTIAL_CONVERSIONS[source, target]
        held, name = self._held(f"{self.constant(reader)}({value})")
        return guards + held, name

    def _call(self, call: Call) -> tuple[list[str], str]:
        guards: list[str] = []
        values: list[str] = []
        for operand in call.operands:
            more, value = self.value(operand)
            guards += more
            values.append(value)
        python = call.function.python
        if isinstance(python, Inline):
            return guards, python.source(*values, *call.numbers)
        arguments = [*values, *map(str, call.numbers)]
        held, result = self._held(f"{self.constant(python)}({', '.join(arguments)})")
        return guards + held, result


_PAST = (Previous, Window, Until)

#: Conversions that give None for some values.
_PARTIAL_CONVERSIONS: dict[tuple[Kind, Kind], Callable[[Any], Any]] = {
    (Kind.FLOAT, Kind.INT): runtime.truncated,
    (Kind.STRING, Kind.INT): runtime.whole_number_in,
    (Kind.STRING, Kind.FLOAT): runtime.number_in,
}


def _python_constant(value: Any, type: Type) -> Any:
    if type.kind is not Kind.DATETIME or type.zone is None:
        return value
    zone = ZoneInfo(type.zone)
    return value.replace(tzinfo=zone) if value.tzinfo is None else value.astimezone(zone)


_OPPOSITE: dict[ComparisonOperator, ComparisonOperator] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    "<=": ">",
    ">": "<=",
    ">=": "<",
}
_PYTHON_OPERATOR = {"=": "==", "<>": "!="}
