"""`Query.why`: what each part of a match waited for, as the oracle has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.diagnosis.why import Why
from tests.diagnosis.test_diagnose import _partitions
from tests.engines import parse
from tests.oracle.known import Known
from tests.oracle.streams import Partition
from tests.randoms import scenario, sequenced
from tests.scenario import Scenario


def _disagrees(
    drawn: Scenario, partition: Partition, bound: Mapping[str, Known], why: Why
) -> object:
    """What the oracle says otherwise of a match, if anything."""
    clock, history = drawn.clock, partition.history
    for interval in why.intervals:
        wanted = bound[interval.symbol]
        end = None if wanted.end is None else history.shown_time(wanted.end)
        valid = history.shown_time(wanted.valid or 0)
        said = clock.plain(interval.valid_at), interval.te and clock.plain(interval.te)
        if said != (valid, end):
            return interval
    for decision in why.decisions:
        x, y = decision.constraint.x, decision.constraint.y
        at = partition.pairs.decided(x, y, bound[x], bound[y])
        assert at is not None
        last = partition.pairs.relation(x, y, bound, history.instants[-1])
        said_of_pair = clock.plain(decision.decided_at), decision.relation
        if said_of_pair != (history.shown_time(at), last):
            return decision
    return None


@pytest.mark.parametrize("draw", [scenario, sequenced], ids=["times", "events of one time"])
def test_the_parts_of_a_match_become_known_when_the_oracle_says(
    few_seeds: list[int], draw: Callable[[int], Scenario]
) -> None:
    for seed in few_seeds:
        drawn = draw(seed).having(returns=())
        if drawn.clock.kind == "ns":
            continue  # dicts hold no nanoseconds
        stream, clock = drawn.stream, drawn.clock
        query, frame = parse(drawn.text()), stream.frame()
        symbols = [symbol.name for symbol in query.present]
        known: dict[tuple[Any, ...], list[tuple[Partition, Mapping[str, Known]]]] = {}
        for key, partition in _partitions(drawn).items():
            for bound, _ in partition.combinations():
                starts = [math.floor(bound[name].start) for name in symbols]
                by = tuple(sorted(key, key=repr)), *starts
                known.setdefault(by, []).append((partition, bound))
        found = query.run(frame, ties=stream.ties)
        if draw is sequenced:  # those that only what orders events of one time tells apart
            found = found.unique(maintain_order=True, keep="none")
        for row in found.head(2).rows(named=True):
            why = query.why(row, frame, ties=stream.ties)
            starts = [clock.plain(interval.ts) for interval in why.intervals]
            key = tuple(sorted(((name, row[name]) for name in drawn.keys), key=repr))
            faults = [_disagrees(drawn, *one, why) for one in known[key, *starts]]
            assert None in faults, f"{drawn} {faults}"
            assert all(decision.decided_by for decision in why.decisions), f"{drawn} {why}"
            assert why.waited_for, str(drawn)


_QUERY = ps.query("""
    FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 AT LEAST 3, c AS z > 1
    PATTERN a overlaps; contains; finished-by b AND b before c WITHIN 99
""")
_ROWS = pl.DataFrame(
    {
        "t": [1, 2, 3, 4, 5, 6, 7],
        "x": [5, 5, 5, 0, 0, 0, 0],
        "y": [0, 5, 5, 5, 0, 0, 0],
        "z": [0, 0, 0, 0, 0, 5, 0],
    }
)


def test_letters_decisions_and_what_came_last_are_told() -> None:
    why = _QUERY.why(_QUERY.run(_ROWS), _ROWS)
    assert [(i.symbol, i.ts, i.te, i.events, i.valid_at) for i in why.intervals] == [
        ("a", 1, 4, 3, 1),
        ("b", 2, 5, 3, 5),
        ("c", 6, 7, 1, 6),
    ]
    first, second = why.decisions
    assert first.letters == ((1, "Z"), (2, "E"))
    assert (first.relation, first.decided_at, first.decided_by) == ("overlaps", 2, ("b.ts",))
    assert second.letters == ((2, "Z"), (5, "O"), (6, "I"))
    assert (second.relation, second.decided_at, second.decided_by) == ("before", 6, ("c.ts",))
    assert why.waited_for == ("b before c, decided by c.ts", "c to start")
    assert "6, 1 overlaps" not in str(why)
    assert "waited last for" in str(why).lower()
    assert "<table>" in why._repr_html_()


def test_a_complete_match_waited_for_an_end() -> None:
    from dataclasses import replace

    from piestream.language.parts import Emit

    for emit in (Emit.COMPLETION, Emit.BOTH):
        query = replace(_QUERY, emit=emit)
        why = query.why(query.run(_ROWS).tail(1), _ROWS)
        assert why.waited_for == ("c to end",)
        assert why.reported_at == 7


def test_a_match_is_given_as_any_kind_of_row() -> None:
    found = _QUERY.run(_ROWS)
    given: list[Any] = [
        found,
        found.row(0, named=True),
        found.to_pandas(),
        found.to_pandas().iloc[0],
        found.to_arrow(),
    ]
    for match in given:
        assert _QUERY.why(match, _ROWS).reported_at == 6


def test_what_is_no_match_or_several_is_refused() -> None:
    with pytest.raises(ValueError, match="no match of the query"):
        _QUERY.why({"detected_at": 5}, _ROWS)
    twice = pl.concat([_QUERY.run(_ROWS)] * 2)
    with pytest.raises(ValueError, match="these are 2"):
        _QUERY.why(twice, _ROWS)
    short = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN COUNT(a) AS n")
    rows = pl.DataFrame({"t": [1, 2, 3], "x": [5, 0, 5]})
    with pytest.raises(ValueError, match="2 matches have these values"):
        short.why({"n": 1}, rows)
    keyed = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    with pytest.raises(ps.SchemaError, match="k is missing"):
        keyed.why({"detected_at": 1}, rows.with_columns(k=1))


def test_only_the_partition_of_the_match_is_looked_at() -> None:
    keyed = ps.query("FROM s PARTITION BY k ORDER BY t MAX GAP 2 DEFINE a AS x > 1 PATTERN a "
                     "WITHIN 9 EMIT ON COMPLETION")  # fmt: skip
    rows = pl.DataFrame({"k": ["p", "q", "q"], "t": [1, 1, 9], "x": [5, 5, 0]})
    found = keyed.run(rows).filter(pl.col("k") == "p")  # ended by the silence that q's clock shows
    why = keyed.why(found, rows)
    assert [(i.ts, i.te) for i in why.intervals] == [(1, 3)]


@pytest.mark.parametrize("order", ["ts", "ts, seq"])
def test_a_completion_says_when_its_intervals_became_valid_and_what_it_waited_for(
    order: str,
) -> None:
    query = ps.query(
        f"FROM s ORDER BY {order} DEFINE c AS x = 1 AT LEAST 1, z AS x = 2 "
        "PATTERN c met-by z WITHIN 99 EMIT ON BOTH"
    )
    frame = pl.DataFrame({"ts": [16, 18, 19, 20, 21], "x": [2, 1, 1, 1, 0]}).with_row_index("seq")
    trigger, completion = query.run(frame).rows(named=True)
    for row, waited_for in (trigger, "c to be valid"), (completion, "c to end"):
        why = query.why(row, frame)
        assert {part.symbol: part.valid_at for part in why.intervals} == {"c": 19, "z": 16}
        assert why.waited_for == (waited_for,)
