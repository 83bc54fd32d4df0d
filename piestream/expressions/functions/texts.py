"""Functions of strings. A character is a Unicode code point in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from piestream.expressions.functions.record import Function, Inline, Operand, Order, WholeNumber
from piestream.expressions.types import BOOL, INT, STRING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["TEXT_FUNCTIONS"]


def _concat_polars(*texts: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.concat_str(texts)


def _slice(text: str, start: int, length: int | None = None) -> str:
    return f"{text}[{start - 1}:{'' if length is None else start - 1 + length}]"


def _substring_spark(text: str, start: int, length: int | None = None) -> str:
    return f"substring({text}, {start}{'' if length is None else f', {length}'})"


TEXT_FUNCTIONS = (
    Function(
        name="CONCAT",
        node="Concat",
        meaning="the texts one after another; NULL if one of them is NULL",
        takes=(Operand.TEXT,),
        variadic=True,
        gives=STRING,
        order=Order.ANY,
        polars=_concat_polars,
        python=Inline(lambda *texts: f"({' + '.join(texts)})"),
        spark=lambda *texts: f"concat({', '.join(texts)})",
    ),
    Function(
        name="LENGTH",
        aliases=("LEN", "CHAR_LENGTH", "CHARACTER_LENGTH"),
        node="Length",
        meaning="the number of characters",
        takes=(Operand.TEXT,),
        gives=INT,
        order=Order.ANY,
        polars=lambda text: text.str.len_chars(),
        python=Inline(lambda text: f"len({text})"),
        spark=lambda text: f"length({text})",
    ),
    Function(
        name="LOWER",
        aliases=("LCASE",),
        node="Lower",
        meaning="the text in lower case",
        takes=(Operand.TEXT,),
        gives=STRING,
        order=Order.ANY,
        polars=lambda text: text.str.to_lowercase(),
        python=Inline(lambda text: f"{text}.lower()"),
        spark=lambda text: f"lower({text})",
    ),
    Function(
        name="LTRIM",
        node=None,
        meaning="the text without blanks at its start",
        takes=(Operand.TEXT,),
        gives=STRING,
        order=Order.ANY,
        polars=lambda text: text.str.strip_chars_start(" "),
        python=Inline(lambda text: f"{text}.lstrip(' ')"),
        spark=lambda text: f"ltrim({text})",
    ),
    Function(
        name="REVERSE",
        node="Reverse",
        meaning="the characters in reverse order; a combining accent is a character of its own",
        takes=(Operand.TEXT,),
        gives=STRING,
        # Polars' own reverse keeps grapheme clusters together; Python and Spark do not.
        order=Order.ANY,
        polars=lambda text: text.str.split("").list.reverse().list.join(""),
        python=Inline(lambda text: f"{text}[::-1]"),
        spark=lambda text: f"reverse({text})",
    ),
    Function(
        name="RTRIM",
        node=None,
        meaning="the text without blanks at its end",
        takes=(Operand.TEXT,),
        gives=STRING,
        order=Order.ANY,
        polars=lambda text: text.str.strip_chars_end(" "),
        python=Inline(lambda text: f"{text}.rstrip(' ')"),
        spark=lambda text: f"rtrim({text})",
    ),
    Function(
        name="STARTS_WITH",
        aliases=("STARTSWITH",),
        node="StartsWith",
        meaning="whether s begins with t; NULL if one of them is NULL",
        takes=(Operand.TEXT, Operand.TEXT),
        gives=BOOL,
        order=Order.ANY,
        polars=lambda text, prefix: text.str.starts_with(prefix),
        python=Inline(lambda text, prefix: f"{text}.startswith({prefix})"),
        spark=lambda text, prefix: f"startswith({text}, {prefix})",
    ),
    Function(
        name="SUBSTRING",
        aliases=("SUBSTR",),
        node="Substring",
        meaning="n characters from the k-th on, or all the rest; the first is 1",
        takes=(Operand.TEXT,),
        numbers=(
            WholeNumber("start", "k", 1, 2**31 - 1, required=True),
            WholeNumber("length", "n", 0, 2**31 - 1),
        ),
        gives=STRING,
        order=Order.ANY,
        polars=lambda text, start, length=None: text.str.slice(start - 1, length),
        python=Inline(_slice),
        spark=_substring_spark,
    ),
    Function(
        name="TRIM",
        node=None,
        meaning="the text without blanks at both ends",
        takes=(Operand.TEXT,),
        gives=STRING,
        order=Order.ANY,
        polars=lambda text: text.str.strip_chars(" "),
        python=Inline(lambda text: f"{text}.strip(' ')"),
        spark=lambda text: f"trim({text})",
    ),
    Function(
        name="UPPER",
        aliases=("UCASE",),
        node="Upper",
        meaning="the text in upper case",
        takes=(Operand.TEXT,),
        gives=STRING,
        order=Order.ANY,
        polars=lambda text: text.str.to_uppercase(),
        python=Inline(lambda text: f"{text}.upper()"),
        spark=lambda text: f"upper({text})",
    ),
)
