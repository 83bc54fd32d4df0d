"""What is known of the absences of a match: whether an interval satisfies a NOT group, or still may.

Each group is judged by the bounds of `futures.py`, for an interval that has not begun, and for each of
the absent symbol's that lies where the group's relations and distances let one lie.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import kernel
from piestream.intervals.ticks import minus, plus
from piestream.joins.boxes import box_in, box_of_times
from piestream.joins.durations import is_allowed_count
from piestream.joins.futures import FIRST_OF_MATCH, N_RELATIONS, Endpoints, Future
from piestream.joins.judged import (
    CERTAIN,
    IMPOSSIBLE,
    Judged,
    all_known,
    fits,
    may_always_come,
    to_come_behind_all,
    widened,
)
from piestream.joins.listed import is_held
from piestream.joins.orders import BY_START
from piestream.joins.records import Absence, Distance, Symbol, Validity
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, AwaitedMatch, BridgedSlot, Held, Slot
from piestream.relations import ALLEN, ENDPOINT_ORDER, Relation

__all__ = ["ABSENT", "UNDECIDED", "judge"]

_RELATIONS = int(sum(ALLEN))
_BEFORE = int(Relation.BEFORE | Relation.FOLLOWED_BY)
_AFTER = int(Relation.AFTER | Relation.FOLLOWS)
_FOLLOWS = int(Relation.FOLLOWS)
_BEGINS_LATER = int(sum(r for r in ALLEN if ENDPOINT_ORDER[r].ts_ts > 0) | Relation.FOLLOWS)
#: How far ends of a closed input lie behind where they are shown, at most.
_CLOSING = 2


#: What is known of an absence: no interval satisfies the group, nor will one; it is not known; some
#: interval is certain to.
ABSENT, UNDECIDED, PRESENT = range(3)
#: An interval of the absent symbol satisfies a group, whatever comes.
_CERTAIN = INT64_MIN + 1


@kernel
def _in_outlook(judged: Judged, ended: int) -> Judged:
    """The same where interrupted intervals of some symbols (as bits) have ended, and others go on."""
    return Judged(
        judged, judged.partition, judged.ids, judged.future, judged.now, judged.passed,
        judged.instant, judged.told, judged.told_instant, judged.closes, ended,
    )  # fmt: skip


@kernel
def _as_told(judged: Judged) -> Judged:
    """The same as the last event has told it: of what is open no end, whatever time has passed since."""
    if judged.told_instant == judged.instant:
        return judged
    told = judged.told
    passed = told - judged.partition.program.is_sequenced  # others of its time may come
    return Judged(
        judged, judged.partition, judged.ids, judged.future, told, passed, judged.told_instant, told,
        judged.told_instant, judged.closes, judged.ended,
    )  # fmt: skip


@kernel
def _begin_bridged(judged: Judged, absence: Absence, future: Future) -> None:
    """Write down what BRIDGING says of what is to come.

    What is interrupted goes on before its deadline. A run to come begins so far behind the one that has not
    ended that it is no part of it. Where the input ends, no run is joined to another any more.
    """
    partition = judged.partition
    c = absence.symbol
    bridging = partition.program.symbols[c].bridging
    for number in range(absence.pair_end - absence.pair):
        s = judged.pair(absence, number).symbol
        slot = judged.slot(s)
        since = judged.interrupted_since(s, slot)
        if since != OPEN and not judged.ended >> s & 1:
            future.pass_before(plus(since, partition.program.symbols[s].bridging))
        is_same = absence.same >> s & 1 and bridging != NONE
        if is_same and not future.has_begun() and judged.end_of(s, slot) == OPEN:
            future.start_behind(number, bridging)
    if bridging == NONE or judged.closes or not partition.mask >> c & 1:
        return
    since = judged.interrupted_since(c, judged.open_run(c))
    if since == OPEN and not future.has_begun():
        future.start_behind_now(bridging)
    elif not future.has_begun():
        future.start_after(plus(since, bridging))
    elif since != OPEN and not future.has_ended():
        future.pass_before(plus(since, bridging))


@kernel
def _begin(judged: Judged, absence: Absence, future: Future) -> None:
    """Write down what is known of the absent interval."""
    symbol = judged.partition.program.symbols[absence.symbol]
    future.begin()
    if judged.partition.program.bridged:
        _begin_bridged(judged, absence, future)
    if (
        symbol.bridging != NONE or not future.has_ended()
    ):  # one that has ended has an allowed length
        if symbol.at_least != NONE:
            longer = symbol.is_longer  # than a tick less: time is dense
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
def _possible_until(
    judged: Judged, absence: Absence, at: Endpoints, slot: Slot, is_late: bool
) -> int:
    """How long an interval of the absent symbol may satisfy the group, as `until_of` has it.

    INT64_MIN: it cannot. Of one that is not there neither endpoint is known, and ``slot`` is not read; if it
    ``is_late``, it may have ended.
    """
    n = absence.pair_end - absence.pair
    is_to_come = at.start == OPEN and absence.begins_known and not judged.closes
    if is_to_come and minus(_latest_start(judged, absence), _CLOSING) <= judged.passed:
        return INT64_MIN
    parts = judged.partition.program.absent_parts
    is_said = at.start != OPEN and judged.is_said(absence.symbol, slot)
    future = judged.future_with(absence, at, is_said, is_late)
    options_array = np.zeros(2 * n, np.int64)
    options = pointer(options_array)
    chosen = at_word(options, n)
    latest = INT64_MIN
    for number in range(n):
        pair = judged.pair(absence, number)
        if at.start == OPEN:
            allowed = judged.allowed_to_come(absence, number)
        else:
            allowed = judged.allowed_of(absence, number, slot)
        for part in range(pair.part, pair.part_end):
            if not parts[part] & allowed:
                continue
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
    """Whether an interval that may satisfy the group will, whatever comes: also the end of the input.

    What is open then ends, and is shown to end with the last event.
    """
    partition = judged.partition
    symbol = partition.program.symbols[absence.symbol]
    slot = partition.ring(absence.symbol).slot(slot_id)
    at = judged.endpoints_of(absence.symbol, slot)
    future = judged.future_with(absence, at, judged.is_said(absence.symbol, slot), False)
    if future.is_known():
        return True
    if not future.has_ended():
        if symbol.validity == Validity.AT_END:
            return False
        if not partition.is_valid_of_any(absence.symbol, slot_id):
            return False
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        excluded = _RELATIONS & ~widened(judged.allowed_of(absence, number, slot))
        for relation in range(N_RELATIONS):
            if excluded >> relation & 1:
                _begin(judged, absence, future)
                future.relate(number, 1 << relation)
                if future.is_possible():
                    return False
        for distance in range(pair.distance, pair.distance_end):
            _begin(judged, absence, future)
            future.end_as_shown()
            _add_distance(judged, future, number, distance, True)
            if future.is_possible():
                return False
    return True


@kernel
def _is_of_match(judged: Judged, absence: Absence, slot_id: int) -> bool:
    """Whether an interval of the absent symbol is one that the match has."""
    partition = judged.partition
    starts = partition.program.start_instant
    start = partition.ring(absence.symbol).slot(slot_id)[starts]
    number = partition.row_number(absence.symbol, slot_id)
    rest = absence.same
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        is_same = judged.slot(s)[starts] == start
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
        now = min(judged.now, judged.interrupted_since(pair.symbol, slot))
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            if not _is_latest(distance):
                earliest = max(earliest, _bound(distance, slot, now))
    return minus(earliest, _CLOSING)


@kernel
def _latest_start(judged: Judged, absence: Absence) -> int:
    """After which time an interval of the absent symbol must not begin to satisfy the group."""
    latest = INT64_MAX
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        slot = judged.slot(pair.symbol)
        if not pair.allowed & _BEGINS_LATER:
            latest = min(latest, slot.start)
        elif not pair.allowed & _AFTER:
            latest = min(latest, slot.end)
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            if _is_latest(distance):
                latest = min(latest, _bound(distance, slot, OPEN))
    return plus(latest, _CLOSING)


@kernel
def _has_count(judged: Judged, absence: Absence, slot: Slot, scratch: Scratch) -> bool:
    """Whether an interval of the absent symbol has as many events in this outlook, or may have them.

    What has ended for certain has; else it would not be there.
    """
    partition = judged.partition
    symbol = partition.program.symbols[absence.symbol]
    if symbol.first_event == NONE or slot.end != OPEN:
        return True
    is_interrupted = judged.interrupted_since(absence.symbol, slot) != OPEN
    if is_interrupted and judged.ended >> absence.symbol & 1:
        return is_allowed_count(symbol, slot, BridgedSlot(slot).events)
    events = scratch.events
    if symbol.counter != NONE:
        events = partition[partition.program.counters[symbol.counter].up_to]
    events += is_interrupted  # it goes on at one more
    at_most = symbol.at_most_events
    return at_most == NONE or events - slot[symbol.first_event] <= at_most


@kernel
def _judge_one(judged: Judged, absence: Absence, slot_id: int, scratch: Scratch) -> int:
    """How long an interval of the absent symbol may satisfy the group; INT64_MIN: it cannot.

    `_CERTAIN`: it does, or will, in all outlooks.
    """
    scratch.visits += 1
    if _is_of_match(judged, absence, slot_id):
        return INT64_MIN
    slot = judged.partition.ring(absence.symbol).slot(slot_id)
    interrupted = judged.interrupted_of(absence)
    if judged.interrupted_since(absence.symbol, slot) != OPEN:
        interrupted |= 1 << absence.symbol
    if not interrupted:
        known = fits(judged, absence, slot)
        if known == IMPOSSIBLE:
            return INT64_MIN
        if known == CERTAIN and slot.end != OPEN:
            return _CERTAIN
    until = INT64_MIN
    certain = True
    ended = interrupted
    while True:
        outlook = _in_outlook(judged, ended)
        latest = INT64_MIN
        if _has_count(outlook, absence, slot, scratch):
            at = outlook.endpoints_of(absence.symbol, slot)
            latest = _possible_until(outlook, absence, at, slot, False)
        until = max(until, latest)
        certain = (
            certain and latest != INT64_MIN and _is_certain(_as_told(outlook), absence, slot_id)
        )
        if not ended:
            return _CERTAIN if certain else until
        ended = (ended - 1) & interrupted


@kernel
def _judge_to_come(judged: Judged, absence: Absence) -> int:
    """How long an interval of the absent symbol that has not begun may satisfy the group; as of one."""
    is_plain = absence.begins_known and not judged.partition.program.bridged
    if is_plain and all_known(judged, absence):
        is_known, until = to_come_behind_all(judged, absence)
        if is_known:
            return until
    elif is_plain and not judged.closes and may_always_come(judged, absence):
        return INT64_MAX
    interrupted = judged.interrupted_of(absence)
    until = INT64_MIN
    ended = interrupted
    while True:
        to_come = Endpoints(judged, OPEN, OPEN, OPEN, OPEN)
        outlook = _in_outlook(judged, ended)
        if absence.may_come_at_end:
            found = _possible_until(outlook, absence, to_come, Slot(judged), False)
            until = max(until, found)
        if absence.late != NONE:
            found = _possible_until(outlook, absence, to_come, Slot(judged), True)
            until = max(until, found)
        if not ended:
            return until
        ended = (ended - 1) & interrupted


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
    last = _latest_start(judged, absence)
    near = box_in(by_start, NO_MATCH, last, earliest, OPEN, NO_MATCH)
    if judged.partition.program.is_sequenced:
        near = box_of_times(by_start, NO_MATCH, last)
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
    to_come = _judge_to_come(judged, absence)
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
def _wait_for(judged: Judged, absence: Absence, is_to_come: bool, match: AwaitedMatch) -> None:
    """Note which symbols' intervals may decide a group by ending, and which by beginning or going on."""
    partition = judged.partition
    c = 1 << absence.symbol
    match.waits = 0 if is_to_come else c
    match.goings = judged.interrupted_of(absence)
    for number in range(absence.pair_end - absence.pair):
        s = judged.pair(absence, number).symbol
        if judged.slot(s).end == OPEN:
            match.waits |= 1 << s
        if is_to_come and judged.pair(absence, number).allowed & _FOLLOWS:
            match.goings |= c | 1 << s
    if partition.program.bridged & c:
        is_open = partition.mask & c != 0
        holds = is_open
        if is_open:
            since = judged.interrupted_since(absence.symbol, judged.open_run(absence.symbol))
            holds = since == OPEN
        if not holds and (is_to_come or is_open):
            match.goings |= c


@kernel
def _last_report(symbol: Symbol, slot: Slot, shortest: int) -> int:
    """The last time at which a match with an interval can be reported."""
    return plus(symbol.expiry(slot), shortest)


@kernel
def _was_decided(before: Judged, absence: Absence, scratch: Scratch) -> bool:
    """Whether an absence was decided ``before`` the end of the input, where that has come."""
    return scratch.before != NONE and _judge_group(before, absence, scratch)[0] == ABSENT


@kernel
def judge(judged: Judged, before: Judged, scratch: Scratch, floor: int, match: AwaitedMatch) -> int:
    """What is known of all absences of a match.

    What has been decided ``before`` the end of the input stays so.

    If it is not decided, notes in ``match`` until when, and what that waits for: one group that is not
    decided before. That is the one for which an interval to come is possible for the longest time, else one
    that has begun.

    What only time has brought beyond its window, as a ``floor`` says, may still be given by the end of the
    input, which is shown with the last event: it is kept as far as the floor of that (`Scratch.floor`).
    """
    partition = judged.partition
    program = partition.program
    last = INT64_MAX
    has_expired = False
    for s in range(program.n_symbols):
        if program.absent >> s & 1:
            continue
        if not is_held(partition, s, judged.ids[s], scratch.floor):
            return PRESENT
        has_expired = has_expired or program.symbols[s].expiry(judged.slot(s)) < floor
        last = min(last, _last_report(program.symbols[s], judged.slot(s), program.shortest))
    verdict = ABSENT
    longest = INT64_MIN
    match.waits = 0
    match.goings = 0
    waits_for_one_to_come = False
    for number in range(program.n_absences):
        absence = program.absences[number]
        found, until, is_to_come = _judge_group(judged, absence, scratch)
        if found != ABSENT and _was_decided(before, absence, scratch):
            continue
        if found == PRESENT:
            return PRESENT
        if found == ABSENT or is_to_come < waits_for_one_to_come:
            continue
        if is_to_come > waits_for_one_to_come or until > longest:
            longest = until
            _wait_for(judged, absence, is_to_come, match)
        waits_for_one_to_come = is_to_come
        verdict = UNDECIDED
    match.due = INT64_MAX if longest == INT64_MAX else plus(judged.now, longest >> 1)
    match.is_late = 0 if match.due == INT64_MAX else longest & 1
    reported_until = plus(last, 1 + judged.closes)
    if has_expired:
        if verdict == ABSENT:
            return PRESENT
        if floor > scratch.floor:
            partition.awaited().has_expired = 1
    elif reported_until <= match.due:
        match.due = reported_until
        match.is_late = 0
    return verdict
