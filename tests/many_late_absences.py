"""Very many random cases of absence of what becomes known late: matches of queries in brackets and of row patterns.

``python -m tests.many_late_absences 0 200`` tries the queries of these seeds, each over many partitions, in frames
and in sessions, against `tests.oracle`; ``… 0 200 sequenced`` those in which several events have one time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import polars as pl

import piestream as ps
from piestream.language.absence_waits import UNLESS_CLOSED, wait_texts
from piestream.language.model import Query
from piestream.relations import ALL_NAMES
from tests.oracle.streams import Inputs, matches
from tests.truth import column

__all__ = ["WAYS", "LateAbsences", "disagreement", "late_absences"]

WAYS = ("frame", "session")
_NAMES = [name for name in ALL_NAMES if name not in ("followed-by", "follows")]
_PATTERNS = ("X", "X+", "X Y", "X+ Y", "X Y?", "X (Y Y Z)?", "X{1,2} Z", "(X | Y Z)", "X Y*? Z")

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class LateAbsences:
    """A query over two streams of events, rows of both, and how far time goes."""

    query: Query
    rows: dict[str, Rows]
    until: int
    at_end: str

    def inputs(self) -> Inputs:
        """What the oracle is given."""
        inner = next(s for s in self.query.streams if s.query is not None)
        assert inner.query is not None
        return Inputs(
            self.rows,
            {**{name: column(name) for name in "abc"}, str(inner.name): _truth_of(inner.query)}
            | {"c": _ALL},
            until=self.until,
            at_end=self.at_end,
        )

    def frames(self) -> dict[str, pl.DataFrame]:
        """The rows as frames."""
        return {name: pl.DataFrame(rows, orient="row") for name, rows in self.rows.items()}


class _All:
    """Holds of every row."""

    def holds(self, *_: object) -> bool:
        return True


_ALL: Any = _All()


def _truth_of(query: Query) -> dict[str, Any]:
    names = [symbol.name for symbol in query.symbols]
    return {name: column(name.lower()) for name in names}


def _inner(rng: Random, order: str, is_sequenced: bool) -> str:
    """A query in brackets whose matches may become known later than they end."""
    within = rng.choice((2, 3, 5, 8))
    if rng.random() < 0.35 and (order == "ts" or is_sequenced):
        pattern = rng.choice(_PATTERNS)
        named = (n for n in "XYZ" if n in pattern)
        defines = ", ".join(f"{n} AS {n.lower()}" for n in named)
        return (
            f"s0 MATCH_RECOGNIZE (ORDER BY {order} MEASURES COUNT(*) AS n PATTERN ({pattern}) WITHIN {within} "
            f"DEFINE {defines}) AS j"
        )
    bridging = f"BRIDGING {rng.randint(1, 3)}" if rng.random() < 0.6 else ""
    group = rng.choice(
        ("z after x AND z.ts - x.te <= 2", "z during x", "z overlapped-by; met-by x")
    )
    absent = "" if bridging else f" AND NOT ({group})"
    of = rng.choice(("", "", " OF x"))
    z = ", z AS z" * bool(absent)
    gap = rng.choice(("", "", " MAX GAP 3"))
    return (
        f"(FROM s0 ORDER BY {order}{gap} DEFINE x AS x {bridging}{z} "
        f"PATTERN x{absent} WITHIN {within}{of} EMIT ON COMPLETION RETURN COUNT(x) AS n) AS j"
    )


def _conditions(rng: Random) -> Iterator[str]:
    if rng.random() < 0.75:
        yield f"c {'; '.join(rng.sample(_NAMES, rng.choice((1, 2, 3, 5))))} a"
    for _ in range(rng.choice((0, 1, 1, 2))):
        one, two = rng.choice((("c", "a"), ("a", "c")))
        yield (
            f"{one}.{rng.choice(('ts', 'te'))} - {two}.{rng.choice(('ts', 'te'))} "
            f"{rng.choice(('<', '<=', '<=', '>', '>='))} {rng.choice((0, 1, 2, 3))}"
        )


def _text(rng: Random, order: str, outer: str) -> str:
    """A query of random parts; it may be refused."""
    group = " AND ".join(_conditions(rng)) or "c during a"
    length = rng.choice(("", "", "", "AT LEAST 2", "AT MOST 3"))
    emit = rng.choice(("", "", "EMIT ON COMPLETION ", "EMIT ON BOTH "))
    patterns = ["a", "a", "a overlaps; before; contains; meets b"]
    if is_sequenced := outer != "ts":
        patterns += ["a overlaps; before; contains; meets; starts; after d"]
    pattern = rng.choice(patterns)
    more = ", b AS s.b" * (" b" in pattern) + ", d AS j" * (" d" in pattern)
    inner = _inner(rng, order, is_sequenced)
    return (
        f"FROM s ORDER BY {outer} WITH {inner} PARTITION BY k DEFINE a AS s.a, c AS j {length}{more} "
        f"PATTERN {pattern} AND NOT ({group}) WITHIN {rng.choice((8, 30))} {emit}"
    )


def _events(rng: Random, key: int, columns: str, order: str) -> Iterator[dict[str, Any]]:
    at, changes = 0, rng.choice((0.25, 0.4, 0.6))
    steps = rng.choice(((1,), (1, 1, 2), (1, 2, 3)))
    steps = steps if order == "ts" else (0, *steps)
    state = dict.fromkeys(columns, False)
    for place in range(rng.randint(2, 9)):
        at += rng.choice(steps)
        for name in columns:
            state[name] ^= rng.random() < changes
        yield {"k": key, "ts": at, "seq": place, **state}


def late_absences(seed: int, cases: int = 25, *, is_sequenced: bool = False) -> LateAbsences | None:
    """The cases of a seed; None where its query is refused."""
    rng = Random(f"{'sequenced ' * is_sequenced}late absences {seed}")
    order = rng.choice(("ts", "ts", "ts", "ts, seq"))  # of the query in brackets
    outer = "ts"
    if is_sequenced:
        order, outer = rng.choice(("ts", "ts, seq", "ts, ROW")), rng.choice(("ts, seq", "ts, ROW"))
    orders = {"s": ("ab", outer), "s0": ("xyz", order)}
    try:
        query = ps.query(_text(rng, order, outer))
    except ps.QueryError:
        return None
    rows = {
        name: [row for key in range(cases) for row in _events(rng, key, columns, of)]
        for name, (columns, of) in orders.items()
    }
    later = rng.choice((1, 3, 9))  # what is at that time has not passed in a session
    until = max(row["ts"] for some in rows.values() for row in some) + later
    for name, (columns, _) in orders.items():
        rows[name].append({"k": -1, "ts": until, "seq": 99, **dict.fromkeys(columns, False)})
    at_end = rng.choice(("open", "open", "close"))
    return LateAbsences(query, rows, until, at_end)


def _found(late: LateAbsences, way: str, rng: Random) -> Rows:
    if way == "frame":
        return list(late.query.run(late.frames(), at_end=late.at_end).to_dicts())
    session = late.query.open()
    found: Rows = []
    arrivals = sorted(
        ((row["ts"], name, row) for name, rows in late.rows.items() for row in rows),
        key=lambda one: one[:2],
    )
    pushed = set()
    while arrivals:
        name = arrivals[0][1]
        count = next((n for n, one in enumerate(arrivals) if one[1] != name), len(arrivals))
        if late.query.is_sequenced:  # events of one time may come bit by bit
            count = rng.randint(1, count)
        first, arrivals = arrivals[:count], arrivals[count:]
        if late.query.is_sequenced and rng.random() < 0.2:
            found += (one for _, _, row in first for one in session.push(row, stream=name))
        else:
            rows = pl.DataFrame([row for _, _, row in first])
            found += session.push(rows, stream=name).to_dicts()
        pushed.add(name)
        if len(pushed) == len(late.rows) and rng.random() < 0.05:
            if rng.random() < 0.5:
                session._stream.compact()
            session = late.query.open(state=session.snapshot())
    found += _dicts(session.advance(late.until))
    return found


def _dicts(rows: Any) -> Rows:
    return list(rows.to_dicts()) if isinstance(rows, pl.DataFrame) else list(rows)


def _by_partition(rows: Rows) -> dict[int, list[str]]:
    by: dict[int, list[str]] = {}
    for row in rows:
        by.setdefault(row["k"], []).append(repr(sorted(row.items())))
    return {key: sorted(some) for key, some in by.items()}


def disagreement(late: LateAbsences, way: str, seed: int) -> str | None:
    """What one way in says otherwise than the rules."""
    if way == "session":  # in which a query in brackets cannot be closed
        late = LateAbsences(late.query, late.rows, late.until, "open")
    expected = _by_partition(matches(late.query, late.inputs()))
    if expected:
        for _, said in wait_texts(late.query):
            if late.at_end == "close" and UNLESS_CLOSED in said:
                continue
            return f"seed {seed}: {late.query}\n{said}, but {expected}"
    found = _by_partition(_found(late, way, Random(f"{way} {seed}")))
    for key in sorted({*expected, *found}):
        if expected.get(key) != found.get(key):
            rows = "\n".join(
                f"{name}: {row}" for name in late.rows for row in late.rows[name] if row["k"] == key
            )
            return (
                f"seed {seed}, {way}, partition {key}, until {late.until}, {late.at_end}: {late.query}\n"
                f"{rows}\nexpected {expected.get(key)}\nfound    {found.get(key)}"
            )
    return None


def main(first: int, end: int, *, is_sequenced: bool = False) -> None:
    """Try the queries of these seeds in every way in."""
    queries = cases = rows = faults = 0
    for seed in range(first, end):
        late = late_absences(seed, is_sequenced=is_sequenced)
        if late is None:
            continue
        queries += 1
        cases += len({row["k"] for row in late.rows["s"]})
        for way in WAYS:
            said = disagreement(late, way, seed)
            if said is not None:
                faults += 1
                print(said, flush=True)
                break
        rows += len(matches(late.query, late.inputs()))
        if queries % 20 == 0:
            print(f"to seed {seed}: {queries} queries, {rows} rows, {faults} faults", flush=True)
    print(f"{queries} queries, {cases} cases, {rows} rows, {faults} faults")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), is_sequenced="sequenced" in sys.argv[3:])
