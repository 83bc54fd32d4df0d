"""ISEQ's temporal restrictions: endpoint comparisons, what they imply, and its index path.

ISEQ (Li et al., DEBS 2011) says a pattern as a conjunction of comparisons between endpoints.
Endpoint ``2 * symbol`` is the start of a symbol's interval, ``2 * symbol + 1`` its end.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from experiments.peers.pattern import Ints, Pattern
from piestream.relations import ALLEN, Relation

#: Strengths of an inferred restriction.
NOTHING, AT_MOST, LESS = 0, 1, 2

#: An example of each relation: xs, xe, ys, ye.
_EXAMPLES = {
    Relation.BEFORE: (0, 1, 2, 3),
    Relation.MEETS: (0, 1, 1, 2),
    Relation.OVERLAPS: (0, 2, 1, 3),
    Relation.FINISHED_BY: (0, 2, 1, 2),
    Relation.CONTAINS: (0, 3, 1, 2),
    Relation.STARTS: (0, 1, 0, 2),
    Relation.EQUALS: (0, 1, 0, 1),
    Relation.STARTED_BY: (0, 2, 0, 1),
    Relation.DURING: (1, 2, 0, 3),
    Relation.FINISHES: (1, 2, 0, 2),
    Relation.OVERLAPPED_BY: (1, 3, 0, 2),
    Relation.MET_BY: (1, 2, 0, 1),
    Relation.AFTER: (2, 3, 0, 1),
}


def comparisons(relations: Relation) -> list[tuple[int, int, str]]:
    """The endpoint comparisons that all relations of a set share: (endpoint of x, of y, sign).

    Endpoints are 0 for the start and 1 for the end. For a convex set (82 of the sets of Allen's
    relations) they say just what the set says; for others they are implied by it.

    >>> comparisons(Relation.OVERLAPS | Relation.MEETS)
    [(0, 0, '<'), (0, 1, '<'), (1, 0, '>='), (1, 1, '<')]
    """
    found = []
    for of_x, of_y in product((0, 1), (0, 1)):
        signs = set()
        for relation in ALLEN:
            if relation & relations:
                ends = _EXAMPLES[relation]
                left, right = ends[of_x], ends[2 + of_y]
                signs.add("<" if left < right else ">" if left > right else "=")
        if signs != {"<", "=", ">"} and signs != {"<", ">"}:
            sign = "".join(s for s in "<>" if s in signs) + ("=" if "=" in signs else "")
            found.append((of_x, of_y, sign))
    return found


def closure(pattern: Pattern) -> Ints:
    """int64[2n, 2n]: NOTHING, AT_MOST or LESS, as an endpoint (row) must be of another (column).

    All that the restrictions imply: the transitive closure is complete for comparisons without
    ``!=``, so no exponential inference is needed.
    """
    n = pattern.n_symbols
    implied = np.zeros((2 * n, 2 * n), dtype=np.int64)
    for symbol in range(n):
        implied[2 * symbol, 2 * symbol + 1] = LESS
    for x, y, relations in pattern.constraints:
        for of_x, of_y, sign in comparisons(relations):
            low, high = 2 * x + of_x, 2 * y + of_y
            strength = AT_MOST if "=" in sign else LESS
            if "<" in sign or sign == "=":
                implied[low, high] = max(implied[low, high], strength)
            if ">" in sign or sign == "=":
                implied[high, low] = max(implied[high, low], strength)
    for middle in range(2 * n):
        for low in range(2 * n):
            if implied[low, middle]:
                for high in range(2 * n):
                    if implied[middle, high]:
                        through = max(implied[low, middle], implied[middle, high])
                        implied[low, high] = max(implied[low, high], through)
    return implied


def longest_path(implied: Ints, punctuated: bool) -> list[int]:
    """The longest chain of endpoints, each less than the next, that the index is built on.

    Ends only, unless starts are known when they happen (``punctuated``). A step within one
    interval joins nothing and does not count.
    """
    if any(implied[at, at] == LESS for at in range(len(implied))):
        return []  # contradictory: nothing matches
    # In order of how many endpoints must come before: a topological order of "less".
    before_it = (implied == LESS).sum(axis=0)
    nodes = [int(at) for at in np.argsort(before_it, kind="stable") if punctuated or at % 2]
    best: dict[int, list[int]] = {}
    for at in nodes:
        best[at] = [at]
        for before in nodes:
            if implied[before, at] == LESS and before in best:
                best[at] = max(best[at], [*best[before], at], key=_joins)
    return max(best.values(), key=_joins, default=[])


def _joins(path: list[int]) -> tuple[int, int]:
    """How many symbols a path joins, and in how many steps."""
    steps = sum(below // 2 != above // 2 for below, above in pairwise(path))
    return len({endpoint // 2 for endpoint in path}), steps


def join_steps(pattern: Pattern, path: list[int]) -> tuple[Ints, Ints]:
    """How the matches of each triggering symbol are put together, two arrays.

    ``order`` int64[n, n]: the symbols in the order of joining. The trigger comes first, then
    always a symbol that a constraint connects with those before (else every combination would be
    tried), if there is one then one that the index path leads down to. ``pointer`` int64[n, n]:
    the endpoint of an interval bound before whose stack pointer bounds the candidates of this
    step, or -1 for a scan.
    """
    n = pattern.n_symbols
    order = np.zeros((n, n), dtype=np.int64)
    pointer = np.full((n, n), -1, dtype=np.int64)
    # What the path leads down to from each endpoint.
    down = list(pairwise(reversed(path)))
    for trigger in range(n):
        chosen, bounded_by = [trigger], [-1]
        while len(chosen) < n:
            connected = [
                symbol
                for symbol in range(n)
                if symbol not in chosen and set(pattern.neighbours(symbol)) & set(chosen)
            ]
            led_to = [
                (below // 2, above)
                for above, below in down
                if above // 2 in chosen and below // 2 in connected
            ]
            symbol, above = led_to[0] if led_to else (connected[0], -1)
            chosen.append(symbol)
            bounded_by.append(above)
        order[trigger], pointer[trigger] = chosen, bounded_by
    return order, pointer


def related_before(pattern: Pattern, order: Ints) -> Ints:
    """int64[n, n, n]: for each order of joining, the symbols before each that it is related to.

    Padded with -1.

    >>> pattern = Pattern.chain(3)
    >>> related_before(pattern, np.array([[0, 1, 2]] * 3))[0].tolist()
    [[-1, -1, -1], [0, -1, -1], [1, -1, -1]]
    """
    n = pattern.n_symbols
    related = np.full((n, n, n), -1, dtype=np.int64)
    for trigger, symbols in enumerate(order.tolist()):
        for level, symbol in enumerate(symbols):
            before = [s for s in symbols[:level] if s in pattern.neighbours(symbol)]
            related[trigger, level, : len(before)] = before
    return related
