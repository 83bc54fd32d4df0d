"""What the relations of a pattern say of the order of endpoints, taken together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from piestream.automata.allen import allen_of
from piestream.relations import ALLEN, ENDPOINT_ORDER, Relation

__all__ = ["endpoint_orders", "may_end_last"]

#: How an endpoint must lie to another one: anyhow, not later, earlier.
_ANYHOW, _NOT_LATER, _EARLIER = 0, 1, 2


def may_end_last(n_symbols: int, constraints: Iterable[tuple[int, int, Relation]]) -> list[int]:
    """The symbols of which no other one's interval ends later in every match.

    >>> may_end_last(3, [(0, 1, Relation.DURING), (1, 2, Relation.OVERLAPS | Relation.EQUALS)])
    [1, 2]
    """
    order = endpoint_orders(n_symbols, constraints)
    ends = order[1::2, 1::2]
    return [s for s in range(n_symbols) if not (ends[s] == _EARLIER).any()]


def endpoint_orders(
    n_symbols: int, constraints: Iterable[tuple[int, int, Relation]]
) -> NDArray[np.int8]:
    """How each endpoint (row) must lie to each other one: anyhow (0), not later (1), earlier (2).

    Starts are even, ends are odd.

    >>> endpoint_orders(2, [(0, 1, Relation.MEETS | Relation.STARTS)]).tolist()[0]
    [0, 2, 1, 2]
    """
    order = np.zeros((2 * n_symbols, 2 * n_symbols), np.int8)
    starts = 2 * np.arange(n_symbols)
    order[starts, starts + 1] = _EARLIER
    for x, y, relations in constraints:
        allowed = [ENDPOINT_ORDER[r] for r in ALLEN if r & allen_of(relations)]
        for of_x, of_y, name in (
            (0, 0, "ts_ts"),
            (0, 1, "ts_te"),
            (1, 0, "te_ts"),
            (1, 1, "te_te"),
        ):
            signs = {getattr(one, name) for one in allowed}
            low, high = 2 * x + of_x, 2 * y + of_y
            order[low, high] = max(order[low, high], _strength(signs))
            order[high, low] = max(order[high, low], _strength({-sign for sign in signs}))
    for middle in range(2 * n_symbols):  # what lies between two others orders these
        before, after = order[:, middle, None], order[None, middle]
        through = np.maximum(before, after) * (before > 0) * (after > 0)
        np.maximum(order, through, out=order)
    return order


def _strength(signs: set[int]) -> int:
    """What the ways in which an endpoint may compare with another one have in common."""
    if 1 in signs:
        return _ANYHOW
    return _NOT_LATER if 0 in signs else _EARLIER
