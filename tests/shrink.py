"""Makes a failing scenario small: ``python -m tests.shrink SEED ENGINE [FOLDER]``.

One with events of one time: ``sequence:SEED``; one in which everything is mixed: ``mixed:SEED``; one with many
cases: ``many:SEED``, ``many sequence:SEED``, ``many mixed:SEED``.
One of several streams: ``python -m tests.shrink SEED KINDS ENGINE [FOLDER]``; KINDS may be ``mixed``. Greedy: as long as something can be left out and the engine still disagrees with the oracle, it is
left out. What remains is printed and written as a case folder, with the oracle's rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from piestream.expressions.diagnostics import QueryError
from piestream.language.parts import Emit, RelationOf, Return
from tests import folders, stream_folders, stream_scenario, stream_shrink
from tests.clock import Clock
from tests.engines import ENGINES, difference, parse, run
from tests.many_of_one_stream import DRAWS, many_cases
from tests.mixed_streams import fed, mixed_streams
from tests.oracle import TieError
from tests.scenario import Limits, Scenario, windows_without
from tests.stream_scenario import KINDS, CombinedScenario

__all__ = ["drawn_of", "fails", "shrunk", "smaller"]

Drawn = TypeVar("Drawn", Scenario, CombinedScenario)

#: A session is fed in several ways before a scenario counts as passing.
_TRIES = 6


def fails(drawn: Scenario, engine: str) -> str | None:
    """Why an engine does not say what the oracle says; None if it does."""
    try:
        expected = drawn.expected()
    except TieError:
        return None
    for attempt in range(_TRIES):
        try:
            query = parse(drawn.text())
        except QueryError:  # a smaller query that is refused is no smaller failure
            return None
        try:
            found, _ = run(engine, query, drawn.stream, Random(f"{attempt} {engine}"))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if why := difference(expected, found, drawn.keys):
            return why
    return None


def shrunk(drawn: Drawn, still_fails: Callable[[Drawn], bool]) -> Drawn:
    """The smallest scenario that leaving things out one after another leads to."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        candidates: Iterator[Any] = (
            smaller(drawn) if isinstance(drawn, Scenario) else stream_shrink.smaller(drawn)
        )
        for candidate in candidates:
            if still_fails(candidate):
                drawn, is_smaller = candidate, True
                break
    return drawn


def smaller(drawn: Scenario) -> Iterator[Scenario]:
    """Everything that is one step smaller, the largest steps first."""
    yield from _with_fewer_rows(drawn)
    yield from _with_fewer_symbols(drawn)
    yield from _with_fewer_absences(drawn)
    for k in range(len(drawn.clauses)):
        clauses = drawn.clauses[:k] + drawn.clauses[k + 1 :]
        if _connected(drawn.symbols, [(clause.x, clause.y) for clause in clauses]):
            yield drawn.having(clauses=clauses)
    for k, clause in enumerate(drawn.clauses):
        for name in clause.names if len(clause.names) > 1 else ():
            fewer = replace(clause, names=tuple(n for n in clause.names if n != name))
            yield drawn.having(clauses=(*drawn.clauses[:k], fewer, *drawn.clauses[k + 1 :]))
    for k, one in enumerate(drawn.definitions):
        for bound in ("at_least", "at_most", "at_least_events", "at_most_events", "bridging"):
            fewer_bounds = replace(one, **{bound: None})  # type: ignore[arg-type]
            if fewer_bounds != one:
                definitions = (*drawn.definitions[:k], fewer_bounds, *drawn.definitions[k + 1 :])
                yield drawn.having(definitions=definitions)
    if drawn.where is not None:
        yield drawn.having(where=None)
    for limit in ("once_per", "no_overlap", "cooldown", "limit"):
        fewer_limits = replace(drawn.limits, **{limit: getattr(Limits(), limit)})
        if fewer_limits != drawn.limits:
            yield drawn.having(limits=fewer_limits)
    for k in range(len(drawn.returns)):
        yield drawn.having(returns=drawn.returns[:k] + drawn.returns[k + 1 :])
    if drawn.max_gap is not None:
        yield drawn.having(max_gap=None)
    if drawn.emit is not Emit.TRIGGER:
        yield drawn.having(emit=Emit.TRIGGER)
    if drawn.within != 10_000 or drawn.windows:
        yield drawn.having(within=10_000, windows=())
    if drawn.keys:
        yield drawn.having(keys=drawn.keys[1:])
    if drawn.sequence is not None:
        yield drawn.having(sequence=None)
    if drawn.has_lets:
        yield drawn.having(has_lets=False)
    yield from _with_plainer_times(drawn)
    yield from _with_fewer_columns(drawn)


def _with_fewer_rows(drawn: Scenario) -> Iterator[Scenario]:
    rows = drawn.rows
    size = len(rows) // 2
    while size:
        for at in range(0, len(rows), size):
            yield drawn.having(rows=rows[:at] + rows[at + size :])
        size //= 2


def _with_fewer_symbols(drawn: Scenario) -> Iterator[Scenario]:
    for gone in drawn.symbols if len(drawn.symbols) > 1 else ():
        rest = tuple(one for one in drawn.definitions if one.name != gone)
        clauses = tuple(c for c in drawn.clauses if gone not in (c.x, c.y))
        left = [name for name in drawn.symbols if name != gone]
        if not _connected(left, [(c.x, c.y) for c in clauses]):
            continue
        if any(gone in (c.x, c.y) for _, of in drawn.absences for c in of):
            continue
        returns = tuple(item for item in drawn.returns if gone not in _symbols_of(item))
        where = drawn.where
        read = () if where is None else where(drawn.clock).items
        if any(gone in _symbols_of(item) for item in read):
            where = None
        windows = windows_without(gone, drawn.within, drawn.windows)
        yield drawn.having(
            definitions=rest, clauses=clauses, returns=returns, where=where, **windows
        )


def _with_fewer_absences(drawn: Scenario) -> Iterator[Scenario]:
    for k, (gone, clauses) in enumerate(drawn.absences):
        before, after = drawn.absences[:k], drawn.absences[k + 1 :]
        rest = tuple(one for one in drawn.definitions if one.name != gone)
        yield drawn.having(definitions=rest, absences=before + after)
        for n in range(len(clauses) if len(clauses) > 1 else 0):
            fewer = gone, clauses[:n] + clauses[n + 1 :]
            yield drawn.having(absences=(*before, fewer, *after))
        for n, clause in enumerate(clauses):
            for name in clause.names if len(clause.names) > 1 else ():
                one = replace(clause, names=tuple(other for other in clause.names if other != name))
                fewer = gone, (*clauses[:n], one, *clauses[n + 1 :])
                yield drawn.having(absences=(*before, fewer, *after))


def _symbols_of(item: Return) -> tuple[str, ...]:
    return (item.x, item.y) if isinstance(item, RelationOf) else (item.symbol,)


def _connected(symbols: list[str] | tuple[str, ...], pairs: list[tuple[str, str]]) -> bool:
    reached, grown = {symbols[0]}, True
    while grown:
        more = {b for pair in pairs for a, b in (pair, pair[::-1]) if a in reached} - reached
        reached, grown = reached | more, bool(more)
    return len(reached) == len(symbols)


def _with_plainer_times(drawn: Scenario) -> Iterator[Scenario]:
    """Bare ticks, then 1, 2, 3, ..., if that is all it takes."""
    beat = drawn.clock.beats(1)
    first = drawn.rows[0]["ts"] if drawn.rows else 0
    rows = [{**row, "ts": (row["ts"] - first) // beat + 1} for row in drawn.rows]
    if drawn.clock != Clock() or first != 1:
        yield drawn.having(clock=Clock(), rows=tuple(rows))
    ranks = {at: rank for rank, at in enumerate(sorted({row["ts"] for row in rows}), 1)}
    if any(at != rank for at, rank in ranks.items()):
        yield drawn.having(
            clock=Clock(), rows=tuple({**row, "ts": ranks[row["ts"]]} for row in rows)
        )


def _with_fewer_columns(drawn: Scenario) -> Iterator[Scenario]:
    text = drawn.text()
    for name in drawn.schema:
        if name != "ts" and name not in text:
            rows = tuple({n: v for n, v in row.items() if n != name} for row in drawn.rows)
            schema = {n: dtype for n, dtype in drawn.schema.items() if n != name}
            yield drawn.having(rows=rows, schema=schema)


def main(arguments: list[str]) -> int:
    """Shrinks the failure of a seed and writes it to a folder."""
    of_streams = len(arguments) > 2 and arguments[1] in (*KINDS, "mixed")
    if of_streams and arguments[2] in stream_scenario.ENGINES:
        return _of_streams(int(arguments[0]), *arguments[1:])
    if len(arguments) not in (2, 3) or arguments[1] not in ENGINES:
        print(f"{__doc__}\nENGINE is one of: {', '.join(map(repr, ENGINES))}")
        print(f"KINDS is one of: {', '.join(KINDS)}")
        return 2
    named, engine = arguments[:2]
    kind, _, number = named.rpartition(":")
    drawn = drawn_of(kind, int(number))
    if fails(drawn, engine) is None:
        print(f"{engine} says what the oracle says on seed {named}")
        return 1
    small = shrunk(drawn, lambda candidate: fails(candidate, engine) is not None)
    folder = _folder(folders.CASES, arguments[2:], f"seed_{named}_{engine}")
    folders.write(folder, small, why=f"{engine} and the oracle disagreed on seed {named}")
    print(f"{small}\n{fails(small, engine)}\nwritten to {folder}")
    return 0


def drawn_of(kind: str, seed: int) -> Scenario:
    """The scenario of a seed of a draw, or with many cases."""
    draw = kind.removeprefix("many").strip() or "times"
    return many_cases(seed, draw) if kind.startswith("many") else DRAWS[draw](seed)


def _of_streams(seed: int, kinds: str, engine: str, *named: str) -> int:
    if kinds == "mixed":
        drawn = fed(engine, mixed_streams(seed))
    else:
        drawn = stream_scenario.combined_scenario(seed, KINDS[kinds])
    if stream_shrink.fails(drawn, engine, seed) is None:
        print(f"{engine} says what the oracle says on seed {seed} of {kinds}")
        return 1
    small = shrunk(drawn, lambda one: stream_shrink.fails(one, engine, seed) is not None)
    folder = _folder(stream_folders.CASES, named, f"seed_{seed}_{kinds}_{engine}")
    why = f"{engine} and the oracle disagreed on seed {seed} of {kinds}"
    stream_folders.write(folder, small, why=why)
    print(f"{small}\n{stream_shrink.fails(small, engine, seed)}\nwritten to {folder}")
    return 0


def _folder(cases: Path, named: Sequence[str], otherwise: str) -> Path:
    name = named[0] if named else re.sub(r"[ :]", "_", otherwise)
    return cases / name if "/" not in name else Path(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
