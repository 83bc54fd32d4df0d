"""A status as people read it: a few lines, or one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from piestream.adapters.terminal import printable

if TYPE_CHECKING:
    from piestream.monitoring.status import Instant, Status

__all__ = ["duration_text", "status_line", "status_text"]

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))
_SIZES = (("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def status_text(status: Status, now: float) -> str:
    """A status in a few lines."""
    return "\n".join(_plain(line) for line in _lines(status, now))


def status_line(status: Status, now: float) -> str:
    """A status in one line."""
    parts = [
        f"{status.name}: {_condition(status, now)}",
        *(
            f"{_count(status, name)} {one if status.numbers.get(name) == 1 else name}{_rate(status, name)}"
            for one, name in (("event", "events"), ("match", "matches"))
        ),
    ]
    if status.watermark is not None:
        parts.append(f"watermark {_watermark(status.watermark, now)}")
    parts += [*_state(status), *_left_out(status)]
    return _plain(", ".join(parts))


def _lines(status: Status, now: float) -> Iterator[str]:
    process = f", process {status.process}" * (status.condition == "running")
    yield f"{status.name}: {_condition(status, now)} ({status.kind}{process})"
    for name in ("events", "matches"):
        yield f"  {name:<13} {_count(status, name)}{_rate(status, name)}"
    if status.watermark is not None:
        yield f"  watermark     {_watermark(status.watermark, now)}"
    if status.latest is not None:
        yield f"  latest event  {status.latest.text}"
    yield f"  state         {', '.join(_state(status)) or 'nothing'}"
    yield f"  left out      {', '.join(_left_out(status)) or 'nothing'}"
    if status.numbers.get("incomplete"):
        yield f"  incomplete    {_count(status, 'incomplete')} rows, whose intervals are open at the end"
    for number, match in enumerate(reversed(status.last_matches)):
        row = " ".join(f"{name}={_value(value)}" for name, value in match.items())
        yield f"  {'' if number else 'last matches':<13} {row}"


def _condition(status: Status, now: float) -> str:
    if status.is_stale(now):
        return f"not updated for {duration_text(status.age(now))}"
    text: str = status.condition
    if status.condition == "running":
        if status.started is not None:
            text += f" for {duration_text(status.updated - status.started)}"
        behind = status.updated - status.measured
        if behind >= 2:
            text += f", busy: these numbers are {duration_text(behind)} old"
    if status.fault is not None:
        text += f": {status.fault}"
    return text


def _count(status: Status, name: str) -> str:
    return f"{round(status.numbers.get(name, 0)):,}"


def _rate(status: Status, name: str) -> str:
    rate = status.rates.get(name)
    if rate is None or status.condition != "running":
        return ""
    return f" ({rate:,.0f}/s)" if rate >= 10 else f" ({rate:.2g}/s)"


def _watermark(watermark: Instant, now: float) -> str:
    if watermark.seconds is None:
        return watermark.text
    behind = now - watermark.seconds
    relation = "behind" if behind >= 0 else "ahead of"
    return f"{watermark.text} ({duration_text(abs(behind))} {relation} the clock)"


def _state(status: Status) -> Iterator[str]:
    numbers = status.numbers
    for name, one, many in (
        ("live_intervals", "live interval", "live intervals"),
        ("partitions", "partition", "partitions"),
    ):
        if name in numbers:
            yield f"{_count(status, name)} {one if numbers[name] == 1 else many}"
    if "state_bytes" in numbers:
        yield _size_text(numbers["state_bytes"])
    if numbers.get("waiting"):
        yield f"{_count(status, 'waiting')} waiting"


def _left_out(status: Status) -> Iterator[str]:
    for name, what in (("late", "late"), ("ties", "ties"), ("left_out", "by WHERE")):
        if name in status.numbers and (name != "left_out" or status.numbers[name]):
            yield f"{_count(status, name)} {what}"


def _size_text(size: float) -> str:
    for unit, factor in _SIZES:
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} bytes"


def _value(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _plain(line: str) -> str:
    """A line without what a terminal would obey, or what would end it."""
    return printable(line).replace("\n", "\\n").replace("\t", "\\t")


def duration_text(seconds: float) -> str:
    """How long something takes, by its two largest units.

    >>> duration_text(0.4), duration_text(12.3), duration_text(3700)
    ('0s', '12s', '1h 1m')
    """
    left = int(seconds)
    parts: list[str] = []
    for unit, length in _UNITS:
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join([*parts, f"{left}s"][:2])
