"""The funnel: how many events, intervals, pairs, partial matches and matches there are, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from piestream.diagnosis.conditions import FILTERS
from piestream.diagnosis.counting import MOST, Count, count, some_matches
from piestream.diagnosis.diagnosis import Diagnosis, FilterLoss, Step, SymbolCounts
from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.intervals import all_runs, bounds_of
from piestream.diagnosis.pairs import Pairs, pairs_of, without_same_rows
from piestream.diagnosis.parts import (
    START,
    endpoints,
    forever,
    restricted,
    with_window,
    without_limits,
)
from piestream.diagnosis.row_patterns import diagnose_row_pattern
from piestream.diagnosis.rows import GivenRows
from piestream.diagnosis.values import values_text
from piestream.language.distances import Distance
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.language.parts import Constraint, Emit, Symbol
from piestream.language.windows import NO_WINDOW, all_windows
from piestream.plan.join_order import Step as JoinStep
from piestream.relations import Relation, relations_ordered
from piestream.show.table import cell_text

__all__ = ["diagnose", "diagnose_rows"]

#: The end of what is open: after all others.
_LATEST = 1 << 62

_QUANTILES = {"shortest": 0.0, "p10": 0.1, "median": 0.5, "p90": 0.9, "longest": 1.0}


def diagnose(query: Query, frame: Any, options: BoundedOptions) -> Diagnosis:
    """What `Query.diagnose` gives."""
    return diagnose_rows(read_given(query, frame, options))


def diagnose_rows(rows: GivenRows) -> Diagnosis:
    """The funnel of a query in rows."""
    query = rows.query
    if query.rows is not None:
        return diagnose_row_pattern(rows)
    every = all_runs(rows)
    found = {symbol.name: _table(rows, symbol, every[symbol.name]) for symbol in query.symbols}
    tables = _numbered(found, rows.keys)
    extent = rows.extent
    filters = tuple(_filters(rows))
    return Diagnosis(
        query=query,
        streams=extent.rows,
        partitions=extent.partitions,
        first=extent.first,
        last=extent.last,
        symbols=tuple(_counts(rows, s, found[s.name]) for s in query.symbols),
        pairs=tuple(_pairs(rows, tables)),
        steps=tuple(_steps(rows)),
        filters=filters,
        matches=filters[-1].left,
    )


def _table(rows: GivenRows, symbol: Symbol, found: pl.DataFrame) -> pl.DataFrame:
    """The runs of a symbol, which of them are valid, and which bounds the others do not keep."""
    bounds, closes = bounds_of(rows, symbol), rows.closes
    found = found.with_columns(
        bounds.valid(closes).alias("valid"),
        *(kept.alias(fault) for fault, kept in bounds.kept(closes).items()),
    )
    if closes:
        return found.with_columns(pl.lit(False).alias("open"))
    return found.with_columns(
        pl.when("open").then(_LATEST).otherwise(end).alias(end) for end in ("te", "end")
    )


def _numbered(found: dict[str, pl.DataFrame], keys: list[str]) -> dict[str, pl.DataFrame]:
    """The tables of all symbols, with a number of the partition in place of its keys."""
    columns = ["ts", "te", "start", "end", "open", "valid"]
    if not keys:
        number = pl.lit(0).alias("partition")
        return {name: table.select(number, *columns) for name, table in found.items()}
    known = pl.concat([table.select(keys) for table in found.values()]).unique(maintain_order=True)
    known = known.with_row_index("partition")
    return {
        name: table.join(known, on=keys, nulls_equal=True, maintain_order="left").select(
            "partition", *columns
        )
        for name, table in found.items()
    }


def _counts(rows: GivenRows, symbol: Symbol, table: pl.DataFrame) -> SymbolCounts:
    frame = rows.frame_of(symbol)
    ended = table.filter(~pl.col("open"))
    lengths = (ended["te"] - ended["ts"]).alias("length")
    quantiles = [lengths.quantile(at, "nearest") for at in _QUANTILES.values()]
    of = rows.time.as_lengths(
        pl.Series([None if q is None else int(q) for q in quantiles], dtype=pl.Int64)
    )
    return SymbolCounts(
        symbol=symbol,
        runs=len(table),
        valid=int(table["valid"].sum()),
        faults={
            fault: len(table.filter(pl.col(fault).eq(False)))
            for fault in bounds_of(rows, symbol).kept(rows.closes)
        },
        still_open=int(table["open"].sum()),
        lengths=dict(zip(_QUANTILES, of.to_list(), strict=True)),
        values="" if len(table) or frame is None else values_text(frame, symbol.predicate.columns),
    )


def _pairs(rows: GivenRows, tables: dict[str, pl.DataFrame]) -> Iterator[Pairs]:
    kept = rows.binding.compiled.ticks.kept
    windows = {
        symbol.name: _LATEST >> 1 if one.after_end else min(one.length, _LATEST >> 1)
        for symbol, one in zip(rows.query.symbols, kept, strict=True)
    }
    for constraint in rows.query.constraints:
        x, y = rows.query.symbol(constraint.x), rows.query.symbol(constraint.y)
        same = rows.query.same_predicate(x, y)
        apart = -windows[y.name], windows[x.name]
        found = pairs_of(
            constraint, tables[x.name], tables[y.name], apart, same, rows.query.is_sequenced
        )
        if x.stream == y.stream and rows.query.stream_of(x.name).is_ready_made:
            same_rows = None if found.is_more else _same_rows(rows, constraint, tables)
            found = (
                replace(found, is_more=True)
                if same_rows is None
                else (without_same_rows(found, *same_rows))
            )
        yield replace(found, near=_near(rows, constraint)) if constraint.distances else found


def _near(rows: GivenRows, constraint: Constraint) -> Count:
    """How many pairs keep a constraint with its distances, of those that start within the windows."""
    x, y = constraint.x, constraint.y
    part = restricted(rows.query, [x, y])
    apart = (
        Distance(y if one.symbol == x else x, "ts", one.symbol, "ts", "<=", one.length)
        for one, _ in all_windows((x, y), part.within, part.windows)
    )
    within_window = replace(constraint, distances=(*constraint.distances, *apart))
    part = with_window(part, forever(rows.time))
    return count(rows, replace(part, constraints=(within_window,)))


def _same_rows(
    rows: GivenRows, constraint: Constraint, tables: dict[str, pl.DataFrame]
) -> tuple[int, int] | None:
    """How many rows are intervals of both symbols: those that have ended, and those that have not.

    They are the pairs of the tables that the engine does not find: no match binds a row twice. None
    where so many start together that it would take too long.
    """
    x, y = (tables[name].filter("valid") for name in (constraint.x, constraint.y))
    part = restricted(rows.query, [constraint.x, constraint.y])
    part = with_window(part, forever(rows.time))

    def pairs(by: list[str], only: pl.Expr) -> int:
        own, other = (t.filter(only).group_by(by).agg(number=pl.len()) for t in (x, y))
        number = pl.col("number").cast(pl.Int64) * pl.col("number_right")
        return int(own.join(other, on=by).select(number.sum()).item())

    def found(relations: Relation, emit: Emit) -> int:
        only_these = (replace(constraint, relations=relations, distances=()),)
        return count(rows, replace(part, constraints=only_these, emit=emit)).number

    start_together = pairs(["partition", "ts"], pl.lit(True))
    if start_together >= MOST:
        return None
    every = start_together - found(relations_ordered(ts_ts=0), Emit.TRIGGER)
    if rows.closes:  # then all have ended
        return every, 0
    equal = pairs(["partition", "ts", "te"], ~pl.col("open"))
    ended = equal - found(relations_ordered(ts_ts=0, te_te=0), Emit.COMPLETION)
    return ended, every - ended


def _steps(rows: GivenRows) -> Iterator[Step]:
    """The matches of the pattern as it grows in join order, within the window, when triggered."""
    query = rows.query
    if len(query.present) == 1:
        return
    orders = rows.binding.compiled.join_orders
    seed = next(
        name for name, bound in orders.seeds.items() if len(bound) == 2 or len(orders.seeds) == 1
    )
    bound = list(orders.seeds[seed])
    joined: tuple[JoinStep, ...] = rows.binding.compiled.steps[seed]
    targets = [step.target for step in joined]
    if len(bound) == 1:
        bound.append(targets.pop(0))
    names = [query.symbols[number].name for number in bound]
    for number in [None, *targets]:
        if number is not None:
            names.append(query.symbols[number].name)
        part = restricted(query, names)
        yield Step(tuple(names), count(rows, part))


def _filters(rows: GivenRows) -> Iterator[FilterLoss]:
    """The matches of the pattern alone, then what each filter leaves of them."""
    query, used = rows.query, [f for f in FILTERS if f.is_used(rows.query)]
    for number in range(len(used) + 1):
        left = query
        for filter in used[number:]:
            left = filter.lifted(left, rows.time)
        if number == 0:
            starts = endpoints([s.name for s in query.present])[::2]
            found = some_matches(rows, left, starts)
            yield FilterLoss(
                "pattern", "", Count(len(found), len(found) == MOST), _shortest(rows, found)
            )
        else:
            filter = used[number - 1]
            kept = count(rows, left)
            remedy = "" if kept.number else _remedy(rows, left, filter.name)
            yield FilterLoss(filter.name, filter.written(query), kept, remedy=remedy)


def _remedy(rows: GivenRows, query: Query, filter: str) -> str:
    """What would leave matches where this filter leaves none: ends that are not known, mostly."""
    closed = replace(rows, options=replace(rows.options, at_end="close"))
    if filter == "completion" and (found := count(closed, query).number):
        return (
            f"; at_end='close' (--at-end close) ends what is open at the end, and leaves {found:,}"
        )
    if filter == "absence":
        return _undecided(rows, query)
    complete = replace(query, emit=Emit.COMPLETION)
    if filter == "condition" and (found := count(rows, complete).number):
        return f"; EMIT ON COMPLETION, when all ends are known, leaves {found:,}"
    return ""


def _undecided(rows: GivenRows, query: Query) -> str:
    """How many matches only wait for their absences, which nothing rules out yet."""
    part = with_window(without_limits(query), forever(rows.time))
    emit = Emit.COMPLETION if query.emit is Emit.COMPLETION else Emit.TRIGGER
    waiting = len(rows.later(replace(part, emit=emit, where=None)))
    if not waiting:
        return ""
    return f"; of {waiting:,} it is not decided when the rows end"


def _shortest(rows: GivenRows, found: pl.DataFrame) -> str:
    """The least window in which one of these matches is reported: of all symbols, and of each with one."""
    query = rows.query
    of: dict[str, list[str]] = {}
    if query.within != NO_WINDOW:
        of[""] = [symbol.name for symbol in query.present]
    of |= {f" from {window.symbol}": [window.symbol] for window in query.windows}
    waits = [_least_wait(rows, found, names) + since for since, names in of.items()]
    return "the shortest takes " + ", ".join(waits)


def _least_wait(rows: GivenRows, found: pl.DataFrame, names: list[str]) -> str:
    """The least time from the first start of some symbols to the report."""
    starts = [pl.col(f"{START}{name}") for name in names]
    waits = found.select(
        pl.col("detected_at").to_physical().cast(pl.Int64)
        - pl.min_horizontal(starts).to_physical().cast(pl.Int64)
    ).to_series()
    return cell_text(rows.time.as_lengths(pl.Series([waits.min()], dtype=pl.Int64))[0])
