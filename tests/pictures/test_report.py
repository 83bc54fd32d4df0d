"""The report of one page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app
from piestream.pictures.histograms import histogram, histogram_svg

HOSTILE = "</script><script>alert('1')</script>\"&\n<!--"
START = datetime(2024, 1, 2, 3, 4, 5)
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def _query() -> ps.Query:
    return ps.query(
        "FROM cars PARTITION BY car ORDER BY t DEFINE a AS x > 1, b AS y > 1 AT LEAST 2 s "
        "PATTERN a overlaps b WITHIN 60 s"
    )


def _frame(*cars: str) -> pl.DataFrame:
    return pl.concat(
        pl.DataFrame(
            {
                "car": [car] * 9,
                "t": [START + timedelta(seconds=i) for i in range(9)],
                "x": [0, 5, 5, 0, 0, 0, 7, 7, 7],
                "y": [0.0, 0, 3, 3, 0, 2, 0, float("nan"), 0],
            }
        )
        for car in cars
    )


def _data(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    data: dict[str, Any] = json.loads(text)
    return data


def test_a_page_has_the_query_the_funnel_and_the_counts() -> None:
    page = _query().report(_frame("red", "blue"))
    assert "<title>cars: 2 matches</title>" in page
    assert "DEFINE a AS x &gt; 1" in page
    assert "18 events of 2 partitions" in page
    assert re.findall(r"<button data-key=\"\d\">(.*?)</button></td><td>(\d+)", page) == [
        ("car = red", "1"),
        ("car = blue", "1"),
    ]
    assert "shortest 3s, median 3s, p90 3s, longest 3s" in page


def test_each_match_has_what_is_around_it() -> None:
    data = _data(_query().report(_frame("red", "blue")))
    assert data["symbols"] == ["a", "b"]
    assert [match["key"] for match in data["matches"]] == [0, 1]
    around = data["matches"][1]["around"]
    low, _, start, end, report = around["span"]
    assert (end - start, report - start) == (3000, 3000)
    seconds = [
        [n, (s - start) / 1000, (e - start) / 1000, state] for n, s, e, state, _ in around["bars"]
    ]
    assert seconds == [[0, 0, 2, 0], [1, 1, 3, 0], [1, 4, 5, 3]]
    assert low < start
    assert [column["name"] for column in data["columns"]] == ["x", "y"]
    assert data["columns"][1]["limits"] == [{"value": 1.0, "says": "b: y > 1"}]
    assert around["columns"][0][1] == [0, 5, 5, 0, 0, 0]


def test_no_name_or_value_becomes_part_of_the_page() -> None:
    query = ps.query(
        'FROM "<i>" PARTITION BY car ORDER BY t DEFINE "</script><b>" AS x > 1 '
        'PATTERN "</script><b>" WITHIN 60 s'
    )
    page = query.report(_frame(HOSTILE))
    assert page.count("</script>") == 2
    outside = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.S)
    assert "<i>" not in outside
    assert "<b>" not in outside
    assert "alert('1')" not in outside
    assert _data(page)["symbols"] == ["</script><b>"]


def test_a_page_loads_nothing_from_elsewhere() -> None:
    page = _query().report(_frame("red"))
    assert "default-src 'none'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert not re.search(r"\b(?:src|href)=|url\(|@import", page)


def test_nothing_found_makes_a_page_that_says_why() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 99 PATTERN a WITHIN 60 s")
    page = query.report(_frame("red"))
    assert "<title>s: 0 matches</title>" in page
    assert "0 matches: a (x &gt; 99) never holds" in page
    assert _data(page)["matches"] == []


def test_of_many_matches_some_from_all_over_the_result_are_listed() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    page = query.report(pl.DataFrame({"t": range(4000), "x": [0, 2] * 2000}))
    numbers = [match["number"] for match in _data(page)["matches"]]
    assert len(numbers) == 500
    assert (numbers[0], numbers[-1]) == (1, 2000)
    assert "500 of 2,000, from all over the result" in page


def test_a_return_without_endpoints_is_no_hindrance() -> None:
    data = _data(ps.query(f"{_query()} RETURN AVG(a.x) AS mean").report(_frame("red")))
    assert data["matches"][0]["cells"][2] == "5"


def test_of_both_rows_of_a_match_one_is_listed() -> None:
    query = ps.query(str(_query()) + " EMIT ON BOTH")
    assert len(_data(query.report(_frame("red")))["matches"]) == 1


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    page = _query().report(_frame("red"), tmp_path / "found.html")
    assert (tmp_path / "found.html").read_text("utf-8") == page


def test_the_command_line_writes_a_report(tmp_path: Path) -> None:
    _frame("red").write_parquet(tmp_path / "cars.parquet")
    target = tmp_path / "found.html"
    arguments = ["report", "-q", str(_query()), str(tmp_path / "cars.parquet"), "-o", str(target)]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.output) == (0, f"written: {target}\n")
    assert "<title>cars: 1 match</title>" in target.read_text("utf-8")


def test_the_command_line_does_not_write_over_its_data(tmp_path: Path) -> None:
    data = tmp_path / "cars.parquet"
    _frame("red").write_parquet(data)
    before = data.read_bytes()
    result = CliRunner().invoke(app, ["report", "-q", str(_query()), str(data), "-o", str(data)])
    assert result.exit_code == 2
    assert data.read_bytes() == before


def test_counts_are_in_stretches_that_people_count_in() -> None:
    counts, edges = histogram(np.array([100, 3_599_000]), 0, 3_600_000, 60, 1_000_000)
    assert edges[:3] == [0, 120_000, 240_000]
    assert (sum(counts), counts[0], len(counts)) == (2, 1, 31)
    assert histogram(np.array([7]), 7, 7, 60) == ([1], [7, 8])
    assert histogram(np.array([0, 5]), 0, 400 * 86_400, 60, 10**9)[1][1] == 10 * 86_400


def test_bars_say_their_counts() -> None:
    drawn = histogram_svg([1, 2], ["<0", "1", "2"], "matches")
    assert "<title>1 to 2: 2</title>" in drawn
    assert "<0" not in drawn


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which draws the page")
def test_a_browser_draws_the_first_match_and_lists_all(tmp_path: Path) -> None:
    page = tmp_path / "found.html"
    _query().report(_frame("red", HOSTILE), page)
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
               "--virtual-time-budget=3000", f"--user-data-dir={tmp_path / 'browser'}"]  # fmt: skip
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, check=True)
    assert "2 of 2 shown" in done.stdout
    assert 'aria-selected="true"' in done.stdout
    assert done.stdout.count('class="s0"') == 2 + 1  # and in the legend
    assert done.stdout.count("<script") == 2


SEVERAL = """FROM line ORDER BY t WITH calls FROM began TO ended
DEFINE busy AS line.load > 2, a AS calls.kind = 'in' PATTERN busy contains a WITHIN 60"""


def test_a_report_of_several_streams_has_intervals_and_columns_of_each(tmp_path: Path) -> None:
    line = pl.DataFrame({"t": [0, 2, 20, 30], "load": [1, 5, 0, 1]})
    calls = pl.DataFrame({"kind": ["in", "in", "out"], "began": [3, 25, 6], "ended": [9, 28, 11]})
    line.write_csv(tmp_path / "line.csv")
    calls.write_csv(tmp_path / "calls.csv")
    page = ps.query(SEVERAL).report({"line": line, "calls": calls})
    found = CliRunner().invoke(
        app,
        ["report", "-q", SEVERAL, f"line={tmp_path / 'line.csv'}", f"calls={tmp_path / 'calls.csv'}",
         "-o", str(tmp_path / "page.html")],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert (tmp_path / "page.html").read_text() == page
    data = json.loads(
        page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    )
    assert data["columns"] == [
        {"name": "line.load", "limits": [{"value": 2.0, "says": "busy: load > 2"}]}
    ]
    (match,) = data["matches"]
    assert match["around"]["bars"] == [[0, 2, 20, 0, "2 to 20"], [1, 3, 9, 0, "3 to 9"]]
    assert match["around"]["columns"] == [[[0, 2], [1, 5]]]
    assert "4 rows of line, 3 rows of calls, from 0 to 30" in page
    refused = CliRunner().invoke(
        app, ["report", "-q", SEVERAL, f"line={tmp_path / 'line.csv'}", f"calls={tmp_path / 'calls.csv'}",
              "-o", str(tmp_path / "line.csv")],
    )  # fmt: skip
    assert refused.exit_code == 2
    assert "is the input" in refused.output
