"""Every symbol's intervals as a frame, found by the engine that finds the matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.parts import (
    COUNT,
    END,
    END_INSTANT,
    ID,
    REPORT_INSTANT,
    START,
    START_INSTANT,
    ready_made,
    runs_of,
    without_bridge,
)
from piestream.diagnosis.row_patterns import shown_stretches
from piestream.diagnosis.rows import GivenRows, joined_by
from piestream.errors import SchemaError
from piestream.expressions.columns import column_named
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.language.parts import Symbol

__all__ = ["Bounds", "all_runs", "bounds_of", "intervals", "intervals_of", "runs", "unbridged"]

#: Columns of tables that nobody sees; no column of a user's is called so.
_OPEN, _BEGUN, _ENDED = "is open", "rows that began", "rows that ended"
_LAST, _HOLDS = "last end", "still holds"
#: The columns of the result beside those of PARTITION BY.
_COLUMNS = ("symbol", "ts", "te", "duration", "valid", "events")


def intervals(query: Query, frame: Any, options: BoundedOptions) -> Any:
    """What `Query.intervals` gives."""
    rows = read_given(query, frame, options)
    return rows.same_kind(intervals_of(rows))


def intervals_of(rows: GivenRows, keys: Sequence[str] | None = None) -> pl.DataFrame:
    """Every symbol's intervals in rows; the columns of PARTITION BY may get other names."""
    keys = rows.keys if keys is None else keys
    for name in keys:
        if name in _COLUMNS:
            raise SchemaError(
                f"the result has a column {name} beside that of PARTITION BY: rename {name}"
            )
    if rows.query.rows is not None:
        return shown_stretches(rows, keys)
    tables = all_runs(rows)
    return pl.concat([_shown(rows, s, tables[s.name], keys) for s in rows.query.symbols])


def _shown(
    rows: GivenRows, symbol: Symbol, found: pl.DataFrame, keys: Sequence[str]
) -> pl.DataFrame:
    time = rows.time
    closes = rows.closes
    ended = pl.lit(True) if closes else ~pl.col("open")
    found = found.with_columns(
        bounds_of(rows, symbol).valid(closes).alias("valid"),
        pl.when(ended).then("te").alias("te"),
    ).with_columns((pl.col("te") - pl.col("ts")).alias("duration"))
    return found.select(
        pl.lit(symbol.name).alias("symbol"),
        *(column_named(key).alias(name) for key, name in zip(rows.keys, keys, strict=True)),
        time.as_times(found["ts"]).alias("ts"),
        time.as_times(found["te"]).alias("te"),
        time.as_lengths(found["duration"]).alias("duration"),
        "valid",
        "events",
    )


def all_runs(rows: GivenRows) -> dict[str, pl.DataFrame]:
    """The `runs` of each symbol.

    Where several streams are read, the end of a silence that ends a run of one is an instant of its
    partition, up to which those of the others are open at least; and so is one at which a silence
    becomes known.
    """
    found = {symbol.name: runs(rows, symbol) for symbol in rows.query.symbols}
    lasts = pl.col("open") & ~pl.col("interrupted")
    if rows.query.is_sequenced:
        ends = pl.concat([table.select(*rows.keys, "end") for table in found.values()])
        found = {name: _open_to_last(rows, table, ends) for name, table in found.items()}
    instants = list(_deadlines(rows, found))
    if any(stream.max_gap for stream in rows.query.streams) and rows.query.is_combined:
        of_events = [t for n, t in found.items() if not rows.query.stream_of(n).is_ready_made]
        instants += [t.filter(~lasts).select(*rows.keys, "te") for t in of_events]
    if not instants:
        return found
    ends = pl.concat(instants)
    known = {name: joined_by(table, ends, rows.keys, _LAST) for name, table in found.items()}
    so_far = pl.when(lasts).then(pl.max_horizontal("te", _LAST)).otherwise("te")
    shown = (
        [so_far.alias("te")]
        if rows.query.is_sequenced
        else [so_far.alias("te"), so_far.alias("end")]
    )
    return {name: table.with_columns(shown).drop(_LAST) for name, table in known.items()}


def _open_to_last(rows: GivenRows, table: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Runs of which those that are open are so up to the last instant of all in their partition."""
    lasts = pl.col("open") & ~pl.col("interrupted")
    end = pl.when(lasts).then(pl.max_horizontal("end", _LAST)).otherwise("end")
    together = joined_by(table, ends.rename({"end": "te"}), rows.keys, _LAST)
    return together.with_columns(end.alias("end")).drop(_LAST)


def _deadlines(rows: GivenRows, found: dict[str, pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """The instants at which silences become known, as ``te``."""
    for name, table in found.items():
        part = rows.query.symbol(name).stream
        if rows.query.streams[part].silence is not None:
            known = pl.col("ts") + rows.binding.parts[part].silence_ticks
            yield table.select(*rows.keys, known.alias("te"))


def runs(rows: GivenRows, symbol: Symbol) -> pl.DataFrame:
    """All runs of a symbol's predicate: the keys, ``ts`` and ``te`` in ticks, ``events``, ``open``.

    ``start`` and ``end`` are what is compared: the same, or numbers where events have one time.
    ``known`` is such an instant, too: that at which it is known, and reported, that it has ended; its
    time is ``known_at``.
    Of rows that have an ID, there is that too: ``id``. The ``te`` of a run that is open at the end of
    the rows is where ``at_end="close"`` ends it. With BRIDGING it may be ``interrupted``: it has ended
    there, or goes on.
    """
    if rows.query.stream_of(symbol.name).is_ready_made:
        return _ready_made(rows, symbol)
    found = _runs_alone(rows, runs_of(rows.query, symbol.name), symbol)
    if symbol.bridging is None:
        return found
    holding = unbridged(rows, symbol).filter("open")
    if rows.keys:
        holding = holding.select(rows.keys).with_columns(pl.lit(True).alias(_HOLDS))
        found = found.join(
            holding, on=rows.keys, how="left", nulls_equal=True, maintain_order="left"
        )
    else:
        found = found.with_columns(pl.lit(len(holding) > 0).alias(_HOLDS))
    has_ceased = ~pl.col(_HOLDS).fill_null(False)
    return found.with_columns((pl.col("open") & has_ceased).alias("interrupted")).drop(_HOLDS)


def unbridged(rows: GivenRows, symbol: Symbol) -> pl.DataFrame:
    """All runs of a symbol's predicate, without BRIDGING, with the columns of `runs`."""
    return _runs_alone(rows, runs_of(without_bridge(rows.query, symbol.name), symbol.name), symbol)


def _runs_alone(rows: GivenRows, query: Query, symbol: Symbol) -> pl.DataFrame:
    """What a query of `runs_of` gives: what has ended, and what is open at the end of the rows."""
    ended, still_open = rows.ends(query)
    parts = [
        found.filter(pl.col("phase") == "completion").with_columns(pl.lit(is_open).alias(_OPEN))
        for found, is_open in ((ended, False), (still_open, True))
    ]
    return _as_runs(rows, symbol, pl.concat(parts), pl.col(f"{COUNT}{symbol.name}"))


def _as_runs(rows: GivenRows, symbol: Symbol, found: pl.DataFrame, events: pl.Expr) -> pl.DataFrame:
    ids = [name for name in (f"{ID}{symbol.name}",) if name in found.columns]
    start, end, start_instant, end_instant, known = _columns(rows, symbol.name)
    shown = {
        "ts": start,
        "te": end,
        "start": start_instant,
        "end": end_instant,
        "known": known,
        "known_at": "detected_at",
    }
    return found.select(
        *map(pl.col, rows.keys),
        *(pl.col(name).to_physical().cast(pl.Int64).alias(to) for to, name in shown.items()),
        events.alias("events"),
        pl.col(_OPEN).alias("open"),
        pl.lit(False).alias("interrupted"),
        *(pl.col(name).alias("id") for name in ids),
    )


def _columns(rows: GivenRows, name: str) -> tuple[str, str, str, str, str]:
    """The columns of a symbol's start and end, of the instants of both, and of that of the report."""
    start, end = f"{START}{name}", f"{END}{name}"
    if rows.query.is_sequenced:
        return start, end, f"{START_INSTANT}{name}", f"{END_INSTANT}{name}", REPORT_INSTANT
    return start, end, start, end, "detected_at"


def _ready_made(rows: GivenRows, symbol: Symbol) -> pl.DataFrame:
    """The intervals of a symbol that come as rows, or as matches of another query.

    What has begun is open as long as no row has told its end. Where ``at_end`` closes what is open, other
    queries' matches that end with the rows are there too.
    """
    ended, closed = rows.ends(ready_made(rows.query, symbol.name, rows.time))
    is_silence = rows.query.stream_of(symbol.name).silence is not None
    found = pl.concat([ended, closed]) if rows.closes and not is_silence else ended
    start, end, start_instant, end_instant, known = _columns(rows, symbol.name)
    same = (start, start_instant, f"{ID}{symbol.name}")
    by = [*rows.keys, *dict.fromkeys(name for name in same if name in found.columns)]
    shown = [*by, *dict.fromkeys((end, end_instant, known, "detected_at"))]
    begun, told = (found.filter(pl.col("phase") == phase) for phase in ("trigger", "completion"))
    unended = (
        begun.group_by(by, maintain_order=True)
        .agg(pl.len().alias(_BEGUN))
        .join(
            told.group_by(by).agg(pl.len().alias(_ENDED)),
            on=by, how="left", nulls_equal=True, maintain_order="left",
        )
    )  # fmt: skip
    rest = unended.filter(pl.col(_BEGUN) > pl.col(_ENDED).fill_null(0))
    counts = (rest[_BEGUN] - rest[_ENDED].fill_null(0)).to_list()
    rows_of = [row for row, count in enumerate(counts) for _ in range(count)]
    still_open = rows.with_last_times(rest.select(by)[rows_of], end)
    if is_silence:  # it ends where it becomes known, if no other instant of its partition is later
        still_open = closed.filter(phase="completion").select(shown)
    tables = (told.select(shown), False), (still_open, True)
    together = [table.with_columns(pl.lit(is_open).alias(_OPEN)) for table, is_open in tables]
    ordered = pl.concat(together, how="diagonal").sort(*rows.keys, start, end, maintain_order=True)
    return _as_runs(rows, symbol, ordered, pl.lit(None, dtype=pl.Int64))


def bounds_of(rows: GivenRows, symbol: Symbol) -> Bounds:
    """The bounds of a symbol's intervals, in ticks of the rows."""
    number = [s.name for s in rows.query.symbols].index(symbol.name)
    ticks = rows.binding.compiled.ticks
    return Bounds(
        ticks.at_least[number],
        ticks.at_most[number],
        symbol.at_least_events,
        symbol.at_most_events,
        rows.query.is_sequenced,
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a run must keep to be an interval of its symbol; None where there is no bound.

    Time is dense: an interval that is open at t ends later than t, so it is longer than it has been;
    unless it is interrupted, and may have ended, or events may have one time.
    """

    at_least: int | None
    at_most: int | None
    fewest: int | None
    most: int | None
    has_equal_times: bool = False

    def kept(self, closes: bool = False) -> dict[str, pl.Expr]:
        """Whether runs keep each bound that there is; NULL where what is to come decides.

        With ``closes``, what is open has ended at its ``te``.
        """
        is_open = pl.lit(False) if closes else pl.col("open")
        lasts = is_open & ~pl.col("interrupted")
        length = pl.col("te") - pl.col("ts")
        # a run of the last event alone ends one tick later if it is closed; so far it lasts 0
        last_alone = lasts & (pl.col("events") == 1) & (length <= 1)
        length = pl.when(last_alone).then(0).otherwise(length)
        events = pl.col("events")
        found: dict[str, pl.Expr] = {}
        if self.at_least is not None:
            found["too short"] = _known(length >= self.at_least, ~is_open, pl.lit(True))
        if self.at_most is not None:
            longest = self.at_most - (0 if self.has_equal_times else 1)
            within = (~lasts & (length <= self.at_most)) | (lasts & (length <= longest))
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
