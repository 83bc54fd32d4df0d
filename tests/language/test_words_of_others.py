"""What other languages write is answered with how it is written here."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app
from piestream.language import Predicate


def fault(text: str, frame: pl.DataFrame | None = None) -> str:
    """The only fault of a query, with its hint."""
    with pytest.raises(ps.QueryError) as raised:
        ps.query(text).run(pl.DataFrame() if frame is None else frame)
    (found,) = raised.value.faults
    assert "^" in str(raised.value)
    return f"{found.message} = {found.hint}"


def of_predicate(predicate: str, frame: pl.DataFrame | None = None) -> str:
    within = "60" if frame is None or frame["t"].dtype.is_integer() else "60 s"
    return fault(f"FROM s ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN {within}", frame)


@pytest.mark.parametrize(
    ("predicate", "answer"),
    [
        ("x > AVG(x) OVER (ORDER BY t ROWS 5 PRECEDING)", "written without brackets = write AVG(x) OVER 30 s"),
        ("x > LAG(x) OVER (PARTITION BY k ORDER BY t)", "PREV(x) is x at the event before"),
        ("x > 1 FOR 3 s", "FOR does not belong here = how long a situation lasts is written AT LEAST 3 s"),
        ("x > 1 FOR 5 minutes", "written AT LEAST 5 min"),
        ("x > 1 FOR AT LEAST 3 s", "written AT LEAST 3 s"),
        ("(x > 1) FOR 3 EVENTS", "written AT LEAST 3 EVENTS"),
        ("x > {limit}", "write :limit, and ps.query(text, limit=...)"),
        ("x > {}", "write :limit, and ps.query(text, limit=...)"),
        ("x > $top", "write :top, and ps.query(text, top=...)"),
        ("x > @top", "write :top, and ps.query(text, top=...)"),
        ("x > ?", "a value is missing here"),
        ("x > %s", "a value is missing here"),
        ("x > %(top)s", "write :top, and ps.query(text, top=...)"),
    ],
)  # fmt: skip
def test_predicates(predicate: str, answer: str) -> None:
    assert answer in of_predicate(predicate)


def test_a_window_in_braces_is_a_parameter() -> None:
    text = "FROM s DEFINE a AS x > 1 PATTERN a WITHIN {window}"
    assert "write :window, and ps.query(text, window=...)" in fault(text)


def test_what_only_looks_like_them_stays_what_it_is() -> None:
    assert str(Predicate.parse("x % s = 1")) == "x % s = 1"
    assert str(Predicate.parse("(x) % s = 1")) == "x % s = 1"
    assert Predicate.parse("for > 1 AND over < 2").columns == ("for", "over")


@pytest.mark.parametrize("dtype", [pl.Date(), pl.Datetime("us")])
@pytest.mark.parametrize("predicate", ["t - PREV(t) > 5", "t > PREV(t) + 5", "5 < t - s"])
def test_the_time_between_two_events_is_answered_with_the_gap(
    predicate: str, dtype: pl.DataType
) -> None:
    frame = pl.DataFrame({"t": [1], "s": [1]}).cast({"t": dtype, "s": dtype})
    with pytest.raises(ps.QueryError) as raised:
        ps.query(f"FROM s ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN 60 d").run(frame)
    (found,) = raised.value.faults
    assert "is no number to add to or to subtract from" in found.message
    assert "MAX GAP 5 s" in str(found.hint)


@pytest.mark.parametrize(
    ("clause", "answer"),
    [
        ("HAVING AVG(a.x) > 3", "WHERE AVG(a.speed) > 70"),
        ("GROUP BY k", "PARTITION BY makes a stream of its own of each key"),
        ("SELECT a.ts", "stands in RETURN"),
        ("MEASURES a.ts", "stands in RETURN"),
        ("WINDOW 5", "WITHIN 5 minutes"),
    ],
)
def test_clauses_of_sql_are_answered_with_ours(clause: str, answer: str) -> None:
    said = fault(f"FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 60 {clause}")
    assert said.startswith(f"there is no clause {clause.split()[0]} = ")
    assert answer in said


def test_a_condition_on_events_in_where_is_told_where_it_belongs() -> None:
    said = fault("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 60 WHERE x > 3")
    assert "there is no symbol x" in said
    assert "a condition on events is a part of a predicate: a AS speed > 70 AND x > 2" in said


def test_functions_of_the_module_that_there_are_not() -> None:
    for name, answer in (
        ("run", "a query has it, as in piestream.query(text).run(...)"),
        ("parse", r"piestream.query\(text\) reads a query"),
        ("Sesion", "did you mean Session"),
    ):
        with pytest.raises(AttributeError, match=answer.replace("(text).run(...)", ".*")):
            getattr(ps, name)
    assert not hasattr(ps, "__wrapped__")


@pytest.mark.parametrize(
    ("predicate", "answer"),
    [
        ("c = 'rde'", "'rde' is none of the values that the column c can have = did you mean red?"),
        ("'purple' <> c", "'purple' is none of the values that the column c can have"),
        ("c IN ('red', 'x')", "'x' is none of the values that the column c can have = they are 'red', 'blue'"),
        ("PREV(c) = 'Red'", "did you mean red?"),
    ],
)  # fmt: skip
def test_an_enum_is_compared_with_its_own_values(predicate: str, answer: str) -> None:
    frame = pl.DataFrame({"t": [1], "c": pl.Series(["red"], dtype=pl.Enum(["red", "blue"]))})
    assert answer in of_predicate(predicate, frame)
    held = Predicate.parse("c IN ('red', 'blue') AND c <> 'blue' AND c LIKE 'r%'")
    assert frame.select(held.to_polars(frame.schema)).item()


NEVER = [
    "x > 1 AND x < 0",
    "x > 1 AND y > 2 AND 0 > x",
    "x >= 1 AND x < 1",
    "x = 1 AND x = 2",
    "x = 1 AND x <> 1",
    "x BETWEEN 5 AND 3",
    "x IN (1, 2) AND x > 2",
    "x IN (1, 2) AND x IN (3, 4)",
    "x IS NULL AND x > 1",
    "x > 1.5 AND NOT x > 1",
    "c = 'a' AND c = 'b'",
    "d > DATE '2026-01-02' AND d < DATE '2026-01-01'",
    "(x > 1 AND x < 0) OR (x = 3 AND x = 4)",
    "NOT (x <= 1 OR x >= 0)",
    "b AND FALSE",
    "x > NULL",
    "1 > 2",
    "PREV(x) > 1 AND PREV(x) < 1",
]
SOMETIMES = [
    "x > 1",
    "x > 1 AND x < 2",
    "x >= 1 AND x <= 1",
    "x > 1 AND PREV(x) < 0",
    "x > 1 AND y < 0",
    "x > 1 OR x < 0",
    "x <> 1 AND x <> 2",
    "x IN (1, 2) AND x <> 1",
    "x IS NULL OR x > 1",
    "NOT (x > 1 AND x < 0)",
    "TRUE",
    "c > 'a' AND c < 'b'",
    "x IS NOT NULL AND x = 1",
]


@pytest.mark.parametrize("text", NEVER)
def test_a_predicate_that_is_never_true_is_found(text: str) -> None:
    assert Predicate.parse(text).is_never_true


@pytest.mark.parametrize("text", SOMETIMES)
def test_a_predicate_that_can_be_true_is_not_accused(text: str) -> None:
    assert not Predicate.parse(text).is_never_true


def test_check_warns_of_a_predicate_that_is_never_true(tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text("FROM s ORDER BY t\nDEFINE a AS x > 1 AND x < 0\nPATTERN a WITHIN 60")
    checked = CliRunner().invoke(app, ["check", str(path)])
    assert checked.exit_code == 0
    assert checked.stdout == "ok\n"
    assert "warning: line 2, column 13: the predicate of a is never true" in checked.stderr
    assert "^^^^^^^^^^^^^^^" in checked.stderr
    path.write_text("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 60")
    assert CliRunner().invoke(app, ["check", str(path)]).stderr == ""


@pytest.mark.parametrize(
    ("predicate", "answer"),
    [
        ("Adj Close > 3", 'a name that contains a blank stands in double quotes: "Adj Close"'),
        ("x > 1 AND Adj Close > 3", 'stands in double quotes: "Adj Close"'),
        ("[Adj Close] > 3", '"Adj Close"'),
        ("`Adj Close` > 3", '"Adj Close"'),
        ("`Close` > 3", 'a name is quoted by double quotes: "Close"'),
        ("x > 1_000_000", "write 1000000"),
    ],
)
def test_names_and_numbers_of_another_style_are_answered(predicate: str, answer: str) -> None:
    assert fault(f"FROM s ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN 9").endswith(answer)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("FROM a-b.csv DEFINE a AS x PATTERN a WITHIN 3", "FROM 'a-b.csv'"),
        (
            "FROM s ORDER BY t, u, v DEFINE a AS x PATTERN a WITHIN 3",
            "has the time, and one column",
        ),
        ("FROM s ORDER BY t DESC DEFINE a AS x PATTERN a WITHIN 3", "leave DESC out"),
        ("FROM s DEFINE a AS x PATTERN a WITHIN 2 months", "write days, as in WITHIN 30 d"),
        ("FROM s DEFINE a AS x PATTERN a WITHIN 3 RETURN a.start", "of the interval is a.ts"),
        ("FROM s DEFINE a AS x PATTERN a WITHIN 3 RETURN a.end", "of the interval is a.te"),
        ("FROM s DEFINE a AS x PATTERN a WITHIN 3 RETURN COUNT(*)", "write COUNT(a)"),
        ("FROM s DEFINE a AS x PATTERN a WITHIN 3 RETURN MEDIAN(a.x)", "the functions are FIRST"),
    ],
)
def test_clauses_of_another_style_are_answered(text: str, answer: str) -> None:
    assert answer in fault(text)


def test_a_query_without_a_command_is_answered_with_how_it_is_run() -> None:
    done = CliRunner().invoke(app, ["dry.sql", "rows.csv"])
    assert done.exit_code == 2
    assert "piestream run dry.sql" in done.stderr


def test_help_and_errors_call_the_function_by_its_public_name() -> None:
    assert ps.query.__qualname__ == "query"
    with pytest.raises(TypeError, match=r"^query\(\)"):
        ps.query("FROM s DEFINE a AS x > ? PATTERN a WITHIN 3", 8)  # type: ignore[call-arg]


def test_a_query_is_made_of_a_text_by_ps_query() -> None:
    with pytest.raises(TypeError, match=r"ps\.query\(text\)"):
        ps.Query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 5")  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize(
    ("rest", "answer"),
    [
        ("AND b.ts - a.te <= '10 s' WITHIN 60", "needs a duration, not '10 s' = write it as 10 s"),
        ("AND b.ts - a.te BETWEEN '1 s' AND '9 s' WITHIN 60", "needs a duration, not '1 s' = write it as 1 s"),
        ("AND ABS(b.ts - a.te) <= 10 WITHIN 60", "takes no ABS = write BETWEEN with both"),
        ("WITHIN 60 RETURN AVG(a.v*2)", "AVG takes one column, and no calculation with it = make a column of it first"),
        ("WITHIN 60 RETURN AVG(a.v) * 2 + MAX(ABS(a.v)) AS k", "MAX takes one column, and no calculation"),
        ("WITHIN 60 RETURN a.duration", "the duration of the interval is DURATION(a); of a column write FIRST(a.duration)"),
        ("WITHIN 60 WHERE a.length > 5", "the length of the interval is DURATION(a)"),
    ],
)  # fmt: skip
def test_distances_and_values_of_a_match(rest: str, answer: str) -> None:
    assert answer in fault(
        f"FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a before b {rest}"
    )


@pytest.mark.parametrize(
    ("before", "behind", "answer"),
    [
        ("", "WHERE n > 3", "WHERE does not go with MATCH_RECOGNIZE alone = filter the result"),
        ("", "AS m WHERE m.n > 3", "WHERE does not go with MATCH_RECOGNIZE alone = filter the result"),
        ("", "WITHIN 5 min", "WITHIN does not go with MATCH_RECOGNIZE alone = write it in the brackets"),
        ("", "ORDER BY n", "ORDER BY does not go with MATCH_RECOGNIZE alone = write it in the brackets"),
        ("", "RETURN n", "MEASURES in its brackets says what a row of the result holds"),
        ("", "LIMIT 3", "take the first rows of the result"),
        ("SELECT *", "", "there is no clause SELECT = leave it out: MEASURES in the brackets"),
        ("SELECT n, m.x", "AS m", "there is no clause SELECT = leave it out: MEASURES in the brackets"),
    ],
)  # fmt: skip
def test_clauses_around_a_row_pattern_alone_are_one_fault(
    before: str, behind: str, answer: str
) -> None:
    rows = "MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS x > 1)"
    assert answer in fault(f"{before} FROM s {rows} {behind}")


@pytest.mark.parametrize("predicate", ["name = “x”", "name = ‘x’", "„the speed“ > 70"])
def test_quotes_of_word_processors(predicate: str) -> None:
    answer = of_predicate(predicate)
    assert "does not quote = write 'text' for a text, and \"name\" for a name" in answer


def test_a_let_among_the_symbols() -> None:
    text = "FROM s DEFINE LET twice = x + x, a AS twice > 1 PATTERN a WITHIN 5"
    assert "LET does not stand in DEFINE = write LET twice = ... before DEFINE" in fault(text)
