"""The rows of several streams of one partition as one sequence of instants.

Rows of different streams at one time are one instant. A stream's predicates keep their values at
the instants of others, and a silence that is longer than its MAX GAP is an instant at which they
are false, if it ends anything. Where several events have one time, the deadline of a silence that is
a symbol lies behind all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MIN

Words = NDArray[np.int64]
Flags = NDArray[np.bool_]

__all__ = ["Among", "EventRows", "Instants", "merged", "order_by_time", "silences"]


@dataclass(frozen=True, slots=True)
class EventRows:
    """Rows of one stream of events, by group and time, and what was before them in each group."""

    groups: Words
    times: Words
    bits: Flags  # a row for each predicate
    last_times: Words  # of each group; before all times where there was none
    last_bits: Flags


@dataclass(frozen=True, slots=True)
class Instants:
    """The instants of all groups, by group and time, and by what orders those of one time."""

    groups: Words
    times: Words
    offsets: Words  # where those of each group begin
    is_ordered: Flags  # which are not the first of their times, but ordered among these
    is_over: Flags  # which of these lie behind all events of their times
    places: tuple[Words, ...]  # the instant of each row, a list of rows after the other

    def latest(self, n_groups: int, groups: Words, places: Words, ends: Words) -> Words:
        """What of one stream counts at each instant, as an index.

        It is one of the groups' states before, of the rows behind these, or the one place behind
        all, for nothing, which counts from the instants ``ends`` on.
        """
        found = np.full(len(self.times), -1, np.int64)
        some = self.offsets[:-1] < self.offsets[1:]
        found[self.offsets[:-1][some]] = np.flatnonzero(some)
        found[places] = n_groups + np.arange(len(places))
        found[ends] = n_groups + len(places)
        at = np.where(found >= 0, np.arange(len(found)), 0)
        latest: Words = found[np.maximum.accumulate(at)] if len(at) else found
        return latest

    def numbered(self, places: Words) -> Words:
        """Of each instant how many of these come before it in its group, and whether it is one.

        As loops read it (`joins.counters`): twice the number, and 1 if it is one.
        """
        is_one = np.zeros(len(self.times), np.int64)
        is_one[places] = 1
        before = np.cumsum(is_one) - is_one
        return 2 * (before - before[self.offsets[self.groups]]) + is_one


def silences(rows: EventRows, gap: int, limit: int) -> tuple[Words, Words]:
    """The groups and the times at which silences end something, known at the time ``limit``."""
    n_groups = len(rows.last_times)
    before = rows.last_bits.any(axis=0) & (rows.last_times != INT64_MIN)
    groups = np.concatenate([np.arange(n_groups), rows.groups])
    times = np.concatenate([rows.last_times, rows.times])
    is_open = np.concatenate([before, rows.bits.any(axis=0)])
    order = np.argsort(groups, kind="stable")  # rows of a group are in order of time
    groups, times, is_open = groups[order], times[order], is_open[order]
    following = np.full(len(times), limit, np.int64)
    same = groups[1:] == groups[:-1]
    following[:-1][same] = times[1:][same]
    length = following.astype(np.uint64) - times.astype(np.uint64)  # without sign
    ends = is_open & (following > times) & (length > np.uint64(gap))
    return groups[ends], times[ends] + gap


def order_by_time(groups: Words, times: Words) -> Words:
    """The order of rows by group and time, those of one time as they are.

    >>> order_by_time(np.array([1, 0, 0]), np.array([3, 9, 7]))
    array([2, 1, 0])
    """
    if not len(times):
        return np.zeros(0, np.int64)
    first = int(times.min())
    span, most = int(times.max()) - first + 1, int(groups.max())
    if (most + 1) * span >= 1 << 63:
        return np.lexsort((times, groups))
    # one number for both: lists of rows in order are put together as fast as they are read
    numbers = times - first
    if most:
        numbers += groups * span
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    return np.argsort(numbers, kind="stable")


class Among(IntEnum):
    """Where instants lie among those of one time."""

    FIRST = 0
    IN_SEQUENCE = 1  # and all above: what has the same number is ordered by its sequence
    BEHIND = (1 << 15) - 1


def merged(
    n_groups: int,
    lists: Sequence[tuple[Words, Words]],
    sequences: Sequence[Words | None] = (),
    behind: Collection[int] = (),
    turns: Sequence[int] = (),
) -> Instants:
    """The instants of several lists of groups and times.

    ``sequences`` orders those of one time, in the first of the lists; where there is none, they come
    before all that have one, whatever that is. Lists of one of the ``turns`` are compared so, and come before
    those of a higher one. Those of the lists ``behind`` come after all others.
    """
    edges = np.cumsum([0, *(len(groups) for groups, _ in lists)])
    groups = np.concatenate([np.zeros(0, np.int64), *(groups for groups, _ in lists)])
    times = np.concatenate([np.zeros(0, np.int64), *(times for _, times in lists)])
    is_sequenced = bool(behind) or any(of_list is not None for of_list in sequences)
    if is_sequenced:
        least, among = np.zeros(len(times), np.int64), np.zeros(len(times), np.int16)
        for number, (of_list, at) in enumerate(zip(sequences, edges, strict=False)):
            if of_list is not None:
                turn = turns[number] if turns else 0
                least[at : at + len(of_list)] = of_list
                among[at : at + len(of_list)] = Among.IN_SEQUENCE + turn
        for number in behind:
            among[edges[number] : edges[number + 1]] = Among.BEHIND
        order = np.lexsort((least, among, times, groups))
        least, among = least[order], among[order]
    else:
        order = order_by_time(groups, times)
    groups, times = groups[order], times[order]
    is_first = np.ones(len(times), np.bool_)
    is_first[1:] = (groups[1:] != groups[:-1]) | (times[1:] != times[:-1])
    if is_sequenced:
        is_first[1:] |= (least[1:] != least[:-1]) | (among[1:] != among[:-1])
    place = np.empty(len(times), np.int64)
    place[order] = np.cumsum(is_first) - 1
    groups, times = groups[is_first], times[is_first]
    among = among[is_first] if is_sequenced else np.zeros(len(times), np.int16)
    offsets = np.searchsorted(groups, np.arange(n_groups + 1)).astype(np.int64)
    places = tuple(place[first:end] for first, end in pairwise(edges))
    return Instants(groups, times, offsets, among != Among.FIRST, among == Among.BEHIND, places)
