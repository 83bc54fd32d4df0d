"""piestream behind the signature of its peers, and all of them on one case.

piestream is run in two ways, both on one thread:

- ``piestream``: ``Query.run`` on a Polars frame with a Boolean column a symbol, predicates and the
  frame of matches included, as a user calls it;
- ``piestream-detector``: its detector alone on ready bits, which is what the peers get: they are
  handed times and masks of bits, and give arrays of matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import polars as pl

import piestream as ps
from experiments.baselines import BASELINES, Result, UnsupportedPatternError
from experiments.baselines.pattern import Ints, Pattern
from experiments.measure import Row, Size
from piestream.compiled.layout import ROW_OUTPUTS, ROW_TIME
from piestream.engine.detector import Batch, Detector
from piestream.plan.binding import Binding, bind
from piestream.plan.join_order import Estimate
from piestream.plan.program import write_plan
from piestream.relations import names

__all__ = [
    "DETECTOR",
    "ENGINE",
    "PAPER_SPARED",
    "Case",
    "counted",
    "prepared",
    "query_of",
    "title",
]

ENGINE, DETECTOR, JAVA = "piestream", "piestream-detector", "java"
#: The paper's method spared the events at which no predicate changes, which its text is not.
PAPER_SPARED = "piestream-paper-spared"

_TITLES = {
    ENGINE: "piestream, whole query",
    DETECTOR: "piestream, detector",
    PAPER_SPARED: "its paper, repeats skipped",
}


def title(peer: str) -> str:
    """What a figure calls a peer.

    >>> title("iseq")
    'ISEQ with punctuations'
    """
    return _TITLES.get(peer) or BASELINES[peer].title


def query_of(pattern: Pattern, emit: str = "") -> ps.Query:
    """A pattern over bits as a query over the Boolean columns ``a1``, ``a2``, … and ``ts``.

    >>> from piestream.relations import Relation
    >>> print(query_of(Pattern(2, ((0, 1, Relation.MEETS),), 9)).within)
    9
    """
    symbols = [f"a{at + 1}" for at in range(pattern.n_symbols)]
    defined = []
    for name, least, most in zip(symbols, pattern.at_least, pattern.at_most, strict=True):
        duration = f" AT LEAST {least}" if least else ""
        if most is not None:
            if least:
                raise UnsupportedPatternError("both bounds on a duration: no experiment has them")
            duration = f" AT MOST {most}"
        defined.append(f"{name} AS {name}{duration}")
    clauses = [f"a{x + 1} {';'.join(names(r))} a{y + 1}" for x, y, r in pattern.constraints]
    return ps.query(
        f"FROM s ORDER BY ts DEFINE {', '.join(defined)} "
        f"PATTERN {' AND '.join(clauses) or 'a1'} WITHIN {pattern.window} {emit} "
        f"RETURN {', '.join(f'{name}.ts' for name in symbols)}"
    )


@dataclass(frozen=True)
class Case:
    """A pattern over one partition of a stream, in the forms in which the peers take it."""

    pattern: Pattern
    times: Ints
    masks: Ints

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The stream as a user has it."""
        truths = {
            f"a{at + 1}": (self.masks >> at & 1).astype(np.bool_)
            for at in range(self.pattern.n_symbols)
        }
        return pl.DataFrame({"ts": self.times, **truths})

    @cached_property
    def query(self) -> ps.Query:
        """The pattern as a user writes it."""
        return query_of(self.pattern)

    @cached_property
    def binding(self) -> Binding:
        """The query's compiled tables."""
        return bind(self.query, dict(self.frame.schema))

    @cached_property
    def bits(self) -> np.ndarray:
        """A bit a row for each symbol, 64 rows a word: what predicates are for the detector."""
        rows = []
        for at in range(self.pattern.n_symbols):
            packed = np.packbits((self.masks >> at & 1).astype(np.uint8), bitorder="little")
            padded = np.zeros(-(-len(self.masks) // 64) * 8, np.uint8)
            padded[: packed.size] = packed
            rows.append(padded.view(np.uint64))
        return np.array(rows)

    def run(self, peer: str, keep: bool = True) -> Result:
        """What a peer finds. (The SQL and Polars peers and piestream always keep matches.)"""
        if peer == ENGINE:
            found = self.query.run(self.frame, threads=1)
            return Result(np.empty((0, 0), np.int64), len(found), {"events": len(self.times)})
        if peer == DETECTOR:
            return self.detect()
        if peer == PAPER_SPARED:
            return BASELINES["piestream-paper"].run(
                self.pattern, self.times, self.masks, keep=keep, skip_repeats=True
            )
        kept = keep and peer != JAVA
        return BASELINES[peer].run(self.pattern, self.times, self.masks, keep=kept)

    def matches(self, peer: str) -> Ints:
        """Report times and starts, in the form of the baselines."""
        if peer == ENGINE:
            found: Ints = self.query.run(self.frame, threads=1).to_numpy().astype(np.int64)
            return found
        if peer == DETECTOR:
            return self.shaped(self.detect().matches)
        return self.run(peer).matches

    def shaped(self, rows: Ints) -> Ints:
        """The detector's own rows of words as report times and starts."""
        chosen: Ints = rows[
            :, [ROW_TIME, *range(ROW_OUTPUTS, ROW_OUTPUTS + self.pattern.n_symbols)]
        ]
        return chosen

    def ordered(self, order: tuple[int, ...]) -> Ints:
        """The detector's tables when symbols are joined in this order wherever there is a choice."""
        code: Ints = self.binding.tables.code.copy()
        plan = self.binding.tables.plan
        rank = {symbol: 10.0 ** (2 * at) for at, symbol in enumerate(order)}
        partners = {
            (number, side, of_seed): rank[edge.y if side == 0 else edge.x]
            for number, edge in enumerate(plan.edges)
            for side in (0, 1)
            for of_seed in (False, True)
        }
        write_plan(code, plan, Estimate(partners))
        return code

    def detect(self, pieces: int = 1, keep: bool = True, ordered: Ints | None = None) -> Result:
        """piestream's detector alone; in several pieces, so that its state can be looked at
        and its plan can change; or with tables in which the order is fixed (see `ordered`).

        The matches are the detector's own rows (see `shaped`), which have two words more.
        Counters: ``steps`` and ``visits`` (see `piestream.engine.detector.Work`), and with several pieces
        ``peak_intervals`` and ``peak_bytes``, the most that was held between two of them.
        """
        detector = Detector(self.binding.tables, self.binding.bit_of_symbol)
        if ordered is not None:
            detector.code = ordered.copy()
            detector.adapts = False
        only = detector.add_partitions(1)
        found, count, peak_intervals, peak_bytes = [], 0, 0, 0
        nothing, unknown = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.uint8)
        # Pieces begin at whole words of bits.
        length = (
            max(-(-len(self.times) // pieces + 63) // 64 * 64, 64)
            if pieces > 1
            else (max(len(self.times), 1))
        )
        for first in range(0, len(self.times), length):
            times = self.times[first : first + length]
            bits = np.ascontiguousarray(self.bits[:, first // 64 : -(-(first + length) // 64)])
            offsets = np.array([0, len(times)], np.int64)
            rows = detector.detect(Batch(only, offsets, times, bits, nothing, unknown))
            count += len(rows)
            if keep and len(rows):
                found.append(rows)
            if pieces > 1:
                peak_bytes = max(peak_bytes, detector.state_bytes())
                peak_intervals = max(peak_intervals, detector.live_intervals())
        width = ROW_OUTPUTS + self.pattern.n_symbols
        if len(found) == 1:
            matches = found[0]
        else:
            matches = np.concatenate([np.empty((0, width), np.int64), *found])
        counters = {
            "events": len(self.times),
            "steps": detector.work.steps,
            "visits": detector.work.visits,
            "peak_intervals": peak_intervals,
            "peak_bytes": peak_bytes,
        }
        return Result(matches, count, counters)


def prepared(case: Case, peer: str) -> Callable[[], Result]:
    """A run of a peer, after a short one that loads what has to be loaded, and its input made."""
    few = Case(case.pattern, case.times[:1_000], case.masks[:1_000])
    if peer != JAVA:
        few.run(peer)
    if peer == ENGINE:
        case.query, case.frame  # noqa: B018
    elif peer == DETECTOR:
        case.binding, case.bits  # noqa: B018
    return partial(case.run, peer)


def counted(case: Case, peer: str, size: Size, result: Result) -> Row:
    """What a run is known by besides its time and memory."""
    row: Row = {"matches": result.count, "work": _work(peer, result)}
    row["peak_stored"] = result.counters.get("peak_stored", 0)
    if peer == DETECTOR and size is not Size.TINY:
        pieces = max(10, min(len(case.times) // 2_000, 100))
        held = case.detect(pieces=pieces, keep=False).counters
        row |= {"peak_stored": held["peak_intervals"], "peak_bytes": held["peak_bytes"]}
    if peer == JAVA:  # a process of its own, by its own clock
        row |= {"cpu_s": result.seconds, "cpu_median": result.seconds, "peak_growth_bytes": None}
    return row


def _work(peer: str, result: Result) -> int:
    """The steps of a method, whatever the clock says."""
    kinds = (
        ("steps", "visits")
        if peer == DETECTOR
        else (("probes", "subsets", "steps", "pairs", "partial_results"))
    )
    return sum(int(result.counters.get(kind, 0)) for kind in kinds)
