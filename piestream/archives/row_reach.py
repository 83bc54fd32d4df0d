"""Row patterns over archives: how far they look, and where a match of theirs can be.

The rows of a match follow each other within WITHIN, and one of them is of each variable that the pattern
cannot do without. So a match ends within that time after a page on which such a variable can hold, for
each of them; between two variables of which one is needed, where either can. What is read there has all
rows of every match, and of rows that do not follow each other no match is made: it would have all that is
needed within that time, so that the rows between had been read, too. So the search finds the same matches
in the same order, from which SKIP and MATCH_NUMBER count.
"""

from __future__ import annotations

from collections.abc import Mapping
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

__all__ = ["is_bounded", "needed_pages"]


def is_bounded(query: Query) -> bool:
    """Whether a match, and what is given of it, depends on nothing but rows within WITHIN."""
    rows = query.rows
    assert rows is not None
    if rows.within is None or _has_anchor(rows.pattern) or query.streams[0].max_gap is not None:
        return False
    if rows.all_rows and rows.empty_matches is EmptyMatches.WITH_UNMATCHED:
        return False
    items = [item for measure in rows.measures for _, item in measure.items]
    items += [item for condition in rows.conditions for _, item in condition.all_items]
    return not any(item.shift for item in items)


def _has_anchor(node: PatternNode) -> bool:
    match node:
        case Anchor():
            return True
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return any(map(_has_anchor, parts))
        case Repetition(part) | Exclusion(part):
            return _has_anchor(part)
    return False


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
