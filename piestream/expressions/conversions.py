"""Operands of a predicate as other types, where nothing is lost by it."""

from __future__ import annotations

from datetime import date, datetime, time
from typing import Any

from piestream.expressions.typed import (
    BOOL,
    FLOAT,
    INT,
    NUMERIC,
    STRING,
    Const,
    Convert,
    Core,
    Field,
    Kind,
    Type,
)  # fmt: skip

__all__ = ["const", "like_parts", "moment_as", "number_as", "retyped", "type_of", "widest"]


def const(value: Any) -> Const:
    """A Python value as a constant of its type."""
    if value is None:
        return Const(None, Type(Kind.NULL))
    if isinstance(value, bool):
        return Const(value, BOOL)
    if isinstance(value, int):
        return Const(value, INT)
    if isinstance(value, float):
        return Const(value, FLOAT)
    if isinstance(value, str):
        return Const(value, STRING)
    if isinstance(value, datetime):
        return Const(value, Type(Kind.DATETIME, str(value.tzinfo) if value.tzinfo else None))
    assert isinstance(value, date)
    return Const(value, Type(Kind.DATE))


def moment_as(core: Core, type: Type) -> Core:
    """A date or timestamp as the other of both."""
    if core.type.kind in (Kind.NULL, Kind.UNKNOWN):
        return retyped(core, type)
    if isinstance(core, Const):
        value = core.value
        if type.kind is Kind.DATE:
            return Const(value.date() if isinstance(value, datetime) else value, type)
        if not isinstance(value, datetime):
            value = datetime.combine(value, time(0))
        return Const(value, type)
    return core if core.type == type else Convert(core, type)


def widest(a: Type, b: Type) -> Type:
    """The type that holds numbers of both."""
    kinds = {a.kind, b.kind}
    if Kind.NUMBER in kinds:
        return Type(Kind.NUMBER)
    return FLOAT if Kind.FLOAT in kinds else INT


def number_as(core: Core, type: Type) -> Core:
    """A number as a wider type; what is no number stays."""
    if core.type.kind is type.kind or core.type.kind not in NUMERIC:
        return core
    if isinstance(core, Const) and type.kind is Kind.FLOAT:
        return Const(None if core.value is None else float(core.value), FLOAT)
    if type.kind is Kind.NUMBER:
        return core  # the engine that has no schema widens by itself
    return Convert(core, type)


def retyped(core: Core, type: Type) -> Core:
    """What had no type of its own with the type that its use gives it."""
    if core.type.kind is Kind.NULL and type.kind is not Kind.UNKNOWN:
        return Const(None, type)
    if core.type.kind is Kind.UNKNOWN and isinstance(core, Field):
        return Field(core.name, core.previous, Type(Kind.NUMBER) if type.kind in NUMERIC else type)
    return core


def type_of(cores: list[Core] | tuple[Core, ...]) -> Type:
    """The type of operands that are alike; NULL has any."""
    return next((c.type for c in cores if c.type.kind is not Kind.NULL), cores[0].type)


def like_parts(pattern: str, escape: str | None) -> tuple[tuple[bool, str], ...]:
    """A LIKE pattern as its wildcards (True) and the literal texts between them (False)."""
    parts: list[tuple[bool, str]] = []
    literal = ""
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if escape is not None and sign == escape:
            position += 1
            literal += pattern[position]
        elif sign in "%_":
            if literal:
                parts.append((False, literal))
                literal = ""
            parts.append((True, sign))
        else:
            literal += sign
        position += 1
    if literal:
        parts.append((False, literal))
    return tuple(parts)
