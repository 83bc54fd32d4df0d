"""The records of a compiled query: its *program*, which is one array of integers."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from piestream.compiled.constants import INT64_MIN
from piestream.compiled.records import Record, Rows, Table, Words, WordTable, method
from piestream.intervals.aggregates import Cell
from piestream.intervals.ticks import minus, plus
from piestream.joins.state_records import Slot


class Validity(IntEnum):
    """When an interval of a symbol becomes valid."""

    AT_START = 0
    AT_LENGTH = 1  # AT LEAST: once it is long enough, and has enough events
    AT_END = 2  # AT MOST, BETWEEN, EMIT ON COMPLETION


class ScanMode(IntEnum):
    """Which ids from the lowest to the highest partner of an interval are its partners.

    Runs of one symbol are disjoint and ordered, so at most one partner holds the
    interval's start and at most one its end; those in between are all *contained*.
    """

    ALL = 0  # contained ones are partners too: every id
    ENDS = 1  # they are not: only the lowest and the highest
    ALL_CHECKED = 2  # followed-by may leave a hole: look at the endpoints
    ENDS_CHECKED = 3  # two at either end, checked
    BY_KEY = 4  # of a range: those with the same key, from the latest back (keys.py)


class OutputKind(IntEnum):
    """What an output word is."""

    SLOT_WORD = 0  # a word of the symbol's slot, as it is
    FOLLOWS = 1  # 1 if the symbol's interval immediately follows that of the other symbol
    SLOT_WORD_AT_TRIGGER = 2  # a word of the slot, which no completion changes any more
    REPORT = 3  # the instant of the report, where that is not its time


class Symbol(Record):
    """A symbol of the query. Words are words of its slots."""

    width: int  # words of a slot
    is_plain: (
        int  # 1: a slot has nothing but endpoints, partners and bounds to be set when it opens
    )
    buckets: int  # first of the words that are no part of the slot's interval: of its key indexes
    key: int  # first of its entries in the table of keys
    key_end: int
    at_least: int  # ticks or NONE
    at_most: int
    at_least_events: int  # or NONE
    at_most_events: int
    first_event: int  # word of the number of the interval's first event; NONE: nothing counts them
    counter: int  # number of what counts them; NONE: each row is an event
    validity: int  # Validity
    incident: int  # first of its entries in the incident table
    incident_end: int
    cell: int  # first of its aggregate cells
    cell_end: int
    waiting_list: int  # word that heads the matches waiting for the interval's end
    seed: int  # of an interval that becomes valid, or begins after all of its partners ended
    bound: int  # first of the words with the bound of each side
    bound_end: int
    range_bound_end: int  # behind the words with the bounds of one range alone
    rows: int  # word of the partition's RowsHeader; NONE: its intervals are runs
    at_passing: int  # 1: no interval is valid before its end has passed
    has_lists: int  # 1: some of its constraints are listed
    bridging: int  # ticks: runs so far apart are one interval; NONE: no run goes on
    bridge_cell: int  # first of the cells that go on where its predicate does not hold
    known: int  # of rows: word of the time from which it is known, or NONE
    # of rows, words with what a subtree of the order by end says of bounds (range_bounds.py):
    given: int  # first of the best that it gives: without that in the words from `bound` on
    given_end: int
    lowest: int  # first of the lowest that a partner can raise, of the words from `by_later` on
    lowest_end: int
    by_later: int  # first of the words of Side.bound_by_later
    gone_until: int  # word of the partition: when the last of what is forgotten ended, or NONE
    ended_before: int  # of runs: word of the last end of its intervals before one began, or NONE
    gap: int  # first of its entries in the table of gaps
    gap_end: int
    # how long it is kept, beyond the shortest time for which intervals of some symbol are
    kept_from: int  # the word from which that counts: 0 the start, 1 the end
    kept: int  # ticks
    lead: int  # ticks from the start: no length is longer where it counts from the end
    # of silences that may not be there, of each of which a row says when it may begin; else NONE:
    silence: int  # ticks that it is longer than
    is_longer: int  # 1: nothing else makes its least length, which is a tick more

    @method
    def own_bound(self, slot: Slot) -> int:
        """The highest floor at which a match with an interval can be reported, by the interval alone."""
        return plus(slot.start, self.lead)

    @method
    def expiry(self, slot: Slot) -> int:
        """The highest floor at which an interval is kept: one that is open is, if its end counts."""
        return plus(slot[self.kept_from], self.kept)

    @method
    def first_start(self, floor: int) -> int:
        """The earliest start of an interval that is kept, by this symbol's own window."""
        return INT64_MIN if self.kept_from else minus(floor, self.kept)


class Gap(Record):
    """Where the gap before an interval of a symbol begins: the last end of it or another symbol before."""

    other: int
    word: int  # of the symbol's slots: the instant; OPEN: one of them had not ended


class Key(Record):
    """A value that intervals of a symbol have from their start, and their index by it, if any."""

    cell: int  # that has it: FIRST of a column
    word: int  # the first of the cell's words
    bucket: int  # NONE: it has no index
    chain: int


class EqualKeys(Record):
    """Values of two symbols that are equal in every match."""

    words: Annotated[Words, 2]  # first of the words of each, of the lower symbol first


class Counter(Record):
    """What counts the events of one of several streams (see `joins.counters`)."""

    column: int
    count: int  # word of the partition: how many there were before the batch
    due: int  # the first one at which an open interval has its minimum
    before: int  # how many there were before the row that is worked on
    up_to: int  # and with it


class Incident(Record):
    """One of a symbol's constraints, and the symbol's side of it."""

    constraint: int
    side: int


class Side(Record):
    """What a constraint keeps of the intervals on one side: words of their slots, or NONE."""

    partners: int  # first of the words of Partners
    last_ended_before: int  # the last partner that ended before this one began
    first_starting_after: int  # the first partner that begins after this one ended
    scan: int  # ScanMode
    allowed: int  # relations of this side to its partner, where a scan checks them
    predecessor: int  # the partner that this one follows immediately
    bound: int  # the best bound that partners give; NONE where nothing is kept of it
    # the same of the partners in one range alone: the same word, where there are no others
    bound_by_earlier: int  # of those that ended before this one began
    bound_by_later: int  # of those that begin after this one ended
    bound_by_ended: int  # word of the partition: of all that have ended, for one that begins
    given: int  # of a range of a listed constraint: the best bound that is given (range_bounds.py)
    key: int  # first of the words of the value that must be equal to the partner's
    bucket: int  # of the index by it of this side's intervals: in which partners are looked up
    chain: int
    latest_with_key: int  # the last partner with this one's key that ended before this one began
    allows_earlier: int  # 1: partners may have ended before this one began
    allows_later: int  # 1: they may begin after it ended


class Constraint(Record):
    """A constraint. Its automaton reads the letters of its two symbols."""

    symbols: Annotated[Words, 2]  # x and y
    automaton: int  # its first transition; NONE if the constraint has no automaton
    naming: int  # 1: it only tells followed-by from before, for RELATION
    #: The number of the ring of its pairs, where intervals of a symbol come as rows or it has
    #: distances, else NONE.
    listed: int
    checked: int  # 1: its pairs are looked up by their ids
    uncertain: int  # 1: listed, with a symbol whose endpoints become known later than they are
    same: int  # 1: its symbols have the same runs
    number: int  # of the constraint itself
    seed: int  # of a decided pair
    distance: int  # first of its distances
    distance_end: int
    sides: Annotated[Rows[Side], 2]  # of x and of y


class Distance(Record):
    """How far an endpoint of one side of a constraint lies behind one of the other side.

    Lengths have no sign: the difference is at least, or at most, so long.
    """

    side: int  # of the endpoint from which the other one is subtracted
    ends: Annotated[Words, 2]  # of this side and of the other: 0 for the start, 1 for the end
    is_upper: int
    is_strict: int
    length: int


class Absence(Record):
    """A NOT group: a match counts if no interval of the absent symbol satisfies all of it (absences.py)."""

    symbol: int  # the absent one
    pair: int  # first of its conditions
    pair_end: int
    same: int  # symbols of the match (as bits) whose intervals are of the same runs, or rows
    begins_known: int  # 1: its intervals are known from their starts; 0: some from their ends on
    late: (
        int  # ticks: how long after its start one may become known that has ended; NONE: at its end
    )
    late_since_end: int  # 1: how long after its end
    may_come_at_end: int  # 1: its intervals may become known at their ends, however long they last


class AbsentPair(Record):
    """The condition of a NOT group on its absent symbol and one symbol of the match."""

    symbol: int  # of the match
    allowed: int  # relations of the absent one to it
    part: int  # first of its entries in `absent_parts`
    part_end: int
    distance: int  # first of its distances, in which side 0 is the absent one
    distance_end: int
    followed: (
        int  # Gap.word of the absent one, where it may follow the other immediately; else NONE
    )
    followed_by_other: int  # that of the other, where it may follow the absent one immediately


class Transition(Record):
    """What an automaton does in one state at one letter: in the order of states, then letters."""

    state: int  # the next one
    decides: int  # which pairs (bits): the latest two; the x before and the latest y; the reverse


class Seed(Record):
    """Which steps complete a match from what was decided last."""

    step: int
    step_end: int
    independent: int  # the first step from which on none needs what the steps before it bound


class Step(Record):
    """Bind one more symbol."""

    join: int  # how its candidates are found
    checked: int  # the symbols bound before (as bits) that they must fit
    keyed: int  # and whose keys theirs must be equal to


class Join(Record):
    """From an interval to its partners in a constraint: the words that a scan reads."""

    target: int
    source: int  # the symbol that is already bound
    width: int  # words of the target's slots
    partners: int  # of the source's Side, as the next four are
    last_ended_before: int
    first_starting_after: int
    scan: int
    allowed: int
    target_last_ended_before: int  # of the target's Side
    key: int  # of the source's Side
    latest_with_key: int
    target_key: int  # of the target's Side, as the next two are
    bucket: int
    chain: int
    constraint: int
    side: int  # the source's
    listed: int  # 1: the constraint is listed
    allows_earlier: int  # of the source's Side
    allows_later: int
    lead: int  # of the target, as the next two are
    kept_from: int
    kept: int


class Check(Record):
    """How two intervals are checked to be a pair, and to have equal keys."""

    constraint: int  # NONE: only that the two are not the same interval
    side: int  # of the first one; of no constraint: the word that tells intervals apart
    keys: int  # the first of their equal keys; a constraint looks partners up by it
    keys_end: int


class Output(Record):
    """A word that RETURN needs in a result row."""

    kind: int  # OutputKind
    symbol: int
    word: int  # of the symbol's slot
    other: int  # the symbol that this one may follow


class Program(Record):
    """The compiled query: one array, which begins with these words; the tables lie behind."""

    n_symbols: int
    n_constraints: int
    n_automata: int  # constraints, with those that only name
    n_rings: int  # one a symbol, one a listed constraint
    #: 1: intervals are runs as they are, all matches are given, and no two events have one time. So nothing
    #: but an event, or a silence, changes what there is, and most of what follows is not asked for.
    is_plain: int
    rows: int  # symbols (as bits) whose intervals come as rows
    has_lists: int  # 1: some constraints are listed
    shortest: int  # ticks: the shortest time for which intervals of some symbol are kept
    gap: int  # ticks or NONE
    emit_both: int
    partition_words: int
    n_outputs: int
    symbols: Table[Symbol]
    incidents: Table[Incident]
    constraints: Table[Constraint]  # then, those that only name
    distances: Table[Distance]
    transitions: Table[Transition]
    seeds: Table[Seed]
    steps: Table[Step]
    joins: Table[Join]  # of each constraint: from its x, and from its y
    checks: Table[Check]  # of each two symbols: of the first one with all, then of the second
    outputs: Table[Output]
    sort_order: WordTable  # symbols in the order in which their starts sort result rows
    bridged: int  # symbols (as bits) with BRIDGING
    bridges_at: int  # the partition's words of Bridges; NONE without BRIDGING
    cells: Table[Cell]
    has_cells: int  # whether anything is kept of rows: aggregates, or numbers of events
    counts_events: int  # whether a symbol bounds the number of its intervals' events
    valid_at_length: int  # symbols (as bits) of Validity.AT_LENGTH
    bounded: int  # symbols (as bits) whose intervals' lengths or numbers of events are bounded
    exceeds: int  # symbols (as bits) that are absent and have a greatest number of events
    in_ranges: int  # symbols (as bits) of constraints that allow before or after
    all_after: int  # symbols (as bits) that all their constraints allow to begin after the other
    automata_at: int  # first of the partition's words with the automata's states
    ended_bounds_at: int  # first of the partition's words of Side.bound_by_ended
    progress_at: int  # the partition's words of Progress; NONE without distances
    keys: Table[Key]
    n_counters: int
    counters: Table[Counter]
    equal_keys: Table[EqualKeys]  # those of two symbols one behind the other
    given_at: int  # the partition's words of Given; NONE: all matches are given
    given_ring: int  # the partition's ring of matches given; NONE without ONCE PER
    given_width: int  # of a GivenMatch
    given_kept: int  # ticks beyond the shortest time; NONE: as long as an interval of it is kept
    judges: int  # 1: the loops judge which matches are given, as no WHERE comes before
    limit: int  # NONE: without LIMIT, COOLDOWN
    cooldown: int  # ticks
    no_overlap: int
    n_once: int  # how many symbols ONCE PER has
    once: WordTable  # these symbols
    once_symbols: int  # as bits
    finds_first: (
        int  # 1: of the matches of an event only the first of those not told apart is given
    )
    n_apart: int  # how many symbols tell them apart
    apart: WordTable  # these symbols
    apart_symbols: int  # as bits
    given_once: (
        int  # the symbols (as bits) of which an interval that was given is in no other match
    )
    #: 1: events of a partition may have one time. Instants are then told apart by numbers, which grow
    #: with every event (`Scratch.instant`), and slots have those of both endpoints besides the times.
    is_sequenced: int
    sequence_at: int  # the partition's words of Sequence, or NONE
    #: Where intervals come as rows besides: the column of what each instant's number is more than twice
    #: its time (`Shifted`), and the partition's words of that; else NONE. (See engine/instant_numbers.py.)
    shift_column: int
    shifted_at: int
    start_instant: int  # words of each slot; without numbers those of the times
    end_instant: int
    n_present: int  # how many symbols have an interval in each match; the first in `sort_order`
    absent: int  # the other symbols (as bits)
    n_absences: int
    absences: Table[Absence]
    absent_pairs: Table[AbsentPair]
    absent_parts: WordTable  # of what a pair allows: relations that inequalities tell from others
    gaps: Table[Gap]
    #: Symbols (as bits) whose intervals may decide an absence when they begin, or go on.
    begin_deciding: int
    absences_at: int  # the partition's words of Awaited, or NONE
    awaited_ring: int  # the partition's ring of matches awaited, or NONE; then that of their heap
    awaited_width: int  # of an AwaitedMatch
    judged: int  # symbols (as bits) of which an absence may be decided when their intervals change
