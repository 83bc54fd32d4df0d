"""The rows of an archive by partition and time, as a query in brackets reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import polars as pl

from piestream.archives import costs
from piestream.archives.archive import Archive
from piestream.archives.cores import Flags
from piestream.archives.durable import missing_files_told
from piestream.archives.live_regions import OrderedRows, Regions, earlier
from piestream.archives.pages import Pages, Words
from piestream.archives.partition_rows import pages_with
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.copies import copied_but
from piestream.engine.projection import KEY, TIME, Projection
from piestream.errors import SchemaError
from piestream.plan.binding import Binding

__all__ = [
    "ALL",
    "ArchivedRows",
    "held_schema",
    "instant_columns",
    "last_of_each",
    "partition_columns",
    "projected",
]

_T = TypeVar("_T")

#: A column that all rows have with one value: where nothing partitions them, it does.
ALL = "all:"

#: Each step back in time to find what lies before is so many times longer than the one before it.
_STRIDE = 8
#: Pages are chosen for each partition apart where no more of these are asked for.
_MOST_APART = 64
_PLACE = "place:"
#: What it costs more to find the rows of regions, in rows of a scan for each row that is read.
_APART = 1.0
#: So often reading begins anew where others have replaced files since the archive was looked at.
_ATTEMPTS = 3


def partition_columns(projection: Projection) -> list[str]:
    """The columns that tell the partitions of rows apart; there is always one."""
    return [*projection.keys, ALL]


def instant_columns(projection: Projection) -> list[str]:
    """The columns that tell the rows of a partition apart, and order them."""
    return [TIME, *projection.sequence_columns]


def held_schema(projection: Projection) -> dict[str, pl.DataType]:
    """The types of rows as they are held."""
    return {**projection.schema, ALL: pl.Int8()}


def projected(projection: Projection, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the input as they are held: projected, and with `ALL`."""
    found = projection.project(rows)
    projection.check_times(found[TIME])
    return found.with_columns(pl.lit(0, pl.Int8).alias(ALL))


class ArchivedRows:
    """Reads projected rows of an archive; ``converted`` gives its rows the types of the query."""

    def __init__(
        self, archive: Archive, binding: Binding, converted: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> None:
        self.archive = archive
        self.projection = Projection(binding)
        self.converted = converted
        self.binding = binding
        self.keys = partition_columns(self.projection)
        self.instants = instant_columns(self.projection)
        #: The generation that was listed last, and its files.
        self._listed: tuple[int, dict[str, tuple[int, ...]]] = (-1, {})
        #: How many rows have been read so far.
        self.n_read = 0
        #: How often files were replaced while they were read.
        self.renewals = 0

    def __deepcopy__(self, memo: dict[int, object]) -> ArchivedRows:
        return copied_but(
            self, memo, archive=self.archive, converted=self.converted, binding=self.binding
        )

    @property
    def nothing(self) -> pl.DataFrame:
        """No rows."""
        return pl.DataFrame(schema=held_schema(self.projection))

    @property
    def latest(self) -> int:
        """The latest time that there is; before all times if there is none."""
        return INT64_MIN if self.is_empty else int(self._times[1].max(initial=INT64_MIN))

    @property
    def _times(self) -> tuple[Words, Words]:
        """The first and the last time of each page; all times where that is not known."""
        times = self._pages.times(self.binding.time.name)
        if times is None:
            n = len(self._pages)
            return np.full(n, INT64_MIN + 1), np.full(n, INT64_MAX - 1)
        return self._ticks(times[0]), self._ticks(times[1])

    def _ticks(self, own: Words) -> Words:
        """Ticks of the archive's column as ticks of the query's."""
        name = self.binding.time.name
        stored = self.archive.schema[name]
        if stored == self.binding.time.dtype:
            return own
        ticks = pl.Series(name, own, dtype=pl.Int64)
        moments = ticks.cast(pl.Int32).cast(stored) if stored == pl.Date else ticks.cast(stored)
        return moments.cast(self.binding.time.dtype).to_physical().cast(pl.Int64).to_numpy()

    @property
    def _pages(self) -> Pages:
        return self.archive.pages

    @property
    def is_empty(self) -> bool:
        """Whether the archive has no rows, and perhaps no columns yet."""
        return self.archive.time is not None and not self.archive.rows

    def generation(self) -> dict[str, tuple[int, ...]]:
        """The files that there are now, each with the times of its first and last row.

        Of files that may be overwritten what tells them from others stands behind these.
        """
        with missing_files_told(self.archive.path):
            self.archive.refresh()
        return self._again(self._files_listed)

    def _files_listed(self) -> dict[str, tuple[int, ...]]:
        if self.is_empty:
            return {}
        if self.archive.time is not None and self.archive.generation == self._listed[0]:
            return self._listed[1]
        firsts, lasts = self._times
        files = self._pages.files
        names = [str(path) for path in self._pages.paths]
        found: dict[str, tuple[int, ...]] = {}
        identities = self._pages.identities or ((),) * len(names)
        for number, name in enumerate(names):
            own = files == number
            if own.any():
                times = int(firsts[own].min()), int(lasts[own].max())
                found[name] = (*times, *identities[number])
        self._listed = self.archive.generation, found
        return found

    def read(self, wanted: pl.DataFrame | None, first: int, last: int, leads: int) -> pl.DataFrame:
        """The rows of some partitions from ``first`` to ``last``, and the ``leads`` rows before.

        ``wanted`` has the keys of the partitions; None is all, which then have no leads.
        """
        return self._again(lambda: self._read(wanted, first, last, leads))

    def _again(self, read: Callable[[], _T]) -> _T:
        """The result of a read, which is repeated if others replaced files meanwhile."""
        with missing_files_told(self.archive.path):
            for _ in range(_ATTEMPTS - 1):
                try:
                    return read()
                except FileNotFoundError:  # others have replaced files since
                    self.renewals += 1
                    self.archive.refresh()
            return read()

    def _read(self, wanted: pl.DataFrame | None, first: int, last: int, leads: int) -> pl.DataFrame:
        if self.is_empty:
            return self.nothing
        rows = self._between(wanted, first, last)
        if wanted is None or not leads:
            return rows
        return pl.concat([self._before(wanted, first, leads, max(last - first, 1)), rows])

    def read_all(self) -> pl.DataFrame:
        """All rows."""
        return self.read(None, INT64_MIN + 1, INT64_MAX - 1, 0)

    def read_regions(self, regions: Regions, leads: int) -> pl.DataFrame | None:
        """The rows of some regions, and at least the ``leads`` rows before each; others may be there.

        None where to read all rows costs no more.
        """
        if self.is_empty or not len(regions):
            return self.nothing
        return self._again(lambda: self._of_regions(regions, leads))

    def _of_regions(self, regions: Regions, leads: int) -> pl.DataFrame | None:
        earliest = int(self._times[0].min())
        wanted = regions.keys.unique()
        read = np.zeros(len(self._pages), np.bool_)
        rows = self.nothing
        lacking = np.full(len(regions), True)
        step = max(int((regions.lasts - regions.firsts).max()), 1)
        while lacking.any():
            since = earlier(regions.firsts, step) if leads else regions.firsts
            lacked = Regions(regions.keys, since, regions.lasts).only(lacking)
            pages = self._pages_of(lacked) & ~read
            read |= pages
            if not costs.is_worth_it(self._pages, read, _APART * int(self._pages.rows[read].sum())):
                return None
            found = self._projected(np.flatnonzero(pages))
            rows = pl.concat([rows, found.join(wanted, on=self.keys, how="semi", nulls_equal=True)])
            if not leads:
                break
            ordered = OrderedRows(rows, self.keys, self.instants, regions.keys)
            before = ordered.first_from(regions.firsts) - ordered.first_from(since)
            lacking &= (before < leads) & (since > earliest)
            step *= _STRIDE
        return rows

    def _pages_of(self, regions: Regions) -> Flags:
        """The pages that may have rows of some regions."""
        if not self.projection.keys or regions.keys.n_unique() > _MOST_APART:
            return self._touched(regions) & self._may_have(regions.keys)
        chosen = np.zeros(len(self._pages), np.bool_)
        for one in regions.keys.with_row_index(_PLACE).partition_by(self.keys):
            own = regions.only(np.isin(np.arange(len(regions)), one[_PLACE].to_numpy()))
            chosen |= self._touched(own) & self._may_have(own.keys)
        return chosen

    def _touched(self, regions: Regions) -> Flags:
        """The pages with times of some regions, of whatever partition."""
        firsts, lasts = self._times
        order = np.argsort(regions.firsts, kind="stable")
        begins, ends = regions.firsts[order], np.maximum.accumulate(regions.lasts[order])
        # of all regions this is the first that ends no earlier than the page begins
        at = np.searchsorted(ends, firsts, "left")
        return (at < len(ends)) & (begins[np.minimum(at, len(ends) - 1)] <= lasts)

    def keys_and_instants(self, files: set[str]) -> pl.DataFrame:
        """What tells each row of some files apart from all others."""

        def those() -> pl.DataFrame:
            numbers = [n for n, path in enumerate(self._pages.paths) if str(path) in files]
            return self._projected(np.flatnonzero(np.isin(self._pages.files, numbers)))

        return self._again(those).select(*self.keys, *self.instants)

    def latest_rows(self, columns: list[str], count: int) -> pl.DataFrame | None:
        """About so many of the latest rows, as they lie in the archive; None where columns are missing."""
        self.archive.refresh()
        if self.is_empty or any(name not in self.archive.schema for name in columns):
            return None

        def latest() -> pl.DataFrame:
            pages = self._pages
            order = np.argsort(-self._times[1], kind="stable")
            needed = int(np.searchsorted(np.cumsum(pages.rows[order]), count)) + 1
            return pl.concat(pages.read(np.sort(order[:needed]), columns))

        return self._again(latest)

    def held(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the query's types, as they are held."""
        return projected(self.projection, rows)

    def _before(self, wanted: pl.DataFrame, first: int, leads: int, step: int) -> pl.DataFrame:
        """The last rows of each partition before a time, looked for ever further back."""
        _, lasts = self._times
        earliest = int(self._times[0].min()) if len(lasts) else first
        found = self.nothing
        last, missing = first - 1, wanted
        while last >= earliest and len(missing):
            start = max(last - step, earliest)
            rows = self._between(missing, start, last)
            found = pl.concat([rows, found]).sort(self.instants, maintain_order=True)
            found = last_of_each(found, self.keys, leads)
            full = found.group_by(self.keys).len().filter(pl.col("len") >= leads)
            missing = missing.join(full, on=self.keys, how="anti", nulls_equal=True)
            last, step = start - 1, step * _STRIDE
        return found

    def _between(self, wanted: pl.DataFrame | None, first: int, last: int) -> pl.DataFrame:
        """The rows of some partitions between two times, both included."""
        firsts, lasts = self._times
        chosen = (firsts <= last) & (lasts >= first)
        if wanted is not None:
            chosen &= self._may_have(wanted)
        rows = self._projected(np.flatnonzero(chosen))
        rows = rows.filter((pl.col(TIME) >= first) & (pl.col(TIME) <= last))
        if wanted is not None:
            rows = rows.join(wanted, on=self.keys, how="semi", nulls_equal=True)
        return rows

    def _projected(self, pages: Words) -> pl.DataFrame:
        if not len(pages):
            return self.nothing
        try:
            rows = pl.concat(self._pages.read(pages, self.binding.columns))
        except SchemaError as error:
            raise SchemaError(
                f"the files of {self.archive.path} do not have the columns that the query was bound to: {error}"
            ) from None
        for name, dtype in rows.schema.items():
            if not _holds(self.binding.schema[name], dtype):
                raise SchemaError(
                    f"the column {name} of {self.archive.path} has type {dtype} now, and the query was bound to "
                    f"{self.binding.schema[name]}: open a new session, or cast it in the files"
                )
        self.n_read += len(rows)
        return projected(self.projection, self.converted(rows))

    def _may_have(self, wanted: pl.DataFrame) -> Flags:
        """Whether each page may have one of the partitions, by the first key column."""
        pages = self._pages
        name = self.binding.query.partition_by[0] if self.projection.keys else None
        if name is None or pages.schema[name] != wanted.schema[KEY + name]:
            return np.ones(len(pages), np.bool_)
        return pages_with(pages, name, wanted[KEY + name].unique())


_UNITS = ("ms", "us", "ns")


def _holds(bound: pl.DataType, dtype: pl.DataType) -> bool:
    """Whether a column holds all values of a type as they are."""
    if dtype == bound:
        return True
    if isinstance(bound, pl.Datetime) and isinstance(dtype, pl.Datetime):
        is_finer = _UNITS.index(dtype.time_unit) > _UNITS.index(bound.time_unit)
        return dtype.time_zone == bound.time_zone and not is_finer
    texts = (pl.String, pl.Categorical, pl.Enum)
    if isinstance(bound, texts) and isinstance(dtype, texts):
        return True
    try:
        both = [pl.DataFrame(schema={"": one}) for one in (bound, dtype)]
        return pl.concat(both, how="vertical_relaxed").schema[""] == bound
    except pl.exceptions.PolarsError:
        return False


def last_of_each(rows: pl.DataFrame, keys: list[str], count: int) -> pl.DataFrame:
    """The last rows of each partition, of rows in order of their instants."""
    behind = pl.int_range(pl.len()).reverse().over(keys)
    return rows.filter(behind < count)
