"""Other numbers in the conditions of a row pattern: with which of them a match would appear.

A number stands in a comparison, alone or in a sum or a product: ``x > 5``, ``price < 0.9 * PREV(price)``,
``SUM(A.x) - 3 <= x``. Of each row it is known which number would make the two sides equal, and these
are tried, the nearest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, log10
from typing import Any

import polars as pl

from piestream.diagnosis.changes import Proposal
from piestream.diagnosis.row_conditions import condition_tree, short
from piestream.diagnosis.row_parts import FIRST, VARIABLE, beginnings, other_pattern, rewritten
from piestream.diagnosis.row_places import PLACE
from piestream.diagnosis.row_target import RowTarget
from piestream.diagnosis.target import Target
from piestream.diagnosis.thresholds import LOOSER, STRICTER, is_number, replaced_node
from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.syntax import (
    And,
    Arithmetic,
    Between,
    Column,
    Comparison,
    ComparisonOperator,
    Literal,
    Minus,
    Node,
    children,
)
from piestream.language.model import Query
from piestream.language.row_patterns import Variable
from piestream.show.table import cell_text

__all__ = ["row_thresholds"]

#: Columns that no user's is called like: the numbers that are tried, and what a row asks for.
_TRIED, _WANTED = "value that is tried", "value that is wanted"
#: So many of the nearest numbers are tried on each side, and no more rows are made for it than these.
_MOST_VALUES, _MOST_ROWS = 24, 2_000_000
#: Numbers that were calculated are tried with so many digits, rounded down and up.
_DIGITS = 4

_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}


@dataclass(frozen=True, slots=True)
class Constant:
    """A number in a comparison, and the expression whose value it would have to be for equality."""

    node: Node  # what is replaced: a comparison, or a BETWEEN
    comparison: Comparison
    literal: Node
    wanted: Node
    rest: Comparison | None = None  # the other side of a BETWEEN

    @property
    def number(self) -> float:
        """The number."""
        match self.literal:
            case Minus(Literal(value)):
                return -value  # type: ignore[operator]
            case Literal(value):
                return value  # type: ignore[return-value]
        raise AssertionError(self.literal)

    def changed(self, operator: ComparisonOperator, number: Node) -> Node:
        """What stands in its place with another number and operator."""
        both = replaced_node(self.comparison, self.literal, number)
        changed = replace(both, operator=operator)
        return changed if self.rest is None else And((changed, self.rest))


def constants(node: Node) -> Iterator[Constant]:
    """The numbers in the comparisons of a condition."""
    match node:
        case Comparison(operator) if operator in LOOSER:
            yield from _constants_of(node, node, None)
        case Between(operand, low, high):
            least, most = Comparison(">=", operand, low), Comparison("<=", operand, high)
            yield from _constants_of(node, least, most)
            yield from _constants_of(node, most, least)
    for child in children(node):
        yield from constants(child)


def _constants_of(
    node: Node, comparison: Comparison, rest: Comparison | None
) -> Iterator[Constant]:
    left, right = comparison.left, comparison.right
    for side, other in ((left, right), (right, left)):
        for literal, wanted in _isolated(side, other):
            if not (is_number(getattr(other, "value", None)) and isinstance(other, Literal)):
                yield Constant(node, comparison, literal, wanted, rest)


def _isolated(side: Node, other: Node) -> Iterator[tuple[Node, Node]]:
    """The numbers in one side, each with what it is if both sides are equal."""
    match side:
        case Literal(value) | Minus(Literal(value)) if is_number(value):
            yield side, other
        case Minus(operand):
            yield from _isolated(operand, Minus(other))
        case Arithmetic(operator, left, right) if operator in _INVERSE:
            inverse: Any = _INVERSE[operator]
            yield from _isolated(left, Arithmetic(inverse, other, right))
            if operator in ("+", "*"):
                yield from _isolated(right, Arithmetic(inverse, other, left))
            else:
                yield from _isolated(right, Arithmetic(operator, left, other))


def row_thresholds(target: Target) -> Iterator[Proposal]:
    """Another number in the condition of a variable."""
    assert isinstance(target, RowTarget)
    for variable in target.pattern.variables:
        tree, of_match = condition_tree(target.rows.query, variable)
        if tree is None:
            continue
        for constant in constants(tree):
            place = _Place(target, variable, tree, of_match, constant)
            wanted = place.wanted()
            if wanted is None or wanted.is_empty():
                continue
            operator = constant.comparison.operator
            tried = [place.nearest(wanted, changed[operator]) for changed in (LOOSER, STRICTER)]
            proposals = [proposal for proposal in tried if proposal is not None]
            if proposals:
                yield min(proposals, key=lambda proposal: proposal.size)


@dataclass(frozen=True)
class _Place:
    """A number in the condition of a variable."""

    target: RowTarget
    variable: str
    tree: Node
    of_match: bool  # whether the columns of the condition are items of the match so far
    constant: Constant

    def _text(self, node: Node) -> str:
        return canonical_text(node, names_are_text=self.of_match)

    def _condition(self, new: Node) -> str:
        return self._text(replaced_node(self.tree, self.constant.node, new))

    def wanted(self) -> pl.DataFrame | None:
        """The numbers that rows would need, with the places of the rows; None if that cannot be asked."""
        try:
            found = self._of_ways() if self.of_match else self._of_rows()
        except QueryError:
            return None
        dtype = found.schema[_WANTED]
        if not dtype.is_integer() and not dtype.is_float():
            return None
        found = found.drop_nulls(_WANTED)
        if dtype.is_float():
            found = found.filter(pl.col(_WANTED).is_finite())
        return found

    def _of_rows(self) -> pl.DataFrame:
        """Of a condition that reads its row, and rows before, alone: all rows from the place on."""
        alone = other_pattern(self.target.rows.query, Variable(self.variable))
        shown = [(self._text(self.constant.wanted), _WANTED), (f'FIRST("{PLACE}")', FIRST)]
        query = rewritten(alone, {self.variable: "TRUE"}, shown)
        target = self.target
        found = target.rows.run(query).filter(pl.col(FIRST) >= target.first)
        if target.pattern.within is not None and target.expected:
            room = target.rows.binding.compiled.ticks.within
            last = target.upto(target.ticks(target.expected[-1]) + room) - 1
            found = found.filter(pl.col(FIRST) <= target.places[last])
        return found.select(_WANTED, pl.col(FIRST).alias(PLACE))

    def _of_ways(self) -> pl.DataFrame:
        """Of one that reads the match so far: the rows of ways that would go on without the comparison."""
        target = self.target
        lifted = self._condition(Literal(True))
        shown = [(self._text(self.constant.wanted), _WANTED)]
        tables = []
        pattern = target.pattern.pattern
        for query in (
            target.longest(beginnings(pattern)),
            other_pattern(target.rows.query, pattern, within=target.pattern.within),
        ):
            found = target.every_row(
                *target.placed(rewritten(query, {self.variable: lifted}, shown))
            )
            here = pl.col(FIRST).is_between(target.first, target.last)
            tables.append(
                found.filter(here & (pl.col(VARIABLE) == self.variable)).select(_WANTED, PLACE)
            )
        return pl.concat(tables).unique(maintain_order=True)

    def nearest(self, wanted: pl.DataFrame, operator: ComparisonOperator) -> Proposal | None:
        """The number nearest to the one that there is with which there is a match."""
        number = self.constant.number
        tried = self._tried(wanted)
        if tried.is_empty():
            return None
        column = Column(f'"{_TRIED}"' if self.of_match else _TRIED)
        try:
            each = self._query(operator, column)
        except QueryError:
            return None
        values = tried.select(pl.col("tried").unique()).rename({"tried": _TRIED})
        found = self.target.begun(each, values)
        if found.is_empty():
            return None
        distance = (found[_TRIED].cast(pl.Float64) - number).abs()
        best = found.sort(distance).row(0, named=True)
        value = best[_TRIED]
        scale: Any = wanted[_WANTED].std() or abs(number) or 1.0
        size = abs(value - number) / float(scale)
        of = tried.filter(pl.col("tried") == value).row(0, named=True)
        query = self._query(operator, Literal(value))
        return Proposal("threshold", query, size, self._said(operator, value, of))

    def _tried(self, wanted: pl.DataFrame) -> pl.DataFrame:
        """The nearest numbers on each side: those that rows would need, rounded if calculated."""
        number = self.constant.number
        rows = sum(len(frame) for frame in self.target.rows.inputs.values())
        most = max(1, min(_MOST_VALUES, _MOST_ROWS // max(1, 4 * rows)))
        found = wanted.unique(_WANTED, keep="first", maintain_order=True)
        away = (pl.col(_WANTED) - number).abs()
        below = found.filter(pl.col(_WANTED) <= number).sort(away).head(most)
        above = found.filter(pl.col(_WANTED) > number).sort(away).head(most)
        near = pl.concat([below, above])
        if not near.schema[_WANTED].is_float() or isinstance(self.constant.wanted, Column):
            return near.with_columns(pl.col(_WANTED).alias("tried"))
        rounded = [
            {**row, "tried": value}
            for row in near.iter_rows(named=True)
            for value in _rounded(row[_WANTED])
        ]
        return pl.DataFrame(rounded, schema={**near.schema, "tried": pl.Float64})

    def _query(self, operator: ComparisonOperator, number: Node) -> Query:
        changed = self._condition(self.constant.changed(operator, number))
        return rewritten(self.target.rows.query, {self.variable: changed})

    def _said(self, operator: ComparisonOperator, value: Any, of: dict[str, Any]) -> str:
        comparison = self._text(self.constant.comparison)
        new = replaced_node(self.constant.comparison, self.constant.literal, Literal(value))
        shown = self._text(replace(new, operator=operator))
        at = self.target.shown(of[PLACE])
        is_there = f"{self._text(self.constant.wanted)} is {cell_text(of[_WANTED])} at {at}"
        return short(f"{self.variable}: {is_there} (needs {comparison}); with {shown} it matches")


def _rounded(value: float) -> Iterator[float]:
    """A number with few digits, rounded down and up.

    >>> list(_rounded(0.123456)), list(_rounded(-5.0))
    ([0.1234, 0.1235], [-5.0])
    """
    if not value or not isfinite(value):
        yield value
        return
    digits = _DIGITS - 1 - floor(log10(abs(value)))
    scaled = value * 10.0**digits
    found = [round(whole / 10.0**digits, max(digits, 0)) for whole in (floor(scaled), ceil(scaled))]
    yield from dict.fromkeys(
        value if abs(each - value) < 1e-12 * abs(value) else each for each in found
    )
