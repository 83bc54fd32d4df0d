"""Matches as a trace in Chrome's format, which Perfetto opens (https://ui.perfetto.dev).

A partition is a process; a symbol is a thread of it, and so are the matches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from piestream.show.exports.lanes import lanes_of
from piestream.show.matches import Match, Matches, lanes

__all__ = ["chrome_trace"]

#: The format counts microseconds; a tick of a time column without a unit is shown as one.
_UNIT = 1_000


def chrome_trace(found: Matches) -> str:
    """The matches as JSON of trace events.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> text = query.export(query.run([{"t": 1, "x": 5}, {"t": 3, "x": 0}]), "trace")
    >>> [event["name"] for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]
    ['match 1', 'a']
    """
    partitions: dict[tuple[Any, ...], list[tuple[int, Match]]] = {}
    for number, match in enumerate(found.matches, 1):
        partitions.setdefault(match.partition, []).append((number, match))
    events: list[dict[str, Any]] = []
    for process, (partition, matches) in enumerate(partitions.items(), 1):
        title = found.partition_text(partition) or _title(found)
        events.append(_name("process_name", process, 0, title))
        events += _events(found, process, matches)
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _about(found)}
    return json.dumps(trace, allow_nan=False) + "\n"


def _title(found: Matches) -> str:
    return found.query.streams[0].name or "matches"


def _about(found: Matches) -> dict[str, str]:
    about = {"query": str(found.query)}
    if found.scale.nanoseconds_per_tick is None:
        about["time"] = "a tick of the time column is shown as a microsecond"
    return about


def _events(
    found: Matches, process: int, matches: list[tuple[int, Match]]
) -> Iterator[dict[str, Any]]:
    """The threads of a partition: the matches first, then the symbols in order of DEFINE."""
    threads = _Threads(found, process)
    yield from threads.bars(
        "matches",
        [
            (m.start, m.end, f"match {number}", {name: m.text(name) for name in m.row})
            for number, m in matches
        ],
    )
    for name in lanes(found.query):
        seen: dict[
            int, tuple[int, bool]
        ] = {}  # an interval is in many matches; the last knows most
        in_matches: dict[int, list[int]] = {}
        for number, match in matches:
            for interval in match.intervals:
                if interval.symbol == name:
                    seen[interval.start] = (match.known_end(interval), interval.end is None)
                    in_matches.setdefault(interval.start, []).append(number)
        yield from threads.bars(
            name,
            [
                (start, end, name, _interval(is_open, in_matches[start]))
                for start, (end, is_open) in seen.items()
            ],
        )


def _interval(is_open: bool, numbers: list[int]) -> dict[str, Any]:
    state = {"end": "not known at the report"} if is_open else {}
    return {"matches": ", ".join(map(str, numbers)), **state}


class _Threads:
    """Gives out the threads of a process; bars that overlap are shared out to several."""

    def __init__(self, found: Matches, process: int) -> None:
        self._found = found
        self._process = process
        self._taken = 0

    def bars(
        self, name: str, bars: list[tuple[int, int, str, dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        lanes = lanes_of([(start, end) for start, end, _, _ in bars])
        first = self._taken + 1
        self._taken += max(lanes) + 1
        for lane in range(max(lanes) + 1):
            title = name if lane == 0 else f"{name} ({lane + 1})"
            yield _name("thread_name", self._process, first + lane, title)
            yield {
                "ph": "M",
                "name": "thread_sort_index",
                "pid": self._process,
                "tid": first + lane,
                "args": {"sort_index": first + lane},
            }
        for (start, end, title, more), lane in zip(bars, lanes, strict=True):
            yield {
                "ph": "X",
                "name": title,
                "cat": name,
                "pid": self._process,
                "tid": first + lane,
                "ts": self._microseconds(start),
                "dur": self._microseconds(end - start),
                "args": more,
            }

    def _microseconds(self, ticks: int) -> float | int:
        scale = self._found.scale
        return ticks if scale.nanoseconds_per_tick is None else scale.in_units(ticks, _UNIT)


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
