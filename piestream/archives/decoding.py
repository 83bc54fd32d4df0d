"""Of the pages that are read only those columns are decoded that something depends on.

Where statistics decide a predicate on a page, its columns are not decoded there for it; those that RETURN
or WHERE read of an interval only where there can be one. Quiet pages are not decoded at all; some are found
to be quiet when the page before has been.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl

from piestream.archives.costs import GAP
from piestream.archives.decoded import DecodedPages
from piestream.archives.pages import Words, stretches
from piestream.archives.quiet import QuietPages, pages_of_symbols
from piestream.archives.statistics import as_seen
from piestream.archives.verdicts import Flags, Verdict
from piestream.engine.projection import ATTRIBUTE, PREDICATE, Projection
from piestream.expressions.columns import column_named
from piestream.language.model import Query
from piestream.language.parts import Aggregate, Value
from piestream.plan.binding import Binding
from piestream.plan.columns import COUNTED, SUMMED

__all__ = ["SEEN", "Decoder"]

#: The column with the first key of a row, as statistics have it.
SEEN = "__key__"
_KEPT = "row:"


class Decoder:
    """Reads pages as the projected rows of one query, see `piestream.engine.projection`.

    One that has columns to be ``kept`` decodes these and all that the query reads, and `rows_of` gives them
    as they are.
    """

    def __init__(
        self,
        decoded_pages: DecodedPages,
        binding: Binding,
        verdicts: Sequence[Verdict],
        *,
        kept: Sequence[str] = (),
    ) -> None:
        self.decoded_pages = decoded_pages
        self.pages = pages = decoded_pages.pages
        self.kept = kept
        self.binding = binding
        self.verdicts = verdicts  # of each distinct predicate
        self.projection = Projection(binding)
        self.columns = list(dict.fromkeys((*kept, *binding.columns)))
        self.columns_of = {name: number for number, name in enumerate(self.columns)}
        #: Which columns of which pages have been decoded.
        self.decoded = np.zeros((len(pages), len(self.columns)), np.bool_)
        self.is_decided = [verdict.always_holds | ~verdict.can_hold for verdict in verdicts]
        self.quiet = QuietPages(pages, binding, verdicts)

    @property
    def key(self) -> str | None:
        """The first column of PARTITION BY."""
        keys = self.binding.query.partition_by
        return keys[0] if keys else None

    @property
    def _sequence(self) -> list[str]:
        """The column that orders events of one time, if there is one."""
        return [] if self.binding.sequence is None else [self.binding.sequence.name]

    @cached_property
    def needed(self) -> Flags:
        """Which columns of which pages something depends on."""
        query = self.binding.query
        found = np.zeros(self.decoded.shape, np.bool_)
        if query.rows is not None or self.kept:
            return ~found  # what a row gives depends on the others of its match
        for name in (*query.partition_by, self.binding.time.name, *self._sequence):
            found[:, self.columns_of[name]] = True
        distinct = dict.fromkeys(symbol.predicate for symbol in query.symbols)
        reads_the_past = bool(self.projection.ordered_predicates)
        for predicate, is_decided in zip(distinct, self.is_decided, strict=True):
            for name in predicate.columns:
                found[:, self.columns_of[name]] |= reads_the_past | ~is_decided
        for column, pages in _values_read(query, self.verdicts).items():
            if column is not None and column in self.columns_of:
                found[:, self.columns_of[column]] |= pages
        return found

    @property
    def is_quiet(self) -> Flags:
        """Which pages are not decoded, because their statistics suffice."""
        return self.quiet.nothing if self.kept else self.quiet.is_quiet

    def read(self, wanted: Words) -> tuple[pl.DataFrame, Words]:
        """The rows of some pages, in their order, and how many of them each page has."""
        if self.kept:
            return self._read(wanted)
        waiting = wanted[self.quiet.waits[wanted] & np.isin(wanted - 1, wanted)]
        if not len(waiting):
            return self._read(wanted)
        sure = np.setdiff1d(wanted, waiting)
        rows, counts = self._read(sure)
        last_rows = (np.cumsum(counts) - 1)[np.searchsorted(sure, waiting - 1)]
        is_unchanged = np.ones(len(waiting), np.bool_)
        for number, verdict in enumerate(self.verdicts):
            held = rows[f"{PREDICATE}{number}"].fill_null(False).to_numpy()[last_rows]
            is_unchanged &= held == verdict.always_holds[waiting]
        self.quiet.settle(waiting, is_unchanged)
        more, more_counts = self._read(waiting)
        pages, counts = np.concatenate((sure, waiting)), np.concatenate((counts, more_counts))
        order = np.argsort(np.repeat(pages, counts), kind="stable")
        return pl.concat([rows, more])[order], counts[np.argsort(pages)]

    def _read(self, wanted: Words) -> tuple[pl.DataFrame, Words]:
        is_quiet = self.is_quiet[wanted]
        frames = [self._quiet_rows(wanted[is_quiet]), *self._decoded(wanted[~is_quiet])]
        counts = np.where(is_quiet, self.quiet.rows_each, self.pages.rows[wanted])
        raw = pl.concat(frames)
        if is_quiet.any():
            raw = raw[_places(is_quiet, counts)]
        kept = [column_named(name).alias(_KEPT + name) for name in self.kept]
        rows = raw.select(*self.projection.columns, self._seen_key(), *kept)
        known = [
            *self._known_bits(rows, wanted, counts),
            *self._added(rows, wanted[is_quiet], np.repeat(is_quiet, counts)),
        ]
        return rows.with_columns(known), counts

    def note(self, pages: Flags, predicate: int) -> None:
        """Take notice that the columns of a predicate, keys and times were decoded on some pages."""
        query = self.binding.query
        distinct = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))
        for name in (*query.partition_by[:1], self.binding.time.name, *distinct[predicate].columns):
            self.decoded[pages, self.columns_of[name]] = True

    def rows_of(self, projected: pl.DataFrame) -> pl.DataFrame:
        """The rows, as the archive has them, that projected ones have been made of."""
        return pl.DataFrame([projected[_KEPT + name].alias(name) for name in self.kept])

    def _decoded(self, pages: Words) -> list[pl.DataFrame]:
        """The rows of pages, a frame for each stretch of them of which the same columns are read."""
        parts = []
        for first, last in stretches(pages, self.pages.files, GAP):
            chosen = pages[(pages >= first) & (pages <= last)]
            for part in self._parts(chosen):
                needed: Flags = np.asarray(self.needed[part].any(axis=0))
                self.decoded[part[0] : part[-1] + 1, needed] = True
                names = [name for name, one in zip(self.columns, needed, strict=True) if one]
                parts.append((part, names))
        return list(map(self._with_all_columns, self.decoded_pages.read_parts(parts)))

    def _parts(self, pages: Words) -> list[Words]:
        """A stretch, cut where other columns are read of several pages in a row."""
        needed = self.needed[pages]
        breaks = np.flatnonzero((needed[1:] != needed[:-1]).any(axis=1)) + 1
        parts: list[Words] = []
        for part in np.split(pages, breaks):
            if parts and min(len(part), len(parts[-1])) <= GAP:
                parts[-1] = np.concatenate((parts[-1], part))
            else:
                parts.append(part)
        return parts

    def _with_all_columns(self, frame: pl.DataFrame) -> pl.DataFrame:
        """With the columns that were not decoded, in which nothing is known."""
        if frame.columns == self.columns:
            return frame
        schema, there = self.pages.schema, set(frame.columns)
        return pl.DataFrame(
            [
                frame[name] if name in there
                else pl.Series(name, [None], schema[name]).new_from_index(0, len(frame))
                for name in self.columns
            ]
        )  # fmt: skip

    def _quiet_rows(self, pages: Words) -> pl.DataFrame:
        """The rows that stand for pages that are not decoded."""
        if not len(pages):
            return pl.DataFrame(schema={name: self.pages.schema[name] for name in self.columns})
        return self._with_all_columns(self.quiet.rows(pages))

    def _known_bits(self, rows: pl.DataFrame, pages: Words, counts: Words) -> list[pl.Series]:
        """The predicates that statistics decide on some of the pages."""
        changed = []
        for number in self.projection.row_predicates:
            decided = self.is_decided[number][pages]
            if decided.any():
                name = f"{PREDICATE}{number}"
                found = rows[name].fill_null(False).to_numpy()
                always = np.repeat(self.verdicts[number].always_holds[pages], counts)
                bits = np.where(np.repeat(decided, counts), always, found)
                changed.append(pl.Series(name, bits))
        return changed

    def _added(self, rows: pl.DataFrame, pages: Words, is_of_quiet: Flags) -> list[pl.Series]:
        """What quiet pages add to counts and sums, in the rows that stand for them."""
        if not len(pages):
            return []
        places = pl.Series(np.flatnonzero(is_of_quiet))
        return [
            rows[f"{ATTRIBUTE}{number}"].scatter(places, self.quiet.added(pages, attribute))
            for number, attribute in enumerate(self.binding.attributes)
            if attribute.form in (COUNTED, SUMMED)
        ]

    def _seen_key(self) -> pl.Expr:
        """The first key as statistics have it; nothing where it has no bounds."""
        seen = None if self.key is None else as_seen(self.key, self.pages.schema[self.key])
        return (pl.lit(0, pl.Int8) if seen is None else seen).alias(SEEN)


def _places(is_quiet: Flags, counts: Words) -> Words:
    """Where the rows of each page are, if those of quiet pages come before all others."""
    of_quiet, of_others = np.where(is_quiet, counts, 0), np.where(is_quiet, 0, counts)
    firsts = np.where(
        is_quiet,
        np.cumsum(of_quiet) - of_quiet,
        int(of_quiet.sum()) + np.cumsum(of_others) - of_others,
    )
    places: Words = np.arange(int(counts.sum())) + np.repeat(
        firsts - (np.cumsum(counts) - counts), counts
    )
    return places


def _values_read(query: Query, verdicts: Sequence[Verdict]) -> dict[str | None, Flags]:
    """The columns that RETURN and WHERE read of intervals, and the pages on which they do.

    None is the number of rows.
    """
    can_hold = pages_of_symbols(query, verdicts)
    found: dict[str | None, Flags] = {}
    for item in query.items:
        if isinstance(item, Aggregate | Value):
            pages = can_hold[item.symbol]
            if query.symbol(item.symbol).bridging is not None:
                pages = np.ones_like(pages)  # what lies between two runs counts too
            known = found.get(item.column)
            found[item.column] = pages if known is None else known | pages
    return found
