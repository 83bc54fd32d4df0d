"""Predicates: what must hold of an event while a symbol's interval lasts.

A predicate is parsed once and means the same in Polars, in Python and in Spark; what it means
is decided in `piestream.expressions.typed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from piestream.expressions.backends.python import (
    MaskFunction,
    PredicateFunction,
    mask_function,
    truth_function,
)
from piestream.expressions.backends.spark import spark_sql
from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, located
from piestream.expressions.limits import TOO_DEEP, TOO_LARGE, is_too_large
from piestream.expressions.parse import canonical_fault, read_predicate
from piestream.expressions.reading import Names
from piestream.expressions.satisfiability import is_never_true
from piestream.expressions.syntax import Literal, Node, children, columns_of, reads_the_past
from piestream.expressions.tokens import Token
from piestream.expressions.typecheck import TicksOf, lowered
from piestream.expressions.typed import Expression
from piestream.expressions.types import Tick

if TYPE_CHECKING:
    import polars as pl

__all__ = ["EVERY_INTERVAL", "PAST_PREFIX", "Predicate", "compile_mask"]

#: ``PREV(speed)`` is read from the column of this prefix and ``PREV(speed)``: whoever evaluates a
#: predicate supplies it, for only they know which events came before in the partition.
PAST_PREFIX = "__past__"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over one event, and over what came before it in its partition.

    Two predicates are equal when their canonical texts are, or their Polars expressions. What LET
    named is written out in these.

    >>> Predicate.parse("(accel>8)") == Predicate.parse("accel > 8  -- fast")
    True
    """

    text: str
    serialized: bytes | None = field(default=None, repr=False)  # a Polars expression
    tree: Node | None = field(default=None, compare=False, repr=False)
    source: str | None = field(default=None, compare=False, repr=False)
    offset: int = field(default=0, compare=False, repr=False)  # of the predicate in its source
    _columns: tuple[str, ...] = field(default=(), compare=False, repr=False)
    #: Of a condition on matches; else it is one on events.
    clause: str | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(
        cls,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        names: Names | None = None,
    ) -> Predicate:
        """The predicate of a SQL expression, in which ``:limit`` stands for a parameter's value.

        ``names`` are those that it may use besides columns.

        >>> Predicate.parse("speed > PREV(speed) and not braking").columns
        ('speed', 'braking')
        """
        predicate, diagnostics = cls.read(text, text, 0, names, parameters)
        if predicate is None:
            raise QueryError([located(d, text) for d in diagnostics], text)
        return predicate

    @classmethod
    def read(
        cls,
        text: str,
        source: str,
        offset: int,
        names: Names | None = None,
        parameters: Mapping[str, Any] | None = None,
        leaves: Sequence[Token] | None = None,
        clause: str = "WHERE",
    ) -> tuple[Predicate | None, list[Diagnostic]]:
        """As `parse`, for a text at ``offset`` in a query's source.

        Gives the predicate, or None and what is wrong, with places in the source. ``names`` are what
        it may mention besides columns. With ``leaves``, in the text, it is a condition on a match
        in a ``clause``, and they are what it knows of that.
        """
        of = None if leaves is None else clause
        tree, diagnostics = read_predicate(text, names or Names(), parameters, leaves, offset)
        canonical = ""
        try:
            if tree is not None:
                diagnostics, canonical = _checked(tree, of)
        except RecursionError:
            diagnostics = [Diagnostic(None, TOO_DEEP)]
        diagnostics = [replace(d, span=d.span or Span(0, len(text))) for d in diagnostics]
        if tree is None or diagnostics:
            return None, [diagnostic.moved(offset) for diagnostic in diagnostics]
        columns = tuple(dict.fromkeys(column.name for column in columns_of(tree)))
        return cls(canonical, None, tree, source, offset, columns, of), []

    @classmethod
    def from_polars(cls, expression: pl.Expr) -> Predicate:
        """A predicate that is a Polars expression: works in the embedded engine only.

        >>> import polars as pl
        >>> Predicate.from_polars(pl.col("speed") > 70).columns
        ('speed',)
        """
        from piestream.expressions.native import check_expression

        check_expression(expression)
        meta = expression.meta
        columns = tuple(dict.fromkeys(meta.root_names()))
        return cls(f"<Polars {expression}>", meta.serialize(), None, None, 0, columns)

    @property
    def is_polars(self) -> bool:
        """Whether this was given as a Polars expression."""
        return self.serialized is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the predicate reads, of this event or of one before."""
        return self._columns

    @property
    def reads_the_past(self) -> bool:
        """Whether events before the current one matter: it has PREV, a window or UNTIL."""
        return self.tree is not None and reads_the_past(self.tree)

    def __str__(self) -> str:
        return self.text

    def qualified(self, stream: str) -> str:
        """The canonical text with the name of a stream before every column.

        >>> Predicate.parse("temp > PREV(temp)").qualified("vitals")
        'vitals.temp > PREV(vitals.temp)'
        """
        return self.text if self.tree is None else canonical_text(self.tree, stream)

    def with_names(self, stream: str | None = None) -> str:
        """The canonical text, in which what LET named is not written out."""
        return self.text if self.tree is None else canonical_text(self.tree, stream, by_name=True)

    @property
    def is_never_true(self) -> bool:
        """Whether no event can fulfil the predicate; False where that is not found out.

        >>> Predicate.parse("x > 1 AND x < 0").is_never_true
        True
        """
        if self.tree is None:
            return False
        expression, diagnostics = lowered(self.tree, None)
        return not diagnostics and is_never_true(expression)

    def to_polars(self, schema: Mapping[str, Any], counted_in: Tick | None = None) -> pl.Expr:
        """The predicate over a frame of this schema: Boolean, where NULL is false.

        Of a condition on matches, differences of times are counted in a unit, ``counted_in``.

        ``PREV(c)`` is read from the column ``PAST_PREFIX + "PREV(c)"``.

        >>> import polars as pl
        >>> frame = pl.DataFrame({"accel": [9.0, None, float("nan")]})
        >>> predicate = Predicate.parse("accel > 8").to_polars(frame.schema)
        >>> frame.select(predicate).to_series().to_list()
        [True, False, False]
        """
        if self.serialized is not None:
            from piestream.expressions.native import bound_expression

            return bound_expression(self.serialized, self.text, self.columns, schema)
        from piestream.expressions.backends.polars import polars_expression

        return polars_expression(self.typed(schema, counted_in=counted_in), PAST_PREFIX, schema)

    def to_spark_sql(self, schema: Mapping[str, Any] | None = None) -> str:
        """The predicate as a Spark SQL expression, where NULL is false.

        With a schema (Polars dtypes or Python classes) types are checked and exact; without
        one the types of the columns are guessed from their use.
        """
        if self.serialized is not None:
            raise QueryError(
                f"the predicate {self.text} is a Polars expression, which Spark cannot run: "
                "write it as SQL text, such as 'speed > 70'"
            )
        return spark_sql(self.typed(schema), PAST_PREFIX)

    def to_python(self, schema: Mapping[str, Any]) -> PredicateFunction | None:
        """A fast function of (event, values of what reads the past, by their canonical texts).

        None for a Polars expression, and for a predicate that is too large for one function.

        An event that lacks a column raises KeyError.

        >>> Predicate.parse("accel > 8").to_python({"accel": float})({"accel": 9.5}, None)
        True
        """
        if self.serialized is not None:
            return None
        return truth_function(self.typed(schema))

    def typed(
        self,
        schema: Mapping[str, Any] | None,
        ticks: TicksOf | None = None,
        counted_in: Tick | None = None,
    ) -> Expression:
        """The typed form over a schema; ``ticks`` gives lengths of windows in those of a time column."""
        assert self.tree is not None
        expression, diagnostics = lowered(
            self.tree, schema, clause=self.clause, ticks=ticks, counted_in=counted_in
        )
        if diagnostics:
            source = self.source if self.source is not None else self.text
            raise QueryError([located(d.moved(self.offset), source) for d in diagnostics], source)
        return expression


#: The predicate of a symbol that takes all intervals of a stream.
EVERY_INTERVAL = Predicate("TRUE", tree=Literal(True), source="TRUE")


def _checked(tree: Node, clause: str | None) -> tuple[list[Diagnostic], str]:
    """What is wrong with a tree before there is a schema, and its canonical text."""
    if is_too_large(tree, children):
        return [Diagnostic(None, TOO_LARGE)], ""
    _, diagnostics = lowered(tree, None, clause=clause)
    if diagnostics:
        return diagnostics, ""
    canonical = canonical_text(tree)
    beyond = canonical_fault(canonical)
    return ([] if beyond is None else [beyond]), canonical


def compile_mask(predicates: Sequence[Predicate], schema: Mapping[str, Any]) -> MaskFunction | None:
    """One function of (event, values of the past) whose bit i is set where predicate i holds.

    None if one of them is a Polars expression, or if they are too large for one function.

    >>> mask = compile_mask([Predicate.parse("x > 1"), Predicate.parse("x > 5")], {"x": int})
    >>> mask({"x": 7}, None)
    3
    """
    if any(predicate.is_polars for predicate in predicates):
        return None
    return mask_function([predicate.typed(schema) for predicate in predicates])
