"""why_not of a row pattern: how far it came, and which change makes the match appear."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.diagnosis.row_places import Instant
from piestream.language.row_patterns import Skip, SkipMode
from tests.row_patterns.oracle import Row, _Partition, matches
from tests.row_patterns.randoms import Case, random_case, row_case, with_what_holds

_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}
#: A row to come of which every condition holds.
_ANYTHING = {"holds": frozenset("ABCU"), "x": None, "name": None}


def _begins(query: ps.Query, rows: list[Any], place: int) -> bool:
    """Whether the oracle finds a match with rows that begins at a row."""
    assert query.rows is not None
    return any(match.first == place and match.path for match in matches(query.rows, rows))


def _everywhere(query: ps.Query) -> ps.Query:
    assert query.rows is not None
    return replace(query, rows=replace(query.rows, skip=Skip(SkipMode.TO_NEXT_ROW)))


def _is_beginning(case: Case, place: int, path: list[str]) -> bool:
    """Whether some match could begin with these rows, if any rows came behind them."""
    pattern = case.query.rows
    assert pattern is not None
    known = case.rows[: place + len(path)]
    last = known[-1]["t"] if known else 0
    for more in range(7):
        future: list[Row] = [{**_ANYTHING, "t": last} for _ in range(more)]
        where = _Partition(pattern, [*known, *future], None, 1)
        for way in where.ways(pattern.pattern, place, (), False):
            if [name for name, _ in way[: len(path)]] == path:
                return True
    return False


@pytest.mark.parametrize("one_time", [False, True], ids=["by time", "rows of one time"])
def test_every_near_miss_is_one_and_what_was_reached_is_a_beginning(
    few_seeds: list[int], one_time: bool
) -> None:
    tried = 0
    for seed in few_seeds:
        case = random_case(seed)
        frame = pl.DataFrame(case.events(), schema=_TYPES)
        if one_time:
            case, frame = row_case(seed, memory=False)
        rows = case.query.rows
        assert rows is not None
        if not case.rows or rows.mode.value:
            continue
        at = case.rows[Random(seed).randrange(len(case.rows))]["t"]
        places = [n for n, row in enumerate(case.rows) if row["t"] == at]
        if not case.query.streams[0].row_order:
            frame = frame.sample(fraction=1, shuffle=True, seed=seed)
        found = case.query.why_not(frame, partition={"k": 0}, between=(at, at), most=20)
        about = f"seed {seed} at {at}: {case.query}"
        begun = sum(_begins(case.query, case.rows, place) for place in places)
        if begun:
            assert found.matches == begun, about
            continue
        tried += 1
        assert not found.matches, about
        for miss in found.near_misses:
            held = with_what_holds(miss.query, case.rows) if one_time else case.rows
            assert any(_begins(miss.query, held, n) for n in places), f"{about}\n{miss.text}"
        kinds = [miss.kind for miss in found.near_misses]
        everywhere = _everywhere(case.query)
        assert ("skip" in kinds) == any(_begins(everywhere, case.rows, n) for n in places), about
        if found.reached is not None and not set("^$") & set(str(case.query)):
            path = [name for _, name in found.reached.path]
            place = places[0] if not path else _place_of(case, found.reached.path[0][0])
            assert place in places, about
            assert _is_beginning(case, place, path), f"{about}\n{found}"
            if found.reached.stopped_at is not None:
                assert _place_of(case, found.reached.stopped_at) == place + len(path), about
            for failed in found.reached.failed:
                assert failed.variable not in case.rows[place + len(path)]["holds"]
                assert _is_beginning_with(case, place, path, failed.variable), f"{about}\n{found}"
    assert tried or few_seeds[0]


def _place_of(case: Case, shown: Any) -> int:
    """The row that a time shows, or an instant where several rows have one time."""
    if not isinstance(shown, Instant):
        return [row["t"] for row in case.rows].index(shown)
    if shown.column is not None:  # seq counts rows, by two
        return int(shown.value) // 2
    of_time = [n for n, row in enumerate(case.rows) if row["t"] == shown.time]
    return of_time[shown.value - 1]


def _is_beginning_with(case: Case, place: int, path: list[str], variable: str) -> bool:
    """Whether some way that could be a match has a row of the variable where another one failed."""
    row = place + len(path)
    held = {**case.rows[row], "holds": case.rows[row]["holds"] | {variable}}
    changed = Case(case.query, [*case.rows[:row], held, *case.rows[row + 1 :]])
    pattern = case.query.rows
    assert pattern is not None
    known = changed.rows[: row + 1]
    for more in range(7):
        future: list[Row] = [{**_ANYTHING, "t": known[-1]["t"]} for _ in range(more)]
        where = _Partition(pattern, [*known, *future], None, 1)
        for way in where.ways(pattern.pattern, place, (), False):
            if len(way) > len(path) and way[len(path)][0] == variable:
                return True
    return False


def _planted(random: Random, kind: str) -> tuple[str, list[int], list[int]]:
    """A query and rows that just miss one match: times and values. All else is far from one.

    The values of A, B and C lie at 10, 50 and 90.
    """
    low, high = random.randint(2, 4), random.randint(5, 8)
    number = random.randint(low, high)
    values = [10, *[50] * number, 90]
    least = 45
    if kind == "threshold":
        values[random.randint(1, number)] = 44
    if kind == "fewest":
        values = [10, *[50] * (low - 1), 90]
    if kind == "most":
        values = [10, *[50] * (high + 1), 90]
    times = [100 + n for n in range(len(values))]
    within = len(values)
    if kind == "window":
        times = [100 + 10 * n for n in range(len(values))]
        within = times[-1] - times[0] - 1
    around = [200] * 3  # of which no condition holds, nor nearly
    times = [1, 2, 3, *times, *(times[-1] + 1 + n for n in range(3))]
    text = (
        f"FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B{{{low},{high}}} C) "
        f"WITHIN {within} DEFINE A AS x = 10, B AS x >= {least} AND x < 60, C AS x = 90)"
    )
    return text, times, [*around, *values, *around]


@pytest.mark.parametrize(
    ("kind", "named"),
    [("threshold", "threshold"), ("fewest", "quantifier"), ("most", "quantifier"),
     ("window", "window")],
)  # fmt: skip
def test_a_planted_near_miss_is_named_first(kind: str, named: str) -> None:
    for seed in range(3):
        text, times, values = _planted(Random(seed), kind)
        query = ps.query(text)
        frame = pl.DataFrame({"t": times, "x": values})
        found = query.why_not(frame)
        assert found.near_misses[0].kind == named, f"seed {seed}: {text}\n{found}"
        changed = found.near_misses[0].query
        rows = [{"t": t, "x": x} for t, x in zip(times, values, strict=True)]
        assert _begins(changed, with_what_holds(changed, rows), 3)
        assert not matches(query.rows, with_what_holds(query, rows))  # type: ignore[arg-type]


PRICES = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
TICKER = pl.DataFrame({"symbol": ["ACME"] * 20, "day": range(1, 21), "price": PRICES})
_V = "DOWN AS price < PREV(price), UP AS price > PREV(price)"


def _why_not(pattern: str, day: int, define: str = _V, more: str = "") -> Any:
    query = ps.query(
        f"FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES COUNT(*) AS n {more} "
        f"PATTERN ({pattern}) DEFINE {define})"
    )
    return query.why_not(TICKER, partition={"symbol": "ACME"}, between=(day, day))


def test_it_says_how_far_the_pattern_came_and_what_failed() -> None:
    found = _why_not("STRT DOWN+ UP{4,}", 14)
    assert str(found).splitlines() == [
        "the pattern came to STRT at 14, DOWN from 15 to 16, UP from 17 to 18; complete: STRT DOWN+",
        "19 is not UP (price > PREV(price)): price 23, PREV(price) 24",
        "1. UP{4,} needs to be UP{2,}; with PATTERN (STRT DOWN+ UP{2,}) it matches",
    ]
    assert "price 23" in found._repr_html_()
    assert found.table["kind"].to_list() == ["quantifier"]


def test_it_says_that_an_earlier_match_leaves_it_out() -> None:
    found = _why_not("STRT DOWN+ UP+?", 11)
    assert str(found).splitlines() == [
        "skipped over: behind the match from 10 to 13 the search goes on at 14 "
        "(AFTER MATCH SKIP PAST LAST ROW)",
        "1. AFTER MATCH SKIP PAST LAST ROW leaves the match out, for another one was given before "
        "it; with AFTER MATCH SKIP TO NEXT ROW it is given too",
    ]
    assert found.reached is None
    found = _why_not("STRT DOWN+ UP+?", 12)
    assert str(found.skipped).startswith("skipped over: behind the match from 10 to 13")
    assert str(found.reached.path) == "((12, 'STRT'),)"
    found = _why_not("STRT DOWN+ UP+", 13, more="AFTER MATCH SKIP TO LAST UP")
    assert found.skipped is None


@pytest.mark.parametrize(
    ("pattern", "day", "said"),
    [
        ("STRT DOWN{2} UP", 18, "there is no row behind"),
        ("STRT DOWN DOWN $", 14, "17 is behind what should be the last row of the partition ($)"),
        ("^ STRT DOWN", 14, "a match begins at the first row of the partition only (^)"),
        ("UP UP DOWN", 11, "11 is not UP (price > PREV(price)): price 19, PREV(price) 25"),
        ("UP UP DOWN", 99, "there is no row in that time"),
    ],
)
def test_other_reasons(pattern: str, day: int, said: str) -> None:
    define = ", ".join(part for part in _V.split(", ") if part.split()[0] in pattern)
    found = _why_not(pattern, day, define)
    assert said in str(found).splitlines()
    assert found.matches == 0


@pytest.mark.parametrize(
    ("define", "day", "said"),
    [
        (
            "DOWN AS price < 0.7 * PREV(price), UP AS price > PREV(price)", 10,
            "1. DOWN: price / PREV(price) is 0.789474 at 12 (needs price < 0.7 * PREV(price)); "
            "with price <= 0.7895 * PREV(price) it matches",
        ),
        (
            "DOWN AS price < STRT.price - 10, UP AS price > DOWN.price", 10,
            "1. DOWN: STRT.price - price is 6 at 11 (needs price < STRT.price - 10); "
            "with price <= STRT.price - 6 it matches",
        ),
        (
            "DOWN AS price < STRT.price AND COUNT(DOWN.*) <= 1, UP AS price > DOWN.price", 10,
            "DOWN: COUNT(DOWN.*) is 2 at 12 (needs COUNT(DOWN.*) <= 1); "
            "with COUNT(DOWN.*) <= 2 it matches",
        ),
        (
            "DOWN AS price BETWEEN 13 AND 17, UP AS price > PREV(price)", 10,
            "1. DOWN: price is 19 at 11 (needs price <= 17); with price <= 19 it matches",
        ),
    ],
)  # fmt: skip
def test_numbers_in_sums_products_and_over_the_match_so_far(
    define: str, day: int, said: str
) -> None:
    assert said in str(_why_not("STRT DOWN+ UP", day, define))


def test_a_window_names_the_least_that_is_enough() -> None:
    found = _why_not("STRT DOWN+ UP{3}", 5, more="WITHIN 3")
    assert "the match takes 4 (WITHIN 3); with WITHIN 4 it matches" in str(found)
    assert "9 is 4 behind the first row (WITHIN 3)" in str(found)


def test_near_names_variables() -> None:
    query = ps.query(
        "FROM ticker MATCH_RECOGNIZE (ORDER BY day MEASURES COUNT(*) AS n PATTERN (STRT DOWN+ UP) "
        f"DEFINE {_V})"
    )
    assert query.why_not(TICKER, near={"UP": (13, 13)}).matches == 1
    assert query.why_not(TICKER, near={"UP": (14, 16)}).matches == 0
    with pytest.raises(ValueError, match=r"near names UPP, which the query has not.* UP"):
        query.why_not(TICKER, near={"UPP": (1, 2)})


def test_sweep_varies_numbers_windows_and_quantifiers() -> None:
    text = (
        "FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES COUNT(*) AS n "
        "PATTERN (STRT DOWN{:fewest,} UP) WITHIN :window "
        "DEFINE DOWN AS price < :factor * PREV(price), UP AS price > STRT.price - :below)"
    )
    choices = {"fewest": [1, 2], "window": [3, 2], "factor": [1.0, 0.79], "below": 5}
    found = ps.sweep(text, TICKER, **choices)
    for row, query in zip(found.table.iter_rows(named=True), found.queries, strict=True):
        assert row["matches"] == len(query.run(TICKER)), row
    assert len(set(found.table["matches"])) > 1
    labels = pl.DataFrame({"symbol": ["ACME"], "ts": [10], "te": [13]})
    rated = ps.sweep(text, TICKER, labels=labels, fewest=2, window=3, factor=1.0, below=5)
    assert rated.table.select("matches", "precision", "recall").rows() == [(1, 1.0, 1.0)]


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("B.ts - A.ts <= 5 s", "1. B needs B.ts - A.ts <= 5 s; with B.ts - A.ts <= 6 s it matches"),
        ("B.ts - A.ts >= 8 s", "1. B needs B.ts - A.ts >= 8 s; with B.ts - A.ts >= 6 s it matches"),
        ("5 s > B.ts - A.ts", "1. B needs 5 s > B.ts - A.ts; with 6 s >= B.ts - A.ts it matches"),
        (
            "B.ts - A.ts BETWEEN 2 s AND 5 s",
            "1. B needs B.ts - A.ts BETWEEN 2 s AND 5 s; with B.ts - A.ts <= 6 s it matches",
        ),
        (
            "B.ts - A.ts BETWEEN 7 s AND 9 s",
            "1. B needs B.ts - A.ts BETWEEN 7 s AND 9 s; with B.ts - A.ts >= 6 s it matches",
        ),
    ],
)
def test_lengths_of_time_in_a_condition(condition: str, said: str) -> None:
    rows = pl.DataFrame({"ts": [datetime(2026, 1, 1, 0, 0, s) for s in (3, 9, 59)]})
    query = ps.query(
        f"FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS {condition})"
    )
    found = query.why_not(rows, between=(rows["ts"][0], rows["ts"][0]))
    assert said in str(found)


def test_a_length_in_shorter_ticks_than_those_of_the_time_column_is_left_as_it_is() -> None:
    rows = pl.DataFrame(
        {"t": [0, 1], "seen": [datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 1)]}
    )
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t UNIT s MEASURES COUNT(*) AS n PATTERN (A B) "
        "DEFINE B AS B.seen - A.seen <= 5 ms)"
    )
    found = query.why_not(rows, between=(0, 0))
    assert [miss.kind for miss in found.near_misses] == ["quantifier"]


@pytest.mark.parametrize(
    ("by", "second", "third"), [("seq", "seq 2", "seq 5"), ("ROW", "row 2", "row 3")]
)
def test_rows_of_one_time_are_told_apart(by: str, second: str, third: str) -> None:
    rows = pl.DataFrame(
        {"t": [1, 1, 1, 2, 2, 2, 3], "seq": [1, 2, 5, 1, 2, 5, 1], "x": [9, 8, 7, 6, 9, 5, 5]}
    )
    query = ps.query(
        f"FROM s MATCH_RECOGNIZE (ORDER BY t, {by} MEASURES COUNT(*) AS n "
        "PATTERN (A DOWN UP) WITHIN 0 DEFINE A AS x > 8, DOWN AS x < A.x - 5, UP AS x > 8)"
    )
    found = query.why_not(rows, between=(1, 1))
    first = second.replace("2", "1")
    assert str(found).splitlines() == [
        f"the pattern came to A at 1 ({first}); complete: A",
        f"1 ({second}) is not DOWN (x < A.x - 5): x 8, A.x 9",
        "no single change of a number in a condition, a quantifier or WITHIN makes a match appear; "
        "query.diagnose shows what is there",
    ]
    rises = ps.query(
        f"FROM s MATCH_RECOGNIZE (ORDER BY t, {by} MEASURES COUNT(*) AS n "
        "PATTERN (A DOWN{3} UP) WITHIN 0 DEFINE DOWN AS x < PREV(x), UP AS x > PREV(x))"
    ).why_not(rows, between=(1, 1))
    assert str(rises).splitlines() == [
        f"the pattern came to A at 1 ({first}), DOWN from 1 ({second}) to 1 ({third}); complete: A",
        f"2 ({first}) is 1 behind the first row (WITHIN 0)",
        "1. the match takes 1 (WITHIN 0); with WITHIN 1 it matches",
    ]
