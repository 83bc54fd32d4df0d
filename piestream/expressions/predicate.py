"""Predicates: what must hold of an event while a symbol's interval lasts.

A predicate is parsed once and means the same in Polars, in Python and in Spark; what it means
is decided in `piestream.expressions.typed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, located
from piestream.expressions.syntax import Node, columns_of, sql

if TYPE_CHECKING:
    import polars as pl

    from piestream.expressions.backends.python import MaskFunction, PredicateFunction
    from piestream.expressions.typed import Core

__all__ = ["PREVIOUS_PREFIX", "Predicate", "compile_mask"]

#: ``PREV(speed)`` is read from the column of this prefix and ``speed``: whoever evaluates a
#: predicate supplies it, for only they know which event came before in the partition.
PREVIOUS_PREFIX = "__previous__"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over one event (and ``PREV``, the event before it).

    Two predicates are equal when their canonical texts are, or their Polars expressions.

    >>> Predicate.parse("(accel>8)") == Predicate.parse("accel > 8  -- fast")
    True
    """

    text: str
    serialized: bytes | None = field(default=None, repr=False)  # a Polars expression
    tree: Node | None = field(default=None, compare=False, repr=False)
    source: str | None = field(default=None, compare=False, repr=False)
    offset: int = field(default=0, compare=False, repr=False)  # of the predicate in its source
    _columns: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Predicate:
        """The predicate that a SQL expression says.

        >>> Predicate.parse("speed > PREV(speed) and not braking").columns
        ('speed', 'braking')
        """
        predicate, diagnostics = cls.read(text, text, 0)
        if predicate is None:
            raise QueryError([located(f, text) for f in diagnostics], text)
        return predicate

    @classmethod
    def read(
        cls,
        text: str,
        source: str,
        offset: int,
        qualifiers: tuple[str, ...] = (),
        symbols: tuple[str, ...] = (),
    ) -> tuple[Predicate | None, list[Diagnostic]]:
        """As `parse`, of a text that stands at ``offset`` in a query's source; faults are given
        back with their places in the source."""
        from piestream.expressions.keywords import EXPRESSION_WORDS
        from piestream.expressions.parse import read_predicate
        from piestream.expressions.typecheck import lowered

        tree, diagnostics = read_predicate(text, qualifiers, symbols)
        try:
            if tree is not None:
                _, diagnostics = lowered(tree, None)
                canonical = sql(tree, EXPRESSION_WORDS)
        except RecursionError:
            diagnostics = [Diagnostic(Span(0, len(text)), "this predicate is nested too deeply")]
        if tree is None or diagnostics:
            return None, [
                Diagnostic(f.span.moved(offset) if f.span else None, f.message, f.hint)
                for f in diagnostics
            ]
        names = dict.fromkeys(column.name for column in columns_of(tree))
        return cls(canonical, None, tree, source, offset, tuple(names)), []

    @classmethod
    def from_polars(cls, expression: pl.Expr) -> Predicate:
        """A predicate that is a Polars expression: works in the embedded engine only.

        >>> import polars as pl
        >>> Predicate.from_polars(pl.col("speed") > 70).columns
        ('speed',)
        """
        meta = expression.meta
        if meta.has_multiple_outputs():
            raise QueryError("a predicate is one expression with one result, not several columns")
        if not _looks_at_one_event(expression):
            raise QueryError(
                "a Polars predicate may only look at one event: no shift, window, aggregate or Python function "
                "(the value at the event before is PREV(column) in a text predicate)"
            )
        columns = tuple(dict.fromkeys(meta.root_names()))
        return cls(f"<Polars {expression}>", meta.serialize(), None, None, 0, columns)

    @property
    def is_polars(self) -> bool:
        """Whether this was given as a Polars expression."""
        return self.serialized is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the predicate reads, of this event or of the one before."""
        return self._columns

    @property
    def previous(self) -> tuple[str, ...]:
        """The columns that are read at the event before, inside ``PREV``."""
        if self.tree is None:
            return ()
        return tuple(dict.fromkeys(c.name for c in columns_of(self.tree) if c.previous))

    def __str__(self) -> str:
        return self.text

    def to_polars(self, schema: Mapping[str, Any]) -> pl.Expr:
        """The predicate over a frame of this schema: Boolean, where NULL is false.

        ``PREV(c)`` is read from the column ``PREVIOUS_PREFIX + c``.

        >>> import polars as pl
        >>> frame = pl.DataFrame({"accel": [9.0, None, float("nan")]})
        >>> predicate = Predicate.parse("accel > 8").to_polars(frame.schema)
        >>> frame.select(predicate).to_series().to_list()
        [True, False, False]
        """
        if self.serialized is not None:
            return self._own_expression(schema)
        from piestream.expressions.backends.polars import polars_expression

        return polars_expression(self._lowered(schema), PREVIOUS_PREFIX, schema)

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
        from piestream.expressions.backends.spark import spark_sql

        return spark_sql(self._lowered(schema), PREVIOUS_PREFIX)

    def to_python(self, schema: Mapping[str, Any]) -> PredicateFunction | None:
        """A fast function of (event, previous event or None); None for a Polars expression.

        An event that lacks a column raises KeyError.

        >>> Predicate.parse("accel > 8").to_python({"accel": float})({"accel": 9.5}, None)
        True
        """
        if self.serialized is not None:
            return None
        from piestream.expressions.backends.python import truth_function

        return truth_function(self._lowered(schema))

    def _lowered(self, schema: Mapping[str, Any] | None) -> Core:
        from piestream.expressions.typecheck import lowered

        assert self.tree is not None
        core, diagnostics = lowered(self.tree, schema)
        if diagnostics:
            source = self.source if self.source is not None else self.text
            raise QueryError(
                [
                    located(Diagnostic(self._place(f.span), f.message, f.hint), source)
                    for f in diagnostics
                ],
                source,
            )
        return core

    def _place(self, span: Span | None) -> Span | None:
        return None if span is None else span.moved(self.offset)

    def _own_expression(self, schema: Mapping[str, Any]) -> pl.Expr:
        import io

        import polars as pl

        from piestream.expressions.backends.polars import for_every_row
        from piestream.expressions.diagnostics import did_you_mean

        assert self.serialized is not None
        for name in self.columns:
            if name not in schema:
                near = did_you_mean(name, schema)
                raise QueryError(
                    f"the predicate {self.text} needs the column {name}, which is not there"
                    + (f"; {near}" if near else "")
                )
        expression = pl.Expr.deserialize(io.BytesIO(self.serialized))
        columns = [pl.col(name) for name in self.columns]
        empty = pl.DataFrame(schema={name: schema[name] for name in self.columns})
        try:
            result = empty.select(expression).to_series().dtype
        except pl.exceptions.PolarsError as error:
            raise QueryError(f"the predicate {self.text} does not fit the frame: {error}") from None
        if result != pl.Boolean:
            raise QueryError(f"the predicate {self.text} is not true or false but {result}")
        floats = [name for name in self.columns if schema[name] in (pl.Float32, pl.Float64)]
        if not floats:
            return for_every_row(expression.fill_null(False))

        # A NaN is a missing value in every engine (SPEC 2.3), but Polars orders it above every
        # number; the expression is given the columns with NULL in its place.
        def without_nan(values: pl.Series) -> pl.Series:
            frame = values.struct.unnest().with_columns(pl.col(floats).fill_nan(None))
            return frame.select(expression.fill_null(False)).to_series()

        return pl.struct(columns).map_batches(
            without_nan, return_dtype=pl.Boolean, is_elementwise=True
        )


def _looks_at_one_event(expression: pl.Expr) -> bool:
    """Whether no part of an expression sees other rows; Polars judges only the outermost part."""
    from polars.exceptions import PolarsError

    pending = [expression]
    while pending:
        part = pending.pop()
        try:
            if part.meta.is_literal():
                continue
            if not (part.meta.is_row_separable() and part.meta.is_length_preserving()):
                return False
            pending += part.meta.pop()
        except PolarsError:  # a Python function, whose inside cannot be seen
            return False
    return True


def compile_mask(predicates: Sequence[Predicate], schema: Mapping[str, Any]) -> MaskFunction | None:
    """One function of (event, previous event) whose bit i is set where predicate i holds.

    None if one of them is a Polars expression.

    >>> mask = compile_mask([Predicate.parse("x > 1"), Predicate.parse("x > 5")], {"x": int})
    >>> mask({"x": 7}, None)
    3
    """
    if any(predicate.is_polars for predicate in predicates):
        return None
    from piestream.expressions.backends.python import mask_function

    return mask_function([predicate._lowered(schema) for predicate in predicates])
