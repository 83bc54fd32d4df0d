"""What a streaming query counts: rows beside the result that are summed up and left out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream

__all__ = ["COUNTED", "KIND", "observed", "statistics_frame"]

#: The column that tells result rows (0) from counts (1 and up, as listed in `COUNTED`).
KIND = "kind"

#: What a call reports: the first four are what it added, the others what its bucket holds now.
COUNTED = ("late", "ties", "events", "matches", "waiting", "partitions", "state_bytes")


def statistics_frame(
    columns: dict[str, Any], before: Statistics, stream: Stream, state_bytes: int
) -> pd.DataFrame | None:
    """A row for each count that is not 0; the count stands in the first word of the mask.

    ``columns`` are those of a result frame; ``before`` is the stream's progress before the call.
    """
    progress = stream.progress
    counts = {name: getattr(progress, name) - getattr(before, name) for name in COUNTED[:4]}
    counts["waiting"] = progress.waiting
    counts["partitions"] = progress.partitions
    counts["state_bytes"] = state_bytes
    kinds = [number for number, name in enumerate(COUNTED, 1) if counts[name]]
    if not kinds:
        return None
    length = len(kinds)
    filled: dict[str, Any] = {KIND: np.array(kinds, np.int32)}
    for name, values in columns.items():
        if name == "m0":
            filled[name] = np.array([counts[COUNTED[kind - 1]] for kind in kinds], np.int64)
        elif values.dtype == object:
            filled[name] = np.full(length, None, object)
        else:
            filled[name] = np.zeros(length, values.dtype)
    return pd.DataFrame(filled)


def observed(functions: Any) -> list[Any]:
    """The sums of a micro-batch, as columns of `DataFrame.observe`."""
    return [
        functions.expr(f"coalesce(sum(IF({KIND} = {number}, m0, 0L)), 0L)").alias(name)
        for number, name in enumerate(COUNTED, 1)
    ]
