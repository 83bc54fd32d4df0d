"""The earliest possible report, by brute force: at each event, everything that can come next.

Shares nothing with the engine or its peers: no automata, no table of endpoints. A pair is
certain at an event if in every continuation of the stream its relation is an allowed one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from experiments.peers.pattern import Ints, Pattern
from piestream.relations import Relation

__all__ = ["certain", "earliest", "outlooks", "runs"]

#: Rows of the first event of a run, and of the first one after it; None: still open.
Run = tuple[int, int | None]

#: What is open can end first, second, or both at once: two letters distinguish these. Three leave
#: room for being wrong about that.
_AHEAD = 3
_WORDS = tuple(product(range(4), repeat=_AHEAD))


def runs(masks: Ints, bit: int) -> list[Run]:
    """The runs of a bit.

    >>> import numpy as np
    >>> runs(np.array([0, 1, 1, 0, 1]), 0)
    [(1, 3), (4, None)]
    """
    found: list[Run] = []
    start = None
    for row, mask in enumerate(masks.tolist()):
        holds = mask >> bit & 1
        if holds and start is None:
            start = row
        elif not holds and start is not None:
            found.append((start, row))
            start = None
    return found if start is None else [*found, (start, None)]


@cache
def _holding(xs: int, xe: int, ys: int, ye: int, quiet: bool) -> Relation:
    """The relation of ``[xs, xe)`` to ``[ys, ye)``, straight from its definition."""
    precise = Relation.FOLLOWED_BY if quiet else Relation(0)
    if xe < ys:
        return Relation.BEFORE | precise
    if xe == ys:
        return Relation.MEETS
    if xs < ys:
        return (
            Relation.OVERLAPS if xe < ye else Relation.FINISHED_BY if xe == ye
            else Relation.CONTAINS
        )  # fmt: skip
    if xs == ys:
        return Relation.STARTS if xe < ye else Relation.EQUALS if xe == ye else Relation.STARTED_BY
    if xs < ye:
        return (
            Relation.DURING if xe < ye else Relation.FINISHES if xe == ye
            else Relation.OVERLAPPED_BY
        )  # fmt: skip
    if xs == ye:
        return Relation.MET_BY
    return Relation.AFTER | (Relation.FOLLOWS if quiet else Relation(0))


def outlooks(letters: list[int], x: Run, y: Run, now: int) -> frozenset[Relation]:
    """The relations that can come to hold, as is known at row ``now``: one for each future.

    ``letters[row]`` is 2 where only x's symbol holds, 1 where only y's does, 3 where both do.
    """
    (xs, xe), (ys, ye) = x, y
    ended = [end if end is not None and end <= now else None for end in (xe, ye)]
    possible = set()
    for word in _WORDS:
        ends: list[int] = []
        for end, bit in zip(ended, (2, 1), strict=True):
            if end is None:
                end = next((now + 1 + at for at, letter in enumerate(word) if not letter & bit), -1)
            ends.append(end)
        if min(ends) < 0:
            continue  # this future says nothing yet
        first, later = min(ends), max(xs, ys)
        quiet = first <= now and not any(letters[first:later])
        possible.add(_holding(xs, ends[0], ys, ends[1], quiet))
        if None not in ended:
            break
    return frozenset(possible)


def certain(letters: list[int], x: Run, y: Run) -> Iterator[tuple[int, frozenset[Relation]]]:
    """From the later start to the later end: each row, and what can come to hold then."""
    last = len(letters) - 1
    for now in range(max(x[0], y[0]), last + 1):
        yield now, outlooks(letters, x, y, now)
        if all(end is not None and end <= now for end in (x[1], y[1])):
            return


def earliest(pattern: Pattern, times: Ints, masks: Ints) -> dict[tuple[int, ...], int]:
    """The time of the earliest report of every match, by the starts of its intervals.

    A match is certain when its last pair is; durations are not looked at.

    >>> import numpy as np
    >>> times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
    >>> earliest(Pattern(2, ((0, 1, Relation.OVERLAPS),), 100), times, masks)
    {(1, 2): 3}
    """
    found = [runs(masks, bit) for bit in range(pattern.n_symbols)]
    letters = {
        (x, y): [int(mask >> x & 1) * 2 + int(mask >> y & 1) for mask in masks]
        for x, y, _ in pattern.constraints
    }

    @cache
    def decided(number: int, of_x: Run, of_y: Run) -> int | None:
        x, y, allowed = pattern.constraints[number]
        for now, possible in certain(letters[x, y], of_x, of_y):
            if all(held & allowed for held in possible):
                return now
        return None

    reports: dict[tuple[int, ...], int] = {}

    def extend(bound: list[Run], latest: int) -> None:
        at = len(bound)
        if at == pattern.n_symbols:
            starts = tuple(int(times[start]) for start, _ in bound)
            report = int(times[latest])
            if report - min(starts) <= pattern.window:
                reports[starts] = report
            return
        for run in found[at]:
            chosen = [*bound, run]
            known = max(latest, run[0])
            for number, (x, y, _) in enumerate(pattern.constraints):
                if max(x, y) == at:
                    row = decided(number, chosen[x], chosen[y])
                    if row is None:
                        break
                    known = max(known, row)
            else:
                extend(chosen, known)

    extend([], 0)
    return reports
