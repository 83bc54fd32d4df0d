"""A Spark session, on one machine with the settings that measured well."""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["local_settings", "session"]

#: Set where spark-submit has started the JVM before this process.
_GATEWAY = "PYSPARK_GATEWAY_PORT"

_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.{}FileSystemBasedCheckpointFileManager"


def local_settings(cores: int | None = None) -> dict[str, str]:
    """What measured well on one machine.

    - As many shuffle partitions as cores: Spark's own 200 cost a micro-batch 7 s. A streaming
      query keeps the number that it was first started with.
    - Checkpoint files without a `chmod` process for each, which is 40 % of a micro-batch. This is
      for local disks only.
    - Batches of Arrow large enough that a bucket comes in one piece.

    >>> local_settings(2)["spark.sql.shuffle.partitions"]
    '2'
    """
    import pyspark

    cores = cores or os.cpu_count() or 1
    place = "" if pyspark.__version__.startswith("4.0") else "checkpointing."
    return {
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER.format(place),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.session.timeZone": "UTC",
    }


def session(master: str | None = None, **settings: Any) -> Any:
    """A Spark session; on a local master with `local_settings`, on a cluster with none of them.

    ``settings`` are Spark's, with dots written as two underscores
    (``spark__ui__enabled="false"``). What they or spark-submit say comes before `local_settings`.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master is None and _GATEWAY not in os.environ:  # else spark-submit has chosen
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            # Workers run the Python of this process, with the packages that are installed there.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings.items():
        builder = builder.config(name.replace("__", "."), str(value))
    opened = builder.getOrCreate()
    context = opened.sparkContext
    if context.master.startswith("local"):
        chosen = {name for name, _ in context.getConf().getAll()}
        for name, value in local_settings(context.defaultParallelism).items():
            if name not in chosen:
                opened.conf.set(name, value)
    return opened
