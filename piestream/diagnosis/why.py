"""Why a match is one: its intervals, what each pair read and when it was decided, what came last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from piestream.adapters.frames import as_polars
from piestream.diagnosis.intervals import runs
from piestream.diagnosis.partition import of_partition, plain, stretch
from piestream.diagnosis.parts import START, any_length, endpoints, forever, restricted
from piestream.diagnosis.rows import Rows, read_rows
from piestream.language.distances import distance_texts
from piestream.language.model import Constraint, Emit, Query, RelationOf
from piestream.language.options import BoundedOptions
from piestream.language.printer import constraint_text
from piestream.relations import names, relation_of
from piestream.show.html import html_page
from piestream.show.table import cell_text, table_text

__all__ = ["Decision", "MatchInterval", "Why", "why"]

_OPEN = 1 << 62


@dataclass(frozen=True, slots=True)
class MatchInterval:
    """An interval of a match, and when it became valid. ``te`` is None if it is open at the end."""

    symbol: str
    ts: Any
    te: Any
    events: int
    valid_at: Any


@dataclass(frozen=True, slots=True)
class Decision:
    """A pair of a match: the relation that holds, when and by which endpoints it was decided.

    ``letters`` are what the pair read up to then, each with its time: O neither, Z only x, I only y,
    E both. ``relation`` is None if both intervals are open at the end.
    """

    constraint: Constraint
    relation: str | None
    decided_at: Any
    decided_by: tuple[str, ...]
    letters: tuple[tuple[Any, str], ...]


@dataclass(frozen=True)
class Why:
    """Why a match is one, and why it was reported when it was: ``print`` it.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 9")
    >>> rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 0], "y": [0, 7, 0]})
    >>> found = query.why(query.run(rows), rows)
    >>> found.decisions[0].letters, found.waited_for
    (((1, 'Z'), (2, 'I')), ('a meets b, decided by a.te = b.ts', 'b to start'))
    """

    query: Query
    match: Mapping[str, Any]
    reported_at: Any
    intervals: tuple[MatchInterval, ...] = field(repr=False)
    decisions: tuple[Decision, ...] = field(repr=False)
    waited_for: tuple[str, ...]

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The intervals and the decisions as frames, by title."""
        found = {"intervals": pl.DataFrame(self.intervals, infer_schema_length=None)}
        if self.decisions:
            found["decisions"] = pl.DataFrame(
                [
                    {
                        "constraint": constraint_text(d.constraint),
                        "relation": d.relation,
                        "decided_at": d.decided_at,
                        "decided_by": " = ".join(d.decided_by),
                        "letters": ", ".join(f"{cell_text(t)} {letter}" for t, letter in d.letters),
                    }
                    for d in self.decisions
                ],
                infer_schema_length=None,
            )
        return found

    def _sections(self) -> Iterator[tuple[str, pl.DataFrame | None, str]]:
        of = ", ".join(
            f"{name} = {cell_text(self.match.get(name))}" for name in self.query.partition_by
        )
        yield "match", None, f"reported at {cell_text(self.reported_at)}" + (of and f", {of}")
        notes = {
            "decisions": "letters: O neither holds, Z only the first, I only the second, E both"
        }
        for title, table in self.tables.items():
            yield title, table, notes.get(title, "")
        yield "waited last for", None, "; ".join(self.waited_for)

    def __str__(self) -> str:
        parts = []
        for title, table, text in self._sections():
            shown = "" if table is None else table_text(table)
            parts.append(f"{title.upper()}\n{shown}" + (f"  {text}\n" if text else ""))
        return "\n".join(parts).rstrip("\n")

    def _repr_html_(self) -> str:
        return html_page(
            (title, None if t is None else t.select(_cells(column) for column in t), text)
            for title, t, text in self._sections()
        )


def _cells(column: pl.Series) -> pl.Series:
    return pl.Series(column.name, [cell_text(value) for value in column], dtype=pl.String)


def why(query: Query, match: Any, frame: Any, options: BoundedOptions) -> Why:
    """What `Query.why` gives."""
    row = _row(match)
    rows = of_partition(read_rows(query, frame, options, "why"), row, "a match")
    found = _found(rows, row)
    first = min(found[f"{START}{s.name}"] for s in rows.query.symbols)
    tables = {
        symbol.name: runs(stretch(rows, first, _OPEN), symbol) for symbol in rows.query.symbols
    }
    spans = {name: _span(table, found[f"{START}{name}"]) for name, table in tables.items()}
    rows = stretch(rows, first, max(found["report"], *(span["te"] for span in spans.values())))
    return _Teller(rows, row, found, tables, spans).told()


def _row(match: Any) -> dict[str, Any]:
    """A match as a mapping: a dict, a row of pandas, or a frame of one row."""
    if isinstance(match, Mapping):
        return dict(match)
    if hasattr(match, "to_dict") and not hasattr(match, "columns"):
        return dict(match.to_dict())
    frame, _ = as_polars(match)
    if len(frame) != 1:
        raise ValueError(
            f"a match is one row of the result; these are {len(frame)}: take one of them"
        )
    return frame.row(0, named=True)


def _found(rows: Rows, row: Mapping[str, Any]) -> dict[str, Any]:
    """The match with the starts of all its intervals, as ticks."""
    query = rows.query
    hidden = endpoints([s.name for s in query.symbols])
    result = rows.run(replace(query, returns=query.returns + hidden))
    shown = [name for name in result.columns if name in row]
    same = [
        number
        for number, found in enumerate(result.select(shown).rows())
        if all(plain(row[name]) == plain(value) for name, value in zip(shown, found, strict=True))
    ]
    if not same:
        raise ValueError("this is no match of the query in these rows")
    report = "completed_at" if query.emit is Emit.COMPLETION else "detected_at"
    ticks = result[same].select(
        pl.col(name).to_physical().cast(pl.Int64)
        for name in (report, *(item.alias for item in hidden if item.alias.startswith(START)))
    )
    several = ticks.select(pl.exclude(report)).n_unique()
    if several > 1:
        raise ValueError(
            f"{several} matches have these values: give the whole row, and let RETURN have the "
            "starts that tell them apart"
        )
    first = ticks.row(0, named=True)
    phases = result[same]["phase"] if query.emit is Emit.BOTH else [query.emit.value.lower()]
    return {**first, "report": first[report], "is_complete": phases[0] == "completion"}


def _span(table: pl.DataFrame, start: int) -> dict[str, Any]:
    (row,) = table.filter(pl.col("ts") == start).rows(named=True)
    return row


@dataclass(frozen=True)
class _Teller:
    """Asks the engine when each part of a match became known."""

    rows: Rows
    row: Mapping[str, Any]
    found: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]  # the runs of each symbol
    spans: Mapping[str, Mapping[str, Any]]  # those of the match

    def told(self) -> Why:
        query = self.rows.query
        decisions = {c: self._report_of(self._pair(c)) for c in query.constraints}
        valid = {s.name: self._valid_at(s.name) for s in query.symbols}
        return Why(
            query=query,
            match=dict(self.row),
            reported_at=self._time(self.found["report"]),
            intervals=tuple(
                MatchInterval(
                    name,
                    self._time(span["ts"]),
                    None if span["open"] else self._time(span["te"]),
                    span["events"],
                    self._time(valid[name]),
                )
                for name, span in self.spans.items()
            ),
            decisions=tuple(
                Decision(
                    constraint,
                    self._relation(constraint),
                    self._time(at),
                    self._decided_by(constraint, at),
                    tuple(self._letters(constraint, at)),
                )
                for constraint, at in decisions.items()
            ),
            waited_for=tuple(self._waited_for(decisions, valid)),
        )

    def _time(self, ticks: int | None) -> Any:
        return self.rows.time.as_times(pl.Series([ticks], dtype=pl.Int64))[0]

    def _report_of(self, part: Query) -> int:
        """When the part of the match that a query finds was reported by it."""
        result = self._rows_of(part)
        return int(result["detected_at"].to_physical().cast(pl.Int64)[0])

    def _rows_of(self, part: Query) -> pl.DataFrame:
        """What a query finds of the match: one row a phase."""
        return self.rows.run(part).filter(
            pl.col(f"{START}{symbol.name}").to_physical().cast(pl.Int64)
            == self.spans[symbol.name]["ts"]
            for symbol in part.symbols
        )

    def _valid_at(self, name: str) -> int:
        part = restricted(self.rows.query, [name])
        return self._report_of(replace(part, within=forever(self.rows.time)))

    def _pair(self, constraint: Constraint) -> Query:
        """The query of a pair alone, whatever the lengths of its intervals."""
        part = restricted(self.rows.query, [constraint.x, constraint.y])
        symbols = tuple(map(any_length, part.symbols))
        only = tuple(c for c in part.constraints if c == constraint)
        within = forever(self.rows.time)
        return replace(part, symbols=symbols, constraints=only, within=within)

    def _end(self, name: str) -> int:
        span = self.spans[name]
        return _OPEN if span["open"] and not self.rows.closes else int(span["te"])

    def _relation(self, constraint: Constraint) -> str | None:
        x, y = constraint.x, constraint.y
        pair = self._pair(constraint)
        returns = (*pair.returns, RelationOf(x, y, "relation"))
        known = self._rows_of(replace(pair, returns=returns, emit=Emit.BOTH))["relation"]
        if known[-1] is not None:
            return str(known[-1])
        ends = self._end(x), self._end(y)
        if ends == (_OPEN, _OPEN):
            return None
        # what is open ends later than all that has ended
        return names(relation_of(self.spans[x]["ts"], ends[0], self.spans[y]["ts"], ends[1]))[0]

    def _decided_by(self, constraint: Constraint, at: int) -> tuple[str, ...]:
        found = tuple(
            f"{name}.{which}"
            for which in ("te", "ts")
            for name in (constraint.x, constraint.y)
            if (self._end(name) if which == "te" else self.spans[name]["ts"]) == at
        )
        # else by time: what is open had been so for long enough
        return found or tuple(distance_texts(d for d in constraint.distances if not d.is_upper))

    def _letters(self, constraint: Constraint, until: int) -> Iterator[tuple[Any, str]]:
        """What the pair read from its first start to its decision, where it changed."""
        x, y = self.tables[constraint.x], self.tables[constraint.y]
        first = min(self.spans[name]["ts"] for name in (constraint.x, constraint.y))
        instants = {first} | {
            at
            for table in (x, y)
            for name in ("ts", "te")
            for at in table[name].to_list()
            if first <= at <= until
        }
        before = ""
        for at in sorted(instants):
            holds = [
                len(table.filter((pl.col("ts") <= at) & (pl.col("open") | (at < pl.col("te"))))) > 0
                for table in (x, y)
            ]
            letter = "OIZE"[2 * holds[0] + holds[1]]
            if letter != before:
                yield self._time(at), letter
            before = letter

    def _waited_for(
        self, decisions: Mapping[Constraint, int], valid: Mapping[str, int]
    ) -> Iterator[str]:
        report = self.found["report"]
        if self.found["is_complete"]:
            yield from (f"{name} to end" for name in self.spans if self._end(name) == report)
            return
        for constraint, at in decisions.items():
            if at == report:
                by = " = ".join(self._decided_by(constraint, at))
                yield f"{constraint_text(constraint)}, decided by {by}"
        for name, at in valid.items():
            if at == report:
                starts = at == self.spans[name]["ts"]
                yield f"{name} to start" if starts else f"{name} to be valid"
