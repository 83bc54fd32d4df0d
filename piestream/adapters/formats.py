"""What a file holds, as its name says. The command line reads this without loading Polars."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

__all__ = ["FORMATS", "TABS", "Format", "TypeName", "format_of", "has_data_suffix", "suffix_of"]

Format = Literal["parquet", "csv", "ndjson"]

#: What a file holds, from the end of its name.
FORMATS: Mapping[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}

#: CSV whose columns are separated by tabs.
TABS = ".tsv"

#: The names of the types that a column of text may be given.
TypeName = Literal["int", "float", "bool", "text", "date", "datetime"]


def has_data_suffix(name: str) -> bool:
    """Whether a name is that of a file with data."""
    return suffix_of(name) in (*FORMATS, TABS)


def format_of(name: str) -> Format:
    """What a file holds, from its name; a directory holds Parquet files."""
    if os.path.isdir(name):
        return "parquet"
    suffix = suffix_of(name)
    if suffix == TABS:
        return "csv"
    if suffix not in FORMATS or (name.endswith(".gz") and suffix == ".parquet"):
        raise ValueError(
            f"{name}: what kind of file is this? Its name should end in "
            f"{', '.join([*FORMATS, TABS])} (text also with .gz), or give the format (--format ndjson)"
        )
    return FORMATS[suffix]


def suffix_of(name: str) -> str:
    """The end of a name that says what a file holds."""
    path = Path(name)
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
