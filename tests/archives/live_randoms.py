"""Random queries over live streams and archives, with NOT (…) inside and around their queries in brackets.

``python -m tests.archives.live_randoms 0 1000`` holds these seeds against the oracle, in sessions and in runs; with
``limits`` behind it, what limits on what is emitted leave of them against the same over all rows.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import polars as pl

import piestream as ps
from piestream.archives import costs, live_plan, live_stream
from piestream.expressions.diagnostics import QueryError
from tests.archives.live_scenarios import (
    Pushes,
    all_plans,
    archive_of,
    check_run,
    check_session,
    drawn_pushes,
    frame_of,
    of_one_time,
    rows_of_all,
    truth_inside,
)
from tests.truth import binary, column, literal

__all__ = ["LiveQuery", "check", "drawn_query"]

_PREDICATES = ("v > 1", "w > 1", "v < 1", "w > 2", "v < PREV(v)", "v > PREV(v)", "TRUE")
_TOGETHER = (
    "before", "before; meets; overlaps", "before; overlaps; during; contains", "contains; after",
    "intersects", "meets; overlaps; started-by", "finished-by; contains; overlapped-by; after", "precedes",
    "during; finishes", "after; met-by; overlapped-by", "disjoint",
)  # fmt: skip
#: What may not be there, beside what is: {c} and {p}, {q}.
_NOT = (
    "{c} before {p} AND {p}.ts - {c}.te <= {d}",
    "{c} before; meets {p} AND {p}.ts - {c}.ts <= {d}",
    "{c} intersects {p}",
    "{c} during; starts {p}",
    "{c} contains; overlaps; equals {p}",
    "{c} after {p} AND {c}.te - {p}.te <= {d}",
    "{c} after; met-by {p} AND {c}.ts - {p}.te <= {d}",
    "{c} before {p} AND {c} after {q}",
    "{c} intersects {p} AND {c} before; meets; overlaps {q}",
    "{c}.te <= {p}.te AND {p}.te - {c}.te <= {d}",
    "{c}.ts > {p}.ts AND {c}.te - {p}.ts BETWEEN 1 AND {d}",
)


#: Of so many cases without a match, one is kept.
_KEPT_WITHOUT = 0.05

#: In brackets one run may follow another one immediately.
_NOT_INSIDE = (
    *_NOT[:7],
    "{c} followed-by {p} AND {p}.ts - {c}.te <= {d}",
    "{c} follows {p} AND {c}.te - {p}.te <= {d}",
    "{c} overlapped-by; during; follows {p} AND {c}.ts - {p}.te <= {d}",
)


@dataclass(frozen=True)
class LiveQuery:
    """A query whose streams are queries in brackets, each over a live stream or over its past."""

    streams: tuple[tuple[str, str], ...]  # name and text, with {past} in the place of the archive
    definitions: tuple[tuple[str, str, int], ...]  # symbol, stream, and what n is more than
    pattern: str
    within: str
    emitted: str

    def text(self, past: str) -> str:
        """The query, with the past by this name."""
        streams = " WITH ".join(
            f"{text.format(past=past)} AS {name}" for name, text in self.streams
        )
        define = ", ".join(f"{s} AS {stream}.n > {least}" for s, stream, least in self.definitions)
        present = [s for s, _, _ in self.definitions if not s.startswith("c")]
        values = ", ".join(f"{s}.ts AS {s}ts, {s}.te AS {s}te, {s}.n AS {s}n" for s in present)
        return (
            f"FROM {streams} PARTITION BY k DEFINE {define} PATTERN {self.pattern} "
            f"WITHIN {self.within} {self.emitted} RETURN {values}"
        )

    @property
    def truth(self) -> Mapping[str, Any]:
        """What the predicates mean, by the names of symbols and of streams."""
        symbols = {s: binary(">", column("n"), literal(least)) for s, _, least in self.definitions}
        return symbols | {name: truth_inside(text) for name, text in self.streams}


def _inner(rng: Random, source: str, is_sequenced: bool) -> str:
    """A query in brackets over a stream."""
    order = "ts, q" if is_sequenced else "ts"
    p, q = rng.sample(_PREDICATES, 2)
    kind = rng.choice(["runs"] * 4 + ["two", "not", "not", "not", "rows"])
    if kind == "rows" and not is_sequenced:
        return (
            f"{source} MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A B+) WITHIN 5 "
            f"DEFINE A AS {p}, B AS {q})"
        )
    gap = rng.choice(["", "", "", " MAX GAP 3"])
    least = rng.choice(["", "", " AT LEAST 2"])
    bridging = rng.choice(["", "", " BRIDGING 2"])
    start = f"(FROM {source} ORDER BY {order}{gap} DEFINE s AS {p}{least}{bridging}"
    end = f"WITHIN {rng.choice([6, 12])} RETURN COUNT(s) AS n)"
    if kind == "two":
        return f"{start}, t AS {q} PATTERN s overlaps; before; during t {end}"
    if kind == "not":
        group = rng.choice(_NOT_INSIDE).format(c="t", p="s", d=rng.choice([1, 3, 6]))
        return f"{start}, t AS {q} PATTERN s AND NOT ({group}) {end}"
    return f"{start} PATTERN s {end}"


def drawn_query(rng: Random, is_sequenced: bool = False) -> LiveQuery:
    """A query that is taken."""
    while True:
        found = _drawn(rng, is_sequenced)
        try:
            query = ps.query(found.text("ARCHIVE 'trades'"))
        except QueryError:
            continue
        if query.reads_archives:
            return found


def _drawn(rng: Random, is_sequenced: bool) -> LiveQuery:
    sources = rng.choice(
        [["trades", "{past}"]] * 4
        + [["trades", "{past}", "{past}"], ["trades", "trades", "{past}"]]
    )
    streams = [(f"s{n}", _inner(rng, source, is_sequenced)) for n, source in enumerate(sources)]
    names = [name for name, _ in streams]
    rng.shuffle(streams)
    n_present = rng.choice([1, 2, 2, 2, 3])
    n_absent = rng.choice([0, 1, 1, 1, 2])
    if n_present + n_absent < len(streams):
        n_absent = len(streams) - n_present
    present = [f"p{n}" for n in range(n_present)]
    absent = [f"c{n}" for n in range(n_absent)]
    order = rng.sample(names, len(names)) + [rng.choice(names) for _ in range(9)]
    both = rng.sample([*present, *absent], n_present + n_absent)
    definitions = sorted((s, order[n], rng.choice([0, 0, 0, 0, 0, 1])) for n, s in enumerate(both))
    parts = [f"{x} {rng.choice(_TOGETHER)} {y}" for x, y in itertools.pairwise(present)]
    parts = parts or ["p0"]
    for c in absent:
        p, q = rng.choice(present), rng.choice(present)
        group = rng.choice(_NOT).format(c=c, p=p, q=q, d=rng.choice([1, 3, 6, 12]))
        parts.append(f"NOT ({group})")
    within = rng.choice(["5", "9", "15", "30"])
    if n_present > 1 and rng.random() < 0.2:
        within = ", ".join(f"{rng.choice([4, 9, 15])} OF {p}" for p in present)
    emitted = rng.choice(["", "", "", "EMIT ON COMPLETION", "EMIT ON BOTH"])
    return LiveQuery(tuple(streams), tuple(definitions), " AND ".join(parts), within, emitted)


@contextmanager
def _small(rng: Random) -> Iterator[None]:
    """Plans are chosen, and rows of archives selected, of however few rows."""
    kept = live_stream.LEAST_ROWS, live_stream.ROWS_BETWEEN, live_plan.LEAST_ROWS, costs.MOST_COST
    live_stream.LEAST_ROWS, live_stream.ROWS_BETWEEN = 1, rng.choice([3, 1000])
    live_plan.LEAST_ROWS, costs.MOST_COST = rng.choice([2, 1000]), rng.choice([0.0, 1e9, 1e9])
    fsync, os.fsync = os.fsync, lambda file: None  # nothing crashes here
    try:
        yield
    finally:
        live_stream.LEAST_ROWS, live_stream.ROWS_BETWEEN, live_plan.LEAST_ROWS, costs.MOST_COST = (
            kept
        )
        os.fsync = fsync


def drawn_case(seed: int) -> tuple[LiveQuery, Pushes, Random]:
    """The query and the pushes of a seed, and what else is decided by chance.

    Of those without a match few are kept.
    """
    rng = Random(f"live {seed}")
    while True:
        is_sequenced = rng.random() < 0.25
        found, pushes = drawn_query(rng, is_sequenced), drawn_pushes(rng)
        if is_sequenced:
            pushes = of_one_time(pushes, rng.choice([2, 3]))
        if rng.random() < _KEPT_WITHOUT or len(rows_of_all(ps.query(found.text("past")), pushes)):
            return found, pushes, rng


def check(seed: int, all_of_them: bool = False) -> int:
    """Hold a seed against the oracle, in one plan or in all of them; how many rows there were."""
    found, pushes, rng = drawn_case(seed)
    query, whole = ps.query(found.text("ARCHIVE 'trades'")), ps.query(found.text("past"))
    plans = list(all_plans())
    restores, closes = rng.random() < 0.3, rng.random() < 0.8
    count = 0
    with _small(rng):
        for plan in plans if all_of_them else rng.sample(plans, 2):
            with archive_of(pushes.past, rng) as lake:
                count += check_session(found, query, whole, pushes, lake, plan, restores, closes)
        check_run(query, whole, pushes, rng)
    return count


_LIMITS = (
    "LIMIT 2", "COOLDOWN 3", "NO OVERLAP", "COOLDOWN 1 LIMIT 3", "NO OVERLAP COOLDOWN 2", "ONCE PER p0",
    "ONCE PER p0 LIMIT 2", "ONCE PER p0 COOLDOWN 1",
)  # fmt: skip


def check_limits(seed: int) -> int:
    """Limits leave the same rows in a session, in a run and over all rows; how many of a seed's.

    The archive does not change. Where nothing says which of two matches is the first, nothing is compared.
    """
    found, pushes, rng = drawn_case(seed)
    limit = rng.choice(_LIMITS)
    where = "" if "BOTH" in found.emitted else rng.choice(["", "", "WHERE p0.n < 3"])
    emitted = f"{where} {found.emitted} {limit}"
    every, found = replace(found, emitted=""), replace(found, emitted=emitted)
    rows = rows_of_all(ps.query(every.text("past")), pushes)
    starts = [name for name in rows.columns if name in ("k", "detected_at") or name.endswith("ts")]
    live = [row for pushed, _ in pushes.steps for row in pushed]
    if not live or rows.select(pl.struct(starts).is_duplicated().any()).item():
        return 0
    pushes = Pushes(pushes.past, [(pushed, []) for pushed, _ in pushes.steps], pushes.window)
    expected = rows_of_all(ps.query(found.text("past")), pushes)
    query = ps.query(found.text("ARCHIVE 'trades'"))
    restores = rng.random() < 0.4
    with _small(rng), archive_of(pushes.past, rng) as lake:
        for plan in [*rng.sample(list(all_plans()), 2), None]:
            if plan is None:
                result = query.run({"trades": frame_of(live)}, archives={"trades": lake})
            else:
                session = query.open(archives={"trades": lake}, plan=plan)
                parts = []
                for number, (pushed, _) in enumerate(pushes.steps):
                    parts.append(session.push(frame_of(pushed)))
                    if restores and number % 3 == 2:
                        session = query.open(
                            session.snapshot(), archives={"trades": lake}, plan=plan
                        )
                result = pl.concat([*parts, session.close()])
            assert _by_partition(result) == _by_partition(expected), plan
    return len(expected)


def _by_partition(rows: pl.DataFrame) -> dict[Any, list[Any]]:
    """The rows of each partition, in order."""
    found: dict[Any, list[Any]] = {}
    for row in rows.rows():
        found.setdefault(row[0], []).append(row)
    return found


def main(first: int, last: int, limits: bool = False) -> None:
    """Hold many seeds against the oracle and tell of those that fail."""
    begun, rows, some, failed = time.monotonic(), 0, 0, []
    for seed in range(first, last):
        try:
            count = check_limits(seed) if limits else check(seed)
        except Exception as error:
            failed.append(seed)
            print(seed, type(error).__name__, str(error)[:300], flush=True)
            continue
        rows += count
        some += count > 0
        if seed % 50 == 49:
            print(f"{seed + 1 - first} cases, {some} with {rows} rows", flush=True)
    seconds = time.monotonic() - begun
    print(f"{last - first} cases, {some} with {rows} rows, {seconds:.0f} s; failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] == ["limits"])
