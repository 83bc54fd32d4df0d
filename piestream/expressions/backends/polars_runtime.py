"""Arithmetic that Polars rounds in ways of its own, done by NumPy as IEEE 754 has it.

Polars multiplies by the reciprocal where a divisor is one value for all rows, so that 3 / 10 = 0.3 is
false, and takes a square root for the power 0.5. NULL comes in and goes out as NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["decimal_logarithm", "power", "quotient"]

_Floats = NDArray[np.float64]

LN_10 = math.log(10.0)

_FIRST_POWER = -323
_POWERS_OF_TEN = np.array([float(f"1e{n}") for n in range(_FIRST_POWER, 309)])


def quotient(left: pl.Expr, right: pl.Expr | float) -> pl.Expr:
    """``left / right`` of floats, NaN where the divisor is zero."""
    if isinstance(right, float):
        return _elementwise(lambda a: _floats(a) / right, left)
    return _elementwise(_quotient, left, right)


def power(base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    """``base`` to the power of ``exponent``, NaN where that is no real number."""
    return _elementwise(_power, base, exponent)


def decimal_logarithm(x: pl.Expr) -> pl.Expr:
    """The decimal logarithm, whole for powers of ten; NaN unless ``x`` is positive."""
    return _elementwise(_decimal_logarithm, x)


def _floats(column: pl.Series) -> _Floats:
    return column.cast(pl.Float64).to_numpy()


def _quotient(left: pl.Series, right: pl.Series) -> _Floats:
    divisor = _floats(right)
    found: _Floats = _floats(left) / divisor
    zero = divisor == 0
    if zero.any():
        found[np.broadcast_to(zero, found.shape)] = np.nan
    return found


def _power(base: pl.Series, exponent: pl.Series) -> _Floats:
    bases, exponents = np.broadcast_arrays(_floats(base), _floats(exponent))
    # Square roots are not what other powers of minus infinity are.
    bases = np.where((bases == -np.inf) & (exponents % 2 != 1), np.inf, bases)
    # Polars' powers are those of the C library, as Python's are; NumPy's differ in last digits.
    found = (pl.Series(bases) ** pl.Series(exponents)).to_numpy(writable=True)
    found[np.isnan(bases) | np.isnan(exponents)] = np.nan
    return found


def _decimal_logarithm(column: pl.Series) -> _Floats:
    x = _floats(column)
    positive = pl.Series(np.where(x > 0, x, np.nan))
    found: _Floats = positive.log().to_numpy() / LN_10
    nearest = np.rint(np.where(np.isfinite(found), found, 0.0)).astype(np.int64)
    is_power = _POWERS_OF_TEN[nearest - _FIRST_POWER] == x
    found[is_power] = nearest[is_power]
    return found


def _elementwise(function: Callable[..., _Floats], *operands: pl.Expr) -> pl.Expr:
    def evaluated(columns: Sequence[pl.Series]) -> pl.Series:
        with np.errstate(all="ignore"):
            return pl.Series(columns[0].name, function(*columns))

    return pl.map_batches(list(operands), evaluated, return_dtype=pl.Float64)
