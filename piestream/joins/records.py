"""The shapes of the compiled query's tables, of intervals, rings, and of what the loops keep."""

from __future__ import annotations

from typing import Annotated

from piestream.compiled.records import Record, Rows, Table, method


class Slot(Record):
    """An interval. What else its query keeps of it lies behind, in words that the tables name."""

    start: int
    end: int
    reach: int  # the best that all sides can offer (reach.py)


class RingWords(Record):
    """Where the live intervals of one symbol of a partition lie in the pool."""

    base: int
    capacity: int
    head: int
    tail: int


# -- the compiled query ---------------------------------------------------------------------------
class Symbol(Record):
    """A symbol of the query."""

    width: int  # words of a slot
    at_least: int  # ticks or NOWHERE
    at_most: int
    deferred: int  # DEFERRED_*
    incident: int  # first of its entries in the incident table
    incident_end: int
    cell: int  # first of its aggregate cells
    cell_end: int
    watch: int  # word of the slot that heads its waiting matches
    seed: int  # extension seeded by an interval that becomes valid, or begins after others ended
    best: int  # words with the best that each side offers
    best_end: int
    bests_end: int  # behind the words with the best of one range alone


class Incident(Record):
    """One of a symbol's constraints, and the symbol's side of it."""

    constraint: int
    side: int


class Side(Record):
    """What a constraint keeps of the intervals on one side: words of their slots."""

    lo: int  # two words: lowest and highest partner id
    later: int  # the last partner that ended before this one began; NOWHERE if not asked
    earlier: int  # the first partner that begins after this one ended
    walk: int  # WALK_*
    allowed: int  # relations of this side to its partner, for walks that check
    name: int  # the partner that this one follows immediately
    best: int  # the best that partners offer; NOWHERE where nothing is kept of it
    # the same of the partners in one range alone: this word, where there are no others
    best_later: int  # of those that ended before this one began
    best_earlier: int  # of those that begin after this one ended
    ended: int  # word of the partition: the best of all that have ended, for one that begins


class Constraint(Record):
    """A constraint, and its automaton's tables."""

    symbols: Annotated[Rows[int], 2]  # x and y
    next: int  # NOWHERE if the constraint has no automaton
    decides: int
    names: int  # 1: reads only to tell followed-by from before
    seed: int  # extension seeded by a decided pair
    sides: Annotated[Rows[Side], 2]  # of x and of y


class Seed(Record):
    """Which steps complete a match from what was decided."""

    step: int
    step_end: int
    split: int  # the first step from which on none asks for what the steps before it bound


class Step(Record):
    """Bind one more symbol; with what the walk needs of the constraint and of the symbols."""

    target: int
    source: int  # the symbol that is already bound
    ring: int  # of the target
    width: int
    lo: int  # of the source's Side
    later: int
    earlier: int
    walk: int
    allowed: int
    met: int  # Side.later of the target's side
    check: int
    check_end: int


class Check(Record):
    """A constraint between the target and a symbol bound before."""

    constraint: int  # NOWHERE: only that the two are not the same interval
    side: int  # the target's side
    other: int


class Cell(Record):
    """A running aggregate."""

    kind: int
    column: int
    word: int


class Query(Record):
    """The compiled query: one array, whose first words say where its tables begin."""

    n_symbols: int
    n_constraints: int
    n_readers: int  # automata that are stepped: one a constraint, and those that only name
    window: int
    gap: int
    emit_both: int
    partition_words: int
    n_outputs: int
    symbols: Table[Symbol]
    incidents: Table[Incident]
    constraints: Table[Constraint]
    seeds: Table[Seed]
    steps: Table[Step]
    checks: Table[Check]
    outputs: Table[int]
    order: Table[int]
    cells: Table[Cell]
    has_cells: int
    to_length: int  # symbols (as bits) that become valid at a minimum length
    in_ranges: int  # symbols (as bits) of constraints that allow before or after
    all_after: (
        int  # symbols (as bits) all of whose constraints allow that they begin after the other
    )
    ended_at: int  # first of the partition's words of Side.ended
    automata_at: int  # first of the partition's words with the automata's states


# -- what the loops keep while they work ----------------------------------------------------------
class Walk(Record):
    """Where the walk of extension stands at one depth."""

    piece: int  # PIECE_*
    next: int
    last: int
    lo: int
    hi: int
    how: int  # WALK_*


class Bound(Record):
    """The interval that is bound to a symbol."""

    slot_id: int
    place: int


class Item(Record):
    """Something that became known at an event."""

    kind: int
    of: int  # constraint or symbol
    one: int
    other: int


class Scratch(Record):
    """What is kept while one call works."""

    rows: int  # result rows written
    found: int  # matches found at this event
    item: int  # where the search for matches stopped for want of room
    seed: int
    depth: int
    steps: int  # work done: candidates that extension looked at
    visits: int  # and partners that reach was offered to
    again: int  # the matches that extension repeats
    again_end: int
    n_items: int
    walks: Table[Walk]  # by depth
    added: Table[int]  # by symbol: the first row that its aggregates do not know
    items: Table[Item]
    bound: Rows[Bound]  # by symbol

    @method
    def put(self, kind: int, of: int, one: int, other: int) -> None:
        """Queue an item."""
        item = self.items[self.n_items]
        item.kind = kind
        item.of = of
        item.one = one
        item.other = other
        self.n_items += 1
