"""Other numbers to compare a column with: which of the values in the rows would make a match appear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import polars as pl

from piestream.diagnosis.parts import END, START
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
from piestream.language.model import Symbol
from piestream.show.table import cell_text

__all__ = ["comparisons", "proposed"]

#: The columns of the values that are tried and of their numbers; no column of a user's is called so.
_VALUE, _NUMBER = "value that is tried", "number of the value"
#: So many of the nearest values are tried on each side, and no more rows are made for it than these.
_MOST_VALUES, _MOST_ROWS = 64, 2_000_000

#: What lets a value that fails pass, and what makes one that passes fail, by the comparison.
_LOOSER: dict[str, ComparisonOperator] = {">": ">=", ">=": ">=", "<": "<=", "<=": "<="}
_STRICTER: dict[str, ComparisonOperator] = {">": ">", ">=": ">", "<": "<", "<=": "<"}
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
        case Comparison(op, Column(name), Literal(value)) if op in _LOOSER and _is_number(value):
            yield Place(node, name, op, value)  # type: ignore[arg-type]
        case Comparison(op, Literal(value), Column(name)) if op in _LOOSER and _is_number(value):
            yield Place(node, name, _MIRRORED[op], value)  # type: ignore[arg-type]
        case Between(Column(name), Literal(low), Literal(high)) if _is_number(low) and _is_number(
            high
        ):
            least = Comparison(">=", Column(name), Literal(low))
            most = Comparison("<=", Column(name), Literal(high))
            yield Place(node, name, ">=", low, most)  # type: ignore[arg-type]
            yield Place(node, name, "<=", high, least)  # type: ignore[arg-type]
        case _:
            for child in children(node):
                yield from comparisons(child)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _replaced(node: Any, old: Node, new: Node) -> Any:
    """A tree with one of its nodes replaced."""
    if node is old:
        return new
    if isinstance(node, tuple):
        return tuple(_replaced(part, old, new) for part in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    parts = {
        field.name: _replaced(getattr(node, field.name), old, new)
        for field in fields(node)
        if field.name != "span"
    }
    return replace(node, **parts)


def proposed(target: Target, symbol: Symbol) -> Iterator[tuple[Symbol, float, str]]:
    """Symbols with another number in their predicate, how large the change is, and it in words."""
    tree = symbol.predicate.tree
    if tree is None:
        return
    for place in comparisons(tree):
        values = target.rows.frame[place.column]
        if not values.dtype.is_numeric():
            continue
        scale = values.drop_nans().std() or abs(place.number) or 1.0
        for operators, is_looser in ((_LOOSER, True), (_STRICTER, False)):
            operator = operators[place.operator]
            found = _nearest_value(target, symbol, place, operator, is_looser)
            if found is not None:
                value, match = found
                tree_with = _replaced(tree, place.node, place.replaced_by(operator, Literal(value)))
                changed = Predicate.parse(canonical_text(tree_with))
                text = _text(target, symbol, place, operator, value, is_looser, match)
                size = abs(value - place.number) / float(scale)  # type: ignore[arg-type]
                yield replace(symbol, predicate=changed), size, text


def _nearest_value(
    target: Target, symbol: Symbol, place: Place, operator: ComparisonOperator, is_looser: bool
) -> tuple[Any, dict[str, Any]] | None:
    """The value nearest to the number with which there is a match, all of them tried in one run."""
    rows, tree = target.rows, symbol.predicate.tree
    values = rows.frame[place.column].drop_nulls()
    values = values.drop_nans().unique()
    holds = {">": values > place.number, ">=": values >= place.number,
             "<": values < place.number, "<=": values <= place.number}[place.operator]  # fmt: skip
    values = values.filter(~holds if is_looser else holds)
    near = (values.cast(pl.Float64) - place.number).abs()
    count = max(1, min(_MOST_VALUES, _MOST_ROWS // max(1, len(rows.frame))))
    values = values.gather(near.arg_sort())[:count]
    if values.is_empty():
        return None
    tried = pl.DataFrame({_NUMBER: range(len(values)), _VALUE: values})
    changed = Predicate.parse(
        canonical_text(_replaced(tree, place.node, place.replaced_by(operator, Column(_VALUE))))
    )
    query = replace(
        rows.query,
        symbols=tuple(
            replace(s, predicate=changed) if s.name == symbol.name else s
            for s in rows.query.symbols
        ),
        partition_by=(*rows.query.partition_by, _NUMBER),
    )
    found = target.matches(query, replace(rows, frame=rows.frame.join(tried, how="cross")))
    if found.is_empty():
        return None
    match = found.sort(_NUMBER).row(0, named=True)
    return values[match[_NUMBER]], match


def _text(
    target: Target, symbol: Symbol, place: Place, operator: str, value: Any, is_looser: bool,
    match: dict[str, Any],
) -> str:  # fmt: skip
    name, shown = place.column, f"{place.column} {operator} {value!r}"
    was = f"{place.operator} {place.number!r}"
    if not is_looser:
        return f"{symbol.name} is {name} {was}; with {shown} it matches"
    times = target.rows.frame[target.rows.time.name].to_physical().cast(pl.Int64)
    start, end = match[f"{START}{symbol.name}"], match[f"{END}{symbol.name}"]
    inside = (times >= start) & ((times < end) if end is not None else True)
    at: Any = times.filter(inside & (target.rows.frame[name] == value)).min()
    where = "" if at is None else f" at {cell_text(target.time(at))}"
    return f"{name} reached {cell_text(value)} (needs {was}){where}; with {shown} it matches"
