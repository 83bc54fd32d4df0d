"""Time, CPU, memory, the yardstick, and what the machine is."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

__all__ = [
    "TIMING",
    "YARDSTICK",
    "Row",
    "Scale",
    "Timing",
    "Yardstick",
    "compared",
    "forget_peak",
    "machine",
    "peak_bytes",
    "resident_bytes",
    "timed",
    "versions",
]

#: One measurement: its case, then what was measured.
Row: TypeAlias = dict[str, Any]

TIMING = (
    "Each case runs once unmeasured, then at least twice and until its share of time is spent. "
    "wall_s and cpu_s are minima, *_median medians. cpu_s is time.process_time: user and system "
    "time of all threads of the process. Rates and ratios are made of cpu_s, because the machine "
    "is shared: CPU time is at least the wall time that one thread would take undisturbed."
)
YARDSTICK = (
    "array.sum() of every numeric or Boolean column that the query reads (Booleans as one byte "
    "each, unpacked beforehand), in the same process, between the runs that it is compared with."
)


class Scale(Enum):
    """How much is run: what the tests run, what shows a trend in a minute, what is published."""

    TINY = "tiny"
    QUICK = "quick"
    FULL = "full"

    def of(self, tiny: Any, quick: Any, full: Any) -> Any:
        """One of three sizes."""
        return {Scale.TINY: tiny, Scale.QUICK: quick, Scale.FULL: full}[self]

    @property
    def seconds(self) -> float:
        """How long one case is repeated."""
        return float(self.of(0.0, 1.0, 2.0))


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of several runs of the same work."""

    wall: Sequence[float]
    cpu: Sequence[float]

    def row(self) -> Row:
        """The minima and medians, as they are written down."""
        return {
            "runs": len(self.wall),
            "wall_s": min(self.wall),
            "wall_median": statistics.median(self.wall),
            "cpu_s": min(self.cpu),
            "cpu_median": statistics.median(self.cpu),
        }


def timed(
    work: Callable[[], Any], scale: Scale, *, between: Callable[[], Any] | None = None
) -> tuple[Timing, Any]:
    """Run some work again and again; gives the times, and what the last run gave."""
    wall: list[float] = []
    cpu: list[float] = []
    result = work()
    began = time.perf_counter()
    least, most = scale.of(1, 2, 3), scale.of(1, 7, 15)
    while len(wall) < least or (len(wall) < most and time.perf_counter() - began < scale.seconds):
        if between is not None:
            between()
        result = None
        gc.collect()
        wall_before, cpu_before = time.perf_counter(), time.process_time()
        result = work()
        cpu.append(time.process_time() - cpu_before)
        wall.append(time.perf_counter() - wall_before)
    return Timing(wall, cpu), result


class Yardstick:
    """One NumPy pass over the columns that a query reads (see `YARDSTICK`)."""

    def __init__(self, frame: pl.DataFrame, columns: Sequence[str] | None = None) -> None:
        self.arrays = []
        for column in frame.select(columns if columns is not None else frame.columns):
            if column.dtype == pl.Boolean:
                self.arrays.append(column.to_numpy().astype(np.uint8))
            elif column.dtype.is_numeric():
                self.arrays.append(column.to_numpy())
        self.cpu: list[float] = []

    def pass_once(self) -> None:
        """Measure one pass."""
        before = time.process_time()
        for array in self.arrays:
            array.sum()
        self.cpu.append(time.process_time() - before)

    @property
    def seconds(self) -> float:
        """CPU seconds of the quickest pass."""
        return max(min(self.cpu), 1e-9)


def compared(
    work: Callable[[], Any],
    scale: Scale,
    events: int,
    yardstick: Yardstick,
    **case: Any,
) -> Row:
    """A row for some work on ``events`` events, which gives a frame of matches or their number."""
    yardstick.cpu.clear()
    yardstick.pass_once()
    timing, result = timed(work, scale, between=yardstick.pass_once)
    row = timing.row()
    cpu = max(row["cpu_s"], 1e-9)
    return {
        **case,
        "events": events,
        "matches": result if isinstance(result, int) else len(result),
        **row,
        "events_per_s": events / cpu,
        "yardstick_s": yardstick.seconds,
        "ratio_to_yardstick": cpu / yardstick.seconds,
        "load": os.getloadavg()[0],
    }


def machine() -> Mapping[str, Any]:
    """What the measurements were made on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> Mapping[str, str]:
    """What was measured, with the commit where there is one."""
    names = ("piestream", "polars", "numpy", "numba", "llvmlite", "automata-lib")
    told = {"python": platform.python_version(), **{name: version(name) for name in names}}
    with suppress(OSError, subprocess.CalledProcessError):
        ask = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        told["commit"] = subprocess.check_output(
            ask, cwd=Path(__file__).parent, text=True, stderr=subprocess.DEVNULL
        ).strip()
    return told


def resident_bytes() -> int:
    """Memory of this process that lies in RAM (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def forget_peak() -> None:
    """From here on `peak_bytes` counts anew (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory that this process has held in RAM (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell how much memory a process has held")
