"""BRIDGING: intervals that go on over a short time in which their predicate does not hold.

When the predicate of such a symbol ceases to hold, its interval is *interrupted*: it has ended then,
or goes on. It goes on if a run begins in time. That none does is known at a deadline, which is an
instant of its own if there is no event at that time. Until then the interval counts as open.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, OPEN
from piestream.compiled.primitives import trailing_zeros
from piestream.compiled.records import kernel
from piestream.intervals.aggregates import Columns
from piestream.intervals.ticks import plus
from piestream.joins.counters import note_counts
from piestream.joins.durations import end_interrupted, enqueue_interrupted
from piestream.joins.event import apply_deadline, apply_event
from piestream.joins.partition import Partition
from piestream.joins.records import Symbol
from piestream.joins.scratch import Scratch
from piestream.joins.slots import update_aggregates
from piestream.joins.state_records import BridgedSlot


@kernel
def lasting(partition: Partition, holds: int, time: int, is_event: int, closes: bool) -> int:
    """The symbols (as bits) of which an interval lasts at a time, by the predicates that hold.

    At an event (``is_event``) others of its time may still come. Where the input ``closes``, nothing goes
    on that does not hold.
    """
    program = partition.program
    if closes:
        return holds
    over = 0
    over_by = time - (program.is_sequenced & is_event)
    rest = partition.bridges().interrupted & ~holds
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        slot = BridgedSlot(partition.ring(s).latest())
        if plus(slot.since, program.symbols[s].bridging) <= over_by:
            over |= 1 << s
    return holds | (partition.mask & program.bridged & ~over)


@kernel
def held_before(partition: Partition) -> int:
    """The symbols (as bits) whose predicates held at the last event."""
    if not partition.program.bridged:
        return partition.mask
    return partition.mask & ~partition.bridges().interrupted


@kernel
def _copy_cells(partition: Partition, s: int, resumes: bool) -> None:
    """Copy the interval's aggregates to the cells that also count the interruption, or back."""
    program = partition.program
    symbol = program.symbols[s]
    if symbol.cell == symbol.cell_end:
        return
    first = program.cells[symbol.cell].word
    going_on = program.cells[symbol.bridge_cell].word
    slot = partition.ring(s).latest()
    for word in range(going_on - first):
        if resumes:
            slot[first + word] = slot[going_on + word]
        else:
            slot[going_on + word] = slot[first + word]


@kernel
def events_before(partition: Partition, symbol: Symbol, event: int) -> int:
    """How many events that count for a symbol came before the event of this number."""
    if symbol.counter >= 0:
        return partition[partition.program.counters[symbol.counter].before]
    return event


@kernel
def _follow_bridges(
    partition: Partition, scratch: Scratch, columns: Columns, lasts: int, holds: int, time: int,
    row: int,
) -> None:  # fmt: skip
    """Note which intervals are interrupted at an event, and which go on; ``lasts`` are all that do."""
    program = partition.program
    bridges = partition.bridges()
    event = scratch.event_origin + row
    going_on = partition.mask & lasts & program.bridged
    resumed = going_on & bridges.interrupted & holds
    ceased = going_on & ~bridges.interrupted & ~holds
    scratch.resumed = resumed
    scratch.ended_earlier = bridges.interrupted & ~lasts
    if program.has_cells:
        update_aggregates(partition, columns, resumed | ceased, row, scratch)
        if not scratch.waits:
            note_counts(partition, scratch, columns, row)
    rest = resumed | ceased
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        slot = BridgedSlot(partition.ring(s).latest())
        resumes = resumed >> s & 1 != 0
        _copy_cells(partition, s, resumes)
        slot.since = OPEN if resumes else time
        slot.since_instant = OPEN if resumes else scratch.instant
        if not resumes:
            slot.ceased = time
            slot.ceased_instant = scratch.instant
            slot.events = events_before(partition, program.symbols[s], event)


@kernel
def _note_interrupted(partition: Partition, scratch: Scratch, holds: int, time: int) -> None:
    """Note which intervals are interrupted after an event, and when the first bridge is over."""
    program = partition.program
    bridges = partition.bridges()
    bridges.interrupted = partition.mask & ~holds
    bridges.due = INT64_MAX
    if not scratch.waits or scratch.ended_earlier:  # else nothing but an absence is decided
        bridges.passed = max(bridges.passed, time)
    rest = bridges.interrupted
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        slot = BridgedSlot(partition.ring(s).latest())
        bridges.due = min(bridges.due, plus(slot.since, program.symbols[s].bridging))
    partition.due = min(partition.due, bridges.due)


@kernel
def apply_bridged(
    partition: Partition,
    scratch: Scratch,
    columns: Columns,
    time: int,
    mask: int,
    row: int,
    holds: int,
) -> int:
    """Apply an event, or an instant between events, where some symbols have BRIDGING.

    ``mask`` has the symbols whose intervals last, ``holds`` those whose predicates hold. Gives what
    `apply_event` does.
    """
    _follow_bridges(partition, scratch, columns, mask, holds, time, row)
    kept = end_interrupted(partition, scratch.ended_earlier, time)
    if scratch.waits:
        apply_deadline(partition, scratch, kept)
    else:
        kept = apply_event(partition, scratch, columns, time, mask, row, holds, kept)
        enqueue_interrupted(partition, scratch, partition.mask & ~holds, time)
    _note_interrupted(partition, scratch, holds, time)
    return kept
