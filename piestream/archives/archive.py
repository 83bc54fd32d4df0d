"""`ps.archive`: rows on disk, to be added to, looked into, and queried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from piestream.archives.durable import check_size, missing_files_told
from piestream.archives.incoming import as_frame, fitting
from piestream.archives.manifest import BatchId, Manifest
from piestream.archives.on_spark import SparkArchive
from piestream.archives.pages import FILE, Pages, scanned
from piestream.archives.plain import parquet_files, plain_pages
from piestream.archives.requests import aggregation_of
from piestream.archives.rewriting import compacted, retained
from piestream.archives.statistics import statistics_of_nothing
from piestream.archives.store import Store
from piestream.errors import ArchiveError
from piestream.expressions.durations import DurationLike
from piestream.plan.columns import is_moment

__all__ = ["PAGE_ROWS", "Archive", "archive"]

#: No page and no file holds more rows.
_MOST_ROWS = (1 << 31) - 1

#: The defaults: rows of a page, and of a file.
PAGE_ROWS = 1 << 14
FILE_ROWS = 1 << 20


def archive(
    path: str | Path,
    *,
    time: str | None = None,
    key: str | Sequence[str] | None = None,
    page_rows: int | None = None,
    file_rows: int | None = None,
) -> Archive:
    """An archive: a directory of Parquet files, of which queries read only where a match can be.

    Parameters
    ----------
    path
        The directory. A directory of Parquet files that something else has written, or one such
        file, is an archive too; it is read only, and has the statistics that its files have.
    time
        The column of times. Given, the archive is created if there is none.
    key
        The column, or the columns, that tell partitions apart. Rows of one key lie together within
        a span of time, so that a query of few keys reads few pages.
    page_rows, file_rows
        Of an archive that is created: how many rows a page has, which is what is read at once
        (16,384), and about how many a file (1,048,576).

    Raises
    ------
    ArchiveError
        There is no archive, or it has another time or key than is given.

    >>> import tempfile, polars as pl, piestream as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lake = ps.archive(f"{folder}/lake", time="ts", key="car")
    ...     lake.append(pl.DataFrame({"ts": [1, 2], "car": [7, 7], "speed": [50.0, 80.0]}))
    ...     lake
    2
    <Archive of 2 rows in 1 file, by car and ts>
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"the place of an archive is a path, not {path!r}")
    place = Path(path)
    store = Store(place)
    keys = _names_of_key(key)
    _check_settings(time, keys, page_rows, file_rows)
    if not store.exists:
        if place.is_file() or (place.is_dir() and parquet_files(place)):
            store.check_manifest()
            if time is not None or keys is not None:
                raise ArchiveError(
                    f"{place} has Parquet files that are no archive of piestream's: leave out time "
                    "and key to read them, or append their rows to an archive elsewhere"
                )
            return Archive(place, None)
        if time is None:
            raise ArchiveError(
                f'there is no archive {place}: ps.archive(path, time="ts") creates one whose times '
                "are in the column ts"
            )
        if place.is_dir() and any(place.iterdir()) and not (place / "pending").is_dir():
            raise ArchiveError(f"{place} is a directory with other files in it, and no archive")
        rows = page_rows or PAGE_ROWS
        if file_rows is not None and file_rows < rows:
            raise ValueError(
                f"file_rows is {file_rows:,}, and a page has {rows:,} rows: a file has a page at least"
            )
        store.create(Manifest(time, keys or (), rows, file_rows or max(FILE_ROWS, rows)))
    found = Archive(place, store)
    found.check(time, keys, page_rows, file_rows)
    return found


def _names_of_key(key: Any) -> tuple[str, ...] | None:
    """The names of the columns of a key; TypeError if these are none."""
    if key is None:
        return None
    names = (key,) if isinstance(key, str) or not isinstance(key, Sequence) else tuple(key)
    if not all(isinstance(name, str) and name for name in names):
        raise TypeError(f"key is the name of a column, or a list of names, not {key!r}")
    return names


def _check_settings(
    time: Any, keys: tuple[str, ...] | None, page_rows: Any, file_rows: Any
) -> None:
    """Refuse what no archive can have, before anything is written."""
    if time is not None and (not isinstance(time, str) or not time):
        raise TypeError(f"time is the name of a column, not {time!r}")
    columns = [*filter(None, [time]), *(keys or ())]
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is named twice: the time and the key are of different columns")
    for name, value in (("page_rows", page_rows), ("file_rows", file_rows)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} is a number of rows, not {value!r}")
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
        if value > _MOST_ROWS:
            raise ValueError(f"{name} is {value}; it is at most {_MOST_ROWS:,}")


class Archive:
    """Rows on disk, which `archive` opens.

    It shows the generation that was the latest when it was opened, or last written through it;
    `refresh` takes notice of what others have written since.

    >>> import tempfile, piestream as ps
    >>> query = ps.query("FROM s ORDER BY ts DEFINE a AS x > 6 PATTERN a WITHIN 9")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lake = ps.archive(folder, time="ts")
    ...     added = lake.append([{"ts": 1, "x": 5}, {"ts": 2, "x": 7}])
    ...     query.run(lake).rows()
    [(2, 2, None)]
    """

    def __init__(self, path: Path, store: Store | None) -> None:
        self.path = path
        self._store = store
        self._manifest = None if store is None else store.manifest()
        self._statistics: dict[str, pl.DataFrame] = {}  # of files, which never change
        self._pages: Pages | None = None

    def check(
        self, time: str | None, key: tuple[str, ...] | None, page_rows: int | None,
        file_rows: int | None,
    ) -> None:  # fmt: skip
        """Refuse settings that are not those of the archive."""
        if self._manifest is None:
            return
        given = {"time": time, "key": key, "page_rows": page_rows, "file_rows": file_rows}
        for name, value in given.items():
            own = getattr(self._manifest, name)
            if value is not None and value != own:
                was, wanted = (
                    (", ".join(each) or "none") if isinstance(each, tuple) else repr(each)
                    for each in (own, value)
                )
                raise ArchiveError(f"the {name} of {self.path} is {was}, not {wanted}")

    # -- what it is -------------------------------------------------------------------------------

    @property
    def time(self) -> str | None:
        """The column of times; None of files that something else has written."""
        return None if self._manifest is None else self._manifest.time

    @property
    def key(self) -> tuple[str, ...]:
        """The columns whose values make the key of a partition."""
        return () if self._manifest is None else self._manifest.key

    @property
    def generation(self) -> int:
        """The number of its latest generation: each change makes one more."""
        return 0 if self._manifest is None else self._manifest.generation

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.pages.n_rows if self._manifest is None else self._manifest.rows

    @property
    def files(self) -> list[Path]:
        """The Parquet files, for other engines to read."""
        if self._manifest is None or self._store is None:
            return list(self.pages.paths)
        return [self._store.rows_path(file) for file in self._manifest.files]

    @property
    def schema(self) -> pl.Schema:
        """The columns and their types."""
        return self.pages.schema

    @property
    def pages(self) -> Pages:
        """What is known of each page."""
        if self._pages is not None and self._pages.may_be_overwritten:
            self._pages = None
        if self._pages is None:
            self._pages = self._own_pages() if self._store is not None else self._plain_pages()
        return self._pages

    def _plain_pages(self) -> Pages:
        return plain_pages(self.path, parquet_files(self.path))

    def _own_pages(self) -> Pages:
        manifest, store = self._manifest, self._store
        assert manifest is not None
        assert store is not None
        schema = manifest.columns
        if schema is None:
            raise ArchiveError(
                f"{self.path} has had no rows yet, so it has no columns: append some first"
            )
        known = self._statistics
        self._statistics = {
            file.name: known[file.name] if file.name in known else store.statistics(file)
            for file in manifest.files
        }
        key = manifest.key[0] if manifest.key else None
        tables = [
            table.insert_column(0, pl.Series(FILE, [number] * len(table), dtype=pl.Int64))
            for number, table in enumerate(t.clone() for t in self._statistics.values())
        ]
        nothing = statistics_of_nothing(schema, key)
        nothing = nothing.insert_column(0, pl.Series(FILE, [], dtype=pl.Int64))
        return Pages(
            schema, tuple(self.files), pl.concat([nothing, *tables], rechunk=True),
            manifest.time, manifest.key,
            load_filters=lambda: pl.concat(
                [pl.DataFrame(), *map(store.filters, manifest.files)], how="diagonal"
            ),
            sizes=tuple(file.bytes for file in manifest.files),
        )  # fmt: skip

    def refresh(self) -> Archive:
        """Take notice of what others have written; gives the archive itself.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     ps.archive(folder).append([{"ts": 1, "x": 5}])
        ...     lake.rows, lake.refresh().rows
        1
        (0, 1)
        """
        if self._store is None:
            self._pages = None
        else:
            self._become(self._store.manifest())
        return self

    def renewed(self) -> Archive:
        """The archive itself, which takes notice of what others have written if files of its own are gone.

        Raises
        ------
        ArchiveError
            A file is missing that the archive names by then.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     added = lake.append([{"ts": 1, "x": 5}])
        ...     _ = ps.archive(folder).retain(since=2)
        ...     lake.rows, lake.renewed().rows
        (1, 0)
        """
        if not all(path.exists() for path in self.files):
            self.refresh()
            with missing_files_told(self.path):
                for path in self.files:
                    path.stat()
        if self._manifest is not None:
            for path, file in zip(self.files, self._manifest.files, strict=True):
                check_size(path, file.bytes)
        return self

    def _become(self, manifest: Manifest) -> None:
        if manifest != self._manifest:
            self._manifest = manifest
            self._pages = None

    def scan(self) -> pl.LazyFrame:
        """All rows as a lazy Polars frame, which is to be collected before others replace files.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     lake.append([{"ts": 1, "x": 5}, {"ts": 2, "x": 7}])
        ...     lake.scan().select("x").sum().collect().item()
        2
        12
        """
        if not self.renewed().files:
            return pl.LazyFrame(schema=self.schema)
        return self.pages.scan() if self._store is None else scanned(self.files, {})

    def on_spark(self, session: Any) -> SparkArchive:
        """The archive for queries on Spark: give it to `Query.run` in the place of a Spark frame.

        Spark reads the files, and of these the pages, where a match can be.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     added = lake.append([{"ts": 1, "x": 5}])
        ...     lake.on_spark(None)  # a session, as in query.run(lake.on_spark(spark))
        <Archive of 1 rows in 1 file, by ts> on Spark
        """
        return SparkArchive(self, session)

    def __repr__(self) -> str:
        n_files = len(self.files)
        files = f"{n_files:,} file{'' if n_files == 1 else 's'}"
        order = " and ".join(filter(None, [", ".join(self.key), self.time]))
        return f"<Archive of {self.rows:,} rows in {files}{', by ' if order else ''}{order}>"

    # -- aggregates -------------------------------------------------------------------------------

    def aggregate(
        self,
        *aggregates: str,
        every: DurationLike | None = None,
        where: str | pl.Expr | None = None,
        between: tuple[Any, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> pl.DataFrame:
        """Aggregates of the rows, from statistics where these are enough.

        Only pages that are not wholly in the range, in one span and in what ``where`` selects are read.
        Sums are exact; those of floats are rounded once, so that they depend on nothing but the rows.

        Parameters
        ----------
        aggregates
            ``"AVG(speed)"``, ``"MAX(speed) AS top"``, ``"COUNT(*)"``: of COUNT, SUM, AVG, MIN, MAX.
        every
            The length of the spans of time that have a row each, if they have rows; they are counted
            from time 0 (1970-01-01 00:00 UTC) on. Left out, all rows are one span.
        where
            A predicate over one row: only rows count of which it is true.
        between
            The first time, and the one before which rows still count; either may be None.
        parameters
            What stands for ``:limit`` and the like in ``where``, by name; never read as text.

        Raises
        ------
        QueryError
            An aggregate or the predicate is wrong, or does not fit the columns.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     added = lake.append([{"ts": ts, "x": ts * 0.1} for ts in range(10)])
        ...     lake.aggregate("SUM(x)", "COUNT(*)", every=4, where="x > 0.05").rows()
        [(0, 0.6000000000000001, 3), (4, 2.2, 4), (8, 1.7000000000000002, 2)]
        """
        if not aggregates:
            raise TypeError('aggregate takes at least one aggregate, such as "COUNT(*)"')
        asked = (self._time_column(), aggregates, every, where, between, parameters)
        try:
            return aggregation_of(self.pages, *asked).result()
        except FileNotFoundError:  # others have replaced files since
            self.refresh()
        with missing_files_told(self.path):
            return aggregation_of(self.pages, *asked).result()

    def _time_column(self) -> str:
        if self.time is not None:
            return self.time
        found = [name for name, dtype in self.schema.items() if is_moment(dtype)]
        if len(found) != 1:
            raise ArchiveError(
                f"{self.path} has {len(found)} date or datetime columns, so it is not known which is its "
                'time: append its rows to an archive, ps.archive(path, time="ts")'
            )
        return found[0]

    # -- changes ----------------------------------------------------------------------------------

    def append(self, rows: Any, *, batch: BatchId | None = None) -> int:
        """Add rows; gives how many were added.

        When it returns they are on the disk, and stay there whatever happens; before that, none of
        them is in the archive. Rows may be in any order and older than what is there; `compact` puts
        them where they belong.

        Parameters
        ----------
        rows
            A frame of Polars, pandas, PyArrow or DuckDB, or a list of dicts. Its columns and types are
            those of the rows that are there.
        batch
            A number or a name of these rows: if it is known already, nothing is added. The last 4,096
            are known. In Spark's ``foreachBatch`` it is the job's name with the number, as in
            ``f"trades:{n}"``: every job, and every new checkpoint, counts from 0.

        Raises
        ------
        ArchiveError
            Another process is writing the archive.
        SchemaError
            The columns are others.
        TimeError
            A row has no time.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     lake.append([{"ts": 1, "x": 5}], batch=1), lake.append([{"ts": 1, "x": 5}], batch=1)
        (1, 0)
        """
        store = self._writable()
        if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int | str)):
            raise TypeError(f"batch is a number or a text, not {batch!r}")
        frame = as_frame(rows)
        with store.writing() as manifest:
            if batch is not None and batch in manifest.batches:
                self._become(manifest)
                return 0
            frame, manifest = fitting(frame, manifest)
            if not len(frame) and batch is None and self._manifest == manifest:
                return 0
            self._become(store.commit(manifest, (), store.slices(manifest, frame), batch))
        return len(frame)

    def compact(self) -> int:
        """Merge small files, and those that overlap in time.

        Returns
        -------
        How many files were replaced by others; 0 if there was nothing to merge. The rows stay the same.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     for ts in (1, 2, 3):
        ...         added = lake.append([{"ts": ts, "x": 5}])
        ...     lake.compact(), len(lake.files)
        (3, 1)
        """
        store = self._writable()
        with store.writing() as manifest:
            manifest, replaced = compacted(store, manifest)
            self._become(manifest)
        return replaced

    def retain(self, keep: DurationLike | None = None, *, since: Any = None) -> int:
        """Remove old rows for good; gives how many.

        ``since`` is the first time that stays; ``keep`` says how long before the latest time that is:
        ``"30 days"``, a timedelta, or an int of ticks.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     added = lake.append([{"ts": ts, "x": 5} for ts in range(10)])
        ...     lake.retain(since=4), lake.retain(keep=2), lake.rows
        (4, 3, 3)
        """
        store = self._writable()
        if (keep is None) == (since is None):
            raise TypeError("retain takes either keep, a duration, or since, a time")
        with store.writing() as manifest:
            manifest, removed = retained(store, manifest, keep, since)
            self._become(manifest)
        return removed

    def verify(self) -> list[str]:
        """What is wrong with the files: nothing, or a sentence for each that is damaged or missing.

        Every file is read, and its statistics are calculated again.

        >>> import tempfile, piestream as ps
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     lake = ps.archive(folder, time="ts")
        ...     added = lake.append([{"ts": 1, "x": 5}])
        ...     sound = lake.verify()
        ...     _ = lake.files[0].write_bytes(b"PAR1")
        ...     sound, len(lake.verify())
        ([], 1)
        """
        return self._writable().verified()

    def _writable(self) -> Store:
        if self._store is None:
            raise ArchiveError(
                f"{self.path} has files that something else has written: they are read, not changed; "
                'ps.archive(path, time="ts") creates an archive'
            )
        return self._store
