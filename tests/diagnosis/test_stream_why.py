"""`Query.why` over several streams: what each part of a match waited for, as the oracle has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import piestream as ps
from piestream.language.parts import Value
from tests.diagnosis.test_streams import _frames, _partitions, _scenarios
from tests.stream_scenario import KINDS, CombinedScenario


def with_ids(query: ps.Query) -> ps.Query:
    """A query whose RETURN has the IDs of rows: several may begin together."""
    ids = [
        Value(s.name, source.id, f"{s.name}_id")
        for s in query.symbols
        if (source := query.stream_of(s.name)).id is not None
    ]
    return replace(query, returns=(*query.returns, *ids))


def _known(partition: Any, time: Any) -> int | None:
    return None if time is None else partition.history.shown_time(time)


def _agrees(drawn: CombinedScenario, partition: Any, bound: dict[str, Any], why: Any) -> bool:
    """Whether a binding of the oracle's became known as it is said."""
    plain = drawn.clock.plain
    for interval in why.intervals:
        known = bound[interval.symbol]
        end = None if interval.te is None else plain(interval.te)
        said = plain(interval.ts), end, plain(interval.valid_at)
        if said != (
            math.floor(known.start),
            _known(partition, known.end),
            _known(partition, known.valid),
        ):
            return False
    for decision in why.decisions:
        x, y = decision.constraint.x, decision.constraint.y
        at = partition.pairs.decided(x, y, bound[x], bound[y])
        last = partition.pairs.relation(x, y, bound, partition.history.instants[-1])
        if (plain(decision.decided_at), decision.relation) != (_known(partition, at), last):
            return False
    return True


@pytest.mark.parametrize("kinds", KINDS)
def test_the_parts_of_a_match_become_known_when_the_oracle_says(
    kinds: str, seeds_in_all: Callable[[int], list[int]]
) -> None:
    looked_at = 0
    for drawn in _scenarios(seeds_in_all(10), kinds):
        drawn = drawn.having(returns=())
        if drawn.clock.kind == "ns":
            continue  # a row as a dict holds no nanoseconds
        query, frames = with_ids(drawn.query), _frames(drawn)
        partitions = {tuple(key): partition for key, partition in _partitions(drawn)}
        found = query.run(frames, ties=drawn.ties, at_end=drawn.at_end)
        for row in found.head(2).rows(named=True):
            why = query.why(row, frames, ties=drawn.ties, at_end=drawn.at_end)
            partition = partitions[tuple(row[name] for name in query.partition_by)]
            candidates = partition.combinations()
            assert any(_agrees(drawn, partition, bound, why) for bound, _ in candidates), (
                f"{drawn}\n{row}\n{why}"
            )
            assert why.waited_for, f"{drawn}\n{row}\n{why}"
            assert all(decision.decided_by for decision in why.decisions), f"{drawn}\n{why}"
            looked_at += 1
    assert looked_at


def test_a_silence_of_another_stream_is_an_instant_at_which_an_interval_may_be_valid() -> None:
    query = ps.query("""
        FROM s ORDER BY t WITH b ORDER BY t MAX GAP 3
        DEFINE x AS s.p > 1 AT LEAST 7, y AS b.p > 1 PATTERN x contains y WITHIN 99
    """)
    rows = {"s": [{"t": 0, "p": 5}, {"t": 20, "p": 0}], "b": [{"t": 5, "p": 5}, {"t": 30, "p": 0}]}
    (match,) = query.run(rows)
    assert match["detected_at"] == 8
    why = query.why(match, rows)
    assert [(i.symbol, i.valid_at) for i in why.intervals] == [("x", 8), ("y", 5)]
    assert why.waited_for == ("x contains y, decided by y.te", "x to be valid")
