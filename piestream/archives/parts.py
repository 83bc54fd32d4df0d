"""The archives that a query over several streams reads, and what their pages say of its symbols.

Where several streams read one archive, as in brackets and beside them, each of them has a part of its own.

A query in brackets is read with the one around it: a match of it that counts begins within the window of
that one before the report, and all of its intervals do. So its streams are read around the same times. Where
what it finds depends on what it has found before, as with limits and in row patterns, it is read, too, where it
can find something so shortly before that this counts, and so on. Of what may not be there, a match may have begun
long before: then all is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.archives.archive import Archive
from piestream.archives.cores import Spans, later
from piestream.archives.pages import Pages, Words
from piestream.archives.reach import counted_rows, is_local, window_and_absent
from piestream.archives.row_reach import is_bounded, needed_pages
from piestream.archives.statistics import HIGHEST, MISSING, ROWS
from piestream.archives.store import in_ticks
from piestream.archives.verdicts import Flags, Verdict, verdicts
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.expressions.predicate import EVERY_INTERVAL, Predicate
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import Emit, RelationOf, Source, StreamKind, Symbol
from piestream.language.row_patterns import RowPattern
from piestream.plan.binding import Binding, input_key, query_ticks
from piestream.plan.columns import InputColumns
from piestream.relations import Relation

__all__ = ["Inside", "Part", "parts_of"]


@dataclass(frozen=True)
class Part:
    """One archive that a stream of events or of intervals reads, with the times of its pages in ticks of the query."""

    key: str
    archive: Archive
    binding: Binding  # of its own symbols to its own columns
    verdicts: list[Verdict]
    needed: list[
        Flags
    ]  # sets of pages of each of which a match has a row, or the start of an interval
    times: tuple[Words, Words]  # of events, or the starts of intervals
    ticks: int  # of the query in one of its own
    inside: tuple[Inside, ...]  # the queries in brackets that it is read by, the outermost first
    key_column: (
        str | None
    )  # the first column of PARTITION BY, where partitions are those of the whole
    ends: Words | None = None  # of intervals the latest end of each page
    #: How many events before those around a match count; None: it is not bounded.
    counted: int | None = 0
    #: Whether what is absent is made of its events, or of silences between them.
    has_absent: bool = False
    has_absent_silence: bool = False
    is_whole: bool = False  # whether all rows are needed

    @property
    def may_have_begun_before(self) -> bool:
        """Whether what counts may hold, or be silent, without a row where a match can be.

        Where a match has a symbol of its own here, its partition has a row there.
        """
        return (self.has_absent or self.has_absent_silence) and not self.needed

    def spans(self, can_hold: Flags, window: int) -> Spans:
        """The times at which rows on some of its pages allow a report."""
        if not can_hold.any():
            return Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Spans.of(self.times[0][can_hold], later(self.times[1], window)[can_hold])


@dataclass(frozen=True, eq=False)
class Inside:
    """A query in brackets, and how far its matches look."""

    window: int  # a match begins at most so long before its report
    absent: int  # and depends on what is absent so long before that
    #: Whether its matches depend on those before, and at most so long after these; None: for ever.
    depends: bool = False
    memory: int | None = 0
    counts_rows: bool = False  # a match has so many rows at most, however long they last


@dataclass(frozen=True)
class _Reader:
    """A stream of rows, and the query that reads it: the whole, or one in brackets."""

    query: Query
    number: int
    binding: Binding  # of the query to all its inputs
    inside: tuple[Inside, ...] = ()
    is_keyed: bool = True
    is_whole: bool = False

    @property
    def stream(self) -> Source:
        """The stream that is read."""
        return self.query.streams[self.number]


def parts_of(whole: Binding, archives: Mapping[str, Archive]) -> list[Part]:
    """The streams that read archives, as far as anything is known of their pages.

    Of an archive all rows are needed if the pages cannot be chosen of one of the streams that read it.
    """
    found: list[Part] = []
    for reader in _readers(_Reader(whole.query, 0, whole), ()):
        key = input_key(reader.stream)
        archive = archives.get(key)
        if archive is not None and len(archive.pages):
            part = _part(reader, key, archive, whole.time.nanoseconds_per_tick)
            found += [] if part is None else [part]
    unknown = Counter(map(input_key, _leaves(whole.query)))
    unknown.subtract(part.key for part in found)
    return [replace(part, is_whole=part.is_whole or unknown[part.key] > 0) for part in found]


def _leaves(query: Query) -> Iterator[Source]:
    """The streams of rows that a query reads, itself and in brackets."""
    for stream in query.streams:
        if stream.query is not None:
            yield from _leaves(stream.query)
        elif stream.is_input:
            yield stream


def _readers(around: _Reader, outer: tuple[Query, ...]) -> Iterator[_Reader]:
    """The streams of rows that a query reads, itself or in brackets, of which pages can be chosen."""
    query = around.query
    is_keyed = all(query.partition_by == one.partition_by for one in outer)
    present = {symbol.stream for symbol in query.present}
    absent = {symbol.stream for symbol in query.symbols if symbol not in query.present}
    for number, stream in enumerate(query.streams):
        if stream.is_input:
            yield replace(around, number=number, is_keyed=is_keyed)
        elif stream.query is not None and number in present and not _looks_between(query):
            inner = around.binding.parts[number].inner
            looks = None if inner is None else _inside(inner)
            if inner is not None and looks is not None:
                below = replace(
                    around, query=inner.query, binding=inner, inside=(*around.inside, looks),
                    is_whole=around.is_whole or number in absent,
                )  # fmt: skip
                yield from _readers(below, (query, *outer))


def _inside(binding: Binding) -> Inside | None:
    """How far the matches of a query in brackets look; None: it is not bounded."""
    query = binding.query
    if query.rows is not None:
        return _row_pattern_inside(query, query.rows, binding)
    if not is_local(replace(query, emit=Emit.TRIGGER), RunOptions()):
        return None
    ticks = query_ticks(query, binding.time)
    if any(kept.after_end for s, kept in enumerate(ticks.kept) if s not in ticks.absent):
        return None
    window, absent = window_and_absent(ticks)
    if not query.limits:
        return Inside(window, absent)
    if query.limits.limit is not None:
        return Inside(window, absent, True, None)
    memory = window if query.limits.once_per or query.limits.no_overlap else 0
    return Inside(window, absent, True, max(memory, ticks.cooldown or 0))


def _row_pattern_inside(query: Query, rows: RowPattern, binding: Binding) -> Inside | None:
    """How far the matches of a row pattern look, beside the rows that are counted.

    Where a match may begin depends on where the one before ended. Those whose rows lie more than WITHIN apart have
    none in common. Without WITHIN, nothing but rows says so.
    """
    if not is_bounded(query):
        return None
    if rows.within is None:
        return Inside(0, 0, True, None, counts_rows=True)
    time = binding.time
    window = query.ticks(("within",), query.within, time.nanoseconds_per_tick, time.needs_units)
    items = [item for measure in rows.measures for _, item in measure.items]
    items += [item for condition in rows.conditions for _, item in condition.all_items]
    is_numbered = any(item.function == "MATCH_NUMBER" for item in items)
    return Inside(window, 0, True, None if is_numbered else window)


def _part(reader: _Reader, key: str, archive: Archive, tick: int | None) -> Part | None:
    query, number = reader.query, reader.number
    ends = None
    if reader.stream.kind is StreamKind.EVENTS:
        binding = bound(_with_a_symbol(query.over(number)), archive.schema)
        time = binding.time
    else:
        if _looks_between(query):
            return None
        binding = reader.binding.parts[number].binding
        time, end = InputColumns(query, archive.schema, number).endpoints()
        ends = _latest_ends(archive.pages, end.name) if end.dtype == time.dtype else None
        if ends is None:
            return None
    times = archive.pages.times(time.name)
    own = time.nanoseconds_per_tick
    if times is None or (own is None) != (tick is None):
        return None
    ticks, rest = (1, 0) if own is None or tick is None else divmod(own, tick)
    if rest or ticks < 1:
        return None
    if ticks > 1:
        most = INT64_MAX // ticks - 1
        if max(np.abs(times[0]).max(), np.abs(times[1]).max()) > most:
            return None
        times = times[0] * ticks, times[1] * ticks
        if ends is not None:
            ends = np.clip(ends, -most, most) * ticks
    distinct = list(dict.fromkeys(symbol.predicate for symbol in binding.query.symbols))
    found = verdicts(distinct, archive.schema, archive.pages.table, archive.pages.may_have)
    names = {symbol.name for symbol in query.present}
    gone = [symbol for symbol in query.symbols if symbol.name not in names]
    silences = [query.streams[symbol.stream].silence for symbol in gone]
    keys = query.partition_by
    return Part(
        key, archive, binding, found, _needed_pages(binding.query, names, distinct, found), times,
        ticks, reader.inside, keys[0] if keys and reader.is_keyed else None, ends,
        counted_rows(query, [symbol for symbol in gone if symbol.stream == number]),
        has_absent=any(symbol.stream == number for symbol in gone),
        has_absent_silence=any(s is not None and s.of == number for s in silences),
        is_whole=reader.is_whole,
    )  # fmt: skip


def _with_a_symbol(query: Query) -> Query:
    """A query of one stream, with a symbol where there is none, as of silences alone."""
    if query.symbols:
        return query
    return replace(query, symbols=(Symbol("row", EVERY_INTERVAL),), windows=())


def _needed_pages(
    query: Query, present: Collection[str], distinct: Sequence[Predicate], found: Sequence[Verdict]
) -> list[Flags]:
    """Sets of pages of each of which every match has a row, or the start of an interval."""
    if query.rows is not None:
        by_name = {s.name: found[distinct.index(s.predicate)].can_start for s in query.symbols}
        return needed_pages(query.rows.pattern, by_name)
    numbers = {distinct.index(s.predicate) for s in query.symbols if s.name in present}
    return [found[number].can_start for number in sorted(numbers)]


def _looks_between(query: Query) -> bool:
    """Whether intervals count that lie in none of the times of a match: they may be long."""
    precise = Relation.FOLLOWED_BY | Relation.FOLLOWS
    constraints = [*query.constraints, *(c for one in query.absences for c in one.constraints)]
    return any(constraint.relations & precise for constraint in constraints) or any(
        isinstance(item, RelationOf) for item in query.items
    )


def _latest_ends(pages: Pages, end: str) -> Words | None:
    """The latest end on each page, and before all times where there is none; None: it is not known."""
    if HIGHEST + end not in pages.table.columns:
        return None
    try:
        latest, missing = pages.table.select(in_ticks(HIGHEST + end), MISSING + end).get_columns()
    except pl.exceptions.InvalidOperationError:  # beyond 64 bits
        return None
    has_none = (missing == pages.table[ROWS]).fill_null(False)
    if (latest.is_null() & ~has_none).any():
        return None
    return latest.fill_null(INT64_MIN).to_numpy()
