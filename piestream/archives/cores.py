"""Where a match can be: ranges of keys and of report times in which every symbol can have an interval.

A match that is reported at r has an interval of each symbol that starts in [r - w, r], where w is the
window, in one partition. So a page on which a symbol can hold allows reports from its first time until
w after its last, for its keys; a match can be where the pages of all symbols allow it. The symbol with
the fewest pages comes first: only the ranges of its keys are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.archives.pages import Words
from piestream.archives.reach import Reach
from piestream.archives.statistics import HIGHEST, LOWEST, MISSING, ROWS
from piestream.compiled.constants import INT64_MAX, INT64_MIN

__all__ = [
    "NULL_CELL",
    "Core",
    "Flags",
    "KeyRanges",
    "Spans",
    "cores_of",
    "key_ranges",
    "later",
    "touches",
]

Flags = NDArray[np.bool_]

#: So many pages of the rarest symbol are told apart by their keys, and such a share of all pages; of
#: more only the times count.
_MOST_KEY_RANGES = 1000
_LEAST_SHARE = 4

#: The cell of partitions whose key is NULL.
NULL_CELL = -2


def later(times: Words, length: int) -> Words:
    """Times and a length later, or earlier, within 64 bits."""
    if length >= 0:
        return np.where(times > INT64_MAX - length, INT64_MAX, times + np.int64(length))
    return np.where(times < INT64_MIN - length, INT64_MIN, times + np.int64(length))


@dataclass(frozen=True)
class Core:
    """Reports from ``first`` to ``last`` in the partitions of some cells, both ends included.

    No interval of a match that is reported then starts before ``start``.
    """

    cells: tuple[int, int]
    first: int
    last: int
    start: int


@dataclass(frozen=True)
class Spans:
    """Closed spans of time in order, none of which touches another."""

    firsts: Words
    lasts: Words

    @classmethod
    def of(cls, firsts: Words, lasts: Words) -> Spans:
        """The union of spans."""
        order = np.argsort(firsts, kind="stable")
        firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
        begins = np.ones(len(firsts), np.bool_)
        begins[1:] = firsts[1:] > lasts[:-1]
        ends = np.append(np.flatnonzero(begins)[1:] - 1, len(firsts) - 1)
        return cls(firsts[begins], lasts[ends])

    def within(self, other: Spans) -> Spans:
        """The intersection of both."""
        low = np.searchsorted(other.lasts, self.firsts)
        counts = np.maximum(np.searchsorted(other.firsts, self.lasts, "right") - low, 0)
        mine = np.repeat(np.arange(len(counts)), counts)
        others = np.arange(len(mine)) + np.repeat(low - np.cumsum(counts) + counts, counts)
        return Spans(
            np.maximum(self.firsts[mine], other.firsts[others]),
            np.minimum(self.lasts[mine], other.lasts[others]),
        )

    def bridged(self, gap: int) -> Spans:
        """With the gaps of up to a length filled."""
        if len(self.firsts) < 2:
            return self
        apart = later(self.lasts[:-1], gap) < self.firsts[1:]
        return Spans(
            self.firsts[np.concatenate(([True], apart))],
            self.lasts[np.concatenate((apart, [True]))],
        )


def touches(spans: Spans, firsts: Words, lasts: Words) -> Flags:
    """Which of some spans of time have instants in common with others, which lie apart."""
    following = np.searchsorted(spans.lasts, firsts)
    found: Flags = following < len(spans.lasts)
    found[found] = spans.firsts[following[found]] <= lasts[found]
    return found


@dataclass(frozen=True)
class Clock:
    """Times of cells as words that are in order of both: those of one cell, then those of the next one."""

    times: Words
    step: int

    @classmethod
    def of(cls, times: Words) -> Clock:
        """Words for these times."""
        times = np.unique(times)
        return cls(times, len(times))

    def word(self, cells: Words, times: Words) -> Words:
        """The words of times that are known."""
        return cells * self.step + np.searchsorted(self.times, times)

    def time(self, words: Words) -> Words:
        """The times of words."""
        return self.times[words % self.step]


@dataclass(frozen=True)
class KeyRanges:
    """Cells of keys: some boundaries, what lies between them, and NULL.

    The boundary of number i is the cell 2i, what lies between it and the one before 2i - 1.
    """

    boundaries: pl.Series
    lows: Words  # of each page the first and the last cell that its keys may be in
    highs: Words
    nulls: Flags  # whether NULL may be among them

    @classmethod
    def of(cls, lows: pl.Series, highs: pl.Series, missing: pl.Series, rows: pl.Series,
           rare: Flags) -> KeyRanges:  # fmt: skip
        """The cells between the bounds of the rare pages, and those that the pages reach."""
        chosen = pl.Series(rare)
        ends = pl.concat([lows.filter(chosen), highs.filter(chosen)])
        boundaries = _canonical(ends.drop_nulls().unique().sort())
        some = (missing < rows).fill_null(True).to_numpy()
        first = cells_of(lows, boundaries)
        last = cells_of(highs, boundaries)
        first[(first == NULL_CELL) & some] = -1
        last[(last == NULL_CELL) & some] = 2 * len(boundaries) - 1
        return cls(boundaries, first, last, (missing > 0).fill_null(True).to_numpy())

    def reach(self, cells: tuple[int, int]) -> Flags:
        """Which pages may have keys of some cells."""
        found: Flags = (self.lows <= cells[1]) & (self.highs >= cells[0]) & (self.highs > NULL_CELL)
        return found | self.nulls if cells[0] == NULL_CELL else found

    def pairs(self, groups: Words, pages: Flags) -> tuple[Words, Words]:
        """Which of some groups of cells, from one to another each and in order, each page may have: by their places."""
        chosen = np.flatnonzero(pages)
        low = np.searchsorted(groups[:, 1], self.lows[chosen])
        counts = np.searchsorted(groups[:, 0], self.highs[chosen], "right") - low
        counts[self.highs[chosen] <= NULL_CELL] = 0
        own = np.arange(int(counts.sum())) + np.repeat(low - np.cumsum(counts) + counts, counts)
        found = np.repeat(chosen, counts)
        if not len(groups) or groups[0, 0] != NULL_CELL:
            return own, found
        nulls = chosen[self.nulls[chosen]]
        return np.append(own, np.zeros(len(nulls), np.int64)), np.append(found, nulls)

    def of_keys(self, keys: pl.Series) -> Words:
        """The cells of some keys."""
        return cells_of(keys, self.boundaries)


def cells_of(keys: pl.Series, boundaries: pl.Series) -> Words:
    """In which cell each key is."""
    combined = pl.concat([boundaries, _canonical(keys)]).rank("dense").cast(pl.Int64)
    ranks = combined.fill_null(0).to_numpy()
    known, own = ranks[: len(boundaries)], ranks[len(boundaries) :]
    places = np.searchsorted(known, own)
    is_boundary = np.zeros(len(own), np.bool_)
    inside = places < len(known)
    is_boundary[inside] = known[places[inside]] == own[inside]
    cells = np.where(is_boundary, 2 * places, 2 * places - 1)
    return np.where(own == 0, NULL_CELL, cells).astype(np.int64)


def _canonical(keys: pl.Series) -> pl.Series:
    """Keys of which equal ones are one: of floats there are two zeros."""
    return keys.fill_nan(None) + 0.0 if keys.dtype.is_float() else keys


def cores_of(
    holds: Sequence[Flags],
    earliest: Sequence[Flags] | None,
    firsts: Words,
    lasts: Words,
    reach: Reach,
    ranges: KeyRanges | None,
    most_pairs: float = inf,
) -> list[Core]:
    """Where all symbols can have intervals, of which it is given on which pages each can hold.

    ``earliest`` are the pages of the symbols one of which starts first in every match, if that is known.
    The cores of one cell lie so far apart that none has rows of another. Where pages reach so many cells that
    there are more than ``most_pairs`` of both, all keys are one cell.
    """
    ends = later(lasts, reach.window)
    rare = holds[0]
    cells = np.zeros(1, np.int64) if ranges is None else _cells(ranges, rare)
    of_rare = Spans.of(firsts[rare], ends[rare]) if rare.any() else None
    if of_rare is None or not len(cells):
        return []
    near = [rare, *(pages & touches(of_rare, firsts, ends) for pages in holds[1:])]
    if ranges is not None and sum(_n_pairs(ranges, cells, pages) for pages in near) > most_pairs:
        ranges, cells = None, np.zeros(1, np.int64)
    clock = Clock.of(np.concatenate((firsts, ends)))
    spans: Spans | None = None
    for pages in near:
        if not pages.any():
            return []
        own, chosen = _pairs(ranges, cells, pages)
        if not len(own):
            return []
        one = Spans.of(clock.word(own, firsts[chosen]), clock.word(own, ends[chosen]))
        spans = one if spans is None else spans.within(one)
    if spans is None or not len(spans.firsts):
        return []
    cell = spans.firsts // clock.step
    starts_at, ends_at = clock.time(spans.firsts), clock.time(spans.lasts)
    is_apart = later(ends_at[:-1], reach.back) < starts_at[1:]
    is_apart |= cell[1:] != cell[:-1]
    begins, finishes = np.append(True, is_apart), np.append(is_apart, True)
    cell, first, last = cell[begins], starts_at[begins], ends_at[finishes]
    starts = later(first, -reach.back)
    if earliest is not None:
        starts = _held_from(cell, starts, earliest, firsts, lasts, ranges, cells)
    if ranges is None:
        both = np.full((len(cell), 2), (NULL_CELL, INT64_MAX))
    else:
        both = np.column_stack((cells[cell], cells[cell]))
    rows = np.column_stack((both, first, last, starts))
    return [Core((low, high), *times) for low, high, *times in _joined(rows).tolist()]


def _pairs(ranges: KeyRanges | None, cells: Words, pages: Flags) -> tuple[Words, Words]:
    """Which of some cells each page reaches, by their places."""
    if ranges is None:
        chosen = np.flatnonzero(pages)
        return np.zeros(len(chosen), np.int64), chosen
    return ranges.pairs(np.column_stack((cells, cells)), pages)


def _n_pairs(ranges: KeyRanges, cells: Words, pages: Flags) -> int:
    """How many cells pages reach, each counted, but for NULL."""
    lows, highs = ranges.lows[pages], ranges.highs[pages]
    return int((np.searchsorted(cells, highs, "right") - np.searchsorted(cells, lows)).sum())


def _joined(rows: Words) -> Words:
    """Cores, as rows of numbers: those of cells next to each other, with the same times, are of both."""
    edges = np.flatnonzero(rows[1:, 0] != rows[:-1, 0]) + 1
    found: list[Words] = []
    for own in np.split(rows, edges):
        before = found[-1] if found else None
        if (
            before is not None
            and before[0, 1] == own[0, 0] - 1
            and np.array_equal(before[:, 2:4], own[:, 2:4])
        ):
            before[:, 1] = own[:, 1]
            before[:, 4] = np.minimum(before[:, 4], own[:, 4])
        else:
            found.append(own)
    return np.concatenate(found)


def _held_from(
    cell: Words, times: Words, holds: Sequence[Flags], firsts: Words, lasts: Words,
    ranges: KeyRanges | None, cells: Words,
) -> Words:  # fmt: skip
    """For each time of a cell the first one from then on at which one of some symbols can hold."""
    found = np.full(len(times), INT64_MAX)
    clock = Clock.of(np.concatenate((firsts, lasts, times)))
    words = clock.word(cell, times)
    for chosen in holds:
        own, pages = _pairs(ranges, cells, chosen)
        if len(pages):
            spans = Spans.of(clock.word(own, firsts[pages]), clock.word(own, lasts[pages]))
            place = np.searchsorted(spans.lasts, words)
            some = np.flatnonzero(place < len(spans.lasts))
            following = np.maximum(spans.firsts[place[some]], words[some])
            is_own = following // clock.step == cell[some]
            some, following = some[is_own], following[is_own]
            found[some] = np.minimum(found[some], clock.time(following))
    return np.where(found == INT64_MAX, times, found)


def _cells(ranges: KeyRanges, rare: Flags) -> Words:
    """The cells that the rare pages reach, in order."""
    top = 2 * len(ranges.boundaries)
    touched = np.zeros(top + 2, np.int64)
    lows, highs = ranges.lows[rare], ranges.highs[rare]
    some = highs > NULL_CELL
    np.add.at(touched, lows[some] + 1, 1)
    np.add.at(touched, highs[some] + 2, -1)
    cells = np.flatnonzero(np.cumsum(touched)) - 1
    return np.append(NULL_CELL, cells) if ranges.nulls[rare].any() else cells


def key_ranges(table: pl.DataFrame, key: str, rare: Flags) -> KeyRanges | None:
    """The cells of a key by its bounds on each page; None where they would not help."""
    names = (LOWEST + key, HIGHEST + key, MISSING + key, ROWS)
    if rare.sum() > min(_MOST_KEY_RANGES, len(table) // _LEAST_SHARE):
        return None
    if any(name not in table.columns for name in names):
        return None
    low, high, missing, rows = (table[name] for name in names)
    return KeyRanges.of(low, high, missing, rows, rare)
