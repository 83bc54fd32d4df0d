"""The gate: two sides in turns, ratios with their intervals, and what is slower."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.gate.ratios import Ratio, Verdict, ratio
from experiments.gate.sides import Side, Worker, commit_of, working_copy
from experiments.gate.table import Line, table
from experiments.gate.work import PROCESSES, WORKS

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        ([1.06, 1.07, 1.05, 1.06, 1.08], Verdict.SLOWER),
        ([1.02, 1.02, 1.02, 1.01, 1.02], Verdict.SAME),
        ([0.9, 0.9, 0.91, 0.9, 0.89], Verdict.QUICKER),
        ([1.06, 0.95, 1.05, 1.06, 1.3], Verdict.OPEN),  # noise is not excluded
        ([1.0, 1.0, 1.0, 1.0, 1.0], Verdict.SAME),
    ],
)
def test_what_is_slower_is_told_from_noise(now: list[float], verdict: Verdict) -> None:
    assert ratio([1.0] * len(now), now).verdict is verdict


def test_each_round_is_compared_with_itself() -> None:
    assert ratio([1.0, 2.0, 4.0], [1.1, 2.2, 4.4]).high == pytest.approx(1.1)


def test_more_rounds_leave_out_the_outermost() -> None:
    found = ratio([1.0] * 11, [0.1, 0.2, *[1.0] * 7, 5.0, 9.0])
    assert (found.low, found.high) == (1.0, 1.0)


def test_works_have_names_of_their_own() -> None:
    names = [each.name for each in (*WORKS, *PROCESSES)]
    assert len(set(names)) == len(names)


def test_a_process_of_the_working_copy_answers(tmp_path: Path) -> None:
    work = next(work for work in WORKS if work.name == "star")
    path = tmp_path / "frame.arrow"
    work.frames(100)["s"].write_ipc(path)
    request = {
        "name": work.name, "action": work.action, "query": work.query, "number": 1, "clock": "cpu",
        "frames": {"s": str(path)},
    }  # fmt: skip
    worker = Worker(Side("now", _ROOT, tmp_path), 1)  # with the loops that are compiled already
    try:
        answer = worker.measure(request)
        assert answer["cpu"] > 0
        assert answer["found"] == worker.measure(request)["found"]
        refused = worker.measure({**request, "name": "other", "query": "FROM s NONSENSE"})
        assert refused["refused"].startswith("QueryError")
    finally:
        worker.stop()


def test_nothing_compiled_comes_with_the_working_copy(tmp_path: Path) -> None:
    side = working_copy(tmp_path)
    assert (side.path / "piestream" / "joins" / "batch.py").exists()
    assert not [*side.path.rglob("__pycache__")]


def test_the_table_says_what_is_slower() -> None:
    slow = Line("push", "event", False, 1e-6, 2e-6, Ratio(2.0, 1.9, 2.1, 5), "", None, "≤ 2 µs")
    new = Line("NOT", "row", False, None, 5e-8, None, "QueryError: no NOT", 3.0, "")
    text = table("here", [slow, new])
    assert (
        "| push | 1 µs for each event | 2 µs for each event | 2.00 [1.90, 2.10] | 5 | slower |"
        in text
    )
    assert "NOT: base: QueryError: no NOT" in text


def test_the_commit_of_the_working_copy_is_named() -> None:
    assert commit_of("HEAD")
