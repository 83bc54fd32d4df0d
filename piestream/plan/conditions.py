"""WHERE meets the columns of the input: the condition as an expression over result rows.

It is judged once for each match, with the values known at its report. A completion row of EMIT ON
BOTH follows its trigger row, so result rows then hold the words that were known at the trigger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.expressions import syntax
from piestream.intervals.aggregates import CellKind
from piestream.language.model import Query
from piestream.language.parts import Condition, Emit
from piestream.plan.aggregate_outputs import SelectedValue
from piestream.plan.aggregates import Selection
from piestream.plan.columns import CODE, FLOAT, INTEGER, Errors, TimeColumn
from piestream.plan.match_values import MatchValues, lengths_in_ticks
from piestream.plan.outputs import Output, ResultRows
from piestream.plan.program import Cell, JoinKey, OutputWord

Words = NDArray[np.int64]

#: The instant of a report, where that is not its time.
_REPORT = OutputWord(0, "report")

__all__ = [
    "Judged",
    "MatchCondition",
    "equalities",
    "join_key_texts",
    "join_keys",
    "match_condition",
]


@dataclass(frozen=True)
class MatchCondition:
    """The condition of a bound query."""

    values: MatchValues  # what it reads
    expression: pl.Expr
    at_trigger: bool  # whether a match has rows after the one at which it is judged
    keys: tuple[JoinKey, ...] = ()  # its equalities of values that are known from the start
    judged: Judged | None = None  # what the limits on what is emitted read, as they come after it

    @property
    def words(self) -> tuple[OutputWord, ...]:
        """The words that result rows must have for it."""
        words = self.values.words
        judged = () if self.judged is None else self.judged.words
        return (*(replace(word, at_trigger=self.at_trigger) for word in words), *judged)

    def holds(self, found: ResultRows) -> NDArray[np.bool_]:
        """Of which result rows it is true; NULL is false."""
        known = replace(found, at_trigger=self.at_trigger)
        return self.values.frame(known).select(self.expression).to_series().to_numpy()


@dataclass(frozen=True)
class Judged:
    """What ONCE PER, NO OVERLAP, COOLDOWN and LIMIT read of result rows that fulfil WHERE."""

    symbols: tuple[int, ...]
    is_sequenced: bool  # whether instants are other words than times
    #: Of each symbol of ONCE PER, and whether its intervals come as rows.
    once: tuple[tuple[int, bool], ...]

    @property
    def words(self) -> tuple[OutputWord, ...]:
        """The words that result rows must have for it."""
        report = (_REPORT,) if self.is_sequenced else ()
        numbers = (OutputWord(symbol, "number") for symbol, of_row in self.once if of_row)
        return (*map(self._start, self.symbols), *report, *numbers)

    def _start(self, symbol: int) -> OutputWord:
        return OutputWord(symbol, "start" if self.is_sequenced else "ts")

    def rows(self, found: ResultRows) -> tuple[Words, Words]:
        """The arguments of `Detector.judge`: partition, report time, earliest start, report; and ONCE PER."""
        earliest = np.stack([found[self._start(s)] for s in self.symbols]).min(axis=0)
        none = np.zeros(len(earliest), np.int64)
        identity = [
            word
            for symbol, of_row in self.once
            for word in (
                found[self._start(symbol)],
                found[OutputWord(symbol, "number")] if of_row else none,
            )
        ]
        reports = found[_REPORT] if self.is_sequenced else found.times
        rows = np.stack([found.partitions, found.times, earliest, reports], axis=1)
        return rows, np.stack(identity, axis=1) if identity else none


def _judged(query: Query) -> Judged | None:
    if not query.limits:
        return None
    names = [symbol.name for symbol in query.symbols]
    once = [(names.index(s), query.stream_of(s).is_ready_made) for s in query.limits.once_per]
    present = tuple(names.index(symbol.name) for symbol in query.present)
    return Judged(present, query.is_sequenced, tuple(once))


def match_condition(
    query: Query, outputs: tuple[Output, ...], time: TimeColumn
) -> MatchCondition | None:
    """The condition of a query, None where it has no WHERE; its faults are raised together."""
    where = query.where
    if where is None:
        return None
    errors = Errors()
    lengths = errors.attempt(lengths_in_ticks, query, ("where",), where.lengths, time)
    values = MatchValues(outputs, lengths or dict.fromkeys((text for text, _ in where.lengths), 0))
    expression = errors.attempt(where.predicate.to_polars, values.schema(time), values.tick(time))
    errors.raise_all()
    assert expression is not None
    keys = tuple(_join_keys(where, {output.name: output for output in outputs}))
    at_trigger = query.emit is Emit.BOTH
    return MatchCondition(values, expression, at_trigger, keys, _judged(query))


def join_keys(condition: MatchCondition | None) -> tuple[JoinKey, ...]:
    """The join keys of a condition, which may not be there."""
    return () if condition is None else condition.keys


def join_key_texts(where: Condition, condition: MatchCondition) -> list[str]:
    """The equalities of a condition that are join keys, as explanations show them."""
    outputs = {output.name: output for output in condition.values.outputs}
    return [
        f"{x} = {y}"
        for _, x, y in equalities(where)
        if x in outputs and y in outputs and _join_key(outputs[x], outputs[y]) is not None
    ]


def equalities(where: Condition) -> Iterator[tuple[syntax.Comparison, str, str]]:
    """The equalities that are true wherever the condition is, and the texts of both sides."""
    tree = where.predicate.tree
    for part in tree.operands if isinstance(tree, syntax.And) else (tree,):
        match part:
            case syntax.Comparison("=", syntax.Column(x), syntax.Column(y)):
                yield part, x, y


def _join_keys(where: Condition, outputs: Mapping[str, Output]) -> Iterator[JoinKey]:
    for _, x, y in equalities(where):
        if x in outputs and y in outputs:
            key = _join_key(outputs[x], outputs[y])
            if key is not None:
                yield key


def _join_key(x: Output, y: Output) -> JoinKey | None:
    """The join key that an equality is, if both values are final from the start, and comparable.

    They are compared as the words that hold them; codes are then of one dictionary. A column that
    has no type yet has no value that is equal to any.
    """
    first = Selection(CellKind.FIRST)
    if not isinstance(x, SelectedValue) or not isinstance(y, SelectedValue):
        return None
    if x.selection != first or y.selection != first or x.symbol == y.symbol:
        return None
    forms = {x.attribute.form, y.attribute.form}
    of_one_kind = x.dtype == y.dtype or (x.dtype.is_integer() and y.dtype.is_integer())
    comparable = (
        forms == {FLOAT}
        or (forms == {INTEGER} and of_one_kind)
        or (forms == {CODE} and x.dtype == y.dtype and x.dtype != pl.Categorical)
        or pl.Null in (x.dtype, y.dtype)
    )
    if not comparable and x.number != y.number:
        return None
    cells = [Cell(one.symbol, CellKind.FIRST, one.number) for one in (x, y)]
    return JoinKey(*cells)
