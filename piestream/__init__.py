"""piestream: patterns of situations that overlap in time, in frames, files and live streams.

A situation is a run of events during which something holds; a pattern says how situations lie to
each other in time. A query is a text (``query``) or is built (``define``, ``pattern``); ``run`` finds
all its matches in a frame, ``open`` those of a stream that goes on, ``explain`` says how.

>>> import polars as pl, piestream as ps
>>> cars = pl.DataFrame({"t": [1, 2, 3, 4], "accel": [0, 9, 9, 0], "speed": [50, 50, 80, 80]})
>>> query = ps.query('''
...     FROM cars ORDER BY t
...     DEFINE a AS accel > 8, s AS speed > 70
...     PATTERN a overlaps s WITHIN 60
... ''')
>>> query.run(cars).rows(named=True)
[{'detected_at': 4, 'a_ts': 2, 'a_te': 4, 's_ts': 3, 's_te': None}]

``help(ps.query)`` says what a query is made of, and https://github.com/piestream/piestream all the
rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piestream.adapters.session import Session
    from piestream.archives.archive import Archive, archive
    from piestream.diagnosis.diagnosis import Diagnosis
    from piestream.diagnosis.sweep import Sweep, sweep
    from piestream.diagnosis.why import Why
    from piestream.diagnosis.why_not import WhyNot
    from piestream.engine.statistics import Statistics
    from piestream.engine.warm import warm
    from piestream.errors import (
        ArchiveError,
        FileError,
        IntervalError,
        LateEventError,
        OrderError,
        ResultWarning,
        SchemaError,
        StateError,
        StreamError,
        TieError,
        TimeError,
    )
    from piestream.expressions.diagnostics import QueryError
    from piestream.interval_tables.coverage import coverage, depth
    from piestream.interval_tables.joining import join, join_pieces, relate
    from piestream.interval_tables.merging import merge
    from piestream.language.builder import pattern
    from piestream.language.model import Query
    from piestream.language.parser import query
    from piestream.language.stream_builder import stream
    from piestream.language.symbols import define, silence
    from piestream.monitoring.sessions import status
    from piestream.monitoring.status import Status
    from piestream.pictures.timeline import Timeline
    from piestream.show.explain import Explanation

__version__ = "0.1.0"

_PLACES = {
    "query": ("piestream.language.parser", "query"),
    "define": ("piestream.language.symbols", "define"),
    "silence": ("piestream.language.symbols", "silence"),
    "pattern": ("piestream.language.builder", "pattern"),
    "stream": ("piestream.language.stream_builder", "stream"),
    "Query": ("piestream.language.model", "Query"),
    "QueryError": ("piestream.expressions.diagnostics", "QueryError"),
    "Session": ("piestream.adapters.session", "Session"),
    "Statistics": ("piestream.engine.statistics", "Statistics"),
    "Diagnosis": ("piestream.diagnosis.diagnosis", "Diagnosis"),
    "Sweep": ("piestream.diagnosis.sweep", "Sweep"),
    "sweep": ("piestream.diagnosis.sweep", "sweep"),
    "Why": ("piestream.diagnosis.why", "Why"),
    "WhyNot": ("piestream.diagnosis.why_not", "WhyNot"),
    "Explanation": ("piestream.show.explain", "Explanation"),
    "Timeline": ("piestream.pictures.timeline", "Timeline"),
    "Status": ("piestream.monitoring.status", "Status"),
    "status": ("piestream.monitoring.sessions", "status"),
    "join": ("piestream.interval_tables.joining", "join"),
    "join_pieces": ("piestream.interval_tables.joining", "join_pieces"),
    "relate": ("piestream.interval_tables.joining", "relate"),
    "coverage": ("piestream.interval_tables.coverage", "coverage"),
    "depth": ("piestream.interval_tables.coverage", "depth"),
    "merge": ("piestream.interval_tables.merging", "merge"),
    "archive": ("piestream.archives.archive", "archive"),
    "Archive": ("piestream.archives.archive", "Archive"),
    "LivePlan": ("piestream.language.live_plan", "LivePlan"),
    "warm": ("piestream.engine.warm", "warm"),
    **{
        name: ("piestream.errors", name)
        for name in (
            "ArchiveError",
            "FileError",
            "IntervalError",
            "LateEventError",
            "OrderError",
            "ResultWarning",
            "SchemaError",
            "StateError",
            "StreamError",
            "TieError",
            "TimeError",
        )
    },
}

__all__ = [
    "Archive",
    "ArchiveError",
    "Diagnosis",
    "Explanation",
    "FileError",
    "IntervalError",
    "LateEventError",
    "LivePlan",
    "OrderError",
    "Query",
    "QueryError",
    "ResultWarning",
    "SchemaError",
    "Session",
    "StateError",
    "Statistics",
    "Status",
    "StreamError",
    "Sweep",
    "TieError",
    "TimeError",
    "Timeline",
    "Why",
    "WhyNot",
    "__version__",
    "archive",
    "coverage",
    "define",
    "depth",
    "join",
    "join_pieces",
    "merge",
    "pattern",
    "query",
    "relate",
    "silence",
    "status",
    "stream",
    "sweep",
    "warm",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing piestream is quick."""
    if name not in _PLACES:
        raise AttributeError(f"module piestream has no attribute {name!r}{_instead_of(name)}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def _instead_of(name: str) -> str:
    """What may have been meant by a name that there is not."""
    if name in ("run", "open", "explain"):
        return f": a query has it, as in piestream.query(text).{name}(...)"
    if name in ("parse", "sql", "read", "from_sql"):
        return ": piestream.query(text) reads a query"
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), __all__, n=1, cutoff=0.75)
    return f": did you mean {near[0]}?" if near and not name.startswith("_") else ""


def __dir__() -> list[str]:
    return sorted(__all__)
