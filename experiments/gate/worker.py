"""The program of one side of the gate: it measures work that it is asked for, and answers in JSON.

It imports Polars and the piestream that ``PYTHONPATH`` names, nothing else, so that it runs beside any commit. A
request is a work as a line; the answer has the CPU and wall-clock seconds that it took, and a digest of the rows
that were found.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Repeats some work, and gives what it found at last.
Action = Callable[[], Any]


def _frames(work: dict[str, Any]) -> dict[str, Any]:
    import polars as pl

    return {name: pl.read_ipc(path).rechunk() for name, path in work.get("frames", {}).items()}


def _input(work: dict[str, Any]) -> Any:
    frames = _frames(work)
    return frames if len(frames) > 1 else next(iter(frames.values()))


def _run(work: dict[str, Any]) -> Action:
    """A run over a frame, or over one a stream."""
    import piestream as ps

    rows, options = _input(work), work.get("options", {})
    query = ps.query(work["query"])
    return lambda: query.run(rows, **options)


def _push_each(work: dict[str, Any]) -> Action:
    """Single events through a session that has seen them once before, later in time by each repetition."""
    import piestream as ps

    events, key, step = _input(work).to_dicts(), work["time"], work["step"]
    push = ps.query(work["query"]).open().push
    if isinstance(events[0][key], (int, float)):
        shift = step
    else:
        from datetime import timedelta

        shift = timedelta(seconds=step)

    def through() -> int:
        found = 0
        for event in events:
            found += len(push(event))
        for event in events:
            event[key] += shift
        return found

    return through


def _push_streams(work: dict[str, Any]) -> Action:
    """Single events of two streams by turns through one session."""
    import piestream as ps

    frames = {name: frame.to_dicts() for name, frame in _frames(work).items()}
    key, step = work["time"], work["step"]
    push = ps.query(work["query"]).open().push

    def through() -> int:
        found = 0
        for events in zip(*frames.values(), strict=True):
            for name, event in zip(frames, events, strict=True):
                found += len(push(event, stream=name))
        for events in frames.values():
            for event in events:
                event[key] += step
        return found

    return through


def _push_frames(work: dict[str, Any]) -> Action:
    """Frames of so many rows through a new session."""
    import piestream as ps

    pieces = list(_input(work).iter_slices(work["rows"]))
    query = ps.query(work["query"])

    def through() -> int:
        session = query.open()
        return sum(len(session.push(piece)) for piece in pieces)

    return through


def _snapshot(work: dict[str, Any]) -> Action:
    """A snapshot of a session, and a session of it."""
    import piestream as ps

    query = ps.query(work["query"])
    session = query.open()
    session.push(_input(work))
    return lambda: query.open(state=session.snapshot()).statistics.partitions


def _parse(work: dict[str, Any]) -> Action:
    """A text becomes a checked query."""
    import piestream as ps

    return lambda: str(ps.query(work["query"]).within)


def _archive(work: dict[str, Any]) -> Action:
    """A run over an archive, which is made of the frame before."""
    import piestream as ps

    folder = Path(next(iter(work["frames"].values()))).with_suffix(f".{work['side']}")
    if not folder.exists():
        ps.archive(folder, **work["archive"]).append(_input(work))
    query, archive = ps.query(work["query"]), ps.archive(folder)
    return lambda: query.run(archive)


ACTIONS: dict[str, Callable[[dict[str, Any]], Action]] = {
    "run": _run,
    "push each": _push_each,
    "push streams": _push_streams,
    "push frames": _push_frames,
    "snapshot": _snapshot,
    "parse": _parse,
    "archive": _archive,
}


def _group(work: dict[str, Any]) -> Action:
    """Polars counts the rows of each key."""
    import polars as pl

    frame, key = _input(work), work["yardstick"]["key"]
    return lambda: frame.group_by(key).agg(pl.len())


def _digest(found: Any) -> Any:
    """Something that tells results apart: a number, or the height of a frame and a sum over its rows."""
    if not hasattr(found, "hash_rows"):
        return found
    return [found.height, int(found.hash_rows(seed=1).sum() or 0)]


def _timed(action: Action, number: int) -> tuple[float, float, Any]:
    """CPU seconds and wall-clock seconds of so many calls, and what the last one found."""
    found = None
    gc.collect()
    gc.disable()
    try:
        before, began = time.perf_counter(), time.process_time()
        for _ in range(number):
            found = action()
        return time.process_time() - began, time.perf_counter() - before, found
    finally:
        gc.enable()


def _peak(action: Action) -> int:
    """Bytes by which a call raises the most that the process holds in RAM."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _held("VmRSS")
    action()
    return _held("VmHWM") - before


def _held(entry: str) -> int:
    status = Path("/proc/self/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith(entry)) * 1024
    )


class _Side:
    """The actions of one process, made once for each work."""

    def __init__(self) -> None:
        self._actions: dict[str, Action] = {}

    def answer(self, work: dict[str, Any]) -> dict[str, Any]:
        """Measure one work."""
        name = work["name"]
        if name not in self._actions:
            action = self._actions[name] = ACTIONS[work["action"]](work)
            action()
        action = self._actions[name]
        if work["clock"] == "bytes":
            return {"bytes": float(_peak(action)), "found": None}
        cpu, wall, found = _timed(action, work["number"])
        answer = {"cpu": cpu, "wall": wall, "found": _digest(found)}
        if "yardstick" in work:
            answer["yardstick"] = _timed(_group(work), 1)[0]
        return answer


def _requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Answer requests until there are no more."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # of what the package says nothing is taken for an answer
    side = _Side()
    for request in _requests():
        try:
            answer = side.answer(request)
        except Exception as fault:
            answer = {"refused": f"{type(fault).__name__}: {fault}".splitlines()[0][:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
