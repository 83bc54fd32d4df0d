"""Join orders: in which order a match is completed from whatever was decided last, its *seed*.

No partial matches are stored, so an order is nothing but a list of steps for each seed, and can be
changed between two events at no cost. How many partners a step has to try is estimated from a sample
of the live state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

#: Up to so many symbols to bind, all orders are costed; beyond, the cheapest next one is taken.
_ALL_ORDERS = 7
#: What is assumed of a constraint before anything was seen: partners of an interval, and the share
#: of all live intervals that they are; of one that allows before or after, and of the others.
_ASSUMED_PARTNERS = {True: 20.0, False: 1.0}
_ASSUMED_SHARE = {True: 0.4, False: 0.1}


@dataclass(frozen=True, slots=True)
class Edge:
    """A constraint in the join graph: its two symbols, and whether it allows before or after."""

    x: int
    y: int
    ranged: bool  # it does, so that an interval may have very many partners

    def other(self, symbol: int) -> int:
        """The symbol at the other end."""
        return self.y if symbol == self.x else self.x

    def side(self, symbol: int) -> int:
        """0 for x, 1 for y."""
        return 0 if symbol == self.x else 1


@dataclass(frozen=True, slots=True)
class EqualKeys:
    """Two symbols whose intervals have equal keys in every match."""

    x: int
    y: int
    constraint: int | None  # the one whose partners are looked up by this key


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint with a symbol bound before, or that both have equal keys.

    Neither of the two: only that they are not the same interval.
    """

    constraint: int | None
    side: int
    other: int
    equal_keys: int | None = None


@dataclass(frozen=True)
class Step:
    """Bind ``target`` to the partners that ``constraint`` gives for the symbol on ``side``."""

    target: int
    constraint: int
    side: int
    checks: tuple[Check, ...]

    @cached_property
    def needs(self) -> int:
        """The symbols that the checks look at, a bit each."""
        symbols = 0
        for check in self.checks:
            symbols |= 1 << check.other
        return symbols


class SideSample(Protocol):
    """Sums over a sample of the live intervals on one side of a constraint (joins.records)."""

    intervals: int
    candidates: int  # live intervals of the other symbol beside them
    partners: int
    partners_after_all: int  # if all of those had ended before them, as before a seed


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many partners an interval has in a constraint, and what share of all live intervals.

    By constraint, side, and whether the interval is bound by a seed: that one is among the latest,
    and all others lie before it.
    """

    partners: Mapping[tuple[int, int, bool], float] = field(default_factory=dict)
    share: Mapping[tuple[int, int, bool], float] = field(default_factory=dict)

    def partners_of(self, edge: Edge, number: int, side: int, of_seed: bool) -> float:
        """How many partners an interval on a side of a constraint has."""
        return self.partners.get((number, side, of_seed), _ASSUMED_PARTNERS[edge.ranged])

    def share_of(self, edge: Edge, number: int, side: int, of_seed: bool) -> float:
        """The share of all live intervals of the other symbol that are its partners."""
        return self.share.get((number, side, of_seed), _ASSUMED_SHARE[edge.ranged])

    @classmethod
    def from_samples(cls, samples: Sequence[Sequence[SideSample]]) -> Estimate:
        """An estimate from samples of the live state, of both sides of every constraint."""
        partners: dict[tuple[int, int, bool], float] = {}
        share: dict[tuple[int, int, bool], float] = {}
        for number, sides in enumerate(samples):
            for side, sample in enumerate(sides):
                if not sample.intervals:
                    continue
                for of_seed in (False, True):
                    found = sample.partners_after_all if of_seed else sample.partners
                    partners[number, side, of_seed] = found / sample.intervals
                    all_found = found / sample.candidates if sample.candidates else 1.0
                    share[number, side, of_seed] = all_found
        return cls(partners, share)

    def differs(self, other: Estimate, factor: float) -> bool:
        """Whether some number of partners is more than ``factor`` times that of the other."""
        if self.partners.keys() != other.partners.keys():
            return True
        return any(
            max(mine, other.partners[key]) > factor * max(min(mine, other.partners[key]), 0.1)
            for key, mine in self.partners.items()
        )


class JoinOrders:
    """All seeds of a query, and the steps that complete a match from each, for any estimate."""

    def __init__(
        self,
        edges: Sequence[Edge],
        same_predicate_pairs: Sequence[frozenset[int]],
        equal_keys: Sequence[EqualKeys] = (),
    ) -> None:
        self.edges = edges
        self.equal_keys = equal_keys
        self.same_predicate_pairs = same_predicate_pairs
        self.seeds: dict[str, tuple[int, ...]] = {}
        #: Without ranges and cycles the semijoin reduction leaves nothing to try in vain, whatever
        #: the order.
        symbols = {s for edge in edges for s in (edge.x, edge.y)}
        #: Constraints close cycles, which are checked.
        self.is_cyclic = len(edges) >= len(symbols) > 0
        self.adaptive = any(e.ranged for e in edges) or self.is_cyclic

    def add_seed(self, name: str, bound: tuple[int, ...]) -> int:
        """Add a seed that binds these symbols; gives its number."""
        self.seeds[name] = bound
        return len(self.seeds) - 1

    def steps(self, estimate: Estimate) -> dict[str, tuple[Step, ...]]:
        """The steps of every seed."""
        writer = _StepWriter(self.edges, self.same_predicate_pairs, estimate, self.equal_keys)
        symbols = {s for edge in self.edges for s in (edge.x, edge.y)}
        far = [bound for bound in self.seeds.values() if len(symbols) - len(bound) > _ALL_ORDERS]
        greedy = dict(zip(far, greedy_orders(far, self.edges, estimate), strict=True))
        return {
            name: steps_from(
                bound, self.edges, self.same_predicate_pairs, estimate, greedy.get(bound), writer
            )
            for name, bound in self.seeds.items()
        }


def steps_from(
    bound: Sequence[int],
    edges: Sequence[Edge],
    same_predicate_pairs: Sequence[frozenset[int]],
    estimate: Estimate | None = None,
    order: Sequence[int] | None = None,
    writer: _StepWriter | None = None,
) -> tuple[Step, ...]:
    """The steps that bind all remaining symbols once ``bound`` are, at the least estimated work.

    ``same_predicate_pairs`` are pairs of symbols that no constraint prevents from binding the same
    interval. An ``order`` that was found already is taken, and steps are shared by whoever asks the
    same ``writer``.
    """
    estimate = estimate or Estimate()
    symbols = {s for edge in edges for s in (edge.x, edge.y)} if order is None else ()
    if order is None and len(symbols) - len(bound) > _ALL_ORDERS:
        (order,) = greedy_orders([bound], edges, estimate)
    if order is None or len(edges) <= len(order) + len(bound):
        search = _Search(edges, estimate, bound)
        order = search.best(frozenset(bound)) if order is None else order
        if search.is_tree and not any(edge.ranged for edge in edges):
            order = search.branch_by_branch(order, bound)  # any order is as good
    writer = writer or _StepWriter(edges, same_predicate_pairs, estimate)
    return writer.steps(bound, order)


class _StepWriter:
    """Writes orders as steps. Orders that come to the same symbols from different seeds share them."""

    def __init__(
        self,
        edges: Sequence[Edge],
        same_predicate_pairs: Sequence[frozenset[int]],
        estimate: Estimate,
        equal_keys: Sequence[EqualKeys] = (),
    ) -> None:
        self.edges = edges
        self.estimate = estimate
        self.equal_keys = equal_keys
        self.written: dict[tuple[int, int, int], Step] = {}
        #: By target, in order of the constraints: a bit for the other symbol, the constraint, and its
        #: check.
        self.incident: dict[int, list[tuple[int, int, Check]]] = {}
        self.ranked: dict[int, list[tuple[int, int, Check]]] = {}
        for number, edge in enumerate(edges):
            for target in (edge.x, edge.y):
                other = edge.other(target)
                check = Check(number, edge.side(target), other)
                self.incident.setdefault(target, []).append((1 << other, number, check))
        self.same: dict[int, list[int]] = {}
        for pair in same_predicate_pairs:
            for target in pair:
                (other,) = pair - {target}
                self.same.setdefault(target, []).append(other)

    def steps(self, bound: Sequence[int], order: Sequence[int]) -> tuple[Step, ...]:
        """The steps that bind symbols in an order, once ``bound`` are."""
        seed = done = sum(1 << symbol for symbol in bound)
        # What is assumed of a constraint is the same whether or not the seed is there.
        of_seed = seed if self.estimate.partners else 0
        found = []
        for target in order:
            key = (target, done, of_seed)
            step = self.written.get(key)
            if step is None:
                step = self.written[key] = self._step(*key)
            found.append(step)
            done |= 1 << target
        return tuple(found)

    def _step(self, target: int, done: int, seed: int) -> Step:
        ranked, elsewhere = self._ranked(target), done & ~seed
        via_entry = next((entry for entry in ranked if entry[0] & elsewhere), None)
        if done & seed:
            near = [entry for entry in ranked if entry[0] & done & seed]
            others = near if via_entry is None else [*near, via_entry]
            via_entry = min(others, key=lambda entry: self._work(entry, seed))
        assert via_entry is not None  # an order goes along constraints
        _, via, check = via_entry
        checks = [e[2] for e in self.incident[target] if e[0] & done and e is not via_entry]
        checks += [Check(None, 0, s) for s in self.same.get(target, ()) if done >> s & 1]
        for number, keys in enumerate(self.equal_keys):
            if target in (keys.x, keys.y) and keys.constraint != via:
                side = 0 if target == keys.x else 1
                other = keys.y if side == 0 else keys.x
                if done >> other & 1:
                    checks.append(Check(None, side, other, number))
        return Step(target, via, 1 - check.side, tuple(checks))

    def _ranked(self, target: int) -> list[tuple[int, int, Check]]:
        """The incident constraints, that of least work first where the seed is at none of them."""
        if target not in self.ranked:
            self.ranked[target] = sorted(self.incident[target], key=lambda e: self._work(e, 0))
        return self.ranked[target]

    def _work(self, entry: tuple[int, int, Check], seed: int) -> tuple[float, bool, int]:
        bit, number, check = entry
        edge = self.edges[number]
        tried = self.estimate.partners_of(edge, number, 1 - check.side, bool(bit & seed))
        return tried, edge.ranged, number


def greedy_orders(
    seeds: Sequence[Sequence[int]], edges: Sequence[Edge], estimate: Estimate
) -> list[tuple[int, ...]]:
    """For each seed an order that always takes the symbol of which the fewest bindings remain.

    All orders grow together, a symbol a round.
    """
    if not seeds:
        return []
    costs = _Costs(edges, estimate)
    n = costs.n_symbols
    everyone = np.arange(len(seeds))
    done = np.zeros((len(seeds), n), bool)
    via = np.full((len(seeds), n), costs.none)  # the best constraint that reaches each symbol
    others = np.ones((len(seeds), n))  # the product of the shares of all others

    def bind(which: NDArray[np.intp], symbols: NDArray[np.intp], of_seed: bool) -> None:
        done[which, symbols] = True
        more, known = costs.ranks[int(of_seed)][symbols], via[which]
        new = more != costs.none
        others[which] *= np.where(new, costs.shares[np.maximum(more, known)], 1.0)
        via[which] = np.minimum(more, known)

    for at in range(max(map(len, seeds), default=0)):
        which = np.array([g for g, seed in enumerate(seeds) if len(seed) > at], np.intp)
        bind(which, np.array([seeds[g][at] for g in which], np.intp), of_seed=True)
    orders: list[list[int]] = [[] for _ in seeds]
    while True:
        open_ones = ~done & (via != costs.none)
        kept = np.where(open_ones, costs.partners[via] * others, np.inf)
        targets = kept.argmin(axis=1)
        which = everyone[open_ones[everyone, targets]]
        if not which.size:
            return [tuple(order) for order in orders]
        for g, target in zip(which.tolist(), targets[which].tolist(), strict=True):
            orders[g].append(target)
        bind(which, targets[which], of_seed=False)


class _Costs:
    """Each edge and direction has a rank by what it costs to join along it, the best one 0."""

    def __init__(self, edges: Sequence[Edge], estimate: Estimate) -> None:
        self.n_symbols = 1 + max((max(edge.x, edge.y) for edge in edges), default=-1)
        directions = [
            (estimate.partners_of(edge, number, side, of_seed), edge.ranged, number, side, of_seed)
            for number, edge in enumerate(edges)
            for side in range(2)
            for of_seed in (False, True)
        ]
        directions.sort()
        #: The rank where no edge leads.
        self.none = len(directions)
        self.partners = np.array([*(direction[0] for direction in directions), np.inf])
        self.shares = np.ones(len(directions) + 1)
        #: By whether the source is of the seed, by source, by target.
        self.ranks = np.full((2, self.n_symbols, self.n_symbols), self.none)
        for rank, (_, _, number, side, of_seed) in enumerate(directions):
            edge = edges[number]
            source, target = (edge.y, edge.x) if side else (edge.x, edge.y)
            self.ranks[int(of_seed), source, target] = rank
            self.shares[rank] = estimate.share_of(edge, number, side, of_seed)


def independent_suffix(steps: Sequence[Step], edges: Sequence[Edge]) -> int:
    """The first step from which on none needs a symbol that the steps before it bound.

    The matches are then the product of what these find and of what those before them find.
    """
    earlier = sum(1 << step.target for step in steps)
    independent, needed = len(steps), 0
    for first in range(len(steps) - 1, 0, -1):
        step = steps[first]
        earlier &= ~(1 << step.target)
        needed |= step.needs | 1 << edges[step.constraint].other(step.target)
        if not needed & earlier:
            independent = first
    return independent


class _Search:
    """Costs orders: the work of a step is the partners tried, for every binding that got there."""

    def __init__(self, edges: Sequence[Edge], estimate: Estimate, seed: Sequence[int]) -> None:
        self.edges = edges
        self.estimate = estimate
        self.seed = seed
        self.incident: dict[int, list[int]] = {}
        for number, edge in enumerate(edges):
            self.incident.setdefault(edge.x, []).append(number)
            self.incident.setdefault(edge.y, []).append(number)
        self.memo: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {}

    @property
    def is_tree(self) -> bool:
        """Whether the constraints connect their symbols without a cycle."""
        return len(self.edges) < len(self.incident) or not self.edges

    def branch_by_branch(self, order: Sequence[int], bound: Sequence[int]) -> tuple[int, ...]:
        """An order in which the branches that only ``bound`` connects come one after the other."""
        branch = {symbol: symbol for symbol in order}
        for target in order:  # each is connected to one before it
            for number in self.incident[target]:
                other = self.edges[number].other(target)
                if other not in bound and order.index(other) < order.index(target):
                    branch[target] = branch[other]
        branches = list(dict.fromkeys(branch.values()))
        return tuple(sorted(order, key=lambda symbol: branches.index(branch[symbol])))

    def cost(self, target: int, bound: Iterable[int]) -> tuple[int, list[int], float, float]:
        """How to bind a symbol: by which constraint, checking which others, at what work and yield."""
        known = set(bound)
        applicable = [e for e in self.incident[target] if self.edges[e].other(target) in known]

        def partners(e: int) -> float:
            return self.estimate.partners_of(self.edges[e], e, *self._source(e, target))

        via = min(applicable, key=lambda e: (partners(e), self.edges[e].ranged, e))
        others = [e for e in applicable if e != via]
        kept = partners(via)
        for e in others:
            kept *= self.estimate.share_of(self.edges[e], e, *self._source(e, target))
        return via, others, partners(via), kept

    def _source(self, constraint: int, target: int) -> tuple[int, bool]:
        """The side of a constraint that a target is reached from, and whether the seed is there."""
        edge = self.edges[constraint]
        source = edge.other(target)
        return edge.side(source), source in self.seed

    def candidates(self, bound: Iterable[int]) -> list[int]:
        """The symbols that a constraint connects to those bound."""
        known = set(bound)
        connected = {self.edges[e].other(s) for s in known for e in self.incident.get(s, ())}
        return sorted(connected - known)

    def best(self, bound: frozenset[int]) -> tuple[int, ...]:
        """The order of least work, over all orders."""
        return self._least(bound)[1]

    def _least(self, bound: frozenset[int]) -> tuple[float, tuple[int, ...]]:
        if bound not in self.memo:
            choices = []
            for target in self.candidates(bound):
                _, _, tried, kept = self.cost(target, bound)
                work, order = self._least(bound | {target})
                choices.append((tried + kept * work, (target, *order)))
            self.memo[bound] = min(choices, default=(0.0, ()))
        return self.memo[bound]


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


def bounded_sides(
    tree: Sequence[int],
    edges: Sequence[Edge],
    seeds: Sequence[tuple[Sequence[int], int | None]],
) -> list[tuple[int, int]]:
    """The constraints of the tree, with a symbol, whose partners bound the symbol's intervals.

    They do if some seed lies on the symbol's side of the constraint: then intervals of the symbol may
    be reached from there, and can complete a match only if a partner can. ``seeds`` are the symbols
    that each binds, and the constraint whose pair it is: the partner in that one is bound already.
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
