"""The join plan: in which order a match is completed from whatever was decided last.

Nothing partial is stored, so a plan is only an order of symbols a seed, and can be changed between
two events at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from piestream.joins.layout import PIECE_EARLIER, PIECE_LATER, PIECE_PAIRS

ALL_PIECES = PIECE_PAIRS | PIECE_LATER | PIECE_EARLIER


@dataclass(frozen=True, slots=True)
class Edge:
    """A constraint as the plan sees it: its two symbols, and whether its partners are a range."""

    x: int
    y: int
    ranged: bool  # allows before or after: an interval may have very many partners

    def other(self, symbol: int) -> int:
        """The symbol at the other end."""
        return self.y if symbol == self.x else self.x

    def side(self, symbol: int) -> int:
        """0 for x, 1 for y."""
        return 0 if symbol == self.x else 1


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint with a symbol bound before; ``constraint`` None: only not the same interval."""

    constraint: int | None
    side: int
    other: int


@dataclass(frozen=True, slots=True)
class Step:
    """Bind ``target`` to the partners that ``constraint`` gives for the symbol on ``side``."""

    target: int
    constraint: int
    side: int
    pieces: int
    checks: tuple[Check, ...]


def steps_from(
    bound: Sequence[int],
    edges: Sequence[Edge],
    twins: Sequence[frozenset[int]],
    first: Step | None = None,
) -> tuple[Step, ...]:
    """The steps that bind all remaining symbols once ``bound`` are.

    Next comes the symbol with the fewest partners to try: through a pair index before a range, and
    with the most constraints to check it. ``twins`` are pairs of symbols with one predicate that no
    constraint keeps apart.
    """
    done = list(bound)
    steps: list[Step] = []
    if first is not None:
        steps.append(first)
        done.append(first.target)
    incident: dict[int, list[int]] = {}
    for number, edge in enumerate(edges):
        incident.setdefault(edge.x, []).append(number)
        incident.setdefault(edge.y, []).append(number)
    bound_set = set(done)
    frontier: dict[int, list[int]] = {}

    def reach(symbol: int) -> None:
        for number in incident.get(symbol, ()):
            other = edges[number].other(symbol)
            if other not in bound_set:
                frontier.setdefault(other, []).append(number)

    for symbol in done:
        reach(symbol)
    while frontier:
        target = min(
            frontier,
            key=lambda s: (all(edges[e].ranged for e in frontier[s]), -len(frontier[s]), s),
        )
        through = frontier.pop(target)
        via = min(through, key=lambda e: (edges[e].ranged, e))
        checks = [
            Check(e, edges[e].side(target), edges[e].other(target)) for e in through if e != via
        ]
        checks += [Check(None, 0, s) for s in done if frozenset((s, target)) in twins]
        source = edges[via].other(target)
        steps.append(Step(target, via, edges[via].side(source), ALL_PIECES, tuple(checks)))
        done.append(target)
        bound_set.add(target)
        reach(target)
    return tuple(steps)


def spanning_tree(n_symbols: int, edges: Sequence[Edge]) -> tuple[int, ...]:
    """The numbers of constraints that connect all symbols without a cycle.

    Constraints kept as pairs come before ranges: only of pairs is it known what lies behind them.
    """
    root = list(range(n_symbols))

    def find(symbol: int) -> int:
        while root[symbol] != symbol:
            symbol = root[symbol]
        return symbol

    tree = []
    for number in sorted(range(len(edges)), key=lambda e: edges[e].ranged):
        x, y = find(edges[number].x), find(edges[number].y)
        if x != y:
            root[x] = y
            tree.append(number)
    return tuple(tree)
