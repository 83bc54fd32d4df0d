"""sqlglot's tree into ours: an allow-list decides what a predicate may say.

sqlglot reads far more than predicates (``a > > 8`` is a shift to it), so every node of its tree is
looked up here, and what is not listed is a fault. Classes of its tree are named by strings, because
importing sqlglot takes long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from piestream.expressions.casts import CAST_HINT, CAST_SPELLINGS
from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.functions import (
    BY_NODE,
    BY_SPELLING,
    EXTRACT_PARTS,
    FUNCTION_NAMES,
    FUNCTIONS,
    Function,
    extract_of,
)
from piestream.expressions.keywords import (
    DATES,
    EXPRESSION_WORDS,
    TIMESTAMPS,
)
from piestream.expressions.like import has_dangling_escape
from piestream.expressions.literals import (
    LiteralError,
    date_value,
    number_value,
    timestamp_value,
)
from piestream.expressions.refusals import (
    refusal,
)
from piestream.expressions.sqlglot_tree import TreeReading, cover
from piestream.expressions.syntax import (
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Call,
    Case,
    Cast,
    Choice,
    Column,
    Comparison,
    ComparisonOperator,
    Concatenation,
    Form,
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
    Window,
    columns_of,
)
from piestream.expressions.windows import (
    MOST_BACK,
    WINDOW_FUNCTIONS,
    Lengths,
)

__all__ = ["ALLOWED_FUNCTIONS", "BEFORE_BRACKETS", "Names", "PredicateReading"]

_ARITHMETIC: dict[str, ArithmeticOperator] = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
}
_COMPARISONS: dict[str, ComparisonOperator] = {
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
}
_FORMS = {form.value.capitalize(): form for form in Form}

#: What may be written like a function, for messages.
ALLOWED_FUNCTIONS = (
    *sorted([*FUNCTION_NAMES, *(form.value for form in Form)]),
    "CASE",
    "CAST",
    "EXTRACT",
    "IF",
    "PREV",
)

#: Words before brackets that sqlglot reads once.
BEFORE_BRACKETS = EXPRESSION_WORDS.union(
    ALLOWED_FUNCTIONS, BY_SPELLING, ["IIF", "TRY_CAST", "LOG", *WINDOW_FUNCTIONS]
)


@dataclass(frozen=True)
class Names:
    """What names stand for in a predicate, besides columns.

    Columns may be qualified by ``qualifiers``. ``lets`` are the expressions that LET named, each
    with where its text begins in that of the query; ``later`` those that are named only behind.
    """

    qualifiers: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    lets: Mapping[str, tuple[Node, int]] = field(default_factory=dict)
    later: tuple[str, ...] = ()


class PredicateReading(TreeReading):
    """One walk over sqlglot's tree: our nodes come out, diagnostics are collected."""

    def __init__(
        self,
        places: list[int],
        whole: Span,
        names: Names,
        lengths: Lengths,
        offset: int,
    ) -> None:
        super().__init__(places, whole)
        self.names = names
        self.lengths = lengths
        self.offset = offset

    def node(self, tree: Any) -> Node:
        kind = type(tree).__name__
        reader = getattr(self, f"_read_{kind.lower()}", None)
        if reader is not None:
            result: Node = reader(tree)
            return result
        if kind in _ARITHMETIC or kind in _COMPARISONS or kind == "DPipe":
            return self._operation(kind, tree)
        if kind in _FORMS:
            return self._choice(tree, _FORMS[kind])
        if kind in BY_NODE:
            return self._function(tree, BY_NODE[kind])
        return self._refused(tree)

    def _operation(self, kind: str, tree: Any) -> Node:
        if not self.only(tree, "this", "expression"):
            return Literal(None)
        left, right, span = self.node(tree.this), self.node(tree.expression), self.span(tree)
        if kind in _ARITHMETIC:
            return Arithmetic(_ARITHMETIC[kind], left, right, span)
        if kind in _COMPARISONS:
            return Comparison(_COMPARISONS[kind], left, right, span)
        return Concatenation(left, right, span)

    def _read_paren(self, tree: Any) -> Node:
        return self.node(tree.this)

    def _read_and(self, tree: Any) -> Node:
        operands = tuple(self.node(part) for part in self.chain(tree))
        return And(operands, cover(operands))

    def _read_or(self, tree: Any) -> Node:
        operands = tuple(self.node(part) for part in self.chain(tree))
        return Or(operands, cover(operands))

    def _read_not(self, tree: Any) -> Node:
        return Not(self.node(tree.this), self.span(tree))

    def _read_column(self, tree: Any) -> Node:
        table = tree.args.get("table")
        if tree.args.get("db") is not None or type(tree.this).__name__ != "Identifier":
            return self.fault(tree, "this is not the name of a column")
        name = tree.this.this
        names = self.names
        if table is None and name in names.lets:
            value, at = names.lets[name]
            return Named(name, value, at - self.offset, self.span(tree))
        if table is None and name in names.later:
            return self.fault(
                tree, f"{name} is named by LET only here or below", "a LET uses those before it"
            )
        if table is not None and table.this not in names.qualifiers:
            if table.this in names.symbols:
                return self.fault(
                    tree,
                    f"a predicate sees one event, so it cannot refer to the symbol {table.this}",
                    f"relate symbols in PATTERN; PREV({name}) is the value at the previous event",
                )
            known = ", ".join(names.qualifiers) or "the FROM name"
            return self.fault(
                tree,
                f"{table.this} is not the stream of this query",
                did_you_mean(table.this, names.qualifiers)
                or f"write {name}, or qualify by {known}",
            )
        written = self.span(tree.this)  # sqlglot is given all names in quotes
        return Column(name, self.span(tree), written.end - written.start > len(name))

    def _read_literal(self, tree: Any) -> Node:
        if tree.is_string:
            if not tree.this.isascii() and any("\ud800" <= c <= "\udfff" for c in tree.this):
                return self.fault(tree, "a string cannot hold half a character, a lone surrogate")
            return Literal(tree.this, self.span(tree))
        return self._number(tree.this, tree)

    def _number(self, digits: str, place: Any) -> Node:
        try:
            return Literal(number_value(digits), self.span(place))
        except LiteralError as error:
            return self.fault(place, error.message, error.hint)

    def _read_neg(self, tree: Any) -> Node:
        if type(tree.this).__name__ == "Literal" and not tree.this.is_string:
            return self._number("-" + tree.this.this, tree)
        return Minus(self.node(tree.this), self.span(tree))

    def _read_boolean(self, tree: Any) -> Node:
        return Literal(bool(tree.this), self.span(tree))

    def _read_null(self, tree: Any) -> Node:
        return Literal(None, self.span(tree))

    def _read_between(self, tree: Any) -> Node:
        if not self.only(tree, "this", "low", "high"):
            return Literal(None)
        value, low, high = (self.node(tree.args[part]) for part in ("this", "low", "high"))
        return Between(value, low, high, self.span(tree))

    def _read_in(self, tree: Any) -> Node:
        members = tree.args.get("expressions") or []
        if tree.args.get("query") is not None:
            return self._refused(tree.args["query"])
        if not members:
            return self.fault(tree, "IN needs a list of values", "write IN (1, 2, 3)")
        if not self.only(tree, "this", "expressions"):
            return Literal(None)
        listed = tuple(self.node(member) for member in members)
        return OneOf(self.node(tree.this), listed, self.span(tree))

    def _read_escape(self, tree: Any) -> Node:
        inner, sign = tree.this, tree.expression
        if type(inner).__name__ not in ("Like", "ILike") or not getattr(sign, "is_string", False):
            return self._refused(tree)
        if len(sign.this) != 1:
            return self.fault(sign, "ESCAPE takes one character")
        return self._like(inner, sign.this)

    def _read_like(self, tree: Any) -> Node:
        return self._like(tree, None)

    _read_ilike = _read_like

    def _like(self, tree: Any, escape: str | None) -> Node:
        if not self.only(tree, "this", "expression", "negate"):
            return Literal(None)
        pattern = tree.expression
        if type(pattern).__name__ != "Literal" or not pattern.is_string:
            return self.fault(pattern, "the pattern of LIKE must be a string in quotes")
        any_case = type(tree).__name__ == "ILike"
        value = self.node(tree.this)
        like: Node = Like(value, pattern.this, escape, any_case, self.span(tree))
        if escape is not None and has_dangling_escape(pattern.this, escape):
            return self.fault(pattern, f"after the escape {escape} stands %, _ or {escape}")
        return Not(like, like.span) if tree.args.get("negate") else like

    def _read_is(self, tree: Any) -> Node:
        other = tree.expression
        if type(other).__name__ not in ("Null", "Boolean"):
            return self.fault(tree, "IS is followed by NULL, TRUE, FALSE or DISTINCT FROM")
        return Is(self.node(tree.this), self.node(other), self.span(tree))

    def _read_nullsafeeq(self, tree: Any) -> Node:
        return Is(self.node(tree.this), self.node(tree.expression), self.span(tree))

    def _read_nullsafeneq(self, tree: Any) -> Node:
        same = self._read_nullsafeeq(tree)
        return Not(same, same.span)

    def _read_case(self, tree: Any) -> Node:
        if not self.only(tree, "this", "ifs", "default"):
            return Literal(None)
        given = tree.args.get("this")
        subject = None if given is None else self.node(given)
        branches = []
        for branch in tree.args.get("ifs") or []:
            condition = self.node(branch.this)
            if subject is not None:
                condition = Comparison("=", subject, condition, condition.span)
            branches.append((condition, self.node(branch.args["true"])))
        default = tree.args.get("default")
        otherwise = self.node(default) if default is not None else Literal(None)
        return Case(tuple(branches), otherwise, self.span(tree))

    def _read_if(self, tree: Any) -> Node:
        false = tree.args.get("false")
        otherwise = self.node(false) if false is not None else Literal(None)
        branch = (self.node(tree.this), self.node(tree.args["true"]))
        return Case((branch,), otherwise, self.span(tree))

    def _read_cast(self, tree: Any) -> Node:
        to = tree.args["to"]
        name = getattr(to.this, "name", str(to.this))
        if not self.only(tree, "this", "to", "safe") or to.expressions:
            return self.fault(tree, f"CAST to {to.sql()} is not allowed", CAST_HINT)
        if name in DATES or name in TIMESTAMPS:
            return self._date_or_timestamp(tree, name)
        if name not in CAST_SPELLINGS:
            return self.fault(tree, f"CAST to {name} is not allowed", CAST_HINT)
        return Cast(self.node(tree.this), CAST_SPELLINGS[name], self.span(tree))

    _read_trycast = _read_cast

    def _date_or_timestamp(self, tree: Any, name: str) -> Node:
        text = tree.this
        if type(text).__name__ != "Literal" or not text.is_string:
            return self.fault(
                tree, f"CAST to {name} takes a text in quotes", "write DATE '2026-01-31'"
            )
        try:
            value = (date_value if name in DATES else timestamp_value)(text.this, name)
        except LiteralError as error:
            return self.fault(text, error.message, error.hint)
        return Literal(value, self.span(tree))

    def _read_trim(self, tree: Any) -> Node:
        position = (tree.args.get("position") or "BOTH").upper()
        if not self.only(tree, "this", "position"):
            return Literal(None)
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(position, "TRIM")
        return Call(FUNCTIONS[name].name, (self.node(tree.this),), self.span(tree))

    def _read_log(self, tree: Any) -> Node:
        base = tree.this
        if tree.expression is not None and getattr(base, "this", None) == "10":
            return Call(FUNCTIONS["LOG10"].name, (self.node(tree.expression),), self.span(tree))
        return self.fault(tree, "LOG means different things in SQL", "write LN(x) or LOG10(x)")

    def _read_extract(self, tree: Any) -> Node:
        part = str(tree.this.this).upper()
        part = "DOW" if part == "DAYOFWEEK" else part
        if part not in EXTRACT_PARTS:
            hint = did_you_mean(part, EXTRACT_PARTS) or f"allowed are {', '.join(EXTRACT_PARTS)}"
            return self.fault(tree, f"EXTRACT does not know {part}", hint)
        return Call(extract_of(part).name, (self.node(tree.expression),), self.span(tree))

    def _read_anonymous(self, tree: Any) -> Node:
        name = str(tree.this).upper()
        if name in BY_SPELLING:  # a function that this version of sqlglot does not know
            return self._function(tree, BY_SPELLING[name])
        if name != "PREV":
            return self._refused(tree)
        return self._previous(tree)

    def _previous(self, tree: Any) -> Node:
        what = "PREV takes one column, or what is calculated of some, and a number of events"
        hint = "write PREV(speed), or PREV(speed, 3) for the value three events before"
        arguments = tree.expressions
        if not 1 <= len(arguments) <= 2:
            return self.fault(tree, what, hint)
        operand = self.node(arguments[0])
        if self.diagnostics:
            return operand
        if next(columns_of(operand), None) is None:
            return self.fault(tree, what, hint)
        events = 1
        if len(arguments) == 2:
            number = self.node(arguments[1])
            count = number.value if isinstance(number, Literal) else None
            if type(count) is not int or not 1 <= count <= MOST_BACK:
                message = f"PREV looks from 1 to {MOST_BACK:,} events back, written as a number"
                return self.fault(arguments[1], message, hint)
            events = count
        return Previous(operand, events, self.span(tree))

    def _read_window(self, tree: Any) -> Node:
        function = tree.this
        length = tree.args.get("alias")
        if length is None or not self.only(tree, "this", "alias", "over"):
            return self.fault(tree, "this is not a window", "write AVG(speed) OVER 30 s")
        kind = type(function).__name__
        name = kind.upper() if kind != "Anonymous" else str(function.this).upper()
        if name not in WINDOW_FUNCTIONS:
            hint = (
                did_you_mean(name, WINDOW_FUNCTIONS) or f"these are {', '.join(WINDOW_FUNCTIONS)}"
            )
            return self.fault(tree, f"{name} is no aggregate of a window", hint)
        if not self.only(function, "this", "big_int"):
            return Literal(None)
        of = function.this
        if type(of).__name__ == "Star":
            if name != "COUNT":
                return self.fault(tree, f"{name} needs a value", f"write {name}(speed) OVER 30 s")
            return Window(name, None, self.lengths.found[length.this], self.span(tree))
        if of is None or type(of).__name__ == "Distinct":
            return self.fault(tree, f"{name} takes one value", f"write {name}(speed) OVER 30 s")
        operand = self.node(of)
        return Window(name, operand, self.lengths.found[length.this], self.span(tree))

    def _choice(self, tree: Any, form: Form) -> Node:
        names = ("this", "expression", "expressions")
        arguments = self.arguments(tree, names, form.value, form.arity)
        if arguments is None:
            return Literal(None)
        return Choice(form, tuple(self.node(a) for a in arguments), self.span(tree))

    def _function(self, tree: Any, function: Function) -> Node:
        names = function.node_arguments
        arguments = self.arguments(tree, names, function.name, function.arity)
        if arguments is None:
            return Literal(None)
        return Call(function.name, tuple(self.node(a) for a in arguments), self.span(tree))

    def _refused(self, tree: Any) -> Literal:
        return self.fault(*refusal(tree, ALLOWED_FUNCTIONS))
