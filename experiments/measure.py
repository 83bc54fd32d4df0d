"""How everything here is measured: sizes, times of several runs, memory, the machine."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

__all__ = [
    "MEMORY_CAP",
    "TIMING",
    "Growth",
    "Row",
    "Rows",
    "Size",
    "held_by",
    "keep_freed_memory",
    "machine",
    "timed",
    "used_by",
    "versions",
]

#: One measurement: its case, then what was measured.
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]

#: A process that holds more than this is ended.
MEMORY_CAP = 6 * 2**30

TIMING = (
    "Each cell of a table is measured in a process of its own, on one thread, warm: a short run "
    "first, then one that is not timed, then several (a run that takes more than a second, or two "
    "with --full, is not repeated). cpu_s and wall_s are minima, *_median medians, cpu_first_s the first run. CPU time is user "
    "and system time of the process (time.process_time). Tables and figures show the minimum of "
    "CPU time: it hardly depends on what else the machine does, wall-clock time does. Memory is "
    "the most that the process held in RAM during its first whole run beyond what it held before "
    "(VmHWM): input excluded, matches included. After that run, memory that is freed stays with the "
    "process (glibc's mallopt): otherwise the size of a method's arrays decides whether each of its "
    "runs pays for their pages again (some 2 µs a page on a virtual machine). A run that is not "
    "repeated pays for all of them. A method is ended at 60 CPU seconds a run (3 at "
    "the quick size), at 6 GB, its child processes included, or after ten minutes by the wall clock "
    "(two at the quick size); then the cell says so (*> 60 s*), and it is not run on the larger "
    "cases of that sweep (*(> 60 s)*)."
)


class Size(Enum):
    """How much is run: what the tests run, what shows the trend in minutes, the papers' sizes."""

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
    def patience(self) -> float:
        """CPU seconds of one run after which a method is ended."""
        return float(self.of(60.0, 3.0, 60.0))

    @property
    def wall(self) -> float:
        """Seconds by the clock on the wall after which a measurement is ended, whatever it does."""
        return float(self.of(60.0, 120.0, 600.0))


def timed(
    work: Callable[[], Any],
    size: Size,
    first: AbstractContextManager[Any] | None = None,
    once: bool = False,
) -> tuple[Row, Any]:
    """Times of some work, and what it gave: once unmeasured, then again and again.

    Work that takes long is not run again: its first run counts. ``first`` is entered for that.
    Nor is that of which ``once`` is enough.

    >>> row, result = timed(lambda: 3, Size.TINY)
    >>> sorted(row), result
    (['cpu_first_s', 'cpu_median', 'cpu_s', 'runs', 'wall_median', 'wall_s'], 3)
    """
    cpu: list[float] = []
    wall: list[float] = []
    budget, most, least = size.of(0.0, 0.15, 1.0), size.of(1, 9, 7), size.of(1, 2, 2)
    long = size.of(1e9, 1.0, 2.0)
    result, first_used = None, 0.0
    collects = gc.isenabled()
    gc.disable()  # as timeit does
    try:
        for run in range(most + 1):
            result = None
            with (first or nullcontext()) if not run else nullcontext():
                wall_before, cpu_before = time.perf_counter(), time.process_time()
                result = work()
                used = time.process_time() - cpu_before
                passed = time.perf_counter() - wall_before
            if not run:
                first_used = used
            if run or once or used > long:
                cpu.append(used)
                wall.append(passed)
            if once or used > long or (sum(cpu) > budget and run >= least):
                break
    finally:
        if collects:
            gc.enable()
    return {
        "runs": len(cpu),
        "cpu_s": min(cpu),
        "cpu_first_s": first_used,
        "cpu_median": statistics.median(cpu),
        "wall_s": min(wall),
        "wall_median": statistics.median(wall),
    }, result


#: Parameters of glibc's mallopt: above how much at the top it is given back, and how many large
#: blocks are asked of the system each by itself.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> None:
    """From now on, memory that is freed is not given back to the system; only glibc can do that."""
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, 2**31 - 1)


class Growth:
    """While it is entered: the bytes by which the most that is held in RAM exceeds that before.

    Only Linux tells; elsewhere ``bytes`` stays None.
    """

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._before: int | None = None

    def __enter__(self) -> Growth:
        gc.collect()
        forget = Path("/proc/self/clear_refs")
        if forget.exists():
            forget.write_text("5")
            self._before = held_by("self")
        return self

    def __exit__(self, *told: object) -> None:
        most = held_by("self", "VmHWM")
        if self._before is not None and most is not None:
            self.bytes = max(most - self._before, 0)


def held_by(process: int | str, entry: str = "VmRSS") -> int | None:
    """Bytes of RAM that a process holds; None where the system does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # no such system, or the process is over
        return None
    for line in lines:
        if line.startswith(entry):
            return int(line.split()[1]) * 1024
    return None


def used_by(process: int) -> float:
    """CPU seconds that a process has used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine() -> Mapping[str, Any]:
    """What the measurements were made on."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": round(os.getloadavg()[0], 1),
    }


def versions() -> Mapping[str, str]:
    """What was measured."""
    told = {"python": platform.python_version()}
    for name in ("piestream", "polars", "numpy", "numba", "llvmlite", "duckdb", "automata-lib"):
        try:
            told[name] = version(name)
        except PackageNotFoundError:
            told[name] = "not installed"
    return told
