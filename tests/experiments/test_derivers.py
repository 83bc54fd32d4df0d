"""The quick derivers give what looking at every event gives, of packed bits and of raw frames."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

from experiments.peers import BITS, FRAME, PEERS, prepared, trials
from experiments.peers.forms import EVENTS, tables
from experiments.peers.parts.derivers import Bits, changes_of_bits, runs_of_bits
from experiments.peers.parts.interval_rows import interval_rows
from experiments.peers.pattern import Ints, Pattern
from experiments.peers.peer import Matcher
from experiments.streams import Case, of_bits
from experiments.streams.cases import columns_of
from piestream.relations import Relation
from tests.experiments import brute

GIVEN = Pattern(3, ((0, 1, Relation.BEFORE | Relation.OVERLAPS), (1, 2, Relation.BEFORE)), 60)


def runs(times: Ints, masks: Ints, bit: int) -> list[tuple[int, int | None]]:
    """The runs of a bit, one event after another."""
    found: list[tuple[int, int | None]] = []
    for time, mask in zip(times.tolist(), masks.tolist(), strict=True):
        is_open = bool(found) and found[-1][1] is None
        if mask >> bit & 1 and not is_open:
            found.append((time, None))
        elif not mask >> bit & 1 and is_open:
            found[-1] = (found[-1][0], time)
    return found


@pytest.mark.parametrize("symbols", [1, 9])
@pytest.mark.parametrize("events", [0, 1, 63, 64, 65, 1_000])
def test_changes_are_the_events_whose_mask_is_another(events: int, symbols: int) -> None:
    times, masks = brute.stream(Random(events), symbols, events)
    bits = Bits.of(times, masks, symbols)
    changes = changes_of_bits(bits)
    before = np.append(0, masks[:-1])[:events]
    assert changes.times.tolist() == times[masks != before].tolist()
    assert changes.masks.tolist() == masks[masks != before].tolist()
    assert changes.events == events
    for bit, found in enumerate(runs_of_bits(bits)):
        ends = [None if end == np.iinfo(np.int64).max else end for end in found.te.tolist()]
        assert list(zip(found.ts.tolist(), ends, strict=True)) == runs(times, masks, bit)


def test_an_event_at_which_a_run_has_lasted_long_enough_is_kept() -> None:
    for seed in range(20):
        times, masks = brute.stream(Random(seed), 2, 150)
        given = Pattern(2, ((0, 1, Relation.OVERLAPS | Relation.DURING),), 50, at_least=(4, 7))
        matcher = PEERS["tpstream"].prepare(given)
        every = Matcher(matcher.match, EVENTS).over(times, masks)()
        assert np.array_equal(matcher.over(times, masks)().matches, every.matches)


def mixed(seed: int, partitions: int, key: str = "key") -> Case:
    """The streams of many partitions in one frame, in order of time; some begin late, or are empty of runs."""
    frames = []
    for at in range(partitions):
        times, masks = brute.stream(Random(1000 * seed + at), 3, 60)
        masks = masks * (at % 3 > 0)
        frame = of_bits(GIVEN, times + 7 * at, masks).frame
        frames.append(frame.with_columns(pl.lit(5 * at - 3).alias(key)))
    frame = pl.concat(frames).sort("ts", maintain_order=True)
    return Case(GIVEN, frame, columns_of(GIVEN), key=key)


@pytest.mark.parametrize(
    "name",
    ["tpstream", "tpstream-published", "piestream-paper-changes", "iseq", "duckdb", "polars"],
)
def test_partitions_have_the_matches_that_each_has_by_itself(name: str) -> None:
    case = mixed(1, 7)
    matcher = PEERS[name].prepare(GIVEN)
    alone = 0
    for (_,), rows in case.frame.group_by("key"):
        alone += matcher.on_frame(Case(GIVEN, rows, columns_of(GIVEN)))().count
    assert alone > 20
    assert matcher.on_frame(case)().count == alone
    assert matcher.over(*case.bits, case.apart)().count == alone
    assert matcher.on_frame(case)().counters["events"] == case.events


def test_the_key_of_an_interval_in_a_table_is_its_partition() -> None:
    case = mixed(1, 7)
    form = tables(GIVEN)
    loaded = form.load(*case.bits, case.apart)
    runs_of: dict[int, int] = {}
    for (key,), rows in case.frame.group_by("key"):
        times, masks = Case(GIVEN, rows, columns_of(GIVEN)).derive()
        runs_of[key] = len(runs(times, masks, 0))
    expected = [runs_of[key] for key in sorted(runs_of) if runs_of[key]]
    assert len(expected) == 4
    for given in (form.of_bits(loaded), form.of_case(case)):
        first = interval_rows(given, GIVEN, open_too=True)[0]
        assert first["k"].rle().struct.field("len").to_list() == expected


def test_a_null_is_false_and_a_slice_of_a_frame_is_read_from_its_first_row() -> None:
    frame = pl.DataFrame({"ts": range(100), "a1": [None, True, True, False] * 25})
    whole = Case(Pattern(1, (), 9), frame, ("a1",))
    for first in (0, 3, 8):
        case = whole.between(first, 100)
        times, masks = case.derive()
        expected = changes_of_bits(Bits.of(times, masks, 1))
        found = case.changes()
        assert found.times.tolist() == expected.times.tolist()
        assert found.masks.tolist() == expected.masks.tolist()


def test_more_than_eight_predicates_go_into_one_mask() -> None:
    given = Pattern.chain(11, 30)
    times, masks = brute.stream(Random(4), 11, 90)
    case = of_bits(given, times, masks)
    assert case.derive()[1].tolist() == masks.tolist()
    keyed = Case(given, case.frame.with_columns(key=pl.lit(1)), case.predicates, key="key")
    apart = changes_of_bits(Bits.of(times, masks, 11)).masks.tolist()
    assert keyed.changes().masks.tolist() == [*apart, 0]


def test_of_several_plans_the_quickest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    peer = PEERS["polars"]

    def least(run: object) -> float:
        tried.append("trial")
        return float(len(tried) % 2)  # the second plan of each round is the quicker one

    monkeypatch.setattr(trials, "_least", least)
    monkeypatch.setattr(trials, "_FEWEST", 4)
    case = of_bits(GIVEN, *brute.stream(Random(2), 3, 300))
    assert trials.quickest(case, peer, FRAME, {}) == {"order": "rarest first"}
    assert len(tried) == 2  # the other one is out after the first round, of three
    monkeypatch.setattr(trials, "_least", lambda run: tried.append("even") or 1.0)  # type: ignore[func-returns-value]
    assert trials.quickest(case, peer, FRAME, {}) == {"order": "written"}
    assert tried[2:] == ["even"] * 6
    assert prepared(case, "polars", BITS)().plan == "written"


def test_a_short_trial_is_repeated_and_its_least_time_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 0.04, 1.0, 1.01, 2.0, 2.09, 5.0, 6.0])
    monkeypatch.setattr(trials, "process_time", lambda: next(clock))
    runs: list[str] = []
    assert trials._least(lambda: runs.append("run")) == pytest.approx(0.01)  # type: ignore[arg-type, func-returns-value, return-value]
    assert len(runs) == 3
    assert trials._least(lambda: runs.append("long")) == 1.0  # type: ignore[arg-type, func-returns-value, return-value]
    assert runs[3:] == ["long"]
