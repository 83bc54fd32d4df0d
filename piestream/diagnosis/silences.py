"""How much shorter a silence would have to be for an expected match to appear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from piestream.diagnosis.changes import Proposal
from piestream.diagnosis.parts import duration_of_ticks
from piestream.diagnosis.rows import in_partition
from piestream.diagnosis.target import Target
from piestream.expressions.durations import NANOSECONDS, Duration
from piestream.plan.columns import TimeColumn
from piestream.show.table import cell_text

__all__ = ["silences"]

#: So many of the longest times between two events are tried.
_MOST_LENGTHS = 8
#: A length of so many units is hardly another one if it is less by one.
_MANY_UNITS = 20


def silences(target: Target) -> Iterator[Proposal]:
    """Times between two events that would be silences if shorter ones were."""
    rows = target.rows
    for number, source in enumerate(rows.query.streams):
        symbols = [symbol.name for symbol in rows.query.symbols if symbol.stream == number]
        if source.silence is None or not symbols:
            continue
        key, longest = rows.key_of(source.silence.of), rows.binding.parts[number].silence_ticks
        assert key is not None
        frame = rows.inputs[key]
        mine = frame.filter(in_partition(frame.schema, rows.partition or {}))
        times = mine[rows.time_columns[key][0]].to_physical().cast(pl.Int64).sort()
        gaps = pl.DataFrame({"since": times, "gap": times.shift(-1) - times}).drop_nulls()
        shorter = gaps.filter(pl.col("gap").is_between(2, longest)).sort("gap", descending=True)
        nearest = shorter.unique("gap", keep="first", maintain_order=True)
        for since, gap in nearest.head(_MOST_LENGTHS).iter_rows():
            new = _shorter(gap, rows.time)
            streams = list(rows.query.streams)
            streams[number] = replace(source, silence=replace(source.silence, longer_than=new))
            text = (
                f"{symbols[0]} was {cell_text(target.length(gap))} long from "
                f"{cell_text(target.time(since))} (LONGER THAN {source.silence.longer_than}); "
                f"with LONGER THAN {new} it matches"
            )
            changed = replace(rows.query, streams=tuple(streams))
            yield Proposal("silence", changed, (longest - gap + 1) / longest, text)


def _shorter(gap: int, time: TimeColumn) -> Duration:
    """A length that is shorter: of a unit that is small beside it, if there is one, else by a tick."""
    tick = time.nanoseconds_per_tick
    if tick is not None:
        length = gap * tick
        units = (n for n in NANOSECONDS.values() if n % tick == 0 and length // n >= _MANY_UNITS)
        unit = max(units, default=tick)
        return Duration((length - 1) // unit * unit)
    return duration_of_ticks(gap - 1, time)
