"""Where a query over live streams and archives has its rows from: its queries in brackets, their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from piestream.archives.archive import Archive
from piestream.language.live_plan import LivePlan
from piestream.plan.binding import Binding, Part, input_key

__all__ = ["Sources", "inner_of", "live_parts", "part_key"]


@dataclass(frozen=True)
class Sources:
    """Where the rows of archives come from, by the names of the inputs, and how it is gone about."""

    archives: Mapping[str, Archive]
    converted: Callable[[str, pl.DataFrame], pl.DataFrame]
    plan: LivePlan
    #: The query whose matches are judged by the session after they are found; None: they are as they are found.
    judged: Binding | None = None

    def __deepcopy__(self, memo: object) -> Sources:
        return self  # it never changes


def inner_of(part: Part) -> Binding:
    """What a query in brackets is bound to."""
    assert part.inner is not None, "all streams are queries in brackets"
    return part.inner


def part_key(inner: Binding) -> str:
    """The name of the input that a query in brackets reads."""
    return input_key(inner.query.streams[0])


def live_parts(binding: Binding) -> set[int]:
    """The parts that read no archive."""
    return {
        number
        for number, part in enumerate(binding.parts)
        if part.inner is None or not part.inner.query.reads_archives
    }
