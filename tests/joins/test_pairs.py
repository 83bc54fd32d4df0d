"""The pair index: two ids a side stand for all pairs of an interval, also after some are dropped."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from piestream.automata import read_by_automaton
from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import at_word, pointer
from piestream.compiled.records import Array, kernel
from piestream.joins.pairs import drop_partner, possible_relations
from piestream.joins.records import ScanMode
from piestream.joins.state_records import Partners
from piestream.plan.constraints import scan_mode
from piestream.relations import Relation
from tests.joins.reference import expected, futures
from tests.joins.state import held, live_pairs, opened
from tests.joins.streams import RELATIONS_OF_MODE, Pattern, noise

#: Every scan mode, alone and beside what lies apart; each also as it is seen from the other side.
CONSTRAINTS = {
    **RELATIONS_OF_MODE,
    "contained": "contains",
    "containing": "during",
    "starts": "starts; equals; started-by",
    "before": "before",
    "ALL_APART": "before; after; contains; overlaps; meets",
    "ENDS_APART": "before; meets; overlaps; during; after",
    "CHECKED_APART": "followed-by; contains; overlaps; after",
    "neighbours": "followed-by; follows",
    "followed": "followed-by; meets; overlaps; starts; during",
}
DURATIONS = ("", "AT MOST 3", "AT LEAST 3", "AT LEAST 2 AT MOST 5")


def relations_of(words: str) -> Relation:
    """The set that a clause's middle says."""
    query = Pattern((f"a {words} b",), 9).query
    (constraint,) = query.constraints
    assert (constraint.x, constraint.y) == ("b", "a")  # symbols are defined backwards
    return constraint.relations


def test_each_mode_is_that_of_its_constraint() -> None:
    for name, words in RELATIONS_OF_MODE.items():
        mode = scan_mode(read_by_automaton(relations_of(words)))
        mirrored = scan_mode(Relation(_mirrored(read_by_automaton(relations_of(words)))))
        assert ScanMode[name] in (mode, mirrored), name


def _mirrored(relations: Relation) -> int:
    return sum(1 << (14 - bit) for bit in range(15) if relations >> bit & 1)


ENDS = [*range(1, 6), OPEN]
INTERVALS = [(start, end) for start in range(5) for end in ENDS if end > start]


@pytest.mark.parametrize("x", INTERVALS, ids=str)
def test_possible_relations_are_those_of_all_futures(x: tuple[int, int]) -> None:
    apart = {Relation.BEFORE: Relation.FOLLOWED_BY, Relation.AFTER: Relation.FOLLOWS}
    for y in INTERVALS:
        ends = (None if end == OPEN else end for end in (x[1], y[1]))
        x_end, y_end = ends
        relations = futures(x[0], x_end, y[0], y_end)
        wanted = sum(int(apart.get(relation, relation)) for relation in relations)
        assert possible_relations(*x, *y) == wanted, (x, y)


@kernel
def _drop(pool: Array, scan: int, partner: int) -> None:
    drop_partner(Partners(at_word(pointer(pool), 1)), scan, partner)


@pytest.mark.parametrize("mode", list(ScanMode))
def test_dropping_takes_back_the_highest_partner_alone(mode: int) -> None:
    for lowest, highest, dropped in product(range(4), range(4), range(6)):
        if lowest > highest:
            continue
        pool = np.array([-7, lowest, highest, -7])
        _drop(pool, mode, dropped)
        left = [lowest, highest]
        if dropped == highest:  # an older one is never dropped, a later one is none of the partners
            left[1] = lowest if mode == ScanMode.ENDS else highest - 1
            if lowest == highest:
                left = [NONE, NONE]
        assert pool.tolist() == [-7, *left, -7]
    pool = np.array([-7, NONE, NONE, -7])
    _drop(pool, mode, 2)
    assert pool.tolist() == [-7, NONE, NONE, -7]


@pytest.mark.parametrize("bounds", DURATIONS)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_index_holds_the_decided_pairs_at_every_moment(name: str, bounds: str) -> None:
    """From either side, for all intervals that are held, whichever were dropped before."""
    met = 0
    for seed, (bounded, *change) in enumerate([("b", 0.15, 0.45), ("a", 0.45, 0.15), ("b", 0.4)]):
        pattern = Pattern((f"a {CONSTRAINTS[name]} b",), 10**6, bounds={bounded: bounds})
        frame = noise(seed, "ab", 70, change, (1, 1, 2))
        stream = opened(pattern, frame)
        moments = [*range(5, 50, 5), *range(50, 70)]
        for first, row in pairwise([-1, *moments]):
            stream.process(frame[first + 1 : row + 1])
            wanted = {
                (b_start, a_start)
                for _, b_start, _, a_start, _ in expected(pattern.query, frame[: row + 1])
            }
            # an open interval with a bound may be a pair before it is valid
            symbols = [held(stream.detector, symbol) for symbol in (0, 1)]
            decided = {
                (b.start, a.start)
                for b in symbols[0]
                for a in symbols[1]
                if not bounds or (b if bounded == "b" else a).end is not None
            }
            for side in (0, 1):
                found = live_pairs(stream.detector, side)
                assert found & decided == wanted & decided, (seed, row, side)
            met += len(wanted & decided)
    assert met >= 5
