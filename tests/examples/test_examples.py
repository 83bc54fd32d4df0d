"""The programs of the gallery. What they print is a block of its page, which tests/docs runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples import flights, football, glucose, rain, spark_tasks
from examples.sources import file_of
from tests.docs.blocks import ROOT, blocks_of
from tests.spark.conftest import missing

_PROGRAMS = [football, glucose, flights, rain, spark_tasks]


def test_the_queries_on_the_page_are_those_of_the_programs() -> None:
    shown = [b.text for b in blocks_of(ROOT / "docs" / "gallery.md") if b.language == "sql"]
    assert shown == [program.QUERY for program in _PROGRAMS]


def test_data_that_is_not_installed_is_named_with_what_installs_it() -> None:
    for package, name in [("no_such_package", "data.csv"), ("polars", "no_such_file.csv")]:
        with pytest.raises(FileNotFoundError, match=f"{name} of the package {package}") as raised:
            file_of(package, name)
        command = re.search(r"-r (\S+)", str(raised.value))
        assert command is not None
        assert (ROOT / command[1]).is_file()


def test_a_package_is_not_imported_for_its_files() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from examples.football import events; events(); import sys; "
         "print('kloppy' in sys.modules)"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "False\n"


def _line(stage: int, task: int, start: int, end: int) -> str:
    return json.dumps(
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": stage,
            "Task Info": {"Task ID": task, "Launch Time": start, "Finish Time": end},
            "Task Metrics": {"Shuffle Read Metrics": {"Total Records Read": 7}},
        }
    )


def test_the_task_that_runs_alone_at_the_end_of_its_stage_is_found() -> None:
    ran = spark_tasks.tasks(
        [
            json.dumps({"Event": "SparkListenerJobStart"}),
            _line(1, 1, 0, 1_000),
            _line(1, 2, 0, 1_500),
            _line(2, 3, 2_000, 3_000),  # ends with another: nobody waits
            _line(2, 4, 2_000, 3_000),
        ]
    )
    found = spark_tasks.held_up(ran)
    assert found.select("stage", "task_id", "lasted", "waited").rows() == [(1, 2, 1_500, 500)]


def test_a_job_writes_the_log_that_is_read() -> None:
    why = missing()
    if why is not None:
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    done = subprocess.run(
        [sys.executable, "-m", "examples.spark_tasks", "--readings", "200000"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tasks = re.match(r"(\d+) tasks in (\d+) stages\n", done.stdout)
    assert tasks is not None, done.stdout
    assert int(tasks[1]) >= 8
    assert int(tasks[2]) >= 2
    assert not Path(ROOT / "spark-warehouse").exists()
