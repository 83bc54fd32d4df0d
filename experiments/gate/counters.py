"""Exact counts of the work of fixed cases: ``python -m experiments.gate.counters``, with no clock.

Of each work of the gate that runs over rows, with fewer of them: steps and visits of the joins, matches, the most
intervals and bytes of state that a session holds, values that are decoded of an archive, and the bytes of the frames
and arrays that each stage of the front half makes. The same numbers come out on any machine, so that a difference is
a change of the code. They are kept in ``tests/gate/counters.json``; ``--accept`` writes those of now there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.adversarial import counted as counted_values
from experiments.archives.common import archived, forced
from experiments.gate.work import WORKS, Frames, Work
from piestream.engine import combined, detector, stream
from piestream.engine.attributes import AttributeColumns
from piestream.engine.partition_order import PartitionOrder
from piestream.engine.projection import Projection

__all__ = ["ACCEPTED", "Counters", "counted", "differences", "works_with_counters"]

#: What is counted of one work, by name.
Counters = dict[str, int]
#: The numbers that were accepted, by the name of the work.
ACCEPTED = Path(__file__).parents[2] / "tests" / "gate" / "counters.json"
#: So many times fewer rows than the gate times, in so many pushes.
_FEWER, _PUSHES = 8, 20


def works_with_counters() -> Sequence[Work]:
    """The works over rows whose numbers no other one has."""
    return [
        work for work in WORKS
        if work.action in ("run", "archive") and work.clock == "cpu" and work.number == 1
    ]  # fmt: skip


def counted(work: Work) -> Counters:
    """Count what one work does."""
    frames, query = work.frames(_FEWER), ps.query(work.query)
    if work.action == "archive":
        frame = next(iter(frames.values()))
        with archived([frame], 1024) as lake, forced(True), counted_values() as values:
            return {"matches": len(query.run(lake)), "values decoded": values.values}
    given: Any = frames if query.is_combined and len(frames) > 1 else next(iter(frames.values()))
    with _front_half() as made:
        found = len(query.run(given, threads=1))
    return {"matches": found, **made, **_in_session(query, frames, found)}


def _in_session(query: ps.Query, frames: Frames, found: int) -> Counters:
    """Steps and visits of a session, and the most that it holds between two pushes."""
    pieces, length = _pieces(frames)
    lateness = length if len(frames) > 1 else None  # one stream comes behind the other
    session, held, matches = query.open(lateness=lateness), [], 0
    for name, piece in pieces:
        matches += len(session.push(piece, stream=name if len(frames) > 1 else None))
        statistics = session.statistics
        held.append((statistics.live_intervals, statistics.state_bytes))
    matches += len(session.close())
    if matches != found:
        raise AssertionError(f"a session gives {matches} rows, a run {found}: {query}")
    peaks = {"peak intervals": max(n for n, _ in held), "peak state bytes": max(n for _, n in held)}
    open_stream = session._stream
    work = getattr(open_stream.detector, "work", None) if open_stream is not None else None
    return peaks if work is None else {"steps": work.steps, "visits": work.visits, **peaks}


def _pieces(frames: Frames) -> tuple[list[tuple[str, pl.DataFrame]], int]:
    """Frames cut at the same times, each stream's piece in turn; and how long a piece is."""
    time = {name: "ts" if "ts" in frame.columns else "end" for name, frame in frames.items()}
    ticks = {name: frame[time[name]].to_physical() for name, frame in frames.items()}
    first = min(int(each.min()) for each in ticks.values())  # type: ignore[arg-type]
    last = max(int(each.max()) for each in ticks.values())  # type: ignore[arg-type]
    length = (last - first) // _PUSHES + 1
    pieces = [
        (name, frame.filter((ticks[name] - first) // length == number).sort(time[name]))
        for number in range(_PUSHES)
        for name, frame in frames.items()
    ]
    return pieces, length


@contextmanager
def _front_half() -> Iterator[Counters]:
    """The bytes that each stage before the joins makes while it is entered."""
    made: Counters = {}

    def counting(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        made[f"bytes {stage}"] = 0

        def counts(*given: Any, **more: Any) -> Any:
            result = function(*given, **more)
            made[f"bytes {stage}"] += _made(result, given)
            return result

        return counts

    stages: tuple[tuple[str, Any, str], ...] = (
        ("projected", Projection, "project"),
        ("ordered", PartitionOrder, "ordered"),
        ("of attributes", AttributeColumns, "words"),
        ("of bits", stream, "stack_bits"),
        ("of bits", combined, "stack_bits"),
        ("of changes", detector, "find_changes"),
    )
    with ExitStack() as patches:
        for stage, place, name in stages:
            function = counting(stage, getattr(place, name))
            patches.enter_context(patch.object(place, name, function))
        yield made


def _made(result: Any, given: Sequence[Any]) -> int:
    """The bytes of a result that were not in what was given: frames, columns and arrays made anew."""
    if any(result is each for each in given):
        return 0
    if isinstance(result, tuple | list):
        return sum(_made(part, given) for part in result)
    if isinstance(result, np.ndarray):
        return result.nbytes
    if not isinstance(result, pl.DataFrame):
        return 0
    frames = [frame for frame in given if isinstance(frame, pl.DataFrame)]
    there = {_place(column) for frame in frames for column in frame.get_columns()} - {None}
    new = [column for column in result.get_columns() if _place(column) not in there]
    return sum(int(column.estimated_size()) for column in new)


def _place(column: pl.Series) -> int | None:
    """Address of a column's numbers; None of a column that is not of plain numbers, of which Polars tells none."""
    try:
        return int(column.to_numpy(allow_copy=False).ctypes.data)
    except (RuntimeError, ValueError, pl.exceptions.PolarsError):
        return None


def differences(accepted: Mapping[str, Counters], now: Mapping[str, Counters]) -> list[str]:
    """Differences, a line each.

    >>> differences({"a": {"steps": 2}}, {"a": {"steps": 3}})
    ['a: steps 2, now 3 (1.50 ×)']
    """
    lines = []
    for name in {**accepted, **now}:
        old, new = accepted.get(name, {}), now.get(name, {})
        for what in {**old, **new}:
            before, after = old.get(what), new.get(what)
            if before != after:
                times = f" ({after / before:.2f} ×)" if before and after is not None else ""
                lines.append(f"{name}: {what} {before}, now {after}{times}")
    return lines


def main() -> int:
    """Count, and compare with what was accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accept", action="store_true", help="keep the numbers of now")
    accepts = parser.parse_args().accept
    now = {work.name: counted(work) for work in works_with_counters()}
    accepted = json.loads(ACCEPTED.read_text()) if ACCEPTED.exists() else {}
    found = differences(accepted, now)
    print("\n".join(found) or "nothing has changed")
    if accepts:
        ACCEPTED.parent.mkdir(exist_ok=True)
        ACCEPTED.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n")
    return bool(found) and not accepts


if __name__ == "__main__":
    sys.exit(main())
