"""Result rows: the words of a match that are known at its report, in the order of the result (SPEC 4)."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import (
    Array,
    Carried,
    Record,
    Words,
    kernel,
    method,
    separate_kernel,
)
from piestream.joins.boxes import box_in
from piestream.joins.given import identify, judge, spend
from piestream.joins.match_order import places_by_rank
from piestream.joins.matches import Matches
from piestream.joins.orders import BY_END
from piestream.joins.partition import Partition
from piestream.joins.records import OutputKind, Program
from piestream.joins.result_rows import Closing, Phase, ResultRow
from piestream.joins.scratch import EVENT_PLACES, Place, Scratch
from piestream.joins.sort import sorted_places
from piestream.joins.state_records import NO_MATCH, Slot
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
        """Write the words of a result row that precede its output words."""
        self.column(_PARTITION)[row] = partition
        self.column(_TIME)[row] = time
        self.column(_PHASE)[row] = phase


@kernel
def _write_outputs(
    partition: Partition, matches: Matches, places: Array, results: ResultColumns, row: int,
    instant: int,
) -> None:  # fmt: skip
    """Write the output words of the matches whose slot ids are at ``matches[places[k]]``."""
    program = partition.program
    for o in range(program.n_outputs):
        output = program.outputs[o]
        ring = partition.ring(output.symbol)
        column = at_word(results.output(o), row)
        if output.kind == OutputKind.FOLLOWS:
            for k in range(places.size):
                slot = ring.slot(matches[places[k] + output.symbol])
                column[k] = slot[output.word] == matches[places[k] + output.other]
        elif output.kind == OutputKind.REPORT:
            for k in range(places.size):
                column[k] = instant
        else:
            words = at_word(partition.pool, ring.base + output.word)
            last = ring.capacity - 1
            width = ring.width
            s = output.symbol
            for k in range(places.size):
                column[k] = words[(matches[places[k] + s] & last) * width]


#: How far before the end of the input the last event lies, and the end of a silence behind it.
_TO_EVENT = int(Place.BETWEEN) - int(Place.EVENT) + EVENT_PLACES
_TO_SILENCE = int(Place.BETWEEN) - int(Place.SILENCE)


@kernel
def _shown_instant(partition: Partition, scratch: Scratch, time: int) -> int:
    """The instant of a report as it is shown: what ends at the last event is reported with it."""
    program = partition.program
    if program.is_sequenced and scratch.closing == Closing.LAST_EVENT:
        if program.shifted_at != NONE:
            at_last = time == partition.last_time
            return partition.last_instant() if at_last else scratch.instant - 1
        return scratch.instant - (_TO_EVENT if time == partition.last_time else _TO_SILENCE)
    return scratch.instant


@kernel
def _order_of_rows(program: Program, numbers: int) -> Array:
    """The words of keys in the order in which they count: starts, then numbers of rows.

    The numbers lie ``numbers`` words behind the starts.
    """
    n = program.n_present
    order = np.empty(2 * n, np.int64)
    for k in range(n):
        order[k] = program.sort_order[k]
        order[n + k] = numbers + program.sort_order[k]
    return order


@kernel
def _sorted_matches(partition: Partition, matches: Matches, count: int) -> Array:
    """Where each of so many matches begins, in the order of their starts.

    The ids of runs grow with their starts; of rows the starts are looked up, and the numbers tell
    apart those that start together.
    """
    program = partition.program
    n = program.n_symbols
    present = program.n_present
    if not program.rows:
        order = at_word(program.sort_order, 0)
        return sorted_places(at_word(matches, 0), np.arange(0, count * n, n), order, present)
    places = places_by_rank(partition, matches, count)
    if places.size == count:
        return places
    keys_array = np.empty(2 * count * n, np.int64)
    keys = pointer(keys_array)
    for k in range(count):
        for place in range(present):
            s = program.sort_order[place]
            slot = partition.ring(s).slot(matches[k * n + s])
            keys[2 * k * n + s] = slot[program.start_instant]
            keys[(2 * k + 1) * n + s] = partition.row_number(s, matches[k * n + s])
    order_array = _order_of_rows(program, n)
    places = np.arange(0, 2 * count * n, 2 * n)
    places = sorted_places(keys, places, pointer(order_array), 2 * present)
    keep_alive(keys_array)
    keep_alive(order_array)
    return places // 2


@kernel
def _sorted_waiting(waiting: WaitingStore, completed: Array) -> Array:
    """The numbers of waiting matches in the order of their starts."""
    program = waiting.program
    n = program.n_symbols
    size = waiting.match_words()
    starts = waiting.match(0).starts()  # which lie at the same place in each record
    present = program.n_present
    if not program.rows:
        order = at_word(program.sort_order, 0)
        return sorted_places(starts, completed * size, order, present) // size
    order_array = _order_of_rows(program, 2 * n + program.n_outputs)
    places = sorted_places(starts, completed * size, pointer(order_array), 2 * present)
    keep_alive(order_array)
    return places // size


@kernel
def _await_completion(
    partition: Partition, waiting: WaitingStore, ids: Words, results: ResultColumns, row: int,
    now: int, ended: int, scratch: Scratch,
) -> None:  # fmt: skip
    """Put a triggered match into the lists of those of its intervals that end now or later.

    What triggers a match with all ends known is one of these ends, or an interval that is known late:
    where there is none, the match is in the scratch's list of those that are complete.
    """
    program = partition.program
    number = waiting.take()
    match = waiting.match(number)
    n_open = 0
    for s in range(program.n_symbols):
        match.starts()[s] = 0
        match.links()[s] = NONE
        if program.absent >> s & 1:
            continue
        slot = partition.ring(s).slot(ids[s])
        match.starts()[s] = slot[program.start_instant]
        if program.rows:
            match.numbers()[s] = partition.row_number(s, ids[s])
        end = slot[program.end_instant]
        ends_now = ended >> s & 1 and end == now
        if (ended & program.bridged) >> s & 1:  # it has ended before, and that is known since now
            ends_now = ids[s] == partition.rings[s].tail - 1
        if end > now or ends_now:
            n_open += 1
            word = program.symbols[s].waiting_list
            match.links()[s] = slot[word]
            slot[word] = number
    match.n_open = n_open
    if n_open == 0:
        match.links()[0] = scratch.complete
        scratch.complete = number + 1
    for o in range(program.n_outputs):
        match.outputs()[o] = results.output(o)[row]
    partition.waiting += 1


@kernel
def _given(partition: Partition, matches: Matches, places: Array, time: int, instant: int) -> Array:
    """Of matches in the order of the result, the places of those that are given."""
    program = partition.program
    identity_array = np.empty(2 * program.n_once, np.int64)
    identity = pointer(identity_array)
    kept = 0
    for k in range(places.size):
        ids = at_word(matches, places[k])
        earliest = instant
        for place in range(program.n_present):
            slot = partition.ring(program.sort_order[place]).slot(ids[program.sort_order[place]])
            earliest = min(earliest, slot[program.start_instant])
        identify(partition, ids, identity)
        if judge(partition, identity, earliest, time, instant):
            spend(partition, ids)
            places[kept] = places[k]
            kept += 1
    keep_alive(identity_array)
    return places[:kept]


@kernel
def report(
    partition: Partition, number: int, waiting: WaitingStore, matches: Matches,
    results: ResultColumns, scratch: Scratch, time: int, ended: int,
) -> None:  # fmt: skip
    """Write a row for every match found at this event and given, and note those that will complete.

    There must be room for the matches in ``results`` and in ``waiting``.
    """
    program = partition.program
    first = scratch.n_rows
    instant = _shown_instant(partition, scratch, time)
    places = _sorted_matches(partition, matches, scratch.n_matches)
    if program.judges:
        places = _given(partition, matches, places, time, instant)
    count = places.size
    for row in range(first, first + count):
        results.describe(row, number, time, Phase.TRIGGER + 2 * scratch.closing)
    _write_outputs(partition, matches, places, results, first, instant)
    if program.emit_both:
        now = scratch.instant
        if not program.is_sequenced:
            now += scratch.closing != Closing.NO
        for k in range(count):
            ids = at_word(matches, places[k])
            _await_completion(partition, waiting, ids, results, first + k, now, ended, scratch)
    scratch.n_rows += count


@kernel
def _note_end(program: Program, s: int, slot: Slot, match: WaitingMatch) -> None:
    """The interval of a symbol in a waiting match has ended: its output words are final."""
    for o in range(program.n_outputs):
        output = program.outputs[o]
        if output.symbol == s and output.kind == OutputKind.SLOT_WORD:
            match.outputs()[o] = slot[output.word]
    match.n_open -= 1


@kernel
def _end_waits(
    program: Program, waiting: WaitingStore, s: int, slot: Slot, completed: Words, count: int
) -> int:
    """Note the end of an interval in the matches that wait for it, and which of them it completes.

    Gives how many there are now.
    """
    word = program.symbols[s].waiting_list
    waits = slot[word]
    slot[word] = NONE
    while waits != NONE:
        match = waiting.match(waits)
        _note_end(program, s, slot, match)
        if match.n_open == 0:
            completed[count] = waits
            count += 1
        waits = match.links()[s]
    return count


@separate_kernel
def complete(
    partition: Partition, number: int, waiting: WaitingStore, results: ResultColumns,
    scratch: Scratch, time: int, ended: int,
) -> None:  # fmt: skip
    """Write the completion rows of matches whose last interval is among ``ended``, or has ended before."""
    program = partition.program
    completed_array = np.empty(partition.waiting, np.int64)
    completed = pointer(completed_array)
    first = scratch.n_rows
    now = time + (scratch.closing != Closing.NO)
    if program.is_sequenced:
        now = scratch.instant
    count = 0
    for s in range(program.n_symbols):
        if not ended >> s & 1:
            continue
        ring = partition.ring(s)
        if not program.rows >> s & 1:
            count = _end_waits(program, waiting, s, ring.latest(), completed, count)
            continue
        order = partition.order(s, BY_END)
        passed = box_in(order, now, now, INT64_MIN, INT64_MAX, NO_MATCH)
        slot_id = passed.following(NONE)[0]
        while slot_id != NONE:
            count = _end_waits(program, waiting, s, ring.slot(slot_id), completed, count)
            slot_id = passed.following(slot_id)[0]
    while scratch.complete:
        completed[count] = scratch.complete - 1
        count += 1
        scratch.complete = waiting.match(scratch.complete - 1).links()[0]
    ready = completed_array[:count]
    keep_alive(completed_array)
    for waits in _sorted_waiting(waiting, ready):
        row = scratch.n_rows
        results.describe(row, number, time, Phase.COMPLETION + 2 * scratch.closing)
        match = waiting.match(waits)
        for o in range(program.n_outputs):
            results.output(o)[row] = match.outputs()[o]
        waiting.release(waits)
        scratch.n_rows += 1
    partition.waiting -= count
    _write_instant(partition, scratch, results, first, time)


@kernel
def _write_instant(
    partition: Partition, scratch: Scratch, results: ResultColumns, first: int, time: int
) -> None:
    """Write the instant of their report into completion rows: a match has that of its trigger."""
    program = partition.program
    for o in range(program.n_outputs):
        if program.outputs[o].kind == OutputKind.REPORT:
            for row in range(first, scratch.n_rows):
                results.output(o)[row] = _shown_instant(partition, scratch, time)
