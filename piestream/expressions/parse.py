"""Predicate text into a tree: sqlglot parses, an allow-list decides what is a predicate.

The only module that knows sqlglot, but for `predicate_refusals`. sqlglot reads far more than predicates (``a > > 8`` is a
shift to it), so every node of its tree is looked up here, and what is not listed is a fault.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.keywords import DATES, TIMESTAMPS, with_names_quoted
from piestream.expressions.refusals import interval_fault, refusal, syntax_fault
from piestream.expressions.syntax import (
    FUNCTIONS,
    And,
    Between,
    Call,
    Case,
    Cast,
    Column,
    Is,
    Like,
    Literal,
    Node,
    Not,
    OneOf,
    Operation,
    Or,
)
from piestream.expressions.tokens import Kind, tokenize, without_comments

__all__ = ["ALLOWED_FUNCTIONS", "read_predicate"]

_OPERATIONS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "Mod": "%",
    "DPipe": "||",
    "EQ": "=",
    "NEQ": "<>",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
}

_FUNCTION_NODES = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Coalesce": "COALESCE",
    "Concat": "CONCAT",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Greatest": "GREATEST",
    "Least": "LEAST",
    "DurationOf": "LENGTH",
    "Ln": "LN",
    "Lower": "LOWER",
    "Nullif": "NULLIF",
    "Pow": "POWER",
    "Round": "ROUND",
    "Sign": "SIGN",
    "Sqrt": "SQRT",
    "Substring": "SUBSTRING",
    "Upper": "UPPER",
    "Year": "EXTRACT YEAR",
    "Month": "EXTRACT MONTH",
    "Day": "EXTRACT DAY",
    "Hour": "EXTRACT HOUR",
    "Minute": "EXTRACT MINUTE",
    "Second": "EXTRACT SECOND",
}

#: What sqlglot sets by itself and changes nothing here.
_HARMLESS = {"safe", "coalesce", "ignore_nulls", "big_int", "_type"}

_ARGUMENT_ORDER = ("this", "expression", "expressions", "decimals", "start", "length")

_CASTS = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "INT", "BIGINT"], "BIGINT"),
    **dict.fromkeys(["FLOAT", "DOUBLE"], "DOUBLE"),
    "BOOLEAN": "BOOLEAN",
    **dict.fromkeys(["TEXT", "VARCHAR", "CHAR", "STRING"], "STRING"),
}

_WRITTEN_FUNCTIONS = sorted({f.split()[0] for f in FUNCTIONS} - {"EXTRACT"})
ALLOWED_FUNCTIONS = (*_WRITTEN_FUNCTIONS, "CASE", "CAST", "EXTRACT", "IF", "PREV")
_EXTRACTS = [f.split()[1] for f in FUNCTIONS if f.startswith("EXTRACT ")]


def read_predicate(
    text: str, qualifiers: tuple[str, ...] = (), symbols: tuple[str, ...] = ()
) -> tuple[Node | None, list[Diagnostic]]:
    """The tree of a predicate and what is wrong with it; spans are places in ``text``.

    A column may be written ``stream.column`` when ``stream`` is one of the qualifiers.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    clean = without_comments(text)
    tokens, diagnostics = tokenize(clean)
    if diagnostics:
        return None, diagnostics
    if tokens[0].kind is Kind.END:
        return None, [Diagnostic(None, "the predicate is missing")]
    interval = interval_fault(tokens)
    if interval is not None:
        return None, [interval]
    sql, places = with_names_quoted(clean, tokens)
    whole = Span(tokens[0].span.start, tokens[-2].span.end)
    try:
        tree = sqlglot.parse_one(sql)
        reading = _Reading(places, whole, qualifiers, symbols)
        node = reading.node(tree)
    except SqlglotError as error:
        return None, [syntax_fault(error, sql, places, whole)]
    except RecursionError:
        return None, [Diagnostic(whole, "this predicate is nested too deeply")]
    return (None if reading.diagnostics else node), reading.diagnostics


class _Reading:
    """One walk over sqlglot's tree: our nodes come out, faults are collected."""

    def __init__(
        self,
        places: list[int],
        whole: Span,
        qualifiers: tuple[str, ...],
        symbols: tuple[str, ...],
    ) -> None:
        self.places = places
        self.whole = whole
        self.qualifiers = qualifiers
        self.symbols = symbols
        self.diagnostics: list[Diagnostic] = []

    def span(self, tree: Any) -> Span:
        """What a subtree covers: sqlglot knows the places of its names and literals."""
        found: Span | None = None
        for part in tree.walk():
            start, end = part.meta.get("start"), part.meta.get("end")
            if start is not None and end is not None:
                here = Span(self.places[start], self.places[end] + 1)
                found = here if found is None else found.joined(here)
        return found or self.whole

    def fault(self, tree: Any, message: str, hint: str | None = None) -> Literal:
        self.diagnostics.append(Diagnostic(self.span(tree), message, hint))
        return Literal(None)

    def node(self, tree: Any) -> Node:
        kind = type(tree).__name__
        reader = getattr(self, f"_read_{kind.lower()}", None)
        if reader is not None:
            result: Node = reader(tree)
            return result
        if kind in _OPERATIONS:
            if not self._only(tree, "this", "expression"):
                return Literal(None)
            left, right = self.node(tree.this), self.node(tree.expression)
            return Operation(_OPERATIONS[kind], left, right, self.span(tree))
        if kind in _FUNCTION_NODES:
            return self._function(tree, _FUNCTION_NODES[kind])
        return self._refused(tree)

    def _only(self, tree: Any, *allowed: str) -> bool:
        """Whether sqlglot read nothing more than we do; anything else would change the meaning."""
        extra = [k for k, v in tree.args.items() if v and k not in allowed and k not in _HARMLESS]
        if extra:
            self.fault(tree, f"{extra[0].upper()} is not allowed in a predicate")
        return not extra

    def _read_paren(self, tree: Any) -> Node:
        return self.node(tree.this)

    def _chain(self, tree: Any) -> list[Any]:
        """The operands of a run of ANDs or ORs, without recursion: runs may be long."""
        kind, operands, pending = type(tree), [], [tree]
        while pending:
            part = pending.pop()
            while type(part).__name__ == "Paren" and type(part.this) is kind:
                part = part.this
            if type(part) is kind:
                pending += [part.expression, part.this]
            else:
                operands.append(part)
        return operands

    def _read_and(self, tree: Any) -> Node:
        operands = tuple(self.node(part) for part in self._chain(tree))
        return And(operands, self._cover(operands))

    def _read_or(self, tree: Any) -> Node:
        operands = tuple(self.node(part) for part in self._chain(tree))
        return Or(operands, self._cover(operands))

    def _cover(self, nodes: tuple[Node, ...]) -> Span:
        span = nodes[0].span
        for node in nodes[1:]:
            span = span.joined(node.span)
        return span

    def _read_not(self, tree: Any) -> Node:
        return Not(self.node(tree.this), self.span(tree))

    def _read_column(self, tree: Any) -> Node:
        table = tree.args.get("table")
        if tree.args.get("db") is not None or type(tree.this).__name__ != "Identifier":
            return self.fault(tree, "this is not the name of a column")
        name = tree.this.this
        if table is not None and table.this not in self.qualifiers:
            if table.this in self.symbols:
                return self.fault(
                    tree,
                    f"a predicate sees one event, so it cannot refer to the symbol {table.this}",
                    f"relate symbols in PATTERN; PREV({name}) is the value at the previous event",
                )
            known = ", ".join(self.qualifiers) or "the FROM name"
            return self.fault(
                tree,
                f"{table.this} is not the stream of this query",
                did_you_mean(table.this, self.qualifiers) or f"write {name}, or qualify by {known}",
            )
        return Column(name, span=self.span(tree))

    def _read_literal(self, tree: Any) -> Node:
        if tree.is_string:
            return Literal(tree.this, self.span(tree))
        return self._number(tree, tree.this, tree)

    def _number(self, tree: Any, digits: str, place: Any) -> Node:
        try:
            value: int | float = int(digits)
        except ValueError:
            try:
                value = float(digits)
            except ValueError:
                return self.fault(place, f"{digits} is not a number")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return self.fault(place, f"{digits} does not fit a 64-bit integer")
        if math.isinf(value):
            return self.fault(place, f"{digits} is too large for a number")
        return Literal(value, self.span(place))

    def _read_neg(self, tree: Any) -> Node:
        if type(tree.this).__name__ == "Literal" and not tree.this.is_string:
            return self._number(tree.this, "-" + tree.this.this, tree)
        return Call("-", (self.node(tree.this),), self.span(tree))

    def _read_boolean(self, tree: Any) -> Node:
        return Literal(bool(tree.this), self.span(tree))

    def _read_null(self, tree: Any) -> Node:
        return Literal(None, self.span(tree))

    def _read_between(self, tree: Any) -> Node:
        if not self._only(tree, "this", "low", "high"):
            return Literal(None)
        value, low, high = (self.node(tree.args[part]) for part in ("this", "low", "high"))
        return Between(value, low, high, self.span(tree))

    def _read_in(self, tree: Any) -> Node:
        members = tree.args.get("expressions") or []
        if tree.args.get("query") is not None:
            return self._refused(tree.args["query"])
        if not members:
            return self.fault(tree, "IN needs a list of values", "write IN (1, 2, 3)")
        if not self._only(tree, "this", "expressions"):
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
        if not self._only(tree, "this", "expression", "negate"):
            return Literal(None)
        pattern = tree.expression
        if type(pattern).__name__ != "Literal" or not pattern.is_string:
            return self.fault(pattern, "the pattern of LIKE must be a string in quotes")
        any_case = type(tree).__name__ == "ILike"
        value = self.node(tree.this)
        like: Node = Like(value, pattern.this, escape, any_case, self.span(tree))
        if escape is not None and _dangling_escape(pattern.this, escape):
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
        if not self._only(tree, "this", "ifs", "default"):
            return Literal(None)
        subject = tree.args.get("this")
        branches = []
        for branch in tree.args.get("ifs") or []:
            condition = self.node(branch.this)
            if subject is not None:
                condition = Operation("=", self.node(subject), condition, condition.span)
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
        if not self._only(tree, "this", "to", "safe") or to.expressions:
            return self.fault(tree, f"CAST to {to.sql()} is not allowed", _CAST_HINT)
        if name in DATES or name in TIMESTAMPS:
            return self._moment(tree, name)
        if name not in _CASTS:
            return self.fault(tree, f"CAST to {name} is not allowed", _CAST_HINT)
        return Cast(self.node(tree.this), _CASTS[name], self.span(tree))

    _read_trycast = _read_cast

    def _moment(self, tree: Any, name: str) -> Node:
        text = tree.this
        if type(text).__name__ != "Literal" or not text.is_string:
            return self.fault(
                tree, f"CAST to {name} takes a text in quotes", "write DATE '2026-01-31'"
            )
        try:
            if name in DATES:
                return Literal(date.fromisoformat(text.this.strip()), self.span(tree))
            return Literal(datetime.fromisoformat(text.this.strip()), self.span(tree))
        except ValueError:
            wanted = "2026-01-31" if name in DATES else "2026-01-31 12:00:00"
            return self.fault(text, f"this is not a {name.lower()}", f"write it as '{wanted}'")

    def _read_trim(self, tree: Any) -> Node:
        position = (tree.args.get("position") or "BOTH").upper()
        if not self._only(tree, "this", "position"):
            return Literal(None)
        name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(position, "TRIM")
        return Call(name, (self.node(tree.this),), self.span(tree))

    def _read_log(self, tree: Any) -> Node:
        base = tree.this
        if tree.expression is not None and getattr(base, "this", None) == "10":
            return Call("LOG10", (self.node(tree.expression),), self.span(tree))
        return self.fault(tree, "LOG means different things in SQL", "write LN(x) or LOG10(x)")

    def _read_extract(self, tree: Any) -> Node:
        part = str(tree.this.this).upper()
        name = "EXTRACT DOW" if part == "DAYOFWEEK" else f"EXTRACT {part}"
        if name not in FUNCTIONS:
            hint = did_you_mean(part, _EXTRACTS) or f"allowed are {', '.join(_EXTRACTS)}"
            return self.fault(tree, f"EXTRACT does not know {part}", hint)
        return Call(name, (self.node(tree.expression),), self.span(tree))

    def _read_anonymous(self, tree: Any) -> Node:
        if str(tree.this).upper() != "PREV":
            return self._refused(tree)
        arguments = tree.expressions
        if len(arguments) != 1 or type(arguments[0]).__name__ != "Column":
            return self.fault(tree, "PREV takes one column", "write PREV(speed)")
        column = self.node(arguments[0])
        if not isinstance(column, Column):
            return column
        return Column(column.name, previous=True, span=self.span(tree))

    def _function(self, tree: Any, name: str) -> Node:
        if not self._only(tree, *_ARGUMENT_ORDER):
            return Literal(None)
        arguments: list[Any] = []
        for key in _ARGUMENT_ORDER:
            value = tree.args.get(key)
            if value is not None:
                arguments += value if isinstance(value, list) else [value]
        least, most = FUNCTIONS[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            return self.fault(tree, f"{name} does not take {len(arguments)} arguments")
        return Call(name, tuple(self.node(a) for a in arguments), self.span(tree))

    def _refused(self, tree: Any) -> Literal:
        return self.fault(*refusal(tree, ALLOWED_FUNCTIONS))


def _dangling_escape(pattern: str, escape: str) -> bool:
    position = 0
    while position < len(pattern):
        if pattern[position] == escape:
            if pattern[position + 1 : position + 2] not in ("%", "_", escape):
                return True
            position += 1
        position += 1
    return False


_CAST_HINT = "allowed are BIGINT, DOUBLE, BOOLEAN, STRING, and DATE or TIMESTAMP of a text"
