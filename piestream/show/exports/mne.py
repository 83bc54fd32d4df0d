"""Matches as annotations of MNE-Python: the text that ``mne.read_annotations`` reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from piestream.adapters.terminal import printable
from piestream.expressions.durations import NANOSECONDS
from piestream.show.matches import Matches, key_text

__all__ = ["mne_annotations"]

#: What would end a field, a row or the text before it in this format, and what stands for it.
_REPLACED = str.maketrans({",": ";", "#": "no.", "\n": " ", "\r": " ", "\t": " ", "/": "|"})


def mne_annotations(found: Matches) -> str:
    """An annotation for each match and for each interval of one, in order of their onsets.

    Descriptions are tags in MNE's manner: ``match/7`` and ``a/7`` for partition 7. Onsets are seconds
    since ``orig_time``, the first of them, if the time column has dates; else since its zero.

    >>> import piestream as ps
    >>> query = ps.query("FROM eeg ORDER BY t UNIT ms DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> print(query.export(query.run([{"t": 1500, "x": 5}, {"t": 1600, "x": 0}]), "mne"), end="")
    # MNE-Annotations
    # onset, duration, description
    1.5, 0, match
    1.5, 0, a
    """
    intervals: dict[tuple[int, int, str], int] = {}  # start, place, description: its end
    rows: list[tuple[int, int, str, int]] = []
    for match in found.matches:
        tags = "".join(f"/{_tag(key_text(value))}" for value in match.partition)
        rows.append((match.start, 0, f"match{tags}", match.end))
        for place, interval in enumerate(match.intervals, 1):
            key = (interval.start, place, f"{_tag(interval.symbol)}{tags}")
            intervals[key] = match.known_end(interval)  # the last match knows most of it
    rows += [(*key, end) for key, end in intervals.items()]
    rows.sort()
    lines = ["# MNE-Annotations"]
    origin = 0
    if rows and not found.scale.dtype.is_integer():
        origin = rows[0][0]
        lines.append(f"# orig_time : {_utc(found, origin)}")
    lines.append("# onset, duration, description")
    for start, _, description, end in rows:
        lines.append(
            f"{_seconds(found, start - origin)}, {_seconds(found, end - start)}, {description}"
        )
    return "\n".join(lines) + "\n"


def _tag(text: str) -> str:
    """A part of a description: without what the format or a tag gives a meaning.

    MNE reads this format as ASCII; other characters are written out.
    """
    plain = printable(text.translate(_REPLACED)).strip()
    return plain.encode("ascii", "backslashreplace").decode() or "_"


def _seconds(found: Matches, ticks: int) -> str:
    seconds = found.scale.in_units(ticks, NANOSECONDS["s"])
    return f"{seconds:.9f}".rstrip("0").rstrip(".")


def _utc(found: Matches, ticks: int) -> str:
    """A time as MNE reads it: to the microsecond, in UTC."""
    microseconds = int(found.scale.in_units(ticks, NANOSECONDS["us"]))
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")
