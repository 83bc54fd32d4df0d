"""Statuses in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from piestream.monitoring.measures import MEASURES

if TYPE_CHECKING:
    from piestream.monitoring.status import Instant, Status

__all__ = ["CONTENT_TYPE", "exposition"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(statuses: Sequence[Status], now: float) -> str:
    """The numbers of statuses, each metric once with a sample for each status that has it."""
    lines: list[str] = []
    for name, kind, help, value_of in _metrics(now):
        samples = [(status, value_of(status)) for status in statuses]
        known = [(status, value) for status, value in samples if value is not None]
        if known:
            lines.append(f"# HELP {name} {_help_text(help)}")
            lines.append(f"# TYPE {name} {kind}")
            lines += [f"{name}{{{_labels(status)}}} {value!r}" for status, value in known]
    return "".join(f"{line}\n" for line in lines)


_Metric = tuple[str, str, str, "Callable[[Status], float | None]"]


def _metrics(now: float) -> Iterator[_Metric]:
    """Name, type and meaning of each metric, and what its value is in a status."""

    def number_of(name: str) -> Callable[[Status], float | None]:
        return lambda status: status.numbers.get(name)

    for measure in MEASURES:
        kind = "counter" if measure.is_counter else "gauge"
        yield measure.full_name, kind, measure.help, number_of(measure.name)
    for name, what in (
        ("watermark", "The time that the stream has passed"),
        ("latest", "The largest time seen"),
    ):
        yield (f"piestream_{name}_timestamp_seconds", "gauge", f"{what}, in seconds since 1970.",
               _instant_of(name, "seconds"))  # fmt: skip
        yield (f"piestream_{name}_ticks", "gauge", f"{what}, of an integer time column.",
               _instant_of(name, "number"))  # fmt: skip
    yield ("piestream_start_timestamp_seconds", "gauge", "When it was started.",
           lambda status: status.started)  # fmt: skip
    yield ("piestream_update_timestamp_seconds", "gauge", "When it last told its status.",
           lambda status: status.updated)  # fmt: skip
    yield (
        "piestream_up", "gauge", "1 while it is running and has told its status in the last seconds.",
        lambda status: int(status.condition == "running" and not status.is_stale(now)),
    )  # fmt: skip


def _instant_of(name: str, part: str) -> Callable[[Status], float | None]:
    def value(status: Status) -> float | None:
        instant: Instant | None = getattr(status, name)
        return None if instant is None else getattr(instant, part)

    return value


def _labels(status: Status) -> str:
    return f'name="{_label_text(status.name)}",kind="{_label_text(status.kind)}"'


def _label_text(value: str) -> str:
    r"""A value between quotes.

    >>> print(_label_text('a "b"\n\\'))
    a \"b\"\n\\
    """
    known = value.encode("utf-8", "backslashreplace").decode()
    return known.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _help_text(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
