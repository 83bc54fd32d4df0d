"""The peers that piestream is measured beside, each behind one signature.

``BASELINES[name].run(pattern, times, masks, **options)`` gives a :class:`Result`. The streaming
ones are Numba-compiled loops over NumPy arrays, as the engine itself is, so that algorithms are
compared and not languages.

>>> import numpy as np
>>> from piestream.relations import Relation
>>> pattern = Pattern(2, ((0, 1, Relation.OVERLAPS),), window=100)
>>> times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
>>> for name in ("tpstream", "piestream-paper", "iseq"):
...     print(name, BASELINES[name].run(pattern, times, masks).matches.tolist())
tpstream [[3, 1, 2]]
piestream-paper [[3, 1, 2]]
iseq [[4, 1, 2]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.baselines import iseq, java, piestream_paper, sql, tpstream
from experiments.baselines.pattern import (
    Ints,
    Pattern,
    Result,
    UnsupportedPatternError,
    sorted_matches,
)
from experiments.baselines.stream import bits

__all__ = [
    "BASELINES",
    "Baseline",
    "Pattern",
    "Result",
    "UnsupportedPatternError",
    "bits",
    "run",
    "sorted_matches",
]


@dataclass(frozen=True)
class Baseline:
    """One peer: what it is, when it reports a match, and how to run it."""

    method: Callable[..., Result]
    title: str
    #: When a match is reported: ``"earliest"`` (each pair when its relation is sure to be an
    #: allowed one), ``"relation"`` (when it is one certain relation), ``"completion"`` (when all
    #: intervals have ended), or ``"unknown"``.
    reports: str
    options: Mapping[str, Any] = field(default_factory=dict)
    #: False where matches are known to be missing, false or repeated.
    exact: bool = True
    #: Compiled loops over one event after another; the others take the whole stream at once, or
    #: are programs of their own.
    streaming: bool = True

    def run(self, pattern: Pattern, times: Ints, masks: Ints, **options: Any) -> Result:
        """Run it over one partition, sorted by time; bit i of a mask: symbol i holds."""
        result: Result = self.method(pattern, times, masks, **{**self.options, **options})
        return result


BASELINES: Mapping[str, Baseline] = {
    "tpstream": Baseline(tpstream.run_corrected, "TPStream, corrected", "earliest"),
    "tpstream-published": Baseline(tpstream.run_published, "TPStream, as published", "relation"),
    "tpstream-printed": Baseline(
        tpstream.run_printed, "TPStream, to the letter", "relation", exact=False
    ),
    "piestream-paper": Baseline(piestream_paper.run, "PieStream, as its paper", "relation"),
    "iseq-naive": Baseline(iseq.run, "ISEQ, nested loops", "completion", {"form": "naive"}),
    "iseq-indexed": Baseline(iseq.run, "ISEQ, indexed", "completion", {"form": "indexed"}),
    "iseq": Baseline(iseq.run, "ISEQ with punctuations", "completion", {"form": "ibp"}),
    "duckdb": Baseline(sql.run_duckdb, "DuckDB SQL", "completion", streaming=False),
    "duckdb-trigger": Baseline(
        sql.run_duckdb, "DuckDB SQL, triggers", "earliest", {"emit": "trigger"}, streaming=False
    ),
    "polars": Baseline(sql.run_polars, "Polars joins", "completion", streaming=False),
    "java": Baseline(
        java.run, "PieStream, Java program", "unknown", {"keep": False}, False, streaming=False
    ),
}


def run(name: str, pattern: Pattern, times: Ints, masks: Ints, **options: Any) -> Result:
    """Run the baseline of that name."""
    if name not in BASELINES:
        raise KeyError(f"no baseline is named {name!r}; there are {', '.join(BASELINES)}")
    return BASELINES[name].run(pattern, times, masks, **options)
