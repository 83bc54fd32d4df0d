"""The forms in which methods take a stream: how each is made of packed bits, and of a raw frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.peers.parts.derivers import Bits, Masks, Runs, changes_of_bits, runs_of_bits
from experiments.peers.pattern import Ints, Pattern, one_partition

if TYPE_CHECKING:
    from experiments.streams.cases import Case

__all__ = ["EVENTS", "Form", "Tables", "changes", "tables", "words"]


class Tables(NamedTuple):
    """The intervals of each symbol, of a stream of so many ``events``."""

    runs: list[Runs]
    #: How far partitions are moved apart; 0: there is only one.
    apart: int
    events: int


@dataclass(frozen=True)
class Form:
    """One form of a stream.

    ``load`` takes times and masks, and how far partitions are apart, before the clock starts;
    ``of_bits`` and ``of_case`` derive inside the clock, from what was loaded and from a raw frame.
    """

    load: Callable[[Ints, Ints, int], Any]
    of_bits: Callable[[Any], Any]
    of_case: Callable[[Case], Any]


def _all(times: Ints, masks: Ints, apart: int = 0) -> Masks:
    return Masks(*one_partition(times, masks), len(times))


#: A mask for every event, for methods that look at all of them.
EVENTS = Form(_all, lambda masks: masks, lambda case: _all(*case.derive()))


def words(pattern: Pattern) -> Form:
    """Packed bits as they are; raw frames are derived as for `changes`."""
    return Form(
        _loaded(pattern), lambda bits: bits, lambda case: Bits.of(*case.derive(), pattern.n_symbols)
    )


def changes(pattern: Pattern) -> Form:
    """The masks at the events that change a symbol, or at which a run may have lasted long enough."""
    return Form(
        _loaded(pattern),
        lambda bits: changes_of_bits(bits, pattern.at_least),
        lambda case: case.changes(),
    )


def tables(pattern: Pattern) -> Form:
    """The intervals of each symbol in order of their ends."""
    return Form(
        _loaded(pattern),
        lambda bits: Tables(runs_of_bits(bits, pattern.at_least), bits.apart, len(bits.times)),
        lambda case: Tables(*case.runs(), case.events),
    )


def _loaded(pattern: Pattern) -> Callable[[Ints, Ints, int], Bits]:
    return lambda times, masks, apart: Bits.of(times, masks, pattern.n_symbols, apart)
