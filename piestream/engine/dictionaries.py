"""Values that are no numbers, as numbers that keep their order."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


class Dictionary:
    """The distinct values of a column in ascending order; a value's code is its place.

    The order makes MIN and MAX of strings a comparison of integers. A new value changes the codes of
    those above it, so `learn` gives the new code of each old one.
    """

    def __init__(self, dtype: pl.DataType) -> None:
        self.values = pl.Series(dtype=dtype)
        self._codes: tuple[pl.Series, dict[Any, int]] = (self.values, {})

    def __deepcopy__(self, memo: object) -> Dictionary:
        return copy(self)  # what it holds is exchanged, never changed

    def code(self, value: Any) -> int | None:
        """The code of one value, None if it is new."""
        values, codes = self._codes
        if values is not self.values:
            codes = {held: code for code, held in enumerate(self.values.to_list())}
            self._codes = (self.values, codes)
        return codes.get(value)

    def learn(self, column: pl.Series) -> NDArray[np.int64] | None:
        """Add a column's values; gives the new code of every old one if any has changed.

        Values above all that are known, such as numbers that count up, change none.
        """
        distinct = column.drop_nulls().unique()
        if self._holds(distinct):
            return None
        old = self.values
        self.values = pl.concat([old, distinct]).unique().sort()
        if self.values[: len(old)].equals(old):
            return None
        return self.codes(old).to_numpy().astype(np.int64)

    def keep(self, used: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Drop the values whose codes are not used; gives the new code of every old one."""
        self.values = self.values.filter(pl.Series(used))
        return np.cumsum(used, dtype=np.int64) - 1

    def codes(self, column: pl.Series) -> pl.Series:
        """The code of each value; NULL for NULL."""
        places = pl.DataFrame({"value": self.values}).with_row_index("code")
        looked_up = pl.DataFrame({"value": column}).join(
            places, on="value", how="left", maintain_order="left"
        )
        return looked_up["code"].cast(pl.Int64)

    def _holds(self, distinct: pl.Series) -> bool:
        if not len(distinct):
            return True
        return len(self.values) > 0 and self.codes(distinct).null_count() == 0
