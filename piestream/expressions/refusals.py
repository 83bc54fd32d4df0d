"""Messages for what is written in a predicate but is not part of its language."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.durations import rewritten, unit_named
from piestream.expressions.keywords import EXPRESSION_WORDS
from piestream.expressions.tokens import Kind, Token
from piestream.expressions.windows import WINDOW_FUNCTIONS

__all__ = [
    "AGGREGATE_NAMES",
    "DURATIONS",
    "foreign_fault",
    "interval_fault",
    "refusal",
    "syntax_fault",
    "template_fault",
]

DURATIONS = (
    "how long a situation lasts is written after its predicate, as in speed > 70 AT LEAST 30 s; "
    "how long a silence may be, by MAX GAP 30 s"
)
_ONE_EVENT = "a predicate is one expression over one event, without SELECT"
#: Aggregates of RETURN, in capitals; what declares them adds them here. sqlglot knows others.
AGGREGATE_NAMES: set[str] = set()
_SYNTAX = "a predicate compares, calculates, and combines with AND, OR, NOT"


#: Words with which others say how long something holds.
_LASTING = frozenset({"FOR", "DURING", "LASTING", "LONGER"})
_BRIDGING = frozenset({"BRIDGING", "BRIDGE"})


def interval_fault(tokens: list[Token]) -> Diagnostic | None:
    """The first ``INTERVAL '30' SECOND`` of a predicate, which has no durations."""
    for index, token in enumerate(tokens[:-1]):
        value, unit = tokens[index + 1], tokens[min(index + 2, len(tokens) - 1)]
        if token.upper != "INTERVAL" or value.kind not in (Kind.STRING, Kind.NUMBER):
            continue
        last = unit if unit_named(unit.text) else value
        written = f"{value.text} {unit.text if last is unit else ''}"
        hint = DURATIONS.replace("30 s", rewritten(written) or "30 s")
        span = token.span.joined(last.span)
        return Diagnostic(span, "a predicate has no durations", hint)
    return None


_VALUES = "a value that changes is a parameter: write :NAME, and ps.query(text, NAME=...)"
#: Words behind which no value has ended yet.
_OPEN = frozenset(["AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "WHEN", "THEN", "ELSE", "CASE"])


def foreign_fault(tokens: list[Token]) -> Diagnostic | None:
    """The first part of a predicate that is written as other languages do, and what to write."""
    for index, token in enumerate(tokens[:-1]):
        before = tokens[index - 1] if index else None
        after = tokens[index + 1]
        ends = before is not None and (
            before.kind is not Kind.SIGN or before.is_sign(")", "]")
        ) and before.upper not in _OPEN  # fmt: skip
        if token.upper == "OVER" and after.is_sign("(") and ends:
            message = "the windows of a predicate are written without brackets"
            hint = (
                "write AVG(x) OVER 30 s or OVER 5 EVENTS; PREV(x) is x at the event before; aggregates "
                "of an interval stand in RETURN"
            )
            return Diagnostic(token.span, message, hint)
        if token.kind is Kind.NUMBER and re.fullmatch(r"(_\d{3})+", after.text):
            hint = f"write {token.text}{after.text.replace('_', '')}"
            span = token.span.joined(after.span)
            return Diagnostic(span, "a number has no groups of digits", hint)
        if token.upper in _BRIDGING and ends:
            return _bridging_fault(tokens[index:-1])
        if token.upper in WINDOW_FUNCTIONS and after.is_sign("("):
            window = _window_fault(tokens[index : index + 7])
            if window is not None:
                return window
        if token.upper in _LASTING and ends and after.kind is not Kind.SIGN:
            return _lasting_fault(tokens[index:-1])
    return template_fault(tokens)


def _bridging_fault(tokens: list[Token]) -> Diagnostic:
    """What to write for ``BRIDGE 5 s``, or BRIDGING without a length."""
    number, unit = [token.text for token in [*tokens, *tokens, *tokens][1:3]]
    length = rewritten(f"{number} {unit}") or "5 s"
    return Diagnostic(
        tokens[0].span, f"{tokens[0].text} does not belong here",
        f"runs that lie near are one with BRIDGING {length} behind the condition",
    )  # fmt: skip


def _window_fault(tokens: list[Token]) -> Diagnostic | None:
    """What to write for ``AVG(x, 30 s)``."""
    shape = [token.kind for token in tokens[2:6]]
    if len(tokens) < 7 or shape != [Kind.WORD, Kind.SIGN, Kind.NUMBER, Kind.WORD]:
        return None
    function, _, column, comma, number, unit, closed = tokens
    if not (comma.is_sign(",") and closed.is_sign(")")):
        return None
    hint = f"write {function.text}({column.text}) OVER {number.text} {unit.text}"
    span = comma.span.joined(unit.span)
    return Diagnostic(span, "the length of a window stands behind the brackets", hint)


def _lasting_fault(tokens: list[Token]) -> Diagnostic:
    """What to write for ``FOR 3 s``."""
    word, *rest = tokens
    if rest and rest[0].upper == "THAN":
        rest = rest[1:]
    bound = rewritten(" ".join(token.text for token in rest)) or "3 s"
    if len(rest) > 1 and rest[0].kind is Kind.NUMBER and rest[1].upper in ("EVENT", "EVENTS"):
        bound = f"{rest[0].text} EVENTS"
    hint = f"how long a situation lasts is written AT LEAST {bound}"
    return Diagnostic(word.span, f"{word.text} does not belong here", hint)


def template_fault(tokens: list[Token]) -> Diagnostic | None:
    """The first ``{limit}``, ``$limit``, ``@limit``, ``?`` or ``%s`` among some tokens."""
    for index, token in enumerate(tokens[:-1]):
        before, after = (tokens[index - 1] if index else None), tokens[index + 1]
        opens = before is None or (before.kind is Kind.SIGN and not before.is_sign(")", "]"))
        if token.is_sign("%") and opens and after.is_sign("("):  # %(limit)s
            last, named = after, tokens[min(index + 2, len(tokens) - 1)]
        elif token.is_sign("%") and opens and after.kind is Kind.WORD:
            last, named = after, None
        elif token.is_sign("$", "@") and after.kind in (Kind.WORD, Kind.NUMBER):
            last = named = after
        elif token.is_sign("{") and after.kind is Kind.WORD and index + 2 < len(tokens):
            last, named = tokens[index + 2], after
        elif token.is_sign("{", "?"):
            last, named = token, None
        else:
            continue
        name = named.text if named is not None and named.kind is Kind.WORD else "limit"
        hint = _VALUES.replace("NAME", name)
        return Diagnostic(token.span.joined(last.span), "a value is missing here", hint)
    return None


def refusal(tree: Any, functions: Iterable[str]) -> tuple[Any, str, str | None]:
    """The place, message and hint for a node of sqlglot's tree that is no part of a predicate."""
    kind = type(tree).__name__
    if kind == "Alias":
        word = tree.args["alias"]
        hint = DURATIONS if unit_named(word.this) else None
        before = tree.this
        while before.args.get("expression") is not None:  # the right side of an operator
            before = before.args["expression"]
        names = type(before).__name__ == "Column" and f"{before.name}{word.this}".isidentifier()
        if hint is None and names:
            hint = _blank_in_name(before.name, word.this)
        return word, f"{word.this} does not belong here", hint
    if kind.startswith("Bitwise"):
        sign = {"BitwiseRightShift": ">>", "BitwiseLeftShift": "<<"}.get(kind, kind[7:].lower())
        return tree, f"the bit operation {sign} is not allowed in a predicate", None
    if kind in ("Select", "Subquery", "Exists", "Block"):
        return tree, _ONE_EVENT, None
    if kind == "Anonymous" or tree.__class__.__mro__[1].__name__.endswith("Func"):
        name = tree.this if kind == "Anonymous" else tree.sql_name()
    elif hasattr(tree, "sql_name"):
        name = tree.sql_name()
    else:
        return tree, f"{kind} is not allowed in a predicate", _SYNTAX
    name = str(name).upper()
    message = f"{name} is not a function of predicates"
    is_aggregate = any(base.__name__ == "AggFunc" for base in type(tree).__mro__)
    if name in AGGREGATE_NAMES or (is_aggregate and name != "LAG"):
        hint = "it looks at one event; aggregates of an interval stand in RETURN"
        if name in WINDOW_FUNCTIONS:
            hint = f"of the latest events it is {name}(x) OVER 30 s; aggregates of an interval stand in RETURN"
        return tree, message, hint
    near = did_you_mean("PREV" if name == "LAG" else name, functions)
    listing = f"allowed are {', '.join(functions)}"
    return tree, message, f"{near} {listing}" if near else listing


def syntax_fault(error: Any, sql: str, places: list[int], whole: Span) -> Diagnostic:
    """What sqlglot could not parse, at its place in the user's text."""
    details = getattr(error, "errors", None) or [{}]
    first = details[0]
    line, column, word = first.get("line"), first.get("col"), first.get("highlight") or ""
    description = str(first.get("description") or error).split("\n")[0].rstrip(".")
    if line is None or column is None:
        return Diagnostic(whole, f"this is not a predicate: {description}")
    line_start = sum(len(part) + 1 for part in sql.split("\n")[: line - 1])
    end = min(line_start + column, len(sql))
    start = max(end - len(word), 0)
    span = Span(places[start], places[max(end - 1, start)] + 1)
    shown = word.strip('"')
    if "Unexpected token" in description:
        hint = "conditions are joined by AND and OR" if shown in ("&&", "&") else None
        if unit_named(shown):
            hint = DURATIONS
        words = sql[:start].split()
        if hint is None and words and shown[:1].isdigit():
            hint = did_you_mean(words[-1].upper(), _BEHIND)
        return Diagnostic(span, f"{shown} does not belong here", hint)
    if description.startswith("Required keyword") or "No expression" in description:
        return Diagnostic(span, f"something is missing after {shown}")
    if description.startswith("Expecting )"):
        return Diagnostic(span, "a bracket is not closed: ) is missing")
    return Diagnostic(span, f"this is not a predicate: {description[0].lower()}{description[1:]}")


#: Words that stand behind a predicate, and what is like them is no part of a name.
_BEHIND = ("UNTIL", "BRIDGING", "AT LEAST", "AT MOST", "OVER")


def _blank_in_name(one: str, two: str) -> str:
    meant = did_you_mean(one.upper(), _BEHIND)
    if meant is not None:
        return meant
    return f'a name that contains a blank stands in double quotes: "{one} {two}"'


def name_hint(tokens: list[Token], place: Span) -> str | None:
    """What to write where a name holds a blank, or is quoted otherwise, near a fault."""
    for index, (one, two) in enumerate(pairwise(tokens)):
        after = tokens[min(index + 2, len(tokens) - 1)]
        if not one.span.start <= place.start <= after.span.start:
            continue
        words = one.kind is Kind.WORD and two.kind is Kind.WORD
        if words and not {one.upper, two.upper} & EXPRESSION_WORDS:
            return _blank_in_name(one.text, two.text)
        if one.is_sign("`", "[") and two.kind is Kind.WORD and after.is_sign("`", "]"):
            return f'a name is quoted by double quotes: "{two.text}"'
    return None
