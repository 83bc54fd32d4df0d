"""A call of the loops, in portions: between these control returns to Python.

The loops return at least every 100 ms, so that Ctrl-C and other signals are heeded, and once they
have written enough result rows, so that these can be handed on before there are more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.arrays import uninitialized
from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.records import Separate, ready
from piestream.engine.batches import BatchArrays, Changes
from piestream.joins.absences import settle
from piestream.joins.arrivals import apply_rows
from piestream.joins.batch import detect, new_scratch
from piestream.joins.closing import keep_before_end
from piestream.joins.first import extend_to_first
from piestream.joins.insertion import insert_next
from piestream.joins.output import complete
from piestream.joins.records import Program
from piestream.joins.result_rows import ResultRow
from piestream.joins.scan_listed import scan_listed
from piestream.joins.scratch import Scratch

__all__ = ["Call", "LoopState", "StoppedError", "Workroom", "make_ready", "result_rows"]

Words = NDArray[np.int64]

#: A call pauses after so many steps of extension, or so many events: a few hundredths of a second.
_PAUSE_STEPS = 1 << 21
_PAUSE_EVENTS = 1 << 17
#: Matches of an event for which there is room at first, and words for result rows.
_MATCHES_AT_FIRST = 64
_LEAST_RESULT_WORDS = 1 << 10


def make_ready() -> None:
    """Load, or compile, the loops of every pattern before somebody waits for rows."""
    ready(detect)


class StoppedError(Exception):
    """Another thread of the same run has failed, so this one stops."""


def _separate_loops(program: Program) -> dict[str, Separate[..., Any]]:
    """The separate loops that a program needs, by the word of the scratch for their address."""
    loops: dict[str, Separate[..., Any]] = {}
    if program.absences_at != NONE:
        loops["settle_at"] = settle
        loops["keep_before_end_at"] = keep_before_end
    if program.has_lists:
        loops["apply_rows_at"] = apply_rows
        loops["insert_next_at"] = insert_next
        loops["scan_listed_at"] = scan_listed
    if program.finds_first:
        loops["extend_to_first_at"] = extend_to_first
    if program.emit_both:
        loops["complete_at"] = complete
    return loops


class Workroom:
    """What calls of one program work with, one call after the other. A new one never pauses."""

    def __init__(self, program: Words) -> None:
        header = Program.over(program)
        self._program = program
        self.n_columns = ResultRow.offset("outputs") + header.n_outputs
        self.scratch = new_scratch(program)
        self.fields = Scratch.over(self.scratch)
        for name, loop in _separate_loops(header).items():
            setattr(self.fields, name, loop.address())
        self.fields.pause_at = self.fields.events_left = self.fields.most_rows = INT64_MAX
        self.matches = np.empty(_MATCHES_AT_FIRST * header.n_symbols, np.int64)

    def __deepcopy__(self, memo: dict[int, Any]) -> Workroom:
        return Workroom(self._program)  # between two calls nothing is kept in it

    def for_results(self, expected: int) -> Words:
        """Space for result rows: what of it is not touched costs nothing."""
        expected += expected // 4 + 1
        space: Words = uninitialized(max(_LEAST_RESULT_WORDS, expected * self.n_columns))
        return space


@dataclass(slots=True)
class LoopState:
    """The arrays of partitions, of the pool and of waiting matches, the latter two as they grow."""

    partitions: Words
    pool: Words
    waiting: Words


@dataclass(slots=True)
class Call:
    """One call of the loops over a batch."""

    program: Words
    room: Workroom
    state: LoopState
    batch: BatchArrays
    changes: Changes
    now: int
    fresh: bool = False  # see `detect`
    closes: bool = False
    expected: int = 0  # result rows
    steps: int = 0  # the work done so far
    visits: int = 0

    def portions(self, most_rows: int = INT64_MAX) -> Iterator[Words]:
        """The result rows in portions of about so many or more; a portion may be without any.

        Where nobody asks for the next one the state stays in the middle of a batch.
        """
        state, room = self.state, self.room
        fields, n_columns = room.fields, room.n_columns
        fields.most_rows = most_rows
        matches, results = room.matches, room.for_results(self.expected)
        while True:
            fields.pause_at = self.steps + self.visits + _PAUSE_STEPS
            fields.events_left = _PAUSE_EVENTS
            (
                state.pool, state.waiting, matches, results, n_rows, self.steps, self.visits, paused
            ) = detect(
                self.program, (state.partitions, state.pool, state.waiting), self.batch,
                self.changes, self.now, (room.scratch, matches, results), self.fresh, self.closes,
            )  # fmt: skip
            if not paused:
                break
            if n_rows >= most_rows:
                yield result_rows(results, n_rows, n_columns)
                results = room.for_results(n_rows)
                fields.n_rows = 0
            else:
                yield np.empty((0, n_columns), np.int64)
        yield result_rows(results, n_rows, n_columns)


def result_rows(results: Words, n_rows: int, n_columns: int) -> Words:
    """Result rows, a view of columns that lie one after the other."""
    length = results.size // n_columns
    rows: Words = results[: length * n_columns].reshape(n_columns, length)[:, :n_rows].T
    return rows
