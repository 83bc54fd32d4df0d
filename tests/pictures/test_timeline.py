"""Time lines of what a query finds."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.pictures.charts import lanes_of_scene
from piestream.pictures.columns import drawn_points
from piestream.pictures.offline import script_json
from piestream.pictures.scene import scene_of
from piestream.pictures.thresholds import thresholds

HOSTILE = "</script><script>alert('1')</script>\"&\n<!--"
START = datetime(2024, 1, 2, 3, 4, 5)


def _query(extra: str = "") -> ps.Query:
    return ps.query(
        f"FROM cars PARTITION BY car ORDER BY t DEFINE a AS x > 1 {extra}, b AS y > 1 "
        "PATTERN a overlaps b WITHIN 60 s"
    )


def _frame(car: str = "red") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "car": [car] * 8,
            "t": [START + timedelta(seconds=i) for i in range(8)],
            "x": [0, 5, 5, 0, 0, 0, 7, 7],
            "y": [0.0, 0, 3, 3, 0, 0, 0, float("nan")],
        }
    )


def _options() -> Any:
    from piestream.language.options import BoundedOptions

    return BoundedOptions()


def _spec(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="spec">(.*?)</script>', page, re.S)
    spec: dict[str, Any] = json.loads(text)
    return spec


def test_a_scene_has_every_interval_and_says_which_are_in_matches() -> None:
    scene = scene_of(_query(), _frame(), None, None, _options())
    zero = scene.first
    bars = [(b.symbol, b.start - zero, b.end - zero, b.state, b.is_open) for b in scene.bars]
    assert bars == [
        ("a", 1000, 3000, "in a match", False),
        ("a", 6000, 7000, "in no match", True),
        ("b", 2000, 4000, "in a match", False),
    ]
    assert scene.spans() == [(zero + 1000, zero + 3000, zero + 3000)]


def test_intervals_that_break_a_bound_are_told_apart() -> None:
    scene = scene_of(_query("AT LEAST 5 s"), _frame(), None, None, _options())
    assert [bar.state for bar in scene.bars] == ["not valid", "in no match", "in no match"]


def test_missing_values_of_a_column_are_gaps() -> None:
    scene = scene_of(_query(), _frame(), None, None, _options())
    assert scene.columns[1].values == [0, 0, 3, 3, 0, 0, 0, None]
    assert [str(limit) for limit in scene.columns[1].thresholds] == ["b: y > 1"]


def test_times_are_those_of_the_wall_clock_of_their_zone() -> None:
    zoned = _frame().with_columns(pl.col("t").dt.replace_time_zone("Asia/Tokyo"))
    plain = scene_of(_query(), _frame(), None, None, _options())
    scene = scene_of(_query(), zoned, None, None, _options())
    assert (scene.first, scene.last) == (plain.first, plain.last)
    assert scene.spans() == plain.spans()


def test_the_partition_with_the_most_matches_is_shown() -> None:
    both = pl.concat([_frame("blue").with_columns(y=pl.lit(0.0)), _frame("red")])
    assert _query().timeline(both).scene.partition == "car = red"
    assert _query().timeline(both, partition="blue").scene.partition == "car = blue"
    assert _query().timeline(both, partition={"car": "blue"}).scene.matches == ()


def test_a_partition_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no events of the partition car = green"):
        _query().timeline(_frame(), partition="green")
    with pytest.raises(ValueError, match="1 columns, and partition= gives 2 values"):
        _query().timeline(_frame(), partition=("red", 1))
    with pytest.raises(ValueError, match="a value for each of car"):
        _query().timeline(_frame(), partition={"colour": "red"})


def test_given_matches_are_shown() -> None:
    query = _query()
    none = query.run(_frame()).clear()
    shown = query.timeline(_frame(), none)
    assert repr(shown) == "<Timeline of a, b in car = red: 3 intervals, 0 matches>"
    assert {bar.state for bar in shown.scene.bars} == {"in no match"}


def test_a_return_without_endpoints_is_no_hindrance() -> None:
    query = ps.query(f"{_query()} RETURN AVG(a.x) AS mean")
    assert len(query.timeline(_frame()).scene.matches) == 1


def test_no_name_or_value_ends_the_script_around_it() -> None:
    query = ps.query(
        'FROM cars PARTITION BY car ORDER BY t DEFINE "</script><b>" AS x > 1 '
        'PATTERN "</script><b>" WITHIN 60 s'
    )
    page = query.timeline(_frame(HOSTILE)).html()
    assert page.count("</script>") == 3
    assert "<b>" not in page.partition("</script>")[0]
    assert _spec(page)["title"]["text"] == "car = </script><script>alert('1')</script>\"&\\n<!--"
    assert {bar["lane"] for bar in _spec(page)["datasets"]["bars"]} == {"</script><b>"}


def test_a_page_loads_nothing_from_elsewhere() -> None:
    page = _query().timeline(_frame()).html()
    assert "default-src 'none'" in page
    without_scripts = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.S)
    assert len(without_scripts) < 4000
    assert not re.search(r"\b(?:src|href)=|url\(", without_scripts)


def test_a_notebook_shows_it_in_a_frame_of_its_own() -> None:
    shown = _query().timeline(_frame(HOSTILE))._repr_html_()
    assert shown.count("<iframe") == 1
    assert 'sandbox="allow-scripts"' in shown
    assert "<script" not in shown


@pytest.mark.parametrize("suffix", [".html", ".svg", ".png"])
def test_it_is_saved_as_a_page_or_a_picture(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"found{suffix}"
    _query().timeline(_frame()).save(path)
    begins = {".html": b"<!doctype html>", ".svg": b"<svg", ".png": b"\x89PNG"}
    assert path.read_bytes().startswith(begins[suffix])


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"saved as \.html, \.svg or \.png"):
        _query().timeline(_frame()).save(tmp_path / "found.pdf")


def test_the_chart_of_altair_is_valid_and_has_the_data() -> None:
    chart = _query().timeline(_frame()).chart
    spec = chart.to_dict()
    assert [len(spec["datasets"][name]) for name in ("bars", "matches")] == [3, 1]
    assert spec["datasets"]["limits0"] == [{"limit": 1.0, "says": "a: x > 1"}]


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_rows_make_a_picture(rows: int) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [5], "x": [3]}).head(rows)
    shown = query.timeline(frame)
    assert len(shown.scene.bars) == rows
    assert shown.html().startswith("<!doctype html>")


def test_with_many_bars_the_picture_begins_around_the_first_match() -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS x > 1, b AS x > 2 PATTERN a contains b WITHIN 9"
    )
    frame = pl.DataFrame({"t": range(8000), "x": [2, 0] * 2000 + [2, 3, 2, 0] + [2, 0] * 1998})
    spec = _spec(query.timeline(frame).html())
    assert len(spec["datasets"]["bars"]) > 3900
    (chosen,) = [p["value"]["x"] for p in spec["params"] if p["name"] == "stretch"]
    assert chosen[0] <= 4000 <= chosen[1]
    assert chosen[1] - chosen[0] < 800


def test_a_symbol_may_be_called_matches() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE matches AS x > 1 PATTERN matches WITHIN 9")
    found = _spec(query.timeline(pl.DataFrame({"t": [1], "x": [3]})).html())["datasets"]
    assert found["bars"][0]["lane"] != found["matches"][0]["lane"]


def test_of_long_columns_the_least_and_the_greatest_values_are_kept() -> None:
    values = pl.Series([0.0] * 1000)
    values[123], values[777] = 9.0, -9.0
    kept = drawn_points(values, most=100)
    assert len(kept) <= 100
    assert {123, 777} <= set(kept)


def test_thresholds_are_read_off_the_predicates() -> None:
    query = ps.query(
        "FROM s DEFINE a AS 3 <= x AND (y = -2 OR NOT x > 9), b AS PREV(x) > 1 AND x > y "
        "PATTERN a before b WITHIN 9"
    )
    assert [str(limit) for limit in thresholds(query)] == ["a: x >= 3", "a: y = -2", "a: x > 9"]


def test_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.setattr("piestream.pictures.offline.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"need altair: pip install 'piestream\[plot\]'"):
        _query().timeline(_frame())


def test_queries_are_shown_in_notebooks_as_they_are_written() -> None:
    query = ps.query('FROM s DEFINE "<i>" AS x > 1 PATTERN "<i>" WITHIN 9')
    shown = query._repr_html_()
    assert shown.startswith("<pre>FROM s")
    assert "<i>" not in shown


def test_json_in_a_page_has_no_tags() -> None:
    assert "<" not in script_json({"<!--": ["</script>"]})
    assert json.loads(script_json("</script>")) == "</script>"


CALLS = ps.query("""
    FROM line ORDER BY t WITH calls FROM began TO ended PARTITION BY site
    DEFINE busy AS line.load > 2, a AS calls.kind = 'in', b AS calls.kind = 'out' AT LEAST 3
    PATTERN busy contains; overlaps a AND a overlaps; contains b
    WITHIN 60
""")
ROWS = {
    "line": pl.DataFrame(
        {"site": ["x"] * 4 + ["y"], "t": [0, 2, 20, 30, 5], "load": [1, 5, 0, 1, 9]}
    ),
    "calls": pl.DataFrame(
        {
            "site": ["x"] * 4,
            "kind": ["in", "in", "out", "out"],
            "began": [3, 4, 6, 8],
            "ended": [9, 12, 11, 9],
        }
    ),
}


def test_a_scene_of_several_streams_has_rows_for_intervals_that_overlap() -> None:
    scene = CALLS.timeline(ROWS).scene
    assert scene.partition == "site = x"
    assert (scene.first, scene.last) == (0, 30)
    assert [(bar.symbol, bar.start, bar.end, bar.state, bar.row) for bar in scene.bars] == [
        ("busy", 2, 20, "in a match", 0),
        ("a", 3, 9, "in a match", 0),
        ("a", 4, 12, "in a match", 1),
        ("b", 6, 11, "in a match", 0),
        ("b", 8, 9, "not valid", 1),
    ]
    assert [(line.name, line.times) for line in scene.columns] == [("line.load", [0, 2, 20, 30])]
    assert [str(t) for t in scene.columns[0].thresholds] == ["busy: load > 2"]
    assert lanes_of_scene(scene) == ["matches", "busy", "a", "a (2)", "b", "b (2)"]
    shown = CALLS.timeline(ROWS).chart.to_dict()
    assert {bar["lane"] for bar in shown["datasets"]["bars"]} == {*lanes_of_scene(scene)[1:]}


def test_more_overlaps_than_rows_share_the_last_one() -> None:
    many = pl.DataFrame({"site": "x", "kind": "in", "began": range(3, 15), "ended": range(30, 42)})
    scene = CALLS.timeline({**ROWS, "calls": many}, partition="x").scene
    assert [bar.row for bar in scene.bars if bar.symbol == "a"] == [*range(8), 7, 7, 7, 7]


def test_another_partition_of_several_streams_is_shown() -> None:
    scene = CALLS.timeline(ROWS, partition="y").scene
    assert [(bar.symbol, bar.is_open) for bar in scene.bars] == [("busy", True)]
    with pytest.raises(ValueError, match="no events of the partition site = z"):
        CALLS.timeline(ROWS, partition="z")


@pytest.mark.parametrize("at_end", ["open", "close"])
def test_what_time_ends_behind_the_last_event_of_a_partition_is_drawn_as_it_is_found(
    at_end: str,
) -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts MAX GAP 4 DEFINE a AS a, c AS c PATTERN a contains; "
        "finished-by c WITHIN 99 EMIT ON COMPLETION RETURN a.ts, a.te, c.ts, c.te"
    )
    rows = pl.DataFrame(
        {"k": ["x", "x", "x", "y"], "ts": [1, 3, 5, 20], "a": [True] * 3 + [False]}
    ).with_columns(c=pl.col("ts").is_in([3, 5]))
    assert query.run(rows, at_end=at_end).rows() == [("x", 9, 1, 9, 3, 9)]
    scene = query.timeline(rows, at_end=at_end, partition={"k": "x"}).scene
    assert [(bar.symbol, bar.start, bar.end, bar.is_open) for bar in scene.bars] == [
        ("a", 1, 9, False),
        ("c", 3, 9, False),
    ]
    assert (scene.first, scene.last) == (1, 9)
