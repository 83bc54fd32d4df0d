"""Random predicates and rows for them, drawn from a seeded generator."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from random import Random
from typing import Any

import polars as pl

from piestream.expressions.functions import FUNCTIONS, Function, call_text
from piestream.expressions.functions.record import Operand
from piestream.expressions.types import Kind
from piestream.language import PAST_PREFIX

#: Functions whose last digits depend on the machine's mathematical library.
INEXACT = frozenset({"EXP", "LN", "LOG10", "POWER"})

SCHEMA: dict[str, Any] = {
    "i": pl.Int64,
    "j": pl.Int32,
    "u": pl.UInt8,
    "f": pl.Float64,
    "g": pl.Float32,
    "s": pl.String,
    "n": pl.String,
    "b": pl.Boolean,
    "c": pl.Boolean,
    "d": pl.Date,
    "t": pl.Datetime("us"),
}

_VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -1, 7, -7, 2**63 - 1, -(2**63), 2**53 + 1, 10**10],
    "j": [0, 1, 2, -3, 2**31 - 1, -(2**31)],
    "u": [0, 1, 5, 255],
    "f": [0.0, -0.0, 1.0, 2.5, -2.5, 0.1, 1e300, -1e18, float("nan"), float("inf"), float("-inf")],
    "g": [0.0, 0.5, -1.5, 3.0, float("nan"), float("inf")],
    "s": [
        "",
        "a",
        "A",
        "ab",
        "a%b",
        "a_b",
        "x\ny",
        " a ",
        "ß",
        "héllo",
        "it's",
        "a\\b",
        "e\u0301x",
        "\N{MAN}\u200d\N{GIRL}",
    ],
    "n": ["1", "-5", "+7", "2.5", ".5", "1e3", " 12 ", "x", "Infinity", "9223372036854775808", ""],
    "b": [True, False],
    "c": [True, False],
    "d": [date(2026, 1, 1), date(2026, 1, 4), date(1969, 12, 31)],
    "t": [datetime(2026, 1, 1), datetime(2026, 1, 4, 23, 59, 59, 5), datetime(1969, 12, 31, 7)],
}


def rows(random: Random, count: int) -> list[dict[str, Any]]:
    def value(name: str) -> Any:
        return None if random.random() < 0.2 else random.choice(_VALUES[name])

    return [{name: value(name) for name in SCHEMA} for _ in range(count)]


def past_name(name: str) -> str:
    """The column of which ``PREV(name)`` is read."""
    return f"{PAST_PREFIX}PREV({name})"


def with_past(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns of which PREV is read, in the types in which it is kept."""

    def kept(name: str, dtype: pl.DataType) -> pl.Expr:
        column = pl.col(name).shift(1).alias(past_name(name))
        if dtype.is_float():
            return column.cast(pl.Float64).fill_nan(None)
        if dtype in (pl.UInt64, pl.Int128):
            return column.cast(pl.Int128)
        if dtype.is_integer():
            return column.cast(pl.Int64)
        return column.cast(pl.String) if dtype == pl.Categorical else column

    return frame.with_columns(kept(name, dtype) for name, dtype in frame.schema.items())


def past_of(before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The values that PREV has, from the event before, as functions take them."""
    if before is None:
        return None
    return {f"PREV({name})": v if v == v else None for name, v in before.items()}


class Expressions:
    """One random expression after another."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    def column(self, *names: str) -> str:
        name = self.pick(*names)
        return f"PREV({name})" if self.random.random() < 0.2 else name

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(self.column("b", "c"), "TRUE", "FALSE", f"{self.column('i')} > 1")
        d = depth - 1
        kind = self.random.randrange(17)
        if kind < 4:
            sign = self.pick("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
            of = self.random.choice([self.number, self.number, self.text, self.moment])
            return f"({of(d)}) {sign} ({of(d)})"
        if kind == 4:
            return f"({self.truth(d)}) AND ({self.truth(d)})"
        if kind == 5:
            return f"({self.truth(d)}) OR ({self.truth(d)}) OR {self.column('b')}"
        if kind == 6:
            return f"NOT ({self.truth(d)})"
        if kind == 7:
            negated = self.pick("", "NOT")
            return f"({self.number(d)}) {negated} BETWEEN ({self.number(d)}) AND ({self.number(d)})"
        if kind == 8:
            members = self.pick("1, 2, 7", "1, NULL", "0.5, 1", f"1, {self.column('i', 'f')}")
            return f"({self.number(d)}) {self.pick('', 'NOT')} IN ({members})"
        if kind == 9:
            return f"({self.text(d)}) {self.pick('', 'NOT')} IN ('a', 'ab', '')"
        if kind == 10:
            verb = self.pick("LIKE", "NOT LIKE", "ILIKE")
            pattern = self.pick("'a%'", "'%b'", "'_'", "'a!%%' ESCAPE '!'", "'%'", "'x_y'", "'A%'")
            return f"({self.text(d)}) {verb} {pattern}"
        if kind == 11:
            of = self.random.choice([self.number, self.text, self.moment, self.truth])
            return f"({of(d)}) IS {self.pick('', 'NOT')} NULL"
        if kind == 12:
            return f"({self.truth(d)}) IS {self.pick('', 'NOT')} {self.pick('TRUE', 'FALSE')}"
        if kind == 13:
            return f"CASE WHEN {self.truth(d)} THEN {self.truth(d)} ELSE {self.truth(d)} END"
        if kind == 14:
            return f"COALESCE({self.truth(d)}, {self.truth(d)})"
        if kind == 15:
            return self.function(d, Kind.BOOL)
        return f"CAST({self.number(d)} AS BOOLEAN)"

    def whole(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(self.column("i", "j", "u"), "0", "1", "-7", "3")
        d = depth - 1
        kind = self.random.randrange(6)
        if kind < 3:
            return f"({self.whole(d)}) {self.pick('+', '-', '*', '%')} ({self.whole(d)})"
        if kind == 3:
            return f"{self.pick('ABS', '-')}({self.whole(d)})"
        if kind == 4:
            return self.function(d, Kind.INT)
        of = self.random.choice([self.number(d), self.column("n"), self.column("b")])
        return f"CAST({of} AS BIGINT)"

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(self.column("i", "f", "g", "u"), "0", "2", "0.5", "-1e3", "NULL")
        d = depth - 1
        kind = self.random.randrange(12)
        if kind < 3:
            return self.whole(d)
        if kind < 6:
            return f"({self.number(d)}) {self.pick('+', '-', '*', '/')} ({self.number(d)})"
        if kind == 6:
            return f"-({self.number(d)})"
        if kind == 7:
            return self.function(d, Kind.FLOAT, Kind.NUMBER)
        if kind == 8:
            name = self.pick("COALESCE", "GREATEST", "LEAST", "NULLIF")
            return f"{name}({self.real(d)}, {self.real(d)})"
        if kind == 9:
            return f"CASE WHEN {self.truth(d)} THEN {self.real(d)} ELSE {self.real(d)} END"
        if kind == 10:
            return f"IF({self.truth(d)}, {self.real(d)}, {self.real(d)})"
        return f"CAST({self.pick(self.whole(d), self.column('n', 'b'))} AS DOUBLE)"

    def real(self, depth: int) -> str:
        """A float: the reference knows no types, and does not widen what a CASE may give."""
        return f"1.0 * ({self.number(depth)})"

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(self.column("s", "n"), "'a'", "'it''s'", "NULL")
        d = depth - 1
        kind = self.random.randrange(6)
        if kind < 2:
            return self.function(d, Kind.STRING)
        if kind == 2:
            return f"({self.text(d)}) || ({self.text(d)})"
        if kind == 3:
            return f"COALESCE({self.text(d)}, {self.text(d)})"
        if kind == 4:
            return f"CAST({self.pick(self.whole(d), self.column('b'), self.column('d'))} AS STRING)"
        return self.text(0)

    def moment(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(self.column("t"), "TIMESTAMP '2026-01-04 12:00:00'", "NULL")
        return f"COALESCE({self.moment(0)}, {self.moment(depth - 1)})"

    def function(self, depth: int, *results: Kind) -> str:
        """A call of a function that gives one of these."""
        names = [name for name, function in FUNCTIONS.items() if function.gives.kind in results]
        return self.call(FUNCTIONS[self.pick(*names)], depth)

    def call(self, function: Function, depth: int) -> str:
        """A call of this function."""
        takes = list(function.takes)
        if function.variadic:
            takes += takes[-1:] * self.random.randrange(3)
        arguments = [self.operand(kind, depth) for kind in takes]
        for number in function.numbers:
            if not number.required and self.random.random() < 0.5:
                break
            arguments.append(str(number.least + self.random.randrange(4)))
        text = call_text(function.name, arguments)
        return f"ROUND({text}, 3)" if function.name in INEXACT else text

    def operand(self, kind: Operand, depth: int) -> str:
        match kind:
            case Operand.NUMBER | Operand.FLOAT:
                return self.number(depth)
            case Operand.TEXT:
                return self.text(depth)
            case Operand.TIMESTAMP:
                return self.column("t")
            case Operand.DATE_OR_TIMESTAMP:
                return self.column("d", "t")
