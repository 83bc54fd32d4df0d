"""Other numbers to compare a column with: which of the values in the rows would make a match appear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import polars as pl

from piestream.diagnosis.changes import Proposal, with_symbol
from piestream.diagnosis.excluded import excluded, excluded_text
from piestream.diagnosis.parts import END, START, partitioned_by, with_inner
from piestream.diagnosis.rows import GivenRows
from piestream.diagnosis.target import Target
from piestream.expressions.canonical import canonical_text
from piestream.expressions.predicate import Predicate
from piestream.expressions.syntax import (
    And,
    Between,
    Column,
    Comparison,
    ComparisonOperator,
    Literal,
    Node,
    children,
)
from piestream.language.model import Query
from piestream.language.parts import Symbol
from piestream.show.table import cell_text

__all__ = ["LOOSER", "STRICTER", "comparisons", "is_number", "replaced_node", "thresholds"]

#: The column of the values that are tried; no column of a user's is called so.
_VALUE = "value that is tried"
#: So many of the nearest values are tried on each side, and no more rows are made for it than these.
_MOST_VALUES, _MOST_ROWS = 64, 2_000_000

#: What lets a value that fails pass, and what makes one that passes fail, by the comparison.
LOOSER: dict[str, ComparisonOperator] = {">": ">=", ">=": ">=", "<": "<=", "<=": "<="}
STRICTER: dict[str, ComparisonOperator] = {">": ">", ">=": ">", "<": "<", "<=": "<"}
_MIRRORED: dict[str, ComparisonOperator] = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True, slots=True)
class Place:
    """A comparison of a column with a number, and where it stands in a predicate."""

    node: Node
    column: str
    operator: ComparisonOperator
    number: float
    rest: Comparison | None = None  # the other side of a BETWEEN

    def replaced_by(self, operator: ComparisonOperator, other: Node) -> Node:
        """What stands in its place if the column is compared otherwise."""
        changed = Comparison(operator, Column(self.column), other)
        return changed if self.rest is None else And((changed, self.rest))


def comparisons(node: Node) -> Iterator[Place]:
    """The comparisons of a column of the event with a number in a predicate."""
    match node:
        case Comparison(op, Column(name), Literal(value)) if op in LOOSER and is_number(value):
            yield Place(node, name, op, value)  # type: ignore[arg-type]
        case Comparison(op, Literal(value), Column(name)) if op in LOOSER and is_number(value):
            yield Place(node, name, _MIRRORED[op], value)  # type: ignore[arg-type]
        case Between(Column(name), Literal(low), Literal(high)) if is_number(low) and is_number(
            high
        ):
            least = Comparison(">=", Column(name), Literal(low))
            most = Comparison("<=", Column(name), Literal(high))
            yield Place(node, name, ">=", low, most)  # type: ignore[arg-type]
            yield Place(node, name, "<=", high, least)  # type: ignore[arg-type]
        case _:
            for child in children(node):
                yield from comparisons(child)


def is_number(value: object) -> bool:
    """Whether a constant is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def replaced_node(node: Any, old: Node, new: Node) -> Any:
    """A tree with one of its nodes replaced."""
    if node is old:
        return new
    if isinstance(node, tuple):
        return tuple(replaced_node(part, old, new) for part in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {
        field.name: replaced_node(getattr(node, field.name), old, new)
        for field in fields(node)
        if field.name != "span"
    }
    return replace(node, **parts)


def thresholds(target: Target) -> Iterator[Proposal]:
    """Another number that a column is compared with: of events, of rows of intervals, of matches."""
    for found in _compared(target.rows):
        tree = found.symbol.predicate.tree
        frame = None if tree is None else found.rows.results_of(found.symbol)
        if tree is None or frame is None:
            continue
        for place in comparisons(tree):
            dtype = frame.schema[place.column]
            if not dtype.is_integer() and not dtype.is_float():
                continue
            for operators, is_looser in ((LOOSER, True), (STRICTER, False)):
                operator = operators[place.operator]
                proposal = _Tried(target, found, frame, place, operator, is_looser).nearest()
                if proposal is not None:
                    yield proposal


@dataclass(frozen=True)
class _Compared:
    """A symbol of a query, or of one in brackets, and the whole query with another in its place."""

    rows: GivenRows  # of the query that defines it
    symbol: Symbol
    whole: Callable[[Query], Query]
    outer: Symbol | None = None  # of the whole query, whose intervals are the inner query's matches


def _compared(rows: GivenRows) -> Iterator[_Compared]:
    for symbol in rows.query.symbols:
        yield _Compared(rows, symbol, lambda changed: changed)
    for number, inner_rows in rows.inner.items():
        outer = next((s for s in rows.query.symbols if s.stream == number), None)
        for found in _compared(inner_rows):

            def whole(changed: Query, number: int = number, found: _Compared = found) -> Query:
                return with_inner(rows.query, number, found.whole(changed))

            yield replace(found, whole=whole, outer=outer)


@dataclass(frozen=True)
class _Tried:
    """Values of a column in the place of a number that it is compared with."""

    target: Target
    compared: _Compared
    frame: pl.DataFrame  # the rows of the symbol's stream
    place: Place
    operator: ComparisonOperator
    is_looser: bool

    def nearest(self) -> Proposal | None:
        """The value nearest to the number with which there is a match, all of them tried in one run."""
        values = self._candidates()
        if values.is_empty():
            return None
        query = partitioned_by(self._with(Column(_VALUE)), _VALUE)
        tried = pl.DataFrame({_VALUE: values})
        rows = self.target.rows
        each = {key: frame.join(tried, how="cross") for key, frame in rows.inputs.items()}
        found = self.target.matches(query, rows.with_inputs(each))
        if found.is_empty():
            return None
        match = found.sort(self._distance(found[_VALUE])).row(0, named=True)
        value = match[_VALUE]
        known = self.frame[self.place.column]
        scale: Any = known.drop_nulls().drop_nans().std() or abs(self.place.number) or 1.0
        size = abs(value - self.place.number) / float(scale)
        return Proposal("threshold", self._with(Literal(value)), size, self._text(value, match))

    def _distance(self, values: pl.Series) -> pl.Series:
        return (values.cast(pl.Float64) - self.place.number).abs()

    def _candidates(self) -> pl.Series:
        """The nearest of the values on the other side of the number."""
        place = self.place
        values = self.frame[place.column].drop_nulls().drop_nans().unique()
        holds = {">": values > place.number, ">=": values >= place.number,
                 "<": values < place.number, "<=": values <= place.number}[place.operator]  # fmt: skip
        values = values.filter(~holds if self.is_looser else holds)
        rows = sum(len(frame) for frame in self.target.rows.inputs.values())
        count = max(1, min(_MOST_VALUES, _MOST_ROWS // max(1, rows)))
        return values.gather(self._distance(values).arg_sort())[:count]

    def _with(self, other: Node) -> Query:
        """The whole query with something else in the place of the number."""
        symbol, place = self.compared.symbol, self.place
        tree = replaced_node(
            symbol.predicate.tree, place.node, place.replaced_by(self.operator, other)
        )
        predicate = Predicate.parse(canonical_text(tree))
        changed = with_symbol(self.compared.rows.query, replace(symbol, predicate=predicate))
        return self.compared.whole(changed)

    def _text(self, value: Any, match: dict[str, Any]) -> str:
        symbol, place, whole = self.compared.symbol, self.place, self.target.rows.query
        stream = self.compared.rows.query.stream_of(symbol.name)
        name = f"{stream.name}.{place.column}" if whole.is_combined else place.column
        shown = f"{name} {self.operator} {value!r}"
        was = f"{place.operator} {place.number!r}"
        if self._is_absent():
            return f"{self._excluded(match)}{symbol.name} is {name} {was}; with {shown} it matches"
        if not self.is_looser:
            return f"{symbol.name} is {name} {was}; with {shown} it matches"
        at = self._time_of(value, match)
        where = "" if at is None else f" at {cell_text(self.target.time(at))}"
        reached = f"{'is' if stream.is_ready_made else 'reached'} {cell_text(value)}"
        return f"{name} {reached} (needs {was}){where}; with {shown} it matches"

    def _is_absent(self) -> bool:
        """Whether no match has an interval of the symbol, or of that of the brackets in which it is."""
        compared, whole = self.compared, self.target.rows.query
        outer = compared.outer
        if outer is not None and outer.name not in {one.name for one in whole.present}:
            return True
        return compared.symbol.name not in {one.name for one in compared.rows.query.present}

    def _excluded(self, match: dict[str, Any]) -> str:
        """The intervals of an absent symbol that exclude a match, if it is one of the whole query."""
        target = self.target
        for absence in target.rows.query.absences:
            if absence.symbol == (self.compared.outer or self.compared.symbol).name:
                there = tuple(excluded(target, absence, match))
                if there:
                    return f"{excluded_text(target, there)} "
        return ""

    def _time_of(self, value: Any, match: dict[str, Any]) -> int | None:
        """When the column had a value in the match: at an event, or where an interval begins."""
        rows, symbol, whole = self.compared.rows, self.compared.symbol, self.target.rows.query
        outer = self.compared.outer or symbol
        if outer.name not in {s.name for s in self.target.rows.query.symbols}:
            return None
        start, end = match[f"{START}{outer.name}"], match[f"{END}{outer.name}"]
        key = rows.key_of(symbol.stream)
        if key is None or rows.query.stream_of(symbol.name).is_ready_made:
            return int(start)
        times = self.frame[rows.time_columns[key][0]].to_physical().cast(pl.Int64)
        if end is not None and whole.is_sequenced:
            end += 1  # events of the time at which it ends may be part of it
        inside = (times >= start) & ((times < end) if end is not None else True)
        at: Any = times.filter(inside & (self.frame[self.place.column] == value)).min()
        return None if at is None else int(at)
