"""Archives among the inputs of a query over several streams: of each the rows of which a match can be made.

A match that is reported at r has an interval of every symbol that starts within the window before r. So
what the pages of all archives say together tells when there can be one, and of each archive the rows around
these times are enough, whatever the other streams have. Of intervals that come ready-made these are the rows
that start, or end, then: both are instants at which something can be reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.inputs import Inputs, bound_inputs
from piestream.adapters.read_columns import columns_to_read, lazily_read
from piestream.archives import costs
from piestream.archives.archive import Archive
from piestream.archives.closer import Rows, of_pages, rows_of_rarest
from piestream.archives.cores import NULL_CELL, Core, KeyRanges, Spans, later, touches
from piestream.archives.decoded import DecodedPages
from piestream.archives.decoding import Decoder
from piestream.archives.durable import damage_told, missing_files_told
from piestream.archives.pages import Pages, Words
from piestream.archives.parts import Part, parts_of
from piestream.archives.planning import LOOKED_AT, refuse_row_order
from piestream.archives.reach import (
    MOST_TICKS,
    Reach,
    is_local,
    latches_of,
    past_of,
    window_and_absent,
)
from piestream.archives.selection import RESERVED, Selection, TooFarError
from piestream.archives.statistics import LOWEST
from piestream.archives.store import in_ticks
from piestream.compiled.constants import INT64_MAX
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.plan.binding import query_ticks
from piestream.plan.columns import is_moment

__all__ = ["rows_around_matches", "rows_of_inputs"]


#: So often reading begins anew if others have replaced files since the archives were looked at.
_ATTEMPTS = 3


def rows_of_inputs(query: Query, given: Any, options: RunOptions) -> dict[str, Any]:
    """What a query of several streams was given, with rows of archives in their place."""
    inputs = Inputs(query)
    named = given if isinstance(given, Mapping) else {inputs.name_of(None): given}
    found = {inputs.name_of(name): rows for name, rows in named.items()}
    archives = {key: rows for key, rows in found.items() if isinstance(rows, Archive)}
    for rows in found.values():
        if isinstance(rows, pl.LazyFrame):
            rows.collect_schema()  # a file that it lacks is none of an archive
    for _ in range(_ATTEMPTS - 1):
        try:
            return _rows_of(inputs, found, archives, options)
        except FileNotFoundError:
            for one in archives.values():
                one.refresh()
    with missing_files_told(" or ".join(str(one.path) for one in archives.values())):
        return _rows_of(inputs, found, archives, options)


def _rows_of(
    inputs: Inputs, given: Mapping[str, Any], archives: Mapping[str, Archive], options: RunOptions
) -> dict[str, Any]:
    """What was given, with rows of the generations that the archives show."""
    refuse_row_order(inputs.query, {key: rows.pages for key, rows in archives.items()})
    found = dict(given)
    kept = {key: _nothing_decoded(inputs, key, one) for key, one in archives.items()}
    found |= _selected(inputs, found, kept, options)
    for key, one in archives.items():
        if isinstance(found[key], Archive):
            with damage_told(one.files, is_own=one.time is not None):
                found[key] = _all_rows(inputs, key, one, kept[key])
    return found


def _nothing_decoded(inputs: Inputs, key: str, archive: Archive) -> DecodedPages:
    """What will have been decoded of the columns of an archive that a query reads."""
    schema = archive.pages.schema
    read = columns_to_read(
        inputs.readers[key], schema.names(), lambda name: is_moment(schema[name])
    )
    return DecodedPages(archive.pages, read)


def _all_rows(inputs: Inputs, key: str, archive: Archive, kept: DecodedPages) -> pl.DataFrame:
    """All rows of an archive, with the columns that a query reads."""
    if not kept.values:
        return lazily_read(inputs.readers[key], archive.scan()).collect()
    every = np.arange(len(kept.pages)), kept.columns
    return pl.concat(kept.read_parts([every], is_last=True))


def rows_around_matches(
    query: Query, given: Mapping[str, Any], options: RunOptions, most: int
) -> dict[str, pl.DataFrame]:
    """Of archives among inputs, by their names, the rows of those of which not all are needed.

    Of an archive that has more pages to read than those of the ``most`` rows all are taken to be needed.
    """
    inputs = Inputs(query)
    kept = {
        key: _nothing_decoded(inputs, key, rows)
        for key, rows in given.items()
        if isinstance(rows, Archive)
    }
    return _selected(inputs, given, kept, options, most)


def _selected(
    inputs: Inputs, given: Mapping[str, Any], kept: Mapping[str, DecodedPages],
    options: RunOptions, most: int = costs.MOST_TOGETHER,
) -> dict[str, pl.DataFrame]:  # fmt: skip
    """The rows of the archives of which not all are needed."""
    query = inputs.query
    archives = {key: given[key] for key in kept}
    if not archives or not is_local(query, options):
        return {}
    try:
        schemas = {key: _schema(inputs, key, rows) for key, rows in given.items()}
        whole = bound_inputs(query, schemas).binding
        lengths = window_and_absent(query, query_ticks(query, whole.time))
        if lengths is None or max(lengths) > MOST_TICKS:
            return {}
        window, absent = lengths
        parts = parts_of(whole, archives, max(window, absent))
    except (ValueError, TypeError):
        return {}  # the fault is reported where all rows are bound
    if not any(part.present for part in parts):
        return {}
    allowed = _allowed(parts, kept, window, _waits(query))
    found = {}
    for part in parts:
        if part.is_whole:
            continue
        if part.ends is None:
            rows = _rows(part, kept[part.key], allowed, window, most, options)
        else:
            rows = _interval_rows(part, kept[part.key], allowed, most)
        if rows is not None:
            found[part.key] = rows
    return found


@dataclass(frozen=True)
class _Allowed:
    """The times at which a match can be reported, of all partitions, and of some keys if these are known."""

    spans: Spans
    waits: bool  # whether something is reported because time has passed
    rare: Rows | None = None
    of_groups: tuple[Words, Words] | None = (
        None  # the times at which each group of rare rows allows one
    )

    def cells(self, pages: Pages, key: str | None) -> tuple[KeyRanges, dict[int, Spans]] | None:
        """The cells of the keys on some pages, each with its times; None where keys do not count."""
        rare, groups = self.rare, self.of_groups
        if key is None or rare is None or groups is None or rare.keys is None:
            return None
        if pages.table.schema.get(LOWEST + key) != rare.keys.dtype:
            return None
        ranges = rare.ranges(pages, key)
        if ranges is None:
            return None
        cells = ranges.of_keys(rare.keys)
        found = {
            cell: self.spans.within(Spans.of(groups[0][cells == cell], groups[1][cells == cell]))
            for cell in np.unique(cells).tolist()
        }
        return of_pages(ranges, len(pages)), found


def _allowed(
    parts: Sequence[Part], kept: Mapping[str, DecodedPages], window: int, waits: bool
) -> _Allowed:
    """The times at which a match can be reported."""
    spans = {
        (place, number): part.spans(number, window)
        for place, part in enumerate(parts)
        for number in part.present
    }
    found = reduce(Spans.within, spans.values())
    rarest = min(spans, key=lambda at: int(parts[at[0]].verdicts[at[1]].can_hold.sum()))
    allowed = _Allowed(found, waits and len(found.firsts) > 0)
    part = parts[rarest[0]]
    return _closer(part, kept[part.key], rarest[1], allowed, window, parts)


def _closer(
    part: Part, kept: DecodedPages, number: int, allowed: _Allowed, window: int,
    parts: Sequence[Part],
) -> _Allowed:  # fmt: skip
    """Where the rows at which a predicate holds allow a report, if it does not cost much to look."""
    pages, verdict = part.archive.pages, part.verdicts[number]
    is_of_other_keys = bool(part.binding.query.partition_by) and part.key_column is None
    if part.ends is not None or is_of_other_keys or pages.n_rows < costs.LEAST_ROWS:
        return allowed
    chosen = verdict.can_hold & touches(allowed.spans, part.times[0], later(part.times[1], window))
    n_rows = sum(one.archive.pages.n_rows for one in parts)
    if verdict.always_holds[chosen].all() or (
        costs.read_cost(pages, chosen, row=1) > LOOKED_AT * n_rows - costs.plan_cost(pages)
    ):
        return allowed
    rows = rows_of_rarest(kept, part.binding, number, chosen, -(-window // part.ticks))
    if rows is None:
        return allowed
    firsts, lasts = rows.firsts * part.ticks, later(rows.lasts * part.ticks, window)
    spans = Spans.of(firsts, lasts) if len(firsts) else Spans(firsts, lasts)
    return replace(allowed, spans=allowed.spans.within(spans), rare=rows, of_groups=(firsts, lasts))


def _schema(inputs: Inputs, key: str, rows: Any) -> pl.Schema:
    if isinstance(rows, Archive):
        return rows.schema
    if isinstance(rows, pl.LazyFrame):
        return rows.collect_schema()
    return inputs.frame(key, rows)[0].schema


def _interval_rows(
    part: Part, kept: DecodedPages, allowed: _Allowed, most: int
) -> pl.DataFrame | None:
    """The rows of intervals of an archive that start or end while a match can be there; None: all."""
    pages = part.archive.pages
    if pages.n_rows < costs.LEAST_ROWS:
        return None
    assert part.ends is not None
    lasts = np.maximum(part.times[1], part.ends)
    cells = allowed.cells(pages, part.key_column)
    wanted = np.zeros(len(pages), np.bool_)
    for cell, own in ((None, allowed.spans),) if cells is None else cells[1].items():
        touched = touches(Spans(later(own.firsts, -part.back), own.lasts), part.times[0], lasts)
        wanted |= (
            touched if cell is None or cells is None else touched & cells[0].reach((cell, cell))
        )
    if allowed.waits:
        wanted[[part.times[1].argmax(), lasts.argmax()]] = True  # up to when time has passed
    if pages.rows[wanted].sum() > most or not costs.is_worth_it(pages, wanted):
        return None
    columns = part.binding.columns
    nothing = pl.DataFrame(schema={name: pages.schema[name] for name in columns})
    return pl.concat([nothing, *kept.read(np.flatnonzero(wanted), columns)])


def _rows(
    part: Part, kept: DecodedPages, allowed: _Allowed, window: int, most: int, options: RunOptions
) -> pl.DataFrame | None:
    """The rows of one archive around the times at which a match can be reported; None: all."""
    pages, binding = part.archive.pages, part.binding
    reserved = any(name.startswith(RESERVED) for name in binding.columns)
    latches = latches_of(binding, options)
    past = past_of([column.node for column in binding.past if column not in latches])
    if pages.n_rows < costs.LEAST_ROWS or past is None or reserved:
        return None
    ticks = query_ticks(binding.query, binding.time)
    reach = Reach(
        -(-window // part.ticks), 1 + past[0], past[1], ticks.max_gap, bool(binding.past),
        absent=-(-part.back // part.ticks), latches=latches,
    ).with_bridges(ticks)  # fmt: skip
    cells = allowed.cells(pages, part.key_column)
    cores = []
    for cell, own in ((None, allowed.spans),) if cells is None else cells[1].items():
        spans = own.bridged(min((reach.back + 2) * part.ticks, INT64_MAX))
        firsts, lasts = spans.firsts // part.ticks, -(-spans.lasts // part.ticks)
        both = (NULL_CELL, INT64_MAX) if cell is None else (cell, cell)
        starts = later(firsts, -reach.back)
        cores += [
            Core(both, int(first), int(last), int(start))
            for first, last, start in zip(firsts, lasts, starts, strict=True)
        ]
    decoder = Decoder(kept, binding, part.verdicts, keeps_rows=True)
    ranges = None if cells is None else cells[0]
    selection = Selection(decoder, ranges, reach, grows=bool(latches))
    wanted = selection.wanted(*cores)
    if pages.rows[wanted].sum() > most or not costs.is_worth_it(pages, wanted):
        return None
    selection.most = costs.most_cost(pages, selection.cost_of(wanted), grows=bool(latches))
    try:
        rows = decoder.rows_of(selection.read_raw(cores))
    except TooFarError:
        return None
    return pl.concat([rows, _last_row(part, kept, rows)]) if allowed.waits else rows


def _last_row(part: Part, kept: DecodedPages, rows: pl.DataFrame) -> pl.DataFrame:
    """A row at the last time of an archive, up to which time has passed, if none was read there."""
    pages, time = part.archive.pages, part.binding.time.name
    times = pages.times(time)
    assert times is not None
    last = int(times[1].max())
    is_last = in_ticks(time) == last
    if rows.select(is_last.any()).item():
        return rows[:0]
    found = pl.concat(kept.read(np.array([times[1].argmax()]), part.binding.columns))
    return found.filter(is_last)[:1].select(rows.columns)


def _waits(query: Query) -> bool:
    """Whether something is known only when time has passed, without an event."""
    if query.is_known_late or query.has_silences:
        return True
    return any(
        stream.max_gap is not None or (stream.query is not None and _waits(stream.query))
        for stream in query.streams
    )
