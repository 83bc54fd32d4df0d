"""The constraints of a program: their automata, distances, and words in slots."""

from __future__ import annotations

import numpy as np

from piestream.automata import compile_pair, read_by_automaton
from piestream.compiled.constants import NONE
from piestream.joins import records, state_records
from piestream.joins.records import ScanMode
from piestream.joins.state_records import Partners
from piestream.plan.draft import PRECISE, ProgramDraft, distance_records
from piestream.plan.layout import ConstraintWords
from piestream.relations import Relation, inverse


def scan_mode(relations: Relation) -> ScanMode:
    """How an interval's partners lie between the lowest and the highest."""
    checked = bool(relations & PRECISE)
    if relations & Relation.CONTAINS:
        return ScanMode.ALL_CHECKED if checked else ScanMode.ALL
    return ScanMode.ENDS_CHECKED if checked else ScanMode.ENDS


def named_edges(draft: ProgramDraft) -> list[int]:
    """Constraints of which RELATION needs to know whether one interval follows the other immediately."""
    named = {
        frozenset((word.symbol, word.other))
        for word in draft.outputs
        if word.what in ("follows", "followed")
    }
    return [n for n, edge in enumerate(draft.edges) if frozenset((edge.x, edge.y)) in named]


def add_constraint(draft: ProgramDraft, number: int) -> None:
    """A constraint of the query, and how its pairs are kept on both sides."""
    edge = draft.edges[number]
    spec = draft.query.constraints[number]
    of_rows, uncertain = draft.of_rows(edge), draft.is_uncertain(edge)
    same_predicate = not of_rows and draft.same_predicate(edge.x, edge.y)
    pairs = read_by_automaton(spec.relations, same_predicate and not uncertain)
    constraint = ConstraintWords(edge, uncertain=uncertain, same=same_predicate)
    listed = of_rows or uncertain or bool(spec.distances)
    if uncertain or spec.distances:  # partners before and after are listed too, if not all
        pairs |= spec.relations & (Relation.BEFORE | Relation.AFTER)
    if spec.distances:
        _add_distances(draft, number, constraint)
    if listed:
        constraint.listed = draft.n_rings
        draft.n_rings += 1
    elif pairs:
        constraint.automaton = _automaton(draft, pairs, same_predicate)
    if draft.may_complete(edge.x, edge.y):
        if pairs:
            draft.seeds.append(((edge.x, edge.y), number))
        constraint.seed = draft.join_orders.add_seed(f"{spec.x}, {spec.y}", (edge.x, edge.y))
    for symbol, allowed, stored in (
        (edge.x, spec.relations, pairs),
        (edge.y, inverse(spec.relations), inverse(pairs)),
    ):
        side = constraint.side_of(symbol)
        words = state_records.PairLists.size if listed else Partners.size
        side["partners"] = draft.slots.take(symbol, words)
        side["scan"] = scan_mode(stored)
        side["allowed"] = int(stored)
        apart = allowed & ~stored if spec.distances else allowed
        side["allows_later"] = bool(apart & Relation.BEFORE)
        side["allows_earlier"] = bool(apart & Relation.AFTER)
        if listed:
            draft.track_ends(symbol, bool(stored & PRECISE))
        if uncertain and stored & PRECISE:
            _track_ends_of_runs(draft, symbol)
        if symbol in draft.rows and uncertain and draft.symbols[symbol]["known"] == NONE:
            draft.symbols[symbol]["known"] = draft.slots.take(symbol)
        if symbol not in draft.rows:
            if side["allows_later"]:
                side["first_starting_after"] = draft.slots.take(symbol)
            if side["allows_earlier"]:
                side["last_ended_before"] = draft.slots.take(symbol)
    draft.constraints.append(constraint)


def _add_distances(draft: ProgramDraft, number: int, constraint: ConstraintWords) -> None:
    """The records of a constraint's distances."""
    spec = draft.query.constraints[number]
    constraint.distance = len(draft.distances)
    lengths = draft.ticks.distances[number]
    draft.distances += distance_records(spec.x, spec.distances, lengths)
    constraint.distance_end = len(draft.distances)


def add_naming_constraint(draft: ProgramDraft, number: int) -> None:
    """A constraint that only distinguishes followed-by from before, for RELATION."""
    edge = draft.edges[number]
    constraint = ConstraintWords(edge, naming=True)
    if draft.is_listed(edge):
        for symbol in (edge.x, edge.y):
            draft.track_ends(symbol, True)
    else:
        same_predicate = draft.same_predicate(edge.x, edge.y)
        constraint.automaton = _automaton(draft, PRECISE, same_predicate)
    for symbol in (edge.x, edge.y):
        constraint.side_of(symbol)["predecessor"] = draft.slots.take(symbol)
    draft.constraints.append(constraint)


def _automaton(draft: ProgramDraft, relations: Relation, same_predicate: bool) -> int:
    """The first transition of the automaton that decides these relations."""
    automaton = compile_pair(relations, same_predicate)
    first = sum(map(len, draft.transitions))
    rows = np.zeros((automaton.next_state.size, records.Transition.size), np.int64)
    records.Transition.column_of(rows, "state")[:] = automaton.next_state.ravel()
    records.Transition.column_of(rows, "decides")[:] = automaton.decides.ravel()
    draft.transitions.append(rows)
    return first


def _track_ends_of_runs(draft: ProgramDraft, symbol: int) -> None:
    """A word for what ended before each run: that a gap is quiet may be asked long after it."""
    fields = draft.symbols[symbol]
    if symbol not in draft.rows and fields["ended_before"] == NONE:
        fields["ended_before"] = draft.slots.take(symbol)
