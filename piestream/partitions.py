"""Partition keys, and the dense numbers under which the detector knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.detector import Detector


class Partitions:
    """Gives every key a number, and the keys of numbers back.

    A NULL key is a key; a NaN is a missing value, so it is the NULL key (SPEC 2).
    """

    def __init__(self, schema: dict[str, pl.DataType], detector: Detector) -> None:
        self.schema = schema
        self.detector = detector
        self.number_of: dict[Any, int] = {}
        self.key_of: list[Any] = []

    def numbers(self, keys: pl.DataFrame) -> NDArray[np.int64]:
        """The numbers of distinct keys, new ones for those not seen before."""
        values = self.hashable(keys)
        get = self.number_of.get
        numbers = np.array([get(value, -1) for value in values], np.int64)
        new = np.flatnonzero(numbers < 0)
        if new.size:
            numbers[new] = self.detector.add_partitions(int(new.size))
            missing = self.detector.n_partitions - len(self.key_of)
            self.key_of.extend([None] * missing)
            for place in new.tolist():
                number = int(numbers[place])
                self.number_of[values[place]] = number
                self.key_of[number] = values[place]
        return numbers

    def hashable(self, keys: pl.DataFrame) -> Sequence[Any]:
        """The keys of a frame as values that a dict can hold."""
        if not self.schema:
            return [()] * len(keys)
        if len(self.schema) == 1:
            return _plain(keys.to_series())
        return list(zip(*(_plain(column) for column in keys), strict=True))

    def keys(self, numbers: NDArray[np.int64]) -> pl.DataFrame:
        """The key columns of these partitions, a row each."""
        if not self.schema:
            return pl.DataFrame()
        distinct, places = np.unique(numbers, return_inverse=True)
        values = [self.key_of[number] for number in distinct.tolist()]
        columns = zip(*values, strict=True) if len(self.schema) > 1 else [values]
        if not values:
            return pl.DataFrame(schema=self.schema)
        rows = pl.Series(places.astype(np.uint32))
        return pl.DataFrame(
            [
                _from_plain(name, list(column), dtype).gather(rows)
                for (name, dtype), column in zip(self.schema.items(), columns, strict=True)
            ]
        )

    def forget(self, numbers: NDArray[np.int64]) -> None:
        """Drop the keys of partitions that hold nothing."""
        for number in numbers.tolist():
            del self.number_of[self.key_of[number]]
            self.key_of[number] = None
        self.detector.release(numbers)

    def used(self) -> list[int]:
        """The numbers in use, in ascending order."""
        return sorted(self.number_of.values())


class WholePartitions:
    """The keys of a batch that holds all rows of its partitions: nothing has to be found again."""

    def __init__(self, schema: dict[str, pl.DataType]) -> None:
        self.schema = schema
        self.number_of: dict[Any, int] = {}
        self._keys = pl.DataFrame()

    def numbers(self, keys: pl.DataFrame) -> NDArray[np.int64]:
        """The partitions are numbered in the order given."""
        self._keys = keys
        return np.arange(len(keys))

    def keys(self, numbers: NDArray[np.int64]) -> pl.DataFrame:
        """The key columns of these partitions, a row each."""
        if not self.schema:
            return pl.DataFrame()
        rows = self._keys[numbers]
        return rows.rename(dict(zip(rows.columns, self.schema, strict=True)))


def _plain(column: pl.Series) -> list[Any]:
    dtype = column.dtype
    if dtype.is_float():
        return column.fill_nan(None).to_list()
    if dtype.is_temporal():
        return column.to_physical().to_list()
    if dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String).to_list()
    if dtype.is_nested():
        return [_frozen(value) for value in column.to_list()]
    return column.to_list()


def _frozen(value: Any) -> Any:
    """A nested value made of tuples."""
    if isinstance(value, dict):
        return tuple(_frozen(part) for part in value.values())
    if isinstance(value, list | pl.Series):
        return tuple(_frozen(part) for part in value)
    return value


def _from_plain(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    if dtype.is_temporal():
        physical = pl.Int32 if dtype == pl.Date else pl.Int64
        return pl.Series(name, values, dtype=physical).cast(dtype)
    if dtype in (pl.Categorical, pl.Enum):
        return pl.Series(name, values, dtype=pl.String).cast(dtype)
    if isinstance(dtype, pl.Struct):
        named = [
            None if v is None else dict(zip((f.name for f in dtype.fields), v, strict=True))
            for v in values
        ]
        return pl.Series(name, named, dtype=dtype)
    return pl.Series(name, values, dtype=dtype)
