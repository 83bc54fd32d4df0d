"""A query meets the columns of its input: types, ticks, its program, output columns.

Everything here happens once per query and schema. What it makes is handed to the detector, which
knows of integers only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from piestream.compiled.constants import INT64_MAX
from piestream.errors import SchemaError
from piestream.expressions.durations import Duration
from piestream.language.difference_bounds import absence_bounds, kept_after_end
from piestream.language.model import Query
from piestream.language.parts import Constraint, Source, Where
from piestream.language.windows import NO_WINDOW
from piestream.plan.calculated import CalculatedColumn, attribute_types
from piestream.plan.columns import (
    CODE,
    ROW,
    Attribute,
    Errors,
    InputColumns,
    SequenceColumn,
    TimeColumn,
)
from piestream.plan.compiler import compile_query
from piestream.plan.conditions import MatchCondition, join_keys, match_condition
from piestream.plan.outputs import Output, match_bounds, report_columns
from piestream.plan.past import PastColumn, past_columns
from piestream.plan.program import CompiledQuery, Kept, Ticks
from piestream.plan.returned import returned_columns

#: Longer than anything lasts.
_FOREVER = (1 << 64) - 2


@dataclass(frozen=True)
class Binding:
    """A query bound to the schema of its input."""

    query: Query
    schema: Mapping[str, pl.DataType] = field(repr=False)
    time: TimeColumn
    attributes: tuple[Attribute, ...]
    outputs: tuple[Output, ...]  # the columns of the result
    compiled: CompiledQuery = field(repr=False)
    predicates: tuple[pl.Expr, ...] = field(default=(), repr=False)  # each distinct one once
    bit_of_symbol: tuple[int, ...] = ()
    past: tuple[PastColumn, ...] = ()  # what predicates read of earlier events
    calculated: tuple[CalculatedColumn, ...] = ()  # attributes that are no columns of the input
    times: tuple[str, ...] = ()  # columns of time: those of intervals are two
    sequence: SequenceColumn | None = None  # what orders events of one time
    condition: MatchCondition | None = field(default=None, repr=False)  # that of WHERE
    parts: tuple[Part, ...] = ()  # of a query over several streams, or over intervals

    def __deepcopy__(self, memo: object) -> Binding:
        return self  # it never changes

    @cached_property
    def predicate_columns(self) -> tuple[str, ...]:
        """The input columns that predicates read, at whatever events."""
        columns: dict[str, None] = {}
        for symbol in self.query.symbols:
            columns.update(dict.fromkeys(symbol.predicate.columns))
        return tuple(columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All the input columns that are read."""
        if self.query.rows is not None and self.query.rows.all_rows:
            return tuple(self.schema)  # the result has them in this order
        read = [*self.query.partition_by, *(self.times or (self.time.name,))]
        read += [] if self.sequence is None else [self.sequence.name]
        read += self.predicate_columns
        of_calculated = {column.name: column.columns for column in self.calculated}
        for attribute in self.attributes:
            if attribute.name != ROW:
                read += of_calculated.get(attribute.name, (attribute.name,))
        if self.query.rows is not None:  # of a column that is NULL so far nothing is calculated
            read += sorted(self.query.rows.columns)
        return tuple(dict.fromkeys(read))

    @cached_property
    def result_schema(self) -> dict[str, pl.DataType]:
        """The columns of the result and their types."""
        return {output.name: output.dtype for output in self.outputs}

    @cached_property
    def no_results(self) -> pl.DataFrame:
        """The result of an input without a match."""
        return pl.DataFrame(schema=self.result_schema)

    def attribute_type(self, attribute: Attribute) -> pl.DataType:
        """The type of the column that an attribute is of."""
        binding = self.parts[attribute.stream].binding if self.parts else self
        return binding.attribute_types[attribute.name] if attribute.name != ROW else pl.Int64()

    @cached_property
    def attribute_types(self) -> Mapping[str, pl.DataType]:
        """The types of the input's columns, and of those that are calculated."""
        return attribute_types(self.schema, self.calculated)

    @cached_property
    def dictionary_of(self) -> dict[int, int]:
        """By the number of each attribute kept as codes, the first one whose dictionary it has.

        Those that a join key compares have one, so that equal values have equal codes.
        """
        first = {n: n for n, attribute in enumerate(self.attributes) if attribute.form == CODE}
        for key in self.compiled.keys:
            if {key.x.column, key.y.column} <= first.keys():
                low, high = sorted((first[key.x.column], first[key.y.column]))
                first = {n: low if f == high else f for n, f in first.items()}
        return first

    @cached_property
    def fingerprint(self) -> bytes:
        """What a stored state must agree with: the query's meaning and the types it works on."""
        query = self.query
        if not query.is_combined and query.streams[0].path is None:
            query = replace(query, streams=(replace(query.streams[0], name=None),))
        # a part that is silent, or of which nothing but silences is read, is in the text of the whole
        is_said = bool(query.symbols) and query.streams[0].silence is None
        text = str(query) if is_said else ""
        parts = [text, str(self.time.dtype), *map(_attribute_text, self.attributes)]
        if self.parts:
            parts += [part.binding.fingerprint.hex() for part in self.parts]
        else:
            parts += [f"{name} {self.schema[name]}" for name in self.columns]
        return hashlib.sha256("\n".join(parts).encode()).digest()


@dataclass(frozen=True)
class Part:
    """One of the streams of a query that reads several, or one of intervals.

    Its binding is that of a query of the part's own symbols over the part's rows; the numbers are
    those of its predicates and attributes among all of the whole.
    """

    source: Source
    binding: Binding
    predicates: tuple[int, ...]
    attributes: tuple[int, ...]
    #: Of a query: its own binding, whose result rows are the part's rows.
    inner: Binding | None = None
    silence_ticks: int = 0  # of silences: how long they last at least

    @property
    def key(self) -> str:
        """The name by which its rows are given."""
        return input_key(self.source)


def input_key(source: Source) -> str:
    """The name by which the rows of a stream are given: its own, or the path of its files.

    The stream of that name and the one that has its past in an archive are two inputs.
    """
    name = str(source.name or source.path or "")
    return f"ARCHIVE {name}" if source.archive else name


def _attribute_text(attribute: Attribute) -> str:
    """An attribute as fingerprints have it."""
    text = f"Attribute(name={attribute.name!r}, form={attribute.form!r}"
    if attribute.stream or attribute.carried:
        text += f", stream={attribute.stream}, carried={attribute.carried}"
    return text + ")"


def bind(
    query: Query,
    schema: Mapping[str, pl.DataType],
    *,
    as_stream: bool = False,
    is_grouped: bool = False,
) -> Binding:
    """Bind a query of one stream of events to its columns. All faults found are raised together.

    ``as_stream``: its rows are intervals of another query, and have their starts and ends.
    ``is_grouped``: a row may stand for a group of rows, see `piestream.plan.columns.COUNTED`.
    """
    if query.is_combined:
        listed = ", ".join(input_key(stream) for stream in query.inputs)
        raise query.fault(
            ("source",),
            f"rows of one kind are not enough for this query: it reads {listed}",
            "give run or a session the rows of each by its name",
        )
    # rows of row patterns are matched one by one
    is_grouped = is_grouped and query.rows is None
    columns = InputColumns(query, dict(schema), is_grouped=is_grouped)
    errors = Errors()
    time = errors.attempt(columns.time)
    if time is not None:
        errors.attempt(columns.check_unit, time)
    sequence = errors.attempt(columns.sequence)
    for name in query.partition_by:
        errors.attempt(columns.dtype, name, ("partition_by", name), "PARTITION BY")
    distinct = dict.fromkeys(symbol.predicate for symbol in query.symbols)
    bits = {predicate: bit for bit, predicate in enumerate(distinct)}
    predicates = [errors.attempt(predicate.to_polars, columns.schema) for predicate in distinct]
    bind_rest = _bind_intervals if query.rows is None else _bind_rows
    binding = bind_rest(query, columns, time, errors, as_stream)
    return replace(
        binding,
        predicates=tuple(predicate for predicate in predicates if predicate is not None),
        bit_of_symbol=tuple(bits[symbol.predicate] for symbol in query.symbols),
        sequence=sequence,
    )


def _bind_rows(
    query: Query, columns: InputColumns, time: TimeColumn | None, errors: Errors, as_stream: bool
) -> Binding:
    """Bind what only row patterns have; all faults found so far are raised."""
    # its loops are compiled when first needed, which for many is never
    from piestream.plan.rows import row_plan

    assert query.rows is not None
    within = plan = None
    if time is not None and query.rows.within is not None:
        within = errors.attempt(
            query.ticks, ("within",), query.rows.within, time.nanoseconds_per_tick,
            time.needs_units,
        )  # fmt: skip
    if time is not None:
        plan = errors.attempt(row_plan, query, columns, time, within, as_stream)
    errors.raise_all()
    assert time is not None
    assert plan is not None
    return Binding(
        query=query,
        schema=columns.schema,
        time=time,
        attributes=plan.attributes,
        outputs=plan.outputs,
        compiled=plan.compiled,
        past=_past_of(query, columns, time, None),
        calculated=plan.calculated,
    )


def _bind_intervals(
    query: Query, columns: InputColumns, time: TimeColumn | None, errors: Errors, as_stream: bool
) -> Binding:
    """Bind what only patterns of intervals have; all faults found so far are raised."""
    ticks = None if time is None else errors.attempt(query_ticks, query, time)
    returned = None if time is None else errors.attempt(returned_columns, query, (columns,), time)
    errors.raise_all()
    assert time is not None
    assert ticks is not None
    past = _past_of(query, columns, time, ticks.max_gap)
    assert returned is not None
    condition = match_condition(query, returned.tested, time)
    outputs = (*report_columns(query, columns.schema, time), *returned.outputs)
    if as_stream:
        outputs = (*outputs, *match_bounds(query, time))
    words = tuple(word for output in outputs for word in output.words)
    if condition is not None:
        words += condition.words
    return Binding(
        query=query,
        schema=columns.schema,
        time=time,
        attributes=returned.attributes,
        outputs=outputs,
        compiled=compile_query(query, ticks, words, join_keys(condition)),
        past=past,
        condition=condition,
    )


def _past_of(
    query: Query, columns: InputColumns, time: TimeColumn, max_gap: int | None
) -> tuple[PastColumn, ...]:
    """What predicates read of earlier events; refused where a column has such a name."""
    distinct = dict.fromkeys(symbol.predicate for symbol in query.symbols)
    past = past_columns(distinct, columns.schema, time, max_gap)
    refuse_reserved(past, columns.schema)
    return past


def refuse_reserved(past: Iterable[PastColumn], columns: Iterable[str]) -> None:
    """Refuse a column whose name is that of what is read of earlier events."""
    known = set(columns)
    for column in past:
        if column.name in known:
            raise SchemaError(
                f"the column {column.name} has the name that {column.node.key} has inside: rename it"
            )


def query_ticks(query: Query, time: TimeColumn) -> Ticks:
    """The durations of a query in ticks of its time column.

    Where several streams are read, their gaps are ended before rows come to the loops.
    """
    errors = Errors()

    def of(where: Where, duration: Duration | None) -> int | None:
        if duration is None:
            return None
        return errors.attempt(
            query.ticks, where, duration, time.nanoseconds_per_tick, time.needs_units
        )

    at_least = [of(("at_least", s.name), s.at_least) for s in query.symbols]
    at_most = tuple(of(("at_most", s.name), s.at_most) for s in query.symbols)
    bridging = tuple(of(("bridging", s.name), s.bridging) for s in query.symbols)
    max_gap = None if query.is_combined else of(("max_gap",), query.streams[0].max_gap)
    kept = _kept(query, of)
    cooldown = of(("cooldown",), query.limits.cooldown)

    def distances_of(constraints: Iterable[Constraint]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(of(("distance", c.x, c.y), distance.length) or 0 for distance in c.distances)
            for c in constraints
        )

    distances = distances_of(query.constraints)
    absent_distances = tuple(distances_of(absence.constraints) for absence in query.absences)
    absent = {absence.symbol for absence in query.absences}
    longer = set()
    silences: list[int | None] = []
    for number, symbol in enumerate(query.symbols):
        silence = query.streams[symbol.stream].silence
        silences.append(None)
        if symbol.name in absent and silence is not None:
            # any event is known as its beginning, and its length tells whether it is one
            longest = min(of(("silence", symbol.name), silence.longer_than) or 0, INT64_MAX - 1)
            silences[number] = longest
            if (at_least[number] or 0) <= longest:
                at_least[number] = longest + 1
                longer.add(number)
    late: list[int | None] = []
    for symbol in query.symbols:
        lateness = query.streams[symbol.stream].lateness if symbol.name in absent else None
        length = None if lateness is None else lateness.length
        late.append(of(("absence", symbol.name), length))
    errors.raise_all()
    within = max(one.length for one in kept)
    return Ticks(
        within, max_gap, tuple(at_least), at_most, cooldown, distances, kept, bridging, absent_distances,
        frozenset(n for n, symbol in enumerate(query.symbols) if symbol.name in absent),
        frozenset(longer), tuple(silences), tuple(late),
    )  # fmt: skip


def _kept(query: Query, of: Callable[[Where, Duration | None], int | None]) -> tuple[Kept, ...]:
    """How long intervals of each symbol are kept; ``of`` gives the ticks of a part of the query."""
    names = [symbol.name for symbol in query.present]
    kept: dict[str, Kept] = {}
    if query.within != NO_WINDOW:
        kept = dict.fromkeys(names, Kept(of(("within",), query.within) or 0))
    for window in query.windows:
        length = of(("within", window.symbol), window.length) or 0
        had = kept.get(window.symbol)
        kept[window.symbol] = Kept(length if had is None else min(length, had.length))
    unit = next((stream.time_unit for stream in query.streams if stream.time_unit), None)
    after_ends = kept_after_end(
        query.present, query.constraints, query.within, query.windows, query.emit, unit,
        query.is_sequenced,
    )  # fmt: skip
    for absence in query.absences:
        after_ends[absence.symbol] = absence_bounds(
            query.present, query.symbol(absence.symbol), query.constraints, absence, query.within,
            query.windows, query.emit, unit, has_equal_times=query.is_sequenced,
        ).kept  # fmt: skip
    for name, duration in after_ends.items():
        length = _FOREVER if duration is None else of(("within",), duration) or 0
        kept[name] = Kept(length, after_end=True)
    return tuple(kept[symbol.name] for symbol in query.symbols)
