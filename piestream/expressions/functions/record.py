"""What a function of predicates is: one record with its signature and its three back ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from piestream.expressions.types import Type

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "EXTRACT",
    "Function",
    "Implementation",
    "Inline",
    "Operand",
    "Order",
    "WholeNumber",
    "call_text",
    "registry",
]

#: The name of a part of a time is this and the part.
EXTRACT = "EXTRACT "


class Operand(Enum):
    """What a function takes as an operand."""

    NUMBER = "a whole number or a float"
    FLOAT = "a number, converted to a float"
    TEXT = "a string"
    DATE_OR_TIMESTAMP = "a timestamp or date"
    TIMESTAMP = "a timestamp"


class Order(Enum):
    """How the value of a function of numbers follows its only operand, rounding included."""

    RISING = "a larger operand never gives a smaller value"
    VALLEY = "it falls to 0 at 0, and rises from there"
    ANY = "nothing is said"


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A parameter that must be written as a whole number, so that it is known in advance."""

    name: str
    symbol: str
    least: int
    most: int
    required: bool = False


@dataclass(frozen=True, slots=True)
class Inline:
    """Python source of a call, from the sources of its operands; it never gives None."""

    source: Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """One function in the three back ends.

    Each is called with the operands, then with the whole numbers that were written (as ``int``).
    No operand is NULL or NaN when Python or Spark evaluates the function, apart from a NaN that
    was calculated in Python; where an operand is NULL, so is the result.
    """

    #: What bounds of the operand say of the value.
    order: Order
    #: Of Polars expressions. A result of whole numbers may have any integer type.
    polars: Callable[..., pl.Expr]
    #: Of Python values, None for NULL; or as source.
    python: Callable[..., Any] | Inline
    #: Of Spark SQL texts. Must mean the same with ANSI mode on and off.
    spark: Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Implementation):
    """A function of predicates: how it is written, what it takes and gives, what it does.

    `Implementation` has the three back ends; none has a default.
    """

    name: str
    #: One line for the page of the query language.
    meaning: str
    takes: tuple[Operand, ...]
    #: `NUMBER` stands for the type of the operand.
    gives: Type
    #: Written after the operands.
    numbers: tuple[WholeNumber, ...] = ()
    #: Whether the last operand may be repeated.
    variadic: bool = False
    #: Used in place of the other implementation if the operand is a whole number; gives one.
    of_whole_numbers: Implementation | None = None
    #: The same of whole numbers that may be beyond 64 bits.
    of_wide_numbers: Implementation | None = None
    #: Whether the result is the operand itself if that is a whole number.
    keeps_whole_numbers: bool = False
    #: Other names that it may be written with.
    aliases: tuple[str, ...] = ()
    #: The class of sqlglot's tree that stands for it; None if `reading` has a rule of its own.
    node: str | None
    #: The arguments of that class, in the order in which they are written.
    node_arguments: tuple[str, ...] = ("this", "expression", "expressions", "decimals", "start",
                                       "length")  # fmt: skip

    @property
    def arity(self) -> tuple[int, int | None]:
        """The fewest and the most arguments; None if there is no limit."""
        least = len(self.takes) + sum(number.required for number in self.numbers)
        return least, None if self.variadic else len(self.takes) + len(self.numbers)

    @property
    def signature(self) -> str:
        """How the function is written, for the documentation."""
        letters = [_LETTERS[operand][position] for position, operand in enumerate(self.takes)]
        letters += ["…"] if self.variadic else []
        letters += [number.symbol for number in self.numbers if number.required]
        text = call_text(self.name, letters)
        for number in self.numbers:
            if not number.required:
                text = f"{text[:-1]}[, {number.symbol}])"
        return text


_LETTERS = {
    Operand.NUMBER: "xyz",
    Operand.FLOAT: "xyz",
    Operand.TEXT: "stu",
    Operand.DATE_OR_TIMESTAMP: "t",
    Operand.TIMESTAMP: "t",
}


def registry(functions: Iterable[Function]) -> dict[str, Function]:
    """The functions by name; TypeError if one is incomplete or two have the same spelling."""
    found: dict[str, Function] = {}
    spellings: set[str] = set()
    nodes: set[str] = set()
    for function in functions:
        _check_complete(function.name, function)
        if (function.of_whole_numbers is None) != (function.of_wide_numbers is None):
            raise TypeError(f"{function.name} is for some whole numbers and not for others")
        for form in (function.of_whole_numbers, function.of_wide_numbers):
            if form is not None:
                _check_complete(function.name, form)
        if not function.meaning:
            raise TypeError(f"{function.name} has no line of documentation")
        for spelling in (function.name, *function.aliases):
            if spelling in spellings:
                raise TypeError(f"there are two functions {spelling}")
            spellings.add(spelling)
        if function.node is not None:
            if function.node in nodes:
                raise TypeError(f"two functions are read from sqlglot's {function.node}")
            nodes.add(function.node)
        found[function.name] = function
    return found


def _check_complete(name: str, implementation: Implementation) -> None:
    if not isinstance(implementation.order, Order):
        raise TypeError(f"{name} does not say how its value follows its operand")
    for backend in fields(Implementation):
        if backend.name == "order":
            continue
        value = getattr(implementation, backend.name)
        if not callable(value) and not isinstance(value, Inline):
            raise TypeError(f"{name} has no implementation for {backend.name}")


def call_text(name: str, arguments: Sequence[str]) -> str:
    """A call of a function as it is written.

    >>> call_text("ROUND", ["x", "1"]), call_text("EXTRACT YEAR", ["t"])
    ('ROUND(x, 1)', 'EXTRACT(YEAR FROM t)')
    """
    if name.startswith(EXTRACT):
        return f"EXTRACT({name.removeprefix(EXTRACT)} FROM {', '.join(arguments)})"
    return f"{name}({', '.join(arguments)})"
