"""Projected rows: of a user's columns only what the detector needs, in its own types.

Keys, the time in ticks, a boolean a predicate, and the attributes that RETURN aggregates. On Spark
the JVM makes such rows; everywhere else Polars does.
"""

from __future__ import annotations

from functools import cached_property

import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.few_rows import MOST_ROWS, FewRows
from piestream.errors import TimeError
from piestream.expressions.columns import column_named
from piestream.expressions.predicate import Predicate
from piestream.plan.binding import Binding
from piestream.plan.columns import CODE, COUNTED, FLOAT, ROW

TIME = "time"
SEQUENCE = "sequence"
KEY = "key:"
PREDICATE = "predicate:"
ATTRIBUTE = "attribute:"
RAW = "raw:"


class Projection:
    """The columns that one binding reads of its input, and how an error names a row of them.

    ``is_evaluated``: rows come with all predicates, also with those that read earlier rows.
    """

    def __init__(self, binding: Binding, is_evaluated: bool = False) -> None:
        self.binding = binding
        distinct: list[Predicate] = list(
            dict.fromkeys(symbol.predicate for symbol in binding.query.symbols)
        )
        self.predicates = distinct
        #: Predicates of one row, and those that read earlier ones, which need the order of events.
        ordered = [p.reads_the_past and not is_evaluated for p in distinct]
        self.row_predicates = [i for i, is_ordered in enumerate(ordered) if not is_ordered]
        self.ordered_predicates = [i for i, is_ordered in enumerate(ordered) if is_ordered]
        self.keys = [KEY + name for name in binding.query.partition_by]

    def __deepcopy__(self, memo: object) -> Projection:
        return self  # it never changes

    def project(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The projected rows of a frame. What ordered predicates read is carried along."""
        columns = self.few_columns(frame)
        if columns is not None:
            return pl.DataFrame(columns)
        try:
            return frame.select(self.columns)
        except pl.exceptions.InvalidOperationError:
            name = self.binding.time.name
            raise TimeError(
                f"the time column {name} holds {frame[name].max()!r}, which is beyond 64 bits with a sign"
            ) from None

    @cached_property
    def _few_rows(self) -> FewRows | None:
        return FewRows.of(self)

    def few_columns(self, frame: pl.DataFrame) -> list[pl.Series] | None:
        """The projected columns of a few rows; None where it takes Polars."""
        if len(frame) > MOST_ROWS or self._few_rows is None:
            return None
        return self._few_rows.project(frame)

    @cached_property
    def columns(self) -> list[pl.Expr]:
        """The projected columns as expressions over the user's."""
        binding = self.binding
        columns = [
            _missing_as_null(column_named(name), binding.schema[name]).alias(KEY + name)
            for name in binding.query.partition_by
        ]
        columns.append(column_named(binding.time.name).to_physical().cast(pl.Int64).alias(TIME))
        if binding.sequence is not None:
            sequence = binding.sequence.as_words(column_named(binding.sequence.name))
            columns.append(sequence.alias(SEQUENCE))
        columns += [binding.predicates[i].alias(f"{PREDICATE}{i}") for i in self.row_predicates]
        calculated = {column.name: column.expression for column in binding.calculated}
        for number, attribute in enumerate(binding.attributes):
            value = calculated.get(attribute.name)
            if value is None:
                value = column_named(attribute.name) if attribute.name != ROW else pl.lit(1)
            if attribute.form == FLOAT:
                value = value.cast(pl.Float64).fill_nan(None)
            elif attribute.form == COUNTED:
                value = _missing_as_null(
                    value, binding.attribute_types[attribute.name]
                ).is_not_null()
                value = value.cast(pl.Int64)
            elif attribute.form != CODE:
                value = value.to_physical().cast(pl.Int64)
            columns.append(value.alias(f"{ATTRIBUTE}{number}"))
        columns += [column_named(name).alias(RAW + name) for name in self.raw_columns]
        return columns

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The types of projected rows."""
        binding = self.binding
        types = {KEY + name: binding.schema[name] for name in binding.query.partition_by}
        types[TIME] = pl.Int64()
        if binding.sequence is not None:
            types[SEQUENCE] = pl.Int64()
        types |= {f"{PREDICATE}{i}": pl.Boolean() for i in self.row_predicates}
        for number, attribute in enumerate(binding.attributes):
            types[f"{ATTRIBUTE}{number}"] = (
                pl.Float64()
                if attribute.form == FLOAT
                else binding.attribute_types[attribute.name]
                if attribute.form == CODE
                else pl.Int64()
            )
        return types | {RAW + name: binding.schema[name] for name in self.raw_columns}

    @property
    def names(self) -> list[str]:
        """The projected columns that events have."""
        return [
            *self.keys,
            TIME,
            *self.sequence_columns,
            *(f"{PREDICATE}{n}" for n in self.row_predicates),
            *(f"{ATTRIBUTE}{n}" for n in range(len(self.binding.attributes))),
            *(RAW + name for name in self.raw_columns),
        ]

    @cached_property
    def raw_columns(self) -> tuple[str, ...]:
        """The columns that are read by predicates of earlier rows."""
        return self.binding.predicate_columns if self.ordered_predicates else ()

    @property
    def tie_columns(self) -> list[pl.Expr]:
        """The columns in which two events are equal that tie."""
        return [*map(pl.col, self.tie_names)]

    @property
    def tie_names(self) -> list[str]:
        """The columns in which they have that in common."""
        return [*self.keys, TIME, *self.sequence_columns]

    @property
    def sequence_columns(self) -> list[str]:
        """The column that orders events of one time, if there is one."""
        return [] if self.binding.sequence is None else [SEQUENCE]

    @property
    def has_ties(self) -> bool:
        """Whether events can tie: not if ORDER BY includes the order of rows."""
        return not self.binding.query.streams[0].row_order

    @property
    def waits(self) -> bool:
        """Whether an instant is worked on only when the watermark has passed it."""
        return False

    def check_rows(self, rows: pl.DataFrame) -> None:
        """Refuse projected rows without a usable time, or without what orders them in it."""
        self.check_times(rows[TIME])
        for column in self.sequence_columns:
            if rows[column].null_count():
                assert self.binding.sequence is not None
                row = int(rows[column].is_null().arg_max() or 0)
                raise TimeError(
                    f"{self.binding.sequence.name}, which orders events of one time, is NULL in row "
                    f"{row} of the rows given; every event needs a value: filter these rows out"
                )

    def check_times(self, times: pl.Series) -> None:
        """Refuse rows without a usable time."""
        name = self.binding.time.name
        if times.null_count():
            row = int(times.is_null().arg_max() or 0)
            raise TimeError(
                f"the time column {name} is NULL in row {row} of the rows given; every event needs "
                "a time: filter these rows out"
            )
        self._check_values(times, name)

    def _check_values(self, times: pl.Series, name: str) -> None:
        if not len(times):
            return
        for reserved, extreme in ((INT64_MIN, times.min()), (INT64_MAX, times.max())):
            if extreme == reserved:
                raise TimeError(
                    f"the time column {name} holds {reserved}, an end of the 64-bit range, which "
                    "is reserved; times must lie strictly between the ends"
                )

    def row_name(self, rows: pl.DataFrame, row: int) -> str:
        """A row as an error names it: by its key and its time."""
        names = self.binding.query.partition_by
        keys = [f"{name} = {rows[KEY + name][row]!r}" for name in names]
        parts = [*keys, f"{self.binding.time.name} = {self.time_text(rows[TIME][row])}"]
        if self.binding.sequence is not None:
            parts.append(
                f"{self.binding.sequence.name} = {self.sequence_text(rows[SEQUENCE][row])}"
            )
        return "the event " + ", ".join(parts)

    def sequence_text(self, word: int) -> str:
        """What orders an event in its time, as its column writes it."""
        assert self.binding.sequence is not None
        return str(self.binding.sequence.as_values(pl.Series([word], dtype=pl.Int64))[0])

    def time_text(self, ticks: int) -> str:
        """A time as its column writes it."""
        return str(self.binding.time.as_times(pl.Series([ticks]))[0])

    def length_text(self, ticks: int) -> str:
        """A difference of times as a user reads it."""
        return str(self.binding.time.as_lengths(pl.Series([ticks]))[0])


def _missing_as_null(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    return column.fill_nan(None) if dtype.is_float() else column
