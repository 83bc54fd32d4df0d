"""One Spark session for all tests of a process; skipped, with what to do, where Java is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_WARNINGS = (
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",  # sockets of the gateway to the JVM
)

#: For quick starts and small data; nothing of it changes what a query says.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "OFF",
}


#: What Spark 4 runs on.
_OLDEST_JAVA = 17


def java() -> str | None:
    """The Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    at_home = Path(home, "bin", "java") if home else None
    if at_home is not None and at_home.exists():
        return str(at_home)
    return shutil.which("java")


def missing() -> str | None:
    """Why Spark cannot be tested here, and what would help."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is missing: pip install 'piestream[spark]'"
    there = java()
    if there is None or _version_of(there) < _OLDEST_JAVA:
        return "Java 17 is missing: sudo apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
    return None


@cache
def _version_of(program: str) -> int:
    """The major version of a Java; 0 if it does not start."""
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    return int(found[1]) if found else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for warning in _WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark_is_there() -> None:
    """For tests that start a Spark of their own."""
    why = missing()
    if why is not None:
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)


@pytest.fixture(scope="session")
def spark(spark_is_there: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session of all tests."""
    from piestream.spark import session

    local = str(tmp_path_factory.mktemp("spark"))
    settings = {**SETTINGS, "spark.local.dir": local, "spark.sql.warehouse.dir": local + "/tables"}
    opened = session("local[2]", **{n.replace(".", "__"): v for n, v in settings.items()})
    opened.sparkContext.setLogLevel("OFF")
    yield opened
    opened.stop()


@pytest.fixture
def kills() -> int:
    """How often a job is killed: twice, or PIESTREAM_KILLS."""
    return int(os.environ.get("PIESTREAM_KILLS", "2"))
