"""The program: a query as the compiled loops read it, one array of records (`joins.records`).

`plan/compiler.py` makes it of a query. Its join orders are written here, also while it is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from piestream.intervals import aggregates
from piestream.joins import records
from piestream.joins.records import (
    Program,
)
from piestream.joins.waiting import WaitingStore
from piestream.language.model import Query
from piestream.plan.join_order import (
    Estimate,
    JoinOrders,
    Step,
)

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Kept:
    """For how many ticks intervals of a symbol are kept: from their starts, or after their ends."""

    length: int
    after_end: bool = False


@dataclass(frozen=True, slots=True)
class Ticks:
    """The durations of a query in ticks of its time column; None where there is none."""

    within: int  # the longest time for which intervals of some symbol are kept
    max_gap: int | None
    at_least: tuple[int | None, ...]
    at_most: tuple[int | None, ...]
    cooldown: int | None = None
    distances: tuple[tuple[int, ...], ...] = ()  # of each constraint
    kept: tuple[Kept, ...] = ()  # of each symbol
    bridging: tuple[int | None, ...] = ()
    #: Of each absence and each of its constraints.
    absent_distances: tuple[tuple[tuple[int, ...], ...], ...] = ()
    absent: frozenset[int] = frozenset()  # the numbers of the absent symbols
    #: Of these, the silences whose least length is a tick more than what they are longer than.
    longer: frozenset[int] = frozenset()
    #: Of each symbol that is absent, and a silence, what it is longer than.
    silences: tuple[int | None, ...] = ()

    #: Of each absent symbol whose intervals may become known later than they end: how late.
    late: tuple[int | None, ...] = ()

    @property
    def looks_back(self) -> int | None:
        """How long before its report a match may begin; None where nothing bounds that.

        What is absent has ended no longer ago than that, where it counts.
        """
        present = [kept for s, kept in enumerate(self.kept) if s not in self.absent]
        return None if any(kept.after_end for kept in present) else self.within


@dataclass(frozen=True, slots=True)
class Cell:
    """One running aggregate: of which symbol, which kind (intervals.aggregates), which column."""

    symbol: int
    kind: aggregates.CellKind
    column: int


@dataclass(frozen=True, slots=True)
class OutputWord:
    """A word that a result row needs.

    ``what``: "ts" and "te"; "start", "end" and "report", the same as instants; "number" (of a row);
    "since"; a Cell; "follows", or "followed": the end of an interval that this one follows.
    """

    symbol: int
    what: str | Cell
    part: int = 0  # which word of a cell
    other: int = 0  # of these two: the symbol that this one may follow immediately
    at_trigger: bool = False  # the word as it was at the trigger, also when the match is complete


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality of values of two symbols that their intervals have from their start."""

    x: Cell  # FIRST of a column of one symbol
    y: Cell


def counted_streams(query: Query) -> list[int]:
    """The streams whose events are counted for bounds on EVENTS, if there are several streams."""
    if not query.is_combined:
        return []
    bounded = (s for s in query.symbols if (s.at_least_events, s.at_most_events) != (None, None))
    return sorted({symbol.stream for symbol in bounded})


def numbers_instants(query: Query) -> bool:
    """Whether instants are numbered by their times (`engine.instant_numbers`).

    So where events of one time are told apart beside intervals that start and end between events,
    and where MAX GAP ends what one of several streams has, which is no event of theirs.
    """
    several = query.is_sequenced and query.is_combined
    return several and any(s.is_ready_made or s.max_gap for s in query.streams)


@dataclass(frozen=True)
class CompiledQuery:
    """A query's program, and where in a result row each output word is."""

    program: Words = field(repr=False)
    output_words: Mapping[OutputWord, int]
    ticks: Ticks
    join_orders: JoinOrders = field(repr=False)
    keys: tuple[JoinKey, ...] = ()

    def __deepcopy__(self, memo: object) -> CompiledQuery:
        return self  # it never changes

    @property
    def steps(self) -> Mapping[str, tuple[Step, ...]]:
        """How a match is completed, by what was decided last, before anything has been seen."""
        return self.join_orders.steps(Estimate())

    @property
    def partition_words(self) -> int:
        """How many words a partition takes."""
        return Program.over(self.program).partition_words

    @property
    def interval_words(self) -> tuple[int, ...]:
        """How many words an interval of each symbol takes."""
        header = Program.over(self.program)
        return tuple(header.symbols[symbol].width for symbol in range(header.n_symbols))

    @property
    def waiting_match_words(self) -> int:
        """How many words a match takes that waits for its completion."""
        store = WaitingStore.over(np.zeros(0, np.int64), program=Program.over(self.program))
        return int(store.match_words())

    @property
    def awaited_match_words(self) -> int:
        """How many words a match takes whose absences are not decided yet."""
        return Program.over(self.program).awaited_width

    @property
    def given_match_words(self) -> int:
        """How many words a match takes that ONCE PER remembers."""
        return Program.over(self.program).given_width

    def same_layout(self, other: CompiledQuery) -> bool:
        """Whether state and result rows of one can be read by the other."""
        places = [*self.output_words.values()], [*other.output_words.values()]
        return self.program.size == other.program.size and places[0] == places[1]


def write_join_orders(program: Words, join_orders: JoinOrders, estimate: Estimate) -> None:
    """Put the steps that suit an estimate into a program; their number is always the same."""
    tables = join_orders.tables(estimate)
    rows = np.concatenate([np.zeros((0, len(Step._fields)), np.uint64), *tables])
    targets, constraints, sides, checked, keyed = np.ascontiguousarray(rows.T)
    steps = Program.table_of(program, "steps").reshape(-1, records.Step.size)
    records.Step.column_of(steps, "join")[:] = 2 * constraints + sides
    records.Step.column_of(steps, "checked")[:] = checked.view(np.int64)
    records.Step.column_of(steps, "keyed")[:] = keyed.view(np.int64)
    ends = np.cumsum([0, *map(len, tables)])
    sources = np.array([(edge.x, edge.y) for edge in join_orders.edges], np.uint64)
    needed = checked | keyed | np.uint64(1) << sources.reshape(-1, 2)[constraints, sides]
    seeds = Program.table_of(program, "seeds").reshape(-1, records.Seed.size)
    records.Seed.column_of(seeds, "step")[:] = ends[:-1]
    records.Seed.column_of(seeds, "step_end")[:] = ends[1:]
    records.Seed.column_of(seeds, "independent")[:] = [
        first + independent_suffix(targets[first:end], needed[first:end])
        for first, end in pairwise(ends.tolist())
    ]


def independent_suffix(targets: NDArray[np.uint64], needed: NDArray[np.uint64]) -> int:
    """The first step from which on none needs a symbol that the steps before it bound.

    The matches are then the product of what these find and of what those before them find.
    ``needed`` has the symbols, a bit each, that a step looks at.
    """
    earlier = np.bitwise_or.accumulate(np.uint64(1) << targets)[:-1]
    later = np.bitwise_or.accumulate(needed[::-1])[::-1][1:]
    independent = np.flatnonzero((earlier & later) == 0)
    return 1 + int(independent[0]) if independent.size else len(targets)
