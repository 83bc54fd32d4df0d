"""A query on Spark frames, whether they are bounded or streaming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from piestream.adapters.inputs import Inputs
from piestream.language.inputs import is_spark
from piestream.language.model import Query
from piestream.language.options import (
    FileOptions,
    SparkBoundedOptions,
    SparkKeywords,
    SparkStreamOptions,
)
from piestream.language.signatures import takes_options
from piestream.spark.archives import with_frames
from piestream.spark.transfer import local_frame, spark_frame

__all__ = ["by_input", "run", "run_frame"]


@takes_options(SparkBoundedOptions, SparkStreamOptions)
def run(query: Query, frame: Any, **options: Unpack[SparkKeywords]) -> Any:
    """Every match in a Spark frame, as a Spark frame: bounded if it is, else streaming.

    For a query of several streams ``frame`` is a dict of their names and frames.

    ``slices`` is for a bounded frame (see `run_bounded`); ``partitioning`` and ``metrics`` are for
    a streaming one (see `run_streaming`), and so are ``lateness`` and ``on_late``, which change
    nothing for a bounded frame: it is sorted.
    """
    return run_frame(query, frame, options)


def run_frame(query: Query, frame: Any, keywords: Mapping[str, Any]) -> Any:
    """As `run`, where the names of the options are checked already."""
    if query.reads_archives:
        raise TypeError(
            "a query that reads an archive takes the batches of a Spark stream one by one: give "
            "stream.writeStream.foreachBatch what piestream.spark.live_batches makes"
        )
    given = by_input(query, with_frames(query, frame, keywords.get("at_end") or "open"))
    first = next(iter(given.values())) if isinstance(given, Mapping) else given
    if not is_spark(first):
        from piestream.adapters.run import run_inputs

        local = {key: _local(query, key, rows) for key, rows in given.items()}
        return run_inputs(query, local, FileOptions.of(keywords))
    if isinstance(given, Mapping):
        given = _of_one_session(query, given)
    if first.isStreaming:
        from piestream.spark.streaming import run_streaming

        return run_streaming(query, given, SparkStreamOptions.of(keywords))
    from piestream.spark.bounded import run_bounded

    return run_bounded(query, given, SparkBoundedOptions.of(keywords))


def by_input(query: Query, frame: Any) -> Any:
    """The frames of a query's inputs by their names, or the frame of its only stream of events."""
    if query.is_combined:
        inputs = Inputs(query)
        named = frame if isinstance(frame, Mapping) else {inputs.name_of(None): frame}
        return {inputs.name_of(name): rows for name, rows in named.items()}
    if isinstance(frame, Mapping):
        raise TypeError(
            "the query reads one stream of events: give its frame alone, not a dict of frames"
        )
    return frame


def _of_one_session(query: Query, frames: Mapping[str, Any]) -> dict[str, Any]:
    """Spark frames for all inputs of a query, of which the first is one."""
    first = next(iter(frames.values()))
    streaming = {key: is_spark(rows) and rows.isStreaming for key, rows in frames.items()}
    if any(streaming.values()):
        files = {key for key in Inputs(query).paths if key not in frames}
        bounded = sorted(files | {key for key, is_one in streaming.items() if not is_one})
        if bounded:
            going_on = next(key for key, is_one in streaming.items() if is_one)
            raise TypeError(
                f"{going_on} is a streaming frame and {bounded[0]} is not: give streaming frames "
                "of all streams (spark.readStream reads files as one), or bounded ones"
            )
        return dict(frames)
    inputs = Inputs(query)
    local = inputs.files(FileOptions(), frames)
    local |= {key: inputs.frame(key, rows)[0] for key, rows in frames.items() if not is_spark(rows)}
    sent = {key: spark_frame(first.sparkSession, rows) for key, rows in local.items()}
    return {**frames, **sent}


def _local(query: Query, key: str, rows: Any) -> Any:
    """A bounded Spark frame as a Polars one of the columns that are read; other frames as they are."""
    if not is_spark(rows):
        return rows
    if rows.isStreaming:
        raise TypeError(
            f"{key} is a streaming frame and others are not: give streaming Spark frames of all "
            "streams"
        )
    return local_frame(rows, Inputs(query).readers[key])
