"""PieStream as its paper writes it: an automaton a relation, stored pairs, left-deep hash joins.

Algorithm 2 steps one automaton for each relation of each constraint at every event; a pair is
found when one single relation is certain (so a complete group of relations gains nothing).
``before`` and ``after`` come from lists of ended intervals: when the later interval starts, a
pair with every earlier one is stored. Algorithm 3 joins the result queues in the order of the
clauses, as far as these are connected, and stores every partial result, hash-indexed by the
starts that it shares with the next queue. Each event's new rows are joined new with old, old with
new and new with new.

What the paper leaves open is settled so that the answers are right: a match is reported if it
began at most ``window`` before its report, and rows that began earlier are never joined. Left out,
because no row of a match depends on it: updating the stored pairs with their ends (lines 9-10 of
Algorithm 1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from experiments.engine import (
    LATEST_LATEST,
    LATEST_PREVIOUS,
    PREVIOUS_LATEST,
    relation_machine,
    relations_of_automata,
)
from experiments.pace import await_due, no_pace, room_of
from experiments.peers.forms import EVENTS, changes
from experiments.peers.parts.derivers import Masks
from experiments.peers.parts.paper_tables import (
    COLUMN,
    EARLIEST,
    NEXT,
    STARTS,
    TAIL,
    appended,
    bucket,
    expired,
    key_of,
    new_arena,
    shape_of,
    with_room,
    word,
)
from experiments.peers.parts.tpstream_join import grown, longer
from experiments.peers.pattern import Ints, Pattern, Result, UnsupportedPatternError
from experiments.peers.peer import Matcher
from piestream.relations import Relation

__all__ = ["matcher"]

_NAMES = ("intervals", "probes", "pairs", "partial_results", "steps", "peak_stored")
_INTERVALS, _PROBES, _PAIRS, _PARTIAL, _STEPS, _PEAK = range(len(_NAMES))

#: How the two sides of a step come by their rows.
_BEFORE, _AFTER = 1, 2


class Plan(NamedTuple):
    """What the pattern says: the clauses in the order of joining, and their automata."""

    n_symbols: int
    window: int
    #: int64[clauses, 2]: the symbols of each clause.
    sides: Ints
    #: A state is the index of its four letters: ``follows[state + letter]`` is the next state and
    #: ``decides[state + letter]`` the kinds of pairs that are found.
    follows: Ints
    decides: Ints
    #: The automata of clause k begin in ``begins[first[k]:first[k + 1]]``.
    first: Ints
    begins: Ints
    #: Which clauses also need pairs from the lists of ended intervals.
    by_lists: Ints
    skip_repeats: bool
    keep: bool


def matcher(
    pattern: Pattern,
    *,
    keep: bool = True,
    skip_repeats: bool = False,
    pace: Ints | None = None,
) -> Matcher:
    """The method. ``skip_repeats`` leaves out the events at which no predicate changes its truth.

    The paper steps every automaton at every event; a repeated letter changes nothing.

    >>> found = matcher(Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100))
    >>> found.over(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0]))().matches.tolist()
    [[3, 1, 2]]
    """
    pattern.without_durations("PieStream's paper")
    if not pattern.constraints:
        raise UnsupportedPatternError("PieStream's paper joins pairs; give two symbols or more")
    clauses = _join_order(pattern)
    shape = _tables(clauses, pattern.n_symbols)
    sides = np.array([clause[:2] for clause in clauses], dtype=np.int64)
    plan = Plan(pattern.n_symbols, pattern.window, sides, *_machines(clauses), skip_repeats, keep)

    def match(given: Masks) -> Result:
        matches, count, counters = _executed(
            given.times, given.masks, plan, shape.copy(), no_pace() if pace is None else pace
        )
        named = dict(zip(_NAMES, (int(value) for value in counters), strict=True))
        return Result(matches, count, named | {"events": given.events})

    return Matcher(match, changes(pattern) if skip_repeats and pace is None else EVENTS)


def _join_order(pattern: Pattern) -> list[tuple[int, int, Relation]]:
    """The clauses as the left-deep tree takes them: each the first that shares a symbol."""
    rest = list(pattern.constraints)
    ordered = [rest.pop(0)]
    bound = set(ordered[0][:2])
    while rest:
        following = next(c for c in rest if c[0] in bound or c[1] in bound)
        rest.remove(following)
        ordered.append(following)
        bound |= set(following[:2])
    return ordered


def _tables(clauses: list[tuple[int, int, Relation]], n: int) -> Ints:
    """The result queues of the clauses, then the partial results, each with its join key.

    Queue 0 is the first partial result; clause k joins it with the one before. The last join
    makes the matches and is not stored.
    """
    columns = [[x, y] for x, y, _ in clauses]
    keys: list[list[int]] = [[] for _ in clauses]
    bound = list(columns[0])
    results = [0]  # the table of the partial result that clause k is joined with
    for k in range(1, len(clauses)):
        shared = [symbol for symbol in columns[k] if symbol in bound]
        keys[k] = shared
        keys[results[-1]] = shared
        bound = bound + [symbol for symbol in columns[k] if symbol not in bound]
        if k + 1 < len(clauses):
            columns.append(list(bound))
            keys.append([])
            results.append(len(columns) - 1)
    keys[0] = keys[0] or [columns[0][0]]  # one clause alone: never joined
    return shape_of(columns, keys, n)


def _machines(
    clauses: list[tuple[int, int, Relation]],
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """The automata of all single relations in one table, and which clauses need the lists of ends."""
    follows: list[Ints] = []
    decides: list[Ints] = []
    begins: list[int] = []
    first = [0]
    used = 0
    for _, _, relations in clauses:
        for relation in relations_of_automata(relations):
            next_state, found = relation_machine(relation)
            begins.append(used)
            follows.append(next_state.ravel() * 4 + used)
            decides.append(found.ravel())
            used += next_state.size
        first.append(len(begins))
    by_lists = [
        bool(r & Relation.BEFORE) * _BEFORE + bool(r & Relation.AFTER) * _AFTER
        for _, _, r in clauses
    ]
    nothing = [np.zeros(0, dtype=np.int64)]
    return (
        np.concatenate(nothing + follows),
        np.concatenate(nothing + decides),
        np.array(first, dtype=np.int64),
        np.array(begins, dtype=np.int64),
        np.array(by_lists, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def _stored(
    arena: Ints, shape: Ints, table: int, x: int, y: int, oldest: int, counters: Ints
) -> Ints:
    """One more pair in a result queue, unless it began before the window."""
    if min(x, y) < oldest:
        return arena
    arena = with_room(arena, shape, table)
    at = word(shape, table, shape[table, TAIL])
    arena[at + EARLIEST] = min(x, y)
    arena[at + STARTS], arena[at + STARTS + 1] = x, y
    appended(arena, shape, table)
    counters[_PAIRS] += 1
    return arena


@njit(cache=True, nogil=True)
def _joined(
    arena: Ints,
    shape: Ints,
    target: int,
    left: int,
    left_row: int,
    right: int,
    right_row: int,
    time: int,
    keep: bool,
    out: Ints,
    count: int,
    counters: Ints,
) -> tuple[Ints, Ints, int]:
    """The natural join of two rows: a row of the next partial result, or a match."""
    if target < 0:
        if keep:
            if count == len(out):
                out = longer(out)
            out[count, 0] = time
            a, b = word(shape, left, left_row), word(shape, right, right_row)
            for symbol in range(shape.shape[1] - COLUMN):
                column = shape[left, COLUMN + symbol]
                out[count, 1 + symbol] = (
                    arena[a + column] if column >= 0 else arena[b + shape[right, COLUMN + symbol]]
                )
        return arena, out, count + 1
    arena = with_room(arena, shape, target)
    a, b = word(shape, left, left_row), word(shape, right, right_row)
    at = word(shape, target, shape[target, TAIL])
    arena[at + EARLIEST] = min(arena[a + EARLIEST], arena[b + EARLIEST])
    for symbol in range(shape.shape[1] - COLUMN):
        column = shape[target, COLUMN + symbol]
        if column >= 0:
            source = shape[left, COLUMN + symbol]
            arena[at + column] = (
                arena[a + source] if source >= 0 else arena[b + shape[right, COLUMN + symbol]]
            )
    appended(arena, shape, target)
    counters[_PARTIAL] += 1
    return arena, out, count


@njit(cache=True, nogil=True)
def _merged(
    arena: Ints,
    shape: Ints,
    clauses: int,
    first_new: Ints,
    oldest: int,
    time: int,
    keep: bool,
    out: Ints,
    count: int,
    counters: Ints,
) -> tuple[Ints, Ints, int]:
    """``mergeByJoins``: take this event's new rows through the left-deep tree."""
    left = 0
    for right in range(1, clauses):
        target = clauses + right - 1 if right + 1 < clauses else -1
        # New rows of the left with all of the right, then old rows of the left with new ones.
        for turn in range(2):
            mine, other = (left, right) if turn == 0 else (right, left)
            limit = shape[other, TAIL] if turn == 0 else first_new[other]
            for row in range(first_new[mine], shape[mine, TAIL]):
                at = word(shape, mine, row)
                one, two = key_of(arena, shape, mine, other, at)
                met = arena[bucket(shape, other, one, two)]
                while 0 <= met < limit:
                    counters[_PROBES] += 1
                    there = word(shape, other, met)
                    following = arena[there + NEXT]
                    a, b = key_of(arena, shape, other, other, there)
                    if a == one and b == two and arena[there + EARLIEST] >= oldest:
                        rows = (row, met) if turn == 0 else (met, row)
                        arena, out, count = _joined(
                            arena, shape, target, left, rows[0], right, rows[1],
                            time, keep, out, count, counters,
                        )  # fmt: skip
                    met = following
        if target >= 0:
            left = target
    return arena, out, count


@njit(cache=True, nogil=True)
def _executed(
    times: Ints, masks: Ints, plan: Plan, shape: Ints, pace: Ints
) -> tuple[Ints, int, Ints]:
    """Algorithm 3: the matches, how many there are, and the counters.

    One function: each array that a loop hands to another, or replaces, costs two atomic counts,
    which together would cost more than an event does.
    """
    n, window, sides, follows, decides, first, begins, by_lists, skip_repeats, keep = plan
    counters = np.zeros(6, dtype=np.int64)
    clock = np.zeros(3, dtype=np.int64)
    clauses, tables = len(sides), len(shape) - 1
    arena = new_arena(shape)
    out = np.empty((room_of(pace), 1 + n), dtype=np.int64)
    count = 0
    states = begins.copy()
    latest = np.zeros(n, dtype=np.int64)
    before_latest = np.zeros(n, dtype=np.int64)
    first_new = np.zeros(tables, dtype=np.int64)
    listed = _listed(n, sides, by_lists)
    ts = np.empty((n, 64), dtype=np.int64)
    te = np.empty((n, 64), dtype=np.int64)
    head = np.zeros(n, dtype=np.int64)
    tail = np.zeros(n, dtype=np.int64)
    previous = 0
    held = found = 0
    for event in range(len(times)):
        if pace.size:
            await_due(pace, event, clock)
        t, mask = times[event], masks[event]
        changed = mask ^ previous
        started, ended = mask & changed, previous & changed
        previous = mask
        if changed == 0 and skip_repeats:
            continue
        oldest = t - window
        if changed:
            # clearExpiredEvents, here only where something can be added or joined.
            held = expired(arena, shape, oldest)
            for symbol in range(n):
                if started >> symbol & 1:
                    before_latest[symbol] = latest[symbol]
                    latest[symbol] = t
                    counters[_INTERVALS] += 1
                if not listed[symbol]:
                    continue
                while head[symbol] < tail[symbol] and (
                    ts[symbol, head[symbol] & (ts.shape[1] - 1)] < oldest
                ):
                    head[symbol] += 1
                if ended >> symbol & 1:
                    if tail[symbol] - head[symbol] == ts.shape[1]:
                        ts, te = grown(ts, head, tail), grown(te, head, tail)
                    at = tail[symbol] & (ts.shape[1] - 1)
                    ts[symbol, at], te[symbol, at] = latest[symbol], t
                    tail[symbol] += 1
                held += tail[symbol] - head[symbol]
            for table in range(tables):
                first_new[table] = shape[table, TAIL]
            found = counters[_PAIRS]
        # Algorithm 2, lines 1-3: every automaton reads its letter.
        for number in range(clauses):
            x, y = sides[number, 0], sides[number, 1]
            letter = (mask >> x & 1) * 2 + (mask >> y & 1)
            for machine in range(first[number], first[number + 1]):
                at = states[machine] + letter
                states[machine] = follows[at]
                kinds = decides[at]
                if kinds == 0:
                    continue
                if kinds & LATEST_LATEST:
                    arena = _stored(arena, shape, number, latest[x], latest[y], oldest, counters)
                if kinds & PREVIOUS_LATEST:
                    arena = _stored(
                        arena, shape, number, before_latest[x], latest[y], oldest, counters
                    )
                if kinds & LATEST_PREVIOUS:
                    arena = _stored(
                        arena, shape, number, latest[x], before_latest[y], oldest, counters
                    )
        counters[_STEPS] += len(states)
        if changed == 0:
            continue
        # Lines 4-5: before and after from the lists.
        for number in range(clauses):
            x, y = sides[number, 0], sides[number, 1]
            if by_lists[number] & _BEFORE and started >> y & 1:
                for row in range(head[x], tail[x]):
                    counters[_PROBES] += 1
                    at = row & (ts.shape[1] - 1)
                    if te[x, at] < t:
                        arena = _stored(arena, shape, number, ts[x, at], t, oldest, counters)
            if by_lists[number] & _AFTER and started >> x & 1:
                for row in range(head[y], tail[y]):
                    counters[_PROBES] += 1
                    at = row & (ts.shape[1] - 1)
                    if te[y, at] < t:
                        arena = _stored(arena, shape, number, t, ts[y, at], oldest, counters)
        if counters[_PAIRS] == found:
            continue
        held += counters[_PAIRS] - found
        partial = counters[_PARTIAL]
        if clauses == 1:
            for row in range(first_new[0], shape[0, TAIL]):
                if keep:
                    if count == len(out):
                        out = longer(out)
                    at = word(shape, 0, row)
                    out[count, 0] = t
                    for symbol in range(n):
                        out[count, 1 + symbol] = arena[at + shape[0, COLUMN + symbol]]
                count += 1
        else:
            arena, out, count = _merged(
                arena, shape, clauses, first_new, oldest, t, keep, out, count, counters
            )
        counters[_PEAK] = max(counters[_PEAK], held + counters[_PARTIAL] - partial)
    if pace.size:
        await_due(pace, len(times), clock)
    return out[:count].copy() if keep else out[:0].copy(), count, counters


@njit(cache=True, nogil=True)
def _listed(n: int, sides: Ints, by_lists: Ints) -> np.ndarray:
    """The symbols of which some before or after needs a list of ended intervals."""
    listed = np.zeros(n, dtype=np.bool_)
    for number in range(len(sides)):
        if by_lists[number] & _BEFORE:
            listed[sides[number, 0]] = True
        if by_lists[number] & _AFTER:
            listed[sides[number, 1]] = True
    return listed
