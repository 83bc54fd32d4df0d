"""Questions about the future of a ``NOT (…)``: what it asks of an absent interval, and what is known at a moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

__all__ = [
    "CERTAIN", "HALF", "NEVER", "NOW", "ORIGIN", "RELATIONS", "Asked", "Distance", "Moment", "Node", "Sequenced",
    "Span", "ToCome",
]  # fmt: skip

#: ``(symbol, "ts" or "te")``, or NOW, or the origin of time.
Node = tuple[str, str]
ORIGIN, NOW = ("", "origin"), ("", "now")
Distance = tuple[Node, Node, str, int]

#: What each relation of ``x=[xs, xe)`` to ``y=[ys, ye)`` says of their endpoints.
RELATIONS = {
    "before": (("xe", "<", "ys"),),
    "meets": (("xe", "=", "ys"),),
    "overlaps": (("xs", "<", "ys"), ("ys", "<", "xe"), ("xe", "<", "ye")),
    "finished-by": (("xs", "<", "ys"), ("xe", "=", "ye")),
    "contains": (("xs", "<", "ys"), ("ye", "<", "xe")),
    "starts": (("xs", "=", "ys"), ("xe", "<", "ye")),
    "equals": (("xs", "=", "ys"), ("xe", "=", "ye")),
    "started-by": (("xs", "=", "ys"), ("ye", "<", "xe")),
    "during": (("ys", "<", "xs"), ("xe", "<", "ye")),
    "finishes": (("ys", "<", "xs"), ("xe", "=", "ye")),
    "overlapped-by": (("ys", "<", "xs"), ("xs", "<", "ye"), ("ye", "<", "xe")),
    "met-by": (("ye", "=", "xs"),),
    "after": (("ye", "<", "xs"),),
}

#: There is always a future in which the group is satisfied.
NEVER = 10**30
#: It is satisfied, whatever comes.
CERTAIN = NEVER + 1
#: Where several events have one time: behind all that have it.
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Sequenced:
    """A moment of a partition in which several events have one time."""

    #: All events of the time that is now are over, so that what is to come has a later one.
    is_behind: bool
    #: The place that is now: known endpoints behind it are those of rows, before all events of their times.
    place: Fraction | int = 10**30


@dataclass(frozen=True, slots=True)
class Span:
    """An interval; of one that is open it is known that its end is later than now."""

    start: int
    end: int | None
    #: It is interrupted (BRIDGING), so it goes on before this instant, or it has ended.
    goes_on_before: int | None = None
    #: It ends because the input does: behind what ends, or begins, with the last event.
    is_closed: bool = False
    #: The places of both among all instants, where several have one time.
    places: tuple[Fraction | int, Fraction | int | None] = (0, None)


@dataclass(frozen=True, slots=True)
class ToCome:
    """An interval of the absent symbol that is not known yet: it begins later than now, or becomes known later."""

    #: The present symbols that are runs of the same predicate, with how far apart two runs are at least (None:
    #: they do not touch).
    apart: Mapping[str, int | None] = field(default_factory=dict)
    #: It begins later than so long after an endpoint.
    not_before: tuple[Node, int] | None = None
    #: Which of its endpoints is later than now.
    known_by: str = "ts"
    #: It becomes known later than now, and so long after it began ("ts") at most, or less after it ended ("te");
    #: counted from its start, it is no longer than that.
    late: tuple[str, int] | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Its endpoints of which nothing is known, though they may have been."""
        if self.known_by == "ts":
            return ()
        return ("ts",) if self.late is None else ("ts", "te")


@dataclass(frozen=True, slots=True)
class Asked:
    """All that a NOT says of its absent symbol."""

    absent: str
    relations: Mapping[str, Collection[str]]  # to each present symbol, that are allowed
    lengths: tuple[int, int | None]
    distances: Sequence[Distance]
    longer_than: int | None = None  # of a silence


@dataclass(frozen=True, slots=True)
class Moment:
    """The moment that is now."""

    time: int
    closes: bool = False  # the input ends
    sequenced: Sequenced | None = None  # where several events have one time
