"""A query that reads several streams, or intervals, meets the columns of all of its inputs.

Each stream is a part with a binding of its own, as if its symbols were a query over it alone; the
program is that of the whole. Queries in brackets are bound in the same way, all at one clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl

from piestream.compiled.constants import INT64_MAX
from piestream.expressions.diagnostics import QueryError, did_you_mean
from piestream.expressions.durations import tick_length
from piestream.language.model import Query
from piestream.language.parts import Source, StreamKind
from piestream.plan.binding import Binding, Part, bind, input_key, query_ticks, refuse_reserved
from piestream.plan.columns import Errors, InputColumns, SequenceColumn, TimeColumn
from piestream.plan.compiler import compile_query
from piestream.plan.conditions import join_keys, match_condition
from piestream.plan.outputs import (
    MATCH_END,
    MATCH_START,
    match_bounds,
    report_columns,
)
from piestream.plan.past import PastColumn, past_columns
from piestream.plan.returned import returned_columns

__all__ = ["InputReader", "Schemas", "bind_combined", "input_columns", "input_readers", "unified"]

#: What identifies the silence of a partition that has begun: there is one at a time.
_SILENCE = "silence:"

#: The columns of each input, by the name under which its rows are given.
Schemas = Mapping[str, Mapping[str, pl.DataType]]


def unified(query: Query, schemas: Schemas) -> dict[str, dict[str, pl.DataType]]:
    """The columns of the inputs with one type for all times, and one for each partition column.

    Rows are converted to these types as they come in. Times take the finest unit of all.
    """
    found = _Inputs(query, schemas)
    found.visit(query)
    found.errors.raise_all()
    return found.unified(query)


def bind_combined(query: Query, schemas: Schemas, *, as_stream: bool = False) -> Binding:
    """Bind a query of several streams to their `unified` columns."""
    errors = Errors()
    inner = [_inner(stream, schemas, errors) for stream in query.streams]
    errors.raise_all()
    query = _with_endpoints(query, inner)
    columns = [
        _columns(query, number, schemas, found, errors) for number, found in enumerate(inner)
    ]
    errors.raise_all()
    times = [errors.attempt(_times, c) for c in columns]
    for c in columns:
        for name in query.partition_by:
            errors.attempt(c.dtype, name, ("partition_by", name), "PARTITION BY")
    errors.raise_all()
    time = next(t for t in times if t)[0]
    units = [tick_length(s.time_unit) for s in query.streams if s.time_unit]
    units += [n for b in inner if b is not None and (n := b.time.nanoseconds_per_tick) is not None]
    unit = units[0] if units else None
    if time.nanoseconds_per_tick is None and unit is not None:
        time = replace(time, nanoseconds_per_tick=unit)
    ticks = errors.attempt(query_ticks, query, time)
    returned = errors.attempt(returned_columns, query, columns, time)
    for number, stream in enumerate(query.streams):
        if stream.max_gap is not None:
            where = query.part(number, "max_gap")
            errors.attempt(query.ticks, where, stream.max_gap, time.nanoseconds_per_tick)
    silences = [errors.attempt(_silence_ticks, query, n, time) for n in range(len(query.streams))]
    errors.raise_all()
    assert ticks is not None
    assert returned is not None
    condition = match_condition(query, returned.tested, time)
    attributes = returned.attributes
    outputs = (*report_columns(query, columns[0].schema, time), *returned.outputs)
    if as_stream:
        outputs = (*outputs, *match_bounds(query, time))
    words = tuple(w for o in outputs for w in o.words)
    if condition is not None:
        words += condition.words
    compiled = compile_query(query, ticks, words, join_keys(condition), len(attributes))
    whole = Binding(
        query=query,
        schema={name: columns[0].schema[name] for name in query.partition_by},
        time=time,
        attributes=attributes,
        outputs=outputs,
        compiled=compiled,
        predicates=(),
        condition=condition,
    )
    parts = []
    n_predicates = 0
    for number, c in enumerate(columns):
        part_times = times[number]
        assert part_times is not None
        bound = errors.attempt(_part_binding, whole, c, part_times)
        if bound is None:
            continue
        count = 0 if bound.query.streams[0].is_ready_made else len(bound.predicates)
        numbers = tuple(n for n, a in enumerate(attributes) if a.stream == number)
        predicates = tuple(range(n_predicates, n_predicates + count))
        n_predicates += count
        source, length = query.streams[number], silences[number] or 0
        parts.append(Part(source, bound, predicates, numbers, inner[number], length))
    errors.raise_all()
    _check_sequences(query, parts)
    return replace(whole, parts=tuple(parts), bit_of_symbol=_bits(query, parts, n_predicates))


def _check_sequences(query: Query, parts: list[Part]) -> None:
    """What orders events of one time in several streams is compared between them."""
    first: SequenceColumn | None = None
    for number, part in enumerate(parts):
        sequence = part.binding.sequence
        if sequence is None:
            continue
        first = first or sequence
        if not first.is_comparable(sequence):
            raise query.fault(
                query.part(number, "order_by"),
                f"{sequence.name} of {part.source.name} has type {sequence.dtype}, and what orders "
                f"events of one time in another stream {first.dtype}",
                "make them one type: they say in which order events of all streams come",
            )


@dataclass(frozen=True)
class InputReader:
    """One place in a query, or in one in brackets, at which the rows of an input are read."""

    key: str
    source: Source
    binding: Binding  # to the input's columns

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of the time at which a row becomes known: the first that is not NULL counts."""
        if self.source.kind is StreamKind.EVENTS:
            return (self.binding.time.name,)
        start, end = str(self.source.start), str(self.source.end)
        return (start,) if self.source.known_at_start else (end, start)


def input_readers(binding: Binding) -> Iterator[InputReader]:
    """Where a query reads its inputs, queries in brackets included."""
    if not binding.parts:
        source = binding.query.streams[0]
        yield InputReader(input_key(source), source, binding)
    for part in binding.parts:
        if part.source.is_input:
            yield InputReader(part.key, part.source, part.binding)
        elif part.inner is not None:
            yield from input_readers(part.inner)


def input_columns(binding: Binding) -> dict[str, dict[str, pl.DataType]]:
    """The columns that are read of each input."""
    found: dict[str, dict[str, pl.DataType]] = {}
    for reader in input_readers(binding):
        schema = reader.binding.schema
        columns = {name: schema[name] for name in reader.binding.columns}
        found.setdefault(reader.key, {}).update(columns)
    return found


def _bits(query: Query, parts: list[Part], n_predicates: int) -> tuple[int, ...]:
    """Where the bit of each symbol is; that of ready-made ones is behind all and never set."""
    bits = []
    for symbol in query.symbols:
        part = parts[symbol.stream]
        if part.source.is_ready_made:
            bits.append(n_predicates)
            continue
        distinct = list(dict.fromkeys(one.predicate for one in part.binding.query.symbols))
        bits.append(part.predicates[distinct.index(symbol.predicate)])
    return tuple(bits)


def _inner(stream: Source, schemas: Schemas, errors: Errors) -> Binding | None:
    """The binding of a query in brackets."""
    if stream.query is None:
        return None
    if stream.query.is_combined:
        return errors.attempt(bind_combined, stream.query, schemas, as_stream=True)
    schema = schemas[input_key(stream.query.streams[0])]
    return errors.attempt(bind, stream.query, schema, as_stream=True)


def _with_endpoints(query: Query, inner: list[Binding | None]) -> Query:
    """The query, whose streams of matches and silences name the columns where these lie."""
    streams = tuple(
        replace(stream, start=MATCH_START, end=MATCH_END, id=_SILENCE)
        if stream.silence is not None
        else stream
        if binding is None
        else replace(stream, start=MATCH_START, end=MATCH_END)
        for stream, binding in zip(query.streams, inner, strict=True)
    )
    return replace(query, streams=streams)


def _columns(
    query: Query, number: int, schemas: Schemas, inner: Binding | None, errors: Errors
) -> InputColumns:
    """The columns of one stream: of its input, of a query's result, or of silences."""
    stream = query.streams[number]
    if inner is not None:
        return InputColumns(query, inner.result_schema, number)
    if stream.silence is None:
        return InputColumns(query, dict(schemas[input_key(stream)]), number)
    silent = InputColumns(
        query, dict(schemas[input_key(query.streams[stream.silence.of])]), stream.silence.of
    )
    schema = {name: silent.schema[name] for name in query.partition_by if name in silent.schema}
    time = errors.attempt(silent.time)
    dtype = pl.Int64() if time is None else time.dtype
    schema |= {MATCH_START: dtype, MATCH_END: dtype, _SILENCE: pl.Int64()}
    return InputColumns(query, schema, number)


def _silence_ticks(query: Query, number: int, time: TimeColumn) -> int | None:
    """How long the silences of a stream of these last at least."""
    silence = query.streams[number].silence
    if silence is None:
        return None
    symbols = [symbol.name for symbol in query.symbols if symbol.stream == number]
    where = ("silence", *symbols[:1])
    ticks = query.ticks(where, silence.longer_than, time.nanoseconds_per_tick, time.needs_units)
    return min(ticks, INT64_MAX)  # longer than any silence is


def _times(columns: InputColumns) -> tuple[TimeColumn, ...]:
    """The columns of time of a stream: one of events, two of intervals."""
    times = columns.endpoints() if columns.source.is_ready_made else (columns.time(),)
    if columns.source.id is not None:
        columns.dtype(columns.source.id, columns.query.part(columns.stream, "id"), "ID")
    return times


def _part_binding(whole: Binding, columns: InputColumns, times: tuple[TimeColumn, ...]) -> Binding:
    """The binding of one stream: of a query of its own symbols."""
    query = whole.query
    own = query.over(columns.stream)
    distinct = dict.fromkeys(symbol.predicate for symbol in own.symbols)
    errors = Errors()
    predicates = [errors.attempt(p.to_polars, columns.schema) for p in distinct]
    errors.raise_all()
    past: tuple[PastColumn, ...] = ()
    gap = own.streams[0].max_gap
    if not columns.source.is_ready_made:
        ticks = None if gap is None else whole.time.ticks(gap, "MAX GAP")
        past = past_columns(distinct, columns.schema, whole.time, ticks)
        refuse_reserved(past, columns.schema)
    names = [time.name for time in times]
    if columns.source.id is not None:
        names.append(columns.source.id)
    return Binding(
        query=own,
        schema=columns.schema,
        time=replace(whole.time, name=times[0].name),
        attributes=tuple(a for a in whole.attributes if a.stream == columns.stream),
        outputs=(),
        compiled=whole.compiled,
        predicates=tuple(p for p in predicates if p is not None),
        bit_of_symbol=tuple(list(distinct).index(s.predicate) for s in own.symbols),
        past=past,
        times=tuple(names),
        sequence=None if columns.source.is_ready_made else columns.sequence(),
    )


class _Inputs:
    """The columns of time and of partitions, of all inputs of a query and of those inside it."""

    def __init__(self, query: Query, schemas: Schemas) -> None:
        self.schemas = {key: dict(schema) for key, schema in schemas.items()}
        #: The inputs whose rows come from archives, and need not be given.
        self.pasts = {input_key(stream) for stream in query.inputs if stream.archive}
        self.errors = Errors()
        self.times: dict[tuple[str, str], pl.DataType] = {}
        self.keys: dict[str, dict[str, pl.DataType]] = {}

    def visit(self, query: Query) -> None:
        for number, stream in enumerate(query.streams):
            if stream.silence is not None:
                continue
            if stream.query is not None:
                self.visit(stream.query)
                continue
            key = input_key(stream)
            if key not in self.schemas:
                given = [name for name in self.schemas if name not in self.pasts]
                hint = did_you_mean(key, given) or (
                    f"the rows given are those of {', '.join(given)}"
                    if given
                    else f'give them by its name: run({{"{key}": rows}})'
                )
                where = query.part(number, "source")
                raise query.fault(where, f"there are no rows for the stream {key}", hint)
            schema = self.schemas[key]
            if stream.start in schema and schema.get(str(stream.end)) == pl.Null:
                schema[str(stream.end)] = schema[str(stream.start)]  # no interval has ended so far
            columns = InputColumns(query, schema, number)
            for time in self.errors.attempt(_times, columns) or ():
                self.times[key, time.name] = time.dtype
            if stream.kind is StreamKind.EVENTS and (key, stream.order_by) in self.times:
                time = columns.time()
                self.errors.attempt(columns.check_unit, time)
            for name in query.partition_by:
                where = ("partition_by", name)
                dtype = self.errors.attempt(columns.dtype, name, where, "PARTITION BY")
                if dtype is not None:
                    self.keys.setdefault(name, {})[key] = dtype

    def unified(self, query: Query) -> dict[str, dict[str, pl.DataType]]:
        """The schemas with the common types."""
        found = {key: dict(schema) for key, schema in self.schemas.items()}
        time = self._common_time()
        for key, name in self.times:
            found[key][name] = time
        for name, types in self.keys.items():
            common = _common_key(query, name, types)
            for key in types:
                found[key][name] = common
        return found

    def _common_time(self) -> pl.DataType:
        known = {place: dtype for place, dtype in self.times.items() if dtype != pl.Null}
        distinct = list(dict.fromkeys(known.values()))
        if len(distinct) == 1:
            return distinct[0]
        if all(dtype.is_integer() for dtype in distinct):
            return pl.Int64()
        zones = {dtype.time_zone for dtype in distinct if isinstance(dtype, pl.Datetime)}
        are_moments = all(isinstance(d, pl.Datetime) or d == pl.Date for d in distinct)
        if not are_moments or len(zones) > 1:
            (one, first), (other, second) = next(
                (a, b)
                for a in known.items()
                for b in known.items()
                if not _have_one_clock(a[1], b[1])
            )
            raise QueryError(
                f"the times of {one[0]} ({one[1]}, {first}) and of {other[0]} ({other[1]}, "
                f"{second}) are of different clocks: convert one of the columns"
            )
        units = [d.time_unit for d in distinct if isinstance(d, pl.Datetime)]
        finest = next(unit for unit in ("ns", "us", "ms") if unit in units)
        return pl.Datetime(finest, next(iter(zones)))


def _have_one_clock(one: pl.DataType, other: pl.DataType) -> bool:
    if one.is_integer() or other.is_integer():
        return one.is_integer() and other.is_integer()
    zones = [d.time_zone for d in (one, other) if isinstance(d, pl.Datetime)]
    return len(set(zones)) < 2


def _common_key(query: Query, name: str, types: Mapping[str, pl.DataType]) -> pl.DataType:
    """One type for a partition column of all streams."""
    distinct = list(dict.fromkeys(dtype for dtype in types.values() if dtype != pl.Null))
    if not distinct:
        return pl.Null()
    if len(distinct) == 1:
        return distinct[0]
    texts = (pl.String, pl.Categorical, pl.Enum)
    if all(dtype.is_integer() for dtype in distinct):
        return pl.Int64()
    if all(dtype.is_float() for dtype in distinct):
        return pl.Float64()
    if all(dtype in texts or isinstance(dtype, pl.Enum) for dtype in distinct):
        return pl.String()
    listed = ", ".join(f"{dtype} in {key}" for key, dtype in types.items())
    raise query.fault(
        ("partition_by", name),
        f"the column {name} has different types: {listed}",
        "its values are compared: convert one of the columns",
    )
