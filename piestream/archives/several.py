"""Archives among the inputs of a query over several streams: of each the rows of which a match can be made.

A match that is reported at r has an interval of every symbol that starts within the window before r. So
what the pages of all archives say together tells when there can be one, and of each archive the rows around
these times are enough, whatever the other streams have. Of intervals that come ready-made these are the rows
that start, or end, then: both are instants at which something can be reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.inputs import Inputs, bound_inputs
from piestream.adapters.read_columns import lazily_read
from piestream.archives import costs
from piestream.archives.archive import Archive
from piestream.archives.closer import Rows, of_pages, rows_of_rarest
from piestream.archives.cores import NULL_CELL, Core, Flags, KeyRanges, Spans, later
from piestream.archives.decoding import Decoder
from piestream.archives.durable import missing_files_told
from piestream.archives.pages import Pages, Words
from piestream.archives.planning import LOOKED_AT
from piestream.archives.reach import Reach, is_local
from piestream.archives.selection import RESERVED, Selection
from piestream.archives.statistics import HIGHEST, LOWEST, MISSING, ROWS
from piestream.archives.store import in_ticks
from piestream.archives.verdicts import Verdict, verdicts
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import RelationOf, StreamKind
from piestream.plan.binding import Binding, input_key, query_ticks
from piestream.plan.columns import InputColumns
from piestream.relations import Relation

__all__ = ["rows_of_inputs"]


@dataclass(frozen=True)
class _Part:
    """One archive that a stream of events or of intervals reads, with the times of its pages in ticks of the query."""

    key: str
    archive: Archive
    binding: Binding  # of its own symbols to its own columns
    verdicts: list[Verdict]
    times: tuple[Words, Words]  # of events, or the starts of intervals
    ticks: int  # of the query in one of its own
    ends: Words | None = None  # of intervals the latest end of each page

    @property
    def key_column(self) -> str | None:
        """The first column of PARTITION BY."""
        keys = self.binding.query.partition_by
        return keys[0] if keys else None

    def spans(self, number: int, window: int) -> Spans:
        """The times at which one of its predicates allows a report."""
        can_hold = self.verdicts[number].can_hold
        if not can_hold.any():
            return Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Spans.of(self.times[0][can_hold], later(self.times[1], window)[can_hold])


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
    found = dict(given)
    found |= _selected(inputs, found, archives, options)
    for key in archives:
        if isinstance(found[key], Archive):
            found[key] = lazily_read(inputs.readers[key], found[key].scan()).collect()
    return found


def _selected(
    inputs: Inputs, given: Mapping[str, Any], archives: Mapping[str, Archive], options: RunOptions
) -> dict[str, pl.DataFrame]:
    """The rows of the archives of which not all are needed."""
    query = inputs.query
    if not archives or query.absences or not is_local(query, options):
        return {}
    try:
        schemas = {key: _schema(inputs, key, rows) for key, rows in given.items()}
        whole = bound_inputs(query, schemas).binding
        window = query_ticks(query, whole.time).within
        parts = _parts(whole, archives, whole.time.nanoseconds_per_tick)
    except (ValueError, TypeError):
        return {}  # what is wrong is said where all rows are bound
    if not parts:
        return {}
    allowed = _allowed(parts, window)
    found = {}
    for part in parts:
        read = _rows if part.ends is None else _interval_rows
        rows = read(part, allowed, window, options)
        if rows is not None:
            found[part.key] = rows
    return found


@dataclass(frozen=True)
class _Allowed:
    """The times at which a match can be reported, of all partitions, and of some keys if these are known."""

    spans: Spans
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


def _allowed(parts: Sequence[_Part], window: int) -> _Allowed:
    """The times at which a match can be reported."""
    spans = {
        (place, number): part.spans(number, window)
        for place, part in enumerate(parts)
        for number in range(len(part.verdicts))
    }
    found = reduce(Spans.within, spans.values())
    rarest = min(spans, key=lambda at: int(parts[at[0]].verdicts[at[1]].can_hold.sum()))
    return _closer(parts[rarest[0]], rarest[1], found, window, parts)


def _closer(
    part: _Part, number: int, allowed: Spans, window: int, parts: Sequence[_Part]
) -> _Allowed:
    """Where the rows at which a predicate holds allow a report, if it does not cost much to look."""
    pages, verdict = part.archive.pages, part.verdicts[number]
    if part.ends is not None or pages.n_rows < costs.LEAST_ROWS:
        return _Allowed(allowed)
    chosen = verdict.can_hold & _touches(allowed, part.times[0], later(part.times[1], window))
    n_rows = sum(one.archive.pages.n_rows for one in parts)
    if verdict.always_holds[chosen].all() or (
        costs.read_cost(pages, chosen, row=1) > LOOKED_AT * n_rows
    ):
        return _Allowed(allowed)
    rows = rows_of_rarest(pages, part.binding, number, chosen, -(-window // part.ticks))
    if rows is None:
        return _Allowed(allowed)
    firsts, lasts = rows.firsts * part.ticks, later(rows.lasts * part.ticks, window)
    spans = Spans.of(firsts, lasts) if len(firsts) else Spans(firsts, lasts)
    return _Allowed(allowed.within(spans), rows, (firsts, lasts))


def _touches(spans: Spans, firsts: Words, lasts: Words) -> Flags:
    """Which of some spans of time have instants in common with others, which lie apart."""
    following = np.searchsorted(spans.lasts, firsts)
    found: Flags = following < len(spans.lasts)
    found[found] = spans.firsts[following[found]] <= lasts[found]
    return found


def _schema(inputs: Inputs, key: str, rows: Any) -> pl.Schema:
    if isinstance(rows, Archive):
        return rows.schema
    if isinstance(rows, pl.LazyFrame):
        return rows.collect_schema()
    return inputs.frame(key, rows)[0].schema


def _parts(whole: Binding, archives: Mapping[str, Archive], tick: int | None) -> list[_Part]:
    """The archives that streams read, but for those in brackets, of whose pages the times are known."""
    query = whole.query
    read = Counter(input_key(leaf) for stream in query.streams for leaf in (
        (stream,) if stream.query is None else stream.query.inputs
    ))  # fmt: skip
    parts = []
    for number, stream in enumerate(query.streams):
        found = archives.get(input_key(stream)) if stream.query is None else None
        if found is None or read[input_key(stream)] > 1 or not len(found.pages):
            continue
        ends = None
        if stream.kind is StreamKind.EVENTS:
            binding = bound(query.over(number), found.schema)
            time = binding.time
        else:
            if _looks_between(query):
                continue
            binding = whole.parts[number].binding
            time, end = InputColumns(query, found.schema, number).endpoints()
            ends = _latest_ends(found.pages, end.name) if end.dtype == time.dtype else None
            if ends is None:
                continue
        times = found.pages.times(time.name)
        own = time.nanoseconds_per_tick
        if times is None or (own is None) != (tick is None):
            continue
        ticks, rest = (1, 0) if own is None or tick is None else divmod(own, tick)
        if rest or ticks < 1:
            continue
        distinct = list(dict.fromkeys(symbol.predicate for symbol in binding.query.symbols))
        judged = verdicts(distinct, found.schema, found.pages.table, found.pages.may_have)
        if ticks > 1:
            bound_times = INT64_MAX // ticks - 1
            if max(np.abs(times[0]).max(), np.abs(times[1]).max()) > bound_times:
                continue
            times = times[0] * ticks, times[1] * ticks
            if ends is not None:
                ends = np.clip(ends, -bound_times, bound_times) * ticks
        parts.append(_Part(input_key(stream), found, binding, judged, times, ticks, ends))
    return parts


def _looks_between(query: Query) -> bool:
    """Whether intervals count that lie in none of the times of a match: they may be long."""
    precise = Relation.FOLLOWED_BY | Relation.FOLLOWS
    return any(constraint.relations & precise for constraint in query.constraints) or any(
        isinstance(item, RelationOf) for item in query.items
    )


def _latest_ends(pages: Pages, end: str) -> Words | None:
    """The latest end on each page, and before all times where there is none; None: it is not known."""
    if HIGHEST + end not in pages.table.columns:
        return None
    latest, missing = pages.table.select(in_ticks(HIGHEST + end), MISSING + end).get_columns()
    has_none = (missing == pages.table[ROWS]).fill_null(False)
    if (latest.is_null() & ~has_none).any():
        return None
    return latest.fill_null(INT64_MIN).to_numpy()


def _interval_rows(
    part: _Part, allowed: _Allowed, window: int, options: RunOptions
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
        touched = _touches(Spans(later(own.firsts, -window), own.lasts), part.times[0], lasts)
        wanted |= (
            touched if cell is None or cells is None else touched & cells[0].reach((cell, cell))
        )
    if not costs.is_worth_it(pages, wanted):
        return None
    columns = part.binding.columns
    nothing = pl.DataFrame(schema={name: pages.schema[name] for name in columns})
    return pl.concat([nothing, *pages.read(np.flatnonzero(wanted), columns)])


def _rows(part: _Part, allowed: _Allowed, window: int, options: RunOptions) -> pl.DataFrame | None:
    """The rows of one archive around the times at which a match can be reported; None: all."""
    pages, binding = part.archive.pages, part.binding
    reserved = any(name.startswith(RESERVED) for name in binding.columns)
    if pages.n_rows < costs.LEAST_ROWS or binding.past or reserved:
        return None
    ticks = query_ticks(binding.query, binding.time)
    own_window = -(-window // part.ticks)
    reach = Reach(own_window, 1, 0, ticks.max_gap, False).with_bridges(ticks)
    cells = allowed.cells(pages, part.key_column)
    cores = []
    for cell, own in ((None, allowed.spans),) if cells is None else cells[1].items():
        spans = own.bridged(min((reach.window + 2) * part.ticks, INT64_MAX))
        firsts, lasts = spans.firsts // part.ticks, -(-spans.lasts // part.ticks)
        both = (NULL_CELL, INT64_MAX) if cell is None else (cell, cell)
        starts = later(firsts, -reach.window)
        cores += [
            Core(both, int(first), int(last), int(start))
            for first, last, start in zip(firsts, lasts, starts, strict=True)
        ]
    decoder = Decoder(pages, binding, part.verdicts, keeps_rows=True)
    selection = Selection(decoder, None if cells is None else cells[0], reach)
    wanted = selection.wanted(*cores)
    if pages.rows[wanted].sum() > costs.MOST_TOGETHER or not costs.is_worth_it(pages, wanted):
        return None
    return decoder.rows_of(selection.read_together(cores, options.ties))
