"""TPStream's low-latency matcher as published (EDBT 2018, Algorithm 4; Körber 2021, 5.4).

Open intervals are hidden from the buffers. At each trigger the matcher is called once for every
combination of them: ``2^|U|`` calls at a start and ``(2^|R| - 1) * 2^|U|`` at an end, where R are
the open symbols related to the trigger by a constraint and U the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from experiments.pace import await_due, room_of
from experiments.peers.parts.allen import BEFORE, ON_END, ON_START, OPEN
from experiments.peers.parts.tpstream_join import (
    DUPLICATES,
    INTERVALS,
    PEAK,
    PLANS,
    SUBSETS,
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


class Reading(NamedTuple):
    """How the printed text is read (see `tpstream.published_matcher`)."""

    ends_first: bool
    end_is_now: bool
    unrelated_only: bool
    purge_open: bool
    deduplicate: bool


@njit(cache=True, nogil=True)
def _match_on_end(tables: Tables, symbol: int) -> bool:
    """Whether some constraint is decided by the end of this symbol, and none must come later."""
    decides = False
    for k in range(tables.degree[symbol]):
        relations = tables.allowed[symbol, tables.adjacent[symbol, k]]
        decides = decides or relations & ON_END != 0
        if relations == 1 << BEFORE:
            return False
    return decides


@njit(cache=True, nogil=True)
def _match_on_start(tables: Tables, symbol: int) -> bool:
    """Whether the start of this symbol can be the last instant of a match.

    Every constraint of it must then be met-by or after. (A complete group of relations does not
    matter here: each relation decides for itself.)
    """
    for k in range(tables.degree[symbol]):
        if not tables.allowed[symbol, tables.adjacent[symbol, k]] & ON_START:
            return False
    return True


@njit(cache=True, nogil=True)
def _unrelated(subset: int, related: Ints) -> bool:
    """Whether no two symbols of a set share a constraint: open ends cannot be compared."""
    rest = subset
    symbol = 0
    while rest:
        if rest & 1 and related[symbol] & subset:
            return False
        rest >>= 1
        symbol += 1
    return True


@njit(cache=True, nogil=True)
def _without_repeats(out: Ints, first: int, count: int) -> int:
    """Drop matches of this instant that were found before at it; how many rows are left."""
    found = count - first
    if found < 2:
        return count
    room = 4
    while room < 2 * found:
        room *= 2
    slots = np.full(room, -1, dtype=np.int64)
    kept = first
    for row in range(first, count):
        mixed = np.uint64(1469598103934665603)
        for column in range(1, out.shape[1]):
            mixed = (mixed ^ np.uint64(out[row, column])) * np.uint64(1099511628211)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64(mixed & np.uint64(room - 1))
        repeated = False
        while slots[slot] >= 0:
            same = True
            for column in range(1, out.shape[1]):
                if out[slots[slot], column] != out[row, column]:
                    same = False
                    break
            if same:
                repeated = True
                break
            slot = (slot + 1) & (room - 1)
        if not repeated:
            slots[slot] = kept
            out[kept] = out[row]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _put(working: WorkingSet, members: int, opened: Ints, ends: Ints) -> None:
    """Make the working set these symbols' current intervals."""
    for symbol in range(len(opened)):
        chosen = members >> symbol & 1 == 1
        working.preset[symbol] = chosen
        if chosen:
            working.bs[symbol], working.be[symbol] = opened[symbol], ends[symbol]


@njit(cache=True, nogil=True)
def published(
    times: Ints,
    masks: Ints,
    tables: Tables,
    window: int,
    planning: Planning,
    reading: Reading,
    keep: bool,
    pace: Ints,
) -> tuple[Ints, int, Ints]:
    """The matches, how many there are, and the counters.

    One function: each array that a loop hands to another, or replaces, costs two atomic counts,
    which together would cost more than an event does.
    """
    initial_shares, alpha, threshold, as_printed_costs = planning
    ends_first, end_is_now, unrelated_only, purge_open, deduplicate = reading
    n = len(tables.degree)
    clock = np.zeros(3, dtype=np.int64)
    adjacent, degree = tables.adjacent, tables.degree
    working: WorkingSet = empty_working_set(initial_shares)
    counters = working.counters
    out = np.empty((room_of(pace), 1 + n), dtype=np.int64)
    count = 0
    rows = 0  # in out; as many as count, unless matches are only counted

    ts = np.empty((n, 64), dtype=np.int64)
    te = np.empty((n, 64), dtype=np.int64)
    head = np.zeros(n, dtype=np.int64)
    tail = np.zeros(n, dtype=np.int64)
    opened = np.zeros(n, dtype=np.int64)
    ends = np.full(n, OPEN, dtype=np.int64)
    related = np.zeros(n, dtype=np.int64)
    starts_match = np.zeros(n, dtype=np.bool_)
    ends_match = np.zeros(n, dtype=np.bool_)
    for symbol in range(n):
        for k in range(degree[symbol]):
            related[symbol] |= 1 << adjacent[symbol, k]
        starts_match[symbol] = _match_on_start(tables, symbol)
        ends_match[symbol] = _match_on_end(tables, symbol)

    sizes = np.zeros(n)
    sizes_then, shares_then = sizes.copy(), working.shares.copy()
    orders = best_orders(tables, sizes, working.shares, as_printed_costs)
    started = 0  # the started buffer: one bit a symbol
    previous = 0
    for row in range(len(times)):
        if pace.size:
            await_due(pace, row, clock)
        t, mask = times[row], masks[row]
        changed = mask ^ previous
        if changed == 0:
            continue
        finished, fresh = previous & ~mask, mask & ~previous
        previous = mask
        oldest = t - window
        stored = 0
        for symbol in range(n):
            if finished >> symbol & 1:
                ends[symbol] = t
                counters[INTERVALS] += 1
            elif fresh >> symbol & 1:
                opened[symbol] = t
                ends[symbol] = OPEN
            if end_is_now and mask >> symbol & 1:
                ends[symbol] = t
            while head[symbol] < tail[symbol] and (
                ts[symbol, head[symbol] & (ts.shape[1] - 1)] < oldest
            ):
                head[symbol] += 1
            stored += tail[symbol] - head[symbol] + (mask >> symbol & 1)
        counters[PEAK] = max(counters[PEAK], stored)

        first = rows
        for turn in range(2):
            if (turn == 0) == ends_first:
                # Lines 9-18: intervals that end.
                for s in range(n):
                    if not finished >> s & 1:
                        continue
                    started &= ~(1 << s)
                    if purge_open and opened[s] < oldest:
                        continue
                    if tail[s] - head[s] == ts.shape[1]:
                        ts, te = grown(ts, head, tail), grown(te, head, tail)
                    at = tail[s] & (ts.shape[1] - 1)
                    ts[s, at], te[s, at] = opened[s], t
                    tail[s] += 1
                    if not ends_match[s]:
                        continue
                    candidates = _within(started, opened, oldest) if purge_open else started
                    partners = candidates & related[s]
                    others = candidates & ~related[s]
                    working.limit[:] = tail
                    r = partners
                    while r:
                        u = others
                        while True:
                            counters[SUBSETS] += 1
                            if not unrelated_only or _unrelated((r | u) & mask, related):
                                _put(working, r | u | 1 << s, opened, ends)
                                out, rows = perform_match(
                                    Call(t, orders[s], False, alpha, True),
                                    tables, working, Buffers(ts, te, head), out, rows,
                                )  # fmt: skip
                            if not u:
                                break
                            u = (u - 1) & others
                        r = (r - 1) & partners
            else:
                # Lines 2-8: intervals that start.
                for s in range(n):
                    if not fresh >> s & 1:
                        continue
                    started |= 1 << s
                    if not starts_match[s]:
                        continue
                    candidates = _within(started, opened, oldest) if purge_open else started
                    others = candidates & ~related[s] & ~(1 << s)
                    working.limit[:] = tail
                    u = others
                    while True:
                        counters[SUBSETS] += 1
                        if not unrelated_only or _unrelated(u & mask, related):
                            _put(working, u | 1 << s, opened, ends)
                            out, rows = perform_match(
                                    Call(t, orders[s], False, alpha, True),
                                    tables, working, Buffers(ts, te, head), out, rows,
                                )  # fmt: skip
                        if not u:
                            break
                        u = (u - 1) & others

        if deduplicate:
            kept = _without_repeats(out, first, rows)
            counters[DUPLICATES] += rows - kept
            rows = kept
        count += rows - first
        if not keep:
            rows = 0
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
    return out[:rows].copy(), count, counters


@njit(cache=True, nogil=True)
def _within(started: int, opened: Ints, oldest: int) -> int:
    """The open symbols whose intervals started in the window."""
    kept = 0
    for symbol in range(len(opened)):
        if started >> symbol & 1 and opened[symbol] >= oldest:
            kept |= 1 << symbol
    return kept
