"""How often random scenarios have what few queries have."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from random import Random

__all__ = ["MIXED", "USUAL", "Shares"]


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of scenarios with a thing, or of definitions, predicates or clauses."""

    bridged: float = 0.3
    distances: float = 0.24
    windows: float = 0.2
    limits: float = 0.3
    each_limit: float = 0.25
    once_per: float = 0.6
    where: float = 0.3
    max_gap: float = 0.3
    past: float = 0.06  # of predicates
    uncounted: int = 28  # to 5 definitions with AT LEAST n EVENTS and the like
    untied: int = 6  # to 2 scenarios in which ties are not errors
    sets: float = 0.0  # of clauses that name a set of relations
    is_mixed: bool = False

    def source(self, rng: Random, of: str) -> Random:
        """The chance that decides on a thing: where much is mixed, independent of that of others."""
        return Random(f"{rng.random()} {of}") if self.is_mixed else copy(rng)


USUAL = Shares()
#: All things often enough that any two of them meet in some thousand scenarios.
MIXED = Shares(
    bridged=0.45,
    distances=0.6,
    windows=0.45,
    limits=0.6,
    each_limit=0.4,
    once_per=0.45,
    where=0.45,
    max_gap=0.35,
    past=0.35,
    uncounted=10,
    untied=2,
    sets=0.3,
    is_mixed=True,
)
