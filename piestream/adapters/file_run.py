"""A query over files, in chunks: what is larger than memory streams through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import polars as pl

from piestream.adapters.binding import bound, lateness_ticks
from piestream.adapters.files import Source, open_source
from piestream.adapters.limits import Limit
from piestream.engine.combined import open_stream
from piestream.errors import OrderError, TimeError, warn_of_result
from piestream.expressions.diagnostics import Diagnostic, QueryError
from piestream.language.model import Query
from piestream.language.options import FileOptions
from piestream.plan.binding import Binding

__all__ = ["FileRun", "bound_to", "run_files"]

#: Inputs of up to so many rows are taken whole, and so need not be in order of time.
WHOLE_ROWS = 1 << 20


class FileRun:
    """One query over one source, in chunks.

    Up to `WHOLE_ROWS` rows are taken whole, in any order; a longer input has to be in order of
    time within each partition, or has to be sorted (``sort``: then all of it is held in memory),
    or is out of order by no more than the lateness of its options.
    """

    def __init__(
        self, query: Query, source: Source, options: FileOptions, *, sort: bool = False
    ) -> None:
        self.source = source
        self.sort = sort
        self.binding = bound_to(query, source)
        lateness = options.lateness
        ticks = None if lateness is None else lateness_ticks(self.binding, lateness)
        self.limit = Limit(options.limit)
        self.stream = open_stream(
            self.binding,
            ties=options.ties,
            lateness=ticks,
            on_late=options.on_late,
            at_end=options.at_end,
            closable=True,
            enough=self.limit.rows,
        )

    def results(self) -> Iterator[pl.DataFrame]:
        """The result rows as they become known; frames without rows tell that work goes on."""
        return self.limit.of(self._results())

    def _results(self) -> Iterator[pl.DataFrame]:
        stream = self.stream
        held: list[pl.DataFrame] | None = [] if stream.lateness is None else None
        n_held = n_rows = 0
        for chunk in self.source.chunks(self.binding.columns):
            self._check_times(chunk)
            n_rows += len(chunk)
            rows = stream.project(chunk)
            if held is not None:
                held.append(rows)
                n_held += len(rows)
                if self.sort or n_held <= WHOLE_ROWS:
                    yield self.binding.no_results.clear()
                    continue
                rows, held = pl.concat(held), None
            yield from stream.portions(rows)
        if held:
            yield from stream.portions(pl.concat(held))
        yield from stream.last_portions()

    def _check_times(self, chunk: pl.DataFrame) -> None:
        sequence = self.binding.sequence
        name = self.binding.time.name
        needed = {name: f"the time column {name} has no value here, and every event needs a time"}
        if sequence is not None:
            needed[sequence.name] = (
                f"the column {sequence.name} has no value here, and orders the events of one time"
            )
        for name, fault in needed.items():
            if chunk[name].null_count():
                row = int(chunk[name].is_null().arg_max() or 0)
                raise TimeError(self.source.fault_in_row(row, fault))


def bound_to(query: Query, source: Source) -> Binding:
    """A query bound to the columns of a source, whose advice goes with what does not fit."""
    schema = source.schema
    try:
        return bound(query, schema)
    except QueryError as error:
        faults = [_advised(fault, source.advice, error.source) for fault in error.faults]
        raise QueryError(faults, error.source) from None


def _advised(fault: Diagnostic, advice: Mapping[str, str], source: str | None) -> Diagnostic:
    """A fault with what the source says of the columns that it is about, or of all if of none."""
    span = fault.span
    text = source[span.start : span.end] if span is not None and source is not None else ""
    about = _about(f"{fault.message} {text}", advice)
    if about:
        return replace(fault, hint="; ".join(about))
    if fault.hint is not None and "did you mean" in fault.hint:
        about = [fault.hint, *_about(fault.hint, advice)]
    elif span is None:
        about = list(advice.values())
    return replace(fault, hint="; ".join(about)) if about else fault


def _about(text: str, advice: Mapping[str, str]) -> list[str]:
    """What is said of the columns that a text names."""
    words = set(re.findall(r"\w+", text))
    return [what for column, what in advice.items() if set(re.findall(r"\w+", column)) <= words]


def run_files(query: Query, options: FileOptions) -> pl.DataFrame:
    """Every match in the files that a query's FROM names."""
    if query.streams[0].path is None:
        raise query.fault(
            ("source",),
            "the query names no file to read",
            "give a frame, or write FROM 'path/*.parquet'",
        )
    bounded = replace(options, lateness=None)  # sorted: nothing in it is late

    def collected(sort: bool) -> pl.DataFrame:
        source = open_source([str(query.streams[0].path)], options=options)
        with closing(source):
            run = FileRun(query, source, bounded, sort=sort)
            results = [result for result in run.results() if len(result)]
        if run.limit.cut:
            warn_of_result(f"stopped at limit={options.limit}: there are more rows")
        return pl.concat([run.binding.no_results, *results])

    try:
        return collected(sort=False)
    except OrderError:  # a bounded input need not be in order: once more, sorted
        return collected(sort=True)
