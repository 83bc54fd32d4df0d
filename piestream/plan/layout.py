"""The words of constraints in the slots of their symbols, under construction."""

from __future__ import annotations

from dataclasses import dataclass, field

from piestream.compiled.constants import NONE
from piestream.compiled.records import Record
from piestream.joins import records
from piestream.plan.join_order import Edge

__all__ = ["ConstraintWords", "SlotLayout", "blank"]


class SlotLayout:
    """Which words of each symbol's slots are taken."""

    def __init__(self, widths: list[int]) -> None:
        self.widths = widths

    def take(self, symbol: int, words: int = 1) -> int:
        """The first of so many words, which are taken from now on."""
        first = self.widths[symbol]
        self.widths[symbol] += words
        return first


def blank(record: type[Record]) -> dict[str, int]:
    """The fields of a record of which nothing is known yet."""
    return dict.fromkeys(record.fields, NONE)


@dataclass(slots=True)
class ConstraintWords:
    """A constraint of the program, whose fields become known one after the other."""

    edge: Edge
    automaton: int = NONE
    naming: bool = False  # only tells followed-by from before
    listed: int = NONE  # the number of the ring of its pairs
    uncertain: bool = False
    same: bool = False
    seed: int = NONE
    distance: int = 0  # the first of its distances, and the end
    distance_end: int = 0
    sides: tuple[dict[str, int], dict[str, int]] = field(
        default_factory=lambda: (blank(records.Side), blank(records.Side))
    )

    def side_of(self, symbol: int) -> dict[str, int]:
        """The fields of a symbol's side."""
        return self.sides[self.edge.side(symbol)]

    def packed(self, number: int, checked: bool) -> list[int]:
        """The words of its record."""
        return records.Constraint.packed(
            symbols=(self.edge.x, self.edge.y),
            automaton=self.automaton,
            naming=self.naming,
            listed=self.listed,
            checked=checked,
            uncertain=self.uncertain,
            same=self.same,
            number=number,
            seed=self.seed,
            distance=self.distance,
            distance_end=self.distance_end,
            sides=[records.Side.packed(**side) for side in self.sides],
        )
