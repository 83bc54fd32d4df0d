"""TPStream's low-latency matcher without its faults: no powersets, every match once, on time.

An open interval is one more candidate of its symbol. A match is reported at the instant at which
its last pair is decided and its last interval is valid, so at each instant the work begins with
what makes that instant special:

1. an interval that becomes valid now (it starts, has lasted long enough, or ends): every match
   with it is new;
2. a pair that is decided now by the end of one of its intervals: every match with that pair is.

They are processed in this order, and what was processed is left out of what follows: no match is
found twice.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from experiments.pace import await_due, room_of
from experiments.peers.parts.allen import (
    CONTAINS,
    DURING,
    EQUALS,
    ON_START,
    OPEN,
    OVERLAPPED_BY,
    OVERLAPS,
    STARTED_BY,
    STARTS,
    group_complete,
    relation_of,
)
from experiments.peers.parts.tpstream_join import (
    INTERVALS,
    PEAK,
    PLANS,
    Buffers,
    Call,
    Planning,
    Tables,
    WorkingSet,
    empty_working_set,
    grown,
    perform_match,
)
from experiments.peers.parts.tpstream_plan import best_orders, deviates, shares_deviate
from experiments.peers.pattern import Ints

# States of a symbol.
_NONE, _HIDDEN, _VISIBLE = 0, 1, 2


@njit(cache=True, nogil=True)
def start_decides(tables: Tables, symbol: int, later: bool) -> bool:
    """Whether all constraints of a symbol can be decided by an interval of it that is open.

    At its start (TPStream's ``match on start``), or ``later``, while it goes on: then its
    partner may also have ended inside it. If one constraint cannot, no match begins here.
    """
    for k in range(tables.degree[symbol]):
        relations = tables.allowed[symbol, tables.adjacent[symbol, k]]
        possible = (
            relations & ON_START != 0
            or group_complete(relations, STARTS)
            or group_complete(relations, DURING)
        )
        if later:
            # The partner has ended inside this one, or has started inside it.
            inside = 1 << CONTAINS | 1 << STARTED_BY | 1 << OVERLAPPED_BY
            possible = possible or relations & inside != 0 or group_complete(relations, OVERLAPS)
        if not possible:
            return False
    return True


@njit(cache=True, nogil=True)
def _decided_by_end(allowed: int, start: int, end: int, other: int, other_end: int) -> bool:
    """Whether the end of an interval, at this instant, decides a pair that was open till now."""
    position = relation_of(start, end, other, other_end)
    if not (allowed >> position) & 1 or position < OVERLAPS or position > OVERLAPPED_BY:
        return False
    if group_complete(allowed, position):
        return False  # since the later start
    # In each group the relations are in order of the ends: first, together, last.
    return position % 3 == (OVERLAPS if other_end == OPEN else EQUALS) % 3


@njit(cache=True, nogil=True)
def corrected(
    times: Ints,
    masks: Ints,
    tables: Tables,
    window: int,
    lengths: tuple[Ints, Ints],
    planning: Planning,
    keep: bool,
    pace: Ints,
) -> tuple[Ints, int, Ints]:
    """The matches, how many there are, and the counters; ``lengths``: shortest and longest.

    One function: each array that a loop hands to another, or replaces, costs two atomic counts,
    which together would cost more than an event does.
    """
    shortest, longest = lengths
    initial_shares, alpha, threshold, as_printed_costs = planning
    n = len(shortest)
    clock = np.zeros(3, dtype=np.int64)
    allowed, adjacent, degree = tables.allowed, tables.adjacent, tables.degree
    working: WorkingSet = empty_working_set(initial_shares)
    bs, be, preset, limit = working.bs, working.be, working.preset, working.limit
    counters = working.counters
    out = np.empty((room_of(pace), 1 + n), dtype=np.int64)
    count = 0

    ts = np.empty((n, 64), dtype=np.int64)
    te = np.empty((n, 64), dtype=np.int64)
    head = np.zeros(n, dtype=np.int64)
    tail = np.zeros(n, dtype=np.int64)
    state = np.zeros(n, dtype=np.int64)
    opened = np.zeros(n, dtype=np.int64)
    new_open = np.zeros(n, dtype=np.bool_)
    new_ended = np.zeros(n, dtype=np.bool_)
    on_start = np.zeros(n, dtype=np.bool_)
    on_later = np.zeros(n, dtype=np.bool_)
    for symbol in range(n):
        on_start[symbol] = start_decides(tables, symbol, False)
        on_later[symbol] = start_decides(tables, symbol, True)

    sizes = np.zeros(n)
    sizes_then, shares_then = sizes.copy(), working.shares.copy()
    orders = best_orders(tables, sizes, working.shares, as_printed_costs)
    previous = 0
    next_due = OPEN  # when a hidden interval may have lasted long enough
    for row in range(len(times)):
        if pace.size:
            await_due(pace, row, clock)
        t, mask = times[row], masks[row]
        changed = mask ^ previous
        previous = mask
        if changed == 0 and t < next_due:
            continue
        # The deriver: ends, starts, and intervals that have lasted long enough.
        anything = False
        next_due = OPEN
        for symbol in range(n):
            new_open[symbol] = False
            new_ended[symbol] = False
            working.ended[symbol] = False
            holds = mask >> symbol & 1
            if changed >> symbol & 1:
                if holds:
                    opened[symbol] = t
                    state[symbol] = _HIDDEN
                else:
                    lasted = t - opened[symbol]
                    if shortest[symbol] <= lasted <= longest[symbol]:
                        if tail[symbol] - head[symbol] == ts.shape[1]:
                            ts, te = grown(ts, head, tail), grown(te, head, tail)
                        at = tail[symbol] & (ts.shape[1] - 1)
                        ts[symbol, at], te[symbol, at] = opened[symbol], t
                        tail[symbol] += 1
                        counters[INTERVALS] += 1
                        new_ended[symbol] = state[symbol] == _HIDDEN
                        working.ended[symbol] = state[symbol] == _VISIBLE
                        anything = True
                    state[symbol] = _NONE
            if state[symbol] == _HIDDEN and longest[symbol] == OPEN:
                if t - opened[symbol] >= shortest[symbol]:
                    state[symbol] = _VISIBLE
                    new_open[symbol] = True
                    anything = True
                else:
                    next_due = min(next_due, opened[symbol] + shortest[symbol])
        if not anything:
            continue

        oldest = t - window
        stored = 0
        for symbol in range(n):
            while head[symbol] < tail[symbol] and (
                ts[symbol, head[symbol] & (ts.shape[1] - 1)] < oldest
            ):
                head[symbol] += 1
            limit[symbol] = tail[symbol]
            working.slot[symbol] = state[symbol] == _VISIBLE and opened[symbol] >= oldest
            working.slot_ts[symbol] = opened[symbol]
            stored += tail[symbol] - head[symbol] + (state[symbol] != _NONE)
        counters[PEAK] = max(counters[PEAK], stored)

        # 1. Intervals that become valid now.
        for symbol in range(n):
            if not (new_open[symbol] or new_ended[symbol]):
                continue
            start = opened[symbol]
            if new_open[symbol]:
                working.slot[symbol] = False
                tries = on_start[symbol] if start == t else on_later[symbol]
            else:
                limit[symbol] -= 1
                tries = limit[symbol] >= head[symbol]
            if start < oldest or not tries:
                continue
            preset[symbol] = True
            bs[symbol] = start
            be[symbol] = OPEN if new_open[symbol] else t
            out, count = perform_match(
                Call(t, orders[symbol], True, alpha, keep),
                tables, working, Buffers(ts, te, head), out, count,
            )  # fmt: skip
            preset[symbol] = False

        # 2. Pairs that are decided now, by an end.
        for symbol in range(n):
            if not working.ended[symbol] or opened[symbol] < oldest:
                continue
            for k in range(degree[symbol]):
                other = adjacent[symbol, k]
                together = working.ended[other]
                if together and (other < symbol or opened[other] < oldest):
                    continue
                if not together and not working.slot[other]:
                    continue
                other_end = t if together else OPEN
                if not _decided_by_end(
                    allowed[symbol, other], opened[symbol], t, opened[other], other_end
                ):
                    continue
                preset[symbol] = preset[other] = True
                bs[symbol], be[symbol] = opened[symbol], t
                bs[other], be[other] = opened[other], other_end
                out, count = perform_match(
                    Call(t, orders[symbol], True, alpha, keep),
                    tables, working, Buffers(ts, te, head), out, count,
                )  # fmt: skip
                preset[symbol] = preset[other] = False
                working.reported[symbol, other] = working.reported[other, symbol] = True
        for symbol in range(n):
            if working.ended[symbol]:
                for k in range(degree[symbol]):
                    other = adjacent[symbol, k]
                    working.reported[symbol, other] = working.reported[other, symbol] = False

        if alpha > 0:
            for symbol in range(n):
                sizes[symbol] += alpha * (tail[symbol] - head[symbol] - sizes[symbol])
            if deviates(sizes, sizes_then, threshold) or shares_deviate(
                working.shares, shares_then, adjacent, degree, threshold
            ):
                sizes_then[:] = sizes
                shares_then[:] = working.shares
                orders = best_orders(tables, sizes, working.shares, as_printed_costs)
                counters[PLANS] += 1
    if pace.size:
        await_due(pace, len(times), clock)
    return out[:count].copy() if keep else out[:0].copy(), count, counters
