"""A query: its value (`query_value.py`), and what it can be asked to do.

Here is the one door upward: each method imports what it leads to when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from piestream.language.inputs import Events, Frame, SparkFrame, has_spark
from piestream.language.options import (
    AnyKeywords,
    BoundedKeywords,
    BoundedOptions,
    FileKeywords,
    FileOptions,
    RunKeywords,
    SessionKeywords,
    SessionOptions,
    SparkBoundedOptions,
    SparkKeywords,
    SparkStreamOptions,
)
from piestream.language.query_value import QueryValue
from piestream.language.signatures import takes_options

if TYPE_CHECKING:
    import polars as pl

    from piestream import show
    from piestream.adapters.session import Session
    from piestream.archives.archive import Archive
    from piestream.archives.live import LiveFeed
    from piestream.archives.on_spark import SparkArchive
    from piestream.diagnosis.diagnosis import Diagnosis
    from piestream.diagnosis.why import Why
    from piestream.diagnosis.why_not import WhyNot
    from piestream.pictures.timeline import Timeline


class Query(QueryValue):
    """A query: immutable, hashable, and safe to pickle.

    ``str(query)`` is its canonical text, which parses back into an equal query. Neither the layout
    of the text nor the name of the stream in FROM takes part in ``==``; the path of a FROM does.

    >>> import piestream as ps
    >>> query = ps.query(
    ...     "FROM cars DEFINE a AS accel > 8, s AS speed > 70 PATTERN s during a WITHIN 60"
    ... )
    >>> query
    <Query of a, s: 1 constraint, within 60, 4 returns>
    >>> print(query)
    FROM cars
    DEFINE a AS accel > 8,
           s AS speed > 70
    PATTERN a contains s
    WITHIN 60
    """

    __slots__ = ()

    def __str__(self) -> str:
        from piestream.language.printer import canonical_text

        return canonical_text(self)

    @overload
    def run(self, frame: None = None, **options: Unpack[FileKeywords]) -> pl.DataFrame: ...
    @overload
    def run(self, frame: pl.DataFrame, **options: Unpack[RunKeywords]) -> pl.DataFrame: ...
    @overload
    def run(self, frame: pl.LazyFrame, **options: Unpack[RunKeywords]) -> pl.LazyFrame: ...
    @overload
    def run(self, frame: Events, **options: Unpack[RunKeywords]) -> list[dict[str, Any]]: ...
    @overload
    def run(self, frame: Archive, **options: Unpack[FileKeywords]) -> pl.DataFrame: ...
    @overload
    def run(self, frame: SparkArchive, **options: Unpack[SparkKeywords]) -> Any: ...
    @overload
    def run(self, frame: Frame, **options: Unpack[RunKeywords]) -> Frame: ...
    @overload
    def run(self, frame: SparkFrame, **options: Unpack[SparkKeywords]) -> SparkFrame: ...

    @overload
    def run(self, frame: Mapping[str, Any], **options: Unpack[AnyKeywords]) -> Any: ...

    @takes_options(FileOptions, SparkBoundedOptions, SparkStreamOptions)
    def run(self, frame: Any = None, **options: Unpack[AnyKeywords]) -> Any:
        """Every match in a frame, as a frame of the same kind.

        Parameters
        ----------
        frame
            A Polars DataFrame or LazyFrame, a pandas DataFrame, a PyArrow Table, a DuckDB
            relation, a Spark DataFrame, a list of dicts, one for each event, or an `Archive`, of
            which only the pages are read where a match can be. Rows may be in any order. Left out,
            the files that FROM names are read. For a query of several streams a dict of their
            names and such frames, whose kinds may differ: the first one's comes back.
        ties
            Two events of a partition with the same time: ``"error"``, or only the ``"first"`` or
            the ``"last"`` of them counts.
        lateness, on_late
            How far the rows of a Spark stream may be out of order, and what happens to those that
            come later. Everything else is sorted, so nothing in it is late.
        at_end
            What is open when a bounded input ends stays ``"open"``; ``"close"`` ends it at the last
            event of its partition, or, where it began with that event, one tick later.
        threads
            How many threads work on the partitions of a large frame; left out, one for each core.
            The result does not depend on it.
        archives, plan
            For a query that reads ARCHIVE streams: see `open`.
        limit
            Stop early: only the first so many rows. A `ResultWarning` says if there are more.
        delimiter, decimal_comma, null
            For CSV files: what separates the columns, whether numbers are written like 9,5, and
            the words that stand for missing values: ``"NA"``, or a list.
        encoding, types
            For CSV and NDJSON files: what they are written in, if not UTF-8 (``"latin-1"``), and
            the types of columns by their names: ``{"day": "date:%d/%m/%Y", "x": "float"}``.
        buckets, slices, partitioning, metrics
            For Spark frames: see `piestream.spark.run`.

        Returns
        -------
        A row for each match, in a frame of the kind that was given: a list of dicts for a list of
        dicts, a Polars DataFrame for files. The columns are those of PARTITION BY, the time of
        the report, and what RETURN says. Rows of one partition come in order of their report.

        Raises
        ------
        QueryError
            The query does not fit the columns: one is missing, or has a type that does not fit.
        StreamError
            Rows are wrong: a time is missing (`TimeError`), two events of a partition have the
            same time (`TieError`), a file cannot be read (`FileError`).
        TypeError
            The frame is of no known kind, or an option is not one of this kind of input.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> query.run(pl.DataFrame({"t": [1, 2, 3], "x": [5, 7, 0]})).rows()
        [(1, 1, None)]
        >>> query.run([{"t": 1, "x": 5}])
        [{'detected_at': 1, 'a_ts': 1, 'a_te': None}]
        """
        if has_spark(frame):
            from piestream.spark.frames import run_frame

            return run_frame(self, frame, options)
        from piestream.archives.local import run_local

        return run_local(self, frame, options)

    @takes_options(SessionOptions)
    def open(
        self,
        state: bytes | None = None,
        *,
        schema: Mapping[str, Any] | None = None,
        status: str | Path | None = None,
        **options: Unpack[SessionKeywords],
    ) -> Session:
        """A session on a stream that goes on: push events, get the matches that became known.

        Parameters
        ----------
        state
            What `Session.snapshot` gave: the session goes on from there, with the options that
            it had. Options that are given besides and differ are refused.
        schema
            The types of the columns: Polars types, or ``int``, ``float``, ``str``, ``bool``,
            ``datetime``, ``date``. Left out, the first push decides.
        status
            A file to which the session writes about once a second how it goes, for ``piestream watch``
            and Prometheus.
        ties
            Two events of a partition with the same time: ``"error"``, or only the ``"first"`` or
            the ``"last"`` of them counts.
        lateness
            How far events may be out of order: ``"5 s"``, a timedelta, or an int of ticks. They
            wait until the watermark, the largest time seen less the lateness, has passed them.
        on_late
            An event that is older than the watermark is an ``"error"``, or is left out and
            counted: ``"drop"``.
        archives
            For a query that reads ARCHIVE streams: the archives, or where they are, by the names of
            the streams. Those that are left out are opened by the paths that the query names.
        plan
            How such a query goes about it, as a `LivePlan` or its order: the rows do not depend on it.
        recover
            Whether a call that is interrupted (Ctrl-C, no memory) is undone, which takes a copy of
            the state. Without it a session that was interrupted in a change is of no use any more.

        Raises
        ------
        StateError
            The state is damaged, or is that of another version, of another query, or of other
            options.
        QueryError
            The query does not fit the columns of ``schema``.
        FileError
            ``status`` leads to a file that is something else.

        >>> import piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> session = query.open(lateness=2)
        >>> session.push({"t": 3, "x": 5})  # waits: an event at 1 or 2 may still come
        []
        >>> session.push({"t": 5, "x": 0})
        [{'detected_at': 3, 'a_ts': 3, 'a_te': None}]
        """
        if status is not None:
            from piestream.monitoring.sessions import PublishedSession

            return PublishedSession(self, status, state=state, schema=schema, **options)
        from piestream.adapters import session

        return session.Session(self, state=state, schema=schema, **options)

    @property
    def feed_of_archives(self) -> Callable[[Any, bool], LiveFeed] | None:
        """What makes of an opening what a session pushes into, where it reads archives.

        >>> import piestream as ps
        >>> ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9").feed_of_archives is None
        True
        """
        if not self.reads_archives:
            return None
        from piestream.archives import live

        return live.feed_of

    @overload
    def intervals(
        self, frame: pl.DataFrame | None = None, **options: Unpack[BoundedKeywords]
    ) -> pl.DataFrame: ...
    @overload
    def intervals(self, frame: Archive, **options: Unpack[BoundedKeywords]) -> pl.DataFrame: ...
    @overload
    def intervals(
        self, frame: pl.LazyFrame, **options: Unpack[BoundedKeywords]
    ) -> pl.LazyFrame: ...
    @overload
    def intervals(
        self, frame: Events, **options: Unpack[BoundedKeywords]
    ) -> list[dict[str, Any]]: ...
    @overload
    def intervals(self, frame: Frame, **options: Unpack[BoundedKeywords]) -> Frame: ...

    @takes_options(BoundedOptions)
    def intervals(self, frame: Any = None, **options: Unpack[BoundedKeywords]) -> Any:
        """Every symbol's intervals in a frame, as a frame of the same kind.

        A row for each run of a symbol's predicate: the ``symbol``, the columns of PARTITION BY,
        ``ts``, ``te``, ``duration``, ``events``, and whether it is ``valid``: whether it keeps the
        symbol's bounds (NULL where what is still to come decides). ``te`` and ``duration`` are NULL
        of what is open at the end, unless ``at_end="close"`` ends it. Left out, the files that FROM
        names are read. Of a row pattern, the rows of matches, put together where they are of one
        variable.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST 2 PATTERN a WITHIN 9")
        >>> query.intervals(pl.DataFrame({"t": [1, 2, 3, 5], "x": [5, 0, 7, 0]})).rows()
        [('a', 1, 2, 1, False, 1), ('a', 3, 5, 2, True, 1)]
        """
        from piestream.diagnosis.intervals import intervals

        return intervals(self, frame, BoundedOptions.of(options))

    @takes_options(BoundedOptions)
    def why(self, match: Any, frame: Any = None, **options: Unpack[BoundedKeywords]) -> Why:
        """Why a match is one: its intervals, what each pair read, when it was decided, what came last.

        ``match`` is a row of what `run` gave for the same rows: a dict, a frame of one row, a row of
        pandas. It has the columns of PARTITION BY, and enough others to tell it from other matches. Of a
        row pattern, it tells the variable of each row, what its condition read there, what was preferred
        to what, and the row with which the match was certain.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST 2 PATTERN a WITHIN 9")
        >>> rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 7, 0]})
        >>> query.why(query.run(rows), rows).waited_for
        ('a to be valid',)
        """
        from piestream.diagnosis.why import why

        return why(self, match, frame, BoundedOptions.of(options))

    @takes_options(BoundedOptions)
    def why_not(
        self,
        frame: Any = None,
        *,
        partition: Mapping[str, Any] | None = None,
        between: Sequence[Any] | None = None,
        near: Mapping[str, Sequence[Any]] | None = None,
        most: int = 5,
        **options: Unpack[BoundedKeywords],
    ) -> WhyNot:
        """Why there is no match where one was expected: what would have to change, the least first.

        ``partition`` has the values of PARTITION BY; ``between`` the two times between which all
        intervals of the match start; ``near`` for some symbols the start and the end of an interval
        that the expected one shares an instant with. Each change names one threshold, duration or
        relation, or the window, and has been tried. Of a row pattern, the first row of the match lies
        between the two times, ``near`` names variables, a change may be of a quantifier, and besides it
        tells how far the pattern came and which conditions the next row failed.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST 3 PATTERN a WITHIN 9")
        >>> print(query.why_not(pl.DataFrame({"t": [1, 2, 3], "x": [5, 7, 0]})))
        1. a lasted 2 from 1 (AT LEAST 3); with AT LEAST 2 it matches
        """
        from piestream.diagnosis.why_not import why_not

        return why_not(
            self, frame, partition or {}, between, near or {}, most, BoundedOptions.of(options)
        )

    @takes_options(BoundedOptions)
    def diagnose(self, frame: Any = None, **options: Unpack[BoundedKeywords]) -> Diagnosis:
        """Where the rows went: from events to intervals, pairs and matches, step by step.

        ``print`` it, or take its ``summary``, its ``tables`` or its numbers. The frame is of any kind
        that `run` takes, but Spark's; left out, the files that FROM names are read.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 9 PATTERN a WITHIN 9")
        >>> print(query.diagnose(pl.DataFrame({"t": [1, 2, 3], "x": [5, 7, 0]})).summary)
        0 matches: a (x > 9) never holds; x is from 0 to 7
        """
        from piestream.diagnosis.funnel import diagnose

        return diagnose(self, frame, BoundedOptions.of(options))

    def explain(self) -> show.Explanation:
        """How the query will be executed: predicates, automata, decision points, join plan, state.

        >>> import piestream as ps
        >>> query = ps.query(
        ...     "FROM cars DEFINE a AS accel > 8, s AS speed > 70 PATTERN a before s WITHIN 60"
        ... )
        >>> print(query.explain().section("Join plan"))
        s begins or becomes valid: a from s
        """
        from piestream import show

        return show.explain(self)

    def export(
        self, matches: Any, format: show.ExportFormat, path: str | Path | None = None
    ) -> str:
        """The matches of a result for another tool, as a text that is also written to ``path``.

        Parameters
        ----------
        matches
            What `run` or a session gave, a frame of any kind. RETURN must give the start and the end
            of every symbol, as it does if it is left out.
        format
            ``"trace"``: a trace in Chrome's format, which Perfetto opens; ``"grafana"``: annotations
            of Grafana; ``"mne"``: annotations of MNE-Python, as text.

        Raises
        ------
        ValueError
            An endpoint of a symbol is missing, or the unit of the time column is not known.

        >>> import piestream as ps
        >>> query = ps.query("FROM s ORDER BY t UNIT s DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> matches = query.run([{"t": 1, "x": 5}, {"t": 3, "x": 0}])
        >>> print(query.export(matches, "mne"), end="")
        # MNE-Annotations
        # onset, duration, description
        1, 0, match
        1, 0, a
        """
        from piestream import show

        return show.export(self, matches, format, path)

    @takes_options(BoundedOptions)
    def timeline(
        self,
        frame: Any = None,
        matches: Any = None,
        *,
        partition: Any = None,
        width: int = 900,
        **options: Unpack[BoundedKeywords],
    ) -> Timeline:
        """An interactive picture of one partition: its intervals, its matches, its columns.

        It has a lane for each symbol, and the columns that predicates compare below, with what they
        are compared with. Notebooks show it; ``save("found.html")`` writes a page that works offline,
        and ``.svg`` and ``.png`` a picture.

        Parameters
        ----------
        frame
            What `run` takes, but for Spark frames. Left out, the files that FROM names are read.
        matches
            What `run` gave, with the start and the end of every symbol in RETURN. Left out, the
            matches are looked for.
        partition
            The value of the PARTITION BY column, or a tuple or dict of several; left out, the
            partition with the most matches.
        width
            In pixels.

        Raises
        ------
        ImportError
            Altair is not installed: it comes with ``piestream[plot]``.
        ValueError
            The partition has no events, or the matches lack an endpoint.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> query.timeline(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 7]}))
        <Timeline of a: 2 intervals, 2 matches>
        """
        from piestream.pictures.timeline import timeline

        return timeline(self, frame, matches, partition, width, BoundedOptions.of(options))

    @takes_options(BoundedOptions)
    def report(
        self, frame: Any = None, path: str | Path | None = None, **options: Unpack[BoundedKeywords]
    ) -> str:
        """A page of HTML about what a query finds, as a text that is also written to ``path``.

        It has the query, the funnel, the counts by partition and over time, the lags, and matches on
        time lines, to search and to filter. The page needs nothing else and works offline. The frame
        is of any kind that `run` takes, but Spark's; left out, the files that FROM names are read.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> page = query.report(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 7]}))
        >>> "<title>s: 2 matches</title>" in page
        True
        """
        from piestream.pictures.report import report

        return report(self, frame, path, BoundedOptions.of(options))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
