"""All methods on one longer stream: the same matches, and buffers that had to grow."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.peers import OURS, PEERS, Reports, run, sorted_matches
from experiments.peers.pattern import Ints, Pattern
from experiments.streams import bits, booleans
from piestream.relations import Relation

PATTERNS = {
    "chain": Pattern.chain(4),
    "before": Pattern(3, ((0, 1, Relation.BEFORE), (1, 2, Relation.OVERLAPS)), 5_000),
    "cycle": Pattern(
        3,
        (
            (0, 1, Relation.OVERLAPS | Relation.DURING | Relation.MEETS),
            (1, 2, Relation.OVERLAPS | Relation.CONTAINS),
            (0, 2, Relation.BEFORE | Relation.OVERLAPS),
        ),
        500,
    ),
}


@pytest.fixture(scope="module")
def stream() -> tuple[Ints, Ints]:
    return bits(booleans(symbols=4, events=9_000, seed=4))


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
@pytest.mark.parametrize(
    "reports", [Reports.EARLIEST, Reports.RELATION, Reports.COMPLETION], ids=lambda kind: kind.name
)
def test_those_that_report_alike_agree(
    pattern: Pattern, reports: Reports, stream: tuple[Ints, Ints]
) -> None:
    peers = [
        name for name, b in PEERS.items() if b.reports == reports and b.exact and not b.is_optional
    ]
    assert len(peers) >= 2
    results = [run(name, pattern, *stream) for name in peers]
    first = sorted_matches(results[0].matches)
    assert len(first) > 30
    for name, result in zip(peers, results, strict=True):
        assert np.array_equal(sorted_matches(result.matches), first), name
        assert result.counters["events"] == 9_000


@pytest.mark.parametrize(
    "name", [name for name, peer in PEERS.items() if peer.streaming and name != OURS]
)
def test_the_counters_say_what_was_read_and_held(name: str, stream: tuple[Ints, Ints]) -> None:
    result = run(name, PATTERNS["before"], *stream)
    counters = result.counters
    assert counters["intervals"] > 300
    assert counters["peak_stored"] > 64  # more than the buffers have room for at first
    assert counters["probes"] > 100
    assert (np.diff(result.matches[:, 0]) >= 0).all()  # in order of report
    counted = run(name, PATTERNS["before"], *stream, keep=False)
    assert (counted.count, len(counted.matches)) == (result.count, 0)
    assert counted.counters == counters


def test_completion_finds_what_the_trigger_finds_and_the_end_keeps(
    stream: tuple[Ints, Ints],
) -> None:
    chain = PATTERNS["chain"]
    triggered = {tuple(row[1:]) for row in run("tpstream", chain, *stream).matches.tolist()}
    completed = {tuple(row[1:]) for row in run("iseq", chain, *stream).matches.tolist()}
    assert completed <= triggered
    assert len(completed) > 0.95 * len(triggered)
