"""Why a match is one: its intervals, what each pair read and when it was decided, what came last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from piestream.adapters.frames import as_polars
from piestream.diagnosis.absences import AbsenceDecision
from piestream.diagnosis.history import Decision, History, MatchInterval
from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.partition import of_partition
from piestream.diagnosis.row_why import RowHistory, RowOfMatch
from piestream.diagnosis.rows import GivenRows, Wanted
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.show.html import html_page
from piestream.show.table import cell_text, table_text

__all__ = ["AbsenceDecision", "Decision", "MatchInterval", "RowWhy", "Why", "why"]

#: Of a match of more rows the first and the last are printed.
_MOST_ROWS = 40


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
    absences: tuple[AbsenceDecision, ...] = ()

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The intervals, the decisions and what is absent as frames, by title."""
        found = {"intervals": pl.DataFrame(self.intervals, infer_schema_length=None)}
        if self.decisions:
            found["decisions"] = pl.DataFrame(
                [
                    {
                        "constraint": d.text,
                        "relation": d.relation,
                        "decided_at": d.decided_at,
                        "decided_by": " = ".join(d.decided_by),
                        "letters": ", ".join(f"{cell_text(t)} {letter}" for t, letter in d.letters),
                    }
                    for d in self.decisions
                ],
                infer_schema_length=None,
            )
            if not self._have_letters:
                found["decisions"] = found["decisions"].drop("letters")
        if self.absences:
            found["absences"] = pl.DataFrame(
                [{"not": one.text, "decided_at": one.decided_at} for one in self.absences],
                infer_schema_length=None,
            )
        return found

    @property
    def _have_letters(self) -> bool:
        return any(decision.letters for decision in self.decisions)

    def _match(self) -> tuple[str, None, str]:
        of = ", ".join(
            f"{name} = {cell_text(self.match.get(name))}" for name in self.query.partition_by
        )
        return "match", None, f"reported at {cell_text(self.reported_at)}" + (of and f", {of}")

    def _sections(self) -> Iterator[tuple[str, pl.DataFrame | None, str]]:
        yield self._match()
        letters = "letters: O neither holds, Z only the first, I only the second, E both"
        notes = {"decisions": letters if self._have_letters else ""}
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


@dataclass(frozen=True)
class RowWhy(Why):
    """Why a match of a row pattern is one: its rows, what was preferred, what made it certain.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A B+) DEFINE A AS x = 1, B AS x > 5)")
    >>> rows = pl.DataFrame({"t": [1, 2, 3], "x": [1, 7, 4]})
    >>> found = query.why(query.run(rows), rows)
    >>> [(row.time, row.variable, row.values) for row in found.rows]
    [(1, 'A', 'x 1'), (2, 'B', 'x 7')]
    >>> found.waited_for
    ('3, which is not B (x > 5): x 4',)
    """

    rows: tuple[RowOfMatch, ...] = field(repr=False, default=())
    choices: tuple[str, ...] = ()

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The rows as a frame, by title."""
        rows = pl.DataFrame(self.rows, infer_schema_length=None)
        if not self.query.is_sequenced:
            return {"rows": rows.drop("sequence")}
        return {"rows": rows.select("time", "sequence", pl.exclude("time", "sequence"))}

    def _sections(self) -> Iterator[tuple[str, pl.DataFrame | None, str]]:
        yield self._match()
        table, note = self.tables["rows"], ""
        if len(table) > _MOST_ROWS:
            note = f"{len(table):,} rows; these are the first and the last {_MOST_ROWS // 2}"
            table = pl.concat([table.head(_MOST_ROWS // 2), table.tail(_MOST_ROWS // 2)])
        yield "rows", table, note
        if self.choices:
            yield "chosen", None, "\n  ".join(self.choices)
        yield "waited last for", None, "; ".join(self.waited_for)


def _cells(column: pl.Series) -> pl.Series:
    return pl.Series(column.name, [cell_text(value) for value in column], dtype=pl.String)


def why(query: Query, match: Any, frame: Any, options: BoundedOptions) -> Why:
    """What `Query.why` gives."""
    row = _row(match)
    rows = of_partition(read_given(query, frame, options, Wanted(row)), row, "a match")
    if query.rows is not None:
        return _of_row_pattern(rows, row)
    told = History.of(rows, row)
    return Why(
        query=told.rows.query,
        match=row,
        reported_at=told.reported_at,
        intervals=tuple(told.intervals()),
        decisions=tuple(told.decisions()),
        waited_for=tuple(told.waited_for()),
        absences=tuple(told.absences()),
    )


def _of_row_pattern(rows: GivenRows, row: dict[str, Any]) -> RowWhy:
    told = RowHistory.of(rows, row)
    found = tuple(told.rows())
    reported_at = told.reported_at
    return RowWhy(
        query=rows.query,
        match=row,
        reported_at=reported_at,
        intervals=tuple(told.intervals()),
        decisions=(),
        waited_for=tuple(told.waited_for()),
        rows=found,
        choices=tuple(told.choices()),
    )


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
