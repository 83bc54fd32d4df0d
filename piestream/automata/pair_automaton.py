"""One deterministic automaton for one constraint, as integer tables (the paper's section 3.2).

The paper runs an automaton for each relation (its Algorithm 2), so a pair is found when one
single relation is certain. Here one automaton is compiled from *all* relations of a constraint
and marked where the pair is *decided*: whatever comes next, its relation will be one of the
allowed ones. That is TPStream's earliest moment, or earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from piestream.automata.letters import LETTERS
from piestream.automata.machine import minimal, product_machine
from piestream.relations import Relation, names

__all__ = ["PairAutomaton", "compile_pair"]


@dataclass(frozen=True)
class PairAutomaton:
    """The automaton of one constraint. State 0 is the start: nothing has held yet.

    It reads every event of the pair's stream, or only those at which the letter changes: a
    repeated letter leaves the state where it is and has no output. All three tables are about
    pairs of the runs that are latest (or previous) *after* the event.

    The tables are read-only and shared by all users of the same constraint: copy them, or stack
    several into one array, for a loop that needs them writable.

    >>> overlaps = compile_pair(Relation.OVERLAPS)
    >>> [decides for _, decides, _, _ in overlaps.walk("OZEIO")]  # decided when x ends
    [0, 0, 0, 1, 0]
    >>> whatever = compile_pair(Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS)
    >>> [decides for _, decides, _, _ in whatever.walk("OZEIO")]  # when y starts inside x
    [0, 0, 1, 0, 0]
    """

    relations: Relation
    equal_predicates: bool
    #: uint8[states, 4]: the state after each letter.
    next_state: NDArray[np.uint8] = field(compare=False, repr=False)
    #: uint8[states, 4]: which pairs are decided at this event, as a sum of LL, PL and LP.
    #: A pair is decided once in its life. PL is always followed-by, LP always follows.
    decides: NDArray[np.uint8] = field(compare=False, repr=False)
    #: int8[states, 4]: bit position in Relation of the relation of the latest pair, where it
    #: becomes known at this event and is an allowed one (then the pair was decided at this
    #: event or before), else -1.
    relation: NDArray[np.int8] = field(compare=False, repr=False)
    #: uint8[states, 4]: 1 where the latest pair has been decided and both its runs have ended
    #: with this event. (A decided pair of which one symbol started again before the other ended
    #: is no longer the latest: only its intervals show when it is complete.)
    completes: NDArray[np.uint8] = field(compare=False, repr=False)

    @property
    def states(self) -> int:
        """How many states there are: the fewest that give these outputs."""
        return len(self.next_state)

    @cached_property
    def kinds(self) -> int:
        """The kinds of pairs it may decide, as a sum of LL, PL and LP; 0 if it decides none."""
        return int(np.bitwise_or.reduce(self.decides, axis=None))

    def walk(self, word: str) -> Iterator[tuple[int, int, int, int]]:
        """For each letter of a word: the state reached, decides, relation, completes."""
        state = 0
        for letter in word:
            at = state, LETTERS.index(letter)
            state = int(self.next_state[at])
            yield state, int(self.decides[at]), int(self.relation[at]), int(self.completes[at])


@cache
def compile_pair(relations: Relation, equal_predicates: bool = False) -> PairAutomaton:
    """Compile the automaton of a constraint.

    With ``equal_predicates`` the two symbols hold at the same events (only O and E occur), so
    the latest run of the one is the latest run of the other: not a pair. What remains are a run
    and its successor. The columns of I and Z are then unused.

    >>> compile_pair(Relation.MEETS).states
    3
    """
    relations = Relation(relations)
    alphabet = "OE" if equal_predicates else LETTERS
    machine = minimal(product_machine(relations, alphabet, equal_predicates), alphabet)

    count = len(machine)
    if count > 256:  # cannot happen: all fifteen together need far fewer
        raise OverflowError(f"{names(relations)} need {count} states; the tables hold 256")
    next_state = np.repeat(np.arange(count, dtype=np.uint8)[:, None], len(LETTERS), axis=1)
    decides = np.zeros((count, len(LETTERS)), dtype=np.uint8)
    relation = np.full((count, len(LETTERS)), -1, dtype=np.int8)
    completes = np.zeros((count, len(LETTERS)), dtype=np.uint8)
    for state, transitions in machine.items():
        for letter, (output, after) in transitions.items():
            at = state, LETTERS.index(letter)
            next_state[at] = after
            decides[at], relation[at], completes[at] = output
    for table in (next_state, decides, relation, completes):
        table.flags.writeable = False
    return PairAutomaton(relations, equal_predicates, next_state, decides, relation, completes)
