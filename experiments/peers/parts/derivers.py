"""The quickest ways from a stream to the forms that methods take: changes, and tables of intervals.

A method that is given these pays for deriving them, whatever the stream comes as:

- *packed bits*, a word of 64 events for each symbol, which are looked at 64 events at a time;
- a *raw frame*: predicates are evaluated by Polars, whose Booleans are such words already; where the
  rows of many partitions are mixed, one pass compares the mask of each row with the last one of its
  partition, and only rows that change something are put into the order of the partitions.

Many partitions become one stream, each moved behind the one before it (`one_after_another`): by more
than the window, so that no match spans two of them. The partition of a time is then a division away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from experiments.peers.pattern import MOST_SYMBOLS, Ints, one_partition

__all__ = [
    "OPEN",
    "Bits",
    "Masks",
    "Runs",
    "apart_of",
    "bits_of_frame",
    "changes_of_bits",
    "changes_of_frame",
    "masks_of",
    "packed",
    "runs_of_bits",
    "ticks_of",
    "truths_of",
]

Words = np.ndarray
#: Later than every time: the end of a run that is open.
OPEN = np.iinfo(np.int64).max


class Bits(NamedTuple):
    """Packed bits: the times of all events, and 64 events a word for each symbol."""

    times: Ints
    words: Words
    #: How far the partitions are moved apart in time; 0: there is only one.
    apart: int = 0

    @classmethod
    def of(cls, times: Ints, masks: Ints, symbols: int, apart: int = 0) -> Bits:
        """The bits of masks, an event each."""
        times, masks = one_partition(times, masks)
        return cls(times, packed(masks, symbols), apart)


class Masks(NamedTuple):
    """Times and masks of some events, of a stream of so many ``events``; bit i: symbol i holds."""

    times: Ints
    masks: Ints
    events: int


class Runs(NamedTuple):
    """The intervals of one symbol in order of their ends, which is that of their starts.

    The last one may be open: its end is then later than every time.
    """

    ts: Ints
    te: Ints
    #: The first event at which it is known that a run has lasted as long as it must.
    valid: Ints


def packed(masks: Ints, symbols: int) -> Words:
    """A bit an event for each symbol, 64 events a word.

    >>> packed(np.array([1, 3, 2]), 2).tolist()
    [[3], [6]]
    """
    words = np.zeros((symbols, -(-len(masks) // 64)), np.uint64)
    for at in range(symbols):
        found = np.packbits((masks >> at & 1).astype(np.uint8), bitorder="little")
        words[at].view(np.uint8)[: found.size] = found
    return words


def changes_of_bits(bits: Bits, at_least: Sequence[int] = ()) -> Masks:
    """The events at which the truth of some symbol changes.

    And those at which a run may just have lasted as long as it must (``at_least`` by symbol): a
    method that reports it then has to see them.

    >>> changes_of_bits(Bits.of(np.arange(5), np.array([0, 1, 1, 3, 3]), 2))
    Masks(times=array([1, 3]), masks=array([1, 3]), events=5)
    >>> changes_of_bits(Bits.of(np.arange(5), np.array([0, 1, 1, 1, 1]), 1), [3]).times
    array([1, 4])
    """
    times, words, _ = bits
    changed, masks = _changed(words, times)
    due = [
        np.searchsorted(times, _edges(words[symbol], times)[::2] + least)
        for symbol, least in enumerate(at_least)
        if least
    ]
    if due:
        waited = np.concatenate(due)
        changed = np.union1d(changed, times[waited[waited < len(times)]])
        masks = _masks_at(words, np.searchsorted(times, changed))
    return Masks(changed, masks, len(times))


def runs_of_bits(bits: Bits, at_least: Sequence[int] = ()) -> list[Runs]:
    """The intervals of each symbol.

    >>> found = runs_of_bits(Bits.of(np.array([3, 4, 5, 9]), np.array([1, 0, 2, 0]), 2))
    >>> [(runs.ts.tolist(), runs.te.tolist()) for runs in found]
    [([3], [4]), ([5], [9])]
    """
    found = []
    times = bits.times
    for symbol, words in enumerate(bits.words):
        edges = _edges(words, times)
        starts, ends = edges[::2], edges[1::2]
        if len(edges) % 2:
            ends = np.append(ends, OPEN)
        valid = starts
        if at_least and at_least[symbol]:
            due = np.searchsorted(times, starts + at_least[symbol])
            valid = np.append(times, OPEN)[due]
        found.append(Runs(starts, ends, valid))
    return found


def bits_of_frame(
    frame: pl.DataFrame, predicates: Sequence[pl.Expr], time: str = "ts", *, tick: int = 1
) -> Bits:
    """The packed bits of a frame of one partition.

    >>> bits_of_frame(pl.DataFrame({"ts": [1, 2], "v": [5, 9]}), [pl.col("v") > 8]).words.tolist()
    [[2]]
    """
    truths = truths_of(frame, predicates)
    words = np.zeros((len(predicates), -(-frame.height // 64)), np.uint64)
    for at, truth in enumerate(truths):
        bitmap = truth.rechunk().to_arrow()
        skipped, found = bitmap.offset, np.frombuffer(bitmap.buffers()[1], np.uint8)
        if skipped % 8:
            found = np.packbits(truth.to_numpy(), bitorder="little")
            skipped = 0
        length = -(-frame.height // 8)
        words[at].view(np.uint8)[:length] = found[skipped // 8 : skipped // 8 + length]
    return Bits(ticks_of(frame[time], tick), words)


def changes_of_frame(
    frame: pl.DataFrame,
    predicates: Sequence[pl.Expr],
    time: str = "ts",
    *,
    key: str,
    tick: int = 1,
    window: int = 0,
) -> Masks:
    """The events that change a symbol in its partition, of a frame in which partitions are mixed.

    Each partition's rows are in order of time. Of many partitions it makes one stream, as
    `one_after_another` does, each ended by an event of silence beyond its window. Keys are whole numbers from a small range.

    >>> frame = pl.DataFrame({"ts": [0, 0, 1, 1], "k": [4, 7, 4, 7], "a": [1, 0, 1, 1]})
    >>> changes_of_frame(frame, [pl.col("a") == 1], key="k", window=5)
    Masks(times=array([ 0,  6, 14, 20]), masks=array([1, 0, 1, 0]), events=4)
    """
    masks = masks_of(truths_of(frame, predicates), frame.height)
    times = frame[time].to_physical().to_numpy()
    keys = frame[key].to_numpy()
    if not len(keys):
        return Masks(*one_partition(times, masks), 0)
    lowest = int(keys.min())
    rows, counts = _changed_in_partitions(keys, lowest, int(keys.max()), masks)
    begin, apart = apart_of(times, tick, window)
    found = _gathered(rows, counts, keys, lowest, times, tick, masks, begin, apart, window)
    return Masks(found[0], found[1], len(keys))


def truths_of(frame: pl.DataFrame, predicates: Sequence[pl.Expr]) -> list[pl.Series]:
    """The truth of each predicate at each row: NULL is false."""
    if len(predicates) > MOST_SYMBOLS:
        raise ValueError(f"{len(predicates)} predicates; a mask holds {MOST_SYMBOLS}")
    found = frame.select(
        predicate.cast(pl.Boolean).alias(str(at)) for at, predicate in enumerate(predicates)
    )
    return [truth.fill_null(False) if truth.null_count() else truth for truth in found]


def masks_of(truths: Sequence[pl.Series], rows: int) -> np.ndarray:
    """A mask a row, in the narrowest type that holds a bit of each; eight bits at a time.

    >>> masks_of([pl.Series([True, False]), pl.Series([True, True])], 2)
    array([3, 2], dtype=uint8)
    """
    width = next(width for width in (8, 16, 32, 64) if len(truths) <= width)
    masks = np.zeros(rows, f"uint{width}")
    for first in range(0, len(truths), 8):
        byte = np.zeros(rows, np.uint8)
        for at, truth in enumerate(truths[first : first + 8]):
            byte |= truth.to_numpy().view(np.uint8) << np.uint8(at)
        masks |= byte if width == 8 else byte.astype(masks.dtype) << masks.dtype.type(first)
    return masks


def ticks_of(times: pl.Series, tick: int) -> Ints:
    """Times as counts of ticks; ``tick``: how many units of the column are one."""
    counts: Ints = times.to_physical().cast(pl.Int64).to_numpy()
    return counts if tick == 1 else counts // tick


def apart_of(times: Ints, tick: int, window: int) -> tuple[int, int]:
    """The first tick of all partitions, and by how many ticks each is moved behind the one before.

    >>> apart_of(np.array([20, 10]), 10, 5)
    (1, 13)
    """
    begin, end = (int(time) // tick for time in (times.min(), times.max()))
    return begin, end - begin + 2 * (window + 1)


@njit(cache=True, nogil=True)
def _changed(words: Words, times: Ints) -> tuple[Ints, Ints]:
    """The times of the events at which a symbol changes, and the masks then."""
    symbols, blocks = words.shape
    events = len(times)
    at, masks = np.empty(events, np.int64), np.empty(events, np.int64)
    held = np.zeros(symbols, np.uint64)
    one = np.uint64(1)
    count = 0
    for block in range(blocks):
        changed = np.uint64(0)
        for symbol in range(symbols):
            word = words[symbol, block]
            changed |= word ^ (word << one | held[symbol])
            held[symbol] = word >> np.uint64(63)
        if block == blocks - 1 and events % 64:
            changed &= (one << np.uint64(events % 64)) - one
        while changed:
            bit = np.uint64(trailing_zeros(changed))
            changed &= changed - one
            mask = np.uint64(0)
            for symbol in range(symbols):
                mask |= (words[symbol, block] >> bit & one) << np.uint64(symbol)
            at[count] = times[64 * block + np.int64(bit)]
            masks[count] = np.int64(mask)
            count += 1
    return at[:count], masks[:count]


@njit(cache=True, nogil=True)
def _edges(words: Words, times: Ints) -> Ints:
    """The times at which one symbol changes: of a start, an end, a start, …"""
    events = len(times)
    at = np.empty(events, np.int64)
    held = np.uint64(0)
    one = np.uint64(1)
    count = 0
    for block in range(len(words)):
        word = words[block]
        changed = word ^ (word << one | held)
        held = word >> np.uint64(63)
        if block == len(words) - 1 and events % 64:
            changed &= (one << np.uint64(events % 64)) - one
        while changed:
            at[count] = times[64 * block + np.int64(trailing_zeros(changed))]
            changed &= changed - one
            count += 1
    return at[:count]


@njit(cache=True, nogil=True)
def _masks_at(words: Words, rows: Ints) -> Ints:
    masks = np.zeros(len(rows), np.int64)
    for at in range(len(rows)):
        bit = np.uint64(rows[at] % 64)
        for symbol in range(len(words)):
            held = words[symbol, rows[at] // 64] >> bit & np.uint64(1)
            masks[at] |= np.int64(held) << symbol
    return masks


@njit(cache=True, nogil=True)
def _changed_in_partitions(
    keys: np.ndarray, lowest: int, highest: int, masks: np.ndarray
) -> tuple[Ints, Ints]:
    """The rows whose mask is not the last one of their partition, and how many each partition has."""
    last = np.zeros(highest - lowest + 1, masks.dtype)
    counts = np.zeros(len(last), np.int64)
    rows = np.empty(len(keys), np.int64)
    count = 0
    for row in range(len(keys)):
        key = keys[row] - lowest
        if last[key] != masks[row]:
            last[key] = masks[row]
            counts[key] += 1
            rows[count] = row
            count += 1
    return rows[:count], counts


@njit(cache=True, nogil=True)
def _gathered(
    rows: Ints,
    counts: Ints,
    keys: np.ndarray,
    lowest: int,
    times: Ints,
    tick: int,
    masks: np.ndarray,
    begin: int,
    apart: int,
    window: int,
) -> tuple[Ints, Ints]:
    """Times and masks of some rows, one partition after another, each ended by silence."""
    place = np.zeros(len(counts), np.int64)
    shift = np.zeros(len(counts), np.int64)
    total = partitions = 0
    for key in range(len(counts)):
        place[key] = total
        shift[key] = partitions * apart - begin
        if counts[key]:
            total += counts[key] + 1
            partitions += 1
    out_times, out_masks = np.empty(total, np.int64), np.zeros(total, np.int64)
    for row in rows:
        key = keys[row] - lowest
        at = place[key]
        out_times[at] = times[row] // tick + shift[key]
        out_masks[at] = masks[row]
        out_times[at + 1] = out_times[at] + window + 1  # until the next row of the partition comes
        place[key] += 1
    return out_times, out_masks
