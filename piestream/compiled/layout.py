"""Where everything lies: the words of the state and of the compiled tables.

All state is one array of 64-bit words a kind, so that it can be copied, written to disk and handed
to the compiled loops as it is. A *partition* is a row of ``PARTITION_*`` words followed by the
rings' descriptors and the automata's states; an *interval* is a slot of a ring in the pool.

Slots of one symbol in one partition carry dense ids that only grow; the id is the interval's name
in the pair index, and ``base + (id & (capacity - 1)) * width`` is where it lies, which makes the
index a perfect hash.
"""

from __future__ import annotations

import numpy as np

INT64_MAX = np.iinfo(np.int64).max
INT64_MIN = np.iinfo(np.int64).min

#: The end of an interval that has not ended. No event can have this time (narrow.py refuses it).
OPEN = INT64_MAX
#: No such slot.
NOWHERE = -1
#: No match can be completed on this side: earlier than every time.
NEVER = INT64_MIN
#: Nothing is asked of this side.
ALWAYS = INT64_MAX

# -- a partition's words ------------------------------------------------------------------------
LAST_TIME = 0  # time of the last event
MASK = 1  # which predicates held at it
VALID = 2  # bit s: the latest interval of symbol s is valid (SPEC 4)
DROPPED = 3  # bit s: the latest run of s violated its duration and is not there
PREVIOUS_DROPPED = 4  # bit s: the same of the run before it
DUE = 5  # earliest time at which an open interval reaches its minimum duration
USED = 6  # 1 while the row belongs to a partition
WAITING = 7  # matches that have triggered and not completed
RINGS = 8  # four words a symbol, then one word an automaton, then those of SIDE_ENDED

RING_BASE, RING_CAPACITY, RING_HEAD, RING_TAIL = range(4)
RING_WORDS = 4

# -- a slot's words -----------------------------------------------------------------------------
START = 0
END = 1
REACH = 2  # the best that all sides can offer (reach.py)
SLOT_EDGES = 3  # then the edges, the naming cells, the watch list, the aggregates

# -- the pool's first words ---------------------------------------------------------------------
POOL_USED = 0
POOL_WASTED = 1
POOL_WORDS = 2

# -- the compiled query: one int64 array, whose first words say where its tables begin -----------
N_SYMBOLS = 0
N_CONSTRAINTS = 1
N_READERS = 2  # automata that are stepped: one a constraint, and those that only name
WINDOW = 3
GAP = 4
EMIT_BOTH = 5
PARTITION_WORDS = 6
N_OUTPUTS = 7
SYMBOLS_AT = 8
INCIDENT_AT = 9
CONSTRAINTS_AT = 10
SEEDS_AT = 11
STEPS_AT = 12
CHECKS_AT = 13
OUTPUTS_AT = 14
ORDER_AT = 15
CELLS_AT = 16
HAS_CELLS = 17
IN_RANGES = 19  # symbols (as bits) of constraints that allow before or after
ALL_AFTER = 20  # symbols (as bits) all of whose constraints allow that they begin after the other
TO_LENGTH = 18  # symbols (as bits) that become valid at a minimum length
ENDED_AT = 21  # first of the partition's words of SIDE_ENDED
AUTOMATA_AT = 22  # first of the partition's words with the automata's states
HEADER_WORDS = 24

# a symbol's entry
SYM_WIDTH = 0  # words of a slot
SYM_AT_LEAST = 1  # ticks or NOWHERE
SYM_AT_MOST = 2
SYM_DEFERRED = 3  # DEFERRED_*
SYM_INCIDENT = 4  # first of its entries in the incident table
SYM_INCIDENT_END = 5
SYM_CELLS = 6  # first of its aggregate cells
SYM_CELLS_END = 7
SYM_WATCH = 8  # word of the slot that heads its waiting matches
SYM_SEED = 9  # extension seeded by an interval that becomes valid, or begins after others ended
SYM_BEST = 10  # words with the best that each side offers
SYM_BEST_END = 11
SYM_BESTS_END = 12  # behind the words with the best of one range alone
SYM_WORDS = 13

DEFERRED_NOT = 0
DEFERRED_TO_LENGTH = 1  # AT LEAST: valid once long enough
DEFERRED_TO_END = 2  # AT MOST, BETWEEN, EMIT ON COMPLETION: valid at the end

# a constraint's entry: common words, then a block for the side of x and one for the side of y
CON_X = 0
CON_Y = 1
CON_NEXT = 2  # automaton tables, NOWHERE if the constraint has no automaton
CON_DECIDES = 3
CON_NAMES = 4  # 1: reads only to tell followed-by from before
CON_SEED = 5  # extension seeded by a decided pair
CON_SIDES = 6
SIDE_LO = 0  # words of the slot: lowest and highest partner id
SIDE_LATER = 1  # word with the last partner that ended before this one began; NOWHERE if not asked
SIDE_EARLIER = 2  # word with the first partner that begins after this one ended
SIDE_WALK = 3  # WALK_*
SIDE_ALLOWED = 4  # relations of this side to its partner, for walks that check
SIDE_NAME = 5  # word with the id of the partner that this one follows immediately
SIDE_BEST = 6  # word with the best that partners offer; NOWHERE where nothing is kept of it
# the same of the partners in one range alone: this word, where there are no others
SIDE_BEST_LATER = 7  # of those that ended before this one began
SIDE_BEST_EARLIER = 8  # of those that begin after this one ended
SIDE_ENDED = (
    9  # word of the partition: the best of all partners that have ended, for one that begins
)
SIDE_WORDS = 10
CON_WORDS = CON_SIDES + 2 * SIDE_WORDS

#: How the partners of an interval lie between its lowest and its highest partner.
#: Runs of one symbol are disjoint and ordered, so at most one partner reaches over the interval's
#: start and at most one over its end; those in between are all *contained*.
WALK_ALL = 0  # contained ones are partners too: every id
WALK_ENDS = 1  # they are not: only the lowest and the highest
WALK_ALL_CHECKED = 2  # followed-by may leave a hole: look at the endpoints
WALK_ENDS_CHECKED = 3  # two at either end, checked

INC_CONSTRAINT = 0
INC_SIDE = 1
INC_WORDS = 2

# a seed: which steps complete a match from it
SEED_FIRST = 0
SEED_END = 1
#: The first of its steps from which on none asks for what the steps before it bound.
SEED_SPLIT = 2
SEED_WORDS = 3

# a step: bind one more symbol; with what the walk needs of the constraint and of the symbols
STEP_TARGET = 0
STEP_SOURCE = 1  # the symbol that is already bound
STEP_RING = 2  # of the target
STEP_WIDTH = 3
STEP_LO = 4  # SIDE_* of the source's side
STEP_LATER = 5
STEP_EARLIER = 6
STEP_WALK = 7
STEP_ALLOWED = 8
STEP_MET = 9  # SIDE_LATER of the target's side
STEP_CHECKS = 10
STEP_CHECKS_END = 11
STEP_WORDS = 12

# the ranges in which partners lie, in the order they are walked
PIECE_PAIRS = 1
PIECE_LATER = 2  # partners that ended before the bound interval began
PIECE_EARLIER = 3  # partners that began after it ended

# a check: a constraint between the target and a symbol bound before
CHECK_CONSTRAINT = 0  # NOWHERE: only that the two are not the same interval
CHECK_SIDE = 1  # the target's side
CHECK_OTHER = 2
CHECK_WORDS = 3

# an output word: what, of which symbol, which word
OUT_SLOT_WORD = 0  # a word of the symbol's slot, as it is
OUT_NAMED = 1  # 1 if symbol OUT_SYMBOL immediately follows OUT_OTHER
OUT_KIND = 0
OUT_SYMBOL = 1
OUT_WORD = 2
OUT_OTHER = 3
OUT_WORDS = 4

# an aggregate cell
CELL_KIND = 0
CELL_COLUMN = 1
CELL_WORD = 2
CELL_WORDS = 3

# the columns of result rows: partition, report time, phase, then the output words
ROW_PARTITION = 0
ROW_TIME = 1
ROW_PHASE = 2
ROW_OUTPUTS = 3
PHASE_TRIGGER = 0
PHASE_COMPLETION = 1

# -- matches that wait for their completion (EMIT ON BOTH): a store of fixed records ---------------
WAITING_FREE = 0  # head of the list of free records
WAITING_USED = 1  # records ever taken
WAITING_WORDS = 2  # then the records: how many intervals are open, then by symbol the start, the
WAITING_OPEN = 0  # next match that waits for the same interval, and at last the output words
WAITING_STARTS = 1

# -- what the loops keep while they work ---------------------------------------------------------
SCRATCH_ROWS = 0  # result rows written
SCRATCH_FOUND = 1  # matches found at this event
SCRATCH_ITEM = 2  # where the search for matches stopped for want of room
SCRATCH_SEED = 3
SCRATCH_DEPTH = 4
SCRATCH_STEPS = 5  # work done: candidates that extension looked at
SCRATCH_VISITS = 6  # and partners that reach was offered to
SCRATCH_AGAIN = 7  # two words: the matches that extension repeats
SCRATCH_BOUND = 9  # 2n words: slot id and place by symbol, then the walk, then rows aggregated
WALK_WORDS = 6
