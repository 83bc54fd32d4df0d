"""``piestream run --why``, and the line for a run without rows."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing

import typer

from piestream.adapters.terminal import printable
from piestream.archives.source import ArchiveSource
from piestream.cli.work import Input, RunRequest, inputs_of, opened
from piestream.diagnosis.funnel import diagnose_rows
from piestream.diagnosis.input_rows import rows_of_inputs
from piestream.diagnosis.rows import GivenRows, rows_of_source
from piestream.language.model import Query

__all__ = ["print_why", "rows_looked_into", "where_they_went"]

#: Up to so many events a run without rows is looked into by itself, which takes a few times as long.
_BY_ITSELF = 5_000_000


def print_why(query: Query, request: RunRequest) -> None:
    """Print where the rows went."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    found = diagnose_rows(rows_looked_into(query, request.input))
    typer.echo(printable(found.text(width)))


def rows_looked_into(query: Query, wanted: Input) -> GivenRows:
    """All rows of the data that the command line names; of many in an archive it is told what that takes."""
    if query.is_combined:
        inputs = inputs_of(query, wanted)
        _tell_cost(inputs.archived)
        return rows_of_inputs(query, inputs.all_rows, wanted.options, inputs.archives)
    with closing(opened(query, wanted)) as source:
        if isinstance(source, ArchiveSource):
            _tell_cost(source.total or 0)
        return rows_of_source(query, source, wanted.options)


def _tell_cost(rows: int) -> None:
    """Say what it takes to look into all rows of an archive."""
    if rows > _BY_ITSELF:
        print(
            f"reading all {rows:,} rows of the archive: each of them is counted; query.why_not looks into "
            "one partition and a span of time",
            file=sys.stderr,
        )


def where_they_went(query: Query, request: RunRequest, events: int) -> str:
    """One line for a run that gave no rows: which step left nothing, and how to see all of them."""
    advice = "run it with --why to see each step"
    data = request.input.data
    is_piped = any(name == "-" or name.endswith("=-") for name in data)
    if request.live or is_piped or events > _BY_ITSELF:
        what = "keep the data in a file and " if is_piped else ""
        return f"no rows: {what}{advice}"
    return printable(f"{diagnose_rows(rows_looked_into(query, request.input)).summary}; {advice}")
