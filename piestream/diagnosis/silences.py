"""How long silences would have to be for an expected match to appear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from piestream.diagnosis.changes import Proposal
from piestream.diagnosis.parts import duration_of_ticks, length_below
from piestream.diagnosis.rows import GivenRows, in_partition
from piestream.diagnosis.target import Target
from piestream.expressions.durations import Duration
from piestream.show.table import cell_text

__all__ = ["silences"]

#: So many of the longest times between two events are tried.
_MOST_LENGTHS = 8


def silences(target: Target) -> Iterator[Proposal]:
    """Times between two events that would be silences if shorter ones were, or none if longer ones were.

    No longer ones matter of a silence that may not be there.
    """
    rows = target.rows
    absent = {absence.symbol for absence in rows.query.absences}
    for number, source in enumerate(rows.query.streams):
        symbols = [symbol.name for symbol in rows.query.symbols if symbol.stream == number]
        if source.silence is None or not symbols:
            continue
        longest = rows.binding.parts[number].silence_ticks
        gaps = _gaps(rows, source.silence.of)
        if not absent.issuperset(symbols):
            shorter = gaps.filter(pl.col("gap").is_between(2, longest)).reverse()
            for since, gap in shorter.head(_MOST_LENGTHS).iter_rows():
                new = length_below(gap, rows.time)
                yield _other_length(target, number, symbols[0], since, gap, new, gap - 1)
        if absent.intersection(symbols):
            for since, gap in gaps.filter(pl.col("gap") > longest).head(_MOST_LENGTHS).iter_rows():
                new = duration_of_ticks(gap, rows.time)
                yield _other_length(target, number, symbols[0], since, gap, new, gap)


def _gaps(rows: GivenRows, stream: int) -> pl.DataFrame:
    """The times between two events of a stream, the shortest first: ``since`` and ``gap``."""
    key = rows.key_of(stream)
    assert key is not None
    frame = rows.inputs[key]
    mine = frame.filter(in_partition(frame.schema, rows.partition or {}))
    times = mine[rows.time_columns[key][0]].to_physical().cast(pl.Int64).sort()
    gaps = pl.DataFrame({"since": times, "gap": times.shift(-1) - times}).drop_nulls()
    return gaps.sort("gap", maintain_order=True).unique("gap", keep="first", maintain_order=True)


def _other_length(
    target: Target, stream: int, name: str, since: int, gap: int, new: Duration, ticks: int
) -> Proposal:
    """Another length from which on a silence is one; in ticks it is hardly more."""
    rows = target.rows
    streams = list(rows.query.streams)
    silence = streams[stream].silence
    assert silence is not None
    streams[stream] = replace(streams[stream], silence=replace(silence, longer_than=new))
    text = (
        f"{name} was {cell_text(target.length(gap))} long from {cell_text(target.time(since))} "
        f"(LONGER THAN {silence.longer_than}); with LONGER THAN {new} it matches"
    )
    longest = rows.binding.parts[stream].silence_ticks
    changed = replace(rows.query, streams=tuple(streams))
    return Proposal("silence", changed, abs(longest - ticks) / longest, text)
