"""ISEQ over intervals that come as rows, as its paper has them: those of one type may overlap.

The forms are those of `experiments.peers.iseq`, over two stacks a symbol. The *end stack* holds whole
intervals in order of their ends, that is of arrival. The *start stack* holds begin punctuations in
order of their starts, which become whole intervals where they stand; it is kept where a start is on the
index path. A scan goes down from the newest entry, or from the one that is pointed at, and is over at the
first entry that is too early for what is bound, in the order of its own stack; ``naive`` scans to the
bottom.

What leaves the window need not be at the bottom of an end stack: it is passed over, and goes when all
below it has gone. The text's own rule, that an entry goes with the one that it points at, is unsound
there; here it goes when nothing at or below its pointer is left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from experiments.peers.iseq import Plan, hopeless, plan_of, roles
from experiments.peers.parts.allen import OPEN, relation_of
from experiments.peers.parts.restrictions import AT_MOST, NOTHING
from experiments.peers.parts.tpstream_join import grown, longer
from experiments.peers.pattern import Ints, Pattern, Result

__all__ = ["COLUMNS", "NAMES", "arrivals", "matcher"]

#: The columns of the rows that are read: ``is_end`` is 0 for a begin punctuation; ``symbol`` is -1
#: for a type that the query does not name, whose intervals only move the clock.
COLUMNS = ("time", "is_end", "symbol", "start", "number")
_TIME, _IS_END, _SYMBOL, _START, _NUMBER = range(len(COLUMNS))

NAMES = ("probes", "constructions", "dropped", "dropped_starts", "cascaded", "peak_stored")
_PROBES, _CONSTRUCTIONS, _DROPPED, _DROPPED_STARTS, _CASCADED, _PEAK = range(len(NAMES))

#: What is kept of an entry: its interval, and what its start and its end point at.
_TS, _TE, _BELOW_START, _BELOW_END, _WHO = range(5)
#: The end of an interval that was dropped, or ended outside.
_GONE = -1
_NEVER = np.iinfo(np.int64).min


def arrivals(symbols: Ints, starts: Ints, ends: Ints, *, punctuated: bool) -> Ints:
    """The rows in order of arrival: whole intervals at their ends, punctuations at their starts.

    >>> arrivals(np.array([0, 1]), np.array([1, 2]), np.array([9, 5]), punctuated=False).tolist()
    [[5, 1, 1, 2, 1], [9, 1, 0, 1, 0]]
    """
    numbers = np.arange(len(symbols))
    begun = np.flatnonzero(symbols >= 0) if punctuated else numbers[:0]
    times = np.concatenate([ends, starts[begun]])
    is_end = np.arange(len(times)) < len(symbols)
    # Ends before starts of one time. The sort is of two stretches that are almost in order already.
    order = np.argsort(2 * times + ~is_end, kind="stable")
    number = np.concatenate([numbers, begun])[order]
    rows = np.empty((len(order), len(COLUMNS)), np.int64)
    rows[:, _TIME], rows[:, _IS_END], rows[:, _NUMBER] = times[order], is_end[order], number
    rows[:, _SYMBOL], rows[:, _START] = symbols[number], starts[number]
    return rows


def matcher(pattern: Pattern, form: str = "ibp", *, keep: bool = True) -> Callable[[Ints], Result]:
    """The method over rows in order of arrival; ``ibp`` wants punctuations among them.

    A match is its report and the number of each symbol's interval.

    >>> from piestream.relations import Relation
    >>> rows = arrivals(np.array([0, 1]), np.array([1, 2]), np.array([4, 5]), punctuated=True)
    >>> matcher(Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100))(rows).matches.tolist()
    [[5, 0, 1]]
    """
    plan = plan_of(pattern, form, keep)

    def match(rows: Ints) -> Result:
        matches, count, counters = _run(rows, plan)
        named = dict(zip(NAMES, (int(value) for value in counters), strict=True))
        return Result(matches, count, named | {"events": len(rows)})

    return match


@njit(cache=True, nogil=True)
def _construct(
    trigger: int,
    time: int,
    plan: Plan,
    stacks: Ints,
    head: Ints,
    tail: Ints,
    scratch: Ints,
    out: Ints,
    count: int,
    counters: Ints,
) -> tuple[Ints, int]:
    """All matches of the newest interval of a symbol with what is held, depth first."""
    order, pointer, related, allowed = plan.order, plan.pointer, plan.related, plan.allowed
    n = len(order)
    wrap = stacks.shape[2] - 1
    oldest = time - plan.window
    probes = 0
    # By symbol, the stack and the entry that is bound; by level, the entry looked at last and bounds.
    stack_of, chosen, last = scratch[0], scratch[1], scratch[2]
    lowest, lowest_end = scratch[3], scratch[4]
    stack_of[trigger], chosen[trigger] = 2 * trigger + 1, tail[2 * trigger + 1] - 1
    level = 1
    entering = True
    while level > 0:
        if level == n:
            if plan.keep:
                if count == len(out):
                    out = longer(out)
                out[count, 0] = time
                for symbol in range(n):
                    out[count, 1 + symbol] = stacks[_WHO, stack_of[symbol], chosen[symbol] & wrap]
            count += 1
            level -= 1
            entering = False
            continue
        symbol = order[trigger, level]
        if entering:
            low, low_end = oldest, _NEVER
            if plan.in_order:
                for k in range(level):
                    other = related[trigger, level, k]
                    if other < 0:
                        break
                    for side in range(2):
                        value = stacks[side, stack_of[other], chosen[other] & wrap]
                        strength = plan.implied[2 * other + side, 2 * symbol]
                        if strength != NOTHING:
                            low = max(low, value + strength - AT_MOST)
                        strength = plan.implied[2 * other + side, 2 * symbol + 1]
                        if strength != NOTHING:
                            low_end = max(low_end, value + strength - AT_MOST)
            stack = 2 * symbol + 1
            higher = pointer[trigger, level]
            # A start stack whose order bounds nothing is left alone where that of the ends does.
            if higher >= 0 and (plan.below[higher] & 1 or low > oldest or low_end == _NEVER):
                stack = plan.below[higher]
                above = higher // 2
                pointed = _BELOW_END if higher & 1 else _BELOW_START
                pointer_to = stacks[pointed, stack_of[above], chosen[above] & wrap]
                at = min(tail[stack], pointer_to)
            else:
                at = tail[stack]
            stack_of[symbol] = stack
            lowest[level], lowest_end[level] = low, low_end
        else:
            at, stack = last[level], stack_of[symbol]
            low, low_end = lowest[level], lowest_end[level]
        found = False
        while not found and at > head[stack]:
            at -= 1
            probes += 1
            start, end = stacks[_TS, stack, at & wrap], stacks[_TE, stack, at & wrap]
            if plan.in_order and (end < low_end if stack & 1 else start < low):
                break  # and so are all below
            if start < low or end in (OPEN, _GONE):
                continue
            found = True
            for k in range(level):
                other = related[trigger, level, k]
                if other < 0:
                    break
                there = chosen[other] & wrap
                position = relation_of(
                    start,
                    end,
                    stacks[_TS, stack_of[other], there],
                    stacks[_TE, stack_of[other], there],
                )
                if not (allowed[symbol, other] >> position) & 1:
                    found = False
                    break
        if found:
            last[level] = chosen[symbol] = at
            level += 1
            entering = True
        else:
            level -= 1
            entering = False
    counters[_CONSTRUCTIONS] += 1
    counters[_PROBES] += probes
    return out, count


@njit(cache=True, nogil=True)
def _purge(
    oldest: int,
    plan: Plan,
    stacks: Ints,
    head: Ints,
    tail: Ints,
    is_open: np.ndarray,
    purged: np.ndarray,
    counters: Ints,
) -> None:
    """Take from the bottoms of the stacks what left the window, and then what needs what is no more."""
    wrap = stacks.shape[2] - 1
    again = False
    for stack in range(len(head)):
        while head[stack] < tail[stack] and (
            stacks[_TS, stack, head[stack] & wrap] < oldest
            or stacks[_TE, stack, head[stack] & wrap] == _GONE
        ):
            head[stack] += 1
            purged[stack] = again = True
    while again:
        again = False
        for stack in range(len(head)):
            if not purged[stack]:
                continue
            purged[stack] = False
            higher = plan.above[stack]
            if higher >= 0 and higher // 2 != stack // 2:
                # Nothing is left at or below the pointer of the oldest entry above.
                pointed = _BELOW_END if higher & 1 else _BELOW_START
                while head[higher] < tail[higher] and (
                    stacks[pointed, higher, head[higher] & wrap] <= head[stack]
                ):
                    head[higher] += 1
                    counters[_CASCADED] += 1
                    purged[higher] = again = True
            if stack & 1 == 0 or head[stack] < tail[stack]:
                continue
            for end in range(1, len(head), 2):
                if head[end] < tail[end] and hopeless(
                    end, plan.implied, head[1::2], tail[1::2], is_open, plan.ibp
                ):
                    counters[_CASCADED] += tail[end] - head[end]
                    head[end] = tail[end]
                    purged[end] = again = True


@njit(cache=True, nogil=True)
def _run(rows: Ints, plan: Plan) -> tuple[Ints, int, Ints]:
    """The matches, how many there are, and the counters.

    One function, as of runs: parts that are handed the stacks take half as long again.
    """
    n = len(plan.order)
    counters = np.zeros(len(NAMES), dtype=np.int64)
    out = np.empty((64, 1 + n), dtype=np.int64)
    count = 0
    # Of each endpoint, the stack in its order.
    stacks = np.zeros((5, 2 * n, 64), dtype=np.int64)
    head, tail = np.zeros(2 * n, dtype=np.int64), np.zeros(2 * n, dtype=np.int64)
    heads, tails = head[1::2], tail[1::2]
    n_open = np.zeros(n, dtype=np.int64)  # begin punctuations whose intervals have not ended
    is_open = np.zeros(n, dtype=np.bool_)  # whether there are any
    purged = np.zeros(2 * n, dtype=np.bool_)
    place = np.full(1 + rows[:, _NUMBER].max() if len(rows) else 1, _GONE, dtype=np.int64)
    scratch = np.zeros((5, n), dtype=np.int64)
    triggers, last = roles(plan.implied)
    for at in range(len(rows)):
        time, symbol = rows[at, _TIME], rows[at, _SYMBOL]
        start, number = rows[at, _START], rows[at, _NUMBER]
        _purge(time - plan.window, plan, stacks, head, tail, is_open, purged, counters)
        if symbol < 0:
            continue
        wrap = stacks.shape[2] - 1
        by_start, by_end = 2 * symbol, 2 * symbol + 1
        is_indexed = plan.below[by_start] >= 0 or plan.above[by_start] >= 0
        if max(tail[by_start] - head[by_start], tail[by_end] - head[by_end]) > wrap:
            larger = np.zeros((5, 2 * n, 2 * stacks.shape[2]), dtype=np.int64)
            for k in range(5):
                larger[k] = grown(stacks[k], head, tail)
            stacks = larger
            wrap = stacks.shape[2] - 1
        if not rows[at, _IS_END]:
            if hopeless(by_start, plan.implied, heads, tails, is_open, True):
                counters[_DROPPED_STARTS] += 1
                continue
            n_open[symbol] += 1
            is_open[symbol] = True
            place[number] = 0
            if is_indexed:
                top = tail[by_start]
                place[number] = top
                below = plan.below[by_start]
                stacks[_TS, by_start, top & wrap] = start
                stacks[_TE, by_start, top & wrap] = OPEN
                stacks[_BELOW_START, by_start, top & wrap] = tail[below] if below >= 0 else 0
                stacks[_WHO, by_start, top & wrap] = number
                tail[by_start] += 1
        else:
            held = place[number]
            dropped = plan.ibp and (held == _GONE or (is_indexed and held < head[by_start]))
            if plan.ibp and held != _GONE:
                n_open[symbol] -= 1
                is_open[symbol] = n_open[symbol] > 0
            if time - start > plan.window:
                dropped = True
            elif dropped or hopeless(by_end, plan.implied, heads, tails, is_open, plan.ibp):
                counters[_DROPPED] += 1
                dropped = True
            in_starts = plan.ibp and is_indexed and held != _GONE and held >= head[by_start]
            if dropped:
                if in_starts:
                    stacks[_TE, by_start, held & wrap] = _GONE
                continue
            top = tail[by_end]
            below = plan.below[by_end]
            from_end = tail[below] if below >= 0 else 0
            from_start = stacks[_BELOW_START, by_start, held & wrap] if in_starts else 0
            stacks[_TS, by_end, top & wrap] = start
            stacks[_TE, by_end, top & wrap] = time
            stacks[_BELOW_START, by_end, top & wrap] = from_start
            stacks[_BELOW_END, by_end, top & wrap] = from_end
            stacks[_WHO, by_end, top & wrap] = number
            tail[by_end] += 1
            if in_starts:
                stacks[_TE, by_start, held & wrap] = time
                stacks[_BELOW_END, by_start, held & wrap] = from_end
            counters[_PEAK] = max(counters[_PEAK], (tails - heads).sum() + n_open.sum())
            if triggers[symbol]:
                out, count = _construct(
                    symbol, time, plan, stacks, head, tail, scratch, out, count, counters
                )
            if last[symbol]:  # nothing that ends later can use it
                tail[by_end] -= 1
                if in_starts:
                    stacks[_TE, by_start, held & wrap] = _GONE
    return out[:count].copy() if plan.keep else out[:0].copy(), count, counters
