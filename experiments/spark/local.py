"""A local Spark to measure on."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import Any

from experiments.harness.measure import Size

__all__ = ["missing", "on_cores", "session"]


def missing(size: Size) -> str | None:
    """Why there is no Spark to measure on; None if there is."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'piestream[spark]'"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Spark needs Java 17"
    return "a JVM takes longer than the tiny size" if size is Size.TINY else None


def on_cores(cores: int) -> None:
    """Keep this process, and all that it will start, to so many cores, where the system can.

    The workers are processes beside the JVM: on a Spark of one core they would have another core to
    themselves.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def session(cores: int, memory: str = "2g") -> Any:
    """A session of so many cores, which it and its workers keep to."""
    from piestream.spark import session as spark_session

    on_cores(cores)
    # The JVM must not make threads for cores that it is not given.
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:ActiveProcessorCount={cores}"
    spark = spark_session(
        f"local[{cores}]",
        spark__ui__enabled="false",
        spark__ui__showConsoleProgress="false",
        spark__driver__memory=memory,
        spark__driver__host="127.0.0.1",
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark
