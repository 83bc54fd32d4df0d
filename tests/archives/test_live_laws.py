"""A query over live streams and an archive gives what it gives over all of their rows, in each plan.

The oracle enumerates: over the archive as it is at a push together with all that the session was
given, the rows that are reported between the watermark before the push and the one after it.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, live_plan, live_stream
from piestream.language.model import Query
from tests import stream_oracle
from tests.clock import Clock
from tests.oracle import Reported, given
from tests.truth import binary, column, literal, parsed, previous

_SEEDS = range(int(os.environ.get("PIESTREAM_LIVE_LAWS", "6")))

Rows = list[dict[str, Any]]

_FALL, _RISE = "v < PREV(v)", "v > PREV(v)"
_TRUTH = {
    _FALL: binary("<", column("v"), previous("v")),
    _RISE: binary(">", column("v"), previous("v")),
    "TRUE": literal(True),
}


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
            "fall": _inside(self.live),
            "rise": _inside(self.past),
        }


def _inside(text: str) -> dict[str, Any]:
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


def _runs(stream: str, predicate: str, more: str = "") -> str:
    return (
        f"(FROM {stream} ORDER BY ts{more} DEFINE s AS {predicate} PATTERN s WITHIN 6 "
        "RETURN COUNT(s) AS n)"
    )


def _rows(
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
_CASES = {
    "falls after rises": Case(
        _runs("trades", _FALL), _runs("{past}", _RISE), "a before; meets; overlaps l"
    ),
    "two symbols": Case(_runs("trades", "v > 1"), _TWO, "a before; meets; overlaps l"),
    "anyhow": Case(_runs("trades", "w > 1"), _runs("{past}", "v > 1 AT LEAST 2"),
                   "a before; contains; after; overlaps; finished-by l", "many"),
    "bridged runs": Case(
        _runs("trades", "v > 1"),
        "(FROM {past} ORDER BY ts DEFINE s AS w > 2 BRIDGING 3, t AS v > 2 "
        "PATTERN s overlaps; contains; before; during t WITHIN 9 RETURN COUNT(s) AS n)",
        "a before; meets; overlaps l",
    ),
    "one bridged run": Case(
        _runs("trades", _FALL),
        "(FROM {past} ORDER BY ts DEFINE s AS w > 1 BRIDGING 2 PATTERN s WITHIN 6 "
        "RETURN COUNT(s) AS n)", "a before; during; contains; overlapped-by l",
    ),
    "windows": Case(
        _runs("trades", "v > 1"), _TWO.replace("WITHIN 6", "WITHIN 6 OF s, 4 OF t"),
        "a before; meets; overlaps; overlapped-by l", within="{0} OF l, 6 OF a",
    ),
    "gap": Case(_runs("trades", "v > 1"), _runs("{past}", "w > 1", " MAX GAP 3"),
                "a before; during; overlapped-by l"),
    "row pattern": Case(
        _runs("trades", _FALL), _rows("{past}", "A B+", f"B AS {_RISE}"),
        "a before; meets; overlaps; contains l",
    ),
    "row patterns": Case(
        _rows("trades", "A B", f"B AS {_FALL}"), _rows("{past}", "A (B | C)+", "A AS v > 1, B AS w > 1, C AS v < 1"),
        "a before; meets; overlaps l",
    ),
    "past last row": Case(
        _runs("trades", _FALL), _rows("{past}", "A B+", f"B AS {_RISE}", skip=""),
        "a before; meets; overlaps l",
    ),
}  # fmt: skip


def _drawn(rng: Random) -> Rows:
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


def _frame(rows: Rows) -> pl.DataFrame:
    numbers = dict.fromkeys(("v", "w", "q"), pl.Int64)
    return pl.DataFrame(rows, schema={"ts": pl.Int64, "k": pl.String, **numbers})


@dataclass
class Pushes:
    """A session's life: what it starts with, and what each step pushes and does to the archive."""

    past: Rows
    steps: list[tuple[Rows, Rows]]  # pushed, and appended before
    window: int


def _of_one_time(drawn: Pushes, coarse: int) -> Pushes:
    """The same rows in coarser time, in which many of a partition have one, and a column orders them."""

    def shown(rows: Rows) -> Rows:
        return [{**row, "ts": row["ts"] // coarse, "q": row["ts"]} for row in rows]

    steps = [(shown(pushed), shown(appended)) for pushed, appended in drawn.steps]
    return Pushes(shown(drawn.past), steps, drawn.window)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a row from all others."""
    return row["ts"], row["k"], row.get("q")


def _pushes(rng: Random) -> Pushes:
    rows = _drawn(rng)
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


def _plans() -> Iterator[ps.LivePlan]:
    for order in ("eager", "live-first", "archive-first"):
        for cache in (True, False):
            yield ps.LivePlan(order, cache=cache)
    yield ps.LivePlan()


def _expected(
    case: Case, query: Query, rows: Rows, live: Rows, since: int | None, until: int, ends: bool
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
        if (since is None or _report(row) >= since) and (_report(row) < until or ends)
    ]


def _report(row: dict[str, Any]) -> int:
    return int(next(row[name] for name in ("detected_at", "completed_at") if name in row))


def _order(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(map(repr, row.values()))


@contextmanager
def _lake(rows: Rows, rng: Random) -> Iterator[ps.Archive]:
    with tempfile.TemporaryDirectory() as folder:
        page = rng.choice([1, 3, 40])
        key = rng.choice(["k", None])
        lake = ps.archive(
            folder + "/trades", time="ts", key=key, page_rows=page, file_rows=page * 3
        )
        lake.append(_frame([]))
        if rows:
            lake.append(_frame(rows))
        yield lake


@pytest.fixture(autouse=True)
def _no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # nothing crashes here


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("is_sequenced", [False, True], ids=["by time", "events of one time"])
def test_each_push_gives_what_all_rows_of_the_archive_and_the_session_give(
    seed: int, name: str, is_sequenced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(f"{name} {seed}")
    case, drawn = _CASES[name], _pushes(rng)
    if is_sequenced:
        case = replace(case, is_sequenced=True)
        drawn = _of_one_time(drawn, rng.choice([2, 3]))
    monkeypatch.setattr(live_stream, "LEAST_ROWS", 1)
    monkeypatch.setattr(live_stream, "ROWS_BETWEEN", rng.choice([3, 1000]))
    monkeypatch.setattr(live_plan, "LEAST_ROWS", rng.choice([2, 1000]))
    emitted = rng.choice(["", "", "EMIT ON COMPLETION", "EMIT ON BOTH"])
    returns = f"{emitted} RETURN l.ts AS lts, l.te AS lte, a.ts AS ats, a.te AS ate, a.n AS n"
    query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, returns))
    whole = ps.query(case.text("past", drawn.window, returns))
    plans = list(_plans())
    restores, closes = rng.random() < 0.3, rng.random() < 0.8
    for plan in plans if seed % 4 == 0 else [rng.choice(plans)]:
        with _lake(drawn.past, rng) as lake:
            _check(case, query, whole, drawn, lake, plan, restores, closes)


_EMITTED = (
    *("",) * 6, "EMIT ON COMPLETION", "EMIT ON BOTH", "LIMIT 2", "COOLDOWN 4", "NO OVERLAP",
    "ONCE PER l", "ONCE PER a COOLDOWN 2",
)  # fmt: skip


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("is_sequenced", [False, True], ids=["by time", "events of one time"])
def test_a_run_reads_archives_around_live_matches_and_gives_the_rows_of_all(
    name: str, is_sequenced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = replace(_CASES[name], is_sequenced=is_sequenced)
    for seed in _SEEDS:
        rng = Random(f"run {name} {seed}")
        drawn = _pushes(rng)
        if is_sequenced:
            drawn = _of_one_time(drawn, rng.choice([2, 3]))
        monkeypatch.setattr(costs, "MOST_COST", rng.choice([0.0, 1e9, 1e9]))
        returns = f"{rng.choice(_EMITTED)} RETURN l.ts, l.te, a.ts, a.te, a.n"
        query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, returns))
        whole = ps.query(case.text("past", drawn.window, returns))
        archived = drawn.past + [row for _, appended in drawn.steps for row in appended]
        live = [row for pushed, _ in drawn.steps for row in pushed]
        expected = whole.run(
            {"trades": _frame(live), "past": _frame(_union(archived, live))},
        )
        with _lake(archived, rng) as lake:
            found = query.run({"trades": _frame(live)}, archives={"trades": lake})
        assert found.schema == expected.schema
        assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), seed


#: Cases in which no two matches have the same starts, so that their order is certain.
_ORDERED = ("falls after rises", "anyhow", "gap", "one bridged run")
_LIMITS = (
    "LIMIT 2", "COOLDOWN 3", "NO OVERLAP", "COOLDOWN 1 LIMIT 3", "NO OVERLAP COOLDOWN 2",
    "ONCE PER l", "ONCE PER a", "ONCE PER a, l COOLDOWN 1", "ONCE PER a LIMIT 2",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(2 * len(_SEEDS)))
def test_a_session_gives_what_its_limits_leave_of_all_matches_that_it_finds(seed: int) -> None:
    rng = Random(f"limits {seed}")
    case, drawn = _CASES[rng.choice(_ORDERED)], _pushes(rng)
    where = rng.choice(["", "", "WHERE l.n < 3", "EMIT ON BOTH"])
    text = f"{where} {{}} RETURN l.ts AS lts, l.te AS lte, l.n AS ln, a.ts AS ats, a.te AS ate"
    phases = 2 if where == "EMIT ON BOTH" else 1
    query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, text.format(rng.choice(_LIMITS))))
    every = ps.query(case.text("ARCHIVE 'trades'", drawn.window, text.format("")))
    restores = rng.random() < 0.4
    with _lake(drawn.past, rng) as lake:
        limited, whole = (
            one.open(archives={"trades": lake}, plan=rng.choice(list(_plans())))
            for one in (query, every)
        )
        reported: dict[Any, list[Reported[dict[str, Any]]]] = {}
        for number, (pushed, appended) in enumerate(drawn.steps):
            ps.archive(lake.path).append(_frame(appended))
            found = limited.push(_frame(pushed)).to_dicts()
            expected = []
            for row in whole.push(_frame(pushed)).to_dicts():
                if row.get("phase") == "completion":
                    continue
                own = reported.setdefault(row["k"], [])
                # with another end, because of rows that came late, it is another interval
                starts = {
                    "l": (row["lts"], row["lte"], row["ln"]), "a": (row["ats"], row["ate"])
                }  # fmt: skip
                own.append(Reported(row["detected_at"], starts, row, (row["detected_at"],)))
                if given(query, Clock(), own)[-1:] == own[-1:]:
                    expected += [row, {**row, "phase": "completion"}][:phases]
            assert sorted(found, key=_order) == sorted(expected, key=_order), number
            if restores and number % 3 == 2:
                limited = query.open(limited.snapshot(), archives={"trades": lake})


@pytest.mark.parametrize("name", _CASES)
def test_limits_leave_the_same_rows_in_each_plan_and_in_a_run(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = _CASES[name]
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    for seed in range(max(len(_SEEDS) // 2, 1)):
        rng = Random(f"cells {name} {seed}")
        drawn = _pushes(rng)
        both = rng.choice(["", "EMIT ON BOTH"])
        text = (
            f"{both} {rng.choice(_LIMITS)} RETURN l.ts AS lts, a.ts AS ats, a.te AS ate, a.n AS n"
        )
        query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, text))
        whole = ps.query(case.text("past", drawn.window, text))
        live = [row for pushed, _ in drawn.steps for row in pushed]
        if not live:
            continue
        with _lake(drawn.past, rng) as lake:
            known = {(row["ts"], row["k"]) for row in drawn.past}
            past = [*drawn.past, *(row for row in live if (row["ts"], row["k"]) not in known)]
            expected = whole.run({"trades": _frame(live), "past": _frame(past)}).sort(
                "k", "detected_at", maintain_order=True
            )
            for plan in [*rng.sample(list(_plans()), 2), None]:
                if plan is None:
                    found = query.run({"trades": _frame(live)}, archives={"trades": lake})
                else:
                    session = query.open(archives={"trades": lake}, plan=plan)
                    pushes = [session.push(_frame(pushed)) for pushed, _ in drawn.steps]
                    found = pl.concat([*pushes, session.close()])
                assert (
                    found.sort("k", "detected_at", maintain_order=True).rows() == expected.rows()
                ), (seed, plan)


def _check(
    case: Case, query: Query, whole: Query, drawn: Pushes, lake: ps.Archive, plan: ps.LivePlan,
    restores: bool, closes: bool,
) -> None:  # fmt: skip
    def opened(state: bytes | None = None) -> ps.Session:
        return query.open(state, archives={"trades": lake}, plan=plan)

    session = opened()
    archived, live = list(drawn.past), []
    since: int | None = None
    for number, (pushed, appended) in enumerate(drawn.steps):
        if appended:
            ps.archive(lake.path).append(_frame(appended))
            archived += appended
        if restores and number == len(drawn.steps) // 2 and number:
            session = opened(session.snapshot())
        if number % 5 == 4:
            ps.archive(lake.path).compact()
        live += pushed
        until = max(row["ts"] for row in pushed)
        found = session.push(_frame(pushed)).to_dicts()
        expected = _expected(case, whole, _union(archived, live), live, since, until, False)
        assert sorted(found, key=_order) == sorted(expected, key=_order), (plan, number)
        since = until
    if closes and drawn.steps:
        found = session.close().to_dicts()
        assert since is not None
        expected = _expected(case, whole, _union(archived, live), live, since, since, True)
        # nothing is known of what the archive says of times to come
        assert sorted(found, key=_order) == sorted(expected, key=_order), (plan, "close")


def _union(archived: Rows, live: Rows) -> Rows:
    known = {_key(row): row for row in [*archived, *live]}
    return sorted(known.values(), key=lambda row: (row["ts"], row.get("q", 0)))
