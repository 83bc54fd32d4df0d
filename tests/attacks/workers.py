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

__all__ = ["AttackError", "attack", "main"]

#: A try: it gives a word for what happened, and raises `AttackError` for what must not happen.
Try = Callable[[int], str]

_ROOT = Path(__file__).parents[2]
#: Seconds of CPU that one try may take, and bytes that a worker may map beyond what it starts with.
_SECONDS = 5.0
_MEMORY = 4 << 30


class AttackError(AssertionError):
    """A try showed a fault."""


def attack(module: str, seeds: range, *, seconds: float = 600.0) -> Counter[str]:
    """Run the tries of a module in a worker; raises `AttackError` with the seed of what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        progress = Path(folder, "seed")
        progress.write_text("none yet")
        command = [sys.executable, "-X", "faulthandler", "-m", module, "--worker", str(progress)]
        command += ["--seed", str(seeds.start), "--tries", str(len(seeds))]
        try:
            done = subprocess.run(
                command, cwd=_ROOT, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise AttackError(f"{module}: seed {progress.read_text()} hangs") from None
        if done.returncode:
            output = done.stderr[-4000:]
            raise AttackError(
                f"{module}: seed {progress.read_text()}, exit {done.returncode}\n{output}"
            )
        return Counter(json.loads(done.stdout.splitlines()[-1]))


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
