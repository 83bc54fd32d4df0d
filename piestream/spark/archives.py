"""Archives on Spark: of an archive that a query reads only the files, and the pages, where a match can be.

The pages are chosen as they are without Spark. Spark gets the files that have some, and a condition on the
times and the keys of these pages, by which it leaves out the others: they are its row groups. It may read
more than that, which changes no match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.inputs import Inputs
from piestream.archives.matching import found_completed
from piestream.archives.on_spark import SparkArchive
from piestream.archives.pages import Pages, Words
from piestream.archives.planning import BATCH_ROWS, ArchivePlan
from piestream.archives.selection import TooFarError
from piestream.archives.several import rows_around_matches
from piestream.archives.statistics import HIGHEST, LOWEST, MISSING
from piestream.archives.trials import read_by, worked_out
from piestream.errors import TieError
from piestream.expressions.backends import spark_text
from piestream.language.inputs import is_spark
from piestream.language.model import Query
from piestream.language.options import AtEnd, RunOptions
from piestream.language.parts import Emit
from piestream.spark.bound_frames import refuse_row_order
from piestream.spark.codec.types import polars_schema, zone_of
from piestream.spark.transfer import spark_frame

__all__ = ["all_rows", "with_frames"]

#: Up to so many rows of an archive among several streams are read here.
_MOST_GIVEN = 1 << 18
#: So many conditions at most, each for some pages: those that are next to each other have one.
_MOST_BOXES = 32


def with_frames(query: Query, given: Any, at_end: AtEnd = "open") -> Any:
    """What a query was given, with Spark frames in the place of archives."""
    if isinstance(given, SparkArchive):
        refuse_row_order(query)  # before anything is read here
        given.archive.renewed()
        return all_rows(given) if query.is_combined else _needed_rows(given, query, at_end)
    if isinstance(given, Mapping):
        for rows in given.values():
            if isinstance(rows, SparkArchive):
                rows.archive.renewed()
        near = _near_matches(query, given, at_end)
        return {
            name: all_rows(rows) if isinstance(rows, SparkArchive) else rows
            for name, rows in {**given, **near}.items()
        }
    return given


def _near_matches(query: Query, given: Mapping[str, Any], at_end: AtEnd) -> dict[str, Any]:
    """Of archives among several streams the rows of which matches can be made, where these are few.

    They are chosen by what all of them say together, read here, and given to Spark.
    """
    archives = {name: rows for name, rows in given.items() if isinstance(rows, SparkArchive)}
    if not query.is_combined or not archives:
        return {}
    inputs = Inputs(query)
    known = {inputs.name_of(name): _schema_or_archive(rows) for name, rows in given.items()}
    options = RunOptions(at_end=at_end)
    found = {}
    rows = rows_around_matches(query, known, options, _MOST_GIVEN)
    for name, one in archives.items():
        own = rows.get(inputs.name_of(name))
        if own is not None and len(own) <= _MOST_GIVEN:
            with suppress(ValueError):  # of what Spark cannot hold all files are read
                found[name] = spark_frame(one.session, own)
    return found


def _schema_or_archive(rows: Any) -> Any:
    """An archive, or no rows with the columns of what was given besides."""
    if isinstance(rows, SparkArchive):
        return rows.archive
    if not is_spark(rows):
        return rows
    zone = zone_of(rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    return pl.DataFrame(schema=polars_schema(rows.schema, zone))


def all_rows(given: SparkArchive) -> Any:
    """All rows of an archive as a Spark frame."""
    pages = given.archive.pages
    return _read(given, pages, pages.paths)


def _needed_rows(given: SparkArchive, query: Query, at_end: AtEnd) -> Any:
    """The rows of an archive of which matches can be made, as a Spark frame."""
    pages = given.archive.pages
    options = RunOptions(at_end=at_end)
    plan = ArchivePlan(query, pages, options, shows_ends=True)
    chosen = _chosen(plan, options)
    if chosen is None:
        return all_rows(given)
    numbers = np.unique(pages.files[chosen])
    if not len(numbers):
        return _read(given, pages, pages.paths[:1]).where("false")
    frame = _read(given, pages, [pages.paths[number] for number in numbers])
    key = query.partition_by[0] if query.partition_by else None
    condition = _condition(pages, chosen, plan.binding.time.name, key)
    return frame if condition is None else frame.where(condition)


def _chosen(plan: ArchivePlan, options: RunOptions) -> Words | None:
    """The pages that are needed; None if all are, or if that is not known without reading much.

    Spark evaluates what predicates read of earlier rows by itself. In cores it is the same as of all rows,
    since all that is needed for it is read; what it is elsewhere makes no match. In the same way
    what is open is closed where the rows of its partition end, which is elsewhere, or where they end indeed: of
    partitions that go on behind a core a row is read there.
    """
    if plan.cores is None:
        return None
    if not plan.cores:
        return np.zeros(0, np.int64)
    if plan.pages.rows[plan.wanted(plan.cores)].sum() > BATCH_ROWS:
        return None
    try:
        if plan.query.emit is Emit.BOTH:
            selection, _ = worked_out(
                plan, lambda part, selection: found_completed(part, selection, options)
            )
        else:
            selection = read_by(plan)
    except (TooFarError, TieError):
        return None
    if plan.pages.rows[selection.is_read].sum() > BATCH_ROWS:
        return None
    needed = selection.is_read.copy()
    symbols, streams = plan.query.symbols, plan.query.streams
    waits = any(s.bridging is not None for s in symbols) or plan.query.absences
    if waits or any(s.max_gap is not None for s in streams):
        needed[np.argmax(selection.lasts)] = True  # that a silence is over is known by later rows
    return np.flatnonzero(needed)


def _read(given: SparkArchive, pages: Pages, paths: Sequence[Path]) -> Any:
    """Some files as a Spark frame."""
    reader = given.session.read
    if not paths:
        return spark_frame(given.session, pl.DataFrame(schema=pages.schema))
    if pages.in_folders:
        reader = reader.option("basePath", _address(given.archive.path))
    return reader.parquet(*map(_url, paths))


def _url(path: Path) -> str:
    """A path as Spark takes it: in it signs such as * stand for themselves."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", _address(path))


def _address(path: Path) -> str:
    """A path that Spark does not take for a pattern."""
    return "file://" + path.resolve().as_posix()


def _condition(pages: Pages, chosen: Words, time: str, key: str | None) -> str | None:
    """What is true of the rows of some pages, and of few others; None if Spark cannot be told."""
    names = [time] if key is None or len(chosen) > _MOST_BOXES else [time, key]
    table = pages.table[chosen].sort(LOWEST + time)
    boxes = []
    for part in np.array_split(np.arange(len(table)), min(len(table), _MOST_BOXES)):
        some = table[part]
        sides = [_side(some, name) for name in names]
        if sides[0] is None:
            return None
        boxes.append("(" + " AND ".join(side for side in sides if side is not None) + ")")
    return " OR ".join(boxes)


def _side(table: pl.DataFrame, name: str) -> str | None:
    """The bounds of a column on some pages; None where it may be NULL, or Spark cannot say them."""
    if (
        LOWEST + name not in table.columns
        or not (table[MISSING + name] == 0).fill_null(False).all()
    ):
        return None
    low, high = table[LOWEST + name].min(), table[HIGHEST + name].max()
    if table.select(LOWEST + name, HIGHEST + name).null_count().sum_horizontal().item():
        return None
    dtype = table.schema[LOWEST + name]
    if dtype == pl.Datetime("ns", "*"):
        return None
    if not (isinstance(low, int | str | date) and isinstance(high, int | str | date)):
        return None
    column, first, last = spark_text.column(name), spark_text.literal(low), spark_text.literal(high)
    return f"{column} BETWEEN {first} AND {last}"
