"""The same query on a Spark DataFrame, bounded or streaming.

``query.run(frame)`` comes here by itself when the frame is Spark's. Predicates and the projection
run in the JVM; the workers run the same detector as the embedded engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from piestream.query.model import Query

__all__ = ["flush", "local_settings", "run", "session"]


def run(query: Query, frame: Any, **options: Any) -> Any:
    """Every match in a Spark frame, as a Spark frame: bounded if it is, else streaming.

    Options of a bounded frame: ``ties``, ``buckets``, ``slices`` (see `run_bounded`); of a
    streaming one: ``ties``, ``lateness``, ``on_late``, ``buckets``, ``partitioning``
    (see `run_streaming`).
    """
    given = {name: value for name, value in options.items() if value is not None}
    if frame.isStreaming:
        from piestream.spark.streaming import run_streaming

        return run_streaming(query, frame, **given)
    from piestream.spark.bounded import run_bounded

    given.pop("lateness", None)  # a bounded frame is sorted
    given.pop("on_late", None)
    return run_bounded(query, frame, **given)


_PLACES = {
    "flush": "piestream.spark.ending",
    "local_settings": "piestream.spark.local",
    "session": "piestream.spark.local",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module piestream.spark has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
