"""Errors about rows and state. Errors in a query are `piestream.QueryError`."""

from __future__ import annotations


class StreamError(ValueError):
    """Something is wrong with the rows of a stream."""


class TimeError(StreamError):
    """An event without a usable time."""


class TieError(StreamError):
    """Two events of one partition at the same time, with ``ties='error'``."""


class LateEventError(StreamError):
    """An event older than the watermark, with ``on_late='error'``."""


class OrderError(StreamError):
    """Events of a partition of a bounded input that are not in order of time."""


class SchemaError(StreamError):
    """Rows whose columns are not those that the query was bound to."""


class FileError(StreamError):
    """A file whose rows cannot be read."""


class StateError(ValueError):
    """A stored state that cannot be read: damaged, of another version, or of another query."""
