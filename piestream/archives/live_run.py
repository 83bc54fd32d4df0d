"""A run over frames and archives, of which only the rows around live matches are read."""

from __future__ import annotations

import os
from collections.abc import Mapping

import polars as pl

from piestream.adapters.files import CHUNK_ROWS
from piestream.archives.live_reach import fault_of
from piestream.archives.live_rows import projected
from piestream.archives.live_sources import Sources, inner_of, part_key
from piestream.archives.live_stream import LiveStream
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.combined import Frames, inner_results
from piestream.engine.projection import TIME
from piestream.language.live_plan import LivePlan
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.plan.binding import Binding

__all__ = ["RegionRun", "reads_regions", "region_run"]

#: No time that an archive has is known where one may be as late as this.
_ANY_TIME = INT64_MAX - 1
_PLAN = LivePlan("live-first", cache=False)


def reads_regions(query: Query, options: RunOptions) -> bool:
    """Whether a run reads of archives only what lies around live matches.

    Of two events with one time the first may be where nothing is read, so ``ties`` has to be "error".
    """
    return (
        options.live_plan.order in ("auto", "live-first")
        and options.at_end == "open"
        and options.ties == "error"
        and fault_of(query) is None
    )


def region_run(
    binding: Binding, frames: Frames, sources: Sources, options: RunOptions
) -> RegionRun:
    """The stream that finds every match in ``frames``, own rows of archives among them, and in archives."""
    n_rows = sum(map(len, frames.values())) + sum(one.rows for one in sources.archives.values())
    threads = options.threads
    if threads is None:
        threads = (os.cpu_count() or 1) if n_rows >= CHUNK_ROWS else 1
    stream = RegionRun(binding, ties=options.ties, lateness=None, whole=True, threads=threads)
    stream.attach(sources)
    return stream


class RegionRun(LiveStream):
    """A `LiveStream` that gets all rows of live streams at once."""

    def attach(self, sources: Sources) -> None:
        """Take the archives, which are read once."""
        super().attach(Sources(sources.archives, sources.converted, _PLAN))
        for part in self.parts.values():
            part.once_threads = self._threads

    def found_in(self, frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
        """Every match in rows of inputs and in archives; None where all rows have to be read."""
        assert self.choice is not None
        if self.choice.everywhere or not self._take(frames):
            return None
        now = self._latest_inside(frames)
        if now == INT64_MIN:
            return self.no_results
        self.observe_time(now)
        self._ends = True
        found = [self._kept]
        for number, stream in self.inner.items():
            for rows in (inner_results(stream, frames, now, False), stream.finish("open")):
                found.append(self._union.of_stream(number, rows))
        self._kept = pl.concat(found)
        result = self._found_until(now + 1)
        self._counts.events += sum(map(len, frames.values()))
        self._counts.events += sum(part.n_rows for part in self.parts.values())
        return result

    def _take(self, frames: Mapping[str, pl.DataFrame]) -> bool:
        """Take the own rows of archives; False where these have to be judged with all others."""
        for number, store in self.stores.items():
            key = part_key(inner_of(self.binding.parts[number]))
            if key in frames:
                rows = projected(store.projection, frames[key])
                if rows.select(pl.struct(store.identity).is_duplicated().any()).item():
                    return False
                store.add(rows)
                self._latest_rows = max(self._latest_rows, _latest(rows))
            assert store.archived is not None
            latest = store.archived.latest
            if latest == _ANY_TIME:
                return False
            self._latest_rows = max(self._latest_rows, latest)
        return True


_PLAN = LivePlan("live-first", cache=False)


def _latest(rows: pl.DataFrame) -> int:
    return int(rows[TIME].max()) if len(rows) else INT64_MIN  # type: ignore[arg-type]
