"""A chain whose last symbol never occurs, against the cost of its intervals and pairs alone.

The base is the same detector on the same columns with the same constraints, automata and index,
whose compiled query has no seeds: nothing is ever extended, and nothing is kept of what could be.
It finds every interval and enters every pair, once, and does nothing else. (The sum of the queries
of single pairs would count the intervals twice and so make the base dearer.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import polars as pl

from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import chain, seed
from piestream.adapters.frames import CHUNK_ROWS
from piestream.compiled import layout as at
from piestream.engine.stream import Stream
from piestream.generators import booleans
from piestream.plan.binding import Binding, bind

TITLE = "A last symbol that never occurs"
COLUMNS = ("n", "events", "matches", "wall_s", "cpu_s", "pairs_only_s", "times_pairs",
           "events_per_s", "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a number of symbols."""
    events = scale.of(2_000, 200_000, 1_000_000)
    for n in scale.of((4,), (4, 24), (4, 8, 12, 16, 24)):
        frame = booleans(n, events, seed).with_columns(pl.lit(False).alias(f"a{n}"))
        yardstick = Yardstick(frame)
        whole = bind(chain(n), frame.schema)
        base = compared(partial(_through, pairs_only(whole), frame), scale, events, yardstick)
        row = compared(partial(_through, whole, frame), scale, events, yardstick, n=n)
        yield {
            **row,
            "pairs_only_s": base["cpu_s"],
            "times_pairs": row["cpu_s"] / base["cpu_s"],
        }


def pairs_only(binding: Binding) -> Binding:
    """The query with neither seeds nor reach."""
    code = binding.tables.code.copy()
    for symbol in range(code[at.N_SYMBOLS]):
        entry = code[at.SYMBOLS_AT] + symbol * at.SYM_WORDS
        code[entry + at.SYM_SEED] = at.NOWHERE
        code[entry + at.SYM_BEST_END] = code[entry + at.SYM_BEST]
    for constraint in range(code[at.N_CONSTRAINTS]):
        entry = code[at.CONSTRAINTS_AT] + constraint * at.CON_WORDS
        code[entry + at.CON_SEED] = at.NOWHERE
        for side in range(2):
            block = entry + at.CON_SIDES + side * at.SIDE_WORDS
            code[block + at.SIDE_BEST] = at.NOWHERE
    return replace(binding, tables=replace(binding.tables, code=code))


def _through(binding: Binding, frame: pl.DataFrame) -> int:
    stream = Stream(binding, lateness=None)
    found = sum(len(stream.take(chunk)) for chunk in frame.iter_slices(CHUNK_ROWS))
    return found + len(stream.finish())
