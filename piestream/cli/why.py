"""``piestream run --why``, and the line for a run without rows."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing

import typer

from piestream.adapters.terminal import printable
from piestream.cli.work import RunRequest, named_files, opened
from piestream.diagnosis.diagnosis import Diagnosis
from piestream.diagnosis.funnel import diagnose_rows
from piestream.diagnosis.input_rows import rows_of_inputs
from piestream.diagnosis.rows import rows_of_source
from piestream.language.model import Query

__all__ = ["print_why", "where_they_went"]

#: Up to so many events a run without rows is looked into by itself, which takes a few times as long.
_BY_ITSELF = 5_000_000


def print_why(query: Query, request: RunRequest) -> None:
    """Print where the rows went."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    typer.echo(printable(_diagnosed(query, request).text(width)))


def _diagnosed(query: Query, request: RunRequest) -> Diagnosis:
    if query.is_combined:
        files = named_files(query, request.input.data)
        wanted = request.input
        return diagnose_rows(rows_of_inputs(query, files, wanted.options, wanted.format))
    with closing(opened(query, request.input)) as source:
        return diagnose_rows(rows_of_source(query, source, request.input.options))


def where_they_went(query: Query, request: RunRequest, events: int) -> str:
    """One line for a run that gave no rows: which step left nothing, and how to see all of them."""
    advice = "run it with --why to see each step"
    data = request.input.data
    is_piped = any(name == "-" or name.endswith("=-") for name in data)
    if request.live or is_piped or events > _BY_ITSELF:
        what = "keep the data in a file and " if is_piped else ""
        return f"no rows: {what}{advice}"
    return printable(f"{_diagnosed(query, request).summary}; {advice}")
