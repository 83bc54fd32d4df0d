"""A result that is cut off at a number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from piestream.compiled.constants import INT64_MAX

__all__ = ["Limit"]


class Limit:
    """Lets so many rows pass, and asks for no more once it is known that there are more."""

    def __init__(self, rows: int | None) -> None:
        self.rows = INT64_MAX - 1 if rows is None else rows
        self.cut = False  # whether there are more

    def of(self, results: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The first rows of results. One without rows may pass, to tell that time goes on."""
        left = self.rows
        for result in results:
            if len(result) > left:
                self.cut = True
                yield result.head(left)
                return
            left -= len(result)
            yield result
