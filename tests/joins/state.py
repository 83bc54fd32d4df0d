"""What a detector holds, read from its words as intervals of one partition."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
from numba import njit

from piestream.compiled import layout as at
from piestream.compiled.loops import ARRAY, BOOL, INT, at_word, pointer
from piestream.engine.detector import Detector
from piestream.engine.stream import Stream
from piestream.joins.pairs import is_pair
from piestream.joins.records import Query, Slot
from piestream.plan.binding import bind
from tests.joins.streams import Pattern

__all__ = ["Held", "held", "live_pairs", "opened"]


# compiled anew in every process: what is kept on disk would not notice that `is_pair` has changed
@njit(BOOL(ARRAY, ARRAY, INT, INT, INT, INT, INT, INT))
def _is_pair(code, pool, constraint, side, slot, slot_id, other, other_id):  # type: ignore[no-untyped-def]
    con = Query(pointer(code)).constraints[constraint]
    slots = pointer(pool)
    return is_pair(
        con, side, Slot(at_word(slots, slot)), slot_id, Slot(at_word(slots, other)), other_id
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
    part = detector.parts[partition * detector.words : (partition + 1) * detector.words]
    base, capacity, head, tail = part[at.RINGS + symbol * at.RING_WORDS :][: at.RING_WORDS].tolist()
    width = int(detector.code[detector.code[at.SYMBOLS_AT] + symbol * at.SYM_WORDS + at.SYM_WIDTH])
    found = []
    for slot_id in range(head, tail):
        place = base + (slot_id & (capacity - 1)) * width
        start, end = detector.pool[place + at.START : place + at.END + 1].tolist()
        found.append(Held(slot_id, place, start, None if end == at.OPEN else end))
    return found


def live_pairs(detector: Detector, side: int) -> set[tuple[int, int]]:
    """The starts of all held x and y that the index of constraint 0 gives as pairs.

    It is asked from x (side 0) or from y.
    """
    con = detector.code[at.CONSTRAINTS_AT]
    x, y = (held(detector, int(detector.code[con + word])) for word in (at.CON_X, at.CON_Y))
    pairs = set()
    for a in x:
        for b in y:
            mine, other = (a, b) if side == 0 else (b, a)
            if _is_pair(
                detector.code,
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
