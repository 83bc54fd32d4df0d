"""The diagrams show all that is in the tables."""

from __future__ import annotations

import re

from piestream.automata import compile_pair
from piestream.relations import Relation
from piestream.show.diagrams import dot, mermaid

R = Relation
GROUP = R.OVERLAPS | R.FINISHED_BY | R.CONTAINS | R.FOLLOWED_BY | R.FOLLOWS


def test_every_transition_is_drawn_once() -> None:
    automaton = compile_pair(GROUP)
    drawn = set()
    for line in mermaid(automaton).splitlines():
        if edge := re.fullmatch(r" +S(\d+) --> S(\d+) : ([OIZE,]+)( .*)?", line):
            for letter in edge[3].split(","):
                transition = int(edge[1]), letter, int(edge[2])
                assert transition not in drawn
                drawn.add(transition)
    assert drawn == {
        (state, letter, int(automaton.next_state[state, code]))
        for state in range(automaton.states)
        for code, letter in enumerate("OIZE")
    }


def test_decided_known_and_complete_are_marked() -> None:
    text = mermaid(compile_pair(GROUP))
    assert ": E ▲ x y\n" in text  # decided by the group, not yet by name
    assert ": O known as finished-by, △ complete\n" in text
    assert "E ▲ followed-by (previous x)\n" in text
    assert "E ▲ follows (previous y)\n" in text
    assert "E ▲ followed-by (previous x), ▲ follows (previous y)\n" in text
    assert ": I ▲ followed-by\n" in text


def test_dot_has_the_same_edges_and_dashes_the_deciding_ones() -> None:
    automaton = compile_pair(GROUP)
    text = dot(automaton)
    assert len(re.findall(r"S\d+ -> S\d+ \[", text)) == len(
        re.findall(r"S\d+ --> S\d+ :", mermaid(automaton))
    )
    deciding = [line for line in text.splitlines() if "▲" in line]
    assert deciding
    assert all("style=dashed" in line for line in deciding)
    assert text.count("style=dashed") == len(deciding)
    assert text.count("{") == text.count("}")


def test_equal_predicates_draw_only_their_two_letters() -> None:
    text = mermaid(compile_pair(R.FOLLOWED_BY, True))
    assert "equal predicates" in text
    assert not re.search(r": .*[IZ]", text)
