"""A session: push events as they come, get the matches that became known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NoReturn, TypeVar, Unpack, cast, get_args, overload

import polars as pl

from piestream.adapters.binding import bound, lateness_ticks
from piestream.adapters.event_columns import (
    event_list,
    event_types,
    events_frame,
    value_column,
    value_type,
)
from piestream.adapters.event_reader import EventReader
from piestream.adapters.forks import refuse_after_fork
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.adapters.input_session import InputFeed
from piestream.adapters.inputs import bound_inputs
from piestream.adapters.read_columns import lazily_read
from piestream.engine.combined import CombinedStream, open_stream, refuse_closing
from piestream.engine.snapshot import restore, schema_of, snapshot
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.errors import SchemaError, StateError
from piestream.expressions.columns import column_named
from piestream.expressions.diagnostics import QueryError
from piestream.language.inputs import Event, Events, Frame
from piestream.language.model import Query
from piestream.language.options import (
    AtEnd,
    BoundedOptions,
    OrderKeywords,
    OrderOptions,
)
from piestream.language.signatures import takes_options
from piestream.plan.binding import Binding

T = TypeVar("T")


class Session:
    """An open stream of one query; `Query.open` makes one, and explains the options.

    What comes back has the kind of what was pushed: a frame for a frame, a list of dicts for an
    event or a list of them. A push that is refused changes nothing. A push that is interrupted
    (Ctrl-C, or a lack of memory) may be half done: from then on each call raises `StateError`, and
    the last snapshot is what to go on from. Threads may share a session: one call waits for the
    other.

    >>> import piestream as ps
    >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
    >>> session.push({"t": 1, "x": 5})
    [{'detected_at': 1, 'a_ts': 1, 'a_te': None}]
    """

    @takes_options(OrderOptions)
    def __init__(
        self,
        query: Query,
        *,
        state: bytes | None = None,
        schema: Mapping[str, Any] | None = None,
        **options: Unpack[OrderKeywords],
    ) -> None:
        self.query = query
        self._options = OrderOptions.of(options)
        self._stream: Stream | None = None
        self._reader: EventReader | None = None
        self._untyped: tuple[str, ...] = ()  # columns whose values were all missing so far
        self._advanced: Any = None  # where time was advanced to before the first row
        self._kind: Kind = "polars"  # of what was pushed last: what comes back has it too
        self._closed = False
        self._lock = RLock()  # a signal's handler may call while a call is under way
        self._feed = InputFeed(query, self._opened) if query.is_combined else None
        refuse_after_fork(self)
        if state is not None:
            self._restore(state)
            self._refuse_other_options(options, schema)
        elif schema is not None and self._feed is not None:
            self._feed.declare(schema)
            self._stream = self._feed.stream
        elif schema is not None:
            self._bind(_types(schema))

    def _restore(self, state: bytes) -> None:
        stored, kind = schema_of(state)
        if kind not in get_args(Kind):
            raise StateError(f"this state is damaged: {kind!r} is nothing that can be pushed")
        self._kind = cast(Kind, kind)
        if self._feed is not None:
            found = _again(lambda: bound_inputs(self.query, stored))
            stream = restore(found.binding, state)
            stream.closable = True
            assert isinstance(stream, CombinedStream)
            self._feed.restored(found, stream)
            self._stream = stream
        else:
            if len(stored) != 1:
                raise StateError("this state belongs to another query, of several streams")
            (only,) = stored.values()
            self._stream = restore(_again(lambda: bound(self.query, only)), state)
            self._stream.closable = True
            self._note_untyped()

    def _opened(self, binding: Binding) -> CombinedStream:
        options = self._options
        lateness = 0 if options.lateness is None else lateness_ticks(binding, options.lateness)
        return CombinedStream(
            binding, lateness=lateness, ties=options.ties, on_late=options.on_late, closable=True
        )

    def _bind(self, schema: Mapping[str, pl.DataType]) -> Stream:
        binding: Binding = bound(self.query, dict(schema))
        options = self._options
        lateness = 0 if options.lateness is None else lateness_ticks(binding, options.lateness)
        stream = open_stream(
            binding, lateness=lateness, ties=options.ties, on_late=options.on_late, closable=True
        )
        if self._advanced is not None:
            time, self._advanced = self._advanced, None
            stream.advance(self._ticks(time, binding))
        self._stream = stream
        self._note_untyped()
        return self._stream

    def _note_untyped(self) -> None:
        assert self._stream is not None
        binding = self._stream.binding
        self._untyped = tuple(n for n in binding.columns if binding.schema[n] == pl.Null)
        reader = EventReader(binding)
        self._reader = reader if reader.usable else None

    def _refuse_other_options(
        self, options: OrderKeywords, schema: Mapping[str, Any] | None
    ) -> None:
        """A restored session has the options of the one that was stored: others are refused."""
        stream = self._stream
        assert stream is not None
        binding = stream.binding
        given: dict[str, tuple[Any, Any]] = {
            "on_late": (options.get("on_late"), stream.on_late),
            "ties": (options.get("ties"), stream.ties),
        }
        lateness = options.get("lateness")
        if lateness is not None:
            given["lateness"] = (lateness_ticks(binding, lateness), stream.lateness)
        if self._feed is None:
            types = _types(schema or {})
            for name in binding.columns:
                given[f"the type of {name}"] = (types.get(name), binding.schema[name])
        for what, (value, held) in given.items():
            if value is not None and value != held:
                raise StateError(
                    f"{what} is {held} in this state, not {value}: a session goes on with the "
                    "options that it was opened with, so leave them out"
                )

    @overload
    def push(
        self, rows: pl.DataFrame | pl.LazyFrame, stream: str | None = None
    ) -> pl.DataFrame: ...
    @overload
    def push(self, rows: Event | Events, stream: str | None = None) -> list[dict[str, Any]]: ...
    @overload
    def push(self, rows: Frame, stream: str | None = None) -> Frame: ...

    def push(self, rows: Any, stream: str | None = None) -> Any:
        """Add events; gives the matches that became known.

        Parameters
        ----------
        rows
            An event (a mapping of column and value), a list, tuple or generator of events, or a
            frame: Polars, pandas, PyArrow, DuckDB. All of its rows are taken or none.
        stream
            The name of the stream that they are rows of, where the query reads several. Until each
            of these has had a row, or ``schema`` has told its types, rows wait.

        Returns
        -------
        A list of dicts for events, a frame of the same kind for a frame (a DataFrame for a
        LazyFrame), with the columns of `Query.run`.

        Raises
        ------
        LateEventError
            An event is older than the watermark, and the session does not drop late events.
        TieError
            Two events of a partition have the same time, and the session takes neither.
        SchemaError
            A column is missing, or has another type than before.
        QueryError
            The query does not fit the columns of the first push.
        ValueError
            The session is closed.

        >>> import piestream as ps
        >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
        >>> session.push([{"t": 1, "x": 0}, {"t": 2, "x": 5}])
        [{'detected_at': 2, 'a_ts': 2, 'a_te': None}]
        """
        given = False
        try:
            with self._lock:
                before = self._changes()
                try:
                    self._check_open()
                    result = self._pushed(rows, stream)
                    given = True
                except BaseException:
                    self._mark_lost(before)
                    raise
        except BaseException:
            self._mark_lost(None, given)
            raise
        return result

    def _pushed(self, rows: Any, stream: str | None) -> Any:
        if self._feed is not None:
            result, self._kind = self._feed.push(rows, stream)
            self._stream = self._feed.stream
            return as_kind(self._kind, result)
        if stream not in (None, self.query.streams[0].name):
            raise ValueError(f"the query reads no stream {stream}, and only one: leave it out")
        if self._stream is not None:
            return self._push(rows)
        advanced = self._advanced
        try:
            return self._push(rows)
        except BaseException:  # nothing was taken, so the columns' types are not known yet
            self._stream, self._advanced = None, advanced
            raise

    def _push(self, rows: Any) -> Any:
        if type(rows) is dict or isinstance(rows, Mapping):  # the first is many times faster
            self._kind = "events"
            return self._push_event(rows)
        if isinstance(rows, pl.LazyFrame):
            rows = lazily_read(self.query, rows).collect()
        events = event_list(rows)
        if events is not None:
            self._kind = "events"
            return self._push_events(events) if events else []
        columns, self._kind = as_polars(rows, self.query)
        stream = self._typed(columns.schema)
        return as_kind(self._kind, stream.process(self._checked(columns, stream.binding)))

    def _typed(self, schema: Mapping[str, pl.DataType]) -> Stream:
        """The stream, bound to columns of these types as far as it knew none yet."""
        stream = self._stream
        if stream is None:
            return self._bind(schema)
        found = {n: schema[n] for n in self._untyped if schema.get(n, pl.Null) != pl.Null}
        if found:
            self._reader = None  # it reads the types that were known before
            stream.rebind(bound(self.query, {**stream.binding.schema, **found}))
            self._note_untyped()
        return stream

    def _push_events(self, events: Sequence[Event]) -> Any:
        known = self._stream is not None and not self._untyped
        stream = self._stream if known else self._typed(event_types(events, self.query))
        assert stream is not None
        return as_kind(
            self._kind,
            stream.process(events_frame(events, stream.binding.columns, stream.binding.schema)),
        )

    def _push_event(self, event: Event) -> Any:
        stream = self._stream
        if stream is None or self._untyped:
            names = event if stream is None else (n for n in self._untyped if n in event)
            stream = self._typed({name: value_type(event[name]) for name in names})
        reader = self._reader
        if reader is not None:
            read = reader.read(event, stream)
            if read is not None:
                known = stream.process_event(*read, reader.attribute_floats)
                if known is not None:
                    return [] if known is stream.no_results else as_kind(self._kind, known)
        return as_kind(
            self._kind,
            stream.process(events_frame([event], stream.binding.columns, stream.binding.schema)),
        )

    def _checked(self, frame: pl.DataFrame, binding: Binding) -> pl.DataFrame:
        for name in binding.columns:
            if name not in frame.columns:
                raise SchemaError(f"the rows have no column {name}, which earlier rows had")
            if frame.schema[name] not in (binding.schema[name], pl.Null):
                raise SchemaError(
                    f"column {name} has type {frame.schema[name]}; "
                    f"it had {binding.schema[name]} before"
                )
        nulls = [name for name in binding.columns if frame.schema[name] == pl.Null]
        return frame.with_columns(column_named(n).cast(binding.schema[n]) for n in nulls)

    def advance(self, time: Any) -> Any:
        """Move time on without events; gives the matches that became known.

        Events that waited for the watermark are worked on, and a silence longer than MAX GAP ends
        intervals.

        Parameters
        ----------
        time
            All events before this time have come. It has the type of the time column. Before the
            first push it is noted, and counts from then on.

        Returns
        -------
        Rows of the kind that was pushed last.

        Raises
        ------
        SchemaError
            The time is None, or not of the time column's type.
        ValueError
            The session is closed.

        >>> import piestream as ps
        >>> query = ps.query(
        ...     "FROM s ORDER BY t MAX GAP 5 DEFINE a AS x > 1 PATTERN a WITHIN 9 EMIT ON COMPLETION"
        ... )
        >>> session = query.open()
        >>> session.push({"t": 1, "x": 5})
        []
        >>> session.advance(8)
        [{'completed_at': 6, 'a_ts': 1, 'a_te': 6}]
        """
        with self._all_given():
            self._check_open()
            if self._feed is not None:
                return as_kind(self._kind, self._feed.advance(time, self._ticks))
            if self._stream is None:  # the time's type is not known yet
                if self._advanced is None or _is_after(time, self._advanced):
                    self._advanced = time
                return as_kind(self._kind, pl.DataFrame())
            return as_kind(
                self._kind, self._stream.advance(self._ticks(time, self._stream.binding))
            )

    @staticmethod
    def _ticks(time: Any, binding: Binding) -> int:
        column = value_column(binding.time.name, [time], binding.time.dtype)
        if column.null_count():
            raise SchemaError("time cannot advance to None")
        return int(column.to_physical().cast(pl.Int64)[0])

    def close(self, *, at_end: AtEnd = "open") -> Any:
        """End the stream: work on all events that wait for the watermark.

        Parameters
        ----------
        at_end
            ``"close"`` ends what is open at the last event of its partition, or, where it began
            with that event, one tick later.

        Returns
        -------
        The matches that became known, as rows of the kind that was pushed last. Intervals that
        are open stay open, unless ``at_end`` says otherwise; ``statistics.incomplete`` is the
        number of rows that are missing for that reason.

        Raises
        ------
        ValueError
            The session is closed already, or ``at_end`` is neither "open" nor "close".

        >>> import piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> session = query.open(lateness=10)
        >>> session.push({"t": 1, "x": 5})
        []
        >>> session.close()
        [{'detected_at': 1, 'a_ts': 1, 'a_te': None}]
        """
        at_end = BoundedOptions(at_end=at_end).at_end
        with self._all_given():
            self._check_open()
            if at_end == "close":
                refuse_closing(self.query)
            result = pl.DataFrame() if self._stream is None else self._stream.finish(at_end)
            given = as_kind(self._kind, result)
            self._closed = True
            return given

    def snapshot(self) -> bytes:
        """The state of the session as bytes, for ``query.open(state=...)``.

        The bytes carry a version and a checksum, and are no pickle.

        Raises
        ------
        StateError
            Nothing was pushed yet, and no schema was given.
        ValueError
            The session is closed.

        >>> import piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> session = query.open()
        >>> session.push({"t": 1, "x": 0})
        []
        >>> again = query.open(state=session.snapshot())
        >>> again.push({"t": 2, "x": 5})
        [{'detected_at': 2, 'a_ts': 2, 'a_te': None}]
        """
        with self._lock:
            self._check_open()
            if self._stream is None:
                raise StateError("nothing was pushed yet, so there is no state: open a new session")
            return snapshot(self._stream, self._kind)

    @property
    def statistics(self) -> Statistics:
        """What the session has processed, and what it holds now.

        >>> import piestream as ps
        >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
        >>> matches = session.push([{"t": 1, "x": 0}, {"t": 2, "x": 5}])
        >>> session.statistics.events, session.statistics.matches
        (2, 1)
        """
        with self._lock:
            return Statistics() if self._stream is None else self._stream.statistics

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a session cannot be copied or pickled: take its snapshot() and open it again, "
            "query.open(state=...)"
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True

    @contextmanager
    def _all_given(self) -> Iterator[None]:
        """Surrounds a call: where it fails behind a change of the state, its results are lost."""
        given = False
        try:
            with self._lock:
                before = self._changes()
                try:
                    yield
                    given = True
                except BaseException:
                    self._mark_lost(before)
                    raise
        except BaseException:
            self._mark_lost(None, given)
            raise

    def _changes(self) -> int:
        """How often the state has changed."""
        stream = self._stream if self._feed is None else self._feed.stream
        return 0 if stream is None else stream.changes

    def _mark_lost(self, before: int | None, lost: bool = False) -> None:
        """The state has gone on if it has changed since: nobody would see the results again.

        Or they were interrupted on their last step to the caller, and are certainly ``lost``.
        """
        stream = self._stream if self._feed is None else self._feed.stream
        if stream is not None and (lost or before not in (None, stream.changes)):
            stream.mark_incomplete()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this session is closed")


def _again(bind: Callable[[], T]) -> T:
    """The query bound to the columns that a state says it was taken with."""
    try:
        return bind()
    except (QueryError, SchemaError) as error:
        raise StateError(
            "this state belongs to another query: this one cannot read the columns that it was "
            f"taken with: {error}"
        ) from error


def _types(schema: Mapping[str, Any]) -> pl.Schema:
    """The types of columns that ``schema`` says."""
    try:
        return pl.DataFrame(schema=dict(schema)).schema
    except TypeError as error:
        raise TypeError(
            f"schema gives columns Polars types, or int, float, str, bool, datetime, date: {error}"
        ) from None


def _is_after(time: Any, other: Any) -> bool:
    """Whether a time is later; of times that cannot be compared the last one given counts."""
    try:
        return bool(time > other)
    except TypeError:
        return True
