"""Archives among the inputs of a query over several streams: of each the rows of which a match can be made.

A match that is reported at r has an interval of every symbol that starts within the window before r. So
what the pages of all archives say together tells when there can be one, and of each archive that is read by
rows of one event the rows around these times are enough, whatever the other streams have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.inputs import Inputs, bound_inputs
from piestream.adapters.read_columns import lazily_read
from piestream.archives import costs
from piestream.archives.archive import Archive
from piestream.archives.cores import NULL_CELL, Core, Spans, later
from piestream.archives.decoding import Decoder
from piestream.archives.durable import missing_files_told
from piestream.archives.pages import Words
from piestream.archives.reach import Reach, is_local
from piestream.archives.selection import RESERVED, Selection
from piestream.archives.verdicts import Verdict, verdicts
from piestream.compiled.constants import INT64_MAX
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import StreamKind
from piestream.plan.binding import Binding, input_key, query_ticks

__all__ = ["rows_of_inputs"]


@dataclass(frozen=True)
class _Part:
    """One archive that a stream of events reads, with the times of its pages in ticks of the query."""

    key: str
    archive: Archive
    binding: Binding  # of its own symbols to its own columns
    verdicts: list[Verdict]
    times: tuple[Words, Words]
    ticks: int  # of the query in one of its own

    def spans(self, window: int) -> list[Spans]:
        """For each of its predicates the times at which it allows a report."""
        ends = later(self.times[1], window)
        return [
            Spans.of(self.times[0][one.can_hold], ends[one.can_hold])
            if one.can_hold.any()
            else Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
            for one in self.verdicts
        ]


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
    if not archives or not is_local(query, options):
        return {}
    try:
        window, tick = _clock(query, inputs, given)
        parts = _parts(query, archives, tick)
    except (ValueError, TypeError):
        return {}  # what is wrong is said where all rows are bound
    if not parts:
        return {}
    spans = [one for part in parts for one in part.spans(window)]
    allowed = spans[0]
    for one in spans[1:]:
        allowed = allowed.within(one)
    found = {}
    for part in parts:
        rows = _rows(part, allowed, window, options)
        if rows is not None:
            found[part.key] = rows
    return found


def _clock(query: Query, inputs: Inputs, given: Mapping[str, Any]) -> tuple[int, int | None]:
    """The window of a query in its ticks, and how long one of these is."""
    schemas = {key: _schema(inputs, key, rows) for key, rows in given.items()}
    binding = bound_inputs(query, schemas).binding
    return query_ticks(query, binding.time).within, binding.time.nanoseconds_per_tick


def _schema(inputs: Inputs, key: str, rows: Any) -> pl.Schema:
    if isinstance(rows, Archive):
        return rows.schema
    if isinstance(rows, pl.LazyFrame):
        return rows.collect_schema()
    return inputs.frame(key, rows)[0].schema


def _parts(query: Query, archives: Mapping[str, Archive], tick: int | None) -> list[_Part]:
    """The archives that streams of events read, of whose pages the times are known."""
    read = Counter(input_key(leaf) for stream in query.streams for leaf in (
        (stream,) if stream.query is None else stream.query.inputs
    ))  # fmt: skip
    parts = []
    for number, stream in enumerate(query.streams):
        found = archives.get(input_key(stream)) if stream.query is None else None
        if found is None or stream.kind is not StreamKind.EVENTS or read[input_key(stream)] > 1:
            continue
        binding = bound(query.over(number), found.schema)
        times = found.pages.times(binding.time.name)
        own = binding.time.nanoseconds_per_tick
        if times is None or not len(found.pages) or (own is None) != (tick is None):
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
        parts.append(_Part(input_key(stream), found, binding, judged, times, ticks))
    return parts


def _rows(part: _Part, allowed: Spans, window: int, options: RunOptions) -> pl.DataFrame | None:
    """The rows of one archive around the times at which a match can be reported; None: all."""
    pages, binding = part.archive.pages, part.binding
    reserved = any(name.startswith(RESERVED) for name in binding.columns)
    if pages.n_rows < costs.LEAST_ROWS or binding.past or reserved:
        return None
    own_window = -(-window // part.ticks)
    spans = allowed.bridged(window + 2 * part.ticks)
    firsts, lasts = spans.firsts // part.ticks, -(-spans.lasts // part.ticks)
    starts = later(firsts, -own_window)
    cores = [
        Core((NULL_CELL, INT64_MAX), int(first), int(last), int(start))
        for first, last, start in zip(firsts, lasts, starts, strict=True)
    ]
    ticks = query_ticks(binding.query, binding.time)
    reach = Reach(own_window, 1, 0, ticks.max_gap, False).with_bridges(ticks)
    decoder = Decoder(pages, binding, part.verdicts, keeps_rows=True)
    selection = Selection(decoder, None, reach)
    wanted = selection.wanted(*cores)
    if pages.rows[wanted].sum() > costs.MOST_TOGETHER or not costs.is_worth_it(pages, wanted):
        return None
    return decoder.rows_of(selection.read_together(cores, options.ties))
