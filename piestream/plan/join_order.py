"""The join plan: in which order a match is completed from whatever was decided last.

Nothing partial is stored, so a plan is only an order of symbols for each seed, and can be changed
between two events at no cost. How many partners there are to try is estimated from the live state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: Up to so many symbols to bind, all orders are weighed; beyond, the cheapest next one is taken.
_ALL_ORDERS = 7


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
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is known of a constraint's partners: how many an interval has, what share of all fit.

    By constraint, side, and whether it is an interval that a seed binds: that one is among the
    latest, and all others lie before it.
    """

    partners: Mapping[tuple[int, int, bool], float] = field(default_factory=dict)
    share: Mapping[tuple[int, int, bool], float] = field(default_factory=dict)

    def partners_of(self, edge: Edge, number: int, side: int, of_seed: bool) -> float:
        """How many partners an interval on a side of a constraint has."""
        return self.partners.get((number, side, of_seed), 20.0 if edge.ranged else 1.0)

    def share_of(self, edge: Edge, number: int, side: int, of_seed: bool) -> float:
        """The share of all live intervals of the other symbol that are its partners."""
        return self.share.get((number, side, of_seed), 0.4 if edge.ranged else 0.1)

    @classmethod
    def from_counts(cls, counts: Sequence[int], edges: Sequence[Edge]) -> Estimate:
        """An estimate from the counts of a survey of the live state (state.survey)."""
        partners: dict[tuple[int, int, bool], float] = {}
        share: dict[tuple[int, int, bool], float] = {}
        for number in range(len(edges)):
            for side in (0, 1):
                intervals, beside, *found = counts[8 * number + 4 * side :][:4]
                for of_seed in (False, True):
                    if intervals:
                        partners[number, side, of_seed] = found[of_seed] / intervals
                        share[number, side, of_seed] = found[of_seed] / beside if beside else 1.0
        return cls(partners, share)

    def differs(self, other: Estimate, factor: float) -> bool:
        """Whether some number of partners is more than ``factor`` times that of the other."""
        if self.partners.keys() != other.partners.keys():
            return True
        return any(
            max(mine, other.partners[key]) > factor * max(min(mine, other.partners[key]), 0.1)
            for key, mine in self.partners.items()
        )


def steps_from(
    bound: Sequence[int],
    edges: Sequence[Edge],
    twins: Sequence[frozenset[int]],
    estimate: Estimate | None = None,
) -> tuple[Step, ...]:
    """The steps that bind all remaining symbols once ``bound`` are, at the least estimated work.

    ``twins`` are pairs of symbols with one predicate that no constraint keeps apart.
    """
    search = _Search(edges, estimate or Estimate(), bound)
    remaining = len({s for edge in edges for s in (edge.x, edge.y)}) - len(bound)
    order = search.best(frozenset(bound)) if remaining <= _ALL_ORDERS else search.greedy(bound)
    if search.is_tree and not any(edge.ranged for edge in edges):
        order = search.side_by_side(order, bound)  # any order is as good
    done = list(bound)
    steps = []
    for target in order:
        via, others, _, _ = search.weighed(target, done)
        checks = [Check(e, edges[e].side(target), edges[e].other(target)) for e in others]
        checks += [Check(None, 0, s) for s in done if frozenset((s, target)) in twins]
        source = edges[via].other(target)
        steps.append(Step(target, via, edges[via].side(source), tuple(checks)))
        done.append(target)
    return tuple(steps)


def split_of(steps: Sequence[Step], edges: Sequence[Edge]) -> int:
    """The first step from which on none asks for what the steps before it bound.

    What lies on two sides of a seed has nothing to do with each other: its matches are the product.
    """
    for split in range(1, len(steps)):
        earlier = {step.target for step in steps[:split]}
        asked = {edges[s.constraint].other(s.target) for s in steps[split:]} | {
            check.other for s in steps[split:] for check in s.checks
        }
        if not asked & earlier:
            return split
    return len(steps)


class _Search:
    """Weighs orders: the work of a step is the partners tried, for every binding that got there."""

    def __init__(self, edges: Sequence[Edge], estimate: Estimate, seed: Sequence[int]) -> None:
        self.edges = edges
        self.estimate = estimate
        self.seed = seed
        self.incident: dict[int, list[int]] = {}
        for number, edge in enumerate(edges):
            self.incident.setdefault(edge.x, []).append(number)
            self.incident.setdefault(edge.y, []).append(number)
        self.found: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {}

    @property
    def is_tree(self) -> bool:
        """Whether the constraints connect their symbols without a cycle."""
        return len(self.edges) < len(self.incident) or not self.edges

    def side_by_side(self, order: Sequence[int], bound: Sequence[int]) -> tuple[int, ...]:
        """An order in which what only ``bound`` connects comes one after the other."""
        part = {symbol: symbol for symbol in order}
        for target in order:  # each is connected to one before it
            for number in self.incident[target]:
                other = self.edges[number].other(target)
                if other not in bound and order.index(other) < order.index(target):
                    part[target] = part[other]
        parts = list(dict.fromkeys(part.values()))
        return tuple(sorted(order, key=lambda symbol: parts.index(part[symbol])))

    def weighed(self, target: int, bound: Iterable[int]) -> tuple[int, list[int], float, float]:
        """How to bind a symbol: through which constraint, checking which, at what work and yield."""
        there = set(bound)
        through = [e for e in self.incident[target] if self.edges[e].other(target) in there]

        def partners(e: int) -> float:
            return self.estimate.partners_of(self.edges[e], e, *self._from(e, target))

        via = min(through, key=lambda e: (partners(e), self.edges[e].ranged, e))
        others = [e for e in through if e != via]
        kept = partners(via)
        for e in others:
            kept *= self.estimate.share_of(self.edges[e], e, *self._from(e, target))
        return via, others, partners(via), kept

    def _from(self, constraint: int, target: int) -> tuple[int, bool]:
        """The side of a constraint that a target is reached from, and whether the seed is there."""
        edge = self.edges[constraint]
        source = edge.other(target)
        return edge.side(source), source in self.seed

    def candidates(self, bound: Iterable[int]) -> list[int]:
        """The symbols that a constraint connects to those bound."""
        there = set(bound)
        near = {self.edges[e].other(s) for s in there for e in self.incident.get(s, ())}
        return sorted(near - there)

    def best(self, bound: frozenset[int]) -> tuple[int, ...]:
        """The order of least work, over all orders."""
        return self._least(bound)[1]

    def _least(self, bound: frozenset[int]) -> tuple[float, tuple[int, ...]]:
        if bound not in self.found:
            choices = []
            for target in self.candidates(bound):
                _, _, tried, kept = self.weighed(target, bound)
                work, order = self._least(bound | {target})
                choices.append((tried + kept * work, (target, *order)))
            self.found[bound] = min(choices, default=(0.0, ()))
        return self.found[bound]

    def greedy(self, bound: Sequence[int]) -> tuple[int, ...]:
        """An order that always takes the symbol of which the fewest bindings remain."""
        done = list(bound)
        order: list[int] = []
        while near := self.candidates(done):
            target = min(near, key=lambda s: (self.weighed(s, done)[3], s))
            order.append(target)
            done.append(target)
        return tuple(order)


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


def asked(
    tree: Sequence[int],
    edges: Sequence[Edge],
    seeds: Sequence[tuple[Sequence[int], int | None]],
) -> list[tuple[int, int]]:
    """The constraints of the tree, with a symbol, of whose partners there something is asked.

    It is where some seed lies on the symbol's side of the constraint: then its intervals may be
    entered from there, and are worth it only if a partner is there. ``seeds`` are the symbols that
    each binds, and the constraint whose pairs it is of: that one's partner is bound.
    """
    found = []
    for constraint in tree:
        for symbol in (edges[constraint].x, edges[constraint].y):
            side = {symbol}
            fresh = [symbol]
            while fresh:
                near = fresh.pop()
                for other in tree:
                    if other != constraint and near in (edges[other].x, edges[other].y):
                        more = {edges[other].other(near)} - side
                        side |= more
                        fresh += more
            if any(of != constraint and side.intersection(bound) for bound, of in seeds):
                found.append((constraint, symbol))
    return found
