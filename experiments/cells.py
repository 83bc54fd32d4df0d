"""One measurement in a process of its own: its time, its memory, and an end to both.

A method that explodes must not take the machine or the other results with it. Each measurement
runs in a fresh process, which is ended when its first run takes too many CPU seconds or when it
holds too much. That it is fresh is also what makes the memory its own.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from time import process_time
from typing import Any

from experiments.baselines import UnsupportedPatternError
from experiments.measure import MEMORY_CAP, Growth, Row, Rows, Size, held_by, timed, used_by
from experiments.peers import Case, counted, prepared

__all__ = ["Sweep", "apart"]

#: What a measurement needs is loaded once, in a server that is forked for each.
_PRELOAD = ["experiments.catalogue"]
#: Seconds between two looks at how much a process holds.
_LOOK = 0.05

#: Makes the work to be measured, and beforehand everything that is not to be measured.
Prepare = Callable[..., Callable[[], Any]]
Told = Callable[[Any], Row]


def apart(prepare: Prepare, *given: Any, size: Size, told: Told | None = None) -> Row:
    """Measure ``prepare(*given)()`` in a new process: times, memory, and what ``told`` says of it.

    Functions are found by their names, and what is given is pickled. Instead of times there can be
    ``over`` (the cap that was reached), ``refused`` (the method cannot do it) or ``failed``. At
    the tiny size all is done in this process, and faults are not caught.

    >>> row = apart(partial, sum, [1, 2], size=Size.TINY, told=lambda result: {"sum": result})
    >>> row["sum"], row["runs"]
    (3, 1)
    """
    if size is Size.TINY:
        return _measured(prepare, given, size, told)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(_PRELOAD)
    here, there = server.Pipe(duplex=False)
    process = server.Process(target=_answer, args=(there, prepare, given, size, told))
    process.start()
    there.close()
    try:
        return _awaited(process, here, size)
    finally:
        process.kill()
        process.join()
        here.close()


def _awaited(process: Any, here: Connection, size: Size) -> Row:
    """The answer of a process, or why there is none."""
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
        if (held_by(process.pid) or 0) > MEMORY_CAP:
            return {"over": f"{MEMORY_CAP / 2**30:g} GB"}


def _answer(there: Connection, prepare: Prepare, given: Any, size: Size, told: Told | None) -> None:
    """In the new process: measure, and send what was measured."""
    try:
        row = _measured(prepare, given, size, told, there)
    except Exception as fault:
        row = {"failed": f"{type(fault).__name__}: {fault}".splitlines()[0]}
    there.send(row)


def _measured(
    prepare: Prepare, given: Any, size: Size, told: Told | None, there: Connection | None = None
) -> Row:
    first = _FirstRun(there)
    try:
        timing, result = timed(prepare(*given), size, first)
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
