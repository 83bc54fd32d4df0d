"""What a job's checkpoint was started with, so that a restart that cannot go on is refused first.

Each state holds the same facts, but it is read only when its bucket is next called: until then a job
with another number of buckets would process rows without the state that belongs to them.
"""

from __future__ import annotations

import json
from typing import Any

from piestream.engine.snapshot import VERSION as SNAPSHOT
from piestream.errors import StateError
from piestream.language import QueryError, parse
from piestream.language.model import Query
from piestream.language.options import SparkStreamOptions
from piestream.spark.bound_frames import bound_frames
from piestream.spark.state import VERSION as STATE

__all__ = ["RECORD", "check_record", "job_record"]

#: The name of the file in the checkpoint's directory.
RECORD = "piestream.json"

#: How an error names each entry of the record.
_NAMES = {
    "query": "the query",
    "columns": "the types of the query's columns",
    "buckets": "--buckets",
    "partitioning": "--partitioning",
    "lateness": "--lateness",
    "ties": "--ties",
    "state": "the version of the state",
}


def job_record(query: Query, frames: Any, options: SparkStreamOptions) -> dict[str, Any]:
    """What a restart must have in common with the first start, as JSON takes it."""
    read = bound_frames(query, frames).read_types
    return {
        "query": str(query),
        "columns": {name: data_type.simpleString() for name, data_type in read.items()},
        "buckets": options.buckets if options.partitioning == "bucket" else None,
        "partitioning": options.partitioning,
        "lateness": None if options.lateness is None else str(options.lateness),
        "ties": options.ties,
        "state": f"{STATE}.{SNAPSHOT}",
    }


def check_record(spark: Any, checkpoint: str, now: dict[str, Any]) -> None:
    """Write the record of a new checkpoint; raise StateError where an old one differs.

    A checkpoint without a record, of a query that was not started as a job, is left as it is.
    """
    folder = _Folder(spark, checkpoint)
    text = folder.read(RECORD)
    if text is None:
        if not folder.has("metadata"):
            folder.write(RECORD, json.dumps(now, indent=2))
        return
    try:
        before = json.loads(text)
    except ValueError:
        raise StateError(
            f"{checkpoint}/{RECORD} is damaged; if it was not touched by hand, start a new checkpoint"
        ) from None
    differences = [
        f"  {_NAMES[name]} was {_shown(before.get(name))}, and is now {_shown(now[name])}"
        for name in now
        if not _same(name, before.get(name), now[name])
    ]
    if differences:
        raise StateError(
            "\n".join([f"the checkpoint {checkpoint} was started differently:", *differences])
            + "\nrun the job as it was, or give another directory to --checkpoint to start anew"
        )


def _same(name: str, before: Any, now: Any) -> bool:
    if name != "query" or before == now:
        return bool(before == now)
    try:
        return parse(before) == parse(now)
    except (QueryError, TypeError):
        return False


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {kind}" for name, kind in value.items())
    if isinstance(value, str) and "\n" in value:
        return "\n    " + value.strip().replace("\n", "\n    ") + "\n "
    return "not given" if value is None else str(value)


class _Folder:
    """A directory wherever Spark can keep a checkpoint."""

    def __init__(self, spark: Any, path: str) -> None:
        self._jvm = spark._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._at(name)))

    def read(self, name: str) -> str | None:
        if not self.has(name):
            return None
        stream = self._files.open(self._at(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """All of it or nothing."""
        unfinished = self._at(f".{name}.new")
        stream = self._files.create(unfinished, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._files.rename(unfinished, self._at(name))
