"""What queries print back, and the errors of faulty ones: both are data in tests/queries."""

from __future__ import annotations

import pickle
from itertools import permutations

import pytest

from piestream.language import Query, QueryError, parse

from .goldens import golden_pairs

GOOD = golden_pairs("round_trip.txt")
FAULTY = golden_pairs("errors.txt")


@pytest.mark.parametrize(("text", "canonical"), GOOD)
def test_a_query_prints_its_canonical_text_which_parses_back(text: str, canonical: str) -> None:
    query = parse(text)
    assert str(query) == canonical
    again = parse(canonical)
    assert again == query
    assert hash(again) == hash(query)
    assert str(again) == canonical


@pytest.mark.parametrize(("text", "message"), FAULTY)
def test_all_faults_of_a_query_are_shown_with_carets(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert str(caught.value) == message
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == message
    assert copy.faults == caught.value.faults


def test_every_fault_names_the_line_and_column_of_the_word_at_fault() -> None:
    text = "FROM x\nDEFINE a AS p > 1,\n  b AS\tfoo(q) > 1\nPATTERN a mets b\nWITHIN 5 parsecs"
    with pytest.raises(QueryError) as caught:
        parse(text)
    lines = text.split("\n")
    words = [
        lines[f.line - 1][f.column - 1 : f.column - 1 + f.length]
        for f in caught.value.faults
        if f.line is not None and f.column is not None
    ]
    assert words == ["foo(q", "mets", "parsecs"]


CLAUSES = [
    "FROM x",
    "PARTITION BY k",
    "ORDER BY t UNIT ms",
    "MAX GAP 3 s",
    "DEFINE a AS p > 1 BETWEEN 1 s AND 2 s, b AS q IN (1, 2)",
    "PATTERN a meets; overlaps b",
    "WITHIN 5 min",
    "EMIT ON BOTH",
    "RETURN a.ts, AVG(b.v)",
]


def test_clauses_may_stand_in_any_order() -> None:
    expected = parse("\n".join(CLAUSES))
    for shift in range(len(CLAUSES)):
        turned = CLAUSES[shift:] + CLAUSES[:shift]
        assert parse(" ".join(turned)) == expected
        assert parse(" ".join(reversed(turned))) == expected


def test_neither_the_order_of_constraints_nor_the_way_round_makes_a_difference() -> None:
    define = "FROM x DEFINE a AS p > 1, b AS q > 1, c AS r > 1 WITHIN 9 PATTERN "
    parts = ["a meets; starts b", "c after b", "a before c"]
    queries: set[Query] = {parse(define + " AND ".join(p)) for p in permutations(parts)}
    queries.add(parse(define + "b met-by a; b started_by a AND b before c AND c AFTER a"))
    assert len(queries) == 1


def test_a_bare_name_of_a_stream_is_a_label_but_a_path_is_not() -> None:
    rest = " DEFINE a AS p > 1 PATTERN a WITHIN 5"
    assert parse("FROM x" + rest) == parse("FROM y" + rest)
    assert parse("FROM 'x'" + rest) != parse("FROM 'y'" + rest)
    assert parse("FROM 'x'" + rest) != parse("FROM x" + rest)


def test_sixty_four_symbols_are_fine_and_one_more_is_not() -> None:
    def chain(count: int) -> str:
        define = ", ".join(f"s{i} AS v{i} > 1" for i in range(count))
        pattern = " AND ".join(f"s{i} before s{i + 1}" for i in range(count - 1))
        return f"FROM x DEFINE {define} PATTERN {pattern} WITHIN 5"

    assert len(parse(chain(64)).symbols) == 64
    with pytest.raises(QueryError, match="at most 64 symbols, this has 65"):
        parse(chain(65))


def test_a_predicate_may_be_very_long() -> None:
    long = " OR ".join(f"p = {i}" for i in range(3000))
    query = parse(f"FROM x DEFINE a AS {long} PATTERN a WITHIN 5")
    assert parse(str(query)) == query


def test_a_query_is_pickled_with_its_places() -> None:
    query = parse(GOOD[0][0])
    copy: Query = pickle.loads(pickle.dumps(query))
    assert copy == query
    assert str(copy) == str(query)
    error = copy.fault(("at_least", "a"), "too long")
    assert "^^^" in str(error)
    assert error.faults[0].line == 2


def test_a_fault_found_later_stands_at_its_place_in_the_text() -> None:
    query = parse("FROM x ORDER BY t\nDEFINE a AS p > 1\nPATTERN a\nWITHIN 5 minutes")
    with pytest.raises(QueryError) as caught:
        query.ticks(("within",), query.within, None)
    assert "ORDER BY t UNIT s" in str(caught.value)
    assert (caught.value.faults[0].line, caught.value.faults[0].column) == (4, 8)
    assert query.ticks(("within",), query.within, 10**9) == 300
    with pytest.raises(QueryError, match="not a whole number of ticks"):
        query.ticks(("within",), query.within, 7 * 10**9)
