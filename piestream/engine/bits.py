"""Boolean columns as bits, a word for 64 rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray


def stack_bits(columns: Sequence[pl.Series | NDArray[np.bool_]]) -> NDArray[np.uint64]:
    """Boolean columns as rows of 64-bit words, the first row in the lowest bit."""
    n_rows = len(columns[0]) if columns else 0
    bits = np.zeros((len(columns), (n_rows + 63) // 64), np.uint64)
    in_bytes = bits.view(np.uint8)
    for number, column in enumerate(columns):
        holds = column.to_numpy() if isinstance(column, pl.Series) else column
        packed = np.packbits(holds, bitorder="little")
        in_bytes[number, : packed.size] = packed
    return bits


def symbol_bits(symbols: Iterable[int]) -> int:
    """A word that has a bit for each of these symbols."""
    word = sum(1 << symbol for symbol in symbols)
    return word - (1 << 64) if word >> 63 else word
