"""Another start or end of an interval that comes as a row, with which a match appears."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from piestream.diagnosis.changes import MovedEndpoint, PairMiss, Proposal, pair_misses, wide
from piestream.diagnosis.parts import ID
from piestream.diagnosis.rows import GivenRows
from piestream.diagnosis.target import OPEN, Target
from piestream.language.parts import StreamKind
from piestream.relations import relation_of
from piestream.show.table import cell_text

__all__ = ["moved_endpoint", "moved_endpoints", "moved_text", "rows_with", "step_of"]


def moved_endpoints(target: Target) -> Iterator[Proposal]:
    """The nearest other start or end of a row, with which its interval is in an allowed relation."""
    query = target.rows.query
    for miss in pair_misses(target):
        for side, name in enumerate((miss.constraint.x, miss.constraint.y)):
            if query.stream_of(name).kind is StreamKind.INTERVALS:
                moves = sorted(_moves(miss, side, step_of(target)))
                if moves:
                    yield _proposal(target, miss, side, name, *moves[0][1:])


def _moves(miss: PairMiss, side: int, step: int) -> Iterator[tuple[int, int, int]]:
    """How far which endpoint (0 is the start) of one of two intervals moves to where."""
    moved, other = miss.spans[side], miss.spans[1 - side]
    allowed = wide(miss.constraint.relations)
    for which in (0, 1):
        for at in (end + by for end in other if end != OPEN for by in (-step, 0, step)):
            span = (at, moved[1]) if which == 0 else (moved[0], at)
            x, y = (span, other) if side == 0 else (other, span)
            if moved[which] != OPEN and span[0] < span[1] and relation_of(*x, *y) & allowed:
                yield abs(at - moved[which]), which, at


def _proposal(
    target: Target, miss: PairMiss, side: int, name: str, which: int, at: int
) -> Proposal:
    span = miss.spans[side]
    moved = moved_endpoint(target, name, span, miss.match.get(f"{ID}{name}"), which, at)
    length = min(end - start for start, end in miss.spans)
    size = abs(at - span[which]) / max(length, 1)
    text = f"{miss.text(target)}; with {moved_text(moved)} it matches"
    return Proposal("endpoint", target.rows.query, size, text, moved)


def moved_endpoint(
    target: Target, name: str, span: tuple[int, int], number: Any, which: int, at: int
) -> MovedEndpoint:
    """Another start (``which`` 0) or end in the row that is an interval of a symbol; its ID is ``number``."""
    rows = target.rows
    source = rows.query.stream_of(name)
    columns = str(source.start), str(source.end)
    where: dict[str, Any] = dict(rows.partition or {})
    if source.id is not None:
        where[source.id] = number
    if source.id is None or which == 1:
        other = span[1 - which]
        where[columns[1 - which]] = None if other == OPEN else target.time(other)
    key = str(rows.key_of(rows.query.symbol(name).stream))
    return MovedEndpoint(key, columns[which], target.time(span[which]), target.time(at), where)


def rows_with(target: Target, moved: MovedEndpoint) -> GivenRows:
    """The rows with another start or end in one of them."""
    return target.rows.with_inputs(moved.of(target.rows.inputs))


def moved_text(moved: MovedEndpoint) -> str:
    """What the row would have to say."""
    return f"{moved.stream}.{moved.column} = {cell_text(moved.to)}"


def step_of(target: Target) -> int:
    """The least length by which an endpoint is moved: a value of Python's has no nanoseconds."""
    return 1_000 if target.rows.time.dtype == pl.Datetime("ns") else 1
