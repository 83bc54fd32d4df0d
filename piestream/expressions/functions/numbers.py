"""Functions of numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from piestream.expressions.functions.record import (
    Function,
    Implementation,
    Inline,
    Operand,
    Order,
    WholeNumber,
)
from piestream.expressions.types import FLOAT, INT, LEAST_WIDE, MOST_WIDE, NUMBER

if TYPE_CHECKING:
    import polars as pl

__all__ = ["NUMBER_FUNCTIONS"]

_LN_10 = math.log(10.0)

#: From 2**52 on every double is whole.
_ALL_WHOLE = 2.0**52


def _only_where(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    import polars as pl

    return pl.when(condition).then(value)


def _absolute_whole(value: int) -> int | None:
    result = abs(value)
    return None if result >= 2**63 else result


def _whole_polars(x: pl.Expr) -> pl.Expr:
    import polars as pl

    return x.cast(pl.Int128).abs()


def _absolute_wide(value: int) -> int | None:
    result = abs(value)
    return None if result > MOST_WIDE else result


def _wide_polars(x: pl.Expr) -> pl.Expr:
    import polars as pl

    least, most = (pl.lit(limit, dtype=pl.Int128) for limit in (LEAST_WIDE, MOST_WIDE))
    return _only_where(x.is_between(least, most), x.abs())


def _floor(value: float) -> float:
    return float(math.floor(value)) if abs(value) < _ALL_WHOLE else value


def _ceil(value: float) -> float:
    return float(math.ceil(value)) if abs(value) < _ALL_WHOLE else value


def _rounded(value: float, digits: int = 0) -> float:
    if digits:
        scale = 10.0**digits
        return _rounded(value * scale) / scale
    if not abs(value) < _ALL_WHOLE:  # already whole, infinite or NaN
        return value
    whole = math.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return float(whole)


def _rounded_polars(x: pl.Expr, digits: int = 0) -> pl.Expr:
    if not digits:
        return x.round(0, mode="half_away_from_zero")
    from piestream.expressions.backends.polars_runtime import quotient

    scale = 10.0**digits
    return quotient((x * scale).round(0, mode="half_away_from_zero"), scale)


def _rounded_spark(x: str, digits: int = 0) -> str:
    scaled = f"({x} * {10.0**digits!r}D)" if digits else x
    rounded = _unless_whole(scaled, f"round({scaled})")
    return f"({rounded} / {10.0**digits!r}D)" if digits else rounded


def _unless_whole(x: str, written: str) -> str:
    return f"(CASE WHEN abs({x}) < 4503599627370496D THEN {written} ELSE {x} END)"


def _power(base: float, exponent: float) -> float | None:
    if base != base or exponent != exponent:
        return None
    try:
        return math.pow(base, exponent)
    except OverflowError:
        is_infinite = True
    except ValueError:  # zero to a negative power, or a negative base to a broken one
        is_infinite = base == 0
    if not is_infinite:
        return None
    is_odd = exponent % 2 == 1
    return math.copysign(math.inf, base) if is_odd else math.inf


def _power_polars(base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    from piestream.expressions.backends.polars_runtime import power

    return power(base, exponent)


def _power_spark(base: str, exponent: str) -> str:
    # Java finds no number for 1 to an infinite power, IEEE 1. So large powers do as well as infinite.
    bounded = (
        f"CASE WHEN abs({exponent}) > 1e300D THEN sign({exponent}) * 1e300D ELSE {exponent} END"
    )
    return f"power({base}, {bounded})"


# The logarithm is a quotient everywhere, for the engines' own functions of base 10 differ in last
# digits; of a power of ten it is whole.


def _log10(x: float) -> float | None:
    if not x > 0:
        return None
    quotient = math.log(x) / _LN_10
    if math.isinf(quotient):
        return quotient
    nearest = round(quotient)
    return float(nearest) if float(f"1e{nearest}") == x else quotient


def _log10_spark(x: str) -> str:
    is_whole = f"log10({x}) = round(log10({x}))"
    return f"(CASE WHEN {is_whole} THEN log10({x}) ELSE ln({x}) / {_LN_10!r}D END)"


def _log10_polars(x: pl.Expr) -> pl.Expr:
    from piestream.expressions.backends.polars_runtime import decimal_logarithm

    return decimal_logarithm(x)


def _exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


NUMBER_FUNCTIONS = (
    Function(
        name="ABS",
        node="Abs",
        meaning="the absolute value",
        takes=(Operand.NUMBER,),
        gives=NUMBER,
        order=Order.VALLEY,
        polars=lambda x: x.abs(),
        python=Inline(lambda x: f"abs({x})"),
        spark=lambda x: f"abs({x})",
        of_whole_numbers=Implementation(
            order=Order.VALLEY,
            polars=_whole_polars,
            python=_absolute_whole,
            spark=lambda x: f"(CASE WHEN {x} < 0L THEN try_subtract(0L, {x}) ELSE {x} END)",
        ),
        of_wide_numbers=Implementation(
            order=Order.ANY,
            polars=_wide_polars,
            python=_absolute_wide,
            spark=lambda x: f"abs({x})",
        ),
    ),
    Function(
        name="CEIL",
        aliases=("CEILING",),
        node="Ceil",
        meaning="the nearest whole number that is not smaller",
        takes=(Operand.FLOAT,),
        gives=FLOAT,
        order=Order.RISING,
        polars=lambda x: x.ceil(),
        python=_ceil,
        # Spark's ceil gives a BIGINT.
        spark=lambda x: _unless_whole(x, f"CAST(ceil({x}) AS DOUBLE)"),
        keeps_whole_numbers=True,
    ),
    Function(
        name="EXP",
        node="Exp",
        meaning="e to the power of x",
        takes=(Operand.FLOAT,),
        gives=FLOAT,
        order=Order.ANY,
        polars=lambda x: x.exp(),
        python=_exponential,
        spark=lambda x: f"exp({x})",
    ),
    Function(
        name="FLOOR",
        node="Floor",
        meaning="the nearest whole number that is not larger",
        takes=(Operand.FLOAT,),
        gives=FLOAT,
        order=Order.RISING,
        polars=lambda x: x.floor(),
        python=_floor,
        # Spark's floor gives a BIGINT.
        spark=lambda x: _unless_whole(x, f"CAST(floor({x}) AS DOUBLE)"),
        keeps_whole_numbers=True,
    ),
    Function(
        name="LN",
        node="Ln",
        meaning="the natural logarithm; NULL unless x is positive",
        takes=(Operand.FLOAT,),
        gives=FLOAT,
        order=Order.ANY,
        polars=lambda x: _only_where(x > 0, x).log(),
        python=lambda x: math.log(x) if x > 0 else None,
        # NULL unless its operand is positive.
        spark=lambda x: f"ln({x})",
    ),
    Function(
        name="LOG10",
        node=None,
        meaning="the decimal logarithm; NULL unless x is positive",
        takes=(Operand.FLOAT,),
        gives=FLOAT,
        order=Order.ANY,
        polars=_log10_polars,
        python=_log10,
        spark=_log10_spark,
    ),
    Function(
        name="POWER",
        aliases=("POW",),
        node="Pow",
        meaning="x to the power of y; NULL where that is not a real number",
        takes=(Operand.FLOAT, Operand.FLOAT),
        gives=FLOAT,
        order=Order.ANY,
        polars=_power_polars,
        python=_power,
        spark=_power_spark,
    ),
    Function(
        name="ROUND",
        node="Round",
        meaning="the nearest number of n digits after the point, or of none; halves away from zero",
        takes=(Operand.FLOAT,),
        numbers=(WholeNumber("number of digits", "n", 0, 15),),
        gives=FLOAT,
        order=Order.RISING,
        polars=_rounded_polars,
        python=_rounded,
        spark=_rounded_spark,
        keeps_whole_numbers=True,
    ),
    Function(
        name="SIGN",
        aliases=("SIGNUM",),
        node="Sign",
        meaning="-1, 0 or 1",
        takes=(Operand.NUMBER,),
        gives=INT,
        order=Order.RISING,
        polars=lambda x: x.sign(),
        python=lambda x: None if x != x else (x > 0) - (x < 0),
        spark=lambda x: f"CAST(sign({x}) AS BIGINT)",
    ),
    Function(
        name="SQRT",
        node="Sqrt",
        meaning="the square root; NULL if x is negative",
        takes=(Operand.FLOAT,),
        gives=FLOAT,
        order=Order.RISING,
        polars=lambda x: x.sqrt(),  # a NaN of a negative, which counts as NULL
        python=lambda x: math.sqrt(x) if x >= 0 else None,
        spark=lambda x: f"sqrt({x})",
    ),
)
