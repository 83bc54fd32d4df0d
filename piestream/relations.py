"""The fifteen interval relations: their names, their inverses, and sets of them.

Allen's thirteen plus ``followed-by`` and ``follows`` (the paper's Definition 5), which are the
immediate-successor forms of ``before`` and ``after``. Every room of the library speaks of
relations in these words.
"""

from __future__ import annotations

from enum import IntFlag

__all__ = ["ALLEN", "ALL_NAMES", "Relation", "intersect", "inverse", "names", "relation_named"]


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


#: Allen's thirteen relations (without the two precise forms), in order of x's end against y.
ALLEN = tuple(r for r in Relation if r not in (Relation.FOLLOWED_BY, Relation.FOLLOWS))

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


def intersect(left: Relation, right: Relation) -> Relation:
    """What two constraints on one pair allow together.

    ``before`` includes ``followed-by`` (and ``after`` includes ``follows``), so
    ``{before}`` and ``{followed-by}`` meet in ``{followed-by}``.

    >>> names(intersect(Relation.BEFORE | Relation.MEETS, Relation.FOLLOWED_BY))
    ('followed-by',)
    """
    both = left & right
    for wide, narrow in (
        (Relation.BEFORE, Relation.FOLLOWED_BY),
        (Relation.AFTER, Relation.FOLLOWS),
    ):
        if (left & wide and right & narrow) or (left & narrow and right & wide):
            both |= narrow
    return both


def names(relations: Relation) -> tuple[str, ...]:
    """The names of the relations in a set, in the order of the flags."""
    return tuple(name for position, name in enumerate(ALL_NAMES) if relations >> position & 1)


def relation_named(word: str) -> Relation | None:
    """The relation that a word names, however it is spelt, or None.

    >>> relation_named("Overlapped By") is Relation.OVERLAPPED_BY
    True
    """
    spelt = "-".join(word.lower().replace("_", " ").replace("-", " ").split())
    spelt = _PLAIN_VERBS.get(spelt, spelt)
    if spelt not in ALL_NAMES:
        return None
    return Relation(1 << ALL_NAMES.index(spelt))
