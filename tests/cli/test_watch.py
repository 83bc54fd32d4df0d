"""``piestream watch``: what it shows, what it serves, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import piestream as ps
from tests.monitoring.exposition import read

_ROOT = Path(__file__).parents[2]
QUERY = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[ps.Session]:
    opened = QUERY.open(status=tmp_path / "pumps.json")
    opened.push([{"t": 1, "x": 5}, {"t": 2, "x": 0}])
    opened._publisher._publish()  # type: ignore[attr-defined]
    yield opened
    opened._publisher.stop("closed")  # type: ignore[attr-defined]


def _started(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "piestream", "watch", *arguments],
        text=True, env={**os.environ, "PYTHONPATH": str(_ROOT)},
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more),
    )  # fmt: skip


@pytest.mark.usefixtures("session")
def test_once_shows_the_status(piestream: Callable[..., Any], tmp_path: Path) -> None:
    shown = piestream("watch", tmp_path / "pumps.json", "--once")
    assert shown.exit_code == 0
    assert re.match(
        r"pumps: running for \d+s \(session, process \d+\)\n  events        2", shown.stdout
    )
    assert "\n  matches       1" in shown.stdout
    assert "  last matches  detected_at=1 a_ts=1 a_te=NULL" in shown.stdout


@pytest.mark.usefixtures("session")
def test_a_folder_shows_all_its_statuses(piestream: Callable[..., Any], tmp_path: Path) -> None:
    QUERY.open(status=tmp_path / "valves.json").close()
    (tmp_path / "other.json").write_text("{}")
    shown = piestream("watch", tmp_path, "--once", "--json")
    assert [json.loads(line)["name"] for line in shown.stdout.splitlines()] == ["pumps", "valves"]
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = piestream("watch", empty, "--once")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "empty holds no status" in refused.stderr


@pytest.mark.usefixtures("session")
def test_two_of_one_name_are_told_apart(piestream: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    QUERY.open(status=tmp_path / "b" / "pumps.json").close()
    paths = [tmp_path / "pumps.json", tmp_path / "b" / "pumps.json"]
    shown = piestream("watch", *paths, paths[0], "--prometheus", "-")
    names = [dict(labels)["name"] for labels in read(shown.stdout)["piestream_up"]]
    assert names == [str(path) for path in paths]


def test_what_is_no_status_is_an_error(piestream: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"piestream_status": 1')
    for name, fault in (("x.json", "no status of piestream"), ("y.json", "there is no status")):
        refused = piestream("watch", tmp_path / name)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert fault in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--prometheus", "9100", "--once"], "--once does not serve"),
        (["--prometheus", "70000"], "ports go to 65535"),
        (["--prometheus", "numbers.json"], "ends in .prom"),
        (["--prometheus", "-", "--json"], "exclude each other"),
    ],
)
def test_wrong_use_is_refused(
    piestream: Callable[..., Any], tmp_path: Path, arguments: list[str], fault: str
) -> None:
    refused = piestream("watch", tmp_path / "pumps.json", *arguments)
    assert refused.exit_code == 2
    assert fault in refused.stderr


@pytest.mark.usefixtures("session")
def test_a_file_for_prometheus_is_written_whole(
    piestream: Callable[..., Any], tmp_path: Path
) -> None:
    target = tmp_path / "pumps.prom"
    assert (
        piestream("watch", tmp_path / "pumps.json", "--once", "--prometheus", target).exit_code == 0
    )
    assert list(read(target.read_text())["piestream_events_total"].values()) == [2]
    refused = piestream("watch", tmp_path, "--once", "--prometheus", tmp_path / "no" / "x.prom")
    assert refused.exit_code == 1
    assert "there is no directory" in refused.stderr


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("serving http://127.0.0.1:"), line
    return line.split()[1]


def test_the_numbers_are_served_on_this_machine(session: ps.Session, tmp_path: Path) -> None:
    process = _started(str(tmp_path / "pumps.json"), "--prometheus", "0")
    try:
        address = _address(process)
        with urllib.request.urlopen(address) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            found = read(answer.read().decode())
        assert list(found["piestream_events_total"].values()) == [2]
        session.push({"t": 3, "x": 5})
        session.close()
        with urllib.request.urlopen(address) as answer:
            found = read(answer.read().decode())
        assert list(found["piestream_events_total"].values()) == [3]
        assert list(found["piestream_up"].values()) == [0]
        (tmp_path / "pumps.json").unlink()
        with urllib.request.urlopen(address) as answer:
            assert read(answer.read().decode()) == {}
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.replace("metrics", "etc/passwd"))
        again = _started(str(tmp_path), "--prometheus", address.split(":")[2].split("/")[0])
        _, errors = again.communicate(timeout=60)
        assert again.returncode == 1  # the file is gone, which is told first
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


@pytest.mark.usefixtures("session")
def test_a_port_that_is_in_use_is_an_error(piestream: Callable[..., Any], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = piestream("watch", tmp_path / "pumps.json", "--prometheus", port)
    assert refused.exit_code == 1
    assert f"port {port} is in use: choose another" in refused.stderr


def test_without_a_terminal_each_look_is_a_line(session: ps.Session, tmp_path: Path) -> None:
    process = _started(str(tmp_path / "pumps.json"), "--every", "0.1")
    assert process.stdout is not None
    first = process.stdout.readline()
    assert " pumps: running for " in first
    assert "2 events" in first
    session.push({"t": 3, "x": 5})
    session.close()
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert " pumps: closed, 3 events, 2 matches, watermark 3" in rest.splitlines()[-1]


def test_a_status_that_goes_away_is_told_and_waited_for(
    session: ps.Session, tmp_path: Path
) -> None:
    session._publisher._ended.set()  # type: ignore[attr-defined]
    time.sleep(0.05)
    path = tmp_path / "pumps.json"
    before = path.read_bytes()
    process = _started(str(path), "--every", "0.1")
    assert process.stdout is not None
    assert " pumps: " in process.stdout.readline()
    path.unlink()
    while "there is no status" not in (line := process.stdout.readline()):
        assert line
    path.write_bytes(before)
    while " pumps: " not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors == "ended by SIGTERM\n"


@pytest.mark.skipif(os.name != "posix", reason="speaks of terminals of POSIX")
@pytest.mark.usefixtures("session")
def test_ctrl_c_ends_a_watch_and_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = _started(str(tmp_path / "pumps.json"), "--every", "0.1", stdout=theirs)
    os.close(theirs)
    seen = b""
    while seen.count(b"pumps: running") < 3:
        seen += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while more := os.read(ours, 4096):
            seen += more
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l")  # the cursor is there again


def test_a_run_tells_how_it_goes_and_how_it_ended(
    piestream: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    done = piestream(
        "run", folder / "query.sql", folder / "events.csv", "-o", tmp_path / "out.csv", "--quiet",
        "--status", path,
    )  # fmt: skip
    assert done.exit_code == 0
    status = ps.status(path)
    assert (status.kind, status.condition) == ("run", "closed")
    rows = len((tmp_path / "out.csv").read_text().splitlines()) - 1
    assert status.numbers["matches"] == rows > 5
    assert status.numbers["events"] == len((folder / "events.csv").read_text().splitlines()) - 1
    assert len(status.last_matches) == 5
    (tmp_path / "bad.csv").write_text(
        "car_id,ts,speed,accel\n1,2024-01-01T00:00:01,1,1\n1,2024-01-01T00:00:01,1,1\n"
    )
    failed = piestream("run", folder / "query.sql", tmp_path / "bad.csv", "--status", path)
    assert failed.exit_code == 1
    status = ps.status(path)
    assert status.condition == "failed"
    assert status.fault is not None
    assert "TieError" in status.fault


def test_a_live_run_tells_its_status_while_it_waits(tmp_path: Path) -> None:
    path = tmp_path / "live.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "piestream", "run", "-q", str(QUERY), "-", "--format", "csv",
         "--lateness", "0", "--status", str(path), "--quiet"],
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write("t,x\n1,5\n2,0\n3,0\n")
    process.stdin.flush()
    until = time.monotonic() + 60
    while not path.exists() or ps.status(path).numbers["events"] < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert ps.status(path).condition == "running"
    first = ps.status(path).updated
    while ps.status(path).updated == first:
        assert time.monotonic() < until
        time.sleep(0.05)
    process.stdin.close()
    assert process.wait(60) == 0
    assert ps.status(path).condition == "closed"
    process.stdout.close()  # type: ignore[union-attr]


def test_a_status_in_no_folder_is_wrong_use(
    piestream: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    refused = piestream(
        "run", folder / "query.sql", folder / "events.csv", "--status", tmp_path / "no" / "s.json"
    )
    assert refused.exit_code == 2
    assert "there is no directory" in refused.stderr
