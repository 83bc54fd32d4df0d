"""The same query on a Spark DataFrame, bounded or streaming.

``query.run(frame)`` comes here by itself when the frame is Spark's. Predicates and the projection
run in the JVM; the workers run the same detector as the embedded engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Unpack

from piestream.language.model import Query
from piestream.language.options import (
    SparkBoundedOptions,
    SparkKeywords,
    SparkStreamOptions,
    takes_options,
)

__all__ = ["flush", "local_settings", "run", "session"]


@takes_options(SparkBoundedOptions, SparkStreamOptions)
def run(query: Query, frame: Any, **options: Unpack[SparkKeywords]) -> Any:
    """Every match in a Spark frame, as a Spark frame: bounded if it is, else streaming.

    ``slices`` is for a bounded frame (see `run_bounded`); ``partitioning`` and ``metrics`` are for
    a streaming one (see `run_streaming`), and so are ``lateness`` and ``on_late``, which change
    nothing for a bounded frame: it is sorted.
    """
    return run_frame(query, frame, options)


def run_frame(query: Query, frame: Any, keywords: Mapping[str, Any]) -> Any:
    """As `run`, where the names of the options are known already."""
    if frame.isStreaming:
        from piestream.spark.streaming import run_streaming

        return run_streaming(query, frame, SparkStreamOptions.of(keywords))
    from piestream.spark.bounded import run_bounded

    return run_bounded(query, frame, SparkBoundedOptions.of(keywords))


_PLACES = {
    "flush": "piestream.spark.flush",
    "local_settings": "piestream.spark.job.local",
    "session": "piestream.spark.job.local",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module piestream.spark has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
