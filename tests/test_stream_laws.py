"""Laws of queries over several streams: every way in says what the oracle says.

A failure prints the whole scenario. ``python -m tests.shrink SEED KINDS ENGINE`` makes it small and
writes it as a case folder.
"""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

import piestream as ps
from tests.engines import by_partition
from tests.mixed_streams import fed, mixed_streams
from tests.stream_scenario import (
    ENGINES,
    KINDS,
    CombinedScenario,
    closing_scenario,
    combined_scenario,
    counting_scenario,
)
from tests.stream_shrink import disagreement

#: Scenarios that take long to draw are fewer.
_FEWER = {"patterns": 4}


def check(engine: str, drawn: CombinedScenario, seed: int) -> None:
    """Fails with everything that is needed to see it again."""
    try:
        why = disagreement(engine, drawn, seed)
    except Exception as error:
        error.add_note(f"\n{engine} on {drawn}\n")
        raise
    if why is not None:
        pytest.fail(f"\n{engine} on {drawn}\n{why}\n", pytrace=False)


# The engines of one kind come one after the other: its scenarios, and what is expected, are found once.
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kinds", KINDS)
def test_every_way_in_says_what_the_oracle_says(
    engine: str, kinds: str, few_seeds: list[int]
) -> None:
    for seed in few_seeds[: len(few_seeds) // _FEWER.get(kinds, 1)]:
        is_mixed = kinds == "all" and seed % 8 == 1
        drawn = mixed_streams(seed) if is_mixed else combined_scenario(seed, KINDS[kinds])
        check(engine, fed(engine, drawn), seed)


@pytest.mark.parametrize("engine", ["frame", "session", "event restored", "disordered restored"])
@pytest.mark.parametrize("kinds", ["events", "all"])
def test_every_way_in_counts_the_events_of_a_stream(
    engine: str, kinds: str, few_seeds: list[int]
) -> None:
    for seed in few_seeds:
        drawn = counting_scenario(seed, KINDS[kinds])
        check(engine, drawn, seed)
        if kinds == "events" or engine == "frame":
            check(engine, drawn.having(at_end="close"), seed)


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [
        (engine, kinds)
        for kinds in KINDS
        for engine in ("frame", "session", "disordered restored")
        if engine == "frame" or kinds in ("events", "rows", "identified", "known")
    ],
)
def test_every_way_in_closes_what_is_open_as_the_oracle_does(
    engine: str, kinds: str, few_seeds: list[int]
) -> None:
    for seed in few_seeds[: len(few_seeds) // _FEWER.get(kinds, 1)]:
        check(engine, closing_scenario(seed, KINDS[kinds]), seed)


def test_rows_without_an_end_are_in_matches_when_they_are_closed() -> None:
    closed = [closing_scenario(seed, KINDS["identified"]) for seed in range(30)]
    added = [len(c.expected()) - len(c.having(at_end="open").expected()) for c in closed]
    assert sum(n > 0 for n in added) >= 5


@pytest.mark.parametrize("kinds", KINDS)
def test_the_scenarios_are_worth_trying(kinds: str) -> None:
    drawn = [combined_scenario(seed, KINDS[kinds]) for seed in range(30)]
    assert sum(bool(one.expected()) for one in drawn) >= 5


def test_a_result_is_in_order_of_its_reports(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = combined_scenario(seed, KINDS["events"])
        found = ENGINES["session"](drawn, Random(seed))
        for rows in by_partition(found, drawn.keys).values():
            times = [row.get("detected_at", row.get("completed_at")) for row in rows]
            assert times == sorted(times)


def test_instants_in_order_are_a_sequence(few_seeds: list[int]) -> None:
    """ISEQ over point events is a sequence operator: an instant t is the interval [2t, 2t + 1)."""
    met = 0
    for seed in few_seeds:
        rng = Random(f"sequence {seed}")
        points = [(rng.choice("abc"), rng.randint(0, 30)) for _ in range(rng.randint(3, 20))]
        within = rng.randint(1, 12)
        of = {kind: [t for one, t in points if one == kind] for kind in "abc"}
        expected = sorted(
            (x, y, z)
            for x in of["a"]
            for y in of["b"]
            for z in of["c"]
            if x < y < z and z - x <= within
        )
        pattern = rng.choice(("a.te < b.ts AND b.te < c.ts", "a before b AND b before c"))
        ends = rng.choice(("", " KNOWN AT START"))
        rows = [{"kind": kind, "ts": 2 * t, "te": 2 * t + 1} for kind, t in points]
        query = ps.query(
            f"FROM ev FROM ts TO te{ends} DEFINE a AS kind = 'a', b AS kind = 'b', c AS kind = 'c' "
            f"PATTERN {pattern} WITHIN {2 * within + 1} EMIT ON COMPLETION RETURN a.ts, b.ts, c.ts"
        )
        rng.shuffle(rows)
        found = query.run(pl.DataFrame(rows))
        got = [tuple(row[n] // 2 for n in ("a_ts", "b_ts", "c_ts")) for row in found.to_dicts()]
        assert sorted(got) == expected, seed
        met += len(expected)
    assert met or few_seeds[0]
