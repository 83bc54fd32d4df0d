"""Matches that have triggered and wait for their completion (EMIT ON BOTH): a store of records.

A match hangs in a list of each of its intervals that are open; free records are a list too.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word
from piestream.compiled.records import Carried, Record, Words, method
from piestream.joins.records import Program


class WaitingMatch(Record):
    """A match: by symbol, starts of its intervals and links of its lists; output words.

    And where intervals come as rows, by symbol the numbers of these.
    """

    n_open: int  # how many of its intervals are open; 0: the record is free
    words: Words

    program: Carried[Program]

    @method
    def starts(self) -> Words:
        """The start of each symbol's interval. Of a free record, the first links to the next."""
        return at_word(self, _STARTS)

    @method
    def links(self) -> Words:
        """By symbol: the next match that waits for the same interval, or NONE."""
        return at_word(self, _STARTS + self.program.n_symbols)

    @method
    def outputs(self) -> Words:
        """The output words as far as they are known."""
        return at_word(self, _STARTS + 2 * self.program.n_symbols)

    @method
    def numbers(self) -> Words:
        """By symbol, the number of its interval's row; 0 where it is a run."""
        return at_word(self, _STARTS + 2 * self.program.n_symbols + self.program.n_outputs)


_STARTS = WaitingMatch.offset("words")


class WaitingStore(Record):
    """All matches of all partitions that wait."""

    free: int  # the first free record, or NONE
    used: int  # how many records have ever been taken
    matches: Words

    program: Carried[Program]

    @method
    def match_words(self) -> int:
        """Words of a match."""
        words = _STARTS + 2 * self.program.n_symbols + self.program.n_outputs
        return words + self.program.n_symbols if self.program.rows else words

    @method
    def words(self) -> int:
        """Words in use."""
        return _MATCHES + self.used * self.match_words()

    @method
    def match(self, number: int) -> WaitingMatch:
        """A match by its number."""
        return WaitingMatch(at_word(self, _MATCHES + number * self.match_words()), self.program)

    @method
    def clear(self) -> None:
        """Make it a store without any match."""
        self.free = NONE
        self.used = 0

    @method
    def take(self) -> int:
        """The number of a free record, for which there must be room."""
        number = self.free
        if number == NONE:
            number = self.used
            self.used += 1
        else:
            self.free = self.match(number).starts()[0]
        return number

    @method
    def release(self, number: int) -> None:
        """Give a record back."""
        match = self.match(number)
        match.n_open = 0
        match.starts()[0] = self.free
        self.free = number


_MATCHES = WaitingStore.offset("matches")
