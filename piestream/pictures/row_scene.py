"""The time line of a row pattern: a lane for each variable, with the rows of matches that are of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl

from piestream.diagnosis.row_parts import MATCH, VARIABLE
from piestream.diagnosis.row_patterns import known_times, row_stretches
from piestream.diagnosis.rows import GivenRows
from piestream.expressions.columns import columns_named
from piestream.pictures.scene import MOST_ROWS, Bar, Clock
from piestream.show.exports.lanes import lanes_of
from piestream.show.matches import Match, MatchInterval
from piestream.show.table import cell_text

__all__ = ["matches_of_rows", "row_bars", "row_matches"]


def matches_of_rows(rows: GivenRows) -> pl.DataFrame:
    """A row for each match, with the columns of PARTITION BY."""
    return row_stretches(rows).select(*rows.keys, MATCH).unique(maintain_order=True)


def row_matches(rows: GivenRows) -> tuple[Match, ...]:
    """The matches in rows, whose intervals are the stretches of their variables."""
    of = [*rows.keys, MATCH]
    stretches: dict[tuple[Any, ...], list[MatchInterval]] = defaultdict(list)
    found = row_stretches(rows)
    which = found.select(columns_named(of)).rows()
    for match, row in zip(which, found.select(VARIABLE, "ts", "te").rows(), strict=True):
        stretches[match].append(MatchInterval(*row))
    known = known_times(rows)
    return tuple(
        Match(match[:-1], time, tuple(stretches[match]), {"match": match[-1]})
        for match, time in zip(
            known.select(columns_named(of)).rows(), known["known"].to_list(), strict=True
        )
    )


def row_bars(rows: GivenRows, clock: Clock, latest: int) -> tuple[Bar, ...]:
    """The stretches of a partition; those of a variable that overlap, of several matches, get lanes."""
    found = row_stretches(rows)
    variables, starts, ends = (found[name].to_list() for name in (VARIABLE, "ts", "te"))
    shown = [
        max(latest, start) if end is None else end for start, end in zip(starts, ends, strict=True)
    ]
    lanes = np.zeros(len(found), np.int64)
    for name in set(variables):
        own = [number for number, variable in enumerate(variables) if variable == name]
        lanes[own] = lanes_of([(starts[number], shown[number]) for number in own])
    lengths = rows.time.as_lengths(found["te"] - found["ts"]).to_list()
    return tuple(
        Bar(
            symbol=variables[number],
            start=start,
            end=end,
            state="in a match",
            is_open=ends[number] is None,
            length="open" if ends[number] is None else cell_text(lengths[number]),
            events=events,
            matches=1,
            row=min(int(lanes[number]), MOST_ROWS - 1),
        )
        for number, (start, end, events) in enumerate(
            zip(clock.numbers(starts), clock.numbers(shown), found["events"], strict=True)
        )
    )
