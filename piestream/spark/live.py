"""Queries over live streams and archives on the micro-batches of a Spark stream."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import polars as pl
from pyspark.errors import PySparkException

from piestream.adapters.inputs import Inputs
from piestream.adapters.session import Session
from piestream.archives.durable import make_directory, place, replace_text, write_pending
from piestream.errors import StateError
from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.language.options import SessionKeywords
from piestream.plan.columns import is_moment
from piestream.spark.bound_frames import refuse_row_order
from piestream.spark.transfer import local_frame, spark_frame

__all__ = ["LiveBatches", "live_batches"]

_STATE, _ROWS, _CHECKPOINT = ".state", ".arrow", "checkpoint"
_NUMBERED = re.compile(r"(\d+)\.state")


def live_batches(
    query: Query,
    folder: str | Path,
    write: Callable[[Any, int], object],
    *,
    stream: str | None = None,
    **options: Unpack[SessionKeywords],
) -> LiveBatches:
    """What ``foreachBatch`` calls to run a query over a live stream and archives.

    The rows of each micro-batch go into one session in the driver, which reads the archives as they are
    by then. What it finds and its state are stored in ``folder`` before ``write`` is called with the
    result rows as a Spark frame and the number of the batch. Where Spark gives a batch again, ``write``
    gets the same rows again; it has to do with them by the number what it did before.

    Parameters
    ----------
    query
        The query; its live streams are ordered by a column that ORDER BY names, or by their only
        column of times.
    folder
        Where the state lies: one for each query and checkpoint, on a disk that outlives the driver.
        A folder beside another checkpoint is refused, and a batch without the state of the one before.
    write
        Called with the result rows and the number of the batch.
    stream
        The name of the stream that the batches are rows of, where the query reads several.
    options
        Those of `Query.open`. Late rows are dropped and counted if nothing else is said.
    """
    return LiveBatches(query, Path(folder), write, stream, options)


class LiveBatches:
    """A session that is fed with micro-batches, each once."""

    def __init__(
        self, query: Query, folder: Path, write: Callable[[Any, int], object], stream: str | None,
        options: SessionKeywords,
    ) -> None:  # fmt: skip
        refuse_row_order(query)
        self.query = query
        self.folder = folder
        self.write = write
        self.options: SessionKeywords = {"on_late": "drop", "ties": "first", **options}
        self._inputs = Inputs(query)
        self._key = self._inputs.name_of(stream)
        self._name = next(n for n, key in self._inputs.names.items() if key == self._key)
        self._session: tuple[int, Session] | None = None
        make_directory(folder)

    def __call__(self, frame: Any, number: int) -> None:
        """Work on a micro-batch."""
        self._check_checkpoint(_checkpoint_of(frame))
        found = self._stored(number)
        if found is None:
            found = self._found(local_frame(frame, self._inputs.readers[self._key]), number)
        self.write(spark_frame(frame.sparkSession, found), number)

    def _check_checkpoint(self, checkpoint: str | None) -> None:
        """Refuse batches of another checkpoint than that of the first one.

        They are numbered anew, so that they would be taken for those that are done.
        """
        path = self.folder / _CHECKPOINT
        if checkpoint is None:
            return
        if not path.exists():
            replace_text(path, path.with_suffix(".pending"), checkpoint)
        elif path.read_text() != checkpoint:
            raise StateError(
                f"{self.folder} has the state of another checkpoint: give each checkpoint a folder of "
                "its own"
            )

    def _stored(self, number: int) -> pl.DataFrame | None:
        """The result rows of a batch that is done already."""
        path = self._path(number, _ROWS)
        return pl.read_ipc_stream(path.read_bytes()) if path.exists() else None

    def _found(self, rows: pl.DataFrame, number: int) -> pl.DataFrame:
        """The result rows of a new batch, stored with the state behind it."""
        session = self._session_before(number)
        self._session = None  # what is not stored below has to be worked on anew
        found: pl.DataFrame = session.push(rows.sort(self._order(rows)), self._name)
        state = session.snapshot()
        self._store(number, _STATE, lambda path: path.write_bytes(state))
        self._store(number, _ROWS, lambda path: found.write_ipc_stream(path))
        self._session = number, session
        for old in self._numbers():
            if old < number - 1:
                for kind in (_ROWS, _STATE):
                    self._path(old, kind).unlink(missing_ok=True)
        return found

    def _session_before(self, number: int) -> Session:
        """The session as it was before a batch."""
        known = [one for one in self._numbers() if self._path(one, _ROWS).exists()]
        if any(one > number for one in known):
            raise StateError(
                f"{self.folder} has the state of batch {max(known)}, and this is batch {number}: give "
                "another folder with another checkpoint"
            )
        latest = max(known, default=-1)
        if number != latest + 1:
            raise StateError(
                f"{self.folder} has no state of batch {number - 1}, and this is batch {number}: give the "
                "folder that belongs to the checkpoint, or another checkpoint with a new folder"
            )
        if self._session is not None and self._session[0] == latest:
            return self._session[1]
        if not known:
            return self.query.open(**self.options)
        state = self._path(latest, _STATE).read_bytes()
        return self.query.open(state, **self.options)

    def _numbers(self) -> list[int]:
        """The batches whose states are there."""
        names = (_NUMBERED.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(found[1]) for found in names if found)

    def _path(self, number: int, kind: str) -> Path:
        return self.folder / f"{number}{kind}"

    def _store(self, number: int, kind: str, write: Callable[[Path], object]) -> None:
        path = self._path(number, kind)
        pending = path.with_suffix(kind + ".pending")
        write_pending(pending, write)
        place(pending, path)

    def _order(self, rows: pl.DataFrame) -> list[pl.Expr]:
        """The columns by which rows are put in order."""
        streams = self._inputs.readers[self._key].streams
        second = (stream.sequence for stream in streams if stream.sequence is not None)
        return list(columns_named([self._time(rows), *dict.fromkeys(second)]))

    def _time(self, rows: pl.DataFrame) -> str:
        """The column of their times."""
        named = self._inputs.readers[self._key].streams[0].order_by
        if named is not None:
            return named
        times = [name for name, dtype in rows.schema.items() if is_moment(dtype)]
        if len(times) != 1:
            raise ValueError(
                f"say by which column the rows of {self._name} are ordered: ORDER BY ts"
            )
        return times[0]


def _checkpoint_of(frame: Any) -> str | None:
    """What names the checkpoint of the streaming query whose micro-batch this is, if it is of one."""
    try:
        named = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except PySparkException:  # a session without a context, as of Spark Connect
        return None
    return None if named is None else str(named)
