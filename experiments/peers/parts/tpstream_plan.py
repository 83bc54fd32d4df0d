"""TPStream's evaluation orders: its cost model and statistics (EDBT 2018, section 5.4)."""

from __future__ import annotations

import numpy as np
from numba import njit

from experiments.peers.parts.tpstream_join import Tables
from experiments.peers.pattern import Ints, Pattern
from piestream.relations import Relation, inverse

#: Table 3: how many of all pairs are in each relation, before anything was observed.
INITIAL_SELECTIVITY = {
    Relation.BEFORE: 0.445,
    Relation.DURING: 0.03,
    Relation.OVERLAPS: 0.01,
    Relation.STARTS: 0.0049,
    Relation.FINISHES: 0.0049,
    Relation.MEETS: 0.0049,
    Relation.EQUALS: 0.0006,
}

#: Up to here all orders are weighed (by dynamic programming over the sets joined so far, which
#: finds the optimum of the enumeration); beyond, the cheapest next step is taken each time.
MOST_ENUMERATED = 7

#: A buffer of this size stands for an empty one, whose product with anything would be nothing.
_FLOOR = 1.0
#: Below this a selectivity is not worth a new plan: it is noise.
_LEAST_SHARE = 1e-3


def initial_selectivities(pattern: Pattern) -> np.ndarray:
    """float64[n, n]: the share of pairs that each constraint is expected to let through."""
    shares = np.zeros((pattern.n_symbols, pattern.n_symbols))
    for x, y, relations in pattern.constraints:
        share = sum(
            expected
            for relation, expected in INITIAL_SELECTIVITY.items()
            for one in {relation, inverse(relation)}
            if one & relations
        )
        shares[x, y] = shares[y, x] = share
    return shares


@njit(cache=True, nogil=True)
def _step_cost(
    symbol: int,
    joined: int,
    size: float,
    tables: Tables,
    sizes: np.ndarray,
    shares: np.ndarray,
    as_printed: bool,
) -> tuple[float, float]:
    """The cost of joining one more buffer, and the size of the result; -1 for a cross product."""
    share = 1.0
    found = 0.0
    linked = False
    for k in range(tables.degree[symbol]):
        other = tables.adjacent[symbol, k]
        if joined >> other & 1:
            linked = True
            share *= shares[symbol, other]
            found += 4.0 * tables.searches[symbol, other] * np.log2(sizes[symbol] + 1.0)
    if not linked:
        return -1.0, 0.0
    result = size * sizes[symbol] * share
    # Equation (2) multiplies the sizes of two results. The number of searches is what is meant.
    cost = size * result + found if as_printed else size * found + result
    return cost, result


@njit(cache=True, nogil=True)
def best_orders(tables: Tables, sizes: np.ndarray, shares: np.ndarray, as_printed: bool) -> Ints:
    """int64[n, n]: the cheapest order without cross products for each preset symbol."""
    n = len(tables.degree)
    orders = np.empty((n, n), dtype=np.int64)
    size_of = np.maximum(sizes, _FLOOR)
    for first in range(n):
        if n > MOST_ENUMERATED:
            _cheapest_next(orders[first], first, tables, size_of, shares, as_printed)
        else:
            _cheapest_of_all(orders[first], first, tables, size_of, shares, as_printed)
    return orders


@njit(cache=True, nogil=True)
def _cheapest_next(
    order: Ints, first: int, tables: Tables, sizes: np.ndarray, shares: np.ndarray, printed: bool
) -> None:
    """The order that takes the cheapest next step each time."""
    joined = 1 << first
    order[0] = first
    size = sizes[first] if printed else 1.0
    for at in range(1, len(order)):
        best, cheapest, result = -1, 0.0, 0.0
        for symbol in range(len(order)):
            if joined >> symbol & 1:
                continue
            cost, after = _step_cost(symbol, joined, size, tables, sizes, shares, printed)
            if cost >= 0 and (best < 0 or cost < cheapest):
                best, cheapest, result = symbol, cost, after
        order[at] = best
        joined |= 1 << best
        size = result


@njit(cache=True, nogil=True)
def _cheapest_of_all(
    order: Ints, first: int, tables: Tables, sizes: np.ndarray, shares: np.ndarray, printed: bool
) -> None:
    """The cheapest of all orders, by dynamic programming over the sets joined so far.

    The size of a result depends on which buffers were joined, not on their order.
    """
    n = len(order)
    everything = (1 << n) - 1
    cost_to = np.full(everything + 1, np.inf)
    size_at = np.zeros(everything + 1)
    last = np.full(everything + 1, -1, dtype=np.int64)
    cost_to[1 << first] = 0.0
    size_at[1 << first] = sizes[first] if printed else 1.0
    for joined in range(1, everything + 1):
        if cost_to[joined] == np.inf:
            continue
        for symbol in range(n):
            if joined >> symbol & 1:
                continue
            cost, after = _step_cost(
                symbol, joined, size_at[joined], tables, sizes, shares, printed
            )
            larger = joined | 1 << symbol
            if cost >= 0 and cost_to[joined] + cost < cost_to[larger]:
                cost_to[larger] = cost_to[joined] + cost
                size_at[larger] = after
                last[larger] = symbol
    joined = everything
    for at in range(n - 1, 0, -1):
        order[at] = last[joined]
        joined ^= 1 << last[joined]
    order[0] = first


@njit(cache=True, nogil=True)
def deviates(now: np.ndarray, then: np.ndarray, threshold: float) -> bool:
    """Whether a statistic has moved by more than a share of what the plan was made from."""
    for at in range(len(now)):
        base = max(then[at], _FLOOR)
        if abs(max(now[at], _FLOOR) - base) > threshold * base:
            return True
    return False


@njit(cache=True, nogil=True)
def shares_deviate(
    now: np.ndarray, then: np.ndarray, adjacent: Ints, degree: Ints, threshold: float
) -> bool:
    """The same for the selectivities of the constraints."""
    for symbol in range(len(degree)):
        for k in range(degree[symbol]):
            other = adjacent[symbol, k]
            was = max(then[symbol, other], _LEAST_SHARE)
            share = max(now[symbol, other], _LEAST_SHARE)
            if symbol < other and abs(share - was) > threshold * was:
                return True
    return False
