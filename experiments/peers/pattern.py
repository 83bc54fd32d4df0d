"""What every method takes and gives: a pattern over bits, and matches with work counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import piestream as ps
from piestream.relations import Relation, intersect, inverse, names

__all__ = [
    "NEIGHBOURS",
    "Ints",
    "Pattern",
    "Result",
    "UnsupportedPatternError",
    "one_partition",
    "sorted_matches",
]

Ints: TypeAlias = npt.NDArray[np.int64]

#: One bit a symbol in an int64 mask, the sign bit left alone.
MOST_SYMBOLS = 62

#: What PieStream's Fig. 4 allows between neighbours of its chain.
NEIGHBOURS = (
    Relation.MEETS
    | Relation.OVERLAPS
    | Relation.OVERLAPPED_BY
    | Relation.STARTS
    | Relation.STARTED_BY
    | Relation.CONTAINS
)

_PRECISE = Relation.FOLLOWED_BY | Relation.FOLLOWS


class UnsupportedPatternError(ValueError):
    """The method cannot answer this pattern; the message says what and why."""


@dataclass(frozen=True)
class Pattern:
    """A conjunction of constraints over the bits of a mask: symbol i holds where bit i is set.

    ``window`` and the durations are ticks. The window is inclusive and runs from the earliest
    start of a match to its report. Two constraints on one pair are intersected; the order of
    the constraints is kept, because some methods join in that order.

    >>> pattern = Pattern(2, ((0, 1, Relation.MEETS | Relation.OVERLAPS),), window=100)
    >>> pattern.neighbours(1)
    (0,)
    """

    n_symbols: int
    constraints: tuple[tuple[int, int, Relation], ...]
    window: int
    #: Shortest length of each symbol's intervals, 0 for none; () for none at all.
    at_least: tuple[int, ...] = ()
    #: Longest length of each symbol's intervals, None for none; () for none at all.
    at_most: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        n = self.n_symbols
        if not 1 <= n <= MOST_SYMBOLS:
            raise ValueError(f"n_symbols is {n}; give 1 to {MOST_SYMBOLS}, one bit of a mask each")
        if self.window < 0:
            raise ValueError(f"window is {self.window}; give a number of ticks, 0 or more")
        merged: dict[tuple[int, int], Relation] = {}
        for x, y, relations in self.constraints:
            if not (0 <= x < n and 0 <= y < n) or x == y:
                raise ValueError(f"constraint ({x}, {y}): give two different symbols below {n}")
            if (y, x) in merged:
                merged[y, x] = intersect(merged[y, x], inverse(relations))
            elif (x, y) in merged:
                merged[x, y] = intersect(merged[x, y], relations)
            else:
                merged[x, y] = Relation(relations)
        for (x, y), relations in merged.items():
            if not relations:
                raise ValueError(f"no relation is left between the symbols {x} and {y}")
        object.__setattr__(self, "constraints", tuple((x, y, r) for (x, y), r in merged.items()))
        object.__setattr__(self, "at_least", tuple(self.at_least) or (0,) * n)
        object.__setattr__(self, "at_most", tuple(self.at_most) or (None,) * n)
        for what, bounds in (("at_least", self.at_least), ("at_most", self.at_most)):
            if len(bounds) != n:
                raise ValueError(f"{what} has {len(bounds)} entries; give {n}, one for each symbol")
        reached, todo = {0}, [0]
        while todo:
            for other in self.neighbours(todo.pop()):
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
        if len(reached) < n:
            apart = sorted(set(range(n)) - reached)
            raise ValueError(f"no constraints connect the symbols {apart} with symbol 0")

    @classmethod
    def chain(cls, symbols: int, window: int = 10_000) -> Pattern:
        """The chain of PieStream's Fig. 4: six relations between neighbours.

        >>> len(Pattern.chain(4).constraints)
        3
        """
        pairs = ((at, at + 1, NEIGHBOURS) for at in range(symbols - 1))
        return cls(symbols, tuple(pairs), window)

    @classmethod
    def of(cls, query: ps.Query, nanoseconds_per_tick: int | None = None) -> Pattern:
        """The pattern of a query, its symbols in DEFINE order.

        ``nanoseconds_per_tick`` is what :meth:`Duration.ticks` takes: None where all durations
        are bare ticks.
        """
        number = {symbol.name: at for at, symbol in enumerate(query.symbols)}
        predicates = [s.predicate for s in query.symbols if s.predicate is not None]
        if len(set(predicates)) < len(predicates):
            raise UnsupportedPatternError(
                "two symbols have equal predicates; no other method distinguishes an interval of the one "
                "from the same interval of the other"
            )
        if len(query.streams) > 1 or query.streams[0].is_ready_made:
            raise UnsupportedPatternError("the other methods read one stream of events")
        if query.streams[0].max_gap is not None:
            raise UnsupportedPatternError(
                "MAX GAP: the other methods know no silences; leave it out"
            )
        if query.where is not None:
            raise UnsupportedPatternError("WHERE: the other methods have no conditions on matches")
        if any(s.at_least_events or s.at_most_events for s in query.symbols):
            raise UnsupportedPatternError("the other methods do not bound the number of events")

        def ticks(kind: str, at: int) -> int | None:
            duration = getattr(query.symbols[at], kind)
            if duration is None:
                return None
            return query.ticks((kind, query.symbols[at].name), duration, nanoseconds_per_tick)

        everyone = range(len(number))
        return cls(
            n_symbols=len(number),
            constraints=tuple((number[c.x], number[c.y], c.relations) for c in query.constraints),
            window=query.ticks(("within",), query.within, nanoseconds_per_tick),
            at_least=tuple(ticks("at_least", at) or 0 for at in everyone),
            at_most=tuple(ticks("at_most", at) for at in everyone),
        )

    def neighbours(self, symbol: int) -> tuple[int, ...]:
        """The symbols that a constraint relates to this one, in the order of the constraints."""
        return tuple(y if x == symbol else x for x, y, _ in self.constraints if symbol in (x, y))

    def relation_matrix(self) -> Ints:
        """int64[n, n]: the relations allowed of row to column, 0 where there is no constraint."""
        matrix = np.zeros((self.n_symbols, self.n_symbols), dtype=np.int64)
        for x, y, relations in self.constraints:
            matrix[x, y], matrix[y, x] = int(relations), int(inverse(relations))
        return matrix

    def neighbour_table(self) -> tuple[Ints, Ints]:
        """int64[n, n] neighbours of each symbol, filled with -1, and int64[n] how many there are."""
        table = np.full((self.n_symbols, self.n_symbols), -1, dtype=np.int64)
        count = np.zeros(self.n_symbols, dtype=np.int64)
        for symbol in range(self.n_symbols):
            others = self.neighbours(symbol)
            table[symbol, : len(others)] = others
            count[symbol] = len(others)
        return table, count

    @property
    def has_durations(self) -> bool:
        """Whether any symbol has AT LEAST or AT MOST."""
        return any(self.at_least) or any(most is not None for most in self.at_most)

    def duration_bounds(self) -> tuple[Ints, Ints]:
        """int64[n] shortest and longest lengths, the largest integer for no upper bound."""
        longest = [np.iinfo(np.int64).max if most is None else most for most in self.at_most]
        return np.array(self.at_least, dtype=np.int64), np.array(longest, dtype=np.int64)

    def without_precise(self, method: str) -> None:
        """Refuse ``followed-by`` and ``follows`` for a method that knows Allen's relations only.

        Beside ``before`` (or ``after``), which includes it, the narrower one changes nothing.
        """
        for x, y, relations in self.constraints:
            narrow = relations & _PRECISE
            if relations & Relation.BEFORE:
                narrow &= ~Relation.FOLLOWED_BY
            if relations & Relation.AFTER:
                narrow &= ~Relation.FOLLOWS
            if narrow:
                raise UnsupportedPatternError(
                    f"{method} knows Allen's thirteen relations only; the constraint of the "
                    f"symbols {x} and {y} has {', '.join(names(Relation(narrow)))}"
                )

    def without_durations(self, method: str) -> None:
        """Refuse AT LEAST and AT MOST for a method that has no durations."""
        if self.has_durations:
            raise UnsupportedPatternError(
                f"{method} has no durations; leave AT LEAST and AT MOST out"
            )


#: Counters that every result has, 0 where a method has no such thing.
_COUNTERS = ("events", "intervals", "probes", "pairs", "partial_results", "peak_stored")


def _as_they_are(found: Any) -> Ints:
    """Matches that are in the common form already."""
    matches: Ints = found
    return matches


@dataclass(frozen=True)
class Result:
    """What a run found, and what work it did.

    ``found`` is what the method gave, ``arrange`` brings it into the form of `matches`, which is not
    measured. ``counters`` has at least these, 0 where a method has no such thing:

    - ``events``: rows read;
    - ``intervals``: intervals derived that keep their durations;
    - ``probes``: intervals, pairs and index entries looked at, comparisons of a binary search
      included;
    - ``pairs``: pairs found to be in an allowed relation and stored;
    - ``partial_results``: combinations of some, not all, symbols that were built;
    - ``peak_stored``: the most intervals, pairs and partial results held at one time.
    """

    found: Any
    count: int
    counters: Mapping[str, int] = field(default_factory=dict)
    arrange: Callable[[Any], Ints] = _as_they_are
    #: Seconds by the method's own clock, of its first run and of warm ones, where only that says anything.
    own_seconds: float | None = None
    own_warm_seconds: float | None = None
    #: CPU seconds in which the stream was derived, which the method's own clock leaves out.
    deriving_seconds: float = 0.0
    #: The way in which it was run, of several.
    plan: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counters", dict.fromkeys(_COUNTERS, 0) | dict(self.counters))

    @cached_property
    def matches(self) -> Ints:
        """int64[count, 1 + n]: the time of the report, then the start of each symbol's interval.

        In the order of the reports; empty if they were only counted.
        """
        return self.arrange(self.found)


def one_partition(times: Ints, masks: Ints) -> tuple[Ints, Ints]:
    """Times and masks as the compiled loops take them, copied only if need be.

    One kind of array means one compilation; a read-only one would be another.
    """
    if len(times) != len(masks):
        raise ValueError(f"{len(times)} times and {len(masks)} masks; give a mask for each time")
    times, masks = (np.require(a, np.int64, ["C", "W"]) for a in (times, masks))
    if len(times) > 1 and not (times[1:] > times[:-1]).all():
        raise ValueError("the times do not increase strictly; give one partition, sorted by time")
    return times, masks


def sorted_matches(matches: Ints) -> Ints:
    """Matches in order of report, then of starts: one order for all methods.

    >>> sorted_matches(np.array([[5, 2], [4, 3], [4, 1]]))[:, 1].tolist()
    [1, 3, 2]
    """
    if not len(matches):
        return matches
    return matches[np.lexsort(matches.T[::-1])]
