"""Queries over a live stream and its past in an archive, sessions of them, and what these have to give.

The oracle enumerates: over the archive as it is at a push together with all that the session was
given, the rows that are reported between the watermark before the push and the one after it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

import polars as pl

import piestream as ps
from piestream.language.model import Query
from tests.oracle import streams as stream_oracle
from tests.truth import binary, column, literal, parsed, previous

__all__ = [
    "CASES",
    "Case",
    "Pushes",
    "Rows",
    "all_plans",
    "archive_of",
    "check_run",
    "check_session",
    "drawn_pushes",
    "frame_of",
    "in_order",
    "of_one_time",
    "row_key",
    "rows_of_all",
    "runs_of",
    "truth_inside",
    "union_of",
]

Rows = list[dict[str, Any]]

_FALL, _RISE = "v < PREV(v)", "v > PREV(v)"
_TRUTH = {
    _FALL: binary("<", column("v"), previous("v")),
    _RISE: binary(">", column("v"), previous("v")),
    "TRUE": literal(True),
}


class HasTruth(Protocol):
    """Something that says what the predicates of a query mean."""

    @property
    def truth(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Case:
    """A query: what is looked for in the live stream and in its past, and how the two lie."""

    live: str
    past: str
    pattern: str
    more: str = ""
    within: str = "{0}"
    is_sequenced: bool = False  # whether a column orders events of one time

    def text(self, past: str, window: int, returns: str) -> str:
        """The query, with the past by this name."""
        streams = f"FROM {self.live} AS fall WITH {self.past.format(past=past)} AS rise"
        if self.is_sequenced:
            streams = streams.replace("ORDER BY ts", "ORDER BY ts, q")
        return (
            f"{streams} PARTITION BY k "
            f"DEFINE l AS fall.n > 0, a AS rise.n > {1 if self.more else 0} "
            f"PATTERN {self.pattern} WITHIN {self.within.format(window)} {returns}"
        )

    @property
    def truth(self) -> dict[str, Any]:
        """What the predicates mean, by the names of symbols."""
        least = literal(1 if self.more else 0)
        return {
            "l": binary(">", column("n"), literal(0)),
            "a": binary(">", column("n"), least),
            "fall": truth_inside(self.live),
            "rise": truth_inside(self.past),
        }


def truth_inside(text: str) -> dict[str, Any]:
    """The truth of the symbols of a query in brackets, by the words of its DEFINE."""
    define = text.split(" DEFINE ")[1]
    define = (
        define.split(" PATTERN ")[0] if "MATCH_RECOGNIZE" not in text else define.removesuffix(")")
    )
    found = {}
    for part in define.split(", "):
        name, predicate = part.split(" AS ")
        predicate = re.split(" AT LEAST | BRIDGING ", predicate)[0].strip()
        found[name.strip()] = _TRUTH.get(predicate) or parsed(predicate)
    return found


def runs_of(stream: str, predicate: str, more: str = "") -> str:
    return (
        f"(FROM {stream} ORDER BY ts{more} DEFINE s AS {predicate} PATTERN s WITHIN 6 "
        "RETURN COUNT(s) AS n)"
    )


def row_pattern(
    stream: str, pattern: str, define: str, skip: str = " AFTER MATCH SKIP TO NEXT ROW"
) -> str:
    return (
        f"{stream} MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n{skip} "
        f"PATTERN ({pattern}) WITHIN 5 DEFINE {define})"
    )


_TWO = (
    "(FROM {past} ORDER BY ts DEFINE s AS v > 1, t AS w > 1 "
    "PATTERN s overlaps; before; during t WITHIN 6 RETURN COUNT(s) AS n)"
)
CASES = {
    "falls after rises": Case(
        runs_of("trades", _FALL), runs_of("{past}", _RISE), "a before; meets; overlaps l"
    ),
    "two symbols": Case(runs_of("trades", "v > 1"), _TWO, "a before; meets; overlaps l"),
    "anyhow": Case(runs_of("trades", "w > 1"), runs_of("{past}", "v > 1 AT LEAST 2"),
                   "a before; contains; after; overlaps; finished-by l", "many"),
    "bridged runs": Case(
        runs_of("trades", "v > 1"),
        "(FROM {past} ORDER BY ts DEFINE s AS w > 2 BRIDGING 3, t AS v > 2 "
        "PATTERN s overlaps; contains; before; during t WITHIN 9 RETURN COUNT(s) AS n)",
        "a before; meets; overlaps l",
    ),
    "one bridged run": Case(
        runs_of("trades", _FALL),
        "(FROM {past} ORDER BY ts DEFINE s AS w > 1 BRIDGING 2 PATTERN s WITHIN 6 "
        "RETURN COUNT(s) AS n)", "a before; during; contains; overlapped-by l",
    ),
    "windows": Case(
        runs_of("trades", "v > 1"), _TWO.replace("WITHIN 6", "WITHIN 6 OF s, 4 OF t"),
        "a before; meets; overlaps; overlapped-by l", within="{0} OF l, 6 OF a",
    ),
    "gap": Case(runs_of("trades", "v > 1"), runs_of("{past}", "w > 1", " MAX GAP 3"),
                "a before; during; overlapped-by l"),
    "row pattern": Case(
        runs_of("trades", _FALL), row_pattern("{past}", "A B+", f"B AS {_RISE}"),
        "a before; meets; overlaps; contains l",
    ),
    "row patterns": Case(
        row_pattern("trades", "A B", f"B AS {_FALL}"), row_pattern("{past}", "A (B | C)+", "A AS v > 1, B AS w > 1, C AS v < 1"),
        "a before; meets; overlaps l",
    ),
    "past last row": Case(
        runs_of("trades", _FALL), row_pattern("{past}", "A B+", f"B AS {_RISE}", skip=""),
        "a before; meets; overlaps l",
    ),
}  # fmt: skip


def drawn_rows(rng: Random) -> Rows:
    """Rows of a few partitions, each of which has a row at most of its times."""
    keys = rng.choice([["x"], ["x", "y"], ["x", "y", None]])
    length = rng.randint(8, 26)
    times = [t * rng.choice([1, 1, 1, 2]) for t in range(length)]
    rows = []
    time = rng.choice([0, -7, 1000])
    for _ in times:
        time += rng.choice([1, 1, 1, 2, 5])
        rows += [
            {"ts": time, "k": key, "v": rng.randint(0, 3), "w": rng.randint(0, 3)}
            for key in keys
            if rng.random() < 0.8
        ]
    return rows


def frame_of(rows: Rows) -> pl.DataFrame:
    numbers = dict.fromkeys(("v", "w", "q"), pl.Int64)
    return pl.DataFrame(rows, schema={"ts": pl.Int64, "k": pl.String, **numbers})


@dataclass
class Pushes:
    """A session's life: what it starts with, and what each step pushes and does to the archive."""

    past: Rows
    steps: list[tuple[Rows, Rows]]  # pushed, and appended before
    window: int


def of_one_time(drawn: Pushes, coarse: int) -> Pushes:
    """The same rows in coarser time, in which many of a partition have one, and a column orders them."""

    def shown(rows: Rows) -> Rows:
        return [{**row, "ts": row["ts"] // coarse, "q": row["ts"]} for row in rows]

    steps = [(shown(pushed), shown(appended)) for pushed, appended in drawn.steps]
    return Pushes(shown(drawn.past), steps, drawn.window)


def row_key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a row from all others."""
    return row["ts"], row["k"], row.get("q")


def drawn_pushes(rng: Random) -> Pushes:
    rows = drawn_rows(rng)
    cut = rng.randint(0, len(rows))
    while 0 < cut < len(rows) and rows[cut]["ts"] == rows[cut - 1]["ts"]:
        cut += 1
    past, live = rows[:cut], rows[cut:]
    foreign = rng.choice([0.0, 0.0, 0.2, 0.5])
    late = [row for row in past if rng.random() < foreign]
    past = [row for row in past if row not in late]
    if rng.random() < 0.2:  # the archive knows rows that are still to come
        past += [row for row in live if rng.random() < 0.5]
    steps: list[tuple[Rows, Rows]] = []
    waiting: Rows = []
    size = rng.choice([1, 2, 5, 100])
    archived = {(row["ts"], row["k"]) for row in past}
    while live:
        n = rng.randint(1, size)
        while n < len(live) and live[n]["ts"] == live[n - 1]["ts"]:
            n += 1
        pushed, live = live[:n], live[n:]
        appended: Rows = []
        if rng.random() < 0.5:
            appended = [row for row in waiting if rng.random() < 0.8]
            waiting = [row for row in waiting if row not in appended]
        if late and rng.random() < 0.5:
            appended.append(late.pop(rng.randrange(len(late))))
        waiting += pushed
        appended = [row for row in appended if (row["ts"], row["k"]) not in archived]
        archived |= {(row["ts"], row["k"]) for row in appended}
        steps.append((pushed, appended))
    return Pushes(past, steps, rng.choice([4, 7, 15]))


def all_plans() -> Iterator[ps.LivePlan]:
    for order in ("eager", "live-first", "archive-first"):
        for cache in (True, False):
            yield ps.LivePlan(order, cache=cache)
    yield ps.LivePlan()


def expected_rows(
    case: HasTruth, query: Query, rows: Rows, live: Rows, since: int | None, until: int, ends: bool
) -> Rows:
    """What is reported in a span of time, its end not included but at the end of all."""
    seen = [row for row in rows if row["ts"] < until or ends]
    inputs = stream_oracle.Inputs(
        rows={"trades": [row for row in live if row["ts"] < until or ends], "past": seen},
        truth=case.truth,
        until=until,
    )
    return [
        row
        for row in stream_oracle.matches(query, inputs)
        if (since is None or report_of(row) >= since) and (report_of(row) < until or ends)
    ]


def report_of(row: dict[str, Any]) -> int:
    return int(next(row[name] for name in ("detected_at", "completed_at") if name in row))


def in_order(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(repr, row.values()))


@contextmanager
def archive_of(rows: Rows, rng: Random) -> Iterator[ps.Archive]:
    with tempfile.TemporaryDirectory() as folder:
        page = rng.choice([1, 3, 40])
        key = rng.choice(["k", None])
        lake = ps.archive(
            folder + "/trades", time="ts", key=key, page_rows=page, file_rows=page * 3
        )
        lake.append(frame_of([]))
        if rows:
            lake.append(frame_of(rows))
        yield lake


def check_session(
    case: HasTruth, query: Query, whole: Query, drawn: Pushes, lake: ps.Archive, plan: ps.LivePlan,
    restores: bool, closes: bool,
) -> int:  # fmt: skip
    """A session gives what the oracle finds, push by push; how many rows these are."""

    def opened(state: bytes | None = None) -> ps.Session:
        return query.open(state, archives={"trades": lake}, plan=plan)

    session = opened()
    archived, live = list(drawn.past), []
    since: int | None = None
    count = 0
    for number, (pushed, appended) in enumerate(drawn.steps):
        if appended:
            ps.archive(lake.path).append(frame_of(appended))
            archived += appended
        if restores and number == len(drawn.steps) // 2 and number:
            session = opened(session.snapshot())
        if number % 5 == 4:
            ps.archive(lake.path).compact()
        live += pushed
        until = max(row["ts"] for row in pushed)
        found = session.push(frame_of(pushed)).to_dicts()
        expected = expected_rows(case, whole, union_of(archived, live), live, since, until, False)
        assert sorted(found, key=in_order) == sorted(expected, key=in_order), (plan, number)
        since, count = until, count + len(expected)
    if closes and drawn.steps:
        found = session.close().to_dicts()
        assert since is not None
        expected = expected_rows(case, whole, union_of(archived, live), live, since, since, True)
        # nothing is known of what the archive says of times to come
        assert sorted(found, key=in_order) == sorted(expected, key=in_order), (plan, "close")
        count += len(expected)
    return count


def check_run(query: Query, whole: Query, drawn: Pushes, rng: Random) -> int:
    """A run over frames and an archive gives the rows of all rows; how many these are."""
    archived, live = _ever(drawn)
    expected = rows_of_all(whole, drawn)
    with archive_of(archived, rng) as lake:
        found = query.run({"trades": frame_of(live)}, archives={"trades": lake})
    assert found.schema == expected.schema
    assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), "run"
    return len(expected)


def rows_of_all(whole: Query, drawn: Pushes) -> pl.DataFrame:
    """The rows of a query over all rows that ever come."""
    archived, live = _ever(drawn)
    found: pl.DataFrame = whole.run(
        {"trades": frame_of(live), "past": frame_of(union_of(archived, live))}
    )
    return found


def _ever(drawn: Pushes) -> tuple[Rows, Rows]:
    """All rows that come to be in the archive, and all that are pushed."""
    archived = drawn.past + [row for _, appended in drawn.steps for row in appended]
    return archived, [row for pushed, _ in drawn.steps for row in pushed]


def union_of(archived: Rows, live: Rows) -> Rows:
    known = {row_key(row): row for row in [*archived, *live]}
    return sorted(known.values(), key=lambda row: (row["ts"], row.get("q", 0)))
