"""What is in the columns of a predicate: said where it never holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from piestream.show.table import cell_text

__all__ = ["values_text"]

#: Of more columns, and of more different texts, nothing is said: the line would be too long.
_MOST_COLUMNS, _MOST_TEXTS = 3, 5


def values_text(frame: pl.DataFrame, columns: Iterable[str]) -> str:
    """The least and the greatest value of each column, or its few texts.

    >>> frame = pl.DataFrame({"x": [3, 9, 5], "state": ["on", "off", "on"], "y": [None] * 3})
    >>> values_text(frame, ["x", "state", "y"])
    "x is from 3 to 9, state is 'off' or 'on', y is always NULL"
    """
    wanted = list(columns)
    return ", ".join(_said(frame, wanted)) if len(wanted) <= _MOST_COLUMNS else ""


def _said(frame: pl.DataFrame, columns: list[str]) -> Iterator[str]:
    for name in columns:
        known = frame[name].drop_nulls()
        if known.dtype.is_float():
            known = known.drop_nans()
        if not len(known):
            yield f"{name} is always NULL"
        elif known.dtype.is_numeric() or known.dtype.is_temporal():
            least, greatest = cell_text(known.min()), cell_text(known.max())
            yield f"{name} is " + (
                f"always {least}" if least == greatest else f"from {least} to {greatest}"
            )
        elif known.dtype == pl.String:
            texts = known.unique().head(_MOST_TEXTS + 1).sort()
            if len(texts) <= _MOST_TEXTS:
                yield f"{name} is " + " or ".join(f"{text!r:.40}" for text in texts)
