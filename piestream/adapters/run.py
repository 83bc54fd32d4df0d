"""A run over a bounded input: whichever it is, its rows go through one `Stream`."""

from __future__ import annotations

import os
from typing import Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.event_columns import event_list, event_types, events_frame
from piestream.adapters.file_run import run_files
from piestream.adapters.files import CHUNK_ROWS
from piestream.adapters.frames import as_kind, as_polars
from piestream.adapters.read_columns import lazily_read
from piestream.engine.stream import Stream
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.plan.binding import Binding

__all__ = ["run", "run_files"]

#: A frame is cut so that one piece gives about so many matches, because room for more of them is made
#: by copying. The first piece has a fixed number of rows; how many matches it gives decides the size
#: of the next ones, which have no fewer than the least number of rows.
_PIECE_MATCHES = 1 << 19
_FIRST_ROWS = 1 << 16
_LEAST_ROWS = 1 << 12


def run(query: Query, rows: Any, options: RunOptions) -> Any:
    """Every match in a frame or in a list of events, as the same kind.

    Partitions of a large frame are shared out to threads; the rows and their order do not depend
    on how many there are.
    """
    if isinstance(rows, pl.LazyFrame):
        return _matches(query, lazily_read(query, rows), options).lazy()
    events = event_list(rows)
    if events is None:
        frame, kind = as_polars(rows, query)
        return as_kind(kind, _matches(query, frame, options))
    if not events:
        raise ValueError("an empty list has no columns: give a frame without rows instead")
    frame = events_frame(events, bound(query, event_types(events, query)))
    return as_kind("events", _matches(query, frame, options))


def _matches(query: Query, frame: pl.DataFrame | pl.LazyFrame, options: RunOptions) -> pl.DataFrame:
    """Every match in a Polars frame. Of a lazy one only the columns that are needed are read."""
    binding = bound(query, frame.collect_schema())
    needed = frame.select(binding.columns)
    if isinstance(needed, pl.LazyFrame):
        needed = needed.collect()
    threads = options.threads
    if threads is None:
        threads = (os.cpu_count() or 1) if len(needed) >= CHUNK_ROWS else 1
    cut = _can_be_cut(binding, needed)
    stream = Stream(
        binding, ties=options.ties, lateness=None, whole=not cut, threads=threads,
        at_end=options.at_end,
    )  # fmt: skip
    results = _in_pieces(stream, needed) if cut else [stream.process(needed)]
    results.append(stream.finish())
    return pl.concat(results)


def _can_be_cut(binding: Binding, frame: pl.DataFrame) -> bool:
    """Whether the frame is one large partition in order of time, so that it can be worked on in pieces."""
    times = frame[binding.time.name]
    return (
        not binding.query.partition_by
        and len(frame) > _FIRST_ROWS
        and not times.null_count()
        and times.is_sorted()
    )


def _in_pieces(stream: Stream, frame: pl.DataFrame) -> list[pl.DataFrame]:
    """Process a frame in pieces, with fewer rows where they give many matches."""
    results = []
    first, rows = 0, _FIRST_ROWS
    while first < len(frame):
        results.append(stream.process(frame[first : first + rows]))
        first += rows
        fitting = rows * _PIECE_MATCHES // max(len(results[-1]), 1)
        rows = max(_LEAST_ROWS, min(fitting, 4 * rows, CHUNK_ROWS))
    return results
