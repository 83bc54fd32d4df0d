"""The machine of a constraint: the expressions of all its relations side by side, then minimal.

A machine is a Mealy machine: deterministic, with outputs on its transitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from piestream.automata.letters import LETTERS, LL, PairExpression, expressions_of
from piestream.relations import Relation

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

__all__ = ["Machine", "Output", "minimal", "product_machine"]

#: What a transition gives: (decides, relation, completes), see the tables of `PairAutomaton`.
Output = tuple[int, int, int]
#: state -> letter -> (output, next state)
Machine = dict[int, dict[str, tuple[Output, int]]]

_EVERYTHING = f"({'|'.join(LETTERS)})*"


@dataclass(frozen=True, slots=True)
class _SuffixDfa:
    """A DFA for "the letters read so far end with this expression", as rows of a table."""

    start: int
    rows: tuple[dict[str, int], ...]
    accepts: frozenset[int]


@cache
def _suffix_dfa(expression: str) -> _SuffixDfa:
    # Imported here: automata-lib brings networkx (0.14 s), and only compiling needs it.
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    nfa = NFA.from_regex(_EVERYTHING + expression, input_symbols=set(LETTERS))
    dfa = DFA.from_nfa(nfa, minify=True)  # complete: every word can still be continued to a match
    number = {state: at for at, state in enumerate(dfa.states)}
    rows = tuple(
        {letter: number[after] for letter, after in dfa.transitions[state].items()}
        for state in dfa.states
    )
    accepts = frozenset(number[state] for state in dfa.final_states)
    # Before the first event both predicates are false, as if O had been read.
    return _SuffixDfa(rows[number[dfa.initial_state]]["O"], rows, accepts)


@dataclass(frozen=True, slots=True)
class _Product:
    """All DFAs run side by side. Only states that can be reached are there, state 0 first."""

    last_letter: list[str]
    components: list[tuple[int, ...]]  # the state of each DFA
    after: list[dict[str, int]]  # the next state after each letter


def _product(dfas: list[_SuffixDfa], alphabet: str) -> _Product:
    first = ("O", tuple(dfa.start for dfa in dfas))
    number = {first: 0}
    states = [first]
    after: list[dict[str, int]] = []
    for _, components in states:  # grows while it is iterated
        following = {}
        for letter in alphabet:
            stepped = tuple(
                dfa.rows[state][letter] for dfa, state in zip(dfas, components, strict=True)
            )
            reached = (letter, stepped)
            if reached not in number:
                number[reached] = len(states)
                states.append(reached)
            following[letter] = number[reached]
        after.append(following)
    return _Product([letter for letter, _ in states], [c for _, c in states], after)


@dataclass(frozen=True, slots=True)
class _Entered:
    """What entering each state of a product means, by state.

    Triggers and completions end with a letter that differs from the one before, so an accepting
    state is never entered by a repeated letter.
    """

    known: list[int]  # the relation of the latest pair that becomes known, -1 if none
    successors: list[int]  # PL and LP: the pairs with a previous run that are decided
    completed: list[int]  # 1 where the latest pair is complete


def _entered(
    product: _Product,
    expressions: list[PairExpression],
    triggers: list[_SuffixDfa],
    completions: list[_SuffixDfa],
) -> _Entered:
    entered = _Entered([], [], [])
    for components in product.components:
        known, successors = -1, 0
        for expression, dfa, state in zip(expressions, triggers, components, strict=False):
            if state not in dfa.accepts:
                continue
            if expression.kind == LL:  # at most one: the triggers are disjoint
                known = expression.relation.bit_length() - 1
            else:
                successors |= expression.kind
        ends = zip(completions, components[len(triggers) :], strict=True)
        entered.known.append(known)
        entered.successors.append(successors)
        entered.completed.append(int(any(state in dfa.accepts for dfa, state in ends)))
    return entered


def product_machine(relations: Relation, alphabet: str, equal_predicates: bool) -> Machine:
    """The triggers and completions of a set of relations, with the earliest decisions marked."""
    expressions = list(expressions_of(relations))
    if equal_predicates:  # the latest runs are one interval, never a pair
        expressions = [expression for expression in expressions if expression.kind != LL]
    triggers = [_suffix_dfa(expression.trigger) for expression in expressions]
    completions = [
        _suffix_dfa(expression.latest_completion)
        for expression in expressions
        if expression.kind == LL
    ]
    product = _product(triggers + completions, alphabet)
    entered = _entered(product, expressions, triggers, completions)

    # The earliest deciding states: from here, every transition that keeps the pair (it starts no
    # new run of x or y, so the latest runs stay the same two) makes an allowed relation known,
    # and every transition does keep the pair. While the letter repeats nothing becomes known, and
    # nothing forbidden either.
    def certain(state: int) -> bool:
        holds = LETTERS.index(product.last_letter[state])
        others = [letter for letter in alphabet if letter != product.last_letter[state]]
        return all(
            not LETTERS.index(letter) & ~holds and entered.known[product.after[state][letter]] >= 0
            for letter in others
        )

    decided = [certain(state) for state in range(len(product.after))]

    machine: Machine = {}
    for state, following in enumerate(product.after):
        machine[state] = {}
        for letter, reached in following.items():
            known = entered.known[reached]
            now = (known >= 0 or decided[reached]) and not decided[state]
            decides = LL * now + entered.successors[reached]
            machine[state][letter] = ((decides, known, entered.completed[reached]), reached)
    return machine


def minimal(machine: Machine, alphabet: str) -> Machine:
    """The smallest machine with the same outputs, its states numbered breadth first.

    automata-lib minimises what is *accepted*, one bit a state, and this machine has more outputs.
    But two states of it are equivalent if and only if the same histories of (letter, output) can
    start there; so with each such couple as one input symbol and every state accepting, the minimal
    DFA of that language is the minimal machine. Breadth first in the order of the letters makes
    the numbers a function of the constraint alone.
    """
    from automata.fa.dfa import DFA

    symbol_of: dict[tuple[str, Output], str] = {}
    transitions: dict[int, dict[str, int]] = {}
    for state, following in machine.items():
        transitions[state] = {
            symbol_of.setdefault((letter, output), f"{letter}{output}"): reached
            for letter, (output, reached) in following.items()
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
    queue = [small.initial_state]
    numbered: Machine = {}
    for state in queue:  # grows while it is iterated
        following = {
            couple_of[symbol][0]: (couple_of[symbol][1], reached)
            for symbol, reached in small.transitions[state].items()
        }
        numbered[number[state]] = {}
        for letter in alphabet:
            output, reached = following[letter]
            if reached not in number:
                number[reached] = len(queue)
                queue.append(reached)
            numbered[number[state]][letter] = (output, number[reached])
    return numbered
