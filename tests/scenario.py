"""A scenario: a query in parts, events, and the options to run it with.

The parts can be written in other ways (a clause turned round, the clauses in another order, another
clock), which is what the laws do. The query value is put together here by hand, so the oracle
does not depend on the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import polars as pl

from piestream.language.absences import Absence
from piestream.language.distances import Distance
from piestream.language.emission import EmissionLimits
from piestream.language.model import Query
from piestream.language.parts import (
    Constraint,
    DurationOf,
    Emit,
    Endpoint,
    RelationOf,
    Return,
    Source,
    Symbol,
)
from piestream.language.windows import NO_WINDOW, Window
from piestream.relations import ALL_NAMES, Relation, intersect, inverse
from tests import oracle
from tests.clock import Clock
from tests.truth import Expression, literal

__all__ = ["RELATION_SETS", "Clause", "Definition", "Limits", "Scenario", "Stream", "Where"]

#: What an endpoint comparison leaves of Allen's relations: one pair of intervals for each.
_EXAMPLES = {
    "before": (0, 1, 2, 3),
    "meets": (0, 1, 1, 2),
    "overlaps": (0, 2, 1, 3),
    "finished-by": (0, 2, 1, 2),
    "contains": (0, 3, 1, 2),
    "starts": (0, 1, 0, 2),
    "equals": (0, 1, 0, 1),
    "started-by": (0, 2, 0, 1),
    "during": (1, 2, 0, 3),
    "finishes": (1, 2, 0, 2),
    "overlapped-by": (1, 3, 0, 2),
    "met-by": (1, 2, 0, 1),
    "after": (2, 3, 0, 1),
}


_SHARING = tuple(name for name in _EXAMPLES if name not in ("before", "meets", "met-by", "after"))
#: Sets of relations that have a name, and of each the set that says the same of y and x.
RELATION_SETS = {
    "intersects": _SHARING,
    "disjoint": ("before", "meets", "met-by", "after"),
    "covers": ("contains", "started-by", "finished-by", "equals"),
    "inside": ("during", "starts", "finishes", "equals"),
    "precedes": ("before", "meets"),
    "succeeds": ("after", "met-by"),
}
_TURNED_SETS = {
    "intersects": "intersects",
    "disjoint": "disjoint",
    "covers": "inside",
    "inside": "covers",
    "precedes": "succeeds",
    "succeeds": "precedes",
}

_TURNED = str.maketrans("<>", "><")

_COMPARISON = re.compile(r"\w+ (?:[<>]=?|=|<>) \S+")


@dataclass(frozen=True, slots=True)
class Definition:
    """``name AS predicate AT LEAST d``: durations in beats of the clock."""

    name: str
    predicate: Expression
    at_least: int | None = None
    at_most: int | None = None
    at_least_events: int | None = None
    at_most_events: int | None = None
    bridging: int | None = None
    silence: int | None = None  # SILENCE LONGER THAN: all silences of the stream

    def text(self, clock: Clock) -> str:
        """The definition as a query writes it."""
        bounds = ""
        if self.at_least is not None and self.at_most is not None:
            bounds = f" BETWEEN {clock.text(self.at_least)} AND {clock.text(self.at_most)}"
            if clock.unit is None and not _COMPARISON.fullmatch(self.predicate.text):
                # After a value, BETWEEN two bare numbers is SQL's.
                bounds = bounds.replace("BETWEEN", "AT LEAST").replace("AND", "AT MOST")
        elif self.at_least is not None:
            bounds = f" AT LEAST {clock.text(self.at_least)}"
        elif self.at_most is not None:
            bounds = f" AT MOST {clock.text(self.at_most)}"
        if self.silence is not None:
            longer = clock.text(self.silence)
            return f"{self.name} AS {self.predicate.text} LONGER THAN {longer}{bounds}"
        return f"{self.name} AS {self.predicate.written(clock)}{bounds}{self._event_bounds()}{self._bridge(clock)}"

    def _bridge(self, clock: Clock) -> str:
        return "" if self.bridging is None else f" BRIDGING {clock.text(self.bridging)}"

    @property
    def counts_events(self) -> bool:
        """Whether the number of an interval's events has a bound."""
        return self.at_least_events is not None or self.at_most_events is not None

    def _event_bounds(self) -> str:
        least, most = self.at_least_events, self.at_most_events
        if least is not None and most is not None:
            return f" BETWEEN {least} AND {most} EVENTS"
        if least is not None:
            return f" AT LEAST {least} EVENTS"
        return "" if most is None else f" AT MOST {most} EVENTS"


@dataclass(frozen=True, slots=True)
class Clause:
    """A constraint: relation names, or comparisons of endpoints like ``("ts", "<", "te")``.

    Or a distance: ``("te", "ts", "<=", 5)`` is ``y.ts - x.te <= 5`` beats, with BETWEEN two of them.
    """

    x: str
    y: str
    names: tuple[str, ...] = ()
    comparison: tuple[str, str, str] | None = None
    distance: tuple[str, str, str, tuple[int, ...]] | None = None
    written: str = "; "  # how alternatives are separated; "full": each written out
    turned: bool = False
    set_name: str | None = None  # a set of RELATION_SETS, by whose name its relations are written

    def relations(self) -> Relation:
        """What it allows between x and y."""
        names: Sequence[str] = self.names
        if self.distance is not None:
            names = list(_EXAMPLES)
        elif self.comparison is not None:
            names = [name for name, ends in _EXAMPLES.items() if self._compares(ends)]
        flags = Relation(0)
        for name in names:
            flags |= Relation(1 << ALL_NAMES.index(name))
        return flags

    def _compares(self, ends: tuple[int, int, int, int]) -> bool:
        assert self.comparison is not None
        of_x, sign, of_y = self.comparison
        left = ends[0] if of_x == "ts" else ends[1]
        right = ends[2] if of_y == "ts" else ends[3]
        return {"<": left < right, "<=": left <= right, "=": left == right}[sign]

    def distances(self, clock: Clock) -> tuple[Distance, ...]:
        """What it says of how far the two lie apart; lengths are never negative."""
        if self.distance is None:
            return ()
        of_x, of_y, sign, beats = self.distance
        signs = {"BETWEEN": (">=", "<="), "=": (">=", "<=")}.get(sign, (sign,))
        found = []
        for one, number in zip(signs, (beats * 2)[: len(signs)], strict=True):
            x, y = (self.x, of_x), (self.y, of_y)
            if number < 0:
                x, y, one = y, x, one.translate(_TURNED)
            found.append(Distance(*y, *x, one, clock.duration(abs(number))))
        return tuple(found)

    def _distance_text(self, clock: Clock) -> str:
        assert self.distance is not None
        of_x, of_y, sign, beats = self.distance
        x, y = f"{self.x}.{of_x}", f"{self.y}.{of_y}"
        if self.turned and sign != "BETWEEN":
            x, y, sign, beats = y, x, sign.translate(_TURNED), tuple(-number for number in beats)
        lengths = [("-" * (number < 0)) + clock.text(abs(number)) for number in beats]
        if sign == "BETWEEN":
            return f"{y} - {x} BETWEEN {lengths[0]} AND {lengths[1]}"
        if self.written == "full":
            return f"{y} {sign} {x} + {lengths[0]}".replace("+ -", "- ")
        return f"{y} - {x} {sign} {lengths[0]}"

    def _set_written(self) -> str | None:
        """The set that is written by its name: all of its relations are allowed."""
        of_set = self.set_name
        return of_set if of_set and {*RELATION_SETS[of_set]} <= {*self.names} else None

    def text(self, clock: Clock) -> str:
        """The clause as a query writes it, the pair turned round if it says so."""
        if self.distance is not None:
            return self._distance_text(clock)
        if self.comparison is not None:
            of_x, sign, of_y = self.comparison
            left, right = f"{self.x}.{of_x}", f"{self.y}.{of_y}"
            if self.turned:
                return f"{right} {sign.replace('<', '>')} {left}"
            return f"{left} {sign} {right}"
        x, y, names, of_set = self.x, self.y, list(self.names), self._set_written()
        names = [name for name in names if name not in RELATION_SETS.get(of_set or "", ())]
        if self.turned:
            x, y = y, x
            names = [ALL_NAMES[-1 - ALL_NAMES.index(name)] for name in names]
            of_set = _TURNED_SETS.get(of_set or "")
        names += [of_set] if of_set is not None else []
        if self.written == "full":
            return "; ".join(f"{x} {name} {y}" for name in names)
        return f"{x} {self.written.join(names)} {y}"


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on matches: its truth over items of RETURN, each named by its text."""

    condition: Expression
    items: tuple[Return, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is left out of the result; the cooldown in beats of the clock."""

    once_per: tuple[str, ...] = ()
    no_overlap: bool = False
    cooldown: int | None = None
    limit: int | None = None

    def lines(self, clock: Clock) -> list[str]:
        """The clauses as a query writes them."""
        lines = ["ONCE PER " + ", ".join(self.once_per)] if self.once_per else []
        lines += ["NO OVERLAP"] if self.no_overlap else []
        lines += [] if self.cooldown is None else [f"COOLDOWN {clock.text(self.cooldown)}"]
        return lines + ([] if self.limit is None else [f"LIMIT {self.limit}"])

    def value(self, clock: Clock) -> EmissionLimits:
        """The limits as a query holds them."""
        cooldown = None if self.cooldown is None else clock.duration(self.cooldown)
        return EmissionLimits(self.once_per, self.no_overlap, cooldown, self.limit)


@dataclass(frozen=True)
class Stream:
    """Events (time in ticks, in order of arrival), their types, and the truth of predicates."""

    rows: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, pl.DataType]  # of the columns
    truth: Mapping[str, Expression]  # the predicate of each symbol, for the oracle
    clock: Clock = field(default_factory=Clock)
    ties: str = "error"
    time: str = "ts"
    where: Where | None = None
    sequence: str | None = None  # what orders events of one time: a column, or ROW

    def instant(self, position: int) -> tuple[int, int]:
        """Where an event comes in its partition, as far as that is said."""
        row = self.rows[position]
        if self.sequence is None:
            return row[self.time], 0
        return row[self.time], position if self.sequence == "ROW" else row[self.sequence]

    def matches(self, query: Query, **options: Any) -> list[dict[str, Any]]:
        """The oracle's rows."""
        return oracle.matches(
            query,
            self.rows,
            self.truth,
            clock=self.clock,
            time=self.time,
            ties=self.ties,
            where=None if self.where is None else (self.where.condition, self.where.items),
            **options,
        )

    def frame(self, rows: Sequence[Mapping[str, Any]] | None = None) -> pl.DataFrame:
        """The events (or some of them) as a frame, with the clock's type of time."""
        rows = self.rows if rows is None else rows
        schema = {**self.schema, self.time: pl.Int64()}
        frame = pl.DataFrame([dict(row) for row in rows], schema=schema, orient="row")
        return frame.with_columns(pl.col(self.time).cast(self.clock.dtype))

    def event(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """An event as a dictionary of plain Python values."""
        return {**row, self.time: self.clock.native(row[self.time])}


@dataclass(frozen=True)
class Scenario:
    """A query in parts, its events (time in ticks, in order of arrival) and its options."""

    definitions: tuple[Definition, ...]
    clauses: tuple[Clause, ...]
    rows: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, pl.DataType]  # of the columns, the time column first
    clock: Clock = field(default_factory=Clock)
    within: int | None = 1_000  # of all symbols
    windows: tuple[tuple[str, int], ...] = ()  # of some of them
    max_gap: int | None = None
    emit: Emit = Emit.TRIGGER
    keys: tuple[str, ...] = ()
    returns: tuple[Return, ...] = ()  # empty: RETURN is left out
    ties: str = "error"
    where: Callable[[Clock], Where] | None = None
    limits: Limits = Limits()
    absences: tuple[tuple[str, tuple[Clause, ...]], ...] = ()  # symbols, and what they may not be
    name: str = field(default="", compare=False)
    sequence: str | None = None  # what orders events of one time: a column, or ROW
    has_lets: bool = False  # whether what reads earlier events is named by LET
    had_matches: bool = field(default=False, compare=False)  # when it was drawn

    @property
    def truth(self) -> dict[str, Expression]:
        """The predicate of each symbol, for the oracle."""
        return {definition.name: definition.predicate for definition in self.definitions}

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of the symbols of a match in the order of their definitions."""
        absent = {name for name, _ in self.absences}
        return tuple(d.name for d in self.definitions if d.name not in absent)

    def text(self) -> str:
        """The query as text."""
        head = "FROM events"
        if self.keys:
            head += " PARTITION BY " + ", ".join(self.keys)
        head += " ORDER BY ts"
        if self.clock.declared_unit is not None:
            head += f" UNIT {self.clock.declared_unit}"
        if self.sequence is not None:
            head += f", {self.sequence}"
        if self.max_gap is not None:
            head += f" MAX GAP {self.clock.text(self.max_gap)}"
        conjuncts = [clause.text(self.clock) for clause in self.clauses] or [self.symbols[0]]
        for _, clauses in self.absences:
            conjuncts.append(f"NOT ({' AND '.join(c.text(self.clock) for c in clauses)})")
        lets, definitions = let_lines(self.definitions, self.clock if self.has_lets else None)
        lines = [
            head,
            *lets,
            "DEFINE " + ",\n       ".join(d.text(self.clock) for d in definitions),
            "PATTERN " + "\n    AND ".join(conjuncts),
            f"WITHIN {windows_text(self.clock, self.within, self.windows)}",
        ]
        if self.where is not None:
            lines.append(f"WHERE {self.where(self.clock).condition.text}")
        if self.emit is not Emit.TRIGGER:
            lines.append(f"EMIT ON {self.emit.value}")
        lines += self.limits.lines(self.clock)
        if self.returns:
            lines.append("RETURN " + ",\n       ".join(_written(item) for item in self.returns))
        return "\n".join(lines) + "\n"

    def query(self) -> Query:
        """The query as a value, made without the parser."""
        symbols = []
        for one in self.definitions:
            least = None if one.at_least is None else self.clock.duration(one.at_least)
            most = None if one.at_most is None else self.clock.duration(one.at_most)
            symbols.append(
                Symbol(
                    one.name,
                    one.predicate,  # type: ignore[arg-type]
                    least,
                    most,
                    at_least_events=one.at_least_events,
                    at_most_events=one.at_most_events,
                    bridging=None if one.bridging is None else self.clock.duration(one.bridging),
                )
            )
        default = (
            Endpoint(name, which, f"{name}_{which}")
            for name in self.symbols
            for which in ("ts", "te")
        )
        return Query(
            symbols=tuple(symbols),
            constraints=self._constraints(self.clauses),
            absences=tuple(
                Absence(one.name, self._constraints(clauses))
                for one in self.definitions
                for name, clauses in self.absences
                if name == one.name
            ),
            within=NO_WINDOW if self.within is None else self.clock.duration(self.within),
            windows=tuple(
                Window(name, self.clock.duration(length))
                for name, length in sorted(
                    self.windows, key=lambda window: self.symbols.index(window[0])
                )
            ),
            returns=self.returns or tuple(default),
            streams=(
                Source(
                    name="events",
                    order_by="ts",
                    sequence=None if self.sequence == "ROW" else self.sequence,
                    row_order=self.sequence == "ROW",
                    time_unit=self.clock.declared_unit,
                    max_gap=None if self.max_gap is None else self.clock.duration(self.max_gap),
                ),
            ),
            partition_by=self.keys,
            emit=self.emit,
            limits=self.limits.value(self.clock),
        )

    def _constraints(self, clauses: Iterable[Clause]) -> tuple[Constraint, ...]:
        """One a pair, the symbol that is defined first as x."""
        order = [definition.name for definition in self.definitions]
        allowed: dict[tuple[str, str], Relation] = {}
        distances: dict[tuple[str, str], tuple[Distance, ...]] = {}
        for clause in clauses:
            pair, relations = (clause.x, clause.y), clause.relations()
            if order.index(clause.x) > order.index(clause.y):
                pair, relations = (clause.y, clause.x), inverse(relations)
            held = allowed.get(pair)
            allowed[pair] = relations if held is None else intersect(held, relations)
            distances[pair] = distances.get(pair, ()) + clause.distances(self.clock)
        return tuple(Constraint(*pair, set_, distances[pair]) for pair, set_ in allowed.items())

    @property
    def stream(self) -> Stream:
        """The events and how to take them."""
        where = None if self.where is None else self.where(self.clock)
        return Stream(
            self.rows, self.schema, self.truth, self.clock, self.ties, where=where,
            sequence=self.sequence,
        )  # fmt: skip

    def expected(self, **options: Any) -> list[dict[str, Any]]:
        """The oracle's rows; without options they are found once, for all engines."""
        if options:
            return self.stream.matches(self.query(), **options)
        return [dict(row) for row in self._expected]

    @cached_property
    def _expected(self) -> list[dict[str, Any]]:
        return self.stream.matches(self.query())

    def having(self, **changes: Any) -> Scenario:
        """The scenario with some of its parts changed."""
        return replace(self, **changes)

    def without_absences(self) -> Scenario:
        """The scenario without symbols that may not be there."""
        definitions = tuple(one for one in self.definitions if one.name in self.symbols)
        return self.having(definitions=definitions, absences=())

    def without_bridges(self) -> Scenario:
        """The scenario without BRIDGING."""
        return self.having(definitions=tuple(replace(d, bridging=None) for d in self.definitions))

    def reporting_both(self) -> Scenario:
        """The scenario with EMIT ON BOTH, with which WHERE and limits cannot stand together."""
        limits = self.limits if self.where is None else Limits()
        return self.having(emit=Emit.BOTH, limits=limits)

    def __str__(self) -> str:
        """Everything that is needed to see it again."""
        rows = "\n".join(f"    {dict(row)}," for row in self.rows)
        return f"{self.name}\n{self.text()}-- {self.clock}, ties={self.ties!r}\nrows = [\n{rows}\n]"


#: What reads earlier events of one column.
_OF_THE_PAST = re.compile(
    r"(?:AVG|SUM|MIN|MAX|COUNT|STDDEV)\([\w.]+\) OVER (?:\d+ EVENTS|\{\d+\})|PREV\([\w.]+(?:, \d+)?\)"
)


def let_lines(
    definitions: Sequence[Definition], clock: Clock | None
) -> tuple[list[str], list[Definition]]:
    """LET with names for what predicates read of earlier events, and the predicates that use them.

    Without a clock nothing is named.
    """
    if clock is None:
        return [], list(definitions)
    names: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"let{len(names)}")

    using = []
    for one in definitions:
        text = _OF_THE_PAST.sub(named, one.predicate.text)
        using.append(replace(one, predicate=Expression(text, one.predicate.value)))
    lets = [f"{n} = {Expression(t, literal(None).value).written(clock)}" for t, n in names.items()]
    return ["LET " + ",\n    ".join(lets)] if lets else [], using


def windows_text(clock: Clock, within: int | None, windows: Iterable[tuple[str, int]]) -> str:
    """WITHIN as it is written, without the word."""
    parts = [] if within is None else [clock.text(within)]
    return ", ".join([*parts, *(f"{clock.text(length)} OF {name}" for name, length in windows)])


def _written(item: Return) -> str:
    if isinstance(item, Endpoint):
        plain, default = f"{item.symbol}.{item.which}", f"{item.symbol}_{item.which}"
    elif isinstance(item, DurationOf):
        plain, default = f"DURATION({item.symbol})", ""
    elif isinstance(item, RelationOf):
        plain, default = f"RELATION({item.x}, {item.y})", ""
    else:
        plain, default = f"{item.function}({item.symbol})", ""
        if item.column is not None:
            plain = f"{item.function}({item.symbol}.{item.column})"
            default = f"{item.function.lower()}_{item.symbol}_{item.column}"
    return plain if item.alias == default else f"{plain} AS {item.alias}"


def windows_without(
    gone: str, within: int | None, windows: tuple[tuple[str, int], ...]
) -> dict[str, Any]:
    """The windows of a scenario that has a symbol less: there is always one."""
    left = tuple(window for window in windows if window[0] != gone)
    return {"within": within if left or within is not None else 10_000, "windows": left}
