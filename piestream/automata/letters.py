"""The relations as expressions over minterm letters (the paper's Definitions 8-10 and Table 1).

One event tells of a pair of symbols x and y only which of the two hold: O neither, I only y,
Z only x, E both. A *precise* relation (all of them but ``before`` and ``after``, which have no
expression) is then a short regular expression. The expressions are read at the end of a stream:
a pair in relation r has just become known exactly when what was read ends with r's trigger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from piestream.relations import Relation, inverse

__all__ = [
    "BY_ENDPOINTS",
    "EXPRESSIONS",
    "LETTERS",
    "LL",
    "LP",
    "PL",
    "READABLE",
    "PairExpression",
    "expressions_of",
    "inverted",
    "read_by_automaton",
]

#: The letters in the order of their code: letter = 1 * (y holds) + 2 * (x holds).
LETTERS = "OIZE"

#: Which runs a decided pair joins. Latest: the run most recently started, up to and including
#: this event. Previous: the one before it. More than one may be decided at one event.
LL = 1  #: x's latest run and y's latest run
PL = 2  #: x's previous run and y's latest run
LP = 4  #: x's latest run and y's previous run

_MIRROR = str.maketrans("IZ", "ZI")

# What may follow a trigger, up to the event that ends the pair, by the symbol that is still open
# after the trigger. The other symbol may come and go meanwhile: that is another run of it.
_REST = {"x": "(Z|E)*(O|I)", "y": "(I|E)*(O|Z)", "": ""}
# The same while the pair stays the latest, that is: while nothing starts again.
_REST_LATEST = {"x": "Z*O", "y": "I*O", "": ""}


@dataclass(frozen=True, slots=True)
class PairExpression:
    """What the letters say when a pair of runs is in one relation.

    ``expression`` is the paper's (Table 1), ``trigger`` ends at the event at which the relation
    becomes known, ``completion`` at the event at which both runs have ended, and
    ``latest_completion`` says the same of a pair of which neither symbol started again before
    ("" where the pair is not the latest one even at its trigger).
    """

    relation: Relation
    kind: int
    expression: str
    trigger: str
    completion: str
    latest_completion: str

    @property
    def shortest_word(self) -> str:
        """The shortest word of the trigger.

        >>> EXPRESSIONS[Relation.OVERLAPS][0].shortest_word
        'ZEI'
        """
        return self.trigger.replace("(Z|E)", "Z").replace("(I|E)", "I").replace("+", "")


def _said(
    relation: Relation, expression: str, trigger: str, still_open: str, kind: int = LL
) -> PairExpression:
    latest = trigger + _REST_LATEST[still_open] if kind == LL else ""
    return PairExpression(relation, kind, expression, trigger, trigger + _REST[still_open], latest)


def inverted(said: PairExpression) -> PairExpression:
    """The same words with x and y exchanged: I for Z, Z for I.

    >>> inverted(EXPRESSIONS[Relation.MEETS][0]).trigger
    'IZ'
    """
    return PairExpression(
        inverse(said.relation),
        {LL: LL, PL: LP, LP: PL}[said.kind],
        said.expression.translate(_MIRROR),
        said.trigger.translate(_MIRROR),
        said.completion.translate(_MIRROR),
        said.latest_completion.translate(_MIRROR),
    )


# A trigger is the expression without the repeats at its two ends, which decide nothing. In
# ``followed-by`` the last letter tells two cases apart. I: x is still the run that ended. E: x
# starts again together with y, so the run that y follows is x's previous one.
_FORWARD = (
    _said(Relation.FOLLOWED_BY, "(Z|E)O+(I|E)", "(Z|E)O+I", "y"),
    _said(Relation.FOLLOWED_BY, "(Z|E)O+(I|E)", "(Z|E)O+E", "y", PL),
    _said(Relation.MEETS, "Z+I+", "ZI", "y"),
    _said(Relation.OVERLAPS, "Z+E+I+", "ZE+I", "y"),
    _said(Relation.STARTS, "O+E+I+", "OE+I", "y"),
    _said(Relation.DURING, "I+E+I+", "IE+I", "y"),
    _said(Relation.FINISHES, "I+E+O+", "IE+O", ""),
    _said(Relation.EQUALS, "O+E+O+", "OE+O", ""),
)

_ALL = _FORWARD + tuple(inverted(s) for s in _FORWARD if s.relation is not Relation.EQUALS)

#: The expressions of each precise relation: one, or two for ``followed-by`` and ``follows``.
EXPRESSIONS: dict[Relation, tuple[PairExpression, ...]] = {
    relation: tuple(s for s in _ALL if s.relation is relation)
    for relation in Relation
    if any(s.relation is relation for s in _ALL)
}

#: The relations that have an expression: the paper's precise relations.
READABLE = reduce(or_, EXPRESSIONS)

#: The relations that only endpoints can tell.
BY_ENDPOINTS = Relation.BEFORE | Relation.AFTER


def read_by_automaton(relations: Relation) -> Relation:
    """The relations of a set that its automaton reads; the endpoint index finds the others.

    ``before`` takes ``followed-by`` with it, being the wider of the two, and ``after`` takes
    ``follows``: a pair must be found once.

    >>> from piestream.relations import names
    >>> names(read_by_automaton(Relation.BEFORE | Relation.FOLLOWED_BY | Relation.MEETS))
    ('meets',)
    """
    readable = relations & READABLE
    if relations & Relation.BEFORE:
        readable &= ~Relation.FOLLOWED_BY
    if relations & Relation.AFTER:
        readable &= ~Relation.FOLLOWS
    return Relation(readable)


def expressions_of(relations: Relation) -> tuple[PairExpression, ...]:
    """The expressions that the automaton of a constraint is compiled from."""
    readable = read_by_automaton(relations)
    return tuple(said for r, all_said in EXPRESSIONS.items() if r & readable for said in all_said)
