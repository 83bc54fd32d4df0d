"""The runner of the authors' Java program: what it starts, what it reads. It is not run here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.baselines import run
from experiments.baselines.java import CHAIN, VARIABLE, command, program_folder, read_output
from experiments.baselines.pattern import Pattern, UnsupportedPatternError
from piestream.relations import Relation

GIVEN = Pattern(3, ((0, 1, CHAIN), (1, 2, CHAIN)), 50)
TIMES, MASKS = np.array([4, 5, 6]), np.array([1, 3, 6])

#: Stands in for java: fails unless it is given this file, then prints a line of results.
STAND_IN = """\
#!{python}
import pathlib, sys
assert sys.argv[-4:-1] == ["3", "3", "50"], sys.argv
assert pathlib.Path(sys.argv[-1]).read_text() == "1,0,0,4,4\\n1,1,0,5,5\\n0,1,1,6,6\\n"
print("12:00:00 [main] INFO  ProcessedTime - PieStream,3,2,3,50,17,2500", file=sys.stderr)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "target" / "classes").mkdir(parents=True)
    return tmp_path


def test_the_command_names_classes_libraries_and_arguments(program: Path) -> None:
    line = command(program, 4, 1000, 99, Path("e.csv"), java="jdk/java", heap="2g")
    assert line[:3] == ["jdk/java", "-Xms2g", "-Xmx2g"]
    assert line[3] == "-classpath"
    assert line[4].split(os.pathsep) == [
        str(program / "target" / "classes"),
        str(program / "lib" / "*"),
    ]
    assert line[5] == "org.piestream.evaluation.ProcessedTime"
    assert line[6:] == ["4", "1000", "99", "e.csv"]


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


def test_it_feeds_the_file_and_reads_the_count(program: Path) -> None:
    stand_in = program / "java"
    stand_in.write_text(STAND_IN.format(python=sys.executable))
    stand_in.chmod(0o755)
    result = run("java", GIVEN, TIMES, MASKS, program=program, java=str(stand_in))
    assert (result.count, result.seconds, len(result.matches)) == (17, 2.5, 0)


def test_a_program_that_fails_is_quoted(program: Path) -> None:
    stand_in = program / "java"
    stand_in.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no heap')\n")
    stand_in.chmod(0o755)
    with pytest.raises(RuntimeError, match="no heap"):
        run("java", GIVEN, TIMES, MASKS, program=program, java=str(stand_in))


def test_only_its_own_query_is_taken(program: Path) -> None:
    other = Pattern(2, ((0, 1, Relation.MEETS),), 50)
    with pytest.raises(UnsupportedPatternError, match="chain"):
        run("java", other, TIMES, MASKS, program=program)
    with pytest.raises(UnsupportedPatternError, match="counts"):
        run("java", GIVEN, TIMES, MASKS, program=program, keep=True)
