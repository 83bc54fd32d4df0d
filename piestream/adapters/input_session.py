"""What a session does with the rows of several streams, until all their types are known and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import polars as pl

from piestream.adapters.event_columns import event_list, events_frame
from piestream.adapters.feeds import Feed, Given, Opening, ticks_of_time
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.adapters.inputs import InputBinding, Inputs, bound_inputs
from piestream.adapters.read_columns import lazily_read
from piestream.adapters.replay import KeptRows, NamedCall
from piestream.copies import copied_but
from piestream.engine.combined import CombinedStream

__all__ = ["InputFeed"]


class _Waiting(NamedTuple):
    """Rows of an input, or a time, behind what has waited longer. It never changes, so copies share it."""

    before: _Waiting | None
    key: str | None
    item: Any


class InputFeed(Feed):
    """Takes rows of any input to the open stream of a query.

    The stream is opened when every input has had a row, or when the types of its columns were told:
    until then rows wait. No match can be known before, for each stream has a symbol in it.
    """

    stream: CombinedStream | None
    #: The class of the open stream.
    stream_kind: ClassVar[type[CombinedStream]] = CombinedStream

    def __init__(self, opening: Opening, recovers: bool) -> None:
        super().__init__(opening, recovers)
        self.inputs = Inputs(self.query)
        self.bound: InputBinding | None = None
        self._schemas: dict[str, dict[str, pl.DataType]] = {}
        self._waiting: _Waiting | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copied_but(
            self, memo,
            query=self.query, log=self.log, inputs=self.inputs, bound=self.bound,
            _schemas=self._schemas.copy(), _waiting=self._waiting,
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
        self.opening.observed(stream)

    def push(self, given: tuple[Any, str | None], kind: Kind) -> Given:
        """Rows of one input; gives the matches that became known."""
        rows, name = given
        key = self.inputs.name_of(name)
        frame, kind = self._frame(key, rows)
        if self.stream is None:
            self._schemas.setdefault(key, dict(frame.schema))
            self._waiting = _Waiting(self._waiting, key, KeptRows(frame))
            self.log.add_copy()
            return as_kind(kind, self._open() if self._is_typed else pl.DataFrame()), kind
        assert self.bound is not None
        if kind != "events":  # of these it was made with the types that are bound
            frame = self.bound.checked(key, frame)
        result = self.stream.process_inputs(self._inputs_of(key, frame))
        self.log.add("process_inputs", key, frame, found=len(result))
        return as_kind(kind, result), kind

    def advance(self, time: Any, kind: Kind) -> Given:
        """Move time on."""
        if self.stream is None:
            self._waiting = _Waiting(self._waiting, None, time)
            self.log.add_copy()
            return as_kind(kind, pl.DataFrame()), kind
        ticks = ticks_of_time(time, self.stream.binding)
        result = self.stream.advance(ticks)
        self.log.add("advance", ticks, found=len(result))
        return as_kind(kind, result), kind

    def replay(self, entry: NamedCall) -> None:
        """Do again what an entry of the log says."""
        if entry.name == "process_inputs":
            assert self.stream is not None
            key, rows = entry.given
            self.stream.process_inputs(self._inputs_of(key, rows.frame))
        else:
            super().replay(entry)

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
        waiting, last = [], self._waiting
        while last is not None:
            waiting.append((last.key, last.item))
            last = last.before
        results = [stream.no_results]
        for key, item in reversed(waiting):
            if key is None:
                results.append(stream.advance(ticks_of_time(item, stream.binding)))
            else:
                frame = self.bound.checked(key, item.frame)
                results.append(stream.process_inputs(self._inputs_of(key, frame)))
        self.stream, self._waiting = stream, None
        self.log.add_copy()
        return pl.concat(results)
