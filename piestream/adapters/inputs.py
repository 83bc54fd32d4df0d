"""The inputs of a query that reads several streams: rows of any kind, by the names of the streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from piestream.adapters.binding import warn_of_waits
from piestream.adapters.event_columns import event_list, event_types, events_frame
from piestream.adapters.files import open_source
from piestream.adapters.frames import Kind, as_polars
from piestream.adapters.read_columns import columns_to_read, lazily_read
from piestream.errors import SchemaError
from piestream.expressions.diagnostics import did_you_mean
from piestream.language.model import Query
from piestream.language.options import FileOptions
from piestream.language.parts import Value
from piestream.plan.binding import Binding, input_key
from piestream.plan.columns import is_moment
from piestream.plan.combined import bind_combined, unified

__all__ = ["InputBinding", "Inputs", "bound_inputs"]

Schema = Mapping[str, pl.DataType]


class InputBinding:
    """A query bound to its inputs, and the types that their rows are converted to."""

    def __init__(self, query: Query, schemas: Mapping[str, Schema]) -> None:
        self.given = {key: dict(schema) for key, schema in schemas.items()}
        self.types = unified(query, schemas)
        self.binding: Binding = bind_combined(query, self.types)
        warn_of_waits(query)

    def converted(self, key: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of one input with the types that all inputs have in common."""
        types = self.types[key]
        changed = [n for n, dtype in frame.schema.items() if types.get(n, dtype) != dtype]
        if not changed:
            return frame
        return frame.with_columns(pl.col(name).cast(types[name]) for name in changed)

    def checked(self, key: str, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of one input, refused if their columns are others than those it is bound to."""
        schema = frame.schema
        if schema == self.types[key]:  # as single events have it
            return frame
        for name, dtype in self.given[key].items():
            if name not in schema:
                raise SchemaError(
                    f"the rows of {key} have no column {name}, which earlier rows had"
                )
            types = (dtype, self.types[key].get(name, dtype))
            if not any(_fits(schema[name], one) for one in types):
                late = dtype == pl.Null
                message = f"column {name} of {key} has type {schema[name]}; it had {dtype} before"
                hint = ": say the types when the session is opened, query.open(schema={...})"
                raise SchemaError(message + hint * late)
        return self.converted(key, frame.select(list(self.given[key])))


def _fits(dtype: pl.DataType, bound: pl.DataType) -> bool:
    """Whether rows of a type are taken where another was bound: times may have other units."""
    if isinstance(dtype, pl.Datetime) and isinstance(bound, pl.Datetime):
        return dtype.time_zone == bound.time_zone
    return dtype in (bound, pl.Null)


def bound_inputs(query: Query, schemas: Mapping[str, Schema]) -> InputBinding:
    """A query bound to its inputs, remembered for the latest queries and schemas."""
    listed = tuple((key, tuple(schema.items())) for key, schema in schemas.items())
    return _bound(query, query.origin is None, listed)


@lru_cache(maxsize=64)
def _bound(
    query: Query, _built: bool, schemas: tuple[tuple[str, tuple[tuple[str, pl.DataType], ...]], ...]
) -> InputBinding:
    return InputBinding(query, {key: dict(schema) for key, schema in schemas})


class Inputs:
    """The inputs of one query: their names, and which of their columns are read.

    >>> import piestream as ps
    >>> q = ps.query("FROM a WITH b DEFINE x AS p > 1, y AS b.q > 1 PATTERN x before y WITHIN 9")
    >>> list(Inputs(q).readers)
    ['a', 'b']
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        #: For each input, what the query and those inside it say of it.
        self.readers: dict[str, Query] = {}
        for reader in _readers(query):
            key = input_key(reader.streams[0])
            known = self.readers.get(key)
            self.readers[key] = reader if known is None else _both(known, reader)
        for key, past in self.pasts.items():  # its rows are read as those of both
            self.readers[key] = _both(self.readers[key], self.readers[past])

    @cached_property
    def names(self) -> dict[str, str]:
        """The inputs by the names under which their rows are given.

        Rows of a stream that has its past in an archive are given by the stream's name; where the
        query reads the stream without its past, too, they are rows of that input first.
        """
        archives = {s.name: input_key(s) for s in self.query.inputs if s.archive and s.name}
        live = {key: key for key in self.readers if key not in archives.values()}
        return {**archives, **live}

    @cached_property
    def pasts(self) -> dict[str, str]:
        """The input that has the past of a stream in an archive, by the stream as an input."""
        found = {
            self.names[s.name]: input_key(s) for s in self.query.inputs if s.archive and s.name
        }
        return {key: past for key, past in found.items() if key != past}

    def stream_of(self, past: str) -> str:
        """The input that has the rows which are given of a stream, by the one that has its past."""
        return next((key for key, own in self.pasts.items() if own == past), past)

    def name_of(self, stream: str | None) -> str:
        """The name of the input that is meant; it need not be said where there is only one."""
        if stream is None and len(self.names) == 1:
            return next(iter(self.names.values()))
        if stream in self.names:
            return self.names[str(stream)]
        listed = ", ".join(self.names)
        if stream is None:
            pasts = {s.name for s in self.query.inputs if s.archive}
            first = next((name for name in self.names if name not in pasts), listed)
            of_archives = ", ".join(name for name in self.names if name in pasts)
            beside = f" ({of_archives}: rows beside those of the archive)" if of_archives else ""
            raise ValueError(
                f"the query reads several streams, {listed}{beside}: say of which these rows are, "
                f'as in run({{"{first}": rows, …}}) or push(rows, stream="{first}")'
            )
        near = did_you_mean(stream, self.names) or f"its streams are {listed}"
        raise ValueError(f"the query reads no stream {stream}: {near}")

    def frames(self, given: Any) -> tuple[dict[str, pl.DataFrame], Kind, bool]:
        """All inputs as Polars frames, the kind of the first, and whether that was lazy."""
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            given = {self.name_of(None): given}
        found: dict[str, pl.DataFrame] = {}
        kinds: list[Kind] = []
        lazy = False
        for name, rows in given.items():
            key = self.name_of(name)
            lazy |= not found and isinstance(rows, pl.LazyFrame)
            found[key], kind = self.frame(key, rows)
            kinds.append(kind)
        return found, kinds[0] if kinds else "polars", lazy

    def frame(self, key: str, rows: Any) -> tuple[pl.DataFrame, Kind]:
        """Rows of one input as a Polars frame of the columns that are read, and their kind."""
        reader = self.readers[key]
        if isinstance(rows, pl.LazyFrame):
            return lazily_read(reader, rows).collect(), "polars"
        events = event_list(rows)
        if events is None:
            return as_polars(rows, reader)
        if not events:
            raise ValueError("an empty list has no columns: give a frame without rows instead")
        types = event_types(events, reader)
        return events_frame(events, tuple(types), types), "events"

    def files(self, options: FileOptions, but: Mapping[str, Any]) -> dict[str, pl.DataFrame]:
        """The rows of the files that the query names itself, of all inputs but those given."""
        return {
            key: self.file(key, [path], options)
            for key, path in self.paths.items()
            if key not in but
        }

    @property
    def paths(self) -> dict[str, str]:
        """The files that the query names itself, by the names of the inputs."""
        return {
            input_key(s): s.path for s in self.query.inputs if s.path is not None and not s.archive
        }

    def file(
        self, key: str, names: Sequence[str], options: FileOptions, **how: Any
    ) -> pl.DataFrame:
        """The rows of the files of one input."""
        with closing(open_source(names, options=options, **how)) as source:
            types = source.schema
            columns = columns_to_read(
                self.readers[key], list(types), lambda name: is_moment(types[name])
            )
            schema = {name: types[name] for name in columns}
            return pl.concat([pl.DataFrame(schema=schema), *source.chunks(columns)])


def _readers(query: Query) -> Iterator[Query]:
    """What a query and those inside it say of each stream of rows."""
    for number, stream in enumerate(query.streams):
        if stream.is_input:
            yield query.over(number)
        elif stream.query is not None:
            yield from _readers(stream.query)


def _read_by_rows(query: Query) -> Iterator[Value]:
    """The columns that a row pattern reads, as items that name them."""
    for column in () if query.rows is None else query.rows.columns:
        yield Value("", column, column)


def _both(one: Query, other: Query) -> Query:
    """What two queries say of one input, to read its columns once."""
    return replace(
        one,
        symbols=(*one.symbols, *other.symbols),
        returns=(*one.returns, *other.returns, *_read_by_rows(one), *_read_by_rows(other)),
        rows=None,
        streams=(*one.streams, *other.streams),
        partition_by=tuple(dict.fromkeys((*one.partition_by, *other.partition_by))),
    )
