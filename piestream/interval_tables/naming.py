"""The name of the relation that holds of each pair."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import polars as pl

from piestream.compiled.records import Array
from piestream.interval_tables.finding import Piece
from piestream.interval_tables.loops.output import orders_of
from piestream.interval_tables.loops.records import NEXT_START, PREVIOUS_END
from piestream.relations import ALL_NAMES, PRECISE_FORM, RELATIONS_BY_ORDER, Relation

__all__ = ["relation_names"]


class _Intervals(Protocol):
    @property
    def starts(self) -> Array: ...
    @property
    def ends(self) -> Array: ...


def _position(relation: Relation) -> int:
    return relation.bit_length() - 1


#: Where in ALL_NAMES the relation of each endpoint order is. The last is for rows without a partner.
_POSITIONS = np.array([*map(_position, RELATIONS_BY_ORDER), len(ALL_NAMES)])
_NAMES = pl.Series([*ALL_NAMES, None], dtype=pl.String)


def relation_names(piece: Piece, x_times: Array, y: _Intervals, relations: Relation) -> pl.Series:
    """The name of each pair's relation: the precise one, where ``relations`` has it and it holds."""
    numbers = orders_of(piece.x_rows, piece.y_places, x_times, np.stack([y.starts, y.ends]))
    found = _POSITIONS[numbers]
    if relations & Relation.FOLLOWED_BY:
        _put_precise(found, Relation.BEFORE, x_times[NEXT_START], y.starts, piece)
    if relations & Relation.FOLLOWS:
        _put_precise(found, Relation.AFTER, x_times[PREVIOUS_END], y.ends, piece)
    return _NAMES.gather(found.astype(np.uint32))


def _put_precise(found: Array, wide: Relation, of_x: Array, of_y: Array, piece: Piece) -> None:
    """Where the wide relation holds and x's neighbour is where y is, the precise one holds."""
    pairs = np.flatnonzero(found == _position(wide))
    precise = of_x[piece.x_rows[pairs]] == of_y[piece.y_places[pairs]]
    found[pairs[precise]] = _position(PRECISE_FORM[wide])
