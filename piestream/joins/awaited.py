"""Matches that are awaited: those of which an absence is not decided yet, by when and by what they may be.

They are dense records. A heap of their numbers has the first that is due on top. Besides, a match hangs in
a list of each symbol whose interval must end before anything but time can decide it.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import Carried, Record, Words, method
from piestream.joins.partition import Partition
from piestream.joins.state_records import Awaited, AwaitedMatch

__all__ = ["AwaitedStore"]


class AwaitedStore(Record):
    """The matches of a partition that are awaited. (What it is lies nowhere.)"""

    partition: Carried[Partition]

    @method
    def known(self) -> Awaited:
        """What the partition knows of them."""
        return self.partition.awaited()

    @method
    def count(self) -> int:
        """How many there are."""
        return self.partition.rings[self.partition.program.awaited_ring].tail

    @method
    def match(self, number: int) -> AwaitedMatch:
        """A match by its number."""
        return AwaitedMatch(self.partition.awaited_matches().slot(number))

    @method
    def following(self, number: int) -> Words:
        """By symbol, the next match in its list; NONE behind the last."""
        return at_word(self.match(number).ids, self.partition.program.n_symbols)

    @method
    def previous(self, number: int) -> Words:
        """By symbol, the match before it in its list."""
        return at_word(self.match(number).ids, 2 * self.partition.program.n_symbols)

    # -- the heap ---------------------------------------------------------------------------------
    @method
    def at(self, place: int) -> int:
        """The number of the match at a place of the heap."""
        return self.partition.awaited_heap().slot(place)[0]

    @method
    def due_at(self, place: int) -> int:
        """When the match at a place of the heap is due."""
        return self.match(self.at(place)).due

    @method
    def put(self, place: int, number: int) -> None:
        """Put a match at a place of the heap."""
        self.partition.awaited_heap().slot(place)[0] = number
        self.match(number).place = place

    @method
    def exchange(self, one: int, other: int) -> None:
        """Let the matches at two places change these."""
        first = self.at(one)
        self.put(one, self.at(other))
        self.put(other, first)

    @method
    def settle_at(self, place: int) -> None:
        """Let the match at a place rise or sink to where it belongs."""
        count = self.partition.rings[self.partition.program.awaited_ring + 1].tail
        while place and self.due_at((place - 1) >> 1) > self.due_at(place):
            self.exchange((place - 1) >> 1, place)
            place = (place - 1) >> 1
        while True:
            below = 2 * place + 1
            if below >= count:
                return
            if below + 1 < count and self.due_at(below + 1) < self.due_at(below):
                below += 1
            if self.due_at(place) <= self.due_at(below):
                return
            self.exchange(place, below)
            place = below

    @method
    def note_due(self) -> None:
        """Note when the first of them is due."""
        self.known().due = self.due_at(0) if self.count() else INT64_MAX

    # -- the lists --------------------------------------------------------------------------------
    @method
    def link(self, number: int, s: int) -> None:
        """Put a match into the list of a symbol."""
        first = self.known().first[s]
        self.following(number)[s] = first
        self.previous(number)[s] = NONE
        if first != NONE:
            self.previous(first)[s] = number
        self.known().first[s] = number

    @method
    def unlink(self, number: int, s: int) -> None:
        """Take a match out of the list of a symbol."""
        before = self.previous(number)[s]
        behind = self.following(number)[s]
        if before == NONE:
            self.known().first[s] = behind
        else:
            self.following(before)[s] = behind
        if behind != NONE:
            self.previous(behind)[s] = before

    @method
    def wait_for(self, number: int, symbols: int) -> None:
        """Let a match wait for the ends of intervals of some symbols (as bits), and of no others."""
        match = self.match(number)
        changed = match.waits ^ symbols
        match.waits = symbols
        while changed:
            s = trailing_zeros(changed)
            changed &= changed - 1
            if symbols >> s & 1:
                self.link(number, s)
            else:
                self.unlink(number, s)

    # -- matches come and go ----------------------------------------------------------------------
    @method
    def add(self, found: AwaitedMatch) -> None:
        """Add a match, for which there must be room."""
        program = self.partition.program
        number = self.count()
        for which in range(2):
            self.partition.rings[program.awaited_ring + which].tail += 1
        match = self.match(number)
        match.due = found.due
        match.waits = 0
        for s in range(program.n_symbols):
            match.ids[s] = found.ids[s]
            self.following(number)[s] = NONE
            self.previous(number)[s] = NONE
        self.put(number, number)
        self.settle_at(number)
        self.wait_for(number, found.waits)
        self.known().credit += 1

    @method
    def update(self, number: int, found: AwaitedMatch) -> None:
        """Note until when a match is awaited now, and what it waits for."""
        match = self.match(number)
        match.due = found.due
        self.settle_at(match.place)
        self.wait_for(number, found.waits)

    @method
    def remove(self, number: int) -> None:
        """Take a match out; the last one gets its number."""
        program = self.partition.program
        self.wait_for(number, 0)
        place = self.match(number).place
        last = self.count() - 1
        if place < last:
            self.put(place, self.at(last))
        for which in range(2):
            self.partition.rings[program.awaited_ring + which].tail -= 1
        if place < last:
            self.settle_at(place)
        if number < last:
            self.rename(last, number)

    @method
    def rename(self, last: int, number: int) -> None:
        """Give the last match another number, in the heap and in its places of the lists."""
        source = self.match(last)
        target = self.match(number)
        for word in range(self.partition.program.awaited_width):
            target[word] = source[word]
        self.put(target.place, number)
        rest = target.waits
        while rest:
            s = trailing_zeros(rest)
            rest &= rest - 1
            before = self.previous(number)[s]
            behind = self.following(number)[s]
            if before == NONE:
                self.known().first[s] = number
            else:
                self.following(before)[s] = number
            if behind != NONE:
                self.previous(behind)[s] = number
