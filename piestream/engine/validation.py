"""Checks of a stored state, before anything works on it.

The checksum of a snapshot detects accidental damage; these checks detect all other. Each raises StateError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.records import assemble
from piestream.engine.past import PastValues
from piestream.engine.state import DetectorState, StreamState
from piestream.errors import StateError
from piestream.intervals.aggregates import CellKind
from piestream.joins.records import Program, Transition
from piestream.plan.binding import Binding
from piestream.plan.columns import CODE, FLOAT
from piestream.plan.program import Cell

Words = NDArray[np.int64]
Range = tuple[int, int]

_ANY: Range = (INT64_MIN, INT64_MAX)
_LETTERS = 4
_SELECTING = (CellKind.FIRST, CellKind.LAST, CellKind.MIN_INT, CellKind.MAX_INT)

#: What `joins.validation.Damage` means, in its order.
_DAMAGES = (
    "",
    "its rings of intervals do not fill its pool",
    "a partition says something that no partition can say",
    "an automaton is in a state that it does not have",
    "a ring of intervals is not where or what it should be",
    "an interval lies where none can lie",
    "an interval refers to others that do not exist",
    "an aggregate has a value that its column cannot have",
    "the lists of waiting matches are wrong",
    "the orders of its intervals are wrong",
    "the lists of its pairs are wrong",
    "the matches of which an absence is not decided are wrong",
)


def damaged(what: str) -> StateError:
    """The error for a state that was changed or cut, or was never one."""
    return StateError(f"this state is damaged: {what}")


def check_state(binding: Binding, state: StreamState, buffered: Mapping[str, pl.DataType]) -> None:
    """Refuse a state that no stream of this binding can have; ``buffered`` are projected columns."""
    schema = binding.schema
    n_partitions = _count_partitions(binding, state.detector)
    keys = {name: schema[name] for name in binding.query.partition_by}
    _check_frame("the keys", state.keys, keys, n_partitions)
    if not keys and n_partitions > 1:
        raise damaged("a stream without PARTITION BY has one partition")
    past = PastValues(binding.past).frame(()).schema
    _check_frame("the values of earlier events", state.past, past, n_partitions)
    if state.buffered is not None:
        _check_frame("the waiting events", state.buffered, buffered, len(state.buffered))
    _check_dictionaries(binding, state.dictionaries)
    if binding.query.rows is None:
        _check_words(binding, state, n_partitions)
    else:
        from piestream.engine.row_validation import check_row_words

        check_row_words(binding, state, _dictionary_sizes(binding, state))


def _dictionary_sizes(binding: Binding, state: StreamState) -> dict[int, int]:
    """How many values the dictionary of each attribute has that needs one."""
    coded = [number for number, a in enumerate(binding.attributes) if a.form == CODE]
    return dict(zip(coded, map(len, state.dictionaries), strict=True))


def _count_partitions(binding: Binding, state: DetectorState) -> int:
    words = binding.compiled.partition_words
    if binding.query.rows is not None:
        from piestream.row_patterns.loops.partition_table import RowPartitionTable

        words = RowPartitionTable(binding.compiled.program).width
    count, rest = divmod(state.partitions.size, words)
    if rest:
        raise damaged("it ends within a partition")
    return count


def _check_frame(
    what: str, frame: pl.DataFrame, schema: Mapping[str, pl.DataType], height: int
) -> None:
    if list(frame.schema.items()) != list(schema.items()):
        raise damaged(f"{what} are not the columns of this query")
    if schema and len(frame) != height:
        raise damaged(f"{what} are {len(frame)}, not {height}")


def _check_dictionaries(binding: Binding, dictionaries: tuple[pl.Series, ...]) -> None:
    columns = [a for a in binding.attributes if a.form == CODE]
    if len(dictionaries) != len(columns):
        raise damaged(f"it has {len(dictionaries)} dictionaries, not {len(columns)}")
    for attribute, values in zip(columns, dictionaries, strict=True):
        name = attribute.name
        if values.dtype != binding.attribute_type(attribute):
            raise damaged(f"the dictionary of {name} has type {values.dtype}")
        if values.null_count() or values.n_unique() != len(values):
            raise damaged(f"the dictionary of {name} does not hold distinct values")
    of_number = dict(zip(binding.dictionary_of, dictionaries, strict=True))
    for number, first in binding.dictionary_of.items():
        if not of_number[number].equals(of_number[first]):
            raise damaged("columns that share a dictionary do not agree on it")


def _check_words(binding: Binding, state: StreamState, n_partitions: int) -> None:
    # compiled when first needed, which for many sessions is never
    from piestream.joins.validation import Damage, check_state

    stored = state.detector
    words = (stored.partitions.reshape(-1), stored.pool, stored.waiting)
    found = check_state(
        binding.compiled.program, limits_of(binding, state.dictionaries), words, n_partitions
    )
    if found != Damage.NOTHING:
        raise damaged(_DAMAGES[found])


def limits_of(binding: Binding, dictionaries: tuple[pl.Series, ...]) -> Words:
    """The `joins.validation.Limits` of a query's states."""
    from piestream.joins.validation import Limits, OutputRange, ValueRange

    low, high = _range_of(binding.time.dtype)
    time = (max(low, INT64_MIN + 1), min(high, INT64_MAX - 1))
    sizes = iter(dictionaries)
    attributes = [
        (0, len(next(sizes)) - 1)
        if attribute.form == CODE
        else _ANY
        if attribute.form == FLOAT
        else _range_of(binding.attribute_type(attribute))
        for attribute in binding.attributes
    ]
    places = binding.compiled.output_words
    outputs = []
    for word in sorted(places, key=places.__getitem__):
        (lowest, highest), known = _ANY, NONE
        what = word.what
        if what == "ts":
            lowest, highest = time
        elif isinstance(what, Cell) and what.kind in _SELECTING and word.part == 1:
            lowest, highest = attributes[what.column]
            known = places[replace(word, part=0)]
        outputs.append(OutputRange.packed(lowest=lowest, highest=highest, known=known))
    return assemble(
        Limits,
        lowest_time=time[0],
        highest_time=time[1],
        n_states=_states_of_automata(binding.compiled.program),
        attributes=[ValueRange.packed(lowest=low, highest=high) for low, high in attributes],
        outputs=outputs,
    )


def _range_of(dtype: pl.DataType) -> Range:
    """Which integers the values of a column are, as words."""
    if dtype == pl.Boolean:
        return 0, 1
    if dtype == pl.Date:
        dtype = pl.Int32()
    if not dtype.is_integer():
        return _ANY
    bounds = np.iinfo(str(dtype).lower())
    return max(int(bounds.min), INT64_MIN), min(int(bounds.max), INT64_MAX)


def _states_of_automata(program: Words) -> list[int]:
    """How many states the automaton of each constraint has; 1 where there is none."""
    view = Program.over(program)
    n_transitions = Program.table_of(program, "transitions").size // Transition.size
    automata = [view.constraints[c].automaton for c in range(view.n_automata)]
    edges = [*(at for at in automata if at != NONE), n_transitions]
    lengths = {at: following - at for at, following in pairwise(edges)}
    return [lengths[at] // _LETTERS if at != NONE else 1 for at in automata]
