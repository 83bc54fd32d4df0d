"""Options: signatures that an editor can read, and errors that say which option was meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import piestream as ps

TEXT = "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9"
FRAME = pl.DataFrame({"t": [1, 2], "x": [5, 0]})
QUERY = ps.query(TEXT)
BUILT = ps.pattern(ps.define("a", "x > 1")).within(9).order_by("t")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: QUERY.open(latness=3), r"open\(\) has no option latness: did you mean lateness\?"),
        (lambda: BUILT.open(latness=3), "did you mean lateness"),
        (
            lambda: ps.Session(QUERY, tie="first"),
            r"Session\(\) has no option tie: did you mean ties",
        ),
        (lambda: QUERY.run(FRAME, thread=1), "did you mean threads"),
        (lambda: BUILT.run(FRAME, bucket=1), "did you mean buckets"),
        (lambda: QUERY.run(FRAME, zzz=1), "no option zzz: its options are frame, ties, lateness"),
        (lambda: ps.define("a", "x > 1", at_lest=5), "did you mean at_least"),
        (lambda: QUERY.run(FRAME, buckets=4), "buckets is an option of Spark frames; this is none"),
    ],
)
def test_an_option_that_there_is_not_is_answered_with_the_one_that_was_meant(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (ps.Query.run, {"ties", "lateness", "on_late", "threads", "delimiter", "buckets"}),
        (BUILT.run, {"ties", "lateness", "on_late", "threads", "delimiter", "buckets"}),
        (ps.Query.open, {"state", "lateness", "on_late", "ties", "schema"}),
        (BUILT.open, {"state", "lateness", "on_late", "ties", "schema"}),
        (ps.Session, {"state", "lateness", "on_late", "ties", "schema"}),
        (ps.define, {"at_least", "at_most", "at_least_events", "at_most_events"}),
    ],
)
def test_signatures_name_their_options(function: Callable[..., Any], options: set[str]) -> None:
    parameters = inspect.signature(function).parameters
    assert options <= set(parameters)
    assert not [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]


def test_the_options_of_open_and_of_a_session_are_the_same() -> None:
    opened = set(inspect.signature(ps.Query.open).parameters)
    opened -= {"self", "status"}  # a session that publishes its status is one of another class
    assert set(inspect.signature(ps.Session).parameters) - {"query"} == opened


def test_a_query_that_was_built_runs_and_opens_as_one_that_was_read() -> None:
    assert BUILT.run(FRAME, ties="first").equals(QUERY.run(FRAME, ties="first"))
    assert BUILT.open(lateness=5).push(FRAME).equals(QUERY.open(lateness=5).push(FRAME))
