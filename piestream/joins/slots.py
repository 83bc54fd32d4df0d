"""The slots of a symbol's intervals: beginning one, dropping one, keeping its aggregates."""

from __future__ import annotations

from piestream.compiled.layout import ALWAYS, DEFERRED_NOT, NEVER, NOWHERE, OPEN
from piestream.compiled.loops import ARRAY, INT, compiled, trailing_zeros
from piestream.compiled.records import kernel
from piestream.intervals.aggregates import add_rows, clear_cells
from piestream.joins.pairs import drop_partner
from piestream.joins.partition import Columns, Partition
from piestream.joins.records import Scratch
from piestream.joins.rings import grown


@kernel
def drop(part: Partition, s: int) -> None:
    """Take back an ended interval whose duration is not allowed, with its pairs."""
    query = part.query
    symbol = query.symbols[s]
    ring = part.ring(s)
    slot_id = ring.tail - 1
    slot = ring.slot(slot_id)
    for number in range(symbol.incident, symbol.incident_end):
        incident = query.incidents[number]
        constraint = query.constraints[incident.constraint]
        if constraint.names:
            continue
        mine = constraint.sides[incident.side]
        theirs = constraint.sides[1 - incident.side]
        partners = part.ring(constraint.symbols[1 - incident.side])
        if slot[mine.lo] == NOWHERE:
            continue
        for partner in range(max(slot[mine.lo], partners.head), slot[mine.lo + 1] + 1):
            drop_partner(partners.slot(partner), theirs.lo, theirs.walk, slot_id)
    ring.tail = slot_id
    ring.head = min(ring.head, slot_id)
    part.dropped |= 1 << s
    part.valid |= 1 << s


@kernel
def lacks_room(part: Partition, started: int, floor: int) -> bool:
    """Whether the ring of a symbol that starts an interval is full of live ones."""
    while started:
        s = trailing_zeros(started)
        started &= started - 1
        ring = part.ring(s)
        if ring.tail - ring.head < ring.capacity:
            continue
        if not ring.capacity:
            return True
        if ring.tail - ring.expire(floor) == ring.capacity:
            return True
    return False


@compiled(ARRAY, Partition.type, ARRAY, INT)
def with_room_for(part, own_pool, started):
    """The pool with a free slot in the ring of every symbol that starts an interval."""
    while started:
        s = trailing_zeros(started)
        started &= started - 1
        ring = part.rings[s]
        if ring.tail - ring.head == ring.capacity:
            own_pool = grown(ring, own_pool, part.query.symbols[s].width)
    return own_pool


@kernel
def begin(part: Partition, s: int, time: int) -> None:
    """Open an interval of a symbol."""
    symbol = part.query.symbols[s]
    ring = part.ring(s)
    tail = ring.tail
    slot = ring.slot(tail)
    for word in range(ring.width):
        slot[word] = NOWHERE
    slot.start = time
    slot.end = OPEN
    for word in range(symbol.best, symbol.bests_end):
        slot[word] = NEVER
    if symbol.best < symbol.best_end:
        slot.reach = NEVER
        ring.unmark(tail)
    else:
        slot.reach = ALWAYS
        ring.mark(tail)
    clear_cells(part.query, symbol, slot)
    ring.tail = tail + 1
    bit = 1 << s
    dropped = part.dropped & bit
    part.previous_dropped = (part.previous_dropped & ~bit) | dropped
    part.dropped &= ~bit
    if symbol.deferred == DEFERRED_NOT:
        part.valid |= bit
    else:
        part.valid &= ~bit


@kernel
def bring_up_to_date(
    part: Partition, columns: Columns, s: int, row_end: int, scratch: Scratch
) -> None:
    """Add the rows up to ``row_end`` to the aggregates of a symbol's open interval."""
    symbol = part.query.symbols[s]
    if symbol.cell == symbol.cell_end:
        return
    added = scratch.added
    add_rows(part.query, symbol, part.ring(s).latest(), columns, added[s], row_end)
    added[s] = max(row_end, added[s])
