"""One measurement in a process of its own: its time, its memory, and an end to both.

A method that explodes must not take the machine or the other results with it. Each measurement
runs in a fresh process, which is ended when its first run takes too many CPU seconds, when it holds
too much, or when it is not over after a time by the clock on the wall (one that waits for something
uses no CPU). What it started goes with it. That it is fresh is also what makes the memory its own.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from experiments.baselines import UnsupportedPatternError
from experiments.measure import (
    MEMORY_CAP,
    Growth,
    Row,
    Rows,
    Size,
    held_by,
    keep_freed_memory,
    timed,
    used_by,
)
from experiments.peers import Case, counted, prepared

__all__ = ["Sweep", "apart"]

#: What a measurement needs is loaded once, in a server that is forked for each.
_PRELOAD = ["experiments.catalogue"]
#: Seconds between two looks at how much a process holds.
_LOOK = 0.05
#: And between two looks at which processes it has started.
_LOOK_AT_ALL = 1.0

#: Makes the work to be measured, and beforehand everything that is not to be measured.
Prepare = Callable[..., Callable[[], Any]]
Told = Callable[[Any], Row]


def apart(
    prepare: Prepare,
    *given: Any,
    size: Size,
    told: Told | None = None,
    once: bool = False,
    wall: float | None = None,
) -> Row:
    """Measure ``prepare(*given)()`` in a new process: times, memory, and what ``told`` says of it.

    Functions are found by their names, and what is given is pickled. Instead of times there can be
    ``over`` (the cap that was reached), ``refused`` (the method cannot do it) or ``failed``. At
    the tiny size all is done in this process, and faults are not caught.

    ``once``: the work is not repeated, because it has a clock of its own. ``wall``: seconds by the
    clock on the wall, preparation included, after which it is ended; by default those of the size.

    >>> row = apart(partial, sum, [1, 2], size=Size.TINY, told=lambda result: {"sum": result})
    >>> row["sum"], row["runs"]
    (3, 1)
    """
    if size is Size.TINY:
        return _measured(prepare, given, size, told, once)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(_PRELOAD)
    here, there = server.Pipe(duplex=False)
    process = server.Process(target=_answer, args=(there, prepare, given, size, told, once))
    process.start()
    there.close()
    try:
        return _awaited(process, here, size, size.wall if wall is None else wall)
    finally:
        started = descendants(process.pid)
        process.kill()
        for other in started:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        process.join()
        here.close()


def descendants(process: int | None) -> list[int]:
    """The processes that a process has started, and those that they have; where the system tells."""
    children: dict[int, list[int]] = {}
    for told in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it is over
            parent = int(told.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(told.parent.name))
    found = [process] if process is not None else []
    for member in found:  # which grows
        found += children.get(member, [])
    return found[1:]


def _awaited(process: Any, here: Connection, size: Size, wall: float) -> Row:
    """The answer of a process, or why there is none."""
    until = monotonic() + wall
    started: list[int] = []
    look = monotonic() + _LOOK_AT_ALL
    began: float | None = None  # CPU seconds used when the first run began
    while True:
        if here.poll(_LOOK):
            try:
                said = here.recv()
            except EOFError:
                process.join()
                return {"failed": f"the process ended with {process.exitcode}"}
            if isinstance(said, dict):
                return said
            began = said
        if began is not None and used_by(process.pid) - began > size.patience:
            return {"over": f"{size.patience:g} s"}
        if monotonic() > until:
            return {"over": f"{wall:g} s by the wall clock"}
        if monotonic() > look:
            started = descendants(process.pid)
            look = monotonic() + _LOOK_AT_ALL
        if sum(held_by(member) or 0 for member in (process.pid, *started)) > MEMORY_CAP:
            return {"over": f"{MEMORY_CAP / 2**30:g} GB"}


def _answer(
    there: Connection, prepare: Prepare, given: Any, size: Size, told: Told | None, once: bool
) -> None:
    """In the new process: measure, and send what was measured."""
    try:
        row = _measured(prepare, given, size, told, once, there)
    except Exception as fault:
        row = {"failed": f"{type(fault).__name__}: {fault}".splitlines()[0]}
    there.send(row)


def _measured(
    prepare: Prepare,
    given: Any,
    size: Size,
    told: Told | None,
    once: bool,
    there: Connection | None = None,
) -> Row:
    first = _FirstRun(there)
    try:
        timing, result = timed(prepare(*given), size, first, once)
    except UnsupportedPatternError as refusal:
        return {"refused": str(refusal)}
    grown = {} if first.bytes is None else {"peak_growth_bytes": first.bytes}
    return {**timing, **grown, **(told(result) if told else {})}


class _FirstRun(Growth):
    """Looks at memory, and tells who waits when it begins and that it is over.

    (A limit on CPU time that the system enforces would be simpler, but makes its clock coarse.)
    """

    def __init__(self, there: Connection | None) -> None:
        super().__init__()
        self.there = there

    def __enter__(self) -> _FirstRun:
        super().__enter__()
        if self.there is not None:
            self.there.send(process_time())
        return self

    def __exit__(self, *told: object) -> None:
        super().__exit__(*told)
        if self.there is not None:
            keep_freed_memory()
            self.there.send(None)


class Sweep:
    """Peers on cases that grow: who was over a cap is not run on those that are larger."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._over: dict[str, str] = {}

    def compared(self, case: Case, peers: tuple[str, ...], **about: object) -> Rows:
        """A row for each peer on one case, with what it is ``about`` in front."""
        rows = []
        for peer in peers:
            row: Row = {**about, "peer": peer, "events": len(case.times)}
            if peer in self._over:
                row["skipped"] = self._over[peer]
            else:
                row |= apart(prepared, case, peer, size=self.size,
                             told=partial(counted, case, peer, self.size))  # fmt: skip
            if "over" in row:
                self._over[peer] = row["over"]
            if row.get("cpu_s"):
                row["events_per_s"] = len(case.times) / row["cpu_s"]
            rows.append(row)
        return rows
