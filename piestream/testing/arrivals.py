"""The rows of all inputs of a query in an order in which they may come, and how they are pushed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Union

import polars as pl

from piestream.adapters.inputs import Inputs
from piestream.expressions.durations import DurationLike, as_duration
from piestream.language.model import Query
from piestream.language.parts import Source
from piestream.plan.columns import InputColumns, TimeColumn

if TYPE_CHECKING:
    from piestream.language.options import Ties

__all__ = ["Arrivals", "Frames", "pieces"]

#: A frame, or of a query over several streams a frame for each.
Frames = Union[pl.DataFrame, Mapping[str, pl.DataFrame]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A row of an input: its time in the shortest tick of all, and what orders rows of one time."""

    time: int
    within_time: Any
    stream: str | None
    row: int


class Arrivals:
    """The rows of a query's inputs, each known at a time."""

    def __init__(self, query: Query, frames: Frames, ties: Ties = "error") -> None:
        self.query, self.frames = query, _by_stream(query, frames)
        #: What a run over whole frames gives, which also refuses what is wrong with them.
        self.expected: pl.DataFrame = query.run(frames, ties=ties)
        self.times = {name: _times(query, name, frame) for name, frame in self.frames.items()}
        lengths = [time.nanoseconds_per_tick or 1 for time, _ in self.times.values()]
        self.tick = min(lengths, default=1)
        found: list[Arrival] = []
        for name, frame in self.frames.items():
            time, ticks = self.times[name]
            scale = (time.nanoseconds_per_tick or 1) // self.tick
            order = _order_within_time(query, name, frame)
            found += (
                Arrival(tick * scale, order[row], name, row) for row, tick in enumerate(ticks)
            )
        self.rows = sorted(found, key=lambda one: (one.time, one.within_time))

    @property
    def schema(self) -> Any:
        """The types of the columns, as ``open`` takes them."""
        schemas = {name: frame.schema for name, frame in self.frames.items()}
        return schemas.get(None, schemas)

    def delayed(
        self, lateness: DurationLike | None, rng: Random
    ) -> tuple[DurationLike, list[Arrival]]:
        """The rows in disorder, none later than the lateness; left out, it is short."""
        time = next((time for time, _ in self.times.values()), None)
        if lateness is None:
            needs_units = time is not None and (time.needs_units or time.nanoseconds_per_tick)
            is_date = any(one.dtype == pl.Date for one, _ in self.times.values())
            lateness = "5 d" if is_date else "5 s" if needs_units else 5
        if time is None:
            return lateness, self.rows
        most = time.ticks(as_duration(lateness, "the lateness"), "the lateness")
        most *= (time.nanoseconds_per_tick or 1) // self.tick
        # Rows that nothing but their places orders keep them.
        together = any(stream.row_order for stream in self.query.inputs)
        delays = {one.time: rng.randint(0, most) for one in self.rows}
        due = [
            (one.time + (delays[one.time] if together else rng.randint(0, most)), number)
            for number, one in enumerate(self.rows)
        ]
        return lateness, [self.rows[number] for _, number in sorted(due)]

    def pushed(self, session: Any, rows: Sequence[Arrival]) -> list[pl.DataFrame]:
        """What a session gives for rows of one push; rows of several streams are several."""
        given = []
        for name, run in groupby(rows, key=lambda one: one.stream):
            part = self.frames[name][[one.row for one in run]]
            given.append(session.push(part) if name is None else session.push(part, stream=name))
        return given or [session.push(next(iter(self.frames.values())).clear(), **self._first())]

    def _first(self) -> dict[str, str]:
        name = next(iter(self.frames))
        return {} if name is None else {"stream": name}


def pieces(rows: Sequence[Arrival], rng: Random) -> Iterator[Sequence[Arrival]]:
    """The rows cut anywhere; some pieces may be empty."""
    edges = [0, *sorted(rng.randint(0, len(rows)) for _ in range(rng.randint(0, 6))), len(rows)]
    for start, end in pairwise(edges):
        yield rows[start:end]


def _by_stream(query: Query, frames: Any) -> dict[str | None, pl.DataFrame]:
    """The frames by the names of their streams; that of one frame need not be said."""
    archives = [stream for stream in query.inputs if stream.archive]
    if archives:
        raise ValueError(
            f"the laws push the rows of all streams, and {archives[0].name} is in an archive: "
            "assert them of a query that reads it as a stream, and give its rows as a frame"
        )
    several = isinstance(frames, Mapping)
    found: dict[str | None, Any] = {**frames} if several else {None: frames}
    for name, frame in found.items():
        if not isinstance(frame, pl.DataFrame):
            of = "" if name is None else f" for {name}"
            raise TypeError(f"the laws take Polars frames, not {type(frame).__name__}{of}")
        Inputs(query).name_of(name)
    missing = [name for name in Inputs(query).names if several and name not in found]
    if missing:
        raise ValueError(f"the query reads {', '.join(missing)}, too: give a frame for each stream")
    return found


def _reader(query: Query, name: str | None) -> Query:
    inputs = Inputs(query)
    return inputs.readers[inputs.name_of(name)]


def _times(query: Query, name: str | None, frame: pl.DataFrame) -> tuple[TimeColumn, list[int]]:
    """When each row is known, in ticks of its time column: of an interval, at its end or its start."""
    reader = _reader(query, name)
    source: Source = reader.streams[0]
    columns = InputColumns(reader, frame.schema)
    if not source.is_ready_made:
        time = columns.time()
        return time, frame[time.name].to_physical().to_list()
    start, end = columns.endpoints()
    ends = frame[end.name] if not source.known_at_start else pl.Series([None] * len(frame))
    known = pl.select(
        pl.coalesce(
            ends.to_physical().cast(pl.Int64), frame[start.name].to_physical().cast(pl.Int64)
        )
    )
    return start, known.to_series().to_list()


def _order_within_time(query: Query, name: str | None, frame: pl.DataFrame) -> list[Any]:
    """What orders rows of one time: a column, or their places, in which they are given."""
    source: Source = _reader(query, name).streams[0]
    if source.sequence is not None:
        return frame[source.sequence].to_physical().to_list()
    return [0] * len(frame)
