"""Sums of floats without error: what is added can be taken away again, in any order.

A sum is kept as an expansion: floats whose bits do not overlap, the least first, and whose sum is
the exact one (J. Shewchuk, *Adaptive Precision Floating-Point Arithmetic*, 1997; Python's `math.fsum`
is made of the same). It is rounded once, when somebody asks. So it does not matter in which order,
and in how many portions, values came and went.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.primitives import as_floats, at_word, keep_alive, pointer
from piestream.compiled.records import Array, Record, Words, kernel, method

__all__ = ["MOST_PARTS", "ExactSum", "add_pieces", "piece_sums"]

#: 53 bits each, these span all that a float can be, and one is left over.
MOST_PARTS = 44
#: However many floats of up to this size are added, the sum is a float.
_LARGEST_ADDED = 2.0**990


class ExactSum(Record):
    """An expansion; that of no parts is 0."""

    count: int
    parts: Annotated[Words, MOST_PARTS]

    @method
    def add(self, value: float) -> None:
        """Add a finite value."""
        if self.count == MOST_PARTS:
            self.compress()
        parts = as_floats(self.parts)
        kept = 0
        for part in range(self.count):
            larger, smaller = value, parts[part]
            if abs(larger) < abs(smaller):
                larger, smaller = smaller, larger
            value = larger + smaller
            error = smaller - (value - larger)
            if error != 0.0:
                parts[kept] = error
                kept += 1
        if value != 0.0:
            parts[kept] = value
            kept += 1
        self.count = kept

    @method
    def add_product(self, x: float, y: float, sign: int) -> None:
        """Add ``sign * x * y``, whose error is the sum of products of halves (Dekker)."""
        product = x * y
        x_split, y_split = 134217729.0 * x, 134217729.0 * y  # 2^27 + 1
        x_high, y_high = x_split - (x_split - x), y_split - (y_split - y)
        x_low, y_low = x - x_high, y - y_high
        error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
        self.add(sign * product)
        self.add(sign * error)

    @method
    def compress(self) -> None:
        """Put the same sum into as few parts as it takes, of 53 bits each."""
        parts = as_floats(self.parts)
        bottom = self.count - 1
        high = parts[bottom]
        for part in range(self.count - 2, -1, -1):
            total = high + parts[part]
            error = parts[part] - (total - high)
            high = total
            if error != 0.0:
                parts[bottom] = total
                bottom -= 1
                high = error
        parts[bottom] = high
        kept = 0
        for part in range(bottom, self.count):
            parts[kept] = parts[part]
            kept += 1
        self.count = kept

    @method
    def rounded(self) -> float:
        """The float that is nearest to the sum, of two that are as near the even one."""
        parts = as_floats(self.parts)
        part = self.count - 1
        if part < 0:
            return 0.0
        total = parts[part]
        error = 0.0
        while part > 0:
            part -= 1
            before = total
            total = before + parts[part]
            error = parts[part] - (total - before)
            if error != 0.0:
                break
        # exactly between two floats, the parts below decide
        if part > 0 and (error < 0.0) == (parts[part - 1] < 0.0) and error != 0.0:
            twice = 2.0 * error
            other = total + twice
            if other - total == twice:
                total = other
        return total


_SUM_WORDS = ExactSum.size


@kernel
def add_pieces(values_array: Array, starts_array: Array, sums_array: Array) -> None:
    """Add up the floats, given as words, between each place and the next, each to a sum of its own.

    A NaN is missing. With values that are infinite the sum is one part, infinite or a NaN. Where
    finite ones are too large to be added safely its count is -1.
    """
    values = as_floats(pointer(values_array))
    starts = pointer(starts_array)
    n: int = starts_array.size
    for piece in range(n - 1):
        total = ExactSum(at_word(pointer(sums_array), piece * _SUM_WORDS))
        infinite = 0.0
        known = True
        for row in range(starts[piece], starts[piece + 1]):
            value = values[row]
            if abs(value) <= _LARGEST_ADDED:
                total.add(value)
            elif value - value == 0.0:
                known = False
            elif value == value:
                infinite += value
        if infinite != 0.0:
            total.count = 1
            as_floats(total.parts)[0] = infinite
        elif not known:
            total.count = -1
        elif total.count:
            total.compress()
    keep_alive(values_array)
    keep_alive(starts_array)
    keep_alive(sums_array)


def piece_sums(values: NDArray[np.float64], starts: NDArray[np.int64]) -> list[list[float] | None]:
    """The exact sums of the values between each place and the next, as parts; None: not known.

    >>> piece_sums(np.array([1e16, 1.0, -1e16, 0.5]), np.array([0, 3, 4]))
    [[1.0], [0.5]]
    """
    sums = np.zeros((len(starts) - 1) * ExactSum.size, np.int64)
    words = np.ascontiguousarray(values, np.float64).view(np.int64)
    add_pieces(words.copy() if not words.flags.writeable else words, starts, sums)
    rows = sums.reshape(-1, ExactSum.size)
    parts = rows[:, ExactSum.offset("parts") :].view(np.float64)
    return [
        None if count < 0 else parts[piece, :count].tolist()
        for piece, count in enumerate(rows[:, ExactSum.offset("count")].tolist())
    ]
