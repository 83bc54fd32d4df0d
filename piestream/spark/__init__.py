"""The same query on a Spark DataFrame, bounded or streaming.

``query.run(frame)`` comes here by itself when the frame is Spark's. Predicates and the projection
run in the JVM; the workers run the same detector as the embedded engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from piestream.language.model import Query
from piestream.language.options import named_options

if TYPE_CHECKING:
    from piestream.engine.reordering import OnLate, Ties
    from piestream.language.symbols import DurationLike
    from piestream.spark.worker_plan import Partitioning

__all__ = ["flush", "local_settings", "run", "session"]


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
        told = "is an option" if len(options) == 1 else "are options"
        raise TypeError(f"{', '.join(options)} {told} of {whose}")


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
