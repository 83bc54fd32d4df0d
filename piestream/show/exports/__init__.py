"""Matches for other tools: traces for Perfetto, annotations for Grafana and MNE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

import polars as pl

from piestream.language.model import Query
from piestream.show.exports.grafana import grafana_annotations
from piestream.show.exports.mne import mne_annotations
from piestream.show.exports.trace import chrome_trace
from piestream.show.matches import Matches, TimeScale, read_matches

__all__ = ["EXPORTS", "ExportFormat", "check_export", "export", "is_export"]

#: What matches can be written as for other tools.
ExportFormat = Literal["trace", "grafana", "mne"]

#: The text of each format.
EXPORTS: Mapping[ExportFormat, Callable[[Matches], str]] = {
    "trace": chrome_trace,
    "grafana": grafana_annotations,
    "mne": mne_annotations,
}
assert set(EXPORTS) == set(get_args(ExportFormat))


#: Those that count seconds or parts of them, whatever a tick of the time column is.
_NEED_UNITS = ("grafana", "mne")


def is_export(format: str) -> TypeGuard[ExportFormat]:
    """Whether it is one of these formats.

    >>> is_export("trace"), is_export("csv")
    (True, False)
    """
    return format in EXPORTS


def check_export(query: Query, format: ExportFormat, time: pl.DataType) -> None:
    """ValueError if matches of a query over such a time column cannot be exported so."""
    if format in _NEED_UNITS:
        TimeScale.of(query, time).in_units(0, 1)


def export(query: Query, matches: Any, format: ExportFormat, path: str | Path | None = None) -> str:
    """See `Query.export`."""
    if format not in EXPORTS:
        raise ValueError(f"matches are exported as {', '.join(EXPORTS)}, not as {format!r}")
    text = EXPORTS[format](read_matches(query, matches))
    if path is not None:
        Path(path).write_text(text, "utf-8", newline="\n")
    return text
