"""The authors' Java program, where a built copy is named: started, given the same stream, read.

Nothing of it is part of this project. ``PIESTREAM_JAVA`` (or the argument ``program``) names the
folder of a built copy, with ``target/classes`` and ``lib`` in it. The program's benchmark has one
query built in: a chain of symbols with six relations between neighbours. It reports how many
matches it counted and the milliseconds it took, not the matches.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from experiments.peers.parts.derivers import Masks
from experiments.peers.pattern import Ints, Pattern, Result, UnsupportedPatternError
from experiments.peers.peer import Matcher

__all__ = ["VARIABLE", "command", "matcher", "missing", "program_folder", "read_output"]

#: The environment variable that names the folder of the built program.
VARIABLE = "PIESTREAM_JAVA"

MAIN_CLASS = "org.piestream.evaluation.ProcessedTime"

#: The most that the JVM may use for its heap: with its own memory it stays below the limit at which
#: a measurement is ended.
HEAP = "4g"
#: How often the program is run; its quickest run counts. Every run is a new JVM.
RUNS = 3

#: Its line of results: method, symbols, constraints, events, window, matches, milliseconds.
_LINE = re.compile(r"PieStream,(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)\b")


def missing() -> str:
    """Why it cannot be run here; empty if a built copy is named."""
    return (
        "" if os.environ.get(VARIABLE) else f"no built copy of the program is named in {VARIABLE}"
    )


def program_folder(
    program: str | Path | None = None, environment: Mapping[str, str] | None = None
) -> Path:
    """The folder of the built program, from the argument or the environment."""
    named = program or (os.environ if environment is None else environment).get(VARIABLE)
    if not named:
        raise FileNotFoundError(
            "the authors' Java program is not part of this project: build a copy, then name its "
            f"folder (the one with target/classes) in {VARIABLE} or as program=..."
        )
    folder = Path(named)
    if not (folder / "target" / "classes").is_dir():
        raise FileNotFoundError(
            f"{folder} has no target/classes; build the program there (mvn package) or name "
            "another folder"
        )
    return folder


def command(
    program: Path,
    pattern: Pattern,
    events: int,
    path: Path,
    *,
    java: str = "java",
    heap: str = HEAP,
) -> list[str]:
    """The command line that runs its benchmark over a file.

    >>> command(Path("p"), Pattern.chain(2, 99), 10, Path("events.csv"))[-4:]
    ['2', '10', '99', 'events.csv']
    """
    classes = os.pathsep.join((str(program / "target" / "classes"), str(program / "lib" / "*")))
    arguments = [str(pattern.n_symbols), str(events), str(pattern.window), str(path)]
    return [java, f"-Xmx{heap}", "-classpath", classes, MAIN_CLASS, *arguments]


def _write_events(path: Path, symbols: int, times: Ints, masks: Ints) -> None:
    """The file that it reads: ``id``, a column of 0 and 1 a symbol, the time twice; no header.

    Its schema has the ``id`` first and no query asks for it: without the column every value would be
    read under the name of the one before it.
    """
    columns = {f"a_{at + 1}": (masks >> at & 1).astype(np.int8) for at in range(symbols)}
    frame = pl.DataFrame(
        {"id": np.ones(len(times), np.int8)} | columns | {"t1": times, "t2": times}
    )
    frame.write_csv(path, include_header=False)


def read_output(text: str) -> tuple[int, int]:
    """The matches it counted and the milliseconds it took, from what it printed.

    >>> read_output("[main] INFO ... - PieStream,4,3,1000,10000,23,60")
    (23, 60)
    """
    lines = _LINE.findall(text)
    if len(lines) != 1:
        raise ValueError(
            f"found {len(lines)} lines of results in what the Java program printed; expected one "
            f"like 'PieStream,4,3,1000,10000,23,60'. It printed:\n{text[-2000:]}"
        )
    *_, matches, milliseconds = lines[0]
    return int(matches), int(milliseconds)


def matcher(
    pattern: Pattern,
    *,
    program: str | Path | None = None,
    keep: bool = False,
    java: str = "java",
    heap: str = HEAP,
    runs: int = RUNS,
) -> Matcher:
    """Its benchmark. It only counts: ``keep`` must stay False.

    Its own time, the least of several runs, includes reading and parsing the file. Its window is not
    a bound on the span of a match, so its counts can differ from the others' where that is short.
    """
    if keep:
        raise UnsupportedPatternError("the Java program counts matches and does not give them")
    if pattern != Pattern.chain(pattern.n_symbols, pattern.window):
        raise UnsupportedPatternError(
            "the Java program's benchmark has one query built in: symbols 0, 1, 2, ... in a chain, "
            "each pair with meets, overlaps, overlapped-by, starts, started-by, contains; no "
            "durations"
        )
    folder = program_folder(program)

    def match(given: Masks) -> Result:
        times, masks, _ = given
        with TemporaryDirectory() as temporary:
            path = Path(temporary) / "events.csv"
            _write_events(path, pattern.n_symbols, times, masks)
            line = command(folder, pattern, len(times), path, java=java, heap=heap)
            outputs = [_run(line) for _ in range(runs)]
        if len({count for count, _ in outputs}) > 1:
            raise RuntimeError(f"the Java program's runs differ in what they count: {outputs}")
        count, milliseconds = min(outputs, key=lambda output: output[1])
        nothing = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
        return Result(nothing, count, {"events": len(times)}, own_seconds=milliseconds / 1000)

    return Matcher(match, derives=True)


def _run(line: list[str]) -> tuple[int, int]:
    """Matches and milliseconds of one run."""
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"the Java program ended with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}"
        )
    return read_output(done.stdout + done.stderr)
