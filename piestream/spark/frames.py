"""A query on a Spark frame, whether it is bounded or streaming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from piestream.language.model import Query
from piestream.language.options import (
    SparkBoundedOptions,
    SparkKeywords,
    SparkStreamOptions,
)
from piestream.language.signatures import takes_options

__all__ = ["run", "run_frame"]


@takes_options(SparkBoundedOptions, SparkStreamOptions)
def run(query: Query, frame: Any, **options: Unpack[SparkKeywords]) -> Any:
    """Every match in a Spark frame, as a Spark frame: bounded if it is, else streaming.

    ``slices`` is for a bounded frame (see `run_bounded`); ``partitioning`` and ``metrics`` are for
    a streaming one (see `run_streaming`), and so are ``lateness`` and ``on_late``, which change
    nothing for a bounded frame: it is sorted.
    """
    return run_frame(query, frame, options)


def run_frame(query: Query, frame: Any, keywords: Mapping[str, Any]) -> Any:
    """As `run`, where the names of the options are checked already."""
    if query.rows is not None:
        message = "row patterns are not supported on Spark frames yet"
        raise query.fault(("source",), message, "take a part of the rows: frame.toPandas()")
    if frame.isStreaming:
        from piestream.spark.streaming import run_streaming

        return run_streaming(query, frame, SparkStreamOptions.of(keywords))
    from piestream.spark.bounded import run_bounded

    return run_bounded(query, frame, SparkBoundedOptions.of(keywords))
