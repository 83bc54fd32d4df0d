"""The manifest of an archive: one small text, whose atomic replacement changes the whole archive."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from types import NoneType

import polars as pl

from piestream.errors import ArchiveError

__all__ = ["FILE_NAME", "MANIFEST", "VERSION", "BatchId", "DataFile", "Manifest"]

MANIFEST = "manifest.json"
_FORMAT = "piestream archive"
#: What files of rows are called.
FILE_NAME = re.compile(r"[0-9]{10,}\.parquet")
#: Of the manifest and of the statistics: raised when either means something else.
VERSION = 1
#: So many of the latest batch ids are remembered.
_BATCHES = 4096

#: What names a batch of rows that must not be appended twice.
BatchId = int | str


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of rows, and the file of its statistics."""

    name: str
    number: int  # in the order of appending: of two rows of the same time that in the file of the lower number comes first
    rows: int
    bytes: int
    crc32: int
    first: int  # the earliest time, in ticks
    last: int
    statistics_crc32: int

    @property
    def statistics(self) -> str:
        """The name of the file of its statistics."""
        return self.name.removesuffix(".parquet") + ".arrow"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation of an archive."""

    time: str
    key: tuple[str, ...]
    page_rows: int
    file_rows: int
    generation: int = 0
    next_number: int = 0
    schema: str | None = None  # of an empty frame as Arrow has it; None before the first rows
    files: tuple[DataFile, ...] = ()  # by their numbers
    batches: tuple[BatchId, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(file.rows for file in self.files)

    @property
    def columns(self) -> pl.Schema | None:
        """The columns and their types; None before the first rows."""
        return None if self.schema is None else _schema_of(self.schema)

    def with_schema(self, schema: pl.Schema) -> Manifest:
        """The same manifest, with these columns."""
        buffer = BytesIO()
        pl.DataFrame(schema=schema).write_ipc_stream(buffer)
        return replace(self, schema=b64encode(buffer.getvalue()).decode("ascii"))

    def following(
        self,
        removed: Iterable[DataFile],
        added: Sequence[DataFile],
        batch: BatchId | None = None,
    ) -> Manifest:
        """The next generation."""
        gone = {file.name for file in removed}
        files = [*(file for file in self.files if file.name not in gone), *added]
        files.sort(key=lambda file: file.number)
        batches = self.batches if batch is None else (*self.batches, batch)[-_BATCHES:]
        return replace(
            self,
            generation=self.generation + 1,
            files=tuple(files),
            batches=batches,
            next_number=self.next_number + len(added),
        )

    def text(self) -> str:
        """The manifest as its file has it."""
        return json.dumps({"format": _FORMAT, "version": VERSION, **asdict(self)}, indent=1) + "\n"

    def check(self) -> None:
        """Refuse what no archive has written; ValueError says why.

        Files are removed, and written, by the names and the numbers that stand here.
        """
        _check_types(self, _TYPES)
        for file in self.files:
            _check_types(file, _TYPES_OF_FILES)
            if not FILE_NAME.fullmatch(file.name):
                raise ValueError(f"{file.name!r} is no name of a file of rows")
            if int(file.name.removesuffix(".parquet")) >= self.next_number:
                raise ValueError(f"{file.name} has a number that is to be given yet")
        (twice, count), *_ = [*Counter(file.name for file in self.files).most_common(1), ("", 0)]
        if count > 1:
            raise ValueError(f"{twice} is named twice")
        if self.page_rows < 1 or self.file_rows < 1:
            raise ValueError("a page, and a file, has a row at least")
        if not all(isinstance(name, str) for name in self.key):
            raise ValueError("the key is of names of columns")
        columns = self.columns
        if columns is None and self.files:
            raise ValueError("there are files, but no columns")
        missing = [name for name in (self.time, *self.key) if name not in (columns or (name,))]
        if missing:
            raise ValueError(f"there is no column {missing[0]}")

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file; FileNotFoundError if there is none."""
        try:
            return _parsed(path.read_text("utf-8"))
        except _OtherVersionError as error:
            raise ArchiveError(
                f"{path} is of version {error} of archives, and this piestream reads version "
                f"{VERSION}: read it with the version that wrote it"
            ) from None
        except (ValueError, TypeError, KeyError, RecursionError, IsADirectoryError) as error:
            raise ArchiveError(
                f"{path} is no manifest of an archive: {error}. If it is damaged, put back a copy of it; "
                "the rows are Parquet files in the folder rows beside it"
            ) from None


class _OtherVersionError(Exception):
    """A manifest is of a version that is not known here."""


@lru_cache(maxsize=4)
def _parsed(text: str) -> Manifest:
    """The manifest in a text, which a session with an archive looks at again and again."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
        raise ValueError("it is none")
    version = found.pop("version")
    if version != VERSION:
        raise _OtherVersionError(version)
    found["files"] = tuple(DataFile(**file) for file in found["files"])
    found["key"], found["batches"] = tuple(found["key"]), tuple(found["batches"])
    manifest = Manifest(**found)
    manifest.check()
    return manifest


_TYPES: dict[str, type | tuple[type, ...]] = {
    "time": str, "page_rows": int, "file_rows": int, "generation": int, "next_number": int,
    "schema": (str, NoneType),
}  # fmt: skip
_TYPES_OF_FILES: dict[str, type | tuple[type, ...]] = {
    "name": str, "number": int, "rows": int, "bytes": int, "crc32": int, "first": int, "last": int,
    "statistics_crc32": int,
}  # fmt: skip


def _check_types(record: Manifest | DataFile, types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Refuse fields of other types; ValueError names the first."""
    for name, kind in types.items():
        value = getattr(record, name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}")


@lru_cache(maxsize=64)
def _schema_of(text: str) -> pl.Schema:
    """The columns that a manifest describes; ValueError if it does not."""
    try:
        return pl.read_ipc_stream(BytesIO(b64decode(text, validate=True))).schema
    except (pl.exceptions.PolarsError, OSError, ValueError) as error:
        raise ValueError(f"schema describes no columns: {error}") from None
