"""An archive whose rows Spark reads: which files and which of their pages is decided before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piestream.archives.archive import Archive

__all__ = ["SparkArchive"]


class SparkArchive:
    """What `Archive.on_spark` gives, and a query takes as it takes a Spark frame."""

    def __init__(self, archive: Archive, session: Any) -> None:
        self.archive = archive
        self.session = session

    def __repr__(self) -> str:
        return f"{self.archive!r} on Spark"
