"""Predicate text into a tree: sqlglot parses it, and `reading` makes our tree of sqlglot's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.expressions.keywords import (
    with_names_quoted,
)
from piestream.expressions.limits import TOO_DEEP, length_fault, nesting_fault, token_fault
from piestream.expressions.parameters import filled, parameters_in, with_values
from piestream.expressions.reading import BEFORE_BRACKETS, Names, PredicateReading
from piestream.expressions.refusals import (
    DURATIONS,
    foreign_fault,
    interval_fault,
    name_hint,
    syntax_fault,
)
from piestream.expressions.sqlglot_tree import is_too_deep
from piestream.expressions.syntax import (
    Node,
    Until,
)
from piestream.expressions.tokens import Kind, Token, tokenize, with_leaves, without_comments
from piestream.expressions.windows import (
    until_of,
    with_lengths,
)

__all__ = ["canonical_fault", "read_predicate", "read_value"]

_NO_NAMES = Names()


def read_predicate(
    text: str,
    names: Names = _NO_NAMES,
    parameters: Mapping[str, Any] | None = None,
    leaves: Sequence[Token] | None = None,
    offset: int = 0,
) -> tuple[Node | None, list[Diagnostic]]:
    """The tree of a predicate and what is wrong with it; spans are places in ``text``.

    ``:limit`` stands for a value of ``parameters``. With ``leaves``, it is a condition on a match, and
    what stands at the place of a leaf is a column of the leaf's name. The text stands at ``offset``
    in that of the query.
    """
    too_long = length_fault(text, "a predicate")
    if too_long is not None:
        return None, [too_long]
    tokens, diagnostics = tokenize(text)
    cut = until_of(tokens) if leaves is None and not diagnostics else None
    if cut is None:
        return _read_condition(text, names, parameters, leaves or (), offset)
    place, behind = tokens[cut].span, tokens[cut + 1].span.start
    again = until_of(tokens[cut + 1 :])
    if again is not None:
        return None, [Diagnostic(tokens[cut + 1 + again].span, "UNTIL is given twice")]
    if tokens[cut + 1].kind is Kind.END:
        hint = "write temp > 80 UNTIL temp < 75"
        return None, [Diagnostic(place, "the condition is missing after UNTIL", hint)]
    if tokens[cut + 1].is_sign("<", ">", "=", "<=", ">=", "<>"):
        message = "a value is missing between UNTIL and this"
        return None, [Diagnostic(tokens[cut + 1].span, message, "write temp > 80 UNTIL temp < 75")]
    sides: list[Node] = []
    for part in (text[: place.start], " " * behind + text[behind:]):  # all places stay
        own = _parameters_of(part, parameters)
        side, found = _read_condition(part, names, own, (), offset)
        diagnostics += found
        if side is not None:
            sides.append(side)
    if len(sides) < 2 or diagnostics:
        return None, diagnostics
    return Until(sides[0], sides[1], sides[0].span.joined(sides[1].span)), []


def read_value(
    text: str, names: Names, parameters: Mapping[str, Any] | None = None, offset: int = 0
) -> tuple[Node | None, list[Diagnostic]]:
    """The tree of an expression of any type that LET names, and what is wrong with it."""
    too_long = length_fault(text, "a predicate")
    if too_long is not None:
        return None, [too_long]
    tokens, diagnostics = tokenize(text)
    cut = None if diagnostics else until_of(tokens)
    if cut is not None:
        hint = "write DEFINE hot AS temp > 80 UNTIL temp < 75"
        return None, [Diagnostic(tokens[cut].span, "UNTIL stands in DEFINE, not in LET", hint)]
    own = _parameters_of(text, parameters)
    return _read_condition(text, names, own, (), offset)


def _parameters_of(text: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    """Those of the parameters that a text has."""
    written = parameters_in(text)
    return {name: value for name, value in (parameters or {}).items() if name in written}


def _read_condition(
    text: str,
    names: Names,
    parameters: Mapping[str, Any] | None,
    leaves: Sequence[Token],
    offset: int,
) -> tuple[Node | None, list[Diagnostic]]:
    """The tree of a text without UNTIL."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    clean = without_comments(text)
    tokens, diagnostics = tokenize(clean)
    if diagnostics:
        return None, diagnostics
    tokens = with_leaves(tokens, leaves)
    beyond = token_fault(tokens, "a predicate") or nesting_fault(tokens, BEFORE_BRACKETS)
    if beyond is not None:
        return None, [beyond]
    if tokens[0].kind is Kind.END:
        return None, [Diagnostic(None, "the predicate is missing")]
    foreign = interval_fault(tokens) or foreign_fault(tokens)
    if foreign is not None:
        return None, [foreign]
    tokens, diagnostics = with_values(tokens, parameters or {}, "parameters={'NAME': ...}")
    tokens, lengths = with_lengths(tokens)
    diagnostics += lengths.diagnostics
    diagnostics += _durations_among(tokens)
    if diagnostics:
        return None, diagnostics
    sql, places = with_names_quoted(clean, tokens)
    whole = Span(tokens[0].span.start, tokens[-2].span.end)
    try:
        tree = sqlglot.parse_one(sql)
        values = {t.span.start: t.value for t in tokens if t.kind is Kind.PARAMETER}
        if values:
            starts = ((at, values.get(place)) for at, place in enumerate(places))
            tree = filled(tree, {at: value for at, value in starts if value is not None})
        if is_too_deep(tree):
            return None, [Diagnostic(whole, TOO_DEEP)]
        reading = PredicateReading(places, whole, names, lengths, offset)
        node = reading.node(tree)
    except SqlglotError as error:
        fault = syntax_fault(error, sql, places, whole)
        hint = name_hint(tokens, fault.span or whole) or fault.hint
        return None, [replace(fault, hint=hint)]
    except RecursionError:
        return None, [Diagnostic(whole, TOO_DEEP)]
    except Exception:  # sqlglot reads many dialects, and stumbles over some mixtures of them
        return None, [Diagnostic(whole, "this is not a predicate")]
    return (None if reading.diagnostics else node), reading.diagnostics


def _durations_among(tokens: list[Token]) -> list[Diagnostic]:
    """The parameters of a predicate that stand for durations, which it cannot hold."""
    return [
        Diagnostic(t.span, f"{t.text} is a duration, and a predicate has none", DURATIONS)
        for t in tokens
        if isinstance(t.value, timedelta)
    ]


def canonical_fault(text: str) -> Diagnostic | None:
    """What is wrong if a canonical text could not be read again."""
    tokens, _ = tokenize(text)
    beyond = (
        length_fault(text, "a predicate")
        or token_fault(tokens, "a predicate")
        or nesting_fault(tokens, BEFORE_BRACKETS)
    )
    if beyond is None:
        return None
    return Diagnostic(None, f"the canonical text of this predicate is too long: {beyond.message}")
