"""One measurement in a process of its own: its time, its memory, and a limit to both.

A method that explodes must not take the machine or the other results with it. Each measurement
runs in a fresh process, which is ended when its cold run takes too many CPU seconds, when it holds
too much memory, or when a wall-clock limit is reached (a process that waits uses no CPU). What it
started is ended with it. That it is fresh is also what makes the memory its own.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import polars as pl

from experiments.harness.measure import (
    MEMORY_CAP,
    Growth,
    Row,
    Size,
    Yardstick,
    cpu_used_by,
    keep_freed_memory,
    memory_of,
    timed,
)
from experiments.harness.provenance import load
from experiments.peers.pattern import UnsupportedPatternError

__all__ = ["fresh_interpreter", "isolated"]

#: What a measurement needs is loaded once, in a server that is forked for each.
_PRELOAD = ["experiments.catalogue"]
#: Seconds between two looks at how much a process holds.
_POLL = 0.05
#: And between two looks at which processes it has started.
_POLL_DESCENDANTS = 1.0

#: Makes the work to be measured, and beforehand everything that is not to be measured.
Prepare = Callable[..., Callable[[], Any]]
#: What is known of a run besides its time and memory.
Describe = Callable[[Any], Row]


def isolated(
    prepare: Prepare,
    *given: Any,
    size: Size,
    describe: Describe | None = None,
    once: bool = False,
    wall_limit: float | None = None,
    yardstick: pl.DataFrame | None = None,
) -> Row:
    """Measure ``prepare(*given)()`` in a new process: times, memory, and what ``describe`` adds.

    Functions are found by their names, and what is given is pickled. Instead of times there can be
    ``over`` (the limit that was reached; ``over_s`` if that is CPU seconds), ``refused`` (the
    method cannot do it) or ``failed``. At the tiny size all is done in this process, and faults are
    not caught.

    ``once``: the work is not repeated, because it has a clock of its own. ``wall_limit``: seconds,
    preparation included, after which it is ended; by default those of the size. ``yardstick``: a
    frame over which a pass is measured between the runs.

    >>> from functools import partial
    >>> row = isolated(partial, sum, [1, 2], size=Size.TINY, describe=lambda found: {"sum": found})
    >>> row["sum"], row["runs"]
    (3, 1)
    """
    measure = _Measurement(prepare, given, size, describe, once, yardstick)
    about: Row = {"load": load()}
    if size is Size.TINY:
        return about | measure()
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(_PRELOAD)
    here, there = server.Pipe(duplex=False)
    process = server.Process(target=_answer, args=(there, measure))
    process.start()
    there.close()
    try:
        return about | _await_answer(process, here, size, wall_limit or size.wall_limit)
    finally:
        started = _descendants(process.pid)
        process.kill()
        for other in started:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        process.join()
        here.close()


class _Measurement:
    """What is done in the new process."""

    def __init__(
        self,
        prepare: Prepare,
        given: tuple[Any, ...],
        size: Size,
        describe: Describe | None,
        once: bool,
        yardstick: pl.DataFrame | None,
    ) -> None:
        self.prepare, self.given, self.size = prepare, given, size
        self.describe, self.once, self.yardstick = describe, once, yardstick

    def __call__(self, there: Connection | None = None) -> Row:
        cold = _ColdRun(there)
        yardstick = None if self.yardstick is None else Yardstick(self.yardstick)
        try:
            row, result = timed(
                self.prepare(*self.given),
                self.size,
                cold=cold,
                once=self.once,
                between=None if yardstick is None else yardstick.measure,
            )
        except UnsupportedPatternError as refusal:
            return {"refused": str(refusal)}
        if cold.bytes is not None:
            row["peak_growth_bytes"] = cold.bytes
        if yardstick is not None:
            row |= yardstick.row(row.get("cpu_s"))
        return row | (self.describe(result) if self.describe else {})


class _ColdRun(Growth):
    """Measures memory, and signals the waiting process when the run begins and when it has ended.

    (A limit on CPU time that the system enforces would be simpler, but makes its clock coarse.)
    """

    def __init__(self, there: Connection | None) -> None:
        super().__init__()
        self._there = there

    def __enter__(self) -> _ColdRun:
        if self._there is not None:
            gc.collect()  # what preparing left behind is no memory of the run
        super().__enter__()
        if self._there is not None:
            self._there.send(process_time())
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self._there is not None:
            keep_freed_memory()
            self._there.send(None)


def _answer(there: Connection, measure: _Measurement) -> None:
    """In the new process: measure, and send what was measured."""
    try:
        row = measure(there)
    except Exception as fault:
        row = {"failed": f"{type(fault).__name__}: {fault}".splitlines()[0]}
    there.send(row)


def _await_answer(process: Any, here: Connection, size: Size, wall_limit: float) -> Row:
    """The answer of a process, or why there is none."""
    until = monotonic() + wall_limit
    started: list[int] = []
    look = monotonic() + _POLL_DESCENDANTS
    began: float | None = None  # CPU seconds used when the cold run began
    while True:
        if here.poll(_POLL):
            try:
                answer = here.recv()
            except EOFError:
                process.join()
                return {"failed": f"the process ended with {process.exitcode}"}
            if isinstance(answer, dict):
                return answer
            began = answer
        if began is not None and cpu_used_by(process.pid) - began > size.cpu_limit:
            return {"over": f"{size.cpu_limit:g} s", "over_s": size.cpu_limit}
        if monotonic() > until:
            return {"over": f"{wall_limit:g} s of wall-clock time"}
        if monotonic() > look:
            started = _descendants(process.pid)
            look = monotonic() + _POLL_DESCENDANTS
        if sum(memory_of(member) or 0 for member in (process.pid, *started)) > MEMORY_CAP:
            return {"over": f"{MEMORY_CAP / 2**30:g} GB"}


def _descendants(process: int | None) -> list[int]:
    """The processes that a process has started, and those that they have; on Linux."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    found = [process] if process is not None else []
    for member in found:  # which grows
        found += children.get(member, [])
    return found[1:]


def fresh_interpreter(program: str, *arguments: str, **environment: str) -> Any:
    """Run a piece of Python in a new interpreter; the last line that it prints is JSON.

    For what a fork cannot show: imports, and compiling on first use.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"a measuring process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
