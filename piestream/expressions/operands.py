"""Operands of a predicate: each is read as the type that is wanted, or there is a fault."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from piestream.expressions import syntax
from piestream.expressions.coercion import (
    as_number,
    column_in,
    common_type,
    with_type,
)
from piestream.expressions.diagnostics import Diagnostic, did_you_mean
from piestream.expressions.tokens import quoted
from piestream.expressions.typed import (
    Const,
    Expression,
    Field,
)
from piestream.expressions.types import (
    BOOL,
    FLOAT,
    NUMBER,
    NUMERIC,
    STRING,
    Kind,
    Type,
)

__all__ = ["Operands"]


class Operands(ABC):
    """What a walk over a predicate asks of operands; diagnostics are collected on the way."""

    def __init__(self, schema: Mapping[str, Any] | None, clause: str | None) -> None:
        self.schema = schema
        self.clause = clause  # that is about matches, not about events
        self.diagnostics: list[Diagnostic] = []

    @abstractmethod
    def lower(self, node: syntax.Node) -> Expression:
        """The typed form of a node."""

    def fault(self, node: syntax.Node, message: str, hint: str | None = None) -> Const:
        """Report what is wrong with a node; the result takes its place."""
        self.diagnostics.append(Diagnostic(node.span, message, hint))
        return Const(None, Type(Kind.UNKNOWN))

    def require(
        self, expression: Expression, type: Type, node: syntax.Node, message: str
    ) -> Expression:
        """The operand as the type, if it has it, could have it, or is NULL; else a fault."""
        kind = expression.type.kind
        if kind is type.kind or (self.diagnostics and kind is Kind.UNKNOWN):
            return expression
        if kind is Kind.NULL:
            return Const(None, type)
        if kind is Kind.UNKNOWN:
            return with_type(expression, type)
        if type.kind in NUMERIC and kind in NUMERIC:
            return as_number(expression, type)
        hint = f"this is {kind.value}"
        if message.startswith("||"):
            hint = "|| joins texts; conditions are joined by OR"
        elif (column := column_in(expression)) is not None:
            named = "the column " if self.clause is None else ""
            hint = f"{named}{column.name} holds {kind.value}"
        return self.fault(node, message, hint)

    def number(self, node: syntax.Node, what: str) -> Expression:
        """The operand of ``what``, which needs a number."""
        expression = self.lower(node)
        if expression.type.kind in NUMERIC:
            return expression
        type = NUMBER if self.schema is None else FLOAT
        return self.require(expression, type, node, f"{what} needs a number")

    def text(self, node: syntax.Node, what: str) -> Expression:
        """The operand of ``what``, which needs a text."""
        return self.require(self.lower(node), STRING, node, f"{what} needs a string")

    def truth(self, node: syntax.Node, what: str) -> Expression:
        """The operand of ``what``, which needs something true or false."""
        message = f"{what} needs something true or false"
        return self.require(self.lower(node), BOOL, node, message)

    def alike(self, nodes: Sequence[syntax.Node], what: str) -> list[Expression]:
        """Operands of one type."""
        operands = [self.lower(n) for n in nodes]
        self.check_lengths(operands, nodes, what)
        expressions, diagnostic = common_type(operands, nodes, what)
        if diagnostic is not None:
            self.diagnostics.append(self._named(diagnostic, operands))
        return expressions

    def _named(self, diagnostic: Diagnostic, operands: Sequence[Expression]) -> Diagnostic:
        """A fault of a condition on a match, which has no columns: their names are their texts."""
        hint = diagnostic.hint
        if hint is None or self.clause is None:
            return diagnostic
        for operand in operands:
            if isinstance(operand, Field):
                hint = hint.replace(f"the column {operand.name}", operand.name)
                hint = hint.replace(quoted(operand.name), operand.name)
        return replace(diagnostic, hint=hint)

    def check_lengths(
        self, operands: Sequence[Expression], nodes: Sequence[syntax.Node], what: str
    ) -> None:
        """Refuse numbers without a unit beside lengths of time; 0 means the same in every unit."""
        if not any(operand.type.is_length for operand in operands):
            return
        for operand, node in zip(operands, nodes, strict=True):
            is_zero = isinstance(operand, Const) and operand.value in (None, 0)
            if operand.type.is_length or is_zero or operand.type.kind not in NUMERIC:
                continue
            self.fault(
                node,
                f"{what} cannot mix a length of time and a number without a unit",
                _hint_of_number(node, nodes),
            )

    def moment_in(self, *nodes: syntax.Node) -> Expression | None:
        """The first operand that is a date or timestamp."""
        times = (Kind.DATE, Kind.DATETIME)
        operands = (self.lower(node) for node in nodes)
        return next((operand for operand in operands if operand.type.kind in times), None)

    def check_category(self, operands: Sequence[Expression], nodes: Sequence[syntax.Node]) -> None:
        """Report texts that no value of an Enum column beside them can be."""
        columns = (field for e in operands if (field := column_in(e)) is not None)
        column = next((field for field in columns if field.type.stored == "Enum"), None)
        if column is None or self.schema is None:
            return
        categories = list(self.schema[column.name].categories)
        for operand, node in zip(operands, nodes, strict=True):
            value = operand.value if isinstance(operand, Const) else None
            if not isinstance(value, str) or value in categories:
                continue
            listed = ", ".join(repr(category) for category in categories[:20])
            hint = f"they are {listed}" + (", ..." if len(categories) > 20 else "")
            message = f"{value!r} is none of the values that the column {column.name} can have"
            self.fault(node, message, did_you_mean(value, categories) or hint)


def _hint_of_number(node: syntax.Node, nodes: Sequence[syntax.Node]) -> str:
    """What to write where a number stands beside lengths of time, of which some are written out."""
    if isinstance(node, syntax.Literal):
        return f"write {node.value} s, {node.value} min, {node.value} h or {node.value} d"
    written = [n.name.split() for n in nodes if isinstance(n, syntax.Column)]
    lengths = [number for number, *unit in written if number.isdecimal() and unit]
    if lengths:
        return (
            f"this is a number, and no difference of dates or timestamps: write {lengths[0]} alone"
        )
    return "a difference of times is compared with a length such as 5 s, or with another one"
