"""What a session does with the rows of several streams, until all their types are known and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from piestream.adapters.event_columns import event_list
from piestream.adapters.frames import Kind, as_polars
from piestream.adapters.inputs import InputBinding, Inputs, bound_inputs
from piestream.adapters.read_columns import lazily_read
from piestream.engine.combined import CombinedStream
from piestream.language.model import Query

__all__ = ["InputFeed"]

#: Makes the open stream of a bound query, with the session's options.
Opener = Callable[[Any], CombinedStream]


class InputFeed:
    """Takes rows of any input to the open stream of a query.

    The stream is opened when every input has had a row, or when the types of its columns were told:
    until then rows wait. No match can be known before, for each stream has a symbol in it.
    """

    def __init__(self, query: Query, opener: Opener) -> None:
        self.inputs = Inputs(query)
        self.query = query
        self.stream: CombinedStream | None = None
        self.bound: InputBinding | None = None
        self._opener = opener
        self._schemas: dict[str, dict[str, pl.DataType]] = {}
        self._waiting: list[tuple[str | None, Any]] = []  # rows of an input, or a time

    def declare(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the types of columns that ``schema`` gives, by input or for the only one."""
        if schemas and not all(isinstance(types, Mapping) for types in schemas.values()):
            schemas = {self.inputs.name_of(None): schemas}
        for name, types in schemas.items():
            key = self.inputs.name_of(name)
            empty = pl.DataFrame(schema=dict(types))
            self._schemas[key] = dict(as_polars(empty, self.inputs.readers[key])[0].schema)
        self._open()

    def restored(self, bound: InputBinding, stream: CombinedStream) -> None:
        """Go on with the stream of a state."""
        self._schemas = {key: dict(schema) for key, schema in bound.given.items()}
        self.bound, self.stream = bound, stream

    def push(self, rows: Any, name: str | None) -> tuple[pl.DataFrame, Kind]:
        """Rows of one input; gives the matches that became known, and the kind of the rows."""
        key = self.inputs.name_of(name)
        frame, kind = self._frame(key, rows)
        if self.stream is None:
            known = dict(self._schemas)
            self._schemas.setdefault(key, dict(frame.schema))
            waiting = len(self._waiting)
            self._waiting.append((key, frame))
            try:
                return self._open(), kind
            except BaseException:  # nothing was taken
                self._schemas = known
                del self._waiting[waiting:]
                self.stream = self.bound = None
                raise
        assert self.bound is not None
        return self.stream.process_inputs({key: self.bound.checked(key, frame)}), kind

    def advance(self, time: Any, ticks: Callable[[Any, Any], int]) -> pl.DataFrame:
        """Move time on."""
        if self.stream is None:
            self._waiting.append((None, (time, ticks)))
            return pl.DataFrame()
        return self.stream.advance(ticks(time, self.stream.binding))

    def _frame(self, key: str, rows: Any) -> tuple[pl.DataFrame, Kind]:
        reader = self.inputs.readers[key]
        if isinstance(rows, Mapping):
            rows = [rows]
        if isinstance(rows, pl.LazyFrame):
            return lazily_read(reader, rows).collect(), "polars"
        events = event_list(rows)
        if events is None:
            return as_polars(rows, reader)
        if key in self._schemas:
            types = self._schemas[key]
            if self.bound is not None:  # an end that was NULL has the type of the start
                types = {name: self.bound.types[key][name] for name in types}
            return self.inputs.events(key, events, types), "events"
        return self.inputs.frame(key, events)[0], "events"

    def _open(self) -> pl.DataFrame:
        """Open the stream if all is known that it takes, and work on what has waited for that."""
        if self._schemas.keys() != self.inputs.readers.keys():
            return pl.DataFrame()
        self.bound = bound_inputs(self.query, self._schemas)
        self.stream = self._opener(self.bound.binding)
        results = [self.stream.no_results]
        waiting, self._waiting = self._waiting, []
        try:
            for key, item in waiting:
                if key is None:
                    time, ticks = item
                    results.append(self.stream.advance(ticks(time, self.bound.binding)))
                else:
                    rows = {key: self.bound.checked(key, item)}
                    results.append(self.stream.process_inputs(rows))
        except BaseException:
            self._waiting = waiting
            raise
        return pl.concat(results)
