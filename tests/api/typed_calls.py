"""What type checkers make of runs and pushes: the kind that goes in comes out.

Not run, but checked: by `test_types.py` with mypy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame as SparkFrame

import piestream as ps

query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
assert_type(query, ps.Query)
built = ps.pattern(ps.define("a", "x > 1")).within(9)


def runs(
    frame: pl.DataFrame,
    lazy: pl.LazyFrame,
    pandas: pd.DataFrame,
    table: pa.Table,
    relation: duckdb.DuckDBPyRelation,
    events: list[dict[str, int]],
    stream: Iterator[dict[str, Any]],
    spark: SparkFrame,
) -> None:
    assert_type(query.run(), pl.DataFrame)
    assert_type(query.run(delimiter=";", decimal_comma=True), pl.DataFrame)
    assert_type(query.run(frame), pl.DataFrame)
    assert_type(query.run(frame, ties="first", threads=2), pl.DataFrame)
    assert_type(query.run(lazy), pl.LazyFrame)
    assert_type(query.run(pandas), pd.DataFrame)
    assert_type(query.run(table), pa.Table)
    assert_type(query.run(relation), duckdb.DuckDBPyRelation)
    assert_type(query.run(events), list[dict[str, Any]])
    assert_type(query.run(stream), list[dict[str, Any]])
    assert_type(query.run(spark, buckets=8), SparkFrame)
    assert_type(built.run(frame), pl.DataFrame)
    assert_type(built.run(lazy), pl.LazyFrame)


def pushes(
    frame: pl.DataFrame,
    lazy: pl.LazyFrame,
    pandas: pd.DataFrame,
    table: pa.Table,
    relation: duckdb.DuckDBPyRelation,
    events: list[dict[str, int]],
) -> None:
    session = query.open(lateness="5 s", on_late="drop")
    assert_type(session, ps.Session)
    assert_type(built.open(ties="last"), ps.Session)
    assert_type(session.push(frame), pl.DataFrame)
    assert_type(session.push(lazy), pl.DataFrame)
    assert_type(session.push(pandas), pd.DataFrame)
    assert_type(session.push(table), pa.Table)
    assert_type(session.push(relation), duckdb.DuckDBPyRelation)
    assert_type(session.push({"t": 1, "x": 5}), list[dict[str, Any]])
    assert_type(session.push(events), list[dict[str, Any]])
    assert_type(session.statistics, ps.Statistics)
    assert_type(session.snapshot(), bytes)
    assert_type(query.explain(), ps.Explanation)
    with query.open() as opened:
        assert_type(opened, ps.Session)


def tables_of_intervals(
    frame: pl.DataFrame,
    lazy: pl.LazyFrame,
    pandas: pd.DataFrame,
    table: pa.Table,
    relation: duckdb.DuckDBPyRelation,
    rows: list[dict[str, int]],
) -> None:
    assert_type(ps.join(frame, table, "overlaps; during", on="k", nearest=2), pl.DataFrame)
    assert_type(ps.join(lazy, frame, "before", where="y.ts - x.te < 5"), pl.LazyFrame)
    assert_type(ps.join(pandas, frame, "meets", how="anti"), pd.DataFrame)
    assert_type(ps.join(table, frame, "meets", start=("a", "b")), pa.Table)
    assert_type(ps.join(relation, frame, "meets"), duckdb.DuckDBPyRelation)
    assert_type(ps.join(rows, frame, "meets"), list[dict[str, Any]])
    assert_type(ps.join_pieces(frame, pandas, "before", rows=5), Iterator[pl.DataFrame])
    assert_type(ps.relate(frame, rows), pl.DataFrame)
    assert_type(ps.relate(table), pa.Table)
    assert_type(ps.coverage(pandas, frame, on={"a": "b"}), pd.DataFrame)
    assert_type(ps.depth(lazy, on=["a", "b"]), pl.LazyFrame)
    assert_type(ps.merge(rows, gap="5 s"), list[dict[str, Any]])


def refused(frame: pl.DataFrame) -> None:
    query.run("events.csv")  # type: ignore
    query.run(frame, buckets=8)  # type: ignore
    query.run(frame, delimiter=";")  # type: ignore
    query.run(frame, ties="firts")  # type: ignore
    query.open(latness=3)  # type: ignore
    query.open(ties="firts")  # type: ignore
    ps.join(frame, frame, "meets", how="outer")  # type: ignore
    ps.join(frame, frame, "meets", nearst=1)  # type: ignore
    ps.merge("intervals.csv")  # type: ignore
