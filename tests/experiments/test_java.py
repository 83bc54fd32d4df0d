"""The runner of the authors' Java program: what it starts, what it reads. It is not run here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.harness.measure import MEMORY_CAP
from experiments.peers import run
from experiments.peers.java import HEAP, VARIABLE, command, program_folder, read_output
from experiments.peers.pattern import Pattern, UnsupportedPatternError
from piestream.relations import Relation

GIVEN = Pattern.chain(3, 50)
TIMES, MASKS = np.array([4, 5, 6]), np.array([1, 3, 6])

#: Stands in for java: fails unless it is given this file, then prints a line of results. As the
#: program does, it reads the columns id, a_1 to a_n, t1 and t2 in this order. Every run takes
#: another time.
STAND_IN = """\
#!{python}
import pathlib, sys
assert sys.argv[-4:-1] == ["3", "3", "50"], sys.argv
rows = [line.split(",") for line in pathlib.Path(sys.argv[-1]).read_text().splitlines()]
assert [row[1:] for row in rows] == [list("10044"), list("11055"), list("01166")], rows
assert len({{row[0] for row in rows}}) == 1, rows
log = pathlib.Path(__file__).with_name("runs")
took = [2500, 1700, 2100][log.stat().st_size if log.exists() else 0]
log.open("a").write(".")
print(f"12:00:00 [main] INFO  ProcessedTime - PieStream,3,2,3,50,17,{{took}}", file=sys.stderr)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "target" / "classes").mkdir(parents=True)
    return tmp_path


def stand_in(program: Path, text: str) -> str:
    java = program / "java"
    java.write_text(text.format(python=sys.executable))
    java.chmod(0o755)
    return str(java)


def test_the_command_names_classes_libraries_and_arguments(program: Path) -> None:
    line = command(program, Pattern.chain(4, 99), 1000, Path("e.csv"), java="jdk/java", heap="2g")
    assert line[:3] == ["jdk/java", "-Xmx2g", "-classpath"]
    assert line[3].split(os.pathsep) == [
        str(program / "target" / "classes"),
        str(program / "lib" / "*"),
    ]
    assert line[4] == "org.piestream.evaluation.ProcessedTime"
    assert line[5:] == ["4", "1000", "99", "e.csv"]


def test_its_heap_stays_below_the_limit_at_which_a_measurement_is_ended(program: Path) -> None:
    line = command(program, GIVEN, 3, Path("e.csv"))
    assert f"-Xmx{HEAP}" in line
    assert HEAP.endswith("g")
    assert int(HEAP[:-1]) * 2**30 <= 0.75 * MEMORY_CAP


def test_the_program_is_named_by_argument_or_environment(program: Path) -> None:
    assert program_folder(program, {}) == program
    assert program_folder(None, {VARIABLE: str(program)}) == program
    with pytest.raises(FileNotFoundError, match=VARIABLE):
        program_folder(None, {})
    with pytest.raises(FileNotFoundError, match="target/classes"):
        program_folder(program / "target", {})


@pytest.mark.parametrize(
    "text", ["", "PieStream,4,3,10,9,1,2\nPieStream,4,3,10,9,1,2", "Exception"]
)
def test_output_without_one_line_of_results_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="lines of results"):
        read_output(text)


def test_it_writes_the_id_column_and_takes_the_quickest_of_its_runs(program: Path) -> None:
    java = stand_in(program, STAND_IN)
    result = run("java", GIVEN, TIMES, MASKS, program=program, java=java)
    assert (result.count, result.own_seconds, len(result.matches)) == (17, 1.7, 0)
    assert (program / "runs").read_text() == "..."


def test_runs_that_count_differently_are_an_error(program: Path) -> None:
    changing = STAND_IN.replace("50,17,{{took}}", "50,{{took}},1")
    with pytest.raises(RuntimeError, match="differ"):
        run("java", GIVEN, TIMES, MASKS, program=program, java=stand_in(program, changing))


def test_a_program_that_fails_is_quoted(program: Path) -> None:
    java = stand_in(program, "#!{python}\nimport sys\nsys.exit('no heap')\n")
    with pytest.raises(RuntimeError, match="no heap"):
        run("java", GIVEN, TIMES, MASKS, program=program, java=java)


def test_only_its_own_query_is_taken(program: Path) -> None:
    other = Pattern(2, ((0, 1, Relation.MEETS),), 50)
    with pytest.raises(UnsupportedPatternError, match="chain"):
        run("java", other, TIMES, MASKS, program=program)
    with pytest.raises(UnsupportedPatternError, match="counts"):
        run("java", GIVEN, TIMES, MASKS, program=program, keep=True)
