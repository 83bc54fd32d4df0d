"""A diagnosis: the steps of the funnel as values, as tables, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from piestream.diagnosis.counting import Count
from piestream.diagnosis.pairs import Pairs
from piestream.language.model import Query
from piestream.language.parts import Symbol
from piestream.language.printer import constraint_text, silence_text
from piestream.show.html import html_page
from piestream.show.table import cell_text, table_text

__all__ = ["Diagnosis", "FilterLoss", "Step", "SymbolCounts"]

#: How each bound is written in the reason that runs are not valid.
_BOUNDS = {
    "too short": ("AT LEAST", "at_least"),
    "too long": ("AT MOST", "at_most"),
    "too few events": ("AT LEAST", "at_least_events"),
    "too many events": ("AT MOST", "at_most_events"),
}


@dataclass(frozen=True)
class SymbolCounts:
    """The runs of a symbol's predicate: how many are valid, break a bound, are open at the end."""

    symbol: Symbol
    runs: int
    valid: int
    faults: dict[str, int]
    still_open: int
    lengths: dict[str, Any]  # quantiles of those that have ended
    values: str = ""  # what is in its columns, where it never holds


@dataclass(frozen=True, slots=True)
class Step:
    """The matches of the pattern of some of the symbols."""

    symbols: tuple[str, ...]
    matches: Count


@dataclass(frozen=True, slots=True)
class FilterLoss:
    """What a filter leaves of the matches; the first is the pattern itself."""

    name: str
    written: str
    left: Count
    shortest: str = ""  # of the pattern: the least windows in which a match is reported
    remedy: str = ""  # what would leave some where it leaves none


@dataclass(frozen=True)
class Diagnosis:
    """Where a query's rows went: ``print`` it, show it in a notebook, or take its tables.

    ``summary`` says it in one line. ``tables`` are Polars frames by title: the intervals of each
    symbol, the pairs of each constraint and the relations they are in, the growing pattern, the
    filters.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 AT LEAST 2 PATTERN a WITHIN 9")
    >>> found = query.diagnose(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 0]}))
    >>> print(found.summary)
    0 matches: of the 1 run of a none is valid: 1 too short (AT LEAST 2)
    >>> found.tables["intervals"].select("symbol", "runs", "valid").rows()
    [('a', 1, 0)]
    """

    query: Query
    streams: Mapping[str, int]  # the rows of each
    partitions: int
    first: Any
    last: Any
    symbols: tuple[SymbolCounts, ...] = field(repr=False)
    pairs: tuple[Pairs, ...] = field(repr=False)
    steps: tuple[Step, ...] = field(repr=False)
    filters: tuple[FilterLoss, ...] = field(repr=False)
    matches: Count

    @property
    def events(self) -> int:
        """How many rows there are, of all streams."""
        return sum(self.streams.values())

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The steps of the funnel as frames, by title. A step that the query has not is left out."""
        found = {
            "intervals": self._intervals(),
            "pairs": self._pairs(),
            "relations": self._relations(),
            "pattern": pl.DataFrame(
                [
                    {"symbols": ", ".join(s.symbols), "matches": s.matches.number}
                    for s in self.steps
                ],
                schema={"symbols": pl.String, "matches": pl.Int64},
            ),
            "filters": self._filters(),
        }
        return {title: table for title, table in found.items() if len(table)}

    def _intervals(self) -> pl.DataFrame:
        faults = list(dict.fromkeys(name for counts in self.symbols for name in counts.faults))
        return pl.DataFrame(
            [
                {
                    "symbol": counts.symbol.name,
                    "predicate": self._predicate(counts.symbol),
                    "runs": counts.runs,
                    "valid": counts.valid,
                    **{name: counts.faults.get(name) for name in faults},
                    "open": counts.still_open,
                    **counts.lengths,
                }
                for counts in self.symbols
            ],
            infer_schema_length=None,
        )

    def _is_ready_made(self, name: str) -> bool:
        return self.query.stream_of(name).is_ready_made

    def _predicate(self, symbol: Symbol) -> str:
        """What a symbol asks of its rows, with the name of their stream where there are several."""
        if not self.query.is_combined:
            return str(symbol.predicate)
        source = self.query.streams[symbol.stream]
        if source.silence is not None:
            return silence_text(self.query, source.silence)
        name = str(source.name)
        text = symbol.predicate.qualified(name)
        return name if text == "TRUE" else text

    def _pairs(self) -> pl.DataFrame:
        has_distances = any(pairs.constraint.distances for pairs in self.pairs)
        return pl.DataFrame(
            [
                {
                    "constraint": constraint_text(pairs.constraint),
                    "pairs": pairs.total.number,
                    "allowed": pairs.allowed.number,
                    "undecided": pairs.undecided,
                    "instead": ", ".join(f"{n} {c:,}" for n, c in pairs.instead.items()),
                    **({"too near or far": pairs.at_other_distances} if has_distances else {}),
                }
                for pairs in self.pairs
            ]
        )

    def _relations(self) -> pl.DataFrame:
        schema = {"x": pl.String, "relation": pl.String, "y": pl.String, "pairs": pl.Int64,
                  "allowed": pl.Boolean}  # fmt: skip
        rows = [
            (pairs.constraint.x, name, pairs.constraint.y, number, pairs.allows(name))
            for pairs in self.pairs
            for name, number in pairs.of.items()
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _filters(self) -> pl.DataFrame:
        rows: list[tuple[str, str | None, int, int | None]] = []
        before: int | None = None
        for filter in self.filters:
            lost = None if before is None else before - filter.left.number
            rows.append((filter.name, filter.written or None, filter.left.number, lost))
            before = filter.left.number
        schema = {"filter": pl.String, "clause": pl.String, "matches": pl.Int64, "lost": pl.Int64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def summary(self) -> str:
        """One line: how many matches there are and, if there is none, where they went."""
        number = self.matches.number
        if number:
            return f"{self.matches} match" + "es" * (number > 1)
        return f"0 matches: {next(self._losses())}"

    def _losses(self) -> Iterator[str]:
        """Every step that leaves nothing, the first first."""
        if not self.events:
            yield "there are no events"
        for counts in self.symbols:
            name = counts.symbol.name
            if counts.symbol not in self.query.present:
                continue  # without it there are matches all the more
            if not counts.runs:
                values = f"; {counts.values}" if counts.values else ""
                predicate, ready_made = self._predicate(counts.symbol), self._is_ready_made(name)
                fate = "has no interval" if ready_made else "never holds"
                yield f"{name} ({predicate}) {fate}{values}"
            elif not counts.valid:
                kind = "interval" if self._is_ready_made(name) else "run"
                runs = _number(counts.runs, kind)
                yield f"of the {runs} of {name} none is valid: {_why(counts)}"
        previous = self.filters[0]
        for filter in self.filters[1:]:
            if previous.left.number and not filter.left.number:
                extra = f"; {previous.shortest}" if filter.name == "window" else filter.remedy
                yield f"{filter.written} leaves out all {previous.left}{extra}"
            previous = filter
        for pairs in self.pairs:
            if not pairs.allowed.number:
                yield _no_pair(pairs)
        before: Step | None = None
        for step in self.steps:
            if not step.matches.number and before is not None:
                together = ", ".join(before.symbols)
                yield f"{together} fit together, but never with {step.symbols[-1]}"
                break
            before = step
        yield "the intervals never fit together"

    def _sections(self) -> Iterator[tuple[str, pl.DataFrame | None, str]]:
        """Title, table and what is said below it."""
        span = (
            ""
            if self.first is None
            else f", from {cell_text(self.first)} to {cell_text(self.last)}"
        )
        of = f" of {_number(self.partitions, 'partition')}" * bool(self.query.partition_by)
        yield "events", None, f"{self._rows()}{of}{span}"
        tables = self.tables
        yield "intervals", tables["intervals"], ""
        if "pairs" in tables:
            within = "pairs of valid intervals whose starts "
            if self.query.windows:
                within += f"WITHIN {self.query.within_text} allows"
            else:
                within += f"lie within {self.query.within}"
            yield "pairs", tables["pairs"], within + _more(p.allowed for p in self.pairs)
        if "pattern" in tables:
            grown = f"as it grows in join order, within {self.query.within_text}"
            yield "pattern", tables["pattern"], grown + _more(s.matches for s in self.steps)
        yield "filters", tables["filters"], _more(f.left for f in self.filters).lstrip("; ")
        yield "result", None, self.summary

    def _rows(self) -> str:
        """How many rows there are: of one stream of events, or of each of several."""
        if not self.query.is_combined:
            return _number(self.events, "event")
        return ", ".join(f"{_number(n, 'row')} of {name}" for name, n in self.streams.items())

    def text(self, width: int | None = None) -> str:
        """All steps as text; ``width`` is that of the terminal, without it no cell is ever cut.

        >>> import polars as pl, piestream as ps
        >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> found = query.diagnose(pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 0]}))
        >>> print(found.text().splitlines()[1])
          3 events, from 1 to 3
        """
        parts = []
        for title, table, text in self._sections():
            shown = "" if table is None else table_text(_readable(table), width)
            note = f"  {text}\n" if text else ""
            parts.append(f"{title.upper()}\n{shown}{note}")
        return "\n".join(parts).rstrip("\n")

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return html_page(
            (title, None if table is None else _readable(table), text)
            for title, table, text in self._sections()
        )


def _readable(table: pl.DataFrame) -> pl.DataFrame:
    """A table whose cells are text, and empty where there is nothing to say."""
    return table.select(
        pl.Series(
            column.name,
            ["" if v is None else f"{v:,}" if type(v) is int else cell_text(v) for v in column],
            dtype=pl.String,
        )
        for column in table
    )


def _more(counts: Iterable[Count]) -> str:
    """What is said where some counts ended early."""
    return "; counting ended early, there are more" if any(c.is_more for c in counts) else ""


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" + "s" * (count != 1)


def _why(counts: SymbolCounts) -> str:
    """Which bounds runs do not keep."""
    said = []
    for fault, number in counts.faults.items():
        if number:
            word, attribute = _BOUNDS[fault]
            bound = getattr(counts.symbol, attribute)
            events = " EVENTS" * attribute.endswith("events")
            said.append(f"{number:,} {fault} ({word} {bound}{events})")
    undecided = counts.runs - counts.valid - max([0, *counts.faults.values()])
    if not said or undecided == counts.runs:
        return f"{counts.still_open:,} open at the end"
    return ", ".join(said)


def _no_pair(pairs: Pairs) -> str:
    text = f"no {constraint_text(pairs.constraint)}"
    if not pairs.total.number:
        return f"{text}: their intervals never start within the window"
    if pairs.at_other_distances:
        return f"{text}: {_number(pairs.at_other_distances, 'pair')} too near or too far"
    instead = list(pairs.instead.items())[:3]
    if not instead:
        return f"{text}: {_number(pairs.undecided, 'pair')} open at the end"
    others = ", ".join(f"{name} {number:,}" for name, number in instead)
    return f"{text}; instead {others}"
