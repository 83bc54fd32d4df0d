"""What a session does with the rows of several streams, until all their types are known and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import polars as pl

from piestream.adapters.event_columns import (
    event_list,
    event_types,
    events_frame,
    refuse_no_time,
)
from piestream.adapters.feeds import Feed, Given, Opening, ticks_of_time
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.adapters.inputs import InputBinding, Inputs, bound_inputs
from piestream.adapters.read_columns import lazily_read
from piestream.adapters.replay import KeptRows, NamedCall
from piestream.copies import copied_but
from piestream.engine.combined import CombinedStream

__all__ = ["InputFeed"]


#: So many calls, and so many bytes of rows, are kept where no value of a column has come yet.
_MOST_CALLS, _MOST_BYTES = 1 << 12, 1 << 24


class _Ticks(NamedTuple):
    """A time to which an open stream was advanced."""

    ticks: int


class _Given(NamedTuple):
    """Rows of an input, or a time, behind what was given before. It never changes, so copies share it."""

    before: _Given | None
    key: str | None
    item: Any
    calls: int
    size: int


class InputFeed(Feed):
    """Takes rows of any input to the open stream of a query.

    The stream is opened when every input has had a row, or when the types of its columns were told:
    until then rows wait. No match can be known before, for each stream has a symbol in it.

    A column without a value so far has no type. While there is such a column, what was given is kept:
    when a value comes, the stream is opened anew with its type, and is given all of it again.
    """

    stream: CombinedStream | None
    #: The class of the open stream.
    stream_kind: ClassVar[type[CombinedStream]] = CombinedStream
    #: Whether a stream that is given the same again gives the same.
    is_repeatable: ClassVar[bool] = True

    def __init__(self, opening: Opening, recovers: bool) -> None:
        super().__init__(opening, recovers)
        self.inputs = Inputs(self.query)
        self.bound: InputBinding | None = None
        self._schemas: dict[str, dict[str, pl.DataType]] = {}
        self._given: _Given | None = None
        self._is_kept = True  # all that was given is there

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copied_but(
            self, memo,
            query=self.query, log=self.log, inputs=self.inputs, bound=self.bound,
            _schemas=self._schemas.copy(), _given=self._given,
        )  # fmt: skip

    def declare(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the types of columns that ``schema`` gives, by input or for the only one."""
        if schemas and not all(isinstance(types, Mapping) for types in schemas.values()):
            schemas = {self.inputs.name_of(None): schemas}
        for name, types in schemas.items():
            key = self.inputs.name_of(name)
            empty = pl.DataFrame(schema=dict(types))
            self._schemas[key] = dict(as_polars(empty, self.inputs.readers[key])[0].schema)
        if self._is_typed:
            self._open()

    def types_of(
        self, stored: Mapping[str, Mapping[str, pl.DataType]]
    ) -> Mapping[str, Mapping[str, pl.DataType]]:
        """The columns of the inputs, where those are given that a state was bound to."""
        return stored

    def restored(self, bound: InputBinding, stream: CombinedStream) -> None:
        """Go on with the stream of a state."""
        self._schemas = {key: dict(schema) for key, schema in bound.given.items()}
        self.bound, self.stream = bound, stream
        self._is_kept = False
        self.opening.observed(stream)

    def push(self, given: tuple[Any, str | None], kind: Kind) -> Given:
        """Rows of one input; gives the matches that became known."""
        rows, name = given
        key = self.inputs.name_of(name)
        frame, kind = self._frame(key, rows)
        found = self._types_found(key, frame.schema)
        if self.stream is None:
            self._schemas[key] = {**self._schemas.get(key, frame.schema), **found}
            self._keep(key, KeptRows(frame))
            self.log.add_copy()
            return as_kind(kind, self._open() if self._is_typed else pl.DataFrame()), kind
        assert self.bound is not None
        if found and self._is_kept:
            return as_kind(kind, self._reopened(key, found, frame)), kind
        if found or kind != "events":  # of these it was made with the types that are bound
            frame = self.bound.checked(key, frame)
        result = self._process(key, frame)
        self.log.add("process_inputs", key, frame, found=len(result))
        return as_kind(kind, result), kind

    def advance(self, time: Any, kind: Kind) -> Given:
        """Move time on."""
        if self.stream is None:
            refuse_no_time(time)
            self._keep(None, time)
            self.log.add_copy()
            return as_kind(kind, pl.DataFrame()), kind
        ticks = ticks_of_time(time, self.stream.binding)
        result = self._advance(ticks)
        self.log.add("advance", ticks, found=len(result))
        return as_kind(kind, result), kind

    def replay(self, entry: NamedCall) -> None:
        """Do again what an entry of the log says."""
        if entry.name == "process_inputs":
            key, rows = entry.given
            self._process(key, rows.frame)
        elif entry.name == "advance":
            self._advance(*entry.given)
        else:
            super().replay(entry)

    def _process(self, key: str, frame: pl.DataFrame) -> pl.DataFrame:
        assert self.stream is not None
        result = self.stream.process_inputs(self._inputs_of(key, frame))
        if self._is_kept:
            self._keep(key, KeptRows(frame))
        return result

    def _advance(self, ticks: int) -> pl.DataFrame:
        assert self.stream is not None
        result = self.stream.advance(ticks)
        if self._is_kept:
            self._keep(None, _Ticks(ticks))
        return result

    def _keep(self, key: str | None, item: Any) -> None:
        """Keep what was given; of an open stream no more than that costs little to be given again."""
        before = self._given
        calls, size = (0, 0) if before is None else (before.calls, before.size)
        size += item.size if isinstance(item, KeptRows) else 0
        self._given = _Given(before, key, item, calls + 1, size)
        if self.stream is not None and (calls >= _MOST_CALLS or size > _MOST_BYTES):
            self._given, self._is_kept = None, False

    def _types_found(self, key: str, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
        """The types of columns of which no row had a value so far."""
        known = self._schemas.get(key, {}) if self.bound is None else self.bound.types[key]
        return {
            name: schema[name]
            for name, dtype in known.items()
            if dtype == pl.Null and schema.get(name, pl.Null) != pl.Null
        }

    def _inputs_of(self, key: str, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """Rows of an input, by the names of all the inputs that they are rows of."""
        return {key: frame}

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
            untyped = [name for name, dtype in types.items() if dtype == pl.Null]
            if untyped:
                values = [{name: event.get(name) for name in untyped} for event in events]
                types = {**types, **event_types(values, reader)}
            return events_frame(events, tuple(types), types), "events"
        return self.inputs.frame(key, events)[0], "events"

    def _new_stream(self, bound: InputBinding) -> CombinedStream:
        stream = self.opening.stream(bound.binding, self.stream_kind)
        assert isinstance(stream, CombinedStream)
        return stream

    @property
    def _is_typed(self) -> bool:
        """Whether the types of all inputs are known."""
        return self._schemas.keys() == self.inputs.readers.keys()

    def _open(self) -> pl.DataFrame:
        """Open the stream, and work on what has waited for that."""
        self.bound = bound_inputs(self.query, self._schemas)
        stream = self._new_stream(self.bound)
        results = [stream.no_results, *self._worked_on(stream, self.bound)]
        self._opened(stream)
        return pl.concat(results)

    def _reopened(
        self, key: str, found: Mapping[str, pl.DataType], frame: pl.DataFrame
    ) -> pl.DataFrame:
        """Work on rows in a stream that has known the types of all columns from its start on."""
        before = self.stream
        assert before is not None
        schemas = {**self._schemas, key: {**self._schemas[key], **found}}
        bound = bound_inputs(self.query, schemas)
        stream = self._new_stream(bound)
        stream.set_observed(False)  # all of it was given
        for _ in self._worked_on(stream, bound):
            pass
        stream.set_observed(True)
        frame = bound.checked(key, frame)
        result = stream.process_inputs(self._inputs_of(key, frame))
        before.changes.begun += 1  # what is interrupted from here on has to be undone
        self._schemas, self.bound = schemas, bound
        self._keep(key, KeptRows(frame))
        self._opened(stream)
        return result

    def _worked_on(self, stream: CombinedStream, bound: InputBinding) -> Iterator[pl.DataFrame]:
        """The results of all that was given."""
        given, last = [], self._given
        while last is not None:
            given.append((last.key, last.item))
            last = last.before
        for key, item in reversed(given):
            if key is not None:
                frame = bound.checked(key, item.frame)
                yield stream.process_inputs(self._inputs_of(key, frame))
            elif isinstance(item, _Ticks):
                yield stream.advance(item.ticks)
            else:
                yield stream.advance(ticks_of_time(item, stream.binding))

    def _opened(self, stream: CombinedStream) -> None:
        """Go on with a stream, and with what it was given if that may be needed again."""
        assert self.bound is not None
        self.stream = stream
        self._is_kept = self.is_repeatable and any(
            pl.Null in types.values() for types in self.bound.types.values()
        )
        if not self._is_kept:
            self._given = None
        self.log.add_copy()
