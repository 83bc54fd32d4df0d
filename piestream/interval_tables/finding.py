"""Pairs of rows of two tables of intervals: sorted, indexed, and found piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from piestream.compiled.constants import INT64_MAX
from piestream.compiled.records import Array, assemble
from piestream.interval_tables.boxes import are_read_by_end, boxes_of
from piestream.interval_tables.conditions import Distance
from piestream.interval_tables.loops.order import sorted_places
from piestream.interval_tables.loops.output import pairs_by_row
from piestream.interval_tables.loops.pairs import find_pairs
from piestream.interval_tables.loops.records import BLOCK_BITS, MOST_LEVELS, Index
from piestream.interval_tables.tables import Table
from piestream.relations import PRECISE_FORM, Relation

__all__ = ["Grouped", "PairFinder", "Piece", "grouped"]

#: The first piece has so many rows of x; how many pairs it gives decides the size of the next.
_FIRST_ROWS = 1 << 14
#: Relations for which the neighbours of x are needed.
PRECISE = Relation(sum(PRECISE_FORM.values()))


@dataclass(frozen=True, slots=True)
class Grouped:
    """A table's intervals sorted by group, start, end and row."""

    rows: Array  # of each place
    starts: Array
    ends: Array
    offsets: Array  # where each group begins

    @property
    def is_in_order(self) -> bool:
        """Whether the rows come in this order already."""
        return _ascends(self.rows)

    def groups(self) -> Array:
        """The group of each place."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def _ascends(numbers: Array) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def grouped(groups: Array, starts: Array, ends: Array, n_groups: int) -> Grouped:
    """Intervals sorted by group, start, end and row."""
    rows = sorted_places(np.stack([groups, starts, ends]))
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(groups, minlength=n_groups), out=offsets[1:])
    return Grouped(rows, starts[rows], ends[rows], offsets)


def _blocks(others: Array) -> tuple[list[int], Array]:
    """Where the levels of blocks begin, and in two rows the lowest and the highest of each block."""
    size = 1 << BLOCK_BITS
    lowest, highest = others, others
    levels: list[Array] = []
    levels_at: list[int] = []
    at = 0
    while not levels or len(lowest) > 1:
        full = -(-max(len(lowest), 1) // size) * size - len(lowest)
        edge = lowest[-1:] if len(lowest) else np.zeros(1, np.int64)
        lowest = np.concatenate([lowest, edge.repeat(full)]).reshape(-1, size).min(axis=1)
        edge = highest[-1:] if len(highest) else np.zeros(1, np.int64)
        highest = np.concatenate([highest, edge.repeat(full)]).reshape(-1, size).max(axis=1)
        levels.append(np.stack([lowest, highest]))
        levels_at.append(at)
        at += len(lowest)
    return levels_at, np.concatenate(levels, axis=1)


@dataclass(frozen=True, slots=True)
class _Indexes:
    """Intervals of y by start and by end, as the loops take them."""

    header: Array
    by_start: Array
    start_blocks: Array
    by_end: Array
    end_blocks: Array


def _indexes(y: Grouped, by_end: bool) -> _Indexes:
    """Both indexes, or one whose place the other takes if nobody reads by end."""
    by_place = np.arange(len(y.rows))
    levels_at, start_blocks = _blocks(y.ends)
    header = assemble(Index, n_levels=len(levels_at))
    header[Index.offset("levels") :] = levels_at + [0] * (MOST_LEVELS - len(levels_at))
    by_start = np.stack([y.starts, y.ends, by_place])
    if not by_end:
        return _Indexes(header, by_start, start_blocks, by_start, start_blocks)
    order = sorted_places(np.stack([y.groups(), y.ends]))
    ends, starts = y.ends[order], y.starts[order]
    _, end_blocks = _blocks(starts)
    return _Indexes(
        header,
        by_start,
        start_blocks,
        np.stack([ends, starts, order]),
        end_blocks,
    )


@dataclass(frozen=True, slots=True)
class Piece:
    """The pairs of some rows of x, in order of these, and within by place of the partner."""

    x_rows: Array
    y_places: Array  # NONE where a row without a partner is kept


class PairFinder:
    """Finds the pairs of two tables; the partners in y are told by their places in `y`."""

    def __init__(
        self,
        x: Table,
        y: Table,
        groups: Sequence[Array],
        n_groups: int,
        relations: Relation,
        distances: Sequence[Distance],
        nearest: int | None,
    ) -> None:
        self.x_groups = groups[0]
        self.x_times = np.stack([x.starts, x.ends])
        self.y = grouped(groups[1], y.starts, y.ends, n_groups)
        if relations & PRECISE:
            self.x_times = np.concatenate([self.x_times, self._neighbours(x, y, groups, n_groups)])
        self.boxes = boxes_of(relations, distances, by_nearness=nearest is not None)
        self.indexes = _indexes(self.y, are_read_by_end(self.boxes))
        self.most = INT64_MAX if nearest is None else nearest

    def _neighbours(self, x: Table, y: Table, groups: Sequence[Array], n_groups: int) -> Array:
        """For each row of x, the start of what follows it at once, the end of what it follows."""
        from piestream.interval_tables.loops.neighbours import find_neighbours, running_latest

        all_groups = np.concatenate(groups)
        both = grouped(
            all_groups,
            np.concatenate([x.starts, y.starts]),
            np.concatenate([x.ends, y.ends]),
            n_groups,
        )
        latest = running_latest(all_groups[both.rows], both.ends)
        return find_neighbours(
            self.x_groups, self.x_times, both.offsets, np.stack([both.starts, latest])
        )

    def pieces(self, pairs: int, *, keep_all: bool = False) -> Iterator[Piece]:
        """The pairs in pieces of about so many; with ``keep_all``, rows of x without any too."""
        first, rows, expected = 0, _FIRST_ROWS, 4 * _FIRST_ROWS
        n = len(self.x_groups)
        while first < n:
            rows = min(rows, n - first)
            order, counts, partners = self._find(first, first + rows, expected, pairs)
            is_sorted, done = _ascends(order), len(counts)
            if done < rows and not is_sorted:
                # only rows in order of start can be left for the next piece
                rows = max(1, min(done // 2, rows - 1))
                continue
            if is_sorted and not keep_all:
                yield Piece(np.repeat(np.arange(first, first + done), counts), partners)
            else:
                yield Piece(*pairs_by_row(order[:done], counts, partners, first, keep_all))
            first += done
            found = max(len(partners), 1)
            rows = max(1, min(done * pairs // found, 8 * done))
            expected = found * rows // done * 5 // 4

    def counts(self) -> Array:
        """How many partners each row of x has (at most as many as are kept of the nearest)."""
        found = np.zeros(len(self.x_groups), np.int64)
        for first in range(0, len(found), _FIRST_ROWS):
            end = min(first + _FIRST_ROWS, len(found))
            order, counts, _ = self._find(first, end, _FIRST_ROWS, INT64_MAX)
            found[first + order] = counts
        return found

    def _find(self, first: int, end: int, expected: int, budget: int) -> tuple[Array, Array, Array]:
        """The order in which rows of x are worked, how many partners each has, and these.

        Of less than all rows, if they have more partners than the budget.
        """
        groups, times = self.x_groups[first:end], self.x_times[:, first:end]
        order = sorted_places(np.stack([groups, times[0]]))
        indexes = self.indexes
        counts, partners = find_pairs(
            groups[order], np.ascontiguousarray(times[:, order]), self.y.offsets, self.boxes,
            indexes.header, indexes.by_start, indexes.start_blocks, indexes.by_end,
            indexes.end_blocks, self.most, expected + 64, budget,
        )  # fmt: skip
        return order, counts, partners
