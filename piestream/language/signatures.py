"""Functions whose signatures name their options, and whose errors name those that were meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar, get_type_hints

from piestream.expressions.diagnostics import did_you_mean
from piestream.language.options import OrderOptions

__all__ = ["named_options", "takes_fields", "takes_options"]

P = ParamSpec("P")
R = TypeVar("R")


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """The same function with the same signature, whose unknown options are named in its error.

    >>> @named_options
    ... def wait(*, lateness=0):
    ...     return lateness
    >>> wait(latness=3)
    Traceback (most recent call last):
    TypeError: wait() has no option latness: did you mean lateness?
    """
    shown = function.__qualname__.rsplit("<locals>.", 1)[-1].removesuffix(".__init__")
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    parameters = signature(function).parameters.values()
    known = {parameter.name for parameter in parameters if parameter.kind in by_name}
    options = [p.name for p in parameters if p.kind in by_name and p.default is not p.empty]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known:
                hint = did_you_mean(name, options) or f"its options are {', '.join(options)}"
                raise TypeError(f"{shown}() has no option {name}: {hint}")
        return function(*args, **kwargs)

    return checked


def takes_options(*kinds: type[OrderOptions]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function with ``**options`` gets the signature that names the options of these classes.

    >>> @takes_options(OrderOptions)
    ... def push(rows, **options):
    ...     return OrderOptions.of(options)
    >>> list(signature(push).parameters)
    ['rows', 'ties', 'lateness', 'on_late']
    """

    def named(function: Callable[P, R]) -> Callable[P, R]:
        own = signature(function)
        parameters = {p.name: p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD}
        for option in (option for kind in kinds for option in fields(kind)):
            parameters.setdefault(
                option.name,
                Parameter(
                    option.name,
                    Parameter.KEYWORD_ONLY,
                    default=None,
                    annotation=str(option.type).removesuffix(" | None") + " | None",
                ),
            )
        function.__signature__ = own.replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
        return named_options(function)

    return named


def takes_fields(function: Callable[..., R]) -> Callable[..., R]:
    """A function whose parameters that are dataclasses are given field by field, by keywords.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Size:
    ...     width: int
    ...     height: int = 1
    >>> @takes_fields
    ... def area(size: Size, unit: str = "m²"):
    ...     return f"{size.width * size.height} {unit}"
    >>> area(width=3)
    '3 m²'
    >>> list(signature(area).parameters)
    ['width', 'height', 'unit']
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[Parameter] = []
    for name, own in signature(function).parameters.items():
        kind = hints.get(name)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[name] = kind
        types = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                Parameter(
                    field.name,
                    Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=types[field.name],
                )
            )

    @wraps(function)
    def given(**keywords: Any) -> R:
        for name, kind in groups.items():
            names = [field.name for field in fields(kind)]
            keywords[name] = kind(**{n: keywords.pop(n) for n in names if n in keywords})
        return function(**keywords)

    given.__signature__ = signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]
    given.__annotations__ = {p.name: p.annotation for p in parameters}
    return given
