"""A query over live streams and an archive gives what it gives over all of their rows, in each plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, live_plan, live_stream
from tests.archives.live_scenarios import (
    CASES,
    all_plans,
    archive_of,
    check_session,
    drawn_pushes,
    frame_of,
    in_order,
    of_one_time,
    union_of,
)
from tests.clock import Clock
from tests.oracle import Reported, given


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_sequenced", [False, True], ids=["by time", "events of one time"])
def test_each_push_gives_what_all_rows_of_the_archive_and_the_session_give(
    seeds_in_all: Callable[[int], list[int]], name: str, is_sequenced: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for seed in seeds_in_all(2):
        _check_pushes(seed, name, is_sequenced, monkeypatch)


def _check_pushes(
    seed: int, name: str, is_sequenced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(f"{name} {seed}")
    case, drawn = CASES[name], drawn_pushes(rng)
    if is_sequenced:
        case = replace(case, is_sequenced=True)
        drawn = of_one_time(drawn, rng.choice([2, 3]))
    monkeypatch.setattr(live_stream, "LEAST_ROWS", 1)
    monkeypatch.setattr(live_stream, "ROWS_BETWEEN", rng.choice([3, 1000]))
    monkeypatch.setattr(live_plan, "LEAST_ROWS", rng.choice([2, 1000]))
    emitted = rng.choice(["", "", "EMIT ON COMPLETION", "EMIT ON BOTH"])
    returns = f"{emitted} RETURN l.ts AS lts, l.te AS lte, a.ts AS ats, a.te AS ate, a.n AS n"
    query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, returns))
    whole = ps.query(case.text("past", drawn.window, returns))
    plans = list(all_plans())
    restores, closes = rng.random() < 0.3, rng.random() < 0.8
    for plan in plans if seed % 4 == 3 else [rng.choice(plans)]:
        with archive_of(drawn.past, rng) as lake:
            check_session(case, query, whole, drawn, lake, plan, restores, closes)


_EMITTED = (
    *("",) * 6, "EMIT ON COMPLETION", "EMIT ON BOTH", "LIMIT 2", "COOLDOWN 4", "NO OVERLAP",
    "ONCE PER l", "ONCE PER a COOLDOWN 2",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_sequenced", [False, True], ids=["by time", "events of one time"])
def test_a_run_reads_archives_around_live_matches_and_gives_the_rows_of_all(
    seeds_in_all: Callable[[int], list[int]], name: str, is_sequenced: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    case = replace(CASES[name], is_sequenced=is_sequenced)
    for seed in seeds_in_all(4):
        rng = Random(f"run {name} {seed}")
        drawn = drawn_pushes(rng)
        if is_sequenced:
            drawn = of_one_time(drawn, rng.choice([2, 3]))
        monkeypatch.setattr(costs, "MOST_COST", rng.choice([0.0, 1e9, 1e9]))
        returns = f"{rng.choice(_EMITTED)} RETURN l.ts, l.te, a.ts, a.te, a.n"
        query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, returns))
        whole = ps.query(case.text("past", drawn.window, returns))
        archived = drawn.past + [row for _, appended in drawn.steps for row in appended]
        live = [row for pushed, _ in drawn.steps for row in pushed]
        expected = whole.run(
            {"trades": frame_of(live), "past": frame_of(union_of(archived, live))},
        )
        with archive_of(archived, rng) as lake:
            found = query.run({"trades": frame_of(live)}, archives={"trades": lake})
        assert found.schema == expected.schema
        assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), seed


#: Cases in which no two matches have the same starts, so that their order is certain.
_ORDERED = ("falls after rises", "anyhow", "gap", "one bridged run")
_LIMITS = (
    "LIMIT 2", "COOLDOWN 3", "NO OVERLAP", "COOLDOWN 1 LIMIT 3", "NO OVERLAP COOLDOWN 2",
    "ONCE PER l", "ONCE PER a", "ONCE PER a, l COOLDOWN 1", "ONCE PER a LIMIT 2",
)  # fmt: skip


def test_a_session_gives_what_its_limits_leave_of_all_matches_that_it_finds(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    for seed in seeds_in_all(8):
        _check_limits(seed)


def _check_limits(seed: int) -> None:
    rng = Random(f"limits {seed}")
    case, drawn = CASES[rng.choice(_ORDERED)], drawn_pushes(rng)
    where = rng.choice(["", "", "WHERE l.n < 3", "EMIT ON BOTH"])
    text = f"{where} {{}} RETURN l.ts AS lts, l.te AS lte, l.n AS ln, a.ts AS ats, a.te AS ate"
    phases = 2 if where == "EMIT ON BOTH" else 1
    query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, text.format(rng.choice(_LIMITS))))
    every = ps.query(case.text("ARCHIVE 'trades'", drawn.window, text.format("")))
    restores = rng.random() < 0.4
    with archive_of(drawn.past, rng) as lake:
        limited, whole = (
            one.open(archives={"trades": lake}, plan=rng.choice(list(all_plans())))
            for one in (query, every)
        )
        reported: dict[Any, list[Reported[dict[str, Any]]]] = {}
        for number, (pushed, appended) in enumerate(drawn.steps):
            ps.archive(lake.path).append(frame_of(appended))
            found = limited.push(frame_of(pushed)).to_dicts()
            expected = []
            for row in whole.push(frame_of(pushed)).to_dicts():
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
            assert sorted(found, key=in_order) == sorted(expected, key=in_order), number
            if restores and number % 3 == 2:
                limited = query.open(limited.snapshot(), archives={"trades": lake})


@pytest.mark.parametrize("name", CASES)
def test_limits_leave_the_same_rows_in_each_plan_and_in_a_run(
    seeds_in_all: Callable[[int], list[int]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    for seed in seeds_in_all(2):
        rng = Random(f"cells {name} {seed}")
        drawn = drawn_pushes(rng)
        both = rng.choice(["", "EMIT ON BOTH"])
        text = (
            f"{both} {rng.choice(_LIMITS)} RETURN l.ts AS lts, a.ts AS ats, a.te AS ate, a.n AS n"
        )
        query = ps.query(case.text("ARCHIVE 'trades'", drawn.window, text))
        whole = ps.query(case.text("past", drawn.window, text))
        live = [row for pushed, _ in drawn.steps for row in pushed]
        if not live:
            continue
        with archive_of(drawn.past, rng) as lake:
            known = {(row["ts"], row["k"]) for row in drawn.past}
            past = [*drawn.past, *(row for row in live if (row["ts"], row["k"]) not in known)]
            expected = whole.run({"trades": frame_of(live), "past": frame_of(past)}).sort(
                "k", "detected_at", maintain_order=True
            )
            for plan in [*rng.sample(list(all_plans()), 2), None]:
                if plan is None:
                    found = query.run({"trades": frame_of(live)}, archives={"trades": lake})
                else:
                    session = query.open(archives={"trades": lake}, plan=plan)
                    pushes = [session.push(frame_of(pushed)) for pushed, _ in drawn.steps]
                    found = pl.concat([*pushes, session.close()])
                assert (
                    found.sort("k", "detected_at", maintain_order=True).rows() == expected.rows()
                ), (seed, plan)
