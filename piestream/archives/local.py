"""What a query gives on this machine: each kind of input leads to its own run, loaded when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piestream.adapters.file_run import run_files
from piestream.adapters.run import run, run_inputs
from piestream.language.inputs import has_archive, is_archive
from piestream.language.model import Query
from piestream.language.options import FileOptions, RunOptions, check_archive_options

__all__ = ["run_local"]


def run_local(query: Query, rows: Any, options: Mapping[str, Any]) -> Any:
    """Every match in frames, events, files or archives; None is the files that the query names."""
    check_archive_options(options, query.reads_archives)
    if query.reads_archives:
        from piestream.archives.live import run_live

        return run_live(query, rows, FileOptions.of(options))
    if query.is_combined:
        return _run_combined(query, rows, FileOptions.of(options))
    if is_archive(rows):
        from piestream.archives.run import run_archive

        return run_archive(query, rows, FileOptions.of(options))
    if rows is not None:
        return run(query, rows, RunOptions.of(options))
    path = query.streams[0].path
    if path is not None and Path(path).is_dir():
        from piestream.archives.run import run_directory

        found = run_directory(query, path, FileOptions.of(options))
        if found is not None:
            return found
    return run_files(query, FileOptions.of(options))


def _run_combined(query: Query, rows: Any, options: FileOptions) -> Any:
    """Every match of a query of several streams; of archives only what can be part of one is read."""
    if any(Path(stream.path).is_dir() for stream in query.inputs if stream.path):
        from piestream.archives.source import with_directories

        rows = with_directories(query, rows)
    if has_archive(rows):
        from piestream.archives.several import rows_of_inputs

        rows = rows_of_inputs(query, rows, options)
    return run_inputs(query, rows, options)
