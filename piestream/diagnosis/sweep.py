"""A query over a grid of its parameters: how many matches each choice gives, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import product
from typing import Any

import polars as pl

from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.parts import START, endpoints
from piestream.diagnosis.row_parts import measures
from piestream.diagnosis.row_patterns import known_times
from piestream.diagnosis.rows import GivenRows
from piestream.errors import SchemaError
from piestream.expressions.columns import column_named
from piestream.expressions.durations import Duration, DurationLike, as_duration
from piestream.expressions.predicate import Predicate
from piestream.interval_tables.joining import join
from piestream.interval_tables.tables import read_frame
from piestream.language import parse
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.language.parts import Emit, Symbol
from piestream.show.html import html_table
from piestream.show.table import cell_text, table_text

__all__ = ["Sweep", "sweep"]

#: The columns of the result beside those of the parameters.
_MEASURES = ("matches", "precision", "recall", "lead_time")


@dataclass(frozen=True)
class Sweep:
    """A grid of choices of parameters with what each gives: ``print`` it, or take its ``table``.

    ``varied`` names the parameters that were given several values.

    >>> import polars as pl, piestream as ps
    >>> text = "FROM s ORDER BY t DEFINE a AS x > :limit PATTERN a WITHIN 9"
    >>> found = ps.sweep(text, pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 7]}), limit=[4, 6])
    >>> found.table.rows()
    [(4, 2), (6, 1)]
    """

    table: pl.DataFrame
    varied: tuple[str, ...]
    queries: tuple[Query, ...] = field(repr=False)  # the one of each row

    def heat_map(self, measure: str = "matches") -> pl.DataFrame:
        """A measure by two parameters: rows are the values of the first, columns those of the second.

        >>> import polars as pl, piestream as ps
        >>> text = "FROM s ORDER BY t DEFINE a AS x > :limit AT LEAST :hold PATTERN a WITHIN 9"
        >>> rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 7, 0]})
        >>> ps.sweep(text, rows, limit=[4, 6], hold=[1, 2]).heat_map().rows()
        [(4, 1, 1), (6, 1, 0)]
        """
        if len(self.varied) != 2:
            several = ", ".join(self.varied) or "none"
            raise ValueError(f"a heat map has two parameters of several values; here are {several}")
        down, across = self.varied
        if measure not in self.table.columns:
            raise ValueError(
                f"there is no measure {measure}; labels=... gives precision and recall"
            )
        columns = self.table.get_column(across).unique(maintain_order=True).to_list()
        rows = []
        for value in self.table.get_column(down).unique(maintain_order=True):
            cells = self.table.filter(pl.col(down) == value).get_column(measure).to_list()
            rows.append([value, *cells])
        return pl.DataFrame(rows, schema=[down, *map(cell_text, columns)], orient="row")

    def __str__(self) -> str:
        return table_text(self.table).rstrip("\n")

    def _repr_html_(self) -> str:
        if len(self.varied) != 2:
            return html_table(self.table.select(_cells(column) for column in self.table))
        measures = [name for name in self.table.columns if name in _MEASURES[:3]]
        return "".join(self._map_html(measure) for measure in measures)

    def _map_html(self, measure: str) -> str:
        """One heat map: the darker a cell, the larger; its number stands in it."""
        cells = self.heat_map(measure)
        values = [v for row in cells.rows() for v in row[1:] if v is not None]
        most = max(values, default=0) or 1
        body = ""
        for first, *row in cells.iter_rows():
            shades = "".join(
                f'<td style="background:rgba(31,119,180,{0.7 * (value or 0) / most:.2f})">'
                f"{escape(cell_text(value))}</td>"
                for value in row
            )
            body += f"<tr><th>{escape(cell_text(first))}</th>{shades}</tr>"
        head = "".join(f"<th>{escape(name)}</th>" for name in cells.columns[1:])
        title = f"{measure}: {self.varied[0]} down, {self.varied[1]} across"
        return f"<table><caption>{escape(title)}</caption><tr><th></th>{head}</tr>{body}</table>"


def _cells(column: pl.Series) -> pl.Series:
    return pl.Series(column.name, [cell_text(value) for value in column], dtype=pl.String)


def sweep(
    text: str,
    frame: Any,
    /,
    *,
    labels: Any = None,
    early: DurationLike = 0,
    ties: Any = "error",
    at_end: Any = "open",
    **parameters: Any,
) -> Sweep:
    """How many matches a query has for each choice of its parameters, and how good they are.

    ``parameters`` are those of the text: a list is tried value by value, anything else is fixed.
    The rows are read and sorted once, and each distinct predicate is evaluated once.

    ``labels`` is a frame of what should be found: the columns of PARTITION BY, ``ts`` and ``te``. A
    match finds a label if the time from its earliest start to its report shares an instant with
    it, or ends no longer than ``early`` before it. Then there are also ``precision``, the share of
    matches that find a label, ``recall``, the share of labels that are found, and ``lead_time``,
    the median time from the first report of a found label to its start.

    >>> import polars as pl, piestream as ps
    >>> rows = pl.DataFrame({"t": [1, 2, 3, 4], "x": [5, 0, 7, 0]})
    >>> labels = pl.DataFrame({"ts": [3], "te": [4]})
    >>> text = "FROM s ORDER BY t DEFINE a AS x > :limit PATTERN a WITHIN 9"
    >>> ps.sweep(text, rows, labels=labels, limit=[4, 6]).table.rows()
    [(4, 2, 0.5, 1.0, 0), (6, 1, 1.0, 1.0, 0)]
    """
    if not isinstance(text, str):
        raise TypeError("sweep takes the text of a query, in which :limit stands for a parameter")
    grid = {name: _values(name, value) for name, value in parameters.items()}
    choices = [dict(zip(grid, chosen, strict=True)) for chosen in product(*grid.values())]
    queries = [parse(text, **choice) for choice in choices]
    rows = read_given(queries[0], frame, BoundedOptions(ties=ties, at_end=at_end))
    shared = _Shared(rows, queries)
    measured = _Labels(rows, labels, early) if labels is not None else None
    known: dict[Query, dict[str, Any]] = {}
    for query in queries:
        if query not in known:
            found = shared.matches(query)
            known[query] = {
                "matches": len(found),
                **(measured.of(shared.spans(query, found)) if measured else {}),
            }
    results = [{**choice, **known[query]} for choice, query in zip(choices, queries, strict=True)]
    varied = tuple(name for name, values in grid.items() if len(values) > 1)
    return Sweep(pl.DataFrame(results, infer_schema_length=None), varied, tuple(queries))


def _values(name: str, value: Any) -> Sequence[Any]:
    if name in _MEASURES:
        raise ValueError(f"the result has a column {name}: give the parameter another name")
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return [value]
    values = list(value)
    if not values:
        raise ValueError(f"the parameter {name} has no value to try: its list is empty")
    return values


class _Shared:
    """Rows with a column for each distinct predicate of some queries, those of events sorted by time."""

    def __init__(self, rows: GivenRows, queries: Sequence[Query]) -> None:
        inputs = dict(rows.inputs)
        #: By the input that a predicate reads. What reads the past depends on the order within
        #: partitions: that is left to the engine.
        self.columns: dict[tuple[str, Predicate], str] = {}
        for symbol in (symbol for query in queries for symbol in query.symbols):
            key, predicate = rows.key_of(symbol.stream), symbol.predicate
            if key is not None and predicate.columns and not predicate.reads_the_past:
                self.columns.setdefault((key, predicate), f"predicate {len(self.columns)}")
        for (key, predicate), name in self.columns.items():
            schema = rows.inputs[key].schema
            inputs[key] = inputs[key].with_columns(predicate.to_polars(schema).alias(name))
        for key, times in rows.time_columns.items():
            inputs[key] = inputs[key].sort(times[0], maintain_order=True)
        self.rows = rows.with_inputs(inputs)

    def matches(self, query: Query) -> pl.DataFrame:
        """The matches of one of the queries, once each, with the starts of their intervals."""
        symbols = tuple(map(self._known, query.symbols))
        if query.rows is not None:
            plain = replace(query.rows, measures=measures("MATCH_NUMBER() AS n"), all_rows=False)
            return self.rows.run(replace(query, symbols=symbols, rows=plain))
        changed = replace(
            query,
            symbols=symbols,
            returns=endpoints([symbol.name for symbol in symbols])[::2],
            emit=Emit.COMPLETION if query.emit is Emit.COMPLETION else Emit.TRIGGER,
        )
        return self.rows.run(changed)

    def spans(self, query: Query, found: pl.DataFrame) -> pl.DataFrame:
        """The keys of matches, and in ticks as ``ts`` their starts, as ``reported`` their reports.

        A match of a row pattern is reported when it is certain, and the row behind it is there.
        """
        keys = map(column_named, self.rows.keys)
        if query.rows is not None:
            timed = replace(query, streams=self.rows.query.streams)
            known = known_times(replace(self.rows, query=timed))
            return known.select(*keys, "ts", pl.col("known").alias("reported"))
        report = "completed_at" if "completed_at" in found.columns else "detected_at"
        starts = [
            pl.col(n).to_physical().cast(pl.Int64) for n in found.columns if n.startswith(START)
        ]
        reported = pl.col(report).to_physical().cast(pl.Int64)
        return found.select(
            *keys, pl.min_horizontal(starts).alias("ts"), reported.alias("reported")
        )

    def _known(self, symbol: Symbol) -> Symbol:
        """A symbol whose predicate is a column, where there is one."""
        column = self.columns.get((self.rows.key_of(symbol.stream) or "", symbol.predicate))
        if column is None:
            return symbol
        return replace(symbol, predicate=Predicate.parse(f'"{column}"'))


class _Labels:
    """What should be found, and how well some matches find it."""

    def __init__(self, rows: GivenRows, labels: Any, early: DurationLike) -> None:
        self.rows = rows
        duration = as_duration(early, "early") if early != 0 else Duration(0, in_ticks=True)
        ahead = rows.time.ticks(duration, "early")
        table = read_frame(labels).frame
        missing = [name for name in (*rows.keys, "ts", "te") if name not in table.columns]
        if missing:
            raise SchemaError(f"labels has no column {missing[0]}: it needs that, with ts and te")
        dtype = rows.time.dtype
        self.table = table.select(
            *map(column_named, rows.keys),
            table["ts"].cast(dtype).to_physical().cast(pl.Int64).alias("start"),
            (table["ts"].cast(dtype).to_physical().cast(pl.Int64) - ahead).alias("ts"),
            table["te"].cast(dtype).to_physical().cast(pl.Int64).alias("te"),
        ).with_row_index("label")

    def of(self, spans: pl.DataFrame) -> dict[str, Any]:
        """Precision, recall and the median lead time of matches, by their starts and reports."""
        until = (pl.col("reported") + 1).alias("te")
        matches = spans.with_columns(until).with_row_index("match")
        pairs = join(matches, self.table, "intersects", on=self.rows.keys or None)
        first = pairs.group_by("label").agg(
            (pl.col("start") - pl.col("reported")).max().alias("lead")
        )
        lead = first["lead"].median()
        leads = pl.Series([None if lead is None else int(lead)], dtype=pl.Int64)  # type: ignore[arg-type]
        return {
            "precision": pairs["match"].n_unique() / len(matches) if len(matches) else None,
            "recall": len(first) / len(self.table) if len(self.table) else None,
            "lead_time": self.rows.time.as_lengths(leads)[0],
        }
