"""The archives that a query over several streams reads, and what their pages say of its symbols.

A query in brackets is read with the one around it: a match of it that counts begins within the window of
that one before the report, and all of its intervals do. So its streams are read around the same times, if
no more than its rows there decides what it finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.archives.archive import Archive
from piestream.archives.cores import Spans, later
from piestream.archives.pages import Pages, Words
from piestream.archives.reach import absent_reach, is_local
from piestream.archives.statistics import HIGHEST, MISSING, ROWS
from piestream.archives.store import in_ticks
from piestream.archives.verdicts import Verdict, verdicts
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import Emit, RelationOf, Source, StreamKind
from piestream.plan.binding import Binding, input_key, query_ticks
from piestream.plan.columns import InputColumns
from piestream.relations import Relation

__all__ = ["Part", "parts_of"]


@dataclass(frozen=True)
class Part:
    """One archive that a stream of events or of intervals reads, with the times of its pages in ticks of the query."""

    key: str
    archive: Archive
    binding: Binding  # of its own symbols to its own columns
    verdicts: list[Verdict]
    present: tuple[int, ...]  # those of symbols that a match has
    times: tuple[Words, Words]  # of events, or the starts of intervals
    ticks: int  # of the query in one of its own
    back: int  # so long before a report rows of it count
    key_column: (
        str | None
    )  # the first column of PARTITION BY, where partitions are those of the whole
    ends: Words | None = None  # of intervals the latest end of each page
    #: Whether all rows of events are needed: what is absent may hold, or be silent, since long before.
    is_whole: bool = False

    def spans(self, number: int, window: int) -> Spans:
        """The times at which one of its predicates allows a report."""
        can_hold = self.verdicts[number].can_start
        if not can_hold.any():
            return Spans(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Spans.of(self.times[0][can_hold], later(self.times[1], window)[can_hold])


@dataclass(frozen=True)
class _Reader:
    """A stream of rows, and the query that reads it: the whole, or one in brackets."""

    query: Query
    number: int
    binding: Binding  # of the query to all its inputs
    back: int
    is_keyed: bool

    @property
    def stream(self) -> Source:
        """The stream that is read."""
        return self.query.streams[self.number]


def parts_of(whole: Binding, archives: Mapping[str, Archive], back: int) -> list[Part]:
    """The archives that are read by one stream each, as far as their pages can be chosen."""
    query = whole.query
    inside = [s.query.inputs for s in query.streams if s.query is not None]
    own = [(stream,) for stream in query.streams if stream.is_input]
    read = Counter(input_key(leaf) for leaves in (*inside, *own) for leaf in leaves)
    parts = []
    for reader in _readers(query, whole, back, ()):
        key = input_key(reader.stream)
        archive = archives.get(key)
        if archive is not None and read[key] == 1 and len(archive.pages):
            part = _part(reader, key, archive, whole.time.nanoseconds_per_tick)
            parts += [] if part is None else [part]
    return parts


def _readers(
    query: Query, binding: Binding, back: int, around: tuple[Query, ...]
) -> Iterator[_Reader]:
    """The streams of rows that a query reads, itself or in brackets around which all can be chosen."""
    is_keyed = all(query.partition_by == one.partition_by for one in around)
    twice = Counter(input_key(stream) for stream in query.streams if stream.is_input)
    for number, stream in enumerate(query.streams):
        if stream.is_input:
            if twice[input_key(stream)] == 1:
                yield _Reader(query, number, binding, back, is_keyed)
        elif stream.query is not None and not _looks_between(query):
            inner = binding.parts[number].inner
            more = None if inner is None else _back_inside(inner)
            if inner is not None and more is not None:
                yield from _readers(inner.query, inner, back + more, (query, *around))


def _back_inside(binding: Binding) -> int | None:
    """How long before it begins a match of a query in brackets looks; None: it depends on more than its rows."""
    query = binding.query
    if query.rows is not None or query.limits:
        return None  # what is found before decides what is found then
    if not is_local(replace(query, emit=Emit.TRIGGER), RunOptions()):
        return None
    ticks = query_ticks(query, binding.time)
    if any(kept.after_end for s, kept in enumerate(ticks.kept) if s not in ticks.absent):
        return None
    return absent_reach(query, ticks)


def _part(reader: _Reader, key: str, archive: Archive, tick: int | None) -> Part | None:
    query, number = reader.query, reader.number
    ends = None
    if reader.stream.kind is StreamKind.EVENTS:
        binding = bound(query.over(number), archive.schema)
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
    names = {symbol.name for symbol in query.present}
    present = {distinct.index(s.predicate) for s in binding.query.symbols if s.name in names}
    pages = archive.pages
    keys = query.partition_by
    return Part(
        key, archive, binding, verdicts(distinct, archive.schema, pages.table, pages.may_have),
        tuple(sorted(present)), times, ticks, reader.back,
        keys[0] if keys and reader.is_keyed else None, ends,
        ends is None and _has_absent(query, number),
    )  # fmt: skip


def _has_absent(query: Query, stream: int) -> bool:
    """Whether what NOT speaks of beside several streams is made of the events of a stream."""
    present = {symbol.name for symbol in query.present}
    made = {
        n for n, s in enumerate(query.streams) if s.silence is not None and s.silence.of == stream
    }
    absent = {symbol.stream for symbol in query.symbols if symbol.name not in present}
    return query.is_combined and not absent.isdisjoint({stream, *made})


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
