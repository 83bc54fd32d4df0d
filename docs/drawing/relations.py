"""A time line for each relation: docs/relations/*.svg, drawn from the table of relations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, pairwise

from docs.drawing.canvas import Canvas
from piestream.relations import (
    ENDPOINT_ORDER,
    PRECISE_FORM,
    Relation,
    inverse,
    names,
    relation_of,
)

__all__ = ["ALT_TEXTS", "relation_pictures"]

LEFT, TICK = 34, 26
_Interval = tuple[int, int]

#: In words, what each picture shows; it is the alternative text on the page, too.
ALT_TEXTS = {
    Relation.BEFORE: "x ends, then y begins later; another interval may lie in between",
    Relation.FOLLOWED_BY: "x ends, then y begins later, and nothing lies in between",
    Relation.MEETS: "y begins at the instant at which x ends",
    Relation.OVERLAPS: "x begins first, y begins inside of x and ends after it",
    Relation.STARTS: "x and y begin together, x ends first",
    Relation.DURING: "x begins after y and ends before it",
    Relation.FINISHES: "x begins after y, both end together",
    Relation.EQUALS: "x and y begin together and end together",
}
ALT_TEXTS |= {
    inverse(relation): re.sub(r"\b[xy]\b", lambda found: "yx"[found[0] == "y"], text)
    for relation, text in ALT_TEXTS.items()
    if relation != Relation.EQUALS
}


def intervals_of(relation: Relation) -> tuple[_Interval, _Interval]:
    """Two intervals in this relation whose lengths differ as little as they can."""
    wide = next((w for w, precise in PRECISE_FORM.items() if precise == relation), relation)
    steps = range(8)
    pairs = (
        (x, y)
        for x in combinations(steps, 2)
        for y in combinations(steps, 2)
        if relation_of(*x, *y) == wide and min(*x, *y) == 0 and x[1] - x[0] >= 2 <= y[1] - y[0]
    )

    def ugliness(pair: tuple[_Interval, _Interval]) -> tuple[int, int, int]:
        (xs, xe), (ys, ye) = pair
        ends = sorted({xs, xe, ys, ye})
        even = sum(abs(b - a - 2) for a, b in pairwise(ends))
        return even, max(xe, ye), abs((xe - xs) - (ye - ys))

    return min(pairs, key=ugliness)


def _picture(relation: Relation) -> str:
    (xs, xe), (ys, ye) = intervals_of(relation)
    name = names(relation)[0]
    picture = Canvas(LEFT + 7 * TICK + 14, 72, f"x {name} y: {ALT_TEXTS[relation]}")

    def at(tick: float) -> float:
        return LEFT + tick * TICK

    for tick in sorted({xs, xe, ys, ye}):
        picture.line((at(tick), 6), (at(tick), 66), dashed=True)
    for row, (symbol, start, end) in enumerate([("x", xs, xe), ("y", ys, ye)]):
        y = 10 + row * 30
        picture.text(12, y + 16, symbol, size=15, bold=True)
        picture.bar((at(start), at(end)), y, ("blue", "orange")[row])
    if xe < ys or ye < xs:
        between = "nothing" if relation in PRECISE_FORM.values() else "anything"
        middle = (at(min(xe, ye)) + at(max(xs, ys))) / 2
        picture.text(middle, 40, between, "faint", anchor="middle", size=11)
    return picture.svg()


def relation_pictures() -> Iterator[tuple[str, str]]:
    """The name and the picture of every relation."""
    for relation in (*ENDPOINT_ORDER, *PRECISE_FORM.values()):
        yield names(relation)[0], _picture(relation)
