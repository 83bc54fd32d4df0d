"""The registry of functions: complete, reachable by every spelling, and alike in all back ends."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest

from piestream.expressions.functions import FUNCTIONS, Function, call_text
from piestream.expressions.functions.record import Operand, Order, registry
from piestream.expressions.predicate import Predicate
from piestream.expressions.syntax import Call, Is
from piestream.expressions.types import INT
from tests.expressions.reference import holds
from tests.expressions.trees import SCHEMA, Expressions, past_of, rows, with_past

_REVERSE = FUNCTIONS["REVERSE"]


def test_a_function_without_a_back_end_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="spark"):
        Function(  # type: ignore[call-arg]
            name="TWICE", node="Twice", meaning="", takes=(Operand.NUMBER,), gives=INT,
            order=Order.ANY, polars=lambda x: x * 2, python=lambda x: x * 2,
        )  # fmt: skip


@pytest.mark.parametrize("backend", ["polars", "python", "spark"])
def test_the_registry_refuses_an_incomplete_function(backend: str) -> None:
    incomplete = replace(_REVERSE, **{backend: None})
    with pytest.raises(TypeError, match=f"REVERSE has no implementation for {backend}"):
        registry([incomplete])
    of_whole_numbers = replace(FUNCTIONS["ABS"], of_whole_numbers=incomplete)
    with pytest.raises(TypeError, match=f"ABS has no implementation for {backend}"):
        registry([of_whole_numbers])


def test_the_registry_refuses_what_would_be_read_as_two_functions() -> None:
    with pytest.raises(TypeError, match="two functions REVERSE"):
        registry([_REVERSE, replace(_REVERSE, name="BACKWARDS", aliases=("REVERSE",))])
    with pytest.raises(TypeError, match="sqlglot's Reverse"):
        registry([_REVERSE, replace(_REVERSE, name="BACKWARDS")])
    with pytest.raises(TypeError, match="no line of documentation"):
        registry([replace(_REVERSE, meaning="")])


def _arguments(function: Function, count: int) -> list[str]:
    columns = {Operand.NUMBER: "f", Operand.FLOAT: "f", Operand.TEXT: "s",
               Operand.TIMESTAMP: "t", Operand.DATE_OR_TIMESTAMP: "d"}  # fmt: skip
    operands = [columns[kind] for kind in function.takes]
    return (operands + [str(number.least) for number in function.numbers])[:count]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_spelling_is_read_as_the_function(name: str) -> None:
    function = FUNCTIONS[name]
    least, most = function.arity
    for spelling in (name, *function.aliases):
        for count in {least, most or least}:
            text = call_text(spelling, _arguments(function, count))
            tree = Predicate.parse(f"{text} IS NULL").tree
            assert isinstance(tree, Is)
            assert isinstance(tree.value, Call), text
            assert tree.value.function == name
            assert len(tree.value.arguments) == count


@pytest.mark.parametrize("name", FUNCTIONS)
def test_polars_python_and_the_reference_agree_on_a_function(name: str) -> None:
    random = Random(name)
    expressions = Expressions(random)
    events = rows(random, 60)
    frame = with_past(pl.DataFrame(events, schema=SCHEMA))
    for _ in range(10):
        one, two = (expressions.call(FUNCTIONS[name], 0) for _ in range(2))
        for text in (f"{one} IS NULL", f"{one} = {two}", f"{one} < {two}", f"NOT {one} <= {two}"):
            predicate = Predicate.parse(text)
            function = predicate.to_python(SCHEMA)
            assert predicate.tree is not None
            assert function is not None
            pairs: list[tuple[Any, Any]] = list(zip(events, [None, *events[:-1]], strict=True))
            expected = [holds(predicate.tree, *pair) for pair in pairs]
            assert [function(one, past_of(before)) for one, before in pairs] == expected, text
            found = frame.select(predicate.to_polars(SCHEMA)).to_series().to_list()
            assert found == expected, text


def both(text: str, **columns: list[Any]) -> list[bool]:
    """Where a predicate holds, in Polars and in Python."""
    frame = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    predicate = Predicate.parse(text)
    function = predicate.to_python(frame.schema)
    assert function is not None
    found: list[bool] = frame.select(predicate.to_polars(frame.schema)).to_series().to_list()
    assert found == [function(row, None) for row in frame.to_dicts()]
    return found


@pytest.mark.parametrize(
    ("text", "reversed_text"),
    [
        ("", ""),
        ("ab", "ba"),
        ("h\u00e9llo", "oll\u00e9h"),
        ("e\u0301x", "x\u0301e"),  # the accent does not stay with its letter
        ("\U0001f600!", "!\U0001f600"),  # two code units of UTF-16, one character
        ("\N{MAN}\u200d\N{GIRL}", "\N{GIRL}\u200d\N{MAN}"),
        ("a\nb", "b\na"),
    ],
)
def test_reverse_is_by_code_points(text: str, reversed_text: str) -> None:
    assert both("REVERSE(s) = t AND s = REVERSE(t)", s=[text], t=[reversed_text]) == [True]


def test_reverse_of_null_is_null() -> None:
    assert both("REVERSE(s) IS NULL", s=["a", None]) == [False, True]
    assert both("REVERSE(NULL) IS NULL", s=["a"]) == [True]


def test_starts_with_compares_code_points() -> None:
    texts = ["abc", "ab", "a", "", "Abc", "\u00e9", "e\u0301"]
    assert both("STARTS_WITH(s, 'ab')", s=texts) == [True, True] + [False] * 5
    assert both("STARTS_WITH(s, '')", s=texts) == [True] * 7
    assert both("STARTSWITH(s, 'e')", s=texts) == [False] * 6 + [True]
    assert both("STARTS_WITH(s, 'a%')", s=["abc", "a%c"]) == [False, True]


def test_starts_with_is_null_if_either_text_is() -> None:
    texts, prefixes = ["ab", "ab", "ab", None, None], ["a", "b", None, "a", None]
    assert both("STARTS_WITH(s, t)", s=texts, t=prefixes) == [True] + [False] * 4
    assert both("NOT STARTS_WITH(s, t)", s=texts, t=prefixes) == [False, True] + [False] * 3
    assert both("STARTS_WITH(s, t) IS NULL", s=texts, t=prefixes) == [False] * 2 + [True] * 3
    assert both("STARTS_WITH(s, NULL) IS NULL", s=["a"]) == [True]


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("REVERSE(s) = 'ba'", "(reverse(`s`) = 'ba')"),
        ("STARTS_WITH(s, 'a')", "startswith(`s`, 'a')"),
    ],
)
def test_what_spark_is_given(text: str, spark: str) -> None:
    assert Predicate.parse(text).to_spark_sql({"s": str}) == f"coalesce({spark}, false)"


def test_a_part_of_no_time_is_null() -> None:
    assert both("EXTRACT(YEAR FROM NULL) IS NULL", s=["a"]) == [True]
