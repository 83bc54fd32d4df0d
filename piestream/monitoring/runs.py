"""The status of a run over files, written between its steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from piestream.engine.stream import Stream
from piestream.language.model import Query
from piestream.monitoring.files import name_of
from piestream.monitoring.publisher import Publisher
from piestream.monitoring.status import Status
from piestream.monitoring.streams import RecentRows, stream_status

if TYPE_CHECKING:
    from typing import Self

__all__ = ["PublishedRun"]


class PublishedRun:
    """Writes how a stream goes whenever it is called, at most once a second, and how it ended.

    >>> import polars as pl, tempfile, piestream as ps
    >>> from piestream.plan.binding import bind
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> events = pl.DataFrame({"t": [1, 2], "x": [5, 0]})
    >>> stream = Stream(bind(query, events.schema), lateness=None)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with PublishedRun(query, stream, f"{folder}/s.json"):
    ...         rows = stream.process(events)
    ...     print(ps.status(f"{folder}/s.json").condition)
    closed
    """

    def __init__(self, query: Query, stream: Stream, path: str | Path) -> None:
        self._recent = RecentRows()
        self._query, self._stream, self._name = query, stream, name_of(path)
        stream.on_results = self._recent.note
        self._publisher = Publisher(path, self._status)

    def _status(self) -> Status:
        return stream_status(
            self._query,
            self._stream,
            self._stream.statistics,
            name=self._name,
            kind="run",
            recent=self._recent,
        )

    def tick(self) -> None:
        """Write if a second has gone by."""
        self._publisher.tick()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self._publisher.stop("closed")
        else:
            fault = f"{type(error).__name__}: {error}".splitlines()[0]
            self._publisher.stop("failed", fault, read=False)
