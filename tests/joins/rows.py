"""Patterns over intervals that come ready-made, as rows, beside runs: by enumeration, and by a detector.

The enumeration shares nothing with the engine: at each instant it tries all that may still come of a
pair, given what is known of it then, and keeps no index. One partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from random import Random

import numpy as np
import polars as pl

import piestream as ps
from piestream.compiled.constants import OPEN
from piestream.engine.batches import Batch, IntervalRows
from piestream.engine.bits import stack_bits
from piestream.engine.detector import Detector
from piestream.engine.state import DetectorState
from piestream.engine.validation import limits_of
from piestream.intervals.aggregates import CellKind
from piestream.joins.validation import Damage, check_state
from piestream.language.parts import Emit, Source
from piestream.plan.binding import Binding, bind
from piestream.plan.compiler import compile_query
from piestream.plan.outputs import ResultRows, result_frame
from piestream.plan.program import Cell, JoinKey
from piestream.relations import Relation, inverse, names
from tests.joins.reference import allen

__all__ = ["Given", "Interval", "Scene", "detector_of", "expected", "found", "random_scene"]

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A row: an interval ``[start, end)`` of some symbols, with a value.

    ``known`` says when: "end" (complete, at its end), "start" (a row when it begins, one when it
    ends), "both" (complete, at its start). ``end`` None: the end never comes.
    """

    start: int
    end: int | None
    symbols: str
    known: str
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """A query's parts and a partition's events: names of symbols have one letter."""

    clauses: tuple[str, ...]
    within: int
    runs: Mapping[str, Sequence[bool]]  # of each symbol of runs: whether it holds, by event
    times: Sequence[int]
    rows: Sequence[Given]
    of_rows: str  # the symbols whose intervals come as rows
    emit: str = "TRIGGER"
    bounds: Mapping[str, str] = field(default_factory=dict)
    keys: Sequence[tuple[str, str]] = ()  # symbols whose first values are equal in every match

    @property
    def symbols(self) -> list[str]:
        """All symbols, in the order of their names."""
        return sorted({*self.runs, *self.of_rows})

    @property
    def query(self) -> ps.Query:
        """The query. What it says of the predicates of rows' symbols does not matter."""
        names_ = self.symbols
        defined = ", ".join(f"{n} AS {n} {self.bounds.get(n, '')}" for n in reversed(names_))
        returned = [f"{n}.ts, {n}.te, FIRST({n}.v), SUM({n}.v), COUNT({n})" for n in names_]
        for clause in self.clauses:
            x, *_, y = clause.split()
            returned.append(f"RELATION({x}, {y})")
        pattern = " AND ".join(self.clauses) or names_[0]
        return ps.query(
            f"FROM s ORDER BY ts DEFINE {defined} PATTERN {pattern} WITHIN {self.within} "
            f"EMIT ON {self.emit} RETURN {', '.join(returned)}"
        )

    @property
    def frame(self) -> pl.DataFrame:
        """The events."""
        columns = {"ts": np.array(self.times, np.int64), "v": np.arange(len(self.times)) % 7}
        for name in self.symbols:
            columns[name] = np.array(self.runs.get(name, [False] * len(self.times)), bool)
        return pl.DataFrame(columns)


# -- by enumeration --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Interval:
    """An interval and what is known of it when. ``known_end`` None: its end never is."""

    start: int
    end: int | None
    known: int
    known_end: int | None
    number: int  # of its row; -1 for runs
    value: int | None = None

    def end_at(self, now: int) -> int | None:
        """The end, if it is known."""
        known = self.known_end is not None and self.known_end <= now
        return self.end if known else None


def _futures(x: Interval, y: Interval, now: int) -> set[Relation]:
    """What the relation may turn out to be, as far as is known."""
    ends = [e for e in (x.end_at(now), y.end_at(now)) if e is not None and e > now]
    later = [now + 0.25, now + 0.5]
    for end in ends:
        later += [(now + end) / 2, end, end + 0.5]
    x_ends = [x.end_at(now)] if x.end_at(now) is not None else later
    y_ends = [y.end_at(now)] if y.end_at(now) is not None else later
    return {allen(x.start, a, y.start, b) for a, b in product(x_ends, y_ends)}


class _World:
    """The intervals of a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.query = scene.query
        self.times = list(scene.times)
        self.intervals: dict[str, list[Interval]] = {}
        for name in scene.symbols:
            if name in scene.of_rows:
                self.intervals[name] = [
                    self._of_row(number, row)
                    for number, row in enumerate(scene.rows)
                    if name in row.symbols and self._comes(row)
                ]
            else:
                self.intervals[name] = list(self._runs(name))

    def _comes(self, row: Given) -> bool:
        last = self.times[-1]
        if row.known == "end":
            return row.end is not None and row.end <= last
        return row.start <= last

    def _of_row(self, number: int, row: Given) -> Interval:
        known = row.end if row.known == "end" else row.start
        known_end = row.start if row.known == "both" else row.end
        assert known is not None
        return Interval(row.start, row.end, known, known_end, number, row.value)

    def _runs(self, name: str) -> Iterator[Interval]:
        start: int | None = None
        for time, holds in zip(self.times, self.scene.runs[name], strict=True):
            if holds and start is None:
                start = time
            elif not holds and start is not None:
                yield Interval(start, time, start, time, -1)
                start = None
        if start is not None:
            yield Interval(start, None, start, None, -1)

    @cached_property
    def last(self) -> int:
        return self.times[-1]

    def valid(self, name: str, one: Interval) -> int | None:
        """When an interval is known to have an allowed duration; None: never, or it has not."""
        symbol = self.query.symbol(name)
        least = 0 if symbol.at_least is None else symbol.at_least.amount
        most = None if symbol.at_most is None else symbol.at_most.amount
        whole = one.end if one.known_end is not None and one.known_end <= self.last else None
        if whole is not None:
            duration = whole - one.start
            if duration < least or (most is not None and duration > most):
                return None
        for now in self.times:
            if now < one.known:
                continue
            end = one.end_at(now)
            if end is not None:
                return now
            if most is None and now - one.start >= least:
                return now
        return None

    def quiet(self, x: str, y: str, left: Interval, right: Interval) -> bool:
        """Whether no interval known when the later one is touches the gap between two."""
        assert left.end is not None
        now = right.known
        for name in (x, y):
            for one in self.intervals[name]:
                if one.known > now or one.start >= right.start:
                    continue
                end = one.end_at(now)
                if end is None or end > left.end:
                    return False
        return True

    def holding(self, x: str, y: str, a: Interval, b: Interval, now: int) -> set[Relation]:
        """The relations that may turn out to hold, precise where they are."""
        found = _futures(a, b, now)
        if found == {Relation.BEFORE} and self.quiet(x, y, a, b):
            found = {Relation.BEFORE | Relation.FOLLOWED_BY}
        if found == {Relation.AFTER} and self.quiet(x, y, b, a):
            found = {Relation.AFTER | Relation.FOLLOWS}
        return found

    def decided(self, x: str, y: str, allowed: Relation, a: Interval, b: Interval) -> int | None:
        """The first instant at which the pair's relation will be allowed, whatever comes next."""
        if a.number >= 0 and a.number == b.number:
            return None
        if a.start == b.start and a.number == b.number == -1:
            x_symbol, y_symbol = self.query.symbol(x), self.query.symbol(y)
            assert x_symbol.predicate != y_symbol.predicate
        for now in self.times:
            if now < max(a.known, b.known):
                continue
            if all(relation & allowed for relation in self.holding(x, y, a, b, now)):
                return now
        return None


def expected(scene: Scene) -> list[Row]:
    """The rows of the result, in their order."""
    world = _World(scene)
    query, within = world.query, scene.within
    names_ = scene.symbols
    allowed = {(c.x, c.y): c.relations for c in query.constraints}
    rows: list[tuple[tuple[object, ...], Row]] = []
    decided: dict[tuple[object, ...], int | None] = {}

    def pair(x: str, y: str, a: Interval, b: Interval) -> int | None:
        key = (x, y, a, b)
        if key not in decided:
            decided[key] = world.decided(x, y, allowed[x, y], a, b)
        return decided[key]

    def bindings(bound: dict[str, Interval], at: int) -> Iterator[tuple[dict[str, Interval], int]]:
        if len(bound) == len(names_):
            yield bound, at
            return
        linked = [
            n
            for n in names_
            if n not in bound and any((n, m) in allowed or (m, n) in allowed for m in bound)
        ]
        name = linked[0] if bound else names_[0]
        for one in world.intervals[name]:
            valid = world.valid(name, one)
            if valid is None or any(
                one.number == other.number != -1 or abs(one.start - other.start) > within
                for other in bound.values()
            ):
                continue
            known: int | None = max(at, valid)
            for other, there in bound.items():
                step: int | None = 0
                if (name, other) in allowed:
                    step = pair(name, other, one, there)
                elif (other, name) in allowed:
                    step = pair(other, name, there, one)
                known = None if step is None or known is None else max(known, step)
            if known is not None:
                yield from bindings({**bound, name: one}, known)

    def report(match: dict[str, Interval], at: int, phase: str) -> None:
        row: list[object] = [at]
        if query.emit is Emit.BOTH:
            row.append(phase)
        for name in names_:
            one = match[name]
            row += [one.start, one.end_at(at), *_values(scene, one, at)]
        for clause in scene.clauses:
            x, *_, y = clause.split()
            row.append(_relation_name(world, allowed, x, y, match[x], match[y], at))
        order = [match[n].start for n in names_] + [match[n].number for n in names_]
        rows.append(((at, phase == "completion", order), tuple(row)))

    for match, trigger in bindings({}, 0):
        first = min(one.start for one in match.values())
        ends = [one.end for one in match.values()]
        complete = None
        if None not in ends and max(ends) <= world.last:  # type: ignore[type-var]
            complete = max(ends)  # type: ignore[type-var]
        if query.emit is Emit.COMPLETION:
            if complete is not None and complete - first <= within:
                report(match, complete, "completion")
        elif trigger - first <= within:
            report(match, trigger, "trigger")
            if query.emit is Emit.BOTH and complete is not None:
                report(match, complete, "completion")
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def _values(scene: Scene, one: Interval, at: int) -> tuple[int | None, int | None, int]:
    """FIRST, SUM and COUNT: of a row its value; of a run those of its events so far."""
    if one.number >= 0:
        return one.value, one.value, 1
    end = one.end_at(at)
    events = [
        n % 7
        for n, time in enumerate(scene.times)
        if one.start <= time <= at and (end is None or time < end)
    ]
    return events[0], sum(events), len(events)


def _relation_name(
    world: _World, allowed: Mapping[tuple[str, str], Relation], x: str, y: str,
    a: Interval, b: Interval, at: int,
) -> str | None:  # fmt: skip
    holding = world.holding(x, y, a, b, at)
    if len(holding) > 1:
        return None
    (relation,) = holding
    said = allowed[x, y] if (x, y) in allowed else inverse(allowed[y, x])
    precise = relation & (Relation.FOLLOWED_BY | Relation.FOLLOWS)
    shown = relation & said
    if precise and said & precise:
        return names(Relation(precise))[0]
    return names(Relation(relation & ~precise if not shown & ~precise else shown & ~precise))[0]


# -- by a detector ---------------------------------------------------------------------------------
def detector_of(scene: Scene) -> tuple[Binding, Detector]:
    """A detector of a scene's query, with one partition."""
    binding = bind(scene.query, scene.frame.schema)
    words = tuple(word for output in binding.outputs for word in output.words)
    query = replace(
        scene.query,
        streams=(*scene.query.streams, Source("given", start="ts", end="te", id="id")),
        symbols=tuple(
            replace(symbol, stream=int(symbol.name in scene.of_rows))
            for symbol in scene.query.symbols
        ),
    )
    cell = {n: Cell(k, CellKind.FIRST, 0) for k, n in enumerate(s.name for s in query.symbols)}
    keys = [JoinKey(cell[x], cell[y]) for x, y in scene.keys]
    compiled = compile_query(query, binding.compiled.ticks, words, keys)
    binding = replace(
        binding,
        compiled=compiled,
        bit_of_symbol=tuple(
            len(binding.predicates) if symbol.name in scene.of_rows else bit
            for symbol, bit in zip(scene.query.symbols, binding.bit_of_symbol, strict=True)
        ),
    )
    return binding, _fresh(binding)


def _fresh(binding: Binding, partitions: int = 1) -> Detector:
    detector = Detector(binding.compiled, binding.bit_of_symbol)
    detector.add_partitions(partitions)
    return detector


def rows_of(scene: Scene, rng: Random | None = None) -> list[tuple[int, int, int, int, int]]:
    """The rows by which intervals become known: instant, start, end, symbols, number."""
    number_of = {symbol.name: n for n, symbol in enumerate(scene.query.symbols)}
    found = []
    for number, row in enumerate(scene.rows):
        bits = sum(1 << number_of[name] for name in row.symbols)
        end = OPEN if row.end is None else row.end
        if row.known == "both":
            found.append((row.start, row.start, end, bits, number))
        elif row.known == "start":
            found.append((row.start, row.start, OPEN, bits, number))
        if row.end is not None:
            found.append((end, row.start, end, bits, number))
    if rng is not None:
        rng.shuffle(found)
    return sorted((f for f in found if f[0] <= scene.times[-1]), key=lambda f: f[0])


def batch_of(
    scene: Scene, binding: Binding, first: int, end: int, rows: Sequence[tuple[int, ...]]
) -> Batch:
    """The events from one to another, and the rows of their times."""
    piece = scene.frame[first:end]
    times = piece["ts"].to_numpy()
    kept = [row for row in rows if times[0] <= row[0] <= times[-1]]
    table = np.array(kept, np.int64).reshape(-1, 5)
    values = [scene.rows[row[4]].value for row in kept]
    columns = np.array([[0 if v is None else v for v in values]], np.int64).reshape(1, -1)
    known = np.array([[v is not None for v in values]], np.uint8).reshape(1, -1)
    return Batch(
        np.zeros(1, np.int64),
        np.array([0, len(piece)], np.int64),
        times,
        stack_bits([piece.select(p.alias("p"))["p"] for p in binding.predicates]),
        piece["v"].to_numpy()[None].astype(np.int64).copy(),
        np.ones((1, len(piece)), np.uint8),
        IntervalRows(
            np.array([0, len(kept)], np.int64),
            *(np.ascontiguousarray(table[:, n]) for n in range(5)),
            columns,
            known,
        ),
    )


def found(scene: Scene, way: str, rng: Random) -> list[Row]:
    """What a detector says of a scene that comes whole, in pieces, or in pieces with its state moved."""
    binding, detector = detector_of(scene)
    rows = rows_of(scene, rng)
    n_events = len(scene.times)
    frames = []
    if way == "whole":
        batch = batch_of(scene, binding, 0, n_events, rows)
        portions = _fresh(binding, 0).detect_whole(batch, scene.times[-1])
        frames += [_frame(binding, portion) for portion in portions]
    else:
        cuts = sorted(rng.sample(range(n_events), rng.randint(0, n_events - 1)))
        for first, end in pairwise(sorted({0, *cuts, n_events})):
            batch = batch_of(scene, binding, first, end, rows)
            frames.append(_frame(binding, detector.detect(batch)))
            if way == "moved" and rng.random() < 0.6:
                detector = moved(binding, detector, scene.times[end - 1], rng)
    return [row for frame in frames for row in frame.rows()]


def moved(binding: Binding, detector: Detector, now: int, rng: Random) -> Detector:
    """A detector with the state of another one, which was compacted before."""
    compacted = rng.random() < 0.8
    if compacted:
        detector.compact(now)
    state = detector.export_state([0])
    if compacted:
        damage = damage_of(binding, state)
        assert damage == Damage.NOTHING, Damage(damage).name
    other = _fresh(binding, 0)
    other.restore_state(
        replace(
            state,
            partitions=state.partitions.copy(),
            pool=state.pool.copy(),
            waiting=state.waiting.copy(),
        )
    )
    return other


def damage_of(binding: Binding, state: DetectorState) -> int:
    """What is wrong with a state."""
    words = (state.partitions.reshape(-1), state.pool, state.waiting)
    return check_state(binding.compiled.program, limits_of(binding, ()), words, 1)


def _frame(binding: Binding, words: np.ndarray) -> pl.DataFrame:
    return result_frame(
        binding.outputs, ResultRows(words, binding.compiled.output_words, pl.DataFrame(), {})
    )


# -- random scenes ---------------------------------------------------------------------------------
_WORDS = [
    "meets", "overlaps", "starts", "during", "finishes", "equals", "contains", "started-by",
    "finished-by", "overlapped-by", "met-by", "before", "after", "followed-by", "follows",
]  # fmt: skip
_SETS = [
    "overlaps; finished-by; contains", "starts; equals; started-by",
    "overlapped-by; finishes; during", "meets; overlaps; starts; during",
    "before; meets; overlaps", "after; met-by; overlapped-by", "before", "contains", "during",
    "overlaps; overlapped-by; starts; started-by; during; contains; finishes; finished-by; equals",
    "equals", "finishes; finished-by; equals",
]  # fmt: skip


def _relations(rng: Random, precise: bool) -> str:
    if rng.random() < 0.5:
        return rng.choice(_SETS)
    words = _WORDS if precise else _WORDS[:-2]
    return "; ".join(rng.sample(words, rng.randint(1, 5)))


def random_scene(seed: int) -> Scene | None:
    """Symbols of runs and of rows, at least one of the latter, in a tree or with a cycle.

    None where no intervals can be in these relations.
    """
    rng = Random(seed)
    names_ = "abcd"[: rng.choice([1, 2, 2, 2, 3, 3, 4])]
    of_rows = "".join(n for n in names_ if rng.random() < 0.7) or rng.choice(names_)
    known = rng.choice(["end", "start", "both", "mixed", "mixed"])
    length = rng.randint(4, 26)
    times = sorted(rng.sample(range(1, 40), length))
    rows = []
    for _ in range(rng.choice([3, 6, 10, 16])):
        start = rng.choice(times[:-1])
        ends = [t for t in times if t > start]
        near = ends[: rng.choice([1, 3, 8, 30])]
        end = rng.choice(near)
        how = rng.choice(["end", "start", "both"]) if known == "mixed" else known
        if how == "start" and rng.random() < 0.15:
            end = None
        symbols = "".join(n for n in of_rows if rng.random() < 0.6) or rng.choice(of_rows)
        value = rng.choice([None, *range(5)])
        rows.append(Given(start, end, symbols, how, value))
    runs = {}
    for name in names_:
        if name not in of_rows:
            holds, column = False, []
            for _ in times:
                holds = holds != (rng.random() < 0.4)
                column.append(holds)
            runs[name] = column
    precise = known in ("start", "both")
    edges = [(rng.choice(names_[:n]), names_[n]) for n in range(1, len(names_))]
    if len(names_) > 2 and rng.random() < 0.4:
        x, y = sorted(rng.sample(names_, 2))
        if (x, y) not in edges:
            edges.append((x, y))
    clauses = tuple(f"{x} {_relations(rng, precise)} {y}" for x, y in edges)
    bounds = {}
    for name in names_:
        if rng.random() < 0.25:
            bounds[name] = rng.choice(["AT LEAST 4", "AT MOST 6", "AT LEAST 3 AT MOST 9"])
    within = rng.choice([9, 15, 25, 100])
    emit = rng.choice(["TRIGGER", "TRIGGER", "COMPLETION", "BOTH"])
    scene = Scene(clauses, within, runs, times, rows, of_rows, emit, bounds)
    try:
        scene.query  # noqa: B018
    except ps.QueryError:
        return None
    return scene
