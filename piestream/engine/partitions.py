"""Partition keys, and the dense numbers under which the detector knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MIN, NONE
from piestream.copies import copied_but
from piestream.engine.detector import Detector
from piestream.engine.plain_values import from_plain_values, plain_values


class Partitions:
    """Gives every key a number, and the keys of numbers back.

    A NULL key is a key; a NaN is a missing value, so it is the NULL key.
    """

    def __init__(self, schema: dict[str, pl.DataType], detector: Detector) -> None:
        self.schema = schema
        self.detector = detector
        self.number_of: dict[Any, int] = {}
        self.key_of: list[Any] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> Partitions:
        return copied_but(
            self, memo,
            schema=self.schema, number_of=self.number_of.copy(), key_of=self.key_of.copy(),
        )  # fmt: skip

    def known(self, keys: pl.DataFrame) -> NDArray[np.int64]:
        """The numbers of distinct keys; NONE for those not seen before."""
        get = self.number_of.get
        return np.array([get(value, NONE) for value in self.hashable(keys)], np.int64)

    def admit(self, keys: pl.DataFrame, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The known numbers of these keys, with new ones for those not seen before."""
        new = np.flatnonzero(numbers == NONE)
        if new.size:
            values = self.hashable(keys)
            numbers[new] = self.detector.add_partitions(int(new.size))
            missing = self.detector.n_partitions - len(self.key_of)
            self.key_of.extend([None] * missing)
            for place in new.tolist():
                number = int(numbers[place])
                self.number_of[values[place]] = number
                self.key_of[number] = values[place]
        return numbers

    def last_times(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The time of the last event of each partition; before all times where there was none."""
        times = np.full(len(numbers), INT64_MIN)
        old = numbers != NONE
        times[old] = self.detector.partitions.column("last_time")[numbers[old]]
        return times

    def last_sequences(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """What ordered the last event of each partition in its time, where there was one."""
        found = np.zeros(len(numbers), np.int64)
        old = numbers != NONE
        found[old] = self.detector.partitions.last_sequences[numbers[old]]
        return found

    def note_sequences(self, numbers: NDArray[np.int64], sequences: NDArray[np.int64]) -> None:
        """What orders the last event of each partition in its time now."""
        self.detector.partitions.last_sequences[numbers] = sequences

    def hashable(self, keys: pl.DataFrame) -> Sequence[Any]:
        """The keys of a frame as values that a dict can hold."""
        if not self.schema:
            return [()] * len(keys)
        if len(self.schema) == 1:
            return plain_values(keys.to_series())
        return list(zip(*map(plain_values, keys), strict=True))

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
                from_plain_values(list(column), dtype).gather(rows).alias(name)
                for (name, dtype), column in zip(self.schema.items(), columns, strict=True)
            ]
        )

    def restore(self, keys: pl.DataFrame, numbers: NDArray[np.int64]) -> None:
        """Enter the keys of a stored state, under the numbers that the detector gives them."""
        values = self.hashable(keys) if self.schema else [()] * len(numbers)
        self.key_of = list(values)
        self.number_of = dict(zip(values, numbers.tolist(), strict=True))

    def release(self, numbers: NDArray[np.int64]) -> None:
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
        self._keys = pl.DataFrame(schema=schema)

    def known(self, keys: pl.DataFrame) -> NDArray[np.int64]:
        """The partitions are numbered in the order given."""
        self._keys = keys
        return np.arange(len(keys))

    def admit(self, keys: pl.DataFrame, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """All are new."""
        return numbers

    def last_times(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """No partition has had an event."""
        return np.full(len(numbers), INT64_MIN)

    def last_sequences(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """No partition has had an event."""
        return np.zeros(len(numbers), np.int64)

    def note_sequences(self, numbers: NDArray[np.int64], sequences: NDArray[np.int64]) -> None:
        """Nothing comes behind them."""

    def keys(self, numbers: NDArray[np.int64]) -> pl.DataFrame:
        """The key columns of these partitions, a row each."""
        if not self.schema:
            return pl.DataFrame()
        rows = self._keys[numbers]
        return rows.rename(dict(zip(rows.columns, self.schema, strict=True)))
