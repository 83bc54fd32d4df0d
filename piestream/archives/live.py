"""Queries over live streams and archives: their sessions, and runs over frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import polars as pl

from piestream.adapters.feeds import Opening
from piestream.adapters.frames import as_kind
from piestream.adapters.input_session import InputFeed
from piestream.adapters.inputs import InputBinding, Inputs, bound_inputs
from piestream.adapters.inputs_run import InputsRun
from piestream.adapters.limits import Limit
from piestream.adapters.read_columns import columns_to_read
from piestream.adapters.run import inputs_result, run
from piestream.archives.archive import Archive, archive
from piestream.archives.live_limits import judged_query
from piestream.archives.live_reach import fault_of, fault_of_row_order
from piestream.archives.live_run import RegionRun, reads_regions, region_run
from piestream.archives.live_sources import Sources
from piestream.archives.live_stream import LiveStream
from piestream.archives.planning import refuse_row_order
from piestream.engine.combined import CombinedStream
from piestream.errors import ArchiveError, SchemaError, warn_of_result
from piestream.expressions.columns import column_named, columns_named
from piestream.expressions.diagnostics import did_you_mean
from piestream.language.model import Query
from piestream.language.options import ArchiveOptions, FileOptions
from piestream.plan.binding import input_key
from piestream.plan.columns import is_moment

__all__ = ["LiveFeed", "LiveRun", "all_rows", "archives_of", "feed_of", "run_live", "with_archives"]


def archives_of(query: Query, given: Mapping[str, Any] | None) -> dict[str, Archive]:
    """The archives of a query's ARCHIVE streams, by the names of these as inputs."""
    named = {str(s.name): s for s in query.inputs if s.archive}
    for name in given or {}:
        if name not in named:
            hint = did_you_mean(name, named) or f"its ARCHIVE streams are {', '.join(named)}"
            raise ArchiveError(f"the query reads no archive of a stream {name}: {hint}")
    found = {}
    for name, stream in named.items():
        place = (given or {}).get(name, stream.path)
        if not isinstance(place, Archive):
            try:
                place = archive(place)
            except ArchiveError as error:
                raise ArchiveError(
                    f"{error}\n(the query names it by ARCHIVE '{stream.path}'; another one can be given: "
                    f"archives={{'{name}': …}})"
                ) from None
        found[input_key(stream)] = place.refresh()
    return found


def _columns_of(inputs: Inputs, key: str, found: Archive) -> dict[str, pl.DataType] | None:
    """The columns that a query reads of an archive; None if that has had no rows yet."""
    try:
        schema = found.schema
    except ArchiveError:
        return None
    return _read(inputs, key, schema)


def _read(inputs: Inputs, key: str, schema: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """The columns of an input that are read."""
    names = columns_to_read(inputs.readers[key], list(schema), lambda name: is_moment(schema[name]))
    return {name: schema[name] for name in names}


def feed_of(opening: Opening, recovers: bool) -> LiveFeed:
    """What a session of a query over live streams and archives pushes into."""
    fault = fault_of(opening.query)
    if fault is not None:
        raise opening.query.fault(*fault)
    options = opening.options
    assert isinstance(options, ArchiveOptions)
    return LiveFeed(opening, recovers, archives_of(opening.query, options.archives))


class LiveFeed(InputFeed):
    """Takes rows of any live stream to the open stream of a query that reads archives, too."""

    stream_kind: ClassVar[type[CombinedStream]] = LiveStream
    is_repeatable: ClassVar[bool] = False  # an archive may have changed meanwhile

    def __init__(self, opening: Opening, recovers: bool, archives: Mapping[str, Archive]) -> None:
        super().__init__(opening, recovers)
        self.archives = archives
        #: The archive that has the past of a live stream, by the name of that as an input.
        self._past = self.inputs.pasts
        for key, found in archives.items():
            columns = _columns_of(self.inputs, key, found)
            if columns is not None:
                self._schemas[key] = columns

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        other = super().__deepcopy__(memo)
        other.archives, other._past = self.archives, self._past
        return other

    def types_of(
        self, stored: Mapping[str, Mapping[str, pl.DataType]]
    ) -> Mapping[str, Mapping[str, pl.DataType]]:
        """The columns of the inputs: of a stream also those that its past is read for."""
        pasts = {key: stored.get(past, {}) for key, past in self._past.items()}
        return {key: {**pasts.get(key, {}), **types} for key, types in stored.items()}

    def restored(self, bound: InputBinding, stream: CombinedStream) -> None:
        """Go on with the stream of a state."""
        super().restored(bound, stream)
        self._attach(bound, stream)

    def _new_stream(self, bound: InputBinding) -> CombinedStream:
        stream = super()._new_stream(bound)
        self._attach(bound, stream)
        return stream

    def _attach(self, bound: InputBinding, stream: CombinedStream) -> None:
        options = self.opening.options
        assert isinstance(stream, LiveStream)
        assert isinstance(options, ArchiveOptions)
        query = self.opening.query
        judged = None
        if query.limits:
            judged = bound_inputs(judged_query(query), bound.given).binding
        stream.attach(Sources(self.archives, bound.converted, options.live_plan, judged))

    @property
    def _is_typed(self) -> bool:
        for key, found in self.archives.items():
            if key not in self._schemas:  # it has had no rows yet
                columns = _columns_of(self.inputs, key, found.refresh())
                if columns is not None:
                    self._schemas[key] = columns
        for key, past in self._past.items():
            if key in self._schemas and past not in self._schemas:
                self._schemas[past] = _read(self.inputs, past, self._schemas[key])
        return super()._is_typed

    def _inputs_of(self, key: str, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
        past = self._past.get(key)
        if past is None:
            return {key: frame}
        assert self.bound is not None
        types = self.bound.types[past]
        return {
            key: frame,
            past: _as_in_the_past(key, frame, {n: types[n] for n in self.bound.given[past]}),
        }


def _as_in_the_past(
    key: str, frame: pl.DataFrame, types: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """Rows of a stream with the types that they have in its archive."""
    missing = [name for name in types if name not in frame.columns]
    if missing:
        raise SchemaError(f"the rows of {key} have no column {missing[0]}, which its archive has")
    try:
        return frame.select(column_named(name).cast(dtype) for name, dtype in types.items())
    except pl.exceptions.PolarsError as error:
        raise SchemaError(
            f"the rows of {key} do not fit the types in its archive: {error}"
        ) from None


def run_live(query: Query, given: Any, options: FileOptions) -> Any:
    """Every match in archives and in what is given beside them."""
    inputs = Inputs(query)
    frames, kind, lazy = inputs.frames({} if given is None else all_rows(given))
    frames = {**inputs.files(options, frames), **frames}
    archives = archives_of(query, options.archives)
    result = _by_regions(inputs, frames, archives, options)
    if result is None:
        result = _inall_rows(query, with_archives(query, frames, archives), options)
    return result.lazy() if lazy else as_kind(kind, result)


def _inall_rows(
    query: Query, frames: Mapping[str, pl.DataFrame], options: FileOptions
) -> pl.DataFrame:
    if query.is_combined:
        return inputs_result(query, frames, options)
    ((_, frame),) = frames.items()
    found: pl.DataFrame = run(query, frame, options)
    return found


def _by_regions(
    inputs: Inputs, frames: Mapping[str, pl.DataFrame], archives: Mapping[str, Archive],
    options: FileOptions,
) -> pl.DataFrame | None:  # fmt: skip
    """Every match, of archives that are read around live matches; None where all rows are needed."""
    work = _region_run(inputs, frames, archives, options)
    result = None if work is None else work[0].found_in(work[1])
    if result is None:
        return None
    limit = Limit(options.limit)
    limited = pl.concat(limit.of(iter([result])))
    if limit.cut:
        warn_of_result(f"stopped at limit={limit.rows}: there are more rows")
    return limited


def _region_run(
    inputs: Inputs, frames: Mapping[str, pl.DataFrame], archives: Mapping[str, Archive],
    options: FileOptions,
) -> tuple[RegionRun, Mapping[str, pl.DataFrame]] | None:  # fmt: skip
    """What reads archives around live matches, and the rows that it gets; None where all are needed."""
    if not reads_regions(inputs.query, options):
        return None
    rows = dict(frames)
    schemas: dict[str, Mapping[str, pl.DataType]] = {}
    for key, found in archives.items():
        columns = _columns_of(inputs, key, found)
        if columns is None:
            return None  # it has had no rows yet
        own = frames.get(inputs.stream_of(key))
        if own is not None:
            rows[key] = _as_in_the_past(key, own, columns)
        schemas[key] = columns
    schemas = {**{key: frame.schema for key, frame in rows.items()}, **schemas}
    bound = bound_inputs(inputs.query, schemas)
    converted = {key: bound.converted(key, frame) for key, frame in rows.items()}
    sources = Sources(archives, bound.converted, options.live_plan)
    return region_run(bound.binding, converted, sources, options), converted


class LiveRun:
    """A run over rows of files and over archives, with what a run over files has.

    Archives are read around live matches if that costs less; ``select`` False lets all rows be read.
    """

    def __init__(
        self, query: Query, frames: Mapping[str, pl.DataFrame], archives: Mapping[str, Archive],
        options: FileOptions, select: bool,
    ) -> None:  # fmt: skip
        inputs = Inputs(query)
        self._given = query, frames, archives, options
        self.limit = Limit(options.limit)
        self._regions = _region_run(inputs, frames, archives, options) if select else None
        if self._regions is None:
            self._take_all()
        else:
            self.stream: CombinedStream = self._regions[0]
        self.binding = self.stream.binding

    @property
    def rows_there(self) -> int:
        """How many rows there are, whether they are read or not."""
        _, frames, archives, _ = self._given
        return sum(map(len, frames.values())) + sum(one.rows for one in archives.values())

    def _take_all(self) -> InputsRun:
        query, frames, archives, options = self._given
        whole = InputsRun(query, with_archives(query, frames, archives), options)
        self.stream, self.limit = whole.stream, whole.limit
        self._whole = whole
        return whole

    def results(self) -> Iterator[pl.DataFrame]:
        """The result rows."""
        if self._regions is None:
            yield from self._whole.results()
            return
        found = self._regions[0].found_in(self._regions[1])
        if found is None:
            yield from self._take_all().results()
        else:
            yield from self.limit.of(iter([found]))


def all_rows(given: Any) -> Any:
    """What was given, with all rows of an archive in its place."""
    if isinstance(given, Mapping):
        return {name: all_rows(rows) for name, rows in given.items()}
    return given.refresh().scan().collect() if isinstance(given, Archive) else given


def with_archives(
    query: Query, frames: Mapping[str, pl.DataFrame], archives: Mapping[str, Archive] | None = None
) -> dict[str, pl.DataFrame]:
    """The rows of all inputs: those of archives, too, each with the rows of its stream.

    ``archives`` are left out where they are those that the query names.
    """
    if not query.reads_archives:
        return dict(frames)
    inputs = Inputs(query)
    whole = dict(frames)
    for key, found in (archives_of(query, None) if archives is None else archives).items():
        whole[key] = _with_past(inputs, key, found, frames.get(inputs.stream_of(key)))
    return whole


def _with_past(inputs: Inputs, key: str, found: Archive, own: pl.DataFrame | None) -> pl.DataFrame:
    """All rows of an archive, and of those that are given the ones that are not in it."""
    columns = _columns_of(inputs, key, found)
    if columns is None:
        if own is None:
            raise ArchiveError(f"{found.path} has had no rows yet: append some first")
        return own
    rows = found.scan().select(columns_named(columns)).collect()
    if own is None:
        refuse_row_order(inputs.query, {key: found.pages})
        return rows
    reader = inputs.readers[key]
    times = [name for name, dtype in columns.items() if is_moment(dtype)]
    on = [*reader.partition_by, reader.streams[0].order_by or times[0]]
    if any(stream.row_order for stream in reader.streams):
        raise inputs.query.fault(None, *fault_of_row_order(inputs.stream_of(key)))
    on += dict.fromkeys(stream.sequence for stream in reader.streams if stream.sequence is not None)
    own = _as_in_the_past(key, own, columns)
    return pl.concat([rows.join(own, on=on, how="anti", nulls_equal=True), own])
