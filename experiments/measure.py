"""How everything here is measured: sizes, times of several runs, memory, the machine."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["TIMING", "Row", "Rows", "Size", "machine", "peak_growth", "timed", "versions"]

#: One measurement: its case, then what was measured.
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]

TIMING = (
    "All peers run in one process, on one thread each, warm: each case runs once unmeasured, then "
    "several times. cpu_s and wall_s are minima, *_median medians. CPU time is user and system "
    "time of the whole process (time.process_time). Tables and figures show the minimum of CPU "
    "time, because the machine is shared: CPU time hardly depends on what else runs, wall-clock "
    "time does."
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
        """CPU seconds from which on a method that grows is not run on anything larger."""
        return float(self.of(0.5, 0.6, 60.0))


def timed(work: Callable[[], Any], size: Size) -> tuple[Row, Any]:
    """Times of some work, and what it gave: once unmeasured, then again and again.

    Work that takes more than half of the patience is run once more only.

    >>> row, result = timed(lambda: 3, Size.TINY)
    >>> sorted(row), result
    (['cpu_median', 'cpu_s', 'runs', 'wall_median', 'wall_s'], 3)
    """
    cpu: list[float] = []
    wall: list[float] = []
    budget, most = size.of(0.0, 0.15, 5.0), size.of(1, 5, 9)
    result = None
    collects = gc.isenabled()
    gc.disable()  # as timeit does
    try:
        for run in range(most + 1):
            result = None
            wall_before, cpu_before = time.perf_counter(), time.process_time()
            result = work()
            used = time.process_time() - cpu_before
            if run:
                cpu.append(used)
                wall.append(time.perf_counter() - wall_before)
                slow = used > size.patience / 2
                if sum(cpu) > budget and run >= (1 if slow else size.of(1, 2, 3)):
                    break
    finally:
        if collects:
            gc.enable()
    return {
        "runs": len(cpu),
        "cpu_s": min(cpu),
        "cpu_median": statistics.median(cpu),
        "wall_s": min(wall),
        "wall_median": statistics.median(wall),
    }, result


def peak_growth(work: Callable[[], Any]) -> int | None:
    """Bytes by which the most memory held in RAM during some work exceeds that before.

    Only Linux tells; elsewhere the work is done and the answer is None.
    """
    gc.collect()
    forget = Path("/proc/self/clear_refs")
    if not forget.exists():
        work()
        return None
    forget.write_text("5")
    before = _status("VmRSS")
    work()
    return max(_status("VmHWM") - before, 0)


def _status(entry: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(entry):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell how much memory a process holds")


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
