"""What a run has decoded of an archive: it is kept, so that nothing of it is decoded a second time.

A look at the rarest symbol, a trial, what is selected, and a scan if it turns out that this costs less: all
read pages here. So however it goes, what is decoded is what a scan decodes and a small part of it more, at
most: pages between others may be decoded again, where to begin a read anew would cost more than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from piestream.archives.costs import DECODED_AGAIN, GAP
from piestream.archives.pages import Pages, Words, stretches
from piestream.archives.verdicts import Flags

__all__ = ["DecodedPages"]

#: So many bytes of decoded values are kept.
_MOST_KEPT = 1 << 30
#: So many bytes are expected of a value that is not decoded yet.
_BYTES = 8

#: Pages, and the columns that are wanted of them.
_Part = tuple[Words, Sequence[str]]


@dataclass(frozen=True)
class _Frame:
    """Some columns of pages that lie behind each other."""

    first: int
    rows: pl.DataFrame


class DecodedPages:
    """Reads the pages of an archive for one run, whose scan reads these ``columns``."""

    def __init__(self, pages: Pages, columns: Sequence[str]) -> None:
        self.pages = pages
        self.columns = list(columns)
        #: How many values have been decoded, and how many reads have begun.
        self.values = self.beginnings = 0
        self._numbers = {name: number for number, name in enumerate(self.columns)}
        self._frames: dict[int, _Frame] = {}
        #: Of each page and column the number of the frame that has it, or -1.
        self._where = np.full((len(pages), len(self.columns)), -1, np.int64)
        self._was_decoded = np.zeros(self._where.shape, np.bool_)
        self._bytes = 0

    @property
    def most_again(self) -> float:
        """How many values may be decoded more than once."""
        return DECODED_AGAIN * self.pages.n_rows * len(self.columns)

    def has_room(self, wanted: Flags) -> bool:
        """Whether some pages can be kept when they have been read, but for a few."""
        more = self._count(np.broadcast_to(wanted[:, None], self._where.shape) & (self._where < 0))
        lost = self._lost + max(0.0, more - (_MOST_KEPT - self._bytes) / _BYTES)
        return self._again + 2 * lost <= self.most_again  # pages between others may be lost, too

    @property
    def _again(self) -> int:
        """How many values have been decoded more than once."""
        return self.values - self._count(self._was_decoded)

    @property
    def _lost(self) -> int:
        """How many values have been decoded, and are not kept."""
        return self._count(self._was_decoded & (self._where < 0))

    def read(self, pages: Words, columns: Sequence[str]) -> list[pl.DataFrame]:
        """The rows of some pages, in their order, in some frames."""
        return self.read_parts([(pages, columns)])

    def read_parts(self, parts: Sequence[_Part], *, is_last: bool = False) -> list[pl.DataFrame]:
        """As `read`, of several parts that have no page in common.

        Where nothing is read after it (``is_last``), it is not kept.
        """
        missing = list(self._missing(parts, GAP))
        again = self._again + self._lost + sum(map(self._values_again, missing))
        if again > self.most_again:
            missing = list(self._missing(parts, 0))
        frames = self.pages.read_parts(missing, gap=0)
        added = [self._keep(*part, rows) for part, rows in zip(missing, frames, strict=True)]
        found = [rows for part in parts for rows in self._kept(*part)]
        for number in added:
            if is_last or self._bytes > _MOST_KEPT:
                self._drop(number)
        return found

    def release(self) -> None:
        """Keep nothing any longer."""
        for number in list(self._frames):
            self._drop(number)

    def _count(self, values: Flags) -> int:
        """How many values there are in some columns of pages."""
        return int(self.pages.rows @ values.sum(axis=1))

    def _places(self, pages: Words, columns: Sequence[str]) -> Any:
        """Where some columns of pages are among all."""
        return np.ix_(pages, np.array([self._numbers[name] for name in columns], np.int64))

    def _missing(self, parts: Sequence[_Part], gap: int) -> Iterator[_Part]:
        """What has to be decoded for some parts: pages that lie behind each other, and their columns.

        Without gaps none of it has been kept.
        """
        for pages, columns in parts:
            is_missing = self._where[self._places(pages, columns)] < 0
            some = is_missing.any(axis=1)
            wanted, is_missing = pages[some], is_missing[some]
            changes = np.flatnonzero((is_missing[1:] != is_missing[:-1]).any(axis=1)) + 1
            cuts = [] if gap else changes.tolist()
            for group in np.split(np.arange(len(wanted)), cuts):
                for first, last in stretches(wanted[group], self.pages.files, gap):
                    inside = group[(wanted[group] >= first) & (wanted[group] <= last)]
                    needed = is_missing[inside].any(axis=0).tolist()
                    names = [name for name, one in zip(columns, needed, strict=True) if one]
                    yield np.arange(first, last + 1), names

    def _values_again(self, part: _Part) -> int:
        """How many values of pages and columns have been decoded before."""
        pages, columns = part
        before = self._was_decoded[self._places(pages, columns)]
        return int(self.pages.rows[pages] @ before.sum(axis=1))

    def _keep(self, pages: Words, columns: Sequence[str], rows: pl.DataFrame) -> int:
        """Take notice of what has been decoded, and give it a number."""
        number = self.beginnings
        chosen = self._places(pages, columns)
        self._where[chosen] = number
        self._was_decoded[chosen] = True
        self._frames[number] = _Frame(int(pages[0]), rows)
        self._bytes += int(rows.estimated_size())
        self.values += rows.width * rows.height
        self.beginnings += 1
        return number

    def _drop(self, number: int) -> None:
        self._bytes -= int(self._frames.pop(number).rows.estimated_size())
        self._where[self._where == number] = -1

    def _kept(self, pages: Words, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Columns of pages that are kept: a frame for each stretch of them that was decoded together."""
        where = self._where[self._places(pages, columns)]
        breaks = (where[1:] != where[:-1]).any(axis=1) | (np.diff(pages) != 1)
        for places in np.split(np.arange(len(pages)), np.flatnonzero(breaks) + 1):
            if len(places):
                first, last = int(pages[places[0]]), int(pages[places[-1]])
                yield self._slice(first, last, columns, where[places[0]].tolist())

    def _slice(
        self, first: int, last: int, columns: Sequence[str], numbers: Sequence[int]
    ) -> pl.DataFrame:
        """Columns of pages that lie behind each other, each of a frame of these numbers."""
        n_rows = int(self.pages.rows[first : last + 1].sum())
        found: dict[str, pl.Series] = {}
        for number in dict.fromkeys(numbers):
            frame = self._frames[number]
            start = int(self.pages.firsts[first] - self.pages.firsts[frame.first])
            for name, one in zip(columns, numbers, strict=True):
                if one == number:
                    found[name] = frame.rows[name].slice(start, n_rows)
        return pl.DataFrame([found[name] for name in columns])
