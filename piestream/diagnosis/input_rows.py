"""The rows of several streams, or of intervals, that are looked into: the frames that `run` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from piestream.adapters.formats import Format
from piestream.adapters.inputs import InputBinding, Inputs, bound_inputs
from piestream.adapters.run import inputs_result
from piestream.diagnosis.rows import TIME, EventRows, GivenRows, in_partitions, read_rows
from piestream.engine.combined import CombinedStream
from piestream.language.model import Query, StreamKind, Symbol
from piestream.language.options import BoundedOptions, FileOptions, RunOptions
from piestream.plan.binding import Binding

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
    def converted(self) -> dict[str, pl.DataFrame]:
        """The rows with the types that all inputs have in common."""
        return {key: self.bound.converted(key, frame) for key, frame in self.frames.items()}

    @property
    def row_counts(self) -> dict[str, int]:
        """How many rows there are of each input."""
        return {key: len(frame) for key, frame in self.frames.items()}

    @property
    def event_streams(self) -> list[EventRows]:
        """The rows of each stream of events that the query reads itself."""
        return [
            EventRows(
                number,
                self.converted[part.key],
                part.binding.time.name,
                part.binding.predicate_columns,
            )
            for number, part in enumerate(self.binding.parts)
            if part.source.kind is StreamKind.EVENTS
        ]

    def of_partitions(self, keys: pl.DataFrame) -> Self:
        """The rows of some partitions."""
        frames = {key: in_partitions(frame, keys) for key, frame in self.converted.items()}
        return replace(self, frames=frames)

    @cached_property
    def times(self) -> pl.DataFrame:
        """The partition and, as `TIME`, the time of every row; of intervals of each end."""
        frames = self.converted
        none = {name: self.binding.result_schema[name] for name in self.keys}
        found = [pl.DataFrame(schema={**none, TIME: self.time.dtype})]
        for key, names in self._time_columns().items():
            for name in names:
                time = pl.col(name).cast(self.time.dtype).alias(TIME)
                found.append(frames[key].select(*self.keys, time).drop_nulls(TIME))
        return pl.concat(found)

    def frame_of(self, symbol: Symbol) -> pl.DataFrame | None:
        """The rows of a symbol's stream; None where they are matches of another query."""
        part = self.binding.parts[symbol.stream]
        return None if part.inner is not None else self.converted[part.key]

    def _time_columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that hold times, by input."""
        found: dict[str, tuple[str, ...]] = {}
        parts = list(self.binding.parts)
        while parts:
            part = parts.pop()
            if part.inner is None:
                source = part.source
                ends = (source.start, source.end) if source.start else (part.binding.time.name,)
                found[part.key] = tuple(name for name in ends if name is not None)
            else:
                inner = part.inner
                parts += inner.parts
                if not inner.parts:
                    found[part.key] = (inner.time.name,)
        return {key: names for key, names in found.items() if key in self.frames}

    def ends(self, query: Query) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What another query finds in the rows, and what it would if what is open ended with them."""
        bound = self._bound(query)
        stream = CombinedStream(bound.binding, ties=self.options.ties, lateness=None, closable=True)
        rows = {key: bound.converted(key, frame) for key, frame in self.frames.items()}
        ended = [stream.process_inputs(rows), *stream.last_portions("open")]
        closed = stream.last_portions("close")
        return pl.concat([stream.no_results, *ended]), pl.concat([stream.no_results, *closed])

    def run(self, query: Query, limit: int | None = None) -> pl.DataFrame:
        """All that another query of the same streams finds in the rows."""
        options = RunOptions(ties=self.options.ties, at_end=self.options.at_end, limit=limit)
        return inputs_result(query, self.frames, options)


def read_given(query: Query, given: Any, options: BoundedOptions, what: str) -> GivenRows:
    """The rows of whatever `run` takes for the query, but for Spark's frames."""
    if not query.is_combined:
        return read_rows(query, given, options, what)
    frames = given.values() if isinstance(given, Mapping) else [given]
    if any(type(frame).__module__.startswith("pyspark.sql") for frame in frames):
        raise TypeError("Spark frames cannot be looked into: take a part of it, frame.toPandas()")
    inputs = Inputs(query)
    known, kind, is_lazy = inputs.frames({} if given is None else given)
    order = {option.name: getattr(options, option.name) for option in fields(options)}
    rows = {**inputs.files(FileOptions(**order), known), **known}
    return InputRows(query, options, kind, is_lazy, rows)


def rows_of_inputs(
    query: Query,
    files: Mapping[str, Sequence[str]],
    options: FileOptions,
    format: Format | None = None,
) -> InputRows:
    """The rows of the files of each input; those that are not given come from the query's own files."""
    inputs = Inputs(query)
    known = {key: inputs.file(key, names, options, format=format) for key, names in files.items()}
    return InputRows(query, options, frames={**inputs.files(options, known), **known})
