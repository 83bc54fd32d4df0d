"""Very many random cases of absence: a query over many partitions, each with rows of its own.

``python -m tests.many_absences 0 200`` tries the queries of these seeds in every way in, and counts the cases, of
which each is a partition; none may be reported too early, too late, or be missing. ``close`` behind it closes
the input of all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import polars as pl

import piestream as ps
from piestream.language.absence_waits import UNLESS_CLOSED, wait_texts
from piestream.language.model import Query
from piestream.language.parts import Emit
from piestream.relations import ALL_NAMES
from tests.oracle import matches
from tests.truth import column

__all__ = ["WAYS", "Case", "ManyAbsences", "disagreements", "many_absences"]

_PRECISE = ("followed-by", "follows")
_NAMES = [name for name in ALL_NAMES if name not in _PRECISE]
_COLUMNS = ("a", "b", "c", "d")
WAYS = ("frame", "session", "disordered", "event")

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """The rows of a partition: times, and what holds at them."""

    times: tuple[int, ...]
    holds: Mapping[str, tuple[bool, ...]]


@dataclass(frozen=True)
class ManyAbsences:
    """A query, its cases by the partition's number, and how far time goes."""

    query: Query
    cases: tuple[Case, ...]
    until: int
    at_end: str = "open"

    @property
    def columns(self) -> list[str]:
        """The columns that identify a result row, besides the partition."""
        starts = [f"{symbol.name}_ts" for symbol in self.query.present]
        ends = [f"{symbol.name}_te" for symbol in self.query.present]
        return [*starts, *ends, *(["phase"] if self.query.emit is Emit.BOTH else [])]

    def frame(self) -> pl.DataFrame:
        """The rows of all cases, and one more that time goes to."""
        rows = [
            (number, time, *(case.holds[name][k] for name in _COLUMNS))
            for number, case in enumerate(self.cases)
            for k, time in enumerate(case.times)
        ]
        rows.append((-1, self.until, *[False] * len(_COLUMNS)))
        return pl.DataFrame(rows, schema=["k", "ts", *_COLUMNS], orient="row")

    def expected(self) -> dict[int, list[Row]]:
        """The rows of each partition, as the oracle has them."""
        truth = {s.name: column(s.predicate.columns[0]) for s in self.query.symbols}
        found: dict[int, list[Row]] = {number: [] for number in range(len(self.cases))}
        rows = self.frame().to_dicts()
        for row in matches(self.query, rows, truth, until=self.until, at_end=self.at_end):
            if row["k"] >= 0:
                found[row["k"]].append(self.told(row))
        return found

    def told(self, row: Mapping[str, Any]) -> Row:
        """A row of a result: its report, and the columns that identify it."""
        at = next(row[name] for name in ("detected_at", "completed_at") if name in row)
        return (at, *(row[column] for column in self.columns))


# -- random queries and rows -----------------------------------------------------------------------
def _conditions(rng: Random, absent: str, other: str) -> Iterator[str]:
    if rng.random() < 0.75:
        names = rng.sample(_NAMES, rng.choice((1, 1, 2, 3, 5)))
        if rng.random() < 0.3:
            names[rng.randrange(len(names))] = rng.choice(_PRECISE)
        yield f"{absent} {'; '.join(names)} {other}"
    for _ in range(rng.choice((0, 1, 1, 2))):
        one, two = rng.choice(((absent, other), (other, absent)))
        yield (
            f"{one}.{rng.choice(('ts', 'te'))} - {two}.{rng.choice(('ts', 'te'))} "
            f"{rng.choice(('<', '<=', '<=', '>', '>='))} {rng.choice((0, 1, 2, 3))}"
        )


def _not(rng: Random, absent: str, present: Sequence[str]) -> str:
    related = rng.sample(present, rng.randint(1, len(present)))
    while True:
        conditions = [c for other in related for c in _conditions(rng, absent, other)]
        if conditions:
            return f"NOT ({' AND '.join(conditions)})"


def _limits(rng: Random, present: Sequence[str]) -> str:
    once = ", ".join(rng.sample(present, rng.randint(1, len(present))))
    return rng.choice((f"ONCE PER {once}", "NO OVERLAP", "COOLDOWN 3", "LIMIT 1", "LIMIT 2"))


def _text(rng: Random) -> str:
    """A query of random parts; it may be refused."""
    present = ["a", "b"][: rng.choice((1, 2, 2))]
    absent = ["c", "d"][: rng.choice((1, 1, 1, 2))]
    pattern = [" ".join(present[:1])]
    if len(present) == 2:
        pattern = [f"a {'; '.join(rng.sample(_NAMES, rng.choice((1, 2, 3, 13))))} b"]
    pattern += [_not(rng, name, present) for name in absent]
    rng.shuffle(pattern)
    lengths = {"c": ("", "", "", "AT LEAST 2", "AT MOST 3", "BETWEEN 2 AND 3", "AT LEAST 2 EVENTS")}
    lengths["c"] += ("AT MOST 1 EVENTS", "AT MOST 2 EVENTS", "BETWEEN 2 AND 3 EVENTS AT MOST 6")
    lengths |= {"a": ("", "", "", "AT LEAST 2", "AT MOST 3")}
    columns = {name: name for name in _COLUMNS}
    if rng.random() < 0.15:
        columns["c"] = "a"
    symbols = [
        f"{name} AS {columns[name]} = true {rng.choice(lengths.get(name, ('',)))}"
        for name in (*present, *absent)
    ]
    rng.shuffle(symbols)
    gap = rng.choice(("", "", "MAX GAP 3 ", "MAX GAP 2 "))
    window = rng.choice((4, 8, 30, 30))
    within = f"{window}"
    if len(present) == 2 and rng.random() < 0.3:
        within = rng.choice((f"{window} OF b", f"{window} OF a, 9 OF b"))
    emit = rng.choice(("", "", "EMIT ON COMPLETION ", "EMIT ON COMPLETION ", "EMIT ON BOTH "))
    limits = _limits(rng, present) if rng.random() < 0.3 else ""
    return (
        f"FROM s PARTITION BY k ORDER BY ts {gap}DEFINE {', '.join(symbols)} "
        f"PATTERN {' AND '.join(pattern)} WITHIN {within} {emit}{limits}"
    )


def _case(rng: Random) -> Case:
    times, at = [], 0
    state = dict.fromkeys(_COLUMNS, False)
    holds: dict[str, list[bool]] = {name: [] for name in _COLUMNS}
    steps = rng.choice(((1,), (1, 1, 2), (1, 2, 3), (1, 1, 1, 6)))
    changes = rng.choice((0.25, 0.4, 0.6))
    for _ in range(rng.randint(2, 8)):
        at += rng.choice(steps)
        times.append(at)
        for name in _COLUMNS:
            state[name] ^= rng.random() < changes
            holds[name].append(state[name])
    return Case(tuple(times), {name: tuple(held) for name, held in holds.items()})


def many_absences(seed: int, cases: int = 40, at_end: str | None = None) -> ManyAbsences | None:
    """The cases of a seed, all with the same ``at_end`` if it is given; None where its query is refused."""
    rng = Random(f"absences {seed}")
    try:
        query = ps.query(_text(rng))
    except ps.QueryError:
        return None
    drawn = tuple(_case(rng) for _ in range(cases))
    last = max(case.times[-1] for case in drawn)
    later = rng.choice((0, 1, 3, 9))
    return ManyAbsences(query, drawn, last + later, at_end or rng.choice(("open", "close")))


# -- the ways in -----------------------------------------------------------------------------------
def _found(many: ManyAbsences, way: str, rng: Random) -> list[dict[str, Any]]:
    frame = many.frame()
    if way == "frame":
        shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
        return [r for r in many.query.run(shuffled, at_end=many.at_end).to_dicts() if r["k"] >= 0]
    lateness = rng.randint(1, 4) if way == "disordered" else 0
    due = [time + rng.randint(0, lateness) for time in frame["ts"]]
    rows = frame.with_columns(pl.Series("due", due)).sort("due", "ts", "k").drop("due")
    session = many.query.open(lateness=lateness)
    found: list[dict[str, Any]] = []
    at = 0
    while at < len(rows):
        size = 1 if way == "event" else rng.choice((1, 2, 5, 30, 200))
        if way == "event":
            found += session.push(rows.row(at, named=True))
        else:
            found += session.push(rows[at : at + size]).to_dicts()
        at += size
        if rng.random() < (0.02 if way == "event" else 0.2):
            session = many.query.open(state=session.snapshot())
        if not lateness and rng.random() < 0.1:
            passed = int(rows["ts"][min(at, len(rows)) - 1])
            found += _dicts(session.advance(passed))
    found += _dicts(session.advance(many.until))
    if many.at_end == "close":
        found += _dicts(session.close(at_end="close"))
    return [row for row in found if row["k"] >= 0]


def _dicts(rows: Any) -> list[dict[str, Any]]:
    return list(rows.to_dicts()) if isinstance(rows, pl.DataFrame) else list(rows)


def disagreements(many: ManyAbsences, way: str, seed: int) -> list[str]:
    """Cases of which one way in says otherwise than the rules."""
    got: dict[int, list[Row]] = {number: [] for number in range(len(many.cases))}
    for row in _found(many, way, Random(f"{way} {seed}")):
        got[row["k"]].append(many.told(row))
    expected = many.expected()
    faults = [
        f"seed {seed}: {many.query}\n{text}, but {expected}"
        for _, text in wait_texts(many.query)
        if any(expected.values()) and not (many.at_end == "close" and UNLESS_CLOSED in text)
    ]
    for number, rows in expected.items():
        if got[number] != rows:
            case = many.cases[number]
            faults.append(
                f"seed {seed}, {way}, case {number}: {many.query}\n{case}\nuntil {many.until}, {many.at_end}\n"
                f"expected {rows}\nfound    {got[number]}"
            )
    return faults


def main(first: int, end: int, at_end: str | None = None) -> None:
    """Try the queries of these seeds in every way in."""
    cases = rows = queries = 0
    for seed in range(first, end):
        many = many_absences(seed, at_end=at_end)
        if many is None:
            continue
        queries += 1
        way = WAYS[queries % len(WAYS)]
        faults = disagreements(many, way, seed)
        for fault in faults[:2]:
            print(fault, flush=True)
        cases += len(many.cases)
        rows += sum(map(len, many.expected().values())) if queries % 50 == 0 else 0
        if queries % 100 == 0:
            print(f"to seed {seed}: {queries} queries, {cases} cases", flush=True)
    print(f"{queries} queries, {cases} cases")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:4])
