"""Absences: whether an interval may still come, or is there, that satisfies all of a NOT group.

A match that has triggered is judged by what is known of the absent symbol. If some interval of it is
certain to satisfy a group, the match is dead. If none can any more, it is given. Else it is *awaited*
(awaited.py): while an interval that has not begun may satisfy a group, until that has become impossible, by
time or because one of the match's own has ended; then, while one that has begun may, until it ends, too.
So each of these costs the matches that it decides. Whether others are dead is looked at now and then, in as
many steps as matches came.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import (
    Array,
    Carried,
    Record,
    Words,
    kernel,
    method,
    separate_kernel,
)
from piestream.joins.awaited import AwaitedStore
from piestream.joins.futures import future_words
from piestream.joins.judged import Judged
from piestream.joins.matches import Matches
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.result_rows import Closing
from piestream.joins.rings import grow_ring
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import AwaitedMatch
from piestream.joins.verdicts import ABSENT, UNDECIDED, judge

__all__ = ["is_due", "n_awaited", "room_to_await", "settle"]


@kernel
def room_to_await(place: Words, program: Program, pool_array: Array, count: int) -> Array:
    """The pool with room for so many awaited matches more."""
    for which in range(2):
        header = Partition(place, program, pointer(pool_array)).rings[program.awaited_ring + which]
        width = 1 if which else program.awaited_width
        while header.tail - header.head + count > header.capacity:
            pool_array = grow_ring(header, pool_array, width)
        keep_alive(pool_array)
    return pool_array


@kernel
def _lies_at(partition: Partition, scratch: Scratch, time: int) -> int:
    """Where an instant lies: that of an end of the input, a tick behind where it is shown (`Closing`).

    What was interrupted after the last event ends where that is shown, and nothing else is open then.
    """
    if scratch.closing == Closing.LAST_EVENT and time > partition.last_time:
        return time
    return time + 1 if scratch.closing else time


@kernel
def _passed(partition: Partition, scratch: Scratch, now: int) -> int:
    """The last time that is over at an instant: at an event, others of its time may still come."""
    return now - (partition.program.is_sequenced & scratch.is_event)


@kernel
def is_due(partition: Partition, scratch: Scratch, time: int) -> bool:
    """Whether anything is to be judged at an instant."""
    now = _lies_at(partition, scratch, time)
    awaited = partition.awaited()
    if scratch.n_matches or awaited.due <= (
        _passed(partition, scratch, now) if awaited.is_late else now
    ):
        return True
    return scratch.absent_changed != 0 and n_awaited(partition) != 0


@kernel
def n_awaited(partition: Partition) -> int:
    """How many matches are awaited."""
    return AwaitedStore(partition, partition).count()


class _Settling(Record):
    """What is judged at an instant. (What it is lies nowhere.)"""

    judged: Carried[Judged]  # a match; which one is written into `match`
    before: Carried[Judged]  # the same as it was before the end of the input, where that has come
    match: Carried[AwaitedMatch]
    store: Carried[AwaitedStore]
    scratch: Carried[Scratch]
    matches: Carried[Matches]
    floor: Carried[int]

    @method
    def judge_again(self, number: int) -> bool:
        """Judge an awaited match again; False if it is awaited no longer.

        If it is given, it is written down.
        """
        awaited = self.store.match(number)
        n = self.matches.n_symbols
        for s in range(n):
            self.match.ids[s] = awaited.ids[s]
        verdict = judge(self.judged, self.before, self.scratch, self.floor, self.match)
        if verdict == UNDECIDED:
            self.store.update(number, self.match)
            return True
        if verdict == ABSENT:
            for s in range(n):
                self.matches[self.scratch.n_matches * n + s] = self.match.ids[s]
            self.scratch.n_matches += 1
        self.store.remove(number)
        return False

    @method
    def take_due(self) -> None:
        """Judge the matches that are due."""
        while self.store.count():
            first = self.store.first_due()
            if first.due > (self.judged.passed if first.is_late else self.judged.now):
                return
            self.judge_again(self.store.at(0))

    @method
    def take_ended(self, symbols: int) -> None:
        """Judge the matches that wait for intervals of some symbols (as bits) to end: these have."""
        while symbols:
            s = trailing_zeros(symbols)
            symbols &= symbols - 1
            self.take_list(s, s)

    @method
    def take_begun(self, symbols: int) -> None:
        """Judge the matches that wait for some symbols (as bits) to begin, or to go on: these do."""
        while symbols:
            s = trailing_zeros(symbols)
            symbols &= symbols - 1
            self.take_list(self.matches.n_symbols + s, NONE)

    @method
    def take_list(self, where: int, ended: int) -> None:
        """Judge the matches of a list; if an interval of a symbol has ``ended``, those that have that."""
        number = self.store.known().first[where]
        while number != NONE:
            behind = self.store.following(number)[where]
            last = self.store.count() - 1
            if ended != NONE and not self.has_ended(number, ended):
                self.scratch.visits += 1
            elif not self.judge_again(number) and behind == last:
                behind = number
            number = behind

    @method
    def has_ended(self, number: int, s: int) -> bool:
        """Whether an interval for whose end a match waits is no longer open."""
        partition = self.store.partition
        if partition.program.absent >> s & 1:
            return True
        slot_id = self.store.match(number).ids[s]
        ring = partition.rings[s]
        if not ring.head <= slot_id < ring.tail:
            return True
        return partition.ring(s).slot(slot_id).end != OPEN

    @method
    def drop_dead(self, changes: int) -> None:
        """Look for the matches that are dead, now and then: so they are gone before they are due.

        Each match that comes, and each change of an absent symbol, pays for one that is looked at.
        """
        known = self.store.known()
        known.credit += changes
        if known.credit < self.store.count():
            return
        known.credit = 0
        known.has_expired = 0
        number = 0
        while number < self.store.count():
            number += self.judge_again(number)


@kernel
def _add_found(settling: _Settling, found: int) -> int:
    """Judge the matches found at an event; gives how many of them are given, which become the first."""
    scratch, matches, match = settling.scratch, settling.matches, settling.match
    absent = settling.store.partition.program.absent
    n = matches.n_symbols
    given = 0
    for number in range(found):
        for s in range(n):
            match.ids[s] = 0 if absent >> s & 1 else matches[number * n + s]
        verdict = judge(settling.judged, settling.before, scratch, settling.floor, match)
        if verdict == ABSENT:
            matches.copy(number, given, 1)
            given += 1
        elif verdict == UNDECIDED:
            settling.store.add(match)
    return given


@separate_kernel
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
    now = _lies_at(partition, scratch, time)
    passed = _passed(partition, scratch, now)
    instant = scratch.instant if program.is_sequenced else now
    told = scratch.told if scratch.waits else now
    told_instant = scratch.told_instant if scratch.waits else instant
    judged = Judged(
        match, partition, match.ids, future, now, passed, instant, told, told_instant, now != time, 0,
    )  # fmt: skip
    before = judged
    if scratch.before != NONE:
        kept = Partition(at_word(partition.pool, scratch.before), program, partition.pool)
        before = Judged(
            match, kept, match.ids, future, scratch.before_time, scratch.before_passed,
            scratch.before_instant, scratch.before_time, scratch.before_instant, False, 0,
        )  # fmt: skip
    store = AwaitedStore(partition, partition)
    settling = _Settling(match, judged, before, match, store, scratch, matches, floor)
    found = scratch.n_matches
    changed = scratch.absent_changed
    if (changed or store.known().has_expired) and store.count():
        settling.take_ended(changed & (~partition.mask | scratch.exceeded))
        # of rows that begin, and of those whose known ends pass
        begun = changed & (partition.mask | program.rows)
        settling.take_begun(begun & program.begin_deciding)
        if changed & program.absent or store.known().has_expired:
            settling.drop_dead(int(changed & program.absent != 0))
    settling.take_due()
    given = _add_found(settling, found)
    matches.copy(found, given, scratch.n_matches - found)
    scratch.n_matches += given - found
    store.note_due()
    keep_alive(room_array)
