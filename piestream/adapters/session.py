"""A session: push events as they come, get the matches that became known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, NoReturn, TypeVar, Unpack, cast, get_args, overload

import polars as pl

from piestream.adapters.binding import bound, lateness_ticks
from piestream.adapters.feeds import Opening, StreamFeed, declared_types
from piestream.adapters.forks import refuse_after_fork
from piestream.adapters.frames import Kind
from piestream.adapters.input_session import InputFeed
from piestream.adapters.inputs import bound_inputs
from piestream.engine.combined import CombinedStream, refuse_closing
from piestream.engine.snapshot import restore, schema_of
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.errors import SchemaError, StateError
from piestream.expressions.diagnostics import QueryError
from piestream.language.inputs import Event, Events, Frame
from piestream.language.model import Query
from piestream.language.options import (
    AtEnd,
    BoundedOptions,
    SessionKeywords,
    SessionOptions,
    check_archive_options,
)
from piestream.language.signatures import takes_options

T = TypeVar("T")


class Session:
    """An open stream of one query; `Query.open` makes one, and explains the options.

    What comes back has the kind of what was pushed: a frame for a frame, a list of dicts for an
    event or a list of them. A push that is refused changes nothing, and neither does one that is
    interrupted (Ctrl-C, or a lack of memory): it can be pushed again. Threads may share a session:
    one call waits for the other.

    >>> import piestream as ps
    >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
    >>> session.push({"t": 1, "x": 5})
    [{'detected_at': 1, 'a_ts': 1, 'a_te': None}]
    """

    @takes_options(SessionOptions)
    def __init__(
        self,
        query: Query,
        *,
        state: bytes | None = None,
        schema: Mapping[str, Any] | None = None,
        **options: Unpack[SessionKeywords],
    ) -> None:
        self.query = query
        self._kind: Kind = "polars"  # of what was pushed last: what comes back has it too
        self._closed = False
        self._lock = RLock()  # a signal's handler may call while a call is under way
        given = SessionOptions.of(options)
        check_archive_options(options, query.reads_archives)
        opening = Opening(query, given, self._observer())
        feed: InputFeed | StreamFeed
        kind = InputFeed if query.is_combined else StreamFeed
        feed = (query.feed_of_archives or kind)(opening, given.recover)
        self._log = feed.log
        refuse_after_fork(self)
        if state is not None:
            self._restore(feed, state)
            self._refuse_other_options(options, schema)
        elif schema is not None:
            feed.declare(schema)

    def _observer(self) -> Callable[[pl.DataFrame], None] | None:
        """Who is told the results of the session's stream."""
        return None

    @property
    def _told(self) -> tuple[pl.DataFrame, ...]:
        """Which results the observer holds; they are taken from it where a call is undone."""
        return ()

    @_told.setter
    def _told(self, told: tuple[pl.DataFrame, ...]) -> None: ...

    @property
    def _stream(self) -> Stream | None:
        return cast("Stream | None", self._log.live.stream)

    def _restore(self, feed: InputFeed | StreamFeed, state: bytes) -> None:
        stored, kind = schema_of(state)
        if kind not in get_args(Kind):
            raise StateError(f"this state is damaged: {kind!r} is nothing that can be pushed")
        self._kind = cast(Kind, kind)
        if isinstance(feed, InputFeed):
            found = _again(lambda: bound_inputs(self.query, feed.types_of(stored)))
            stream = restore(found.binding, state, feed.stream_kind)
            assert isinstance(stream, CombinedStream)
            feed.restored(found, stream)
        else:
            if len(stored) != 1:
                raise StateError("this state belongs to another query, of several streams")
            (only,) = stored.values()
            stream = restore(_again(lambda: bound(self.query, only)), state)
            feed.restored(stream)
        stream.closable = True

    def _refuse_other_options(
        self, options: SessionKeywords, schema: Mapping[str, Any] | None
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
        if not self.query.is_combined:
            types = declared_types(schema or {})
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
        return self._do("push", (rows, stream))

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
        return self._do("advance", time)

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
        if at_end == "close":
            refuse_closing(self.query)
        return self._do("finish", at_end, closes=True)

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
        state: bytes = self._do("snapshot", None)
        return state

    @property
    def statistics(self) -> Statistics:
        """What the session has processed, and what it holds now.

        >>> import piestream as ps
        >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
        >>> matches = session.push([{"t": 1, "x": 0}, {"t": 2, "x": 5}])
        >>> session.statistics.events, session.statistics.matches
        (2, 1)
        """
        log = self._log
        with self._lock:
            if log.changing:
                log.make_ready()
            log.changing = self._closed  # to count what is incomplete takes the state
            found: Statistics = log.live.statistics
            log.changing = False
            return found

    @property
    def plan(self) -> str | None:
        """How a query over live streams and archives goes about it, and why; None of other queries.

        >>> import piestream as ps
        >>> ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9").open().plan is None
        True
        """
        with self._lock:
            stream = self._stream
            return None if stream is None else stream.plan

    def _do(self, call: str, given: Any, closes: bool = False) -> Any:
        """What a call of the feed gives; where it does not get to the caller, nothing was done.

        Only what another thread has built upon meanwhile stays.
        """
        log = self._log
        committed = None
        try:
            with self._lock:
                if self._closed:
                    raise ValueError("this session is closed")
                if log.changing or len(log.entries) >= log.most:
                    log.make_ready()
                feed, kind, told = log.live, self._kind, self._told
                stream = feed.stream
                begun = -1 if stream is None else stream.changes.begun
                log.changing = True
                try:
                    result, pushed = getattr(feed, call)(given, kind)
                except BaseException:
                    log.changing = stream is None or stream.changes.begun != begun
                    self._told = told
                    raise
                log.latest = latest = log.latest + 1
                committed, log.committed = log.committed, len(log.entries)
                self._kind = pushed
                if closes:
                    self._closed = True
                log.changing = False
            return result
        except BaseException:
            if committed is not None:  # it was done
                with self._lock:
                    if log.latest == latest:
                        self._kind, self._closed, self._told = kind, False, told
                        log.take_back(committed)
            raise

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "a session cannot be copied or pickled: take its snapshot() and open it again, "
            "query.open(state=...)"
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True


def _again(bind: Callable[[], T]) -> T:
    """The query bound to the columns that a state says it was taken with."""
    try:
        return bind()
    except (QueryError, SchemaError) as error:
        raise StateError(
            "this state belongs to another query: this one cannot read the columns that it was "
            f"taken with: {error}"
        ) from error
