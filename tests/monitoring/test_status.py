"""A status as a record: to JSON and back, to Prometheus, to text; and what is no status."""

from __future__ import annotations

import json
import os
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import piestream as ps
from piestream.engine.statistics import Statistics
from piestream.monitoring.files import name_of, read_status, write_whole
from piestream.monitoring.measures import MEASURES
from piestream.monitoring.prometheus import exposition
from piestream.monitoring.status import Instant, Status
from piestream.monitoring.text import status_line, status_text
from tests.monitoring.exposition import read

NOW = 1_700_000_000.0

STATUS = Status(
    name="pumps",
    kind="session",
    condition="running",
    query="FROM pumps",
    numbers={"events": 1234567, "matches": 3, "late": 2, "ties": 1, "partitions": 1,
             "live_intervals": 12, "state_bytes": 14200, "waiting": 5, "left_out": 4},
    updated=NOW,
    measured=NOW,
    process=17,
    rates={"events": 410.4, "matches": 0.13},
    watermark=Instant("2023-11-14 22:13:10", seconds=NOW - 10),
    latest=Instant("2023-11-14 22:13:15", seconds=NOW - 5),
    started=NOW - 3700,
    last_matches=({"pump": "p", "te": None}, {"pump": "q", "te": 7}),
)  # fmt: skip
LABELS = (("name", "pumps"), ("kind", "session"))


def test_a_status_comes_back_from_json_as_it_was() -> None:
    assert Status.of_json(STATUS.json()) == STATUS
    assert "\n" not in STATUS.json()


def test_every_number_of_a_session_has_a_measure() -> None:
    assert {f.name for f in fields(Statistics)} <= {measure.name for measure in MEASURES}


def test_the_exposition_has_the_numbers_of_the_status() -> None:
    found = read(exposition([STATUS], NOW))
    for measure in MEASURES:
        if measure.name in STATUS.numbers:
            assert found[measure.full_name] == {LABELS: STATUS.numbers[measure.name]}
        else:
            assert measure.full_name not in found
    assert found["piestream_watermark_timestamp_seconds"][LABELS] == NOW - 10
    assert found["piestream_up"][LABELS] == 1
    assert "piestream_watermark_ticks" not in found


def test_integer_times_are_ticks() -> None:
    found = read(exposition([replace(STATUS, watermark=Instant("95", number=95))], NOW))
    assert found["piestream_watermark_ticks"][LABELS] == 95
    assert "piestream_watermark_timestamp_seconds" not in found


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", 'x"} 1\ny{z="', "\udc80", "ü\r"])
def test_labels_hold_any_name(name: str) -> None:
    found = read(exposition([replace(STATUS, name=name)], NOW))
    ((labels, _),) = found["piestream_up"].items()
    assert dict(labels)["name"] == name.encode("utf-8", "backslashreplace").decode()


def test_several_statuses_share_the_metrics() -> None:
    found = read(exposition([STATUS, replace(STATUS, name="valves")], NOW))
    assert len(found["piestream_events_total"]) == 2
    assert exposition([], NOW) == ""


def test_a_status_that_is_not_written_any_more_is_not_up() -> None:
    assert read(exposition([STATUS], NOW + 12))["piestream_up"][LABELS] == 0
    assert status_text(STATUS, NOW + 12).startswith("pumps: not updated for 12s")
    assert "not updated for 12s" in status_line(STATUS, NOW + 12)
    closed = replace(STATUS, condition="closed")
    assert status_text(closed, NOW + 12).startswith("pumps: closed (session")
    assert read(exposition([closed], NOW))["piestream_up"][LABELS] == 0


def test_the_text_says_it_all() -> None:
    assert status_text(STATUS, NOW) == (
        "pumps: running for 1h 1m (session, process 17)\n"
        "  events        1,234,567 (410/s)\n"
        "  matches       3 (0.13/s)\n"
        "  watermark     2023-11-14 22:13:10 (10s behind the clock)\n"
        "  latest event  2023-11-14 22:13:15\n"
        "  state         12 live intervals, 1 partition, 14.2 KB, 5 waiting\n"
        "  left out      2 late, 1 ties, 4 by WHERE\n"
        "  last matches  pump=q te=7\n"
        "                pump=p te=NULL"
    )
    assert status_line(STATUS, NOW) == (
        "pumps: running for 1h 1m, 1,234,567 events (410/s), 3 matches (0.13/s), watermark "
        "2023-11-14 22:13:10 (10s behind the clock), 12 live intervals, 1 partition, 14.2 KB, "
        "5 waiting, 2 late, 1 ties, 4 by WHERE"
    )


def test_a_busy_session_says_how_old_its_numbers_are() -> None:
    text = status_text(replace(STATUS, measured=NOW - 8), NOW)
    assert "busy: these numbers are 8s old" in text


def test_a_failed_run_says_why() -> None:
    failed = replace(STATUS, condition="failed", fault="TieError: two events")
    assert status_text(failed, NOW).startswith("pumps: failed: TieError: two events (session")


def test_a_terminal_does_not_obey_what_a_status_holds() -> None:
    evil = "\x1b[2J\x07\r\n\u202e"
    status = replace(
        STATUS, name=evil, fault=evil, watermark=Instant(evil), last_matches=({evil: evil},)
    )
    for text in (status_text(status, NOW), status_line(status, NOW)):
        assert not any(ord(c) < 32 and c != "\n" for c in text)
        assert "\u202e" not in text
    assert status_line(status, NOW).count("\n") == 0
    assert status_text(status, NOW).count("\n") == 7


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1", '"x"', "{}", '{"piestream": 1}', "[" * 100_000, "\x00\xff",
     STATUS.json()[:-20], STATUS.json()[:200]],
)  # fmt: skip
def test_what_is_no_status_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(ps.FileError, match=r"s\.json: this is no status of piestream"):
        ps.status(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ps.FileError, match="no status"):
        ps.status(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [("numbers", {"events": "many"}), ("numbers", [1]), ("numbers", {"events": True}),
     ("condition", "fine"), ("updated", None), ("updated", "now"), ("last_matches", [1]),
     ("watermark", {"text": 1, "seconds": 1, "number": 1}), ("watermark", {"text": "x"}),
     ("name", None), ("process", 1.5), ("started", [1]), ("more", 1)],
)  # fmt: skip
def test_a_damaged_status_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    given = json.loads(STATUS.json()) | {field: value}
    (tmp_path / "s.json").write_text(json.dumps(given))
    with pytest.raises(ps.FileError, match="damaged"):
        ps.status(tmp_path / "s.json")


def test_a_status_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"piestream_status": 9}))
    with pytest.raises(ps.FileError, match="a status of format 9; this piestream reads format 1"):
        ps.status(tmp_path / "s.json")


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ps.FileError, match="no file that holds a status"):
            ps.status(tmp_path / name)
    with pytest.raises(ps.FileError, match="there is no status"):
        ps.status(tmp_path / "nothing")
    with pytest.raises(TypeError, match="not of int"):
        ps.status(3)  # type: ignore[arg-type]


def test_a_reader_finds_a_status_whole_while_it_is_written(tmp_path: Path) -> None:
    from threading import Thread

    path = tmp_path / "s.json"
    long = replace(STATUS, query="x" * 300_000)
    write_whole(path, STATUS.json())

    def write() -> None:
        for number in range(50):
            write_whole(path, (long if number % 2 else STATUS).json())

    writer = Thread(target=write)
    writer.start()
    sizes = set()
    while writer.is_alive():
        sizes.add(len(read_status(path).query))
    writer.join()
    assert sizes <= {len(STATUS.query), 300_000}
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


def test_the_name_of_a_status_is_that_of_its_file() -> None:
    assert [name_of(Path(p)) for p in ("a/pumps.json", "x.status.json", ".json", "bare")] == [
        "pumps", "x", ".json", "bare",
    ]  # fmt: skip


def test_print_uses_the_clock() -> None:
    assert str(replace(STATUS, updated=time.time())).startswith("pumps: running")
    assert str(STATUS).startswith("pumps: not updated for ")
