"""The fifteen interval relations: names, inverses, sets of them, and the order of endpoints.

Allen's thirteen plus ``followed-by`` and ``follows`` (the paper's Definition 5), which are the
immediate-successor forms of ``before`` and ``after``. ``ENDPOINT_ORDER`` is the only table of what
a relation means; whoever needs to know which relations are possible asks it.
"""

from __future__ import annotations

from enum import IntFlag
from functools import cache
from itertools import product
from typing import Any, NamedTuple

__all__ = [
    "ALLEN",
    "ALL_NAMES",
    "ANY",
    "ENDPOINT_ORDER",
    "PRECISE_FORM",
    "RELATIONS_BY_ORDER",
    "SETS",
    "EndpointOrder",
    "Relation",
    "compare",
    "convex_parts",
    "intersect",
    "inverse",
    "names",
    "relation_named",
    "relation_of",
    "relations_named",
    "relations_ordered",
    "said",
]


class Relation(IntFlag):
    """One relation, or with ``|`` a set of them: what a constraint allows between two symbols.

    >>> names(Relation.MEETS | Relation.OVERLAPS)
    ('meets', 'overlaps')
    """

    BEFORE = 1 << 0
    FOLLOWED_BY = 1 << 1
    MEETS = 1 << 2
    OVERLAPS = 1 << 3
    FINISHED_BY = 1 << 4
    CONTAINS = 1 << 5
    STARTS = 1 << 6
    EQUALS = 1 << 7
    STARTED_BY = 1 << 8
    DURING = 1 << 9
    FINISHES = 1 << 10
    OVERLAPPED_BY = 1 << 11
    MET_BY = 1 << 12
    FOLLOWS = 1 << 13
    AFTER = 1 << 14


#: The immediate-successor form of a relation: it holds where the wide form does, and neither
#: predicate is ever true in between. That is not a matter of endpoints.
PRECISE_FORM = {Relation.BEFORE: Relation.FOLLOWED_BY, Relation.AFTER: Relation.FOLLOWS}

#: Allen's thirteen relations (without the two precise forms), in order of x's end against y.
ALLEN = tuple(r for r in Relation if r not in PRECISE_FORM.values())

#: All thirteen as a set: nothing is known of the pair.
ANY = Relation(sum(ALLEN))

ALL_NAMES = tuple(r.name.lower().replace("_", "-") for r in Relation)  # type: ignore[union-attr]

_BITS = len(ALL_NAMES)

_PLAIN_VERBS = {
    "equal": "equals",
    "meet": "meets",
    "overlap": "overlaps",
    "start": "starts",
    "finish": "finishes",
    "contain": "contains",
    "follow": "follows",
    "intersect": "intersects",
    "cover": "covers",
    "precede": "precedes",
    "succeed": "succeeds",
}


def inverse(relations: Relation) -> Relation:
    """The relations of ``y`` to ``x`` when ``relations`` are those of ``x`` to ``y``.

    The flags are laid out so that the inverse is the mirror image.

    >>> inverse(Relation.MEETS | Relation.DURING) == Relation.MET_BY | Relation.CONTAINS
    True
    """
    mirrored = 0
    for position in range(_BITS):
        if relations >> position & 1:
            mirrored |= 1 << (_BITS - 1 - position)
    return Relation(mirrored)


class EndpointOrder(NamedTuple):
    """How the endpoints of x compare with those of y: -1 earlier, 0 at the same time, 1 later.

    ``te_ts`` compares x's end with y's start.
    """

    ts_ts: int
    ts_te: int
    te_ts: int
    te_te: int

    def seen_from_y(self) -> EndpointOrder:
        """The same two intervals, with x and y exchanged."""
        return EndpointOrder(-self.ts_ts, -self.te_ts, -self.ts_te, -self.te_te)

    @property
    def number(self) -> int:
        """The four comparisons as the digits of a number in base 3, for tables of 81 entries."""
        return 27 * self.ts_ts + 9 * self.ts_te + 3 * self.te_ts + self.te_te + 40


def _endpoint_orders() -> dict[Relation, EndpointOrder]:
    orders = {
        Relation.BEFORE: EndpointOrder(-1, -1, -1, -1),
        Relation.MEETS: EndpointOrder(-1, -1, 0, -1),
        Relation.OVERLAPS: EndpointOrder(-1, -1, 1, -1),
        Relation.STARTS: EndpointOrder(0, -1, 1, -1),
        Relation.DURING: EndpointOrder(1, -1, 1, -1),
        Relation.FINISHES: EndpointOrder(1, -1, 1, 0),
        Relation.EQUALS: EndpointOrder(0, -1, 1, 0),
    }
    orders |= {inverse(relation): order.seen_from_y() for relation, order in orders.items()}
    return {relation: orders[relation] for relation in ALLEN}


#: The order of the endpoints in each of Allen's relations. A relation fixes all four comparisons,
#: and no two relations agree in all of them.
ENDPOINT_ORDER: dict[Relation, EndpointOrder] = _endpoint_orders()

_RELATION_OF_ORDER = {order: relation for relation, order in ENDPOINT_ORDER.items()}


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 as ``a`` is earlier than, at the same time as, or later than ``b``."""
    return bool(a > b) - bool(a < b)


def relation_of(xs: Any, xe: Any, ys: Any, ye: Any) -> Relation:
    """The one of Allen's relations that holds between ``[xs, xe)`` and ``[ys, ye)``.

    >>> relation_of(0, 5, 3, 8)
    <Relation.OVERLAPS: 8>
    """
    for name, ts, te in (("x", xs, xe), ("y", ys, ye)):
        if not ts < te:
            raise ValueError(f"{name} = [{ts}, {te}) is not an interval: its end must be later")
    order = EndpointOrder(compare(xs, ys), compare(xs, ye), compare(xe, ys), compare(xe, ye))
    return _RELATION_OF_ORDER[order]


@cache
def relations_ordered(
    ts_ts: int | None = None,
    ts_te: int | None = None,
    te_ts: int | None = None,
    te_te: int | None = None,
) -> Relation:
    """The relations of Allen's that agree with the comparisons that are known.

    The arguments are those of `EndpointOrder`; None is a comparison that is not known. No
    relation agrees with an order that two intervals cannot have.

    >>> names(relations_ordered(te_ts=0))
    ('meets',)
    >>> names(relations_ordered(ts_ts=-1, ts_te=-1, te_ts=1))  # both are still open
    ('overlaps', 'finished-by', 'contains')
    """
    known = (ts_ts, ts_te, te_ts, te_te)
    found = Relation(0)
    for relation, order in ENDPOINT_ORDER.items():
        if all(sign is None or sign == there for sign, there in zip(known, order, strict=True)):
            found |= relation
    return found


#: `relations_ordered` of every order, at the order's number: for loops and for whole columns.
RELATIONS_BY_ORDER = tuple(relations_ordered(*signs) for signs in product((-1, 0, 1), repeat=4))


#: Names of sets: how two intervals lie to each other, said more broadly. They share an instant if
#: each begins before the other ends; x covers y if it begins no later and ends no earlier.
SETS: dict[str, Relation] = {
    "intersects": relations_ordered(ts_te=-1, te_ts=1),
    "disjoint": ANY & ~relations_ordered(ts_te=-1, te_ts=1),
    "covers": Relation(
        sum(relations_ordered(ts_ts=ts, te_te=te) for ts in (-1, 0) for te in (0, 1))
    ),
    "inside": Relation(
        sum(relations_ordered(ts_ts=ts, te_te=te) for ts in (0, 1) for te in (-1, 0))
    ),
    "precedes": relations_ordered(te_ts=-1) | relations_ordered(te_ts=0),
    "succeeds": relations_ordered(ts_te=1) | relations_ordered(ts_te=0),
}


@cache
def convex_parts(relations: Relation) -> tuple[Relation, ...]:
    """Some relations in few sets, each of which leaves out none of Allen's between those that it has.

    So a set is what a range of signs of each comparison allows, and can be said by inequalities alone. A
    precise form is a set of its own, unless the wide form is there, too.

    >>> [names(part) for part in convex_parts(SETS["intersects"] | Relation.AFTER)]  # not met-by
    [('overlaps', 'finished-by', 'contains', 'starts', 'equals', 'started-by', 'during', 'finishes', 'overlapped-by'), ('after',)]
    """
    parts: list[Relation] = []
    rest = [relation for relation in ALLEN if relation & relations]
    while rest:
        part = rest[0]
        for relation in rest[1:]:
            larger = _between(part | relation)
            if not larger & ~relations:
                part = larger
        parts.append(part)
        rest = [relation for relation in rest if not relation & part]
    parts += (p for wide, p in PRECISE_FORM.items() if p & relations and not wide & relations)
    return tuple(parts)


def _between(relations: Relation) -> Relation:
    """The relations of which no comparison is lower, or higher, than in all of these."""
    orders = [order for relation, order in ENDPOINT_ORDER.items() if relation & relations]
    ranges = [(min(signs), max(signs)) for signs in zip(*orders, strict=True)]
    return Relation(
        sum(
            relation
            for relation, order in ENDPOINT_ORDER.items()
            if all(low <= sign <= high for sign, (low, high) in zip(order, ranges, strict=True))
        )
    )


def intersect(left: Relation, right: Relation) -> Relation:
    """What two constraints on one pair allow together.

    ``before`` includes ``followed-by`` (and ``after`` includes ``follows``), so
    ``{before}`` and ``{followed-by}`` meet in ``{followed-by}``.

    >>> names(intersect(Relation.BEFORE | Relation.MEETS, Relation.FOLLOWED_BY))
    ('followed-by',)
    """
    both = left & right
    for wide, precise in PRECISE_FORM.items():
        if (left & wide and right & precise) or (left & precise and right & wide):
            both |= precise
    return both


def names(relations: Relation) -> tuple[str, ...]:
    """The names of the relations in a set, in the order of the flags.

    >>> names(Relation.AFTER | Relation.FOLLOWED_BY)
    ('followed-by', 'after')
    """
    return tuple(name for position, name in enumerate(ALL_NAMES) if relations >> position & 1)


def said(relations: Relation) -> str:
    """A set of relations to be read by people: by the name of the set where that is much shorter.

    >>> said(SETS["covers"]), said(SETS["precedes"])
    ('covers', 'before; meets')
    """
    listed = names(relations)
    named = (word for word, set in SETS.items() if set == relations and len(listed) > 2)
    return next(named, "; ".join(listed))


def relation_named(word: str) -> Relation | None:
    """The relation that a word names, however it is spelt, or None.

    >>> relation_named("Overlapped By") is Relation.OVERLAPPED_BY
    True
    """
    spelt = _spelt(word)
    return Relation(1 << ALL_NAMES.index(spelt)) if spelt in ALL_NAMES else None


def relations_named(word: str) -> Relation | None:
    """The relations that the name of one, or of a set of them, stands for, or None.

    >>> names(relations_named("Covers"))
    ('finished-by', 'contains', 'equals', 'started-by')
    """
    return relation_named(word) or SETS.get(_spelt(word))


def _spelt(word: str) -> str:
    """A name as it stands in the tables here."""
    spelt = "-".join(word.lower().replace("_", " ").replace("-", " ").split())
    return _PLAIN_VERBS.get(spelt, spelt)
