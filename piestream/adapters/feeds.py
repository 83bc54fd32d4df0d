"""What calls of a session change: an open stream, and how rows of a user's become rows of it.

A feed is opened by the first rows, whose columns say the types, or when these are declared. It can
be copied, and does again what its log says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.adapters.binding import bound, lateness_ticks
from piestream.adapters.event_columns import (
    column_names,
    event_list,
    event_types,
    events_frame,
    refuse_no_time,
    time_column,
    value_type,
)
from piestream.adapters.event_reader import EventReader
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.adapters.read_columns import lazily_read
from piestream.adapters.replay import RESULT_BYTES, CallLog, KeptRows, NamedCall
from piestream.copies import copied_but
from piestream.engine.combined import open_stream
from piestream.engine.snapshot import snapshot
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.errors import SchemaError, StateError
from piestream.expressions.columns import column_named
from piestream.language.inputs import Event
from piestream.language.model import Query
from piestream.language.options import AtEnd, OrderOptions
from piestream.plan.binding import Binding

__all__ = ["Feed", "Opening", "StreamFeed", "declared_types", "ticks_of_time"]

#: What a call gives to its caller, and the kind of what was pushed last.
Given = tuple[Any, Kind]


@dataclass(frozen=True)
class Opening:
    """How streams of a query are opened, and who is told of their results."""

    query: Query
    options: OrderOptions
    on_results: Callable[[pl.DataFrame], None] | None = None

    def __deepcopy__(self, memo: object) -> Opening:
        return self  # it never changes

    def stream(self, binding: Binding, kind: Callable[..., Stream] = open_stream) -> Stream:
        """A new stream."""
        options = self.options
        lateness = 0 if options.lateness is None else lateness_ticks(binding, options.lateness)
        return self.observed(
            kind(
                binding,
                lateness=lateness,
                ties=options.ties,
                on_late=options.on_late,
                closable=True,
            )
        )

    def observed(self, stream: Stream) -> Stream:
        """A stream whose results are told."""
        stream.on_results = self.on_results
        return stream


class Feed:
    """An open stream, once the types of its columns are known, and a log of what it was given."""

    def __init__(self, opening: Opening, recovers: bool) -> None:
        self.opening = opening
        self.query = opening.query
        self.stream: Stream | None = None
        self.log = CallLog(self, recovers)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copied_but(self, memo, query=self.query, log=self.log)

    @property
    def is_open(self) -> bool:
        """Whether there is a state, or only what waits for one."""
        return self.stream is not None

    @property
    def size(self) -> int:
        """About how many bytes the state takes."""
        return self.statistics.state_bytes

    def set_observed(self, observed: bool) -> None:
        """Whether anybody is told what is found."""
        if self.stream is not None:
            self.stream.set_observed(observed)

    def finish(self, at_end: AtEnd, kind: Kind) -> Given:
        """No more rows come."""
        if self.stream is None:
            return as_kind(kind, pl.DataFrame()), kind
        result = self.stream.finish(at_end)
        self.log.add("finish", at_end, found=len(result))
        return as_kind(kind, result), kind

    def snapshot(self, given: None, kind: Kind) -> Given:
        """The state as bytes."""
        if self.stream is None:
            raise StateError("nothing was pushed yet, so there is no state: open a new session")
        state = snapshot(self.stream, kind)
        self.log.add("compact")  # that is done for it
        return state, kind

    @property
    def statistics(self) -> Statistics:
        """What the stream has processed and holds now."""
        return Statistics() if self.stream is None else self.stream.statistics

    def replay(self, entry: NamedCall) -> None:
        """Do again what an entry of the log says."""
        given = [part.frame if isinstance(part, KeptRows) else part for part in entry.given]
        getattr(self.stream, entry.name)(*given)


class StreamFeed(Feed):
    """Rows of the only stream of a query."""

    def __init__(self, opening: Opening, recovers: bool) -> None:
        super().__init__(opening, recovers)
        self._reader: EventReader | None = None
        self._untyped: tuple[str, ...] = ()  # columns whose values were all missing so far
        self._advanced: Any = None  # where time was advanced to before the first row

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copied_but(self, memo, query=self.query, log=self.log, _reader=self._reader)

    def declare(self, schema: Mapping[str, Any]) -> None:
        """Take the types of columns that ``schema`` gives."""
        self._open(declared_types(schema))

    def restored(self, stream: Stream) -> None:
        """Go on with the stream of a state."""
        self.stream = self.opening.observed(stream)
        self._note_untyped()

    def push(self, given: tuple[Any, str | None], kind: Kind) -> Given:
        """Rows of the stream, of which there is only one."""
        rows, name = given
        if name is not None and name != self.query.streams[0].name:
            raise ValueError(f"the query reads no stream {name}, and only one: leave it out")
        if type(rows) is dict or isinstance(rows, Mapping):  # the first is many times faster
            return self._push_event(rows)
        if isinstance(rows, pl.LazyFrame):
            rows = lazily_read(self.query, rows).collect()
        events = event_list(rows)
        if events is not None:
            return self._push_events(events) if events else ([], "events")
        columns, kind = as_polars(rows, self.query)
        stream = self._typed(columns.schema)
        return self._process(_checked(columns, stream.binding), kind)

    def advance(self, time: Any, kind: Kind) -> Given:
        """Move time on."""
        stream = self.stream
        if stream is None:  # the time's type is not known yet
            refuse_no_time(time)
            if self._advanced is None or _is_after(time, self._advanced):
                self._advanced = time
                self.log.add_copy()
            return as_kind(kind, pl.DataFrame()), kind
        ticks = ticks_of_time(time, stream.binding)
        result = stream.advance(ticks)
        self.log.add("advance", ticks, found=len(result))
        return as_kind(kind, result), kind

    def replay(self, entry: NamedCall | tuple[Any, ...]) -> None:
        """Do again what an entry of the log says: a single event has no name of a call."""
        if isinstance(entry, NamedCall):
            super().replay(entry)
        else:
            stream, reader = self.stream, self._reader
            assert stream is not None
            assert reader is not None
            read = reader.read(reader.event_of(entry), stream)
            assert read is not None
            stream.process_event(*read, reader.attribute_floats)

    def _open(self, schema: Mapping[str, pl.DataType]) -> Stream:
        binding = bound(self.query, dict(schema))
        stream = self.opening.stream(binding)
        if self._advanced is not None:
            stream.advance(ticks_of_time(self._advanced, binding))
        self.stream = stream
        self._note_untyped()
        return stream

    def _note_untyped(self) -> None:
        assert self.stream is not None
        binding = self.stream.binding
        self._untyped = tuple(n for n in binding.columns if binding.schema[n] == pl.Null)
        reader = EventReader(binding)
        self._reader = reader if reader.usable else None
        self.log.add_copy()

    def _typed(self, schema: Mapping[str, pl.DataType]) -> Stream:
        """The stream, bound to columns of these types as far as it knew none yet."""
        stream = self.stream
        if stream is None:
            return self._open(schema)
        found = {n: schema[n] for n in self._untyped if schema.get(n, pl.Null) != pl.Null}
        if found:
            stream.rebind(bound(self.query, {**stream.binding.schema, **found}))
            self._note_untyped()
        return stream

    def _process(self, frame: pl.DataFrame, kind: Kind) -> Given:
        stream = self.stream
        assert stream is not None
        rows = stream.project(frame)
        result = stream.process_projected(rows)
        self.log.add("process_projected", rows, found=len(result))
        return as_kind(kind, result), kind

    def _push_events(self, events: Sequence[Event]) -> Given:
        known = self.stream is not None and not self._untyped
        stream = self.stream if known else self._typed(event_types(events, self.query))
        assert stream is not None
        binding = stream.binding
        return self._process(events_frame(events, binding.columns, binding.schema), "events")

    def _push_event(self, event: Event) -> Given:
        stream = self.stream
        if stream is None or self._untyped:
            names: Iterable[str] = column_names(event)
            if stream is not None:
                names = (n for n in self._untyped if n in event)
            stream = self._typed({name: value_type(event[name]) for name in names})
        reader = self._reader
        if reader is not None:
            read = reader.read(event, stream)
            if read is not None:
                result = stream.process_event(*read, reader.attribute_floats)
                if result is not None:
                    log = self.log
                    if log.keeps:
                        log.entries.append(reader.values(event))
                        if reader.texts:
                            log.charge(sum(len(event[name] or ()) for name in reader.texts))
                    if result is stream.no_results:
                        return [], "events"
                    log.charge(RESULT_BYTES * len(result))
                    return result.to_dicts(), "events"
        binding = stream.binding
        return self._process(events_frame([event], binding.columns, binding.schema), "events")


def declared_types(schema: Mapping[str, Any]) -> pl.Schema:
    """The types of columns that ``schema`` says."""
    try:
        return pl.DataFrame(schema=dict(schema)).schema
    except TypeError as error:
        raise TypeError(
            f"schema gives columns Polars types, or int, float, str, bool, datetime, date: {error}"
        ) from None


def ticks_of_time(time: Any, binding: Binding) -> int:
    """A time that a user gives, in ticks."""
    column = time_column(binding.time.name, time, binding.time.dtype)
    if column.null_count():
        raise SchemaError("time cannot advance to None")
    return int(column.to_physical().cast(pl.Int64)[0])


def _checked(frame: pl.DataFrame, binding: Binding) -> pl.DataFrame:
    for name in binding.columns:
        if name not in frame.columns:
            raise SchemaError(f"the rows have no column {name}, which earlier rows had")
        if frame.schema[name] not in (binding.schema[name], pl.Null):
            raise SchemaError(
                f"column {name} has type {frame.schema[name]}; it had {binding.schema[name]} before"
            )
    nulls = [name for name in binding.columns if frame.schema[name] == pl.Null]
    return frame.with_columns(column_named(n).cast(binding.schema[n]) for n in nulls)


def _is_after(time: Any, other: Any) -> bool:
    """Whether a time is later; of times that cannot be compared the last one given counts."""
    try:
        return bool(time > other)
    except TypeError:
        return True
