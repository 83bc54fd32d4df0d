"""Streams from lists of intervals, and the work that a detector does on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

import piestream as ps
from piestream.compiled.constants import NONE
from piestream.engine.stream import Stream
from piestream.joins.records import Program
from piestream.plan.binding import Binding, bind

__all__ = ["Counted", "Spans", "counted", "counted_frame", "stream_of"]

Spans = Mapping[str, Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Counted:
    """What was there to find, and the work it took."""

    runs: int
    pairs: int
    matches: int
    steps: int
    visits: int
    #: Steps of a detector of the same query that does not know what lies further on.
    blind_steps: int

    @property
    def found(self) -> int:
        """The size of what an output-sensitive method may spend."""
        return self.runs + self.pairs + self.matches

    @property
    def work(self) -> int:
        return self.steps + self.visits


def stream_of(spans: Spans) -> pl.DataFrame:
    """A boolean column for each symbol, with an event wherever one changes."""
    times = sorted({0, *(t for pairs in spans.values() for pair in pairs for t in pair)})
    place = {time: row for row, time in enumerate(times)}
    columns = {"ts": np.array(times, np.int64)}
    for name, pairs in spans.items():
        steps = np.zeros(len(times) + 1, np.int64)
        for start, end in pairs:
            assert start < end
            steps[place[start]] += 1
            steps[place[end]] -= 1
        holds = np.cumsum(steps)[:-1]
        assert holds.max(initial=0) <= 1, f"intervals of {name} overlap"
        columns[name] = holds > 0
    return pl.DataFrame(columns)


def counted(clauses: Sequence[str], spans: Spans, within: int) -> Counted:
    """`counted_frame` of the stream that has these intervals."""
    return counted_frame(clauses, stream_of(spans), within)


def counted_frame(clauses: Sequence[str], frame: pl.DataFrame, within: int) -> Counted:
    """Run a pattern with and without the semijoin reduction.

    Pairs are counted as the matches of each constraint, but for those of before and after, which are
    not entered as pairs; runs as the rises of the columns.
    """
    query = _query(" AND ".join(clauses), within)
    binding = bind(query, frame.schema)
    result, seeing = _run(binding, frame)
    blind_result, blind = _run(_blind(binding), frame)
    order = result.columns
    assert result.sort(order).equals(blind_result.sort(order))
    assert blind.detector.work.visits == 0
    for work in (seeing.detector.work, blind.detector.work):
        assert work.steps >= len(result)  # with three symbols, a match takes a step at least
    return Counted(
        runs=sum(_rises(frame[symbol.name]) for symbol in query.symbols),
        pairs=sum(_pairs(clause, frame, within) for clause in clauses),
        matches=len(result),
        steps=seeing.detector.work.steps,
        visits=seeing.detector.work.visits,
        blind_steps=blind.detector.work.steps,
    )


def _rises(holds: pl.Series) -> int:
    return int((holds & ~holds.shift(fill_value=False)).sum())


def _pairs(clause: str, frame: pl.DataFrame, within: int) -> int:
    x, *words, y = clause.replace(";", " ").split()
    near = [word for word in words if word not in ("before", "after")]
    return len(_query(f"{x} {';'.join(near)} {y}", within).run(frame)) if near else 0


def _query(pattern: str, within: int) -> ps.Query:
    words = pattern.replace(";", " ").split()
    names = sorted({word for word in words if len(word) == 1})  # symbols have one letter here
    defined = ", ".join(f"{name} AS {name}" for name in names)
    return ps.query(f"FROM s ORDER BY ts DEFINE {defined} PATTERN {pattern} WITHIN {within}")


def _run(binding: Binding, frame: pl.DataFrame) -> tuple[pl.DataFrame, Stream]:
    stream = Stream(binding, lateness=None)
    return pl.concat([stream.process(frame), stream.finish()]), stream


def _blind(binding: Binding) -> Binding:
    """The same query with nothing kept of what partners offer: every side is worth entering.

    Nor are the matches of independent sides repeated: each is walked to.
    """
    words = binding.compiled.program.copy()
    program = Program.over(words)
    for number in range(len(binding.compiled.join_orders.seeds)):
        seed = program.seeds[number]
        seed.independent = seed.step_end
    for number in range(program.n_symbols):
        symbol = program.symbols[number]
        symbol.bound_end = symbol.bound
    for number in range(program.n_constraints):
        for side in range(2):
            program.constraints[number].sides[side].bound = NONE
    return replace(binding, compiled=replace(binding.compiled, program=words))
