"""TPStream's matcher: buffers of finished intervals, joined by range queries (its Algorithm 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from experiments.peers.parts.allen import OPEN, decided, partners, relation_of
from experiments.peers.pattern import Ints, Pattern
from piestream.relations import Relation

#: Positions in the array of counters.
PROBES, PARTIAL, CALLS, SUBSETS, PLANS, DUPLICATES, PEAK, INTERVALS = range(8)
COUNTER_NAMES = (
    "probes",
    "partial_results",
    "matcher_calls",
    "subsets",
    "plans",
    "duplicates",
    "peak_stored",
    "intervals",
)
N_COUNTERS = len(COUNTER_NAMES)

_MOST_RELATIONS = 15


class Tables(NamedTuple):
    """What the pattern says, as arrays over its symbols."""

    #: int64[n, n]: the relations allowed of row to column.
    allowed: Ints
    #: int64[n, n]: the neighbours of each symbol, int64[n]: how many.
    adjacent: Ints
    degree: Ints
    #: int64[n, n]: how many relations a constraint has, so how often a buffer is searched.
    searches: Ints


class Planning(NamedTuple):
    """How evaluation orders are chosen: the cost model's statistics and when they count."""

    #: float64[n, n]: the selectivities that the first orders are made for.
    shares: np.ndarray
    #: How much an observation counts in the statistics; 0: the first orders stay.
    alpha: float
    #: The relative change of a statistic that makes new orders.
    threshold: float
    #: Whether costs are those of the paper's equation (2) as printed.
    as_printed: bool


class Buffers(NamedTuple):
    """The finished intervals of each symbol: rings of starts and ends, both in increasing order."""

    ts: Ints
    te: Ints
    #: The first that is held.
    head: Ints


class Call(NamedTuple):
    """What a call of the matcher is about."""

    #: The time of the report.
    time: int
    #: In which order the symbols are bound.
    order: Ints
    #: Whether a complete prefix group of relations decides a pair.
    groups: bool
    alpha: float
    keep: bool


class WorkingSet(NamedTuple):
    """The intervals of one call, and what may be joined with them; arrays over the symbols."""

    #: Which symbols are bound beforehand; start and end of what is bound.
    preset: np.ndarray
    bs: Ints
    be: Ints
    #: The buffers end here for this call; whether their last interval ended at this instant.
    limit: Ints
    ended: np.ndarray
    #: Whether the open interval of a symbol may be joined, and its start.
    slot: np.ndarray
    slot_ts: Ints
    #: bool[n, n]: pairs of symbols whose two current intervals (open, or ended at this instant)
    #: must not appear together, because those matches were reported already.
    reported: np.ndarray
    #: float64[n, n]: the observed selectivities.
    shares: np.ndarray
    #: Room for index ranges.
    ranges: Ints
    common: Ints
    found: Ints
    counters: Ints


def tables_of(pattern: Pattern) -> Tables:
    """The tables of a pattern."""
    # followed-by beside before changes nothing (others were refused); a buffer's range for it
    # would be everything.
    precise = int(Relation.FOLLOWED_BY | Relation.FOLLOWS)
    allowed = pattern.relation_matrix() & ~precise
    adjacent, degree = pattern.neighbour_table()
    return Tables(allowed, adjacent, degree, np.bitwise_count(allowed).astype(np.int64))


@njit(cache=True, nogil=True)
def empty_working_set(shares: np.ndarray) -> WorkingSet:
    """A working set of nothing, the counters at nought."""
    n = len(shares)
    room = _MOST_RELATIONS * n + 1
    return WorkingSet(
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.int64),
        np.zeros((n, n), dtype=np.bool_),
        shares.copy(),
        np.empty((n, room, 2), dtype=np.int64),
        np.empty((room, 2), dtype=np.int64),
        np.empty((_MOST_RELATIONS, 2), dtype=np.int64),
        np.zeros(N_COUNTERS, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def grown(ring: Ints, head: Ints, tail: Ints) -> Ints:
    """The same rings (one a row) with twice the room; logical indices stay as they are."""
    rows, room = ring.shape
    larger = np.empty((rows, 2 * room), dtype=np.int64)
    for row in range(rows):
        for at in range(head[row], tail[row]):
            larger[row, at & (2 * room - 1)] = ring[row, at & (room - 1)]
    return larger


@njit(cache=True, nogil=True)
def longer(rows: Ints) -> Ints:
    """The same matches with room for twice as many."""
    larger = np.empty((2 * len(rows), rows.shape[1]), dtype=np.int64)
    larger[: len(rows)] = rows
    return larger


@njit(cache=True, nogil=True)
def find_matches(
    symbol: int,
    bound: np.ndarray,
    into: Ints,
    tables: Tables,
    working: WorkingSet,
    buffers: Buffers,
    alpha: float,
) -> int:
    """The index ranges of one buffer that satisfy all applicable constraints; how many there are.

    Each relation gives a contiguous range; a constraint is the union of its relations' ranges,
    several constraints are the intersection of theirs. ``into`` takes rows of [low, high).
    """
    ts, te, head = buffers
    wrap = ts.shape[1] - 1
    start, limit = head[symbol], working.limit[symbol]
    found, common, counters = working.found, working.common, working.counters
    bs, be, shares = working.bs, working.be, working.shares
    into[0, 0], into[0, 1] = start, limit
    count = 1 if limit > start else 0
    if count == 0:
        return 0
    steps = 1
    while (limit - start) >> steps:
        steps += 1
    for k in range(tables.degree[symbol]):
        other = tables.adjacent[symbol, k]
        if not bound[other]:
            continue
        relations = tables.allowed[other, symbol]
        ranges = 0
        hits = 0
        for position in range(_MOST_RELATIONS):
            if not (relations >> position) & 1:
                continue
            low, high = partners(
                position, bs[other], be[other], ts[symbol], te[symbol], start, limit, wrap
            )
            counters[PROBES] += 4 * steps
            if low >= high:
                continue
            hits += high - low
            at = ranges
            while at > 0 and found[at - 1, 0] > low:
                found[at, 0], found[at, 1] = found[at - 1, 0], found[at - 1, 1]
                at -= 1
            found[at, 0], found[at, 1] = low, high
            ranges += 1
        if alpha > 0:
            share = hits / (limit - start)
            shares[symbol, other] += alpha * (share - shares[symbol, other])
            shares[other, symbol] = shares[symbol, other]
        # Neighbouring ranges become one, and what remains is cut with what there was.
        kept = 0
        for at in range(ranges):
            if kept > 0 and found[at, 0] <= found[kept - 1, 1]:
                found[kept - 1, 1] = max(found[kept - 1, 1], found[at, 1])
            else:
                found[kept, 0], found[kept, 1] = found[at, 0], found[at, 1]
                kept += 1
        both = 0
        i = j = 0
        while i < count and j < kept:
            low, high = max(into[i, 0], found[j, 0]), min(into[i, 1], found[j, 1])
            if low < high:
                common[both, 0], common[both, 1] = low, high
                both += 1
            if into[i, 1] < found[j, 1]:
                i += 1
            else:
                j += 1
        for at in range(both):
            into[at, 0], into[at, 1] = common[at, 0], common[at, 1]
        count = both
        if count == 0:
            return 0
    return count


@njit(cache=True, nogil=True)
def perform_match(
    call: Call,
    tables: Tables,
    working: WorkingSet,
    buffers: Buffers,
    out: Ints,
    count: int,
) -> tuple[Ints, int]:
    """Complete a working set in all ways; the matches, appended to those before.

    The symbols that are not preset take their intervals from the buffers and, where ``slot``
    allows it, from the open ones.

    One function: each array that a loop hands to another, or replaces, costs two atomic counts,
    which together would cost more than an event does.
    """
    time, order, groups, alpha, keep = call
    ts, te, _ = buffers
    allowed, adjacent, degree = tables.allowed, tables.adjacent, tables.degree
    preset, bs, be, limit = working.preset, working.bs, working.be, working.limit
    counters = working.counters
    n = len(order)
    wrap = ts.shape[1] - 1
    counters[CALLS] += 1
    bound = preset.copy()
    current = preset.copy()
    ranges = working.ranges
    stack = np.zeros((4, n), dtype=np.int64)
    n_ranges, at_range, at_index, slot_left = stack[0], stack[1], stack[2], stack[3]
    level = 0
    entering = True
    while level >= 0:
        if level == n:
            if keep:
                if count == len(out):
                    out = longer(out)
                out[count, 0] = time
                for symbol in range(n):
                    out[count, 1 + symbol] = bs[symbol]
            count += 1
            level -= 1
            entering = False
            continue
        symbol = order[level]
        if preset[symbol]:
            if entering:
                agreed = True
                for k in range(degree[symbol]):
                    other = adjacent[symbol, k]
                    if not bound[other]:
                        continue
                    counters[PROBES] += 1
                    if groups:
                        agreed = decided(
                            allowed[symbol, other], bs[symbol], be[symbol], bs[other], be[other]
                        )
                    else:
                        position = relation_of(bs[symbol], be[symbol], bs[other], be[other])
                        agreed = (allowed[symbol, other] >> position) & 1 == 1
                    if not agreed:
                        break
                entering = agreed
                level += 1 if agreed else -1
            else:
                level -= 1
            continue
        if entering:
            n_ranges[level] = find_matches(
                symbol, bound, ranges[level], tables, working, buffers, alpha
            )
            at_range[level] = 0
            if n_ranges[level]:
                at_index[level] = ranges[level, 0, 0]
            slot_left[level] = 1 if working.slot[symbol] else 0
        else:
            bound[symbol] = False
            current[symbol] = False
        # The next candidate that is not one of the pairs reported already.
        taken = False
        while not taken:
            if at_range[level] < n_ranges[level]:
                index = at_index[level]
                if index + 1 < ranges[level, at_range[level], 1]:
                    at_index[level] += 1
                else:
                    at_range[level] += 1
                    if at_range[level] < n_ranges[level]:
                        at_index[level] = ranges[level, at_range[level], 0]
                bs[symbol], be[symbol] = ts[symbol, index & wrap], te[symbol, index & wrap]
                current[symbol] = working.ended[symbol] and index == limit[symbol] - 1
                taken = True
            elif slot_left[level] == 1:
                slot_left[level] = 0
                bs[symbol], be[symbol] = working.slot_ts[symbol], OPEN
                current[symbol] = True
                taken = True
                for k in range(degree[symbol]):
                    other = adjacent[symbol, k]
                    if not bound[other]:
                        continue
                    counters[PROBES] += 1
                    if not decided(allowed[symbol, other], bs[symbol], OPEN, bs[other], be[other]):
                        taken = False
                        break
            else:
                break
            counters[PROBES] += 1
            if taken and current[symbol]:
                for k in range(degree[symbol]):
                    other = adjacent[symbol, k]
                    if working.reported[symbol, other] and bound[other] and current[other]:
                        taken = False
                        break
        if not taken:
            current[symbol] = False
            level -= 1
            entering = False
            continue
        bound[symbol] = True
        counters[PARTIAL] += 1
        level += 1
        entering = True
    return out, count
