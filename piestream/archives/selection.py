"""Reading the rows that matches can be made of: those of the cores, and what these need before them.

A core is worked on as if it were all there is: from the window before its first report to its last one.
Whether a run began before is told by the last row of its partition before. So where a predicate holds
at the first row of a partition, that last row is looked for on the pages that may have it; with
predicates that read earlier rows, these are too. A run that began before the window is in no match.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from piestream.archives.cores import Core, Flags, KeyRanges, later
from piestream.archives.needs import Needs, PartitionRows
from piestream.archives.pages import Pages, Words
from piestream.archives.reach import Reach
from piestream.archives.statistics import as_seen
from piestream.archives.store import in_ticks

__all__ = ["CORE", "RESERVED", "Selection"]

#: The column with the number of a row's core.
CORE = "__core__"
_TIME, _CELL, _ORDER, _SEEN = "__time__", "__cell__", "__order__", "__key__"
_START, _END = "__start__", "__end__"
_GROUP, _HOLDS, _PARTITION = "__group__", "__holds__", "__partition__"

#: The names of columns that begin like this are taken.
RESERVED = "__"


class Selection:
    """What is read of an archive for some cores of one query."""

    def __init__(
        self,
        pages: Pages,
        columns: Sequence[str],
        time: str,
        keys: Sequence[str],
        ranges: KeyRanges | None,
        reach: Reach,
    ) -> None:
        self.pages = pages
        self.columns = list(columns)
        self.time = time
        self.keys = list(keys)
        self.ranges = ranges
        self.reach = reach
        found = pages.times(time)
        assert found is not None
        self.firsts, self.lasts = found
        self.is_read = np.zeros(len(pages), np.bool_)
        self._rows: pl.DataFrame | None = None

    @property
    def n_read(self) -> int:
        """How many rows have been read."""
        return int(self.pages.rows[self.is_read].sum())

    def wanted(self, core: Core) -> Flags:
        """Whether each page may have rows of a core, or of the window before it."""
        start = int(later(np.array([core.first]), -self.reach.window)[0])
        there: Flags = (self.lasts >= start) & (self.firsts <= core.last)
        return there if self.ranges is None else there & self.ranges.reach(core.cells)

    def read(self, cores: Sequence[Core], holds: pl.Expr) -> pl.DataFrame:
        """The rows of some cores with what they need, each with the number of its core.

        ``holds`` says whether a row can begin something.
        """
        bounds = self._bounds(cores)
        self._add(np.any([self.wanted(core) for core in cores], axis=0))
        while True:
            inside = self._inside(bounds)
            needs = self._needs(inside, holds)
            missing = needs.missing_pages(~self.is_read)
            if not missing.any():
                break
            self._add(missing)
        names = [*self.columns, CORE, _ORDER]
        before = self.rows[needs.places_before()].with_columns(needs.cores_before())
        return pl.concat([inside.select(names), before.select(names)]).sort(_ORDER).drop(_ORDER)

    @property
    def rows(self) -> pl.DataFrame:
        """The rows that have been read, by their times."""
        assert self._rows is not None
        return self._rows

    def _bounds(self, cores: Sequence[Core]) -> pl.DataFrame:
        """A row for each core: its cells, and the times of its rows."""
        starts = later(np.array([core.first for core in cores], np.int64), -self.reach.window)
        return pl.DataFrame(
            {
                CORE: np.arange(len(cores)),
                _CELL: np.array([core.cells[0] for core in cores], np.int64),
                "last": np.array([core.cells[1] for core in cores], np.int64),
                _START: starts,
                _END: np.array([core.last for core in cores], np.int64),
            }
        )

    def _add(self, wanted: Flags) -> None:
        """Read some more pages."""
        pages = np.flatnonzero(wanted & ~self.is_read)
        self.is_read[pages] = True
        frames = self.pages.read(pages, self.columns)
        frame = pl.concat(frames) if frames else pl.DataFrame(
            schema={name: self.pages.schema[name] for name in self.columns}
        )  # fmt: skip
        counts = self.pages.rows[pages]
        places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        frame = frame.with_columns(
            in_ticks(self.time).alias(_TIME),
            pl.Series(_ORDER, np.repeat(pages, counts) * (1 << 32) + places, dtype=pl.Int64),
            *self._seen_key(),
        )
        frame = frame.with_columns(self._cells(frame))
        known = frame if self._rows is None else pl.concat([self._rows, frame])
        self._rows = known.sort(_TIME, _ORDER)

    def _seen_key(self) -> list[pl.Expr]:
        """The first key as statistics have it, and keys of floats as partitions have them."""
        schema = self.pages.schema
        floats = [pl.col(k).fill_nan(None) for k in self.keys if schema[k].is_float()]
        seen = as_seen(self.keys[0], schema[self.keys[0]]) if self.keys else None
        return floats + ([pl.lit(0).alias(_SEEN)] if seen is None else [seen.alias(_SEEN)])

    def _cells(self, frame: pl.DataFrame) -> pl.Series:
        """The cell of each row's key."""
        if self.ranges is None:
            return pl.Series(_CELL, np.zeros(len(frame), np.int64))
        distinct = frame[_SEEN].unique()
        cells = pl.DataFrame({_SEEN: distinct, _CELL: self.ranges.of_keys(distinct)})
        return frame.select(_SEEN).join(
            cells, on=_SEEN, how="left", nulls_equal=True, maintain_order="left"
        )[_CELL]  # fmt: skip

    def _inside(self, bounds: pl.DataFrame) -> pl.DataFrame:
        """The rows that have been read and are of a core, with its number."""
        # the cores of different cells share none of them, and those of one lie apart in time
        groups = bounds.select(_CELL, "last").unique().sort(_CELL)
        cells = self.rows[_CELL].to_numpy()
        place = np.searchsorted(groups[_CELL].to_numpy(), cells, "right")
        limits = np.concatenate(([np.iinfo(np.int64).min], groups["last"].to_numpy()))
        numbered = self.rows.with_columns(pl.Series(_GROUP, place, dtype=pl.UInt32))
        numbered = numbered.filter(pl.Series(cells <= limits[place]))
        starts = bounds.select(
            pl.col(_CELL).rank("dense").alias(_GROUP), CORE, _START, _END
        ).sort(_START)  # fmt: skip
        found = numbered.join_asof(
            starts, left_on=_TIME, right_on=_START, by=_GROUP, check_sortedness=False
        )
        return found.filter(pl.col(_TIME) <= pl.col(_END))

    def _needs(self, inside: pl.DataFrame, holds: pl.Expr) -> Needs:
        """The partitions of cores before whose first row something is to be known."""
        first = pl.col(_TIME) == pl.col(_TIME).first()
        needs = (
            inside.with_columns(holds.alias(_HOLDS))
            .group_by(CORE, *self.keys, maintain_order=True)
            .agg(
                pl.col(_TIME).first(),
                pl.col(_HOLDS).filter(first).any(),
                pl.col(_START).first(),
                pl.col(_SEEN).first(),
            )
        )
        if not self.reach.reads_the_past:
            needs = needs.filter(pl.col(_HOLDS))
        shown, own = self._partitions(needs)
        rows = PartitionRows(shown, self.rows[_TIME].to_numpy())
        return Needs(
            pages=self.pages,
            page_times=(self.firsts, self.lasts),
            key=self.keys[0] if self.keys else None,
            reach=self.reach,
            rows=rows,
            cores=needs[CORE],
            partitions=own,
            keys=needs[_SEEN],
            firsts=needs[_TIME].to_numpy(),
            starts=needs[_START].to_numpy(),
        )

    def _partitions(self, needs: pl.DataFrame) -> tuple[Words, Words]:
        """The number of the partition of each row, -1 of those without needs, and of each need."""
        if not self.keys:
            return np.zeros(len(self.rows), np.int64), np.zeros(len(needs), np.int64)
        known = needs.select(self.keys).unique(maintain_order=True).with_row_index(_PARTITION)

        def numbers(frame: pl.DataFrame) -> Words:
            joined = frame.select(self.keys).join(
                known, on=self.keys, how="left", nulls_equal=True, maintain_order="left"
            )
            found: Words = joined[_PARTITION].cast(pl.Int64).fill_null(-1).to_numpy()
            return found

        return numbers(self.rows), numbers(needs)
