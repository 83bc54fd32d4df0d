"""The relations as expressions over minterm letters (the paper's Definitions 8-10 and Table 1).

One event shows of a pair of symbols x and y only which of the two hold: O neither, I only y,
Z only x, E both. A *precise* relation (all of them but ``before`` and ``after``, which have no
expression) is then a short regular expression. The expressions are matched at the end of a stream:
a pair in relation r has just become known exactly when the letters read so far end with r's
trigger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from piestream.relations import ALLEN, ENDPOINT_ORDER, PRECISE_FORM, Relation, inverse

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

#: What may follow a trigger, up to the event that ends the pair, by the last letter of the
#: trigger. The symbol that has ended may hold again meanwhile: that is another run of it.
_UNTIL_ENDED = {"Z": "(Z|E)*(O|I)", "I": "(I|E)*(O|Z)", "E": "(I|E)*(O|Z)", "O": ""}
#: The same while the pair stays the latest, that is: while neither symbol starts again.
_UNTIL_ENDED_LATEST = {"Z": "Z*O", "I": "I*O", "O": ""}

#: The relations that only endpoints can decide.
BY_ENDPOINTS = reduce(or_, PRECISE_FORM)


@dataclass(frozen=True, slots=True)
class PairExpression:
    """The letters of a pair of runs that is in one relation.

    ``expression`` is the paper's (Table 1), ``trigger`` ends at the event at which the relation
    becomes known, ``completion`` at the event at which both runs have ended, and
    ``latest_completion`` is the completion of a pair of which neither symbol started again before
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


def inverted(expression: PairExpression) -> PairExpression:
    """The same words with x and y exchanged: I for Z, Z for I.

    >>> inverted(EXPRESSIONS[Relation.MEETS][0]).trigger
    'IZ'
    """
    return PairExpression(
        inverse(expression.relation),
        {LL: LL, PL: LP, LP: PL}[expression.kind],
        expression.expression.translate(_MIRROR),
        expression.trigger.translate(_MIRROR),
        expression.completion.translate(_MIRROR),
        expression.latest_completion.translate(_MIRROR),
    )


def _touching(relation: Relation) -> PairExpression:
    """The expression of a relation whose intervals touch or share events.

    The endpoints give the letters: the one before the later start, E if there are common events,
    and the one after the earlier end. The trigger is the expression without the repeats at its two
    ends, which decide nothing.
    """
    order = ENDPOINT_ORDER[relation]
    before = "ZOI"[order.ts_ts + 1]  # x began earlier: Z; both together: O; y began earlier: I
    after = "IOZ"[order.te_te + 1]  # x ended earlier: I; both together: O; y ended earlier: Z
    common = "" if order.te_ts == 0 or order.ts_te == 0 else "E+"
    trigger = f"{before}{common}{after}"
    return PairExpression(
        relation,
        LL,
        expression=f"{before}+{common}{after}+",
        trigger=trigger,
        completion=trigger + _UNTIL_ENDED[after],
        latest_completion=trigger + _UNTIL_ENDED_LATEST[after],
    )


def _followed_by(kind: int, last: str) -> PairExpression:
    """One of the two cases of ``followed-by``, which differ in the last letter.

    I: x is still the run that ended. E: x starts again together with y, so the run that y follows
    is x's previous one.
    """
    trigger = f"(Z|E)O+{last}"
    latest = trigger + _UNTIL_ENDED_LATEST[last] if kind == LL else ""
    return PairExpression(
        Relation.FOLLOWED_BY,
        kind,
        "(Z|E)O+(I|E)",
        trigger,
        trigger + _UNTIL_ENDED[last],
        latest,
    )


_FOLLOWED_BY = (_followed_by(LL, "I"), _followed_by(PL, "E"))

#: The expressions of each precise relation: one, or two for ``followed-by`` and ``follows``.
EXPRESSIONS: dict[Relation, tuple[PairExpression, ...]] = {
    Relation.FOLLOWED_BY: _FOLLOWED_BY,
    **{relation: (_touching(relation),) for relation in ALLEN if not relation & BY_ENDPOINTS},
    Relation.FOLLOWS: tuple(inverted(expression) for expression in _FOLLOWED_BY),
}

#: The relations that have an expression: the paper's precise relations.
READABLE = reduce(or_, EXPRESSIONS)


def read_by_automaton(relations: Relation, equal_predicates: bool = False) -> Relation:
    """The relations of a set that its automaton decides; the endpoint index finds the others.

    ``before`` takes ``followed-by`` with it, being the wider of the two, and ``after`` takes
    ``follows``: a pair must be found once. Symbols with equal predicates have runs that lie apart,
    so only the precise forms can hold.

    >>> from piestream.relations import names
    >>> names(read_by_automaton(Relation.BEFORE | Relation.FOLLOWED_BY | Relation.MEETS))
    ('meets',)
    """
    readable = relations & READABLE
    for wide, precise in PRECISE_FORM.items():
        if relations & wide:
            readable &= ~precise
    return Relation(readable & reduce(or_, PRECISE_FORM.values()) if equal_predicates else readable)


def expressions_of(relations: Relation) -> tuple[PairExpression, ...]:
    """The expressions that the automaton of a constraint is compiled from."""
    readable = read_by_automaton(relations)
    return tuple(
        expression
        for relation, expressions in EXPRESSIONS.items()
        if relation & readable
        for expression in expressions
    )
