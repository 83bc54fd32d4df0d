"""Join orders: in which order a match is completed from whatever was decided last, its *seed*.

No partial matches are stored, so an order is nothing but a list of steps for each seed, and can be
changed between two events at no cost. How many partners a step has to try is estimated from a sample
of the live state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

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


class Step(NamedTuple):
    """Bind ``target`` to the partners that ``constraint`` gives for the symbol on ``side``.

    They must fit the symbols of ``checked``, a bit each: all others bound before it to which a
    constraint leads, or that may not be the same interval. And their keys must be equal to those
    of ``keyed``.
    """

    target: int
    constraint: int
    side: int
    checked: int
    keyed: int


#: Steps as rows, their fields as columns.
StepTable = NDArray[np.uint64]


class SideSample(Protocol):
    """Sums over a sample of the live intervals on one side of a constraint (joins.result_rows)."""

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

    def __deepcopy__(self, memo: object) -> Estimate:
        return self  # it never changes

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
        equal_keys: Sequence[frozenset[int]] = (),
    ) -> None:
        self.edges = edges
        self.same_predicate_pairs = same_predicate_pairs
        self.equal_keys = equal_keys
        self.seeds: dict[str, tuple[int, ...]] = {}
        #: Without ranges and cycles the semijoin reduction leaves nothing to try in vain, whatever
        #: the order.
        symbols = {s for edge in edges for s in (edge.x, edge.y)}
        #: Constraints close cycles, which are checked.
        self.is_cyclic = len(edges) >= len(symbols) > 0
        self.adaptive = any(e.ranged for e in edges) or self.is_cyclic

    def __deepcopy__(self, memo: object) -> JoinOrders:
        return self  # it never changes

    def add_seed(self, name: str, bound: tuple[int, ...]) -> int:
        """Add a seed that binds these symbols; gives its number."""
        self.seeds[name] = bound
        return len(self.seeds) - 1

    @property
    def n_steps(self) -> int:
        """How many steps all seeds have together, whatever the estimate."""
        n_symbols = len({s for edge in self.edges for s in (edge.x, edge.y)})
        return sum(max(0, n_symbols - len(bound)) for bound in self.seeds.values())

    def tables(self, estimate: Estimate) -> list[StepTable]:
        """The steps of every seed as rows."""
        graph = JoinGraph(self.edges, self.same_predicate_pairs, self.equal_keys)
        return steps_from([*self.seeds.values()], graph, estimate)

    def steps(self, estimate: Estimate) -> dict[str, tuple[Step, ...]]:
        """The steps of every seed."""
        rows = [table.tolist() for table in self.tables(estimate)]
        return {name: tuple(map(Step._make, r)) for name, r in zip(self.seeds, rows, strict=True)}


class JoinGraph:
    """Constraints as a graph of symbols.

    ``same_predicate_pairs`` are pairs of symbols that no constraint prevents from binding the same
    interval. ``equal_keys`` are pairs that have equal keys in every match; one that has several is
    there as often, and a constraint between the two looks partners up by the first.
    """

    def __init__(
        self,
        edges: Sequence[Edge],
        same_predicate_pairs: Sequence[frozenset[int]] = (),
        equal_keys: Sequence[frozenset[int]] = (),
    ) -> None:
        self.edges = edges
        #: By symbol the numbers of its constraints.
        self.incident: dict[int, list[int]] = {}
        #: By symbol those that its intervals may have to be checked against, a bit each.
        self.neighbours: dict[int, int] = defaultdict(int)
        for number, edge in enumerate(edges):
            for symbol in (edge.x, edge.y):
                self.incident.setdefault(symbol, []).append(number)
                self.neighbours[symbol] |= 1 << edge.other(symbol)
        for x, y in map(tuple, same_predicate_pairs):
            self.neighbours[x] |= 1 << y
            self.neighbours[y] |= 1 << x
        #: By symbol those that have a key in common with it, a bit each; and those that have several.
        self.keyed: dict[int, int] = defaultdict(int)
        self.keyed_again: dict[int, int] = defaultdict(int)
        for x, y in map(tuple, equal_keys):
            for symbol, other in ((x, y), (y, x)):
                self.keyed_again[symbol] |= self.keyed[symbol] & 1 << other
                self.keyed[symbol] |= 1 << other

    @property
    def any_order_is_as_good(self) -> bool:
        """Whether nothing is tried in vain, whatever the order: without ranges and cycles."""
        return len(self.edges) < max(len(self.incident), 1) and not any(
            edge.ranged for edge in self.edges
        )

    def is_far(self, bound: Sequence[int]) -> bool:
        """Whether so much is left to bind that not all orders are costed."""
        return len(self.incident) - len(bound) > _ALL_ORDERS


def steps_from(
    seeds: Sequence[tuple[int, ...]], graph: JoinGraph, estimate: Estimate
) -> list[StepTable]:
    """Of each seed the steps that bind all remaining symbols, at the least estimated work."""
    far = [bound for bound in dict.fromkeys(seeds) if graph.is_far(bound)]
    greedy = dict(zip(far, greedy_steps(far, graph, estimate), strict=True))
    found = []
    for bound in seeds:
        if bound in greedy and not graph.any_order_is_as_good:
            found.append(greedy[bound])
            continue
        search = _Search(graph, estimate, bound)
        order = greedy[bound][:, 0].tolist() if bound in greedy else search.best()
        if graph.any_order_is_as_good:
            order = search.branch_by_branch(order)
        found.append(np.array(search.steps(order), np.uint64).reshape(-1, len(Step._fields)))
    return found


def greedy_steps(
    seeds: Sequence[tuple[int, ...]], graph: JoinGraph, estimate: Estimate
) -> list[StepTable]:
    """For each seed the steps of an order that always takes the symbol of fewest bindings.

    All orders grow together, a symbol a round; a row is one of them.
    """
    if not seeds:
        return []
    costs = _Costs(graph, estimate)
    shape = len(seeds), costs.n_symbols
    everyone = np.arange(len(seeds))
    open_ones = np.ones(shape, bool)
    via = np.full(shape, costs.none)  # the best constraint that reaches each symbol
    tried = np.full(shape, np.inf)  # the partners that it gives
    others = np.ones(shape)  # the product of the shares of all others
    done = np.zeros(len(seeds), np.uint64)

    def bind(which: NDArray[np.intp], symbols: NDArray[np.intp], of_seed: bool) -> None:
        open_ones[which, symbols] = False
        done[which] |= costs.bits[symbols]
        more, known = costs.ranks[int(of_seed)][symbols], via[which]
        others[which] *= costs.shares[np.maximum(more, known)]
        via[which] = np.minimum(more, known)
        tried[which] = costs.partners[via[which]]

    for at in range(max(map(len, seeds), default=0)):
        which = np.array([g for g, seed in enumerate(seeds) if len(seed) > at], np.intp)
        bind(which, np.array([seeds[g][at] for g in which], np.intp), of_seed=True)
    steps = np.zeros((*shape, len(Step._fields)), np.uint64)
    lengths = np.zeros(len(seeds), np.intp)
    while True:
        kept = np.where(open_ones, tried * others, np.inf)
        targets = kept.argmin(axis=1)
        which = everyone[np.isfinite(kept[everyone, targets])]
        if not which.size:
            return [table[:length] for table, length in zip(steps, lengths, strict=True)]
        targets = targets[which]
        taken = via[which, targets]
        source = costs.source_bits[taken]
        others_bound = done[which] & ~source
        checked = costs.neighbours[targets] & others_bound
        keyed = costs.keyed[targets] & others_bound | costs.keyed_again[targets] & source
        for number, column in enumerate(
            (targets, costs.constraints[taken], costs.sides[taken], checked, keyed)
        ):
            steps[which, lengths[which], number] = column
        lengths[which] += 1
        bind(which, targets, of_seed=False)


class _Costs:
    """Each edge and direction has a rank by what it costs to join along it, the best one 0."""

    def __init__(self, graph: JoinGraph, estimate: Estimate) -> None:
        self.n_symbols = 1 + max(graph.incident, default=-1)
        directions = [
            (estimate.partners_of(edge, number, side, of_seed), edge.ranged, number, side, of_seed)
            for number, edge in enumerate(graph.edges)
            for side in range(2)
            for of_seed in (False, True)
        ]
        directions.sort()
        #: The rank where no edge leads.
        self.none = len(directions)
        columns = [np.array(column) for column in zip(*directions, strict=True)]
        self.partners = np.append(columns[0], np.inf)
        self.constraints, self.sides, of_seeds = columns[2], columns[3], columns[4].astype(int)
        ends = np.array([(edge.x, edge.y) for edge in graph.edges])[self.constraints]
        ranks = np.arange(self.none)
        sources, targets = ends[ranks, self.sides], ends[ranks, 1 - self.sides]
        #: By whether the source is of the seed, by source, by target.
        self.ranks = np.full((2, self.n_symbols, self.n_symbols), self.none)
        self.ranks[of_seeds, sources, targets] = ranks
        self.shares = np.ones(self.none + 1)
        self.shares[:-1] = [
            estimate.share_of(graph.edges[number], number, side, of_seed)
            for _, _, number, side, of_seed in directions
        ]
        self.bits = np.uint64(1) << np.arange(self.n_symbols, dtype=np.uint64)
        self.source_bits = self.bits[sources]
        self.neighbours, self.keyed, self.keyed_again = (
            np.array([others[symbol] for symbol in range(self.n_symbols)], np.uint64)
            for others in (graph.neighbours, graph.keyed, graph.keyed_again)
        )


class _Search:
    """Costs orders: the work of a step is the partners tried, for every binding that got there."""

    def __init__(self, graph: JoinGraph, estimate: Estimate, seed: Sequence[int]) -> None:
        self.graph = graph
        self.edges = graph.edges
        self.incident = graph.incident
        self.estimate = estimate
        self.seed = seed
        self.memo: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {}

    def steps(self, order: Sequence[int]) -> tuple[Step, ...]:
        """The steps that bind symbols in an order."""
        done = {*self.seed}
        found = []
        for target in order:
            via, _, _, _ = self.cost(target, done)
            source = self.edges[via].other(target)
            others = sum(1 << symbol for symbol in done if symbol != source)
            checked = self.graph.neighbours[target] & others
            keyed = self.graph.keyed[target] & others | self.graph.keyed_again[target] & 1 << source
            found.append(Step(target, via, self.edges[via].side(source), checked, keyed))
            done.add(target)
        return tuple(found)

    def branch_by_branch(self, order: Sequence[int]) -> list[int]:
        """An order in which the branches that only the seed connects come one after the other."""
        branch = {symbol: symbol for symbol in order}
        for target in order:  # each is connected to one before it
            for number in self.incident[target]:
                other = self.edges[number].other(target)
                if other not in self.seed and order.index(other) < order.index(target):
                    branch[target] = branch[other]
        branches = list(dict.fromkeys(branch.values()))
        return sorted(order, key=lambda symbol: branches.index(branch[symbol]))

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

    def best(self) -> list[int]:
        """The order of least work, over all orders."""
        return [*self._least(frozenset(self.seed))[1]]

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
