"""Requests for aggregates of an archive, such as ``AVG(speed) AS mean``: parsed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from piestream.archives.aggregation import Aggregation, Request
from piestream.archives.pages import Pages
from piestream.archives.statistics import as_seen
from piestream.archives.times import length_in_ticks, time_in_ticks
from piestream.compiled.constants import INT64_MAX
from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, did_you_mean, located
from piestream.expressions.durations import DurationLike
from piestream.expressions.predicate import Predicate
from piestream.expressions.tokens import Kind, Token, tokenize
from piestream.language.arguments import check_mapping
from piestream.language.printer import alias_of

__all__ = ["FUNCTIONS", "aggregation_of", "read_request"]

#: The aggregates, and whether each is of numbers only.
FUNCTIONS = {"COUNT": False, "SUM": True, "AVG": True, "MIN": False, "MAX": False}


def read_request(text: str, schema: Mapping[str, pl.DataType]) -> Request:
    """An aggregate as it is written, over columns of these types; QueryError if it is wrong."""
    if not isinstance(text, str):
        raise TypeError(f'an aggregate is a text such as "COUNT(*)", not {text!r}')
    tokens, faults = tokenize(text)
    if faults:
        raise QueryError([located(fault, text) for fault in faults], text)
    function, column, alias = _parts(tokens, text)
    name = function.upper
    if name not in FUNCTIONS:
        hint = did_you_mean(name, FUNCTIONS) or f"the aggregates are {', '.join(FUNCTIONS)}"
        raise _fault(text, function.span, f"an archive has no aggregate {function.text}", hint)
    if column.is_sign("*"):
        if name != "COUNT":
            raise _fault(text, column.span, f"{name} is of a column; only COUNT may be of *")
        return Request(name, None, alias or "count")
    dtype = schema.get(column.text)
    if dtype is None:
        hint = did_you_mean(column.text, schema) or f"the columns are {', '.join(schema)}"
        raise _fault(text, column.span, f"there is no column {column.text}", hint)
    if FUNCTIONS[name] and not dtype.is_numeric():
        raise _fault(text, column.span, f"{name} is of numbers; {column.text} has type {dtype}")
    if name != "COUNT" and as_seen(column.text, dtype) is None:
        raise _fault(text, column.span, f"{name} cannot use {column.text}: its type is {dtype}")
    return Request(name, column.text, alias or alias_of(name, column.text))


def aggregation_of(
    pages: Pages,
    time: str,
    aggregates: Sequence[str],
    every: DurationLike | None,
    where: str | pl.Expr | None,
    between: tuple[Any, Any] | None,
    parameters: Mapping[str, Any] | None = None,
) -> Aggregation:
    """The request of a call of `Archive.aggregate`, checked and in ticks."""
    schema = pages.schema
    requests = [read_request(text, schema) for text in aggregates]
    names = [request.alias for request in requests] + [time] * (every is not None)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(f"two columns of the result are named {twice}: name one with AS")
    dtype = schema[time]
    length = None if every is None else length_in_ticks(every, time, dtype, "every")
    if length is not None and not 1 <= length <= INT64_MAX:
        what = "a span has a length" if length < 1 else "no column of times goes so far"
        raise ValueError(f"every is {every!r}; {what}")
    ends = (None, None) if between is None else between
    if not isinstance(ends, tuple | list) or len(ends) != 2:
        raise TypeError(f"between is two times, the first one and the end, not {between!r}")
    first, end = (None if at is None else time_in_ticks(at, time, dtype) for at in ends)
    return Aggregation(
        pages, time, requests, _condition(where, schema, parameters), (first, end), length
    )


def _condition(
    where: str | pl.Expr | None,
    schema: Mapping[str, pl.DataType],
    parameters: Mapping[str, Any] | None,
) -> Predicate | None:
    """The predicate that selects rows."""
    check_mapping(parameters, "parameters", "{'limit': 70}")
    if parameters and not isinstance(where, str):
        raise TypeError("parameters fill the text of where, and it is none")
    if where is None:
        return None
    if isinstance(where, pl.Expr):
        found = Predicate.from_polars(where)
        for name in found.columns:
            if name not in schema:
                hint = did_you_mean(name, schema) or f"the columns are {', '.join(schema)}"
                raise QueryError(f"where: there is no column {name}: {hint}")
        return found
    if not isinstance(where, str):
        raise TypeError(f"where is a predicate, SQL text or a Polars expression, not {where!r}")
    found = Predicate.parse(where, parameters)
    if found.reads_the_past:
        raise QueryError("where is a predicate over one row: it cannot read earlier ones")
    return found


def _parts(tokens: list[Token], text: str) -> tuple[Token, Token, str | None]:
    """The function, its column, and the name that AS gives."""
    words = [token for token in tokens if token.kind is not Kind.END]
    is_call = (
        len(words) in (4, 6)
        and words[0].kind is Kind.WORD
        and words[1].is_sign("(")
        and (words[2].kind in (Kind.WORD, Kind.QUOTED) or words[2].is_sign("*"))
        and words[3].is_sign(")")
    )
    if is_call and len(words) == 4:
        return words[0], words[2], None
    if is_call and words[4].upper == "AS" and words[5].kind in (Kind.WORD, Kind.QUOTED):
        return words[0], words[2], words[5].text
    hint = "write AVG(column), or AVG(column) AS name; COUNT(*) counts rows"
    if any(word.is_sign(",") for word in words):
        hint = 'each aggregate is a text of its own: aggregate("COUNT(*)", "AVG(speed)")'
    raise _fault(text, Span(0, len(text)), "this is no aggregate", hint)


def _fault(text: str, span: Span, message: str, hint: str | None = None) -> QueryError:
    return QueryError([located(Diagnostic(span, message, hint), text)], text)
