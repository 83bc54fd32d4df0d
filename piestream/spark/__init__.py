"""The same query on a Spark DataFrame, bounded or streaming.

``query.run(frame)`` comes here by itself when the frame is Spark's. Predicates and the projection
run in the JVM; the workers run the same detector as the embedded engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piestream.spark.frames import run as run
    from piestream.spark.job.local import local_settings as local_settings
    from piestream.spark.job.local import session as session
    from piestream.spark.job_status import publish as publish
    from piestream.spark.live import live_batches as live_batches
    from piestream.spark.stream_end import flush as flush

__all__ = ["flush", "live_batches", "local_settings", "publish", "run", "session"]

#: No module has the name of a function: once imported, it would stand in the function's place.
_MODULES = {
    "flush": "piestream.spark.stream_end",
    "live_batches": "piestream.spark.live",
    "local_settings": "piestream.spark.job.local",
    "publish": "piestream.spark.job_status",
    "run": "piestream.spark.frames",
    "session": "piestream.spark.job.local",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module piestream.spark has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
