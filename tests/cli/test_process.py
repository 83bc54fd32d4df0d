"""As a process: pipes, signals, memory, and what is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

QUERY = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="speaks of POSIX pipes and signals")


def started(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "piestream", *(str(a) for a in arguments)]
    return subprocess.Popen(command, **{**pipes, **options})  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from piestream.cli import main\n"
        f"sys.argv = ['piestream', *{arguments!r}]\n"
        "try:\n    main()\n"
        "finally:\n    print('heavy:', {'polars', 'numba', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "heavy: set()" in done.stdout


@pytest.mark.parametrize("format", ["csv", "table"])
def test_a_broken_pipe_is_silent(format: str, tmp_path: Path) -> None:
    pl.DataFrame({"t": range(200_000), "x": [0, 1] * 100_000}).write_parquet(
        tmp_path / "rows.parquet"
    )
    process = started("run", "-q", QUERY, tmp_path / "rows.parquet", "--all", "--quiet",
                      "--output-format", format)  # fmt: skip
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(30) == 0
    process.stderr.close()
    assert process.stdin is not None
    process.stdin.close()


def test_matches_of_a_live_stream_come_at_once_and_ctrl_c_exits_with_130(tmp_path: Path) -> None:
    process = started("run", "-q", QUERY, "-", "--format", "ndjson", "--lateness", "0",
                      "-o", "-", "--output-format", "ndjson")  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for t, x in enumerate((0, 1, 0)):
        process.stdin.write(b'{"t": %d, "x": %d}\n' % (t, x))
        process.stdin.flush()
    assert process.stdout.readline() == b'{"detected_at":1,"a_ts":1,"a_te":null}\n'
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.communicate()


def test_ctrl_c_leaves_no_half_written_file(tmp_path: Path) -> None:
    process = started("run", "-q", QUERY, "-", "--format", "csv", "--lateness", "0",
                      "-o", tmp_path / "found.parquet")  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"t,x\n1,1\n2,0\n")
    process.stdin.flush()
    waited = time.monotonic() + 60
    while not list(tmp_path.iterdir()):  # the file that becomes the result
        assert time.monotonic() < waited
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.communicate()
    assert list(tmp_path.iterdir()) == []


# The peak that a process tells of itself begins with that of the process which started it: this
# small one stands between the tests and what is measured.
_PEAK = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "piestream", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def made(path: Path, n_rows: int) -> Path:
    random = np.random.default_rng(1)
    filler = {f"y{i}": random.random(n_rows) for i in range(3)}
    frame = pl.DataFrame({"t": np.arange(n_rows), "x": random.random(n_rows) - 0.8, **filler})
    if path.suffix == ".parquet":
        frame.write_parquet(path, compression="uncompressed", row_group_size=1 << 17)
    else:
        frame.write_csv(path, float_precision=15)
    return path


@pytest.mark.parametrize(
    ("format", "few", "many"), [("parquet", 1.5e6, 9e6), ("csv", 1.5e6, 4.5e6)]
)
def test_a_large_file_streams_through(format: str, few: float, many: float, tmp_path: Path) -> None:
    query = (
        "FROM s ORDER BY t DEFINE a AS x > 0, b AS y0 > 0.5 PATTERN a overlaps; contains; during b "
        "WITHIN 99 RETURN a.ts, b.ts, AVG(b.y1) AS y1"
    )
    peaks = []
    for number, n_rows in enumerate((few, many)):
        path = made(tmp_path / f"rows{number}.{format}", int(n_rows))
        out = path.with_name(f"found{number}.parquet")
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, "run", "-q", query, path, "-o", out],
            capture_output=True,
            text=True,
            check=True,
        )
        assert pl.scan_parquet(out).select(pl.len()).collect().item() > n_rows / 50
        peaks.append(int(done.stdout))
        size = path.stat().st_size >> 20
        path.unlink()
    assert size > 300
    assert peaks[1] - peaks[0] < 100


def test_a_progress_bar_on_a_terminal_only(tmp_path: Path) -> None:
    rows = made(tmp_path / "rows.parquet", 400_000)
    arguments = ("run", "-q", QUERY, rows, "-o", tmp_path / "found.csv")
    piped = started(*arguments).communicate()[1].decode()
    assert piped.count("\n") == 1
    assert "\x1b" not in piped
    ours, theirs = os.openpty()
    process = started(*arguments, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # what Linux says at the end of a terminal
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    process.communicate()
    assert process.returncode == 0
    assert "rows.parquet" in shown.decode()
    assert "100%" in shown.decode()
    assert "400,000 events, " in shown.decode()
