"""Where a match can be: ranges of keys and of report times in which every symbol can have an interval.

A match that is reported at r has an interval of each symbol that starts in [r - w, r], where w is the
window, in one partition. So a page on which a symbol can hold allows reports from its first time until
w after its last, for its keys; a match can be where the pages of all symbols allow it. The symbol with
the fewest pages comes first: only the ranges of its keys are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.archives.pages import Words
from piestream.archives.reach import Reach
from piestream.archives.statistics import HIGHEST, LOWEST, MISSING, ROWS
from piestream.compiled.constants import INT64_MAX, INT64_MIN

__all__ = ["NULL_CELL", "Core", "Flags", "KeyRanges", "Spans", "cores_of", "key_ranges", "later"]

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
        found = []
        mine = other_at = 0
        while mine < len(self.firsts) and other_at < len(other.firsts):
            first = max(self.firsts[mine], other.firsts[other_at])
            last = min(self.lasts[mine], other.lasts[other_at])
            if first <= last:
                found.append((first, last))
            if self.lasts[mine] < other.lasts[other_at]:
                mine += 1
            else:
                other_at += 1
        both = np.array(found, np.int64).reshape(-1, 2)
        return Spans(both[:, 0], both[:, 1])

    def bridged(self, gap: int) -> Spans:
        """With the gaps of up to a length filled."""
        if len(self.firsts) < 2:
            return self
        apart = later(self.lasts[:-1], gap) < self.firsts[1:]
        return Spans(
            self.firsts[np.concatenate(([True], apart))],
            self.lasts[np.concatenate((apart, [True]))],
        )


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
) -> list[Core]:
    """Where all symbols can have intervals, of which it is given on which pages each can hold.

    ``earliest`` are the pages of the symbols one of which starts first in every match, if that is known.
    The cores of one cell lie so far apart that none has rows of another.
    """
    ends = later(lasts, reach.window)
    rare = holds[0]
    cells = [(NULL_CELL, INT64_MAX)] if ranges is None else _cells(ranges, rare)
    found: list[tuple[tuple[int, int], Spans, Words]] = []
    for cell in cells:
        here = np.ones(len(rare), np.bool_) if ranges is None else ranges.reach(cell)
        spans = _allowed(holds, firsts, ends, here).bridged(reach.back)
        if not len(spans.firsts):
            continue
        starts = later(spans.firsts, -reach.back)
        if earliest is not None:
            starts = _held_from(starts, [pages & here for pages in earliest], firsts, lasts)
        if found and found[-1][0][1] == cell[0] - 1 and _same(found[-1][1], spans):
            starts = np.minimum(starts, found[-1][2])
            found[-1] = ((found[-1][0][0], cell[1]), spans, starts)
        else:
            found.append((cell, spans, starts))
    return [
        Core(cell, int(first), int(last), int(start))
        for cell, spans, starts in found
        for first, last, start in zip(spans.firsts, spans.lasts, starts, strict=True)
    ]


def _held_from(times: Words, holds: Sequence[Flags], firsts: Words, lasts: Words) -> Words:
    """For each time the first one from then on at which one of some symbols can hold."""
    found = np.full(len(times), INT64_MAX)
    for chosen in holds:
        if chosen.any():
            spans = Spans.of(firsts[chosen], lasts[chosen])
            place = np.searchsorted(spans.lasts, times)
            some = place < len(spans.lasts)
            following = np.maximum(spans.firsts[place[some]], times[some])
            found[some] = np.minimum(found[some], following)
    return np.where(found == INT64_MAX, times, found)


def _cells(ranges: KeyRanges, rare: Flags) -> list[tuple[int, int]]:
    """The cells that the rare pages reach, one by one."""
    top = 2 * len(ranges.boundaries)
    touched = np.zeros(top + 2, np.int64)
    lows, highs = ranges.lows[rare], ranges.highs[rare]
    some = highs > NULL_CELL
    np.add.at(touched, lows[some] + 1, 1)
    np.add.at(touched, highs[some] + 2, -1)
    cells = [(cell - 1, cell - 1) for cell in np.flatnonzero(np.cumsum(touched)).tolist()]
    return [(NULL_CELL, NULL_CELL), *cells] if ranges.nulls[rare].any() else cells


def _allowed(holds: Sequence[Flags], firsts: Words, ends: Words, here: Flags) -> Spans:
    """The times at which every symbol allows a report."""
    found: Spans | None = None
    for pages in holds:
        chosen = pages & here
        if not chosen.any():
            return Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
        spans = Spans.of(firsts[chosen], ends[chosen])
        found = spans if found is None else found.within(spans)
    assert found is not None
    return found


def _same(one: Spans, other: Spans) -> bool:
    return np.array_equal(one.firsts, other.firsts) and np.array_equal(one.lasts, other.lasts)


def key_ranges(table: pl.DataFrame, key: str, rare: Flags) -> KeyRanges | None:
    """The cells of a key by its bounds on each page; None where they would not help."""
    names = (LOWEST + key, HIGHEST + key, MISSING + key, ROWS)
    if rare.sum() > min(_MOST_KEY_RANGES, len(table) // _LEAST_SHARE):
        return None
    if any(name not in table.columns for name in names):
        return None
    low, high, missing, rows = (table[name] for name in names)
    return KeyRanges.of(low, high, missing, rows, rare)
