"""Whoever has to wait for a compilation is told once what for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from piestream.compiled import announcement
from piestream.compiled.announcement import ONCE, Announcement
from piestream.compiled.interpreted import INTERPRETED

_ROOT = Path(__file__).parents[2]


def _wait_for(condition: object) -> None:
    assert callable(condition)
    while not condition():
        time.sleep(0.001)


def test_what_takes_long_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(announcement, "PATIENCE_SECONDS", 0.0)
    told = Announcement()
    for _ in range(3):
        with told.of_one():
            told.begin()
            _wait_for(lambda: told._said)
    assert told.compiled == 3
    assert capfd.readouterr().err == f"{ONCE}\n"


def test_many_short_compilations_are_one_long_wait(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(announcement, "PATIENCE_SECONDS", 0.05)
    told = Announcement()
    while not told._said:
        with told.of_one():
            told.begin()
            time.sleep(0.01)
    assert capfd.readouterr().err == f"{ONCE}\n"


def test_what_is_loaded_or_takes_no_time_is_not_told(capfd: pytest.CaptureFixture[str]) -> None:
    told = Announcement()
    with told.of_one():
        pass
    with told.of_one():
        told.begin()
    assert told._timer is None
    assert not told._said
    assert capfd.readouterr().err == ""


_EVERY_WAY = """
import sys, time
from piestream.compiled import announcement, cache
announcement.PATIENCE_SECONDS = 0.0
cache.directories = lambda file: iter(())  # as if nothing had been compiled, and not to be kept
compiled = sys.argv[1]
if compiled == "command line":
    from piestream.cli.app import app
    app(["run", "-q", "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9", "-", "--format", "csv",
         "--quiet"], standalone_mode=False)
else:
    import piestream as ps
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    if compiled == "session":
        query.open().push({"t": 1, "x": 5})
    else:
        query.run([{"t": 1, "x": 5}])
"""


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
@pytest.mark.parametrize("way", ["session", "command line"])
def test_every_way_in_tells(way: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _EVERY_WAY, way], cwd=_ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    with process:
        try:
            process.stdin.write("t,x\n1,5\n")
            process.stdin.flush()
            assert process.stderr.readline() == f"{announcement.ALWAYS}\n"
        finally:
            process.kill()  # nothing is to be learned from the rest of the compilation
