"""Rows of partitions that are needed before or behind their cores: which pages may have those not read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from piestream.archives.cores import Flags
from piestream.archives.pages import Pages, Words
from piestream.archives.statistics import HIGHEST, KEYS, LOWEST, MISSING, ROWS

__all__ = ["Needs"]

_ENDS = (LOWEST, HIGHEST)
#: So many pairs of a partition and a page are looked at together.
_CASES = 1 << 22
#: So many filters are asked at most, which takes a tenth of a second.
_MOST_LOOKS = 1 << 18


@dataclass(frozen=True)
class Needs:
    """Partitions of cores, each with the times between which rows of it are needed.

    Of rows behind cores all times are negated, so that these come before them.
    """

    pages: Pages
    page_times: tuple[Words, Words]
    key: str | None
    keys: pl.Series  # of the first key column, as statistics have it
    starts: Words  # of their cores: what is needed lies before
    bounds: Words  # from which time on all rows before the cores are needed
    other_keys: Mapping[str, pl.Series]  # of the other key columns, as their rows have them
    n_pages: int = 1  # of the pages that may have a row so many are given, the latest ones

    def missing_pages(self, unread: Flags) -> Flags:
        """The latest pages that may have a row, for each partition with rows missing."""
        found = np.zeros(len(self.pages), np.bool_)
        pages = np.flatnonzero(unread)
        if not len(pages) or not len(self.starts):
            return found
        firsts, lasts = (times[pages] for times in self.page_times)
        step = max(1, _CASES // len(pages))
        for first in range(0, len(self.starts), step):
            some = slice(first, first + step)
            near = (firsts < self.starts[some, None]) & (lasts >= self.bounds[some, None])
            needs, places = np.nonzero(near)
            own = pages[places]
            may = self._may_have_key(self.keys[some], needs, own)
            found |= self._latest(needs[may] + first, own[may])
        return found

    def _may_have_key(self, keys: pl.Series, needs: Words, pages: Words) -> Flags:
        """Which pages may have rows of the partitions of some needs, pair by pair, by the first key."""
        if self.key is None or LOWEST + self.key not in self.pages.table.columns:
            return np.ones(len(needs), np.bool_)
        is_near = np.zeros(len(self.pages), np.bool_)
        is_near[pages] = True
        near, place = np.flatnonzero(is_near), (np.cumsum(is_near) - 1)[pages]
        chosen = self.pages.table[near]
        low, high = chosen[LOWEST + self.key], chosen[HIGHEST + self.key]
        ranks = pl.concat([keys, low, high]).rank("dense").cast(pl.Int64).fill_null(0)
        ranked = ranks.to_numpy()
        own, low_rank, high_rank = np.split(ranked, [len(keys), len(keys) + len(low)])
        some = (chosen[MISSING + self.key] < chosen[ROWS]).fill_null(True).to_numpy()
        null = (chosen[MISSING + self.key] > 0).fill_null(True).to_numpy()
        most = np.where(high_rank == 0, len(ranked) + 1, high_rank)
        key = own[needs]
        may: Flags = (key >= low_rank[place]) & (key <= most[place]) & some[place]
        may = np.where(key == 0, null[place], may)
        lists = chosen.get_column(KEYS + self.key, default=None)
        is_listed = np.zeros(len(near), np.bool_)
        if lists is not None:
            is_listed = lists.is_not_null().to_numpy()
            may &= ~is_listed[place] | _is_listed(lists, keys, own, place, key)
        self._filter(may, keys, needs, pages, near[~is_listed])
        return may

    def _filter(
        self, may: Flags, keys: pl.Series, needs: Words, pages: Words, unlisted: Words
    ) -> None:
        """Leave out pages whose filters say that they have no rows of the partitions in need."""
        distinct = keys.unique().drop_nulls()
        if self.key is None or not len(unlisted) or len(distinct) * len(self.pages) > _MOST_LOOKS:
            return
        number = np.zeros(len(keys), np.int64)  # 0: a missing one, of which filters say nothing
        may_be_on = np.ones((len(distinct) + 1, len(self.pages)), np.bool_)
        for n, value in enumerate(distinct.to_list(), 1):
            there = self.pages.may_have(self.key, value)
            if there is None:
                return
            number[(keys == value).fill_null(False).to_numpy()] = n
            may_be_on[n] = there
        may &= may_be_on[number[needs], pages]

    def _latest(self, needs: Words, pages: Words) -> Flags:
        """The latest pages of each need among pairs of both, if they may have the other keys."""
        lasts = self.page_times[1]
        may = self._may_have_others(needs, pages)
        needs, pages = needs[may], pages[may]
        found = np.zeros(len(self.pages), np.bool_)
        order = np.lexsort((lasts[pages], needs))
        needs, pages = needs[order], pages[order]
        behind = np.searchsorted(needs, needs, "right") - np.arange(len(needs))
        found[pages[behind <= self.n_pages]] = True
        return found

    def _may_have_others(self, needs: Words, pages: Words) -> Flags:
        """Which pages may have the other keys of partitions, pair by pair, by their bounds."""
        found = np.ones(len(needs), np.bool_)
        for name, keys in self.other_keys.items():
            low, high = (self.pages.table.get_column(end + name, default=None) for end in _ENDS)
            if low is None or high is None or keys.dtype != low.dtype or keys.dtype.is_float():
                continue
            own = keys.gather(needs)
            inside = (own >= low.gather(pages)) & (own <= high.gather(pages))
            found &= inside.fill_null(True).to_numpy()
        return found


def _is_listed(
    lists: pl.Series, keys: pl.Series, ranks: Words, place: Words, wanted: Words
) -> Flags:
    """Whether lists of keys, by their places, have the keys of these ranks, pair by pair."""
    known = pl.DataFrame({"key": keys, "rank": ranks}).unique()
    there = (
        pl.DataFrame({"place": np.arange(len(lists)), "key": lists})
        .explode("key")
        .join(known, on="key", nulls_equal=True)
    )
    size = int(ranks.max(initial=0)) + 1
    return np.isin(
        place * size + wanted, there["place"].to_numpy() * size + there["rank"].to_numpy()
    )
