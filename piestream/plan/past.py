"""What predicates read of earlier events, bound to the columns of the input: PREV, windows, UNTIL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from piestream.expressions.backends.polars import polars_expression, polars_value
from piestream.expressions.backends.python import ValueFunction, value_function
from piestream.expressions.predicate import PAST_PREFIX, Predicate
from piestream.expressions.typed import Expression, Past, Previous, Until, Window, past_of
from piestream.plan.columns import TimeColumn

__all__ = ["PastColumn", "past_columns"]


@dataclass(frozen=True)
class PastColumn:
    """One thing that predicates read of earlier events; each is a column beside those of the input.

    Its operands are expressions over these columns, and over what comes before it.
    """

    node: Past
    operands: tuple[pl.Expr, ...] = field(repr=False)
    operand_types: tuple[pl.DataType, ...]
    dtype: pl.DataType
    gap: int | None = None  # of UNTIL: how long a silence may be, in ticks

    def __deepcopy__(self, memo: object) -> PastColumn:
        return self  # it never changes

    @property
    def name(self) -> str:
        """The name of its column."""
        return PAST_PREFIX + self.node.key

    @cached_property
    def readers(self) -> tuple[ValueFunction, ...] | None:
        """Functions that give the operands of one event; None where that takes a frame.

        It does for times: clocks show some of them twice, and a window counts in ticks.
        """
        is_window = isinstance(self.node, Window)
        for dtype in self.operand_types:
            has_zone = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
            if has_zone or (dtype.is_temporal() and is_window):
                return None
        functions = [value_function(operand) for operand in _operands(self.node)]
        found = tuple(function for function in functions if function is not None)
        return found if len(found) == len(functions) else None


def _operands(node: Past) -> tuple[Expression, ...]:
    return (node.start, node.stop) if isinstance(node, Until) else (node.operand,)


def past_columns(
    predicates: Iterable[Predicate],
    schema: Mapping[str, pl.DataType],
    time: TimeColumn,
    gap: int | None,
) -> tuple[PastColumn, ...]:
    """What some predicates read of earlier events, in an order in which it can be evaluated.

    ``gap`` is MAX GAP in ticks.
    """
    reading = [predicate for predicate in predicates if predicate.reads_the_past]
    typed = [
        predicate.typed(schema, lambda duration: time.ticks(duration, "OVER"))
        for predicate in reading
    ]
    types = {name: schema[name] for predicate in reading for name in predicate.columns}
    found = []
    for node in past_of(typed):
        write = polars_expression if isinstance(node, Until) else polars_value
        operands = tuple(write(operand, PAST_PREFIX, schema) for operand in _operands(node))
        named = [operand.alias(str(number)) for number, operand in enumerate(operands)]
        operand_types = tuple(pl.DataFrame(schema=types).select(named).dtypes)
        column = PastColumn(
            node,
            operands,
            operand_types,
            _result_type(node, operand_types[0]),
            gap if isinstance(node, Until) else None,
        )
        types[column.name] = column.dtype
        found.append(column)
    return tuple(found)


def _result_type(node: Past, operand: pl.DataType) -> pl.DataType:
    match node:
        case Previous():
            return operand
        case Until():
            return pl.Boolean()
        case Window(_, "COUNT"):
            return pl.Int64()
    return operand
