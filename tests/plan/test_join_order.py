"""Which sides of constraints have bounds, and which join order follows from the live state."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import piestream as ps
from experiments.streams import booleans
from piestream.compiled.constants import NONE
from piestream.engine.stream import Stream
from piestream.joins.maintenance import sample_statistics
from piestream.joins.records import Program
from piestream.plan.binding import bind
from piestream.plan.join_order import Edge, Estimate, JoinGraph, steps_from
from piestream.plan.program import CompiledQuery
from tests.engine.batches import batch_of, detector_of

COLUMNS = {"a1": "a", "a2": "b", "a3": "c"}


def _query(pattern: str, within: int, emit: str = "TRIGGER") -> ps.Query:
    names = sorted({word for word in pattern.replace(";", " ").split() if len(word) == 1})
    defined = ", ".join(f"{name} AS {name}" for name in names)
    return ps.query(
        f"FROM s ORDER BY ts DEFINE {defined} PATTERN {pattern} WITHIN {within} EMIT ON {emit}"
    )


def _sides(compiled: CompiledQuery, names: str) -> set[str]:
    """Which bounds are kept: "b of a" is the bound that partners a give to b."""
    program = Program.over(compiled.program)
    found = set()
    for number in range(program.n_constraints):
        constraint = program.constraints[number]
        ends = [names[constraint.symbols[side]] for side in range(2)]
        for side in range(2):
            if constraint.sides[side].bound != NONE:
                found.add(f"{ends[side]} of {ends[1 - side]}")
    return found


@pytest.mark.parametrize(
    ("pattern", "emit", "kept"),
    [
        # a decided pair is a match: nothing has to be known of its partners
        ("a overlaps b", "TRIGGER", set()),
        # each pair is completed on the other side of b
        ("a overlaps b AND b overlaps c", "TRIGGER", {"b of a", "b of c"}),
        # all matches come when the last begins: what ended before bounds what begins later
        ("a before b AND b before c", "TRIGGER", {"b of a", "c of b"}),
        ("a before b AND a before c", "TRIGGER", {"b of a", "c of a", "a of b", "a of c"}),
        ("a before b AND b overlaps c", "TRIGGER", {"b of a"}),
        ("a before;meets b AND b before c", "TRIGGER", {"b of a", "b of c", "c of b"}),
        # of a cycle a tree is kept, of its pairs first
        ("a overlaps b AND b overlaps c AND a before c", "TRIGGER", {"b of a", "b of c"}),
        # any of them may be the last to end
        ("a before b AND b before c", "COMPLETION", {"b of a", "c of b", "a of b", "b of c"}),
    ],
)
def test_sides_that_have_a_bound(pattern: str, emit: str, kept: set[str]) -> None:
    schema = {"ts": pl.Int64(), **{name: pl.Boolean() for name in "abc"}}
    assert _sides(bind(_query(pattern, 9, emit), schema).compiled, "abc") == kept


@pytest.mark.parametrize(
    ("ratios", "first"),
    [((1, 50, 50), "a"), ((50, 1, 50), "b")],
)
def test_the_rarer_of_two_is_bound_first(
    ratios: tuple[int, ...], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from the c that begins, all a and all b lie before it; seen from a b, half of the a."""
    monkeypatch.setattr("piestream.engine.adaption.SAMPLE_STEPS", 0)
    frame = booleans(3, 20_000, seed=1, ratios=ratios).rename(COLUMNS)
    query = _query("a before b AND a before c AND b before c", 2_000)
    stream = Stream(bind(query, frame.schema), lateness=0)
    for rows in frame.iter_slices(1_000):
        stream.process(rows)
    steps = stream.detector.compiled.join_orders.steps(stream.detector.adaption.estimate)["c"]
    assert ["abc"[step.target] for step in steps] == [first, *({"a", "b"} - {first})]


def test_the_cost_of_a_step_includes_what_comes_after_it() -> None:
    """h has fewer y than x, but an x has hardly any y, where a y has many x."""
    h, x, y = range(3)
    edges = [Edge(h, x, True), Edge(h, y, True), Edge(x, y, True)]
    partners = {(0, 0): 3.0, (1, 0): 2.0, (2, 0): 0.1, (2, 1): 4.0}
    estimate = Estimate({(*key, seed): n for key, n in partners.items() for seed in (False, True)})
    (steps,) = steps_from([(h,)], JoinGraph(edges), estimate)
    assert steps[:, :2].tolist() == [[x, 0], [y, 2]]


def test_a_sample_counts_what_is_in_the_window() -> None:
    """Fifty runs of a, and long after them an event at which nothing begins."""
    runs = pl.DataFrame({"ts": range(100), "a": [True, False] * 50, "b": [False, True] * 50})
    binding, detector = detector_of(_query("a before b", 1_000), runs, 1)

    def sampled(rows: pl.DataFrame) -> list[int]:
        detector.detect(batch_of(binding, [(0, rows)]))
        counts = np.zeros(8, np.int64)
        sample_statistics(
            detector.program,
            detector.partitions.words,
            detector.pool,
            np.zeros(1, np.int64),
            128,
            counts,
        )
        return counts.tolist()

    # of the a's side, and of the b's: intervals, others beside them, partners, partners of a seed
    pairs = sum(range(50))  # an a and a later b that it does not meet
    assert sampled(runs) == [50, 2500, pairs, pairs, 50, 2500, pairs, 2500]
    long_after = runs[:1].with_columns(ts=pl.lit(5_000, pl.Int64), a=pl.lit(False))
    assert sampled(long_after) == [0] * 8
