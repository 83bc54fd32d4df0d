"""A query on a Spark frame, whether it is bounded or streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from piestream.language.model import Query
from piestream.language.options import named_options

if TYPE_CHECKING:
    from piestream.engine.reordering import OnLate, Ties
    from piestream.language.symbols import DurationLike
    from piestream.spark.worker_plan import Partitioning

__all__ = ["run"]


@named_options
def run(
    query: Query,
    frame: Any,
    *,
    ties: Ties | None = None,
    lateness: DurationLike | None = None,
    on_late: OnLate | None = None,
    buckets: int | None = None,
    partitioning: Partitioning | None = None,
    slices: int | None = None,
    metrics: str | None = None,
) -> Any:
    """Every match in a Spark frame, as a Spark frame: bounded if it is, else streaming.

    ``slices`` is for a bounded frame (see `run_bounded`); ``partitioning`` and ``metrics`` are for
    a streaming one (see `run_streaming`), and so are ``lateness`` and ``on_late``, which change
    nothing for a bounded frame: it is sorted.
    """
    both = _given(ties=ties, buckets=buckets)
    bounded = _given(slices=slices)
    streaming = _given(partitioning=partitioning, metrics=metrics)
    if frame.isStreaming:
        from piestream.spark.streaming import run_streaming

        _refuse(bounded, "a bounded Spark frame; this one is streaming")
        clock = _given(lateness=lateness, on_late=on_late)
        return run_streaming(query, frame, **both, **clock, **streaming)
    from piestream.spark.bounded import run_bounded

    _refuse(streaming, "a streaming Spark frame; this one is bounded")
    return run_bounded(query, frame, **both, **bounded)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: dict[str, Any], whose: str) -> None:
    if options:
        verb = "is an option" if len(options) == 1 else "are options"
        raise TypeError(f"{', '.join(options)} {verb} of {whose}")
