"""The funnel counts what the oracle lists, and says in one line which step left nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.language.parts import Emit
from piestream.relations import names
from tests import oracle
from tests.engines import parse
from tests.oracle.streams import Partition, partitions
from tests.randoms import allen_relation, scenario, sequenced
from tests.scenario import Limits, Scenario


def _partitions(drawn: Scenario) -> dict[tuple[Any, ...], Partition]:
    query, stream = drawn.query(), drawn.stream
    told = oracle.inputs_of(query, stream.rows, stream.truth, clock=drawn.clock, ties=drawn.ties)
    return {tuple(key.items()): partition for key, partition in partitions(query, told)}


def _pairs(drawn: Scenario, x: str, y: str) -> tuple[Counter[str], int]:
    """The pairs of two symbols by their relation, and those of which both are open."""
    found: Counter[str] = Counter()
    both_open = 0
    query = drawn.query()
    for partition in _partitions(drawn).values():
        history = partition.history
        for i in history.valid[x]:
            for j in history.valid[y]:
                same = drawn.stream.truth[x] == drawn.stream.truth[y]
                starts = {x: math.floor(i.start), y: math.floor(j.start)}
                if not oracle.in_windows(query, drawn.clock, starts, max(starts.values())):
                    continue
                if same and i.start == j.start:
                    continue
                if i.end is None and j.end is None:
                    both_open += 1
                    continue
                ends = [math.inf if one.end is None else one.end for one in (i, j)]
                relation = allen_relation(i.start, ends[0], j.start, ends[1])
                for one, other, wide, precise in (
                    (i, j, "before", "followed-by"),
                    (j, i, "after", "follows"),
                ):
                    if relation == wide:
                        all_of_both = [*history.all[x], *history.all[y]]
                        is_quiet = not any(
                            known.start < other.start
                            and (known.end is None or known.end > (one.end or 0))
                            for known in all_of_both
                        )
                        relation = precise if is_quiet else wide
                found[relation] += 1
    return found, both_open


@pytest.mark.parametrize("draw", [scenario, sequenced], ids=["times", "events of one time"])
def test_the_funnel_counts_what_the_oracle_lists(
    few_seeds: list[int], draw: Callable[[int], Scenario]
) -> None:
    for seed in few_seeds:
        drawn = draw(seed)
        stream = drawn.stream
        query = parse(drawn.text())
        found = query.diagnose(stream.frame(), ties=stream.ties)
        emit = Emit.COMPLETION if query.emit is Emit.COMPLETION else Emit.TRIGGER
        assert found.matches.number == len(drawn.having(emit=emit).expected()), str(drawn)
        histories = [partition.history for partition in _partitions(drawn).values()]
        for counts in found.symbols:
            valid = [history.valid[counts.symbol.name] for history in histories]
            if counts.symbol.at_most is None and counts.symbol.at_most_events is None:
                assert counts.valid == sum(map(len, valid)), str(drawn)
        for pairs in found.pairs:
            wanted, both_open = _pairs(drawn, pairs.constraint.x, pairs.constraint.y)
            allowed = names(pairs.constraint.relations)
            plain: Counter[str] = Counter()
            for name, number in wanted.items():  # the precise form is named where it is allowed
                wide = {"followed-by": "before", "follows": "after"}.get(name, name)
                plain[name if name in allowed else wide] += number
            if both_open == 0:
                assert pairs.of == plain, f"{drawn} {pairs.constraint}"
            assert pairs.total.number == plain.total() + both_open, str(drawn)
        if found.steps:
            all_of_them = drawn.without_absences()
            all_of_them = all_of_them.having(emit=Emit.TRIGGER, where=None, limits=Limits())
            triggers = all_of_them.expected()
            assert found.steps[-1].matches.number == len(triggers), str(drawn)


def test_pairs_of_open_intervals_are_counted_where_every_outcome_is_allowed() -> None:
    rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 5, 5], "y": [0, 5, 5]})

    def pairs(relations: str) -> tuple[int, int]:
        text = f"DEFINE a AS x > 1, b AS y > 1 PATTERN a {relations} b WITHIN 9"
        (found,) = ps.query(f"FROM s ORDER BY t {text}").diagnose(rows).pairs
        return found.allowed.number, found.undecided

    assert pairs("overlaps; contains; finished-by") == (1, 0)
    assert pairs("overlaps; contains") == (0, 1)


SUMMARIES = [
    ("DEFINE a AS x > 99 PATTERN a WITHIN 9", "a (x > 99) never holds; x is from 0 to 7"),
    (
        "DEFINE a AS x > 1 AT LEAST 3 PATTERN a WITHIN 9",
        "of the 2 runs of a none is valid: 2 too short (AT LEAST 3)",
    ),
    (
        "DEFINE a AS x > 1 AT LEAST 3 EVENTS PATTERN a WITHIN 9",
        "of the 2 runs of a none is valid: 2 too few events (AT LEAST 3 EVENTS)",
    ),
    (
        "DEFINE a AS x > 1, b AS y > 1 PATTERN a contains b WITHIN 9",
        "no a contains b; instead meets 1, after 1",
    ),
    (
        "DEFINE a AS x > 1, b AS z > 1 PATTERN a overlaps b WITHIN 1",
        "WITHIN 1 leaves out all 1; the shortest takes 2",
    ),
    (
        "DEFINE a AS x > 1, b AS y > 1, c AS x > 6 PATTERN a meets b AND a equals c WITHIN 9",
        "a, b fit together, but never with c",
    ),
]


@pytest.mark.parametrize(("pattern", "summary"), SUMMARIES)
def test_the_summary_says_which_step_left_nothing(pattern: str, summary: str) -> None:
    x, y, z = [5, 5, 0, 0, 7, 0], [0, 0, 5, 0, 0, 0], [0, 5, 5, 5, 5, 0]
    rows = pl.DataFrame({"t": [1, 2, 3, 4, 5, 6], "x": x, "y": y, "z": z})
    found = ps.query(f"FROM s ORDER BY t {pattern}").diagnose(rows)
    assert found.summary == f"0 matches: {summary}"
    assert summary in str(found)


def test_matches_that_are_longer_than_the_window_are_lost_to_it_not_to_the_pairs() -> None:
    rows = pl.DataFrame({"t": [1, 2, 7, 8], "x": [5, 0, 0, 0], "y": [0, 0, 5, 0]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a before b WITHIN 2")
    found = query.diagnose(rows)
    assert found.summary == "0 matches: WITHIN 2 leaves out all 1; the shortest takes 6"


def test_completion_is_a_filter_of_its_own() -> None:
    rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 5, 5]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 EMIT ON COMPLETION")
    found = query.diagnose(rows)
    assert [(f.name, f.left.number) for f in found.filters] == [
        ("pattern", 1),
        ("window", 1),
        ("completion", 0),
    ]
    assert found.summary == (
        "0 matches: EMIT ON COMPLETION leaves out all 1; at_end='close' (--at-end close) ends what is "
        "open at the end, and leaves 1"
    )
    assert query.diagnose(rows, at_end="close").matches.number == 1


def test_a_condition_is_a_filter_of_its_own() -> None:
    rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 5, 0]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE MAX(a.x) > 6")
    found = query.diagnose(rows)
    assert found.summary == "0 matches: WHERE MAX(a.x) > 6 leaves out all 1"
    assert found.tables["filters"].rows()[-1] == ("condition", "WHERE MAX(a.x) > 6", 0, 1)


def test_a_condition_on_an_end_that_is_not_known_yet_is_told_what_knows_it() -> None:
    rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 5, 0]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE DURATION(a) > 1")
    assert query.diagnose(rows).summary == (
        "0 matches: WHERE DURATION(a) > 1 leaves out all 1; EMIT ON COMPLETION, when all ends are known, "
        "leaves 1"
    )


NEVER = [
    ("x > 99", "x is from 3 to 7"),
    ("one > 99", "one is always 4"),
    ("state = 'ON'", "state is 'off' or 'on'"),
    ("missing > 0", "missing is always NULL"),
    ("x > 99 AND state = 'ON'", "x is from 3 to 7, state is 'off' or 'on'"),
]


@pytest.mark.parametrize(("predicate", "values"), NEVER)
def test_what_is_in_the_columns_of_a_predicate_that_never_holds_is_said(
    predicate: str, values: str
) -> None:
    rows = pl.DataFrame(
        {
            "t": [1, 2, 3],
            "x": [3.0, 7.0, float("nan")],
            "one": [4, 4, None],
            "state": ["on", "off", "on"],
            "missing": pl.Series([None] * 3, dtype=pl.Float64),
        }
    )
    found = ps.query(f"FROM s ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN 9").diagnose(rows)
    assert found.summary.endswith(f" never holds; {values}")


def test_without_events_that_is_what_is_said() -> None:
    query = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    schema = {"t": pl.Int64, "k": pl.String, "x": pl.Float64}
    assert query.diagnose(pl.DataFrame(schema=schema)).summary == "0 matches: there are no events"


def test_a_missing_key_is_one_partition_however_it_is_written() -> None:
    nan = float("nan")
    rows = pl.DataFrame({"k": [nan, None, 1.0, nan], "t": [1, 2, 1, 3], "x": [5, 0, 5, 5]})
    query = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    assert "4 events of 2 partitions" in str(query.diagnose(rows))
    for key in (nan, None):
        assert "2 intervals, 2 matches" in str(query.timeline(rows, partition=(key,)))
        assert "there is a match" in str(query.why_not(rows, partition={"k": key}))
    both = ps.query(
        "FROM s ORDER BY t WITH m ORDER BY t PARTITION BY k "
        "DEFINE a AS s.x > 1, b AS m.x > 1 PATTERN a intersects b WITHIN 9"
    )
    assert "of 2 partitions" in str(both.diagnose({"s": rows, "m": rows}))


def test_a_notebook_gets_tables_whose_text_is_escaped() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x < 1 PATTERN a WITHIN 9")
    html = query.diagnose(pl.DataFrame({"t": [1], "x": [5]}))._repr_html_()
    assert "<td>x &lt; 1</td>" in html
    assert html.count("<table>") == html.count("</table>") == 2


def test_very_many_matches_are_not_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from piestream.diagnosis import counting, funnel

    monkeypatch.setattr(counting, "MOST", 3)
    monkeypatch.setattr(funnel, "MOST", 3)
    rows = pl.DataFrame({"t": range(20), "x": [5, 0] * 10})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    found = query.diagnose(rows)
    assert str(found.matches) == "3 or more"
    assert "counting ended early" in str(found)


def test_a_query_with_both_phases_counts_a_match_once() -> None:
    rows = pl.DataFrame({"t": [1, 2], "x": [5, 0]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    assert replace(query, emit=Emit.BOTH).diagnose(rows).summary == "1 match"
