"""Running aggregates are those of Polars over the same rows, however the rows were cut."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.language.aggregates import AGGREGATES

FUNCTIONS = {
    "FIRST": lambda c: pl.col(c).first(),
    "LAST": lambda c: pl.col(c).last(),
    "COUNT": lambda c: pl.col(c).count(),
    "MIN": lambda c: pl.col(c).min(),
    "MAX": lambda c: pl.col(c).max(),
    "SUM": lambda c: _unless_empty(c, pl.col(c).sum()),
    "AVG": lambda c: pl.col(c).cast(pl.Float64).mean(),
    # the sample's, NULL below two values
    "STDDEV": lambda c: pl.col(c).cast(pl.Float64).std(),
    "VARIANCE": lambda c: pl.col(c).cast(pl.Float64).var(),
}
assert FUNCTIONS.keys() == AGGREGATES.keys()
WORDS = ("FIRST", "LAST", "COUNT", "MIN", "MAX")


def _unless_empty(column: str, value: pl.Expr) -> pl.Expr:
    """SQL's sum of nothing is NULL."""
    return pl.when(pl.col(column).count() > 0).then(value)


def rows_of(seed: int, n: int) -> pl.DataFrame:
    """Columns of all forms with missing values, beside two predicates that hold for a while."""
    rng = np.random.default_rng(seed)
    missing = rng.random((3, n)) < 0.25
    number = rng.integers(-5, 6, n)
    real = np.round(rng.normal(0, 50, n), 3)
    word = rng.choice(np.array(["", "ab", "z", "é", "abc", "Ab"]), n)
    real = np.where(rng.random(n) < 0.1, np.nan, real)
    return pl.DataFrame(
        {
            "ts": np.cumsum(rng.integers(1, 4, n)),
            "a": np.logical_xor.accumulate(rng.random(n) < 0.15),
            "b": np.logical_xor.accumulate(rng.random(n) < 0.04),
            "n": pl.Series(number).set(pl.Series(missing[0]), None),
            "f": pl.Series(real).set(pl.Series(missing[1]), None),
            "w": pl.Series(word).set(pl.Series(missing[2]), None),
        }
    )


def items() -> Iterator[tuple[str, str]]:
    for column in ("n", "f"):
        yield from ((function, column) for function in FUNCTIONS)
    yield from ((function, "w") for function in WORDS)


RETURN = ", ".join(f"{f}(a.{c}) AS {f.lower()}_{c}" for f, c in items())


def over(frame: pl.DataFrame, last: str = "te") -> list[dict[str, Any]]:
    """What Polars says of the rows of each interval of ``a``."""
    clean = frame.with_columns(pl.col("f").fill_nan(None), run=pl.col("a").rle_id())
    wanted = (
        clean.filter("a")
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("ts").first().alias("a_ts"),
            pl.len().alias("rows"),
            *(FUNCTIONS[f](c).alias(f"{f.lower()}_{c}") for f, c in items()),
        )
    )
    return wanted.drop("run").to_dicts()


def close(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, float) and isinstance(other[name], float):
                assert math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-9), (name, one)
            else:
                assert value == other[name], (name, one, other)


def returned(
    query: ps.Query, frame: pl.DataFrame, pieces: int, restored: bool
) -> list[dict[str, Any]]:
    if pieces == 0:
        return query.run(frame).to_dicts()
    session = query.open()
    rows = []
    for first in range(0, len(frame), pieces):
        piece = frame[first : first + pieces]
        rows += session.push(piece).to_dicts()
        if restored:
            session = query.open(state=session.snapshot())
    return rows


@pytest.mark.parametrize(("pieces", "restored"), [(0, False), (1, False), (7, True), (64, True)])
def test_a_whole_interval_has_the_aggregates_of_its_rows(pieces: int, restored: bool) -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a PATTERN a WITHIN 1000000 EMIT ON COMPLETION "
        f"RETURN a.ts, COUNT(a) AS rows, {RETURN}"
    )
    n = 120 if pieces in (1, 7) else 1_500
    frame = rows_of(n, n).with_columns(a=pl.col("a") & (pl.col("ts") < pl.col("ts").max()))
    wanted = over(frame)
    assert len(wanted) > 5
    found = [
        {k: v for k, v in row.items() if k != "completed_at"}
        for row in returned(query, frame, pieces, restored)
    ]
    close(found, wanted)


@pytest.mark.parametrize("pieces", [0, 1, 9])
def test_an_open_interval_has_those_of_the_rows_up_to_its_report(pieces: int) -> None:
    """Each row is added once, however often somebody looks: a is reported at each b in it."""
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, b AS b PATTERN a contains; overlaps; finished-by b "
        f"WITHIN 1000000 RETURN a.ts, COUNT(a) AS rows, {RETURN}"
    )
    rng = np.random.default_rng(4)
    frame = rows_of(9, 250).with_columns(
        a=np.logical_xor.accumulate(rng.random(250) < 0.06),
        b=np.logical_xor.accumulate(rng.random(250) < 0.4),
    )
    found = returned(query, frame, pieces, restored=False)
    assert len(found) > 20
    wanted = []
    for row in found:
        known = frame.filter((pl.col("ts") <= row["detected_at"]) & (pl.col("ts") >= row["a_ts"]))
        wanted.append({"detected_at": row["detected_at"], **over(known)[0]})
    close(found, wanted)
    seen = [(row["a_ts"], row["rows"]) for row in found]
    assert len({start for start, _ in seen}) < len(seen)


def test_values_are_never_mixed_up_between_columns_and_symbols() -> None:
    """Cells of several symbols on several columns: each adds its own column at its own rows."""
    frame = rows_of(21, 400)
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, b AS b PATTERN a before; overlaps; during b WITHIN 60 "
        "EMIT ON COMPLETION RETURN a.ts, a.te, b.ts, b.te, SUM(a.n) AS an, SUM(b.n) AS bn, "
        "MAX(b.f) AS bf, MIN(a.f) AS af, LAST(b.w) AS bw, FIRST(a.w) AS aw, COUNT(a.f) AS ca"
    )
    rows = query.run(frame).to_dicts()
    assert len(rows) > 10
    clean = frame.with_columns(pl.col("f").fill_nan(None))
    for row in rows:
        a = clean.filter(pl.col("ts").is_between(row["a_ts"], row["a_te"] - 1))
        b = clean.filter(pl.col("ts").is_between(row["b_ts"], row["b_te"] - 1))
        assert row["an"] == (a["n"].sum() if a["n"].count() else None)
        assert row["bn"] == (b["n"].sum() if b["n"].count() else None)
        assert (row["bf"], row["af"]) == (b["f"].max(), a["f"].min())
        assert (row["bw"], row["aw"], row["ca"]) == (b["w"][-1], a["w"][0], a["f"].count())
