"""What the conditions of a row pattern keep of a match, and how many ways that tells apart."""

from __future__ import annotations

from collections.abc import Iterator

from piestream.language.model import Query
from piestream.language.row_measures import item_text
from piestream.language.row_patterns import MatchMode, RowCondition, RowItem, RowPattern
from piestream.row_patterns.automaton import RowAutomaton

__all__ = ["memory_lines"]

#: Of the rows of a variable these have one value for each row at most; sums have one for each way.
_FEW_VALUES = ("FIRST", "LAST", "MIN", "MAX", "COUNT")


def memory_lines(query: Query, automaton: RowAutomaton) -> Iterator[str]:
    """How matches are found that need more than one look at each row; nothing for others."""
    rows = query.rows
    assert rows is not None
    if rows.mode is MatchMode.INCREMENTAL:
        yield "INCREMENTAL: the longest match that ends at a row is given at that row"
    elif rows.mode is MatchMode.MAXIMAL:
        yield "MAXIMAL: the longest match that begins at a row is given when none can be longer"
    if not rows.conditions:
        if rows.mode is not MatchMode.PREFERRED:
            count = len(automaton.variables)
            yield f"at most {count} threads at a row are followed for each first row"
        return
    names = ", ".join(condition.variable for condition in rows.conditions)
    yield f"with memory, for conditions that read other rows of the match: {names}"
    kept = {item_text(i): i for c in rows.conditions for _, i in c.items if not _is_own(rows, c, i)}
    circles = _circles(automaton)
    degree, unbounded = 0, []
    for text, item in kept.items():
        of_item = _degree(rows, automaton, circles, item)
        if of_item is None:
            unbounded.append(text)
            yield f"{text}: a value for each way in which rows can be of these variables"
        elif of_item:
            degree += of_item
            yield f"{text}: {_power(of_item)} values at a row, of a match of n rows"
    count = len(automaton.variables)
    threads = f"{count} × {_power(degree)}" if degree else str(count)
    of_rows = ", of a match of n rows" if degree else ""
    if unbounded:
        values = ", ".join(unbounded)
        yield f"at most {threads} threads at a row for each first row{of_rows}, for each of {values}"
        yield "these may double with each row: WITHIN should keep matches short"
    else:
        yield f"at most {threads} threads at a row for each first row{of_rows}"


def _power(degree: int) -> str:
    return {1: "n", 2: "n²", 3: "n³"}.get(degree, f"n^{degree}")


def _is_own(rows: RowPattern, condition: RowCondition, item: RowItem) -> bool:
    """Whether an item is one of the row that the condition is asked of."""
    is_last = item.function == "LAST" and not item.offset
    return is_last and condition.variable in rows.members(item.variable)


def _degree(
    rows: RowPattern, automaton: RowAutomaton, circles: list[set[int]], item: RowItem
) -> int | None:
    """How many values an item can have at a row, for one first row: n to this power, or any number."""
    members = rows.members(item.variable)
    is_name = item.function in ("FIRST", "LAST") and item.column is None
    if item.function == "MATCH_NUMBER" or (set(members) >= set(rows.variables) and not is_name):
        return 0
    places = {p for p, name in enumerate(automaton.variables) if name in members}
    before = [circle for circle in circles if places & (circle | _reached(automaton, circle))]
    if item.function in _FEW_VALUES:
        return min(1, len(before))
    is_mixed = any(circle & places and circle - places for circle in circles)
    return None if is_mixed else len(before)


def _circles(automaton: RowAutomaton) -> list[set[int]]:
    """The sets of places that can be reached from each other, and from themselves."""
    reached = [_reached(automaton, {place}) for place in range(len(automaton.variables))]
    found: list[set[int]] = []
    for place, targets in enumerate(reached):
        circle = {target for target in targets if place in reached[target]}
        if place in targets and circle not in found:
            found.append(circle)
    return found


def _reached(automaton: RowAutomaton, places: set[int]) -> set[int]:
    """The places that can come behind some places."""
    found: set[int] = set()
    pending = [target for place in places for target in automaton.successors[place]]
    while pending:
        target = pending.pop()
        if target >= 0 and target not in found:
            found.add(target)
            pending += automaton.successors[target]
    return found
