"""Boolean streams that alternate gaps and situations, the load generator of TPStream 6.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["booleans", "booleans_chunks"]

#: Shortest and longest length in seconds, both included.
Bounds = tuple[int, int]
#: One pair of bounds for all symbols, or one for each symbol.
BoundsOfSymbols: TypeAlias = Bounds | Sequence[Bounds]
#: ``(first event, ratios)``: from that event on, the symbols occur in these proportions.
Phase = tuple[int, Sequence[float]]

#: Gap-and-situation pairs drawn at a time. The stream does not depend on it.
_PAIRS_A_DRAW = 4096


def booleans(
    symbols: int = 4,
    events: int = 1_000_000,
    seed: int = 0,
    situation: BoundsOfSymbols = (10, 100),
    gap: BoundsOfSymbols = (10, 50),
    kind: Literal["bool", "int8"] = "bool",
    *,
    ratios: Sequence[float] | None = None,
    phases: Sequence[Phase] | None = None,
) -> pl.DataFrame:
    """Columns ``a1 … an`` that are true for a while and false for a while, at one event a second.

    Each column alternates a gap and a situation (a run of true), independently of the others and
    starting in a gap. Lengths are uniform over the whole numbers of ``gap`` and ``situation``,
    both ends included (TPStream, section 6.1; Körber 2021, section 5.7.1). The last run is cut
    off by the end of the stream. A column depends on its seed, its number and its own bounds
    only: more symbols or more events leave what was there as it was.

    :param situation: bounds in seconds, or one pair of bounds for each symbol.
    :param gap: the same for the gaps.
    :param kind: ``"bool"``, or ``"int8"`` for columns of 0 and 1.
    :param ratios: how often the symbols occur in proportion to each other. ``(1, 50, 50)`` keeps
        the bounds of the two most frequent symbols and makes all gaps and situations of the first
        one 50 times as long, so that it is true for the same share of the time as before.
    :param phases: ``((0, (1, 1, 1)), (100_000_000, (1, 50, 50)))``: ratios that change on the way
        (the adaption experiment of TPStream). A run that has begun keeps the length it was given;
        the first run that begins in the new phase is the first to follow it.

    >>> frame = booleans(symbols=3, events=1_000, seed=7)
    >>> frame.shape, frame.schema["a1"], frame["a1"][:10].any()
    ((1000, 4), Boolean, False)
    """
    waves = _square_waves(symbols, seed, situation, gap, kind, ratios, phases)
    _check_count("events", events, 0)
    return _frame(waves, 0, events, kind)


def booleans_chunks(
    symbols: int = 4,
    events: int = 1_000_000,
    seed: int = 0,
    situation: BoundsOfSymbols = (10, 100),
    gap: BoundsOfSymbols = (10, 50),
    kind: Literal["bool", "int8"] = "bool",
    *,
    ratios: Sequence[float] | None = None,
    phases: Sequence[Phase] | None = None,
    chunk: int = 1_000_000,
) -> Iterator[pl.DataFrame]:
    """The stream of :func:`booleans` in frames of ``chunk`` events, for more than memory holds.

    >>> chunks = list(booleans_chunks(symbols=2, events=1_000, seed=7, chunk=300))
    >>> [chunk.height for chunk in chunks]
    [300, 300, 300, 100]
    >>> pl.concat(chunks).equals(booleans(symbols=2, events=1_000, seed=7))
    True
    """
    waves = _square_waves(symbols, seed, situation, gap, kind, ratios, phases)
    _check_count("events", events, 0)
    _check_count("chunk", chunk, 1)
    return (
        _frame(waves, first, min(first + chunk, events), kind) for first in range(0, events, chunk)
    )


class _SquareWave:
    """One column: its runs are drawn as they are needed, so any cut gives the same stream."""

    def __init__(
        self,
        generator: np.random.Generator,
        situation: Bounds,
        gap: Bounds,
        stretches: Sequence[tuple[int, float]],
    ) -> None:
        self._generator = generator
        self._stretches = stretches  # (from second, factor on all lengths)
        self._low = np.array([gap[0], situation[0]], dtype=np.float64)
        self._high = np.array([gap[1], situation[1]], dtype=np.float64)
        self._now = 0
        self._ends: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)  # of the runs not yet over
        self._number = 0  # of the first of them; even runs are gaps
        self._drawn_until = 0

    def take(self, events: int) -> npt.NDArray[np.bool_]:
        """The next ``events`` values."""
        stop = self._now + events
        drawn = [self._ends]
        while self._drawn_until < stop:
            drawn.append(self._draw())
        ends = np.concatenate(drawn)
        over = int(np.searchsorted(ends, stop, side="left"))
        edges = np.concatenate(([self._now], ends[:over], [stop]))
        values = (np.arange(self._number, self._number + over + 1) & 1).astype(np.bool_)
        self._ends = ends[over:].copy()
        self._number += over
        self._now = stop
        return np.repeat(values, np.diff(edges))

    def _draw(self) -> npt.NDArray[np.int64]:
        """Where the next runs end."""
        uniform = self._generator.random((_PAIRS_A_DRAW, 2))
        first = self._drawn_until
        ends = np.empty(0, dtype=np.int64)
        done = 0
        for position, (_, factor) in enumerate(self._stretches):
            following = self._stretches[position + 1 : position + 2]
            if following and following[0][0] <= first:
                continue
            rest = first + np.cumsum(self._lengths(uniform, factor).ravel()[done:])
            # A run belongs to the phase in which it begins, that is, in which the last one ended.
            kept = rest.size
            if following:
                kept = min(kept, int(np.searchsorted(rest, following[0][0], side="left")) + 1)
            ends = np.concatenate((ends, rest[:kept]))
            done += kept
            if done == uniform.size:
                break
            first = int(ends[-1])
        self._drawn_until = int(ends[-1])
        return ends

    def _lengths(self, uniform: npt.NDArray[np.float64], factor: float) -> npt.NDArray[np.int64]:
        low = np.maximum(np.rint(self._low * factor), 1)
        high = np.maximum(np.rint(self._high * factor), low)
        lengths: npt.NDArray[np.float64] = low + np.floor(uniform * (high - low + 1))
        return lengths.astype(np.int64)


def _frame(waves: Sequence[_SquareWave], first: int, stop: int, kind: str) -> pl.DataFrame:
    columns = [pl.Series("ts", np.arange(first, stop, dtype=np.int64))]
    for number, wave in enumerate(waves, start=1):
        values = wave.take(stop - first)
        columns.append(pl.Series(f"a{number}", values if kind == "bool" else values.view(np.int8)))
    return pl.DataFrame(columns)


def _square_waves(
    symbols: int,
    seed: int,
    situation: BoundsOfSymbols,
    gap: BoundsOfSymbols,
    kind: str,
    ratios: Sequence[float] | None,
    phases: Sequence[Phase] | None,
) -> list[_SquareWave]:
    _check_count("symbols", symbols, 1)
    if kind not in ("bool", "int8"):
        raise ValueError(f"kind is {kind!r}; it must be 'bool' or 'int8'")
    if ratios is not None and phases is not None:
        raise ValueError("give ratios or phases, not both: ratios=r is phases=((0, r),)")
    if phases is None:
        phases = ((0, ratios if ratios is not None else (1,) * symbols),)
    starts = [start for start, _ in phases]
    if not starts or starts[0] != 0 or any(b <= a for a, b in pairwise(starts)):
        raise ValueError(
            f"phases begin at the events {starts}; the first must begin at 0, each later than the "
            "one before"
        )
    for start, shares in phases:
        if len(shares) != symbols or not all(share > 0 for share in shares):
            raise ValueError(
                f"ratios of the phase from event {start} are {tuple(shares)}; give {symbols} "
                "positive numbers, one for each symbol"
            )
    situations = _bounds_of_symbols("situation", situation, symbols)
    gaps = _bounds_of_symbols("gap", gap, symbols)
    return [
        _SquareWave(
            # A stream of its own for each column, so that columns do not depend on each other.
            np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(number,)))),
            situations[number],
            gaps[number],
            [(start, max(shares) / shares[number]) for start, shares in phases],
        )
        for number in range(symbols)
    ]


def _bounds_of_symbols(name: str, bounds: BoundsOfSymbols, symbols: int) -> list[Bounds]:
    pairs = list(bounds) if isinstance(bounds[0], Sequence) else [bounds] * symbols
    if len(pairs) != symbols:
        raise ValueError(f"{name} has {len(pairs)} pairs of bounds; give one pair, or {symbols}")
    checked: list[Bounds] = []
    for pair in pairs:
        if not isinstance(pair, Sequence) or len(pair) != 2 or not 1 <= pair[0] <= pair[1]:
            raise ValueError(
                f"{name} is {pair}; give (shortest, longest) in seconds, 1 <= shortest <= longest"
            )
        checked.append((pair[0], pair[1]))
    return checked


def _check_count(name: str, count: int, least: int) -> None:
    if count < least:
        raise ValueError(f"{name} is {count}; it must be at least {least}")
