"""How a row pattern is executed, in words."""

from __future__ import annotations

from collections.abc import Iterator

from piestream.language.model import Query
from piestream.language.row_patterns import MatchMode, SkipMode
from piestream.plan.rows import automaton_of
from piestream.row_patterns.automaton import ACCEPT, ACCEPT_AT_END, RowAutomaton
from piestream.show.row_memory import memory_lines

__all__ = ["row_sections"]

#: Longer lists of places are cut.
_MOST_SHOWN = 40
_SKIPS = {
    SkipMode.PAST_LAST_ROW: "behind its last row",
    SkipMode.TO_NEXT_ROW: "at the row behind its first",
    SkipMode.TO_FIRST: "at its first row of",
    SkipMode.TO_LAST: "at its last row of",
}


def row_sections(query: Query) -> list[tuple[str, str]]:
    """The sections of the explanation of a row pattern."""
    automaton = automaton_of(query)
    return [
        ("Query", str(query)),
        ("Conditions", "\n".join(_conditions(query))),
        ("Automaton", "\n".join(_places(automaton))),
        ("Matches", "\n".join(_matches(query, automaton))),
        ("State", "\n".join(_state(query, automaton))),
    ]


def _conditions(query: Query) -> Iterator[str]:
    rows = query.rows
    assert rows is not None
    for symbol in query.symbols[: len(rows.variables)]:
        condition = rows.condition(symbol.name)
        yield f"{symbol.name}: {condition.text if condition else symbol.predicate}"


def _places(automaton: RowAutomaton) -> Iterator[str]:
    """Each place with what may follow it, preferred first."""
    count = len(automaton.variables)
    if not count:
        yield "no place"
    yield f"start: then {_targets(automaton, automaton.later)}"
    if automaton.first != automaton.later:
        yield f"start at the first row of a partition: then {_targets(automaton, automaton.first)}"
    for place, name in enumerate(automaton.variables[:_MOST_SHOWN]):
        following = _targets(automaton, automaton.successors[place])
        yield f"{place + 1} {name}: then {following}"
    if count > _MOST_SHOWN:
        yield f"and {count - _MOST_SHOWN} more"


def _targets(automaton: RowAutomaton, targets: tuple[int, ...]) -> str:
    names = {ACCEPT: "complete", ACCEPT_AT_END: "complete if the partition ends"}
    known = [names.get(t) or f"{t + 1} {automaton.variables[t]}" for t in targets]
    return ", else ".join(known) or "nothing: no row can follow"


def _matches(query: Query, automaton: RowAutomaton) -> Iterator[str]:
    rows = query.rows
    assert rows is not None
    count = len(automaton.variables)
    plural = "" if count == 1 else "s"
    memory = list(memory_lines(query, automaton))
    yield from memory
    if not memory:
        yield f"linear in the rows: each is looked at for {count} place{plural}, whatever the pattern"
    if rows.within is not None and not memory:
        yield "where WITHIN cuts the preferred match off, the rows within it are looked at again"
    if rows.mode is MatchMode.INCREMENTAL:
        return
    where = _SKIPS[rows.skip.mode]
    target = f" {rows.skip.variable}" if rows.skip.variable is not None else ""
    yield f"the search goes on {where}{target}"
    yield "a match is given as soon as no rows to come can change it, in the order of first rows"


def _state(query: Query, automaton: RowAutomaton) -> Iterator[str]:
    rows = query.rows
    assert rows is not None
    yield "kept of a partition: the rows from the first at which it is open whether a match begins"
    if rows.within is not None:
        yield f"bounded by WITHIN {rows.within}"
        return
    longest = _longest(automaton)
    if longest is None:
        yield "not bounded: a match may go on forever; WITHIN would bound it"
    else:
        yield f"bounded by the longest match: {longest} rows"


def _longest(automaton: RowAutomaton) -> int | None:
    """How many rows a match has at most; None where a place can be reached from itself."""
    lengths: dict[int, int] = {}
    for place in reversed(_ordered(automaton) or []):
        behind = [lengths[t] for t in automaton.successors[place] if t >= 0]
        lengths[place] = 1 + max(behind, default=0)
    if len(lengths) < len(_reachable(automaton)):
        return None
    return max((lengths[t] for t in (*automaton.first, *automaton.later) if t >= 0), default=0)


def _reachable(automaton: RowAutomaton) -> set[int]:
    pending = [t for t in (*automaton.first, *automaton.later) if t >= 0]
    found: set[int] = set()
    while pending:
        place = pending.pop()
        if place not in found:
            found.add(place)
            pending += [t for t in automaton.successors[place] if t >= 0]
    return found


def _ordered(automaton: RowAutomaton) -> list[int] | None:
    """The places so that each stands before those that follow it; None where there is a circle."""
    reachable = _reachable(automaton)
    following = {p: {t for t in automaton.successors[p] if t >= 0} for p in reachable}
    before = dict.fromkeys(reachable, 0)
    for targets in following.values():
        for target in targets:
            before[target] += 1
    ready = [place for place, count in before.items() if not count]
    order: list[int] = []
    while ready:
        place = ready.pop()
        order.append(place)
        for target in following[place]:
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    return order if len(order) == len(reachable) else None
