"""A row pattern meets the columns of its input: its program, and the columns of its result."""

from __future__ import annotations

from dataclasses import dataclass

from piestream.compiled.constants import INT64_MAX
from piestream.language.model import Query
from piestream.language.row_patterns import (
    MatchMode,
)
from piestream.plan.calculated import CalculatedColumn
from piestream.plan.columns import (
    Attribute,
    Errors,
    InputColumns,
    TimeColumn,
)
from piestream.plan.join_order import JoinOrders
from piestream.plan.outputs import (
    Output,
    PartitionKey,
)
from piestream.plan.program import CompiledQuery, Ticks
from piestream.plan.row_memory import row_memory
from piestream.plan.row_outputs import RowOutputs
from piestream.plan.row_program import row_program
from piestream.row_patterns.automaton import (
    MOST_PLACES,
    RowAutomaton,
    TooManyPlacesError,
    compile_rows,
)

__all__ = ["RowPlan", "automaton_of", "row_plan"]


@dataclass(frozen=True)
class RowPlan:
    """A bound row pattern: attributes, columns of the result, and the program."""

    attributes: tuple[Attribute, ...]
    outputs: tuple[Output, ...]
    compiled: CompiledQuery
    calculated: tuple[CalculatedColumn, ...] = ()


def row_plan(
    query: Query, columns: InputColumns, time: TimeColumn, within: int | None,
    as_stream: bool = False,
) -> RowPlan:  # fmt: skip
    """The plan of a row pattern over columns; all faults found are raised together.

    ``as_stream``: its matches are intervals of another query.
    """
    assert query.rows is not None
    automaton = automaton_of(query)
    finder = RowOutputs(query, columns)
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
    program, places = row_program(query, automaton, outputs, finder, memory, within, as_stream)
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
