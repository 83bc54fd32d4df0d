"""How everything here is measured: sizes, times of cold and warm runs, memory, the yardstick."""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

__all__ = [
    "HARNESS",
    "HARNESSES",
    "INPUT",
    "MEMORY_CAP",
    "PROTOCOL",
    "Growth",
    "Row",
    "Rows",
    "Size",
    "Yardstick",
    "cpu_used_by",
    "keep_freed_memory",
    "memory_of",
    "timed",
]

#: One measurement: its case, then what was measured.
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]

#: A process that holds more than this, with the processes that it started, is ended.
MEMORY_CAP = 6 * 2**30


class Size(Enum):
    """How much is run: what the tests run, what shows a trend in minutes, what is published."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"

    def of(self, tiny: Any, quick: Any, full: Any) -> Any:
        """One of three.

        >>> Size.QUICK.of(1, 2, 3)
        2
        """
        return {Size.TINY: tiny, Size.QUICK: quick, Size.FULL: full}[self]

    @property
    def cpu_limit(self) -> float:
        """CPU seconds of the cold run after which a measurement is ended."""
        return float(self.of(60.0, 3.0, 60.0))

    @property
    def wall_limit(self) -> float:
        """Wall-clock seconds after which a measurement is ended, whatever it does."""
        return float(self.of(60.0, 120.0, 600.0))

    @property
    def repeat_limit(self) -> float:
        """A cold run of more CPU seconds than this is not repeated."""
        return float(self.of(1e9, 1.0, 10.0))


#: How each version of the harness measures, in what another does otherwise. Results of two versions
#: are not comparable, so a change of how something is measured is a new version.
HARNESSES = {
    1: "other methods had packed bits only, or patterns were compiled inside the clock, or Polars ran "
    "on all cores",
    2: "both forms of the input for all, one function that derives for all other methods; no "
    "partition keys and one plan for SQL; memory in pieces that grew with the stream; queries that "
    "adapt compiled their sampling inside the clock",
    3: "the best deriver for each method, partition keys and the best of several plans for SQL joins, "
    "memory in pieces of one length, queries that adapt warmed",
}
#: The version of this harness, which results name.
HARNESS = max(HARNESSES)

PROTOCOL = (
    "Each cell of a table is measured in a process of its own, on one thread (unless the table says "
    "otherwise). Before the clock starts, patterns and queries are compiled for every method, its "
    "code is loaded by a run over a short stream, and its input is in memory. *Cold*: the first run "
    "over the whole input; it also pays for the memory that the process touches for the first time. "
    "*Warm*: the minimum of the runs after it; memory that is freed then stays with the process "
    f"(glibc's mallopt). A cold run of more than {Size.FULL.repeat_limit:g} CPU seconds "
    f"({Size.QUICK.repeat_limit:g} at the quick size) is not repeated and has no warm time. Cold and "
    "warm times stand side by side; ratios are made of warm times where both sides have them, else "
    "of cold times, never of one and the other. Times are CPU time, user and system, of the whole "
    "process (`time.process_time`), which depends least on what else the machine does. Memory is the "
    "most that the process held in RAM during the cold run beyond what it held before (VmHWM): "
    "input excluded, matches included. "
    f"A method is ended at {Size.FULL.cpu_limit:g} CPU seconds ({Size.QUICK.cpu_limit:g} at the "
    f"quick size), at {MEMORY_CAP / 2**30:g} GB, or after {Size.FULL.wall_limit / 60:g} minutes of "
    f"wall-clock time ({Size.QUICK.wall_limit / 60:g}); the cell then reads *> 60 s*, and *(> 60 s)* "
    "in the larger cases of the same sweep, which are not run."
)

INPUT = (
    "Every method gets the same stream in two forms. *Packed bits*: the truth of each symbol at each "
    "event, in the form in which the method takes it (a word of 64 events a symbol, a mask an event), "
    "made before the clock starts. *Raw frame*: a Polars frame as a user has it; evaluating the "
    "predicates, telling partitions apart and all else up to the method's own form is inside the clock. "
    "piestream does it itself; for the others it is the quickest deriver that we could write for the "
    "form that each takes (`peers/parts/derivers.py`): the masks at the events at which some symbol "
    "changes for TPStream, ISEQ and PieStream's algorithm on changes, tables of intervals in order of "
    "their ends for SQL and Polars, all events for what looks at all. Predicates are evaluated by "
    "Polars; changes are found 64 events at a time where the stream has one partition, and by one "
    "comparison an event with the last mask of its partition where it has many. Times of one form are "
    "not compared with those of the other."
)


def timed(
    work: Callable[[], Any],
    size: Size,
    *,
    cold: AbstractContextManager[Any] | None = None,
    once: bool = False,
    between: Callable[[], Any] | None = None,
) -> tuple[Row, Any]:
    """Times of some work, and what its last run gave.

    The first run is the cold one; ``cold`` is entered for it. ``once``: it is the only one, because
    the work repeats itself or has a clock of its own. ``between`` runs before each warm run.

    >>> row, result = timed(lambda: 3, Size.TINY)
    >>> list(row), result
    (['cold_cpu_s', 'cold_wall_s', 'runs', 'cpu_s', 'cpu_median', 'wall_s', 'wall_median'], 3)
    """
    budget, least, most = size.of(0.0, 0.15, 1.0), size.of(1, 2, 2), size.of(1, 9, 7)
    cpu: list[float] = []
    wall: list[float] = []

    def run() -> Any:
        wall_before, cpu_before = time.perf_counter(), time.process_time()
        result = work()
        cpu.append(time.process_time() - cpu_before)
        wall.append(time.perf_counter() - wall_before)
        return result

    collects = gc.isenabled()
    gc.disable()  # as timeit does
    try:
        with cold or nullcontext():
            result = run()
        if not once and cpu[0] <= size.repeat_limit:
            while len(cpu) <= least or (len(cpu) <= most and sum(cpu[1:]) < budget):
                result = None
                if between is not None:
                    between()
                result = run()
    finally:
        if collects:
            gc.enable()
    row: Row = {"cold_cpu_s": cpu[0], "cold_wall_s": wall[0], "runs": len(cpu) - 1}
    if len(cpu) > 1:
        row |= {"cpu_s": min(cpu[1:]), "cpu_median": statistics.median(cpu[1:]),
                "wall_s": min(wall[1:]), "wall_median": statistics.median(wall[1:])}  # fmt: skip
    return row, result


class Yardstick:
    """A NumPy pass over the columns that a query reads: what any method pays at the very least.

    ``array.sum()`` of every numeric or Boolean column (Booleans as one byte each, unpacked
    beforehand), in the same process, between the runs that it is compared with.

    >>> Yardstick(pl.DataFrame({"t": [1, 2], "a": [True, False]})).row(cpu_s=1.0).keys()
    dict_keys(['yardstick_s', 'times_yardstick'])
    """

    def __init__(self, frame: pl.DataFrame, columns: Sequence[str] | None = None) -> None:
        chosen = frame.select(columns if columns is not None else frame.columns)
        self._arrays = [
            column.to_numpy().astype(np.uint8) if column.dtype == pl.Boolean else column.to_numpy()
            for column in chosen
            if column.dtype == pl.Boolean or column.dtype.is_numeric()
        ]
        self._cpu: list[float] = []

    def measure(self) -> None:
        """Measure one pass."""
        before = time.process_time()
        for array in self._arrays:
            array.sum()
        self._cpu.append(time.process_time() - before)

    def row(self, cpu_s: float | None) -> Row:
        """The quickest pass, and how many of them some work took."""
        if not self._cpu:
            self.measure()
        quickest = max(min(self._cpu), 1e-9)
        return {"yardstick_s": quickest} | (
            {} if cpu_s is None else {"times_yardstick": cpu_s / quickest}
        )


#: Parameters of glibc's mallopt: above how much at the top it is given back, and how many large
#: blocks come from the system, each by itself.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> None:
    """From now on, memory that is freed is not given back to the system; only glibc can do that.

    Otherwise the size of a method's arrays decides whether each of its runs pays for their pages
    again (some 2 µs a page on a virtual machine).
    """
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


class Growth:
    """While it is entered: the bytes by which the most that is held in RAM exceeds that before.

    On Linux; elsewhere ``bytes`` stays None.
    """

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._before: int | None = None

    def __enter__(self) -> Growth:
        reset_peak = Path("/proc/self/clear_refs")
        if reset_peak.exists():
            reset_peak.write_text("5")
            self._before = memory_of("self")
        return self

    def __exit__(self, *exception: object) -> None:
        peak = memory_of("self", "VmHWM")
        if self._before is not None and peak is not None:
            self.bytes = max(peak - self._before, 0)


def memory_of(process: int | str, entry: str = "VmRSS") -> int | None:
    """Bytes of RAM that a process holds (``VmHWM``: held at most); None elsewhere than on Linux."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # no such system, or the process has ended
        return None
    for line in lines:
        if line.startswith(entry):
            return int(line.split()[1]) * 1024
    return None


def cpu_used_by(process: int) -> float:
    """CPU seconds that a process has used; 0 elsewhere than on Linux."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
