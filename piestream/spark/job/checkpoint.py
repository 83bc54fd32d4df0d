"""What a job's checkpoint was started with, so that a restart that cannot go on is refused first.

Each state says the same of itself, but only when it is next called: until then a job with another
number of buckets would work on rows without the state that belongs to them.
"""

from __future__ import annotations

import json
from typing import Any

from piestream.engine.snapshot import VERSION as SNAPSHOT
from piestream.errors import StateError
from piestream.language import QueryError, parse
from piestream.language.model import Query
from piestream.language.options import SparkStreamOptions
from piestream.spark.state import VERSION as STATE
from piestream.spark.worker_plan import planned

__all__ = ["RECORD", "begun", "check_record"]

#: The file beside those of Spark.
RECORD = "piestream.json"

_SPOKEN = {
    "query": "the query",
    "columns": "the types of the query's columns",
    "buckets": "--buckets",
    "partitioning": "--partitioning",
    "lateness": "--lateness",
    "ties": "--ties",
    "state": "the version of the state",
}


def begun(query: Query, frame: Any, options: SparkStreamOptions) -> dict[str, Any]:
    """What a job begins with, as JSON takes it."""
    bound = planned(query, frame)
    return {
        "query": str(query),
        "columns": {name: bound.types[name].simpleString() for name in bound.binding.columns},
        "buckets": options.buckets if options.partitioning == "bucket" else None,
        "partitioning": options.partitioning,
        "lateness": None if options.lateness is None else str(options.lateness),
        "ties": options.ties,
        "state": f"{STATE}.{SNAPSHOT}",
    }


def check_record(spark: Any, checkpoint: str, now: dict[str, Any]) -> None:
    """Note what a new checkpoint begins with; refuse to go on with another one's.

    A checkpoint without a record, of a query that was not started as a job, is left as it is.
    """
    place = _Folder(spark, checkpoint)
    text = place.read(RECORD)
    if text is None:
        if not place.has("metadata"):
            place.write(RECORD, json.dumps(now, indent=2))
        return
    try:
        before = json.loads(text)
    except ValueError:
        raise StateError(
            f"{checkpoint}/{RECORD} is damaged; if it was not touched by hand, start a new checkpoint"
        ) from None
    told = [
        f"  {_SPOKEN[name]} was {_said(before.get(name))}, and is now {_said(now[name])}"
        for name in now
        if not _same(name, before.get(name), now[name])
    ]
    if told:
        raise StateError(
            "\n".join([f"the checkpoint {checkpoint} was begun otherwise:", *told])
            + "\nrun the job as it was, or give another directory to --checkpoint to start anew"
        )


def _same(name: str, before: Any, now: Any) -> bool:
    if name != "query" or before == now:
        return bool(before == now)
    try:
        return parse(before) == parse(now)
    except (QueryError, TypeError):
        return False


def _said(value: Any) -> str:
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
        half = self._at(f".{name}.new")
        stream = self._files.create(half, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._files.rename(half, self._at(name))
