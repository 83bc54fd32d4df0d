"""A pattern as an automaton of places, each with its successors in the order of preference.

A place is one variable where it stands in the pattern, once for each time that a quantifier with a
number repeats it (Glushkov's automaton). The automaton is not made deterministic: the order of its
successors says which of several matches is meant, as a backtracking search would try them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import permutations

from piestream.language.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    PatternNode,
    Permutation,
    Repetition,
    Variable,
)

__all__ = ["ACCEPT", "ACCEPT_AT_END", "MOST_PLACES", "RowAutomaton", "compile_rows"]

#: A pattern may have so many places.
MOST_PLACES = 1000
#: Successors that are no place: the match is complete, or is if the partition ends here.
ACCEPT, ACCEPT_AT_END = -1, -2

#: What must be true where nothing is read: ``^`` and ``$``, as bits.
_START, _END = 1, 2
#: What can come next: a place or ACCEPT, and under which conditions.
_Item = tuple[int, int]
_EMPTY_ITEM = (0, ACCEPT)  # nothing is read


@dataclass(frozen=True, slots=True)
class RowAutomaton:
    """The places of a pattern, with the successors of each in the order of preference."""

    variables: tuple[str, ...]  # of each place
    excluded: tuple[bool, ...]
    successors: tuple[tuple[int, ...], ...]
    first: tuple[int, ...]  # the successors of the start at the first row of a partition
    later: tuple[int, ...]  # and at any other row


class TooManyPlacesError(ValueError):
    """A pattern whose quantifiers repeat too much."""


def compile_rows(
    pattern: PatternNode, never_true: Collection[str] = (), every_match: bool = False
) -> RowAutomaton:
    """The automaton of a pattern; variables that hold of no row are left out of it.

    What is less preferred than a complete match is left out too, unless ``every_match`` is asked for.

    >>> automaton = compile_rows(Repetition(Variable("A"), 1, None))
    >>> automaton.later, automaton.successors
    ((0,), ((0, -1),))
    """
    places = _Places(frozenset(never_true))
    tree = places.expanded(pattern, False)
    places.connect(tree, (_EMPTY_ITEM,))
    followed = [_without(items, _START | _END, every_match) for items in places.follow]
    start = _followed(tree.first, (_EMPTY_ITEM,))
    first = _without(start, _END, every_match)
    later = _without(start, _START | _END, every_match)
    useful = _leading_to_a_match(followed, places.variables, places.never_true)

    def kept(items: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(target for target in items if target < 0 or target in useful)

    return RowAutomaton(
        tuple(places.variables),
        tuple(places.excluded),
        tuple(map(kept, followed)),
        kept(first),
        kept(later),
    )


def _without(items: Sequence[_Item], false: int, every_match: bool) -> tuple[int, ...]:
    """The successors whose conditions can hold, up to the first that is a match for certain.

    Behind a row there is no start, and before one no end; ``false`` says what does not hold.
    """
    found: list[int] = []
    for guards, place in items:
        target = place
        if guards & _START & false:
            continue
        if guards & _END:
            if place != ACCEPT:
                continue  # a row would come behind the end
            target = ACCEPT_AT_END
        if target == ACCEPT and found and found[-1] == ACCEPT_AT_END:
            found.pop()  # it is a match in either case
        if target not in found:
            found.append(target)
        if target == ACCEPT and not every_match:
            break
    return tuple(found)


def _leading_to_a_match(
    successors: Sequence[tuple[int, ...]], variables: Sequence[str], never_true: Collection[str]
) -> set[int]:
    """The places that can hold a row of a match."""
    before: dict[int, list[int]] = {}
    for place, targets in enumerate(successors):
        for target in targets:
            before.setdefault(target, []).append(place)
    found: set[int] = set()
    pending = before.get(ACCEPT, []) + before.get(ACCEPT_AT_END, [])
    while pending:
        place = pending.pop()
        if place not in found and variables[place] not in never_true:
            found.add(place)
            pending += before.get(place, [])
    return found


@dataclass(slots=True)
class _Tree:
    """A part of a pattern with places of its own, and what can be read first in it."""

    first: tuple[_Item, ...]
    parts: tuple[_Tree, ...] = ()
    place: int | None = None
    kind: str = "sequence"  # or "choice", "loop", "optional", "needed"
    again: tuple[_Item, ...] = ()  # of a loop: what can come behind one repetition


@dataclass(slots=True)
class _Places:
    """The places of a pattern as they come up."""

    never_true: frozenset[str]
    variables: list[str]
    excluded: list[bool]
    follow: list[tuple[_Item, ...]]

    def __init__(self, never_true: frozenset[str]) -> None:
        self.never_true = never_true
        self.variables, self.excluded, self.follow = [], [], []

    def expanded(self, node: PatternNode, excluded: bool) -> _Tree:
        """The part with its quantifiers and permutations written out."""
        match node:
            case Variable(name):
                self.variables.append(name)
                self.excluded.append(excluded)
                self.follow.append(())
                if len(self.variables) > MOST_PLACES:
                    raise TooManyPlacesError
                place = len(self.variables) - 1
                return _Tree(((0, place),), place=place)
            case Anchor(at_start):
                return _Tree(((_START if at_start else _END, ACCEPT),))
            case Exclusion(part):
                return self.expanded(part, True)
            case Concatenation(parts):
                return _sequence([self.expanded(part, excluded) for part in parts])
            case Alternation(parts):
                return _choice([self.expanded(part, excluded) for part in parts])
            case Permutation(parts):
                return _choice(
                    [
                        _sequence([self.expanded(part, excluded) for part in order])
                        for order in permutations(parts)
                    ]
                )
            case Repetition(part, least, most, is_greedy):
                return self._repeated(part, least, most, is_greedy, excluded)

    def _repeated(
        self, part: PatternNode, least: int, most: int | None, is_greedy: bool, excluded: bool
    ) -> _Tree:
        """``X{n,m}`` as X … X (X (X)?)?, or with a loop at the end.

        A repetition that reads no row is the last one, once there are as many as are needed.
        """
        if most is None:
            needed = [self.expanded(part, excluded) for _ in range(max(least, 1))]
            return _sequence([*needed[:-1], _loop(needed[-1], is_greedy, least == 0)])
        more: _Tree | None = None
        for _ in range(most - least):
            inner = [self.expanded(part, excluded), *([] if more is None else [more])]
            more = _Tree(_or_nothing(inner[0], is_greedy), tuple(inner), kind="optional")
        if not least:
            return more or _sequence([])
        needed = [self.expanded(part, excluded) for _ in range(least)]
        if more is None:
            return _sequence(needed)
        return _sequence([*needed[:-1], _needed_then(needed[-1], more)])

    def connect(self, tree: _Tree, behind: tuple[_Item, ...]) -> None:
        """Say what follows the places of a part, where ``behind`` follows the part."""
        if tree.place is not None:
            self.follow[tree.place] = behind
        elif tree.kind == "sequence":
            for part in reversed(tree.parts):
                self.connect(part, behind)
                behind = _followed(part.first, behind)
        elif tree.kind == "choice":
            for part in tree.parts:
                self.connect(part, behind)
        elif tree.kind == "loop":
            self.connect(tree.parts[0], _followed(tree.again, behind))
        else:  # "optional" and "needed": a part, and what may follow unless it reads nothing
            part, *more = tree.parts
            following = _followed(more[0].first, behind) if more else behind
            self.connect(part, following)
            for each in more:
                self.connect(each, behind)


def _sequence(parts: Sequence[_Tree]) -> _Tree:
    first: tuple[_Item, ...] = (_EMPTY_ITEM,)
    for part in reversed(parts):
        first = _followed(part.first, first)
    return _Tree(first, tuple(parts))


def _choice(parts: Sequence[_Tree]) -> _Tree:
    items = [item for part in parts for item in part.first]
    return _Tree(tuple(dict.fromkeys(items)), tuple(parts), kind="choice")


def _or_nothing(part: _Tree, is_greedy: bool) -> tuple[_Item, ...]:
    """What can be read first in a part that may be left out."""
    items = (*part.first, _EMPTY_ITEM) if is_greedy else (_EMPTY_ITEM, *part.first)
    return tuple(dict.fromkeys(items))


def _loop(part: _Tree, is_greedy: bool, may_be_left_out: bool) -> _Tree:
    again = _or_nothing(part, is_greedy)
    return _Tree(again if may_be_left_out else part.first, (part,), kind="loop", again=again)


def _needed_then(part: _Tree, more: _Tree) -> _Tree:
    """The last repetition that is needed, and those that may follow unless it reads no row."""
    return _Tree(part.first, (part, more), kind="needed")


def _followed(items: Sequence[_Item], behind: Sequence[_Item]) -> tuple[_Item, ...]:
    """What can be read first, where ``behind`` comes in the place of reading nothing."""
    found: dict[_Item, None] = {}
    for guards, place in items:
        if place == ACCEPT:
            found.update(dict.fromkeys((guards | more, other) for more, other in behind))
        else:
            found[guards, place] = None
    return tuple(found)
