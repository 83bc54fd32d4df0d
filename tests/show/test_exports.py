"""Matches as traces and annotations of other tools."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app
from piestream.show.exports.lanes import lanes_of
from piestream.show.matches import read_matches, with_endpoints

_TEXT = """
    FROM cars PARTITION BY car ORDER BY t{unit}
    DEFINE a AS x > 1, "b,#" AS y > 1
    PATTERN a overlaps "b,#" WITHIN 60{window} {emit}
"""
HOSTILE = "</script><script>alert('1')</script>\"\n,#\\ä日\u2028"
START = datetime(2024, 1, 2, 3, 4, 5, 250_000)


def _query(unit: str = "", window: str = "", emit: str = "") -> ps.Query:
    return ps.query(_TEXT.format(unit=unit, window=window, emit=emit))


def _frame(times: list[Any], key: Any = 7) -> pl.DataFrame:
    return pl.DataFrame(
        {"car": [key] * 6, "t": times, "x": [0, 5, 5, 0, 0, 0], "y": [0, 0, 3, 3, 0, 0]}
    )


def _seconds() -> pl.DataFrame:
    return _frame([START + timedelta(seconds=i) for i in range(6)])


def _bars(text: str) -> list[dict[str, Any]]:
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == "X"]


def test_a_trace_has_a_process_a_partition_and_a_thread_a_symbol() -> None:
    query = _query(" UNIT ms")
    text = query.export(query.run(_frame([1, 2, 3, 4, 5, 6])), "trace")
    bars = [(bar["name"], bar["ts"], bar["dur"]) for bar in _bars(text)]
    assert bars == [("match 1", 2000, 2000), ("a", 2000, 2000), ("b,#", 3000, 1000)]
    names = [e["args"] for e in json.loads(text)["traceEvents"] if e["name"].endswith("_name")]
    assert [name["name"] for name in names] == ["car = 7", "matches", "a", "b,#"]


def test_a_trace_says_that_an_end_was_not_known() -> None:
    query = _query()
    _, a, b = _bars(query.export(query.run(_frame([1, 2, 3, 4, 5, 6])), "trace"))
    assert "end" not in a["args"]
    assert b["args"] == {"matches": "1", "end": "not known at the report"}


def test_bars_of_one_thread_of_a_trace_never_overlap() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS x < 1 PATTERN a before b WITHIN 60")
    frame = pl.DataFrame({"t": range(40), "x": [2, 0] * 20})
    by_thread: dict[int, list[tuple[int, int]]] = {}
    bars = _bars(query.export(query.run(frame), "trace"))
    assert len(bars) > 150
    for bar in bars:
        by_thread.setdefault(bar["tid"], []).append((bar["ts"], bar["ts"] + bar["dur"]))
    for spans in by_thread.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_an_interval_of_many_matches_is_one_bar() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1, b AS x < 1 PATTERN a before b WITHIN 60")
    frame = pl.DataFrame({"t": range(8), "x": [2, 1, 0, 1, 0, 1, 0, 1]})
    bars = _bars(query.export(query.run(frame), "trace"))
    (a,) = [bar for bar in bars if bar["name"] == "a"]
    assert a["args"] == {"matches": "1, 2, 3"}


def test_bars_get_as_few_lanes_as_can_be() -> None:
    assert lanes_of([(0, 10), (1, 2), (2, 3), (1, 5), (10, 11)]) == [0, 1, 1, 2, 0]


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow", "events"])
def test_matches_of_every_kind_are_exported_alike(kind: str) -> None:
    query = _query(" UNIT ms")
    frame = query.run(_frame([1, 2, 3, 4, 5, 6]))
    given = {
        "polars": lambda: frame,
        "lazy": frame.lazy,
        "pandas": frame.to_pandas,
        "pyarrow": frame.to_arrow,
        "events": frame.to_dicts,
    }[kind]()
    if kind == "pandas":
        given["b,#_te"] = given["b,#_te"].astype("Int64")
    assert _bars(query.export(given, "trace")) == _bars(query.export(frame, "trace"))


def test_of_a_match_that_is_reported_twice_the_completion_counts() -> None:
    query = _query(emit="EMIT ON BOTH")
    found = read_matches(query, query.run(_frame([1, 2, 3, 4, 5, 6])))
    (match,) = found.matches
    assert match.row["phase"] == "completion"
    assert [(i.start, i.end) for i in match.intervals] == [(2, 4), (3, 5)]


def test_annotations_of_grafana_have_milliseconds_tags_and_escaped_text() -> None:
    query = _query(window=" s")
    frame = _seconds().with_columns(car=pl.lit(HOSTILE))
    (found,) = json.loads(query.export(query.run(frame), "grafana"))
    first = START.replace(tzinfo=UTC) + timedelta(seconds=1)
    assert found["time"] == first.timestamp() * 1000
    assert found["timeEnd"] == found["time"] + 2000
    assert found["tags"][:2] == ["piestream", "cars"]
    assert "<script" not in found["text"]
    assert "&lt;script&gt;" in found["text"]


def test_annotations_of_mne_begin_at_the_first_onset() -> None:
    query = _query(window=" s")
    assert query.export(query.run(_seconds()), "mne").splitlines() == [
        "# MNE-Annotations",
        "# orig_time : 2024-01-02 03:04:06.250000",
        "# onset, duration, description",
        "0, 2, match/7",
        "0, 2, a/7",
        "1, 1, b;no./7",
    ]


def test_annotations_of_mne_hold_every_match() -> None:
    query = ps.query(
        "FROM s ORDER BY t UNIT s DEFINE a AS x > 1, b AS x < 1 PATTERN a before b WITHIN 60"
    )
    frame = pl.DataFrame({"t": range(8), "x": [2, 1, 0, 1, 0, 1, 0, 1]})
    lines = query.export(query.run(frame), "mne").splitlines()[2:]
    assert [line for line in lines if line.endswith("match")] == [
        "0, 2, match", "0, 4, match", "0, 6, match",
    ]  # fmt: skip
    assert [line for line in lines if line.endswith(" a")] == ["0, 1, a"]


def test_nothing_in_the_data_breaks_a_line_of_annotations() -> None:
    query = _query(window=" s")
    frame = _seconds().with_columns(car=pl.lit(HOSTILE))
    lines = query.export(query.run(frame), "mne").splitlines()
    assert all(line.count(",") == 2 and "#" not in line for line in lines[3:])
    assert len(lines) == 6
    assert "\n".join(lines).isascii()  # MNE reads nothing else


def test_days_have_a_unit() -> None:
    query = _query(window=" d")
    frame = _frame([date(2024, 1, day) for day in range(1, 7)])
    assert _bars(query.export(query.run(frame), "trace"))[0]["dur"] == 2 * 86_400_000_000
    assert query.export(query.run(frame), "mne").splitlines()[3] == "0, 172800, match/7"


@pytest.mark.parametrize("format", ["grafana", "mne"])
def test_integers_without_a_unit_are_no_seconds(format: Any) -> None:
    query = _query()
    with pytest.raises(ValueError, match="ORDER BY t UNIT s"):
        query.export(query.run(_frame([1, 2, 3, 4, 5, 6])), format)


def test_a_trace_of_integers_without_a_unit_says_what_it_shows() -> None:
    query = _query()
    trace = json.loads(query.export(query.run(_frame([1, 2, 3, 4, 5, 6])), "trace"))
    assert trace["otherData"]["time"] == "a tick of the time column is shown as a microsecond"


def test_a_missing_endpoint_is_named_and_can_be_added() -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN COUNT(a) AS a_te"
    )
    frame = pl.DataFrame({"t": [1, 2], "x": [5, 0]})
    with pytest.raises(ValueError, match=r"the start of a is missing: let RETURN give a\.ts"):
        query.export(query.run(frame), "trace")
    whole = with_endpoints(query)
    assert whole.run(frame).columns == ["detected_at", "a_te", "a_ts", "a_te_"]
    assert len(_bars(whole.export(whole.run(frame), "trace"))) == 2


def test_rows_of_another_query_are_refused() -> None:
    with pytest.raises(ValueError, match="no matches of this query: there is no column car"):
        _query().export(pl.DataFrame({"x": [1]}), "trace")


def test_an_unknown_format_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="trace, grafana, mne, not as 'svg'"):
        _query().export([], "svg")  # type: ignore[arg-type]


@pytest.mark.parametrize("format", ["trace", "grafana", "mne"])
def test_no_matches_make_a_whole_file(format: Any, tmp_path: Path) -> None:
    query = _query(window=" s")
    none = query.run(_seconds().head(1))
    text = query.export(none, format, tmp_path / "none")
    assert (tmp_path / "none").read_text("utf-8") == text
    if format == "mne":
        assert text.splitlines()[-1] == "# onset, duration, description"
    else:
        assert json.loads(text) == [] or json.loads(text)["traceEvents"] == []


def test_the_command_line_adds_the_endpoints_that_return_lacks(tmp_path: Path) -> None:
    _seconds().write_csv(tmp_path / "cars.csv")
    text = _TEXT.format(unit="", window=" s", emit="RETURN AVG(a.x) AS mean")
    arguments = ["run", "-q", text, str(tmp_path / "cars.csv"), "--quiet"]
    target = tmp_path / "trace.json"
    arguments += ["-o", str(target), "--output-format", "trace"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    bars = _bars(target.read_text("utf-8"))
    assert [bar["name"] for bar in bars] == ["match 1", "a", "b,#"]
    assert bars[0]["args"]["mean"] == "5"


def test_the_command_line_refuses_what_has_no_unit(tmp_path: Path) -> None:
    _frame([1, 2, 3, 4, 5, 6]).write_csv(tmp_path / "cars.csv")
    text = _TEXT.format(unit="", window="", emit="")
    arguments = ["run", "-q", text, str(tmp_path / "cars.csv"), "--output-format", "mne"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "ORDER BY t UNIT s" in result.output
