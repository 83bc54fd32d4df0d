"""Row patterns whose conditions read the match so far, as streams of larger queries."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.engine import row_calls
from piestream.engine.row_detector import RowDetector
from piestream.row_patterns.loops.records import BlocksHeader
from tests.row_patterns.oracle import known_matches
from tests.row_patterns.randoms import random_case, with_what_holds

_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}
#: Of a pattern that has no WITHIN.
_WITHIN = 6


def _as_stream(text: str, within: bool) -> ps.Query:
    """A query over the matches of a row pattern, which is given by its own text."""
    lines = text.splitlines()[1:-1]
    kept = [line for line in lines if line.split()[0] not in ("PARTITION", "ORDER", "MEASURES")]
    if not within:
        kept.append(f"WITHIN {_WITHIN}")
    return ps.query(f"""
        FROM s ORDER BY t UNIT s WITH s MATCH_RECOGNIZE (MEASURES COUNT(*) AS n {" ".join(kept)}) AS v
        PARTITION BY k DEFINE m AS v PATTERN m WITHIN 1000 EMIT ON COMPLETION RETURN m.ts, m.te
    """)


def test_matches_as_intervals_are_known_when_they_are_certain(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        case = random_case(seed, 7, memory=True, ahead=False)
        if case.query.rows is None or case.query.rows.all_rows or not case.rows:
            continue
        query = _as_stream(str(case.query), case.query.rows.within is not None)
        inner = next(s.query.rows for s in query.streams if s.query is not None)
        assert inner is not None
        assert inner.within is not None
        rows = with_what_holds(case.query, case.rows)
        frame = pl.DataFrame(case.events(), schema=_TYPES)
        for at_end in ("open", "close"):
            known = known_matches(
                inner, rows, inner.within.amount, rows[-1]["t"], at_end == "close"
            )
            found = query.run({"s": frame}, at_end=at_end).drop("k").rows()
            expected = [(match.since, match.start, match.end) for match in known]
            assert sorted(found) == sorted(expected), f"seed {seed}: {query}"


def test_the_correlation_of_dejavus_first_table() -> None:
    """Live falls, and the tick shapes of the archive that began at most 7 seconds before their ends."""
    prices = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
    stock = pl.DataFrame({"symbol": ["x"] * 11, "ts": range(11), "price": prices})
    query = ps.query("""
        FROM stock ORDER BY ts
        WITH stock MATCH_RECOGNIZE (
            MEASURES LAST(B.ts) AS last, A.price AS init, LAST(B.price) AS low
            AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
            PATTERN (A B+) WITHIN 100 DEFINE B AS B.price < PREV(B.price)) AS live
        WITH stock MATCH_RECOGNIZE (
            MEASURES A.ts AS first, A.price AS init, LAST(D.price) AS high
            AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH
            PATTERN (A B+ C* D+) WITHIN 100
            DEFINE B AS B.price < PREV(B.price),
                   C AS C.price >= PREV(C.price) AND C.price <= A.price,
                   D AS D.price > PREV(D.price) AND D.price > A.price) AS archive
        PARTITION BY symbol
        DEFINE fall AS live, tick AS archive
        PATTERN tick before; meets; overlaps fall
        WITHIN 100
        WHERE fall.last - tick.first <= 7
        RETURN tick.first AS ts, fall.last AS te, fall.init AS a, fall.low AS b, tick.init AS c,
               tick.high AS d
    """)
    found = query.run({"stock": stock}).select("ts", "te", "a", "b", "c", "d").rows()
    assert sorted(found) == [
        (2, 5, 7, 6, 6, 7),
        (2, 7, 11, 8, 6, 7),
        (2, 9, 8, 3, 6, 7),
        (4, 7, 11, 8, 7, 11),
        (4, 9, 8, 3, 7, 11),
    ]


def test_the_threads_of_a_long_push_take_no_more_than_those_of_short_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even while it lasts: what is left over is not given back, to be seen."""
    query = ps.query("""
        FROM s MATCH_RECOGNIZE (
            ORDER BY t MEASURES A.t AS since, LAST(B.t) AS until
            AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
            PATTERN (A B+) WITHIN 8 DEFINE B AS B.x > PREV(B.x))
    """)
    monkeypatch.setattr(row_calls, "_ROWS_AT_ONCE", 20_000)
    monkeypatch.setattr(RowDetector, "_compact_blocks", lambda _: None)
    rows = pl.DataFrame({"t": range(20_000)}).with_columns(x=pl.col("t") % 5)
    sizes, found = [], []
    for length in (20_000, 100):
        session = query.open()
        found.append(pl.concat([session.push(piece) for piece in rows.iter_slices(length)]))
        detector = session._stream.detector  # type: ignore[union-attr]
        assert isinstance(detector, RowDetector)
        sizes.append(BlocksHeader.over(detector.blocks).used)
    assert found[0].equals(found[1])
    assert len(found[0]) > 10_000
    assert sizes[0] < 2 * sizes[1]


def test_rows_that_wait_for_others_are_within_their_match_whatever_the_time() -> None:
    query = ps.query("""
        FROM s MATCH_RECOGNIZE (
            ORDER BY t MEASURES COUNT(*) AS n, NEXT(LAST(t), 2) AS behind
            AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
            PATTERN (A+) WITHIN 1 DEFINE A AS A.t >= FIRST(A.t))
    """)
    rows = [{"t": t} for t in (6, 7, 9, 11)]
    session = query.open()
    found = [row for event in rows for row in session.push(event)] + session.close()
    assert found == query.run(rows)
    assert found[1] == {"n": 2, "behind": 11}
