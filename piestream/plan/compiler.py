"""A query becomes a program: its constraints, and which words of a symbol's slots hold what.

Slots of one symbol all have the same width, so that a word that a constraint or a cell takes in them
lies in the same place in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, groupby
from typing import Any

import numpy as np

from piestream.automata import compile_pair, may_end_last, read_by_automaton
from piestream.compiled.constants import NONE
from piestream.compiled.records import assemble
from piestream.intervals import aggregates
from piestream.joins import records, state_records
from piestream.joins.partition import Partition
from piestream.joins.records import OutputKind, Program, ScanMode, Validity
from piestream.joins.state_records import (
    BridgedSlot,
    Partners,
    RingHeader,
    RowsHeader,
    RowSlot,
    Slot,
)
from piestream.language.distances import Distance
from piestream.language.model import Query
from piestream.language.parts import Emit
from piestream.plan.bounds import add_bounds
from piestream.plan.join_order import Edge, Estimate, JoinOrders, bounded_sides, spanning_tree
from piestream.plan.layout import ConstraintWords, SlotLayout, blank
from piestream.plan.program import (
    Cell,
    CompiledQuery,
    JoinKey,
    OutputWord,
    Ticks,
    Words,
    counted_streams,
    write_join_orders,
)
from piestream.relations import Relation, convex_parts, inverse

#: The longest length a word can hold: without sign, and apart from NONE.
_LONGEST = (1 << 64) - 2

#: The words of a partition that a counter names.
_COUNTER_WORDS = records.Counter.size - 1

_BEFORE, _AFTER = Relation.BEFORE, Relation.AFTER
_PRECISE = Relation.FOLLOWED_BY | Relation.FOLLOWS


def compile_query(
    query: Query, ticks: Ticks, outputs: Sequence[OutputWord], keys: Sequence[JoinKey] = (),
    n_attributes: int = 0,
) -> CompiledQuery:  # fmt: skip
    """Everything that the loops need to know of a query; the cells of ``keys`` are in ``outputs``.

    Behind the columns of the attributes lie those of `counted_streams`.
    """
    return _Compiler(query, ticks, outputs, keys, n_attributes).compiled()


def scan_mode(relations: Relation) -> ScanMode:
    """How an interval's partners lie between the lowest and the highest."""
    checked = bool(relations & _PRECISE)
    if relations & Relation.CONTAINS:
        return ScanMode.ALL_CHECKED if checked else ScanMode.ALL
    return ScanMode.ENDS_CHECKED if checked else ScanMode.ENDS


def _length(ticks: int | None) -> int:
    """A length in ticks as a word. It may exceed 63 bits: it has no sign."""
    return NONE if ticks is None else _signed(min(ticks, _LONGEST))


def _lower_first(key: JoinKey) -> JoinKey:
    """A key with its lower symbol first."""
    return JoinKey(*sorted((key.x, key.y), key=lambda cell: cell.symbol))


def _symbols_of(key: JoinKey) -> tuple[int, int]:
    """The symbols of a key."""
    return key.x.symbol, key.y.symbol


def _bits(symbols: Iterable[int]) -> int:
    """A word with a bit for each of these symbols."""
    return _signed(sum(1 << symbol for symbol in symbols))


def _signed(bits: int) -> int:
    """64 bits as a signed word."""
    return bits - (1 << 64) if bits >> 63 else bits


def _distances(
    first: str, distances: Iterable[Distance], lengths: Iterable[int]
) -> Iterator[list[int]]:
    """The records of distances of a pair, of which one symbol is the first side."""
    for distance, length in zip(distances, lengths, strict=True):
        yield records.Distance.packed(
            side=0 if distance.symbol == first else 1,
            ends=[distance.which == "te", distance.other_which == "te"],
            is_upper=distance.is_upper,
            is_strict=distance.is_strict,
            length=_length(length),
        )


class _Compiler:
    """Compiles one query: first its constraints, then what of them each symbol keeps."""

    def __init__(
        self,
        query: Query,
        ticks: Ticks,
        outputs: Sequence[OutputWord],
        keys: Sequence[JoinKey] = (),
        n_attributes: int = 0,
    ) -> None:
        self.query = query
        self.counted = counted_streams(query)
        self.n_attributes = n_attributes
        self.keys = tuple(sorted(map(_lower_first, keys), key=_symbols_of))
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
                bool(c.relations & (_BEFORE | _AFTER)) and not c.distances,
            )
            for c in query.constraints
        ]
        self.join_orders = JoinOrders(
            self.edges, self._same_predicate_pairs(), [*map(frozenset, map(_symbols_of, self.keys))]
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
        self.absent_parts: list[int] = []
        self.transitions: list[Words] = []
        self.cells: list[list[int]] = []
        self.cell_words: dict[Cell, int] = {}

    def compiled(self) -> CompiledQuery:
        """The program and what belongs to it."""
        for number in range(len(self.edges)):
            self.constraints.append(self._constraint(number))
        for number in self._named_edges():
            self.constraints.append(self._naming_constraint(number))
        absences, absent_pairs = self._absences()
        self.n_rings += bool(self.query.limits.once_per) + 2 * bool(absences)
        for symbol in range(len(self.symbols)):
            self._add_incidents(symbol)
            self._add_validity(symbol)
            self._add_kept(symbol)
        tree = [c for c in spanning_tree(len(self.symbols), self.edges) if self._has_bounds(c)]
        self.n_ended_bounds = add_bounds(
            self.symbols,
            self.constraints[: len(self.edges)],
            bounded_sides(tree, self.edges, self.seeds),
            self.rows,
            self.slots,
            self._ended_bounds_at,
        )
        for symbol in range(len(self.symbols)):
            self._add_report_words(symbol)
        self._add_keys()
        for symbol in range(len(self.symbols)):
            self.symbols[symbol]["width"] = self.slots.widths[symbol]
        program = self._assembled(absences, absent_pairs)
        write_join_orders(program, self.join_orders, Estimate())
        output_words = {word: column for column, word in enumerate(self.outputs)}
        return CompiledQuery(program, output_words, self.ticks, self.join_orders, self.keys)

    def _slot_record(self, symbol: int) -> type[Slot]:
        """What the slots of a symbol begin with."""
        if symbol in self.rows:
            return RowSlot
        return BridgedSlot if symbol in self.bridged else Slot

    # -- constraints ------------------------------------------------------------------------------

    def _same_predicate(self, x: int, y: int) -> bool:
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
            if self._same_predicate(*pair) and frozenset(pair) not in constrained
        ]

    def _constraint(self, number: int) -> ConstraintWords:
        """A constraint of the query."""
        edge = self.edges[number]
        spec = self.query.constraints[number]
        of_rows, uncertain = self._of_rows(edge), self._is_uncertain(edge)
        same_predicate = not of_rows and self._same_predicate(edge.x, edge.y)
        pairs = read_by_automaton(spec.relations, same_predicate and not uncertain)
        constraint = ConstraintWords(edge, uncertain=uncertain, same=same_predicate)
        listed = of_rows or uncertain or bool(spec.distances)
        if uncertain or spec.distances:  # partners before and after are listed too, if not all
            pairs |= spec.relations & (_BEFORE | _AFTER)
        if spec.distances:
            self._add_distances(number, constraint)
        if listed:
            constraint.listed = self.n_rings
            self.n_rings += 1
        elif pairs:
            constraint.automaton = self._automaton(pairs, same_predicate)
        if self._may_complete(edge.x, edge.y):
            if pairs:
                self.seeds.append(((edge.x, edge.y), number))
            constraint.seed = self.join_orders.add_seed(f"{spec.x}, {spec.y}", (edge.x, edge.y))
        for symbol, allowed, stored in (
            (edge.x, spec.relations, pairs),
            (edge.y, inverse(spec.relations), inverse(pairs)),
        ):
            side = constraint.side_of(symbol)
            words = state_records.PairLists.size if listed else Partners.size
            side["partners"] = self.slots.take(symbol, words)
            side["scan"] = scan_mode(stored)
            side["allowed"] = int(stored)
            apart = allowed & ~stored if spec.distances else allowed
            side["allows_later"] = bool(apart & _BEFORE)
            side["allows_earlier"] = bool(apart & _AFTER)
            if listed:
                self._track_ends(symbol, bool(stored & _PRECISE))
            if uncertain and stored & _PRECISE:
                self._track_ends_of_runs(symbol)
            if symbol in self.rows and uncertain and self.symbols[symbol]["known"] == NONE:
                self.symbols[symbol]["known"] = self.slots.take(symbol)
            if symbol not in self.rows:
                if side["allows_later"]:
                    side["first_starting_after"] = self.slots.take(symbol)
                if side["allows_earlier"]:
                    side["last_ended_before"] = self.slots.take(symbol)
        return constraint

    def _add_distances(self, number: int, constraint: ConstraintWords) -> None:
        """The records of a constraint's distances."""
        spec = self.query.constraints[number]
        constraint.distance = len(self.distances)
        lengths = self.ticks.distances[number]
        self.distances += _distances(spec.x, spec.distances, lengths)
        constraint.distance_end = len(self.distances)

    def _absences(self) -> tuple[list[list[int]], list[list[int]]]:
        """The records of what may not be there, and of what each says of intervals of a match."""
        found: list[list[int]] = []
        pairs: list[list[int]] = []
        for absence, lengths_of in zip(
            self.query.absences, self.ticks.absent_distances, strict=True
        ):
            first, absent = len(pairs), self.numbers[absence.symbol]
            same = [s for s in self.present if self._same_predicate(s, absent)]
            for spec, lengths in zip(absence.constraints, lengths_of, strict=True):
                is_x = spec.x == absence.symbol
                other = self.numbers[spec.y if is_x else spec.x]
                allowed = spec.relations if is_x else inverse(spec.relations)
                if other in same and other not in self.rows:  # runs of one predicate
                    allowed &= Relation.BEFORE | Relation.AFTER
                part, distance = len(self.absent_parts), len(self.distances)
                self.absent_parts += map(int, convex_parts(allowed))
                self.distances += _distances(absence.symbol, spec.distances, lengths)
                pairs.append(
                    records.AbsentPair.packed(
                        symbol=other,
                        allowed=int(allowed),
                        part=part,
                        part_end=len(self.absent_parts),
                        distance=distance,
                        distance_end=len(self.distances),
                    )
                )
            stream = self.query.streams[self.query.symbols[absent].stream]
            found.append(
                records.Absence.packed(
                    symbol=absent,
                    pair=first,
                    pair_end=len(pairs),
                    same=_bits(same),
                    begins_known=stream.known_by == "ts",
                    is_longer=absent in self.ticks.longer,
                )
            )
        return found, pairs

    @cached_property
    def _last(self) -> set[int]:
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

    def _may_complete(self, *symbols: int) -> bool:
        """Whether a match may be completed by intervals of these symbols."""
        return not self._last.isdisjoint(symbols)

    def _has_bounds(self, number: int) -> bool:
        """Whether a constraint bounds its intervals: of those known late, begun later is not after."""
        edge = self.edges[number]
        return not (edge.ranged and {edge.x, edge.y} & (self.late | self.bridged))

    def _of_rows(self, edge: Edge) -> bool:
        """Whether intervals of one of the symbols come as rows."""
        return edge.x in self.rows or edge.y in self.rows

    def _is_uncertain(self, edge: Edge) -> bool:
        """Whether an endpoint of one of the symbols becomes known later than it is."""
        return edge.x in self.bridged or edge.y in self.bridged

    def _is_listed(self, edge: Edge) -> bool:
        """Whether pairs are decided from what is known of their endpoints."""
        return self._of_rows(edge) or self._is_uncertain(edge)

    def _track_ends(self, symbol: int, needed: bool) -> None:
        """A word for the end of what a symbol has forgotten, if some relation asks for it."""
        fields = self.symbols[symbol]
        if needed and fields["gone_until"] == NONE:
            fields["gone_until"] = self.n_gone
            self.n_gone += 1

    def _track_ends_of_runs(self, symbol: int) -> None:
        """A word for what ended before each run: that a gap is quiet may be asked long after it."""
        fields = self.symbols[symbol]
        if symbol not in self.rows and fields["ended_before"] == NONE:
            fields["ended_before"] = self.slots.take(symbol)

    def _named_edges(self) -> list[int]:
        """Constraints of which a result row tells whether one interval follows the other."""
        named = {
            frozenset((word.symbol, word.other))
            for word in self.outputs
            if word.what in ("follows", "followed")
        }
        return [n for n, edge in enumerate(self.edges) if frozenset((edge.x, edge.y)) in named]

    def _naming_constraint(self, number: int) -> ConstraintWords:
        """What tells followed-by from before between the symbols of a constraint."""
        edge = self.edges[number]
        constraint = ConstraintWords(edge, naming=True)
        if self._is_listed(edge):
            for symbol in (edge.x, edge.y):
                self._track_ends(symbol, True)
        else:
            same_predicate = self._same_predicate(edge.x, edge.y)
            constraint.automaton = self._automaton(_PRECISE, same_predicate)
        for symbol in (edge.x, edge.y):
            constraint.side_of(symbol)["predecessor"] = self.slots.take(symbol)
        return constraint

    def _automaton(self, relations: Relation, same_predicate: bool) -> int:
        """The first transition of the automaton that decides these relations."""
        automaton = compile_pair(relations, same_predicate)
        first = sum(map(len, self.transitions))
        rows = np.zeros((automaton.next_state.size, records.Transition.size), np.int64)
        records.Transition.column_of(rows, "state")[:] = automaton.next_state.ravel()
        records.Transition.column_of(rows, "decides")[:] = automaton.decides.ravel()
        self.transitions.append(rows)
        return first

    # -- symbols ----------------------------------------------------------------------------------

    def _constraints_of(self, symbol: int) -> Iterator[tuple[int, ConstraintWords]]:
        for number, constraint in enumerate(self.constraints):
            if symbol in (constraint.edge.x, constraint.edge.y):
                yield number, constraint

    def _add_incidents(self, symbol: int) -> None:
        """The constraints of a symbol, and which side of them it is."""
        fields = self.symbols[symbol]
        fields["incident"] = len(self.incidents)
        for number, constraint in self._constraints_of(symbol):
            side = constraint.edge.side(symbol)
            self.incidents.append(records.Incident.packed(constraint=number, side=side))
        fields["incident_end"] = len(self.incidents)

    def _add_validity(self, symbol: int) -> None:
        """When intervals become valid (SPEC 4), and whether a match may be completed by one."""
        fields, ticks = self.symbols[symbol], self.ticks
        fields["at_least"] = _length(ticks.at_least[symbol])
        fields["at_most"] = _length(ticks.at_most[symbol])
        if symbol in self.bridged:
            fields["bridging"] = _length(ticks.bridging[symbol])
        completes = self.query.emit is Emit.COMPLETION and symbol not in self.absent
        fields["at_passing"] = completes
        fields["has_lists"] = any(c.listed != NONE for _, c in self._constraints_of(symbol))
        fields["validity"] = Validity.AT_START
        spec = self.query.symbols[symbol]
        least, most = spec.at_least_events, spec.at_most_events
        if least is not None or most is not None:
            fields["at_least_events"] = 0 if least is None else least
            fields["at_most_events"] = NONE if most is None else most
            fields["first_event"] = self.slots.take(symbol)
            if spec.stream in self.counted:
                fields["counter"] = self.counted.index(spec.stream)
        has_least = ticks.at_least[symbol] is not None or least is not None
        has_most = ticks.at_most[symbol] is not None or most is not None
        if completes or has_most:
            fields["validity"] = Validity.AT_END
        elif has_least:
            fields["at_least"] = _length(ticks.at_least[symbol] or 0)
            fields["validity"] = Validity.AT_LENGTH
        if symbol in self.absent:
            return
        alone = len(self.present) == 1
        is_last = fields["validity"] != Validity.AT_START or alone or self._comes_after_all(symbol)
        if is_last and self._may_complete(symbol):
            name = self.query.symbols[symbol].name
            fields["seed"] = self.join_orders.add_seed(name, (symbol,))
            self.seeds.append(((symbol,), None))

    def _add_kept(self, symbol: int) -> None:
        """How long intervals are kept, beyond the shortest time for which those of some symbol are."""
        fields, kept = self.symbols[symbol], self.ticks.kept[symbol]
        fields["kept_from"] = Slot.offset("end" if kept.after_end else "start")
        fields["kept"] = _length(kept.length - min(kept.length for kept in self.ticks.kept))
        fields["lead"] = _length(_LONGEST) if kept.after_end else fields["kept"]

    def _comes_after_all(self, symbol: int) -> bool:
        """Whether all partners of an interval may be there when it becomes known, none in a pair."""
        if symbol not in self.late:
            return self._follows_all(symbol)
        return all(
            constraint.side_of(symbol)["allows_earlier"]
            or constraint.side_of(symbol)["allows_later"]
            for _, constraint in self._constraints_of(symbol)
            if not constraint.naming
        )

    def _follows_all(self, symbol: int) -> bool:
        """Whether all constraints of a symbol allow that it begins after the other has ended."""
        allowed = [
            constraint.side_of(symbol)["allows_earlier"]
            for _, constraint in self._constraints_of(symbol)
            if not constraint.naming
        ]
        return bool(allowed) and all(allowed)

    def _add_report_words(self, symbol: int) -> None:
        """Words for the matches that wait for the interval's end, and for its aggregates."""
        fields = self.symbols[symbol]
        if self.query.emit is Emit.BOTH:
            fields["waiting_list"] = self.slots.take(symbol)
        fields["cell"] = len(self.cells)
        for cell in dict.fromkeys(w.what for w in self.outputs if isinstance(w.what, Cell)):
            if cell.symbol == symbol:
                word = self.slots.take(symbol, aggregates.CELL_SIZE[cell.kind])
                self.cell_words[cell] = word
                packed = aggregates.Cell.packed(kind=cell.kind, column=cell.column, word=word)
                self.cells.append(packed)
        fields["bridge_cell"] = len(self.cells)
        if symbol in self.bridged:
            for cell_words in self.cells[fields["cell"] :]:
                kind, column, _ = cell_words
                size = aggregates.CELL_SIZE[aggregates.CellKind(kind)]
                word = self.slots.take(symbol, size)
                self.cells.append(aggregates.Cell.packed(kind=kind, column=column, word=word))
        fields["cell_end"] = len(self.cells)

    # -- join keys --------------------------------------------------------------------------------

    def _looked_up(self) -> Iterator[tuple[JoinKey, ConstraintWords]]:
        """The constraints that can look partners up by a key, with the first key of their symbols."""
        first = {frozenset(_symbols_of(key)): key for key in reversed(self.keys)}
        for number, edge in enumerate(self.edges):
            key = first.get(frozenset((edge.x, edge.y)))
            if key is not None:
                yield key, self.constraints[number]

    def _add_keys(self) -> None:
        """Words for the indexes of symbols by their keys; the buckets come last in slots."""
        indexed: dict[Cell, int] = {}  # word of the chain
        for key, constraint in self._looked_up():
            for mine, theirs in ((key.x, key.y), (key.y, key.x)):
                side = constraint.side_of(mine.symbol)
                side["key"] = self.cell_words[mine]
                if constraint.listed == NONE and side["allows_earlier"]:
                    side["latest_with_key"] = self.slots.take(mine.symbol)
                in_range = side["allows_earlier"] or side["allows_later"]
                if theirs not in indexed and in_range:
                    indexed[theirs] = self.slots.take(theirs.symbol)
        cells = dict.fromkeys(cell for key in self.keys for cell in (key.x, key.y))
        for symbol, fields in enumerate(self.symbols):
            fields["buckets"] = self.slots.widths[symbol]
            fields["key"] = len(self.key_rows)
            for cell in cells:
                if cell.symbol != symbol:
                    continue
                chain = indexed.get(cell, NONE)
                bucket = NONE if chain == NONE else self.slots.take(symbol)
                word = self.cell_words[cell]
                packed = aggregates.Cell.packed(kind=cell.kind, column=cell.column, word=word)
                number = self.cells.index(packed, fields["cell"], fields["cell_end"])
                self.key_rows.append(
                    records.Key.packed(cell=number, word=word, bucket=bucket, chain=chain)
                )
                self._look_up_by(cell, bucket, chain)
            fields["key_end"] = len(self.key_rows)

    def _look_up_by(self, cell: Cell, bucket: int, chain: int) -> None:
        """Let the constraints of a key find partners by its index."""
        for key, constraint in self._looked_up():
            if cell in (key.x, key.y):
                side = constraint.side_of(cell.symbol)
                side["bucket"], side["chain"] = bucket, chain

    # -- results and the whole --------------------------------------------------------------------

    def _output(self, word: OutputWord) -> list[int]:
        """The record of an output word."""
        kind, other = OutputKind.SLOT_WORD, 0
        if isinstance(word.what, Cell):
            slot_word = self.cell_words[word.what] + word.part
        elif word.what in ("follows", "followed"):
            kind = OutputKind.FOLLOWS if word.what == "follows" else OutputKind.SLOT_WORD
            other = word.other
            (slot_word,) = (
                constraint.side_of(word.symbol)["predecessor"]
                for _, constraint in self._constraints_of(word.symbol)
                if constraint.naming and constraint.edge.other(word.symbol) == word.other
            )
        else:
            slot_word = {
                "ts": RowSlot.offset("start"),
                "te": RowSlot.offset("end"),
                "start": self.instants[0],
                "end": self.instants[1],
                "number": RowSlot.offset("number"),
                "since": BridgedSlot.offset("since_instant"),
                "report": 0,
            }[word.what]
            if word.what == "report":
                kind = OutputKind.REPORT
        if word.at_trigger and kind == OutputKind.SLOT_WORD:
            kind = OutputKind.SLOT_WORD_AT_TRIGGER
        return records.Output.packed(kind=kind, symbol=word.symbol, word=slot_word, other=other)

    def _join(self, number: int, side: int) -> list[int]:
        """The record of the partners that one side of a constraint has on the other."""
        constraint = self.constraints[number]
        ends = constraint.edge.x, constraint.edge.y
        source, target = constraint.sides[side], constraint.sides[1 - side]
        return records.Join.packed(
            target=ends[1 - side],
            source=ends[side],
            width=self.symbols[ends[1 - side]]["width"],
            partners=source["partners"],
            last_ended_before=source["last_ended_before"],
            first_starting_after=source["first_starting_after"],
            scan=source["scan"],
            allowed=source["allowed"],
            target_last_ended_before=target["last_ended_before"],
            key=source["key"],
            latest_with_key=source["latest_with_key"],
            target_key=target["key"],
            bucket=target["bucket"],
            chain=target["chain"],
            constraint=number,
            side=side,
            listed=constraint.listed != NONE,
            allows_earlier=source["allows_earlier"],
            allows_later=source["allows_later"],
            **{part: self.symbols[ends[1 - side]][part] for part in ("lead", "kept_from", "kept")},
        )

    def _checks(self) -> Words:
        """Of each two symbols the record of how they are checked to fit."""
        n_symbols = len(self.symbols)
        rows = np.zeros((n_symbols, n_symbols, records.Check.size), np.int64)
        for symbol in range(n_symbols):
            identity = RowSlot.offset("number") if symbol in self.rows else self.instants[0]
            rows[:, symbol] = records.Check.packed(
                constraint=NONE, side=identity, keys=0, keys_end=0
            )
        side, constraint = records.Check.offset("side"), records.Check.offset("constraint")
        for number, edge in enumerate(self.edges):
            for symbol in (edge.x, edge.y):
                rows[symbol, edge.other(symbol), [constraint, side]] = number, edge.side(symbol)
        keys = records.Check.offset("keys")
        for symbols, of_pair in groupby(enumerate(self.keys), lambda each: _symbols_of(each[1])):
            numbers = [number for number, _ in of_pair]
            for pair in (symbols, symbols[::-1]):
                rows[*pair, keys : keys + 2] = numbers[0], numbers[-1] + 1
        return rows

    @property
    def _automata_at(self) -> int:
        """The first word of a partition behind its rings."""
        return Partition.offset("rings") + self.n_rings * RingHeader.size

    @property
    def _counters_at(self) -> int:
        """The first word of a partition behind the states of its automata."""
        return self._automata_at + len(self.constraints)

    @property
    def _ended_bounds_at(self) -> int:
        """The first word of a partition behind the numbers of counted events."""
        return self._counters_at + _COUNTER_WORDS * len(self.counted)

    def _place_rows(self) -> int:
        """Give places behind the ended bounds to what is kept of rows; gives where they end."""
        at = self._ended_bounds_at + self.n_ended_bounds
        for symbol, fields in enumerate(self.symbols):
            if fields["gone_until"] != NONE:
                fields["gone_until"] += at
            if symbol in self.rows:
                fields["rows"] = (
                    at + self.n_gone + RowsHeader.size * sorted(self.rows).index(symbol)
                )
        at += self.n_gone + RowsHeader.size * len(self.rows)
        return at + state_records.Progress.size * bool(self.distances)

    @property
    def _may_begin_with_report(self) -> bool:
        """Whether a match of runs may be reported at the event with which all of them begin."""
        together = Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY
        return len(self.present) > 1 and all(
            constraint.relations & together == together for constraint in self.query.constraints
        )

    def _limits(self, at: int) -> dict[str, Any]:
        """What the program says of the limits on what is emitted; ``at`` are their words."""
        limits = self.query.limits
        names = [symbol.name for symbol in self.query.symbols]
        once = [names.index(name) for name in limits.once_per]
        judges = bool(limits) and self.query.where is None
        # no second match of an event can be given, unless it begins with it; of rows, several may
        one_an_event = limits.cooldown is not None or (
            limits.no_overlap and not self.rows and not self._may_begin_with_report
        )
        # NO OVERLAP tells instants of one time apart, which the window's floor does not: what comes first
        # may be left out by it
        is_floor = not (limits.no_overlap and self.query.is_sequenced)
        apart = [] if one_an_event else once
        return {
            "given_at": at if limits else NONE,
            "given_ring": self.n_rings - 1 - 2 * bool(self.absent) if once else NONE,
            "given_width": state_records.GivenMatch.size + 2 * len(once),
            "given_kept": min(
                (self.symbols[s]["kept"] for s in once if not self.symbols[s]["kept_from"]),
                default=NONE,
            ),
            "judges": judges,
            "limit": NONE if limits.limit is None else limits.limit,
            "cooldown": NONE if limits.cooldown is None else _length(self.ticks.cooldown),
            "no_overlap": limits.no_overlap,
            "n_once": len(once),
            "once": once,
            "once_symbols": _bits(once),
            "finds_first": judges
            and is_floor
            and (one_an_event or bool(once))
            and not self.absent,  # the first that is found need not be given
            "n_apart": len(apart),
            "apart": apart,
            "apart_symbols": _bits(apart),
            "given_once": _bits(once)
            if judges and len(once) == 1 and not self.rows | self.bridged
            else 0,
        }

    def _assembled(self, absences: list[list[int]], absent_pairs: list[list[int]]) -> Words:
        """The program; its join orders are still to be written."""
        symbols = range(len(self.symbols))
        given_at = self._place_rows()
        bridges_at = given_at + state_records.Given.size * bool(self.query.limits)
        limits = self._limits(given_at)
        absences_at = bridges_at + state_records.Bridges.size * bool(self.bridged)
        sequence_at = absences_at + state_records.Awaited.size * bool(absences)
        names = [symbol.name for symbol in self.query.symbols]
        return assemble(
            Program,
            n_symbols=len(symbols),
            n_constraints=len(self.edges),
            n_automata=len(self.constraints),
            n_rings=self.n_rings,
            rows=_bits(self.rows),
            has_lists=any(constraint.listed != NONE for constraint in self.constraints)
            or bool(self.rows),
            shortest=_length(min(kept.length for kept in self.ticks.kept)),
            gap=_length(self.ticks.max_gap),
            emit_both=self.query.emit is Emit.BOTH,
            partition_words=sequence_at + state_records.Sequence.size * self.query.is_sequenced,
            n_outputs=len(self.outputs),
            symbols=[records.Symbol.packed(**fields) for fields in self.symbols],
            incidents=self.incidents,
            constraints=[
                constraint.packed(number, self.join_orders.is_cyclic)
                for number, constraint in enumerate(self.constraints)
            ],
            distances=self.distances,
            transitions=np.concatenate([*self.transitions, np.zeros((0, 2), np.int64)]).ravel(),
            seeds=np.zeros(len(self.join_orders.seeds) * records.Seed.size, np.int64),
            steps=np.zeros(self.join_orders.n_steps * records.Step.size, np.int64),
            joins=[
                self._join(number, side) for number in range(len(self.edges)) for side in (0, 1)
            ],
            checks=self._checks().ravel(),
            outputs=[self._output(word) for word in self.outputs],
            sort_order=sorted(symbols, key=lambda s: (s in self.absent, names[s])),
            bridged=_bits(self.bridged),
            bridges_at=bridges_at if self.bridged else NONE,
            cells=self.cells,
            has_cells=bool(self.cells or self.counted),
            counts_events=self.query.is_sequenced
            or any(fields["first_event"] != NONE for fields in self.symbols),
            valid_at_length=_bits(
                s for s in symbols if self.symbols[s]["validity"] == Validity.AT_LENGTH
            ),
            in_ranges=_bits({s for e in self.edges if e.ranged for s in (e.x, e.y)}),
            all_after=_bits(s for s in symbols if self._follows_all(s)),
            automata_at=self._automata_at,
            ended_bounds_at=self._ended_bounds_at,
            progress_at=given_at - state_records.Progress.size if self.distances else NONE,
            keys=self.key_rows,
            n_counters=len(self.counted),
            counters=[
                [self.n_attributes + number, *range(at, at + _COUNTER_WORDS)]
                for number in range(len(self.counted))
                for at in [self._counters_at + _COUNTER_WORDS * number]
            ],
            equal_keys=[
                records.EqualKeys.packed(words=[self.cell_words[key.x], self.cell_words[key.y]])
                for key in self.keys
            ],
            is_sequenced=self.query.is_sequenced,
            sequence_at=sequence_at if self.query.is_sequenced else NONE,
            start_instant=self.instants[0],
            end_instant=self.instants[1],
            n_present=len(self.present),
            absent=_bits(self.absent),
            n_absences=len(absences),
            absences=absences,
            absent_pairs=absent_pairs,
            absent_parts=self.absent_parts,
            absences_at=absences_at if absences else NONE,
            awaited_ring=self.n_rings - 2 if absences else NONE,
            awaited_width=state_records.AwaitedMatch.size + len(symbols),
            judged=_bits(
                {pair[records.AbsentPair.offset("symbol")] for pair in absent_pairs} | self.absent
            ),
            **limits,
        )
