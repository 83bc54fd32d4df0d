"""From a predicate as it was written to its typed form, over a schema or without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from piestream.expressions import syntax
from piestream.expressions.canonical import canonical_text
from piestream.expressions.casts import CAST_HINTS, CAST_TYPES, CASTABLE
from piestream.expressions.coercion import (
    as_number,
    constant,
    type_of,
    with_type,
)
from piestream.expressions.diagnostics import Diagnostic, QueryError, did_you_mean
from piestream.expressions.durations import NANOSECONDS, Duration
from piestream.expressions.functions import FUNCTIONS, Function
from piestream.expressions.functions.record import Operand, WholeNumber
from piestream.expressions.like import like_parts
from piestream.expressions.limits import TOO_LARGE, is_too_large
from piestream.expressions.operands import Operands
from piestream.expressions.syntax import ArithmeticOperator, ComparisonOperator, Form
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
    children,
)
from piestream.expressions.types import (
    BOOL,
    FLOAT,
    INT,
    NUMBER,
    WIDE,
    Kind,
    Tick,
    Type,
    type_of_dtype,
)

__all__ = ["TicksOf", "lowered", "lowered_value"]

#: How many ticks of the time column a duration has.
TicksOf = Callable[[Duration], int]


def lowered(
    node: syntax.Node,
    schema: Mapping[str, Any] | None,
    *,
    clause: str | None = None,
    ticks: TicksOf | None = None,
    counted_in: Tick | None = None,
) -> tuple[Expression, list[Diagnostic]]:
    """The typed form of a predicate over a schema, and what is wrong with it.

    Without a schema the types of columns are guessed from their use. In a ``clause`` on matches dates
    and timestamps may be subtracted, counted in a unit, ``counted_in``. ``ticks`` tells how many ticks a
    duration has; without it the lengths of windows are not known.
    """
    lowering = _Lowering(schema, clause, ticks, counted_in)
    expression = lowering.lower(node)
    what = clause or "a predicate"
    expression = lowering.require(expression, BOOL, node, f"{what} must be true or false")
    if is_too_large(expression, children):
        lowering.diagnostics.append(Diagnostic(node.span, TOO_LARGE))
    return expression, lowering.diagnostics


def lowered_value(
    node: syntax.Node,
    schema: Mapping[str, Any] | None,
    clause: str | None = None,
    counted_in: Tick | None = None,
) -> tuple[Expression, list[Diagnostic]]:
    """As `lowered`, of an expression that may give a value of any type.

    In a ``clause`` on matches, dates and timestamps may be subtracted, counted in a unit, ``counted_in``.
    """
    lowering = _Lowering(schema, clause, None, counted_in)
    expression = lowering.lower(node)
    if is_too_large(expression, children):
        lowering.diagnostics.append(Diagnostic(node.span, TOO_LARGE))
    return expression, lowering.diagnostics


class _Lowering(Operands):
    """One walk over the tree as written; diagnostics are collected on the way."""

    def __init__(
        self,
        schema: Mapping[str, Any] | None,
        clause: str | None,
        ticks: TicksOf | None,
        counted_in: Tick | None,
    ) -> None:
        super().__init__(schema, clause)
        self.ticks = ticks
        self.counted_in = counted_in
        self.found: dict[int, Expression] = {}  # by the identity of a node of the tree

    def lower(self, node: syntax.Node) -> Expression:
        """The typed form of a node. What is compared twice is lowered once, and shared."""
        known = self.found.get(id(node))
        if known is None:
            known = self.found[id(node)] = self._lowered(node)
        return known

    def _lowered(self, node: syntax.Node) -> Expression:
        match node:
            case syntax.Column():
                return self._field(node)
            case syntax.Literal(value):
                return constant(value)
            case syntax.Concatenation(left, right):
                return _call("CONCAT", self.text(left, "||"), self.text(right, "||"))
            case syntax.Comparison(operator, left, right):
                return self._comparison(operator, left, right)
            case syntax.Arithmetic(operator, left, right):
                return self._arithmetic(operator, left, right)
            case syntax.Minus(value):
                operand = self.number(value, "-")
                zero = as_number(constant(0), operand.type)
                return Arithmetic("-", zero, operand, operand.type)
            case syntax.And(operands):
                return And(tuple(self.truth(o, "AND") for o in operands))
            case syntax.Or(operands):
                return Or(tuple(self.truth(o, "OR") for o in operands))
            case syntax.Not(value):
                return Not(self.truth(value, "NOT"))
            case syntax.Between(value, low, high):
                above = self._comparison(">=", value, low)
                return And((above, self._comparison("<=", value, high)))
            case syntax.OneOf(value, members):
                return self._one_of(value, members)
            case syntax.Like():
                return self._like(node)
            case syntax.Is(value, other):
                return self._is(value, other)
            case syntax.Case(branches, otherwise):
                return self._case(branches, otherwise)
            case syntax.Cast():
                return self._cast(node)
            case syntax.Choice(form, choices):
                return self._choice(form, choices)
            case syntax.Call(function, arguments):
                return self._call(FUNCTIONS[function], arguments)
            case syntax.Previous(operand, events):
                earlier = self.lower(operand)
                return Previous(canonical_text(node), earlier, events, earlier.type)
            case syntax.Window():
                return self._window(node)
            case syntax.Until(start, stop):
                begins, ends = self.truth(start, "UNTIL"), self.truth(stop, "UNTIL")
                return Until(canonical_text(node), begins, ends)
            case syntax.Named(_, value, shift):
                return self._let(value, shift)
            case _:
                assert_never(node)

    def _let(self, value: syntax.Node, shift: int) -> Expression:
        """What LET named: its faults are placed in its own text."""
        known = len(self.diagnostics)
        expression = self.lower(value)
        self.diagnostics[known:] = [d.moved(shift) for d in self.diagnostics[known:]]
        return expression

    def _window(self, node: syntax.Window) -> Expression:
        name, what = node.function, f"{node.function} … OVER"
        operand: Expression = Const(True, BOOL)
        if node.operand is not None:
            operand = self.lower(node.operand)
        type = INT
        # what a column holds may not be known yet
        moments = (Kind.DATE, Kind.DATETIME, Kind.UNKNOWN)
        if name in ("MIN", "MAX") and operand.type.kind in moments:
            type = operand.type
        elif name != "COUNT":
            assert node.operand is not None
            operand = self.number(node.operand, what)
            if operand.type.is_wide or name in ("AVG", "STDDEV"):
                operand = as_number(operand, FLOAT)
            type = FLOAT if name in ("AVG", "STDDEV") else operand.type
        return Window(
            canonical_text(node), name, operand, self._length(node), isinstance(node.length, int),
            replace(type, stored=None),
        )  # fmt: skip

    def _length(self, node: syntax.Window) -> int | None:
        """So many events, or ticks where these are known."""
        if isinstance(node.length, int):
            return node.length
        if self.ticks is None:
            return None
        try:
            return self.ticks(node.length)
        except QueryError as error:
            self.fault(node, error.faults[0].message, error.faults[0].hint)
            return None

    def _field(self, node: syntax.Column) -> Expression:
        name = node.name
        if self.schema is None:
            return Field(name, Type(Kind.UNKNOWN))
        if name not in self.schema:
            hint = did_you_mean(name, self.schema)
            columns = ", ".join(self.schema)
            listing = f"the columns are {columns}; a text stands in single quotes"
            if not self.schema:
                listing = "the input has no columns at all"
            if node.is_quoted:
                text = canonical_text(syntax.Literal(name))
                listing = f"a text stands in single quotes: {text}; double quotes are for names"
                hint = None if hint is None else f"{hint} {listing}"
            return self.fault(node, f"there is no column {name}", hint or listing)
        type = type_of_dtype(self.schema[name])
        if type is None and self.clause is not None:
            message = f"{self.clause} cannot use {name}: its type is {self.schema[name]}"
            return self.fault(node, message)
        if type is None:
            message = f"a predicate cannot use the column {name}: its type is {self.schema[name]}"
            return self.fault(node, message, "make numbers, strings or times of it first")
        return Field(name, type)

    def _check_ticks(self, *nodes: syntax.Node) -> None:
        """Refuse columns of times that are finer than the ticks that a length of time has here."""
        if self.counted_in is None or self.schema is None:
            return
        for node in nodes:
            for column in syntax.columns_of(node):
                dtype = self.schema.get(column.name)
                tick = NANOSECONDS.get(getattr(dtype, "time_unit", None) or "d")
                if (
                    tick
                    and tick % self.counted_in.nanoseconds
                    and self.lower(column).type.kind is Kind.DATETIME
                ):
                    message = f"{column.name} is {dtype}, finer than the time column, in whose ticks lengths are"
                    hint = "make a column of the time column's unit of it, or a finer one of the time column"
                    self.fault(node, message, hint)

    def _arithmetic(
        self, operator: ArithmeticOperator, left: syntax.Node, right: syntax.Node
    ) -> Expression:
        if operator == "-" and self.clause is not None:
            times = [self.lower(left), self.lower(right)]
            kinds = {one.type.kind for one in times}
            if self.schema is None and len(kinds) > 1:  # what a column holds is not known yet
                kinds.discard(Kind.UNKNOWN)
            if kinds <= {Kind.DATE, Kind.DATETIME}:
                self._check_ticks(left, right)
                type, tick = (
                    _LENGTH,
                    None if self.counted_in is None else self.counted_in.nanoseconds,
                )
                if self.counted_in is not None and not self.counted_in.needs_unit:
                    type = INT
                since, until = (Convert(o, type, tick) for o in self.alike([left, right], "-"))
                return Arithmetic("-", since, until, type)
        if operator in "+-" and (moment := self.moment_in(left, right)) is not None:
            what = f"{moment.type.kind.value} is no number to add to or to subtract from"
            hint = _HINTS_OF_TIMES.get(self.clause or "", _HINT_OF_TIMES)
            span = left.span.joined(right.span)
            self.diagnostics.append(Diagnostic(span, what, hint))
            return Const(None, Type(Kind.UNKNOWN))
        a, b = self.number(left, operator), self.number(right, operator)
        is_length = self._gives_length(operator, (a, b), (left, right))
        match operator:
            case "/":
                type = FLOAT
            case "%":
                type = WIDE if a.type.is_wide or b.type.is_wide else INT
                for operand, node in ((a, left), (b, right)):
                    if operand.type.kind is Kind.FLOAT:
                        hint = "write CAST(... AS BIGINT) to cut the fraction off"
                        self.fault(node, "% needs whole numbers", hint)
            case "+" | "-" | "*":
                kinds = {a.type.kind, b.type.kind}
                wide = a.type.is_wide or b.type.is_wide
                type = FLOAT if Kind.FLOAT in kinds else WIDE if wide else INT
                type = NUMBER if Kind.NUMBER in kinds else type
            case _:
                assert_never(operator)
        type = replace(type, is_length=is_length)
        return Arithmetic(operator, as_number(a, type), as_number(b, type), type)

    def _gives_length(
        self,
        operator: ArithmeticOperator,
        operands: Sequence[Expression],
        nodes: Sequence[syntax.Node],
    ) -> bool:
        """Whether a calculation gives a length of time."""
        left, right = (operand.type.is_length for operand in operands)
        if operator not in ("*", "/"):
            self.check_lengths(operands, nodes, operator)
            return left or right
        if right and left is (operator == "*"):
            message = f"{operator} gives no length of time here"
            self.fault(nodes[1], message, "a length can be multiplied or divided by a number")
        return left is not right

    def _comparison(
        self, operator: ComparisonOperator, left: syntax.Node, right: syntax.Node
    ) -> Expression:
        a, b = self.alike([left, right], operator)
        self.check_category([a, b], [left, right])
        return Comparison(operator, a, b)

    def _one_of(self, value: syntax.Node, members: tuple[syntax.Node, ...]) -> Expression:
        operand, *listed = self.alike([value, *members], "IN")
        self.check_category([operand, *listed], [value, *members])
        constants = [e.value for e in listed if isinstance(e, Const) and e.value is not None]
        others = [e for e in listed if not isinstance(e, Const)]
        found: list[Expression] = []
        if constants:
            found.append(Member(operand, tuple(dict.fromkeys(constants))))
        found += [Comparison("=", operand, other) for other in others]
        if len(constants) + len(others) < len(listed):
            found.append(Const(None, BOOL))  # x IN (..., NULL) is NULL where it is not true
        return found[0] if len(found) == 1 else Or(tuple(found))

    def _like(self, node: syntax.Like) -> Expression:
        text, pattern = self.text(node.value, "LIKE"), node.pattern
        if node.any_case:
            text, pattern = _call("LOWER", text), pattern.lower()
        return Like(text, like_parts(pattern, node.escape))

    def _is(self, value: syntax.Node, other: syntax.Node) -> Expression:
        match other:
            case syntax.Literal(None):
                return IsNull(self.lower(value))
            case syntax.Literal(True | False as truth):
                condition = self.truth(value, "IS TRUE or IS FALSE")
                return Coalesce((condition if truth else Not(condition), constant(False)), BOOL)
        left, right = self.alike([value, other], "DISTINCT FROM")
        equal = Coalesce((Comparison("=", left, right), constant(False)), BOOL)
        return Or((And((IsNull(left), IsNull(right))), equal))

    def _case(
        self, branches: tuple[tuple[syntax.Node, syntax.Node], ...], otherwise: syntax.Node
    ) -> Expression:
        conditions = [self.truth(condition, "WHEN") for condition, _ in branches]
        *results, last = self.alike([*(result for _, result in branches), otherwise], "CASE")
        pairs = tuple(zip(conditions, results, strict=True))
        return Case(pairs, last, type_of([*results, last]))

    def _cast(self, node: syntax.Cast) -> Expression:
        operand, type = self.lower(node.value), CAST_TYPES[node.to]
        kind = operand.type.kind
        if kind in (type.kind, Kind.NULL):
            return Convert(operand, type) if operand.type.is_wide else with_type(operand, type)
        if kind is not Kind.UNKNOWN and type.kind not in CASTABLE.get(kind, ()):
            message = f"{kind.value} cannot be cast to {node.to}"
            return self.fault(node, message, CAST_HINTS.get(kind))
        return Convert(operand, type)

    def _choice(self, form: Form, nodes: tuple[syntax.Node, ...]) -> Expression:
        operands = self.alike(nodes, form.value)
        type = type_of(operands)
        match form:
            case Form.COALESCE:
                return Coalesce(tuple(operands), type)
            case Form.GREATEST | Form.LEAST:
                return Extreme(form is Form.GREATEST, tuple(operands), type)
            case Form.NULLIF:
                value, other = operands
                equal = Comparison("=", value, other)
                return Case(((equal, Const(None, value.type)),), value, value.type)
            case _:
                assert_never(form)

    def _call(self, function: Function, arguments: tuple[syntax.Node, ...]) -> Expression:
        takes = list(function.takes)
        if function.variadic:
            takes += [takes[-1]] * (len(arguments) - len(takes))
        operands = [
            self._operand(function, kind, argument)
            for kind, argument in zip(takes, arguments, strict=False)
        ]
        numbers = tuple(
            self._whole_number(function, number, argument)
            for number, argument in zip(function.numbers, arguments[len(takes) :], strict=False)
        )
        if operands[0].type.kind is Kind.INT:
            if function.keeps_whole_numbers:
                return operands[0]
            if function.of_whole_numbers is not None:
                wide = operands[0].type.is_wide
                found = function.of_wide_numbers if wide else function.of_whole_numbers
                assert found is not None
                gives = replace(WIDE if wide else INT, is_length=operands[0].type.is_length)
                return Call(found, tuple(operands), numbers, gives)
        converted = tuple(
            as_number(operand, FLOAT) if kind is Operand.FLOAT else operand
            for kind, operand in zip(takes, operands, strict=True)
        )
        type = converted[0].type if function.gives == NUMBER else function.gives
        return Call(function, converted, numbers, type)

    def _operand(self, function: Function, kind: Operand, node: syntax.Node) -> Expression:
        match kind:
            case Operand.NUMBER | Operand.FLOAT:
                return self.number(node, function.name)
            case Operand.TEXT:
                return self.text(node, function.name)
            case Operand.TIMESTAMP:
                return self._time(function, kind, node, {Kind.DATETIME})
            case Operand.DATE_OR_TIMESTAMP:
                return self._time(function, kind, node, {Kind.DATETIME, Kind.DATE})
            case _:
                assert_never(kind)

    def _time(
        self, function: Function, operand: Operand, node: syntax.Node, allowed: set[Kind]
    ) -> Expression:
        expression = self.lower(node)
        if expression.type.kind is Kind.NULL:
            return Const(None, Type(Kind.DATETIME))
        if expression.type.kind in allowed | {Kind.UNKNOWN}:
            return expression
        return self.fault(node, f"{function.name} needs {operand.value}")

    def _whole_number(self, function: Function, number: WholeNumber, node: syntax.Node) -> int:
        value = node.value if isinstance(node, syntax.Literal) else None
        if type(value) is int and number.least <= value <= number.most:
            return value
        self.fault(
            node,
            f"the {number.name} of {function.name} must be written as a whole number "
            f"from {number.least} to {number.most}",
        )
        return number.least


#: A number of ticks between two dates or timestamps.
_LENGTH = replace(INT, is_length=True)

_HINT_OF_TIMES = (
    "how long a silence between two events may be is written MAX GAP 5 s, how long a situation lasts "
    "AT LEAST 5 s; DEFINE of MATCH_RECOGNIZE has ts - PREV(ts) <= 5 s"
)
#: What can be done with times in some clauses.
_HINTS_OF_TIMES = {
    "RETURN": "of two times the difference can be given: d.ts - a.te AS lag",
    "MEASURES": "of two times the difference can be given: LAST(B.ts) - FIRST(A.ts) AS lag",
    "a condition of DEFINE": "a difference of two times is a length: B.ts - A.ts <= 5 s",
}


def _call(name: str, *operands: Expression) -> Call:
    function = FUNCTIONS[name]
    return Call(function, operands, (), function.gives)
