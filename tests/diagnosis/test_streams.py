"""Intervals and diagnoses of queries over several streams: what the oracle finds, counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app
from piestream.diagnosis.diagnosis import Diagnosis
from piestream.relations import PRECISE_FORM
from tests import oracle
from tests.oracle import TieError, TooManyMatchesError
from tests.oracle import streams as stream_oracle
from tests.stream_scenario import KINDS, CombinedScenario, closing_scenario, combined_scenario

PRECISE = sum(PRECISE_FORM.values())


def _partitions(drawn: CombinedScenario) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What the oracle knows of each partition."""
    query, inputs = drawn.query, drawn.inputs.values()
    until = max((s.last_instant(row) for s in inputs for row in s.rows), default=0)
    told = stream_oracle.Inputs(
        {stream.name: stream.rows for stream in inputs},
        drawn.truth, drawn.clock, drawn.ties, until, 600, drawn.at_end,
    )  # fmt: skip
    for key, partition in stream_oracle.partitions(query, told):
        yield tuple(key.values()), partition


def _frames(drawn: CombinedScenario) -> dict[str, pl.DataFrame]:
    return {name: drawn.frame(name) for name in drawn.inputs}


def _end(known: Any) -> int | None:
    return None if known.end is None else math.floor(known.end)


def _scenarios(seeds: list[int], kinds: str) -> Iterator[CombinedScenario]:
    for seed, draw in product(seeds, (combined_scenario, closing_scenario)):
        drawn = draw(seed, KINDS[kinds])
        try:
            drawn.expected()
        except (TieError, TooManyMatchesError):
            continue
        yield drawn


@pytest.mark.parametrize("kinds", KINDS)
def test_the_intervals_are_those_of_the_oracle(kinds: str, fewest_seeds: list[int]) -> None:
    for drawn in _scenarios(fewest_seeds, kinds):
        query = drawn.query
        expected: Counter[Any] = Counter()
        for key, partition in _partitions(drawn):
            for symbol in query.symbols:
                valid = Counter((k.number, k.start) for k in partition.history.valid[symbol.name])
                for known in partition.history.all[symbol.name]:
                    is_valid = valid[known.number, known.start] > 0
                    expected[symbol.name, *key, known.start, _end(known), is_valid] += 1
        found = query.intervals(_frames(drawn), ties=drawn.ties, at_end=drawn.at_end)
        rows = drawn.clock.plain_frame(
            found.select(
                "symbol", *query.partition_by, "ts", "te", pl.col("valid").eq_missing(True)
            )
        )
        assert Counter(tuple(row.values()) for row in rows) == expected, str(drawn)


@pytest.mark.parametrize("kinds", KINDS)
def test_the_diagnosis_counts_what_the_oracle_finds(kinds: str, fewest_seeds: list[int]) -> None:
    for drawn in _scenarios(fewest_seeds, kinds):
        query = drawn.query
        found = query.diagnose(_frames(drawn), ties=drawn.ties, at_end=drawn.at_end)
        expected = [row for row in drawn.expected() if row.get("phase") != "completion"]
        assert found.matches.number == len(expected), str(drawn)
        partitions = [partition for _, partition in _partitions(drawn)]
        for counts in found.symbols:
            name = counts.symbol.name
            assert counts.runs == sum(len(p.history.all[name]) for p in partitions), str(drawn)
            assert counts.valid == sum(len(p.history.valid[name]) for p in partitions), str(drawn)
        _check_pairs(drawn, found, partitions)
        assert str(found)


def _check_pairs(drawn: CombinedScenario, found: Diagnosis, partitions: list[Any]) -> None:
    query = drawn.query
    for pairs in found.pairs:
        constraint = pairs.constraint
        if constraint.relations & PRECISE:
            continue
        of: Counter[str] = Counter()
        both_open = 0
        for partition in partitions:
            x, y = constraint.x, constraint.y
            for one, other in product(partition.history.valid[x], partition.history.valid[y]):
                starts = {x: one.start, y: other.start}
                near = oracle.in_windows(query, drawn.clock, starts, max(starts.values()))
                if partition.history.same(x, one, y, other) or not near:
                    continue
                ends = [math.inf if _end(k) is None else _end(k) for k in (one, other)]
                if ends == [math.inf, math.inf]:
                    both_open += 1
                    continue
                (relation,) = oracle.holding(one.start, ends[0], other.start, ends[1], False)
                of[relation] += 1
        settled = sum(pairs.of.values()) - sum(of.values())
        assert settled + pairs.undecided == both_open, str(drawn)
        assert all(pairs.of.get(name, 0) >= number for name, number in of.items()), str(drawn)
        if not both_open:
            assert pairs.of == dict(of), str(drawn)


def test_the_scenarios_have_open_intervals_and_pairs_of_one_row() -> None:
    """Else the laws above would not try what is hard."""
    is_open = same = 0
    for drawn in _scenarios(range(40), "all"):
        for _, partition in _partitions(drawn):
            is_open += sum(
                k.end is None and drawn.query.stream_of(name).is_ready_made
                for name, known in partition.history.all.items()
                for k in known
            )
            for c in drawn.query.constraints:
                both = product(partition.history.valid[c.x], partition.history.valid[c.y])
                ready = drawn.query.stream_of(c.x).is_ready_made
                same += sum(ready and partition.history.same(c.x, a, c.y, b) for a, b in both)
    assert is_open > 3
    assert same > 3


CALLS = """FROM calls FROM began TO ended
DEFINE a AS kind = 'in', b AS n > 1 AT LEAST 3 PATTERN a contains b WITHIN 60"""
ROWS = [
    {"kind": "in", "n": 2, "began": 1, "ended": 9},
    {"kind": "in", "n": 2, "began": 1, "ended": 9},
    {"kind": "out", "n": 2, "began": 3, "ended": 5},
    {"kind": "in", "n": 0, "began": 4, "ended": 6},
]


def test_an_interval_makes_no_pair_with_itself() -> None:
    found = ps.query(CALLS).diagnose(ROWS)
    # a: [1,9) twice, [4,6); b: [1,9) twice and [3,5), which is too short
    assert found.pairs[0].of == {"equals": 2, "during": 2}
    assert found.summary == "0 matches: no a contains b; instead equals 2, during 2"
    assert found.tables["intervals"]["predicate"].to_list() == ["calls.kind = 'in'", "calls.n > 1"]


def test_an_interval_of_polars_predicates_makes_no_pair_with_itself() -> None:
    calls = ps.stream("calls", start="began", end="ended")
    a = ps.define("a", pl.col("kind") == "in", stream=calls)
    b = ps.define("b", "n > 1", at_least=3, stream=calls)
    query = ps.pattern(a.contains(b)).within(60).query
    assert query.diagnose(pl.DataFrame(ROWS)).pairs[0].of == {"equals": 2, "during": 2}


def test_so_many_that_start_together_are_not_told_apart() -> None:
    calls = pl.DataFrame({"kind": ["in"] * 1_100, "n": [2] * 1_100, "began": [1] * 1_100})
    (pairs,) = ps.query(CALLS).diagnose(calls.with_columns(ended=pl.lit(9))).pairs
    assert pairs.is_more
    assert str(pairs.total) == "1,210,000 or more"


TWO = """FROM a ORDER BY t WITH r FROM s TO e
DEFINE x AS a.p > 1, i AS r.q = 'z' AT LEAST 2 PATTERN x contains i WITHIN 90"""


def test_a_diagnosis_says_where_the_rows_of_several_streams_went() -> None:
    rows = {
        "a": pl.DataFrame({"t": [1, 2, 9], "p": [0, 5, 0]}),
        "r": pl.DataFrame({"s": [3], "e": [4], "q": ["z"]}),
    }
    found = ps.query(TWO).diagnose(rows)
    assert str(found).splitlines()[1] == "  3 rows of a, 1 row of r, from 1 to 9"
    assert found.summary == (
        "0 matches: of the 1 interval of i none is valid: 1 too short (AT LEAST 2)"
    )
    none = rows | {"r": rows["r"].with_columns(q=pl.lit("y"))}
    assert (
        ps.query(TWO).diagnose(none).summary.startswith("0 matches: i (r.q = 'z') has no interval")
    )


def test_the_kind_of_the_first_frame_comes_back() -> None:
    rows: dict[str, Any] = {"a": [{"t": 1, "p": 5}], "r": [{"s": 1, "e": 2, "q": "z"}]}
    found = ps.query(TWO).intervals(rows)
    assert found == [
        {"symbol": "x", "ts": 1, "te": None, "duration": None, "valid": True, "events": 1},
        {"symbol": "i", "ts": 1, "te": 2, "duration": 1, "valid": False, "events": None},
    ]


def test_a_run_of_several_streams_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,p\n1,0\n2,5\n9,0\n")
    (tmp_path / "r.csv").write_text("s,e,q\n3,4,z\n")
    data = [f"a={tmp_path / 'a.csv'}", f"r={tmp_path / 'r.csv'}"]
    shown = CliRunner().invoke(app, ["run", "-q", TWO, *data, "--why"])
    assert shown.exit_code == 0, shown.output
    assert "3 rows of a, 1 row of r, from 1 to 9" in shown.stdout
    assert "1 too short (AT LEAST 2)" in shown.stdout
