"""ISEQ (Li et al., DEBS 2011): finished intervals in order of their ends, restrictions, buffers.

Each interval enters when it has ended, so matches are reported when they are complete. Three
forms, as in the paper's experiments: ``naive`` (nested loops over the buffers), ``indexed``
(active instance stacks: along the longest chain of ordered ends an entry points at the newest one
that may go before it) and ``ibp`` (interval begin punctuations: starts are known when they
happen, so the chain may pass through starts, and hopeless intervals are dropped earlier).

Taken from the text, with the errors in it put right: construction is suppressed only where the
end is *strictly* before another endpoint that is still to come; only strict restrictions drop and
purge; an entry is purged by its pointer only when nothing at or below the pointer is left. A
restriction list is one convex set of relations a pair. Other sets would have to be several
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
from experiments.peers.parts.allen import relation_of
from experiments.peers.parts.restrictions import (
    LESS,
    NOTHING,
    closure,
    join_steps,
    longest_path,
)
from experiments.peers.parts.tpstream_join import grown, longer
from experiments.peers.pattern import Ints, Pattern, Result
from experiments.peers.peer import Matcher

__all__ = ["matcher"]

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

FORMS = ("naive", "indexed", "ibp")


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
    #: The endpoint below each on the index path, -1 for none.
    below: Ints
    ibp: bool
    keep: bool


def matcher(
    pattern: Pattern, *, keep: bool = True, form: str = "ibp", pace: Ints | None = None
) -> Matcher:
    """The method; a match's report is the last of its ends. ``form`` is naive, indexed or ibp.

    The paper's window is strict (``max te - min ts < W``); this one includes ``window``, as all
    methods here do.

    >>> from piestream.relations import Relation
    >>> found = matcher(Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100))
    >>> found.match(found.load(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0]))).matches.tolist()
    [[4, 1, 2]]
    """
    if form not in FORMS:
        raise ValueError(f"form is {form!r}; it must be one of {', '.join(FORMS)}")
    pattern.without_precise("ISEQ")
    implied = closure(pattern)
    path = [] if form == "naive" else longest_path(implied, form == "ibp")
    order, pointer = join_steps(pattern, path)
    shortest, longest = pattern.duration_bounds()
    # The endpoint before each on the path: what a new entry points at.
    below = np.full(2 * pattern.n_symbols, -1, dtype=np.int64)
    for before, after in pairwise(path):
        below[after] = before
    plan = Plan(
        pattern.relation_matrix(),
        pattern.window,
        shortest,
        np.minimum(longest, pattern.window),  # a longer one can be in no match
        implied,
        order,
        pointer,
        below,
        form == "ibp",
        keep,
    )

    def match(loaded: tuple[Ints, Ints]) -> Result:
        matches, count, counters = _iseq(*loaded, plan, no_pace() if pace is None else pace)
        named = dict(zip(_NAMES, (int(value) for value in counters), strict=True))
        return Result(matches, count, named | {"events": len(loaded[0])})

    return Matcher(match)


@njit(cache=True, nogil=True)
def _hopeless(
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
    order: Ints,
    pointer: Ints,
    allowed: Ints,
    ts: Ints,
    te: Ints,
    pointers: Ints,
    head: Ints,
    tail: Ints,
    keep: bool,
    out: Ints,
    count: int,
    counters: Ints,
) -> tuple[Ints, int]:
    """All matches of the newest interval of a symbol with what is buffered, depth first."""
    n = len(order)
    wrap = ts.shape[1] - 1
    counters[_CONSTRUCTIONS] += 1
    chosen = np.zeros(n, dtype=np.int64)  # the entry bound for each symbol
    chosen[trigger] = tail[trigger] - 1
    at = np.zeros(n, dtype=np.int64)
    level = 1
    entering = True
    while level > 0:
        if level == n:
            if keep:
                if count == len(out):
                    out = longer(out)
                out[count, 0] = time
                for symbol in range(n):
                    out[count, 1 + symbol] = ts[symbol, chosen[symbol] & wrap]
            count += 1
            level -= 1
            entering = False
            continue
        symbol = order[level]
        if entering:
            # From the newest entry, or from the one that the entry above points at, downwards.
            at[level] = tail[symbol]
            if pointer[level] >= 0:
                above = pointer[level] // 2
                at[level] = min(at[level], pointers[pointer[level], chosen[above] & wrap])
        found = False
        while not found and at[level] > head[symbol]:
            at[level] -= 1
            counters[_PROBES] += 1
            entry = at[level] & wrap
            found = True
            for before in range(level):
                other = order[before]
                relations = allowed[symbol, other]
                if relations == 0:
                    continue
                there = chosen[other] & wrap
                position = relation_of(
                    ts[symbol, entry], te[symbol, entry], ts[other, there], te[other, there]
                )
                if not (relations >> position) & 1:
                    found = False
                    break
        if found:
            chosen[symbol] = at[level]
            counters[_PARTIAL] += 1
            level += 1
            entering = True
        else:
            level -= 1
            entering = False
    return out, count


@njit(cache=True, nogil=True)
def _iseq(times: Ints, masks: Ints, plan: Plan, pace: Ints) -> tuple[Ints, int, Ints]:
    """The matches, how many there are, and the counters.

    One function: each array that a loop hands to another, or replaces, costs two atomic counts,
    which together would cost more than an event does.
    """
    allowed, window, shortest, longest, implied, order, pointer, below, ibp, keep = plan
    n = len(order)
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
    triggers, last = _roles(implied)
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
            if is_open[symbol] and opened[symbol] < oldest:
                is_open[symbol] = False
                dropped[symbol] = True
            stored += tail[symbol] - head[symbol] + is_open[symbol]
        counters[_PEAK] = max(counters[_PEAK], stored)
        _cascade(implied, below, pointers, head, tail, is_open, dropped, ibp, counters)

        # Ends, the stream of complete intervals; those of one instant one after the other.
        for symbol in range(n):
            if not (changed >> symbol & 1) or mask >> symbol & 1:
                continue
            is_open[symbol] = False
            if not shortest[symbol] <= t - opened[symbol] <= longest[symbol]:
                continue
            counters[_INTERVALS] += 1
            end = 2 * symbol + 1
            if dropped[symbol] or _hopeless(end, implied, head, tail, is_open, ibp):
                counters[_DROPPED] += 1
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
                    symbol, t, order[symbol], pointer[symbol], allowed, ts, te, pointers,
                    head, tail, keep, out, count, counters,
                )  # fmt: skip
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
                if _hopeless(2 * symbol, implied, head, tail, is_open, True):
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
    return out[:count].copy() if keep else out[:0].copy(), count, counters


@njit(cache=True, nogil=True)
def _roles(implied: Ints) -> tuple[np.ndarray, np.ndarray]:
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
    implied: Ints,
    below: Ints,
    pointers: Ints,
    head: Ints,
    tail: Ints,
    is_open: np.ndarray,
    dropped: np.ndarray,
    ibp: bool,
    counters: Ints,
) -> None:
    """Purge what needs an earlier interval of a symbol of which none is left, until nothing does."""
    wrap = pointers.shape[1] - 1
    again = True
    while again:
        again = False
        for symbol in range(len(tail)):
            if head[symbol] < tail[symbol] and _hopeless(
                2 * symbol + 1, implied, head, tail, is_open, ibp
            ):
                counters[_CASCADED] += tail[symbol] - head[symbol]
                head[symbol] = tail[symbol]
                again = True
            if is_open[symbol] and _hopeless(2 * symbol, implied, head, tail, is_open, ibp):
                is_open[symbol] = False
                dropped[symbol] = True
                counters[_CASCADED] += 1
                again = True
            for endpoint in (2 * symbol, 2 * symbol + 1):
                # Nothing is left at or below the pointer of the oldest entry.
                while below[endpoint] >= 0 and head[symbol] < tail[symbol]:
                    target = below[endpoint] // 2
                    if target == symbol or (pointers[endpoint, head[symbol] & wrap] > head[target]):
                        break
                    head[symbol] += 1
                    counters[_CASCADED] += 1
                    again = True
