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
        listed = None if self.key is None else KEYS + self.key
        table = self.pages.table
        if listed is not None and listed in table.columns:
            has_list = table[listed].is_not_null().to_numpy()[pages]
            found |= self._of_pairs(*self._listed_pairs(pages[has_list], listed))
            pages = pages[~has_list]
        step = max(1, _CASES // max(1, len(pages)))
        for first in range(0, len(self.starts) if len(pages) else 0, step):
            some = np.arange(first, min(first + step, len(self.starts)))
            may_have = self._may_have_key(some, pages)
            self._filter(may_have, some, pages)
            needs, places = np.nonzero(may_have)
            found |= self._of_pairs(some[needs], pages[places])
        return found

    def _listed_pairs(self, pages: Words, listed: str) -> tuple[Words, Words]:
        """The needs and the pages whose lists have their keys."""
        own = pl.DataFrame({"need": np.arange(len(self.keys)), "key": self.keys})
        pairs = (
            pl.DataFrame({"page": pages, "key": self.pages.table[listed].gather(pages)})
            .explode("key")
            .join(own, on="key", nulls_equal=True)
        )
        return pairs["need"].to_numpy(), pairs["page"].to_numpy()

    def _may_have_key(self, needs: Words, pages: Words) -> Flags:
        """Whether pages may have rows of the partitions in need."""
        shape = (len(needs), len(pages))
        table = self.pages.table
        if self.key is None or LOWEST + self.key not in table.columns:
            return np.ones(shape, np.bool_)
        keys, chosen = self.keys.gather(needs), table[pages]
        low, high = chosen[LOWEST + self.key], chosen[HIGHEST + self.key]
        ranks = pl.concat([keys, low, high]).rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
        own, low_rank, high_rank = np.split(ranks, [len(keys), len(keys) + len(low)])
        some = (chosen[MISSING + self.key] < chosen[ROWS]).fill_null(True).to_numpy()
        null = (chosen[MISSING + self.key] > 0).fill_null(True).to_numpy()
        most = np.where(high_rank == 0, ranks.max(initial=0) + 1, high_rank)
        within = (own[:, None] >= low_rank) & (own[:, None] <= most) & some
        return np.where((own == 0)[:, None], np.broadcast_to(null, shape), within)

    def _filter(self, may_have: Flags, needs: Words, pages: Words) -> None:
        """Leave out pages whose filters say that they have no rows of the partitions in need."""
        distinct = self.keys.gather(needs).unique().drop_nulls()
        if self.key is None or len(distinct) * len(self.pages) > _MOST_LOOKS:
            return
        own = self.keys.gather(needs)
        for value in distinct.to_list():
            there = self.pages.may_have(self.key, value)
            if there is None:
                return
            is_own = (own == value).fill_null(False).to_numpy()
            may_have[is_own] &= there[pages]

    def _of_pairs(self, needs: Words, pages: Words) -> Flags:
        """The latest pages of each need among pairs of both, if they may have what is missing."""
        firsts, lasts = self.page_times
        may = (firsts[pages] < self.starts[needs]) & (lasts[pages] >= self.bounds[needs])
        needs, pages = needs[may], pages[may]
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
