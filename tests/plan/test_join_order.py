"""What the plan asks for, and which order it takes from the live state."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import piestream as ps
from experiments.streams import booleans
from piestream.compiled import layout as at
from piestream.engine.stream import Stream
from piestream.joins.maintenance import survey
from piestream.plan.binding import bind
from piestream.plan.join_order import Edge, Estimate, steps_from
from piestream.plan.program import Tables
from tests.engine.batches import batch_of, detector_of

COLUMNS = {"a1": "a", "a2": "b", "a3": "c"}


def _query(pattern: str, within: int, emit: str = "TRIGGER") -> ps.Query:
    names = sorted({word for word in pattern.replace(";", " ").split() if len(word) == 1})
    defined = ", ".join(f"{name} AS {name}" for name in names)
    return ps.query(
        f"FROM s ORDER BY ts DEFINE {defined} PATTERN {pattern} WITHIN {within} EMIT ON {emit}"
    )


def _sides(tables: Tables, names: str) -> set[str]:
    """Whose best is kept of whom: "b of a" is what partners a offer to b."""
    found = set()
    for number in range(tables.code[at.N_CONSTRAINTS]):
        entry = tables.code[at.CONSTRAINTS_AT] + number * at.CON_WORDS
        ends = [names[tables.code[entry + word]] for word in (at.CON_X, at.CON_Y)]
        for side in range(2):
            block = entry + at.CON_SIDES + side * at.SIDE_WORDS
            if tables.code[block + at.SIDE_BEST] != at.NOWHERE:
                found.add(f"{ends[side]} of {ends[1 - side]}")
    return found


@pytest.mark.parametrize(
    ("pattern", "emit", "kept"),
    [
        # a pair is decided, and there is nothing more to ask
        ("a overlaps b", "TRIGGER", set()),
        # each pair is completed on the other side of b
        ("a overlaps b AND b overlaps c", "TRIGGER", {"b of a", "b of c"}),
        # all matches come when the last begins: what began later is asked of what ended before
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
def test_sides_that_are_asked_for_their_best(pattern: str, emit: str, kept: set[str]) -> None:
    schema = {"ts": pl.Int64(), **{name: pl.Boolean() for name in "abc"}}
    assert _sides(bind(_query(pattern, 9, emit), schema).tables, "abc") == kept


@pytest.mark.parametrize(
    ("ratios", "first"),
    [((1, 50, 50), "a"), ((50, 1, 50), "b")],
)
def test_the_rarer_of_two_is_bound_first(
    ratios: tuple[int, ...], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen from the c that begins, all a and all b lie before it; seen from a b, half of the a."""
    monkeypatch.setattr("piestream.engine.detector._SURVEY_STEPS", 0)
    frame = booleans(3, 20_000, seed=1, ratios=ratios).rename(COLUMNS)
    query = _query("a before b AND a before c AND b before c", 2_000)
    stream = Stream(bind(query, frame.schema), lateness=0)
    for rows in frame.iter_slices(1_000):
        stream.take(rows)
    steps = stream.detector.tables.plan.steps(stream.detector.estimate)["c"]
    assert ["abc"[step.target] for step in steps] == [first, *({"a", "b"} - {first})]


def test_what_comes_after_a_step_is_weighed_with_it() -> None:
    """h has fewer y than x, but an x has hardly any y, where a y has many x."""
    h, x, y = range(3)
    edges = [Edge(h, x, True), Edge(h, y, True), Edge(x, y, True)]
    partners = {(0, 0): 3.0, (1, 0): 2.0, (2, 0): 0.1, (2, 1): 4.0}
    estimate = Estimate({(*key, seed): n for key, n in partners.items() for seed in (False, True)})
    steps = steps_from((h,), edges, [], estimate)
    assert [(step.target, step.constraint) for step in steps] == [(x, 0), (y, 2)]


def test_a_survey_counts_what_is_in_the_window() -> None:
    """Fifty runs of a, and long after them an event at which nothing begins."""
    runs = pl.DataFrame({"ts": range(100), "a": [True, False] * 50, "b": [False, True] * 50})
    binding, detector = detector_of(_query("a before b", 1_000), runs, 1)

    def surveyed(rows: pl.DataFrame) -> list[int]:
        detector.detect(batch_of(binding, [(0, rows)]))
        counts = np.zeros(8, np.int64)
        survey(detector.code, detector.parts, detector.pool, np.zeros(1, np.int64), 128, counts)
        return counts.tolist()

    # of the a's side, and of the b's: intervals, others beside them, partners, partners of a seed
    pairs = sum(range(50))  # an a and a later b that it does not meet
    assert surveyed(runs) == [50, 2500, pairs, pairs, 50, 2500, pairs, 2500]
    long_after = runs[:1].with_columns(ts=pl.lit(5_000, pl.Int64), a=pl.lit(False))
    assert surveyed(long_after) == [0] * 8
