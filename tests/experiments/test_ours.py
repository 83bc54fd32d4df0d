"""piestream as one of the methods, and the streams that all are given."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import engine
from experiments.benchmarks.common import running
from experiments.comparisons import memory, plans
from experiments.harness.sweep import LOOK
from experiments.peers import BITS, FRAME, OURS, PEERS, forms, prepared, run, sorted_matches
from experiments.peers.parts.derivers import packed
from experiments.peers.pattern import Ints, Pattern
from experiments.streams import booleans, of_bits, one_after_another, query_of, restless
from piestream.engine.adaption import JoinOrderAdaption
from piestream.engine.detector import Detector
from piestream.plan.join_order import Estimate
from piestream.relations import Relation


def test_piestream_has_the_matches_of_its_peers_in_one_piece_and_in_many() -> None:
    pattern = Pattern(
        3,
        ((0, 1, Relation.OVERLAPS | Relation.DURING), (1, 2, Relation.BEFORE)),
        200,
        at_least=(2, 0, 0),
        at_most=(None, 30, None),
    )
    case = of_bits(pattern, *restless(3, 500, seed=2))
    expected = sorted_matches(run("tpstream", pattern, *case.bits).matches)
    assert len(expected) > 20
    pieces = run(OURS, pattern, *case.bits, piece=64)
    forced = run(OURS, pattern, *case.bits, order=(2, 0, 1))
    on_frame = PEERS[OURS].on_frame
    assert on_frame is not None
    for found in (run(OURS, pattern, *case.bits), pieces, forced, on_frame(case)()):
        assert np.array_equal(sorted_matches(found.matches), expected)
    assert pieces.counters["peak_stored"] > 0 < pieces.counters["peak_bytes"]
    assert pieces.counters["steps"] > 0
    assert str(query_of(pattern).symbols[1].at_most) == "30"


def test_memory_is_looked_at_after_as_many_events_of_a_long_stream_as_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    held = Detector.state_bytes

    def note(self: Detector) -> int:
        looks.append(held(self))
        return looks[-1]

    monkeypatch.setattr(Detector, "state_bytes", note)
    for events in (LOOK, 2 * LOOK, 5 * LOOK):
        run = memory.counting(memory.case_of("before", events), OURS)
        looks.clear()
        assert run().counters["peak_bytes"] == max(looks)
        assert len(looks) == events // LOOK


def test_in_the_memory_of_the_others_no_changes_are_derived_beforehand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("all changes would be held at once")

    monkeypatch.setattr(forms, "changes_of_bits", refuse)
    for peer in memory.METHODS[1:]:
        assert memory.counting(memory.case_of("before", 2_000), peer)().counters["peak_stored"] > 0
    with pytest.raises(AssertionError):
        prepared(memory.case_of("before", 2_000), "iseq")()


def test_the_look_at_the_live_state_is_loaded_before_the_clock_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []
    sampled = JoinOrderAdaption.sampled

    def note(self: JoinOrderAdaption, *given: Ints) -> Estimate:
        looks.append("a look")
        return sampled(self, *given)

    monkeypatch.setattr(JoinOrderAdaption, "sampled", note)
    case = of_bits(Pattern(2, ((0, 1, Relation.MEETS),), 9), *restless(2, 100, seed=2))
    ways = {
        "packed bits": lambda: prepared(case, OURS, BITS),
        "raw frame": lambda: prepared(case, OURS, FRAME),
        "a forced order": lambda: plans.ours(case, (1, 0)),
        "a benchmark": lambda: running(case.query, case.frame),
    }
    for name, prepare in ways.items():
        engine.warm_adaption.cache_clear()
        looks.clear()
        prepare()  # and nothing is run over the whole stream
        assert looks == ["a look"], name
    assert engine.warm_adaption()


def test_packed_bits_are_a_word_of_64_rows() -> None:
    masks = np.zeros(70, np.int64)
    masks[[0, 63, 64, 69]] = [1, 2, 3, 2]
    assert packed(masks, 2).tolist() == [[1, 1], [1 << 63, 1 | 1 << 5]]


def test_no_match_spans_two_partitions_that_were_put_into_one_stream() -> None:
    # a ends in the first partition, b begins in the second: before, were it one stream.
    keys, times = np.array([1, 1, 2, 2]), np.array([0, 5, 0, 5])
    masks = np.array([1, 0, 2, 0])
    pattern = Pattern(2, ((0, 1, Relation.BEFORE),), 5)
    assert run("tpstream", pattern, *one_after_another(keys, times, masks, 5)).count == 0
    both = np.array([1, 2, 1, 2])
    joined = Pattern(2, ((0, 1, Relation.MEETS),), 5)
    assert run("tpstream", joined, *one_after_another(keys, times, both, 5)).count == 2


def test_rows_of_mixed_partitions_are_put_one_partition_after_another() -> None:
    keys, times = np.array([3, 1, 3, 1]), np.array([10, 10, 11, 12])
    moved, masks = one_after_another(keys, times, np.array([1, 2, 3, 4]), 4)
    assert masks.tolist() == [2, 4, 0, 1, 3, 0]
    assert moved.tolist() == [0, 2, 7, 12, 13, 18]


def test_an_interval_that_is_open_at_the_end_of_its_partition_adds_nothing() -> None:
    keys, times, masks = np.array([1, 1]), np.array([0, 5]), np.array([1, 3])
    pattern = Pattern(2, ((0, 1, Relation.FINISHED_BY),), 5)
    assert run("tpstream", pattern, *one_after_another(keys, times, masks, 5)).count == 0


def test_without_extension_intervals_and_pairs_are_found_and_no_match() -> None:
    frame = booleans(4, 3_000, 1)
    binding = engine.bind_query(query_of(Pattern.chain(4)), frame.schema)
    assert engine.run_whole(binding, frame) > 10
    assert engine.run_whole(engine.pairs_only(binding), frame) == 0
