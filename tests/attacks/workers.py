"""Tries run in processes of their own, so that a crash is seen and its seed is known."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

__all__ = ["AttackError", "Watch", "attack", "main"]

#: A try: it gives a word for what happened, and raises `AttackError` for what must not happen.
Try = Callable[[int], str]

_ROOT = Path(__file__).parents[2]
#: Seconds of CPU that one try may take, and bytes that a worker may map beyond what it starts with.
_SECONDS = 5.0
_MEMORY = 4 << 30
#: A worker hangs that is at one try, or before the first, for so many seconds of CPU, or so many at
#: all: a loaded machine makes tries slow, but each of them ends. It is looked at every so often.
_STALLED_CPU = 120.0
_STALLED_WALL = 1200.0
_LOOK_EVERY = 1.0


class AttackError(AssertionError):
    """A try showed a fault."""


class Watch:
    """Whether a worker still advances: from one try to the next, however slowly on a busy machine.

    >>> watch = Watch(cpu=60.0, wall=600.0)
    >>> [watch.hangs("seed 1", cpu=0.0, wall=at) for at in (0.0, 500.0, 601.0)]
    [False, False, True]
    """

    def __init__(self, cpu: float, wall: float) -> None:
        self.limits = cpu, wall
        self._progress: str | None = None
        self._since = 0.0, 0.0

    def hangs(self, progress: str, *, cpu: float, wall: float) -> bool:
        """Whether it has been at one try for too many seconds: of its CPU, or of waiting."""
        if progress != self._progress:
            self._progress, self._since = progress, (cpu, wall)
        spent = cpu - self._since[0], wall - self._since[1]
        return any(took > most for took, most in zip(spent, self.limits, strict=True))


def attack(
    module: str, seeds: range, *, cpu: float = _STALLED_CPU, wall: float = _STALLED_WALL
) -> Counter[str]:
    """Run the tries of a module in a worker; raises `AttackError` with the seed of what went wrong.

    A worker that is at one try for longer than these seconds hangs.
    """
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder, "seed")
        progress.write_text("none yet")
        command = [sys.executable, "-X", "faulthandler", "-m", module, "--worker", str(progress)]
        command += ["--seed", str(seeds.start), "--tries", str(len(seeds))]
        output, errors = Path(folder, "output"), Path(folder, "errors")
        with output.open("w") as out, errors.open("w") as err:
            worker = subprocess.Popen(command, cwd=_ROOT, stdout=out, stderr=err)
            try:
                _wait(worker, progress, Watch(cpu, wall), module)
            finally:
                worker.kill()
                worker.wait()
        if worker.returncode:
            message = errors.read_text("utf-8", "replace")[-4000:]
            raise AttackError(
                f"{module}: seed {progress.read_text()}, exit {worker.returncode}\n{message}"
            )
        return Counter(json.loads(output.read_text().splitlines()[-1]))


def _wait(worker: subprocess.Popen[bytes], progress: Path, watch: Watch, module: str) -> None:
    """Wait for a worker to end; raises `AttackError` if it hangs."""
    while True:
        try:
            worker.wait(_LOOK_EVERY)
            return
        except subprocess.TimeoutExpired:
            seed = progress.read_text()
            if watch.hangs(seed, cpu=_cpu_of(worker.pid), wall=time.monotonic()):
                raise AttackError(f"{module}: seed {seed.strip()} hangs") from None


def _cpu_of(process: int) -> float:
    """The seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(one: Try, seeds: range, progress: Path) -> None:
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + _MEMORY, resource.RLIM_INFINITY))
    seen: Counter[str] = Counter()
    with progress.open("w") as file:
        for seed in seeds:
            file.seek(0)
            file.write(f"{seed} ")
            file.flush()
            before = time.process_time()
            seen[one(seed)] += 1
            took = time.process_time() - before
            if took > _SECONDS:
                raise AttackError(f"seed {seed} took {took:.1f} s of CPU")
    print(json.dumps(seen))


def main(module: str, one: Try, *, warm_up: Callable[[], object] = lambda: None) -> None:
    """The command line of an attack: so many tries from a seed on, shared out to processes."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--tries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.tries)
    if given.worker is not None:
        warm_up()
        try:
            _work(one, seeds, given.worker)
        except BaseException:
            traceback.print_exc()
            sys.exit(1)
        return
    total: Counter[str] = Counter()
    failures = 0
    while seeds:
        share, seeds = seeds[:2000], seeds[2000:]
        try:
            total += attack(module, share)
        except AttackError as failure:
            failures += 1
            print(failure, flush=True)
    for outcome, count in total.most_common():
        print(f"{count:>9,}  {outcome}")
    print(f"{failures} of the shares failed" if failures else "no failure")
    sys.exit(bool(failures))
