"""The end of an input: what is open in a partition then ends, in the order of `Closing`."""

from __future__ import annotations

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import trailing_zeros
from piestream.compiled.records import kernel
from piestream.joins.boxes import box_in
from piestream.joins.bridges import held_before
from piestream.joins.orders import BY_START
from piestream.joins.partition import Partition
from piestream.joins.state_records import NO_MATCH


@kernel
def runs_of_last_event(partition: Partition) -> int:
    """The symbols (as bits) of which the open run began with the last event."""
    last = partition.last_time
    if partition.program.is_sequenced:
        last = partition.last_instant()
    began = 0
    rest = held_before(partition)
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        slot = partition.ring(s).latest()
        if slot[partition.program.start_instant] == last:
            began |= 1 << s
    return began


@kernel
def open_row_before(partition: Partition, s: int, instant: int) -> int:
    """An interval of a symbol's rows that began before an instant and has not ended, else NONE."""
    order = partition.order(s, BY_START)
    return box_in(order, NO_MATCH, instant - 1, OPEN, OPEN, NO_MATCH).following(NONE)[0]


@kernel
def any_open_row_before(partition: Partition, instant: int) -> bool:
    """Whether an interval that came as a row began before an instant and has not ended."""
    rest = partition.program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if open_row_before(partition, s, instant) != NONE:
            return True
    return False
