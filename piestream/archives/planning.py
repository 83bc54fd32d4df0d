"""What a query reads of an archive: the pages around its rarest symbol, or all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.archives import costs
from piestream.archives.bounded import is_bounded
from piestream.archives.closer import of_pages, rows_of_rarest
from piestream.archives.cores import Core, KeyRanges, cores_of, key_ranges
from piestream.archives.decoded import DecodedPages
from piestream.archives.decoding import Decoder
from piestream.archives.pages import Pages
from piestream.archives.reach import Reach, earliest_symbols, reach_of
from piestream.archives.row_reach import needed_pages
from piestream.archives.selection import CORE, RESERVED, Selection
from piestream.archives.statistics import KEYS
from piestream.archives.verdicts import Flags, Verdict, verdicts
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import Emit, Source
from piestream.plan.binding import Binding, input_key

__all__ = ["BATCH_ROWS", "ArchivePlan", "refuse_row_order"]

#: So large a part of the cost of a scan may be spent to know more of the rarest symbol, with what has been asked of
#: statistics, where it is not known yet whether pages will be selected at all.
LOOKED_AT = 1 / 24
#: Cores are worked on together until so many rows are to be read for them.
BATCH_ROWS = 1 << 22


def refuse_row_order(query: Query, archives: Mapping[str, Pages]) -> None:
    """Refuse ROW of streams, by their names, that are archives in which rows lie in another order.

    Files have rows in order of key and time, and those of both in the order in which they were appended;
    compaction and retention keep that.
    """
    for number, one, partition_by in _in_order_of_rows(query):
        pages = archives.get(input_key(one))
        if pages is None or pages.time is None:
            continue  # files that others wrote are read as they are
        fault = _fault_of_row_order(one, partition_by, pages)
        if fault is not None:
            where = query.part(number, "order_by" if one in query.streams else "source")
            raise query.fault(where, *fault)


def _fault_of_row_order(
    stream: Source, partition_by: Sequence[str], pages: Pages
) -> tuple[str, str] | None:
    by_column = "name a column that orders events of one time, as in ORDER BY ts, seq"
    if stream.order_by is not None and stream.order_by != pages.time:
        message = f"the archive keeps its rows in order of {pages.time}, not of {stream.order_by}"
        return message, f"write ORDER BY {pages.time}, ROW, or {by_column}"
    apart = [name for name in pages.keys if name not in partition_by]
    if apart:
        return (
            f"the archive keeps rows of one time in order of {', '.join(apart)}, and for each of these "
            "in the order in which they came",
            f"write PARTITION BY {', '.join([*partition_by, *apart])}, or {by_column}",
        )
    for name in pages.keys:
        if pages.schema[name].is_float():  # NULL and NaN are one partition, but lie apart
            return f"the archive keeps its rows by {name}, which holds floats", by_column
    return None


def _in_order_of_rows(query: Query) -> Iterator[tuple[int, Source, tuple[str, ...]]]:
    """The streams with ROW, also of queries in brackets, with the number of that which they are of here."""
    for number, stream in enumerate(query.streams):
        if stream.query is not None:
            yield from ((number, *found[1:]) for found in _in_order_of_rows(stream.query))
        elif stream.row_order:
            yield number, stream, query.partition_by


@dataclass(frozen=True)
class _Known:
    """What statistics tell of the symbols of a query, page by page."""

    found: Sequence[Verdict]
    holds: Sequence[Flags]  # of each symbol that matches need, the rarest first
    earliest: Sequence[Flags] | None  # of those that may start first, if that is known
    rare: Flags  # the pages of the rarest symbol around which there are cores, or some of them


class ArchivePlan:
    """What a query reads of an archive: the pages of its cores, or all."""

    def __init__(
        self, query: Query, pages: Pages, options: RunOptions, *, shows_ends: bool = False
    ) -> None:
        """``shows_ends``: where a partition goes on behind a core, and that counts, a row there is read."""
        refuse_row_order(query, {input_key(stream): pages for stream in query.streams})
        self.query = query
        self.pages = pages
        self.binding = bound(query, self.pages.schema, is_grouped=True)
        #: What has been decoded, for whatever way is taken.
        self.kept = DecodedPages(self.pages, self.binding.columns)
        self.cores: list[Core] | None = None
        self.ranges: KeyRanges | None = None
        self.reach: Reach | None = None
        #: Whether only rows tell how much has to be read, and whether that has not been tried yet.
        self.grows = self.is_uncertain = False
        #: The most that reading may cost.
        self.most = inf
        #: The cost of a look at the rarest symbol.
        self.looked = 0.0
        #: Whether what is open is closed where its partition ends.
        self.closes = False
        if self.pages.n_rows < costs.LEAST_ROWS:
            return
        if any(name.startswith(RESERVED) for name in self.binding.columns):
            return
        reach = reach_of(query, self.binding, options)
        times = self.pages.times(self.binding.time.name)
        if reach is None or times is None or not len(self.pages):
            return
        self.closes = options.at_end == "close" and query.rows is None
        if self.closes and (shows_ends or not self._lists_keys()):
            reach = replace(reach, rows_behind=max(1, reach.rows_behind))
        self.reach = reach
        distinct = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))
        found = verdicts(distinct, self.pages.schema, self.pages.table, self.pages.may_have)
        self.decoder = Decoder(self.kept, self.binding, found)
        if self.closes or options.ties != "error":
            self.decoder.quiet.decode_all()  # the last row of a partition, or which of two rows counts
        holds = sorted(self._needed_pages(found), key=np.count_nonzero)
        if not holds:
            return
        if query.rows is not None and query.rows.within is None:
            holds = holds[:1]  # how long it takes to the others is not known
        self._known = _Known(found, holds, self._earliest_pages(found), holds[0])
        cores = self._lay_out()
        self.is_uncertain = self.grows = self._may_grow() and not is_bounded(self, cores)
        cores = self._closer(cores)
        wanted = self.wanted(cores) & ~self.decoder.is_quiet
        if self.is_one_batch and self.pages.rows[wanted].sum() > costs.MOST_TOGETHER:
            return
        if costs.is_worth_it(self.pages, wanted):
            self.cores = cores
            expected = costs.rows_cost(self.pages, wanted)
            self.most = costs.most_cost(self.pages, expected, grows=self.grows)

    @property
    def rare(self) -> Flags:
        """The pages of the rarest symbol around which there are cores."""
        assert self.cores is not None
        return self._known.rare & self.wanted(self.cores)

    def laid_out(self, rare: Flags) -> ArchivePlan:
        """The same of the cores around some pages of the rarest symbol alone."""
        found = copy(self)
        found._known = replace(self._known, rare=rare)
        found.looked = 0.0
        found.cores = found._lay_out()
        return found

    def settle(self) -> None:
        """Look at the rows of the rarest symbol, as it is known by now that pages are selected."""
        assert self.cores is not None
        self.is_uncertain = False
        if not self.looked:
            self.cores = self._closer(self._lay_out())

    @property
    def will_look(self) -> bool:
        """Whether `settle` looks at the rows of the rarest symbol."""
        assert self.cores is not None
        return bool(self.looked) or self._is_cheap(self.wanted(self.cores), self.rare)

    def _is_cheap(self, wanted: Flags, chosen: Flags) -> bool:
        """Whether a look at the rarest symbol on some of the wanted pages costs little."""
        look = costs.read_cost(self.pages, chosen, row=1)
        most = LOOKED_AT * self.pages.n_rows - costs.plan_cost(self.pages)
        if self.is_uncertain and self.cores is None:  # it may be in vain, as a trial may be
            return look <= most / 2
        return look <= most or costs.is_worth_it(self.pages, wanted, look)

    def wanted(self, cores: Sequence[Core]) -> Flags:
        """The pages of some cores."""
        return self.selection().wanted(*cores)

    def _lay_out(self) -> list[Core]:
        """The cores by what is known of the pages."""
        assert self.reach is not None
        times = self.pages.times(self.binding.time.name)
        assert times is not None
        keys, known = self.query.partition_by, self._known
        self.ranges = key_ranges(self.pages.table, keys[0], known.rare) if keys else None
        holds = [known.rare, *known.holds[1:]]
        most = max(costs.LEAST_OF_KEYS, costs.OF_KEYS * self.pages.n_rows)
        return cores_of(holds, known.earliest, *times, self.reach, self.ranges, most)

    def _may_grow(self) -> bool:
        """Whether rows tell how much has to be read."""
        assert self.reach is not None
        if self.query.emit is Emit.BOTH or self.reach.latches:
            return True
        return self.reach.rows_behind > 0 and not self._lists_keys()

    def _closer(self, cores: list[Core]) -> list[Core]:
        """The cores around the rows at which the rarest symbol holds, if it has few pages."""
        pages, reach, known = self.pages, self.reach, self._known
        assert reach is not None
        rarest = known.holds[0]
        number = next((n for n, one in enumerate(known.found) if one.can_hold is rarest), None)
        wanted = self.wanted(cores)
        chosen = known.rare & wanted
        if number is None or not cores or not self._is_cheap(wanted, chosen):
            return cores
        if known.found[number].always_holds[chosen].all():
            return cores  # there is nothing to find out
        self.looked = costs.rows_cost(pages, chosen, row=1)
        rows = rows_of_rarest(self.kept, self.binding, number, chosen, reach.window)
        if rows is None:
            return cores
        self.decoder.note(chosen, number)
        keys = self.query.partition_by
        ranges = rows.ranges(pages, keys[0]) if keys else None
        if not len(rows.firsts):
            return []
        if keys and ranges is None:
            return cores
        n_groups = len(rows.firsts)
        of_groups = np.repeat([False, True], [len(pages), n_groups])
        of_pages_alone = np.zeros(n_groups, np.bool_)

        def closer(one: Flags) -> Flags:
            return of_groups if one is rarest else np.concatenate((one, of_pages_alone))

        times = pages.times(self.binding.time.name)
        assert times is not None
        firsts = np.concatenate((times[0], rows.firsts))
        lasts = np.concatenate((times[1], rows.lasts))
        starting = None if known.earliest is None else list(map(closer, known.earliest))
        cores = cores_of(list(map(closer, known.holds)), starting, firsts, lasts, reach, ranges)
        self.ranges = None if ranges is None else of_pages(ranges, len(pages))
        return cores

    @property
    def is_together(self) -> bool:
        """Whether what was given in one core counts in another: then a partition is one."""
        return bool(self.query.limits) or self.query.rows is not None

    @property
    def is_one_batch(self) -> bool:
        """Whether all cores are worked on together."""
        reach = self.reach
        return self.is_together or (reach is not None and reach.is_sought)

    def _lists_keys(self) -> bool:
        """Whether it is known of all pages which partitions have rows there."""
        keys, table = self.query.partition_by, self.pages.table
        if not keys:
            return True
        if len(keys) > 1:
            return False
        listed = KEYS + keys[0]
        is_float = self.pages.schema[keys[0]].is_float()  # two zeros are one key
        return listed in table.columns and not table[listed].null_count() and not is_float

    def _earliest_pages(self, found: Sequence[Verdict]) -> list[Flags] | None:
        """The pages of the symbols one of which starts first in every match; None if it is not known."""
        assert self.reach is not None
        if self.query.rows is not None or self.reach.is_bridged or self.query.absences:
            return None
        distinct = list(dict.fromkeys(symbol.predicate for symbol in self.query.symbols))
        chosen = {distinct.index(symbol.predicate) for symbol in earliest_symbols(self.query)}
        return [found[number].can_start for number in sorted(chosen)]

    def _needed_pages(self, found: Sequence[Verdict]) -> list[Flags]:
        """Sets of pages of each of which every match has a row, or the start of an interval."""
        distinct = dict.fromkeys(symbol.predicate for symbol in self.query.symbols)
        can_hold = {
            predicate: verdict.can_start for predicate, verdict in zip(distinct, found, strict=True)
        }
        if self.query.rows is None:
            present = dict.fromkeys(symbol.predicate for symbol in self.query.present)
            return [can_hold[predicate] for predicate in present]
        by_name = {symbol.name: can_hold[symbol.predicate] for symbol in self.query.symbols}
        return needed_pages(self.query.rows.pattern, by_name)

    def selection(self) -> Selection:
        """What reads some cores."""
        assert self.reach is not None
        found = Selection(self.decoder, self.ranges, self.reach, grows=self.grows)
        found.most = self.most
        return found

    def batches(self) -> Iterator[list[Core]]:
        """Cores that are read together."""
        assert self.cores is not None
        if self.is_one_batch:
            yield from [self.cores] if self.cores else []
            return
        selection = self.selection()
        batch: list[Core] = []
        wanted = np.zeros(len(self.pages), np.bool_)
        for core in sorted(self.cores, key=lambda core: (core.first, core.cells)):
            more = wanted | selection.wanted(core)
            if batch and self.pages.rows[more].sum() > BATCH_ROWS:
                yield batch
                batch, more = [], selection.wanted(core)
            batch.append(core)
            wanted = more
        if batch:
            yield batch

    def binding_apart(self) -> Binding:
        """That of the query whose partitions are those of each core."""
        apart = replace(self.query, partition_by=(CORE, *self.query.partition_by))
        return bound(apart, {CORE: pl.Int64(), **self.pages.schema}, is_grouped=True)
