"""The records of the state: what is kept of the intervals, pairs and matches of a partition."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.primitives import at_word
from piestream.compiled.records import Record, Rows, Words, method

#: The bound of an interval whose partners allow no match: earlier than every time.
NO_MATCH = INT64_MIN

#: The bound of an interval on which no partner has any influence.
UNBOUNDED = INT64_MAX

#: No partition has so many events.
MOST_EVENTS = 1 << 62


class Partners(Record):
    """The decided partners of an interval in one constraint: the lowest and the highest id."""

    lo: int  # NONE: there are none
    hi: int


class Slot(Record):
    """An interval. What else its query keeps of it lies behind, in words that the program names."""

    start: int
    end: int
    match_bound: int  # the highest floor at which a match with it can be reported (semijoin.py)

    @method
    def partners(self, word: int) -> Partners:
        """The partners in one constraint, whose Side.partners is ``word``."""
        return Partners(at_word(self, word))


class BridgedSlot(Slot):
    """An interval of a symbol with BRIDGING: it may go on after its predicate has ceased to hold."""

    since: int  # since when the predicate has not held, if it may still go on; else OPEN
    ceased: int  # when the predicate last ceased to hold
    events: int  # the number of the first event from then on
    since_instant: int  # the instants of both
    ceased_instant: int


class Held(IntEnum):
    """What an interval that came as a row is to its symbol."""

    PENDING = 0  # it is not valid yet, or was not inserted yet
    VALID = 1
    REFUSED = 2  # its duration is not allowed: it is there for followed-by only
    RETIRED = 3  # it began before the window, but its end is still waited for
    FORGOTTEN = 4


class OrderNode(Record):
    """An interval's place in one of the two orders of its symbol, a search tree (orders.py)."""

    left: int  # ids of intervals, or NONE
    right: int
    parent: int
    count: int  # intervals in the subtree; 0: this one is not in the order
    low: int  # the least and the greatest of the other endpoint in the subtree
    high: int
    best: int  # the highest floor at which a match with one of them can be reported


class RowSlot(Slot):
    """An interval that came as a row: such intervals of one symbol may overlap."""

    number: int  # of its row, which no two symbols of a match share
    held: int  # Held
    announced: int  # 1: its end was known before it came
    orders: Annotated[Rows[OrderNode], 2]  # by start, by end


class RowsHeader(Record):
    """What a partition keeps of a symbol whose intervals come as rows, besides their ring."""

    by_start: int  # the root of each order, or NONE
    by_end: int  # of those whose end has passed, or will
    pending: int  # the first interval that may still wait for its minimum length
    floor: int  # what began before it, or ended, is forgotten or retired (Symbol.kept_from)


class Pair(Record):
    """A decided pair of a listed constraint, in the lists of both of its intervals."""

    ids: Annotated[Words, 2]  # of x and of y; NONE: it is no more
    next: Annotated[Words, 2]  # in the list of x, in the list of y
    previous: Annotated[Words, 2]
    chained: int  # the next pair in its bucket; NONE: it is pending, and in no bucket
    bucket: int  # one more than the first pair whose key falls on this place: not of this pair


class PairLists(Record):
    """The pairs of an interval in a listed constraint, by what their partners are."""

    completing: int  # the first one whose partner can complete a match, or could
    others: int
    pending: int  # those whose distances are not certain yet


class RingHeader(Record):
    """Where the live intervals of one symbol of a partition lie in the pool."""

    base: int
    capacity: int
    head: int
    tail: int


class PoolHeader(Record):
    """The first words of the pool."""

    used: int
    wasted: int


class Progress(Record):
    """Up to where the pending distances of a partition have been judged, and when it was closed."""

    seen: int  # the last event at which they were looked at
    closed: int  # the time at which what was open is shown to end; NO_MATCH: it is not closed


class Bridges(Record):
    """What a partition knows of its symbols with BRIDGING."""

    interrupted: int  # the symbols (as bits) whose interval may go on, though it does not hold
    due: int  # when it is known of the first of them that no run follows in time
    passed: int  # the latest instant that has been worked on


class Awaited(Record):
    """What a partition knows of its matches of which an absence is not decided yet."""

    due: int  # when one of them may be decided without an event
    is_late: int  # 1: when all events of that time are over
    credit: int  # how many of them may be looked at for those that are dead by now
    has_expired: int  # 1: some may be given by the end of the input only, and by no event to come
    first: Words  # by list (awaited.py): the first match in it, or NONE


class AwaitedMatch(Record):
    """A match of which an absence is not decided yet (awaited.py)."""

    due: int  # when it may be decided without an event, or cannot be reported any more
    is_late: int  # 1: when all events of that time are over, where several have one
    place: int  # in the heap
    waits: int  # symbols (as bits): it may be decided when the interval of one of them ends
    goings: int  # symbols (as bits): or when one of them begins, or goes on
    ids: Words  # of its intervals, by symbol; behind them its links in the lists


class Given(Record):
    """What a partition knows of the matches that it has given, where not all are."""

    count: int
    latest: int  # when the last was reported


class Sequence(Record):
    """What a partition keeps where its events may have one time (`Program.is_sequenced`)."""

    last: int  # what orders its last event in its time; is read and written outside the loops
    given: int  # the instant of the last report of a match that was given


class Shifted(Record):
    """What a partition keeps where instants are numbered by their times (`Program.shift_column`)."""

    behind: int  # how much more than twice its time the number of what comes behind all rows is
    last: int  # the instant of the last row


class GivenMatch(Record):
    """A match that was given, as ONCE PER tells matches apart (given.py)."""

    time: int  # of its report
    chained: int  # one more than the record before it in its bucket
    bucket: int  # one more than the latest record whose hash falls on this place: not of this match
    identity: Words  # of each symbol of ONCE PER: the start, and the number of its row
