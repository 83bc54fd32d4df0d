"""One deterministic automaton for one constraint, as integer tables (the paper's section 3.2).

The paper runs an automaton for each relation (its Algorithm 2), so a pair is found when one
single relation is certain. Here one automaton is compiled from *all* relations of a constraint
and marked where the pair is *decided*: whatever comes next, its relation will be one of the
allowed. That is TPStream's earliest moment, or earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from piestream.automata.letters import (
    EXPRESSIONS,
    LETTERS,
    LL,
    LP,
    PL,
    PairExpression,
    expressions_of,
    read_by_automaton,
)
from piestream.relations import ALL_NAMES, Relation, names

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

__all__ = ["LL", "LP", "PL", "DecisionPoint", "PairAutomaton", "compile_pair", "decision_points"]

#: What a transition says: (decides, relation, completes), see the tables of PairAutomaton.
_Output = tuple[int, int, int]
#: A deterministic machine with outputs on its transitions: state -> letter -> (output, state).
_Mealy = dict[int, dict[str, tuple[_Output, int]]]

_EVERYTHING = f"({'|'.join(LETTERS)})*"


@dataclass(frozen=True)
class PairAutomaton:
    """The automaton of one constraint. State 0 is the start: nothing has held yet.

    It reads every event of the pair's stream, or only those at which the letter changes: a
    repeated letter leaves the state where it is and says nothing. All three tables speak of
    pairs made of the runs that are latest (or previous) *after* the event was taken in.

    The tables are shared between all users of the same constraint and read-only: copy them
    (or stack several into one array) for a kernel that wants them writable.

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
    #: is no longer the latest: its completion is told by its intervals only.)
    completes: NDArray[np.uint8] = field(compare=False, repr=False)

    @property
    def states(self) -> int:
        """How many states there are: the fewest that can say all this."""
        return len(self.next_state)

    @property
    def reads(self) -> Relation:
        """The relations that this automaton decides."""
        return read_by_automaton(self.relations)

    @property
    def left_to_endpoints(self) -> Relation:
        """The relations of the constraint that the endpoint index has to find."""
        return Relation(self.relations & ~self.reads)

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
    the latest run of the one is the latest run of the other: not a pair. What is left are a run
    and its successor. The columns of I and Z are then idle.

    >>> compile_pair(Relation.MEETS).states
    3
    """
    relations = Relation(relations)
    alphabet = "OE" if equal_predicates else LETTERS
    machine = _minimal(_product(expressions_of(relations), alphabet, equal_predicates), alphabet)

    count = len(machine)
    if count > 256:  # cannot happen: all fifteen together need far fewer
        raise OverflowError(f"{names(relations)} need {count} states; the tables hold 256")
    next_state = np.repeat(np.arange(count, dtype=np.uint8)[:, None], len(LETTERS), axis=1)
    decides = np.zeros((count, len(LETTERS)), dtype=np.uint8)
    relation = np.full((count, len(LETTERS)), -1, dtype=np.int8)
    completes = np.zeros((count, len(LETTERS)), dtype=np.uint8)
    for state, ways in machine.items():
        for letter, (output, after) in ways.items():
            at = state, LETTERS.index(letter)
            next_state[at] = after
            decides[at], relation[at], completes[at] = output
    for table in (next_state, decides, relation, completes):
        table.flags.writeable = False
    return PairAutomaton(relations, equal_predicates, next_state, decides, relation, completes)


@dataclass(frozen=True, slots=True)
class _Reader:
    """A DFA for "what was read ends with this expression", as rows of a table."""

    start: int
    rows: tuple[dict[str, int], ...]
    accepts: frozenset[int]


@cache
def _reader(expression: str) -> _Reader:
    # Imported here: automata-lib brings networkx (0.14 s), and only compiling needs it.
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    nfa = NFA.from_regex(_EVERYTHING + expression, input_symbols=set(LETTERS))
    dfa = DFA.from_nfa(nfa, minify=True)  # complete: every word can still end the right way
    number = {state: at for at, state in enumerate(dfa.states)}
    rows = tuple(
        {letter: number[after] for letter, after in dfa.transitions[state].items()}
        for state in dfa.states
    )
    accepts = frozenset(number[state] for state in dfa.final_states)
    # Before the first event both predicates are false (SPEC 2.2), as if O had been read.
    return _Reader(rows[number[dfa.initial_state]]["O"], rows, accepts)


def _side_by_side(
    readers: list[_Reader], alphabet: str
) -> tuple[list[tuple[str, tuple[int, ...]]], list[dict[str, int]]]:
    """All readers at once: the states (last letter, where each reader stands) and the ways out."""
    first = ("O", tuple(reader.start for reader in readers))
    number = {first: 0}
    states = [first]
    after: list[dict[str, int]] = []
    for _, stand in states:  # grows while it is walked
        ways = {}
        for b in alphabet:
            reached = (b, tuple(r.rows[at][b] for r, at in zip(readers, stand, strict=True)))
            if reached not in number:
                number[reached] = len(states)
                states.append(reached)
            ways[b] = number[reached]
        after.append(ways)
    return states, after


def _product(
    expressions: tuple[PairExpression, ...], alphabet: str, equal_predicates: bool
) -> _Mealy:
    """Run the readers of all triggers and completions side by side and mark the decisions."""
    if equal_predicates:  # the latest runs are one interval, never a pair
        expressions = tuple(said for said in expressions if said.kind != LL)
    latest = [said for said in expressions if said.kind == LL]
    triggers = [_reader(said.trigger) for said in expressions]
    completions = [_reader(said.latest_completion) for said in latest]
    states, after = _side_by_side(triggers + completions, alphabet)
    letter_of = [letter for letter, _ in states]

    # What entering each state says. Triggers and completions end with a letter that differs from
    # the one before, so an accepting state is never entered by a repeated letter.
    known = [-1] * len(states)  # the relation of the latest pair
    successors = [0] * len(states)  # PL and LP
    completed = [0] * len(states)
    for number, (_, stand) in enumerate(states):
        for said, reader, at in zip(expressions, triggers, stand, strict=False):
            if at not in reader.accepts:
                continue
            if said.kind == LL:  # at most one: the triggers are disjoint
                known[number] = said.relation.bit_length() - 1
            else:
                successors[number] |= said.kind
        ends = zip(completions, stand[len(triggers) :], strict=True)
        completed[number] = int(any(at in reader.accepts for reader, at in ends))

    # The earliest deciding states: from here, every way out that keeps the pair (it starts no
    # new run of x or y, so the latest runs stay the same two) makes an allowed relation known,
    # and every way out does keep the pair. While the letter repeats nothing is known, and
    # nothing forbidden either.
    def certain(state: int) -> bool:
        holds = LETTERS.index(letter_of[state])
        ways = [b for b in alphabet if b != letter_of[state]]
        return all(not LETTERS.index(b) & ~holds and known[after[state][b]] >= 0 for b in ways)

    decided = [certain(state) for state in range(len(states))]

    machine: _Mealy = {}
    for state, ways in enumerate(after):
        machine[state] = {}
        for b, reached in ways.items():
            now = (known[reached] >= 0 or decided[reached]) and not decided[state]
            output = (LL * now + successors[reached], known[reached], completed[reached])
            machine[state][b] = (output, reached)
    return machine


def _minimal(machine: _Mealy, alphabet: str) -> _Mealy:
    """The smallest machine that says the same, its states numbered breadth first.

    automata-lib minimises what is *accepted*, one bit a state, and this machine says more. But
    two states of it are the same if and only if the same histories of (letter, output) can start
    there; so with each such couple as one symbol and every state accepting, the minimal DFA of
    that language is the minimal machine. Breadth first in the order of the letters makes the
    numbers a function of the constraint alone.
    """
    from automata.fa.dfa import DFA

    symbol_of: dict[tuple[str, _Output], str] = {}
    transitions: dict[int, dict[str, int]] = {}
    for state, ways in machine.items():
        transitions[state] = {
            symbol_of.setdefault((b, output), f"{b}{output}"): reached
            for b, (output, reached) in ways.items()
        }
    couple_of = {symbol: couple for couple, symbol in symbol_of.items()}
    small: DFA = DFA(
        states=set(machine),
        input_symbols=set(couple_of),
        transitions=transitions,
        initial_state=0,
        final_states=set(machine),
        allow_partial=True,
    ).minify()

    number = {small.initial_state: 0}
    todo = [small.initial_state]
    numbered: _Mealy = {}
    for state in todo:  # grows while it is walked
        ways = {
            couple_of[symbol][0]: (couple_of[symbol][1], reached)
            for symbol, reached in small.transitions[state].items()
        }
        numbered[number[state]] = {}
        for b in alphabet:
            output, reached = ways[b]
            if reached not in number:
                number[reached] = len(todo)
                todo.append(reached)
            numbered[number[state]][b] = (output, number[reached])
    return numbered


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """When pairs in one relation of a constraint are decided.

    ``endpoints`` are those that fall on the deciding event, ``alone`` those at which the same
    relation would be decided if it were the only one allowed.
    """

    relation: Relation
    endpoints: tuple[str, ...]
    alone: tuple[str, ...]
    by_endpoint_index: bool = False

    @property
    def earlier(self) -> bool:
        """Whether the other relations of the constraint make the decision earlier."""
        return self.endpoints != self.alone

    def __str__(self) -> str:
        name = ALL_NAMES[self.relation.bit_length() - 1]
        text = f"{name}: decided at {' = '.join(self.endpoints)}"
        if self.earlier:
            text += f" (alone it would be at {' = '.join(self.alone)})"
        return text + (", by the endpoint index" if self.by_endpoint_index else "")


def decision_points(
    relations: Relation, equal_predicates: bool = False
) -> tuple[DecisionPoint, ...]:
    """For each relation of a constraint, the endpoint that decides it.

    Read off the compiled automaton, not a list kept beside it. Relations that cannot hold
    between symbols with equal predicates are left out if they have.

    >>> for point in decision_points(Relation.OVERLAPS | Relation.MEETS):
    ...     print(point)
    meets: decided at y.ts = x.te
    overlaps: decided at x.te
    >>> group = Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS
    >>> print(decision_points(group)[0])
    overlaps: decided at y.ts (alone it would be at x.te)
    """
    readable = read_by_automaton(relations)
    points = []
    for relation in Relation:
        if not relation & relations:
            continue
        if not relation & readable:
            later = ("y.ts",) if relation & (Relation.BEFORE | Relation.FOLLOWED_BY) else ("x.ts",)
            points.append(DecisionPoint(relation, later, later, by_endpoint_index=True))
            continue
        together = _deciding_endpoints(relation, relations, equal_predicates)
        if together is not None:
            alone = _deciding_endpoints(relation, relation, equal_predicates)
            points.append(DecisionPoint(relation, together, alone or together))
    return tuple(points)


def _deciding_endpoints(
    relation: Relation, allowed: Relation, equal_predicates: bool
) -> tuple[str, ...] | None:
    """Which endpoints fall on the event that decides a pair in this relation, None if none does."""
    automaton = compile_pair(allowed, equal_predicates)
    for said in EXPRESSIONS[relation]:
        word = said.shortest_word
        if equal_predicates:
            word = word.replace("Z", "E").replace("I", "E")
        previous = 0
        for letter, (_, decides, _, _) in zip(word, automaton.walk(word), strict=True):
            holds = LETTERS.index(letter)
            if decides & said.kind:
                started, ended = holds & ~previous, previous & ~holds
                found = (
                    ("x.ts", started & 2),
                    ("y.ts", started & 1),
                    ("x.te", ended & 2),
                    ("y.te", ended & 1),
                )
                return tuple(name for name, falls in found if falls)
            previous = holds
    return None
