"""What could be changed in a row pattern so that an expected match appears: one function a kind of change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from piestream.diagnosis.changes import Proposal
from piestream.diagnosis.parts import duration_of_ticks
from piestream.diagnosis.row_conditions import short
from piestream.diagnosis.row_parts import places_in, rewritten
from piestream.diagnosis.row_reached import skip_clause
from piestream.diagnosis.row_target import RowTarget
from piestream.diagnosis.target import Target
from piestream.diagnosis.thresholds import LOOSER, replaced_node
from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.durations import Duration
from piestream.expressions.syntax import And, Between, Column, Comparison, Node, children
from piestream.language.model import Query
from piestream.language.row_pattern_text import MOST_REPETITIONS, row_pattern_text
from piestream.language.row_patterns import (
    PatternNode,
    Repetition,
    RowCondition,
    Skip,
    SkipMode,
    Variable,
)
from piestream.show.table import cell_text

__all__ = ["lengths", "quantifiers", "row_windows", "skips"]

#: So many repetitions more are tried one by one, before any number of them is.
_MORE = 64


def row_windows(target: Target) -> Iterator[Proposal]:
    """A longer WITHIN: the least with which there is a match."""
    assert isinstance(target, RowTarget)
    query, pattern, time = target.rows.query, target.pattern, target.rows.time
    if pattern.within is None:
        return
    within = target.rows.binding.compiled.ticks.within

    def changed(ticks: int) -> Query:
        longer = duration_of_ticks(ticks, time)
        return replace(query, rows=replace(pattern, within=longer))

    longest = target.duration
    if longest <= within or not target.can_begin(changed(longest)):
        return
    length = _least(within + 1, longest, lambda ticks: target.can_begin(changed(ticks)))
    new = changed(length)
    assert new.rows is not None
    shown = cell_text(target.length(length))
    text = f"the match takes {shown} (WITHIN {pattern.within}); with WITHIN {new.rows.within} it matches"
    yield Proposal("window", new, (length - within) / max(within, 1), text)


def lengths(target: Target) -> Iterator[Proposal]:
    """Another length of time in a condition: ``B.ts - A.ts <= 5 s``."""
    assert isinstance(target, RowTarget)
    for condition in target.pattern.conditions:
        known = dict(condition.lengths)
        for place in _comparisons(condition.tree):
            for side in ("left", "right"):
                part = getattr(place.comparison, side)
                if isinstance(part, Column) and part.name in known:
                    yield from _other_length(target, condition, place, side, known[part.name])


@dataclass(frozen=True, slots=True)
class _Place:
    """A comparison in a condition, which may be one side of a BETWEEN."""

    node: Node  # what is replaced
    comparison: Comparison
    rest: Comparison | None = None  # the other side

    def changed(self, comparison: Comparison) -> Node:
        """What stands in its place with another comparison."""
        return comparison if self.rest is None else And((comparison, self.rest))


def _comparisons(node: Node) -> Iterator[_Place]:
    match node:
        case Comparison(operator) if operator in LOOSER:
            yield _Place(node, node)
        case Between(operand, low, high):
            least, most = Comparison(">=", operand, low), Comparison("<=", operand, high)
            yield _Place(node, least, most)
            yield _Place(node, most, least)
    for child in children(node):
        yield from _comparisons(child)


def _other_length(
    target: RowTarget, condition: RowCondition, place: _Place, side: str, was: Duration
) -> Iterator[Proposal]:
    """The nearest length with which there is a match: a longer one above, a shorter one below."""
    comparison = place.comparison
    time, query = target.rows.time, target.rows.query
    try:
        bound = time.ticks(was, "a length")
    except QueryError:  # it is compared with times that have shorter ticks
        return
    is_upper = (comparison.operator in ("<", "<=")) == (side == "right")

    def compared(by: int) -> Comparison:
        length = duration_of_ticks(bound + by if is_upper else bound - by, time)
        number: Any = {side: Column(str(length)), "operator": LOOSER[comparison.operator]}
        return replace(comparison, **number)

    def changed(by: int) -> Query:
        tree = replaced_node(condition.tree, place.node, place.changed(compared(by)))
        return rewritten(query, {condition.variable: canonical_text(tree, names_are_text=True)})

    most = target.duration - bound if is_upper and target.places else bound
    if most < 0 or not target.can_begin(changed(most)):
        return
    by = _least(0, most, lambda number: target.can_begin(changed(number)))
    text = canonical_text(place.node, names_are_text=True)
    new = canonical_text(compared(by), names_are_text=True)
    said = short(f"{condition.variable} needs {text}; with {new} it matches")
    yield Proposal("threshold", changed(by), by / max(bound, 1), said)


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number of a range at which something holds, that holds from some on; at the last it does."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def skips(target: Target) -> Iterator[Proposal]:
    """A search that goes on at the next row, whatever matches there are before."""
    assert isinstance(target, RowTarget)
    pattern = target.pattern
    if pattern.skip.mode is not SkipMode.TO_NEXT_ROW:
        changed = replace(pattern, skip=Skip(SkipMode.TO_NEXT_ROW))
        text = (
            f"{skip_clause(target)} leaves the match out, for another one was given before it; "
            "with AFTER MATCH SKIP TO NEXT ROW it is given too"
        )
        yield Proposal("skip", replace(target.rows.query, rows=changed), 0, text)


def quantifiers(target: Target) -> Iterator[Proposal]:
    """Fewer or more repetitions of a part of the pattern."""
    assert isinstance(target, RowTarget)
    for part, whole in places_in(target.pattern.pattern):
        if isinstance(part, Repetition):
            yield from _fewer(target, part, whole)
            yield from _more(target, part, whole)
        elif isinstance(part, Variable) and not _is_repeated(target, whole):
            once = Repetition(part, 1, 1)
            yield from _fewer(target, once, whole)
            yield from _more(target, once, whole)


def _is_repeated(target: RowTarget, whole: Callable[[PatternNode], PatternNode]) -> bool:
    """Whether the part that stands in one place is repeated as such: its quantifier is tried then."""
    marker = Variable("")
    return any(
        isinstance(part, Repetition) and part.part == marker for part, _ in places_in(whole(marker))
    )


def _fewer(
    target: RowTarget, part: Repetition, whole: Callable[[PatternNode], PatternNode]
) -> Iterator[Proposal]:
    least = part.least

    def changed(less: int) -> Query | None:
        return _changed(target, part, replace(part, least=least - less), whole)

    if least and _has_match(target, changed(least)):
        less = _least(1, least, lambda number: _has_match(target, changed(number)))
        yield from _proposed(target, part, replace(part, least=least - less), whole, less / least)


def _more(
    target: RowTarget, part: Repetition, whole: Callable[[PatternNode], PatternNode]
) -> Iterator[Proposal]:
    most = part.most
    if most is None:
        return

    def raised(more: int) -> Repetition:
        return replace(part, most=None if more > limit else most + more)

    def has_match(more: int) -> bool:
        return _has_match(target, _changed(target, part, raised(more), whole))

    limit = min(_MORE, MOST_REPETITIONS - most)
    if has_match(limit + 1):
        more = _least(1, limit + 1, has_match)
        yield from _proposed(target, part, raised(more), whole, more / max(most, 1))


def _changed(
    target: RowTarget, part: Repetition, new: Repetition,
    whole: Callable[[PatternNode], PatternNode],
) -> Query | None:  # fmt: skip
    """The query with another number of repetitions; None if that does not go together."""
    query = target.rows.query
    plain = new.part if (new.least, new.most) == (1, 1) else new
    pattern = replace(target.pattern, pattern=whole(plain))
    try:
        return rewritten(replace(query, rows=pattern), {})
    except QueryError:
        return None


def _has_match(target: RowTarget, query: Query | None) -> bool:
    return query is not None and target.can_begin(query)


def _proposed(
    target: RowTarget, part: Repetition, new: Repetition,
    whole: Callable[[PatternNode], PatternNode], size: float,
) -> Iterator[Proposal]:  # fmt: skip
    query = _changed(target, part, new, whole)
    if query is None or query.rows is None:
        return
    was = row_pattern_text(part.part if (part.least, part.most) == (1, 1) else part)
    text = (
        f"{was} needs to be {row_pattern_text(new)}; with "
        f"PATTERN ({row_pattern_text(query.rows.pattern)}) it matches"
    )
    yield Proposal("quantifier", query, size, text)
