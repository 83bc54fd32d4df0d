"""The same MATCH_RECOGNIZE here and in Apache Flink, clause by clause.

It needs Java and a package that is not one of this project's: ``pip install apache-flink`` (measured
with 2.3.0), then ``python -m experiments.row_patterns.against_flink``. It prints what both give; the
page on row patterns says why, where that differs.
"""

from __future__ import annotations

import importlib
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

import piestream as ps

#: Twenty closing prices, which tutorials of the clause use.
_PRICES = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
#: Flink has no PREV in DEFINE; its users write the V-shape so.
_V = (
    "DEFINE DOWN AS (LAST(DOWN.price, 1) IS NULL AND DOWN.price < STRT.price) "
    "OR DOWN.price < LAST(DOWN.price, 1), "
    "UP AS (LAST(UP.price, 1) IS NULL AND UP.price > LAST(DOWN.price)) OR UP.price > LAST(UP.price, 1)"
)
_PREV = "DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)"
_PAST = "AFTER MATCH SKIP PAST LAST ROW"
_ENDS = "MEASURES FIRST(STRT.day) AS a, LAST(UP.day) AS b"

#: By the clause that each is about: what stands behind PARTITION BY and ORDER BY.
CASES = {
    "the default of AFTER MATCH": f"{_ENDS} PATTERN (STRT DOWN+ UP) {_V}",
    "PREV in DEFINE": f"{_ENDS} PATTERN (STRT DOWN+ UP) {_PREV}",
    "concatenation, greedy +": f"{_ENDS} PATTERN (STRT DOWN+ UP+ X) {_V}, X AS TRUE",
    "greedy + at the end": f"{_ENDS} PATTERN (STRT DOWN+ UP+) {_V}",
    "SKIP TO LAST": f"{_ENDS} AFTER MATCH SKIP TO LAST UP PATTERN (STRT DOWN+ UP) {_V}",
    "SKIP TO FIRST": f"{_ENDS} AFTER MATCH SKIP TO FIRST DOWN PATTERN (STRT DOWN+ UP) {_V}",
    "SKIP TO NEXT ROW": f"{_ENDS} AFTER MATCH SKIP TO NEXT ROW PATTERN (STRT DOWN+ UP) {_V}",
    "reluctant +?": f"{_ENDS} PATTERN (STRT DOWN+? UP) {_V}",
    "{n,m}": f"{_ENDS} PATTERN (STRT DOWN{{1,2}} UP{{2}}) {_V}",
    "? in the middle": f"{_ENDS} PATTERN (STRT DOWN? UP) {_V}",
    "a group with a quantifier": f"{_ENDS} PATTERN ((STRT DOWN)+ UP) {_V}",
    "alternation": f"{_ENDS} PATTERN (STRT (DOWN | UP) UP) {_V}",
    "PERMUTE": f"{_ENDS} PATTERN (STRT PERMUTE(DOWN, UP)) {_V}",
    "anchor ^": f"{_ENDS} PATTERN (^ STRT DOWN* UP) {_V}",
    "anchor $": f"{_ENDS} PATTERN (STRT DOWN UP? $) {_V}",
    "exclusion": f"{_ENDS} PATTERN (STRT {{- DOWN -}} UP) {_V}",
    "ALL ROWS PER MATCH": f"{_ENDS} ALL ROWS PER MATCH PATTERN (STRT DOWN UP) {_V}",
    "empty matches": "MEASURES FIRST(A.day) AS a, COUNT(A.day) AS rows_of "
    "PATTERN (A*) DEFINE A AS A.price > 24",
    "SUBSET": f"MEASURES SUM(S.price) AS total PATTERN (STRT DOWN UP) SUBSET S = (STRT, UP) {_V}",
    "CLASSIFIER": f"MEASURES CLASSIFIER() AS last PATTERN (STRT DOWN UP) {_V}",
    "MATCH_NUMBER": f"MEASURES MATCH_NUMBER() AS n PATTERN (STRT DOWN UP) {_V}",
    "FINAL, RUNNING": f"MEASURES FINAL LAST(UP.day) AS b PATTERN (STRT DOWN UP) {_V}",
    "FIRST and LAST with an offset": "MEASURES FIRST(A.day, 1) AS after_first, LAST(A.day, 1) AS last_but_one "
    "PATTERN (A{3} B) DEFINE A AS A.price > 13, B AS B.price <= 13",
    "PREV in a measure": f"MEASURES PREV(DOWN.day) AS before PATTERN (STRT DOWN UP) {_V}",
    "a condition over another variable": "MEASURES A.day AS a, LAST(B.day) AS b "
    "PATTERN (A B+ C) DEFINE B AS B.price < A.price, C AS C.price >= A.price",
    "FIRST of another variable": "MEASURES FIRST(A.day) AS a, C.day AS b "
    "PATTERN (A{2} B* C) DEFINE B AS B.price < FIRST(A.price), C AS C.price > FIRST(A.price)",
    "LAST with an offset in DEFINE": "MEASURES FIRST(A.day) AS a, B.day AS b "
    "PATTERN (A+ B) DEFINE A AS LAST(A.price, 1) IS NULL OR A.price > LAST(A.price, 1), "
    "B AS B.price < LAST(A.price, 1)",
    "SUM in DEFINE": "MEASURES FIRST(A.day) AS a, LAST(A.day) AS b "
    "PATTERN (A+ B) DEFINE A AS SUM(A.price) <= 60, B AS TRUE",
    "AVG in DEFINE": "MEASURES FIRST(A.day) AS a, B.day AS b "
    "PATTERN (A{3} B) DEFINE B AS B.price > AVG(A.price) * 1.2",
    "COUNT in DEFINE": "MEASURES FIRST(A.day) AS a, B.day AS b "
    "PATTERN (A+ B) DEFINE A AS COUNT(A.price) < 4, B AS B.price > 20",
    "PREV(column, n) in DEFINE": "MEASURES A.day AS a "
    "PATTERN (A) DEFINE A AS A.price > PREV(A.price, 2) + 10",
    "NEXT in DEFINE": "MEASURES A.day AS a PATTERN (A) DEFINE A AS NEXT(A.price) > A.price + 5",
    "PREV(LAST(…)) in DEFINE": "MEASURES A.day AS a, B.day AS b "
    "PATTERN (A B) DEFINE B AS B.price > PREV(LAST(A.price), 1)",
    "CLASSIFIER in DEFINE": "MEASURES FIRST(A.day) AS a, B.day AS b "
    "PATTERN (A+ B) DEFINE A AS A.price > 20, B AS LAST(CLASSIFIER(), 1) = 'A'",
    "WITHIN": f"{_ENDS} PATTERN (STRT DOWN+ UP) WITHIN INTERVAL '2' DAY {_V}",
}


def _with_skip(body: str) -> str:
    """The clauses with AFTER MATCH SKIP written out, as the defaults differ."""
    if "AFTER MATCH" in body:
        return body
    return body.replace(" PATTERN", f" {_PAST} PATTERN", 1)


def _frame() -> pl.DataFrame:
    start = datetime(2026, 1, 1)
    days = range(1, len(_PRICES) + 1)
    return pl.DataFrame(
        {
            "symbol": ["ACME"] * len(_PRICES),
            "ts": [start + timedelta(days=day) for day in days],
            "day": days,
            "price": _PRICES,
        }
    )


def _ours(body: str) -> str:
    text = body.replace("INTERVAL '2' DAY", "2 days")
    try:
        query = ps.query(f"FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts {text})")
        return _listed([row[1:] for row in query.run(_frame()).rows()])
    except ps.QueryError as error:
        return f"refused: {str(error).splitlines()[0]}"


class _Flink:
    """A table of the prices in Flink."""

    def __init__(self, folder: Path) -> None:
        table: Any = importlib.import_module("pyflink.table")
        settings = table.EnvironmentSettings.in_streaming_mode()
        self.environment = table.TableEnvironment.create(settings)
        self.environment.get_config().set("parallelism.default", "1")
        path = folder / "ticker.csv"
        times = pl.col("ts").dt.strftime("%Y-%m-%d %H:%M:%S")
        _frame().with_columns(times).write_csv(path, include_header=False)
        self.environment.execute_sql(f"""
            CREATE TABLE ticker (symbol STRING, ts TIMESTAMP(3), `day` INT, price INT,
                                 WATERMARK FOR ts AS ts)
            WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')
        """)

    def run(self, body: str) -> str:
        text = body.replace(".day", ".`day`")
        sql = f"SELECT * FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY ts {text}) AS T"
        try:
            with self.environment.execute_sql(sql).collect() as rows:
                return _listed([tuple(row)[1:] for row in rows])
        except Exception as error:  # Java's, of any class
            lines = [line for line in str(error).splitlines() if "Exception" in line]
            return f"refused: {(lines or [str(error)])[-1][:200]}"


def _listed(rows: list[tuple[Any, ...]]) -> str:
    return " ".join("(" + ", ".join(map(str, row)) + ")" for row in rows) or "no rows"


def main() -> None:
    """Print what both give of each case."""
    with tempfile.TemporaryDirectory() as folder:
        flink = _Flink(Path(folder))
        for name, body in CASES.items():
            if name != "the default of AFTER MATCH":
                body = _with_skip(body)
            ours, theirs = _ours(body), flink.run(body)
            same = "same" if ours == theirs else "DIFFERS"
            print(f"{name}: {same}\n  here:  {ours}\n  Flink: {theirs}", flush=True)


if __name__ == "__main__":
    main()
