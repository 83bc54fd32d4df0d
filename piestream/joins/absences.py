"""Absences: whether an interval may still come, or is there, that satisfies all of a NOT group.

A match that has triggered is judged by what is known of the absent symbol. If some interval of it is
certain to satisfy a group, the match is dead. If none can any more, it is given. Else it is kept among
those that are *awaited*, with the instant at which that may change without an event: these are heaps,
so that time costs a step of one for each match that is due. At events, a match is judged again only if
an interval of an absent symbol begins or ends, or one of those that it has: whatever waits for such an end
is in a heap of its own.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Carried, Record, Words, kernel, method
from piestream.joins.futures import future_words
from piestream.joins.matches import Matches
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.rings import grow_ring
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import AwaitedMatch, RingHeader
from piestream.joins.verdicts import ABSENT, UNDECIDED, Judged, judge

__all__ = ["is_due", "n_awaited", "room_to_await", "settle"]


class _Heap(Record):
    """Matches of a partition that are awaited, the first due on top. (What it is lies nowhere.)"""

    partition: Carried[Partition]
    #: 0: of those all of whose intervals have ended, as far as groups say; 1: of the others
    which: Carried[int]

    @method
    def header(self) -> RingHeader:
        """The ring in which it lies, from its head on."""
        return self.partition.rings[self.partition.program.awaited_ring + self.which]

    @method
    def count(self) -> int:
        """How many matches it has."""
        header = self.header()
        return header.tail - header.head

    @method
    def at(self, number: int) -> AwaitedMatch:
        """A match by its place."""
        ring = self.partition.awaited_matches(self.which)
        return AwaitedMatch(ring.slot(ring.head + number))

    @method
    def copy(self, number: int, to: int) -> None:
        """Copy a match to another place."""
        source = self.at(number)
        target = self.at(to)
        for word in range(self.partition.program.awaited_width):
            target[word] = source[word]

    @method
    def exchange(self, one: int, other: int) -> None:
        """Let two matches change places."""
        first = self.at(one)
        second = self.at(other)
        for word in range(self.partition.program.awaited_width):
            kept = first[word]
            first[word] = second[word]
            second[word] = kept

    @method
    def sink(self, number: int) -> None:
        """Let a match sink to where it belongs."""
        count = self.count()
        while True:
            below = 2 * number + 1
            if below >= count:
                return
            if below + 1 < count and self.at(below + 1).due < self.at(below).due:
                below += 1
            if self.at(number).due <= self.at(below).due:
                return
            self.exchange(number, below)
            number = below

    @method
    def add(self, match: AwaitedMatch) -> None:
        """Add a match, for which there must be room."""
        header = self.header()
        header.tail += 1
        number = self.count() - 1
        target = self.at(number)
        for word in range(self.partition.program.awaited_width):
            target[word] = match[word]
        while number:
            above = (number - 1) >> 1
            if self.at(above).due <= self.at(number).due:
                return
            self.exchange(above, number)
            number = above


@kernel
def room_to_await(place: Words, program: Program, pool_array: Array, count: int) -> Array:
    """The pool with room for so many awaited matches more in either heap."""
    for which in range(1, -1, -1):
        ring = program.awaited_ring + which
        header = Partition(place, program, pointer(pool_array)).rings[ring]
        while header.tail - header.head + count > header.capacity:
            pool_array = grow_ring(header, pool_array, program.awaited_width)
        count += header.tail - header.head
        keep_alive(pool_array)
    return pool_array


@kernel
def is_due(partition: Partition, scratch: Scratch, time: int) -> bool:
    """Whether anything is to be judged at an instant."""
    if scratch.n_matches:
        return True
    if not _Heap(partition, partition, 0).count() and not _Heap(partition, partition, 1).count():
        return False
    return partition.awaited().due <= time or scratch.absent_changed != 0


@kernel
def n_awaited(partition: Partition) -> int:
    """How many matches are awaited."""
    return _Heap(partition, partition, 0).count() + _Heap(partition, partition, 1).count()


@kernel
def _judge_again(
    judged: Judged, match: AwaitedMatch, scratch: Scratch, matches: Matches, floor: int
) -> int:
    """Judge an awaited match again; if it is given, it is written down."""
    again = Judged(match, judged.partition, match.ids, judged.future, judged.now, judged.closes)
    verdict = judge(again, scratch, floor, match)
    if verdict == ABSENT:
        n = matches.n_symbols
        for s in range(n):
            matches[scratch.n_matches * n + s] = match.ids[s]
        scratch.n_matches += 1
    return verdict


@kernel
def _take_due(
    judged: Judged, which: int, scratch: Scratch, matches: Matches, time: int, floor: int
) -> None:
    """Judge the matches that are due."""
    heap = _Heap(judged, judged.partition, which)
    while heap.count() and heap.at(0).due <= time:
        if _judge_again(judged, heap.at(0), scratch, matches, floor) != UNDECIDED:
            heap.copy(heap.count() - 1, 0)
            heap.header().tail -= 1
        heap.sink(0)


@kernel
def _judge_changed(
    judged: Judged, which: int, scratch: Scratch, matches: Matches, floor: int
) -> None:
    """Judge the matches of which something is new."""
    heap = _Heap(judged, judged.partition, which)
    known = _Heap(judged, judged.partition, 0)
    of_absent = scratch.absent_changed & judged.partition.program.absent
    kept = 0
    for number in range(heap.count()):
        match = heap.at(number)
        verdict = UNDECIDED
        if of_absent or match.open & scratch.absent_changed:
            verdict = _judge_again(judged, match, scratch, matches, floor)
        else:
            scratch.visits += 1
        if verdict == UNDECIDED and which and not match.open:
            known.add(match)
        elif verdict == UNDECIDED:
            if kept < number:
                heap.copy(number, kept)
            kept += 1
    header = heap.header()
    header.tail = header.head + kept
    for number in range(kept >> 1, -1, -1):
        heap.sink(number)


@kernel
def settle(partition: Partition, scratch: Scratch, matches: Matches, time: int, floor: int) -> None:
    """Of the matches found at an event, and of those awaited, leave those whose absences are decided.

    There must be room for all of them among the matches, and among those that are awaited.
    """
    program = partition.program
    n_others = 0
    for number in range(program.n_absences):
        absence = program.absences[number]
        n_others = max(n_others, absence.pair_end - absence.pair)
    room_array = np.empty(future_words(n_others) + program.awaited_width, np.int64)
    match = AwaitedMatch(pointer(room_array))
    future = at_word(match, program.awaited_width)
    closes = scratch.closing != 0
    now = time + 1 if closes else time  # where the instant lies: see `Closing`
    judged = Judged(match, partition, match.ids, future, now, closes)
    found = scratch.n_matches
    for which in range(2):
        if scratch.absent_changed & (NONE if which else program.absent):
            _judge_changed(judged, which, scratch, matches, floor)
        _take_due(judged, which, scratch, matches, time, floor)
    given = 0
    n = matches.n_symbols
    for number in range(found):
        for s in range(n):
            match.ids[s] = 0 if program.absent >> s & 1 else matches[number * n + s]
        verdict = judge(judged, scratch, floor, match)
        if verdict == ABSENT:
            matches.copy(number, given, 1)
            given += 1
        elif verdict == UNDECIDED:
            _Heap(match, partition, int(match.open != 0)).add(match)
    matches.copy(found, given, scratch.n_matches - found)
    scratch.n_matches += given - found
    partition.awaited().due = INT64_MAX
    for which in range(2):
        heap = _Heap(match, partition, which)
        if heap.count():
            partition.awaited().due = min(partition.awaited().due, heap.at(0).due)
    keep_alive(room_array)
