"""One step smaller, for scenarios of queries over several streams; `tests.shrink` takes the steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from random import Random

from piestream.expressions.diagnostics import QueryError
from piestream.language.parts import Emit, RelationOf, Return
from tests.clock import Clock
from tests.engines import Rows, by_partition, difference
from tests.oracle import TieError, TooManyMatchesError
from tests.row_scenario import RowScenario
from tests.scenario import Limits, windows_without
from tests.stream_scenario import ENGINES, CombinedScenario, StreamSpec, sorted_rows

__all__ = ["disagreement", "expected_of", "fails", "smaller"]

#: A session is fed in several ways before a scenario counts as passing.
_TRIES = 6


def disagreement(engine: str, drawn: CombinedScenario, seed: object) -> str | None:
    """What an engine says otherwise than the oracle; None if nothing."""
    expected = drawn.expected()
    found = ENGINES[engine](drawn, Random(f"{seed} {engine}"))
    wanted = {key: sorted_rows(rows) for key, rows in by_partition(expected, drawn.keys).items()}
    got = {key: sorted_rows(rows) for key, rows in by_partition(found, drawn.keys).items()}
    return difference(
        [row for rows in wanted.values() for row in rows],
        [row for rows in got.values() for row in rows],
        drawn.keys,
    )


def expected_of(drawn: CombinedScenario) -> Rows | None:
    """The oracle's rows; None where a smaller scenario is none any more.

    Its query is refused, or reads a column that rows or an inner query no longer have.
    """
    try:
        _ = drawn.query
        return drawn.expected()
    except (QueryError, TieError, TooManyMatchesError, KeyError):
        return None


def fails(drawn: CombinedScenario, engine: str, first: object = 0) -> str | None:
    """Why an engine does not say what the oracle says; None if it does.

    The session is fed as with the seed ``first``, then in other ways.
    """
    if expected_of(drawn) is None:  # what is refused is no smaller failure
        return None
    for attempt in (first, *range(0 if engine == "frame" else _TRIES)):
        try:
            why = disagreement(engine, drawn, attempt)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if why is not None:
            return why
    return None


def smaller(drawn: CombinedScenario) -> Iterator[CombinedScenario]:
    """Everything that is one step smaller, the largest steps first."""
    for at, stream in enumerate(drawn.streams):
        for fewer in _smaller_stream(stream):
            yield _with_stream(drawn, at, fewer)
    yield from _with_fewer_symbols(drawn)
    yield from _with_fewer_absences(drawn)
    yield from _with_looser_pattern(drawn)
    for k in range(len(drawn.returns)):
        yield drawn.having(returns=drawn.returns[:k] + drawn.returns[k + 1 :])
    if drawn.emit is not Emit.TRIGGER:
        yield drawn.having(emit=Emit.TRIGGER)
    if drawn.within != 10_000 or drawn.windows:
        yield drawn.having(within=10_000, windows=())
    if drawn.where is not None:
        yield drawn.having(where=None)
    for limit in ("once_per", "no_overlap", "cooldown", "limit"):
        fewer_limits = replace(drawn.limits, **{limit: getattr(Limits(), limit)})
        if fewer_limits != drawn.limits:
            yield drawn.having(limits=fewer_limits)
    if drawn.has_lets:
        yield drawn.having(has_lets=False)
    if drawn.keys:
        yield _with_keys(drawn, drawn.keys[1:])
    if drawn.ties != "error":
        yield drawn.having(ties="error")
    yield from _with_plainer_times(drawn)
    yield from _with_fewer_columns(drawn)


def _with_stream(drawn: CombinedScenario, at: int, stream: StreamSpec) -> CombinedScenario:
    return drawn.having(streams=(*drawn.streams[:at], stream, *drawn.streams[at + 1 :]))


def _smaller_stream(stream: StreamSpec) -> Iterator[StreamSpec]:
    size = len(stream.rows) // 2 or len(stream.rows)
    while size:
        for at in range(0, len(stream.rows), size):
            yield replace(stream, rows=stream.rows[:at] + stream.rows[at + size :])
        size //= 2
    if stream.max_gap is not None:
        yield replace(stream, max_gap=None)
    if isinstance(stream.query, RowScenario):
        for fewer_rows in _smaller_stream(stream.query.streams[0]):
            yield replace(stream, query=stream.query.having(streams=(fewer_rows,)))
    elif stream.query is not None:
        for fewer in smaller(stream.query):
            if fewer.clock == stream.query.clock and fewer.keys == stream.query.keys:
                yield replace(stream, query=fewer)


def _with_fewer_symbols(drawn: CombinedScenario) -> Iterator[CombinedScenario]:
    for gone in drawn.symbols if len(drawn.symbols) > 1 else ():
        clauses = tuple(c for c in drawn.clauses if gone not in (c.x, c.y))
        left = [name for name in drawn.symbols if name != gone]
        if not _connected(left, [(c.x, c.y) for c in clauses]):
            continue
        absences = [
            (name, tuple(c for c in group if gone not in (c.x, c.y)))
            for name, group in drawn.absences
        ]
        where = drawn.where
        items = () if where is None else where(drawn.clock).items
        once_per = tuple(name for name in drawn.limits.once_per if name != gone)
        kept = drawn.having(
            clauses=clauses,
            absences=tuple((name, group) for name, group in absences if group),
            returns=tuple(item for item in drawn.returns if gone not in _symbols_of(item)),
            where=None if any(gone in _symbols_of(item) for item in items) else where,
            limits=replace(drawn.limits, once_per=once_per),
            **windows_without(gone, drawn.within, drawn.windows),
        )
        yield _without(kept, {gone, *(name for name, group in absences if not group)})


def _with_fewer_absences(drawn: CombinedScenario) -> Iterator[CombinedScenario]:
    """Without a NOT, or with one that says less."""
    for k, (name, group) in enumerate(drawn.absences):
        before, after = drawn.absences[:k], drawn.absences[k + 1 :]
        yield _without(drawn.having(absences=(*before, *after)), {name})
        for n, clause in enumerate(group):
            smaller_groups = [(*group[:n], *group[n + 1 :])]
            for one in clause.names if len(clause.names) > 1 else ():
                fewer = replace(
                    clause, names=tuple(other for other in clause.names if other != one)
                )
                smaller_groups.append((*group[:n], fewer, *group[n + 1 :]))
            for fewer_clauses in smaller_groups:
                if fewer_clauses:
                    yield drawn.having(absences=(*before, (name, fewer_clauses), *after))


def _without(drawn: CombinedScenario, gone: Collection[str]) -> CombinedScenario:
    """A scenario without the definitions of some symbols, and the streams that only they read."""
    rest = [(number, d) for number, d in drawn.definitions if d.name not in gone]
    read = sorted({number for number, _ in rest})
    return drawn.having(
        streams=tuple(drawn.streams[number] for number in read),
        definitions=tuple((read.index(number), d) for number, d in rest),
    )


def _with_looser_pattern(drawn: CombinedScenario) -> Iterator[CombinedScenario]:
    """Fewer clauses, fewer relations in one, fewer bounds of durations."""
    symbols = drawn.symbols
    for k, clause in enumerate(drawn.clauses):
        before, after = drawn.clauses[:k], drawn.clauses[k + 1 :]
        if _connected(symbols, [(c.x, c.y) for c in (*before, *after)]):
            yield drawn.having(clauses=(*before, *after))
        for name in clause.names if len(clause.names) > 1 else ():
            fewer = replace(clause, names=tuple(n for n in clause.names if n != name))
            yield drawn.having(clauses=(*before, fewer, *after))
    for k, (number, one) in enumerate(drawn.definitions):
        bounds = ("at_least", "at_most", "at_least_events", "at_most_events", "bridging")
        for bound in bounds:
            looser = replace(one, **{bound: None})  # type: ignore[arg-type]
            if looser != one:
                given = (number, looser)
                definitions = (*drawn.definitions[:k], given, *drawn.definitions[k + 1 :])
                yield drawn.having(definitions=definitions)


def _symbols_of(item: Return) -> tuple[str, ...]:
    return (item.x, item.y) if isinstance(item, RelationOf) else (item.symbol,)


def _connected(symbols: Sequence[str], pairs: Sequence[tuple[str, str]]) -> bool:
    reached, grown = {symbols[0]}, True
    while grown:
        more = {b for pair in pairs for a, b in (pair, pair[::-1]) if a in reached} - reached
        reached, grown = reached | more, bool(more)
    return len(reached) == len(symbols)


def _with_keys(drawn: CombinedScenario, keys: tuple[str, ...]) -> CombinedScenario:
    """Inner queries are in the partitions of the outer one."""
    streams = tuple(
        stream if stream.query is None else replace(stream, query=_with_keys(stream.query, keys))
        for stream in drawn.streams
    )
    return drawn.having(keys=keys, streams=streams)


def _with_plainer_times(drawn: CombinedScenario) -> Iterator[CombinedScenario]:
    """Bare ticks, then 1, 2, 3, ..., if that is all it takes."""
    held = [row[t] for s in drawn.inputs.values() for row in s.rows for t in s.times]
    times = sorted({time for time in held if time is not None})
    beat, first = drawn.clock.beats(1), times[0] if times else 0
    plain = {time: (time - first) // beat + 1 for time in times}
    if drawn.clock != Clock() or first != 1:
        yield _at(drawn, plain)
    ranks = {time: rank for rank, time in enumerate(times, 1)}
    if ranks != plain:
        yield _at(drawn, ranks)


def _at(drawn: CombinedScenario, moved: dict[int, int]) -> CombinedScenario:
    """The scenario with other times, in bare ticks."""
    streams = []
    for stream in drawn.streams:
        rows = tuple(
            {**row, **{t: moved[row[t]] for t in stream.times if row[t] is not None}}
            for row in stream.rows
        )
        query = None if stream.query is None else _at(stream.query, moved)
        streams.append(replace(stream, rows=rows, query=query))
    return drawn.having(clock=Clock(), streams=tuple(streams))


def _with_fewer_columns(drawn: CombinedScenario) -> Iterator[CombinedScenario]:
    """Without the columns that the whole query does not name."""
    text = drawn.text()
    for at, stream in enumerate(drawn.streams):
        for name in list(stream.rows[0]) if stream.rows else ():
            if name not in (*stream.times, "id") and name not in text:
                rows = tuple({n: v for n, v in row.items() if n != name} for row in stream.rows)
                yield _with_stream(drawn, at, replace(stream, rows=rows))
