"""The program: a query as the compiled loops read it, one array of records (`joins.records`).

`plan/compiler.py` makes it of a query. Its join orders are written here, also while it is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.constants import NONE
from piestream.intervals import aggregates
from piestream.joins import records
from piestream.joins.records import (
    Program,
)
from piestream.joins.waiting import WaitingStore
from piestream.plan.join_order import (
    Check,
    Estimate,
    JoinOrders,
    Step,
    independent_suffix,
)

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ticks:
    """The durations of a query in ticks of its time column; None where there is none."""

    within: int
    max_gap: int | None
    at_least: tuple[int | None, ...]
    at_most: tuple[int | None, ...]
    cooldown: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One running aggregate: of which symbol, which kind (intervals.aggregates), which column."""

    symbol: int
    kind: aggregates.CellKind
    column: int


@dataclass(frozen=True, slots=True)
class OutputWord:
    """A word that a result row needs. ``what``: "ts", "te", "number" (of a row), a Cell or "follows"."""

    symbol: int
    what: str | Cell
    part: int = 0  # which word of a cell
    other: int = 0  # of "follows": the symbol that this one may follow immediately
    at_trigger: bool = False  # the word as it was at the trigger, also when the match is complete


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality of values of two symbols that their intervals have from their start."""

    x: Cell  # FIRST of a column of one symbol
    y: Cell


@dataclass(frozen=True)
class CompiledQuery:
    """A query's program, and where in a result row each output word is."""

    program: Words = field(repr=False)
    output_words: Mapping[OutputWord, int]
    ticks: Ticks
    join_orders: JoinOrders = field(repr=False)
    keys: tuple[JoinKey, ...] = ()

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
    def given_match_words(self) -> int:
        """How many words a match takes that ONCE PER remembers."""
        return Program.over(self.program).given_width

    def same_layout(self, other: CompiledQuery) -> bool:
        """Whether state and result rows of one can be read by the other."""
        places = [*self.output_words.values()], [*other.output_words.values()]
        return self.program.size == other.program.size and places[0] == places[1]


def write_join_orders(program: Words, join_orders: JoinOrders, estimate: Estimate) -> None:
    """Put the steps that suit an estimate into a program; their number is always the same."""
    view = Program.over(program)

    @cache
    def bind(constraint: int, side: int) -> list[int]:
        """A step that binds the other side of a constraint, but for its checks."""
        entry = view.constraints[constraint]
        source, target = entry.sides[side], entry.sides[1 - side]
        return records.Step.packed(
            source=entry.symbols[side],
            target=entry.symbols[1 - side],
            width=view.symbols[entry.symbols[1 - side]].width,
            partners=source.partners,
            last_ended_before=source.last_ended_before,
            first_starting_after=source.first_starting_after,
            scan=source.scan,
            allowed=source.allowed,
            target_last_ended_before=target.last_ended_before,
            key=source.key,
            latest_with_key=source.latest_with_key,
            target_key=target.key,
            bucket=target.bucket,
            chain=target.chain,
            constraint=constraint,
            side=side,
            listed=entry.listed != NONE,
            allows_earlier=source.allows_earlier,
            allows_later=source.allows_later,
            check=0,
            check_end=0,
        )

    @cache
    def packed(check: Check) -> tuple[int, ...]:
        side = check.side
        keys = NONE if check.equal_keys is None else check.equal_keys
        if check.constraint is None and keys == NONE:
            side = records.RowSlot.offset("number" if view.rows >> check.other & 1 else "start")
        return tuple(
            records.Check.packed(
                constraint=NONE if check.constraint is None else check.constraint,
                side=side,
                other=check.other,
                equal_keys=keys,
            )
        )

    seeds: list[list[int]] = []
    steps: list[list[int]] = []
    checks: list[Words] = []
    ends_of_checks = [0]
    orders = join_orders.steps(estimate)
    checks_of: dict[int, Words] = {}  # by the identity of a step, for many orders share steps
    for order in orders.values():
        first = len(steps)
        for step in order:
            steps.append(bind(step.constraint, step.side))
            ends_of_checks.append(ends_of_checks[-1] + len(step.checks))
            if id(step) not in checks_of:
                packed_checks = [packed(c) for c in step.checks]
                checks_of[id(step)] = np.array(packed_checks, np.int64).reshape(-1)
            checks.append(checks_of[id(step)])
        independent = first + independent_suffix(order, join_orders.edges)
        ends = {"step": first, "step_end": len(steps), "independent": independent}
        seeds.append(records.Seed.packed(**ends))
    step_rows = np.array(steps, np.int64).reshape(-1, records.Step.size)
    records.Step.column_of(step_rows, "check")[:] = ends_of_checks[:-1]
    records.Step.column_of(step_rows, "check_end")[:] = ends_of_checks[1:]
    Program.table_of(program, "steps")[:] = step_rows.reshape(-1)
    Program.table_of(program, "seeds")[:] = np.array(seeds, np.int64).reshape(-1)
    if checks:
        np.concatenate(checks, out=Program.table_of(program, "checks"))
