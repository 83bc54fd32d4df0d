"""The authors' Java program, if the reader has built it: started, fed the same file, read.

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

from experiments.baselines.pattern import Ints, Pattern, Result, UnsupportedPatternError
from piestream.relations import Relation

__all__ = ["VARIABLE", "command", "program_folder", "read_output", "run", "write_events"]

#: The environment variable that names the folder of the built program.
VARIABLE = "PIESTREAM_JAVA"

MAIN_CLASS = "org.piestream.evaluation.ProcessedTime"

#: What its benchmark allows between neighbours.
CHAIN = (
    Relation.MEETS
    | Relation.OVERLAPS
    | Relation.OVERLAPPED_BY
    | Relation.STARTS
    | Relation.STARTED_BY
    | Relation.CONTAINS
)

#: Its line of results: method, symbols, constraints, events, window, matches, milliseconds.
_LINE = re.compile(r"PieStream,(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)\b")


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
    symbols: int,
    events: int,
    window: int,
    path: Path,
    *,
    java: str = "java",
    heap: str = "8g",
    main_class: str = MAIN_CLASS,
) -> list[str]:
    """The command line that runs its benchmark over a file.

    >>> command(Path("p"), 4, 10, 99, Path("events.csv"))[-4:]
    ['4', '10', '99', 'events.csv']
    """
    classes = os.pathsep.join((str(program / "target" / "classes"), str(program / "lib" / "*")))
    arguments = [str(symbols), str(events), str(window), str(path)]
    return [java, f"-Xms{heap}", f"-Xmx{heap}", "-classpath", classes, main_class, *arguments]


def write_events(path: Path, symbols: int, times: Ints, masks: Ints) -> None:
    """The file it reads: a column of 0 and 1 a symbol, then the time twice; no header."""
    columns = {f"a_{at + 1}": (masks >> at & 1).astype(np.int8) for at in range(symbols)}
    pl.DataFrame(columns | {"t1": times, "t2": times}).write_csv(path, include_header=False)


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


def run(
    pattern: Pattern,
    times: Ints,
    masks: Ints,
    *,
    program: str | Path | None = None,
    keep: bool = False,
    timeout: float | None = None,
    java: str = "java",
    heap: str = "8g",
) -> Result:
    """Run its benchmark. It only counts: ``keep`` must stay False.

    Its time includes reading and parsing the file. Its window is not a bound on the span of a
    match, so its counts can differ from the others' where the window is short.
    """
    if keep:
        raise UnsupportedPatternError("the Java program counts matches and does not give them")
    wanted = tuple((at, at + 1, CHAIN) for at in range(pattern.n_symbols - 1))
    if pattern.constraints != wanted or pattern.has_durations:
        raise UnsupportedPatternError(
            "the Java program's benchmark has one query built in: symbols 0, 1, 2, ... in a chain, "
            "each pair with meets, overlaps, overlapped-by, starts, started-by, contains; no "
            "durations"
        )
    folder = program_folder(program)
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / "events.csv"
        write_events(path, pattern.n_symbols, times, masks)
        line = command(
            folder, pattern.n_symbols, len(times), pattern.window, path, java=java, heap=heap
        )
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise RuntimeError(
            f"the Java program ended with {done.returncode}:\n{(done.stderr or done.stdout)[-2000:]}"
        )
    count, milliseconds = read_output(done.stdout + done.stderr)
    nothing = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
    return Result(nothing, count, {"events": len(times)}, milliseconds / 1000)
