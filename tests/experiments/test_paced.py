"""Events that fall due at a rate: every method gives what it gives without, and queues count."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from experiments.comparisons.paced import FRAMES, NOTHING, SESSION, Fed, feeding, lateness
from experiments.comparisons.rates import EXPERIMENT, METHODS, keeps_up
from experiments.harness.measure import Row
from experiments.pace import DONE, DUE, even_pace
from experiments.peers import OURS, run, sorted_matches
from experiments.peers.pattern import Pattern
from experiments.streams import BEFORE_OVERLAPS, Case, synthetic

BEFORE, EVENTS = 500, 1_000


@cache
def case() -> Case:
    return synthetic(Pattern(3, BEFORE_OVERLAPS, 1_000), BEFORE + EVENTS + 150)


@cache
def fed(peer: str, rate: float = 1e9) -> Row:
    return feeding(case(), peer, rate, BEFORE, EVENTS, 1)()


@pytest.mark.parametrize("peer", ["tpstream", "tpstream-published", "piestream-paper", "iseq"])
def test_a_pace_changes_no_match_and_no_event_is_taken_before_it_is_due(peer: str) -> None:
    pace = even_pace(EVENTS + 150, 100_000, BEFORE)
    found = run(peer, case().pattern, *case().bits, pace=pace).matches
    expected = run(peer, case().pattern, *case().bits).matches
    assert len(found) > 10
    assert np.array_equal(sorted_matches(found), sorted_matches(expected))
    done = pace[DONE, BEFORE:]
    assert (done >= pace[DUE, BEFORE:]).all()
    assert (np.diff(done) >= 0).all()


AT_ONCE = (SESSION, FRAMES, OURS, "tpstream-published", "piestream-paper")


@pytest.mark.parametrize("peer", AT_ONCE)
def test_methods_that_report_at_the_deciding_event_count_alike(peer: str) -> None:
    for rate in (100_000, 1e9):
        mine, other = fed(peer, rate), fed("tpstream")
        assert (mine["matches"], mine["deciding"]) == (other["matches"], other["deciding"])
    assert fed(peer)["matches"] > 10


def test_who_waits_for_the_end_is_late_by_at_least_the_events_till_then() -> None:
    pattern, (times, masks) = case().pattern, case().bits
    earliest = run("tpstream", pattern, times, masks).matches
    first = {tuple(starts): report for report, *starts in earliest}
    waits = sorted(
        report - first[tuple(starts)]
        for report, *starts in run("iseq", pattern, times, masks).matches
        if times[BEFORE] <= first[tuple(starts)] < times[BEFORE + EVENTS]
    )
    rate = 50_000
    assert fed("iseq", rate)["matches"] == len(waits) > 10
    assert fed("iseq", rate)["p50"] >= waits[(len(waits) - 1) // 2] / rate > 0


def test_what_waits_in_the_queue_is_late_from_when_it_was_due() -> None:
    """Events due at 0, 10, 20 and 30; the first takes 100, the others 1 each: all of them are late."""
    pace = np.array([[0, 10, 20, 30], [100, 101, 102, 103]])
    row = lateness(Fed.at_once(pace, np.array([1, 2, 2, 3])), 0, 4)
    late = {name: round(row[name] * 1e9) for name in ("p50", "p99", "worst", "behind")}
    assert late == {"p50": 82, "p99": 91, "worst": 91, "behind": 73}
    assert (row["matches"], row["deciding"]) == (4, 3)
    assert not keeps_up({**row, "rate": 1e8})
    assert keeps_up({**row, "rate": 3e7})


def test_only_what_the_counted_events_decide_counts() -> None:
    pace = np.array([[0, 10, 20, 30], [1, 12, 23, 34]])
    row = lateness(Fed.at_once(pace, np.array([0, 0, 1, 2, 3])), 1, 2)
    assert (row["matches"], row["worst"]) == (2, 3e-9)
    assert "p50" not in lateness(Fed.at_once(pace, np.array([0])), 1, 2)


def test_no_method_sees_every_event() -> None:
    assert fed(NOTHING)["matches"] == EVENTS


def test_the_table_says_what_is_got_through_where_that_is_too_little() -> None:
    rows = [
        {"rate": 10, "peer": peer, "events": 9, "matches": 3, "deciding": 1, "achieved": 10.0,
         "p50": 1e-6, "p99": 0.25}
        for peer in METHODS
    ]  # fmt: skip
    rows[1]["achieved"] = 5.0
    rows[-1]["p50"] = 2.0
    line = EXPERIMENT.tables(rows).splitlines()[-1].split(" | ")
    assert line[5] == "(5/s)"
    assert line[6] == "1 µs / 250 ms"
    conclusions = EXPERIMENT.conclusions(rows)
    assert "20 events later" in conclusions
    assert "Median below that of *piestream*: none." in conclusions
    rows[METHODS.index("tpstream")]["p50"] = 1e-9
    assert "Median below that of *piestream*: TPStream, corrected" in EXPERIMENT.conclusions(rows)
