"""Whether the matches of a stored state of which an absence is not decided are a heap, and in lists."""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.records import kernel
from piestream.joins.awaited import AwaitedStore
from piestream.joins.partition import Partition

__all__ = ["awaited_are_sound"]

#: More matches than are ever awaited.
_MOST = 1 << 62


@kernel
def _lists_are_sound(store: AwaitedStore) -> bool:
    """Whether each match is in the lists of those symbols for which it waits, and in no others."""
    waiting = 0
    n = store.partition.program.n_symbols
    for where in range(store.n_lists()):
        before = NONE
        number = store.known().first[where]
        while number != NONE:
            if not 0 <= number < store.count() or store.previous(number)[where] != before:
                return False  # (so none is met twice)
            match = store.match(number)
            if not (match.goings >> (where - n) if where >= n else match.waits >> where) & 1:
                return False
            waiting += 1
            before = number
            number = store.following(number)[where]
    for number in range(store.count()):
        for s in range(n):
            waiting -= store.match(number).waits >> s & 1
            waiting -= store.match(number).goings >> s & 1
    return waiting == 0


@kernel
def awaited_are_sound(partition: Partition) -> bool:
    """Whether the matches of which an absence is not decided have intervals that there are, and places."""
    program = partition.program
    store = AwaitedStore(partition, partition)
    heap = partition.awaited_heap()
    ring = partition.awaited_matches()
    if ring.head or heap.head or heap.tail != ring.tail or not 0 <= store.known().credit <= _MOST:
        return False
    if not 0 <= store.known().has_expired <= 1:
        return False
    for number in range(store.count()):
        match = store.match(number)
        if not 0 <= match.place < store.count() or store.at(match.place) != number:
            return False
        if match.due + match.is_late <= partition.last_time:  # then it has been judged
            return False
        if not 0 <= match.is_late <= program.is_sequenced:
            return False
        if match.waits & ~program.judged or match.goings & ~(
            program.judged & program.begin_deciding
        ):
            return False
        for s in range(program.n_symbols):
            if not 0 <= match.ids[s] <= partition.rings[s].tail:
                return False
    for place in range(1, store.count()):
        if store.is_before(place, (place - 1) >> 1):
            return False
    due = store.known().due
    is_late = store.known().is_late
    store.note_due()
    if due != store.known().due or is_late != store.known().is_late:
        return False
    return _lists_are_sound(store)
