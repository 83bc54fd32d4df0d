"""A status: the one record from which terminals, Prometheus and files are told how a stream goes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from piestream.monitoring.measures import MEASURES
from piestream.monitoring.prometheus import exposition
from piestream.monitoring.text import status_text

__all__ = ["STALE_SECONDS", "VERSION", "Condition", "Instant", "Status"]

#: Of the file's format: a status of another version is refused.
VERSION = 1
#: A status that has not been written for so long is not that of a process that is well.
STALE_SECONDS = 5.0

Condition = Literal["running", "closed", "failed"]


@dataclass(frozen=True, slots=True)
class Instant:
    """A time of the stream: as it is written, and in seconds since 1970, or as an integer."""

    text: str
    seconds: float | None = None  # of a time column of moments
    number: int | None = None  # of one of integers


@dataclass(frozen=True)
class Status:
    """How a session or a job goes: what it has processed, what it holds, how far it has come.

    ``print`` it, or take its ``numbers``, which are those of `Statistics`, and its ``rates`` a second
    over the latest moments. ``watermark`` and ``latest`` are times of the stream, ``started``,
    ``measured`` (when the numbers were taken) and ``updated`` are times of the machine, in seconds
    since 1970. ``last_matches`` are the latest result rows.

    >>> import piestream as ps
    >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
    >>> matches = session.push([{"t": 1, "x": 5}, {"t": 2, "x": 0}])
    >>> status = ps.status(session)
    >>> status.numbers["events"], status.watermark.text
    (2, '2')
    >>> print(status.prometheus().splitlines()[2])
    piestream_events_total{name="s",kind="session"} 2
    """

    name: str
    kind: str
    condition: Condition
    query: str
    numbers: Mapping[str, float]
    updated: float
    measured: float
    process: int
    rates: Mapping[str, float] = field(default_factory=dict)
    watermark: Instant | None = None
    latest: Instant | None = None
    started: float | None = None
    last_matches: tuple[Mapping[str, Any], ...] = ()
    fault: str | None = None  # why it has failed

    def __str__(self) -> str:
        return status_text(self, time.time())

    def prometheus(self) -> str:
        """The numbers in the text format of Prometheus.

        >>> import piestream as ps
        >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
        >>> print(ps.status(session).prometheus().splitlines()[1])
        # TYPE piestream_events_total counter
        """
        return exposition([self], time.time())

    def json(self) -> str:
        """All of it as one line of JSON, which is what a published status is.

        >>> import piestream as ps
        >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
        >>> ps.status(session).json()[:39]
        '{"piestream_status": 1, "name": "s", "k'
        """
        return json.dumps({"piestream_status": VERSION, **asdict(self)}, allow_nan=False)

    def age(self, now: float) -> float:
        """How many seconds ago it was written."""
        return max(now - self.updated, 0.0)

    def is_stale(self, now: float) -> bool:
        """Whether it says that it is running, but has not been written for too long."""
        return self.condition == "running" and self.age(now) > STALE_SECONDS

    @classmethod
    def of_json(cls, text: str | bytes) -> Status:
        """What `json` has written; ValueError for anything else.

        >>> Status.of_json("{}")
        Traceback (most recent call last):
        ValueError: this is no status of piestream
        """
        try:
            given = json.loads(text)
            version = given.pop("piestream_status")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError("this is no status of piestream") from None
        if version != VERSION:
            raise ValueError(
                f"this is a status of format {version!r}; this piestream reads format {VERSION}"
            )
        try:
            return cls(**_checked(given))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise ValueError("this status of piestream is damaged") from None


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a status, each of the type that it has; errors of any kind where not."""
    for name in ("name", "kind", "query"):
        _require(isinstance(given[name], str))
    _require(given["condition"] in get_args(Condition))
    _require(given["fault"] is None or isinstance(given["fault"], str))
    _require(type(given["process"]) is int)
    for name in ("updated", "measured"):
        given[name] = _number(given[name])
    if given["started"] is not None:
        given["started"] = _number(given["started"])
    known = {measure.name for measure in MEASURES}
    for name in ("numbers", "rates"):
        given[name] = {str(k): _number(v) for k, v in given[name].items() if k in known}
    for name in ("watermark", "latest"):
        if given[name] is not None:
            given[name] = _instant(**given[name])
    given["last_matches"] = tuple(dict(match) for match in given["last_matches"])
    return given


def _instant(text: Any, seconds: Any, number: Any) -> Instant:
    _require(isinstance(text, str) and (number is None or type(number) is int))
    return Instant(text, None if seconds is None else float(_number(seconds)), number)


def _number(value: Any) -> float:
    """A number, and no truth value or text; an int stays one."""
    _require(type(value) in (int, float) and math.isfinite(value))
    return value  # type: ignore[no-any-return]


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError
