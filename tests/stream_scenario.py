"""Scenarios of queries over several streams, and the ways to put their rows into a query.

A seed makes one: events are drawn as for one stream, and then told apart into several, as events
of one stream or of another or of both, and as rows of intervals that are runs of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from random import Random
from typing import Any

import polars as pl

from piestream.expressions.diagnostics import QueryError
from piestream.language.model import Query
from piestream.language.parts import Aggregate, Emit, Return, Value
from piestream.relations import ALL_NAMES
from tests import randoms
from tests.clock import Clock
from tests.engines import Rows, cuts, parse
from tests.oracle import streams as stream_oracle
from tests.row_scenario import RowScenario, row_scenario
from tests.scenario import (
    Clause,
    Definition,
    Limits,
    Scenario,
    Where,
    _written,
    let_lines,
    windows_text,
)
from tests.truth import Expression, Past, binary, column, literal

__all__ = [
    "ENGINES",
    "KINDS",
    "CombinedScenario",
    "StreamSpec",
    "absent_scenario",
    "closing_scenario",
    "combined_scenario",
    "counting_scenario",
    "has_absent_silence",
    "silence_scenario",
    "sorted_rows",
    "told_as_time_passes",
]

#: The kinds of streams that are mixed in one query.
KINDS = {
    "events": ("events",),
    "rows": ("rows",),
    "identified": ("identified",),
    "known": ("known",),
    "queries": ("query", "events"),
    "all": ("events", "rows", "identified", "known", "query"),
    "patterns": ("pattern", "pattern", "events", "rows", "known", "query"),
}

_COLUMN = re.compile(r"\b(b[0-5]|n[0-2]|f0|w0|k)\b")


@dataclass(frozen=True)
class StreamSpec:
    """A stream: its kind, and its rows with times in ticks."""

    name: str
    kind: str = "events"  # or "rows", "identified", "known", "query", "pattern"
    rows: tuple[Mapping[str, Any], ...] = ()
    max_gap: int | None = None
    query: CombinedScenario | RowScenario | None = None
    is_sequenced: bool = False  # whether the column seq orders its events of one time,
    by_row: bool = False  # or the order of its rows

    def text(self, scenario: CombinedScenario) -> str:
        """The stream as FROM or WITH has it."""
        clock = scenario.clock
        unit = f" UNIT {clock.declared_unit}" if clock.declared_unit is not None else ""
        if isinstance(self.query, RowScenario):
            return self.query.as_stream(self.name)
        if self.query is not None:
            return f"({self.query.text()}) AS {self.name}"
        if self.kind == "events":
            gap = f" MAX GAP {clock.text(self.max_gap)}" if self.max_gap is not None else ""
            return f"{self.name} ORDER BY ts{unit}{', seq' * self.is_sequenced}{', ROW' * self.by_row}{gap}"
        more = {"rows": "", "identified": " ID id", "known": " KNOWN AT START"}[self.kind]
        return f"{self.name} FROM began TO ended{unit}{more}"

    @property
    def times(self) -> tuple[str, ...]:
        """Its columns of time."""
        return ("ts",) if self.kind == "events" else ("began", "ended")

    def instant(self, row: Mapping[str, Any]) -> int:
        """When a row becomes known."""
        if self.kind == "events":
            return int(row["ts"])
        known_at_start = self.kind == "known" or row["ended"] is None
        return int(row["began" if known_at_start else "ended"])

    def last_instant(self, row: Mapping[str, Any]) -> int:
        """The last instant of which a row tells: the end of an interval that is known at its start."""
        return int(row["ended"]) if self.kind == "known" else self.instant(row)


@dataclass(frozen=True)
class CombinedScenario:
    """A query over several streams in parts, with the rows of these."""

    streams: tuple[StreamSpec, ...]
    definitions: tuple[tuple[int, Definition], ...]  # with the number of the stream
    clauses: tuple[Clause, ...]
    clock: Clock = field(default_factory=Clock)
    within: int | None = 1_000
    windows: tuple[tuple[str, int], ...] = ()
    emit: Emit = Emit.TRIGGER
    keys: tuple[str, ...] = ()
    returns: tuple[Return, ...] = ()
    ties: str = "error"
    at_end: str = "open"
    absences: tuple[tuple[str, tuple[Clause, ...]], ...] = ()  # symbols, and what they may not be
    where: Callable[[Clock], Where] | None = None
    limits: Limits = field(default_factory=Limits)
    has_lets: bool = False  # whether what reads earlier events is named by LET
    name: str = field(default="", compare=False)

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbols of a match in the order of their definitions."""
        absent = {name for name, _ in self.absences}
        return tuple(d.name for _, d in self.definitions if d.name not in absent)

    def text(self) -> str:
        """The query as text."""
        heads = [stream.text(self) for stream in self.streams]
        lines = ["FROM " + "\nWITH ".join(heads)]
        if self.keys:
            lines.append("PARTITION BY " + ", ".join(self.keys))
        defined = [_qualified(self.streams, n, d) for n, d in self.definitions]
        lets, defined = let_lines(defined, self.clock if self.has_lets else None)
        lines += lets
        lines.append("DEFINE " + ",\n       ".join(one.text(self.clock) for one in defined))
        conjuncts = [clause.text(self.clock) for clause in self.clauses] or [self.symbols[0]]
        for _, clauses in self.absences:
            conjuncts.append(f"NOT ({' AND '.join(c.text(self.clock) for c in clauses)})")
        lines.append("PATTERN " + "\n    AND ".join(conjuncts))
        lines.append(f"WITHIN {windows_text(self.clock, self.within, self.windows)}")
        if self.where is not None:
            lines.append(f"WHERE {self.where(self.clock).condition.text}")
        if self.emit is not Emit.TRIGGER:
            lines.append(f"EMIT ON {self.emit.value}")
        lines += self.limits.lines(self.clock)
        if self.returns:
            lines.append("RETURN " + ",\n       ".join(_written(item) for item in self.returns))
        return "\n".join(lines)

    @property
    def query(self) -> Query:
        """The parser's query."""
        return parse(self.text())

    @property
    def truth(self) -> dict[str, Any]:
        """The predicate of each symbol, and the truths of the queries inside, for the oracle."""
        found: dict[str, Any] = {d.name: d.predicate for _, d in self.definitions}
        if self.where is not None:
            found[stream_oracle.WHERE] = self.where(self.clock)
        return found | {s.name: s.query.truth for s in self.streams if s.query is not None}

    @property
    def inputs(self) -> dict[str, StreamSpec]:
        """The streams of rows, of queries inside too."""
        found: dict[str, StreamSpec] = {}
        for stream in self.streams:
            if stream.query is None:
                found.setdefault(stream.name, stream)
            else:
                found = {**stream.query.inputs, **found}
        return found

    def expected(self, until: int | None = None) -> Rows:
        """The oracle's rows; ``until`` time has gone, else to the last instant of a row.

        The latter are found once, for all engines.
        """
        if until is None:
            return [dict(row) for row in self._expected]
        return self._matches(until)

    @cached_property
    def _expected(self) -> Rows:
        instants = (s.last_instant(row) for s in self.inputs.values() for row in s.rows)
        return self._matches(max(instants, default=0))

    def _matches(self, until: int) -> Rows:
        inputs = self.inputs.values()
        rows = {stream.name: stream.rows for stream in inputs}
        told = stream_oracle.Inputs(
            rows, self.truth, self.clock, self.ties, until, 600, self.at_end
        )
        return stream_oracle.matches(self.query, told)

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]] | None = None) -> pl.DataFrame:
        """Rows of one input as a frame."""
        stream = self.inputs[name]
        rows = stream.rows if rows is None else rows
        schema = {n: t for n, t in randoms._SCHEMA.items() if n != "ts"}
        if stream.rows:
            schema = {n: t for n, t in schema.items() if n in stream.rows[0]}
        schema |= dict.fromkeys(stream.times, pl.Int64())
        if stream.kind == "identified":
            schema["id"] = pl.Int64()
        if stream.is_sequenced:
            schema["seq"] = pl.Int64()
        frame = pl.DataFrame([dict(row) for row in rows], schema=schema, orient="row")
        return frame.with_columns(pl.col(t).cast(self.clock.dtype) for t in stream.times)

    def having(self, **changes: Any) -> CombinedScenario:
        """The scenario with some of its parts changed."""
        return replace(self, **changes)

    def __str__(self) -> str:
        """Everything that is needed to see it again."""
        rows = "\n".join(
            f"{stream.name} = [\n" + "\n".join(f"    {dict(row)}," for row in stream.rows) + "\n]"
            for stream in self.inputs.values()
        )
        options = f"ties={self.ties!r}, at_end={self.at_end!r}"
        return f"{self.name}\n{self.text()}\n-- {self.clock}, {options}\n{rows}"


def _qualified(streams: Sequence[StreamSpec], number: int, definition: Definition) -> Definition:
    """A definition whose columns have the name of their stream before them."""
    name = streams[number].name
    predicate = definition.predicate
    if definition.silence is not None:
        return replace(definition, predicate=Expression(f"SILENCE OF {name}", predicate.value))
    if predicate.text == "TRUE":
        return replace(definition, predicate=Expression(name, predicate.value))
    text = _COLUMN.sub(lambda found: f"{name}.{found[0]}", predicate.text)
    return replace(definition, predicate=Expression(text, predicate.value))


@lru_cache(maxsize=1024)
def combined_scenario(seed: int, kinds: tuple[str, ...] = ("events",)) -> CombinedScenario:
    """The scenario of a seed: its streams are of these kinds, at least two, or one not of events."""
    rng = Random(f"{seed} {kinds}")
    while True:
        base = randoms.random_scenario(rng, name=f"seed {seed}")
        most_rows = 40 if kinds == ("events",) else 25
        if len(base.definitions) > 4 or len(base.rows) > most_rows:
            continue
        try:
            found = _apart(rng, base, kinds)
            if not _can_match(found):
                continue
            if "pattern" in kinds and not found.expected() and rng.random() < 0.9:
                continue
            if len(found.expected()) <= 400:
                return found.having(name=f"combined_scenario({seed}, {kinds})")
        except stream_oracle.TooManyMatchesError:
            continue


def _can_match(drawn: CombinedScenario) -> bool:
    """Whether a query can have matches: intervals that are known late may be too late for WITHIN."""
    try:
        _ = drawn.query
    except QueryError as error:
        if "no intervals can satisfy together" not in str(error):
            raise
        return False
    return True


def _apart(rng: Random, base: Scenario, kinds: tuple[str, ...]) -> CombinedScenario:
    """The streams that a scenario of one stream is told apart into."""
    count = rng.choice((1, 2, 2, 3)) if set(kinds) != {"events"} else rng.choice((2, 2, 3))
    chosen = [rng.choice(kinds) for _ in range(count)]
    if "pattern" in kinds and "pattern" not in chosen:
        chosen[0] = "pattern"
    if count == 1 and chosen == ["events"]:
        chosen = ["events", "events"]
    absent = {name for name, _ in base.absences}
    if absent and set(chosen) == {"pattern"}:
        chosen.append("events")
    definitions = [(rng.randrange(len(chosen)), d) for d in base.definitions]
    used = sorted({number for number, _ in definitions})
    chosen = [chosen[number] for number in used]
    if chosen == ["events"]:
        used, chosen = [*used, -1], ["events", "events"]
        if len(definitions) > 1:
            definitions[-1] = (-1, definitions[-1][1])
    definitions = [(used.index(number), d) for number, d in definitions]
    if len({number for number, _ in definitions}) < len(chosen):
        return _apart(rng, randoms.random_scenario(rng), kinds)
    streams = []
    for number, kind in enumerate(chosen):
        own = [d for n, d in definitions if n == number]
        streams.append(_stream(rng, base, f"s{number}", kind, own))
    if any(kind in _LATE for kind in chosen):
        late = {d.name for n, d in definitions if chosen[n] in _LATE}
        clauses = tuple(_without_gaps(clause, late) for clause in base.clauses)
    else:
        clauses = base.clauses
    by_end = {d.name for n, d in definitions if chosen[n] in _LATE}
    definitions = [
        (number, d if chosen[number] == "events" else _of_row(rng, _uncounted(d), chosen[number]))
        for number, d in definitions
    ]
    return CombinedScenario(
        streams=tuple(streams),
        definitions=tuple(definitions),
        clauses=clauses,
        clock=base.clock,
        within=base.within,
        windows=base.windows,
        emit=base.emit,
        keys=base.keys,
        returns=base.returns,
        ties=base.ties,
        absences=tuple(
            (name, _ending_in_time(rng, name, clauses, base) if name in by_end else clauses)
            for name, clauses in base.absences
        ),
    )


def _ending_in_time(
    rng: Random, name: str, clauses: tuple[Clause, ...], base: Scenario
) -> tuple[Clause, ...]:
    """What a NOT says of what is known at its end, and mostly that it does not end late."""
    if rng.random() < 0.1:
        return clauses
    of_other, beats = rng.choice(("ts", "te")), rng.randint(0, 9)
    distance = of_other, "te", rng.choice(("<", "<=")), (beats,)
    other = rng.choice(base.symbols)
    return (*clauses, Clause(other, name, distance=distance))


@lru_cache(maxsize=1024)
def absent_scenario(seed: int, kinds: tuple[str, ...]) -> CombinedScenario:
    """The scenario of a seed in which intervals of some symbols may not be there, of whatever stream.

    The streams of the others are of these kinds; with "silences", some are silences of events.
    """
    rng = Random(f"{seed} {kinds} absent")
    while True:
        base = randoms.random_scenario(rng, absences=0.9)
        if not base.absences or len(base.definitions) > 4 or len(base.rows) > 25:
            continue
        try:
            if "silences" in kinds:
                others = tuple(kind for kind in kinds if kind != "silences") or ("events",)
                drawn = _with_silences(rng, base, others, is_absent=True)
            else:
                drawn = _apart(rng, base, kinds)
            if drawn is None or not drawn.absences:
                continue
            found = len(drawn.expected())
            if found <= 400 and (found or rng.random() < 0.1):
                return drawn.having(name=f"absent_scenario({seed}, {kinds})")
        except (stream_oracle.TooManyMatchesError, QueryError):
            continue


@lru_cache(maxsize=256)
def closing_scenario(seed: int, kinds: tuple[str, ...]) -> CombinedScenario:
    """The scenario of a seed at whose end what is open is closed: also rows, whose ends are missing."""
    drawn = combined_scenario(seed, kinds)
    rng = Random(f"{seed} {kinds} open")
    share = rng.choice((0.2, 0.5, 1.0))
    streams = []
    for stream in drawn.streams:
        if stream.kind == "identified":
            begun = {row["id"] for row in stream.rows if row["ended"] is None}
            left_open = {number for number in sorted(begun) if rng.random() < share}
            rows = (r for r in stream.rows if r["ended"] is None or r["id"] not in left_open)
            stream = replace(stream, rows=tuple(rows))
        streams.append(stream)
    name = f"closing_scenario({seed}, {kinds})"
    return drawn.having(streams=tuple(streams), at_end="close", name=name)


@lru_cache(maxsize=1024)
def silence_scenario(seed: int, kinds: tuple[str, ...]) -> CombinedScenario:
    """The scenario of a seed in which one or two symbols are the silences of a stream of events.

    They are of one or two lengths, of one stream or of several; time goes on in most of them.
    """
    rng = Random(f"{seed} {kinds} silent")
    while True:
        try:
            drawn = _with_silences(rng, randoms.random_scenario(rng), kinds)
            if drawn is None or (not drawn.expected() and rng.random() < 0.9):
                continue
            if len(drawn.expected()) <= 400:
                return drawn.having(name=f"silence_scenario({seed}, {kinds})")
        except (stream_oracle.TooManyMatchesError, QueryError):
            continue


def _with_silences(
    rng: Random, base: Scenario, kinds: tuple[str, ...], is_absent: bool = False
) -> CombinedScenario | None:
    """A scenario whose rows have larger gaps, of which some symbols are the silences.

    Those that are absent only where that is said.
    """
    if len(base.definitions) > 4 or len(base.rows) > 25:
        return None
    drawn = _apart(rng, base, kinds) if rng.random() < 0.6 else _alone(rng, base)
    of_events = [n for n, stream in enumerate(drawn.streams) if stream.kind == "events"]
    if not of_events:
        return None
    definitions = list(drawn.definitions)
    lengths = [rng.choice((1, 1, 2, 3, 4)) for _ in range(2)]
    may_be = [at for at, (_, d) in enumerate(definitions) if is_absent or d.name in drawn.symbols]
    count = min(len(may_be), rng.choice((1, 1, 1, 2)))
    for place in rng.sample(may_be, count):
        _, definition = definitions[place]
        length = rng.choice(lengths)
        least, most = definition.at_least, definition.at_most
        silent = replace(
            _uncounted(definition), predicate=literal(True), silence=length,
            at_least=least, at_most=most if most is None or most > length else length + most,
        )  # fmt: skip
        definitions[place] = rng.choice(of_events), silent
    read = {number for number, _ in definitions}
    streams = [stream for n, stream in enumerate(drawn.streams) if n in read]
    numbers = {n: at for at, n in enumerate(sorted(read))}
    silent_names = {definition.name for _, definition in definitions if definition.silence}
    clauses = tuple(
        _widened(rng, _without_gaps(clause, silent_names), silent_names) for clause in drawn.clauses
    )
    return drawn.having(
        streams=tuple(streams),
        definitions=tuple((numbers[n], definition) for n, definition in definitions),
        clauses=clauses,
        returns=tuple(r for r in drawn.returns if not _reads_events(r, silent_names)),
    )


def _widened(rng: Random, clause: Clause, silent: set[str]) -> Clause:
    """A clause that mostly allows more: silences are not what a pattern was planted for."""
    if clause.comparison is not None or not silent & {clause.x, clause.y} or rng.random() < 0.2:
        return clause
    others = [name for name in ALL_NAMES if name not in ("followed-by", "follows")]
    more = rng.sample(others, rng.choice((2, 4, 6)))
    return replace(clause, names=tuple(dict.fromkeys((*clause.names, *more))))


def _alone(rng: Random, base: Scenario) -> CombinedScenario:
    """A scenario of one stream as one of several would be."""
    gap = rng.randint(1, 6) if rng.random() < 0.3 else None
    return CombinedScenario(
        streams=(StreamSpec("s0", "events", tuple(base.rows), gap),),
        definitions=tuple(
            (0, _uncounted(d) if d.bridging is None else d) for d in base.definitions
        ),
        clauses=base.clauses,
        clock=base.clock,
        within=base.within,
        windows=base.windows,
        emit=base.emit,
        keys=base.keys,
        returns=base.returns,
        ties=base.ties,
        absences=base.absences,
    )


def _reads_events(item: Return, silent: set[str]) -> bool:
    """Whether an item of RETURN needs the events of a silence."""
    return isinstance(item, Aggregate | Value) and item.symbol in silent


@lru_cache(maxsize=256)
def counting_scenario(seed: int, kinds: tuple[str, ...]) -> CombinedScenario:
    """The scenario of a seed whose symbols bound the number of their events, where they have any."""
    drawn = combined_scenario(seed, kinds)
    rng = Random(f"{seed} {kinds} counting")
    definitions = []
    for number, definition in drawn.definitions:
        if drawn.streams[number].kind == "events" and rng.random() < 0.8:
            least = rng.choice((None, 1, 2, 2, 3))
            most = rng.choice((None, None, 2, 3, 5)) if least != 3 else None
            definition = replace(definition, at_least_events=least, at_most_events=most)
        definitions.append((number, definition))
    name = f"counting_scenario({seed}, {kinds})"
    return drawn.having(definitions=tuple(definitions), name=name)


def _uncounted(definition: Definition) -> Definition:
    """A definition without what only runs have: bounds on the number of events, and bridges."""
    return replace(definition, at_least_events=None, at_most_events=None, bridging=None)


#: Kinds of streams whose rows may come at their ends only.
_LATE = ("rows", "identified", "query", "pattern")


def _without_gaps(clause: Clause, late: set[str]) -> Clause:
    """A clause without the relations that rows that come at their end cannot have."""
    if clause.comparison is not None or not late & {clause.x, clause.y}:
        return clause
    wide = {"followed-by": "before", "follows": "after"}
    return replace(clause, names=tuple(dict.fromkeys(wide.get(n, n) for n in clause.names)))


def _of_row(rng: Random, definition: Definition, kind: str) -> Definition:
    """A definition over rows of intervals: all of them, or those for which a condition holds."""
    if kind == "pattern" and rng.random() < 0.3:
        return replace(definition, predicate=binary(">", column("n1"), literal(1)))
    if kind in ("query", "pattern") or definition.predicate.reads_the_past or rng.random() < 0.3:
        return replace(definition, predicate=literal(True))
    return definition


def _stream(
    rng: Random, base: Scenario, name: str, kind: str, definitions: list[Definition]
) -> StreamSpec:
    if kind == "query":
        return _query_stream(rng, base, name, definitions)
    if kind == "pattern":
        rows = tuple(row for row in base.rows if rng.random() < 0.9)
        read = StreamSpec(f"{name}_in", "events", rows)
        predicates = [definition.predicate for definition in definitions]
        pattern = row_scenario(rng, read, base.clock, base.keys, predicates)
        return StreamSpec(name, kind, query=pattern)
    if kind == "events":
        rows = [row for row in base.rows if rng.random() < 0.7]
        gap = rng.randint(1, 6) if rng.random() < 0.4 else None
        return StreamSpec(name, kind, tuple(rows), gap)
    rows = _intervals(rng, base, definitions)
    if kind == "identified":
        rows = _identified(rng, rows)
    return StreamSpec(name, kind, tuple(rows))


def _intervals(rng: Random, base: Scenario, definitions: list[Definition]) -> list[dict[str, Any]]:
    """Runs of the definitions' predicates as rows, with others that overlap them."""
    beat = max(1, base.clock.beats(1))
    found: list[dict[str, Any]] = []
    for key in dict.fromkeys((row["k"], row["n2"]) for row in base.rows):
        events = [row for row in base.rows if (row["k"], row["n2"]) == key]
        for definition in definitions:
            first = None
            past = Past(tuple(events), base.clock)
            for number, row in enumerate(events):
                holds = definition.predicate.holds(row, past.up_to(number))
                if holds and first is None:
                    first = row
                elif not holds and first is not None and row["ts"] > first["ts"]:
                    found.append({**first, "began": first["ts"], "ended": row["ts"]})
                    first = None
        for row in events:
            if rng.random() < 0.15:
                length = rng.choice((1, 1, 2, 3, 5, 12)) * beat
                found.append({**row, "began": row["ts"], "ended": row["ts"] + length})
                if rng.random() < 0.3:
                    found.append(dict(found[-1]))
    rng.shuffle(found)
    return [{n: v for n, v in row.items() if n != "ts"} for row in found]


def _identified(rng: Random, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that come twice, or once: only as complete ones, or only as beginnings."""
    found = []
    for number, row in enumerate(rows):
        row = {**row, "id": number}
        kind = rng.random()
        if kind < 0.75:
            found.append({**row, "ended": None})
        if kind > 0.1:
            found.append(row)
    return found


def _query_stream(
    rng: Random, base: Scenario, name: str, definitions: list[Definition]
) -> StreamSpec:
    """A query over one stream of events: its matches are runs of a symbol, or of two in relation."""
    inner = randoms.random_scenario(rng)
    while len(inner.definitions) > 2:
        inner = randoms.random_scenario(rng)
    gap = rng.randint(1, 6) if rng.random() < 0.3 else None
    rows = tuple(row for row in base.rows if rng.random() < 0.8)
    if rng.random() < 0.8:  # the runs that the outer pattern was planted for
        own = replace(rng.choice(definitions), at_least=None, at_most=None)
        within = Random(f"{copy(rng).random()} within").choice((10_000, 10_000, 3, 5, 8, 12))
        inner = inner.having(definitions=(own,), clauses=(), within=within, windows=())
        rows, gap = base.rows, None
        inner = _with_absence(Random(f"{rng.random()} absent"), inner, own.name)
    query = CombinedScenario(
        streams=(StreamSpec(f"{name}_in", "events", rows, gap),),
        definitions=tuple((0, definition) for definition in inner.definitions),
        clauses=inner.clauses,
        absences=inner.absences,
        clock=base.clock,
        within=inner.within,
        windows=inner.windows,
        keys=base.keys,
        returns=_returned(inner.definitions[0].name, base.keys),
    )
    return StreamSpec(name, "query", query=query)


def _with_absence(rng: Random, drawn: Scenario, present: str) -> Scenario:
    """A scenario of one symbol, now and then with another that may not be there."""
    if rng.random() < 0.6 or present == "gone":
        return drawn
    taken = {one.predicate.text for one in drawn.definitions}
    gone = Definition("gone", column(rng.choice([b for b in ("b3", "b4", "b5") if b not in taken])))
    soon = Clause(present, "gone", distance=("te", "ts", "<=", (rng.choice((1, 3, 6)),)))
    groups = (
        (Clause("gone", present, rng.choice((("during",), ("during", "overlaps", "starts")))),),
        (Clause("gone", present, ("after", "met-by")), soon),
    )
    return drawn.having(
        definitions=(*drawn.definitions, gone), absences=(("gone", rng.choice(groups)),)
    )


def _returned(symbol: str, keys: tuple[str, ...]) -> tuple[Return, ...]:
    """What an outer query may read as it reads columns of rows."""
    from piestream.language.parts import Aggregate

    functions = {"n0": "MAX", "n1": "COUNT", "f0": "AVG", "w0": "FIRST", "b0": "LAST"}
    functions |= {} if "k" in keys else {"k": "FIRST"}
    return tuple(Aggregate(f, symbol, column, column) for column, f in functions.items())


# The ways in


def sorted_rows(rows: Rows) -> Rows:
    """Rows in order of their reports; which of two at one instant is the first does not matter."""

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        at = row.get("detected_at", row.get("completed_at"))
        return at, row.get("phase") != "trigger", repr(sorted(row.items()))

    return sorted(rows, key=place)


def _plain(drawn: CombinedScenario, rows: Any) -> Rows:
    if isinstance(rows, pl.DataFrame):
        return drawn.clock.plain_frame(rows) if rows.width else []
    return [{n: drawn.clock.plain(value) for n, value in row.items()} for row in rows]


def _frames(drawn: CombinedScenario, rng: Random) -> Rows:
    frames = {}
    for name, stream in drawn.inputs.items():
        rows = list(stream.rows)
        if drawn.ties == "error" and not stream.by_row:
            rng.shuffle(rows)
        frames[name] = drawn.frame(name, rows)
    return _plain(drawn, drawn.query.run(_by_stream(frames), ties=drawn.ties, at_end=drawn.at_end))


def _by_stream(found: dict[str, Any]) -> Any:
    """What is given of each stream by its name, or of the only one."""
    return found if len(found) > 1 else next(iter(found.values()))


def _session(name: str, drawn: CombinedScenario, rng: Random) -> Rows:
    beat = max(1, drawn.clock.beats(1))
    lateness = rng.randint(1, 8) if "disordered" in name else 0
    is_sequenced = any(one.is_sequenced or one.by_row for one in drawn.inputs.values())
    arrivals = []
    for key, stream in drawn.inputs.items():
        delays: dict[int, int] = {}
        for row in stream.rows:
            at = stream.instant(row)
            late = rng.randint(0, lateness * beat)
            delays.setdefault(at, late)
            delay = late if drawn.ties == "error" else delays[at]
            order = (rng.random() if drawn.ties == "error" else 0, 0)
            if is_sequenced:  # what comes behind a later event of its time is late
                order = (at, row.get("seq", 0))
                if stream.by_row:  # those of one time come in their order
                    delay = delays[at]
            arrivals.append((at + delay, order, key, row))
    if drawn.ties == "error":
        arrivals.sort(key=lambda one: one[:2])
    else:
        arrivals.sort(key=lambda one: one[0])
    options: dict[str, Any] = {"ties": drawn.ties}
    if lateness:
        text = drawn.clock.text(lateness)
        options["lateness"] = text if drawn.clock.unit else int(text)
    options["schema"] = _by_stream({key: drawn.frame(key, []).schema for key in drawn.inputs})
    named = len(drawn.inputs) > 1
    session = drawn.query.open(**options)
    sizes = (1,) * len(arrivals) if "event" in name else cuts(len(arrivals), rng)
    found: Rows = []
    at = 0
    for size in sizes:
        part = arrivals[at : at + size]
        at += size
        while part:
            key = part[0][2]
            n = next((i for i, one in enumerate(part) if one[2] != key), len(part))
            rows = [row for _, _, _, row in part[:n]]
            part = part[n:]
            frame = drawn.frame(key, rows)
            if "event" in name and drawn.clock.kind.startswith("int"):
                found += _plain(
                    drawn, session.push(frame.to_dicts(), stream=key if named else None)
                )
            else:
                found += _plain(drawn, session.push(frame, stream=key if named else None))
        if "restored" in name and rng.random() < 0.4:
            session = drawn.query.open(state=session.snapshot())
    return found + _plain(drawn, session.close(at_end=drawn.at_end))


def told_as_time_passes(drawn: CombinedScenario, rng: Random) -> tuple[int, Rows]:
    """Up to when time passes once all rows have come, in some steps, and the rows that this gives."""
    latest = max((int(row["ts"]) for one in drawn.streams for row in one.rows), default=0)
    until = latest + 1 + rng.randint(0, 9) * max(1, drawn.clock.beats(1))
    lateness = drawn.clock.text(10_000)
    session = drawn.query.open(
        ties=drawn.ties,
        lateness=lateness if drawn.clock.unit else int(lateness),
        schema={key: drawn.frame(key, []).schema for key in drawn.inputs},
    )
    for key in drawn.inputs:
        assert len(session.push(drawn.frame(key), stream=key)) == 0
    steps = sorted([until, *(rng.randint(latest - 9, until) for _ in range(rng.randint(0, 3)))])
    times = pl.Series(steps).cast(drawn.clock.dtype)
    return until, [row for time in times for row in _plain(drawn, session.advance(time))]


ENGINES: Mapping[str, Callable[[CombinedScenario, Random], Rows]] = {
    "frame": _frames,
    **{
        name: lambda drawn, rng, name=name: _session(name, drawn, rng)  # type: ignore[misc]
        for name in (
            "session",
            "event",
            "restored",
            "event restored",
            "disordered",
            "disordered restored",
        )
    },
}


@lru_cache(maxsize=256)
def sequenced_scenario(seed: int, kinds: tuple[str, ...]) -> CombinedScenario:
    """The scenario of a seed with what may not be there, in which many events have one time."""
    rng = Random(f"{seed} {kinds} sequenced")
    while True:
        base = randoms.random_scenario(rng, absences=1)
        is_fit = base.absences and len(base.definitions) <= 4 and len(base.rows) <= 25
        if not is_fit or base.clock.kind == "ns":
            continue
        try:
            drawn = in_sequence(_apart(rng, base, kinds), rng)
            found = len(drawn.expected()) if drawn.absences else 401
        except (stream_oracle.TooManyMatchesError, QueryError):
            continue
        if found <= 400 and (found or rng.random() < 0.1):
            return drawn.having(name=f"sequenced_scenario({seed}, {kinds})")


@lru_cache(maxsize=1024)
def silence_in_sequence(
    seed: int, kinds: tuple[str, ...], is_absent: bool = False
) -> CombinedScenario:
    """The scenario of a seed with silences, in which many events have one time.

    Symbols that may not be there are among them, or some of them are silences where that ``is_absent``.
    """
    rng = Random(f"{seed} {kinds} {is_absent} silent in sequence")
    while True:
        base = randoms.random_scenario(rng, absences=0.9 if is_absent else 0.1)
        if base.clock.kind == "ns" or (is_absent and not base.absences):
            continue
        try:
            drawn = _with_silences(rng, base, kinds, is_absent)
            if drawn is None:
                continue
            if is_absent and not has_absent_silence(drawn):
                continue
            drawn = in_sequence(drawn, rng, rng.choice(((1, 1, 2), (1, 1, 1, 3, 5), (1, 2, 3, 4))))
            found = len(drawn.expected())
        except (stream_oracle.TooManyMatchesError, QueryError):
            continue
        if found <= 400 and (found or rng.random() < 0.1):
            return drawn.having(name=f"silence_in_sequence({seed}, {kinds}, {is_absent})")


def has_absent_silence(drawn: CombinedScenario) -> bool:
    """Whether a symbol that may not be there is a silence."""
    absent = {name for name, _ in drawn.absences}
    return any(d.name in absent and d.silence is not None for _, d in drawn.definitions)


def in_sequence(
    drawn: CombinedScenario,
    rng: Random,
    steps: tuple[int, ...] = (1,),
    time: _Coarser | None = None,
) -> CombinedScenario:
    """A scenario with coarser times, so that many events of its streams have one, and a column orders them.

    From one of these times to the next there are so many beats.
    """
    time = time or _Coarser(drawn, steps, rng)
    numbers = [number for number, one in enumerate(drawn.streams) if one.kind == "events"]
    must_be = rng.choice(numbers) if numbers else None
    streams = tuple(
        _in_sequence(stream, number == must_be, time, drawn, rng)
        for number, stream in enumerate(drawn.streams)
    )
    sequenced = [number for number, one in enumerate(streams) if one.is_sequenced]
    if sequenced and rng.random() < 0.4:
        by_row = rng.sample(sequenced, rng.randint(1, len(sequenced)))
        streams = tuple(_by_row(one) if at in by_row else one for at, one in enumerate(streams))
    return drawn.having(
        streams=streams,
        ties="error",
        within=None if drawn.within is None else max(drawn.within, 3),
    )


def _by_row(stream: StreamSpec) -> StreamSpec:
    """A stream of events in the order of its rows, which is that of their numbers."""
    rows = sorted(stream.rows, key=lambda row: (row["ts"], row["seq"]))
    told = tuple({n: v for n, v in row.items() if n != "seq"} for row in rows)
    return replace(stream, rows=told, is_sequenced=False, by_row=True)


class _Coarser:
    """Coarser times, of which each is some beats behind the one before."""

    def __init__(self, drawn: CombinedScenario, steps: tuple[int, ...], rng: Random) -> None:
        beat = drawn.clock.beats(1)
        self.coarse = beat * rng.choice((2, 3, 5))
        inputs = drawn.inputs.values()
        times = {row[name] for one in inputs for row in one.rows for name in one.times}
        numbers = sorted({time // self.coarse for time in times if time is not None})
        self.beats: dict[int, int] = {}
        for last, number in zip([None, *numbers], numbers, strict=False):
            steps_of = range(0 if last is None else number - last)
            before = number if last is None else self.beats[last] // beat
            self.beats[number] = beat * (before + sum(rng.choice(steps) for _ in steps_of))

    def __call__(self, time: int) -> int:
        return self.beats[time // self.coarse]


def _in_sequence(
    stream: StreamSpec, must_be: bool, time: _Coarser, drawn: CombinedScenario, rng: Random
) -> StreamSpec:
    """A stream in coarser time; of events, most are in one order."""
    if isinstance(stream.query, CombinedScenario):
        return replace(stream, query=in_sequence(stream.query, rng, time=time))
    if stream.kind != "events":
        spans = ((row, time(row["began"]), row["ended"]) for row in stream.rows)
        found = (
            {**row, "began": start, "ended": None if end is None else time(end)}
            for row, start, end in spans
            if end is None or time(end) > start
        )
        return replace(stream, rows=tuple(found))
    is_sequenced = must_be or rng.random() < 0.7
    rows: dict[object, dict[str, Any]] = {}
    for row in stream.rows:
        shown = {**row, "ts": time(row["ts"])}
        if is_sequenced:
            shown["seq"] = row["ts"]
        key = (*(row[name] for name in drawn.keys), row["ts"] if is_sequenced else shown["ts"])
        rows.setdefault(key, shown)
    return replace(stream, rows=tuple(rows.values()), is_sequenced=is_sequenced)
