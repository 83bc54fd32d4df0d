"""Absences: whether an interval may still come, or is there, that satisfies all of a NOT group.

A match that has triggered is judged by what is known of the absent symbol. If some interval of it is
certain to satisfy a group, the match is dead. If none can any more, it is given. Else it is kept among
those that are *awaited*, with the instant at which that may change without an event: these are heaps,
so that time costs a step of one for each match that is due. At events, a match is judged again only if
an interval of an absent symbol begins or ends, or one of those that it has: whatever waits for such an end
is in a heap of its own.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import Array, Carried, Record, Words, kernel, method
from piestream.intervals.ticks import minus, plus
from piestream.joins.boxes import box_in
from piestream.joins.futures import FIRST_OF_MATCH, N_RELATIONS, Future, future_words
from piestream.joins.listed import is_held
from piestream.joins.matches import Matches
from piestream.joins.orders import BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import (
    NO_MATCH,
    Absence,
    AbsentPair,
    AwaitedMatch,
    Held,
    Program,
    RingHeader,
    RowSlot,
    Scratch,
    Slot,
    Symbol,
    Validity,
)
from piestream.joins.rings import grow_ring
from piestream.relations import ALLEN, Relation

__all__ = ["is_due", "n_awaited", "room_to_await", "settle"]

_RELATIONS = int(sum(ALLEN))
_BEFORE = int(Relation.BEFORE)
_AFTER = int(Relation.AFTER)
_APART = int(Relation.BEFORE | Relation.AFTER)
#: How far ends of a closed input lie behind where they are shown, at most.
_CLOSING = 2


#: An interval of the absent symbol satisfies a group, whatever comes.
_CERTAIN = INT64_MIN + 1


class Verdict(IntEnum):
    """What is known of an absence."""

    ABSENT = 0  # no interval satisfies the group, nor will one
    OPEN = 1
    PRESENT = 2  # some interval is certain to


_ABSENT, _OPEN, _PRESENT = (int(verdict) for verdict in Verdict)


class _Judged(Record):
    """A match whose absences are judged. (What it is lies nowhere.)"""

    partition: Carried[Partition]
    ids: Carried[Words]
    future: Carried[Words]  # room for its bounds
    now: Carried[int]  # the instant up to which everything is known
    closes: Carried[bool]

    @method
    def slot(self, s: int) -> Slot:
        """The interval of a symbol."""
        return self.partition.ring(s).slot(self.ids[s])

    @method
    def pair(self, absence: Absence, number: int) -> AbsentPair:
        """What a group says of one of its intervals of the match."""
        return self.partition.program.absent_pairs[absence.pair + number]

    @method
    def is_shown(self, end: int) -> bool:
        """Whether an end is shown where it lies: not what ends because the input does."""
        return not self.closes or end <= self.partition.last_time

    @method
    def future_with(self, absence: Absence, start: int, end: int) -> Future:
        """The bounds for an interval of the absent symbol, of which an endpoint may be OPEN."""
        future = Future(self.future, absence.pair_end - absence.pair, self.now)
        is_row = self.partition.program.rows >> absence.symbol & 1 != 0  # announced with its end
        future.place_absent(start, end, self.is_shown(start), is_row or self.is_shown(end))
        for number in range(absence.pair_end - absence.pair):
            s = self.pair(absence, number).symbol
            slot = self.slot(s)
            is_shown = self.is_shown(slot.end)
            if self.partition.program.rows >> s & 1 and RowSlot(slot).announced:
                is_shown = True
            future.place_other(number, slot.start, slot.end, is_shown)
        return future

    @method
    def allowed(self, absence: Absence, number: int) -> int:
        """The relations of the absent symbol's intervals to one of the match."""
        pair = self.pair(absence, number)
        if absence.same >> pair.symbol & 1 and not self.partition.program.rows >> pair.symbol & 1:
            return pair.allowed & _APART  # runs of one predicate
        return pair.allowed


@kernel
def _begin(judged: _Judged, absence: Absence, future: Future) -> None:
    """Write down what is known of the absent interval."""
    symbol = judged.partition.program.symbols[absence.symbol]
    future.begin(absence.begins_known != 0)
    if future.variable_of()[1]:  # one that has ended has an allowed length
        if symbol.at_least != NONE:
            future.separate(0, 1, symbol.at_least, False, False)
        if symbol.at_most != NONE:
            future.separate(0, 1, symbol.at_most, True, False)


@kernel
def _add_distance(
    judged: _Judged, future: Future, number: int, distance_number: int, negated: bool
) -> None:
    """The distance holds, or where ``negated`` does not."""
    distance = judged.partition.program.distances[distance_number]
    absent = 0 if distance.side == 0 else 1
    others = FIRST_OF_MATCH + 2 * number
    mine = distance.ends[absent]
    theirs = others + distance.ends[1 - absent]
    until = mine if absent == 0 else theirs
    since = theirs if absent == 0 else mine
    is_upper = distance.is_upper != 0
    strictly = distance.is_strict != 0
    if negated:
        is_upper = not is_upper
        strictly = not strictly
    future.separate(since, until, distance.length, is_upper, strictly)


@kernel
def _add_distances(judged: _Judged, absence: Absence, future: Future, number: int) -> None:
    """All distances to one of the match hold."""
    pair = judged.pair(absence, number)
    for distance in range(pair.distance, pair.distance_end):
        _add_distance(judged, future, number, distance, False)


@kernel
def _possible_until(judged: _Judged, absence: Absence, start: int, end: int) -> int:
    """How long an interval of the absent symbol may satisfy the group; INT64_MIN: it cannot.

    Of one that is not there neither endpoint is known.
    """
    n = absence.pair_end - absence.pair
    future = judged.future_with(absence, start, end)
    options_array = np.zeros(2 * n, np.int64)
    options = pointer(options_array)
    chosen = at_word(options, n)
    latest = INT64_MIN
    for number in range(n):
        allowed = judged.allowed(absence, number)
        for relation in range(N_RELATIONS):
            if not allowed >> relation & 1:
                continue
            _begin(judged, absence, future)
            future.relate(number, relation)
            _add_distances(judged, absence, future, number)
            if future.is_possible():
                options[number] |= 1 << relation
                if n == 1:
                    latest = max(latest, future.latest())
        if not options[number]:
            return INT64_MIN
        chosen[number] = options[number]
    if n == 1:
        return latest
    while True:  # each choice of a relation to each of the match
        _begin(judged, absence, future)
        for number in range(n):
            future.relate(number, trailing_zeros(chosen[number]))
            _add_distances(judged, absence, future, number)
        if future.is_possible():
            latest = max(latest, future.latest())
        number = 0
        while number < n:
            chosen[number] &= chosen[number] - 1
            if chosen[number]:
                break
            chosen[number] = options[number]
            number += 1
        if number == n:
            break
    keep_alive(options_array)
    return latest


@kernel
def _is_certain(judged: _Judged, absence: Absence, slot_id: int) -> bool:
    """Whether an interval that may satisfy the group will, whatever comes."""
    partition = judged.partition
    symbol = partition.program.symbols[absence.symbol]
    slot = partition.ring(absence.symbol).slot(slot_id)
    future = judged.future_with(absence, slot.start, slot.end)
    if future.is_known():
        return True
    if slot.end == OPEN:
        if symbol.validity == Validity.AT_END:
            return False
        if not partition.is_valid_of_any(absence.symbol, slot_id):
            return False
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        excluded = _RELATIONS & ~judged.allowed(absence, number)
        for relation in range(N_RELATIONS):
            if excluded >> relation & 1:
                _begin(judged, absence, future)
                future.relate(number, relation)
                if future.is_possible():
                    return False
        for distance in range(pair.distance, pair.distance_end):
            _begin(judged, absence, future)
            _add_distance(judged, future, number, distance, True)
            if future.is_possible():
                return False
    return True


@kernel
def _is_of_match(judged: _Judged, absence: Absence, slot_id: int) -> bool:
    """Whether an interval of the absent symbol is one that the match has."""
    partition = judged.partition
    start = partition.ring(absence.symbol).slot(slot_id).start
    number = partition.row_number(absence.symbol, slot_id)
    rest = absence.same
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        is_same = judged.slot(s).start == start
        if is_same and partition.row_number(s, judged.ids[s]) == number:
            return True
    return False


@kernel
def _earliest_end(judged: _Judged, absence: Absence) -> int:
    """Before which time an interval of the absent symbol must not end to satisfy the group."""
    earliest = INT64_MIN
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        slot = judged.slot(pair.symbol)
        if not pair.allowed & _BEFORE:
            earliest = max(earliest, slot.start)
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            absent = 0 if distance.side == 0 else 1
            if (absent == 0) != (
                distance.is_upper != 0
            ):  # it lies so far behind, or before, at most
                at = slot.end if distance.ends[1 - absent] else slot.start
                at = min(at, judged.now)
                if absent == 0:
                    earliest = max(earliest, plus(at, distance.length))
                else:
                    earliest = max(earliest, minus(at, distance.length))
    return minus(earliest, _CLOSING)


@kernel
def _latest_start(judged: _Judged, absence: Absence) -> int:
    """After which time an interval of the absent symbol must not begin to satisfy the group."""
    latest = INT64_MAX
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        slot = judged.slot(pair.symbol)
        if not pair.allowed & _AFTER:
            latest = min(latest, slot.end)
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            absent = 0 if distance.side == 0 else 1
            if (absent == 0) == (distance.is_upper != 0):
                at = slot.end if distance.ends[1 - absent] else slot.start
                if at == OPEN:
                    continue
                if absent == 0:
                    latest = min(latest, plus(at, distance.length))
                else:
                    latest = min(latest, minus(at, distance.length))
    return plus(latest, _CLOSING)


@kernel
def _judge_one(judged: _Judged, absence: Absence, slot_id: int, scratch: Scratch) -> int:
    """How long an interval of the absent symbol may satisfy the group; INT64_MIN: it cannot.

    `_CERTAIN`: it does, or will.
    """
    scratch.visits += 1
    if _is_of_match(judged, absence, slot_id):
        return INT64_MIN
    slot = judged.partition.ring(absence.symbol).slot(slot_id)
    latest = _possible_until(judged, absence, slot.start, slot.end)
    if latest != INT64_MIN and _is_certain(judged, absence, slot_id):
        return _CERTAIN
    return latest


@kernel
def _judge_group(judged: _Judged, absence: Absence, scratch: Scratch) -> tuple[int, int]:
    """What is known of one absence, and until when, if no event comes."""
    partition = judged.partition
    ring = partition.ring(absence.symbol)
    until = _possible_until(judged, absence, OPEN, OPEN)
    scratch.visits += 1
    if ring.capacity and partition.program.rows >> absence.symbol & 1:
        by_start = partition.order(absence.symbol, BY_START)
        earliest = _earliest_end(judged, absence)
        near = box_in(by_start, NO_MATCH, _latest_start(judged, absence), earliest, OPEN, NO_MATCH)
        slot_id = near.following(NONE)[0]
        while slot_id != NONE:
            if by_start.slot(slot_id).held <= Held.VALID:
                latest = _judge_one(judged, absence, slot_id, scratch)
                if latest == _CERTAIN:
                    return _PRESENT, INT64_MAX
                until = max(until, latest)
            slot_id = near.following(slot_id)[0]
    elif ring.capacity:
        slot_id = ring.first_ending_from(_earliest_end(judged, absence))
        last = _latest_start(judged, absence)
        while slot_id < ring.tail and ring.slot(slot_id).start <= last:
            latest = _judge_one(judged, absence, slot_id, scratch)
            if latest == _CERTAIN:
                return _PRESENT, INT64_MAX
            until = max(until, latest)
            slot_id += 1
    return (_ABSENT if until == INT64_MIN else _OPEN), until


@kernel
def _last_report(symbol: Symbol, slot: Slot, shortest: int) -> int:
    """The last time at which a match with an interval can be reported."""
    return plus(symbol.expiry(slot), shortest)


@kernel
def _judge(judged: _Judged, scratch: Scratch, floor: int, match: AwaitedMatch) -> int:
    """What is known of all absences of a match; notes in ``match`` until when, and what has not ended."""
    partition = judged.partition
    program = partition.program
    last = INT64_MAX
    match.open = 0
    for s in range(program.n_symbols):
        if program.absent >> s & 1:
            continue
        if not is_held(partition, s, judged.ids[s], floor):
            return _PRESENT
        slot = judged.slot(s)
        last = min(last, _last_report(program.symbols[s], slot, program.shortest))
        if slot.end == OPEN:
            match.open |= program.judged & 1 << s
    verdict = _ABSENT
    due = INT64_MIN
    for number in range(program.n_absences):
        found, until = _judge_group(judged, program.absences[number], scratch)
        if found == _PRESENT:
            return _PRESENT
        if found == _OPEN:
            verdict = _OPEN
            due = max(due, until)
    match.due = min(due, plus(last, 1))
    return verdict


# -- the heaps -------------------------------------------------------------------------------------
class _Heap(Record):
    """Matches of a partition that are awaited, the first due on top. (What it is lies nowhere.)"""

    partition: Carried[Partition]
    which: Carried[
        int
    ]  # 0: of those all of whose intervals have ended, as far as groups say, 1: of others

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
    judged: _Judged, match: AwaitedMatch, scratch: Scratch, matches: Matches, floor: int
) -> int:
    """Judge an awaited match again; if it is given, it is written down."""
    again = _Judged(match, judged.partition, match.ids, judged.future, judged.now, judged.closes)
    verdict = _judge(again, scratch, floor, match)
    if verdict == _ABSENT:
        n = matches.n_symbols
        for s in range(n):
            matches[scratch.n_matches * n + s] = match.ids[s]
        scratch.n_matches += 1
    return verdict


@kernel
def _take_due(
    judged: _Judged, which: int, scratch: Scratch, matches: Matches, time: int, floor: int
) -> None:
    """Judge the matches that are due."""
    heap = _Heap(judged, judged.partition, which)
    while heap.count() and heap.at(0).due <= time:
        if _judge_again(judged, heap.at(0), scratch, matches, floor) != _OPEN:
            heap.copy(heap.count() - 1, 0)
            heap.header().tail -= 1
        heap.sink(0)


@kernel
def _judge_changed(
    judged: _Judged, which: int, scratch: Scratch, matches: Matches, floor: int
) -> None:
    """Judge the matches of which something is new."""
    heap = _Heap(judged, judged.partition, which)
    known = _Heap(judged, judged.partition, 0)
    of_absent = scratch.absent_changed & judged.partition.program.absent
    kept = 0
    for number in range(heap.count()):
        match = heap.at(number)
        verdict = _OPEN
        if of_absent or match.open & scratch.absent_changed:
            verdict = _judge_again(judged, match, scratch, matches, floor)
        else:
            scratch.visits += 1
        if verdict == _OPEN and which and not match.open:
            known.add(match)
        elif verdict == _OPEN:
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
    judged = _Judged(match, partition, match.ids, future, now, closes)
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
        verdict = _judge(judged, scratch, floor, match)
        if verdict == _ABSENT:
            matches.copy(number, given, 1)
            given += 1
        elif verdict == _OPEN:
            _Heap(match, partition, int(match.open != 0)).add(match)
    matches.copy(found, given, scratch.n_matches - found)
    scratch.n_matches += given - found
    partition.awaited().due = INT64_MAX
    for which in range(2):
        heap = _Heap(match, partition, which)
        if heap.count():
            partition.awaited().due = min(partition.awaited().due, heap.at(0).due)
    keep_alive(room_array)
