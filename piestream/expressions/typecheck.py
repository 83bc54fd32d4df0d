"""From a predicate as it was written to its typed form, over a schema or without one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

from piestream.expressions import syntax as tree
from piestream.expressions.conversions import (
    const,
    like_parts,
    moment_as,
    number_as,
    retyped,
    type_of,
    widest,
)
from piestream.expressions.diagnostics import Diagnostic, did_you_mean
from piestream.expressions.tokens import is_plain_name, quoted
from piestream.expressions.typed import (
    BOOL,
    FLOAT,
    INT,
    NUMERIC,
    STRING,
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
    type_of_dtype,
)

__all__ = ["lowered"]


def lowered(node: tree.Node, schema: Mapping[str, Any] | None) -> tuple[Core, list[Diagnostic]]:
    """The typed form of a predicate over a schema, and what is wrong with it.

    Without a schema the types of columns are guessed from their use.
    """
    lowering = _Lowering(schema)
    core = lowering.lower(node)
    core = lowering.wanted(core, BOOL, node, "a predicate must be true or false")
    return core, lowering.diagnostics


_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))


class _Lowering:
    def __init__(self, schema: Mapping[str, Any] | None) -> None:
        self.schema = schema
        self.diagnostics: list[Diagnostic] = []

    def fault(self, node: tree.Node, message: str, hint: str | None = None) -> Const:
        self.diagnostics.append(Diagnostic(node.span, message, hint))
        return Const(None, Type(Kind.UNKNOWN))

    def wanted(self, core: Core, type: Type, node: tree.Node, why: str) -> Core:
        """The operand as the wanted type, if it is that, could be, or is NULL."""
        kind = core.type.kind
        if kind is type.kind or (self.diagnostics and kind is Kind.UNKNOWN):
            return core
        if kind is Kind.NULL:
            return Const(None, type)
        if kind is Kind.UNKNOWN:
            return retyped(core, type)
        if type.kind in NUMERIC and kind in NUMERIC:
            return number_as(core, type)
        hint = f"this is {kind.value}"
        if why.startswith("||"):
            hint = "|| joins texts; conditions are joined by OR"
        elif isinstance(core, Field):
            hint = f"the column {core.name} holds {kind.value}"
        return self.fault(node, why, hint)

    def number(self, node: tree.Node, what: str) -> Core:
        core = self.lower(node)
        if core.type.kind in NUMERIC:
            return core
        return self.wanted(core, Type(Kind.NUMBER) if self.schema is None else FLOAT, node,
                           f"{what} needs a number")  # fmt: skip

    def float(self, node: tree.Node, what: str) -> Core:
        return number_as(self.number(node, what), FLOAT)

    def text(self, node: tree.Node, what: str) -> Core:
        return self.wanted(self.lower(node), STRING, node, f"{what} needs a string")

    def truth(self, node: tree.Node, what: str) -> Core:
        return self.wanted(self.lower(node), BOOL, node, f"{what} needs something true or false")

    def lower(self, node: tree.Node) -> Core:
        match node:
            case tree.Column(name, previous):
                return self._field(node, name, previous)
            case tree.Literal(value):
                return const(value)
            case tree.Operation("||", left, right):
                return Function("CONCAT", (self.text(left, "||"), self.text(right, "||")), STRING)
            case tree.Operation(sign, left, right) if sign in _COMPARISONS:
                return self._compare(sign, left, right, node)
            case tree.Operation(sign, left, right):
                return self._math(sign, left, right)
            case tree.And(operands):
                return And(tuple(self.truth(o, "AND") for o in operands))
            case tree.Or(operands):
                return Or(tuple(self.truth(o, "OR") for o in operands))
            case tree.Not(operand):
                return Negation(self.truth(operand, "NOT"))
            case tree.Between(value, low, high):
                above = self._compare(">=", value, low, node)
                return And((above, self._compare("<=", value, high, node)))
            case tree.OneOf(value, members):
                return self._one_of(value, members, node)
            case tree.Like(value, pattern, escape, any_case):
                text = self.text(value, "LIKE")
                if any_case:
                    text, pattern = Function("LOWER", (text,), STRING), pattern.lower()
                return LikeText(text, like_parts(pattern, escape))
            case tree.Is(value, tree.Literal(None)):
                return IsNull(self.lower(value))
            case tree.Is(value, tree.Literal(True | False as truth)):
                condition = self.truth(value, "IS TRUE or IS FALSE")
                holds = condition if truth else Negation(condition)
                return Coalesce((holds, const(False)), BOOL)
            case tree.Is(value, other):
                return self._same(value, other, node)
            case tree.Case(branches, otherwise):
                return self._case(branches, otherwise)
            case tree.Cast(value, to):
                return self._cast(value, to, node)
            case tree.Call(function, arguments):
                return self._call(function, arguments, node)
        raise AssertionError(node)

    def _field(self, node: tree.Column, name: str, previous: bool) -> Core:
        if self.schema is None:
            return Field(name, previous, Type(Kind.UNKNOWN))
        if name not in self.schema:
            hint = did_you_mean(name, self.schema)
            columns = ", ".join(self.schema)
            listing = f"the columns are {columns}; a text stands in single quotes"
            if not self.schema:
                listing = "the input has no columns at all"
            return self.fault(node, f"there is no column {name}", hint or listing)
        type = type_of_dtype(self.schema[name])
        if type is None:
            message = f"a predicate cannot use the column {name}: its type is {self.schema[name]}"
            return self.fault(node, message, "make numbers, strings or times of it first")
        return Field(name, previous, type)

    def _math(self, sign: str, left: tree.Node, right: tree.Node) -> Core:
        a, b = self.number(left, sign), self.number(right, sign)
        if sign == "/":
            return Math(sign, number_as(a, FLOAT), number_as(b, FLOAT), FLOAT)
        if sign == "%":
            for core, node in ((a, left), (b, right)):
                if core.type.kind is Kind.FLOAT:
                    hint = "write CAST(... AS BIGINT) to cut the fraction off"
                    self.fault(node, "% needs whole numbers", hint)
            return Math(sign, number_as(a, INT), number_as(b, INT), INT)
        type = widest(a.type, b.type)
        return Math(sign, number_as(a, type), number_as(b, type), type)

    def _alike(self, cores: list[Core], nodes: list[tree.Node], what: str) -> list[Core]:
        """The operands as one type: numbers widened, texts read as dates where a date is met."""
        kinds = {core.type.kind for core in cores} - {Kind.NULL, Kind.UNKNOWN}
        type = next((c.type for c in cores if c.type.kind in kinds), Type(Kind.NULL))
        if kinds and kinds <= set(NUMERIC):
            for core in cores:
                if core.type.kind in NUMERIC:
                    type = widest(type, core.type)
        elif kinds & {Kind.DATE, Kind.DATETIME} and kinds <= _MOMENTS:
            return self._moments(cores, nodes, kinds)
        elif len(kinds) > 1:
            odd = next(n for n, c in zip(nodes, cores, strict=True) if c.type.kind != type.kind
                       and c.type.kind in kinds)  # fmt: skip
            other = next(c.type.kind for n, c in zip(nodes, cores, strict=True) if n is odd)
            # of a list the odd value alone, of a comparison both sides
            span = odd.span if what == "IN" else nodes[0].span.joined(odd.span)
            self.diagnostics.append(
                Diagnostic(span, f"{what} cannot mix {type.kind.value} and {other.value}",
                        _mix_hint(cores))
            )  # fmt: skip
            return cores
        return [number_as(c, type) if c.type.kind in NUMERIC else retyped(c, type) for c in cores]

    def _moments(self, cores: list[Core], nodes: list[tree.Node], kinds: set[Kind]) -> list[Core]:
        zones = {
            c.type.zone for c in cores if c.type.kind is Kind.DATETIME and not isinstance(c, Const)
        }
        written = any(isinstance(c, Const) and c.type.zone is not None for c in cores)
        if None in zones and (len(zones) > 1 or written):
            self.fault(nodes[0], "a timestamp with and one without a time zone are compared")
            return cores
        # A timestamp written without a zone takes the zone of the column that it meets.
        zone = min((z for z in zones if z is not None), default="UTC" if written else None)
        # A text or a date beside a timestamp is a timestamp; a text beside dates is a date
        # unless it says a time of day.
        timed = Kind.DATETIME in kinds
        read: list[Core] = []
        for core, node in zip(cores, nodes, strict=True):
            if core.type.kind is Kind.STRING:
                if not isinstance(core, Const):
                    self.fault(node, "a string column is compared with a date or timestamp")
                    return cores
                try:
                    moment = datetime.fromisoformat(core.value.strip())
                except ValueError:
                    self.fault(node, "this is not a date or timestamp", "write '2026-01-31'")
                    return cores
                timed = timed or moment.time() != time(0)
                core = Const(moment, Type(Kind.DATETIME))
            read.append(core)
        type = Type(Kind.DATETIME, zone) if timed else Type(Kind.DATE)
        return [moment_as(core, type) for core in read]

    def _compare(self, sign: str, left: tree.Node, right: tree.Node, whole: tree.Node) -> Core:
        a, b = self._alike([self.lower(left), self.lower(right)], [left, right], f"{sign}")
        return Compare(sign, a, b)

    def _one_of(self, value: tree.Node, members: tuple[tree.Node, ...], node: tree.Node) -> Core:
        nodes = [value, *members]
        operand, *listed = self._alike([self.lower(n) for n in nodes], nodes, "IN")
        constants = [c.value for c in listed if isinstance(c, Const) and c.value is not None]
        others = [c for c in listed if not isinstance(c, Const)]
        found: list[Core] = []
        if constants:
            found.append(Member(operand, tuple(dict.fromkeys(constants))))
        found += [Compare("=", operand, other) for other in others]
        if len(constants) + len(others) < len(listed):
            found.append(Const(None, BOOL))  # x IN (..., NULL) is NULL where it is not true
        return found[0] if len(found) == 1 else Or(tuple(found))

    def _same(self, value: tree.Node, other: tree.Node, node: tree.Node) -> Core:
        left, right = self._alike(
            [self.lower(value), self.lower(other)], [value, other], "DISTINCT FROM"
        )
        equal = Coalesce((Compare("=", left, right), const(False)), BOOL)
        return Or((And((IsNull(left), IsNull(right))), equal))

    def _case(
        self, branches: tuple[tuple[tree.Node, tree.Node], ...], otherwise: tree.Node
    ) -> Core:
        conditions = [self.truth(condition, "WHEN") for condition, _ in branches]
        nodes = [result for _, result in branches] + [otherwise]
        results = self._alike([self.lower(n) for n in nodes], nodes, "CASE")
        pairs = tuple(zip(conditions, results[:-1], strict=True))
        return Case(pairs, results[-1], type_of(results))

    def _cast(self, value: tree.Node, to: str, node: tree.Node) -> Core:
        operand = self.lower(value)
        type = {"BIGINT": INT, "DOUBLE": FLOAT, "BOOLEAN": BOOL, "STRING": STRING}[to]
        kind = operand.type.kind
        if kind in (type.kind, Kind.NULL):
            return retyped(operand, type)
        if kind is Kind.UNKNOWN:
            return Convert(operand, type)
        allowed = _CASTABLE.get(kind, ())
        if type.kind not in allowed:
            return self.fault(node, f"{kind.value} cannot be cast to {to}", _CAST_HINTS.get(kind))
        return Convert(operand, type)

    def _call(self, function: str, arguments: tuple[tree.Node, ...], node: tree.Node) -> Core:
        if function == "-":
            operand = self.number(arguments[0], "-")
            return Math("-", number_as(const(0), operand.type), operand, operand.type)
        if function in ("COALESCE", "GREATEST", "LEAST"):
            nodes = list(arguments)
            cores = tuple(self._alike([self.lower(n) for n in nodes], nodes, function))
            type = type_of(cores)
            if function == "COALESCE":
                return Coalesce(cores, type)
            return Extreme(function == "GREATEST", cores, type)
        if function == "NULLIF":
            nodes = list(arguments)
            value, other = self._alike([self.lower(n) for n in nodes], nodes, function)
            return Case(((Compare("=", value, other), Const(None, value.type)),), value, value.type)
        if function in ("LOWER", "UPPER", "TRIM", "LTRIM", "RTRIM", "CONCAT"):
            return Function(function, tuple(self.text(a, function) for a in arguments), STRING)
        if function == "LENGTH":
            return Function(function, (self.text(arguments[0], function),), INT)
        if function == "SUBSTRING":
            return self._substring(arguments)
        if function.startswith("EXTRACT "):
            return self._extract(function, arguments[0])
        if function in ("ABS", "SIGN"):
            operand = self.number(arguments[0], function)
            return Function(function, (operand,), INT if function == "SIGN" else operand.type)
        if function in ("FLOOR", "CEIL", "ROUND"):
            return self._rounded(function, arguments)
        if function == "LOG10":
            logarithm = Function("LN", (self.float(arguments[0], function),), FLOAT)
            return Math("/", logarithm, Function("LN", (Const(10.0, FLOAT),), FLOAT), FLOAT)
        return Function(function, tuple(self.float(a, function) for a in arguments), FLOAT)

    def _whole(self, node: tree.Node, what: str, least: int, most: int) -> int:
        value = node.value if isinstance(node, tree.Literal) else None
        if type(value) is int and least <= value <= most:
            return value
        self.fault(node, f"{what} must be written as a whole number from {least} to {most}")
        return least

    def _substring(self, arguments: tuple[tree.Node, ...]) -> Core:
        text = self.text(arguments[0], "SUBSTRING")
        start = self._whole(arguments[1], "the start of SUBSTRING", 1, 2**31 - 1)
        numbers = [const(start)]
        if len(arguments) > 2:
            numbers.append(
                const(self._whole(arguments[2], "the length of SUBSTRING", 0, 2**31 - 1))
            )
        return Function("SUBSTRING", (text, *numbers), STRING)

    def _extract(self, function: str, argument: tree.Node) -> Core:
        operand = self.lower(argument)
        part = function.split()[1]
        allowed = {Kind.DATETIME, Kind.UNKNOWN, Kind.NULL}
        if part in ("YEAR", "MONTH", "DAY", "DOW"):
            allowed.add(Kind.DATE)
        if operand.type.kind not in allowed:
            wanted = "a timestamp or date" if Kind.DATE in allowed else "a timestamp"
            return self.fault(argument, f"EXTRACT {part} needs {wanted}")
        return Function(function, (operand,), INT)

    def _rounded(self, function: str, arguments: tuple[tree.Node, ...]) -> Core:
        operand = self.number(arguments[0], function)
        digits = 0
        if len(arguments) > 1:
            digits = self._whole(arguments[1], "the number of digits of ROUND", 0, 15)
        if operand.type.kind is Kind.INT:
            return operand
        operand = number_as(operand, FLOAT)
        if not digits:
            return Function(function, (operand,), FLOAT)
        # Rounding to digits is rounding x * 10^d, halves away from zero, in every engine.
        scale = Const(10.0**digits, FLOAT)
        scaled = Function(function, (Math("*", operand, scale, FLOAT),), FLOAT)
        return Math("/", scaled, scale, FLOAT)


_MOMENTS = {Kind.DATE, Kind.DATETIME, Kind.STRING}

_CASTABLE = {
    Kind.INT: (Kind.FLOAT, Kind.BOOL, Kind.STRING),
    Kind.FLOAT: (Kind.INT, Kind.BOOL),
    Kind.NUMBER: (Kind.INT, Kind.FLOAT, Kind.BOOL),
    Kind.BOOL: (Kind.INT, Kind.FLOAT, Kind.STRING),
    Kind.STRING: (Kind.INT, Kind.FLOAT),
    Kind.DATE: (Kind.STRING,),
}
_CAST_HINTS = {
    Kind.FLOAT: "engines print floats differently; cast to BIGINT first",
    Kind.STRING: "compare the string instead: flag = 'true'",
}


def _mix_hint(cores: list[Core]) -> str | None:
    fields = [c for c in cores if isinstance(c, Field)]
    typed = [field for field in fields if field.type.kind is not Kind.UNKNOWN]
    if typed:
        name, kind = typed[0].name, typed[0].type.kind
        holds = f"the column {name} holds {kind.value}"
        if kind is Kind.STRING and any(c.type.kind in NUMERIC for c in cores):
            written = name if is_plain_name(name) else quoted(name)
            return (
                f"{holds}; CAST({written} AS DOUBLE) reads numbers from it, NULL from what is none"
            )
        return holds
    if fields:
        return f"write all values as the column {fields[0].name} holds them"
    if any(c.type.kind is Kind.BOOL for c in cores):
        return "join comparisons with AND"
    return None
