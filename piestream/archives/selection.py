"""Reading the rows that matches can be made of: those of the cores, and what these need before them.

A core is worked on as if it were all there is: from where intervals of its matches can start, the window
before its first report or later, to its last one.
Whether a run began before is told by the last row of its partition before. So where a predicate holds
at the first row of a partition, that last row is looked for on the pages that may have it; with
predicates that read earlier rows, these are too. A run that began before the window is in no match.
Where rows behind a core count, as for NEXT in a row pattern, or to know whether a partition goes on there, these are
looked for in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np
import polars as pl

from piestream.archives import costs
from piestream.archives.cores import Clock, Core, Flags, KeyRanges, Spans, later, touches
from piestream.archives.decoding import SEEN, Decoder
from piestream.archives.needs import Needs
from piestream.archives.pages import Words
from piestream.archives.reach import MOST_TICKS, Reach
from piestream.archives.statistics import KEYS, as_seen
from piestream.archives.verdicts import may_decide
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.memories import OrderedRows
from piestream.engine.past import PastValues, with_past
from piestream.engine.projection import KEY, PREDICATE, RAW, SEQUENCE, TIME
from piestream.expressions.columns import columns_named
from piestream.expressions.typed import Until
from piestream.language.options import Ties

__all__ = ["CORE", "PLACE", "RESERVED", "Selection", "TooFarError", "places_of"]

#: The column with the number of a row's core.
CORE = "__core__"
#: The names of columns that begin like this are taken.
RESERVED = "__"
#: The column with the place of a row in the archive.
PLACE = "__order__"
_CELL, _PARTITION = "__cell__", "__partition__"
_DECIDES = "__decides__"


class TooFarError(Exception):
    """So much is read to know what holds where a match can be that a scan costs no more."""


@dataclass(frozen=True)
class _Stretches:
    """The rows of each partition in each core, as places among all rows by partition and time.

    Those from ``firsts`` to ``ends`` lie in the core; those from ``owns`` to ``tails`` may be in a match there, or
    are looked at by one; and those from ``leads`` on are needed besides, those from ``held`` on to know of a
    run that goes on by UNTIL that it began so long ago.
    """

    cores: Words
    leads: Words
    owns: Words
    firsts: Words
    ends: Words
    tails: Words
    held: Words
    needs: Sequence[tuple[Needs, Flags]]  # and the pages on which each is looked for
    partitions: Words | None  # of all rows, if there is more than one

    def some(self, chosen: Flags) -> _Stretches:
        """Some of them."""
        return replace(
            self, cores=self.cores[chosen], leads=self.leads[chosen], owns=self.owns[chosen],
            firsts=self.firsts[chosen], ends=self.ends[chosen], tails=self.tails[chosen],
            held=self.held[chosen],
        )  # fmt: skip


class Selection:
    """What is read of an archive for some cores of one query."""

    def __init__(
        self, decoder: Decoder, ranges: KeyRanges | None, reach: Reach, *, grows: bool = False
    ) -> None:
        """``grows``: only rows tell how much is read."""
        self.grows = grows
        self.decoder = decoder
        self.pages = pages = decoder.pages
        self.keys = [KEY + name for name in decoder.binding.query.partition_by]
        self.ranges = ranges
        self.reach = reach
        found = pages.times(decoder.binding.time.name)
        assert found is not None
        self.firsts, self.lasts = found
        self.is_read = np.zeros(len(pages), np.bool_)
        self._rows: pl.DataFrame | None = None
        #: So many pages are read to decide UNTIL, or to find rows behind cores, more each time,
        #: and so many to find rows before them, of which the latest page mostly has enough.
        self._more_pages = self._more_before = 1
        #: The most that all may cost: how much is needed is seen as rows are read.
        self.most = inf
        #: What has been spent besides: on rows that will be worked on once more, or on cores before these.
        self.besides = 0.0

    @property
    def n_read(self) -> int:
        """How many rows have been decoded."""
        return int(self.pages.rows[self.is_read & ~self.decoder.is_quiet].sum())

    def cost_of(self, wanted: Flags) -> float:
        """The cost of reading some pages, those that are not decoded left out."""
        return costs.rows_cost(self.pages, wanted & ~self.decoder.is_quiet)

    @property
    def cost(self) -> float:
        """The cost of what has been read, and of what has been spent besides."""
        return self.cost_of(self.is_read) + self.besides

    def check_cost(self, wanted: Flags) -> None:
        """TooFarError where to read some more pages would cost more than may be spent."""
        if self.cost_of(wanted | self.is_read) + self.besides > self.most:
            raise TooFarError
        if self.grows and not self.decoder.decoded_pages.has_room(wanted):
            raise TooFarError

    def wanted(self, *cores: Core) -> Flags:
        """Whether each page may have rows of some cores, or of the window before one."""
        found = np.zeros(len(self.pages), np.bool_)
        if not cores:
            return found
        starts = np.array([core.start for core in cores], np.int64)
        lasts = np.array([core.last for core in cores], np.int64)
        near = touches(Spans.of(starts, lasts), self.firsts, self.lasts)
        if self.ranges is None:
            return near
        bounds = np.unique(np.array([core.cells for core in cores], np.int64), axis=0)
        group = np.searchsorted(bounds[:, 0], np.array([core.cells[0] for core in cores]))
        own, pages = self.ranges.pairs(bounds, near)
        clock = Clock.of(np.concatenate((starts, lasts, self.firsts[near], self.lasts[near])))
        spans = Spans.of(clock.word(group, starts), clock.word(group, lasts))
        first, last = (clock.word(own, times[pages]) for times in (self.firsts, self.lasts))
        found[pages[touches(spans, first, last)]] = True
        return found

    def read(self, cores: Sequence[Core]) -> pl.DataFrame:
        """The rows of some cores with what they need, each with the number of its core.

        They are projected rows of the query whose first key is that number.
        """
        found, order = self._with_needs(cores)
        return self._apart(found, order)

    def fetch(self, cores: Sequence[Core]) -> None:
        """Read the pages of some cores, and those of all that they need."""
        self._with_needs(cores)

    def read_ends(self, cores: Sequence[Core]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """As `read`: the rows of cores in which their partitions go on behind the core, and of the others."""
        found, order = self._with_needs(cores)
        goes_on = self._goes_on(cores, found, order)
        return self._apart(found.some(goes_on), order), self._apart(found.some(~goes_on), order)

    def _apart(self, found: _Stretches, order: Words | None) -> pl.DataFrame:
        """The rows of stretches, each with the number of its core."""
        counts = found.ends - found.leads
        places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places += np.repeat(found.leads, counts)
        rows = self._chosen(places, order)
        return rows.with_columns(pl.Series(KEY + CORE, np.repeat(found.cores, counts)))

    def _goes_on(self, cores: Sequence[Core], found: _Stretches, order: Words | None) -> Flags:
        """Whether the partition of each stretch has rows behind its core: read ones, or on later pages."""
        following = np.minimum(found.ends, len(self.rows) - 1)
        is_read = found.ends < len(self.rows)
        if found.partitions is not None:
            is_read &= found.partitions[following] == found.partitions[found.firsts]
        if self.reach.rows_behind:
            return is_read
        ends = np.array([core.last for core in cores], np.int64)[found.cores]
        if self.decoder.key is None:
            return np.asarray(ends < self.lasts.max())
        table = self.pages.table.select(key=KEYS + self.decoder.key, first=pl.Series(self.firsts))
        latest = table.explode("key").group_by("key").agg(pl.col("first").max())
        at = found.firsts if order is None else order[found.firsts]
        keys = pl.DataFrame({"key": self.rows[SEEN].gather(at)})
        on_pages = keys.join(latest, on="key", how="left", nulls_equal=True, maintain_order="left")
        found_later: Flags = on_pages["first"].fill_null(INT64_MIN).to_numpy() > ends
        return is_read | found_later

    def read_together(self, cores: Sequence[Core], ties: Ties) -> pl.DataFrame:
        """The rows of some cores with what they need, each once: projected rows of the query.

        Their predicates are evaluated, also those that read earlier rows.
        """
        return self._together(*self._with_needs(cores), ties)

    def read_together_ends(
        self, cores: Sequence[Core], ties: Ties
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """As `read_together`: the rows of partitions that go on behind the last of their cores, and of the others."""
        found, order = self._with_needs(cores)
        ends_there = ~self._goes_on(cores, found, order)
        if found.partitions is None:
            ends_there[:] = ends_there.any()
        else:
            partitions = found.partitions[found.firsts]
            ends_there = np.isin(partitions, partitions[ends_there])
        open_ones = self._together(found.some(~ends_there), order, ties)
        return open_ones, self._together(found.some(ends_there), order, ties)

    def read_raw(self, cores: Sequence[Core]) -> pl.DataFrame:
        """The rows of some cores with what they need, each once, and their places.

        Predicates of earlier rows are not evaluated.
        """
        found, order = self._with_needs(cores)
        rows = self._raw(found, order)
        places = self._places(found)
        return rows.with_columns(
            self.rows[PLACE].gather(places if order is None else order[places])
        )

    def _together(self, found: _Stretches, order: Words | None, ties: Ties) -> pl.DataFrame:
        """The rows of stretches, each once, with all predicates evaluated."""
        if self.reach.reads_the_past:
            return self._evaluated(found, order, ties)
        return self._raw(found, order)

    def _raw(self, found: _Stretches, order: Words | None) -> pl.DataFrame:
        """The rows of stretches, each once."""
        return self._chosen(self._places(found), order)

    def _places(self, found: _Stretches) -> Words:
        """The places of the rows of stretches among all that have been read, each once."""
        begins = np.zeros(len(self.rows) + 1, np.int64)
        np.add.at(begins, found.leads, 1)
        np.add.at(begins, found.tails, -1)
        return np.flatnonzero(np.cumsum(begins)[:-1])

    def _evaluated(self, found: _Stretches, order: Words | None, ties: Ties) -> pl.DataFrame:
        """The rows of stretches, and before each the last one, or those since which UNTIL is decided.

        Of these it is known what predicates read.
        """
        counts = found.tails - found.leads
        stretch = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places += found.leads[stretch]
        chosen = self._chosen(places, order)
        times = chosen[TIME].to_numpy()
        again = (stretch[1:] == stretch[:-1]) & (times[1:] == times[:-1])
        if SEQUENCE in chosen.columns:
            sequence = chosen[SEQUENCE].to_numpy()
            again &= sequence[1:] == sequence[:-1]
        kept = np.ones(len(places), np.bool_)
        if not self.decoder.projection.has_ties:
            pass  # all rows differ in their order
        elif ties == "first":
            kept[1:] = ~again
        elif ties == "last":
            kept[:-1] = ~again
        stretch, places, times = stretch[kept], places[kept], times[kept]
        offsets = np.searchsorted(stretch, np.arange(len(counts) + 1))
        rows = with_past(
            self._chosen(places, order), self.decoder.projection,
            OrderedRows(np.arange(len(counts)), offsets, times, True),
            PastValues(self.decoder.binding.past),
        )  # fmt: skip
        inside = places >= found.owns[stretch]
        covered = np.zeros(len(self.rows), np.bool_)
        covered[places[inside]] = True
        before = ~inside & ~covered[places]
        before[:-1] &= inside[1:] | (places >= found.held[stretch])[:-1]
        if self.decoder.binding.query.rows is not None:
            before[:] = False
        is_first = np.zeros(len(places), np.bool_)  # what lies around two cores is in two stretches
        counted = np.flatnonzero(inside | before)
        is_first[counted[np.unique(places[counted], return_index=True)[1]]] = True
        names = [name for name in rows.columns if not name.startswith(RAW)]
        return rows.select(columns_named(names)).filter(pl.Series(is_first))

    def _with_needs(self, cores: Sequence[Core]) -> tuple[_Stretches, Words | None]:
        """The stretches of some cores, read with all that they need, and the order of rows."""
        self._add(self.wanted(*cores))
        self._more_pages = self._more_before = 1
        is_first = True
        while True:
            order, partitions, times = self._ordered()
            found = self._stretches(cores, order, partitions, times)
            missing = np.zeros(len(self.pages), np.bool_)
            for needs, pages in found.needs:
                missing |= needs.missing_pages(pages & ~self.is_read)
            if not missing.any():
                return found, order
            again = costs.AGAIN * len(self.rows)
            self.besides += again
            # where all rows once more cost more than some pages, these may be read in vain
            times_more = 4 if self.cost_of(missing) < again else 2
            self._more_pages *= times_more
            self._more_before *= 1 if is_first else times_more
            is_first = False
            self._add(missing)

    def _chosen(self, places: Words, order: Words | None) -> pl.DataFrame:
        chosen = places if order is None else order[places]
        helpers = (SEEN, _CELL, PLACE, _DECIDES)
        kept = [one for one in self.rows.iter_columns() if not one.name.startswith(helpers)]
        return pl.DataFrame(kept)[chosen]

    @property
    def rows(self) -> pl.DataFrame:
        """The rows that have been read, in the order of the archive."""
        assert self._rows is not None
        return self._rows

    def _add(self, wanted: Flags) -> None:
        """Read some more pages."""
        pages = np.flatnonzero(wanted & ~self.is_read)
        if self._rows is not None and not len(pages):
            return
        self.check_cost(wanted)
        self.is_read[pages] = True
        frame, counts = self.decoder.read(pages)
        frame = frame.with_columns(places_of(pages, counts))
        frame = frame.with_columns(self._decisions(frame))
        if self.ranges is not None:
            frame = frame.with_columns(self._cells(frame, self.ranges))
        known = frame if self._rows is None else pl.concat([self._rows, frame]).sort(PLACE)
        self._rows = known

    def _decisions(self, frame: pl.DataFrame) -> list[pl.Series]:
        """Whether it is known after each row that UNTIL is true, or that it is not."""
        latches = self.reach.latches
        if not latches:
            return []
        columns = self.decoder.binding.predicate_columns
        read = pl.DataFrame([frame[RAW + name].alias(name) for name in columns])
        return [
            read.select(pl.any_horizontal(latch.operands).alias(f"{_DECIDES}{n}")).to_series()
            for n, latch in enumerate(latches)
        ]

    def _cells(self, frame: pl.DataFrame, ranges: KeyRanges) -> pl.Series:
        """The cell of each row's key."""
        distinct = frame[SEEN].unique()
        cells = pl.DataFrame({SEEN: distinct, _CELL: ranges.of_keys(distinct)})
        return frame.select(SEEN).join(
            cells, on=SEEN, how="left", nulls_equal=True, maintain_order="left"
        )[_CELL]  # fmt: skip

    def _ordered(self) -> tuple[Words | None, Words | None, Words]:
        """The places of rows by partition and time, and both; None: as they are, or there is one."""
        times = self.rows[TIME].to_numpy()
        sequence = [self.rows[SEQUENCE]] if SEQUENCE in self.rows.columns else []
        if not self.keys:
            if not sequence and bool((times[1:] >= times[:-1]).all()):
                return None, None, times
            order = np.lexsort((*(column.to_numpy() for column in sequence), times))
            return order, None, times[order]
        names = [f"key{number}" for number in range(len(self.keys))]
        keys = self.rows.select(
            pl.col(key).alias(name) for name, key in zip(names, self.keys, strict=True)
        )
        known = keys.unique().with_row_index(_PARTITION)
        numbered = keys.with_columns(self.rows[TIME], *sequence).join(
            known, on=names, how="left", nulls_equal=True, maintain_order="left"
        )
        order = (
            numbered.select(pl.arg_sort_by(_PARTITION, TIME, *sequence, maintain_order=True))
            .to_series()
            .cast(pl.Int64)
            .to_numpy()
        )
        partitions = numbered[_PARTITION].cast(pl.Int64).to_numpy()
        return order, partitions[order], times[order]

    def cores_of_reports(self, cores: Sequence[Core], found: pl.DataFrame) -> Words:
        """The number of the core in which each result row is reported, or -1."""
        keys = self.decoder.binding.query.partition_by
        times = found[found.columns[len(keys)]].to_physical().cast(pl.Int64).to_numpy()
        cells = None
        if self.ranges is not None:
            seen = as_seen(keys[0], self.pages.schema[keys[0]])
            assert seen is not None  # else there are no ranges
            cells = self.ranges.of_keys(found.select(seen).to_series())
        return self._core_of_rows(cores, times, cells)

    def _core_of_rows(self, cores: Sequence[Core], times: Words, cells: Words | None) -> Words:
        """The number of the core that each row is of, or -1."""
        starts = np.array([core.start for core in cores], np.int64)
        ends = np.array([core.last for core in cores], np.int64)
        groups, row_groups = np.zeros(len(cores), np.int64), np.zeros(len(times), np.int64)
        if cells is not None:
            bounds = sorted({core.cells for core in cores})
            lows, highs = np.array(bounds, np.int64).reshape(-1, 2).T
            groups = np.searchsorted(lows, np.array([core.cells[0] for core in cores]))
            row_groups = np.searchsorted(lows, cells, "right") - 1
            row_groups[highs[row_groups] < cells] = -1
        # the cores of a group lie apart: a row is of the last that does not start after it, if at all
        distinct = np.unique(starts)
        word = groups * (len(distinct) + 1) + np.searchsorted(distinct, starts) + 1
        by_word = np.argsort(word)
        rank = np.searchsorted(distinct, times, "right")
        place = np.searchsorted(word[by_word], row_groups * (len(distinct) + 1) + rank, "right") - 1
        found = by_word[place]
        inside = (place >= 0) & (groups[found] == row_groups) & (times <= ends[found])
        return np.where(inside & (times >= starts[found]), found, -1)

    def _stretches(
        self, cores: Sequence[Core], order: Words | None, partitions: Words | None, times: Words
    ) -> _Stretches:
        """The rows of each partition in each core, and what is needed before them."""
        cells = None if self.ranges is None else self.rows[_CELL].to_numpy()
        cells = cells if order is None or cells is None else cells[order]
        of_row = self._core_of_rows(cores, times, cells)
        begins = np.ones(len(times), np.bool_)
        begins[1:] = of_row[1:] != of_row[:-1]
        if partitions is not None:
            begins[1:] |= partitions[1:] != partitions[:-1]
        edges = np.append(np.flatnonzero(begins), len(times))
        firsts, ends = edges[:-1], edges[1:]
        inside = of_row[firsts] >= 0 if len(firsts) else np.zeros(0, np.bool_)
        firsts, ends = firsts[inside], ends[inside]
        found = of_row[firsts]
        starts = np.array([core.start for core in cores], np.int64)[found]
        shown = self.rows[firsts if order is None else order[firsts]]
        is_needed = np.ones(len(firsts), np.bool_)
        if not self.reach.needs_last and len(firsts):
            bits = [name for name in shown.columns if name.startswith(PREDICATE)]
            is_needed = shown.select(pl.any_horizontal(bits).fill_null(False)).to_series()
            is_needed = is_needed.to_numpy().copy()
            following = np.minimum(firsts + 1, len(times) - 1)
            is_needed |= (following < ends) & (times[following] == times[firsts])
        if partitions is None:
            begin, finish = np.zeros(len(firsts), np.int64), np.full(len(firsts), len(times))
        else:
            begin = np.searchsorted(partitions, partitions[firsts])
            finish = np.searchsorted(partitions, partitions[firsts], "right")
        owns, leads, bounds = self._leads(firsts, begin, times)
        tails, last_bounds = self._tails(ends, finish, times)
        chosen = np.flatnonzero(is_needed)
        if self.reach.max_gap is not None and not self.reach.reads_the_past:
            # behind a silence all begins anew
            longest = min(self.reach.max_gap * self.reach.rows, MOST_TICKS)
            bounds = np.maximum(bounds, later(times[firsts], -longest))
        others = {name: shown[KEY + name] for name in self.decoder.binding.query.partition_by[1:]}
        own = Needs(
            pages=self.pages,
            page_times=(self.firsts, self.lasts),
            key=self.decoder.key,
            keys=shown[SEEN].gather(chosen),
            starts=starts[chosen],
            bounds=bounds[chosen],
            other_keys={name: keys.gather(chosen) for name, keys in others.items()},
            n_pages=self._more_pages if self.reach.counted else self._more_before,
        )
        leads = np.where(is_needed, leads, firsts)
        needs = [(own, np.ones(len(self.pages), np.bool_))]
        held = firsts
        for n, pages in enumerate(self._deciding):
            deciding, since = self._decided_since(n, order, firsts, begin, times)
            held = np.minimum(held, deciding)
            leads = np.minimum(leads, deciding)
            further = replace(own, bounds=since[chosen], n_pages=self._more_pages)
            needs.append((further, pages))
        if self.reach.rows_behind:
            lasts = np.array([core.last for core in cores], np.int64)[found]
            behind = replace(
                own, page_times=(-self.lasts, -self.firsts), keys=shown[SEEN], starts=-lasts,
                bounds=-last_bounds, other_keys=others, n_pages=self._more_pages,
            )  # fmt: skip
            needs.append((behind, np.ones(len(self.pages), np.bool_)))
        return _Stretches(found, leads, owns, firsts, ends, tails, held, needs, partitions)

    @cached_property
    def _deciding(self) -> list[Flags]:
        """For each UNTIL the pages with rows that may decide it.

        Where a silence ends it these are all: only the rows on both sides tell of one.
        """
        pages, every = self.pages, np.ones(len(self.pages), np.bool_)
        return [
            may_decide(latch.node, pages.table, pages.may_have) if latch.gap is None else every
            for latch in self.reach.latches
            if isinstance(latch.node, Until)
        ]

    def _decided_since(
        self, number: int, order: Words | None, firsts: Words, begin: Words, times: Words
    ) -> tuple[Words, Words]:
        """The latest rows before others that decide an UNTIL, and their times; the lowest where there is none.

        Behind a silence that ends it a row decides it, too: if there is none so long before that.
        """
        decides = self.rows[f"{_DECIDES}{number}"].to_numpy()
        decides = decides if order is None else decides[order]
        latest = np.maximum.accumulate(np.where(decides, np.arange(len(decides)), -1))
        at = np.where(firsts > begin, latest[firsts - 1], -1)
        since = np.where(at >= begin, times[at], INT64_MIN)
        gap = self.reach.latches[number].gap
        if gap is not None:
            behind = np.flatnonzero(times[1:] > later(times[:-1], gap)) + 1
            place = (
                np.searchsorted(behind, firsts) - 1
            )  # the latest before each row, of any partition
            at_gap = np.where(place >= 0, np.append(behind, 0)[place], -1)
            since_gap = np.where(at_gap > begin, later(times[at_gap], -gap), INT64_MIN)
            since = np.maximum(since, since_gap)
            longest = self.reach.max_gap
            if longest is not None:  # and behind a longer one nothing counts of the row before
                before = times[np.maximum(firsts - 1, 0)]
                is_behind = (firsts > begin) & (times[firsts] > later(before, longest))
                since = np.where(
                    is_behind, np.maximum(since, later(times[firsts], -longest)), since
                )
        return _first_from(times, begin, firsts, since), since

    def _leads(self, firsts: Words, begin: Words, times: Words) -> tuple[Words, Words, Words]:
        """Where what counts before rows begins, and what is needed, and from which time on all of it is needed.

        That is the lowest time where fewer rows have been read than are needed: any earlier one counts.
        """
        if not len(firsts):
            return firsts, firsts, firsts
        every = np.ones(len(firsts), np.bool_)
        owns, known = _rows_back(firsts, every, begin, times, self.reach.own_rows)
        at, known = _rows_back(owns, known, begin, times, self.reach.rows)
        lowest = np.where(known, later(times[at], -self.reach.ticks), INT64_MIN)
        return owns, _first_from(times, begin, firsts, lowest), lowest

    def _tails(self, ends: Words, finish: Words, times: Words) -> tuple[Words, Words]:
        """Where what counts behind rows ends, and up to which time all of it is needed."""
        at, known = ends, np.ones(len(ends), np.bool_)
        for _ in range(self.reach.rows_behind):  # rows of one time count as one
            known = known & (at < finish)
            following = np.where(known, times[np.minimum(at, len(times) - 1)], INT64_MIN)
            at = np.where(known, _first_from(times, at, finish, later(following, 1)), at)
        return at, np.where(known, times[np.maximum(at - 1, 0)], INT64_MAX)


def places_of(pages: Words, counts: Words) -> pl.Series:
    """The places in the archive of all rows of some pages, of which each has so many."""
    places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return pl.Series(PLACE, np.repeat(pages, counts) * (1 << 32) + places, dtype=pl.Int64)


def _rows_back(
    at: Words, known: Flags, begin: Words, times: Words, count: int
) -> tuple[Words, Flags]:
    """So many rows before places, and whether there are as many; rows of one time count as one."""
    if not count:
        return at, known
    is_first = np.ones(len(times), np.bool_)
    is_first[1:] = times[1:] != times[:-1]
    is_first[begin] = True
    instants = np.flatnonzero(is_first)
    own = (np.cumsum(is_first) - 1)[at]
    place = own + (instants[own] < at) - count
    found = instants[np.maximum(place, 0)]
    is_there = known & (place >= 0) & (found >= begin)
    return np.where(is_there, found, np.where(known, begin, at)), is_there


def _first_from(times: Words, begin: Words, end: Words, least: Words) -> Words:
    """Between two places each, the first whose time is not below a least one; the times are in order."""
    low, high = begin.copy(), end.copy()
    while (low < high).any():
        middle = (low + high) // 2
        below = (low < high) & (times[np.minimum(middle, len(times) - 1)] < least)
        high = np.where((low < high) & ~below, middle, high)
        low = np.where(below, middle + 1, low)
    return low
