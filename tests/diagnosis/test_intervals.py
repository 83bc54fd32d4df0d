"""`Query.intervals` gives the runs that the oracle lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.language.model import Query
from tests import oracle
from tests.engines import parse
from tests.oracle.streams import partitions
from tests.randoms import scenario, sequenced
from tests.scenario import Scenario


def _expected(drawn: Scenario, at_end: str) -> Iterator[tuple[Any, ...]]:
    """The runs of a scenario: symbol, key, start, end, valid, events, straight from its rows."""
    query, stream = drawn.query(), drawn.stream
    for symbol in query.symbols:
        alone = Query(
            symbols=(symbol,), constraints=(), within=query.within, returns=(),
            streams=query.streams, partition_by=query.partition_by,
        )  # fmt: skip
        told = oracle.inputs_of(
            alone, drawn.rows, stream.truth, clock=drawn.clock, ties=drawn.ties, at_end=at_end
        )
        for key, partition in partitions(alone, told):
            history = partition.history
            valid = {known.start for known in history.valid[symbol.name]}
            for known in history.all[symbol.name]:
                start, last = math.floor(known.start), history.instants[-1]
                end = None if known.end is None else history.shown_time(known.end)
                events = history.count(symbol.stream, known, last)
                yield symbol.name, tuple(key.values()), start, end, known.start in valid, events


@pytest.mark.parametrize("at_end", ["open", "close"])
@pytest.mark.parametrize("draw", [scenario, sequenced], ids=["times", "events of one time"])
def test_the_intervals_are_the_runs_of_the_oracle(
    seeds: list[int], at_end: str, draw: Callable[[int], Scenario]
) -> None:
    for seed in seeds if draw is scenario else seeds[: len(seeds) // 4]:
        drawn = draw(seed)
        stream = drawn.stream
        found = parse(drawn.text()).intervals(stream.frame(), ties=stream.ties, at_end=at_end)
        rows = [
            (
                row["symbol"],
                tuple(row[name] for name in drawn.keys),
                row["ts"],
                row["te"],
                row["valid"],
                row["events"],
            )
            for row in stream.clock.plain_frame(found)
        ]
        # what is open and not valid yet may still become so
        wanted = [
            (*row[:4], None if row[3] is None and not row[4] else row[4], row[5])
            for row in _expected(drawn, at_end)
        ]
        never = {row[:4] for row in rows if row[3] is None and row[4] is False}
        wanted = [(*row[:4], False, row[5]) if row[:4] in never else row for row in wanted]
        assert sorted(rows, key=repr) == sorted(wanted, key=repr), str(drawn)


def test_an_open_interval_is_longer_than_it_has_been() -> None:
    rows = pl.DataFrame({"t": [1, 3], "x": [5, 5]})

    def valid(bound: str) -> Any:
        query = ps.query(f"FROM s ORDER BY t DEFINE a AS x > 1 {bound} PATTERN a WITHIN 99")
        return query.intervals(rows)["valid"].to_list()

    assert valid("AT LEAST 2") == [True]
    assert valid("AT LEAST 3") == [None]
    assert valid("AT MOST 3") == [None]
    assert valid("AT MOST 2") == [False]
    assert valid("AT MOST 1 EVENTS") == [False]
    assert valid("AT MOST 2 EVENTS") == [None]


def test_the_result_is_of_the_kind_of_the_rows() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    events = [{"t": 1, "x": 5}, {"t": 2, "x": 0}]
    wanted = {"symbol": "a", "ts": 1, "te": 2, "duration": 1, "valid": True, "events": 1}
    assert query.intervals(events) == [wanted]
    frame = pl.DataFrame(events)
    assert query.intervals(frame.lazy()).collect().rows(named=True) == [wanted]
    assert query.intervals(frame.to_pandas()).to_dict("records") == [wanted]
    assert query.intervals(frame.to_arrow()).to_pylist() == [wanted]


def test_files_that_from_names_are_read(tmp_path: Any) -> None:
    pl.DataFrame({"t": [1, 2], "x": [5, 0]}).write_parquet(tmp_path / "s.parquet")
    text = f"FROM '{tmp_path}/s.parquet' ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9"
    assert ps.query(text).intervals().rows() == [("a", 1, 2, 1, True, 1)]
    with pytest.raises(ps.QueryError, match="names no file to read"):
        ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9").intervals()


def test_a_key_that_is_a_column_of_the_result_is_refused() -> None:
    query = ps.query("FROM s PARTITION BY valid ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    with pytest.raises(ps.SchemaError, match="rename valid"):
        query.intervals(pl.DataFrame({"t": [1], "x": [5], "valid": [1]}))
