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
from piestream.archives.bounded import latest_firsts
from piestream.archives.closer import Rows, of_pages, rows_of_rarest
from piestream.archives.cores import NULL_CELL, Core, Flags, KeyRanges, Spans, later, touches
from piestream.archives.decoded import DecodedPages
from piestream.archives.decoding import Decoder
from piestream.archives.durable import damage_told, missing_files_told
from piestream.archives.pages import Pages, Words
from piestream.archives.parts import Inside, Part, parts_of
from piestream.archives.planning import LOOKED_AT, refuse_row_order
from piestream.archives.reach import (
    MOST_TICKS,
    Reach,
    is_local,
    latches_of,
    past_of,
    window_and_absent,
)
from piestream.archives.row_reach import rows_around
from piestream.archives.selection import (
    PLACE,
    RESERVED,
    Selection,
    TooFarError,
    places_of,
)
from piestream.archives.statistics import KEYS, LOWEST
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
        window, absent = window_and_absent(query_ticks(query, whole.time))
        if max(window, absent) > MOST_TICKS:
            return {}
        parts = parts_of(whole, archives)
    except (ValueError, TypeError):
        return {}  # the fault is reported where all rows are bound
    if not any(part.needed for part in parts):
        return {}
    allowed = _allowed(parts, kept, window, max(window, absent), _waits(query))
    all_of = {part.key for part in parts if part.is_whole or not allowed.is_known_of(part)}
    by_key: dict[str, list[Part]] = {}
    for part in parts:
        if part.key not in all_of:
            by_key.setdefault(part.key, []).append(part)
    found = {
        key: _Reading(own, kept[key], allowed, most, options).rows() for key, own in by_key.items()
    }
    return {key: rows for key, rows in found.items() if rows is not None}


@dataclass(frozen=True)
class _Allowed:
    """The times at which a match can be reported, of all partitions, and of some keys if these are known."""

    spans: Spans
    back: int  # so long before a report rows count
    waits: bool  # whether something is reported because time has passed
    inside: Mapping[
        Inside, Spans
    ]  # where queries in brackets can have matches that others depend on
    rare: Rows | None = None
    of_groups: tuple[Words, Words] | None = (
        None  # the times at which each group of rare rows allows one
    )

    def is_known_of(self, part: Part) -> bool:
        """Whether it is known on what the matches of the queries depend that a stream is read by."""
        return all(one in self.inside for one in part.inside if one.depends)

    def around(self, part: Part, spans: Spans) -> tuple[Spans, int]:
        """At which times a stream is read for reports at some, and how long before all of these."""
        back = self.back
        for one in part.inside if len(spans.firsts) else ():
            back += one.absent
            if one.depends:
                own = self.inside[one]
                near = own.firsts <= spans.lasts.max()
                if one.memory is not None:
                    before = Spans.of(later(spans.firsts, -back), spans.lasts)
                    near = touches(before, own.firsts, own.lasts)
                spans = Spans.of(
                    np.concatenate((spans.firsts, own.firsts[near])),
                    np.concatenate((spans.lasts, own.lasts[near])),
                )
                back = max(back, one.window, one.absent)
        return spans, back

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
    parts: Sequence[Part], kept: Mapping[str, DecodedPages], window: int, back: int, waits: bool
) -> _Allowed:
    """The times at which a match can be reported."""
    found = _reports(parts, window)
    part, rarest = min(
        ((part, pages) for part in parts for pages in part.needed),
        key=lambda one: np.count_nonzero(one[1]),
    )
    known = {}
    for inner in {one for part in parts for one in part.inside if one.depends}:
        own = [part for part in parts if inner in part.inside]
        if inner.counts_rows:  # as many rows are read around those of one variable
            own = [replace(one, needed=sorted(one.needed, key=np.count_nonzero)[:1]) for one in own]
        if any(part.needed for part in own):
            known[inner] = _reports(own, inner.window).bridged(inner.memory or 0)
    allowed = _Allowed(found, back, waits and len(found.firsts) > 0, known)
    number = next((n for n, one in enumerate(part.verdicts) if one.can_start is rarest), None)
    if number is None:
        return allowed
    return _closer(part, kept[part.key], number, allowed, window, parts)


def _reports(parts: Sequence[Part], window: int) -> Spans:
    """The times at which the pages of some streams allow a report of what needs all of them."""
    spans = (part.spans(pages, window) for part in parts for pages in part.needed)
    return reduce(Spans.within, spans)


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


class _Reading:
    """What is read of one archive for the streams that read it."""

    def __init__(
        self, parts: Sequence[Part], decoded_pages: DecodedPages, allowed: _Allowed, most: int,
        options: RunOptions,
    ) -> None:  # fmt: skip
        self.decoded_pages = decoded_pages
        self.parts = parts
        self.pages = parts[0].archive.pages
        self.allowed = allowed
        self.most = most
        self.options = options
        self.columns = list(dict.fromkeys(n for part in parts for n in part.binding.columns))
        #: The pages that are read for the streams so far.
        self.wanted = np.zeros(len(self.pages), np.bool_)

    def rows(self) -> pl.DataFrame | None:
        """The rows that are needed, each once; None: all."""
        if self.pages.n_rows < costs.LEAST_ROWS:
            return None
        found = []
        for part in self.parts:
            rows = self._events(part) if part.ends is None else self._intervals(part)
            if rows is None:
                return None
            found.append(rows)
            if part.ends is None and self.allowed.waits:
                found.append(self._last_row(part, rows))
        if len(found) == 1:
            return found[0].drop(PLACE)
        return pl.concat(found).unique(PLACE).sort(PLACE).drop(PLACE)

    def _is_too_much(self, wanted: Flags) -> bool:
        """Whether it is better to read all than some more pages."""
        self.wanted |= wanted
        return self.pages.rows[self.wanted].sum() > self.most or not costs.is_worth_it(
            self.pages, self.wanted
        )

    def _intervals(self, part: Part) -> pl.DataFrame | None:
        """The rows of intervals that start or end while a match can be there; None: all."""
        assert part.ends is not None
        allowed, lasts = self.allowed, np.maximum(part.times[1], part.ends)
        cells = allowed.cells(self.pages, part.key_column)
        wanted = np.zeros(len(self.pages), np.bool_)
        for cell, reports in ((None, allowed.spans),) if cells is None else cells[1].items():
            own, back = allowed.around(part, reports)
            if not len(own.firsts):
                continue
            before = Spans.of(later(own.firsts, -back), own.lasts)
            touched = touches(before, part.times[0], lasts)
            wanted |= (
                touched if cell is None or cells is None else touched & cells[0].reach((cell, cell))
            )
        if allowed.waits:
            wanted[[part.times[1].argmax(), lasts.argmax()]] = True  # up to when time has passed
        return None if self._is_too_much(wanted) else self._rows_of(np.flatnonzero(wanted))

    def _rows_of(self, pages: Words) -> pl.DataFrame:
        """All rows of some pages, with their places."""
        nothing = pl.DataFrame(schema={name: self.pages.schema[name] for name in self.columns})
        rows = pl.concat([nothing, *self.decoded_pages.read(pages, self.columns)])
        return rows.with_columns(places_of(pages, self.pages.rows[pages]))

    def _events(self, part: Part) -> pl.DataFrame | None:
        """The rows around the times at which a match can be reported, with their places; None: all."""
        pages, binding, allowed = self.pages, part.binding, self.allowed
        latches = latches_of(binding, self.options)
        past = past_of([column.node for column in binding.past if column not in latches])
        if past is None or any(name.startswith(RESERVED) for name in self.columns):
            return None
        if part.counted is None or (part.counted and latches):
            return None
        ticks = query_ticks(binding.query, binding.time)
        own_rows, rows_behind = (0, 0) if binding.query.rows is None else rows_around(binding.query)
        back = -(-allowed.around(part, allowed.spans)[1] // part.ticks)
        reach = Reach(
            back, 1 + past[0] + part.counted, past[1],
            None if part.has_absent_silence else ticks.max_gap,  # a silence goes on over gaps
            bool(binding.past), absent=back, latches=latches, own_rows=own_rows,
            rows_behind=rows_behind, counted=part.counted,
        ).with_bridges(ticks)  # fmt: skip
        cells = allowed.cells(pages, part.key_column)
        cores = []
        for cell, reports in ((None, allowed.spans),) if cells is None else cells[1].items():
            own = allowed.around(part, reports)[0]
            spans = own.bridged(min((reach.back + 2) * part.ticks, INT64_MAX))
            firsts, lasts = spans.firsts // part.ticks, -(-spans.lasts // part.ticks)
            both = (NULL_CELL, INT64_MAX) if cell is None else (cell, cell)
            starts = later(firsts, -reach.back)
            if part.may_have_begun_before and len(
                starts
            ):  # so it is read from a row before that on
                certain = self._pages_of_cell(None if cells is None else cells[0], cell, part)
                if certain is None:
                    return None
                spans = Spans.of(latest_firsts(certain, self._times(part), starts), lasts)
                starts, lasts = spans.firsts, spans.lasts
            cores += [
                Core(both, int(start), int(last), int(start))
                for start, last in zip(starts, lasts, strict=True)
            ]
        decoder = Decoder(self.decoded_pages, binding, part.verdicts, kept=self.columns)
        ranges = None if cells is None else cells[0]
        selection = Selection(decoder, ranges, reach, grows=reach.is_sought)
        selection.most = costs.scan_cost(pages)
        if self._is_too_much(selection.wanted(*cores)):
            return None
        try:
            rows = selection.read_raw(cores)
        except TooFarError:
            return None
        return decoder.rows_of(rows).with_columns(rows[PLACE])

    def _times(self, part: Part) -> tuple[Words, Words]:
        """The first and the last times of pages, in ticks of their own."""
        found = self.pages.times(part.binding.time.name)
        assert found is not None
        return found

    def _pages_of_cell(
        self, ranges: KeyRanges | None, cell: int | None, part: Part
    ) -> Flags | None:
        """The pages that certainly have a row of the partition of a cell; None: it is not known."""
        keys = part.binding.query.partition_by
        if not keys:
            return np.ones(len(self.pages), np.bool_)
        if ranges is None or cell is None or cell < 0 or cell % 2 or len(keys) > 1:
            return None
        dtype, table = self.pages.schema[keys[0]], self.pages.table
        if KEYS + keys[0] not in table.columns or not (dtype.is_integer() or dtype == pl.String):
            return None
        value = ranges.boundaries[cell // 2]
        listed = table[KEYS + keys[0]].list.contains(value)
        return listed.fill_null(False).to_numpy().copy()

    def _last_row(self, part: Part, rows: pl.DataFrame) -> pl.DataFrame:
        """A row at the last time of an archive, up to which time has passed, if none was read there."""
        time = part.binding.time.name
        times = self._times(part)
        is_last = in_ticks(time) == int(times[1].max())
        if rows.select(is_last.any()).item():
            return rows[:0]
        return self._rows_of(np.array([times[1].argmax()])).filter(is_last)[:1]


def _waits(query: Query) -> bool:
    """Whether something is known only when time has passed, without an event."""
    if query.is_known_late or query.has_silences:
        return True
    return any(
        stream.max_gap is not None or (stream.query is not None and _waits(stream.query))
        for stream in query.streams
    )
