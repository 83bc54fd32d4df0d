"""Which values a page may have, beyond its bounds: a Bloom filter of each key and each column of texts.

The filter of a page with n different values is as many bits as the next power of two above 8 n, of which
each value sets five: of the values that are not there about one in fifty seems to be.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.archives.statistics import as_seen

__all__ = ["FILTER", "may_have", "page_filters"]

FILTER = "filter:"

_BITS_A_VALUE, _HASHES, _LEAST_BITS = 8, 5, 64
#: Pages with more values have no filter.
_MOST_VALUES = 1 << 16

Flags = NDArray[np.bool_]
Hashes = NDArray[np.uint64]


def page_filters(frame: pl.DataFrame, page_rows: int, keys: Sequence[str]) -> pl.DataFrame:
    """The filters of the pages of a file, a row each, with a column for each that has them."""
    filtered = {
        name: seen
        for name, dtype in frame.schema.items()
        if (seen := _filtered(name, dtype, name in keys)) is not None
    }
    numbered = frame.select(
        *(seen.alias(f"c{i}") for i, seen in enumerate(filtered.values())),
        (pl.int_range(pl.len(), dtype=pl.UInt32) // page_rows).alias("page"),
    )
    found = numbered.group_by("page", maintain_order=True).agg(
        pl.col(f"c{i}").drop_nulls().unique() for i in range(len(filtered))
    )
    columns = [_filters(found[f"c{i}"], FILTER + name) for i, name in enumerate(filtered)]
    return pl.DataFrame(columns)


def _filtered(name: str, dtype: pl.DataType, is_key: bool) -> pl.Expr | None:
    """A column as its filter sees it; None if it has none."""
    is_text = isinstance(dtype, pl.String | pl.Categorical | pl.Enum)
    return as_seen(name, dtype) if is_text or (is_key and dtype.is_integer()) else None


def _filters(values: pl.Series, name: str) -> pl.Series:
    """The filters of the values of pages, a list for each."""
    lengths = values.list.len().to_list()
    hashes = _hashes(values.list.explode(empty_as_null=False))
    found: list[bytes | None] = []
    first = 0
    for length in lengths:
        own = hashes[first : first + length]
        first += length
        found.append(_filter(own) if length <= _MOST_VALUES else None)
    return pl.Series(name, found, dtype=pl.Binary)


def _filter(hashes: Hashes) -> bytes:
    if not len(hashes):
        return b""
    size = max(_LEAST_BITS, 1 << (_BITS_A_VALUE * len(hashes) - 1).bit_length())
    bits = np.zeros(size, np.uint8)
    for places in _places(hashes):
        bits[places & np.uint64(size - 1)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def may_have(filters: Sequence[bytes | None], value: Any) -> Flags:
    """Which pages may have a value."""
    places = [int(place[0]) for place in _places(_hashes(pl.Series([value])))]
    return np.array([_has_all(one, places) for one in filters], np.bool_)


def _has_all(bits: bytes | None, places: Sequence[int]) -> bool:
    if bits is None:
        return True
    most = 8 * len(bits) - 1
    return bool(bits) and all(bits[(p & most) >> 3] >> (p & 7) & 1 for p in places)


def _places(hashes: Hashes) -> list[Hashes]:
    """The places of values, before they are cut to the size of a filter."""
    step = _mixed(hashes) | np.uint64(1)
    return [hashes + np.uint64(n) * step for n in range(_HASHES)]


def _hashes(values: pl.Series) -> Hashes:
    """Hashes that are the same on every machine."""
    if values.dtype == pl.String:
        encoded = [text.encode() for text in values.to_list()]
        words = np.fromiter((zlib.crc32(text) for text in encoded), np.uint64, len(encoded))
        words |= np.fromiter(map(len, encoded), np.uint64, len(encoded)) << np.uint64(32)
    else:
        signed = values.dtype.is_signed_integer()
        words = values.cast(pl.Int64 if signed else pl.UInt64).to_numpy().astype(np.uint64)
    return _mixed(words)


def _mixed(words: Hashes) -> Hashes:
    """The finish of SplitMix64: every bit depends on all."""
    found = words + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return found ^ (found >> np.uint64(31))
