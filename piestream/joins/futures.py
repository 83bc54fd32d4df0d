"""What can still come of an absent interval: bounds on differences of times, closed for one outlook.

The endpoints of an interval that is not there, and of those of a match, are known or not. One that is
not known is later than now, by how much is unknown. A relation orders endpoints and a distance bounds a
difference, so that each choice of relations is a system of difference bounds, and it has a solution if
its closure has no contradiction. Now itself is one of the variables: the latest that it can be is when
the last solution has gone, if no event comes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, OPEN
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import Carried, Record, Words, kernel, method
from piestream.intervals.ticks import plus
from piestream.relations import ENDPOINT_ORDER

__all__ = ["FIRST_OF_MATCH", "N_RELATIONS", "Future", "future_words"]

#: Relations by number, as flags have them.
N_RELATIONS = 15
_SIGNS = np.zeros((4, N_RELATIONS), np.int64)
for _relation, _order in ENDPOINT_ORDER.items():
    _SIGNS[:, int(_relation).bit_length() - 1] = _order
#: How the start (or end) of the absent one compares with the start (or end) of the other, in each.
_TS_TS, _TS_TE, _TE_TS, _TE_TE = (np.ascontiguousarray(row) for row in _SIGNS)

_Signs = Annotated[NDArray[np.int64], "read-only"]

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
    return 2 * variables * variables + 3 * (FIRST_OF_MATCH + 2 * n_others) + 1


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


class Future(Record):
    """A system of difference bounds between now and the endpoints of an absent interval and others."""

    first: int

    n_others: Carried[int]  # intervals of the match
    now: Carried[int]

    @method
    def variables(self) -> int:
        """How many variables there are."""
        return _ENDS + self.n_others

    @method
    def most(self, row: int) -> Words:
        """By how much each variable may be later than one, at most."""
        return at_word(self, row * self.variables())

    @method
    def strict(self, row: int) -> Words:
        """Whether it is always less than that."""
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
    def contradicts(self) -> Words:
        """A word that is 1 if what is known contradicts itself."""
        return at_word(self.shift_of(), FIRST_OF_MATCH + 2 * self.n_others)

    # -- the endpoints ----------------------------------------------------------------------------
    @method
    def place(self, endpoint: int, variable: int, time: int, is_shown: bool) -> None:
        """Say where an endpoint is: at a time, or OPEN."""
        is_open = time == OPEN
        self.variable_of()[endpoint] = variable if is_open else _ORIGIN
        self.value_of()[endpoint] = 0 if is_open else _clipped(time, self.now)
        self.shift_of()[endpoint] = 0 if is_shown else 1

    @method
    def place_absent(self, start: int, end: int, start_is_shown: bool, end_is_shown: bool) -> None:
        """Say where the absent interval is, as far as it is known."""
        self.place(0, _START, start, start_is_shown)
        self.place(1, _END, end, end_is_shown)

    @method
    def place_other(self, number: int, start: int, end: int, end_is_shown: bool) -> None:
        """Say where an interval of the match is."""
        self.place(FIRST_OF_MATCH + 2 * number, _ORIGIN, start, True)
        self.place(FIRST_OF_MATCH + 2 * number + 1, _ENDS + number, end, end_is_shown)

    @method
    def is_known(self) -> bool:
        """Whether all endpoints are."""
        for endpoint in range(FIRST_OF_MATCH + 2 * self.n_others):
            if self.variable_of()[endpoint] != _ORIGIN:
                return False
        return True

    # -- the bounds -------------------------------------------------------------------------------
    @method
    def limit(self, row: int, column: int, most: int, strictly: bool) -> None:
        """One variable is later than another by so much at most, or by less."""
        if row == column:
            if most < 0 or (most == 0 and strictly):
                self.contradicts()[0] = 1
            return
        bounds = self.most(row)
        is_strict = self.strict(row)
        if most < bounds[column]:
            bounds[column] = most
            is_strict[column] = int(strictly)
        elif most == bounds[column] and strictly:
            is_strict[column] = 1

    @method
    def differ(self, since: int, until: int, most: int, strictly: bool) -> None:
        """One endpoint is later than another by so much at most, or by less."""
        value = self.value_of()
        variable = self.variable_of()
        most += value[since] - value[until]
        self.limit(variable[since], variable[until], most, strictly)

    @method
    def compare(self, one: int, other: int, lowest: int, highest: int) -> None:
        """One endpoint is earlier than another (-1), at the same time (0), or later (1).

        All from the lowest to the highest of these are allowed.
        """
        if highest <= 0:
            self.differ(other, one, 0, highest < 0)
        if lowest >= 0:
            self.differ(one, other, 0, lowest > 0)

    @method
    def begin(self, begins_known: bool) -> None:
        """Say nothing yet but what is known: what has not come is later than now."""
        variables = self.variables()
        self.contradicts()[0] = 0
        for row in range(variables):
            bounds = self.most(row)
            is_strict = self.strict(row)
            for column in range(variables):
                bounds[column] = _UNBOUNDED
                is_strict[column] = 0
        self.limit(_NOW, _ORIGIN, 0, False)
        variable = self.variable_of()
        for endpoint in range(FIRST_OF_MATCH + 2 * self.n_others):
            if variable[endpoint] != _ORIGIN and (endpoint or begins_known):
                self.limit(variable[endpoint], _NOW, 0, True)
        self.differ(1, 0, 0, True)

    @method
    def end_as_shown(self) -> None:
        """What has not ended may be shown to end now: where the end of the input ends it."""
        variable = self.variable_of()
        for endpoint in range(FIRST_OF_MATCH + 2 * self.n_others):
            if variable[endpoint] != _ORIGIN:
                self.strict(variable[endpoint])[_NOW] = 0

    @method
    def pass_before(self, time: int) -> None:
        """Now is before a time: something goes on until then, or has ended."""
        self.limit(_ORIGIN, _NOW, _clipped(time, self.now), True)

    @method
    def start_after(self, time: int) -> None:
        """The absent interval, which has not begun, begins after a time."""
        self.limit(_START, _ORIGIN, -_clipped(time, self.now), True)

    @method
    def start_behind_now(self, length: int) -> None:
        """The absent interval, which has not begun, begins more than so much later than now."""
        self.limit(_START, _NOW, -min(length, _FAR), True)

    @method
    def start_behind(self, number: int, length: int) -> None:
        """It begins more than so much behind the end of an interval of the match."""
        self.differ(0, FIRST_OF_MATCH + 2 * number + 1, -min(length, _FAR), True)

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
        if is_upper:
            self.differ(since, until, length + shown, strictly)
        else:
            self.differ(until, since, -length - shown, strictly)

    @method
    def is_possible(self) -> bool:
        """Whether there is such a future: closes the bounds."""
        if self.contradicts()[0]:
            return False
        variables = self.variables()
        for middle in range(variables):
            onwards = self.most(middle)
            onwards_strict = self.strict(middle)
            for row in range(variables):
                bounds = self.most(row)
                is_strict = self.strict(row)
                to = bounds[middle]
                if to >= _UNBOUNDED:
                    continue
                to_strict = is_strict[middle]
                for column in range(variables):
                    if onwards[column] >= _UNBOUNDED:
                        continue
                    most = max(to + onwards[column], -_UNBOUNDED)
                    self.limit(row, column, most, (to_strict | onwards_strict[column]) != 0)
            if self.contradicts()[0]:
                return False
        return True

    @method
    def latest(self) -> int:
        """How long it stays possible without an event, once the bounds are closed."""
        most = self.most(_ORIGIN)[_NOW]
        return INT64_MAX if most >= _FAR else plus(self.now, most)
