"""The records of a call at work, which are kept from its pause until it is resumed."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from piestream.compiled.records import Record, Rows, Table, Words, WordTable, method


class ScanRange(IntEnum):
    """The ranges in which partners lie, in the order in which they are scanned."""

    NONE = 0
    PAIRS = 1  # the decided pairs
    EARLIER = 2  # partners that ended before the interval began
    LATER = 3  # partners that begin after it ended


#: What a number in `Program.shift_column` has besides where all events of the time are over.
IS_OVER = 1 << 62

#: So many instants belong to each event.
EVENT_PLACES = 4


class Place(IntEnum):
    """Where an instant lies that is a number, of those that belong to one event."""

    SILENCE = 1  # the end of a silence before it
    BETWEEN = 2  # a deadline before it, or that the input ends
    EVENT = 3  # itself; or a tick behind the last


class KnownRow(Record):
    """A row by which an interval, or its end, becomes known."""

    time: int
    start: int
    end: int  # OPEN: it begins
    symbols: int  # the symbols (as bits) that take it
    number: int
    # the same as instants; where times are instants, the times
    instant: int
    start_instant: int
    end_instant: int


class ScanCursor(Record):
    """Where the scan of one step of extension stands."""

    range: int  # ScanRange
    next: int
    last: int
    lo: int
    hi: int
    mode: int  # ScanMode


class Bound(Record):
    """The interval that is bound to a symbol."""

    slot_id: int
    place: int  # where in the pool its slot lies


class ItemKind(IntEnum):
    """What became known at an event."""

    PAIR = 0  # two intervals are a pair of a constraint
    RANGE = 1  # the interval that starts has partners of a constraint that ended before it
    END = 2  # an interval has ended that may have partners which begin after it
    START = 3  # an interval starts, and all its partners are known
    INTERVAL = 4  # an interval became valid
    # of many intervals or pairs, which are inserted one by one
    ARRIVALS = 5  # intervals of a symbol became known by rows
    REACHED = 6  # intervals of a symbol have reached their minimum length
    PASSED = 7  # the ends of intervals of a symbol have passed
    LISTED = 8  # pairs of a listed constraint are decided


class Item(Record):
    """Something that became known at an event; which fields are set depends on its kind."""

    kind: int  # ItemKind
    symbol: int  # of START, INTERVAL, ARRIVALS, REACHED and PASSED
    constraint: int  # of PAIR, RANGE, END and LISTED
    side: int  # of the interval in the constraint, of RANGE and END
    last: int  # of RANGE: the last partner that ended before; of ARRIVALS and LISTED: the last id
    ids: Annotated[Words, 2]  # of PAIR: of x and of y; of many: the first is the next


class Paused(IntEnum):
    """Where a call has paused."""

    NO = 0
    BETWEEN = 1  # two events of a partition, or two partitions
    INSIDE = 2  # of an event, among the matches that it completes


class Scratch(Record):
    """The state of a call at work, which is kept from its pause until it is resumed."""

    paused: int  # Paused
    group: int  # which of the batch's partitions it is in
    ended: int  # the symbols (as bits) whose intervals ended at this event
    pause_at: int  # it pauses once the steps and visits are so many,
    events_left: int  # or behind so many events,
    most_rows: int  # or once it has written so many result rows

    time: int  # of the event
    instant: int  # the event's, as slots have it: its number, if times do not tell events apart
    is_event: int  # where several events have one time: others of that time may still come
    now: int  # what endpoints are compared with: the time, or this number
    floor: int  # at which lists of pairs are kept: see Symbol.expiry
    passed: int  # symbols (as bits) whose intervals' ends have passed at this event
    begun: int  # symbols (as bits) whose runs started at this event
    changed: int  # symbols (as bits) whose runs ended at this event, or are known to go on
    resumed: int  # symbols (as bits) whose runs are known to go on since this event
    ended_earlier: (
        int  # symbols (as bits) of which it is known since this event that they ended before
    )
    waits: int  # 1: nothing happens at this event but that time passes
    told: int  # then the time of the last event there was, where absences ask for it,
    told_instant: int  # and its instant
    known: int  # the next row of an interval, and the first behind those of the partition
    known_end: int
    first_column: int  # the columns' row of the first interval
    event_origin: int  # the number of the event that row 0 would be
    n_rows: int  # result rows written
    n_matches: int  # found at this event
    complete: (
        int  # one more than the first that waits though it was complete when triggered, else 0
    )
    item: int  # where the search for matches stopped because the buffer was full
    seed: int
    depth: int
    steps: int  # work done: candidates that extension looked at
    visits: int  # partners to which a bound was propagated, or looked at to find the pairs of rows
    cached_matches: int  # the first of the matches that extension emits again
    cached_end: int
    n_items: int
    closing: int  # Closing
    absent_changed: int  # symbols (as bits) of NOT groups of which something is new at this event
    exceeded: int  # symbols (as bits) whose open intervals have too many events since this event
    # where the loops begin that this program needs, and not all do; see calls.py
    settle_at: int
    apply_rows_at: int
    insert_next_at: int
    scan_listed_at: int
    extend_to_first_at: int
    complete_at: int
    keep_before_end_at: int
    events: int  # how many events of the partition there were, up to this one, where that is asked
    reached: int  # where they are judged, and the input ends: the time before which all is known
    # where absences are judged, a partition as it was before the end of its input (closing.py):
    before: int  # where in the pool that is kept, or NONE
    before_room: int  # where there is room for that,
    before_words: int  # for so many words
    before_time: int  # the time that had passed by then,
    before_passed: int  # the last one of which all events were over,
    before_instant: int  # and the instant
    barred: int  # 1: no match reported at this event is given
    cursors: Table[ScanCursor]  # by depth
    aggregated: WordTable  # by symbol: the row up to which its aggregates are up to date
    tails: WordTable  # by ring: the tail before the event
    items: Table[Item]
    event: int  # where the cursor of the batch is kept while the call pauses (event_cursor.py)
    bound: Rows[Bound]  # by symbol

    @method
    def enqueue(self, kind: int) -> Item:
        """A new item at the end of the queue."""
        item = self.items[self.n_items]
        self.n_items += 1
        item.kind = kind
        return item
