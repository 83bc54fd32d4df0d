"""A query of several streams over files that have been read: they are worked on as one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import polars as pl

from piestream.adapters.inputs import bound_inputs
from piestream.adapters.limits import Limit
from piestream.engine.combined import CombinedStream, Frames
from piestream.language.model import Query
from piestream.language.options import FileOptions

__all__ = ["InputsRun"]


class InputsRun:
    """One query over the rows of each of its inputs, which are in memory together."""

    def __init__(self, query: Query, frames: Frames, options: FileOptions) -> None:
        found = bound_inputs(query, {key: frame.schema for key, frame in frames.items()})
        self._rows = {key: found.converted(key, frame) for key, frame in frames.items()}
        self.binding = found.binding
        self.limit = Limit(options.limit)
        # What a query in brackets gives at the end must not lie in the past of the one around it.
        has_queries = any(stream.query is not None for stream in query.streams)
        in_order = options.at_end == "open" and options.ties != "last"
        self.stream = CombinedStream(
            found.binding,
            ties=options.ties,
            lateness=None,
            whole=has_queries and not in_order,
            at_end=options.at_end,
            closable=True,
            enough=self.limit.rows,
        )

    def results(self) -> Iterator[pl.DataFrame]:
        """The result rows."""
        pieces = (self.stream.process_inputs(self._rows) for _ in range(1))
        return self.limit.of(chain(pieces, self.stream.last_portions()))
