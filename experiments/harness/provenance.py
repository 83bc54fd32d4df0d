"""Where a result comes from: the commit, the engine's fingerprint, the machine, versions, the load."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = [
    "ENGINE",
    "QUERIES",
    "commit",
    "fingerprint",
    "load",
    "machine",
    "scripts_fingerprint",
    "versions",
]

_ROOT = Path(__file__).parents[2]
_PACKAGE = _ROOT / "piestream"

#: The rooms (folders and modules of the package) that decide results and speed of every section;
#: ``archives.local`` chooses the run for each kind of input.
ENGINE = (
    "adapters",
    "archives/local.py",
    "automata",
    "compiled",
    "copies.py",
    "engine",
    "intervals",
    "joins",
    "plan",
    "relations.py",
)
#: And those of a section that runs queries. An `Experiment` names its rooms: these unless it says others.
#: No room is named, but for those of the engine, of which nothing runs in the section's measurements.
QUERIES = (*ENGINE, "expressions", "language")

_VERSIONS = (
    "piestream",
    "polars",
    "numpy",
    "numba",
    "llvmlite",
    "duckdb",
    "automata-lib",
    "pyspark",
    "PySiddhi",
    "apache-flink",
    "superintervals",
    "ncls",
    "bioframe",
)


@cache
def fingerprint(rooms: tuple[str, ...] = QUERIES) -> str:
    """A digest over the sources in some rooms of the package.

    A result that was measured at another fingerprint of its section's rooms is stale. Any change of
    these files changes it, comments included: to measure once too often is cheaper than to trust a
    stale number.

    >>> len(fingerprint()), fingerprint() == fingerprint((*QUERIES, "spark"))
    (12, False)
    """
    found: list[Path] = []
    for room in rooms:
        path = _PACKAGE / room
        if not path.exists():
            raise FileNotFoundError(
                f"the package has no {room}: an experiment names it as its room"
            )
        found += path.rglob("*.py") if path.is_dir() else [path]
    return _digest(found)


@cache
def scripts_fingerprint() -> str:
    """A digest over the code that measures, for ``--resume``."""
    return _digest((_ROOT / "experiments").rglob("*.py"))


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@cache
def commit() -> str:
    """The commit of the working copy, with ``-dirty`` if there is more than that."""
    with suppress(OSError, subprocess.CalledProcessError):
        ask = ["git", "describe", "--always", "--dirty", "--exclude=*"]
        return subprocess.check_output(ask, cwd=_ROOT, text=True, stderr=subprocess.DEVNULL).strip()
    return "unknown"


def load() -> float:
    """The load average of the machine over the last minute."""
    return round(os.getloadavg()[0], 2)


def machine() -> Mapping[str, Any]:
    """What the measurements are made on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": models[0] if models else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(pages / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions() -> Mapping[str, str]:
    """Of Python, and of the packages that take part."""
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
