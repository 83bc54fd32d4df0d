"""``piestream report``: a page about what a query finds."""

from __future__ import annotations

import sys
from contextlib import closing

from piestream.adapters.terminal import printable
from piestream.cli.output import write_text
from piestream.cli.work import Input, UsageError, opened, refuse_own_input
from piestream.diagnosis.rows import refuse_combined, rows_of_source
from piestream.language.model import Query
from piestream.pictures.report import report_of_rows

__all__ = ["write_report"]


def write_report(query: Query, wanted: Input, output: str) -> None:
    """Write the report of a query over data to a file, or to standard output for -."""
    refuse_combined(query)
    refuse_own_input(output, wanted.data or (query.streams[0].path or "-",))
    options = wanted.options
    with closing(opened(query, wanted)) as source:
        page = report_of_rows(rows_of_source(query, source, options), options)
    try:
        write_text(None if output == "-" else output, page)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(str(error)) from None
    if output != "-":
        print(f"written: {printable(output)}", file=sys.stderr)
