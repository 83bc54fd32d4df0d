"""Sessions that publish their status, and the status of any session."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

import polars as pl

from piestream.adapters.session import Session
from piestream.language.model import Query
from piestream.language.options import AtEnd, SessionKeywords
from piestream.monitoring.files import name_of, read_status
from piestream.monitoring.publisher import Publisher
from piestream.monitoring.status import Status
from piestream.monitoring.streams import RecentRows, stream_status

__all__ = ["PublishedSession", "status"]

#: For so many seconds a status waits for a call that is under way, before it tells older numbers.
_PATIENCE = 0.2


class PublishedSession(Session):
    """A session that writes its status to a file, about once a second.

    A thread reads the session's numbers, between two calls of it: a push costs nothing more.

    >>> import tempfile, piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     session = query.open(status=f"{folder}/s.json")
    ...     matches = session.push([{"t": 1, "x": 5}, {"t": 2, "x": 0}])
    ...     matches = session.close()
    ...     ps.status(f"{folder}/s.json").numbers["events"]
    2
    """

    def __init__(
        self,
        query: Query,
        path: str | Path,
        *,
        state: bytes | None = None,
        schema: Mapping[str, Any] | None = None,
        **options: Unpack[SessionKeywords],
    ) -> None:
        self._recent = RecentRows()
        super().__init__(query, state=state, schema=schema, **options)
        self._name = name_of(path)
        self._publisher = Publisher(path, _reader(weakref.ref(self)))
        self._publisher.start()
        # where nobody closes it: when it is collected, and when the process ends
        weakref.finalize(self, self._publisher.stop, "closed", read=False)

    def _observer(self) -> Callable[[pl.DataFrame], None]:
        return self._recent.note

    @property
    def _told(self) -> tuple[pl.DataFrame, ...]:
        return self._recent.frames

    @_told.setter
    def _told(self, told: tuple[pl.DataFrame, ...]) -> None:
        self._recent.frames = told

    def close(self, *, at_end: AtEnd = "open") -> Any:
        """End the stream, as `Session.close` does, and write the last status.

        >>> import tempfile, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     matches = query.open(status=f"{folder}/s.json").close()
        ...     ps.status(f"{folder}/s.json").condition
        'closed'
        """
        given = super().close(at_end=at_end)
        self._publisher.stop("closed")
        return given

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._publisher.stop("closed")


def _reader(session: weakref.ref[PublishedSession]) -> Callable[[], Status | None]:
    """Reads the status of a session, unless it is busy or no more."""

    def read() -> Status | None:
        alive = session()
        if alive is None or not alive._lock.acquire(timeout=_PATIENCE):
            return None
        try:
            return _status_of(alive, alive._name, alive._recent)
        finally:
            alive._lock.release()

    return read


def _status_of(session: Session, name: str, recent: RecentRows | None) -> Status:
    with session._lock:
        return stream_status(
            session.query,
            session._stream,
            session.statistics,
            name=name,
            kind="session",
            condition="closed" if session._closed else "running",
            recent=recent,
        )


def status(of: Session | str | Path) -> Status:
    """How a session goes now, or what a session or job has published at a path.

    Parameters
    ----------
    of
        A session of this process, or the path that was given to ``query.open(status=...)``, to
        ``piestream run --status`` or to ``piestream stream --status``.

    Raises
    ------
    FileError
        The path leads to no status of piestream.

    >>> import piestream as ps
    >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
    >>> matches = session.push([{"t": 1, "x": 5}, {"t": 2, "x": 0}])
    >>> ps.status(session).numbers["matches"]
    1
    """
    if isinstance(of, str | Path):
        return read_status(Path(of))
    if isinstance(of, PublishedSession):
        return _status_of(of, of._name, of._recent)
    if isinstance(of, Session):
        return _status_of(of, str(of.query.streams[0].name or "session"), None)
    raise TypeError(f"a status is that of a session or of a path, not of {type(of).__name__}")
