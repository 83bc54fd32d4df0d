"""The expressions as languages, with automata-lib's language operations as the judge."""

from __future__ import annotations

from itertools import combinations

import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from piestream.automata.letters import (
    EXPRESSIONS,
    LETTERS,
    LL,
    READABLE,
    PairExpression,
    expressions_of,
    inverted,
    read_by_automaton,
)
from piestream.automata.pair_automaton import PairAutomaton, compile_pair
from piestream.relations import Relation, inverse

ALL = [expression for listed in EXPRESSIONS.values() for expression in listed]
LATEST = [expression for expression in ALL if expression.kind == LL]


def language(regex: str) -> DFA:
    return DFA.from_nfa(NFA.from_regex(regex, input_symbols=set(LETTERS)), minify=True)


def ending_with(expression: str) -> DFA:
    return language(f"(O|I|Z|E)*{expression}")


#: Streams as an automaton sees them: before the first event nothing holds.
STREAMS = language("O(O|I|Z|E)*")


def ending_with_output(automaton: PairAutomaton, table: str, wanted: int) -> DFA:
    """The words O·w such that the last transition over w has ``wanted`` in its table."""

    def hit(state: int, letter: int) -> bool:
        value = int(getattr(automaton, table)[state, letter])
        return value == wanted if table == "relation" else bool(value & wanted)

    # A state of the DFA is a state of the automaton and whether the last transition was a hit.
    transitions = {
        (state, was_hit): {
            letter: (int(automaton.next_state[state, code]), hit(state, code))
            for code, letter in enumerate(LETTERS)
        }
        for state in range(automaton.states)
        for was_hit in (False, True)
    }
    transitions["begin"] = dict.fromkeys(LETTERS, "never") | {"O": (0, False)}
    transitions["never"] = dict.fromkeys(LETTERS, "never")
    return DFA(
        states=set(transitions),
        input_symbols=set(LETTERS),
        transitions=transitions,
        initial_state="begin",
        final_states={s for s in transitions if s not in ("begin", "never") and s[1]},
    )


def label(expression: PairExpression) -> str:
    return f"{expression.relation.name}-{expression.kind}"


@pytest.mark.parametrize("expression", ALL, ids=label)
def test_the_trigger_is_the_entry_into_the_papers_expression(expression: PairExpression) -> None:
    """Theorem (the paper's trigger condition). Let L be the words over O I Z E that end with the
    paper's expression. A word ends with the trigger (or one of the two triggers, for followed-by
    and follows) if and only if it is in L and it less its last letter is not: the automaton
    enters its terminating states."""
    accepted = ending_with(expression.expression)
    entered = accepted - language("(O|I|Z|E)*").intersection(
        ending_with(f"{expression.expression}(O|I|Z|E)")
    )
    triggers = ending_with(f"({'|'.join(s.trigger for s in EXPRESSIONS[expression.relation])})")
    assert entered == triggers


@pytest.mark.parametrize("expression", LATEST, ids=label)
def test_a_relation_alone_is_known_exactly_at_its_trigger(expression: PairExpression) -> None:
    """Theorem. Over all streams w (read as O·w), the automaton of {r} outputs on its last
    transition that the latest pair is known to be in r if and only if O·w ends with r's
    trigger; and of a relation alone, decided is the same as known."""
    automaton = compile_pair(expression.relation)
    expected = STREAMS & ending_with(expression.trigger)
    position = expression.relation.bit_length() - 1
    assert ending_with_output(automaton, "relation", position) == expected
    assert ending_with_output(automaton, "decides", LL) == expected


@pytest.mark.parametrize("expression", [s for s in ALL if s.kind != LL], ids=label)
def test_a_successor_is_decided_exactly_at_its_trigger(expression: PairExpression) -> None:
    """Theorem. Over all streams, the automaton of {followed-by} decides x's previous run with
    y's latest (of {follows}, x's latest with y's previous) if and only if O·w ends with that
    trigger."""
    decided = ending_with_output(compile_pair(expression.relation), "decides", expression.kind)
    assert decided == STREAMS & ending_with(expression.trigger)


@pytest.mark.parametrize("expression", LATEST, ids=label)
def test_a_relation_alone_completes_exactly_at_its_completion(expression: PairExpression) -> None:
    """Theorem. Over all streams, the automaton of {r} outputs `completes` on its last transition if
    and only if O·w ends with r's completion and neither symbol started again on the way, that
    is: O·w ends with r's completion of the latest pair. That one is a part of the first, and
    equal to it among the words in which, from the trigger on, the symbol that ended stays
    away."""
    completed = ending_with_output(compile_pair(expression.relation), "completes", 1)
    assert completed == STREAMS & ending_with(expression.latest_completion)
    assert completed <= STREAMS & ending_with(expression.completion)
    alone = {"I": "I*O", "Z": "Z*O", "O": ""}[expression.trigger[-1]]
    assert completed == STREAMS & ending_with(expression.completion) & ending_with(
        expression.trigger + alone
    )


def test_no_two_relations_become_known_of_one_pair() -> None:
    """The triggers of the latest pair are disjoint: at one event it takes at most one relation.
    (That it takes one at only one event is in the tests of the automaton, run by run.)"""
    for one, other in combinations(LATEST, 2):
        assert ending_with(one.trigger).isdisjoint(ending_with(other.trigger)), (one, other)


def test_repeated_letters_end_no_word() -> None:
    repeated = ending_with("(OO|II|ZZ|EE)")
    for expression in ALL:
        assert ending_with(expression.trigger).isdisjoint(repeated), expression
        assert ending_with(expression.completion).isdisjoint(repeated), expression


def test_the_inverse_exchanges_the_symbols() -> None:
    for expression in ALL:
        assert inverted(inverted(expression)) == expression
        assert inverted(expression) in EXPRESSIONS[inverse(expression.relation)]


def test_the_expressions_are_those_of_the_contract() -> None:
    written = {r.name: listed[0].expression for r, listed in EXPRESSIONS.items()}
    assert written == {
        "FOLLOWED_BY": "(Z|E)O+(I|E)",
        "MEETS": "Z+I+",
        "OVERLAPS": "Z+E+I+",
        "FINISHED_BY": "Z+E+O+",
        "CONTAINS": "Z+E+Z+",
        "STARTS": "O+E+I+",
        "EQUALS": "O+E+O+",
        "STARTED_BY": "O+E+Z+",
        "DURING": "I+E+I+",
        "FINISHES": "I+E+O+",
        "OVERLAPPED_BY": "I+E+Z+",
        "MET_BY": "I+Z+",
        "FOLLOWS": "(I|E)O+(Z|E)",
    }


def test_before_and_after_are_left_to_the_endpoints_with_their_precise_forms() -> None:
    everything = Relation(sum(Relation))
    assert everything == READABLE | Relation.BEFORE | Relation.AFTER
    assert not read_by_automaton(everything) & (
        Relation.BEFORE | Relation.AFTER | Relation.FOLLOWED_BY | Relation.FOLLOWS
    )
    one_side = Relation.BEFORE | Relation.FOLLOWED_BY | Relation.FOLLOWS
    assert read_by_automaton(one_side) == Relation.FOLLOWS
    assert {expression.relation for expression in expressions_of(one_side)} == {Relation.FOLLOWS}
