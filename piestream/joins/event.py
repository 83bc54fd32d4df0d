"""One event of one partition: ends, starts, automata, pairs, matches.

What becomes known at an event is put in a queue and taken in turn: each item is inserted into its
index and then extended through what has been inserted already. A match therefore comes out exactly
once, at its last item.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import trailing_zeros
from piestream.compiled.records import inline_kernel, kernel
from piestream.intervals.aggregates import Columns
from piestream.joins.counters import note_counts
from piestream.joins.durations import end_intervals, pass_most_events, reach_lengths
from piestream.joins.extend import DONE, extend
from piestream.joins.first import extend_to_first
from piestream.joins.insertion import insert
from piestream.joins.keys import add_keys
from piestream.joins.matches import Matches
from piestream.joins.partition import Partition
from piestream.joins.scratch import ItemKind, Scratch
from piestream.joins.slots import open_interval, update_aggregates


@kernel
def _enqueue_ranges(
    partition: Partition, scratch: Scratch, symbols: int, mask: int, kept: int
) -> None:
    """Queue the ranges of the intervals of symbols (as bits) that start, or close those that end.

    All ranges of an interval are inserted before it is extended, and that only if its constraints
    are all of this kind: pairs of it are decided later.
    """
    program = partition.program
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        symbol = program.symbols[s]
        starts = mask >> s & 1
        for number in range(symbol.incident, symbol.incident_end):
            incident = program.incidents[number]
            constraint = program.constraints[incident.constraint]
            mine = constraint.sides[incident.side]
            theirs = constraint.sides[1 - incident.side]
            other = constraint.symbols[1 - incident.side]
            if not starts and mine.first_starting_after != NONE:
                latest = partition.ring(s).latest()
                latest[mine.first_starting_after] = partition.rings[other].tail
                if theirs.bound_by_ended != NONE or mine.given != NONE:
                    item = scratch.enqueue(ItemKind.END)
                    item.constraint = incident.constraint
                    item.side = incident.side
            elif starts and mine.last_ended_before != NONE:
                item = scratch.enqueue(ItemKind.RANGE)
                item.constraint = incident.constraint
                item.side = incident.side
                # the last that ended before now: not one that is open or ends now
                item.last = partition.rings[other].tail - 1 - ((mask | kept) >> other & 1)
                if constraint.listed != NONE:
                    item.last = 0  # nothing but whether they are inserted is read of it
        if starts and program.all_after >> s & 1:
            scratch.enqueue(ItemKind.START).symbol = s


@kernel
def _enqueue_pair(scratch: Scratch, c: int, x_id: int, y_id: int) -> None:
    """Queue a decided pair."""
    item = scratch.enqueue(ItemKind.PAIR)
    item.constraint = c
    item.ids[0] = x_id
    item.ids[1] = y_id


@inline_kernel
def _step_automata(partition: Partition, scratch: Scratch, s: int, mask: int) -> None:
    """Let the automata of a symbol's constraints read the event; queue the pairs they decide."""
    program = partition.program
    symbol = program.symbols[s]
    for number in range(symbol.incident, symbol.incident_end):
        c = program.incidents[number].constraint
        constraint = program.constraints[c]
        if constraint.automaton == NONE:
            continue
        x = constraint.symbols[0]
        y = constraint.symbols[1]
        state = program.automata_at + c
        letter = 2 * (mask >> x & 1) + (mask >> y & 1)
        transition = program.transitions[constraint.automaton + 4 * partition[state] + letter]
        partition[state] = transition.state
        decides = transition.decides
        if not decides:
            continue
        x_id = partition.rings[x].tail - 1
        y_id = partition.rings[y].tail - 1
        # the latest x and y; the x before it and the latest y; the latest x and the y before it
        if decides & 1 and not (partition.dropped >> x | partition.dropped >> y) & 1:
            _enqueue_pair(scratch, c, x_id, y_id)
        if decides & 2 and not partition.previous_dropped >> x & 1:
            _enqueue_pair(scratch, c, x_id - 1, y_id)
        if decides & 4 and not partition.previous_dropped >> y & 1:
            _enqueue_pair(scratch, c, x_id, y_id - 1)


@kernel
def apply_event(
    partition: Partition, scratch: Scratch, columns: Columns, time: int, mask: int, row: int,
    holds: int, ended_before: int,
) -> int:  # fmt: skip
    """Apply the event at ``time``: its ends and starts, and a step of the automata they touch.

    ``row`` is its own; of the end of a silence or of the input, the row behind it. What becomes
    known is queued. Gives the symbols (as bits) whose intervals have ended as their bounds allow.
    ``mask`` has the symbols whose intervals last, ``holds`` those whose predicates hold. Those that
    ``ended_before`` are known now to have.
    """
    program = partition.program
    scratch.n_items = 0
    event = scratch.event_origin + row
    changed = partition.mask ^ mask
    ended = partition.mask & changed
    started = mask & changed

    # ends, before starts: an interval that starts now is met by those that end now
    if program.has_cells:
        update_aggregates(partition, columns, ended, row, scratch)
        note_counts(partition, scratch, columns, row)
    partition.mask = mask
    kept = end_intervals(partition, scratch, ended, time, event) | ended_before
    rest = started
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        open_interval(partition, s, time, scratch.instant, event)
        symbol = program.symbols[s]
        if symbol.key != symbol.key_end:
            add_keys(partition, s, columns, row)
        scratch.aggregated[s] = row

    # the endpoint index: which ended before those that start, and where those that end leave off
    if (started | kept) & program.in_ranges:
        _enqueue_ranges(partition, scratch, started & program.in_ranges, mask, kept)
        # after those that start now, which they only meet
        _enqueue_ranges(partition, scratch, kept & program.in_ranges, mask, kept)

    rest = changed
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        _step_automata(partition, scratch, s, mask)

    # intervals that become valid: at their end, at their start, or by their length
    latest = event - 1 if scratch.closing else event  # the end of the input is no event
    rest = kept & ~partition.valid
    if program.valid_at_length | program.exceeds:
        rest |= reach_lengths(partition, holds, time, latest)
        if program.exceeds and not scratch.closing:
            pass_most_events(partition, scratch, mask, holds)
    if program.n_present == 1:
        rest |= started & partition.valid
    while rest:
        scratch.enqueue(ItemKind.INTERVAL).symbol = trailing_zeros(rest)
        rest &= rest - 1
    return kept


@kernel
def apply_deadline(partition: Partition, scratch: Scratch, kept: int) -> None:
    """Queue what becomes known between events, of intervals (as bits) that are known to have ended."""
    scratch.n_items = 0
    ranges = kept & partition.program.in_ranges
    if ranges:
        _enqueue_ranges(partition, scratch, ranges, partition.mask, kept)
    rest = kept & ~partition.valid
    while rest:
        scratch.enqueue(ItemKind.INTERVAL).symbol = trailing_zeros(rest)
        rest &= rest - 1


@inline_kernel
def drain_queue(partition: Partition, scratch: Scratch, matches: Matches, floor: int) -> bool:
    """Insert the queued items one by one, and find the matches that each completes.

    False where the buffer of matches is full, or the call pauses: see `extend`.
    """
    while scratch.item < scratch.n_items:
        if scratch.depth == DONE:
            scratch.seed = insert(partition, scratch, scratch.items[scratch.item], floor)
            if scratch.seed == NONE or scratch.barred:
                scratch.item += 1
                continue
            scratch.depth = 0
        if partition.program.finds_first:
            if not extend_to_first(scratch.extend_to_first_at, partition, scratch, matches, floor):
                return False
        elif not extend(partition, scratch, matches, floor):
            return False
        scratch.item += 1
    return True
