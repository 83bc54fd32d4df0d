"""Patterns that several experiments share."""

from __future__ import annotations

from piestream.relations import Relation

__all__ = ["BEFORE_OVERLAPS", "SEED", "STARTS_BEFORE_OVERLAPS"]

#: The first seed of every stream.
SEED = 0

#: The constraints of TPStream's disconnected pattern (EDBT 2018): A before B, B overlaps C.
BEFORE_OVERLAPS = ((0, 1, Relation.BEFORE), (1, 2, Relation.OVERLAPS))

#: And of the dissertation: A starts B, B before C, C overlaps D.
STARTS_BEFORE_OVERLAPS = (
    (0, 1, Relation.STARTS),
    (1, 2, Relation.BEFORE),
    (2, 3, Relation.OVERLAPS),
)
