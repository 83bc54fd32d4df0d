"""A row pattern meets the columns of its input: its program, and the columns of its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.records import assemble
from piestream.expressions.backends.polars import value_expression
from piestream.expressions.typed import Expression, children
from piestream.intervals.aggregates import CELL_SIZE, CellKind
from piestream.language.model import Query
from piestream.language.parts import Aggregate
from piestream.language.row_patterns import (
    EmptyMatches,
    MatchMode,
    Measure,
    RowItem,
    RowPattern,
    SkipMode,
)
from piestream.plan.aggregates import Selection
from piestream.plan.calculated import CalculatedColumn, CalculatedColumns
from piestream.plan.columns import (
    Attribute,
    Errors,
    InputColumns,
    TimeColumn,
    is_moment,
    own_form,
    tick_of,
)
from piestream.plan.join_order import JoinOrders
from piestream.plan.outputs import (
    MATCH_END,
    MATCH_KNOWN,
    MATCH_START,
    Output,
    PartitionKey,
    ReportTime,
    ResultRows,
    SelectedValue,
    aggregate_output,
    nullable,
    of_type,
)
from piestream.plan.program import Cell, CompiledQuery, OutputWord, Ticks
from piestream.plan.row_memory import row_memory
from piestream.plan.row_registers import RowMemory
from piestream.row_patterns.automaton import (
    ACCEPT,
    MOST_PLACES,
    RowAutomaton,
    TooManyPlacesError,
    compile_rows,
)
from piestream.row_patterns.loops.records import (
    BITS,
    KNOWN_AT,
    Entry,
    Giving,
    Program,
    Skipping,
    What,
)

__all__ = ["RowPlan", "automaton_of", "row_plan"]

_SKIPPING = {
    SkipMode.PAST_LAST_ROW: Skipping.PAST_LAST_ROW,
    SkipMode.TO_NEXT_ROW: Skipping.TO_NEXT_ROW,
    SkipMode.TO_FIRST: Skipping.TO_FIRST,
    SkipMode.TO_LAST: Skipping.TO_LAST,
}
_GIVING = {
    EmptyMatches.SHOW: Giving.ALL_ROWS,
    EmptyMatches.OMIT: Giving.ALL_BUT_EMPTY,
    EmptyMatches.WITH_UNMATCHED: Giving.ALL_AND_UNMATCHED,
}
#: What selects one row: its words are whether the value is known, and the value.
_OF_ROW = Selection(CellKind.FIRST)


@dataclass(frozen=True)
class RowPlan:
    """What a row pattern is bound to: attributes, columns of the result, and the program."""

    attributes: tuple[Attribute, ...]
    outputs: tuple[Output, ...]
    compiled: CompiledQuery
    calculated: tuple[CalculatedColumn, ...] = ()


@dataclass(frozen=True)
class VariableName(Output):
    """``CLASSIFIER()``: the name of the variable of a row."""

    item: int
    names: tuple[str, ...]

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return _words(self.item, CellKind.FIRST, NONE)

    def column(self, found: ResultRows) -> pl.Series:
        known, number = (found[word] for word in self.words)
        return pl.Series(self.names).gather(nullable(number * (known == 1), known != 1))


@dataclass(frozen=True)
class MatchNumber(Output):
    """``MATCH_NUMBER()``; rows without a match have none."""

    item: int

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.item, "number"),)

    def column(self, found: ResultRows) -> pl.Series:
        numbers = found[self.words[0]]
        return nullable(numbers, numbers == 0)


@dataclass(frozen=True)
class MeasureValue(Output):
    """A measure: an expression over items, or one of them as it is."""

    items: tuple[Output, ...]  # each by its text
    expression: pl.Expr | None = field(repr=False)
    #: Where rows may be of no match: the number of their match, by which these are told.
    number: MatchNumber | None = None
    #: Where it is a difference of times: the column of whose ticks it is a number.
    length_of: TimeColumn | None = None

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        read = self.items if self.number is None else (*self.items, self.number)
        return tuple(dict.fromkeys(word for item in read for word in item.words))

    @property
    def values_of(self) -> str | None:
        return self.items[0].values_of if self.expression is None else None

    def column(self, found: ResultRows) -> pl.Series:
        values = self._values(found)
        if self.number is None:
            return values
        return values.set(self.number.column(found).is_null(), None)

    def _values(self, found: ResultRows) -> pl.Series:
        if self.expression is None:
            return of_type(self.items[0].column(found), self.dtype)
        columns = [of_type(i.column(found), i.dtype).alias(i.name) for i in self.items]
        rows = pl.int_range(len(found.rows), eager=True).alias("row:")
        frame = pl.DataFrame([rows, *columns])
        found_values = frame.select(self.expression.alias(self.name)).to_series()
        return found_values if self.length_of is None else self.length_of.as_lengths(found_values)


@dataclass(frozen=True)
class IntervalBound(Output):
    """The start or the end of the interval that a match is in a larger query."""

    time: TimeColumn
    item: int

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.item, "bound"),)

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        return self.time.as_times(nullable(found[self.words[0]]))


def row_plan(
    query: Query, columns: InputColumns, time: TimeColumn, within: int | None,
    as_stream: bool = False,
) -> RowPlan:  # fmt: skip
    """The plan of a row pattern over columns; all faults found are raised together.

    ``as_stream``: its matches are intervals of another query.
    """
    assert query.rows is not None
    automaton = automaton_of(query)
    finder = _Items(query, columns)
    errors = Errors()
    outputs: list[Output] = [
        PartitionKey(name, columns.schema[name], name) for name in query.partition_by
    ]
    if query.rows.all_rows:
        outputs.append(finder.current(time.name))
    for measure in query.rows.measures:
        found = errors.attempt(finder.measure, measure)
        if found is not None:
            outputs.append(found)
    if query.rows.all_rows:
        given = {output.name for output in outputs}
        for name in columns.schema:
            if name in given and name not in query.partition_by and name != time.name:
                errors.attempt(_refuse_name, query, name)
            elif name not in given:
                output = errors.attempt(finder.current, name)
                if output is not None:
                    outputs.append(output)
    memory = errors.attempt(row_memory, query, columns, time, finder.attributes, finder.calculated)
    errors.raise_all()
    assert memory is not None
    if as_stream:
        outputs += finder.bounds(time)
    program, places = _program(query, automaton, outputs, finder, memory, within, as_stream)
    ticks = Ticks(INT64_MAX if within is None else within, None, (), ())
    compiled = CompiledQuery(program, places, ticks, JoinOrders((), ()), keys=memory.compared)
    attributes = tuple(finder.attributes)
    return RowPlan(attributes, tuple(outputs), compiled, finder.calculated.all())


def _refuse_name(query: Query, name: str) -> None:
    raise query.fault(
        ("return", name),
        f"the input has a column {name}, which ALL ROWS PER MATCH gives too",
        "name the measure differently with AS",
    )


def automaton_of(query: Query) -> RowAutomaton:
    """The automaton of a row pattern."""
    assert query.rows is not None
    never = {symbol.name for symbol in query.symbols if symbol.predicate.is_never_true}
    try:
        every_match = query.rows.mode is not MatchMode.PREFERRED
        return compile_rows(query.rows.pattern, never, every_match)
    except TooManyPlacesError:
        raise query.fault(
            ("pattern",),
            f"the pattern is too large: written out, it has more than {MOST_PLACES} variables",
            "smaller numbers in {n,m}, or fewer parts of PERMUTE, make it smaller",
        ) from None


class _Items:
    """Finds the output of each item; numbers the attributes as they come up."""

    def __init__(self, query: Query, columns: InputColumns) -> None:
        assert query.rows is not None
        self.query = query
        self.rows: RowPattern = query.rows
        self.columns = columns
        self.attributes: dict[Attribute, int] = {}
        self.calculated = CalculatedColumns(columns.schema)
        #: What each number stands for: an item, or the column of the result's own row.
        self.numbers: dict[RowItem | str | What, int] = {}

    def measure(self, measure: Measure) -> Output:
        items = tuple(self.item(text, item) for text, item in measure.items)
        number = None
        if self.rows.all_rows and self.rows.empty_matches is EmptyMatches.WITH_UNMATCHED:
            number = self._match_number("number:")
        if measure.expression.only_name is not None:
            (item,) = items
            return MeasureValue(measure.alias, item.dtype, items, None, number)
        schema = {item.name: item.dtype for item in items}
        typed = measure.expression.typed(schema)
        expression = value_expression(typed, schema)
        time = self._time_of_lengths(measure, items) if _has_length(typed) else None
        if time is not None and typed.type.is_length:
            dtype = time.length_dtype
            return MeasureValue(measure.alias, dtype, items, expression, number, time)
        frame = pl.DataFrame(schema={"row:": pl.Int64(), **schema})
        dtype = frame.select(expression.alias(measure.alias)).schema[measure.alias]
        return MeasureValue(measure.alias, dtype, items, expression, number)

    def _time_of_lengths(self, measure: Measure, items: tuple[Output, ...]) -> TimeColumn:
        """The column of whose ticks a difference of times is a number."""
        times = [item for item in items if is_moment(item.dtype)]
        kinds = {(tick_of(t.dtype), getattr(t.dtype, "time_zone", None) is None) for t in times}
        if len(kinds) > 1:
            listed = " and ".join(f"{t.name} is {t.dtype}" for t in times)
            raise self.query.fault(
                ("return", measure.alias),
                f"{measure.alias} subtracts times that are not of one type: {listed}",
                "make columns of one type of them first",
            )
        return TimeColumn(times[0].name, times[0].dtype, tick_of(times[0].dtype))

    def _match_number(self, text: str) -> MatchNumber:
        return MatchNumber(text, pl.Int64(), self._number(RowItem("MATCH_NUMBER")))

    def item(self, text: str, item: RowItem) -> Output:
        if item.function == "MATCH_NUMBER":
            return self._match_number(text)
        number = self._number(item)
        if item.column is None and item.function in ("FIRST", "LAST"):
            return VariableName(text, pl.String(), number, self.rows.variables)
        columns, column = self.columns, item.column
        if item.expression is not None:
            found = self.calculated.of(item.expression.typed(columns.schema))
            column = found.name
            columns = replace(columns, schema={**columns.schema, column: found.dtype})
        if item.function in ("FIRST", "LAST"):
            place = ("column", text)
            return self._value(text, str(column), number, place, item.function, columns)
        aggregate = Aggregate(item.function, "", column, text)
        return aggregate_output(self.query, columns, aggregate, number, self.attributes)

    def current(self, name: str) -> Output:
        """A column of the row itself."""
        number = self._number(name)
        return self._value(name, name, number, None, "ALL ROWS PER MATCH", self.columns)

    def _value(
        self, text: str, column: str, number: int, where: tuple[str, ...] | None, clause: str,
        columns: InputColumns,
    ) -> Output:  # fmt: skip
        dtype = columns.dtype(column, where or ("all",), clause)
        if dtype.is_nested():
            message = f"{clause} cannot give the column {column}: its type is {dtype}"
            raise self.query.fault(where or ("all",), message)
        attribute = Attribute(column, own_form(dtype))
        place = self.attributes.setdefault(attribute, len(self.attributes))
        return SelectedValue(text, dtype, number, place, attribute, _OF_ROW)

    def bounds(self, time: TimeColumn) -> list[Output]:
        """Where a match lies as an interval, and when it becomes known."""
        start, end = self._number(What.START), self._number(What.END)
        return [
            IntervalBound(MATCH_START, time.dtype, time, start),
            IntervalBound(MATCH_END, time.dtype, time, end),
            ReportTime(MATCH_KNOWN, time.dtype, time),
        ]

    def _number(self, what: RowItem | str | What) -> int:
        return self.numbers.setdefault(what, len(self.numbers))


def _has_length(expression: Expression) -> bool:
    """Whether times are subtracted somewhere in an expression."""
    return expression.type.is_length or any(map(_has_length, children(expression)))


def _words(item: int, kind: CellKind, column: int) -> tuple[OutputWord, ...]:
    return tuple(OutputWord(item, Cell(item, kind, column), part) for part in range(2))


# -- the program ----------------------------------------------------------------------------------


def _program(
    query: Query,
    automaton: RowAutomaton,
    outputs: list[Output],
    items: _Items,
    memory: RowMemory,
    within: int | None,
    as_stream: bool,
) -> tuple[Any, Mapping[OutputWord, int]]:
    """The words of the program, and where each output word stands in a result row."""
    rows = items.rows
    places: dict[OutputWord, int] = {}
    entries: list[list[int]] = []
    n_outputs = 0
    by_number = {number: what for what, number in items.numbers.items()}
    for word in dict.fromkeys(word for output in outputs for word in output.words):
        if word in places:
            continue
        size = 1
        if isinstance(word.what, Cell):
            size = CELL_SIZE[word.what.kind]
            for part in range(size):
                places[replace(word, part=part)] = n_outputs + part
        else:
            places[word] = n_outputs
        entries.append(_entry(rows, word, by_number.get(word.symbol), n_outputs, size))
        n_outputs += size
    shifts = [item.shift for measure in rows.measures for _, item in measure.items]
    n_attributes = len(items.attributes)
    values_at = KNOWN_AT + -(-n_attributes // BITS)
    program = assemble(
        Program,
        n_outputs=n_outputs,
        n_entries=len(entries),
        entries=entries,
        giving=_GIVING[rows.empty_matches] if rows.all_rows else Giving.ONE_ROW,
        skipping=_SKIPPING[rows.skip.mode],
        skip_to=_mask(rows, rows.skip.variable) if rows.skip.variable is not None else 0,
        within=INT64_MAX if within is None else within,
        context=max([memory.context, *(-shift for shift in shifts)]),
        lookahead=max([int(as_stream), *shifts]),
        as_intervals=as_stream,
        is_sequenced=query.is_sequenced,
        n_attributes=n_attributes,
        values_at=values_at,
        row_words=values_at + n_attributes,
        **_automaton_words(rows, automaton),
        **memory.words(query, automaton),
    )
    return program, places


def _mask(rows: RowPattern, name: str | None) -> int:
    variables = rows.variables
    return sum(1 << variables.index(m) for m in rows.members(name) if m in variables)


def _entry(
    rows: RowPattern, word: OutputWord, of: RowItem | str | What | None, place: int, size: int
) -> list[int]:
    """What writes a word, and those that belong to it, into a result row."""
    kind, column = CellKind.FIRST, NONE
    if isinstance(word.what, Cell):
        kind, column = word.what.kind, word.what.column
    item = of if isinstance(of, RowItem) else RowItem("FIRST")
    if isinstance(of, What):
        what = of
    elif isinstance(of, str):
        what = What.CURRENT
    elif item.function in ("FIRST", "LAST"):
        what = What.FIRST if item.function == "FIRST" else What.LAST
    else:
        what = What.NUMBER if item.function == "MATCH_NUMBER" else What.CELL
    return Entry.packed(
        what=what,
        variables=_mask(rows, item.variable),
        is_final=item.is_final,
        skipped=item.offset,
        shift=item.shift,
        column=column,
        place=place,
        n_words=size,
        cell=[kind, max(column, 0), 0],
    )


def _automaton_words(rows: RowPattern, automaton: RowAutomaton) -> dict[str, Any]:
    """The tables of the automaton: a state behind each place, and the two starts."""
    n_places = len(automaton.variables)
    first_start = n_places + 1
    n_states = n_places + 2
    accept, accept_at_end = n_states, n_states + 1
    size = -(-(n_states + 2) // BITS)

    def state(target: int) -> int:
        if target >= 0:
            return target + 1
        return accept if target == ACCEPT else accept_at_end

    def as_set(states: list[int]) -> list[int]:
        words = [0] * size
        for number in states:
            words[number // BITS] |= 1 << number % BITS
        return words

    following = [automaton.later, *automaton.successors, automaton.first]
    successors = [[state(target) for target in targets] for targets in following]
    starts = [0]
    for targets in successors:
        starts.append(starts[-1] + len(targets))
    variables = rows.variables
    numbers = [0, *(variables.index(name) for name in automaton.variables), 0]
    states_of = [
        as_set([place + 1 for place, name in enumerate(automaton.variables) if name == variable])
        for variable in variables
    ]
    return {
        "n_variables": len(variables),
        "n_states": n_states,
        "first_start": first_start,
        "accept": accept,
        "accept_at_end": accept_at_end,
        "set_words": size,
        "work_words": 2 * n_states + 2 * size + 8,
        "successors_from": starts,
        "successors": successors,
        "successor_sets": [as_set(targets) for targets in successors],
        "variable_of": numbers,
        "excluded": [0, *map(int, automaton.excluded), 0],
        "states_of": states_of,
    }
