"""Typed predicates as one generated Python function over an event that is a dict.

A session that is given one event at a time cannot afford a DataFrame for it. SQL's three truth
values become two Python expressions for every condition, *it is true* and *it is false*; NOT
exchanges them, and NULL is where neither holds. A NaN needs no test in a comparison: Python
finds every comparison with it false but ``!=``, which is therefore never generated for floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from piestream.expressions.functions import (
    FUNCTIONS,
    cut,
    greatest,
    least,
    midnight,
    number_in,
    remainder,
    truth_word,
    whole_number_in,
)
from piestream.expressions.typed import (
    And,
    Case,
    Coalesce,
    Compare,
    Const,
    Convert,
    Core,
    Extreme,
    Field,
    Function,
    IsNull,
    Kind,
    LikeText,
    Math,
    Member,
    Negation,
    Or,
    Type,
    like_pattern,
)

__all__ = ["Event", "MaskFunction", "PredicateFunction", "mask_function", "truth_function"]

Event = Mapping[str, Any]
PredicateFunction = Callable[[Event, Event | None], bool]
MaskFunction = Callable[[Event, Event | None], int]


def truth_function(core: Core) -> PredicateFunction:
    """A function of (event, previous event) that is true where the predicate is."""
    writer = _Writer()
    condition = writer.true(core)
    compiled: PredicateFunction = writer.compiled(
        [*writer.loads(), f"return True if {condition} else False"]
    )
    return compiled


def mask_function(cores: Sequence[Core]) -> MaskFunction:
    """A function of (event, previous event): bit i is set where predicate i is true."""
    writer = _Writer()
    body = ["mask = 0"]
    for bit, core in enumerate(cores):
        body.append(f"if {writer.true(core)}: mask |= {1 << bit}")
    compiled: MaskFunction = writer.compiled([*writer.loads(), *body, "return mask"])
    return compiled


class _Writer:
    def __init__(self) -> None:
        self.variables: dict[tuple[str, bool], str] = {}
        self.types: dict[str, Type] = {}
        self.namespace: dict[str, Any] = {}
        self.temporaries = 0

    def compiled(self, body: list[str]) -> Any:
        source = "def predicate(event, previous):\n" + "".join(f"    {line}\n" for line in body)
        exec(compile(source, "<piestream predicate>", "exec"), self.namespace)
        return self.namespace["predicate"]

    def loads(self) -> list[str]:
        lines = []
        for (name, previous), variable in self.variables.items():
            if previous:
                lines.append(f"{variable} = None if previous is None else previous[{name!r}]")
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

    def true(self, core: Core) -> str:
        """An expression that is truthy exactly where the condition is TRUE."""
        match core:
            case And(operands):
                return "(" + " and ".join(self.true(o) for o in operands) + ")"
            case Or(operands):
                return "(" + " or ".join(self.true(o) for o in operands) + ")"
            case Negation(operand):
                return self.false(operand)
            case Compare(sign, left, right):
                return self._compared(sign, left, right)
            case IsNull(Const(value)):
                return str(value is None)
            case IsNull(operand):
                return f"(({self.temporary()} := {self.maybe(operand)}) is None)"
            case Member() | LikeText():
                return self._tested(core, "")
            case Const(value):
                return "True" if value else "False"
        guards, value = self.value(core)
        return "(" + " and ".join([*guards, value]) + ")"

    def false(self, core: Core) -> str:
        """An expression that is truthy exactly where the condition is FALSE."""
        match core:
            case And(operands):
                return "(" + " or ".join(self.false(o) for o in operands) + ")"
            case Or(operands):
                return "(" + " and ".join(self.false(o) for o in operands) + ")"
            case Negation(operand):
                return self.true(operand)
            case Compare(sign, left, right):
                return self._compared(_OPPOSITE[sign], left, right)
            case IsNull(Const(value)):
                return str(value is not None)
            case IsNull(operand):
                return f"(({self.temporary()} := {self.maybe(operand)}) is not None)"
            case Member() | LikeText():
                return self._tested(core, "not ")
            case Const(value):
                return "True" if value is False else "False"
        guards, value = self.value(core)
        return "(" + " and ".join([*guards, f"not {value}"]) + ")"

    def _compared(self, sign: str, left: Core, right: Core) -> str:
        if isinstance(right, Const) and isinstance(left, Convert) and right.value is not None:
            # Below 2**53 a whole number compares with a float as its float does.
            small = isinstance(right.value, float) and abs(right.value) < 2**53
            if small and left.operand.type.kind is Kind.INT:
                left = left.operand
        guards, a = self.value(left)
        more, b = self.value(right)
        guards = guards + more
        if sign == "<>" and left.type.kind is Kind.FLOAT:
            x, y = self.temporary(), self.temporary()
            test = f"(({x} := {a}) < ({y} := {b}) or {x} > {y})"
        else:
            test = f"{a} {_PYTHON_SIGN.get(sign, sign)} {b}"
        return "(" + " and ".join([*guards, test]) + ")"

    def _tested(self, core: Member | LikeText, negation: str) -> str:
        guards, value = self.value(core.operand)
        if isinstance(core, Member):
            members = frozenset(_python_constant(v, core.operand.type) for v in core.values)
            if core.operand.type.kind is Kind.FLOAT:
                name = self.temporary()
                guards = [*guards, f"({name} := {value}) == {name}"]
                value = name
            test = f"{value} in {self.constant(members)}"
        else:
            pattern = re.compile(like_pattern(core.parts, r"\Z"))
            test = f"{self.constant(pattern.match)}({value}) is not None"
        return "(" + " and ".join([*guards, f"{negation}({test})"]) + ")"

    # Values

    def maybe(self, core: Core) -> str:
        """An expression for the value, None where it is NULL or a NaN."""
        if isinstance(core, Const):
            return "None" if core.value is None else self.value(core)[1]
        if core.type.kind is Kind.NULL:
            return "None"
        if core.type.kind is Kind.BOOL and not isinstance(core, (Field, Case, Coalesce, Extreme)):
            return f"(True if {self.true(core)} else False if {self.false(core)} else None)"
        guards, value = self.value(core)
        if core.type.kind is Kind.FLOAT:
            name = self.temporary()
            guards = [*guards, f"({name} := {value}) == {name}"]
            value = name
        return f"({value} if {' and '.join(guards)} else None)" if guards else value

    def value(self, core: Core) -> tuple[list[str], str]:
        """Conditions, and an expression for the value that holds where they all do."""
        match core:
            case Field(name, previous, type):
                return self._field(name, previous, type)
            case Const(None):
                return ["False"], self.constant(None)
            case Const(value, type):
                ready = _python_constant(value, type)
                plain = isinstance(ready, (int, float, str))
                return [], repr(ready) if plain else self.constant(ready)
            case Math(sign, left, right, type):
                return self._math(sign, left, right, type)
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
                pick = self.constant(greatest if is_greatest else least)
                return self._held(f"{pick}({', '.join(self.maybe(o) for o in operands)})")
            case Function(name, arguments, type):
                return self._function(name, arguments)
            case Convert(operand, type):
                return self._convert(operand, type)
        return self._held(self.maybe(core))

    def _held(self, expression: str) -> tuple[list[str], str]:
        name = self.temporary()
        return [f"({name} := {expression}) is not None"], name

    def _field(self, name: str, previous: bool, type: Type) -> tuple[list[str], str]:
        variable = self.variables.setdefault((name, previous), f"v{len(self.variables)}")
        if type.kind is Kind.NULL:
            return ["False"], variable
        present = f"{variable} is not None"
        if type.stored in ("UInt64", "Int128", "UInt128"):
            return [present, f"{-(2**63)} <= {variable} <= {2**63 - 1}"], variable
        if type.stored == "Decimal":
            return [present], f"{self.constant(float)}({variable})"
        return [present], variable

    def _math(self, sign: str, left: Core, right: Core, type: Type) -> tuple[list[str], str]:
        guards, a = self.value(left)
        more, b = self.value(right)
        guards = guards + more
        if sign in "/%":
            if not (isinstance(right, Const) and right.value):
                name = self.temporary()
                guards.append(f"({name} := {b}) != 0")
                b = name
            if sign == "/":
                return guards, f"({a} / {b})"
            return guards, f"{self.constant(remainder)}({a}, {b})"
        if type.kind is Kind.FLOAT:
            return guards, f"({a} {sign} {b})"
        name = self.temporary()
        guards.append(f"{-(2**63)} <= ({name} := {a} {sign} {b}) <= {2**63 - 1}")
        return guards, name

    def _convert(self, operand: Core, type: Type) -> tuple[list[str], str]:
        if operand.type.kind is Kind.BOOL:
            held, name = self._held(self.maybe(operand))
            reader = {Kind.STRING: truth_word, Kind.INT: int, Kind.FLOAT: float}[type.kind]
            return held, f"{self.constant(reader)}({name})"
        guards, value = self.value(operand)
        source = operand.type.kind
        if source is Kind.INT and type.kind is Kind.FLOAT:
            return guards, f"{self.constant(float)}({value})"
        if type.kind is Kind.BOOL:
            if source is Kind.FLOAT:
                name = self.temporary()
                return [*guards, f"({name} := {value}) == {name}"], f"({name} != 0)"
            return guards, f"({value} != 0)"
        function: Any
        if source is Kind.FLOAT:
            function = cut
        elif source is Kind.STRING:
            function = whole_number_in if type.kind is Kind.INT else number_in
        elif source is Kind.DATE and type.kind is Kind.DATETIME:
            zone = ZoneInfo(type.zone) if type.zone else None
            return guards, f"{self.constant(midnight)}({value}, {self.constant(zone)})"
        elif source is Kind.DATETIME:
            return guards, value
        else:
            return guards, f"{self.constant(str)}({value})"
        held, name = self._held(f"{self.constant(function)}({value})")
        return guards + held, name

    def _function(self, name: str, arguments: tuple[Core, ...]) -> tuple[list[str], str]:
        guards: list[str] = []
        values: list[str] = []
        for argument in arguments:
            more, value = self.value(argument)
            guards += more
            values.append(value)
        if name in _METHODS:
            return guards, f"{values[0]}{_METHODS[name]}"
        if name == "CONCAT":
            return guards, "(" + " + ".join(values) + ")"
        if name == "SUBSTRING":
            start = int(values[1]) - 1
            end = start + int(values[2]) if len(values) > 2 else ""
            return guards, f"{values[0]}[{start}:{end}]"
        held, result = self._held(f"{self.constant(FUNCTIONS[name])}({', '.join(values)})")
        return guards + held, result


def _python_constant(value: Any, type: Type) -> Any:
    if type.kind is not Kind.DATETIME or type.zone is None:
        return value
    zone = ZoneInfo(type.zone)
    return value.replace(tzinfo=zone) if value.tzinfo is None else value.astimezone(zone)


_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_PYTHON_SIGN = {"=": "==", "<>": "!="}


_METHODS = {
    "LOWER": ".lower()",
    "UPPER": ".upper()",
    "TRIM": ".strip(' ')",
    "LTRIM": ".lstrip(' ')",
    "RTRIM": ".rstrip(' ')",
    **{
        f"EXTRACT {part}": f".{part.lower()}"
        for part in ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]
    },
}
