"""One open stream of a query that reads live streams and archives.

The queries in brackets that are needed everywhere go on with every row; those that need not are asked
only for regions around the matches of the others. What became known since the last call is joined by
the engine over all intervals of the last window: so each call sees the archive as it is at that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Self, Unpack

import numpy as np
import polars as pl

from piestream.archives.cores import Flags
from piestream.archives.live_limits import IntervalNumbers, LimitedJoin, with_completions
from piestream.archives.live_parts import RegionPart
from piestream.archives.live_plan import LEAST_ROWS, ROWS_BETWEEN, Choice, Sample, choose
from piestream.archives.live_reach import (
    PartReach,
    RelativeBounds,
    interval_needs,
    part_reach,
    relative_bounds,
)
from piestream.archives.live_regions import Regions
from piestream.archives.live_rows import ALL, ArchivedRows, held_schema, projected
from piestream.archives.live_sources import Sources, inner_of, live_parts, part_key
from piestream.archives.live_store import RowStore
from piestream.archives.pages import Words
from piestream.compiled.constants import INT64_MIN
from piestream.copies import copied_but
from piestream.engine.combined import CombinedStream, Frames, JoinStream
from piestream.engine.detector import PORTION_ROWS
from piestream.engine.partitions import Partitions
from piestream.engine.projection import TIME, Projection
from piestream.engine.reordering import ReorderBuffer
from piestream.engine.state import StreamState
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream, StreamKeywords
from piestream.engine.union import END, START, STREAM
from piestream.engine.validation import damaged
from piestream.language.options import AtEnd, Ties
from piestream.language.parts import Emit
from piestream.plan.binding import Binding

__all__ = ["LiveStream"]


class LiveStream(CombinedStream):
    """The state of one query over live streams and archives."""

    def __init__(self, binding: Binding, **options: Unpack[StreamKeywords]) -> None:
        super().__init__(binding, **options)
        self.live = live_parts(binding)
        self.needs = {n: interval_needs(binding, n) for n in range(len(binding.parts))}
        self.present = frozenset(n for n, needs in self.needs.items() if needs.is_present)
        self.reaches = {
            number: self._reach_of(number, part.inner)
            for number, part in enumerate(binding.parts)
            if part.inner is not None
        }
        self.stores: dict[int, RowStore] = {}
        self.parts: dict[int, RegionPart] = {}
        #: Which rows of parts that are asked for regions are late is judged as streams do.
        self._judges: dict[int, ReorderBuffer] = {}
        self._kept = pl.DataFrame(schema=self._union.schema)
        self._numbers = IntervalNumbers(self._union.schema)
        self._from = INT64_MIN  # instants before this one are done
        self._ends = False
        self._latest_rows = INT64_MIN
        self.choice: Choice | None = None
        self._stored: dict[int, pl.DataFrame] = {}
        self._stored_lazy_live: bool | None = None
        self._new: Mapping[int, pl.DataFrame] = {}
        self._recent: int | None = None
        self._sample: Sample | None = None
        self._rows_then = self._rows_since = 0  # when the plan was chosen, and since then

    def _reach_of(self, number: int, inner: Binding) -> PartReach:
        """What the matches of a part depend on, as far as these are needed."""
        reach = part_reach(inner)
        if self.needs[number].since_end is not None and reach.longest is None:
            return replace(reach, is_local=False)  # one that is needed may have begun at any time
        return reach

    def _open_inner(self, options: StreamKeywords) -> dict[int, Stream]:
        live = live_parts(self.binding)
        return {n: stream for n, stream in super()._open_inner(options).items() if n in live}

    # -- opening ----------------------------------------------------------------------------------

    def attach(self, sources: Sources) -> None:
        """Take the archives and choose a plan, before the first rows."""
        self.sources = sources
        inner = {number: inner_of(part) for number, part in enumerate(self.binding.parts)}
        archived = {
            number: self._archived(one) for number, one in inner.items() if number not in self.live
        }
        self._sample = Sample(
            self._union, frozenset(self.live), self.present, self.reaches, self.detector.window, inner,
            archived, self._as_part,
        )  # fmt: skip
        self.choice = choice = choose(sources.plan, self._sample, self._stored_lazy_live)
        self._rows_then = self._rows_archived
        for number, one in inner.items():
            if number in self.live and not choice.lazy_live:
                continue
            self._ask_for_regions(number, one, archived.get(number))
            self.inner.pop(number, None)
        recent = sources.plan.recent_length
        if recent is not None:
            unit = self.binding.time.nanoseconds_per_tick
            self._recent = recent.ticks(unit, "the recent buffer")

    @property
    def _rows_archived(self) -> int:
        """How many rows the archives have, as far as this has been looked at."""
        assert self._sample is not None
        return sum(
            0 if one.is_empty else one.archive.rows for one in self._sample.archived.values()
        )

    def _choose_again(self) -> None:
        """Choose a plan by what there is now, if that may be another one.

        Which side is held as rows cannot change; all else is found in the stores again.
        """
        plan, choice = self.sources.plan, self.choice
        assert self._sample is not None
        assert choice is not None
        if plan.order != "auto" and plan.cache is not None:
            return
        rows = self._rows_archived
        has_grown = rows >= max(2 * self._rows_then, LEAST_ROWS)
        if not has_grown and self._rows_since < ROWS_BETWEEN:
            return
        self._rows_then, self._rows_since = rows, 0
        again = choose(plan, self._sample, choice.lazy_live)
        self.choice = again
        if not again.does_as(choice):
            for number, store in self.stores.items():
                self._look_for(number, self._sample.inner[number], store)

    def _archived(self, inner: Binding) -> ArchivedRows:
        """The rows of the archive of a part."""
        key = part_key(inner)
        return ArchivedRows(self.sources.archives[key], inner, partial(self.sources.converted, key))

    def _as_part(self, number: int, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Rows of an archive as rows of a part, if that is the same stream."""
        inner = inner_of(self.binding.parts[number])
        streams = {inner_of(part).query.streams[0].name for part in self.binding.parts}
        if len(streams) > 1:
            return None
        return self.sources.converted(part_key(inner), rows)

    def _ask_for_regions(self, number: int, inner: Binding, archived: ArchivedRows | None) -> None:
        """Look for the matches of a part region by region, or everywhere beside an archive."""
        reach = self.reaches[number]
        store = RowStore(Projection(inner), archived, reach.rows, reach.ticks, self.ties)
        if number in self._stored:
            store.add(self._stored.pop(number))
        self.stores[number] = store
        self._look_for(number, inner, store)
        self._judges[number] = ReorderBuffer(
            Projection(inner), self.ties, self.lateness, self.on_late
        )

    def _look_for(self, number: int, inner: Binding, store: RowStore) -> None:
        """Look for the matches of a part as it has been chosen; nothing is known of them yet."""
        choice = self.choice
        assert choice is not None
        caches = choice.caches or number in choice.everywhere
        ties: Ties = "error" if self.ties == "error" else "first"
        self.parts[number] = RegionPart(number, self._union, inner, store, ties, caches)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copied_but(
            self, memo, on_results=self.on_results, sources=self.sources, _sample=self._sample
        )

    # -- rows in ----------------------------------------------------------------------------------

    def process_inputs(
        self, frames: Frames, seen: int | None = None, *, unordered: bool = False
    ) -> pl.DataFrame:
        """Process rows of inputs, given by their names."""
        with self.changes, self._unchanged_on_error():
            self._choose_again()
            self._rows_since += sum(map(len, frames.values()))
            new: dict[int, pl.DataFrame] = {}
            for number, store in self.stores.items():
                key = part_key(inner_of(self.binding.parts[number]))
                if key in frames and len(frames[key]):
                    rows = projected(store.projection, frames[key])
                    self._latest_rows = max(self._latest_rows, int(rows[TIME].max()))  # type: ignore[arg-type]
                    judge = self._judges[number]
                    judge.observe_time(self.latest)
                    before = None
                    if store.projection.sequence_columns:
                        before = store.came_since(judge.watermark)
                    new[number] = judge.without_late(rows, unordered, before)
            self._new = new
            return super().process_inputs(frames, seen, unordered=unordered)

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = {n: (j.latest, j.dropped) for n, j in self._judges.items()}
        held = {number: store.held() for number, store in self.stores.items()}
        latest, kept = self._latest_rows, self._kept
        try:
            with super()._unchanged_on_error():
                yield
        except ValueError:
            for number, (seen, dropped) in before.items():
                self._judges[number].latest = seen
                self._judges[number].dropped = dropped
            for number, rows in held.items():
                self.stores[number].undo(rows)
            self._latest_rows, self._kept, self._new = latest, kept, {}
            raise

    def _latest_inside(self, frames: Frames) -> int:
        return max(super()._latest_inside(frames), self._latest_rows)

    # -- what is found ----------------------------------------------------------------------------

    @property
    def plan(self) -> str | None:
        """The plan that has been chosen, and why."""
        return None if self.choice is None else str(self.choice)

    @property
    def progress(self) -> Statistics:
        """`statistics` without the size of the state, with the late rows of all live streams."""
        own = super().progress
        late = sum(judge.dropped for n, judge in self._judges.items() if n in self.live)
        return replace(own, late=own.late + late)

    def last_portions(
        self, at_end: AtEnd | None = None, most_rows: int = PORTION_ROWS
    ) -> Iterator[pl.DataFrame]:
        """What is left when no more rows come, at the largest time seen."""
        self._ends = True
        yield from super().last_portions(at_end, most_rows)

    def _detect_until(self, rows: pl.DataFrame, limit: int) -> pl.DataFrame:
        """The results of all instants before ``limit``, and at the end of it, too."""
        for number, new in self._new.items():
            self.stores[number].add(new)
        self._new = {}
        self._counts.events += len(rows)
        self._kept = pl.concat([self._kept, rows]) if len(rows) else self._kept
        if limit == INT64_MIN:
            return self.no_results
        limit = limit + 1 if self._ends else limit
        if limit <= self._from:
            return self.no_results
        found = self._found_until(limit)
        self._from = limit
        self._trim()
        if self.on_results is not None and self._observed and len(found):
            self.on_results(found)
        return found

    def _found_until(self, limit: int) -> pl.DataFrame:
        """The matches that are reported from where the last call ended to before ``limit``."""
        rows = self._interval_rows(limit)
        if rows is None:
            return self.no_results
        rows = rows.filter(pl.col(TIME) < limit)
        able = rows if self._waits else rows.filter(pl.col(TIME) >= self._from)
        keys = self._union.keys
        if keys:
            rows = rows.join(able.select(keys).unique(), on=keys, how="semi", nulls_equal=True)
        if not len(able) or not self.present <= set(rows[STREAM].unique()):
            return self.no_results
        found = self._joined(rows, self._passed(limit))
        report = found[found.columns[len(keys)]].to_physical().cast(pl.Int64)
        found = found.filter(report >= self._from)
        self._counts.matches += self._matches_in(found)
        return found

    @property
    def _waits(self) -> bool:
        """Whether time alone makes matches known: that of what may not be there."""
        return bool(self.binding.query.absences)

    def _passed(self, limit: int) -> int:
        """Time before this has passed; at the end nothing says that more has than rows have come."""
        return limit - 1 if self._ends else limit

    def _matches_in(self, found: pl.DataFrame) -> int:
        """How many matches result rows are of."""
        if self.binding.query.emit is not Emit.BOTH:
            return len(found)
        return int((found[found.columns[len(self._union.keys) + 1]] == "trigger").sum())

    def _joined(self, rows: pl.DataFrame, passed: int) -> pl.DataFrame:
        """The matches of all intervals."""
        judged = self.sources.judged
        options: StreamKeywords = {"ties": self.ties, "lateness": None, "whole": True}
        if judged is None:
            return JoinStream(self.binding, **options).joined(rows, passed)
        found = LimitedJoin(judged, self._given_of, **options).joined(rows, passed)
        if judged.query.emit is self.binding.query.emit:
            return found
        return with_completions(found, self.binding)

    def _given_of(
        self, keys: pl.DataFrame, places: Words, rows: Words, identities: Words, joined: pl.DataFrame
    ) -> Flags:  # fmt: skip
        """Which matches are given, of those that have not been reported before."""
        assert isinstance(self._partitions, Partitions)
        numbers = self._partitions.admit(keys, self._partitions.known(keys))
        rows = np.concatenate([numbers[places][:, None], rows[:, 1:]], axis=1)
        passes: Flags = rows[:, 1] >= self._from
        if self.binding.query.limits.once_per:
            identities = identities[passes]
            found, of_match = np.unique(identities[:, 1::2], return_inverse=True)
            own = self._numbers.numbers_of(joined[found])
            identities[:, 1::2] = own[of_match].reshape(-1, identities.shape[1] // 2)
            passes[passes] = self.detector.judge(rows[passes], identities)
        else:
            passes[passes] = self.detector.judge(rows[passes], identities[passes])
        return passes

    def _compact(self, now: int) -> None:
        limits, partitions = self.binding.query.limits, self._partitions
        if not limits:
            super()._compact(now)
        elif limits.limit is None:
            assert isinstance(partitions, Partitions)
            used = np.array(partitions.used(), np.int64)
            longest = max(self.detector.window, self.detector.compiled.ticks.cooldown or 0)
            latest = self.detector.partitions.given_latest(used)
            partitions.release(used[latest < now - longest])

    def _interval_rows(self, limit: int) -> pl.DataFrame | None:
        """The intervals of all parts; None where there cannot be a match."""
        choice = self.choice
        assert choice is not None
        kept = self._kept
        started = self._from if self._from != INT64_MIN else self._first_time(kept)
        if started is None:
            return None
        passed = self._passed(limit)
        found = [kept]
        for number in choice.everywhere:
            store, part = self.stores[number], self.parts[number]
            store.refresh()
            first = self._first_needed(number, started)
            store.load_all(first, limit - 1)
            keys = store.partitions(first, limit - 1)
            n = len(keys)
            regions = Regions(keys, np.full(n, first), np.full(n, limit - 1))
            found.append(part.intervals(regions, limit - 1, passed, first))
        known = pl.concat(found)
        lazily = [number for number in self.parts if number not in choice.everywhere]
        for number in lazily:
            around = self._regions(number, known, started, limit)
            if around is None or (number in self.present and not len(around)):
                return None
            self.stores[number].refresh()
            first = self._first_needed(number, started)
            found.append(self.parts[number].intervals(around, limit - 1, passed, first))
        return pl.concat(found)

    def _first_needed(self, number: int, since: int) -> int:
        """When the intervals of a part begin, at the earliest, that matter for reports since a time."""
        reach = self.reaches[number]
        if not reach.is_local:
            return INT64_MIN + 1
        return max(since - self.needs[number].back(reach.longest), INT64_MIN + 1)

    def _first_time(self, kept: pl.DataFrame) -> int | None:
        """When the first interval became known, before which there is nothing to report."""
        present = self.live & self.present
        if not present:
            return INT64_MIN + 1
        live = kept.filter(pl.col(STREAM).is_in(sorted(present)))
        lazily = [n for n in present if n in self.parts]
        firsts = [int(live[TIME].min())] if len(live) else []  # type: ignore[arg-type]
        firsts += [first for n in lazily if (first := self.stores[n].first) is not None]
        return min(firsts, default=None)

    def _regions(
        self, number: int, known: pl.DataFrame, started: int, limit: int
    ) -> Regions | None:
        """Where the matches of a part are needed, by those of the others that are known.

        None where these have no match, whatever the part has.
        """
        needs = self.needs[number]
        window = needs.since_start
        store = self.stores[number]
        lazily = self.parts.keys() - set(self.choice.everywhere)  # type: ignore[union-attr]
        drivers = self.present - lazily
        if not drivers <= set(known[STREAM].unique()):
            return None
        best: tuple[int, pl.DataFrame] | None = None
        for driver in sorted(drivers):
            rows = known.filter(
                (pl.col(STREAM) == driver) & (pl.col(TIME) < limit)
                & (pl.col(START) >= max(started - window, INT64_MIN + 1))
            )  # fmt: skip
            ends = self._bounds(number, driver).ends_no_later and not self._is_known_late(number)
            if ends and len(self.binding.parts) == 2 and not self._waits:
                rows = rows.filter(pl.col(TIME) >= started)
            if best is None or len(rows) < best[0]:
                best = len(rows), rows
        assert best is not None, "something that leads to the others is known"
        rows = best[1]
        driver = int(rows[STREAM][0]) if len(rows) else 0
        bounds = self._bounds(number, driver)
        times, starts = rows[TIME].to_numpy(), rows[START].to_numpy()
        firsts = np.maximum(times, started) - needs.back(self.reaches[number].longest)
        if bounds.starts_no_earlier:
            firsts = np.maximum(firsts, starts)
        lasts = np.minimum(starts + window, limit - 1)
        if bounds.ends_no_later and not self._is_known_late(number):
            lasts = np.minimum(lasts, rows[END].to_numpy())
        keys = rows.with_columns(pl.lit(0, pl.Int8).alias(ALL)).select(store.keys)
        return Regions(keys, firsts, lasts).only(firsts <= lasts)

    def _bounds(self, number: int, driver: int) -> RelativeBounds:
        return relative_bounds(self.binding.query, number, driver)

    def _is_known_late(self, number: int) -> bool:
        return self.binding.parts[number].source.is_known_late

    def _trim(self) -> None:
        """Forget what can be in no match any more."""
        self._numbers.forget(max(self._from - self.detector.window, INT64_MIN))
        if len(self._kept):
            self._kept = self._kept.filter(
                pl.any_horizontal(self._is_needed(number) for number in self.needs)
            )
        for number, store in self.stores.items():
            if self.reaches[number].is_local:
                horizon = self._first_needed(number, self._from)
                recent = None if self._recent is None else self._from - self._recent
                store.trim(horizon if recent is None else max(horizon, recent))

    def _is_needed(self, number: int) -> pl.Expr:
        """Whether an interval that is kept is one of a part that can still matter."""
        needs = self.needs[number]
        matters = pl.col(START) >= max(self._from - needs.since_start, INT64_MIN)
        if needs.since_end is not None:
            matters |= pl.col(END) >= max(self._from - needs.since_end, INT64_MIN)
        return (pl.col(STREAM) == number) & matters

    # -- the state --------------------------------------------------------------------------------

    def export_state(self) -> StreamState:
        """Everything that the stream knows; what is read of archives is no part of it."""
        state = super().export_state()
        waiting = [] if state.buffered is None else [state.buffered]
        return replace(state, buffered=pl.concat([self._kept, self._numbers.rows, *waiting]))

    def export_counters(self) -> dict[str, int]:
        """The numbers that a state has besides those of its parts."""
        own = {_FROM: self._from, _LATEST: self._latest_rows, _KEPT: len(self._kept)}
        own |= {_NUMBERED: len(self._numbers.rows), _LAZY_LIVE: int(self._is_lazy_live)}
        return {**super().export_counters(), **own}

    @property
    def _is_lazy_live(self) -> bool:
        return self.choice is not None and self.choice.lazy_live

    def export_parts(self) -> list[pl.DataFrame | Stream]:
        """Of each part its stream, or the rows of the session that it may need again."""
        return [
            self.inner[number] if number in self.inner else self.stores[number].session_rows
            for number in range(len(self.binding.parts))
        ]

    @staticmethod
    def stored_streams(binding: Binding, counters: Mapping[str, int]) -> set[int]:
        """The parts of which `export_parts` gives a stream of its own."""
        return set() if counters[_LAZY_LIVE] else live_parts(binding)

    def restore_parts(self, parts: list[pl.DataFrame | Stream], counters: dict[str, int]) -> None:
        """Take over what `export_parts` and `export_counters` gave, in a stream just restored."""
        self._intervals.next_number = counters["next_number"]
        self._events.next_silence = counters["next_silence"]
        self._from, self._latest_rows = counters[_FROM], counters[_LATEST]
        self._stored_lazy_live = bool(counters[_LAZY_LIVE])
        rows = self._buffer.rows
        n_kept, n_numbered = counters[_KEPT], counters.get(_NUMBERED, 0)
        if rows is None or min(n_kept, n_numbered) < 0 or n_kept + n_numbered > len(rows):
            raise damaged("the intervals that are kept are not there")
        self._kept, rest = rows[:n_kept], rows[n_kept:]
        self._numbers.rows, rest = rest[:n_numbered], rest[n_numbered:]
        self._buffer.rows = rest if len(rest) else None
        for number, part in enumerate(parts):
            if isinstance(part, Stream):
                self.inner[number] = part
                continue
            inner = self.binding.parts[number].inner
            assert inner is not None
            if part.schema != held_schema(Projection(inner)):
                raise damaged("the rows of the session do not fit their columns")
            self._stored[number] = part


_FROM, _LATEST, _KEPT, _NUMBERED = "from", "latest_rows", "kept", "numbered"
_LAZY_LIVE = "lazy_live"
