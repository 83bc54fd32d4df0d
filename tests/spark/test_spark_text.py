"""Hostile names and values in Spark SQL, whatever the settings of Spark's parser."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import piestream.spark
from piestream.expressions.backends import spark_text
from piestream.expressions.predicate import Predicate
from piestream.language import parse
from piestream.spark.job.connectors import json_columns
from tests.spark.streams import Player, frame_of, rows_of

#: Spark replaces ${…} in a text, here by a setting and by an environment variable of the JVM.
HOSTILE = [
    "plain", "a b", "it's", '"', "`", "a`b``c", "\\", "\\'", "\\n", "a\\", "\n", "\r\n", "\t",
    "$", "a$", "${", "$${x}", "${env:PATH}", "${spark.app.id}", "x' OR 1=1 OR s='", "a.b", "`a`.`b`",
    "%_!", "a%b", "--", "/*", "*/", ";", ":x", "?", "{}", "😀", "e\u0301", "\u2028", "NULL",
]  # fmt: skip
#: Of values only; no CSV, JSON or SQL of ours can name a column so.
VALUES = ["", "\0", "a\0b", "\x1a", "\ufeff", *HOSTILE]

_SETTING = "spark.sql.parser.escapedStringLiterals"


@pytest.fixture(params=["false", "true"], ids=["escapes", "escaped literals"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session that reads backslashes in literals in one way or the other."""
    spark.conf.set(_SETTING, request.param)
    yield spark
    spark.conf.unset(_SETTING)


def _selected(spark: Any, *texts: str) -> list[Any]:
    return list(spark.range(1).selectExpr(*texts).first())


def test_the_parser_reads_plain_texts_otherwise(session: Any) -> None:
    """Else the tests below would show nothing."""
    path, backslash = _selected(session, "'${env:PATH}'", r"'\\'")
    assert path == os.environ["PATH"]
    assert len(backslash) == (2 if session.conf.get(_SETTING) == "true" else 1)


def test_strings_are_what_they_are(session: Any) -> None:
    assert _selected(session, *map(spark_text.string, VALUES)) == VALUES


def test_no_text_holds_a_backslash_or_a_dollar() -> None:
    for value in VALUES:
        for text in (spark_text.string(value), spark_text.column(value)):
            assert "$" not in text
        assert "\\" not in spark_text.string(value)


def test_constants_keep_their_value_and_type(session: Any) -> None:
    constants = [
        None, True, False, 0, -1, 2**63 - 1, -(2**63), 0.1, -2.5e-300, 1e300, float("inf"),
        float("-inf"), date(1, 1, 1), date(2024, 2, 29), datetime(1, 1, 1, microsecond=1),
    ]  # fmt: skip
    assert _selected(session, *map(spark_text.literal, constants)) == constants
    nan, instant = spark_text.literal(float("nan")), datetime(2024, 3, 10, 2, 30, tzinfo=UTC)
    texts = [f"isnan({nan})", f"unix_micros({spark_text.literal(instant)})"]
    assert _selected(session, *texts) == [True, int(instant.timestamp()) * 1_000_000]
    kinds = [f"typeof({spark_text.literal(value)})" for value in (0, 0.5, datetime(2024, 1, 1))]
    assert _selected(session, *kinds) == ["bigint", "double", "timestamp_ntz"]


def test_columns_and_fields_are_read_by_name(session: Any) -> None:
    frame = session.range(1).selectExpr(*(f"{n}L" for n in range(len(HOSTILE)))).toDF(*HOSTILE)
    read = frame.selectExpr(*map(spark_text.column, HOSTILE)).first()
    assert list(read) == list(range(len(HOSTILE)))
    fields = ", ".join(f"{spark_text.string(n)}, {i}L" for i, n in enumerate(HOSTILE))
    for outer in ("s", "${env:PATH}`"):
        struct = session.range(1).selectExpr(f"named_struct({fields}) AS s").toDF(outer)
        read = struct.selectExpr(*(spark_text.column(outer, name) for name in HOSTILE)).first()
        assert list(read) == list(range(len(HOSTILE)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def test_predicates_on_hostile_strings_hold_where_they_do_in_polars(session: Any) -> None:
    rows = pl.DataFrame({"s": [None, *VALUES]})
    tests = [f"s = {_literal(value)}" for value in VALUES]
    tests += [f"s IN ({_literal(value)}, 'none') OR s = 'plain'" for value in HOSTILE]
    tests += [f"s LIKE {_literal(value + '%')}" for value in HOSTILE]
    tests += ["CAST(s AS DOUBLE) > 1", "s > '${env:PATH}'"]
    predicates = [Predicate.parse(test) for test in tests]
    expected = rows.select(
        p.to_polars(rows.schema).alias(f"p{n}") for n, p in enumerate(predicates)
    )
    texts = [f"{p.to_spark_sql(rows.schema)} AS p{n}" for n, p in enumerate(predicates)]
    found = rows_of(frame_of(session, rows).coalesce(1).selectExpr(*texts))
    for name, test in zip(expected.columns, tests, strict=True):
        assert found[name].to_list() == expected[name].to_list(), test


def _hostile() -> tuple[Any, pl.DataFrame]:
    """A query that reads, groups by, aggregates and returns columns of hostile names."""
    time, key, struct, *names = [name for name in HOSTILE if name != "plain"]
    size = 40
    rows = pl.DataFrame(
        {
            time: range(size),
            key: [HOSTILE[n // 5 % 3] for n in range(size)],
            struct: [dict.fromkeys(HOSTILE, n // 10) for n in range(size)],
            **{name: [n % 5 for n in range(size)] for name in names},
        }
    )
    holds = " AND ".join(f"{_quoted(name)} < 3" for name in names)
    sums = ", ".join(f"SUM(a.{_quoted(name)}) AS {_quoted('sum of ' + name)}" for name in names)
    query = parse(
        f"FROM s PARTITION BY {_quoted(key)}, {_quoted(struct)} ORDER BY {_quoted(time)} DEFINE "
        f"a AS {holds} AND {_quoted(key)} <> '${{env:PATH}}', b AS {_quoted(names[0])} = 3 OR "
        f"PREV({_quoted(names[1])}) = 4 PATTERN a meets b WITHIN 50 EMIT ON COMPLETION "
        f"RETURN a.ts AS {_quoted('${a.ts}')}, {sums}"
    )
    return query, rows


def test_a_query_on_hostile_names_gives_the_rows_of_the_embedded_engine(session: Any) -> None:
    query, rows = _hostile()
    expected = query.run(rows)
    assert len(expected) > 3
    found = rows_of(query.run(frame_of(session, rows)))
    assert found.columns == expected.columns
    order = [column.name for column in expected if column.dtype.is_numeric()]
    assert_frame_equal(found.sort(order), expected.sort(order), check_dtypes=False)


def test_a_stream_of_hostile_names_gives_the_rows_of_the_embedded_engine(
    session: Any, tmp_path: Path
) -> None:
    query, rows = _hostile()
    expected = query.run(rows)
    player = Player(session, query, rows, tmp_path, buckets=2)
    player.play(*rows.iter_slices(20))
    found = pl.concat([player.rows(), player.flushed()])
    assert found.columns == expected.columns
    order = [column.name for column in expected if column.dtype.is_numeric()]
    assert_frame_equal(found.sort(order), expected.sort(order), check_dtypes=False)


def test_an_error_names_a_hostile_time_column(session: Any) -> None:
    name = "${env:PATH}'s \\time"
    frame = session.sql("SELECT CAST(NULL AS TIMESTAMP), 1").toDF(name, "x")
    query = parse(f"FROM s ORDER BY {_quoted(name)} DEFINE a AS x > 0 PATTERN a WITHIN 5 s")
    with pytest.raises(Exception, match=re.escape(f"the time column {name} is NULL")):
        query.run(frame).collect()


def test_the_schema_of_json_may_have_hostile_names(session: Any) -> None:
    names = ["it's", "a\\b", "${env:PATH}", '"', "a``b"]
    schema = ", ".join(f"`{name}` int" for name in names)
    values = {name.replace("``", "`"): number for number, name in enumerate(names)}
    rows = session.createDataFrame([(json.dumps(values).encode(),)], "value binary")
    assert json_columns(rows, schema).first().asDict() == values


def test_no_module_hides_a_public_function() -> None:
    """A module that is imported takes the place of what its package calls by the same name."""
    for module in pkgutil.walk_packages(piestream.spark.__path__, "piestream.spark."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in piestream.spark.__all__:
        assert callable(getattr(piestream.spark, name))
