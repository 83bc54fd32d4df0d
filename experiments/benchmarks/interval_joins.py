"""Joins of two tables of ready-made intervals, beside DuckDB and Polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from experiments.benchmarks.common import measured
from experiments.benchmarks.interval_libraries import LIBRARIES, joining_by, missing
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import markdown_table, milliseconds, select, why_not
from experiments.peers.pattern import UnsupportedPatternError
from experiments.streams import SEED

_OURS = "piestream"
#: What no method can do without: the columns of the result, from row numbers that are known.
_OUTPUT = "output alone"


@dataclass(frozen=True)
class Case:
    """Two tables of ``rows`` intervals, of which one of x has about ``partners`` that intersect it."""

    name: str
    relations: str
    condition: str  # the same in SQL
    rows: int
    partners: float
    keys: int = 1
    is_sorted: bool = True
    #: How much later the start of y may be, of "before".
    at_most: int | None = None

    @property
    def where(self) -> str | None:
        """The condition on the distance as `ps.join` takes it."""
        return None if self.at_most is None else f"y.ts - x.te <= {self.at_most}"

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """x and y, in order of start or mixed."""
        random = np.random.default_rng(SEED)
        return self._table(random), self._table(random)

    def _table(self, random: np.random.Generator) -> pl.DataFrame:
        span = self.rows * 1_000
        longest = int(self.partners * 1_000 * self.keys)
        starts = random.integers(0, span, self.rows)
        if self.is_sorted:
            starts.sort()
        return pl.DataFrame(
            {
                "row": np.arange(self.rows),
                "k": random.integers(0, self.keys, self.rows),
                "ts": starts,
                "te": starts + random.integers(1, longest + 1, self.rows),
            }
        )


_INTERSECTS = "x.ts < y.te AND y.ts < x.te"
_OVERLAPS = "x.ts < y.ts AND y.ts < x.te AND x.te < y.te"


def cases(size: Size) -> list[Case]:
    """The cases; the first has the sizes of the others."""
    rows = size.of(300, 300_000, 300_000)
    first = Case("intersects", "intersects", _INTERSECTS, rows, 6)
    return [
        first,
        replace(first, name="intersects, rows mixed", is_sorted=False),
        replace(first, name="overlaps", relations="overlaps", condition=_OVERLAPS),
        replace(first, name="during", relations="during", condition="y.ts < x.ts AND x.te < y.te"),
        replace(first, name="intersects, 1,000 keys", keys=1_000),
        replace(
            first, name="before, at most 3,000 later", relations="before", at_most=3_000,
            condition="x.te < y.ts AND y.ts <= x.te + 3000",
        ),
        replace(first, name="intersects, dense", rows=rows // 30, partners=size.of(3, 1_000, 1_000)),
    ]  # fmt: skip


def joining(case: Case) -> Callable[[], pl.DataFrame]:
    """The join by piestream."""
    x, y = case.tables()
    on = "k" if case.keys > 1 else None
    return partial(ps.join, x, y, case.relations, on=on, where=case.where)


def joining_in_duckdb(case: Case) -> Callable[[], pl.DataFrame]:
    """The join as SQL, its result as a Polars frame."""
    import duckdb

    x, y = (table.to_arrow() for table in case.tables())
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("x", x)
    connection.register("y", y)
    same_key = "x.k = y.k AND " if case.keys > 1 else ""
    text = f"SELECT x.*, y.row, y.ts, y.te FROM x, y WHERE {same_key}{case.condition}"
    return lambda: connection.sql(text).pl()


def joining_by_iejoin(case: Case) -> Callable[[], pl.DataFrame]:
    """The join in DuckDB by the operator IEJoin, keys moved apart on one line if there are several.

    It is refused where the planner takes another operator.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for threshold in ("merge_join_threshold", "nested_loop_join_threshold"):
        connection.execute(f"SET {threshold} = 0")  # of how many rows on it is considered
    for name, table in zip("xy", case.tables(), strict=True):
        connection.register(f"{name}_given", table.to_arrow())
    apart = case.rows * 1_000 * 2 + int(case.partners * 1_000 * case.keys)
    moved = ", ".join(f"{end} + k * {apart} AS {end}" for end in ("ts", "te"))
    of = {name: f"(SELECT row, k, {moved} FROM {name}_given)" if case.keys > 1 else f"{name}_given"
          for name in "xy"}  # fmt: skip
    ends = ", ".join(
        f"{name}.{end} - {name}.k * {apart} AS {end}_{name}"
        for name in "xy"
        for end in ("ts", "te")
    )
    columns = f"x.row, x.k, y.row AS row_y, {ends}" if case.keys > 1 else "x.*, y.row, y.ts, y.te"
    text = f"SELECT {columns} FROM {of['x']} AS x, {of['y']} AS y WHERE {case.condition}"
    plan = str(connection.sql(f"EXPLAIN {text}").fetchall())
    if "iejoin" not in plan.lower().replace(" ", "").replace("_", ""):
        raise UnsupportedPatternError("DuckDB's planner takes another operator")
    return lambda: connection.sql(text).pl()


def joining_in_polars(case: Case) -> Callable[[], pl.DataFrame]:
    """The join by ``join_where``."""
    x, y = case.tables()
    x = x.rename({name: f"x.{name}" for name in x.columns})
    y = y.rename({name: f"y.{name}" for name in y.columns})
    condition = case.condition + (" AND x.k = y.k" if case.keys > 1 else "")
    predicates = [_predicate(part) for part in condition.split(" AND ")]
    return partial(x.join_where, y, *predicates)


def _predicate(text: str) -> pl.Expr:
    """A comparison such as ``y.ts <= x.te + 3000``."""
    left, sign, *right = text.split()
    value = pl.col(right[0]) if len(right) == 1 else pl.col(right[0]) + int(right[2])
    name = {"<": "lt", "<=": "le", "=": "eq"}[sign]
    predicate: pl.Expr = getattr(pl.col(left), name)(value)
    return predicate


def writing_the_output(case: Case) -> Callable[[], pl.DataFrame]:
    """The columns of the result, from the numbers of its rows."""
    x, y = case.tables()
    found = joining(case)()
    x_rows, y_rows = (
        found[name].cast(pl.get_index_type()) for name in ("row_x", "row_y")
    )  # fmt: skip
    y = y.rename({name: f"{name}_y" for name in y.columns})
    if case.keys > 1:
        y = y.drop("k_y")
    return lambda: x.select(pl.all().gather(x_rows)).hstack(y.select(pl.all().gather(y_rows)))


METHODS: dict[str, Callable[[Case], Callable[[], Any]]] = {
    _OURS: joining,
    "DuckDB": joining_in_duckdb,
    "DuckDB, IEJoin": joining_by_iejoin,
    "Polars join_where": joining_in_polars,
    **{library: partial(joining_by, library) for library in LIBRARIES},
    _OUTPUT: writing_the_output,
}


def rows(size: Size) -> Iterator[Row]:
    """A row a case and method."""
    ps.join(
        *replace(cases(Size.TINY)[0], rows=50).tables(), "intersects", on="k", where="x.ts < y.te"
    )
    for case in cases(size):
        for method, prepare in METHODS.items():
            if method in LIBRARIES and missing(method):
                continue
            yield measured(prepare, case, size=size, events=2 * case.rows, case=case.name,
                           method=method, rows_a_side=case.rows)  # fmt: skip


def tables(rows: Rows) -> str:
    """Wall-clock and CPU time of each method, and how much longer than ours."""
    head = ["case", "rows a side", "pairs", "method", "wall ms, warm / cold", "CPU ms, warm / cold",
            "CPU over piestream"]  # fmt: skip
    lines = []
    for row in rows:
        ours = select(rows, case=row["case"], method=_OURS)[0]
        cells = [f"{milliseconds(row.get(f'{value}_s'))} / {milliseconds(row.get(f'cold_{value}_s'))}"
                 for value in ("wall", "cpu")]  # fmt: skip
        if not row.get("cold_cpu_s"):
            cells = [why_not(row)] * 2
        times = _times(row, ours)
        lines.append([row["case"], f"{row['rows_a_side']:,}", f"{row['matches']:,}" if "matches" in row else "–", row["method"],
                      *cells, "–" if times is None else f"{times:.2f}"])  # fmt: skip
    return markdown_table(head, lines)


def _times(row: Row, ours: Row) -> float | None:
    """How many times as long as ours a method takes, warm if both are, else cold."""
    for kind in ("cpu_s", "cold_cpu_s"):
        if row.get(kind) and ours.get(kind):
            return float(row[kind] / ours[kind])
    return None


def conclusions(rows: Rows) -> str:
    """How much longer the others take, and whether all find the same pairs."""
    texts = []
    for method in METHODS:
        times = [
            times
            for row in select(rows, method=method)
            if (times := _times(row, select(rows, case=row["case"], method=_OURS)[0])) is not None
        ]
        if method != _OURS and times:
            texts.append(f"{method} {min(times):.2g} to {max(times):.2g} times")
    counts: dict[str, set[int]] = {}
    for row in rows:
        counts.setdefault(row["case"], set()).update({row["matches"]} if "matches" in row else ())
    same = all(len(found) <= 1 for found in counts.values())
    agree = (
        "All methods find equally many pairs"
        if same
        else "**Methods do not find equally many pairs**"
    )
    return f"**CPU time over that of piestream**: {'; '.join(texts)}. {agree}."


EXPERIMENT = Experiment(
    "interval_joins",
    "Joins of tables of intervals",
    "How long does it take to join two tables of ready-made intervals?",
    "`ps.join` over frames in memory, DuckDB over Arrow tables with the result as a Polars frame, Polars' "
    "`join_where`; DuckDB as it plans and by its operator IEJoin, keys moved apart; superintervals, NCLS and "
    "bioframe where they are installed, their pairs filtered by NumPy. Starts are uniform, lengths too; "
    "rows are in order of start, but for one case. All give the columns of both tables. "
    f"*{_OUTPUT}*: the same columns gathered by Polars from row numbers that are known before, all at once.",
    rows,
    tables,
    conclusions,
    rooms=("adapters", "compiled", "expressions", "interval_tables", "language", "relations.py"),
)
