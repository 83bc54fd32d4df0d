"""NOT (...) where several events of a partition have one time: orders compare instants, lengths measure time."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps

LATE = (
    "FROM s PARTITION BY k ORDER BY t, q DEFINE a AS a, c AS c "
    "PATTERN a AND NOT (c after a AND c.ts - a.te {} 4) WITHIN 99 RETURN a.ts, a.te"
)


def _events(*rows: tuple[int, int, bool, bool], key: str = "x") -> pl.DataFrame:
    return pl.DataFrame(
        [(key, *row) for row in rows], schema=["k", "t", "q", "a", "c"], orient="row"
    )


RUN = _events((1, 1, True, False), (2, 1, False, False))


@pytest.mark.parametrize(
    ("comparison", "there"), [("<=", [True, True, False]), ("<", [False, False, False])]
)
def test_what_begins_at_any_event_of_the_deadline_is_in_time(
    comparison: str, there: list[bool]
) -> None:
    query = ps.query(LATE.format(comparison))
    found = []
    for rows in (
        [(6, 1, False, True)],
        [(6, 1, False, False), (6, 2, False, True)],
        [(6, 1, False, False), (7, 1, False, True)],
    ):
        matches = query.run(pl.concat([RUN, _events(*rows)]))
        assert matches.rows() in ([], [("x", 6, 1, 2)])
        found.append(matches.is_empty())
    assert found == there


def test_a_deadline_is_over_with_the_last_event_of_its_time() -> None:
    for comparison, at_once in (("<=", 0), ("<", 1)):
        session = ps.query(LATE.format(comparison)).open()
        assert session.push(RUN).is_empty()
        first = session.push(_events((6, 1, False, False)))
        assert len(first) == at_once
        session = session.query.open(state=session.snapshot())
        second = session.push(_events((6, 2, False, False)))
        assert second.is_empty()
        third = session.advance(7)
        assert [*first.rows(), *third.rows()] == [("x", 6, 1, 2)]


def test_what_is_known_at_the_first_event_behind_the_bound_counts() -> None:
    text = (
        "FROM s ORDER BY t, q DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c after a; during a AND c.ts - a.ts {} 4) WITHIN 99 RETURN a.te"
    )
    rows = _events((1, 1, True, False), (5, 1, True, False), (5, 2, False, False)).drop("k")
    for comparison, end in (("<", None), ("<=", 5)):  # the run ends between these two instants
        found = ps.query(text.format(comparison)).open()
        given = [*found.push(rows).rows(), *found.advance(6).rows()]
        assert given == [(5, end)]


def test_orders_are_of_instants_and_distances_of_times() -> None:
    text = "FROM s ORDER BY t, q DEFINE a AS a, c AS c PATTERN a AND NOT ({}) WITHIN 99 RETURN a.ts"
    rows = _events(
        (1, 1, False, True), (1, 2, False, False), (1, 3, True, False), (1, 4, False, False)
    ).drop("k")

    def found(absence: str) -> int:
        session = ps.query(text.format(absence)).open()
        return len(session.push(rows)) + len(session.advance(9))

    assert found("c before a AND a.ts - c.te <= 0") == 0
    assert found("c meets a") == 1
    assert found("c before a AND a.ts - c.te >= 1 AND a.ts - c.te <= 5") == 1
    assert found("c after a AND c.ts - a.te <= 0") == 1


def test_another_run_of_the_same_predicate_at_the_same_time_is_not_its_own() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q DEFINE a AS a, again AS a "
        "PATTERN a AND NOT (again after a AND again.ts - a.te <= 0) WITHIN 99 RETURN FIRST(a.q) AS q"
    )
    rows = [(1, 1, True, False), (1, 2, False, False), (1, 3, True, False), (1, 4, False, False)]
    later = (2, 1, False, False)
    assert query.run(_events(*rows, later)).rows() == [(1, 3)]


def test_a_run_that_is_interrupted_goes_on_at_any_event_of_its_deadline() -> None:
    query = ps.query(LATE.format("<=").replace("c AS c", "c AS c AT LEAST 5 BRIDGING 2"))
    run = [(5, 1, False, True), (6, 1, False, False), (8, 1, False, False)]
    late = [(8, 2, False, True), (12, 1, False, True)]
    assert query.run(pl.concat([RUN, _events(*run, (9, 1, False, False))])).rows() == [
        ("x", 8, 1, 2)
    ]
    assert query.run(pl.concat([RUN, _events(*run, *late)])).is_empty()


def test_why_says_when_an_absence_was_decided() -> None:
    query = ps.query(LATE.format("<="))
    rows = pl.concat(
        [RUN, _events((6, 1, False, False), (6, 2, False, False), (7, 1, False, False))]
    )
    (found,) = [query.why(match, rows) for match in query.run(rows).to_dicts()]
    assert [(one.symbol, one.decided_at) for one in found.absences] == [("c", 6)]
    assert found.waited_for == ("NOT (c after a AND c.ts - a.te <= 4) to be decided",)


def test_why_not_compares_instants() -> None:
    text = (
        "FROM s ORDER BY t, q DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c after a AND c.ts - a.te <= 4) WITHIN 99"
    )
    rows = [(2, 1, False, False), (2, 2, False, True), (2, 3, False, False), (9, 1, False, False)]
    query, given = ps.query(text), pl.concat([_events((1, 1, True, False)), _events(*rows)])
    (*_, miss) = query.why_not(given.drop("k"), between=(1, 2)).near_misses
    assert miss.text.startswith("c [2, 2) is what NOT (c after a")
    met = ps.query(text.replace("after a", "met-by a"))
    assert len(met.run(given.drop("k"))) == 1
