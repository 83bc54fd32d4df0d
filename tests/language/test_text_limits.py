"""Texts that are too long, deep or large are refused soon, by a QueryError of bounded size."""

from __future__ import annotations

import time

import pytest

from piestream.expressions.durations import as_duration
from piestream.language import Predicate, QueryError, parse


def query(predicate: str = "x > 1", within: str = "9") -> str:
    return f"FROM s ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN {within}"


HOSTILE = {
    "a window of many digits": query(within="1e999999 s"),
    "a window of many ticks": query(within="1e5000"),
    "a number of many digits": query("x > " + "9" * 5000),
    "a bound of many digits": query("x > 1 AT LEAST 1e5000"),
    "an operator of another dialect": query("x @@ 1"),
    "a slice of nothing": query("x{:}:DOUBLE"),
    "many NOTs": query("NOT " * 3000 + "x"),
    "many signs": query("- " * 3000 + "x > 1"),
    "many casts": query("x" + "::DOUBLE" * 100 + " > 1"),
    "many brackets": query("(" * 3000 + "x" + ")" * 3000),
    "many CASEs": query("CASE " * 60 + "x" + " WHEN 1 THEN 2 END" * 60 + " = 1"),
    "types within types": query("DATE(" * 25 + "x" + ")" * 25),
    "commas": "FROM s DEFINE " + ", " * 15_000 + " PATTERN a WITHIN 9",
    "a million blanks": query(" " * 1_000_000 + "x"),
    "words": query("x > 1 " + "AND x > 1 " * 9_000),
    "BETWEEN to the right": query("x BETWEEN 1 AND " * 200 + "2"),
    "BETWEEN to the left": query("(" * 25 + "x" + " BETWEEN FALSE AND TRUE)" * 25),
    "subjects": query("CASE " * 16 + "x" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * 16 + " = 1"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_soon(text: str) -> None:
    before = time.process_time()
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert len(str(raised.value)) < 100_000
    assert time.process_time() - before < 5


def test_at_most_fifty_faults_are_printed() -> None:
    with pytest.raises(QueryError, match=r"and 1[0-9],[0-9]+ more") as raised:
        parse(HOSTILE["commas"])
    assert len(raised.value.faults) == 50


def test_a_long_line_is_cut_around_the_caret() -> None:
    with pytest.raises(QueryError) as raised:
        parse(query("x IN (" + "1, " * 2000 + "2) AND %"))
    _, shown, carets, *_ = str(raised.value).split("\n")
    assert len(shown) < 400
    assert shown[carets.index("^")] in "%)"


@pytest.mark.parametrize("value", [2**80, 10**400, "1e999999 s", f"{2**80} ns"])
def test_a_duration_has_64_bits(value: int | str) -> None:
    with pytest.raises(QueryError, match="longer than a 64-bit count"):
        as_duration(value)


def test_what_nests_as_people_write_it_is_read() -> None:
    predicate = Predicate.parse("(" * 20 + "x > 1" + ")" * 20 + " AND x > 2" * 2000)
    assert Predicate.parse(str(predicate)) == predicate
    nested = Predicate.parse("(x BETWEEN 1 AND 2) BETWEEN FALSE AND (y BETWEEN 3 AND 4)")
    assert Predicate.parse(str(nested)) == nested
