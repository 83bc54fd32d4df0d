"""A predicate means the same in Spark as to the plain second evaluator, ANSI mode on or off."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import polars as pl
import pytest

from piestream.expressions.functions import FUNCTIONS
from piestream.expressions.predicate import Predicate
from piestream.language import QueryError
from tests.attacks import predicates
from tests.expressions.reference import holds
from tests.expressions.trees import SCHEMA, Expressions, past_name, past_of, rows, with_past


@pytest.fixture(params=["true", "false"], ids=["ansi", "no ansi"])
def ansi(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session in either mode."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.set("spark.sql.ansi.enabled", before)


def _check(spark: Any, texts: list[str], seed: int) -> None:
    from pyspark.sql.functions import expr

    events = rows(Random(seed), 40)
    frame = pl.DataFrame(events, schema=SCHEMA).cast({pl.UInt8: pl.Int16})
    frame = with_past(frame).with_row_index("row")
    table = spark.createDataFrame(frame.cast({"row": pl.Int64}).to_arrow())
    conditions = []
    for text in texts:
        try:
            predicate = Predicate.parse(text)
            conditions.append((predicate, expr(predicate.to_spark_sql(frame.schema))))
        except QueryError as error:  # the generator may mix types
            if not any(word in str(error) for word in ("mix", "whole numbers", "cast")):
                raise
    assert len(conditions) > len(texts) / 2
    columns = [condition.alias(str(i)) for i, (_, condition) in enumerate(conditions)]
    found = table.orderBy("row").select(*columns).collect()
    pairs = list(zip(events, [None, *events[:-1]], strict=True))
    for i, (predicate, _) in enumerate(conditions):
        assert predicate.tree is not None
        expected = [holds(predicate.tree, *pair) for pair in pairs]
        assert [row[i] for row in found] == expected, predicate


@pytest.mark.parametrize("seed", range(3))
def test_random_predicates(ansi: Any, seed: int) -> None:
    expressions = Expressions(Random(seed))
    _check(ansi, [expressions.truth(2) for _ in range(50)], seed)


#: What Spark has no column for: numbers beyond 63 bits.
_NOT_IN_SPARK = "u"


@pytest.mark.parametrize("share", range(2))
def test_hostile_values(ansi: Any, share: int) -> None:
    """A sample of what `tests.attacks.predicates` tries in Polars and Python."""
    frame, events = predicates.hostile_rows(share)
    frame = frame.drop(_NOT_IN_SPARK, past_name(_NOT_IN_SPARK))
    table = ansi.createDataFrame(frame.with_row_index("row").cast({"row": pl.Int64}).to_arrow())
    held, conditions = [], []
    for seed in range(1000 * share, 1000 * share + 120):
        text = predicates.text_of(seed)
        try:
            predicate = Predicate.parse(text)
            function = predicate.to_python(predicates.SCHEMA)
            sql = predicate.to_spark_sql(frame.schema)
        except QueryError:
            continue
        if function is not None:
            pairs = zip(events, [None, *events[:-1]], strict=True)
            held.append((text, [function(one, past_of(before)) for one, before in pairs]))
            conditions.append(sql)
    assert len(conditions) > 30
    rows = table.orderBy("row").selectExpr(*(f"{c} AS c{i}" for i, c in enumerate(conditions)))
    found = rows.collect()
    for number, (text, expected) in enumerate(held):
        assert [row[number] for row in found] == expected, text


def test_every_function(ansi: Any) -> None:
    expressions = Expressions(Random(0))
    texts = []
    for function in FUNCTIONS.values():
        one, two = (expressions.call(function, 0) for _ in range(2))
        texts += [f"{one} IS NULL", f"{one} = {two}", f"NOT {one} <= {two}"]
    _check(ansi, texts, 0)
