"""The manifest of an archive: one small text, whose atomic replacement changes the whole archive."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path

import polars as pl

from piestream.errors import ArchiveError

__all__ = ["MANIFEST", "VERSION", "BatchId", "DataFile", "Manifest"]

MANIFEST = "manifest.json"
_FORMAT = "piestream archive"
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
        if self.schema is None:
            return None
        return pl.read_ipc_stream(BytesIO(b64decode(self.schema))).schema

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

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file; FileNotFoundError if there is none."""
        try:
            found = json.loads(path.read_text("utf-8"))
            if not isinstance(found, dict) or found.pop("format", None) != _FORMAT:
                raise ValueError("it is none")
            version = found.pop("version")
            if version != VERSION:
                raise ArchiveError(
                    f"{path} is of version {version} of archives, and this piestream reads version "
                    f"{VERSION}: read it with the version that wrote it"
                )
            found["files"] = tuple(DataFile(**file) for file in found["files"])
            found["key"], found["batches"] = tuple(found["key"]), tuple(found["batches"])
            return cls(**found)
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, ArchiveError):
                raise
            raise ArchiveError(
                f"{path} is no manifest of an archive: {error}. If it is damaged, put back a copy of it; "
                "the rows are Parquet files in the folder rows beside it"
            ) from None
