"""Row patterns over archives: how far they look, and where a match of theirs can be.

The rows of a match follow each other within WITHIN, or are at most so many as its pattern allows, and one of
them is of each variable that the pattern cannot do without. So a match ends within that time after a page on
which such a variable can hold, for each of them; between two variables of which one is needed, where either
can. Without WITHIN as many rows are read around the pages of one variable. What is read there has all
rows of every match, and of rows that do not follow each other no match is made: it would have all that is
needed so near, so that the rows between had been read, too. So the search finds the same matches
in the same order, from which SKIP and MATCH_NUMBER count.

NEXT and PREV look at rows beside a match, which are read too. A partition begins and ends where what was read of
it does. For anchors one row more is read on that side, if there is one: what begins or ends with that row
is no match, as it has none of the rows of a variable that it cannot do without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

import numpy as np

from piestream.archives.verdicts import Flags
from piestream.language.model import Query
from piestream.language.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    EmptyMatches,
    Exclusion,
    PatternNode,
    Permutation,
    Repetition,
    Variable,
)

__all__ = ["is_bounded", "needed_pages", "rows_around"]


#: Matches of more rows than these may be anywhere.
_MOST_ROWS = 256


def is_bounded(query: Query) -> bool:
    """Whether a match, and what is given of it, depends on nothing but rows that are near."""
    rows = query.rows
    assert rows is not None
    if query.streams[0].max_gap is not None:
        return False
    if rows.all_rows and rows.empty_matches is EmptyMatches.WITH_UNMATCHED:
        return False
    before, behind = rows_around(query)
    return max(before, behind) <= _MOST_ROWS


def rows_around(query: Query) -> tuple[int, int]:
    """How many rows before and behind those near a variable, or within WITHIN of them, a match depends on."""
    rows = query.rows
    assert rows is not None
    most = 1 if rows.within is not None else _most_rows(rows.pattern)
    if most is None:
        return _MOST_ROWS + 1, _MOST_ROWS + 1
    items = [item for measure in rows.measures for _, item in measure.items]
    items += [item for condition in rows.conditions for _, item in condition.all_items]
    back = max((-item.shift for item in items), default=0)
    ahead = max((item.shift for item in items), default=0)
    anchors = {node.at_start for node in _nodes(rows.pattern) if isinstance(node, Anchor)}
    others = max(most - 1, 0)
    return (
        others + max(back, int(True in anchors), 0),
        others + max(ahead, int(False in anchors), 0),
    )


def _nodes(node: PatternNode) -> Iterator[PatternNode]:
    """A pattern and all its parts."""
    yield node
    match node:
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            for part in parts:
                yield from _nodes(part)
        case Repetition(part) | Exclusion(part):
            yield from _nodes(part)


def _most_rows(node: PatternNode) -> int | None:
    """How many rows a match has at most; None: there is no limit."""
    match node:
        case Variable():
            return 1
        case Anchor():
            return 0
        case Repetition(part, most=most):
            each = _most_rows(part)
            if each == 0:
                return 0
            return None if each is None or most is None else each * most
        case Exclusion(part):
            return _most_rows(part)
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            found = [_most_rows(part) for part in parts]
            known = [one for one in found if one is not None]
            if len(known) < len(found):
                return None
            is_one_of = isinstance(node, Alternation)
            return max(known, default=0) if is_one_of else sum(known)


def needed_pages(node: PatternNode, can_hold: Mapping[str, Flags]) -> list[Flags]:
    """Sets of pages of each of which every match has a row; none where a match may have no rows.

    ``can_hold`` has the pages of each variable.
    """
    match node:
        case Variable(name):
            return [can_hold[name]]
        case Concatenation(parts) | Permutation(parts):
            return [pages for part in parts for pages in needed_pages(part, can_hold)]
        case Alternation(parts):
            each = [needed_pages(part, can_hold) for part in parts]
            if not all(each):
                return []
            rarest = [min(pages, key=np.count_nonzero) for pages in each]
            return [reduce(np.logical_or, rarest)]
        case Repetition(part, least):
            return needed_pages(part, can_hold) if least else []
        case Exclusion(part):
            return needed_pages(part, can_hold)
    return []
