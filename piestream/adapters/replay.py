"""Calls of a session are done wholly or not at all: what a session keeps to undo one.

An interruption (Ctrl-C, another exception of a signal's handler, a lack of memory) may end a call
anywhere, also between two arrays that refer to each other. So a session keeps a copy of its state,
and a log of what it was given since. After an interruption the next call makes the state again:
from the copy, which gets the same once more. When the log has become as large as the state, a new
copy takes its place.
"""

from __future__ import annotations

import io
import sys
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import polars as pl
from numpy.typing import NDArray

from piestream.errors import StateError

__all__ = ["RESULT_BYTES", "CallLog", "KeptRows", "NamedCall", "Replayed"]

#: What is reckoned for an event in the log, and for a result row that has to be found again.
_EVENT_BYTES = 512
RESULT_BYTES = 16
#: Rows take so much for each column, and their times alone so much each.
_COLUMN_BYTES, _TIME_BYTES = 160, 8
#: A log may have so many bytes; or so many times those of the state, up to the last number; or as
#: many as the state. A small state is copied in a fraction of a millisecond.
_LEAST_BYTES, _TIMES, _ENOUGH_BYTES = 1 << 21, 8, 1 << 24
_NUMBERS = frozenset(
    {pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64}
    | {pl.Float32, pl.Float64}
)
#: After so many entries a copy for which there was no memory is tried again.
_AGAIN = 1 << 8


class Replayed(Protocol):
    """All that calls of a session change. Its copies share the log."""

    @property
    def is_open(self) -> bool:
        """Whether there is a state, or only what waits for one."""

    @property
    def size(self) -> int:
        """About how many bytes the state takes."""

    def set_observed(self, observed: bool) -> None:
        """Whether anybody is told what is found."""

    def replay(self, entry: Any) -> None:
        """Do again what an entry of the log says."""


class KeptRows:
    """Rows in memory of their own: frames may share theirs with arrays that somebody may change.

    >>> KeptRows(pl.DataFrame({"t": [1, 2], "x": ["a", None]})).frame["x"].to_list()
    ['a', None]
    """

    __slots__ = ("_columns", "_rest", "_schema", "size")

    def __init__(self, rows: pl.DataFrame) -> None:
        self._schema = rows.schema
        #: Numbers by NumPy, for Polars may wake its threads; and bits, which nobody can change.
        self._columns: list[pl.Series | NDArray[Any]] = []
        self.size = _COLUMN_BYTES * rows.width
        rest = []
        for column in rows:
            if column.dtype == pl.Boolean:
                self._columns.append(column)
                self.size += len(column) // 8
            elif column.dtype in _NUMBERS and not column.null_count():
                numbers = column.to_numpy().copy()
                self._columns.append(numbers)
                self.size += numbers.nbytes
            else:
                rest.append(column)
        self._rest = b""
        if rest:
            out = io.BytesIO()
            pl.DataFrame(rest).write_ipc_stream(out)
            self._rest = out.getvalue()
            self.size += len(self._rest)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows."""
        rest = pl.read_ipc_stream(io.BytesIO(self._rest)) if self._rest else pl.DataFrame()
        own = iter(self._columns)
        return pl.DataFrame(
            [
                rest[name] if name in rest.columns else pl.Series(name, next(own), dtype=dtype)
                for name, dtype in self._schema.items()
            ],
        )


class NamedCall(NamedTuple):
    """A call of a stream, as it is noted."""

    name: str
    given: tuple[Any, ...]


class CallLog:
    """What a session was given since its state was copied.

    A session makes ready for a call, says that it is changing, and commits the call when its results
    are there. What changes meanwhile notes what was given: a single event by its values, or a call
    by its name and arguments.
    """

    def __init__(self, live: Replayed, keeps: bool) -> None:
        #: What goes on with each call.
        self.live: Any = live
        #: Whether an open stream is copied; one that is not open yet always is.
        self.keeps = keeps
        self._copy: Replayed | None = None
        self.entries: list[NamedCall | tuple[Any, ...]] = []
        #: With so many entries it is time for another copy.
        self.most = 0
        #: A call is under way, or was interrupted: the state may be anything.
        self.changing = False
        #: So many entries are of calls that are done.
        self.committed = 0
        #: Another number with each call that is done, and with each copy.
        self.latest = 0

    def make_ready(self) -> None:
        """Make the state again if a call was interrupted, and another copy of it if it is time."""
        if self.changing:
            self._replay()
        if len(self.entries) >= self.most:
            self._renew()

    def take_back(self, committed: int) -> None:
        """The latest call is to be undone: its results got lost on their way to the caller."""
        self.changing = True
        self.committed = min(self.committed, committed)

    def add(self, name: str, *given: Any, found: int = 0) -> None:
        """Note a call, and how many result rows it found. What is too long for that is copied soon."""
        if not self.keeps:
            return
        cost = found * RESULT_BYTES
        room = (self.most - len(self.entries)) * _EVENT_BYTES
        kept = []
        for part in given:
            if isinstance(part, pl.DataFrame):  # its own memory, and no more than its rows take
                if cost + _TIME_BYTES * len(part) > room:
                    self.add_copy()
                    return
                part = KeptRows(part)
                cost += part.size
            kept.append(part)
        if cost > room:
            self.add_copy()
            return
        self.charge(cost)
        self.entries.append(NamedCall(name, tuple(kept)))

    def charge(self, cost: int) -> None:
        """An entry takes so many bytes more than an event does, or as much time as they would."""
        self.most -= cost // _EVENT_BYTES

    def add_copy(self) -> None:
        """What changes now is noted by another copy, which the next call begins with."""
        self.most = 0

    def _replay(self) -> None:
        if self._copy is None:
            raise StateError(
                "this session was interrupted in the middle of a call, and has no copy of its state "
                "to go on from (recover=False, or too little memory): open a new one from the last "
                "snapshot, query.open(state=...)"
            )
        self.live = self._copy  # what was interrupted takes no memory any more
        live = deepcopy(self._copy)
        live.set_observed(False)  # all of it was given
        for entry in self.entries[: self.committed]:
            live.replay(entry)
        live.set_observed(True)
        del self.entries[self.committed :]
        self.live = live
        self.changing = False

    def _renew(self) -> None:
        """Wherever this is interrupted, it is done again before the next call."""
        self.most, self._copy = 0, None
        self.entries.clear()
        self.committed = 0
        self.latest += 1
        if self.live.is_open and not self.keeps:
            self.most = sys.maxsize
            return
        try:
            # to be copied makes an object slower (`copied_but`), so the new one goes on
            self.live, self._copy = deepcopy(self.live), self.live
        except MemoryError:  # all goes on, but until there is memory no interruption is undone
            self.most = _AGAIN
            return
        size = self.live.size
        room = max(size, min(_LEAST_BYTES + _TIMES * size, _ENOUGH_BYTES))
        self.most = room // _EVENT_BYTES
