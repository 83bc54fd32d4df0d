"""The metrics of a streaming query: rows beside the result, summed up and left out again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from piestream.engine.statistics import Statistics

__all__ = ["KIND", "METRICS", "metric_rows", "metric_sums"]

#: The column that tells result rows (0) from metrics (1 and up, as listed in `METRICS`).
KIND = "kind"

#: The first four are what a call added, the others what its bucket holds now.
METRICS = ("late", "ties", "events", "matches", "waiting", "partitions", "state_bytes")


def metric_rows(
    columns: dict[str, Any], before: Statistics, after: Statistics, state_bytes: int
) -> pd.DataFrame | None:
    """A row for each metric of a call that is not 0; its value is in the first word of the mask.

    ``columns`` are those of a result frame; ``before`` and ``after`` are the stream's progress.
    """
    values = {name: getattr(after, name) - getattr(before, name) for name in METRICS[:4]}
    values["waiting"] = after.waiting
    values["partitions"] = after.partitions
    values["state_bytes"] = state_bytes
    kinds = [kind for kind, name in enumerate(METRICS, 1) if values[name]]
    if not kinds:
        return None
    rows: dict[str, Any] = {KIND: np.array(kinds, np.int32)}
    for name, column in columns.items():
        if name == "m0":
            rows[name] = np.array([values[METRICS[kind - 1]] for kind in kinds], np.int64)
        elif column.dtype == object:
            rows[name] = np.full(len(kinds), None, object)
        else:
            rows[name] = np.zeros(len(kinds), column.dtype)
    return pd.DataFrame(rows)


def metric_sums(functions: Any) -> list[Any]:
    """The sums of a micro-batch, as columns of `DataFrame.observe`."""
    return [
        functions.expr(f"coalesce(sum(IF({KIND} = {kind}, m0, 0L)), 0L)").alias(name)
        for kind, name in enumerate(METRICS, 1)
    ]
