"""The two sides of the gate: a commit installed from its wheel, the working copy, and their processes."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.gate.work import Process

__all__ = ["Side", "Worker", "commit_of", "installed", "release", "working_copy"]

_ROOT = Path(__file__).parents[2]
_WORKER = Path(__file__).with_name("worker.py")
#: The commit that is measured against until there is a release: the quickest so far.
_BEFORE_ANY_RELEASE = "4244688"


@dataclass(frozen=True)
class Side:
    """An installation of piestream, and where it keeps what it compiles."""

    name: str
    path: Path
    cache: Path

    def environment(self, cache: Path | None = None, threads: int = 1) -> dict[str, str]:
        """The environment of a process of this side."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIESTREAM", "NUMBA"))}
        return kept | {
            "PYTHONPATH": str(self.path),
            "NUMBA_CACHE_DIR": str(cache or self.cache),
            "POLARS_MAX_THREADS": str(threads),
            "PYTHONDONTWRITEBYTECODE": "",
        }

    def process(self, process: Process) -> float:
        """CPU seconds of a process from its start to its end."""
        with tempfile.TemporaryDirectory() as empty:
            environment = self.environment(Path(empty) if process.cold else None)
            before = _children()
            subprocess.run(
                [sys.executable, "-P", "-c", process.program],
                env=environment, check=True, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Worker:
    """A process of one side that measures what it is asked for."""

    def __init__(self, side: Side, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            env=side.environment(threads=threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._side = side.name

    def measure(self, work: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the process to one request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {**work, "side": self._side}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            return {"refused": f"the process ended with {self._process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def release() -> str:
    """The commit of the last release that the working copy descends from."""
    ask = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    found = subprocess.run(ask, cwd=_ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() or _BEFORE_ANY_RELEASE


def commit_of(revision: str) -> str:
    """The short name of a commit, ``-dirty`` behind it where it is the working copy and more than it."""
    ask = ["git", "describe", "--always", "--exclude=*"]
    ask += ["--dirty"] if revision == "HEAD" else [revision]
    return subprocess.check_output(ask, cwd=_ROOT, text=True).strip()


def working_copy(folder: Path) -> Side:
    """The sources as they are now, copied, without what was compiled of them beside them."""
    target = folder / "now"
    shutil.rmtree(target, ignore_errors=True)
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_ROOT / "piestream", target / "piestream", ignore=without)
    return Side("now", target, _made(folder / "now-cache"))


def installed(revision: str, folder: Path) -> Side:
    """A commit, installed from its wheel into a folder of its own, once."""
    commit = commit_of(revision)
    target = folder / commit
    if not (target / "piestream").exists():
        with _checked_out(commit) as source:
            wheels = source / "wheels"
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, source], check=True)
            wheel = next(wheels.glob("*.whl"))
            subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return Side("base", target, _made(folder / f"{commit}-cache"))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _checked_out(commit: str) -> Iterator[Path]:
    source = Path(tempfile.mkdtemp())
    try:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=_ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
        yield source
    finally:
        shutil.rmtree(source, ignore_errors=True)
