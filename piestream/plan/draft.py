"""A program while it is compiled: what is known of its symbols and constraints so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations

from piestream.automata import may_end_last
from piestream.compiled.constants import NONE
from piestream.joins import records
from piestream.joins.partition import Partition
from piestream.joins.state_records import BridgedSlot, RingHeader, RowSlot, Slot
from piestream.language.distances import Distance
from piestream.language.model import Query
from piestream.plan.join_order import Edge, JoinOrders
from piestream.plan.layout import ConstraintWords, SlotLayout, blank
from piestream.plan.program import Cell, JoinKey, OutputWord, Ticks, Words, counted_streams
from piestream.relations import Relation

#: The longest length a word can hold: without sign, and apart from NONE.
LONGEST = (1 << 64) - 2

#: The words of a partition that a counter names.
COUNTER_WORDS = records.Counter.size - 1

#: The relations of which a scan looks at the endpoints.
PRECISE = Relation.FOLLOWED_BY | Relation.FOLLOWS


def length_word(ticks: int | None) -> int:
    """A length in ticks as a word. It may exceed 63 bits: it has no sign."""
    return NONE if ticks is None else signed_word(min(ticks, LONGEST))


def bits_word(symbols: Iterable[int]) -> int:
    """A word with a bit for each of these symbols."""
    return signed_word(sum(1 << symbol for symbol in symbols))


def signed_word(bits: int) -> int:
    """64 bits as a signed word."""
    return bits - (1 << 64) if bits >> 63 else bits


def _lower_first(key: JoinKey) -> JoinKey:
    """A key with its lower symbol first."""
    return JoinKey(*sorted((key.x, key.y), key=lambda cell: cell.symbol))


def symbols_of(key: JoinKey) -> tuple[int, int]:
    """The symbols of a key."""
    return key.x.symbol, key.y.symbol


def distance_records(
    first: str, distances: Iterable[Distance], lengths: Iterable[int]
) -> Iterator[list[int]]:
    """The records of distances of a pair, of which one symbol is the first side."""
    for distance, length in zip(distances, lengths, strict=True):
        yield records.Distance.packed(
            side=0 if distance.symbol == first else 1,
            ends=[distance.which == "te", distance.other_which == "te"],
            is_upper=distance.is_upper,
            is_strict=distance.is_strict,
            length=length_word(length),
        )


class ProgramDraft:
    """A query's program under construction; each stage of `compile_query` adds to it."""

    def __init__(
        self,
        query: Query,
        ticks: Ticks,
        outputs: Sequence[OutputWord],
        keys: Sequence[JoinKey],
        n_attributes: int,
    ) -> None:
        self.query = query
        self.counted = counted_streams(query)
        self.n_attributes = n_attributes
        self.keys = tuple(sorted(map(_lower_first, keys), key=symbols_of))
        self.ticks = ticks
        #: The symbols whose intervals come ready-made, as rows; those of the others are runs.
        self.rows = {
            number
            for number, symbol in enumerate(query.symbols)
            if query.streams[symbol.stream].is_ready_made
        }
        #: The symbols whose runs go on over gaps; the ends of their intervals are known later.
        self.bridged = {n for n, ticks_ in enumerate(ticks.bridging) if ticks_ is not None}
        #: Those whose rows may be known later than the intervals end, or begin.
        self.late = {
            number
            for number, stream in enumerate(query.streams[s.stream] for s in query.symbols)
            if stream.is_known_late or stream.silence is not None
        }
        #: The symbols of which no interval is in a match, and the others.
        self.absent = ticks.absent
        self.present = [s for s in range(len(query.symbols)) if s not in self.absent]
        self.outputs = tuple(dict.fromkeys(outputs))
        self.symbols = [blank(records.Symbol) for _ in query.symbols]
        self.numbers = {symbol.name: n for n, symbol in enumerate(query.symbols)}
        self.edges = [
            Edge(
                self.numbers[c.x],
                self.numbers[c.y],
                bool(c.relations & (Relation.BEFORE | Relation.AFTER)) and not c.distances,
            )
            for c in query.constraints
        ]
        self.join_orders = JoinOrders(
            self.edges, self._same_predicate_pairs(), [*map(frozenset, map(symbols_of, self.keys))]
        )
        self.key_rows: list[list[int]] = []
        self.n_rings = len(self.symbols)
        #: What each seed binds, and the constraint whose pair it is, if it is one.
        self.seeds: list[tuple[tuple[int, ...], int | None]] = []
        sizes = [self._slot_record(n).size for n in range(len(self.symbols))]
        if query.is_sequenced:  # the instants lie at one place in all
            sizes = [max(sizes)] * len(sizes)
        self.slots = SlotLayout(sizes)
        #: The words of the instants of starts and ends, which lie at the same place in all slots.
        self.instants = Slot.offset("start"), Slot.offset("end")
        if query.is_sequenced:
            first = {self.slots.take(symbol, 2) for symbol in range(len(self.symbols))}.pop()
            self.instants = first, first + 1
        self.n_ended_bounds = 0
        self.n_gone = 0
        self.constraints: list[ConstraintWords] = []
        self.incidents: list[list[int]] = []
        self.distances: list[list[int]] = []
        self.absences: list[list[int]] = []
        self.absent_pairs: list[list[int]] = []
        self.absent_parts: list[int] = []
        #: Of each symbol: the others beside whose runs the gap before one of its own counts, and the word of that.
        self.gaps: list[list[tuple[int, int]]] = [[] for _ in query.symbols]
        #: The symbols whose intervals may decide an absence when they begin, or go on.
        self.begin_deciding = set(self.bridged) if self.absent else set()
        self.transitions: list[Words] = []
        self.cells: list[list[int]] = []
        self.cell_words: dict[Cell, int] = {}

    def _slot_record(self, symbol: int) -> type[Slot]:
        """The record with which the slots of a symbol begin."""
        if symbol in self.rows:
            return RowSlot
        return BridgedSlot if symbol in self.bridged else Slot

    def same_predicate(self, x: int, y: int) -> bool:
        """Whether two symbols may have an interval in common: runs of a predicate, or rows."""
        one, other = self.query.symbols[x], self.query.symbols[y]
        if x in self.rows:
            return one.stream == other.stream
        return self.query.same_predicate(one, other)

    def _same_predicate_pairs(self) -> list[frozenset[int]]:
        """Pairs of symbols with one predicate that no constraint keeps apart."""
        constrained = {frozenset((edge.x, edge.y)) for edge in self.edges}
        pairs = combinations(self.present, 2)
        return [
            frozenset(pair)
            for pair in pairs
            if self.same_predicate(*pair) and frozenset(pair) not in constrained
        ]

    @cached_property
    def may_end_last(self) -> set[int]:
        """The symbols of which an interval may be the last of a match to become known.

        Where all intervals become known at their ends, it is one that no other ends after.
        """
        symbols = range(len(self.symbols))
        streams = [self.query.streams[symbol.stream] for symbol in self.query.symbols]
        if not all(stream.is_known_at_end for stream in streams):
            return set(symbols)
        relations = (c.relations for c in self.query.constraints)
        pairs = ((e.x, e.y, r) for e, r in zip(self.edges, relations, strict=True))
        return set(may_end_last(len(self.symbols), pairs))

    def may_complete(self, *symbols: int) -> bool:
        """Whether a match may be completed by intervals of these symbols."""
        return not self.may_end_last.isdisjoint(symbols)

    def of_rows(self, edge: Edge) -> bool:
        """Whether intervals of one of the symbols come as rows."""
        return edge.x in self.rows or edge.y in self.rows

    def is_uncertain(self, edge: Edge) -> bool:
        """Whether an endpoint of one of the symbols becomes known later than it is."""
        return edge.x in self.bridged or edge.y in self.bridged

    def is_listed(self, edge: Edge) -> bool:
        """Whether pairs are decided from what is known of their endpoints."""
        return self.of_rows(edge) or self.is_uncertain(edge)

    def track_ends(self, symbol: int, needed: bool) -> None:
        """A word for the end of what a symbol has forgotten, if some relation asks for it."""
        fields = self.symbols[symbol]
        if needed and fields["gone_until"] == NONE:
            fields["gone_until"] = self.n_gone
            self.n_gone += 1

    def constraints_of(self, symbol: int) -> Iterator[tuple[int, ConstraintWords]]:
        """The constraints of a symbol, with their numbers."""
        for number, constraint in enumerate(self.constraints):
            if symbol in (constraint.edge.x, constraint.edge.y):
                yield number, constraint

    def comes_after_all(self, symbol: int) -> bool:
        """Whether all partners of an interval may be there when it becomes known, none in a pair."""
        if symbol not in self.late:
            return self.follows_all(symbol)
        return all(
            constraint.side_of(symbol)["allows_earlier"]
            or constraint.side_of(symbol)["allows_later"]
            for _, constraint in self.constraints_of(symbol)
            if not constraint.naming
        )

    def follows_all(self, symbol: int) -> bool:
        """Whether all constraints of a symbol allow that it begins after the other has ended."""
        allowed = [
            constraint.side_of(symbol)["allows_earlier"]
            for _, constraint in self.constraints_of(symbol)
            if not constraint.naming
        ]
        return bool(allowed) and all(allowed)

    def looked_up(self) -> Iterator[tuple[JoinKey, ConstraintWords]]:
        """The constraints that can look partners up by a key, with the first key of their symbols."""
        first = {frozenset(symbols_of(key)): key for key in reversed(self.keys)}
        for number, edge in enumerate(self.edges):
            key = first.get(frozenset((edge.x, edge.y)))
            if key is not None:
                yield key, self.constraints[number]

    @property
    def automata_at(self) -> int:
        """The first word of a partition behind its rings."""
        return Partition.offset("rings") + self.n_rings * RingHeader.size

    @property
    def counters_at(self) -> int:
        """The first word of a partition behind the states of its automata."""
        return self.automata_at + len(self.constraints)

    @property
    def ended_bounds_at(self) -> int:
        """The first word of a partition behind the numbers of counted events."""
        return self.counters_at + COUNTER_WORDS * len(self.counted)
