"""Expressions that give a value, in the language of predicates: what MEASURES are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, located
from piestream.expressions.limits import TOO_DEEP, TOO_LARGE, is_too_large
from piestream.expressions.parse import read_predicate
from piestream.expressions.reading import Names
from piestream.expressions.syntax import Column, Node, children, columns_of
from piestream.expressions.tokens import Token
from piestream.expressions.typecheck import lowered_value
from piestream.expressions.typed import Expression
from piestream.expressions.types import Tick

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ValueExpression"]


@dataclass(frozen=True, slots=True)
class ValueExpression:
    """An expression over named values, each of which was read of something else.

    Two of them are equal when their canonical texts are.
    """

    text: str
    tree: Node = field(compare=False, repr=False)
    source: str = field(compare=False, repr=False)
    offset: int = field(compare=False, repr=False)
    clause: str | None = field(default=None, compare=False, repr=False)  # of a match's values

    @classmethod
    def read(
        cls,
        text: str,
        source: str,
        offset: int,
        leaves: Sequence[Token],
        parameters: Mapping[str, Any] | None = None,
        clause: str | None = None,
    ) -> tuple[ValueExpression | None, list[Diagnostic]]:
        """The expression of a text at ``offset`` in a query's source, or what is wrong with it.

        The leaves, in the text, are the values that it may name. Those of a ``clause`` on matches of
        intervals may be times, and lengths of time.
        """
        tree, diagnostics = read_predicate(text, Names(), parameters, leaves)
        try:
            if tree is not None and is_too_large(tree, children):
                diagnostics = [Diagnostic(None, TOO_LARGE)]
            elif tree is not None:
                diagnostics = lowered_value(tree, None, clause)[1]
        except RecursionError:
            diagnostics = [Diagnostic(None, TOO_DEEP)]
        if tree is None or diagnostics:
            whole = Span(0, len(text))
            return None, [replace(d, span=d.span or whole).moved(offset) for d in diagnostics]
        canonical = canonical_text(tree, names_are_text=True)
        return cls(canonical, tree, source, offset, clause), []

    def __str__(self) -> str:
        return self.text

    @property
    def names(self) -> tuple[str, ...]:
        """The values that it reads."""
        return tuple(dict.fromkeys(column.name for column in columns_of(self.tree)))

    @property
    def only_name(self) -> str | None:
        """The one value that it is, if nothing is done with it."""
        return self.tree.name if isinstance(self.tree, Column) else None

    def typed(self, schema: Mapping[str, Any], counted_in: Tick | None = None) -> Expression:
        """The typed form over a frame that has the values as columns.

        Differences of times are counted in a unit, ``counted_in``; None: in those of their columns.
        """
        expression, diagnostics = lowered_value(self.tree, schema, self.clause, counted_in)
        if diagnostics:
            found = [located(d.moved(self.offset), self.source) for d in diagnostics]
            raise QueryError(found, self.source)
        return expression

    def to_polars(self, schema: Mapping[str, Any]) -> pl.Expr:
        """The expression over a frame that has the values as columns."""
        from piestream.expressions.backends.polars import value_expression

        return value_expression(self.typed(schema), schema)
