"""Names of columns are names, whatever Polars, SQL or a template would make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps

NAMES = ["*", "^x.*$", "^x2$", "^a$", "^$", "^", "$", "a--b", "a.b", "a`b", 'a"b', "a'b", "😀", "é",
         "${env:HOME}", "key:x", "predicate:0", "attribute:0", "raw:x", "time", "__past__PREV(t)", " "]  # fmt: skip
#: Where a query names a column, and what a frame of `rows` gives.
PLACES = {
    "a predicate": ("FROM z ORDER BY t DEFINE a AS {} > 1 PATTERN a WITHIN 9 RETURN a.ts", [(1, 1)]),
    "a key": (
        "FROM z PARTITION BY {} ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN a.ts",
        [(1, 0, 0), (5, 1, 1)],
    ),
    "RETURN": (
        "FROM z ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN MAX(a.{}) AS m, a.ts",
        [(0, 1, 0)],
    ),
    "PREV": (
        "FROM z ORDER BY t DEFINE a AS PREV({0}) = 1 AND PREV(x) = 9 AND {0} = 5 PATTERN a WITHIN 9 "
        "RETURN a.ts",
        [(1, 1)],
    ),
    "the time": ("FROM z ORDER BY {} DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN a.ts", [(1, 1)]),
}  # fmt: skip


def rows(name: str) -> pl.DataFrame:
    return pl.DataFrame({"t": [0, 1], "x": [9, 9], "x2": [0, 5], name: [1, 5]})


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "events", "parquet"])
def test_a_name_is_a_name(place: str, name: str, kind: str, tmp_path: Path) -> None:
    text, expected = PLACES[place]
    query = ps.query(text.format(quoted(name)))
    frame = rows(name)
    given: dict[str, Any] = {
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": frame.to_pandas(),
        "events": frame.to_dicts(),
    }
    if kind == "parquet":
        frame.write_parquet(tmp_path / "rows.parquet")
        read = ps.query(str(query).replace("FROM z", f"FROM '{tmp_path}/rows.parquet'"))
        found: Any = read.run()
    else:
        found = query.run(given[kind])
    if kind == "lazy":
        found = found.collect()
    found = [tuple(row.values()) for row in found] if kind == "events" else found
    found = found.rows() if isinstance(found, pl.DataFrame) else found
    found = list(found.itertuples(index=False, name=None)) if kind == "pandas" else found
    if kind == "events" or place == "a key":
        found = sorted(found)
    assert [tuple(row) for row in found] == expected


@pytest.mark.parametrize("name", ["*", "^x.*$", "^x2$"])
def test_a_name_is_a_name_in_csv_and_in_a_session(name: str, tmp_path: Path) -> None:
    text = f"FROM z PARTITION BY {quoted(name)} ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9"
    rows(name).write_csv(tmp_path / "rows.csv")
    found = ps.query(text.replace("FROM z", f"FROM '{tmp_path}/rows.csv'")).run()
    assert found[name].to_list() == [1, 5]
    session = ps.query(text).open()
    assert session.push(rows(name))[name].to_list() == [1, 5]
    restored = ps.query(text).open(state=session.snapshot())
    later = rows(name).with_columns(t=pl.col("t") + 5)
    assert restored.push(later.with_columns(x=pl.Series([0, 0]))).is_empty()
    assert restored.push(later.with_columns(t=pl.col("t") + 5))[name].to_list() == [1, 5]
    assert restored.advance(20).columns[0] == name


@pytest.mark.parametrize("name", ["*", "^x.*$", "^x2$", "^$"])
def test_a_name_is_a_name_in_all_that_is_kept(name: str) -> None:
    """Keys, values of PREV, texts of RETURN, the time, and what waits for the watermark."""
    query = ps.query(
        f"FROM z PARTITION BY {quoted(name + 'k')}, {quoted(name)} ORDER BY {quoted(name + 't')} "
        f"DEFINE a AS PREV({quoted(name)}) = {quoted(name)} PATTERN a WITHIN 9 RETURN FIRST(a.s) AS "
        f"{quoted(name + 's')}"
    )
    events = [
        {name: key, name + "k": float(key), name + "t": time, "s": f"s{time}"}
        for time in range(20)
        for key in (1, 2)
    ]
    session = query.open(lateness=3)
    found = session.push(events[:20])
    session = query.open(state=session.snapshot())
    found += session.push(pl.DataFrame(events[20:30])).to_dicts()
    found += session.advance(15).to_dicts()
    session = query.open(state=session.snapshot())
    found += session.push(events[30:]) + session.close()
    expected = query.run(events)
    assert sorted(map(str, found)) == sorted(map(str, expected))
    assert len(found) == 2


def test_the_name_that_prev_has_inside_is_refused_beside_it() -> None:
    query = ps.query('FROM z ORDER BY t DEFINE a AS PREV(x) = "__past__PREV(x)" PATTERN a WITHIN 9')
    with pytest.raises(ps.SchemaError, match="rename it"):
        query.run(pl.DataFrame({"t": [1], "x": [1], "__past__PREV(x)": [1]}))


def test_a_polars_predicate_may_name_such_a_column_exactly() -> None:
    frame = pl.DataFrame({"t": [0, 1], "x2": [9.0, 0.0], "^x2$": [0.0, 9.0]})
    with pytest.raises(ps.QueryError, match="one expression with one result"):
        ps.define("a", pl.col("^x2$") > 1)
    query = ps.query('FROM z ORDER BY t DEFINE a AS "^x2$" > 1 PATTERN a WITHIN 9 RETURN a.ts')
    assert query.run(frame).rows() == [(1, 1)]
