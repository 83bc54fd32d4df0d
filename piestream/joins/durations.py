"""Bounds on durations and numbers of events: of intervals that end, and of open ones that reach a minimum."""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.primitives import trailing_zeros
from piestream.compiled.records import inline_kernel, kernel
from piestream.intervals.ticks import lasts, plus
from piestream.joins.partition import Partition
from piestream.joins.records import Symbol
from piestream.joins.scratch import ItemKind, Scratch
from piestream.joins.slots import drop_interval
from piestream.joins.state_records import MOST_EVENTS, BridgedSlot, Slot


@kernel
def _has_allowed_length(symbol: Symbol, start: int, end: int) -> bool:
    """Whether an interval that has ended fulfils its duration constraint."""
    if symbol.at_least != NONE and not lasts(start, end, symbol.at_least):
        return False
    at_most = symbol.at_most
    return at_most == NONE or not lasts(start, end, at_most) or end - start == at_most


@kernel
def _has_allowed_count(partition: Partition, symbol: Symbol, slot: Slot, event: int) -> bool:
    """Whether an interval that has ended before the event of this number has enough events."""
    if symbol.first_event == NONE:
        return True
    if symbol.counter != NONE:
        event = partition[partition.program.counters[symbol.counter].before]
    return is_allowed_count(symbol, slot, event)


@kernel
def is_allowed_count(symbol: Symbol, slot: Slot, event: int) -> bool:
    """The same, where ``event`` is the number of one of the symbol's own events."""
    count = event - slot[symbol.first_event]
    at_most = symbol.at_most_events
    return count >= symbol.at_least_events and (at_most == NONE or count <= at_most)


@inline_kernel
def end_intervals(partition: Partition, scratch: Scratch, ended: int, time: int, event: int) -> int:
    """End the intervals of symbols (as bits); gives those that fulfil their constraints.

    ``event`` is the number of the event that ends them.
    """
    program = partition.program
    kept = 0
    while ended:
        s = trailing_zeros(ended)
        ended &= ended - 1
        slot = partition.ring(s).latest()
        slot[program.end_instant] = scratch.instant
        slot.end = time
        if not program.bounded >> s & 1:
            kept |= 1 << s
            continue
        symbol = program.symbols[s]
        if _has_allowed_length(symbol, slot.start, time) and _has_allowed_count(
            partition, symbol, slot, event
        ):
            kept |= 1 << s
        else:
            drop_interval(partition, s, scratch.floor)
    return kept


@kernel
def _fits_as_interrupted(symbol: Symbol, slot: Slot, end: int) -> bool:
    """Whether an interrupted interval fulfils its constraints if it has ended when it was."""
    if not _has_allowed_length(symbol, slot.start, end):
        return False
    return symbol.first_event == NONE or is_allowed_count(symbol, slot, BridgedSlot(slot).events)


@kernel
def end_interrupted(partition: Partition, ended: int, time: int) -> int:
    """End intervals of symbols (as bits) that are known by now to have ended when they were interrupted.

    Gives those that fulfil their constraints.
    """
    kept = 0
    partition.mask &= ~ended
    while ended:
        s = trailing_zeros(ended)
        ended &= ended - 1
        slot = partition.ring(s).latest()
        bridged = BridgedSlot(slot)
        slot[partition.program.end_instant] = bridged.since_instant
        slot.end = bridged.since
        bridged.since = OPEN
        bridged.since_instant = OPEN
        if _fits_as_interrupted(partition.program.symbols[s], slot, slot.end):
            kept |= 1 << s
        else:
            drop_interval(partition, s, partition.floor_at(time))
    return kept


@kernel
def enqueue_interrupted(partition: Partition, scratch: Scratch, symbols: int, time: int) -> None:
    """Queue the intervals of symbols (as bits) that are interrupted now if they have their minimum."""
    symbols &= ~partition.valid & partition.program.valid_at_length
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        slot = partition.ring(s).latest()
        since = BridgedSlot(slot).since
        if since == time and _fits_as_interrupted(partition.program.symbols[s], slot, time):
            scratch.enqueue(ItemKind.INTERVAL).symbol = s


@kernel
def pass_most_events(partition: Partition, scratch: Scratch, lasts: int, holds: int) -> None:
    """Note which open intervals have more events than they may since this event, and when the next will.

    That is asked of those that are absent, as a match may wait for them. One that is interrupted has at
    least one more if it goes on.
    """
    program = partition.program
    rest = lasts & program.exceeds
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        symbol = program.symbols[s]
        is_interrupted = 1 - (holds >> s & 1)
        too_many = partition.ring(s).latest()[symbol.first_event] + symbol.at_most_events
        too_many -= is_interrupted
        if symbol.counter != NONE:
            counter = program.counters[symbol.counter]
            if partition[counter.up_to] <= too_many:
                partition[counter.due] = min(partition[counter.due], too_many)
                partition.due_event = 0  # see `counters.first_row_of_due_count`
            elif partition[counter.before] <= too_many + is_interrupted:
                scratch.exceeded |= 1 << s
        elif scratch.events <= too_many:
            partition.due_event = min(partition.due_event, too_many)
        elif scratch.events <= too_many + 1 + is_interrupted:
            scratch.exceeded |= 1 << s


@kernel
def reach_lengths(partition: Partition, mask: int, time: int, event: int) -> int:
    """Which open intervals (as bits) have reached their minimum, and when the next will."""
    program = partition.program
    reached = 0
    due = INT64_MAX
    due_event = MOST_EVENTS
    pending = mask & ~partition.valid & program.valid_at_length
    while pending:
        s = trailing_zeros(pending)
        pending &= pending - 1
        slot = partition.ring(s).latest()
        symbol = program.symbols[s]
        if not lasts(slot.start, time, symbol.at_least):
            due = min(due, plus(slot.start, symbol.at_least))
            continue
        if symbol.first_event != NONE:
            enough = slot[symbol.first_event] + symbol.at_least_events - 1
            if symbol.counter != NONE:
                counter = program.counters[symbol.counter]
                if partition[counter.up_to] <= enough:
                    partition[counter.due] = min(partition[counter.due], enough)
                    due_event = 0  # see `counters.first_row_of_due_count`
                    continue
            elif event < enough:
                due_event = min(due_event, enough)
                continue
        reached |= 1 << s
    partition.due = due
    partition.due_event = due_event
    return reached
