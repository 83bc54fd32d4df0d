"""What a detector holds of intervals that come as rows, read from its words after each instant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from piestream.compiled.constants import NONE, OPEN
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.state_records import Held, Pair, RowSlot
from tests.joins.rows import Scene, batch_of, detector_of, rows_of

__all__ = ["Step", "steps"]

Span = tuple[int, int | None]


@dataclass(frozen=True)
class Step:
    """The state after an instant: the partition is then compacted, as it is at the end of a batch."""

    time: int
    matches: int  # reported at it
    kept: dict[str, list[Span]]  # the intervals that a match to come may hold, in order of start
    retired: dict[str, list[Span]]  # those of which only the end is still waited for
    pairs: list[set[tuple[int, int]]]  # the starts of the decided pairs of each listed constraint
    waiting: int  # matches that wait for the last of their ends

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many intervals, pairs and waiting matches there are."""
        spans = sum(map(len, self.kept.values()))
        return spans, sum(map(len, self.pairs)), self.waiting


def steps(scene: Scene) -> Iterator[Step]:
    """The state of a detector after each instant of a scene."""
    binding, detector = detector_of(scene)
    rows = rows_of(scene)
    for at, time in enumerate(scene.times):
        found = detector.detect(batch_of(scene, binding, at, at + 1, rows))
        detector.compact(time)
        program = Program.over(detector.program)
        words = detector.partitions.rows[0]
        partition = Partition.over(words, program=program, pool=detector.pool)
        kept: dict[str, list[Span]] = {}
        retired: dict[str, list[Span]] = {}
        starts: list[dict[int, int]] = []
        for s, symbol in enumerate(scene.query.symbols):
            slots = _slots(partition, detector.pool, s)
            starts.append({slot_id: slot.start for slot_id, slot in slots.items()})
            for states, into in (((Held.PENDING, Held.VALID), kept), ((Held.RETIRED,), retired)):
                into[symbol.name] = sorted(
                    (slot.start, None if slot.end == OPEN else slot.end)
                    for slot in slots.values()
                    if slot.held in states
                )
        pairs = [
            _pairs(partition, detector.pool, c, starts)
            for c in range(program.n_constraints)
            if program.constraints[c].listed != NONE
        ]
        yield Step(time, len(found), kept, retired, pairs, partition.waiting)


def _slots(partition: Partition, pool: object, s: int) -> dict[int, RowSlot]:
    ring = partition.rings[s]
    width = partition.program.symbols[s].width
    return {
        slot_id: RowSlot.over(pool, ring.base + (slot_id & (ring.capacity - 1)) * width)
        for slot_id in range(ring.head, ring.tail)
    }


def _pairs(
    partition: Partition, pool: object, c: int, starts: list[dict[int, int]]
) -> set[tuple[int, int]]:
    constraint = partition.program.constraints[c]
    ring = partition.rings[constraint.listed]
    found = set()
    for at in range(ring.head, ring.tail):
        pair = Pair.over(pool, ring.base + (at & (ring.capacity - 1)) * Pair.size)
        x, y = (starts[constraint.symbols[side]].get(pair.ids[side]) for side in range(2))
        if pair.ids[0] != NONE and x is not None and y is not None:
            found.add((x, y))
    return found
