"""What a row pattern means, by enumeration, straight from the standard's definition.

It shares nothing with the engine but the frozen model of a query. A pattern is tried as it is written:
each part gives all the ways in which it can match, in the order of preference, and the first way that
matches the whole pattern is the match. What is certain is settled by trying what can come next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from piestream.language.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    EmptyMatches,
    Exclusion,
    MatchMode,
    PatternNode,
    Permutation,
    Repetition,
    RowItem,
    RowPattern,
    SkipMode,
    Variable,
)
from tests.row_patterns.conditions import evaluated

__all__ = ["KnownMatch", "Match", "certain", "item_value", "known_matches", "matches", "results"]

#: Nanoseconds of a tick, of the queries in which lengths of time stand.
TICK = 1_000_000_000
#: A row: its time, the values of its columns, and the variables whose conditions hold.
Row = Mapping[str, Any]
#: Which variable each row of a match is, and whether it is excluded.
Path = tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Match:
    """A match: the number of its first row, what each of its rows is, and its own number."""

    first: int
    path: Path
    number: int

    @property
    def end(self) -> int:
        return self.first + len(self.path)


@dataclass(frozen=True)
class KnownMatch:
    """A match as an interval of a larger query, and the instant at which it becomes known."""

    match: Match
    start: int
    end: int
    since: int


class _UndecidedError(Exception):
    """What comes next depends on rows to come."""


@dataclass(frozen=True)
class _Partition:
    """All rows of a partition, and how a pattern may be matched in it.

    ``now`` is given where more rows may come, at once or later: then it is not known what they are.
    """

    pattern: RowPattern
    rows: Sequence[Row]
    within: int | None
    number: int  # of the match that is looked for
    now: int | None = None

    def _may_go_on(self, at: int) -> bool:
        """Whether a row to come may be in a match that begins at row ``at``."""
        if self.now is None:
            return False
        return self.within is None or self.now < self.rows[at]["t"] + self.within

    def ways(self, node: PatternNode, at: int, path: Path, excluded: bool) -> Iterator[Path]:
        """All ways to go on with a part behind a path that began at row ``at``, preferred first."""
        here = at + len(path)
        match node:
            case Variable(name):
                way = (*path, (name, excluded))
                if here == len(self.rows) and self._may_go_on(at):
                    raise _UndecidedError
                if here < len(self.rows) and self._is_within(at, here) and self._holds(at, way):
                    yield way
            case Anchor(at_start):
                if not at_start and here == len(self.rows) and self.now is not None:
                    raise _UndecidedError
                if here == (0 if at_start else len(self.rows)):
                    yield path
            case Exclusion(part):
                yield from self.ways(part, at, path, True)
            case Alternation(parts):
                for part in parts:
                    yield from self.ways(part, at, path, excluded)
            case Concatenation(parts):
                yield from self._sequence(parts, at, path, excluded)
            case Permutation(parts):
                for order in permutations(parts):
                    yield from self._sequence(order, at, path, excluded)
            case Repetition():
                yield from self._repeated(node, 0, at, path, excluded)

    def _is_within(self, at: int, here: int) -> bool:
        return self.within is None or self.rows[here]["t"] - self.rows[at]["t"] <= self.within

    def _holds(self, at: int, way: Path) -> bool:
        """Whether the last row of a way may be of its variable."""
        name = way[-1][0]
        condition = self.pattern.condition(name)
        if condition is None:
            return name in self.rows[at + len(way) - 1]["holds"]
        match = Match(at, way, self.number)
        items = dict(condition.all_items)
        lengths = {text: length.amount // TICK for text, length in condition.lengths}

        def value_of(text: str) -> Any:
            if text in lengths:
                return lengths[text]
            return item_value(self.pattern, self.rows, match, len(way), items[text])

        return evaluated(condition.tree, value_of) is True

    def _sequence(
        self, parts: Sequence[PatternNode], at: int, path: Path, excluded: bool
    ) -> Iterator[Path]:
        if not parts:
            yield path
            return
        for way in self.ways(parts[0], at, path, excluded):
            yield from self._sequence(parts[1:], at, way, excluded)

    def _repeated(
        self, node: Repetition, done: int, at: int, path: Path, excluded: bool
    ) -> Iterator[Path]:
        """One more repetition or none; one that reads no row is the last if there are enough."""

        def once_more() -> Iterator[Path]:
            if node.most is not None and done >= node.most:
                return
            for way in self.ways(node.part, at, path, excluded):
                if way == path and done + 1 >= node.least:
                    yield way
                else:
                    yield from self._repeated(node, done + 1, at, way, excluded)

        if done < node.least:
            yield from once_more()
        elif node.is_greedy:
            yield from once_more()
            yield path
        else:
            yield path
            yield from once_more()


def matches(rows: RowPattern, partition: Sequence[Row]) -> list[Match]:
    """All matches of a partition that ends behind these rows, in their order."""
    return _search(rows, partition, None if rows.within is None else rows.within.amount)


def _search(
    rows: RowPattern, partition: Sequence[Row], within: int | None, now: int | None = None
) -> list[Match]:
    """The matches, in their order, up to the first that depends on rows to come."""
    if rows.mode is MatchMode.INCREMENTAL:
        return _incremental(rows, partition, within)
    found: list[Match] = []
    at = 0
    while at < len(partition):
        where = _Partition(rows, partition, within, len(found) + 1, now)
        try:
            ways = where.ways(rows.pattern, at, (), False)
            path = next(ways, None)
            if rows.mode is MatchMode.MAXIMAL and path is not None:
                path = max([path, *ways], key=len)
        except _UndecidedError:
            break
        if path is None:
            at += 1
            continue
        found.append(Match(at, path, len(found) + 1))
        at = _next(rows, found[-1])
    return found


def _incremental(rows: RowPattern, partition: Sequence[Row], within: int | None) -> list[Match]:
    """The longest match that ends at each row."""
    found: list[Match] = []
    where = _Partition(rows, partition, within, 0)
    for end in range(1, len(partition) + 1):
        for first in range(end):
            ways = where.ways(rows.pattern, first, (), False)
            path = next((way for way in ways if len(way) == end - first), None)
            if path is not None:
                found.append(Match(first, path, len(found) + 1))
                break
    return found


def _next(rows: RowPattern, match: Match) -> int:
    mode = rows.skip.mode
    if not match.path or mode is SkipMode.TO_NEXT_ROW:
        return match.first + 1
    if mode is SkipMode.PAST_LAST_ROW:
        return match.end
    members = rows.members(rows.skip.variable)
    places = [n for n, (name, _) in enumerate(match.path) if name in members]
    return match.first + (places[0] if mode is SkipMode.TO_FIRST else places[-1])


def certain(
    rows: RowPattern, partition: Sequence[Row], letters: Sequence[Row], ahead: int,
    completed: Callable[[Sequence[Row]], Sequence[Row]] = lambda rows: rows,
) -> list[Match]:  # fmt: skip
    """The matches that are there, and the first ones, whatever comes behind these rows.

    All futures of up to ``ahead`` rows are tried, each of which may be any of the ``letters``, which
    lack nothing but a time, at once or long after. ``completed`` says what holds of rows, if they do
    not say so themselves.
    """
    last = partition[-1]["t"] if partition else 0
    found: list[Match] | None = None
    for length in range(ahead + 1):
        for future in product(letters, repeat=length):
            for step in (1, 1000) if length else (1,):
                more = [{**letter, "t": last + step * (n + 1)} for n, letter in enumerate(future)]
                those = matches(rows, completed([*partition, *more]))
                if found is None:
                    found = those
                common = 0
                while common < min(len(found), len(those)) and found[common] == those[common]:
                    common += 1
                found = found[:common]
    return found or []


def known_matches(
    rows: RowPattern, partition: Sequence[Row], within: int | None, until: int, closes: bool
) -> list[KnownMatch]:
    """The matches with rows as intervals of a larger query, in the order of their numbers.

    A match is known when it is certain and the rows behind it that its end and its measures read are
    there; those before it are known by then. What is open stays so, unless the partition ``closes``
    at its last row. ``until`` is the latest time of all.
    """
    ahead = max([1, *(item.shift for measure in rows.measures for _, item in measure.items)])
    times = [row["t"] for row in partition]
    deadlines = set() if within is None else {t + within for t in times if t + within < until}
    found: list[KnownMatch] = []
    given = 0
    for now in sorted({*times, *deadlines}):
        seen = [row for row in partition if row["t"] <= now]
        for match in _search(rows, seen, within, now)[given:]:
            if match.end - 1 + ahead >= len(seen) and match.path:
                break
            given += 1
            if match.path:
                end = times[match.end]
                found.append(KnownMatch(match, times[match.first], end, now))
    if closes and partition:
        last = times[-1]
        for match in _search(rows, partition, within)[given:]:
            if match.path:
                start = times[match.first]
                end = max(last, start + 1) if match.end == len(times) else times[match.end]
                found.append(KnownMatch(match, start, end, max(last, end)))
    return found


# -- what a match gives ---------------------------------------------------------------------------


def item_value(
    rows: RowPattern, partition: Sequence[Row], match: Match, upto: int, item: RowItem
) -> Any:
    """The value of an item at a row of the result: the rows of the match before ``upto`` count."""
    until = len(match.path) if item.is_final else upto
    members = rows.members(item.variable)
    mine = [n for n, (name, _) in enumerate(match.path[:until]) if name in members]
    if item.function == "MATCH_NUMBER":
        return match.number
    if item.function in ("FIRST", "LAST"):
        ordered = mine if item.function == "FIRST" else mine[::-1]
        if item.offset >= len(ordered):
            return None
        place = ordered[item.offset]
        if item.column is None:
            return match.path[place][0]
        row = match.first + place + item.shift
        return _value(partition[row], item) if 0 <= row < len(partition) else None
    if item.column is None:
        return len(mine)
    values = [_value(partition[match.first + n], item) for n in mine]
    return _aggregate(item.function, [value for value in values if value is not None])


def _value(row: Row, item: RowItem) -> Any:
    """The value of a row that an item reads: of a column, or of an expression over columns."""
    if item.expression is not None:
        return _known(evaluated(item.expression.tree, row.__getitem__))
    assert item.column is not None
    return _known(row[item.column])


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _aggregate(function: str, values: list[Any]) -> Any:
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function == "AVG":
        return sum(values) / len(values)
    functions: dict[str, Callable[[list[Any]], Any]] = {"SUM": sum, "MIN": min, "MAX": max}
    return functions[function](values)


def results(rows: RowPattern, partition: Sequence[Row], found: Sequence[Match]) -> list[list[Any]]:
    """The measures of each result row of matches; with ALL ROWS behind the time of the row.

    The measures are taken to be items, without an expression around them.
    """
    given: list[list[Any]] = []
    covered: set[int] = set()
    next_row = 0

    def unmatched(until: int) -> None:
        nonlocal next_row
        if rows.empty_matches is EmptyMatches.WITH_UNMATCHED and rows.all_rows:
            for row in range(next_row, until):
                if row not in covered:
                    given.append([partition[row]["t"], *[None] * len(rows.measures)])

    for match in found:
        unmatched(match.first)
        covered |= set(range(match.first, match.end))
        given += _rows_of(rows, partition, match)
        next_row = max(next_row, match.end, match.first + 1)
    unmatched(len(partition))
    return given


def _rows_of(rows: RowPattern, partition: Sequence[Row], match: Match) -> list[list[Any]]:
    def values(upto: int) -> list[Any]:
        return [
            item_value(rows, partition, match, upto, item)
            for measure in rows.measures
            for _, item in measure.items
        ]

    if not rows.all_rows:
        return [values(len(match.path))]
    if not match.path:
        if rows.empty_matches is EmptyMatches.OMIT:
            return []
        return [[partition[match.first]["t"], *values(0)]]
    return [
        [partition[match.first + n]["t"], *values(n + 1)]
        for n, (_, excluded) in enumerate(match.path)
        if not excluded
    ]
