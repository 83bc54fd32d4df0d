"""The builder and the text make the same query."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.language import Duration, Emit, QueryError, as_query, define, parse, pattern
from piestream.language.aggregates import AGGREGATES
from piestream.relations import ALL_NAMES, SETS, Relation

A = define("a", "accel > 8", at_least="5s")
S = define("s", "speed > 70", at_least=timedelta(seconds=4), at_most="30 s")
D = define("d", "accel < -9")
D2 = define("d2", "accel < -9")


def test_the_example_of_the_contract_is_the_query_of_its_text() -> None:
    built = (
        pattern((A.meets(S) | A.overlaps(S)) & A.before(D))
        .within("5 minutes")
        .partition_by("car_id")
        .returning(avg_speed=S.avg("speed"))
    )
    text = """
        FROM CarSensors PARTITION BY car_id
        DEFINE a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s, d AS accel < -9
        PATTERN a meets; overlaps s AND a before d
        WITHIN 5 minutes RETURN AVG(s.speed) AS avg_speed
    """
    assert built == parse(text)
    assert parse(text) == built
    assert built.query == parse(text)
    assert hash(built) == hash(parse(text))
    assert str(built) == str(parse(text)).replace("CarSensors", "stream")
    assert parse(str(built)) == built
    assert pickle.loads(pickle.dumps(built)) == built
    assert as_query(built) is built.query


def test_every_clause_has_a_method() -> None:
    built = (
        pattern(A.ts < S.ts)
        .from_(path="logs/*.parquet")
        .partition_by("k", "l")
        .order_by("t", unit="milliseconds")
        .max_gap("30 s")
        .within(timedelta(minutes=5))
        .emit("both")
        .returning(
            S.first("x"), S.last("x"), S.min("x"), S.max("x"), S.sum("x"), S.avg("x"),
            S.stddev("x"), S.variance("x"), S.count(), S.count("x"), S.duration(), S.relation_to(A), A.ts, S.te,
            start=S.ts,
        )
    )  # fmt: skip
    assert built == parse(
        "FROM 'logs/*.parquet' PARTITION BY k, l ORDER BY t UNIT ms MAX GAP 30 s "
        "DEFINE a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s "
        "PATTERN a.ts < s.ts WITHIN 5 min EMIT ON BOTH "
        "RETURN FIRST(s.x), LAST(s.x), MIN(s.x), MAX(s.x), SUM(s.x), AVG(s.x), STDDEV(s.x), "
        "VARIANCE(s.x), COUNT(s), COUNT(s.x), DURATION(s), RELATION(s, a), a.ts, s.te, s.ts AS start"
    )
    assert built.query.emit is Emit.BOTH


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_has_a_method_and_is_read(name: str) -> None:
    built = pattern(S).within("1 min").returning(v=getattr(S, name.lower())("x"))
    text = "FROM x DEFINE s AS speed > 70 BETWEEN 4 s AND 30 s PATTERN s WITHIN 1 min"
    assert built == parse(f"{text} RETURN {name}(s.x) AS v")
    assert parse(str(built)) == built


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_in_a_predicate_belongs_to_return(name: str) -> None:
    with pytest.raises(QueryError, match="aggregates of an interval stand in RETURN"):
        parse(f"FROM x DEFINE s AS {name}(speed) > 70 PATTERN s WITHIN 1 min")


@pytest.mark.parametrize("name", [*ALL_NAMES, *SETS])
def test_every_relation_and_every_set_has_a_method(name: str) -> None:
    built = getattr(A, name.replace("-", "_"))(S)
    assert built == A.relates(S, name)
    text = "FROM x DEFINE a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s "
    assert pattern(built).within("90 s") == parse(f"{text} PATTERN a {name} s WITHIN 90 s")
    assert pattern(built).within("90 s") != parse(
        f"{text} PATTERN a before; meets; starts s WITHIN 90 s"
    )


@pytest.mark.parametrize("sign", ["<", "<=", "==", ">=", ">", "!="])
def test_endpoints_compare_as_in_text(sign: str) -> None:
    built = eval(f"A.te {sign} S.ts", {"A": A, "S": S})
    text = (
        "FROM x DEFINE a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s "
        f"PATTERN a.te {sign} s.ts WITHIN 90 s"
    )
    assert pattern(built).within("90 s") == parse(text)


def test_endpoints_and_lengths_are_compared_as_in_text() -> None:
    for built, text in (
        (S.ts <= A.te + "3 s", "s.ts <= a.te + 3 s"),
        (S.ts - timedelta(seconds=3) > A.te, "s.ts - 3 s > a.te"),
        ("3 s" + A.te == S.ts, "a.te + 3 s = s.ts"),
        (S.ts + timedelta(seconds=-3) < A.ts, "s.ts - 3 s < a.ts"),
    ):
        defined = "a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s"
        assert pattern(built).within("90 s") == parse(
            f"FROM x DEFINE {defined} PATTERN {text} WITHIN 90 s"
        )
    with pytest.raises(QueryError, match="two endpoints have a difference, and no sum"):
        A.ts + S.ts
    with pytest.raises(QueryError, match="not compared by !="):
        A.ts != S.ts + "3 s"  # noqa: B015
    with pytest.raises(QueryError, match="not a duration: 'soon'"):
        A.ts - "soon"


def test_a_pair_may_be_turned_round_and_alternatives_must_be_of_one_pair() -> None:
    turned = pattern(A.meets(S) | S.during(A)).within("90 s")
    assert turned == pattern(A.relates(S, "meets", Relation.CONTAINS)).within("90 s")
    assert turned != pattern(A.relates(S, "meets", "during")).within("90 s")
    with pytest.raises(QueryError, match="one pair"):
        _ = A.meets(S) | A.meets(D)
    with pytest.raises(QueryError, match="one pair"):
        _ = (A.meets(S) & S.meets(D)) | A.meets(S)
    with pytest.raises(TypeError, match="join constraints with &"):
        _ = A.ts < S.ts <= A.te


def test_symbols_stand_in_the_order_of_their_definitions() -> None:
    query = pattern(S.before(D) & A.before(S)).within("1 h").query
    assert [symbol.name for symbol in query.symbols] == ["a", "s", "d"]
    assert pattern(D).within("1 h").query.symbols[0].name == "d"


def test_builders_are_never_changed() -> None:
    first = pattern(A.meets(S)).within("90 s")
    second = first.within("10 s").partition_by("k")
    assert first.query.within == Duration(90_000_000_000)
    assert first.query.partition_by == ()
    assert second != first


def test_an_absence_is_a_pattern_turned_round() -> None:
    built = pattern(A.before(S) & ~(D.after(A) & (D.ts - A.te <= "10 s")) & ~D2.during(S))
    assert built.within("1 min") == parse(
        "FROM s DEFINE a AS accel > 8 AT LEAST 5 s, s AS speed > 70 BETWEEN 4 s AND 30 s, "
        "d AS accel < -9, d2 AS accel < -9 "
        "PATTERN a before s AND NOT (d after a AND d.ts - a.te <= 10 s) AND NOT (d2 during s) "
        "WITHIN 1 min"
    )
    assert repr(A.before(S) & ~D.during(S)) == "a before s AND NOT (d during s)"
    with pytest.raises(QueryError, match="a NOT stands in another"):
        _ = ~(A.before(S) & ~D.during(S))
    with pytest.raises(QueryError, match="an absence is no alternative"):
        _ = A.before(S) | ~D.during(S)
    with pytest.raises(QueryError, match="only says what may not be there"):
        pattern(~D.during(S)).within("90 s")
    with pytest.raises(QueryError, match="d is absent: a match has no interval of it"):
        pattern(A.before(S) & ~D.during(S)).within("90 s").returning(D.ts)


def test_the_same_faults_are_found_as_in_text() -> None:
    with pytest.raises(QueryError, match=r"add \.within"):
        _ = pattern(A).query
    with pytest.raises(QueryError, match="shorter than a must last: 5 s"):
        pattern(A).within("4 s")
    with pytest.raises(QueryError, match="a is related to itself"):
        pattern(A.meets(A)).within("90 s")
    with pytest.raises(QueryError, match="no intervals can satisfy together"):
        pattern(A.before(S) & S.before(D) & D.before(A)).within("90 s")
    with pytest.raises(QueryError, match="same predicate"):
        pattern(A.meets(define("b", "accel > 8"))).within("90 s")
    with pytest.raises(QueryError, match="two different symbols are named a"):
        pattern(A.meets(S) & S.meets(define("a", "x > 1"))).within("90 s")
    with pytest.raises(QueryError, match="no symbol d"):
        pattern(A.meets(S)).within("90 s").returning(D.ts)
    with pytest.raises(QueryError, match="already has a column k"):
        pattern(A).within("90 s").partition_by("k").returning(k=A.ts)
    with pytest.raises(QueryError, match=r"unknown unit: minuts .did you mean minutes"):
        pattern(A).within("5 minuts")
    with pytest.raises(QueryError, match="did you mean meets"):
        A.relates(S, "mets")
    with pytest.raises(QueryError, match="trigger, completion or both"):
        pattern(A).emit("never")
    e = define("e", "x > 5")
    with pytest.raises(QueryError, match="no constraint connects"):
        pattern(A.meets(S) & D.meets(e)).within("90 s")


def test_a_polars_expression_makes_a_query_that_pickles() -> None:
    symbol = define("s", pl.col("speed") > 70)
    built = pattern(symbol).within("5 s")
    assert built == pattern(define("s", pl.col("speed") > 70)).within("5 s")
    assert pickle.loads(pickle.dumps(built.query)) == built
    with pytest.raises(QueryError, match="only the builder takes Polars"):
        parse(str(built))


def test_the_package_is_callable_as_the_parser_however_often_it_was_imported() -> None:
    text = "FROM x DEFINE a AS p > 1 PATTERN a WITHIN 5"
    assert ps.query(text) == parse(text)
    assert ps.query(text) == ps.query(text)


def test_importing_the_language_loads_no_engine() -> None:
    import subprocess
    import sys

    heavy = "{'polars', 'sqlglot', 'numba', 'pandas', 'pyspark', 'numpy'}"
    code = f"import sys, piestream.language; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]", loaded.stderr


def test_columns_of_partition_by_may_come_as_a_list() -> None:
    built = pattern(A).within("1 min")
    assert built.partition_by(["car", "lane"]) == built.partition_by("car", "lane")
    assert built.partition_by(("car",), "lane") == built.partition_by("car", "lane")
    wrong: Any
    for wrong in (5, ["car", 5], pl.col("car"), b"car"):
        with pytest.raises(QueryError, match="partition_by takes the names of columns, not"):
            built.partition_by(wrong)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("INTERVAL '30' SECOND", "30 s"),
        ("interval 2 hours", "2 h"),
        ("5m30s", "330 s"),
        ("1 h 30 min", "90 min"),
        ("00:05:00", "5 min"),
        ("0:05", "5 min"),
    ],
)
def test_a_duration_of_another_style_is_answered_with_ours(written: str, meant: str) -> None:
    hint = f"(write it as '{meant}')"
    with pytest.raises(QueryError) as of_window:
        pattern(A).within(written)
    with pytest.raises(QueryError) as of_symbol:
        define("b", "x > 1", at_least=written)
    assert hint in str(of_window.value)
    assert hint in str(of_symbol.value)
    pattern(define("b", "x > 1", at_least=meant)).within(meant)


@pytest.mark.parametrize("written", ["INTERVAL '1' MONTH", "P1D", "soon", "1 s " * 5000 + "!"])
def test_a_duration_that_is_not_clear_is_answered_with_an_example(written: str) -> None:
    with pytest.raises(QueryError, match="write it like '5 minutes'"):
        pattern(A).within(written)


def test_a_symbol_alone_is_joined_with_what_may_not_be_there() -> None:
    built = pattern(A & ~(D.after(A) & (D.ts - A.te <= "10 s")) & ~D2.during(A)).within("90 s")
    text = f"PATTERN a AND NOT (d after a AND d.ts - a.te <= 10 s) AND NOT ({D2.name} during a)"
    defined = str(built).split("PATTERN")[0]
    assert built.query == parse(f"{defined} {text} WITHIN 90 s")
    assert (
        pattern(A & A.before(S)).within("90 s").query == pattern(A.before(S)).within("90 s").query
    )
    with pytest.raises(QueryError, match="no constraint connects a with s"):
        _ = pattern(A & S).within("90 s").query
    with pytest.raises(QueryError, match=r"~d\.intersects\(a\)"):
        _ = A & ~D
