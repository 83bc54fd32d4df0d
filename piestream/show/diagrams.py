"""An automaton as a diagram: Mermaid for Markdown pages, DOT for Graphviz.

The marks are those of the paper's Table 1: a solid triangle where a pair is decided (its trigger),
a hollow one where it is completed.
"""

from __future__ import annotations

from piestream.automata.letters import LETTERS, LL, LP, PL
from piestream.automata.pair_automaton import PairAutomaton
from piestream.relations import ALL_NAMES, names

__all__ = ["dot", "mermaid"]

_DECIDED = "▲"
_COMPLETED = "△"


def _mark(automaton: PairAutomaton, state: int, letter: int) -> str:
    """What happens on a transition, in words: "" where nothing does."""
    decides = automaton.decides[state, letter]
    relation = int(automaton.relation[state, letter])
    marks = []
    if decides & LL:
        # Decided by the whole set: which relation it is may become known later.
        marks.append(f"{_DECIDED} {ALL_NAMES[relation] if relation >= 0 else 'x y'}")
    elif relation >= 0:
        marks.append(f"known as {ALL_NAMES[relation]}")
    if decides & PL:
        marks.append(f"{_DECIDED} followed-by (previous x)")
    if decides & LP:
        marks.append(f"{_DECIDED} follows (previous y)")
    if automaton.completes[state, letter]:
        marks.append(f"{_COMPLETED} complete")
    return ", ".join(marks)


def _edges(automaton: PairAutomaton) -> list[tuple[int, int, str, str]]:
    """From, to, letters and mark; letters with the same target and mark share an edge."""
    alphabet = "OE" if automaton.equal_predicates else LETTERS
    letters: dict[tuple[int, int, str], list[str]] = {}
    for state in range(automaton.states):
        for letter in alphabet:
            code = LETTERS.index(letter)
            edge = state, int(automaton.next_state[state, code]), _mark(automaton, state, code)
            letters.setdefault(edge, []).append(letter)
    return [(start, end, ",".join(listed), mark) for (start, end, mark), listed in letters.items()]


def _title(automaton: PairAutomaton) -> str:
    title = "x {" + ", ".join(names(automaton.relations)) + "} y"
    return title + " (equal predicates)" * automaton.equal_predicates


def mermaid(automaton: PairAutomaton) -> str:
    """The automaton as a Mermaid state diagram, the same text every time.

    >>> from piestream.automata import compile_pair
    >>> from piestream.relations import Relation
    >>> print(mermaid(compile_pair(Relation.MEETS)))
    stateDiagram-v2
        direction LR
        %% x {meets} y
        [*] --> S0
        S0 --> S0 : O,I,E
        S0 --> S1 : Z
        S1 --> S0 : O,E
        S1 --> S2 : I ▲ meets
        S1 --> S1 : Z
        S2 --> S0 : O △ complete
        S2 --> S2 : I
        S2 --> S1 : Z
        S2 --> S0 : E
    <BLANKLINE>
    """
    lines = ["stateDiagram-v2", "    direction LR", f"    %% {_title(automaton)}", "    [*] --> S0"]
    for start, end, letters, mark in _edges(automaton):
        lines.append(f"    S{start} --> S{end} : {f'{letters} {mark}'.rstrip()}")
    return "\n".join(lines) + "\n"


def dot(automaton: PairAutomaton) -> str:
    """The automaton for Graphviz, the same text every time.

    >>> from piestream.automata import compile_pair
    >>> from piestream.relations import Relation
    >>> print(dot(compile_pair(Relation.BEFORE)))
    digraph pair {
        rankdir=LR;
        label="x {before} y";
        node [shape=circle];
        start [shape=point];
        start -> S0;
        S0 -> S0 [label="O,I,Z,E"];
    }
    <BLANKLINE>
    """
    lines = [
        "digraph pair {",
        "    rankdir=LR;",
        f'    label="{_title(automaton)}";',
        "    node [shape=circle];",
        "    start [shape=point];",
        "    start -> S0;",
    ]
    for start, end, letters, mark in _edges(automaton):
        label = f"{letters}\\n{mark}" if mark else letters
        style = ", style=dashed" if _DECIDED in mark else ""  # as in the paper's Figure 3
        lines.append(f'    S{start} -> S{end} [label="{label}"{style}];')
    return "\n".join((*lines, "}")) + "\n"
