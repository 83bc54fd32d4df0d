"""The oracle of queries over several streams."""

from __future__ import annotations

from tests.oracle.streams import (
    WHERE,
    AmbiguousOrderError,
    Inputs,
    TooManyMatchesError,
    matches,
    partitions,
)

__all__ = [
    "WHERE", "AmbiguousOrderError", "Inputs", "TooManyMatchesError", "matches", "partitions",
]  # fmt: skip
