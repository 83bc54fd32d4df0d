"""piestream behind the signature of its peers, on one thread.

With packed bits it is its detector alone, which is what the peers' loops are. With a raw frame it is
`Query.run`, as a user calls it: predicates, order and the frame of matches included.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from experiments import engine
from experiments.peers.forms import words
from experiments.peers.pattern import Ints, Pattern, Result
from experiments.peers.peer import Matcher

if TYPE_CHECKING:
    from experiments.peers.parts.derivers import Bits
    from experiments.streams.cases import Case

__all__ = ["matcher", "on_frame"]


def matcher(
    pattern: Pattern,
    *,
    keep: bool = True,
    piece: int | None = None,
    order: tuple[int, ...] | None = None,
) -> Matcher:
    """The detector; in pieces of so many events, and with an order of the symbols forced upon its joins."""
    from experiments.streams.cases import columns_of, query_of

    columns = columns_of(pattern)
    schema = {"ts": pl.Int64(), **dict.fromkeys(columns, pl.Boolean())}
    binding = engine.bind_query(query_of(pattern), schema)
    if order is not None:
        binding = engine.with_order(binding, order)

    engine.warm_adaption()

    def match(bits: Bits) -> Result:
        found = engine.detect_bits(
            binding, bits.times, bits.words, piece=piece, keep=keep, adapts=order is None
        )
        counters = {**found.counters, "events": len(bits.times)}
        return Result(found.rows, found.count, counters, engine.reports_and_outputs)

    return Matcher(match, words(pattern))


def on_frame(case: Case) -> Callable[[], Result]:
    """`Query.run` on the case's frame."""
    engine.warm_adaption()
    run = partial(case.query.run, case.frame, threads=1)

    def matches() -> Result:
        found: pl.DataFrame = run()
        return Result(found, len(found), {"events": case.events}, _arranged)

    return matches


def _arranged(found: pl.DataFrame) -> Ints:
    """The matches of a query that returns nothing but starts."""
    arranged: Ints = found.to_numpy().astype(np.int64)
    return arranged
