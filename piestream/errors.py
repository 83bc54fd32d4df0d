"""Errors about rows and state. Errors in a query are `piestream.QueryError`."""

from __future__ import annotations

import sys
from types import FrameType
from warnings import warn

#: Modules whose calls stand between a line of a user and what warns of it.
_BETWEEN = ("piestream", "contextlib", "functools")


class StreamError(ValueError):
    """Something is wrong with the rows of a stream. Its kinds say what.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> try:
    ...     query.run([{"t": 1, "x": 5}, {"t": 1, "x": 0}])
    ... except ps.StreamError as error:
    ...     print(type(error).__name__)
    TieError
    """


class TimeError(StreamError):
    """An event without a time, or with one that 64 bits do not hold.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> query.run([{"t": 1, "x": 5}, {"t": None, "x": 0}])
    Traceback (most recent call last):
    piestream.errors.TimeError: the time column t is NULL in row 1 of the rows given; ...
    """


class TieError(StreamError):
    """Two events of one partition have the same time, and ``ties`` is ``"error"``.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> query.run([{"t": 1, "x": 5}, {"t": 1, "x": 0}])
    Traceback (most recent call last):
    piestream.errors.TieError: two events of one partition have the same time: ...
    """


class LateEventError(StreamError):
    """An event is older than the watermark, and ``on_late`` is ``"error"``.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> query.open().push([{"t": 2, "x": 5}, {"t": 1, "x": 0}])
    Traceback (most recent call last):
    piestream.errors.LateEventError: the event t = 1 is late: ...
    """


class OrderError(StreamError):
    """Events of a partition are not in order of time, where they have to be.

    That is so in files of more rows than are sorted in memory; `Query.run` sorts them by itself,
    and the command line has ``--sort``.

    >>> import piestream as ps
    >>> issubclass(ps.OrderError, ps.StreamError)
    True
    """


class SchemaError(StreamError):
    """Rows whose columns or types are not those that the query was bound to.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> query.open(schema={"t": int, "x": int}).push({"t": 1, "x": "five"})
    Traceback (most recent call last):
    piestream.errors.SchemaError: column x holds Int64, and an event's is 'five'; ...
    """


class FileError(StreamError):
    """A file whose rows cannot be read: the error names it and, where it is known, the row.

    >>> import tempfile, piestream as ps
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as empty:
    ...     ps.query(f"FROM '{empty.name}' DEFINE a AS x > 1 PATTERN a WITHIN 9").run()
    Traceback (most recent call last):
    piestream.errors.FileError: ... is empty: a CSV file begins with its column names
    """


class IntervalError(StreamError):
    """A row of a table of intervals that is no interval: it lacks an end, or ends before it begins.

    >>> import polars as pl, piestream as ps
    >>> ps.merge(pl.DataFrame({"ts": [1, 5], "te": [3, 5]}))
    Traceback (most recent call last):
    piestream.errors.IntervalError: row 2 of the frame is no interval: ts = 5, te = 5; ...
    """


class ArchiveError(StreamError):
    """An archive that cannot be read or written: it is damaged, or somebody else is writing it.

    >>> import tempfile, piestream as ps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ps.archive(f"{folder}/lake")
    Traceback (most recent call last):
    piestream.errors.ArchiveError: there is no archive .../lake: ps.archive(path, time="ts") creates ...
    """


class StateError(ValueError):
    """A stored state cannot be read: it is damaged, of another version, or of another query.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> query.open(state=b"hello")
    Traceback (most recent call last):
    piestream.errors.StateError: these bytes are not a piestream state
    """


class ResultWarning(UserWarning):
    """Something about a result that its rows do not say: it was cut off, it is very large, or may take
    very long to find.

    >>> import warnings
    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     rows = query.run([{"t": t, "x": t % 2 * 5} for t in range(9)], limit=2)
    >>> len(rows)
    2
    >>> print(caught[0].message)
    stopped at limit=2: there are more rows
    """


def warn_of_result(text: str) -> None:
    """A `ResultWarning` that shows the line from which this package was called."""
    frame: FrameType | None = sys._getframe()
    level = 0
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _BETWEEN:
        frame = frame.f_back
        level += 1
    warn(text, ResultWarning, stacklevel=level + 1)
