"""The matches of a query in brackets where they are needed: in regions, or everywhere.

A region is a span of time of one partition. Its rows, and those before it that these depend on, are
all that the matches depend on that begin in it and are known by its end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from piestream.archives.cores import Flags
from piestream.archives.live_reach import part_reach
from piestream.archives.live_regions import Regions, merged
from piestream.archives.live_rows import ALL
from piestream.archives.live_store import REGION, RowStore
from piestream.archives.pages import Words
from piestream.copies import copied_but
from piestream.engine.combined import open_stream
from piestream.engine.projection import KEY, TIME
from piestream.engine.reordering import tie_error
from piestream.engine.stream import Stream
from piestream.engine.union import NUMBER, START, CombinedProjection, having_length
from piestream.errors import TieError
from piestream.language.options import Ties
from piestream.plan.binding import Binding, bind

__all__ = ["RegionPart"]

#: The column by which regions are partitions of their own.
EPISODE = "episode:"
_FROM, _UNTIL, _COUNT = "from:", "until:", "count:"
#: After so many episodes the matches that are kept are forgotten: so is what their partitions take.
_MOST_EPISODES = 1 << 14


class RegionPart:
    """One query in brackets, whose matches are looked for region by region.

    With ``caches`` no row is worked on twice: what is known of a partition is kept, and goes on where
    the next region overlaps it. A part that is asked once reads of an archive no more than what is
    in its regions, or all rows where that costs no more.
    """

    def __init__(
        self, number: int, union: CombinedProjection, inner: Binding, store: RowStore, ties: Ties,
        caches: bool,
    ) -> None:  # fmt: skip
        self.number = number
        self.union = union
        self.store = store
        self.ties = ties
        self.caches = caches
        #: Of a part that is asked once, how many threads may work on all rows.
        self.once_threads: int | None = None
        self.inner = inner
        query = inner.query
        apart = replace(query, partition_by=(EPISODE, *query.partition_by))
        self.binding = bind(apart, {**inner.schema, EPISODE: pl.Int64()}, as_stream=True)
        #: Whether time alone ends what is open, without the rows of a pattern of rows.
        self.has_deadlines = query.rows is None and part_reach(inner).has_deadlines
        #: Whether time alone makes matches known, so that it has to go on for all partitions.
        self.has_clock = query.rows is not None or self.has_deadlines
        #: How many rows have been worked on.
        self.n_rows = 0
        self._cache = _Cache(store)

    def __deepcopy__(self, memo: dict[int, Any]) -> RegionPart:
        return copied_but(self, memo, union=self.union, binding=self.binding, inner=self.inner)

    def intervals(self, regions: Regions, now: int, passed: int, oldest: int) -> pl.DataFrame:
        """The matches in some regions, as rows of the union; all rows up to ``now`` are there.

        Time before ``passed`` has passed. No region to come begins before ``oldest``.
        """
        if not len(regions):
            return pl.DataFrame(schema=self.union.schema)
        if self.once_threads is not None:
            regions = merged(regions, self.store.keys)
            if not self.store.load_regions(regions):
                return self._everywhere(passed, self.once_threads)
            return self._anew(regions, passed)
        self.store.load(regions.keys, int(regions.firsts.min()), now)
        if self.caches:
            return self._continued(regions, now, passed, oldest)
        return self._anew(regions, passed)

    def _everywhere(self, passed: int, threads: int) -> pl.DataFrame:
        """The matches in all rows."""
        stream = open_stream(self.inner, ties=self.ties, lateness=None, whole=True, threads=threads)
        stream.observe_time(passed)
        rows = self.store.all_rows().drop(ALL)
        self.n_rows += len(rows)
        found = (stream.process_projected(rows), stream.finish("open"))
        return pl.concat([self.union.of_stream(self.number, one) for one in found])

    # -- without a cache --------------------------------------------------------------------------

    def _anew(self, regions: Regions, passed: int) -> pl.DataFrame:
        rows = self.store.cut(regions, np.full(len(regions), self.store.leads))
        stream = open_stream(self.binding, ties=self.ties, lateness=None, whole=True)
        stream.observe_time(passed)
        found = self._processed(stream, rows)
        found = pl.concat([found, self._of_union(stream.finish("open"))])
        ends = _bounds(np.arange(len(regions)), regions.firsts, regions.lasts)
        found = found.join(ends, on=REGION, how="left").filter(
            (pl.col(TIME) <= pl.col(_UNTIL)) & (pl.col(START) >= pl.col(_FROM))
        )
        if len(regions) > 1:  # a match that is in several regions is as often in each
            of_match = [n for n in found.columns if n not in (REGION, _FROM, _UNTIL, NUMBER)]
            count = pl.int_range(pl.len()).over([REGION, *of_match])
            found = found.with_columns(count.alias(_COUNT)).unique(
                [*of_match, _COUNT], keep="first", maintain_order=True
            )
        return found.select(list(self.union.schema))

    def _processed(self, stream: Stream, rows: pl.DataFrame) -> pl.DataFrame:
        """The matches that rows of regions make known, each with the number of its region."""
        self.n_rows += len(rows)
        rows = rows.rename({REGION: KEY + EPISODE}).drop(ALL)
        try:
            return self._of_union(stream.process_projected(rows))
        except TieError:
            again = ~pl.struct(
                *self.store.projection.tie_columns, KEY + EPISODE
            ).is_first_distinct()
            row = int(rows.select(again).to_series().arg_max() or 0)
            raise tie_error(self.store.projection, rows, row) from None

    def _of_union(self, found: pl.DataFrame) -> pl.DataFrame:
        source = self.union.binding.parts[self.number].source
        found = having_length(self.inner.query, found, str(source.start), str(source.end))
        return self.union.of_stream(self.number, found).with_columns(found[EPISODE].alias(REGION))

    # -- with a cache -----------------------------------------------------------------------------

    def _continued(self, regions: Regions, now: int, passed: int, oldest: int) -> pl.DataFrame:
        cache = self._cache
        if cache.version != self.store.version or cache.count > _MOST_EPISODES:
            cache = self._cache = _Cache(self.store)
        stream = cache.stream
        if stream is None:
            stream = open_stream(self.binding, ties=self.ties, lateness=None)
            cache.stream = stream
            cache.found = pl.DataFrame(schema=dict(self.union.schema))
        stretches = merged(regions, self.store.keys)
        more = cache.take(stretches, now, self.store.horizon if self.has_clock else None)
        if len(more.regions):
            leads = np.where(more.is_new, self.store.leads, 0)
            rows = self.store.cut(more.regions, leads)
            numbers = pl.Series(more.episodes, dtype=pl.Int64).gather(rows[REGION])
            rows = rows.with_columns(numbers.alias(REGION))
            stream.observe_time(passed)
            found = self._processed(stream, rows)
            if self.has_deadlines:
                found = pl.concat([found, self._of_union(stream.pass_time())])
            found = found.join(cache.bounds, on=REGION, how="left").filter(
                (pl.col(TIME) <= pl.col(_UNTIL)) & (pl.col(START) >= pl.col(_FROM))
            )
            cache.add(found.select(list(self.union.schema)), more)
        cache.found = cache.found.filter(pl.col(START) >= oldest)
        return cache.found

    @property
    def cached(self) -> pl.DataFrame:
        """The matches that are kept."""
        return self._cache.found


def _bounds(numbers: Words, firsts: Words, lasts: Words) -> pl.DataFrame:
    return pl.DataFrame(
        {REGION: numbers, _FROM: firsts, _UNTIL: lasts},
        schema={REGION: pl.Int64, _FROM: pl.Int64, _UNTIL: pl.Int64},
    )


class _More(NamedTuple):
    """What has to be read besides what is known: with each span its episode, and whether that is new."""

    regions: Regions
    episodes: Words
    is_new: Flags


class _Cache:
    """The matches that are known, and an open stream in which each span of a partition is apart."""

    def __init__(self, store: RowStore) -> None:
        self.version = store.version
        self.keys = store.keys
        self.stream: Stream | None = None
        self.found = pl.DataFrame()
        #: Of each episode, from when to when its rows have come.
        self.firsts = np.zeros(0, np.int64)
        self.lasts = np.zeros(0, np.int64)
        #: The episode of each partition that may go on.
        self._open = (
            store.own.clear().select(self.keys).with_columns(pl.lit(0, pl.Int64).alias(EPISODE))
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> _Cache:
        return copied_but(self, memo)

    @property
    def count(self) -> int:
        """How many episodes there have been."""
        return len(self.firsts)

    @property
    def bounds(self) -> pl.DataFrame:
        """From when to when the rows of each episode have come."""
        return _bounds(np.arange(self.count), self.firsts, self.lasts)

    def add(self, found: pl.DataFrame, more: _More) -> None:
        """Matches have become known; those of new episodes replace what was known of their spans."""
        new = more.regions.only(more.is_new)
        if len(new) and len(self.found):
            begun = new.keys.with_columns(pl.Series(_FROM, new.firsts))
            begun = begun.group_by(self.keys).agg(pl.col(_FROM).min())
            known = self.found.with_columns(pl.lit(0, pl.Int8).alias(ALL))
            known = known.join(begun, on=self.keys, how="left", nulls_equal=True)
            is_before = (pl.col(START) < pl.col(_FROM)).fill_null(True)
            self.found = known.filter(is_before).select(found.columns)
        self.found = pl.concat([self.found, found])

    def take(self, spans: Regions, now: int, horizon: int | None) -> _More:
        """What has to be read for some spans: the rest of those that go on, and what is new.

        With a ``horizon`` time goes on for all at once: what does not go on has ended, and what nobody
        asks for goes on if all of its rows since are there, which they are from the horizon on.
        """
        joined = spans.keys.join(
            self._open, on=self.keys, how="left", nulls_equal=True, maintain_order="left"
        )
        episodes = joined[EPISODE].fill_null(-1).to_numpy().copy()
        firsts, lasts = spans.firsts.copy(), spans.lasts.copy()
        known = episodes >= 0
        goes_on = known.copy()
        at = episodes[known]
        goes_on[known] = (firsts[known] >= self.firsts[at]) & (firsts[known] <= self.lasts[at] + 1)
        is_last = spans.keys.select(pl.struct(self.keys).is_last_distinct()).to_series().to_numpy()
        if horizon is not None:
            lasts[is_last] = now
        is_new = ~goes_on
        episodes[is_new] = np.arange(self.count, self.count + int(is_new.sum()))
        self.firsts = np.concatenate([self.firsts, firsts[is_new]])
        self.lasts = np.concatenate([self.lasts, firsts[is_new] - 1])
        firsts[goes_on] = self.lasts[episodes[goes_on]] + 1
        latest = spans.keys.with_columns(pl.Series(EPISODE, episodes)).filter(pl.Series(is_last))
        others = self._open.join(latest, on=self.keys, how="anti", nulls_equal=True)
        keys = spans.keys
        if horizon is not None:
            there = pl.Series(self.lasts[others[EPISODE].to_numpy()] + 1 >= horizon)
            others = others.filter(there)
            own = others[EPISODE].to_numpy()
            keys = pl.concat([keys, others.select(keys.columns)])
            firsts = np.concatenate([firsts, self.lasts[own] + 1])
            lasts = np.concatenate([lasts, np.full(len(own), now)])
            episodes = np.concatenate([episodes, own])
            is_new = np.concatenate([is_new, np.zeros(len(own), np.bool_)])
        self._open = pl.concat([latest.select(self._open.columns), others])
        np.maximum.at(self.lasts, episodes, lasts)
        chosen = firsts <= lasts
        return _More(Regions(keys, firsts, lasts).only(chosen), episodes[chosen], is_new[chosen])
