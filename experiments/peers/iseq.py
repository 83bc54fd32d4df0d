"""ISEQ (Li et al., DEBS 2011): finished intervals in order of their ends, restrictions, buffers.

Each interval enters when it has ended, so matches are reported when they are complete. The forms
of the paper's experiments are ``naive`` (nested loops over the buffers), ``indexed`` (active
instance stacks: along the longest chain of ordered ends an entry points at the newest one that may
go before it) and ``ibp`` (interval begin punctuations: starts are known when they happen, so the
chain may pass through starts, and hopeless intervals are dropped earlier). A buffer is in order of
its ends, so a scan from the newest entry downwards is over at the first one that ends, or starts,
too early for what is bound; ``ordered`` is naive with that alone, and ``indexed`` and ``ibp`` have it
too.

Taken from the text, with the errors in it put right: construction is suppressed only where the
end is *strictly* before another endpoint that is still to come; only strict restrictions drop and
purge; an entry is purged by its pointer only when nothing at or below the pointer is left. Cascades
run after a purge, and look only at what may have depended on what was purged. A restriction list is one convex set of relations a pair. Other sets would have to be several
queries; here, in ISEQ's favour, one query tests the set of each pair, and only what all its
relations have in common serves dropping, purging and the index. The intervals of a symbol never
overlap here, so buffers are purged from the front.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit

from experiments.pace import await_due, no_pace, room_of
from experiments.peers.forms import EVENTS, changes
from experiments.peers.parts.allen import relation_of
from experiments.peers.parts.derivers import Masks
from experiments.peers.parts.restrictions import (
    AT_MOST,
    LESS,
    NOTHING,
    closure,
    join_steps,
    longest_path,
    related_before,
)
from experiments.peers.parts.tpstream_join import grown, longer
from experiments.peers.pattern import Ints, Pattern, Result
from experiments.peers.peer import Matcher

__all__ = ["FORMS", "Plan", "hopeless", "matcher", "plan_of", "roles"]

_NAMES = (
    "intervals",
    "probes",
    "partial_results",
    "constructions",
    "dropped",
    "dropped_starts",
    "cascaded",
    "peak_stored",
)
(
    _INTERVALS,
    _PROBES,
    _PARTIAL,
    _CONSTRUCTIONS,
    _DROPPED,
    _DROPPED_STARTS,
    _CASCADED,
    _PEAK,
) = range(len(_NAMES))

FORMS = ("naive", "ordered", "indexed", "ibp")

#: What a construction keeps of each level: the entry looked at last, and the bounds of its scan.
_AT, _LOWEST_START, _LOWEST_END = range(3)
_NO_BOUND = np.iinfo(np.int64).min


class Plan(NamedTuple):
    """What the pattern and the form of the method say."""

    #: int64[n, n]: the relations allowed of row to column.
    allowed: Ints
    window: int
    shortest: Ints
    longest: Ints
    #: int64[2n, 2n]: what the restrictions imply of an endpoint (row) and another (column).
    implied: Ints
    #: int64[n, n]: the symbols in the order of joining, and what bounds the candidates of each.
    order: Ints
    pointer: Ints
    #: int64[n, n, n]: which of the symbols bound before it a constraint relates each to, then -1.
    related: Ints
    #: The endpoint below each on the index path and the one above, -1 for none.
    below: Ints
    above: Ints
    #: Whether a scan ends at the first entry that is too early.
    in_order: bool
    ibp: bool
    keep: bool


def matcher(
    pattern: Pattern, *, keep: bool = True, form: str = "ibp", pace: Ints | None = None
) -> Matcher:
    """The method; a match's report is the last of its ends. ``form`` is one of FORMS.

    The paper's window is strict (``max te - min ts < W``); this one includes ``window``, as all
    methods here do.

    >>> from piestream.relations import Relation
    >>> found = matcher(Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100))
    >>> found.over(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0]))().matches.tolist()
    [[4, 1, 2]]
    """
    plan = plan_of(pattern, form, keep)

    def match(given: Masks) -> Result:
        matches, count, counters = _iseq(
            given.times, given.masks, plan, no_pace() if pace is None else pace
        )
        named = dict(zip(_NAMES, (int(value) for value in counters), strict=True))
        return Result(matches, count, named | {"events": given.events})

    return Matcher(match, changes(pattern) if pace is None else EVENTS)


def plan_of(pattern: Pattern, form: str, keep: bool) -> Plan:
    """What a form of the method needs to know of a pattern."""
    if form not in FORMS:
        raise ValueError(f"form is {form!r}; it must be one of {', '.join(FORMS)}")
    pattern.without_precise("ISEQ")
    implied = closure(pattern)
    path = longest_path(implied, form == "ibp") if form in ("indexed", "ibp") else []
    order, pointer = join_steps(pattern, path)
    shortest, longest = pattern.duration_bounds()
    # The endpoint before each on the path: what a new entry points at.
    below, above = np.full((2, 2 * pattern.n_symbols), -1, dtype=np.int64)
    for before, after in pairwise(path):
        below[after], above[before] = before, after
    return Plan(
        pattern.relation_matrix(),
        pattern.window,
        shortest,
        np.minimum(longest, pattern.window),  # a longer one can be in no match
        implied,
        order,
        pointer,
        related_before(pattern, order),
        below,
        above,
        form != "naive",
        form == "ibp",
        keep,
    )


@njit(cache=True, nogil=True)
def hopeless(
    endpoint: int, implied: Ints, head: Ints, tail: Ints, is_open: np.ndarray, ibp: bool
) -> bool:
    """On-the-fly dropping: some endpoint must be earlier than this one, and there is none."""
    for other in range(len(tail)):
        if other == endpoint // 2:
            continue
        finished = tail[other] > head[other]
        if implied[2 * other + 1, endpoint] == LESS and not finished:
            return True
        if ibp and implied[2 * other, endpoint] == LESS and not (finished or is_open[other]):
            return True
    return False


@njit(cache=True, nogil=True)
def _construct(
    trigger: int,
    time: int,
    plan: Plan,
    ts: Ints,
    te: Ints,
    pointers: Ints,
    head: Ints,
    tail: Ints,
    scratch: Ints,
    out: Ints,
    count: int,
    counters: Ints,
) -> tuple[Ints, int]:
    """All matches of the newest interval of a symbol with what is buffered, depth first."""
    order, pointer, related, allowed = plan.order, plan.pointer, plan.related, plan.allowed
    n = len(order)
    wrap = ts.shape[1] - 1
    probes = partial = 0
    # The entry bound for each symbol; of each level the one looked at last, and the bounds.
    chosen, levels = scratch[0], scratch[1:]
    chosen[trigger] = tail[trigger] - 1
    level = 1
    entering = True
    while level > 0:
        if level == n:
            if plan.keep:
                if count == len(out):
                    out = longer(out)
                out[count, 0] = time
                for symbol in range(n):
                    out[count, 1 + symbol] = ts[symbol, chosen[symbol] & wrap]
            count += 1
            level -= 1
            entering = False
            continue
        symbol = order[trigger, level]
        if entering:
            # From the newest entry, or from the one that the entry above points at, downwards.
            at = tail[symbol]
            higher = pointer[trigger, level]
            if higher >= 0:
                at = min(at, pointers[higher, chosen[higher // 2] & wrap])
            lowest_start = lowest_end = _NO_BOUND
            if plan.in_order:
                for k in range(level):
                    other = related[trigger, level, k]
                    if other < 0:
                        break
                    there = chosen[other] & wrap
                    for endpoint in range(2 * other, 2 * other + 2):
                        value = te[other, there] if endpoint & 1 else ts[other, there]
                        # NOTHING, AT_MOST and LESS: no bound, from the value on, from the next.
                        strength = plan.implied[endpoint, 2 * symbol]
                        if strength != NOTHING:
                            lowest_start = max(lowest_start, value + strength - AT_MOST)
                        strength = plan.implied[endpoint, 2 * symbol + 1]
                        if strength != NOTHING:
                            lowest_end = max(lowest_end, value + strength - AT_MOST)
            levels[_LOWEST_START, level] = lowest_start
            levels[_LOWEST_END, level] = lowest_end
        else:
            at = levels[_AT, level]
            lowest_start = levels[_LOWEST_START, level]
            lowest_end = levels[_LOWEST_END, level]
        found = False
        while not found and at > head[symbol]:
            at -= 1
            probes += 1
            start, end = ts[symbol, at & wrap], te[symbol, at & wrap]
            if start < lowest_start or end < lowest_end:
                break  # and so are all below
            found = True
            for k in range(level):
                other = related[trigger, level, k]
                if other < 0:
                    break
                there = chosen[other] & wrap
                position = relation_of(start, end, ts[other, there], te[other, there])
                if not (allowed[symbol, other] >> position) & 1:
                    found = False
                    break
        if found:
            levels[_AT, level] = chosen[symbol] = at
            partial += 1
            level += 1
            entering = True
        else:
            level -= 1
            entering = False
    counters[_CONSTRUCTIONS] += 1
    counters[_PROBES] += probes
    counters[_PARTIAL] += partial
    return out, count


@njit(cache=True, nogil=True)
def _iseq(times: Ints, masks: Ints, plan: Plan, pace: Ints) -> tuple[Ints, int, Ints]:
    """The matches, how many there are, and the counters.

    One function: each array that a loop hands to another, or replaces, costs two atomic counts,
    which together would cost more than an event does.
    """
    window, shortest, longest = plan.window, plan.shortest, plan.longest
    implied, below, ibp = plan.implied, plan.below, plan.ibp
    n = len(shortest)
    clock = np.zeros(3, dtype=np.int64)
    counters = np.zeros(8, dtype=np.int64)
    out = np.empty((room_of(pace), 1 + n), dtype=np.int64)
    count = 0
    ts = np.empty((n, 64), dtype=np.int64)
    te = np.empty((n, 64), dtype=np.int64)
    # Stack pointers of an entry: one past the newest entry that may go below, for each endpoint.
    pointers = np.empty((2 * n, 64), dtype=np.int64)
    head = np.zeros(n, dtype=np.int64)
    tail = np.zeros(n, dtype=np.int64)
    opened = np.zeros(n, dtype=np.int64)
    opened_pointer = np.zeros(n, dtype=np.int64)
    is_open = np.zeros(n, dtype=np.bool_)  # a begin punctuation is held
    dropped = np.zeros(n, dtype=np.bool_)  # it was dropped
    purged = np.zeros(n, dtype=np.bool_)  # something is no longer held that others may need
    scratch = np.zeros((4, n), dtype=np.int64)
    triggers, last = roles(implied)
    previous = 0
    for row in range(len(times)):
        if pace.size:
            await_due(pace, row, clock)
        t, mask = times[row], masks[row]
        changed = mask ^ previous
        previous = mask
        if changed == 0:
            continue
        oldest = t - window
        stored = 0
        for symbol in range(n):
            while head[symbol] < tail[symbol] and (
                ts[symbol, head[symbol] & (ts.shape[1] - 1)] < oldest
            ):
                head[symbol] += 1
                purged[symbol] = True
            if is_open[symbol] and opened[symbol] < oldest:
                is_open[symbol] = False
                dropped[symbol] = purged[symbol] = True
            stored += tail[symbol] - head[symbol] + is_open[symbol]
        counters[_PEAK] = max(counters[_PEAK], stored)
        _cascade(plan, pointers, head, tail, is_open, dropped, purged, counters)

        # Ends, the stream of complete intervals; those of one instant one after the other.
        for symbol in range(n):
            if not (changed >> symbol & 1) or mask >> symbol & 1:
                continue
            was_held = is_open[symbol]
            is_open[symbol] = False
            if not shortest[symbol] <= t - opened[symbol] <= longest[symbol]:
                purged[symbol] |= was_held
                continue
            counters[_INTERVALS] += 1
            end = 2 * symbol + 1
            if dropped[symbol] or hopeless(end, implied, head, tail, is_open, ibp):
                counters[_DROPPED] += 1
                purged[symbol] |= was_held
                continue
            if tail[symbol] - head[symbol] == ts.shape[1]:
                pointers = grown(pointers, np.repeat(head, 2), np.repeat(tail, 2))
                ts, te = grown(ts, head, tail), grown(te, head, tail)
            at = tail[symbol] & (ts.shape[1] - 1)
            ts[symbol, at], te[symbol, at] = opened[symbol], t
            pointers[2 * symbol, at] = opened_pointer[symbol]
            pointers[end, at] = _newest(below[end], tail, is_open)
            tail[symbol] += 1
            if triggers[symbol]:
                out, count = _construct(
                    symbol, t, plan, ts, te, pointers, head, tail, scratch, out, count, counters
                )
            if last[symbol]:
                tail[symbol] -= 1  # nothing that ends later can use it
        # Starts: the begin punctuations.
        for symbol in range(n):
            if not (changed >> symbol & 1) or not mask >> symbol & 1:
                continue
            opened[symbol] = t
            dropped[symbol] = False
            if ibp:
                # Those that start at this very instant are not earlier: a strict restriction
                # is not met by them, so it does not matter which of them comes first.
                if hopeless(2 * symbol, implied, head, tail, is_open, True):
                    dropped[symbol] = True
                    counters[_DROPPED_STARTS] += 1
                else:
                    opened_pointer[symbol] = _newest(below[2 * symbol], tail, is_open)
        if ibp:
            for symbol in range(n):
                if changed >> symbol & 1 and mask >> symbol & 1:
                    is_open[symbol] = not dropped[symbol]
    if pace.size:
        await_due(pace, len(times), clock)
    return out[:count].copy() if plan.keep else out[:0].copy(), count, counters


@njit(cache=True, nogil=True)
def roles(implied: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Which symbols' ends may complete a match, and which are sure to end after all others."""
    n = len(implied) // 2
    triggers = np.ones(n, dtype=np.bool_)
    last = np.ones(n, dtype=np.bool_)
    for symbol in range(n):
        for other in range(n):
            if other == symbol:
                continue
            # The end is sure to come before another endpoint: someone else completes the match.
            if implied[2 * symbol + 1, 2 * other + 1] == LESS:
                triggers[symbol] = False
            if implied[2 * symbol + 1, 2 * other] != NOTHING:
                triggers[symbol] = False
            if implied[2 * other + 1, 2 * symbol + 1] != LESS:
                last[symbol] = False  # not sure to end after all others: must stay buffered
    return triggers, last


@njit(cache=True, nogil=True)
def _newest(endpoint: int, tail: Ints, is_open: np.ndarray) -> int:
    """One past the newest entry of an endpoint's stack; an open interval will be the next."""
    if endpoint < 0:
        return 0
    symbol = endpoint // 2
    if endpoint % 2 == 0 and is_open[symbol]:
        return tail[symbol] + 1
    return tail[symbol]


@njit(cache=True, nogil=True)
def _cascade(
    plan: Plan,
    pointers: Ints,
    head: Ints,
    tail: Ints,
    is_open: np.ndarray,
    dropped: np.ndarray,
    purged: np.ndarray,
    counters: Ints,
) -> None:
    """Purge what needs an earlier interval of a symbol of which none is left, until nothing does.

    Only symbols of which something was ``purged`` are looked at.
    """
    implied, ibp = plan.implied, plan.ibp
    wrap = pointers.shape[1] - 1
    again = True
    while again:
        again = False
        for symbol in range(len(tail)):
            if not purged[symbol]:
                continue
            purged[symbol] = False
            again = True
            for endpoint in range(2 * symbol, 2 * symbol + 2):
                # Nothing is left at or below the pointer of the oldest entry above.
                higher = plan.above[endpoint]
                other = higher // 2
                if higher < 0 or other == symbol:
                    continue
                while head[other] < tail[other] and (
                    pointers[higher, head[other] & wrap] <= head[symbol]
                ):
                    head[other] += 1
                    counters[_CASCADED] += 1
                    purged[other] = True
            if head[symbol] < tail[symbol]:
                continue
            for other in range(len(tail)):
                if head[other] < tail[other] and hopeless(
                    2 * other + 1, implied, head, tail, is_open, ibp
                ):
                    counters[_CASCADED] += tail[other] - head[other]
                    head[other] = tail[other]
                    purged[other] = True
                if is_open[other] and hopeless(2 * other, implied, head, tail, is_open, ibp):
                    is_open[other] = False
                    dropped[other] = purged[other] = True
                    counters[_CASCADED] += 1
