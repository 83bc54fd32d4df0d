"""What looks into the rows of an archive says what it says of them as a frame, and reads no more than it needs."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives.pages import Pages

_QUERIES = {
    "runs": "DEFINE a AS x > 6, b AS y > 6 AT LEAST 2 PATTERN a before; overlaps b WITHIN 8",
    "bridged": "DEFINE a AS x > 6 BRIDGING 3, b AS y > 6 PATTERN a before; overlaps b WITHIN 8",
    "the past": "DEFINE a AS x > PREV(x) + 4, b AS y > 6 PATTERN a before; overlaps b WITHIN 8",
    "a limit": "DEFINE a AS x > 6, b AS y > 6 PATTERN a before; overlaps b WITHIN 8 LIMIT 9",
}


def _query(name: str) -> ps.Query:
    return ps.query(f"FROM lake PARTITION BY k ORDER BY t {_QUERIES[name]}")


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    rng = Random(5)
    return pl.DataFrame(
        [
            {"t": t, "k": k, "x": rng.randint(0, 9), "y": rng.randint(0, 9)}
            for t in range(300)
            for k in ("a", "b", "ünï", None)
            if rng.random() < 0.9
        ]
    )


@pytest.fixture(scope="module")
def lake(rows: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> ps.Archive:
    path = tmp_path_factory.mktemp("archives") / "lake"
    found = ps.archive(path, time="t", key="k", page_rows=20, file_rows=200)
    found.append(rows[: len(rows) // 2])
    found.append(rows[len(rows) // 2 :])
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows on the pages that are read."""
    found: list[int] = []
    pages = Pages.read

    def counting(self: Pages, chosen: Any, *more: Any) -> list[pl.DataFrame]:
        found.append(int(self.rows[chosen].sum()))
        return pages(self, chosen, *more)

    monkeypatch.setattr(Pages, "read", counting)
    return found


@pytest.mark.parametrize("name", _QUERIES)
def test_why_reads_the_partition_of_the_match(
    name: str, rows: pl.DataFrame, lake: ps.Archive, read: list[int]
) -> None:
    query = _query(name)
    found = query.run(rows)
    for match in Random(name).sample(found.to_dicts(), 4):
        read.clear()
        assert str(query.why(match, lake)) == str(query.why(match, rows))
        assert sum(read) < (0.5 if match["k"] is not None else 1.2) * len(rows)


@pytest.mark.parametrize("name", _QUERIES)
def test_why_not_reads_around_the_span_of_time(
    name: str, rows: pl.DataFrame, lake: ps.Archive, read: list[int]
) -> None:
    query = _query(name)
    for first in (0, 120, 295):
        where: Any = {"partition": {"k": "b"}, "between": (first, first + 2)}
        read.clear()
        assert str(query.why_not(lake, **where)) == str(query.why_not(rows, **where))
        assert sum(read) < 0.5 * len(rows)
        if name in ("runs", "bridged"):
            assert sum(read) < 0.25 * len(rows)


def test_a_partition_that_is_not_there_is_told_with_those_that_are(
    rows: pl.DataFrame, lake: ps.Archive
) -> None:
    query = _query("runs")
    said = []
    for frame in (rows, lake):
        with pytest.raises(ValueError, match="there are no rows of the partition k = zz") as error:
            query.why_not(frame, partition={"k": "zz"}, between=(3, 4))
        said.append(str(error.value).split(":")[0])
    assert said[0] == said[1]


def test_all_rows_are_counted_as_those_of_a_frame(
    rows: pl.DataFrame, lake: ps.Archive, tmp_path: Path
) -> None:
    query = _query("runs")
    assert str(query.diagnose(lake)) == str(query.diagnose(rows))
    assert query.intervals(lake).sort(pl.all()).equals(query.intervals(rows).sort(pl.all()))
    named = ps.query(f"FROM '{lake.path}' PARTITION BY k ORDER BY t {_QUERIES['runs']}")
    assert named.diagnose().summary == query.diagnose(rows).summary
    two = ps.query(
        "FROM a ORDER BY t WITH b ORDER BY t PARTITION BY k "
        "DEFINE p AS a.x > 8, q AS b.y > 8 PATTERN p before q WITHIN 4"
    )
    assert str(two.diagnose({"a": lake, "b": rows})) == str(two.diagnose({"a": rows, "b": rows}))


def test_files_that_are_replaced_are_read_anew(
    rows: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)
    lake = ps.archive(tmp_path / "lake", time="t", key="k", page_rows=20, file_rows=100)
    for piece in rows.iter_slices(100):
        ps.archive(lake.path).append(piece)
    query = _query("runs")
    match = query.run(rows).to_dicts()[3]
    lake.refresh()
    assert ps.archive(lake.path).compact() > 0
    assert str(query.why(match, lake)) == str(query.why(match, rows))


def test_a_query_of_an_archive_beside_a_stream_is_looked_into_as_one_of_streams(
    rows: pl.DataFrame, lake: ps.Archive
) -> None:
    low = "ORDER BY t DEFINE a AS x > {least} PATTERN a WITHIN 60 RETURN LAST(a.x) AS top"
    text = """
        FROM (FROM news ORDER BY t DEFINE b AS y > 5 PATTERN b WITHIN 60 RETURN FIRST(b.y) AS y) AS found
        WITH (FROM {past} {low}) AS high
        PARTITION BY k
        DEFINE f AS found.y > 0, h AS high.top > {top}
        PATTERN h before; meets; overlaps f WITHIN 7
    """
    news = rows.filter(pl.col("t") > 200)
    for least, top in ((100, 0), (6, 100), (6, 0)):
        bound = low.format(least=least)
        live = ps.query(text.format(past=f"ARCHIVE '{lake.path}' AS lake", low=bound, top=top))
        plain = ps.query(text.format(past="lake", low=bound, top=top))
        given = {"news": news, "lake": rows}
        found, wanted = live.run({"news": news}), plain.run(given)
        assert found.equals(wanted)
        assert bool(len(found)) == (least + top == 6)

        span: dict[str, Any] = {"partition": {"k": "a"}, "between": (200, 300)}
        why_not = str(live.why_not({"news": news}, **span))
        assert why_not == str(plain.why_not(given, **span))
        assert ("there is a match" in why_not) == bool(len(found))
        diagnosed = str(live.diagnose({"news": news})).replace("ARCHIVE lake", "lake")
        assert diagnosed == str(plain.diagnose(given))
        for row in found.head(3).to_dicts():
            assert str(live.why(row, {"news": news})) == str(plain.why(row, given))
