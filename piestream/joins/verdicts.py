"""What is known of the absences of a match: whether an interval satisfies a NOT group, or still may.

Each group is judged by the bounds of `futures.py`, for an interval that has not begun, and for each of
the absent symbol's that lies where the group's relations and distances let one lie.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import Carried, Record, Words, kernel, method
from piestream.intervals.ticks import minus, plus
from piestream.joins.boxes import box_in
from piestream.joins.futures import FIRST_OF_MATCH, N_RELATIONS, Future
from piestream.joins.listed import is_held
from piestream.joins.orders import BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import Absence, AbsentPair, Distance, Symbol, Validity
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, AwaitedMatch, Held, RowSlot, Slot
from piestream.relations import ALLEN, Relation

__all__ = ["ABSENT", "UNDECIDED", "Judged", "judge"]

_RELATIONS = int(sum(ALLEN))
_BEFORE = int(Relation.BEFORE)
_AFTER = int(Relation.AFTER)
#: How far ends of a closed input lie behind where they are shown, at most.
_CLOSING = 2


#: What is known of an absence: no interval satisfies the group, nor will one; it is not known; some
#: interval is certain to.
ABSENT, UNDECIDED, PRESENT = range(3)
#: An interval of the absent symbol satisfies a group, whatever comes.
_CERTAIN = INT64_MIN + 1


class Judged(Record):
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


@kernel
def _begin(judged: Judged, absence: Absence, future: Future) -> None:
    """Write down what is known of the absent interval."""
    symbol = judged.partition.program.symbols[absence.symbol]
    future.begin(absence.begins_known != 0)
    if future.variable_of()[1]:  # one that has ended has an allowed length
        if symbol.at_least != NONE:
            longer = absence.is_longer
            future.separate(0, 1, symbol.at_least - longer, False, longer != 0)
        if symbol.at_most != NONE:
            future.separate(0, 1, symbol.at_most, True, False)


@kernel
def _add_distance(
    judged: Judged, future: Future, number: int, distance_number: int, negated: bool
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
def _add_distances(judged: Judged, absence: Absence, future: Future, number: int) -> None:
    """All distances to one of the match hold."""
    pair = judged.pair(absence, number)
    for distance in range(pair.distance, pair.distance_end):
        _add_distance(judged, future, number, distance, False)


@kernel
def _possible_until(judged: Judged, absence: Absence, start: int, end: int) -> int:
    """How long an interval of the absent symbol may satisfy the group; INT64_MIN: it cannot.

    Of one that is not there neither endpoint is known.
    """
    n = absence.pair_end - absence.pair
    parts = judged.partition.program.absent_parts
    future = judged.future_with(absence, start, end)
    options_array = np.zeros(2 * n, np.int64)
    options = pointer(options_array)
    chosen = at_word(options, n)
    latest = INT64_MIN
    for number in range(n):
        pair = judged.pair(absence, number)
        for part in range(pair.part, pair.part_end):
            _begin(judged, absence, future)
            future.relate(number, parts[part])
            _add_distances(judged, absence, future, number)
            if future.is_possible():
                options[number] |= 1 << (part - pair.part)
                if n == 1:
                    latest = max(latest, future.latest())
        if not options[number]:
            return INT64_MIN
        chosen[number] = options[number]
    if n == 1:
        return latest
    while True:  # each choice of a part of what is allowed to each of the match: they are few
        _begin(judged, absence, future)
        for number in range(n):
            part = judged.pair(absence, number).part + trailing_zeros(chosen[number])
            future.relate(number, parts[part])
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
def _is_certain(judged: Judged, absence: Absence, slot_id: int) -> bool:
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
        excluded = _RELATIONS & ~pair.allowed
        for relation in range(N_RELATIONS):
            if excluded >> relation & 1:
                _begin(judged, absence, future)
                future.relate(number, 1 << relation)
                if future.is_possible():
                    return False
        for distance in range(pair.distance, pair.distance_end):
            _begin(judged, absence, future)
            _add_distance(judged, future, number, distance, True)
            if future.is_possible():
                return False
    return True


@kernel
def _is_of_match(judged: Judged, absence: Absence, slot_id: int) -> bool:
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
def _bound(distance: Distance, slot: Slot, now: int) -> int:
    """Where a distance lets an endpoint of the absent interval lie, seen from one of the match; OPEN: unknown.

    An end that is not known is ``now``, or unknown where that is OPEN.
    """
    absent = 0 if distance.side == 0 else 1
    at = min(slot.end if distance.ends[1 - absent] else slot.start, now)
    if at == OPEN:
        return OPEN
    return plus(at, distance.length) if absent == 0 else minus(at, distance.length)


@kernel
def _is_latest(distance: Distance) -> bool:
    """Whether a distance says how late the absent interval lies at most, rather than how early."""
    return (distance.side == 0) == (distance.is_upper != 0)


@kernel
def _earliest_end(judged: Judged, absence: Absence) -> int:
    """Before which time an interval of the absent symbol must not end to satisfy the group."""
    earliest = INT64_MIN
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        slot = judged.slot(pair.symbol)
        if not pair.allowed & _BEFORE:
            earliest = max(earliest, slot.start)
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            if not _is_latest(distance):
                earliest = max(earliest, _bound(distance, slot, judged.now))
    return minus(earliest, _CLOSING)


@kernel
def _latest_start(judged: Judged, absence: Absence) -> int:
    """After which time an interval of the absent symbol must not begin to satisfy the group."""
    latest = INT64_MAX
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        slot = judged.slot(pair.symbol)
        if not pair.allowed & _AFTER:
            latest = min(latest, slot.end)
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            if _is_latest(distance):
                latest = min(latest, _bound(distance, slot, OPEN))
    return plus(latest, _CLOSING)


@kernel
def _judge_one(judged: Judged, absence: Absence, slot_id: int, scratch: Scratch) -> int:
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
def _judge_runs(judged: Judged, absence: Absence, scratch: Scratch) -> int:
    """How long some run of the absent symbol may satisfy the group; as of one."""
    ring = judged.partition.ring(absence.symbol)
    slot_id = ring.first_ending_from(_earliest_end(judged, absence))
    last = _latest_start(judged, absence)
    until = INT64_MIN
    while slot_id < ring.tail and ring.slot(slot_id).start <= last:
        latest = _judge_one(judged, absence, slot_id, scratch)
        if latest == _CERTAIN:
            return _CERTAIN
        until = max(until, latest)
        slot_id += 1
    return until


@kernel
def _judge_rows(judged: Judged, absence: Absence, scratch: Scratch) -> int:
    """How long some row of the absent symbol may satisfy the group; as of one."""
    by_start = judged.partition.order(absence.symbol, BY_START)
    earliest = _earliest_end(judged, absence)
    near = box_in(by_start, NO_MATCH, _latest_start(judged, absence), earliest, OPEN, NO_MATCH)
    until = INT64_MIN
    slot_id = near.following(NONE)[0]
    while slot_id != NONE:
        if by_start.slot(slot_id).held <= Held.VALID:
            latest = _judge_one(judged, absence, slot_id, scratch)
            if latest == _CERTAIN:
                return _CERTAIN
            until = max(until, latest)
        slot_id = near.following(slot_id)[0]
    return until


@kernel
def _judge_group(judged: Judged, absence: Absence, scratch: Scratch) -> tuple[int, int, bool]:
    """What is known of one absence, until when if no event comes, and whether that is for one to come.

    Else intervals that have begun may satisfy the group, and no others.
    """
    partition = judged.partition
    scratch.visits += 1
    to_come = _possible_until(judged, absence, OPEN, OPEN)
    until = INT64_MIN
    if partition.rings[absence.symbol].capacity:
        if partition.program.rows >> absence.symbol & 1:
            until = _judge_rows(judged, absence, scratch)
        else:
            until = _judge_runs(judged, absence, scratch)
        if until == _CERTAIN:
            return PRESENT, INT64_MAX, False
    if to_come != INT64_MIN:
        return UNDECIDED, to_come, True
    return (ABSENT if until == INT64_MIN else UNDECIDED), until, False


@kernel
def _open_of(judged: Judged, absence: Absence, is_to_come: bool) -> int:
    """The symbols (as bits) of a group whose intervals' ends may decide it."""
    symbols = 0
    for number in range(absence.pair_end - absence.pair):
        s = judged.pair(absence, number).symbol
        if judged.slot(s).end == OPEN:
            symbols |= 1 << s
    return symbols if is_to_come else symbols | 1 << absence.symbol


@kernel
def _last_report(symbol: Symbol, slot: Slot, shortest: int) -> int:
    """The last time at which a match with an interval can be reported."""
    return plus(symbol.expiry(slot), shortest)


@kernel
def judge(judged: Judged, scratch: Scratch, floor: int, match: AwaitedMatch) -> int:
    """What is known of all absences of a match.

    If it is not decided, notes in ``match`` until when, and what that waits for: one group that is not
    decided before. That is the one for which an interval to come is possible for the longest time, else one
    that has begun.
    """
    partition = judged.partition
    program = partition.program
    last = INT64_MAX
    for s in range(program.n_symbols):
        if program.absent >> s & 1:
            continue
        if not is_held(partition, s, judged.ids[s], floor):
            return PRESENT
        last = min(last, _last_report(program.symbols[s], judged.slot(s), program.shortest))
    verdict = ABSENT
    match.due = INT64_MIN
    match.waits = 0
    waits_for_one_to_come = False
    for number in range(program.n_absences):
        absence = program.absences[number]
        found, until, is_to_come = _judge_group(judged, absence, scratch)
        if found == PRESENT:
            return PRESENT
        if found == ABSENT or is_to_come < waits_for_one_to_come:
            continue
        if is_to_come > waits_for_one_to_come or until > match.due:
            match.due = until
            match.waits = _open_of(judged, absence, is_to_come)
        waits_for_one_to_come = is_to_come
        verdict = UNDECIDED
    match.due = min(match.due, plus(last, 1))
    return verdict
