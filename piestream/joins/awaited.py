"""Matches that are awaited: those of which an absence is not decided yet, by when and by what they may be.

They are dense records. A heap of their numbers has the first that is due on top. Besides, a match hangs in
a list of each symbol whose interval must end before anything but time can decide it. With BRIDGING, or where an
interval may follow another one immediately, it hangs in another list of each symbol that may go on, or begin, so
that less is possible than when it was judged.
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

    # -- the heap ---------------------------------------------------------------------------------
    @method
    def at(self, place: int) -> int:
        """The number of the match at a place of the heap."""
        return self.partition.awaited_heap().slot(place)[0]

    @method
    def first_due(self) -> AwaitedMatch:
        """The match that is due first: there must be one."""
        return self.match(self.at(0))

    @method
    def is_before(self, place: int, other: int) -> bool:
        """Whether the match at a place of the heap is due before another one."""
        one = self.match(self.at(place))
        behind = self.match(self.at(other))
        return one.due < behind.due or (one.due == behind.due and one.is_late < behind.is_late)

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
        while place and self.is_before(place, (place - 1) >> 1):
            self.exchange((place - 1) >> 1, place)
            place = (place - 1) >> 1
        while True:
            below = 2 * place + 1
            if below >= count:
                return
            if below + 1 < count and self.is_before(below + 1, below):
                below += 1
            if not self.is_before(below, place):
                return
            self.exchange(place, below)
            place = below

    @method
    def note_due(self) -> None:
        """Note when the first of them is due."""
        self.known().due = self.first_due().due if self.count() else INT64_MAX
        self.known().is_late = self.first_due().is_late if self.count() else 0

    # -- the lists: of each symbol those that wait for an end, then those that wait for it to go on -----
    @method
    def n_lists(self) -> int:
        """How many lists there are."""
        program = self.partition.program
        return program.n_symbols * (2 if program.begin_deciding else 1)

    @method
    def following(self, number: int) -> Words:
        """By list, the next match in it; NONE behind the last."""
        return at_word(self.match(number).ids, self.partition.program.n_symbols)

    @method
    def previous(self, number: int) -> Words:
        """By list, the match before it."""
        return at_word(self.following(number), self.n_lists())

    @method
    def link(self, number: int, to: int) -> None:
        """Put a match into a list."""
        first = self.known().first[to]
        self.following(number)[to] = first
        self.previous(number)[to] = NONE
        if first != NONE:
            self.previous(first)[to] = number
        self.known().first[to] = number

    @method
    def unlink(self, number: int, of: int) -> None:
        """Take a match out of a list."""
        before = self.previous(number)[of]
        behind = self.following(number)[of]
        if before == NONE:
            self.known().first[of] = behind
        else:
            self.following(before)[of] = behind
        if behind != NONE:
            self.previous(behind)[of] = before

    @method
    def link_only(self, number: int, first_list: int, before: int, symbols: int) -> None:
        """Let a match be in the lists of some symbols (as bits), and no longer in those of others."""
        changed = before ^ symbols
        while changed:
            s = trailing_zeros(changed)
            changed &= changed - 1
            if symbols >> s & 1:
                self.link(number, first_list + s)
            else:
                self.unlink(number, first_list + s)

    @method
    def wait_for(self, number: int, waits: int, goings: int) -> None:
        """Let a match wait for some symbols (as bits), and for no others."""
        match = self.match(number)
        self.link_only(number, 0, match.waits, waits)
        self.link_only(number, self.partition.program.n_symbols, match.goings, goings)
        match.waits = waits
        match.goings = goings

    @method
    def put_in_list(self, number: int, where: int) -> None:
        """Let those beside a match in a list know its number."""
        before = self.previous(number)[where]
        behind = self.following(number)[where]
        if before == NONE:
            self.known().first[where] = number
        else:
            self.following(before)[where] = number
        if behind != NONE:
            self.previous(behind)[where] = number

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
        match.is_late = found.is_late
        match.waits = 0
        match.goings = 0
        for s in range(program.n_symbols):
            match.ids[s] = found.ids[s]
        for where in range(self.n_lists()):
            self.following(number)[where] = NONE
            self.previous(number)[where] = NONE
        self.put(number, number)
        self.settle_at(number)
        self.wait_for(number, found.waits, found.goings)
        self.known().credit += 1

    @method
    def update(self, number: int, found: AwaitedMatch) -> None:
        """Note until when a match is awaited now, and what it waits for."""
        match = self.match(number)
        match.due = found.due
        match.is_late = found.is_late
        self.settle_at(match.place)
        self.wait_for(number, found.waits, found.goings)

    @method
    def remove(self, number: int) -> None:
        """Take a match out; the last one gets its number."""
        program = self.partition.program
        self.wait_for(number, 0, 0)
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
        n = self.partition.program.n_symbols
        for first_list in range(0, self.n_lists(), n):
            rest = target.goings if first_list else target.waits
            while rest:
                self.put_in_list(number, first_list + trailing_zeros(rest))
                rest &= rest - 1
