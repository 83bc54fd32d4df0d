"""What experiments use of the engine that is not its public interface.

Whoever changes the engine's insides finds all uses of them by experiments here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
from numba import njit

import piestream as ps
from experiments.pace import Ints, await_due, room_of
from piestream.adapters.files import CHUNK_ROWS
from piestream.automata import LL as LATEST_LATEST
from piestream.automata import LP as LATEST_PREVIOUS
from piestream.automata import PL as PREVIOUS_LATEST
from piestream.automata import compile_pair, read_by_automaton
from piestream.compiled.constants import INT64_MIN, NONE
from piestream.engine.batches import Batch
from piestream.engine.calls import Workroom
from piestream.engine.detector import Detector
from piestream.engine.stream import Stream
from piestream.joins.batch import detect
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.result_rows import ResultRow
from piestream.language.options import SparkOptions
from piestream.plan.binding import Binding, bind
from piestream.plan.join_order import Estimate, JoinOrders, Step, StepTable
from piestream.plan.program import write_join_orders
from piestream.relations import Relation

__all__ = [
    "LATEST_LATEST",
    "LATEST_PREVIOUS",
    "PREVIOUS_LATEST",
    "Binding",
    "Detected",
    "PhaseRun",
    "bind_query",
    "bucket_step",
    "detect_bits",
    "detect_paced",
    "every_order",
    "idle_bucket_step",
    "orders_taken",
    "pairs_only",
    "relation_machine",
    "relations_of_automata",
    "reports_and_outputs",
    "run_in_session",
    "run_whole",
    "spark_buckets",
    "warm_adaption",
    "with_order",
]


def bind_query(query: ps.Query, schema: Mapping[str, Any]) -> Binding:
    """A query compiled for the schema of its input."""
    return bind(query, dict(schema))


#: Where the time of the report and the words of RETURN begin in a result row.
_TIME, _OUTPUTS = (ResultRow.offset(field) for field in ("time", "outputs"))


# -- the detector on packed bits --------------------------------------------------------------------


@dataclass(frozen=True)
class Detected:
    """What the detector found, as its own rows (see `reports_and_outputs`), and its work."""

    rows: Ints
    count: int
    counters: Mapping[str, int]


def detect_bits(
    binding: Binding,
    times: Ints,
    bits: np.ndarray,
    *,
    piece: int | None = None,
    keep: bool = True,
    adapts: bool = True,
) -> Detected:
    """The detector alone on ready bits of one partition.

    In pieces of so many events (in whole words of 64) its state can be looked at, and its join order
    changed, between two of them. Counters: ``steps`` and ``visits``, the work of the joins, and in
    pieces ``peak_stored`` and ``peak_bytes``, the most that was held between two of them.
    """
    detector = Detector(binding.compiled, binding.bit_of_symbol)
    detector.adaption.enabled &= adapts
    only = detector.add_partitions(1)
    no_columns, no_flags = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.uint8)
    found, count, peak_intervals, peak_bytes = [], 0, 0, 0
    # Pieces begin at whole words of bits.
    length = max(-(-(piece or len(times)) // 64) * 64, 64)
    for first in range(0, len(times), length):
        of_piece = times[first : first + length]
        words = np.ascontiguousarray(bits[:, first // 64 : -(-(first + length) // 64)])
        offsets = np.array([0, len(of_piece)], np.int64)
        rows = detector.detect(Batch(only, offsets, of_piece, words, no_columns, no_flags))
        count += len(rows)
        if keep and len(rows):
            found.append(rows)
        if piece is not None:
            peak_bytes = max(peak_bytes, detector.state_bytes())
            peak_intervals = max(peak_intervals, detector.live_intervals())
    if len(found) != 1:
        found = [np.concatenate([np.empty((0, detector.result_columns), np.int64), *found])]
    counters = {"steps": detector.work.steps, "visits": detector.work.visits}
    if piece is not None:
        counters |= {"peak_stored": peak_intervals, "peak_bytes": peak_bytes}
    return Detected(found[0], count, counters)


#: A query that adapts: ranges in a cycle.
_ADAPTING = """
    FROM s ORDER BY ts DEFINE a AS a, b AS b, c AS c
    PATTERN a before b AND a before c AND b before c WITHIN 9 RETURN a.ts
"""


@cache
def warm_adaption() -> bool:
    """Load the loop with which queries look at their live state to order their joins; True if there is one.

    It is one for all queries. The first look comes after half a million steps of extension: there it would
    be compiled, or read from disk, inside the clock.
    """
    schema = {"ts": pl.Int64(), **dict.fromkeys("abc", pl.Boolean())}
    binding = bind(ps.query(_ADAPTING), schema)
    detector = Detector(binding.compiled, binding.bit_of_symbol)
    numbers = detector.add_partitions(1)
    detector.adaption.sampled(detector.partitions.words, detector.pool, numbers)
    return detector.adaption.enabled


def reports_and_outputs(rows: Ints) -> Ints:
    """Of the detector's rows, the time of the report and the words of RETURN."""
    chosen: Ints = rows[:, [_TIME, *range(_OUTPUTS, rows.shape[1])]]
    return chosen


# -- one event after another, at a pace ---------------------------------------------------------------


def detect_paced(binding: Binding, times: Ints, masks: Ints, pace: Ints) -> Ints:
    """The detector in a compiled loop that waits for each event; reports and words of RETURN."""
    detector = Detector(binding.compiled, binding.bit_of_symbol)
    detector.add_partitions(1)
    assert detector.ignores_unchanged
    of_symbol = np.zeros(len(masks), np.int64)
    for symbol, bit in enumerate(binding.bit_of_symbol):
        of_symbol |= (masks >> bit & 1) << symbol
    state = (detector.partitions.words, detector.pool, detector.waiting)
    workroom = Workroom(detector.program)
    room = (workroom.scratch, workroom.matches, np.empty(1 << 10, np.int64))
    found: Ints = _detect_each(
        detector.program, state, room, detector.result_columns, times, of_symbol, pace
    )
    return found


_MASK, _DUE, _LAST_TIME = (Partition.offset(field) for field in ("mask", "due", "last_time"))


# Not kept on disk: Numba would not notice a change in the loops of the package.
@njit(nogil=True)
def _detect_each(
    program: Ints,
    state: tuple[Ints, Ints, Ints],
    room: tuple[Ints, Ints, Ints],
    columns: int,
    times: Ints,
    masks: Ints,
    pace: Ints,
) -> Ints:
    """What `Detector.detect_event` does, without the way through Python."""
    partition, pool, waiting = state
    clock = np.zeros(3, np.int64)
    out = np.empty((room_of(pace), 1 + columns - _OUTPUTS), np.int64)
    reported = 0
    numbers, row_of = np.zeros(1, np.int64), np.zeros(1, np.int64)
    offsets = np.array([0, 1], np.int64)
    values, known = np.zeros((0, 1), np.int64), np.zeros((0, 1), np.uint8)
    scratch, found, rows = room
    for row in range(len(times)):
        await_due(pace, row, clock)
        if partition[_MASK] == masks[row] and partition[_DUE] > times[row]:
            partition[_LAST_TIME] = times[row]
            continue
        pool, waiting, found, rows, count, _, _, _ = detect(
            program, (partition, pool, waiting),
            (numbers, offsets, times[row : row + 1], values, known),
            (row_of, masks[row : row + 1], offsets), INT64_MIN, (scratch, found, rows), False, False,
        )  # fmt: skip
        length = rows.size // columns
        for match in range(count):
            out[reported, 0] = rows[_TIME * length + match]
            for word in range(columns - _OUTPUTS):
                out[reported, 1 + word] = rows[(_OUTPUTS + word) * length + match]
            reported += 1
    await_due(pace, len(times), clock)
    return out[:reported]


# -- join orders -------------------------------------------------------------------------------------


def _with_program(binding: Binding, program: Ints, **changes: Any) -> Binding:
    return replace(binding, compiled=replace(binding.compiled, program=program, **changes))


def with_order(binding: Binding, order: Sequence[int]) -> Binding:
    """The same query, its symbols joined in this order wherever there is a choice."""
    program: Ints = binding.compiled.program.copy()
    join_orders = binding.compiled.join_orders
    rank = {symbol: 10.0 ** (2 * at) for at, symbol in enumerate(order)}
    partners = {
        (number, side, of_seed): rank[edge.y if side == 0 else edge.x]
        for number, edge in enumerate(join_orders.edges)
        for side in (0, 1)
        for of_seed in (False, True)
    }
    write_join_orders(program, join_orders, Estimate(partners))
    return _with_program(binding, program)


class _Ranked(JoinOrders):
    """Join orders by rank, whatever the live state is.

    Next comes the symbol of lowest rank that a constraint connects, through the constraint of
    lowest rank.
    """

    def __init__(
        self, orders: JoinOrders, symbols: Sequence[int], constraints: Sequence[int]
    ) -> None:
        super().__init__(orders.edges, orders.same_predicate_pairs)
        self.seeds = orders.seeds
        self.adaptive = False
        self.symbols = symbols
        self.constraints = constraints

    def tables(self, estimate: Estimate) -> list[StepTable]:
        """The steps of every seed as rows."""
        return [np.array(self._ranked(bound), np.uint64) for bound in self.seeds.values()]

    def _ranked(self, bound: Sequence[int]) -> tuple[Step, ...]:
        done = list(bound)
        steps = []
        for _ in range(len(self.symbols) - len(done)):
            near = {
                edge.other(s) for edge in self.edges for s in done if s in (edge.x, edge.y)
            } - {*done}  # fmt: skip
            target = min(near, key=self.symbols.index)
            via, *others = (
                number
                for number in self.constraints
                if target in (self.edges[number].x, self.edges[number].y)
                and self.edges[number].other(target) in done
            )
            source = self.edges[via].other(target)
            checked = sum(1 << self.edges[e].other(target) for e in others)
            steps.append(Step(target, via, self.edges[via].side(source), checked, 0))
            done.append(target)
        return tuple(steps)


def every_order(adaptive: Binding) -> Mapping[str, Binding]:
    """Every fixed join order of a query that differs from the others, by a name for it."""
    orders = adaptive.compiled.join_orders
    names = [symbol.name for symbol in adaptive.query.symbols]
    pairs = [f"{names[edge.x]}{names[edge.y]}" for edge in orders.edges]
    found: dict[bytes, tuple[str, Binding]] = {}
    for symbols in permutations(range(len(names))):
        for constraints in permutations(range(len(pairs))):
            fixed = _Ranked(orders, symbols, constraints)
            program = adaptive.compiled.program.copy()
            write_join_orders(program, fixed, Estimate())
            name = f"{''.join(names[s] for s in symbols)} by {', '.join(pairs[c] for c in constraints)}"
            same = _with_program(adaptive, program, join_orders=fixed)
            found.setdefault(program.tobytes(), (name, same))
    return dict(found.values())


def orders_taken(binding: Binding, pushes: Iterable[pl.DataFrame]) -> list[Ints]:
    """The program with which each push of an adapting run is processed."""
    stream = Stream(binding, lateness=0)
    taken = []
    for rows in pushes:
        taken.append(stream.detector.program.copy())
        stream.process(rows)
    return taken


@dataclass(frozen=True)
class PhaseRun:
    """What one phase of a stream took."""

    matches: int
    steps: int
    cpu: float
    #: CPU seconds of looking at the live state and ordering anew.
    planning: float


def run_in_session(
    binding: Binding, phases: Sequence[Sequence[pl.DataFrame]], programs: Sequence[Ints] = ()
) -> list[PhaseRun]:
    """The pushes of several phases through one stream.

    With ``programs``, one a push, these are used and the join order does not adapt.
    """
    stream = Stream(binding, lateness=0)
    detector = stream.detector
    adaption: Any = detector.adaption
    adaption.enabled &= not programs
    given = iter(programs)
    adapt = adaption.adapt
    spent = 0.0

    def timed_adapt(*arguments: Any) -> None:
        nonlocal spent
        before = time.thread_time()
        adapt(*arguments)
        spent += time.thread_time() - before

    adaption.adapt = timed_adapt
    found = []
    for pushes in phases:
        steps, spent, matches = detector.work.steps, 0.0, 0
        before = time.process_time()
        for rows in pushes:
            detector.program[:] = next(given, detector.program)
            matches += len(stream.process(rows))
        cpu = time.process_time() - before
        found.append(PhaseRun(matches, detector.work.steps - steps, cpu, spent))
    return found


# -- intervals and pairs alone -----------------------------------------------------------------------


def pairs_only(binding: Binding) -> Binding:
    """The query without extension and without bounds on what can be completed.

    It finds every interval and enters every pair, once, and does nothing else.
    """
    words = binding.compiled.program.copy()
    program = Program.over(words)
    for number in range(program.n_symbols):
        symbol = program.symbols[number]
        symbol.seed = NONE
        symbol.bound_end = symbol.bound
    for number in range(program.n_constraints):
        constraint = program.constraints[number]
        constraint.seed = NONE
        for side in range(2):
            constraint.sides[side].bound = NONE
    return _with_program(binding, words)


def run_whole(binding: Binding, frame: pl.DataFrame) -> int:
    """How many matches a bound query finds in a bounded frame, taken in chunks."""
    stream = Stream(binding, lateness=None)
    found = sum(len(stream.process(chunk)) for chunk in frame.iter_slices(CHUNK_ROWS))
    return found + len(stream.finish())


# -- automata of single relations ----------------------------------------------------------------------


def relation_machine(relation: Relation) -> tuple[Ints, Ints]:
    """The automaton of one relation: the next state by state and letter, and what is found then.

    What is found is a sum of `LATEST_LATEST`, `PREVIOUS_LATEST` and `LATEST_PREVIOUS`: which
    intervals of x and of y make the pair.
    """
    machine = compile_pair(relation)
    return machine.next_state.astype(np.int64), machine.decides.astype(np.int64)


def relations_of_automata(relations: Relation) -> list[Relation]:
    """Which relations of a set an automaton reads; the others need lists of ended intervals."""
    return [relation for relation in Relation if relation & read_by_automaton(relations)]


# -- on Spark ------------------------------------------------------------------------------------------


def spark_buckets() -> int:
    """Into how many buckets of state the keys of a stream go."""
    return SparkOptions().buckets


def idle_bucket_step(state_bytes: int) -> type:
    """What the engine does on a Spark stream, less the engine.

    It reads its rows, keeps a state of so many bytes a bucket, and gives no result. The class is made
    here so that it is sent to the workers by value: they do not know this package.
    """
    from piestream.spark.state import BucketStep

    class Idle(BucketStep):
        def __call__(self, key: tuple[Any, ...], frames: Iterable[Any], state: Any) -> Any:
            for frame in frames:
                len(frame)
            if state.exists:
                len(state.get[0])
            # Spark compresses states, and piestream's are packed already
            state.update((np.random.default_rng(key[0]).bytes(state_bytes),))
            state.setTimeoutTimestamp(int(state.getCurrentWatermarkMs()) + 3_600_000)
            return iter(())

    return Idle


@contextmanager
def bucket_step(step: type | None) -> Iterator[None]:
    """While it is entered, Spark streams work with this step; None: with the engine's own."""
    streaming: Any = import_module("piestream.spark.streaming")
    own = streaming.BucketStep
    streaming.BucketStep = step or own
    try:
        yield
    finally:
        streaming.BucketStep = own
