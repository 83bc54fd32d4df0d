"""A row pattern looked into: the rows of each variable, and how far matches come, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from piestream.diagnosis.counting import Count
from piestream.diagnosis.diagnosis import Diagnosis, FilterLoss, Step, SymbolCounts
from piestream.diagnosis.row_conditions import short
from piestream.diagnosis.row_parts import (
    MATCH,
    VARIABLE,
    measures,
    other_pattern,
    parts_of,
    with_all_rows,
)
from piestream.diagnosis.row_places import PLACE, numbered
from piestream.diagnosis.rows import GivenRows
from piestream.diagnosis.values import values_text
from piestream.engine.combined import open_stream
from piestream.expressions.columns import column_named
from piestream.language.model import Query
from piestream.language.parts import Symbol
from piestream.language.row_pattern_text import row_pattern_text
from piestream.language.row_patterns import (
    Concatenation,
    EmptyMatches,
    RowPattern,
    SkipMode,
    Variable,
)
from piestream.plan.binding import bind
from piestream.plan.outputs import MATCH_KNOWN, MATCH_START
from piestream.show.table import cell_text

__all__ = [
    "RowDiagnosis",
    "diagnose_row_pattern",
    "known_times",
    "row_stretches",
    "shown_stretches",
]

#: Columns of tables that nobody sees; no column of a user's is called so.
_NEXT, _STRETCH = "next:", "stretch:"
#: Of a pattern of more parts, so many are counted one by one.
_MOST_STEPS = 12


@dataclass(frozen=True)
class RowDiagnosis(Diagnosis):
    """Where the rows of a row pattern went: those of each variable, of the growing pattern, of matches.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A B+) WITHIN 1 DEFINE A AS x = 1, B AS x > 5)")
    >>> found = query.diagnose(pl.DataFrame({"t": [1, 2, 5, 9], "x": [1, 6, 1, 7]}))
    >>> print(found.summary)
    1 match
    >>> found.tables["pattern"].rows()
    [('A', 2), ('A B+', 2)]
    """

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The steps of the funnel as frames, by title."""
        variables = pl.DataFrame(
            [
                (c.symbol.name, self._condition(c.symbol), self._holds(c), c.valid)
                for c in self.symbols
            ],
            schema={
                "variable": pl.String, "condition": pl.String, "holds": pl.Int64, "matched": pl.Int64,
            },
            orient="row",
        )  # fmt: skip
        pattern = pl.DataFrame(
            [(*step.symbols, step.matches.number) for step in self.steps],
            schema={"pattern": pl.String, "rows": pl.Int64},
            orient="row",
        )
        found = {"variables": variables, "pattern": pattern, "filters": self._filters()}
        return {title: table for title, table in found.items() if len(table)}

    def _condition(self, symbol: Symbol) -> str:
        """A condition as it is written, also where it reads other rows of the match."""
        assert self.query.rows is not None
        condition = self.query.rows.condition(symbol.name)
        return str(symbol.predicate) if condition is None else short(condition.text)

    def _holds(self, counts: SymbolCounts) -> int | None:
        """At how many rows a condition holds; None if it reads other rows of a match."""
        assert self.query.rows is not None
        return counts.runs if self.query.rows.condition(counts.symbol.name) is None else None

    def _losses(self) -> Iterator[str]:
        if not self.events:
            yield "there are no events"
        for counts in self.symbols:
            if self._holds(counts) == 0:
                values = f"; {counts.values}" if counts.values else ""
                condition = self._condition(counts.symbol)
                yield f"{counts.symbol.name} ({condition}) never holds{values}"
        for before, filter in zip(self.filters, self.filters[1:], strict=False):
            if before.left.number and not filter.left.number:
                yield f"{filter.written} leaves out all {before.left}"
        for step, following in zip(self.steps, self.steps[1:], strict=False):
            if step.matches.number and not following.matches.number:
                (text,), (longer,) = step.symbols, following.symbols
                yield f"{text} begins at {step.matches} of the rows, but {longer} at none"
        yield "the variables never come in this order"

    def _sections(self) -> Iterator[tuple[str, pl.DataFrame | None, str]]:
        span = (
            ""
            if self.first is None
            else f", from {cell_text(self.first)} to {cell_text(self.last)}"
        )
        partitions = f"{self.partitions:,} partition" + "s" * (self.partitions != 1)
        of = f" of {partitions}" * bool(self.query.partition_by)
        yield "events", None, f"{self.events:,} event{'s' * (self.events != 1)}{of}{span}"
        tables = self.tables
        noted = "rows at which the condition holds, and rows of matches that are of the variable"
        if any(self._holds(counts) is None for counts in self.symbols):
            noted += "; a condition that reads other rows of the match holds of no row by itself"
        yield "variables", tables.get("variables"), noted
        if "pattern" in tables:
            yield (
                "pattern",
                tables["pattern"],
                "rows at which it begins, whatever WITHIN and SKIP say",
            )
        yield "filters", tables["filters"], ""
        yield "result", None, self.summary


def diagnose_row_pattern(rows: GivenRows) -> RowDiagnosis:
    """The funnel of a row pattern in rows."""
    query = rows.query
    pattern = query.rows
    assert pattern is not None
    extent = rows.extent
    matched = dict(row_stretches(rows).group_by(VARIABLE).agg(pl.col("events").sum()).rows())
    steps = tuple(_steps(rows, pattern))
    filters = tuple(_filters(rows, pattern))
    return RowDiagnosis(
        query=query,
        streams=extent.rows,
        partitions=extent.partitions,
        first=extent.first,
        last=extent.last,
        symbols=tuple(_counts(rows, name, matched.get(name, 0)) for name in pattern.variables),
        pairs=(),
        steps=steps,
        filters=filters,
        matches=filters[-1].left,
    )


def _counts(rows: GivenRows, name: str, matched: int) -> SymbolCounts:
    symbol = rows.query.symbol(name)
    assert rows.query.rows is not None
    if rows.query.rows.condition(name) is not None:
        return SymbolCounts(symbol, 0, matched, {}, 0, {})
    holds = _count(rows, other_pattern(rows.query, Variable(name)))
    frame = rows.frame_of(symbol)
    values = ""
    if not holds.number and frame is not None:
        values = values_text(frame, symbol.predicate.columns)
    return SymbolCounts(symbol, holds.number, matched, {}, 0, {}, values)


def _steps(rows: GivenRows, pattern: RowPattern) -> Iterator[Step]:
    """The pattern as it grows, part by part."""
    parts = parts_of(pattern)
    for size in range(1, len(parts) + 1):
        grown = Concatenation(parts[:size]) if len(parts) > 1 else parts[0]
        if not RowPattern(grown, ()).variables or _MOST_STEPS < size < len(parts):
            continue
        yield Step((row_pattern_text(grown),), _count(rows, other_pattern(rows.query, grown)))


def _filters(rows: GivenRows, pattern: RowPattern) -> Iterator[FilterLoss]:
    """All matches, what WITHIN leaves of them, and what is left as the search goes on behind a match."""
    query = rows.query
    mode = pattern.mode
    every = _count(rows, other_pattern(query, pattern.pattern, mode=mode))
    yield FilterLoss("pattern", mode.value, every)
    if pattern.within is not None:
        within = other_pattern(query, pattern.pattern, within=pattern.within, mode=mode)
        yield FilterLoss("window", f"WITHIN {pattern.within}", _count(rows, within))
    skip = pattern.skip
    if skip.mode is not SkipMode.TO_NEXT_ROW:
        target = f" {skip.variable}" if skip.variable is not None else ""
        kept = other_pattern(query, pattern.pattern, within=pattern.within, skip=skip, mode=mode)
        written = f"AFTER MATCH SKIP {skip.mode.value}{target}"
        yield FilterLoss("skip", written, _count(rows, kept))


def _count(rows: GivenRows, query: Query) -> Count:
    return Count(len(rows.run(query)))


def row_stretches(rows: GivenRows) -> pl.DataFrame:
    """The rows of matches, put together where one after the other is of the same variable.

    The keys, the number of the match, the variable, ``ts`` and ``te`` in ticks (NULL behind the last
    row, unless that ends what is open), and how many rows.
    """
    query = rows.query
    pattern = query.rows
    assert pattern is not None
    every = replace(
        pattern,
        pattern=with_all_rows(pattern.pattern),
        measures=measures(f'MATCH_NUMBER() AS "{MATCH}", CLASSIFIER() AS "{VARIABLE}"'),
        all_rows=True,
        empty_matches=EmptyMatches.OMIT,
    )
    placed, places = numbered(rows)
    keys = [column_named(name) for name in rows.keys]
    found = placed.run(replace(query, rows=every)).select(*keys, MATCH, VARIABLE, PLACE)
    following = pl.col("ts").shift(-1)
    following = following.over(keys) if keys else following
    places = places.with_columns(following.alias(_NEXT)).select(PLACE, "ts", _NEXT)
    found = found.join(places, on=PLACE, how="left")
    of_match = [*rows.keys, MATCH]
    found = found.sort(*map(column_named, of_match), PLACE, maintain_order=True)
    before = pl.struct([*map(column_named, of_match), pl.col(VARIABLE)])
    begins = before.ne_missing(before.shift(1)).fill_null(True)
    ended = pl.lit(None, pl.Int64)
    if rows.closes:  # with the last row, or a tick later
        ended = pl.col("ts").last() + (pl.len() == 1).cast(pl.Int64)
    return (
        found.with_columns(begins.cum_sum().alias(_STRETCH))
        .group_by(_STRETCH, maintain_order=True)
        .agg(
            *(column_named(name).first() for name in of_match),
            pl.col(VARIABLE).first(),
            pl.col("ts").first(),
            pl.col(_NEXT).last().fill_null(ended).alias("te"),
            pl.len().cast(pl.Int64).alias("events"),
        )
        .drop(_STRETCH)
    )


def known_times(rows: GivenRows) -> pl.DataFrame:
    """The keys, the number of each match with rows, its first row's time, and when it is ``known``.

    That is when it is certain and the row behind its last is there; at the latest the end of its partition.
    """
    query = rows.query
    assert query.rows is not None
    plain = replace(query.rows, measures=measures(f'MATCH_NUMBER() AS "{MATCH}"'), all_rows=False)
    (frame,) = rows.inputs.values()
    binding = bind(replace(query, rows=plain), frame.schema, as_stream=True)
    stream = open_stream(binding, ties=rows.options.ties, lateness=None, whole=True, at_end="close")
    found = pl.concat([stream.process(frame), stream.finish()])
    times = {MATCH_START: "ts", MATCH_KNOWN: "known"}
    return found.select(
        *map(column_named, rows.keys),
        MATCH,
        *(column_named(n).to_physical().cast(pl.Int64).alias(to) for n, to in times.items()),
    )


def shown_stretches(rows: GivenRows, keys: Sequence[str]) -> pl.DataFrame:
    """What `Query.intervals` gives of a row pattern: the stretches of each variable, in their order."""
    found = row_stretches(rows)
    assert rows.query.rows is not None
    names = list(rows.query.rows.variables)
    place = pl.col(VARIABLE).replace_strict(names, range(len(names)), return_dtype=pl.Int64)
    found = found.sort(place, maintain_order=True)
    return found.select(
        pl.col(VARIABLE).alias("symbol"),
        *(column_named(key).alias(name) for key, name in zip(rows.keys, keys, strict=True)),
        rows.time.as_times(found["ts"]).alias("ts"),
        rows.time.as_times(found["te"]).alias("te"),
        rows.time.as_lengths(found["te"] - found["ts"]).alias("duration"),
        pl.lit(True).alias("valid"),
        "events",
    )
