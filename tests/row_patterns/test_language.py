"""MATCH_RECOGNIZE as text: what is read, how it is printed, and what is refused with a place."""

from __future__ import annotations

import pickle

import pytest

import piestream as ps
from piestream.language.row_patterns import EmptyMatches, Skip, SkipMode
from tests.row_patterns.randoms import random_case

_V_SHAPE = """
    FROM trades MATCH_RECOGNIZE (
        PARTITION BY symbol
        ORDER BY ts
        MEASURES FIRST(STRT.price) AS top, LAST(DOWN.price) AS bottom, UP.price - STRT.price AS rise
        ONE ROW PER MATCH
        AFTER MATCH SKIP TO LAST UP
        PATTERN (STRT DOWN+ UP+)
        SUBSET BOTH = (DOWN, UP)
        DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)
    )
"""


def _message(text: str) -> str:
    with pytest.raises(ps.QueryError) as caught:
        ps.query(text)
    return str(caught.value)


def _with(
    pattern: str = "A", define: str = "A AS x > 1", measures: str = "A.x AS y", more: str = ""
) -> str:
    return (
        f"FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {measures} {more} PATTERN ({pattern}) "
        f"DEFINE {define})"
    )


def test_the_clauses_are_read() -> None:
    query = ps.query(_V_SHAPE)
    assert query.partition_by == ("symbol",)
    assert query.streams[0].order_by == "ts"
    assert query.rows is not None
    assert query.rows.variables == ("STRT", "DOWN", "UP")
    assert query.rows.skip == Skip(SkipMode.TO_LAST, "UP")
    assert query.rows.members("BOTH") == ("DOWN", "UP")
    assert [measure.alias for measure in query.rows.measures] == ["top", "bottom", "rise"]
    assert str(query.symbol("DOWN").predicate) == "price < PREV(price)"


def test_the_canonical_text_is_read_as_the_same_query(few_seeds: list[int]) -> None:
    cases = [random_case(seed, memory=memory) for seed in few_seeds for memory in (False, True)]
    for query in [ps.query(_V_SHAPE), *(case.query for case in cases)]:
        again = ps.query(str(query))
        assert again == query
        assert str(again) == str(query)
        assert pickle.loads(pickle.dumps(query)) == query


def test_all_rows_per_match_says_what_becomes_of_empty_matches() -> None:
    for empty in EmptyMatches:
        query = ps.query(_with("A*", more=f"ALL ROWS PER MATCH {empty.value}"))
        assert query.rows is not None
        assert query.rows.empty_matches is empty


def test_a_quantifier_that_is_reluctant_keeps_its_question_mark() -> None:
    query = ps.query(_with("A+? (B{2,3}? | C??) {- D{,4} -} PERMUTE(E, F)"))
    assert "PATTERN (A+? (B{2,3}? | C??) {- D{0,4} -} PERMUTE(E, F))" in str(query)


def test_parameters_stand_in_conditions_and_measures() -> None:
    query = ps.query(_with(define="A AS x > :least", measures="A.x + :more AS y"), least=3, more=2)
    assert query.run([{"ts": 1, "x": 4}]) == [{"y": 6}]


_NEXT = "AFTER MATCH SKIP TO NEXT ROW"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_with("A B", "B AS B.x > A.x + Z.x"), "Z is not a variable of the pattern"),
        (_with("A B", "B AS B.x > FINAL LAST(A.x)"), "a condition of DEFINE is RUNNING"),
        (_with("A B", "B AS SUM(A.x) + 1"), "a condition of DEFINE must be true or false"),
        (_with("A B", "B AS A.x >"), "something is missing after >"),
        (_with(define="A AS x > 1, B AS x > 2"), "the variable B is not in PATTERN"),
        (_with(define="A AS x > 1, A AS x > 2"), "the variable A is defined twice"),
        (_with(measures="Q.x AS y"), "Q is not a variable of the pattern"),
        (_with(measures="A.x"), "a measure needs a name"),
        (_with(measures="A.x AS y, A.x AS y"), "there are two measures y"),
        (_with(measures="SUM(A.x * B.x) AS y"), "B is not a variable of the pattern"),
        (_with("A B", measures="SUM(A.x * B.x) AS y"), "not of rows of A and B"),
        (_with(measures="SUM(A.x * x) AS y"), "not of rows of A and any variable"),
        (_with(measures="SUM(*) AS y"), "only COUNT takes *"),
        (_with(measures="COUNT(DISTINCT A.x) AS y"), "give ALL ROWS PER MATCH, and count"),
        (_with("A B", "B AS COUNT(DISTINCT A.x) > 1"), "a condition of DEFINE does not take DISTINCT"),
        (_with(measures="A.x - B.x <= 5 s AS y"), "a measure has no lengths of time"),
        (_with(measures="FIRST(A.x, -1) AS y"), "FIRST takes a whole number behind the comma"),
        (_with(measures="PREV(CLASSIFIER()) AS y"), "PREV takes a column, not CLASSIFIER"),
        (_with("A**"), "a part has one quantifier"),
        (_with("(A"), "this bracket is never closed"),
        (_with("A{3,2}"), "nothing can be repeated from 3 to 2 times"),
        (_with("{- A"), "this {- is never closed"),
        (_with("A ^+"), "^ and $ cannot be repeated"),
        (_with("A{2000}"), "1000 times at most"),
        (_with("PERMUTE(A, B, C, D, E, F, G)"), "PERMUTE takes 6 parts at most"),
        (_with("A B", more="AFTER MATCH SKIP TO FIRST A"), "may be the first of the match"),
        (_with("A+ B", more="AFTER MATCH SKIP TO LAST A"), "may be the first of the match"),
        (_with("A B?", more="AFTER MATCH SKIP TO B"), "a match may have no row of B"),
        (_with("A B", more="AFTER MATCH SKIP TO C"), "C is not a variable of the pattern"),
        (_with("A B", more="AFTER MATCH SKIP SOMEWHERE"), "this is not where to skip to"),
        (_with(more="INCREMENTAL MATCH"), "write AFTER MATCH SKIP TO NEXT ROW"),
        (_with(more="INCREMENTAL MATCH MAXIMAL MATCH"), "exclude each other"),
        (_with("A $", more=f"{_NEXT} INCREMENTAL MATCH"), "$ cannot be used"),
        (
            _with("A B", "B AS A.x < MATCH_NUMBER()", more=f"{_NEXT} INCREMENTAL MATCH"),
            "MATCH_NUMBER() in a condition has no meaning",
        ),
        (
            _with(more=f"ALL ROWS PER MATCH WITH UNMATCHED ROWS {_NEXT} INCREMENTAL MATCH"),
            "WITH UNMATCHED ROWS cannot be given",
        ),
        (_with(more="ONE ROW PER MATCH ALL ROWS PER MATCH"), "exclude each other"),
        (_with("A {- B -}", more="ALL ROWS PER MATCH WITH UNMATCHED ROWS"), "with an exclusion"),
        (_with(more="SUBSET S = (A, Z)"), "Z is not in the pattern"),
        (_with(more="PATTERN (A)"), "PATTERN is given twice"),
        (_with() + " WITHIN 5", "WITHIN does not go with MATCH_RECOGNIZE alone"),
        (_with() + " DEFINE a AS y > 1", "the matches of this row pattern have no name"),
        (_with().replace("FROM t", "FROM t FROM a TO b"), "does not belong after FROM"),
        ("FROM t MATCH_RECOGNIZE (ORDER BY ts)", "PATTERN is missing"),
        ("FROM t ORDER BY ts MATCH_RECOGNIZE (PATTERN (A))", "MATCH_RECOGNIZE does not belong"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    message = _message(text)
    assert said in message
    assert "^" in message.splitlines()[2] or "faults" in message


def test_several_faults_are_reported_together() -> None:
    message = _message(
        _with("A B C", "A AS B.x > FINAL LAST(B.x), D AS x > 1", measures="E.x AS y")
    )
    assert message.startswith("3 faults")


def test_a_row_to_skip_to_may_stand_behind_others() -> None:
    for pattern, target in [
        ("A B+", "B"),
        ("A B+", "LAST B"),
        ("A A+", "LAST A"),
        ("A (B | C)", "S"),
    ]:
        more = f"SUBSET S = (B, C) AFTER MATCH SKIP TO {target}"
        if "C" not in pattern:
            more = more.replace("SUBSET S = (B, C)", "")
        assert ps.query(_with(pattern, more=more)).rows is not None


def test_a_column_that_is_missing_is_named_with_its_place() -> None:
    query = ps.query(_with(define="A AS speed > 1", measures="LAST(A.hight) AS y"))
    with pytest.raises(ps.QueryError) as caught:
        query.run([{"ts": 1, "speed": 2, "height": 3}])
    assert "there is no column hight" in str(caught.value)
    assert "did you mean height?" in str(caught.value)
    assert "LAST(A.hight)" in str(caught.value)


def test_a_pattern_that_is_too_large_is_refused() -> None:
    with pytest.raises(ps.QueryError, match="the pattern is too large"):
        ps.query(_with("((A{10}){10}){20}")).run([{"ts": 1, "x": 1}])
