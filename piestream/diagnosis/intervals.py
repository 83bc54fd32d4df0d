"""Every symbol's intervals as a frame, found by the engine that finds the matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.diagnosis.parts import COUNT, END, START, runs_of
from piestream.diagnosis.rows import Rows, read_rows
from piestream.engine.stream import Stream
from piestream.errors import SchemaError
from piestream.language.model import Query, Symbol
from piestream.language.options import BoundedOptions

__all__ = ["Bounds", "bounds_of", "intervals", "runs"]

#: The columns of the result beside those of PARTITION BY.
_COLUMNS = ("symbol", "ts", "te", "duration", "valid", "events")


def intervals(query: Query, frame: Any, options: BoundedOptions) -> Any:
    """What `Query.intervals` gives."""
    rows = read_rows(query, frame, options)
    for name in rows.keys:
        if name in _COLUMNS:
            raise SchemaError(
                f"the result has a column {name} beside that of PARTITION BY: rename {name}"
            )
    found = pl.concat([_shown(rows, symbol) for symbol in rows.query.symbols])
    return rows.same_kind(found)


def _shown(rows: Rows, symbol: Symbol) -> pl.DataFrame:
    time = rows.time
    found = runs(rows, symbol)
    ended = pl.lit(True) if rows.closes else ~pl.col("open")
    found = found.with_columns(
        bounds_of(rows, symbol).valid(rows.closes).alias("valid"),
        pl.when(ended).then("te").alias("te"),
    ).with_columns((pl.col("te") - pl.col("ts")).alias("duration"))
    return found.select(
        pl.lit(symbol.name).alias("symbol"),
        *map(pl.col, rows.keys),
        time.as_times(found["ts"]).alias("ts"),
        time.as_times(found["te"]).alias("te"),
        time.as_lengths(found["duration"]).alias("duration"),
        "valid",
        "events",
    )


def runs(rows: Rows, symbol: Symbol) -> pl.DataFrame:
    """All runs of a symbol's predicate: the keys, ``ts`` and ``te`` in ticks, ``events``, ``open``.

    The ``te`` of a run that is open at the end of the rows is where ``at_end="close"`` ends it.
    """
    query = runs_of(rows.query, symbol.name)
    stream = Stream(
        bound(query, rows.frame.schema), ties=rows.options.ties, lateness=None, closable=True
    )
    ended = [*stream.portions(stream.project(rows.frame)), *stream.last_portions("open")]
    still_open = list(stream.last_portions("close"))
    parts = [
        pl.concat([stream.no_results, *found]).with_columns(pl.lit(is_open).alias("open"))
        for found, is_open in ((ended, False), (still_open, True))
    ]
    found = pl.concat(parts).filter(pl.col("phase") == "completion")
    return found.select(
        *map(pl.col, rows.keys),
        found[f"{START}{symbol.name}"].to_physical().cast(pl.Int64).alias("ts"),
        found[f"{END}{symbol.name}"].to_physical().cast(pl.Int64).alias("te"),
        found[f"{COUNT}{symbol.name}"].alias("events"),
        "open",
    )


def bounds_of(rows: Rows, symbol: Symbol) -> Bounds:
    """The bounds of a symbol's intervals, in ticks of the rows."""
    number = [s.name for s in rows.query.symbols].index(symbol.name)
    ticks = rows.binding.compiled.ticks
    return Bounds(
        ticks.at_least[number],
        ticks.at_most[number],
        symbol.at_least_events,
        symbol.at_most_events,
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a run must keep to be an interval of its symbol; None where there is no bound.

    Time is dense: an interval that is open at t ends later than t, so it is longer than it has been.
    """

    at_least: int | None
    at_most: int | None
    fewest: int | None
    most: int | None

    def kept(self, closes: bool = False) -> dict[str, pl.Expr]:
        """Whether runs keep each bound that there is; NULL where what is to come decides.

        With ``closes``, what is open has ended at its ``te``.
        """
        is_open = pl.lit(False) if closes else pl.col("open")
        length = pl.col("te") - pl.col("ts")
        # a run of the last event alone ends one tick later if it is closed; so far it lasts 0
        length = pl.when(is_open & (pl.col("events") == 1)).then(0).otherwise(length)
        events = pl.col("events")
        found: dict[str, pl.Expr] = {}
        if self.at_least is not None:
            found["too short"] = _known(length >= self.at_least, ~is_open, pl.lit(True))
        if self.at_most is not None:
            within = (~is_open & (length <= self.at_most)) | (is_open & (length < self.at_most))
            found["too long"] = _known(within, ~is_open, pl.lit(False))
        if self.fewest is not None:
            found["too few events"] = _known(events >= self.fewest, ~is_open, pl.lit(True))
        if self.most is not None:
            found["too many events"] = _known(events <= self.most, ~is_open, pl.lit(False))
        return found

    def valid(self, closes: bool = False) -> pl.Expr:
        """Whether runs keep all bounds; NULL where what is to come decides."""
        return pl.all_horizontal(pl.lit(True), *self.kept(closes).values())


def _known(holds: pl.Expr, is_final: pl.Expr, settled: pl.Expr) -> pl.Expr:
    """What holds, where it is final or cannot change any more; else NULL."""
    return pl.when(is_final | (holds == settled)).then(holds)
