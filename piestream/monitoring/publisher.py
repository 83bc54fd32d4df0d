"""Writes a status about once a second, beside the work that it tells of."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread, current_thread

from piestream.monitoring.files import check_place, write_whole
from piestream.monitoring.status import Condition, Status

__all__ = ["EVERY", "Publisher"]

#: Seconds from one writing to the next.
EVERY = 1.0
#: Rates are those of so many seconds.
_RATE_SECONDS = 10.0
_RATES = ("events", "matches")


class Publisher:
    """Writes what ``read`` tells to a file: by a thread of its own, or whenever it is called.

    ``read`` gives None while the work is too busy to tell; the status then says how old its numbers
    are. The first status is written at once, so that a bad path is refused; faults of later writing,
    such as a full disk, do not disturb the work.
    """

    def __init__(
        self,
        path: str | Path,
        read: Callable[[], Status | None],
        rate_seconds: float = _RATE_SECONDS,
    ) -> None:
        self.path = Path(path)
        self._read = read
        self._process = os.getpid()
        self._samples: deque[tuple[float, dict[str, float]]] = deque()
        self._rate_seconds = rate_seconds
        self._ended = Event()
        self._writing = Lock()
        self._next = 0.0
        self._thread: Thread | None = None
        check_place(self.path)
        self.started = time.time()
        self._last = self._rated(read())
        self._write()

    def start(self) -> None:
        """Write from a thread until `stop`."""
        self._thread = Thread(target=self._follow, name="piestream status", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.wait(EVERY):
            self._publish()
            if self._last is not None and self._last.condition != "running":
                self._ended.set()

    def tick(self) -> None:
        """Write if it is time: for work that calls this often, and needs no thread."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            self._publish()

    def _publish(self) -> None:
        with self._writing:
            if self._ended.is_set():
                return
            self._last = self._rated(self._read()) or self._last
            with suppress(OSError, ValueError):
                self._write()

    def _rated(self, status: Status | None) -> Status | None:
        """A status with the rates of the latest seconds."""
        if status is None:
            return None
        now = time.monotonic()
        counts = {name: status.numbers.get(name, 0) for name in _RATES}
        self._samples.append((now, counts))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self._rate_seconds:
            self._samples.popleft()
        at, before = self._samples[0]
        seconds = now - at
        rates = {n: max(counts[n] - before[n], 0) / seconds for n in _RATES if seconds >= EVERY}
        return replace(status, rates=rates or status.rates, started=self.started)

    def _write(self) -> None:
        if self._last is not None:
            write_whole(self.path, replace(self._last, updated=time.time()).json())

    def stop(self, condition: Condition, fault: str | None = None, read: bool = True) -> None:
        """Write the last status, and no other."""
        if os.getpid() != self._process:  # a fork, which may have copied a lock that is held
            return
        with self._writing:
            if self._ended.is_set():
                return
            self._ended.set()
            status = self._rated(self._read()) if read else None
            status = status or self._last
            if status is not None:
                self._last = replace(status, condition=condition, fault=fault)
            with suppress(OSError, ValueError):
                self._write()
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(EVERY)
