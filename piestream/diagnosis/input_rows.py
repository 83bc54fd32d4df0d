"""The rows of several streams, or of intervals, that are looked into: the frames that `run` takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from piestream.adapters.frames import Kind
from piestream.adapters.inputs import InputBinding, Inputs, bound_inputs
from piestream.adapters.run import inputs_result
from piestream.archives.archive import Archive
from piestream.archives.live import all_rows, with_archives
from piestream.archives.planning import refuse_row_order
from piestream.diagnosis.rows import (
    ALL,
    EventRows,
    GivenRows,
    Rows,
    Wanted,
    read_rows,
    with_missing_keys,
)
from piestream.engine.combined import CombinedStream
from piestream.engine.stream import Stream
from piestream.language.model import Query
from piestream.language.options import BoundedOptions, FileOptions, RunOptions
from piestream.language.parts import StreamKind
from piestream.plan.binding import Binding, input_key
from piestream.plan.combined import input_readers

if TYPE_CHECKING:
    from typing import Self

__all__ = ["InputRows", "read_given", "rows_of_inputs"]


@dataclass(frozen=True)
class InputRows(GivenRows):
    """Rows of the inputs of a query, by their names."""

    frames: Mapping[str, pl.DataFrame] = field(default_factory=dict)

    @cached_property
    def bound(self) -> InputBinding:
        """The query bound to its inputs."""
        return self._bound(self.query)

    def _bound(self, query: Query) -> InputBinding:
        return bound_inputs(query, {key: frame.schema for key, frame in self.frames.items()})

    @property
    def binding(self) -> Binding:
        """The query bound to the columns."""
        return self.bound.binding

    @cached_property
    def inputs(self) -> Mapping[str, pl.DataFrame]:
        """The rows of each input by its name, with the types that all inputs have in common."""
        return {key: self.bound.converted(key, frame) for key, frame in self.frames.items()}

    @property
    def event_streams(self) -> list[EventRows]:
        """The rows of each stream of events that the query reads itself."""
        return [
            EventRows(
                number,
                self.inputs[part.key],
                part.binding.time.name,
                part.binding.predicate_columns,
            )
            for number, part in enumerate(self.binding.parts)
            if part.source.kind is StreamKind.EVENTS
        ]

    @cached_property
    def inner(self) -> Mapping[int, GivenRows]:
        """The rows that each query in brackets reads, by the number of the stream that it is."""
        found: dict[int, GivenRows] = {}
        for number, part in enumerate(self.binding.parts):
            query = part.source.query
            if part.inner is None or query is None or query.rows is not None:
                continue
            if query.is_combined:
                found[number] = replace(self, query=query, frames=self.inputs)
            else:
                stream = replace(query.streams[0], order_by=part.inner.time.name)
                query = replace(query, streams=(stream,))
                frame = self.inputs[input_key(stream)]
                found[number] = Rows(query, self.options, partition=self.partition, frame=frame)
        return found

    def with_inputs(self, inputs: Mapping[str, pl.DataFrame]) -> Self:
        """Other rows of the inputs."""
        return replace(self, frames=inputs)

    def key_of(self, stream: int) -> str | None:
        """The name of the input that a stream is; None of matches of another query, and of silences."""
        part = self.binding.parts[stream]
        return part.key if part.source.is_input else None

    @property
    def time_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that hold times, by input: one of events, two of intervals."""
        found: dict[str, tuple[str, ...]] = {}
        for reader in input_readers(self.binding):
            source = reader.source
            ends = (source.start, source.end) if source.start else (reader.binding.time.name,)
            names = (name for name in ends if name is not None)
            found[reader.key] = tuple(dict.fromkeys((*found.get(reader.key, ()), *names)))
        return {key: names for key, names in found.items() if key in self.frames}

    def _opened(self, query: Query) -> tuple[Stream, list[pl.DataFrame]]:
        bound = self._bound(query)
        stream = CombinedStream(bound.binding, ties=self.options.ties, lateness=None, closable=True)
        rows = {key: bound.converted(key, frame) for key, frame in self.frames.items()}
        return stream, [stream.process_inputs(rows)]

    def _run(self, query: Query, limit: int | None) -> pl.DataFrame:
        options = RunOptions(ties=self.options.ties, at_end=self.options.at_end, limit=limit)
        return inputs_result(query, self.frames, options)


def read_given(
    query: Query, given: Any, options: BoundedOptions, wanted: Wanted = ALL
) -> GivenRows:
    """The rows of whatever `run` takes for the query, but for Spark's frames.

    Of an archive that is the only input no more is read than is ``wanted``.
    """
    if not query.is_combined:
        return read_rows(query, given, options, wanted)
    if isinstance(given, Mapping):
        archives = {key: rows for key, rows in given.items() if isinstance(rows, Archive)}
        names = Inputs(query)
        refuse_row_order(query, {names.name_of(key): a.pages for key, a in archives.items()})
    given = all_rows(given)
    frames = given.values() if isinstance(given, Mapping) else [given]
    if any(type(frame).__module__.startswith("pyspark.sql") for frame in frames):
        raise TypeError("Spark frames cannot be looked into: take a part of it, frame.toPandas()")
    inputs = Inputs(query)
    known, kind, is_lazy = inputs.frames({} if given is None else given)
    order = {option.name: getattr(options, option.name) for option in fields(options)}
    rows = {**inputs.files(FileOptions(**order), known), **known}
    return _rows_of(query, with_archives(query, rows), options, kind, is_lazy)


def rows_of_inputs(
    query: Query,
    rows: Mapping[str, pl.DataFrame],
    options: BoundedOptions,
    archives: Mapping[str, Archive] | None = None,
) -> InputRows:
    """The rows of all inputs, with those of archives."""
    return _rows_of(query, with_archives(query, rows, archives), options)


def _rows_of(
    query: Query,
    frames: Mapping[str, pl.DataFrame],
    options: BoundedOptions,
    kind: Kind = "polars",
    is_lazy: bool = False,
) -> InputRows:
    known = {key: with_missing_keys(query, frame) for key, frame in frames.items()}
    return InputRows(query, options, kind, is_lazy, frames=known)
