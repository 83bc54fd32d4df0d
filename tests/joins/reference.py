"""The matches of a pattern on one stream, by enumeration within the window.

Much faster than the oracle, so that streams may be thousands of events long, and as independent of
the engine: intervals come from their columns one by one, what will hold of a pair is found by
trying its futures, and nothing is kept or left out but by the rules. One partition, without MAX GAP,
with the RETURN that a query has when it says nothing. ``test_reference`` holds it to the oracle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, product

import polars as pl

from piestream.language.model import Query
from piestream.language.parts import Emit, Symbol
from piestream.relations import Relation

__all__ = ["OPEN", "Run", "expected", "futures"]

#: The end of an interval that has none in the stream.
OPEN = None
Row = tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """An interval: its endpoints in time, and when it is valid."""

    start: int
    end: int | None
    valid: int


def allen(xs: float, xe: float, ys: float, ye: float) -> Relation:
    """The one relation of Allen's that two intervals have."""
    found = {
        Relation.BEFORE: xe < ys,
        Relation.MEETS: xe == ys,
        Relation.OVERLAPS: xs < ys < xe < ye,
        Relation.FINISHED_BY: xs < ys and xe == ye,
        Relation.CONTAINS: xs < ys and ye < xe,
        Relation.STARTS: xs == ys and xe < ye,
        Relation.EQUALS: xs == ys and xe == ye,
        Relation.STARTED_BY: xs == ys and ye < xe,
        Relation.DURING: ys < xs and xe < ye,
        Relation.FINISHES: ys < xs and xe == ye,
        Relation.OVERLAPPED_BY: ys < xs < ye < xe,
        Relation.MET_BY: ye == xs,
        Relation.AFTER: ye < xs,
    }
    (one,) = [relation for relation, holds in found.items() if holds]
    return one


@cache
def futures(xs: int, xe: int | None, ys: int, ye: int | None) -> frozenset[Relation]:
    """Allen's relations that may turn out to hold; an open end is after all that is known."""
    now = max(t for t in (xs, xe, ys, ye) if t is not None)
    x_ends = (now + 1, now + 2) if xe is OPEN else (xe,)
    y_ends = (now + 1, now + 2) if ye is OPEN else (ye,)
    return frozenset(allen(xs, x_end, ys, y_end) for x_end, y_end in product(x_ends, y_ends))


class _Stream:
    """The columns of a frame, and the intervals in them."""

    def __init__(self, query: Query, frame: pl.DataFrame) -> None:
        self.times = frame["ts"].to_list()
        self.place = {time: row for row, time in enumerate(self.times)}
        self.true = {
            symbol.name: frame.select(pl.sql_expr(str(symbol.predicate)).alias("holds"))[
                "holds"
            ].to_list()
            for symbol in query.symbols
        }
        self.runs = {symbol.name: self._runs(symbol) for symbol in query.symbols}
        self.starts = {name: [run.start for run in runs] for name, runs in self.runs.items()}
        self._busy: dict[tuple[str, str], list[int]] = {}

    def _runs(self, symbol: Symbol) -> list[Run]:
        least = 0 if symbol.at_least is None else symbol.at_least.amount
        most = None if symbol.at_most is None else symbol.at_most.amount
        true = self.true[symbol.name]
        runs = []
        begun: int | None = None
        for row, holds in enumerate([*true, None]):
            if holds and begun is None:
                begun = row
            elif not holds and begun is not None:
                start = self.times[begun]
                end = None if holds is None else self.times[row]
                known = self.times[begun : row + (holds is not None)]
                if most is None:
                    valid = next((t for t in known if t - start >= least), None)
                else:
                    kept = end is not None and least <= end - start <= most
                    valid = end if kept else None
                if valid is not None:
                    runs.append(Run(start, end, valid))
                begun = None
        return runs

    def quiet(self, x: str, y: str, left: int, right: int) -> bool:
        """Whether neither predicate is ever true in ``[left, right)``."""
        if (x, y) not in self._busy:
            either = [a or b for a, b in zip(self.true[x], self.true[y], strict=True)]
            self._busy[x, y] = [0, *accumulate(either)]
        busy = self._busy[x, y]
        return busy[self.place[left]] == busy[self.place[right]]


class _Matches:
    """The matches of a query on a stream."""

    def __init__(self, query: Query, frame: pl.DataFrame) -> None:
        self.stream = _Stream(query, frame)
        self.within = query.within.amount
        self.predicate = {symbol.name: symbol.predicate for symbol in query.symbols}
        self.allowed = {(c.x, c.y): c.relations for c in query.constraints}
        self.names = sorted(symbol.name for symbol in query.symbols)
        self.order = self.names[:1]
        while len(self.order) < len(self.names):  # always one that hangs on those before
            self.order.append(next(name for name in self.names if self._hangs_on_others(name)))
        self._decided: dict[tuple[str, str, Run, Run], int | None] = {}

    def _hangs_on_others(self, name: str) -> bool:
        pairs = [{*pair} for pair in self.allowed]
        return name not in self.order and any({name, other} in pairs for other in self.order)

    def decided(self, x: str, y: str, a: Run, b: Run) -> int | None:
        """The first time at which the pair's relation will be allowed, whatever comes next."""
        if (x, y, a, b) not in self._decided:
            self._decided[x, y, a, b] = self._first_decided(x, y, a, b)
        return self._decided[x, y, a, b]

    def _first_decided(self, x: str, y: str, a: Run, b: Run) -> int | None:
        both = max(a.start, b.start)
        for now in sorted({both, *(e for e in (a.end, b.end) if e is not None and e > both)}):
            a_end = a.end if a.end is not None and a.end <= now else OPEN
            b_end = b.end if b.end is not None and b.end <= now else OPEN
            holding = futures(a.start, a_end, b.start, b_end)
            relations = self.allowed[x, y]
            # the precise forms of what lies apart; they hold only together with these
            for precise, wide, left, right in (
                (Relation.FOLLOWED_BY, Relation.BEFORE, a.end, b.start),
                (Relation.FOLLOWS, Relation.AFTER, b.end, a.start),
            ):
                if relations & precise and holding == {wide} and left is not None:
                    relations |= wide if self.stream.quiet(x, y, left, right) else Relation(0)
            if all(relation & relations for relation in holding):
                return now
        return None

    def all(self) -> Iterator[tuple[dict[str, Run], int]]:
        """Each match, and when it is known."""
        yield from self._bindings({}, min(self.stream.times, default=0))

    def _bindings(self, bound: dict[str, Run], known: int) -> Iterator[tuple[dict[str, Run], int]]:
        if len(bound) == len(self.order):
            yield bound, known
            return
        name = self.order[len(bound)]
        first, last = 0, len(self.stream.runs[name])
        if bound:  # all of a match starts within its window
            starts = [run.start for run in bound.values()]
            first = bisect_left(self.stream.starts[name], max(starts) - self.within)
            last = bisect_right(self.stream.starts[name], min(starts) + self.within)
        for run in self.stream.runs[name][first:last]:
            at = self._known(bound, known, name, run)
            if at is not None:
                yield from self._bindings({**bound, name: run}, at)

    def _known(self, bound: dict[str, Run], known: int, name: str, run: Run) -> int | None:
        """When an interval fits those that are bound; None if it does not."""
        at: int | None = max(known, run.valid)
        for other, there in bound.items():
            if self.predicate[other] == self.predicate[name] and there.start == run.start:
                at = None
            elif (name, other) in self.allowed:
                at = _later(at, self.decided(name, other, run, there))
            elif (other, name) in self.allowed:
                at = _later(at, self.decided(other, name, there, run))
            if at is None:
                break
        return at


def expected(query: Query, frame: pl.DataFrame) -> list[Row]:
    """The rows of the result, in their order."""
    matches = _Matches(query, frame)
    rows: list[tuple[tuple[object, ...], Row]] = []

    def report(match: dict[str, Run], at: int, phase: str) -> None:
        row: list[int | str | None] = [at]
        if query.emit is Emit.BOTH:
            row.append(phase)
        for symbol in query.symbols:
            run = match[symbol.name]
            row += [run.start, run.end if run.end is not None and run.end <= at else None]
        starts = [match[name].start for name in matches.names]
        rows.append(((at, phase == "completion", starts), tuple(row)))

    for match, trigger in matches.all():
        first_start = min(run.start for run in match.values())
        ends = [run.end for run in match.values() if run.end is not None]
        complete = max(ends) if len(ends) == len(match) else None
        if query.emit is Emit.COMPLETION:
            if complete is not None and complete - first_start <= matches.within:
                report(match, complete, "completion")
        elif trigger - first_start <= matches.within:
            report(match, trigger, "trigger")
            if query.emit is Emit.BOTH and complete is not None:
                report(match, complete, "completion")
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _later(at: int | None, decided: int | None) -> int | None:
    return None if at is None or decided is None else max(at, decided)
