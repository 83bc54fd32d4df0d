"""What the commands take: options that belong together are declared once, as a class.

A command with a parameter of such a class has an option for each of its fields
(`signatures.takes_fields`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from piestream.adapters.formats import Format, has_data_suffix
from piestream.cli.faults import fail, refuse
from piestream.expressions.parameters import ParameterValue, parameters_written
from piestream.language.options import AtEnd, FileOptions, OnLate, Ties, help_of

if TYPE_CHECKING:
    from piestream.language.model import Query

__all__ = ["LateOptions", "OutputOptions", "QueryOptions", "ReadingOptions", "TimeOptions"]

_DEFAULTS = FileOptions()


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The query, and what its parameters stand for."""

    query_file: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY.SQL",
            help="The query's file; - is standard input. Left out with -q.",
            show_default=False,
        ),
    ] = None
    query: Annotated[
        str | None, typer.Option("-q", "--query", help="The query itself, instead of a file.")
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What :NAME in the query stands for: a number, true or false, or else a text.",
        ),
    ] = None

    def text(self, context: typer.Context, data: list[str] | None = None) -> tuple[str, list[str]]:
        """The text of the query, and the data; with ``-q`` all the arguments are data."""
        file, names = self.query_file, list(data or [])
        if self.query is not None:
            return self.query, [file, *names] if file is not None else names
        if file is None:
            refuse(context, "a query is missing: give its file, or its text with -q")
        if file != "-" and has_data_suffix(file):
            refuse(context, f"{file} is data: the query comes first, then the data")
        try:
            if file == "-":
                return sys.stdin.buffer.read().decode(), names
            return Path(file).read_bytes().decode(), names
        except UnicodeDecodeError:
            refuse(context, f"{file} is no text in UTF-8; the query comes first, then the data")
        except OSError as error:
            if file == "-":
                fail(f"cannot read the query from standard input: {error.strerror}")
            if len(file.split()) > 1:
                refuse(context, f"there is no file {file!r}; the text of a query is given with -q")
            refuse(context, f"cannot read the query {file}: {error.strerror}")

    def parsed(self, context: typer.Context, text: str) -> Query:
        """The query of a text."""
        from piestream.language import parse

        return parse(text, **self._parameters(context))

    def _parameters(self, context: typer.Context) -> Mapping[str, ParameterValue]:
        try:
            return parameters_written(self.param or [])
        except ValueError as error:
            refuse(context, str(error))


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the data is read."""

    format: Annotated[
        Format | None,
        typer.Option(help="What the data is, where its name does not say (.csv .ndjson .parquet)."),
    ] = None
    delimiter: Annotated[str | None, typer.Option(help=help_of(FileOptions, "delimiter"))] = None
    decimal_comma: Annotated[
        bool | None,
        typer.Option(
            "--decimal-comma/--no-decimal-comma", help=help_of(FileOptions, "decimal_comma")
        ),
    ] = None
    column_type: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="COLUMN=TYPE", help=help_of(FileOptions, "types")),
    ] = None
    null: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help=help_of(FileOptions, "null"))
    ] = None
    encoding: Annotated[str | None, typer.Option(help=help_of(FileOptions, "encoding"))] = None

    def keywords(self, context: typer.Context) -> dict[str, Any]:
        """As keywords of `FileOptions`."""
        return {
            "delimiter": self.delimiter,
            "decimal_comma": self.decimal_comma,
            "null": self.null,
            "encoding": self.encoding,
            "types": self._types(context),
        }

    def _types(self, context: typer.Context) -> dict[str, str] | None:
        types: dict[str, str] = {}
        for item in self.column_type or []:
            column, equals, type = item.rpartition("=")
            if not equals:
                refuse(context, f"--type {item}: write COLUMN=TYPE, for example {item}=float")
            types[column] = type
        return types or None


@dataclass(frozen=True, kw_only=True)
class TimeOptions:
    """What is done with events of one time, and where the data ends."""

    ties: Annotated[Ties, typer.Option(help=help_of(FileOptions, "ties"))] = _DEFAULTS.ties
    at_end: Annotated[AtEnd, typer.Option(help=help_of(FileOptions, "at_end"))] = _DEFAULTS.at_end


@dataclass(frozen=True, kw_only=True)
class LateOptions:
    """What is done with events that come out of order."""

    lateness: Annotated[
        str | None,
        typer.Option(
            help=f"{help_of(FileOptions, 'lateness')} Data from standard input is then worked on "
            "as it comes."
        ),
    ] = None
    on_late: Annotated[OnLate, typer.Option(help=help_of(FileOptions, "on_late"))] = (
        _DEFAULTS.on_late
    )
    sort: Annotated[
        bool, typer.Option("--sort", help="Read everything and sort it by time first.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What becomes of the matches."""

    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", help="Write all matches to this file; - is standard output."
        ),
    ] = None
    output_format: Annotated[
        Literal["table", "csv", "ndjson", "parquet", "trace", "grafana", "mne"] | None,
        typer.Option(help="How to write matches, where the name of the output does not say."),
    ] = None
    limit: Annotated[int | None, typer.Option(min=0, help=help_of(FileOptions, "limit"))] = None
    all_rows: Annotated[
        bool, typer.Option("--all", help="Print all rows of the table, not only the first 20.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no summary.")] = False
    status: Annotated[
        str | None,
        typer.Option(help="Write to this file how the run goes, for piestream watch."),
    ] = None
