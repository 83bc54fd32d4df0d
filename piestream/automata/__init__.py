"""From a set of relations to a small automaton; and what sets of relations imply together.

Nothing here knows of events or joins. automata-lib is imported when the first constraint is
compiled, not before.
"""

from piestream.automata.allen import compose, converse
from piestream.automata.consistency import clash, closure
from piestream.automata.decision_points import DecisionPoint, decision_points
from piestream.automata.endpoints import may_end_last
from piestream.automata.letters import LETTERS, LL, LP, PL, read_by_automaton
from piestream.automata.pair_automaton import PairAutomaton, compile_pair

__all__ = [
    "LETTERS",
    "LL",
    "LP",
    "PL",
    "DecisionPoint",
    "PairAutomaton",
    "clash",
    "closure",
    "compile_pair",
    "compose",
    "converse",
    "decision_points",
    "may_end_last",
    "read_by_automaton",
]
