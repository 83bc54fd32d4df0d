"""Result rows: what is known of a match at its report, in the order that SPEC 4 promises."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Carried, Record, Words, kernel, method
from piestream.joins.extend import Matches
from piestream.joins.partition import Partition
from piestream.joins.records import OutputKind, Phase, ResultRow, Scratch
from piestream.joins.sort import sorted_places
from piestream.joins.waiting import WaitingMatch, WaitingStore

_PARTITION, _TIME, _PHASE, _OUTPUTS = (
    ResultRow.offset(name) for name in ("partition", "time", "phase", "outputs")
)


class ResultColumns(Record):
    """Room for result rows, one column behind the other."""

    length: Carried[int]  # of a column

    @method
    def column(self, number: int) -> Words:
        """A column of `ResultRow`, by its number."""
        return at_word(self, number * self.length)

    @method
    def output(self, number: int) -> Words:
        """The column of an output word."""
        return self.column(_OUTPUTS + number)

    @method
    def describe(self, row: int, partition: int, time: int, phase: int) -> None:
        """Write what a row says besides its output words."""
        self.column(_PARTITION)[row] = partition
        self.column(_TIME)[row] = time
        self.column(_PHASE)[row] = phase


@kernel
def _write_outputs(
    partition: Partition, matches: Matches, places: Array, results: ResultColumns, row: int
) -> None:
    """Write the output words of the matches whose slot ids are at ``matches[places[k]]``."""
    program = partition.program
    for o in range(program.n_outputs):
        output = program.outputs[o]
        ring = partition.ring(output.symbol)
        column = at_word(results.output(o), row)
        if output.kind != OutputKind.FOLLOWS:
            words = at_word(partition.pool, ring.base + output.word)
            last = ring.capacity - 1
            width = ring.width
            s = output.symbol
            for k in range(places.size):
                column[k] = words[(matches[places[k] + s] & last) * width]
        else:
            for k in range(places.size):
                slot = ring.slot(matches[places[k] + output.symbol])
                column[k] = slot[output.word] == matches[places[k] + output.other]


@kernel
def _await_completion(
    partition: Partition, waiting: WaitingStore, ids: Words, results: ResultColumns, row: int,
    time: int, ended: int,
) -> None:  # fmt: skip
    """Put a triggered match into the lists of those of its intervals that end now or later.

    What triggers a match with all ends known is one of these ends, so there is always one. At the
    end of an input, others may have ended at this time before: ``ended`` are those that end now.
    """
    program = partition.program
    number = waiting.take()
    match = waiting.match(number)
    n_open = 0
    for s in range(program.n_symbols):
        slot = partition.ring(s).slot(ids[s])
        match.starts()[s] = slot.start
        match.links()[s] = NONE
        if slot.end > time or (slot.end == time and ended >> s & 1):
            n_open += 1
            word = program.symbols[s].waiting_list
            match.links()[s] = slot[word]
            slot[word] = number
    match.n_open = n_open
    for o in range(program.n_outputs):
        match.outputs()[o] = results.output(o)[row]
    partition.waiting += 1


@kernel
def report(
    partition: Partition, number: int, waiting: WaitingStore, matches: Matches,
    results: ResultColumns, scratch: Scratch, time: int, ended: int,
) -> None:  # fmt: skip
    """Write a row for every match found at this event, and note those that will complete.

    There must be room for the matches in ``results`` and in ``waiting``.
    """
    program = partition.program
    n = program.n_symbols
    count = scratch.n_matches
    first = scratch.n_rows
    # slot ids of one symbol grow with its starts, so they order matches as the starts do
    places = sorted_places(
        at_word(matches, 0), np.arange(0, count * n, n), at_word(program.sort_order, 0), n
    )
    for row in range(first, first + count):
        results.describe(row, number, time, Phase.TRIGGER + 2 * scratch.closing)
    _write_outputs(partition, matches, places, results, first)
    if program.emit_both:
        for k in range(count):
            ids = at_word(matches, places[k])
            _await_completion(partition, waiting, ids, results, first + k, time, ended)
    scratch.n_rows += count


@kernel
def _note_end(partition: Partition, s: int, match: WaitingMatch) -> None:
    """The interval of a symbol in a waiting match has ended: its output words are final."""
    program = partition.program
    slot = partition.ring(s).latest()
    for o in range(program.n_outputs):
        output = program.outputs[o]
        if output.symbol == s and output.kind == OutputKind.SLOT_WORD:
            match.outputs()[o] = slot[output.word]
    match.n_open -= 1


@kernel
def complete(
    partition: Partition, number: int, waiting: WaitingStore, results: ResultColumns,
    scratch: Scratch, time: int, ended: int,
) -> None:  # fmt: skip
    """Write the completion rows of waiting matches whose last interval is among ``ended``."""
    program = partition.program
    completed_array = np.empty(partition.waiting, np.int64)
    completed = pointer(completed_array)
    count = 0
    for s in range(program.n_symbols):
        if not ended >> s & 1:
            continue
        slot = partition.ring(s).latest()
        word = program.symbols[s].waiting_list
        waits = slot[word]
        slot[word] = NONE
        while waits != NONE:
            match = waiting.match(waits)
            _note_end(partition, s, match)
            if match.n_open == 0:
                completed[count] = waits
                count += 1
            waits = match.links()[s]
    # the starts lie at the same place in each record
    size = waiting.match_words()
    places = completed_array[:count] * size
    keep_alive(completed_array)
    starts = waiting.match(0).starts()
    order = at_word(program.sort_order, 0)
    for place in sorted_places(starts, places, order, program.n_symbols):
        row = scratch.n_rows
        results.describe(row, number, time, Phase.COMPLETION + 2 * scratch.closing)
        match = waiting.match(place // size)
        for o in range(program.n_outputs):
            results.output(o)[row] = match.outputs()[o]
        waiting.release(place // size)
        scratch.n_rows += 1
    partition.waiting -= count
