"""Why there is no match where one was expected: near misses, and what would have to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.diagnosis.changes import MovedEndpoint, Proposal
from piestream.diagnosis.conditions import CONDITIONS, ROW_CONDITIONS, ConditionKind
from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.moved_endpoints import rows_with
from piestream.diagnosis.partition import of_partition, stretch
from piestream.diagnosis.row_reached import Reached, Skipped, reached, skipped
from piestream.diagnosis.row_target import RowTarget
from piestream.diagnosis.rows import GivenRows, Wanted
from piestream.diagnosis.target import Target
from piestream.expressions.diagnostics import did_you_mean
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.plan.binding import Binding
from piestream.plan.columns import TimeColumn
from piestream.show.html import html_page

__all__ = ["NearMiss", "RowWhyNot", "WhyNot", "why_not"]


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A change of the query, or of a row of intervals, with which a match appears.

    ``kind`` is threshold, duration, bridging, silence, window, relation, distance, endpoint, absence or
    limits, of a row pattern threshold, quantifier, window or skip; ``size`` says how large the change is,
    0 being none, by which near misses are ranked; ``query`` is the changed query, which matches. Where a row of
    intervals would have to begin or end elsewhere, the query is as it was, and
    ``moved`` says what would be changed; ``moved.of(frames)`` are the rows with it.
    """

    kind: str
    text: str
    size: float
    query: Query = field(repr=False)
    moved: MovedEndpoint | None = field(default=None, repr=False)


@dataclass(frozen=True)
class WhyNot:
    """The near misses where a match was expected, the nearest first: ``print`` it.

    ``matches`` is how many matches there are after all. ``near_misses`` each change one thing; there
    is none if more than one thing would have to change.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 9 PATTERN a WITHIN 9")
    >>> print(query.why_not(pl.DataFrame({"t": [1, 2, 3], "x": [5, 7, 0]})))
    1. x reached 7 (needs > 9) at 2; with x >= 7 it matches
    """

    query: Query
    matches: int
    near_misses: tuple[NearMiss, ...]

    def _lines(self) -> Iterator[str]:
        if self.matches:
            yield f"there is a match: {self.matches} where one is expected; query.why says more"
        elif not self.near_misses:
            yield (
                "no single change of a threshold, a duration, the window or a relation makes a match "
                "appear; query.diagnose shows what is there"
            )
        for number, miss in enumerate(self.near_misses, 1):
            yield f"{number}. {miss.text}"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    @property
    def table(self) -> pl.DataFrame:
        """The near misses as a frame: kind, size, text."""
        rows = [(miss.kind, miss.size, miss.text) for miss in self.near_misses]
        schema = {"kind": pl.String, "size": pl.Float64, "text": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _repr_html_(self) -> str:
        if not self.near_misses:
            return html_page([("why not", None, str(self))])
        return html_page([("why not", self.table, "")])


@dataclass(frozen=True)
class RowWhyNot(WhyNot):
    """Why a row pattern has no match where one was expected: ``print`` it.

    ``skipped`` is an earlier match behind which the search went on past the place. ``reached`` is the
    beginning of a match that came farthest, with the row and the conditions at which it stopped.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A B) DEFINE A AS x = 1, B AS x > 5)")
    >>> print(query.why_not(pl.DataFrame({"t": [1, 2, 3], "x": [1, 4, 0]}), between=(1, 1)))
    the pattern came to A at 1; complete: A
    2 is not B (x > 5): x 4
    1. B: x is 4 at 2 (needs x > 5); with x >= 4 it matches
    2. B needs to be B?; with PATTERN (A B?) it matches
    """

    skipped: Skipped | None = None
    reached: Reached | None = None

    def _told(self) -> list[str]:
        told = [] if self.skipped is None else [str(self.skipped)]
        return told + ([] if self.reached is None else list(self.reached.lines()))

    def _lines(self) -> Iterator[str]:
        yield from self._told()
        if self.matches or self.near_misses:
            yield from super()._lines()
        else:
            yield (
                "no single change of a number in a condition, a quantifier or WITHIN makes a match "
                "appear; query.diagnose shows what is there"
            )

    def _repr_html_(self) -> str:
        told = [("how far it came", None, line) for line in self._told()[:1]]
        told += [("", None, line) for line in self._told()[1:]]
        if not self.near_misses:
            return html_page([*told, ("why not", None, list(self._lines())[-1])])
        return html_page([*told, ("why not", self.table, "")])


def why_not(
    query: Query, frame: Any, partition: Mapping[str, Any], between: Sequence[Any] | None,
    near: Mapping[str, Sequence[Any]], most: int, options: BoundedOptions,
) -> WhyNot:  # fmt: skip
    """What `Query.why_not` gives."""
    wanted = Wanted(partition, span=partial(_span, between=between, near=near))
    rows = of_partition(read_given(query, frame, options, wanted), partition, "why_not")
    names = _names(query)
    for name in near:
        if name not in names:
            of = "symbols" if query.rows is None else "variables"
            hint = did_you_mean(name, names) or f"its {of} are {', '.join(names)}"
            missing = "which the query has not"
            if name in {absence.symbol for absence in query.absences}:
                missing, hint = (
                    "which is absent from a match",
                    f"its symbols are {', '.join(names)}",
                )
            raise ValueError(f"near names {name}, {missing}: {hint}")
    spans = {name: _ticks(rows.time, given, f"near[{name!r}]") for name, given in near.items()}
    first, last = (
        (INT64_MIN, INT64_MAX) if between is None else _ticks(rows.time, between, "between")
    )
    if query.rows is not None:
        return _of_row_pattern(RowTarget.between(rows, first, last, spans), most)
    target = Target(_around(rows, first, last, spans), first, last, spans)
    found = len(target.matches(rows.query))
    misses = () if found else tuple(islice(_near_misses(target, CONDITIONS), most))
    return WhyNot(rows.query, found, misses)


def _of_row_pattern(target: RowTarget, most: int) -> RowWhyNot:
    """Why a row pattern has no match: how far it came, and what would have to change."""
    query = target.rows.query
    found = len(target.matches(query))
    if found:
        return RowWhyNot(query, found, ())
    over = skipped(target)
    misses = tuple(islice(_near_misses(target, ROW_CONDITIONS), most))
    came_to = None
    if not any(miss.kind == "skip" for miss in misses):
        came_to = reached(target)
    return RowWhyNot(query, 0, misses, over, came_to)


def _names(query: Query) -> list[str]:
    """The names that ``near`` may give: symbols, or variables and subsets."""
    if query.rows is None:
        return [symbol.name for symbol in query.present]
    return [*query.rows.variables, *(name for name, _ in query.rows.subsets)]


def _ticks(time: TimeColumn, given: Sequence[Any], what: str) -> tuple[int, int]:
    """Two times as ticks."""
    if isinstance(given, str) or len(given) != 2:
        raise ValueError(f"{what} is two times: from when, and until when")
    dtype = time.dtype
    times = pl.Series(list(given))
    of_calendar = times.dtype.is_temporal() or times.dtype == pl.String
    if of_calendar == dtype.is_integer():
        asked = "whole numbers" if dtype.is_integer() else "dates and times: give these, or texts"
        raise ValueError(
            f"{what} is {given[0]!r} and {given[1]!r}, but the times in {time.name} are {asked}"
        )
    if times.dtype == pl.String:
        times = _read_times(times, dtype, what)
    if (
        isinstance(dtype, pl.Datetime)
        and dtype.time_zone
        and not getattr(times.dtype, "time_zone", None)
    ):
        times = times.dt.replace_time_zone(dtype.time_zone)
    start, end = times.cast(dtype).to_physical().cast(pl.Int64)
    if start > end:
        raise ValueError(f"{what} ends before it begins")
    return start, end


def _read_times(texts: pl.Series, dtype: pl.DataType, what: str) -> pl.Series:
    try:
        return texts.str.to_date() if dtype == pl.Date else texts.str.to_datetime()
    except PolarsError:
        shown = " and ".join(map(repr, texts))
        raise ValueError(f"{what} is {shown}: write times as in '2026-01-31 12:30:00'") from None


def _around(
    rows: GivenRows, first: int, last: int, near: Mapping[str, tuple[int, int]]
) -> GivenRows:
    """The rows in which an expected match can be, with some windows of others around."""
    span = _with_room(rows.binding, first, last, near)
    return rows if span is None else stretch(rows, *span)


def _with_room(
    binding: Binding, first: int, last: int, near: Mapping[str, tuple[int, int]]
) -> tuple[int, int] | None:
    """The span of time in which an expected match can be, with some windows around; None: all of it."""
    if near:
        first = max(first, min(start for start, _ in near.values()))
        last = min(last, max(end for _, end in near.values()))
    if first == INT64_MIN and last == INT64_MAX:
        return None
    ticks = binding.compiled.ticks
    bridges = [bridge for bridge in ticks.bridging if bridge is not None]
    room = 3 * ticks.within + max(bridges, default=0) + 1
    # what limits leave out depends on all that was given before
    reads_all = bool(binding.query.limits) or ticks.looks_back is None
    first = INT64_MIN if reads_all else max(first - room, INT64_MIN)
    return first, min(last + room, INT64_MAX)


def _span(
    binding: Binding, between: Sequence[Any] | None, near: Mapping[str, Sequence[Any]]
) -> tuple[int, int] | None:
    """The span of time of which an archive is read; None: all of it."""
    query = binding.query
    if query.rows is not None or query.is_sequenced:
        return None  # what a row pattern finds, and the number of an instant, depend on all rows before
    time = binding.time
    first, last = (INT64_MIN, INT64_MAX) if between is None else _ticks(time, between, "between")
    spans = {name: _ticks(time, given, f"near[{name!r}]") for name, given in near.items()}
    found = _with_room(binding, first, last, spans)
    if found is None or not any(symbol.predicate.reads_the_past for symbol in query.symbols):
        return found
    return INT64_MIN, found[1]  # how far back predicates look is not known


def _near_misses(target: Target, kinds: Iterable[ConditionKind]) -> Iterator[NearMiss]:
    """The proposals that do make a match appear, those of the smallest changes first."""
    proposals: list[Proposal] = [
        proposal for kind in kinds if kind.changes for proposal in kind.changes(target)
    ]
    seen: list[tuple[Query, MovedEndpoint | None]] = []
    for proposal in sorted(proposals, key=lambda p: p.size):
        changed = proposal.query, proposal.moved
        if changed in seen:
            continue
        seen.append(changed)
        rows = target.rows
        if proposal.moved is not None:
            rows = rows_with(target, proposal.moved)
        if len(target.matches(proposal.query, rows)):
            yield NearMiss(
                proposal.kind, proposal.text, proposal.size, proposal.query, proposal.moved
            )
