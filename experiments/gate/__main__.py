"""``python -m experiments.gate``: the working copy beside a release, or beside any commit.

Each round starts new processes of both sides, which measure each work in turns. After the rounds that all works
get, those that are not clear yet get more, while there is time. It ends with 1 if something is slower.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from experiments.gate.ratios import Ratio, Verdict, ratio
from experiments.gate.sides import Side, Worker, commit_of, installed, release, working_copy
from experiments.gate.table import Line, table
from experiments.gate.work import PROCESSES, WORKS, Process, Work
from experiments.harness.provenance import load, machine, versions

_ROOT = Path(__file__).parents[2]
#: The last table of all works, which is committed.
_TABLE = Path(__file__).with_name("table.md")
#: All works get so many rounds; those that are not clear get up to so many.
_LEAST, _MOST = 5, 11
#: So often both sides take turns in a round; the least of each counts.
_REPEAT = 2


@dataclass
class _Measured:
    """Measurements of one work so far."""

    work: Work | Process
    base: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)
    yardsticks: list[float] = field(default_factory=list)
    refused: str = ""

    @property
    def ratio(self) -> Ratio | None:
        """Both sides compared; None if the base cannot do it."""
        return ratio(self.base, self.now) if self.base else None

    @property
    def is_clear(self) -> bool:
        """True if more rounds are of no use."""
        found = self.ratio
        return found is None or found.verdict in (Verdict.SAME, Verdict.QUICKER)


class _Gate:
    """All works, measured round by round."""

    def __init__(
        self, base: Side, now: Side, works: Sequence[Work | Process], folder: Path
    ) -> None:
        self.sides = (base, now)
        self.measured = [_Measured(work) for work in works]
        self._requests = {
            work.name: _request(work, folder) for work in works if isinstance(work, Work)
        }

    def warm(self) -> None:
        """A round of which nothing is kept: it compiles what the caches of the sides do not have."""
        kept = [_Measured(each.work) for each in self.measured]
        self.round(0, kept, repeat=1)

    def round(self, number: int, chosen: Iterable[_Measured], repeat: int = _REPEAT) -> None:
        """Measure each work on both sides, in new processes; who begins changes from round to round."""
        sides = self.sides[:: -1 if number % 2 else 1]
        works = [each for each in chosen if isinstance(each.work, Work)]
        for threads in sorted({each.work.threads for each in works if isinstance(each.work, Work)}):
            workers = {side.name: Worker(side, threads) for side in sides}
            for each in works:
                if isinstance(each.work, Work) and each.work.threads == threads:
                    self._note(each, workers, repeat)
            for worker in workers.values():
                worker.stop()

    def starts(self, number: int, chosen: Iterable[_Measured]) -> None:
        """Start each process on both sides."""
        for each in chosen:
            if isinstance(each.work, Process):
                for side in self.sides[:: -1 if number % 2 else 1]:
                    took = side.process(each.work)
                    (each.base if side is self.sides[0] else each.now).append(took)

    def _note(self, each: _Measured, workers: dict[str, Worker], repeat: int) -> None:
        assert isinstance(each.work, Work)
        request = self._requests[each.work.name]
        answers = [
            {name: worker.measure(request) for name, worker in workers.items()}
            for _ in range(repeat)
        ]
        now, base = (_least([answer[side] for answer in answers]) for side in ("now", "base"))
        if "refused" in now:
            raise SystemExit(f"{each.work.name}: the working copy cannot do it: {now['refused']}")
        if "refused" in base:
            each.refused = base["refused"]
        else:
            if base["found"] != now["found"]:
                raise SystemExit(
                    f"{each.work.name}: other rows: {base['found']}, now {now['found']}"
                )
            each.base.append(base[each.work.clock])
        each.now.append(now[each.work.clock])
        if "yardstick" in now:
            each.yardsticks.append(now["yardstick"])


def _least(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The least of each number that was measured; what was found is the same in all."""
    return {
        key: min(answer[key] for answer in answers) if isinstance(value, float) else value
        for key, value in answers[-1].items()
    }


def _request(work: Work, folder: Path) -> dict[str, Any]:
    """A work as the worker reads it; its frames become files."""
    paths = {}
    for name, frame in work.frames(1).items():
        path = folder / f"{len(list(folder.iterdir()))}-{name}.arrow"
        frame.write_ipc(path)
        paths[name] = str(path)
        units = work.units or frame.height
    return {"name": work.name, "action": work.action, "query": work.query, "number": work.number,
            "clock": work.clock, "frames": paths, "units": units if paths else 1, **work.more}  # fmt: skip


def _lines(gate: _Gate) -> list[Line]:
    seconds = {each.work.name: min(each.now) for each in gate.measured}
    lines = []
    for each in gate.measured:
        work, found = each.work, each.ratio
        calls = 1 if isinstance(work, Process) else work.number * gate._requests[work.name]["units"]
        unit = "process" if isinstance(work, Process) else work.unit
        is_bytes = isinstance(work, Work) and work.clock == "bytes"
        against = min(each.yardsticks, default=0.0)
        if isinstance(work, Process) and work.yardstick:
            against = seconds.get(work.yardstick, 0.0)
        lines.append(Line(
            work.name, unit, is_bytes, min(each.base) / calls if each.base else None,
            min(each.now) / calls, found, each.refused, min(each.now) / against if against else None,
            work.goal,
        ))  # fmt: skip
    return lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.gate", description=__doc__)
    parser.add_argument("--base", default="", help="a commit or tag; by default the last release")
    parser.add_argument(
        "--minutes", type=float, default=7.0, help="no more rounds are begun after these"
    )
    parser.add_argument("--only", default="", help="works whose names have one of these words: a,b")
    parser.add_argument(
        "--keep", default=str(_TABLE), metavar="FILE", help="where the table of all works is kept"
    )
    parser.add_argument(
        "--folder", default=str(_ROOT / "out" / "gate"), help="for installed commits"
    )
    return parser.parse_args()


def main() -> int:
    """Measure, print the table, and say whether something is slower."""
    given = _arguments()
    words = [word.strip() for word in given.only.split(",") if word.strip()]
    known: tuple[Work | Process, ...] = (*WORKS, *PROCESSES)
    works = [work for work in known if not words or any(word in work.name for word in words)]
    folder = Path(given.folder)
    folder.mkdir(parents=True, exist_ok=True)
    began, load_before = time.monotonic(), load()
    revision = given.base or release()
    base, now = installed(revision, folder), working_copy(folder)
    with tempfile.TemporaryDirectory() as frames:
        gate = _Gate(base, now, works, Path(frames))
        _measure(gate, began + 60 * given.minutes)
    about = (
        f"{commit_of('HEAD')} beside {commit_of(revision)} ({revision}), "
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {(time.monotonic() - began) / 60:.1f} min, "
        f"load {load_before} to {load()}; {machine()['processor']}, {machine()['cores']} cores; "
        + ", ".join(f"{name} {version}" for name, version in versions().items())
    )
    lines = _lines(gate)
    text = table(about, lines)
    print(text)
    if not words:
        Path(given.keep).write_text(text + "\n")
    slower = [line.name for line in lines if line.ratio and line.ratio.verdict is Verdict.SLOWER]
    if slower:
        print(f"slower: {', '.join(slower)}", file=sys.stderr)
    return bool(slower)


def _measure(gate: _Gate, until: float) -> None:
    gate.warm()
    for number in range(_MOST):
        chosen = [e for e in gate.measured if number < _LEAST or not e.is_clear]
        if not chosen or (number >= _LEAST and time.monotonic() > until):
            return
        print(f"round {number + 1}: {len(chosen)} works", file=sys.stderr, flush=True)
        gate.round(number, chosen)
        gate.starts(number, chosen)


if __name__ == "__main__":
    sys.exit(main())
