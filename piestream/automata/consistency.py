"""Whether the constraints of a pattern can hold together, and what they imply.

Path consistency (Allen's algorithm; PC-2 in Mackworth's numbering) over the composition table:
what x may be to z is narrowed to what x:y and y:z leave possible, until nothing changes. An
empty set proves that no intervals satisfy the constraints. The converse holds for constraints of
one relation each and for three symbols, not always beyond: then a clash may go unseen, but none
is ever reported that is not there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from piestream.automata.allen import allen_of, basic_compositions, converse
from piestream.relations import ALLEN, Relation

__all__ = ["clash", "closure"]

Pair = tuple[str, str]
_Codes = NDArray[np.uint16]

# Inside this file a set of relations is a code of 13 bits, one for each of ALLEN in its order:
# dense, so that a set can be looked up in two small tables, by its low and its high bits.
_LOW_BITS = 7
_ALL = (1 << len(ALLEN)) - 1


def _code(relations: Relation) -> int:
    return sum(1 << at for at, relation in enumerate(ALLEN) if relation & relations)


def _relations(code: int) -> Relation:
    return Relation(sum(relation for at, relation in enumerate(ALLEN) if code >> at & 1))


@cache
def _basic_codes() -> list[list[int]]:
    table = basic_compositions()
    return [[_code(table[r, s]) for s in ALLEN] for r in ALLEN]


@cache
def _composed_with(code: int) -> tuple[_Codes, _Codes]:
    """``code`` composed with every set, as tables by the low and by the high bits of that set."""
    basic = _basic_codes()
    after = [0] * len(ALLEN)  # code composed with each single relation
    for r in range(len(ALLEN)):
        if code >> r & 1:
            after = [found | more for found, more in zip(after, basic[r], strict=True)]
    return _unions(after[:_LOW_BITS]), _unions(after[_LOW_BITS:])


def _unions(singles: list[int]) -> _Codes:
    """For each subset, as bits, the union of its members' codes."""
    unions = np.zeros(1 << len(singles), dtype=np.uint16)
    for at, single in enumerate(singles):
        unions[1 << at : 2 << at] = unions[: 1 << at] | single
    return unions


@dataclass(frozen=True)
class _Network:
    """Path consistency worked out: the narrowed codes, or why it failed."""

    allowed: _Codes
    blamed: frozenset[Pair] | None  # constraints that clash together (not minimal); None: no clash


def _propagate(symbols: Sequence[str], constraints: Mapping[Pair, Relation]) -> _Network:
    n = len(symbols)
    position = {symbol: at for at, symbol in enumerate(symbols)}
    keys = list(constraints)
    allowed = np.full((n, n), _ALL, dtype=np.uint16)
    np.fill_diagonal(allowed, _code(Relation.EQUALS))
    # Which constraints had a part in narrowing i:j, as bits by their position in keys. They are too
    # many rather than too few, so those of an empty set do clash; `clash` makes them minimal.
    caused_by = [[0] * n for _ in range(n)]
    queue: deque[tuple[int, int]] = deque()
    queued: set[tuple[int, int]] = set()

    def enqueue(i: int, j: int) -> None:
        edge = (i, j) if i < j else (j, i)
        if edge not in queued:
            queued.add(edge)
            queue.append(edge)

    def blame(bits: int) -> _Network:
        return _Network(allowed, frozenset(k for at, k in enumerate(keys) if bits >> at & 1))

    for at, key in enumerate(keys):
        i, j = position[key[0]], position[key[1]]
        narrowed = int(allowed[i, j]) & _code(allen_of(constraints[key]))
        caused_by[i][j] = caused_by[j][i] = caused_by[i][j] | 1 << at
        allowed[i, j], allowed[j, i] = narrowed, _converse_code(narrowed)
        if not narrowed:
            return blame(caused_by[i][j])
        enqueue(i, j)

    low = (1 << _LOW_BITS) - 1
    while queue:
        edge = queue.popleft()
        queued.discard(edge)
        for i, j in (edge, edge[::-1]):
            # Narrow i:k by i:j and j:k, for all k at once.
            by_low, by_high = _composed_with(int(allowed[i, j]))
            through = by_low[allowed[j] & low] | by_high[allowed[j] >> _LOW_BITS]
            narrowed_row = allowed[i] & through
            for k in np.flatnonzero(narrowed_row != allowed[i]).tolist():
                narrowed = int(narrowed_row[k])
                caused_by[i][k] |= caused_by[i][j] | caused_by[j][k]
                caused_by[k][i] = caused_by[i][k]
                allowed[i, k], allowed[k, i] = narrowed, _converse_code(narrowed)
                if not narrowed:
                    return blame(caused_by[i][k])
                enqueue(i, k)
    return _Network(allowed, None)


@cache
def _converse_code(code: int) -> int:
    return _code(converse(_relations(code)))


def _validate(symbols: Sequence[str], constraints: Mapping[Pair, Relation]) -> None:
    if len(set(symbols)) != len(symbols):
        raise ValueError(f"a symbol is given twice: {', '.join(symbols)}")
    for x, y in constraints:
        for symbol in (x, y):
            if symbol not in symbols:
                raise ValueError(
                    f"the constraint {x}:{y} names {symbol!r}, which is not among the symbols"
                )
        if x == y:
            raise ValueError(f"the constraint {x}:{y} relates a symbol to itself")


def _on_cycles(constraints: Mapping[Pair, Relation]) -> dict[Pair, Relation]:
    """The constraints left when symbols with a single one are taken off, again and again.

    A symbol of a single constraint with an allowed relation narrows nothing else: for every
    interval of its neighbour there is an interval of its own. A pattern without cycles is
    therefore found consistent without any composition.
    """
    left = {pair: set(pair) for pair in constraints}
    at_symbol: dict[str, list[Pair]] = {}
    for pair in constraints:
        for symbol in pair:
            at_symbol.setdefault(symbol, []).append(pair)
    leaves = [symbol for symbol, pairs in at_symbol.items() if len(pairs) == 1]
    while leaves:
        symbol = leaves.pop()
        for pair in at_symbol.pop(symbol, []):
            if not allen_of(constraints[pair]):
                continue  # allows nothing: a clash by itself
            (other,) = left.pop(pair) - {symbol}
            at_symbol[other].remove(pair)
            if len(at_symbol[other]) == 1:
                leaves.append(other)
    return {pair: constraints[pair] for pair in left}


def _clashing(constraints: Mapping[Pair, Relation]) -> frozenset[Pair] | None:
    """Some constraints that clash, not always the fewest; None if path consistency finds none."""
    on_cycles = _on_cycles(constraints)
    if not on_cycles:
        return None
    return _propagate(sorted({s for pair in on_cycles for s in pair}), on_cycles).blamed


def clash(symbols: Sequence[str], constraints: Mapping[Pair, Relation]) -> tuple[Pair, ...] | None:
    """Constraints that no intervals can satisfy together, or None if none are found.

    What is returned is minimal: without any one of them the rest would pass. The order is that
    of ``constraints``.

    >>> clash("abc", {("a", "b"): Relation.BEFORE, ("b", "c"): Relation.BEFORE,
    ...               ("c", "a"): Relation.MEETS | Relation.OVERLAPS})
    (('a', 'b'), ('b', 'c'), ('c', 'a'))
    >>> clash("abc", {("a", "b"): Relation.BEFORE, ("b", "c"): Relation.BEFORE}) is None
    True
    """
    _validate(symbols, constraints)
    blamed = _clashing(constraints)
    if blamed is None:
        return None
    # Deletion filtering. Each constraint that can go takes with it all that the remaining proof
    # does not need, so the number of proofs is about the size of the answer.
    needed: list[Pair] = []
    suspects = [pair for pair in constraints if pair in blamed]
    while suspects:
        suspect = suspects.pop(0)
        rest = {pair: constraints[pair] for pair in (*needed, *suspects)}
        proof = _clashing(rest)
        if proof is None:
            needed.append(suspect)
        else:
            suspects = [pair for pair in suspects if pair in proof]
            # One found needed stays needed: every clash among these constraints has it.
    return tuple(pair for pair in constraints if pair in needed)


def closure(
    symbols: Sequence[str], constraints: Mapping[Pair, Relation]
) -> dict[Pair, Relation] | None:
    """What remains possible between every two symbols, or None if the constraints clash.

    The given constraints come first, under their own keys and with ``followed-by`` and
    ``follows`` kept as they were given; then the other pairs in the order of ``symbols``, in
    Allen's terms, all thirteen where nothing is implied.

    >>> implied = closure("abc", {("a", "b"): Relation.BEFORE, ("b", "c"): Relation.MEETS})
    >>> implied["a", "c"]
    <Relation.BEFORE: 1>
    """
    _validate(symbols, constraints)
    if any(not allen_of(relations) for relations in constraints.values()):
        return None
    network = _propagate(symbols, constraints)
    if network.blamed is not None:
        return None
    position = {symbol: at for at, symbol in enumerate(symbols)}

    def narrowed(x: str, y: str) -> Relation:
        return _relations(int(network.allowed[position[x], position[y]]))

    found = {}
    for (x, y), relations in constraints.items():
        left = narrowed(x, y)
        kept = [r for r in Relation if r & relations and allen_of(r) & left]
        found[x, y] = Relation(sum(kept))
    for at, x in enumerate(symbols):
        for y in symbols[at + 1 :]:
            if (x, y) not in found and (y, x) not in found:
                found[x, y] = narrowed(x, y)
    return found
