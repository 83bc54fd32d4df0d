"""A row pattern as the program that its loops read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.records import assemble
from piestream.intervals.aggregates import CELL_SIZE, CellKind
from piestream.language.model import Query
from piestream.language.row_patterns import (
    EmptyMatches,
    RowItem,
    RowPattern,
    SkipMode,
)
from piestream.plan.outputs import (
    Output,
)
from piestream.plan.program import Cell, OutputWord
from piestream.plan.row_outputs import RowOutputs
from piestream.plan.row_registers import RowMemory
from piestream.row_patterns.automaton import (
    ACCEPT,
    RowAutomaton,
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

__all__ = ["row_program"]

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


def row_program(
    query: Query,
    automaton: RowAutomaton,
    outputs: list[Output],
    items: RowOutputs,
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
    """The entry by which the loops write a word, and those that belong to it, into a result row."""
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
