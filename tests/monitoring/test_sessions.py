"""Sessions that publish their status: what is in it, and that the session is none the worse."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.monitoring import files, publisher, streams
from piestream.monitoring.sessions import PublishedSession
from piestream.monitoring.streams import RecentRows

QUERY = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
TWO = ps.query(
    "FROM a ORDER BY t WITH b ORDER BY t DEFINE x AS p > 1, y AS b.q > 1 "
    "PATTERN x overlaps; contains y WITHIN 90 RETURN x.ts, y.ts"
)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "EVERY", 0.02)


def _soon(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def _events(*times: int) -> list[dict[str, Any]]:
    return [{"k": "p", "t": t, "x": 5 if t % 2 else 0} for t in times]


def test_a_session_writes_what_its_statistics_say(tmp_path: Path) -> None:
    path = tmp_path / "pumps.json"
    session = QUERY.open(status=path, lateness=2)
    assert ps.status(path).numbers["events"] == 0
    found = session.push(_events(1, 2, 3, 4, 5))
    _soon(lambda: ps.status(path).numbers["events"] == 3)
    status = ps.status(path)
    seen = session.statistics
    for name in ("matches", "waiting", "partitions", "live_intervals", "state_bytes", "late"):
        assert status.numbers[name] == getattr(seen, name)
    assert (status.name, status.kind, status.condition) == ("pumps", "session", "running")
    assert status.watermark is not None
    assert (status.watermark.number, status.latest and status.latest.number) == (3, 5)
    assert [dict(match) for match in status.last_matches] == found
    assert status.query == str(QUERY)
    assert status.process == os.getpid()
    found += session.close()
    closed = ps.status(path)
    assert closed.condition == "closed"
    assert (closed.numbers["events"], closed.numbers["matches"]) == (5, 3)
    assert [dict(match) for match in closed.last_matches] == found


def test_the_results_are_those_of_a_session_without_a_status(tmp_path: Path) -> None:
    plain, told = QUERY.open(), QUERY.open(status=tmp_path / "s.json")
    for event in _events(*range(1, 60)):
        assert plain.push(event) == told.push(event)
    frame = pl.DataFrame(_events(*range(60, 90)))
    assert plain.push(frame).equals(told.push(frame))
    assert plain.snapshot() == told.snapshot()
    again = QUERY.open(state=told.snapshot(), status=tmp_path / "again.json")
    assert (
        again.push(frame.with_columns(pl.col("t") + 100)).rows()
        == plain.push(frame.with_columns(pl.col("t") + 100)).rows()
    )
    assert len(ps.status(again).last_matches) == 5
    for session in (told, again):
        session.close()


def test_times_of_moments_are_told_in_seconds(tmp_path: Path) -> None:
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    query = ps.query(str(QUERY).replace("WITHIN 9", "WITHIN 9 s"))
    with query.open(status=tmp_path / "s.json", lateness="1 min") as session:
        session.push([{"k": None, "t": moment, "x": 5}])
        status = ps.status(session)
    assert status.latest is not None
    assert status.watermark is not None
    assert status.latest.seconds == moment.timestamp()
    assert status.watermark.seconds == (moment - timedelta(minutes=1)).timestamp()
    assert status.latest.number is None
    assert ps.status(tmp_path / "s.json").condition == "closed"


def test_a_session_of_several_streams_tells_its_status(tmp_path: Path) -> None:
    session = TWO.open(status=tmp_path / "s.json")
    session.push({"t": 1, "p": 5}, stream="a")
    assert ps.status(session).numbers["events"] == 0
    for stream, event in (
        ("b", {"t": 3, "q": 9}),
        ("a", {"t": 5, "p": 0}),
        ("b", {"t": 6, "q": 9}),
    ):
        session.push(event, stream=stream)
    assert [dict(m) for m in ps.status(session).last_matches] == [
        {"detected_at": 5, "x_ts": 1, "y_ts": 3}
    ]
    session.close()


def test_only_the_latest_rows_are_kept() -> None:
    recent = RecentRows()
    frame = pl.DataFrame({"x": range(100_000)})
    recent.note(frame)
    recent.note(frame[:2])
    assert [row["x"] for row in recent.last()] == [99_997, 99_998, 99_999, 0, 1]
    assert sum(kept.estimated_size() for kept in recent.frames) < 1_000


def test_values_become_what_json_has(tmp_path: Path) -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 "
        "RETURN FIRST(a.w) AS w, FIRST(a.d) AS d, LAST(a.y) AS y, FIRST(a.b) AS b, FIRST(a.m) AS m"
    )
    with query.open(status=tmp_path / "s.json") as session:
        session.push(
            {"t": 1, "x": 5, "w": "w" * 5_000, "d": datetime(2024, 1, 2).date(), "b": True,
             "y": float("inf"), "m": datetime(2024, 1, 2, 3)}
        )  # fmt: skip
    (match,) = ps.status(tmp_path / "s.json").last_matches
    assert match["w"] == "w" * (streams._LONGEST - 1) + "…"
    assert (match["d"], match["y"], match["b"]) == ("2024-01-02", "inf", True)
    assert match["m"] == "2024-01-02 03:00:00"


def test_a_busy_session_goes_on_telling_that_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    session = QUERY.open(status=path)
    with session._lock:  # as while a call is under way
        before = ps.status(path)
        _soon(lambda: ps.status(path).updated > before.measured + 0.3)
        assert ps.status(path).condition == "running"
    session.close()


def test_a_session_that_nobody_closes_is_closed_when_it_is_collected(tmp_path: Path) -> None:
    session = QUERY.open(status=tmp_path / "s.json")
    session.push(_events(1))
    _soon(lambda: ps.status(tmp_path / "s.json").numbers["events"] == 1)
    del session
    gc.collect()
    status = ps.status(tmp_path / "s.json")
    assert (status.condition, status.numbers["events"]) == ("closed", 1)


def test_the_status_says_closed_when_the_process_has_ended(tmp_path: Path) -> None:
    code = f"import piestream as ps\ns = ps.query({str(QUERY)!r}).open(status={str(tmp_path / 's.json')!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert ps.status(tmp_path / "s.json").condition == "closed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_does_not_write_the_status(tmp_path: Path) -> None:
    code = (
        "import os, sys, piestream as ps\n"
        f"s = ps.query({str(QUERY)!r}).open(status={str(tmp_path / 's.json')!r})\n"
        "child = os.fork()\n"
        "if not child: sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        f"print(ps.status({str(tmp_path / 's.json')!r}).condition)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "running\n"


def test_a_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"precious": 1}')
    with pytest.raises(ps.FileError, match="no status of piestream; it is not overwritten"):
        QUERY.open(status=tmp_path / "mine.json")
    assert (tmp_path / "mine.json").read_text() == '{"precious": 1}'
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        QUERY.open(status=tmp_path / "no" / "s.json")


def test_a_status_may_follow_another(tmp_path: Path) -> None:
    for _ in range(2):
        QUERY.open(status=tmp_path / "s.json").close()
    (tmp_path / "empty.json").touch()
    QUERY.open(status=tmp_path / "empty.json").close()
    assert ps.status(tmp_path / "empty.json").condition == "closed"


def test_a_directory_that_goes_away_does_not_disturb_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = []

    def write_whole(path: Path, text: str) -> None:
        try:
            files.write_whole(path, text)
        except OSError as error:
            failed.append(error)
            raise

    monkeypatch.setattr(publisher, "write_whole", write_whole)
    folder = tmp_path / "here"
    folder.mkdir()
    session = QUERY.open(status=folder / "s.json")
    folder.rename(tmp_path / "gone")
    _soon(lambda: len(failed) > 1)
    assert session.push(_events(1))
    folder.mkdir()
    _soon(lambda: (folder / "s.json").exists())
    assert ps.status(folder / "s.json").numbers["events"] == 1
    folder.rename(tmp_path / "gone again")
    session.close()


def test_a_plain_session_has_no_thread_and_no_observer() -> None:
    session = QUERY.open()
    session.push(_events(1))
    assert not isinstance(session, PublishedSession)
    assert session._stream is not None
    assert session._stream.on_results is None
    assert ps.status(session).last_matches == ()
    assert ps.status(session).numbers["matches"] == 1


def test_a_refused_push_leaves_the_status(tmp_path: Path) -> None:
    session = QUERY.open(status=tmp_path / "s.json")
    session.push(_events(5))
    with pytest.raises(ps.LateEventError):
        session.push(_events(1))
    assert ps.status(session).numbers["events"] == 1
    session.close()


def test_a_status_is_written_to_a_path() -> None:
    with pytest.raises(TypeError, match="status is the path of a file, not 5"):
        QUERY.open(status=5)  # type: ignore[arg-type]
