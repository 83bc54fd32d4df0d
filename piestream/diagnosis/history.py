"""The history of a match: when each of its intervals and pairs became known, asked of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import polars as pl

from piestream.compiled.constants import INT64_MIN
from piestream.diagnosis.absences import AbsenceDecision, alone
from piestream.diagnosis.bindings import BoundIntervals, telling_apart
from piestream.diagnosis.conditions import CONDITIONS, Condition
from piestream.diagnosis.intervals import bounds_of, unbridged
from piestream.diagnosis.partition import numbers_of, stretch
from piestream.diagnosis.parts import (
    END,
    ID,
    REPORT_INSTANT,
    START,
    forever,
    identity,
    restricted,
    with_window,
)
from piestream.diagnosis.rows import GivenRows
from piestream.language.absences import Absence
from piestream.language.distances import distance_texts
from piestream.language.model import Query
from piestream.language.parts import Constraint, Emit, RelationOf
from piestream.language.printer import absence_text
from piestream.relations import names, relation_of

__all__ = ["Decision", "History", "MatchInterval"]

_OPEN = 1 << 62
#: An instant as it is compared, and its time: deadlines of several times lie between the same two events.
At = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MatchInterval:
    """An interval of a match, and when it became valid. ``te`` is None if it is open at the end.

    ``events`` is None of an interval that comes ready-made.
    """

    symbol: str
    ts: Any
    te: Any
    events: int | None
    valid_at: Any


@dataclass(frozen=True, slots=True)
class Decision:
    """A pair of a match: the relation that holds, when and by which endpoints it was decided.

    ``letters`` are what the pair read up to then, each with its time: O neither, Z only x, I only y,
    E both. A pair with an interval that comes ready-made, or whose runs are bridged, reads none: its
    endpoints are compared.
    ``relation`` is None if both intervals are open at the end.
    """

    text: str
    constraint: Constraint
    relation: str | None
    decided_at: Any
    decided_by: tuple[str, ...]
    letters: tuple[tuple[Any, str], ...]


@dataclass(frozen=True)
class History:
    """A match in rows of its partition, from its earliest start to its report or its latest end."""

    rows: GivenRows
    found: Mapping[str, Any]  # its intervals, as results tell them apart, and its report
    tables: Mapping[str, pl.DataFrame]  # the runs of predicates over events, not bridged
    spans: Mapping[str, Mapping[str, Any]]  # the intervals of the match
    partition: GivenRows  # all rows of its partition

    @classmethod
    def of(cls, rows: GivenRows, row: Mapping[str, Any]) -> History:
        """The history of the match that a row of the result is about."""
        found = _found(rows, row)
        symbols = rows.query.present
        first = min(found[f"{START}{symbol.name}"] for symbol in symbols)
        bridges = [b for b in rows.binding.compiled.ticks.bridging if b is not None]
        first -= max(bridges, default=0)  # so far back a run may lie that one of these continues
        if rows.query.is_sequenced:  # instants are numbered from the first event on
            first = INT64_MIN
        later = stretch(rows, first, _OPEN)
        intervals = BoundIntervals(later)
        spans = {symbol.name: intervals.of(symbol.name, found) for symbol in symbols}
        tables = {
            s.name: unbridged(later, s)
            for s in symbols
            if not rows.query.stream_of(s.name).is_ready_made
        }
        last = max(found["report"], *(span["te"] for span in spans.values()))
        last += max(bridges, default=0)  # then their ends are known
        return cls(stretch(rows, first, last), found, tables, spans, rows)

    @property
    def reported_at(self) -> Any:
        """When the match was reported."""
        return self._shown(self.found["report"])

    def intervals(self) -> Iterator[MatchInterval]:
        """Its intervals, with the times at which they became valid."""
        for name, span in self.spans.items():
            te = None if self._end(name) == _OPEN else self._shown(span["te"])
            valid_at = self._shown(self._valid[name][1])
            yield MatchInterval(name, self._shown(span["ts"]), te, span["events"], valid_at)

    def decisions(self) -> Iterator[Decision]:
        """Its pairs, with what decided them."""
        for condition, at in self._decided:
            constraint = condition.constraint
            yield Decision(
                condition.text,
                constraint,
                self._relation(condition),
                self._shown(at[1]),
                self._decided_by(constraint, at),
                tuple(self._letters(constraint, at)),
            )

    def absences(self) -> Iterator[AbsenceDecision]:
        """What may not be there beside it, and from when on it could not come."""
        for absence, at in self._absent:
            yield AbsenceDecision(absence_text(absence), absence.symbol, self._shown(at[1]))

    def waited_for(self) -> Iterator[str]:
        """What became known last."""
        found = list(self._known_last())
        report = self._report
        if not found:  # else no absence was waited for beyond that
            found = [f"{absence_text(a)} to be decided" for a, at in self._absent if at == report]
        yield from found

    @property
    def _report(self) -> At:
        return self.found["at"], self.found["report"]

    def _known_last(self) -> Iterator[str]:
        report = self._report
        ended = [name for name in self.spans if self._known(name) == report]
        if self.found["is_complete"] and ended:  # else an absence was decided after all ends
            yield from (f"{name} {self._how_ended(name)}" for name in ended)
            return
        for condition, at in self._decided:
            if at == report:
                by = " = ".join(self._decided_by(condition.constraint, at))
                yield f"{condition.text}, decided by {by}"
        for name, at in self._valid.items():
            if at == report:
                yield f"{name} {self._how_valid(name, at)}"

    def _how_valid(self, name: str, at: At) -> str:
        if at == self._start(name):
            return "to start"
        if self._is_ready_made(name):
            return self._how_ended(name) if at == self._known(name) else "to be known"
        return (
            self._how_ended(name) if at == self._known(name) != self._ended(name) else "to be valid"
        )

    def _how_ended(self, name: str) -> str:
        """What was waited for at the end of an interval: it, or that it is known."""
        span = self.spans[name]
        if span["open"] or span["known_at"] == span["te"]:
            return "to end"
        return "to be known" if self._is_ready_made(name) else "to have ended"

    def _is_ready_made(self, name: str) -> bool:
        return self.rows.query.stream_of(name).is_ready_made

    def _bridge(self, name: str) -> int | None:
        """How far apart runs of a symbol may lie to be one interval; None without BRIDGING."""
        number = [s.name for s in self.rows.query.symbols].index(name)
        return self.rows.binding.compiled.ticks.bridging[number]

    def _start(self, name: str) -> At:
        span = self.spans[name]
        return span["start"], span["ts"]

    def _known(self, name: str) -> At | None:
        """The instant at which it is known, and reported, where an interval has ended."""
        span = self.spans[name]
        is_open = span["open"] and not self.rows.closes
        return None if is_open else (span["known"], span["known_at"])

    def _ended(self, name: str) -> At | None:
        """The instant at which what is known with the end of an interval is, if not later."""
        span, known = self.spans[name], self._known(name)
        is_late = self._is_ready_made(name) and not span["open"] and span["known_at"] != span["te"]
        if known is not None and (is_late or self._bridge(name) is not None):
            return span["end"], span["te"]
        return known

    def _shown(self, ticks: int) -> Any:
        return self.rows.time.as_times(pl.Series([ticks], dtype=pl.Int64))[0]

    # -- what the engine says ---------------------------------------------------------------------

    @cached_property
    def _decided(self) -> list[tuple[Condition, At]]:
        """Each condition, and when it was decided."""
        query, time = self.rows.query, self.rows.time
        return [
            (condition, self._report_of(condition.alone))
            for kind in CONDITIONS
            if kind.decided is not None
            for condition in kind.decided(query, time)
        ]

    @cached_property
    def _valid(self) -> dict[str, At]:
        """When each interval became valid."""
        return {symbol.name: self._valid_at(symbol.name) for symbol in self.rows.query.present}

    @cached_property
    def _absent(self) -> list[tuple[Absence, At]]:
        """Each absence, and when it was decided: intervals from before the match count, too."""
        query, whole = self.rows.query, self.partition
        return [
            (absence, self._report_of(alone(query, absence, whole.time), whole))
            for absence in query.absences
        ]

    def _report_of(self, part: Query, rows: GivenRows | None = None) -> At:
        """The instant at which the part of the match that a query finds was reported by it."""
        result = self._rows_of(part, rows)
        time = int(result["detected_at"].to_physical().cast(pl.Int64)[0])
        is_numbered = REPORT_INSTANT in result.columns
        return int(result[REPORT_INSTANT][0]) if is_numbered else time, time

    def _rows_of(self, part: Query, rows: GivenRows | None = None) -> pl.DataFrame:
        """What a query finds of the match: one row a phase."""
        found = (rows or self.rows).run(part)
        same = [
            (pl.col(n).to_physical().cast(pl.Int64) if n.startswith((START, END)) else pl.col(n))
            .eq_missing(pl.lit(self.found[n]))
            for n in telling_apart(part)
        ]  # fmt: skip
        return found.filter(same)

    def _valid_at(self, name: str) -> At:
        part = restricted(self.rows.query, [name])
        part = with_window(part, forever(self.rows.time))
        at = self._report_of(part)
        bounds = bounds_of(self.rows, self.rows.query.symbol(name))
        if bounds.at_least is None or bounds.at_most is not None or bounds.most is not None:
            return at
        # a silence of another stream that ends something is an instant too, at which this may be valid
        any_time = tuple(replace(symbol, at_least=None) for symbol in part.symbols)
        least = self.spans[name]["ts"] + bounds.at_least
        from_then = self._report_of(replace(part, symbols=any_time))
        ended = (
            table.filter(~pl.col("open")).select("end", "te").rows()
            for table in self.tables.values()
        )
        earlier = [end for ends in ended for end in ends if from_then <= end < at]
        return min([at, *(end for end in earlier if least <= end[1] and self._lasts(name, end[0]))])

    def _lasts(self, name: str, at: int) -> bool:
        """Whether the predicate of a symbol holds at an instant, or ceases to."""
        if self._is_ready_made(name):
            return True
        until = pl.col("open") | (at <= pl.col("end"))
        return len(self.tables[name].filter((pl.col("start") <= at) & until)) > 0

    def _relation(self, condition: Condition) -> str | None:
        x, y = condition.constraint.x, condition.constraint.y
        returns = (*condition.alone.returns, RelationOf(x, y, "relation"))
        pair = replace(condition.alone, returns=returns, emit=Emit.BOTH)
        known = self._rows_of(pair)["relation"]
        if known[-1] is not None:
            return str(known[-1])
        possible = {
            # what is open ends later than all that has ended
            None if ends == (_OPEN, _OPEN)
            else names(
                relation_of(self.spans[x]["start"], ends[0], self.spans[y]["start"], ends[1])
            )[0]
            for ends in product(self._possible_ends(x), self._possible_ends(y))
        }  # fmt: skip
        return possible.pop() if len(possible) == 1 else None

    def _possible_ends(self, name: str) -> tuple[int, ...]:
        """The end of an interval; of one that has ended or goes on, both."""
        end, span = self._end(name), self.spans[name]
        return (end, int(span["end"])) if end == _OPEN and span["interrupted"] else (end,)

    # -- what its endpoints say -------------------------------------------------------------------

    def _end(self, name: str) -> int:
        span = self.spans[name]
        return _OPEN if span["open"] and not self.rows.closes else int(span["end"])

    def _decided_by(self, constraint: Constraint, at: At) -> tuple[str, ...]:
        both = constraint.x, constraint.y
        endpoints = tuple(
            f"{name}.{which}"
            for which in ("te", "ts")
            for name in both
            if (self._ended(name) if which == "te" else self._start(name)) == at
        )
        # else by time: what is open had been so for long enough
        by_time = tuple(distance_texts(d for d in constraint.distances if not d.is_upper))
        late = tuple(f"{n} being known" for n in both if self._is_ready_made(n))
        bridged = tuple(text for n in both for text in self._of_bridge(n, at))
        return endpoints or bridged or by_time or late

    def _of_bridge(self, name: str, at: At) -> Iterator[str]:
        """What becomes known of a bridged interval at an instant that is not one of its endpoints."""
        if self._bridge(name) is None:
            return
        if self._known(name) == at:
            yield f"{name} having ended"
        runs = self.tables[name]
        if at in runs.select("start", "ts").rows():
            yield f"{name} going on"
        if at in runs.filter(~pl.col("open")).select("end", "te").rows():
            yield f"{name} being interrupted"

    def _letters(self, constraint: Constraint, until: At) -> Iterator[tuple[Any, str]]:
        """What the pair read from its first start to its decision, where it changed."""
        both = constraint.x, constraint.y
        if any(self._is_ready_made(n) or self._bridge(n) is not None for n in both):
            return  # their endpoints are compared
        first = min(map(self._start, both))
        instants = {first} | {
            at
            for name in both
            for ends in (("start", "ts"), ("end", "te"))
            for at in self.tables[name].select(ends).rows()
            if first <= at <= until
        }
        before = ""
        for at, time in sorted(instants):
            over = pl.col("open") | (at < pl.col("end"))
            holds = [len(self.tables[n].filter((pl.col("start") <= at) & over)) > 0 for n in both]
            letter = "OIZE"[2 * holds[0] + holds[1]]
            if letter != before:
                yield self._shown(time), letter
            before = letter


def _found(rows: GivenRows, row: Mapping[str, Any]) -> dict[str, Any]:
    """What tells the match apart, with times as ticks; its report; whether that is its completion."""
    query = rows.query
    hidden = identity(query)
    result = rows.run(replace(query, returns=query.returns + hidden))
    same = numbers_of(result, row)
    report = "completed_at" if query.emit is Emit.COMPLETION else "detected_at"
    apart = telling_apart(query)
    times = [name for name in (report, *apart) if name == report or name.startswith((START, END))]
    chosen = result[same].with_columns(pl.col(n).to_physical().cast(pl.Int64) for n in times)
    several = chosen.select(apart).n_unique()
    if several > 1:
        ids = " and the IDs" * any(name.startswith(ID) for name in apart)
        if query.streams[0].sequence is not None:
            ids += (
                f" and values, such as FIRST({query.symbols[0].name}.{query.streams[0].sequence}),"
            )
        raise ValueError(
            f"{several} matches have these values: give the whole row, and let RETURN have the "
            f"starts{ids} that tell them apart"
        )
    first = chosen.row(0, named=True)
    phase = first["phase"] if query.emit is Emit.BOTH else query.emit.value.lower()
    wanted = {name: first[name] for name in apart}
    at = first.get(REPORT_INSTANT, first[report])
    return {
        **wanted, "report": first[report], "at": at, "is_complete": phase == "completion"
    }  # fmt: skip
