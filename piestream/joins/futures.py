"""What can still come of an absent interval: bounds on differences of times, closed for one outlook.

The endpoints of an interval that is not there, and of those of a match, are known or not. One that is
not known is later than now, by how much is unknown. A relation orders endpoints and a distance bounds a
difference, so that each choice of relations is a system of difference bounds, and it has a solution if
its closure has no contradiction. Now itself is one of the variables: the latest that it can be is when
the last solution has gone, if no event comes.

Where several events have one time, orders compare instants and distances measure times. An instant is a pair
of a time and a place among those of that time, so that a bound has a sense beside its amount: differences of
pairs are compared as pairs are. A distance leaves places any difference. What is to come is later than now as an
instant, and may have the time that is now until all events of that are over.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import Carried, Record, Words, kernel, method
from piestream.intervals.ticks import plus
from piestream.joins.boxes import FIRST_AHEAD
from piestream.joins.pairs import compare_times
from piestream.relations import ENDPOINT_ORDER, PRECISE_FORM

__all__ = ["FIRST_OF_MATCH", "N_RELATIONS", "Endpoints", "Future", "future_words", "until_of"]

#: Relations by number, as flags have them.
N_RELATIONS = 15
_SIGNS = np.zeros((4, N_RELATIONS), np.int64)
for _relation, _order in ENDPOINT_ORDER.items():
    for _form in (_relation, PRECISE_FORM.get(_relation, _relation)):
        _SIGNS[:, int(_form).bit_length() - 1] = _order
#: How the start (or end) of the absent one compares with the start (or end) of the other, in each.
_TS_TS, _TS_TE, _TE_TS, _TE_TE = (np.ascontiguousarray(row) for row in _SIGNS)

_Signs = Annotated[NDArray[np.int64], "read-only"]

#: The sense of a bound beside its amount, of which those of a sum have all: a time is less than so much
#: later; where instants are not times, an instant may be later by any place; or it is an earlier place.
_LESS, _ANYWHERE, _EARLIER = 4, 2, 1

#: No difference of times counts that is longer.
_FAR = 1 << 60
_UNBOUNDED = 1 << 61

# the variables: the instant now, as it is and as it goes on; the endpoints of the absent one; and ends
_ORIGIN, _NOW, _START, _END, _ENDS = range(5)
#: The endpoints: start and end of the absent one, then of each interval of the match.
FIRST_OF_MATCH = 2


@kernel
def _clipped(time: int, now: int) -> int:
    """How far a time lies behind another one, as far as that counts."""
    if time >= now:
        return _FAR if time >= plus(now, _FAR) else time - now
    return -_FAR if now >= plus(time, _FAR) else time - now


@kernel
def future_words(n_others: int) -> int:
    """The words that the bounds take where an absent interval is related to so many of a match."""
    variables = _ENDS + n_others
    return 2 * variables * variables + 4 * (FIRST_OF_MATCH + 2 * n_others) + 1


@kernel
def _tightness(sense: int) -> int:
    """Of two bounds with one amount, the tighter one has more; more than 1: that is not reached."""
    if sense & _LESS:
        return 3
    if sense & _ANYWHERE:
        return 0
    return 1 + sense


@kernel
def _range_of(signs: _Signs, relations: int) -> tuple[int, int]:
    """The lowest and the highest sign of a comparison that some relations have."""
    lowest = 1
    highest = -1
    while relations:
        sign = signs[trailing_zeros(relations)]
        lowest = min(lowest, sign)
        highest = max(highest, sign)
        relations &= relations - 1
    return lowest, highest


@kernel
def until_of(time: int, now: int, is_reached: bool) -> int:
    """Twice how far a time lies behind now; one more if something is possible at events of that time, too."""
    after = _clipped(time, now)
    return INT64_MAX if after >= _FAR else 2 * after + is_reached


class Endpoints(Record):
    """Where an interval begins and ends, or OPEN: times, and instants. (What it is lies nowhere.)"""

    start: Carried[int]
    end: Carried[int]
    start_instant: Carried[int]
    end_instant: Carried[int]


class Future(Record):
    """A system of difference bounds between now and the endpoints of an absent interval and others."""

    first: int

    n_others: Carried[int]  # intervals of the match
    now: Carried[int]
    is_sequenced: Carried[bool]  # whether several events have one time,
    is_over: Carried[bool]  # all of those that have the time that is now are over,
    instant: Carried[int]  # and the instant that is now; else the time
    begins_known: Carried[bool]  # whether the start of the absent one is known when it has been
    late: Carried[
        int
    ]  # how late it may become known, of which nothing is known yet; NONE: at its end
    late_since_end: Carried[bool]  # whether that counts from its end
    behind: Carried[int]  # how far now lies behind where it is shown

    @method
    def variables(self) -> int:
        """How many variables there are."""
        return _ENDS + self.n_others

    @method
    def most(self, row: int) -> Words:
        """By how much each variable may be later than one, at most."""
        return at_word(self, row * self.variables())

    @method
    def sense(self, row: int) -> Words:
        """In what sense."""
        variables = self.variables()
        return at_word(self, (variables + row) * variables)

    @method
    def variable_of(self) -> Words:
        """Which variable each endpoint is; the origin if it is known."""
        variables = self.variables()
        return at_word(self, 2 * variables * variables)

    @method
    def value_of(self) -> Words:
        """How far each endpoint lies behind its variable."""
        return at_word(self.variable_of(), FIRST_OF_MATCH + 2 * self.n_others)

    @method
    def shift_of(self) -> Words:
        """How far each endpoint lies behind where it is shown."""
        return at_word(self.value_of(), FIRST_OF_MATCH + 2 * self.n_others)

    @method
    def instant_of(self) -> Words:
        """The instant of each endpoint, or OPEN."""
        return at_word(self.shift_of(), FIRST_OF_MATCH + 2 * self.n_others)

    @method
    def contradicts(self) -> Words:
        """A word that is 1 if what is known contradicts itself."""
        return at_word(self.instant_of(), FIRST_OF_MATCH + 2 * self.n_others)

    @method
    def earlier(self) -> int:
        """The sense of a bound on instants that is not reached."""
        return _EARLIER if self.is_sequenced else _LESS

    @method
    def at_most(self) -> int:
        """The sense of a bound on times that is reached."""
        return _ANYWHERE if self.is_sequenced else 0

    # -- the endpoints ----------------------------------------------------------------------------
    @method
    def place(self, endpoint: int, variable: int, time: int, instant: int, is_shown: bool) -> None:
        """Say where an endpoint is: at a time and an instant, or OPEN."""
        is_open = time == OPEN
        self.variable_of()[endpoint] = variable if is_open else _ORIGIN
        self.value_of()[endpoint] = 0 if is_open else _clipped(time, self.now)
        self.shift_of()[endpoint] = 0 if is_shown else 1
        self.instant_of()[endpoint] = instant

    @method
    def place_absent(self, at: Endpoints, start_is_shown: bool, end_is_shown: bool) -> None:
        """Say where the absent interval is, as far as it is known."""
        self.place(0, _START, at.start, at.start_instant, start_is_shown)
        self.place(1, _END, at.end, at.end_instant, end_is_shown)

    @method
    def place_other(self, number: int, at: Endpoints, end_is_shown: bool) -> None:
        """Say where an interval of the match is."""
        start = FIRST_OF_MATCH + 2 * number
        self.place(start, _ORIGIN, at.start, at.start_instant, True)
        self.place(start + 1, _ENDS + number, at.end, at.end_instant, end_is_shown)

    @method
    def is_known(self) -> bool:
        """Whether all endpoints are."""
        for endpoint in range(FIRST_OF_MATCH + 2 * self.n_others):
            if self.variable_of()[endpoint] != _ORIGIN:
                return False
        return True

    # -- the bounds -------------------------------------------------------------------------------
    @method
    def limit(self, row: int, column: int, most: int, sense: int) -> None:
        """One variable is later than another by so much at most, in a sense."""
        if row == column:
            if most < 0 or (most == 0 and _tightness(sense) > 1):
                self.contradicts()[0] = 1
            return
        bounds = self.most(row)
        if most < bounds[column]:
            bounds[column] = most
            self.sense(row)[column] = sense
        elif most == bounds[column] and _tightness(sense) > _tightness(self.sense(row)[column]):
            self.sense(row)[column] = sense

    @method
    def differ(self, since: int, until: int, most: int, sense: int) -> None:
        """One endpoint is later than another by so much at most, in a sense."""
        value = self.value_of()
        variable = self.variable_of()
        most += value[since] - value[until]
        self.limit(variable[since], variable[until], most, sense)

    @method
    def compare(self, one: int, other: int, lowest: int, highest: int) -> None:
        """One endpoint is earlier than another (-1), at the same time (0), or later (1).

        All from the lowest to the highest of these are allowed.
        """
        if self.is_sequenced:
            self.compare_instants(one, other, lowest, highest)
            return
        if highest <= 0:
            self.differ(other, one, 0, _LESS if highest < 0 else 0)
        if lowest >= 0:
            self.differ(one, other, 0, _LESS if lowest > 0 else 0)

    @method
    def compare_instants(self, one: int, other: int, lowest: int, highest: int) -> None:
        """The same where instants are not times."""
        if self.may_have_been(one):
            self.compare_first(one, other, lowest, highest)
        elif self.may_have_been(other):
            self.compare_first(other, one, -highest, -lowest)
        elif self.has_come(one) or self.has_come(other):
            sign = compare_times(self.instant_of()[one], self.instant_of()[other])
            if not lowest <= sign <= highest:
                self.contradicts()[0] = 1
        else:  # what is known of what is to come is of rows, which lie before all events of a time
            if highest <= 0:
                sense = _LESS if self.variable_of()[other] == _ORIGIN else _EARLIER
                self.differ(other, one, 0, sense if highest < 0 else 0)
            if lowest >= 0:
                sense = _LESS if self.variable_of()[one] == _ORIGIN else _EARLIER
                self.differ(one, other, 0, sense if lowest > 0 else 0)

    @method
    def compare_first(self, one: int, other: int, lowest: int, highest: int) -> None:
        """The same of an endpoint of an absent row of which nothing is known: it lies before all events of its time."""
        is_known = self.variable_of()[other] == _ORIGIN
        is_within = is_known and not self.is_first(other)  # behind the first instant of its time
        if is_within and lowest == 0 and highest == 0:
            self.contradicts()[0] = 1
        lies_behind = self.shift_of()[other]  # where a row cannot be
        if highest <= 0:
            sense = _LESS if is_known else _EARLIER
            self.differ(other, one, -lies_behind, 0 if is_within or highest == 0 else sense)
        if lowest >= 0:
            self.differ(one, other, lies_behind, _LESS if is_within or lowest > 0 else 0)

    @method
    def may_have_been(self, endpoint: int) -> bool:
        """Whether nothing is known of an endpoint of an absent row, though it may have been."""
        variable = self.variable_of()[endpoint]
        if variable == _END and self.late != NONE:
            return True
        return variable == _START and not self.begins_known

    @method
    def is_first(self, endpoint: int) -> bool:
        """Whether a known endpoint lies before all events of its time: see `engine.instant_numbers`."""
        instant = self.instant_of()[endpoint]
        return instant >= FIRST_AHEAD or instant & 1 == 0

    @method
    def has_come(self, endpoint: int) -> bool:
        """Whether an endpoint is not behind now: all others are later, whenever they come."""
        return self.instant_of()[endpoint] <= self.instant

    @method
    def begin(self) -> None:
        """Say nothing yet but what is known: what has not come is later than now."""
        variables = self.variables()
        self.contradicts()[0] = 0
        for row in range(variables):
            bounds = self.most(row)
            sense = self.sense(row)
            for column in range(variables):
                bounds[column] = _UNBOUNDED
                sense[column] = 0
        self.limit(_NOW, _ORIGIN, 0, 0)
        variable = self.variable_of()
        for endpoint in range(FIRST_OF_MATCH + 2 * self.n_others):
            is_later = endpoint > 1 or (self.late == NONE and (endpoint == 1 or self.begins_known))
            if variable[endpoint] != _ORIGIN and is_later:
                self.limit(variable[endpoint], _NOW, 0, self.earlier())
                if self.is_over:
                    self.limit(variable[endpoint], _ORIGIN, 0, _LESS)
        if not self.has_ended():
            # what becomes known late is a row, both of whose endpoints are times
            self.differ(1, 0, 0, self.earlier() if self.late == NONE else _LESS)
        if self.late != NONE:
            self.begin_late()

    @method
    def begin_late(self) -> None:
        """The absent one may have begun, and ended: it becomes known later than now.

        Rows become known before all events of a time, so that is at a later time.
        """
        late = self.late if 0 <= self.late < _FAR else _FAR  # it has no sign
        since = _END if self.late_since_end else _START
        self.limit(since, _NOW, late + self.behind, _LESS)
        if not self.late_since_end:
            self.separate(0, 1, late, True, False)

    @method
    def end_as_shown(self) -> None:
        """What has not ended may be shown to end now: where the end of the input ends it."""
        variable = self.variable_of()
        for endpoint in range(FIRST_OF_MATCH + 2 * self.n_others):
            if variable[endpoint] != _ORIGIN:
                self.sense(variable[endpoint])[_NOW] = self.at_most()
                if self.is_over:
                    self.sense(variable[endpoint])[_ORIGIN] = self.at_most()

    @method
    def pass_before(self, time: int) -> None:
        """Now is before a time: something goes on until then, or has ended.

        If several events have that time, one of them may still go on.
        """
        sense = _ANYWHERE if self.is_sequenced else _LESS
        self.limit(_ORIGIN, _NOW, _clipped(time, self.now), sense)

    @method
    def start_after(self, time: int) -> None:
        """The absent interval, which has not begun, begins after a time."""
        self.limit(_START, _ORIGIN, -_clipped(time, self.now), _LESS)

    @method
    def start_behind_now(self, length: int) -> None:
        """The absent interval, which has not begun, begins more than so much later than now."""
        self.limit(_START, _NOW, -min(length, _FAR), _LESS)

    @method
    def start_behind(self, number: int, length: int) -> None:
        """It begins more than so much behind the end of an interval of the match."""
        self.differ(0, FIRST_OF_MATCH + 2 * number + 1, -min(length, _FAR), _LESS)

    @method
    def has_begun(self) -> bool:
        """Whether the absent interval has."""
        return self.variable_of()[0] == _ORIGIN

    @method
    def has_ended(self) -> bool:
        """Whether it has, as far as this outlook goes."""
        return self.variable_of()[1] == _ORIGIN

    @method
    def relate(self, number: int, relations: int) -> None:
        """The absent interval has one of some relations, as flags, to one of the match.

        They are all that inequalities allow which each of them fulfils (`relations.convex_parts`).
        """
        start = FIRST_OF_MATCH + 2 * number
        self.compare(0, start, *_range_of(_TS_TS, relations))
        self.compare(0, start + 1, *_range_of(_TS_TE, relations))
        self.compare(1, start, *_range_of(_TE_TS, relations))
        self.compare(1, start + 1, *_range_of(_TE_TE, relations))

    @method
    def separate(self, since: int, until: int, length: int, is_upper: bool, strictly: bool) -> None:
        """One endpoint lies so far behind another, at most or at least, as they are shown.

        Lengths have no sign.
        """
        shift = self.shift_of()
        shown = shift[until] - shift[since]
        if length < 0 or length > _FAR:
            length = _FAR
        sense = _LESS if strictly else self.at_most()
        if is_upper:
            self.differ(since, until, length + shown, sense)
        else:
            self.differ(until, since, -length - shown, sense)

    @method
    def is_possible(self) -> bool:
        """Whether there is such a future: closes the bounds."""
        if self.contradicts()[0]:
            return False
        variables = self.variables()
        for middle in range(variables):
            onwards = self.most(middle)
            onwards_sense = self.sense(middle)
            for row in range(variables):
                bounds = self.most(row)
                to = bounds[middle]
                if to >= _UNBOUNDED:
                    continue
                to_sense = self.sense(row)[middle]
                for column in range(variables):
                    if onwards[column] >= _UNBOUNDED:
                        continue
                    most = max(to + onwards[column], -_UNBOUNDED)
                    self.limit(row, column, most, to_sense | onwards_sense[column])
            if self.contradicts()[0]:
                return False
        return True

    @method
    def latest(self) -> int:
        """How long it stays possible without an event, once the bounds are closed: as `until_of` has it."""
        most = self.most(_ORIGIN)[_NOW]
        is_reached = _tightness(self.sense(_ORIGIN)[_NOW]) == 0
        return INT64_MAX if most >= _FAR else 2 * most + is_reached
