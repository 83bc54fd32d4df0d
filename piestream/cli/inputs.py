"""The inputs that a command line names for a query of several streams: files, and archives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.adapters.formats import Format
from piestream.adapters.inputs import Inputs
from piestream.archives.archive import Archive
from piestream.archives.live import archives_of
from piestream.archives.planning import refuse_row_order
from piestream.archives.several import rows_of_inputs
from piestream.archives.source import directory_archive
from piestream.language.model import Query
from piestream.language.options import FileOptions

__all__ = ["NamedInputs", "named_inputs"]


@dataclass(frozen=True)
class NamedInputs:
    """What is read of each input, by its name, and the archives that are the past of some streams."""

    query: Query
    options: FileOptions
    #: Rows of files, and archives whose rows these are.
    given: Mapping[str, pl.DataFrame | Archive]
    archives: Mapping[str, Archive]

    @property
    def rows(self) -> dict[str, pl.DataFrame]:
        """The rows of the inputs, those of archives as far as they can be part of a match."""
        if self.query.reads_archives:
            return self.all_rows
        found: dict[str, Any] = rows_of_inputs(self.query, self.given, self.options)
        return found

    @property
    def all_rows(self) -> dict[str, pl.DataFrame]:
        """All rows of the inputs."""
        archives = {key: rows for key, rows in self.given.items() if isinstance(rows, Archive)}
        refuse_row_order(self.query, {key: one.pages for key, one in archives.items()})
        return {
            key: rows.scan().collect() if isinstance(rows, Archive) else rows
            for key, rows in self.given.items()
        }

    @property
    def archived(self) -> int:
        """How many rows the archives have."""
        given = (rows for rows in self.given.values() if isinstance(rows, Archive))
        return sum(one.rows for one in (*given, *self.archives.values()))


def named_inputs(
    query: Query, files: Mapping[str, Sequence[str]], options: FileOptions, format: Format | None
) -> NamedInputs:
    """The inputs of which the files are named, and those of which the query names them itself.

    A directory that is an archive has the rows of its stream, or their past if that is an ARCHIVE stream.
    """
    inputs = Inputs(query)
    pasts = {inputs.names[s.name]: s.name for s in query.inputs if s.archive and s.name}
    named = {key: [path] for key, path in inputs.paths.items() if key not in files}
    given: dict[str, pl.DataFrame | Archive] = {}
    archives: dict[str, Archive] = {}
    for key, names in {**named, **files}.items():
        rest = list(names)
        for name in names:
            found = directory_archive(name)
            if found is not None and key in pasts:
                archives[pasts[key]] = found
                rest.remove(name)
            elif found is not None and len(names) == 1:
                given[key] = found
                rest = []
        if rest:
            given[key] = inputs.file(key, rest, options, format=format)
    return NamedInputs(query, options, given, archives_of(query, archives))
