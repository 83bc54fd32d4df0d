"""Arguments that nobody should give: refused where they are given, in piestream's own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import piestream as ps

A, B = ps.define("a", "x > 1"), ps.define("b", "x < 1")
QUERY = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
ROWS = pl.DataFrame({"k": [1, 1], "t": [1, 2], "x": [5, 0]})


def _nested(depth: int) -> Any:
    value: Any = 5
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "build",
    [
        lambda: ps.define("a\0", "x > 1"),
        lambda: ps.define("a", "x > 1", stream=5),  # type: ignore[arg-type]
        lambda: ps.define("a", "x > 1", let=5),  # type: ignore[arg-type]
        lambda: ps.define("a", "x > 1", let={"y": 5}),  # type: ignore[dict-item]
        lambda: ps.define("a", "x > 1", parameters=5),  # type: ignore[arg-type]
        lambda: ps.stream("s", start="b", end=5),  # type: ignore[arg-type]
        lambda: ps.stream("s", order_by="t", unit=5),  # type: ignore[arg-type]
        lambda: ps.pattern(A).within(9, of=5),  # type: ignore[arg-type]
        lambda: ps.pattern(A).within(of={5: "1 s"}),
        lambda: ps.pattern(A).within(9).order_by(5),  # type: ignore[arg-type]
        lambda: ps.pattern(A).within(9).order_by("t", 5),  # type: ignore[arg-type]
        lambda: ps.pattern(A).within(9).order_by("t", sequence=""),
        lambda: ps.pattern(A).within(9).partition_by(""),
        lambda: ps.pattern(A).within(9).from_(5),  # type: ignore[arg-type]
        lambda: ps.pattern(A).within(9).from_(path=""),
        lambda: ps.pattern(A).within(9).returning(**{"": A.ts}),
        lambda: ps.pattern(A.before(B) | A),  # type: ignore[operator]
        lambda: A.relation_to(None),  # type: ignore[arg-type]
        lambda: A.first(None),  # type: ignore[arg-type]
        lambda: A.count(""),
        lambda: A.max("x").alias(None),  # type: ignore[arg-type]
    ],
)
def test_the_builder_refuses_what_is_no_name_and_no_dict(build: Callable[[], Any]) -> None:
    with pytest.raises(ps.QueryError):
        build()


def test_the_order_of_rows_is_a_truth_value() -> None:
    built = ps.pattern(A).within(9).order_by("t", row_order=5)  # type: ignore[arg-type]
    assert built == ps.query(str(built))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('FROM s PARTITION BY "\0k" ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9', "U.0000"),
        ("FROM s ORDER BY t DEFINE a AS x = '\ud800' PATTERN a WITHIN 9", "half a character"),
    ],
)
def test_a_text_holds_no_characters_that_columns_cannot_have(text: str, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        ps.query(text)


@pytest.mark.parametrize("ticks", [2**63 - 1, 2**63, 2**64])
def test_a_window_of_more_ticks_than_there_are_is_a_window(ticks: int) -> None:
    query = ps.query(f"FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN {ticks}")
    assert ps.query(str(query)) == query
    assert f"WITHIN {ticks}" in query.explain().section("State")


@pytest.mark.parametrize("depth", [60, 100_000])
def test_values_in_values_are_followed_to_a_depth_only(depth: int) -> None:
    with pytest.raises(ps.QueryError, match="Object"):
        QUERY.run([{"k": 1, "t": 1, "x": _nested(depth)}])
    session = QUERY.open()
    session.push({"k": [1], "t": 1, "x": 5})
    with pytest.raises(ps.SchemaError, match="column k holds List"):
        session.push({"k": _nested(depth), "t": 2, "x": 5})
    assert len(session.push({"k": [2], "t": 2, "x": 5})) == 1


def test_names_of_columns_that_are_no_texts_are_no_columns() -> None:
    with pytest.raises(ps.QueryError, match="there is no column t"):
        QUERY.run([{1: 2}])
    with pytest.raises(ps.QueryError, match="there is no column t"):
        QUERY.open().push({1: 2})
    assert len(QUERY.run([{1: 2, "k": 1, "t": 1, "x": 5}])) == 1


def test_threads_are_no_more_than_a_machine_could_have() -> None:
    assert len(QUERY.run(ROWS, threads=1000)) == 1
    for threads in (0, 10**9, True):
        with pytest.raises(ValueError, match="from 1 to 1000"):
            QUERY.run(ROWS, threads=threads)


def test_a_time_line_is_of_a_partition_that_the_columns_can_name() -> None:
    matches = QUERY.run(ROWS)
    for partition in ("", object(), 10**30):
        with pytest.raises(ValueError, match="k holds Int64"):
            QUERY.timeline(ROWS, matches, partition=partition)
    with pytest.raises(ps.SchemaError, match="no column k"):
        QUERY.timeline(ROWS, pl.DataFrame({"a_ts": [1]}), partition=1)
