"""Parameters: ``:limit`` in a text stands for a value, which never becomes text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Union

from piestream.expressions.diagnostics import Diagnostic, QueryError, did_you_mean
from piestream.expressions.tokens import Kind, Token, tokenize

__all__ = [
    "ParameterValue",
    "filled",
    "parameter_value",
    "parameters_in",
    "parameters_written",
    "values_of",
    "with_values",
]

#: What a parameter may stand for; a timedelta only where a duration is given.
ParameterValue = Union[bool, int, float, str, date, datetime, timedelta]

_MAY_BE = "a parameter is a number, a text, True or False, a date, a datetime or a timedelta"


def parameter_value(name: str, value: Any) -> ParameterValue:
    """A value as a query can hold it: a plain one of Python.

    >>> parameter_value("limit", Decimal("8.5"))
    8.5
    """
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        if value.dtype.kind in "mM":  # nanoseconds would become a number
            value = value.astype(f"{value.dtype.kind}8[us]")
        value = value.item() if value.ndim == 0 else value
    if isinstance(value, Decimal):
        value = (
            int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
        )
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if hasattr(value, "to_pytimedelta"):
        value = value.to_pytimedelta()
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryError(f"the parameter {name} is {value}, which no query can say")
    for kind in (bool, int, float, str, datetime, date, timedelta):
        if isinstance(value, kind):
            return value
    if value is None:
        raise QueryError(f"the parameter {name} is None: write IS NULL for a missing value")
    raise QueryError(f"the parameter {name} is a {type(value).__name__}; {_MAY_BE}")


def with_values(
    tokens: Sequence[Token], given: Mapping[str, Any], usage: str
) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens, those of parameters with their values; and which lack one or are not there.

    ``usage`` says how a value is given.
    """
    values = {name: parameter_value(name, value) for name, value in given.items()}
    found: list[Token] = []
    diagnostics: list[Diagnostic] = []
    names: list[str] = []
    for token in tokens:
        if token.kind is Kind.PARAMETER:
            name = token.text[1:]
            names.append(name)
            if name in values:
                token = replace(token, value=values[name])
            else:
                hint = did_you_mean(name, [n for n in values if n not in names])
                message = f"the parameter {token.text} has no value"
                diagnostics.append(
                    Diagnostic(token.span, message, hint or usage.replace("NAME", name))
                )
        found.append(token)
    for name in values:
        if name not in names:
            hint = did_you_mean(name, names) or (
                f"its parameters are {', '.join(f':{n}' for n in dict.fromkeys(names))}"
                if names
                else f"where the value belongs, write :{name}"
            )
            diagnostics.append(Diagnostic(None, f"there is no parameter :{name} in the text", hint))
    return found, diagnostics


def values_of(tokens: Sequence[Token]) -> dict[str, Any]:
    """The values that the parameters among some tokens have."""
    return {t.text[1:]: t.value for t in tokens if t.kind is Kind.PARAMETER}


def parameters_in(*texts: str) -> set[str]:
    """The names of the parameters in some texts.

    >>> parameters_in("x > :limit")
    {'limit'}
    """
    tokens = (token for text in texts for token in tokenize(text)[0])
    return {token.text[1:] for token in tokens if token.kind is Kind.PARAMETER}


def filled(tree: Any, values: Mapping[int, object]) -> Any:
    """A tree of sqlglot whose columns that begin at these places of its text are values."""
    from sqlglot import exp

    for column in list(tree.find_all(exp.Column)):
        start = column.this.meta.get("start")
        if start in values:
            node = _node(values[start])
            for part in node.walk():
                part.meta.update(column.this.meta)
            if column is tree:
                return node
            column.replace(node)
    return tree


def _node(value: object) -> Any:
    """A value as a node of sqlglot's tree."""
    from sqlglot import exp

    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, (int, float)):
        digits = exp.Literal.number(repr(abs(value)))
        is_negative = value < 0 or (isinstance(value, float) and math.copysign(1.0, value) < 0)
        return exp.Neg(this=digits) if is_negative else digits
    kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
    assert isinstance(value, date)
    return exp.Cast(this=exp.Literal.string(value.isoformat()), to=exp.DataType.build(kind))


def parameters_written(given: Sequence[str]) -> dict[str, ParameterValue]:
    """The parameters of a command line: numbers, true and false as such, all else is text.

    >>> parameters_written(["limit=8", "city=Bern", "hold=5 s", "code='8'"])
    {'limit': 8, 'city': 'Bern', 'hold': '5 s', 'code': '8'}
    """
    values: dict[str, ParameterValue] = {}
    for item in given:
        name, equals, written = item.partition("=")
        name = name.strip().removeprefix(":")
        if not equals or not name.isidentifier():
            raise ValueError(f"--param {item}: write NAME=VALUE, such as limit=8")
        if name in values:
            raise ValueError(f"--param {name} is given twice")
        values[name] = _value(written)
    return values


def _value(text: str) -> ParameterValue:
    """What a text stands for; quotes make anything a text."""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text
