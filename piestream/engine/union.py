"""Rows of several streams as rows of one frame: those of each have columns of their own.

A row has its keys, the instant at which it becomes known, and the number of its stream. Rows of
intervals also have a start and an end: one whose end is not known yet is known at its start, every
other at its end, or later where its stream says when.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from piestream.compiled.constants import INT64_MIN
from piestream.engine.columns import nulls
from piestream.engine.instant_numbers import check_reach
from piestream.engine.projection import ATTRIBUTE, KEY, SEQUENCE, TIME, Projection
from piestream.errors import TimeError
from piestream.expressions.columns import column_named
from piestream.language.model import Query
from piestream.plan.binding import Binding, Part
from piestream.plan.outputs import MATCH_KNOWN
from piestream.plan.program import numbers_instants

__all__ = [
    "END", "ID", "NUMBER", "START", "STREAM", "CombinedProjection", "having_length", "own_column",
]  # fmt: skip

STREAM = "stream"
START = "start"
END = "end"
ID = "id"
#: When a row becomes known, by its stream's own columns.
_KNOWN = "known"
#: Rows with one number are of one interval; where an ID says which are, it is NULL.
NUMBER = "number"


def own_column(stream: int, name: str) -> str:
    """The name that a projected column of one stream has among those of all."""
    return f"{stream}.{name}"


class _IntervalProjection(Projection):
    """The columns that are read of rows of intervals: their starts and ends beside their keys."""

    def __init__(self, part: Part) -> None:
        super().__init__(part.binding)
        self.source = part.source

    @cached_property
    def columns(self) -> list[pl.Expr]:
        """The projected columns as expressions over the user's."""
        times = [(START, self.source.start), (END, self.source.end)]
        if self.source.is_known_late:
            times.append((_KNOWN, MATCH_KNOWN))
        ticks = {
            name: pl.col(column).to_physical().cast(pl.Int64).alias(name)
            for name, column in times
            if column is not None
        }
        columns: list[pl.Expr] = []
        for column in super().columns:
            columns += ticks.values() if column.meta.output_name() == TIME else [column]
        if self.source.id is not None:
            columns.append(pl.col(self.source.id).alias(ID))
        return columns

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The types of projected rows."""
        types = {**super().schema, START: pl.Int64(), END: pl.Int64(), NUMBER: pl.Int64()}
        if self.source.id is not None:
            types[ID] = self.binding.schema[self.source.id]
        return types

    def project(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The projected rows of a frame, numbered from 0 on where no ID says which is which."""
        return self.numbered(super().project(frame))

    def few_columns(self, frame: pl.DataFrame) -> list[pl.Series] | None:
        """The projected columns of a few rows; None where it takes Polars."""
        source, time = self.source, self.binding.time.name
        columns = None if source.is_known_late else super().few_columns(frame)
        if columns is None or frame[str(source.end)].dtype != frame[time].dtype:
            return None
        ends = frame[str(source.end)].cast(pl.Int64).alias(END)
        found: list[pl.Series] = []
        for column in columns:
            found += [column.alias(START), ends] if column.name == TIME else [column]
        if source.id is not None:
            found.append(frame[source.id].alias(ID))
        return found

    def numbered(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the instants at which they become known."""
        rows = having_length(self.source.query, rows, START, END)
        self._check(rows)
        ends, starts = rows[END], rows[START]
        if self.source.is_known_late:
            known = rows[_KNOWN]
        elif self.source.known_at_start:
            known = starts
        elif ends.null_count():
            known = rows.select(pl.coalesce(END, START)).to_series()
        else:
            known = ends
        number = nulls(pl.Int64(), len(rows))
        if self.source.id is None:
            number = pl.Series(np.arange(len(rows)))
        columns = [column for column in rows.get_columns() if column.name != _KNOWN]
        return pl.DataFrame([*columns, known.alias(TIME), number.alias(NUMBER)])

    def _check(self, rows: pl.DataFrame) -> None:
        source = self.source
        starts, ends = rows[START], rows[END]
        self._check_values(starts, str(source.start))
        self._check_values(ends.drop_nulls(), str(source.end))
        if starts.null_count():
            row = int(starts.is_null().arg_max() or 0)
            raise TimeError(
                f"{source.start} is NULL in row {row} of the rows given for {source.name}; every "
                "interval needs a start: filter these rows out"
            )
        if ends.null_count() and source.id is None:
            row = int(ends.is_null().arg_max() or 0)
            raise TimeError(
                f"{source.end} is NULL in row {row} of the rows given for {source.name}: an "
                "interval whose end is not known yet needs an ID, by which its end is found"
            )
        some_nameless = source.id is not None and ends.null_count() and rows[ID].null_count()
        if some_nameless and (ends.is_null() & rows[ID].is_null()).any():
            raise TimeError(
                f"an interval of {source.name} begins without {source.id}: nothing could tell its "
                "end"
            )
        empty = ends <= starts
        if empty.any():
            row = int(empty.arg_max() or 0)
            start, end = (self.time_text(int(column[row])) for column in (starts, ends))
            raise TimeError(
                f"an interval of {source.name} starts at {start} and ends at {end} (row {row} of "
                "the rows given): an interval ends after it starts; an instant is an event"
            )


def having_length(query: Query | None, rows: pl.DataFrame, start: str, end: str) -> pl.DataFrame:
    """The matches of a query in brackets that have a length: between events of one time there is none."""
    if query is None or not query.is_sequenced:
        return rows
    return rows.filter(column_named(end) > column_named(start))


class CombinedProjection(Projection):
    """The projected rows of all streams of a query in one frame."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self.numbers_instants = numbers_instants(binding.query)
        self.row_predicates: list[int] = []
        self.ordered_predicates: list[int] = []
        self.keys = [KEY + name for name in binding.query.partition_by]
        self.parts = [
            _IntervalProjection(part) if part.source.is_ready_made else Projection(part.binding)
            for part in binding.parts
        ]

    def of_stream(self, number: int, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of one stream, as rows of the union; what only other streams have is NULL."""
        given = {column.name: column for column in self._own_columns(number, frame)}
        count = len(given[TIME])  # of rows of intervals, those that have a length
        columns = []
        for name, dtype, own, filling in self._columns_of[number]:
            column = None if own is None else given.get(own)
            if column is None:
                columns.append(filling.new_from_index(0, count))
                continue
            column = column if column.dtype == dtype else column.cast(dtype)
            columns.append(column if name == own else column.alias(name))
        return pl.DataFrame(columns)

    def _own_columns(self, number: int, frame: pl.DataFrame) -> list[pl.Series]:
        """The projected columns of rows of one stream, whose times can be used."""
        part = self.parts[number]
        if not isinstance(part, _IntervalProjection):
            columns = part.few_columns(frame)
            if columns is not None:
                part.check_times(next(column for column in columns if column.name == TIME))
                return self._within_reach(columns)
        rows = part.project(frame)
        if TIME in rows.columns:
            part.check_rows(rows)
        return self._within_reach(rows.get_columns())

    def _within_reach(self, columns: list[pl.Series]) -> list[pl.Series]:
        """The same columns; refused where their instants could not be numbered."""
        if self.numbers_instants:
            for column in columns:
                if column.name in (TIME, START, END):
                    check_reach(column)
        return columns

    @cached_property
    def _columns_of(self) -> list[list[tuple[str, pl.DataType, str | None, pl.Series]]]:
        """For each stream the columns of all, which of its own each is, and what is in it if none."""
        # what nothing orders comes before all else of its time
        fillings: dict[str, int] = {SEQUENCE: INT64_MIN}
        found = []
        for number, part in enumerate(self.parts):
            fillings[STREAM] = number
            own = {self._name(number, name): name for name in part.schema}
            found.append(
                [
                    (name, dtype, own.get(name), pl.Series(name, [fillings.get(name)], dtype=dtype))
                    for name, dtype in self.schema.items()
                ]
            )
        return found

    @cached_property
    def no_rows(self) -> pl.DataFrame:
        """The columns without any row."""
        return pl.DataFrame(schema=self.schema)

    def with_ends(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with one more for each interval that was known before it ends: at its end."""
        known = [n for n, part in enumerate(self.binding.parts) if part.source.known_at_start]
        if not known:
            return rows
        ends = rows.filter(pl.col(STREAM).is_in(known)).with_columns(pl.col(END).alias(TIME))
        return pl.concat([rows, ends])

    def own_columns(self, number: int, rows: pl.DataFrame) -> dict[str, pl.Series]:
        """The columns of one stream by the names that the stream's own projection gives."""
        return {own: rows[name] for name, _, own, _ in self._columns_of[number] if own is not None}

    def attribute_column(self, number: int) -> str:
        """The column of one of the query's attributes among the rows of all."""
        stream = self.binding.attributes[number].stream
        place = self.binding.parts[stream].attributes.index(number)
        return own_column(stream, f"{ATTRIBUTE}{place}")

    def _name(self, number: int, name: str) -> str:
        shared = name in (TIME, SEQUENCE, START, END, NUMBER) or name.startswith(KEY)
        return name if shared else own_column(number, name)

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """The types of the rows of all."""
        binding = self.binding
        types: dict[str, pl.DataType] = {
            KEY + name: binding.schema[name] for name in binding.query.partition_by
        }
        types |= {TIME: pl.Int64(), STREAM: pl.Int16()}
        if any(part.source.row_order for part in binding.parts):
            types[SEQUENCE] = pl.Int64()  # numbers in the order in which rows come
        if any(part.source.is_ready_made for part in binding.parts):
            types |= {START: pl.Int64(), END: pl.Int64(), NUMBER: pl.Int64()}
        for number, part in enumerate(self.parts):
            types |= {self._name(number, name): t for name, t in part.schema.items()}
        return types

    @property
    def tie_columns(self) -> list[pl.Expr]:
        """The columns in which two events of one stream are equal that tie; rows of intervals never tie."""
        ready = [n for n, part in enumerate(self.binding.parts) if part.source.is_ready_made]
        apart = pl.when(pl.col(STREAM).is_in(ready)).then(pl.int_range(pl.len())).otherwise(-1)
        return [*map(pl.col, self.tie_names), apart.alias("apart")]

    @property
    def tie_names(self) -> list[str]:
        """The columns in which they have that in common."""
        return [*self.keys, TIME, *self.sequence_columns, STREAM]

    @property
    def sequence_columns(self) -> list[str]:
        """The columns that order events of one time, if a stream has any."""
        return [SEQUENCE] if SEQUENCE in self.schema else []

    @property
    def waits(self) -> bool:
        """Whether an instant is worked on only when the watermark has passed it.

        Rows of other streams may still come for the instant that it has reached.
        """
        return True

    def row_name(self, rows: pl.DataFrame, row: int) -> str:
        """A row as an error names it: by its stream, its key and its time."""
        number = int(rows[STREAM][row])
        part = self.binding.parts[number]
        text = self.parts[number].row_name(rows, row)
        if part.source.is_ready_made:
            text = text.replace("the event", "the interval", 1)
        return f"{text} of {part.source.name}"
