"""At which endpoint each relation of a constraint is decided, read off the compiled automaton."""

from __future__ import annotations

from dataclasses import dataclass

from piestream.automata.letters import EXPRESSIONS, LETTERS, read_by_automaton
from piestream.automata.pair_automaton import compile_pair
from piestream.relations import Relation, names

__all__ = ["DecisionPoint", "decision_points"]

_X_ENDS_FIRST = Relation.BEFORE | Relation.FOLLOWED_BY


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
        text = f"{names(self.relation)[0]}: decided at {' = '.join(self.endpoints)}"
        if self.earlier:
            text += f" (alone it would be at {' = '.join(self.alone)})"
        return text + (", by the endpoint index" if self.by_endpoint_index else "")


def decision_points(
    relations: Relation, equal_predicates: bool = False
) -> tuple[DecisionPoint, ...]:
    """For each relation of a constraint, the endpoint that decides it.

    Relations that cannot hold between symbols with equal predicates are left out if they have
    them.

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
            later_start = ("y.ts",) if relation & _X_ENDS_FIRST else ("x.ts",)
            points.append(DecisionPoint(relation, later_start, later_start, True))
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
    for expression in EXPRESSIONS[relation]:
        word = expression.shortest_word
        if equal_predicates:
            word = word.replace("Z", "E").replace("I", "E")
        previous = 0
        for letter, (_, decides, _, _) in zip(word, automaton.walk(word), strict=True):
            holds = LETTERS.index(letter)
            if decides & expression.kind:
                started, ended = holds & ~previous, previous & ~holds
                endpoints = (
                    ("x.ts", started & 2),
                    ("y.ts", started & 1),
                    ("x.te", ended & 2),
                    ("y.te", ended & 1),
                )
                return tuple(name for name, is_here in endpoints if is_here)
            previous = holds
    return None
