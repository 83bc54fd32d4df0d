"""The canonical text of a predicate."""

from __future__ import annotations

from typing import assert_never

from piestream.expressions.functions import call_text
from piestream.expressions.keywords import EXPRESSION_WORDS
from piestream.expressions.literals import literal_text
from piestream.expressions.syntax import (
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Choice,
    Column,
    Comparison,
    Concatenation,
    Is,
    Like,
    Literal,
    Minus,
    Named,
    Node,
    Not,
    OneOf,
    Or,
    Previous,
    Until,
    Window,
)
from piestream.expressions.tokens import is_plain_name, quoted

__all__ = ["canonical_text"]

# How strongly a part binds: one that binds less than its place asks for stands in brackets.
_UNTIL, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _PRIMARY = range(8)
_STRENGTH = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def canonical_text(
    node: Node,
    qualifier: str | None = None,
    *,
    names_are_text: bool = False,
    by_name: bool = False,
) -> str:
    """The canonical SQL of a predicate; equal predicates have equal texts.

    With a ``qualifier`` that name stands before every column. Where ``names_are_text``, columns have
    the text as their names that stands for them. What LET named is written out, or ``by_name``.

    >>> canonical_text(Or((Comparison(">", Column("lat"), Literal(0.5)), Not(Column("ok")))))
    'lat > 0.5 OR NOT ok'
    """

    def name(word: str) -> str:
        plain = is_plain_name(word) and word.upper() not in EXPRESSION_WORDS
        return word if plain else quoted(word)

    def column_name(word: str) -> str:
        if names_are_text:
            return word
        return name(word) if qualifier is None else f"{name(qualifier)}.{name(word)}"

    def write(node: Node, at_least: int) -> str:
        text, strength = written(node)
        return text if strength >= at_least else f"({text})"

    def listed(nodes: tuple[Node, ...]) -> str:
        return ", ".join(write(n, _OR) for n in nodes)

    def written(node: Node, negated: str = "") -> tuple[str, int]:
        match node:
            case Column(column):
                return column_name(column), _PRIMARY
            case Named(given, value):
                return (name(given), _PRIMARY) if by_name else written(value, negated)
            case Previous(operand, events):
                more = f", {events}" if events > 1 else ""
                return f"PREV({write(operand, _OR)}{more})", _PRIMARY
            case Window(function, of, length):
                inside = "*" if of is None else write(of, _OR)
                over = f"{length} EVENTS" if isinstance(length, int) else str(length)
                return f"{function}({inside}) OVER {over}", _PRIMARY
            case Until(start, stop):
                return f"{write(start, _OR)} UNTIL {write(stop, _OR)}", _UNTIL
            case Literal(value):
                return literal_text(value), _PRIMARY
            case Concatenation(left, right):
                # Where || binds differs between SQL dialects, so its operands stand in brackets.
                return f"{write(left, _PRIMARY)} || {write(right, _PRIMARY)}", _SUM - 1
            case Comparison(operator, left, right):
                return f"{write(left, _SUM)} {operator} {write(right, _SUM)}", _COMPARISON
            case Arithmetic(operator, left, right):
                strength = _STRENGTH[operator]
                text = f"{write(left, strength)} {operator} {write(right, strength + 1)}"
                return text, strength
            case Minus(operand):
                return f"-({write(operand, _OR)})", _PRIMARY
            case And(operands):
                return " AND ".join(write(o, _NOT) for o in operands), _AND
            case Or(operands):
                return " OR ".join(write(o, _AND) for o in operands), _OR
            case Not(operand) if isinstance(_plain(operand, by_name), Between | OneOf | Like | Is):
                return written(operand, "NOT ")
            case Not(operand):
                return f"NOT {write(operand, _PRIMARY)}", _NOT
            case Between(value, low, high):
                bounds = f"{write(low, _SUM)} AND {write(high, _SUM)}"
                return f"{write(value, _SUM)} {negated}BETWEEN {bounds}", _COMPARISON
            case OneOf(value, members):
                return f"{write(value, _SUM)} {negated}IN ({listed(members)})", _COMPARISON
            case Like(value, pattern, escape, any_case):
                verb = "ILIKE" if any_case else "LIKE"
                tail = f" ESCAPE {literal_text(escape)}" if escape is not None else ""
                text = f"{write(value, _SUM)} {negated}{verb} {literal_text(pattern)}{tail}"
                return text, _COMPARISON
            case Is(value, Literal(None | True | False as truth)):
                return f"{write(value, _SUM)} IS {negated}{literal_text(truth)}", _COMPARISON
            case Is(value, other):
                distinct = "DISTINCT" if negated else "NOT DISTINCT"
                return f"{write(value, _SUM)} IS {distinct} FROM {write(other, _SUM)}", _COMPARISON
            case Case(branches, otherwise):
                whens = [f"WHEN {write(c, _OR)} THEN {write(r, _OR)}" for c, r in branches]
                if otherwise != Literal(None):
                    whens.append(f"ELSE {write(otherwise, _OR)}")
                return f"CASE {' '.join(whens)} END", _PRIMARY
            case Choice(form, operands):
                return f"{form.value}({listed(operands)})", _PRIMARY
            case Call(function, arguments):
                return call_text(function, [write(a, _OR) for a in arguments]), _PRIMARY
            case Cast(value, to):
                return f"CAST({write(value, _OR)} AS {to})", _PRIMARY
            case _:
                assert_never(node)

    return write(node, _UNTIL)


def _plain(node: Node, by_name: bool) -> Node:
    """A node, or what a name stands for that is written out."""
    while isinstance(node, Named) and not by_name:
        node = node.value
    return node
