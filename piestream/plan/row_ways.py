"""How many ways of matching the same rows the conditions of a row pattern distinguish."""

from __future__ import annotations

from collections.abc import Iterator

from piestream.errors import warn_of_result
from piestream.language.model import Query
from piestream.language.row_measures import item_text
from piestream.language.row_patterns import RowCondition, RowItem, RowPattern
from piestream.plan.rows import automaton_of
from piestream.row_patterns.automaton import RowAutomaton

__all__ = ["doubling_text", "values_told_apart", "warn_of_doubling"]

#: Of the rows of a variable these have one value for each row at most; sums have one for each way.
_FEW_VALUES = ("FIRST", "LAST", "MIN", "MAX", "COUNT")


def values_told_apart(
    rows: RowPattern, automaton: RowAutomaton
) -> Iterator[tuple[str, int | None]]:
    """What conditions keep of a match, and how many values it can have at a row of a match of n rows.

    They are n to the power that is given; None where they may double with each row.
    """
    kept = {item_text(i): i for c in rows.conditions for _, i in c.items if not _is_own(rows, c, i)}
    circles = _circles(automaton)
    for text, item in kept.items():
        yield text, _degree(rows, automaton, circles, item)


def doubling_text(query: Query) -> str | None:
    """A warning about a row pattern whose number of ways to match may double with each row."""
    rows = query.rows
    if rows is None or rows.within is not None or not rows.conditions:
        return None
    found = [n for n, degree in values_told_apart(rows, automaton_of(query)) if degree is None]
    if not found:
        return None
    return (
        f"the ways to match may double with each row: {', '.join(found)} can be different for each; "
        "WITHIN bounds how many rows there are"
    )


def warn_of_doubling(query: Query) -> None:
    """Warn of a row pattern in which the ways to match may double without a bound."""
    text = doubling_text(query)
    if text is not None:
        warn_of_result(text)


def _is_own(rows: RowPattern, condition: RowCondition, item: RowItem) -> bool:
    """Whether an item is one of the row on which the condition is evaluated."""
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
