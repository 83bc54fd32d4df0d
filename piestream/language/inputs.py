"""What a query runs over, for type checkers: the kind that goes in is the kind that comes out.

The libraries of frames are known by what their frames have, not by their classes. So nothing has
to be installed that is not used, and a library that is missing hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Union

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "AnyFrame",
    "Event",
    "Events",
    "Frame",
    "SparkFrame",
    "has_archive",
    "has_spark",
    "is_archive",
    "is_spark",
]

#: One event: a value for each column.
Event = Mapping[str, Any]

#: A list, a tuple or a generator of events.
Events = Union[Sequence[Event], Iterator[Event]]


class _Pandas(Protocol):
    """A pandas DataFrame."""

    @property
    def iloc(self) -> Any: ...
    @property
    def set_index(self) -> Any: ...


class _Arrow(Protocol):
    """A PyArrow Table."""

    @property
    def to_batches(self) -> Any: ...
    @property
    def combine_chunks(self) -> Any: ...


class _DuckDB(Protocol):
    """A DuckDB relation."""

    @property
    def sql_query(self) -> Any: ...
    @property
    def set_alias(self) -> Any: ...


class _Spark(Protocol):
    """A Spark DataFrame, of Spark Connect too."""

    @property
    def isStreaming(self) -> Any: ...  # noqa: N802 (Spark's name)
    @property
    def selectExpr(self) -> Any: ...  # noqa: N802 (Spark's name)


#: A pandas DataFrame, a PyArrow Table or a DuckDB relation. Polars frames have overloads.
Frame = TypeVar("Frame", bound=Union[_Pandas, _Arrow, _DuckDB])

#: A frame of any kind but Spark's.
AnyFrame = TypeVar("AnyFrame", bound="Union[pl.DataFrame, pl.LazyFrame, _Pandas, _Arrow, _DuckDB]")

#: A Spark DataFrame, bounded or streaming.
SparkFrame = TypeVar("SparkFrame", bound=_Spark)


def is_spark(frame: object) -> bool:
    """Whether something is a Spark frame, of a classic session or of Spark Connect."""
    return type(frame).__module__.startswith("pyspark.sql")


def is_archive(frame: object) -> bool:
    """Whether something is an archive, without loading what archives are made of."""
    return type(frame).__module__ == "piestream.archives.archive"


def has_archive(given: object) -> bool:
    """Whether something is an archive, or a dict of frames with one among them."""
    frames = given.values() if isinstance(given, Mapping) else (given,)
    return any(map(is_archive, frames))


def is_on_spark(frame: object) -> bool:
    """Whether something is an archive whose rows Spark reads."""
    return type(frame).__module__ == "piestream.archives.on_spark"


def has_spark(given: object) -> bool:
    """Whether something is a Spark frame, or a dict of frames with one among them."""
    frames = given.values() if isinstance(given, Mapping) else (given,)
    return any(is_spark(frame) or is_on_spark(frame) for frame in frames)
