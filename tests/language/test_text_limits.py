"""Texts that are too long, deep or large are refused soon, by a QueryError of bounded size."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

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


#: Texts of so many repeated parts; the parts are such that each could be read with all before it.
REPEATED = {
    "BETWEEN after conditions": lambda n: "x IN (x > 1)" + " OR TRUE" * n + " BETWEEN 1 AND 2" * n,
    "BETWEEN with units": lambda n: "x > 1" + " BETWEEN 1 s AND 2 s" * n,
    "faults": lambda n: "x > 1" + " AND (x > 1) + 's' = TRUE" * n,
}


def calls_of(text: str) -> int:
    """How many functions are called while a text is read."""
    calls = 0

    def count(_frame: Any, event: str, _what: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        parse(text)
    except QueryError:
        pass
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("repeated", REPEATED.values(), ids=REPEATED)
def test_the_work_grows_no_faster_than_the_text(repeated: Callable[[int], str]) -> None:
    calls_of(query(repeated(5)))
    once, eight = calls_of(query(repeated(100))), calls_of(query(repeated(800)))
    assert eight < 12 * once


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


@pytest.mark.parametrize("value", ["1e999999 s", f"{2**63} ns", "200000000 d", timedelta.max])
def test_a_duration_with_a_unit_has_64_bits(value: str | timedelta) -> None:
    with pytest.raises(QueryError, match="longer than a 64-bit count"):
        as_duration(value)


@pytest.mark.parametrize("value", [2**80, 10**400, str(2**80), "1e999999"])
def test_ticks_may_be_more_than_there_are_but_not_of_any_size(value: str | int) -> None:
    assert as_duration(2**65) == as_duration(str(2**65))
    with pytest.raises(QueryError, match="than a duration can"):
        as_duration(value)


def test_what_nests_as_people_write_it_is_read() -> None:
    predicate = Predicate.parse("(" * 20 + "x > 1" + ")" * 20 + " AND x > 2" * 2000)
    assert Predicate.parse(str(predicate)) == predicate
    nested = Predicate.parse("(x BETWEEN 1 AND 2) BETWEEN FALSE AND (y BETWEEN 3 AND 4)")
    assert Predicate.parse(str(nested)) == nested
