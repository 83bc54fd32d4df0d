"""A run over a bounded input: whichever it is, its rows go through one `Stream`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.event_columns import event_list, event_types, events_frame
from piestream.adapters.files import CHUNK_ROWS
from piestream.adapters.frames import as_kind, as_polars
from piestream.adapters.inputs import Inputs, bound_inputs
from piestream.adapters.limits import Limit
from piestream.adapters.read_columns import lazily_read
from piestream.engine.combined import CombinedStream, open_stream
from piestream.engine.stream import Stream
from piestream.errors import warn_of_result
from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.language.options import FileOptions, RunOptions
from piestream.plan.binding import Binding

__all__ = ["inputs_result", "run", "run_inputs"]

#: A frame is cut so that one piece gives about so many matches, because room for more of them is made
#: by copying. The first piece has a fixed number of rows; how many matches it gives decides the size
#: of the next ones, which have no fewer than the least number of rows.
_PIECE_MATCHES = 1 << 19
_FIRST_ROWS = 1 << 16
_LEAST_ROWS = 1 << 12


def run_inputs(query: Query, given: Any, options: FileOptions) -> Any:
    """Every match of a query that reads several streams, or intervals, as the kind of the first.

    ``given`` has the rows of each, by its name; those that it lacks come from the query's files.
    """
    inputs = Inputs(query)
    frames, kind, lazy = inputs.frames({} if given is None else given)
    frames = {**inputs.files(options, frames), **frames}
    result = inputs_result(query, frames, options)
    return result.lazy() if lazy else as_kind(kind, result)


def inputs_result(
    query: Query, frames: Mapping[str, pl.DataFrame], options: RunOptions
) -> pl.DataFrame:
    """Every match in the inputs of a query, given as Polars frames."""
    found = bound_inputs(query, {key: frame.schema for key, frame in frames.items()})
    converted = {key: found.converted(key, frame) for key, frame in frames.items()}
    threads = options.threads
    if threads is None:
        n_rows = sum(map(len, frames.values()))
        threads = (os.cpu_count() or 1) if n_rows >= CHUNK_ROWS else 1
    limit = Limit(options.limit)
    stream = CombinedStream(
        found.binding, ties=options.ties, lateness=None, whole=True, threads=threads,
        at_end=options.at_end, enough=limit.rows,
    )  # fmt: skip
    pieces = (stream.process_inputs(converted) for _ in range(1))
    results = list(limit.of(chain(pieces, stream.last_portions())))
    if limit.cut:
        warn_of_result(f"stopped at limit={limit.rows}: there are more rows")
    return stream.concatenated(results)


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
    binding = bound(query, event_types(events, query))
    frame = events_frame(events, binding.columns, binding.schema)
    return as_kind("events", _matches(query, frame, options))


def _matches(query: Query, frame: pl.DataFrame | pl.LazyFrame, options: RunOptions) -> pl.DataFrame:
    """Every match in a Polars frame. Of a lazy one only the columns that are needed are read."""
    binding = bound(query, frame.collect_schema())
    if isinstance(frame, pl.LazyFrame):
        needed = frame.select(columns_named(binding.columns)).collect()
    else:
        needed = frame[list(binding.columns)]  # which is no query of Polars
    threads = options.threads
    if threads is None:
        threads = (os.cpu_count() or 1) if len(needed) >= CHUNK_ROWS else 1
    cut = _can_be_cut(binding, needed)
    limit = Limit(options.limit)
    stream = open_stream(
        binding, ties=options.ties, lateness=None, whole=not cut, threads=threads,
        at_end=options.at_end, enough=limit.rows,
    )  # fmt: skip
    pieces = _in_pieces(stream, needed) if cut else stream.portions(stream.project(needed))
    results = list(limit.of(chain(pieces, stream.last_portions())))
    if limit.cut:
        warn_of_result(f"stopped at limit={limit.rows}: there are more rows")
    return stream.concatenated(results)


def _can_be_cut(binding: Binding, frame: pl.DataFrame) -> bool:
    """Whether the frame is one large partition in order of time, so that it can be worked on in pieces."""
    times = frame[binding.time.name]
    if binding.query.partition_by or len(frame) <= _FIRST_ROWS or times.null_count():
        return False
    if binding.sequence is None:
        return times.is_sorted()
    instants = frame.select(binding.time.name, binding.sequence.name)
    return not instants.to_series(1).null_count() and instants.to_struct().is_sorted()


def _in_pieces(stream: Stream, frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Process a frame in pieces, with fewer rows where they give many matches."""
    first, rows = 0, _FIRST_ROWS
    while first < len(frame):
        found = 0
        for result in stream.portions(stream.project(frame[first : first + rows])):
            found += len(result)
            yield result
        first += rows
        fitting = rows * _PIECE_MATCHES // max(found, 1)
        rows = max(_LEAST_ROWS, min(fitting, 4 * rows, CHUNK_ROWS))
