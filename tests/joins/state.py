"""What a detector holds, read from its words as intervals of one partition."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from piestream.compiled.constants import OPEN
from piestream.compiled.primitives import at_word, pointer
from piestream.compiled.records import Array, kernel
from piestream.engine.detector import Detector
from piestream.engine.stream import Stream
from piestream.joins.pairs import is_pair
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.state_records import Slot
from piestream.plan.binding import bind
from tests.joins.streams import Pattern

__all__ = ["Held", "held", "live_pairs", "opened"]


@kernel
def _is_pair(
    program: Array, pool: Array, c: int, side: int, slot: int, slot_id: int, other: int,
    other_id: int,
) -> bool:  # fmt: skip
    header = Program(pointer(program))
    words = pointer(pool)
    return is_pair(
        header,
        header.constraints[c],
        side,
        Slot(at_word(words, slot)),
        slot_id,
        Slot(at_word(words, other)),
        other_id,
    )


@dataclass(frozen=True)
class Held:
    """An interval that is held: its slot's id, where it lies, its endpoints (None: open)."""

    slot_id: int
    place: int
    start: int
    end: int | None


def opened(pattern: Pattern, frame: pl.DataFrame) -> Stream:
    """A stream with the clock of a session."""
    return Stream(bind(pattern.query, frame.schema))


def held(detector: Detector, symbol: int, partition: int = 0) -> list[Held]:
    """The intervals of a symbol that are held, in the order of their starts."""
    program = Program.over(detector.program)
    words = detector.partitions.rows[partition]
    ring = Partition.over(words, program=program).rings[symbol]
    width = program.symbols[symbol].width
    found = []
    for slot_id in range(ring.head, ring.tail):
        place = ring.base + (slot_id & (ring.capacity - 1)) * width
        slot = Slot.over(detector.pool, place)
        found.append(Held(slot_id, place, slot.start, None if slot.end == OPEN else slot.end))
    return found


def live_pairs(detector: Detector, side: int) -> set[tuple[int, int]]:
    """The starts of all held x and y that the index of constraint 0 gives as pairs.

    They are read from x (side 0) or from y.
    """
    symbols = Program.over(detector.program).constraints[0].symbols
    x, y = (held(detector, symbols[side]) for side in range(2))
    pairs = set()
    for a in x:
        for b in y:
            mine, other = (a, b) if side == 0 else (b, a)
            if _is_pair(
                detector.program,
                detector.pool,
                0,
                side,
                mine.place,
                mine.slot_id,
                other.place,
                other.slot_id,
            ):
                pairs.add((a.start, b.start))
    return pairs
