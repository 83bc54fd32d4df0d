"""What a query must satisfy beyond its grammar; the parser and the builder both end here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from piestream.expressions.diagnostics import Diagnostic, Origin, Span, did_you_mean
from piestream.expressions.durations import NANOSECONDS, Duration, printed
from piestream.expressions.predicate import Predicate
from piestream.language.model import (
    Aggregate,
    Constraint,
    Emit,
    Query,
    RelationOf,
    Return,
    Symbol,
    Where,
)
from piestream.language.patterns import ConstraintSpec
from piestream.language.printer import default_returns
from piestream.relations import Relation, intersect, inverse, names

__all__ = ["MOST_SYMBOLS", "QueryDraft", "SymbolPart", "checked"]

#: One bit of a 64-bit mask for each symbol.
MOST_SYMBOLS = 64

#: Columns that every output may have besides those of RETURN.
RESERVED_COLUMNS = ("detected_at", "completed_at", "phase")

#: Two runs of one predicate never touch, and two symbols never bind the same run (SPEC 3).
APART = Relation.BEFORE | Relation.AFTER | Relation.FOLLOWED_BY | Relation.FOLLOWS


@dataclass(frozen=True, slots=True)
class SymbolPart:
    """A definition as it was given; no predicate if that had faults of its own."""

    name: str
    predicate: Predicate | None
    at_least: Duration | None = None
    at_most: Duration | None = None
    span: Span | None = None


@dataclass(slots=True)
class QueryDraft:
    """Everything that was said, before it is known to make sense."""

    symbols: list[SymbolPart] = field(default_factory=list)
    stated: list[ConstraintSpec] = field(default_factory=list)
    within: Duration | None = None
    returns: list[tuple[Return, Span | None]] = field(default_factory=list)
    source: str | None = None
    source_is_path: bool = False
    partition_by: list[str] = field(default_factory=list)
    order_by: str | None = None
    time_unit: str | None = None
    max_gap: Duration | None = None
    emit: Emit = Emit.TRIGGER
    spans: dict[Where, Span] = field(default_factory=dict)
    text: str | None = None
    #: Names in a PATTERN that has faults of its own, None when it was read whole: what follows
    #: from those faults is not reported again.
    pattern_words: frozenset[str] | None = None


def checked(parts: QueryDraft, diagnostics: list[Diagnostic]) -> Query | None:
    """The query that the parts make; None where anything is wrong, which is then in findings."""
    check = _Check(parts, diagnostics)
    check.definitions()
    constraints = check.pattern()
    check.times()
    check.outputs()
    if not diagnostics:
        check.satisfiable(constraints)
    if diagnostics:
        return None
    symbols = tuple(
        Symbol(part.name, part.predicate, part.at_least, part.at_most)
        for part in parts.symbols
        if part.predicate is not None
    )
    assert parts.within is not None
    return Query(
        symbols=symbols,
        constraints=constraints,
        within=parts.within,
        returns=tuple(item for item, _ in parts.returns) or default_returns(symbols),
        source=parts.source,
        source_is_path=parts.source_is_path,
        partition_by=tuple(parts.partition_by),
        order_by=parts.order_by,
        time_unit=parts.time_unit,
        max_gap=parts.max_gap,
        emit=parts.emit,
        origin=None if parts.text is None else Origin(parts.text, dict(parts.spans)),
    )


class _Check:
    def __init__(self, parts: QueryDraft, diagnostics: list[Diagnostic]) -> None:
        self.parts = parts
        self.diagnostics = diagnostics
        self.order: dict[str, int] = {}
        for part in parts.symbols:
            self.order.setdefault(part.name, len(self.order))

    def fault(self, span: Span | None, message: str, hint: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(span, message, hint))

    def fault_at(self, where: Where, message: str, hint: str | None = None) -> None:
        self.fault(self.parts.spans.get(where), message, hint)

    def known(self, name: str, span: Span | None) -> bool:
        if name in self.order:
            return True
        hint = did_you_mean(name, self.order)
        if hint is None and self.order:
            hint = f"the symbols are {', '.join(self.order)}"
        self.fault(span, f"there is no symbol {name}", hint)
        return False

    def definitions(self) -> None:
        seen: set[str] = set()
        for part in self.parts.symbols:
            if part.name in seen:
                self.fault(part.span, f"the symbol {part.name} is defined twice")
            seen.add(part.name)
        if len(self.parts.symbols) > MOST_SYMBOLS:
            over = self.parts.symbols[MOST_SYMBOLS]
            count = len(self.parts.symbols)
            self.fault(over.span, f"a query has at most {MOST_SYMBOLS} symbols, this has {count}")
        for part in self.parts.symbols:
            bounds = (self.length(part.at_least), self.length(part.at_most))
            if part.at_most is not None and part.at_most.amount == 0:
                self.fault_at(
                    ("at_most", part.name), f"no interval of {part.name} can be as short as 0"
                )
            elif part.at_least and part.at_most and _exceeds(*bounds):
                least, most = printed(part.at_least), printed(part.at_most)
                self.fault_at(
                    ("at_most", part.name),
                    f"{part.name} must last at least {least} and at most {most}, "
                    "which no interval can",
                )

    def length(self, duration: Duration | None) -> tuple[int, bool] | None:
        """A duration that can be compared: (amount, whether that counts bare ticks)."""
        if duration is None:
            return None
        if duration.in_ticks and self.parts.time_unit is not None:
            return duration.amount * NANOSECONDS[self.parts.time_unit], False
        return duration.amount, duration.in_ticks

    def pattern(self) -> tuple[Constraint, ...]:
        """The constraints, one a pair, the symbol that is defined first as x."""
        parts = self.parts
        used: set[str] = set()
        pairs: dict[tuple[str, str], Relation] = {}
        places: dict[tuple[str, str], Span | None] = {}
        complete, related_to_itself = True, False
        for stated in parts.stated:
            ends = [(stated.x, stated.x_span)]
            if stated.y is not None:
                ends.append((stated.y, stated.y_span))
            all_known = [self.known(name, span) for name, span in ends]
            complete &= all(all_known)
            used.update(name for name, _ in ends)
            if stated.y is None or not all(all_known):
                continue
            if stated.x == stated.y:
                message = f"{stated.x} is put in relation to itself"
                hint = "define a second symbol with the same predicate"
                self.fault(stated.span, message, hint)
                related_to_itself = True
                continue
            x, y, relations = stated.x, stated.y, stated.relations
            if self.order[x] > self.order[y]:
                x, y, relations = y, x, inverse(relations)
            if not relations:
                self.fault(stated.span, f"no relation of {x} to {y} satisfies this")
            elif (x, y) in pairs and not intersect(pairs[x, y], relations):
                if pairs[x, y] and parts.pattern_words is None:
                    self.fault(
                        stated.span,
                        f"this leaves no relation of {x} to {y}: an earlier constraint allows "
                        f"only {', '.join(names(pairs[x, y]))}, this one "
                        f"{', '.join(names(relations))}",
                    )
                relations = Relation(0)
            pairs[x, y] = intersect(pairs[x, y], relations) if (x, y) in pairs else relations
            places.setdefault((x, y), stated.span)
        for (x, y), span in places.items():
            if span is not None:
                parts.spans[("constraint", x, y)] = span
        # A constraint with a misspelt symbol hides what is used and connected.
        broken = parts.pattern_words
        if complete and (parts.stated or broken is not None):
            self.unused(used | (broken or frozenset()))
        if complete and broken is None and not related_to_itself:
            self.connected(used, pairs)
        position = self.order.__getitem__
        ordered = sorted(pairs, key=lambda pair: (position(pair[0]), position(pair[1])))
        return tuple(Constraint(x, y, pairs[x, y]) for x, y in ordered)

    def unused(self, used: set[str]) -> None:
        for part in self.parts.symbols:
            if part.name not in used:
                self.fault(
                    part.span,
                    f"the symbol {part.name} is defined but not used in PATTERN",
                    f"relate it to another symbol, or leave {part.name} out",
                )

    def connected(self, used: set[str], pairs: Iterable[tuple[str, str]]) -> None:
        group = {name: name for name in self.order if name in used}

        def root(name: str) -> str:
            while group[name] != name:
                name = group[name]
            return name

        for x, y in pairs:
            group[root(y)] = root(x)
        groups: dict[str, list[str]] = {}
        for name in group:
            groups.setdefault(root(name), []).append(name)
        if len(groups) < 2:
            return
        first, *others = groups.values()
        span = next((s.span for s in self.parts.stated if s.x in others[0]), None)
        apart = "; ".join(", ".join(names) for names in others)
        self.fault(
            span,
            f"no constraint connects {', '.join(first)} with {apart}",
            "every symbol must be related, directly or through others",
        )

    def times(self) -> None:
        parts = self.parts
        if parts.max_gap is not None and parts.max_gap.amount == 0:
            self.fault_at(("max_gap",), "MAX GAP must be longer than 0")
        for part in parts.symbols:
            if part.at_least and _exceeds(self.length(part.at_least), self.length(parts.within)):
                assert parts.within is not None
                self.fault_at(
                    ("within",),
                    f"the window of {printed(parts.within)} is shorter than {part.name} must "
                    f"last: {printed(part.at_least)}",
                )

    def outputs(self) -> None:
        parts = self.parts
        taken = dict.fromkeys(RESERVED_COLUMNS, "which is reserved")
        for column in parts.partition_by:
            if column in taken:
                reserved = column in RESERVED_COLUMNS
                message = (
                    f"{column} is the name of an output column, so it cannot be in PARTITION BY"
                    if reserved
                    else f"{column} is in PARTITION BY twice"
                )
                self.fault_at(("partition_by", column), message)
            elif column == parts.order_by:
                self.fault_at(("order_by",), f"{column} is in PARTITION BY and in ORDER BY")
            taken.setdefault(column, "from PARTITION BY")
        items: list[tuple[Return, Span | None]] = list(parts.returns)
        if not items:
            symbols = [Symbol(p.name, p.predicate) for p in parts.symbols if p.predicate]
            unique = {symbol.name: symbol for symbol in symbols}
            items = [(item, None) for item in default_returns(tuple(unique.values()))]
        for item, span in items:
            symbols_named = (item.x, item.y) if isinstance(item, RelationOf) else (item.symbol,)
            for symbol in symbols_named:
                self.known(symbol, span)
            if isinstance(item, RelationOf) and item.x == item.y:
                self.fault(span, f"RELATION needs two different symbols, not {item.x} twice")
            if item.alias in taken:
                self.fault(
                    span,
                    f"the output already has a column {item.alias}, {taken[item.alias]}",
                    "name it differently with AS",
                )
            taken.setdefault(item.alias, "from RETURN")
            if span is not None:
                parts.spans.setdefault(("return", item.alias), span)
                if isinstance(item, Aggregate) and item.column is not None:
                    parts.spans.setdefault(("column", item.alias), span)

    def satisfiable(self, constraints: tuple[Constraint, ...]) -> None:
        """Path consistency over Allen's composition table; the constraints that clash are named."""
        from piestream.automata.consistency import clash

        symbols = [part.name for part in self.parts.symbols]
        network: dict[tuple[str, str], Relation] = {c_pair(c): c.relations for c in constraints}
        same: set[tuple[str, str]] = set()
        for j, later in enumerate(self.parts.symbols):
            for earlier in self.parts.symbols[:j]:
                if earlier.predicate != later.predicate:
                    continue
                pair = (earlier.name, later.name)
                same.add(pair)
                allowed = intersect(network.get(pair, APART), APART)
                if not allowed:
                    self.fault_at(
                        ("constraint", *pair),
                        f"{earlier.name} and {later.name} have the same predicate, so one of "
                        f"them ends before the other begins: never "
                        f"{', '.join(names(network[pair]))}",
                    )
                    return
                network[pair] = allowed
        clashing = clash(symbols, network)
        if clashing is None:
            return
        named = [self.described(pair, network, same) for pair in clashing]
        stated = [p for p in clashing if ("constraint", *p) in self.parts.spans]
        where = ("constraint", *stated[-1]) if stated else ("pattern",)
        self.fault_at(where, "no intervals can satisfy together: " + " and ".join(named))

    def described(
        self,
        pair: tuple[str, str],
        network: Mapping[tuple[str, str], Relation],
        same: set[tuple[str, str]],
    ) -> str:
        x, y = pair
        relations = network[pair] if pair in network else inverse(network[y, x])
        said = f"({x} {'; '.join(names(relations))} {y})"
        if pair in same or (y, x) in same:
            said += " [same predicate]"
        return said


def c_pair(constraint: Constraint) -> tuple[str, str]:
    """The pair of symbols of a constraint."""
    return constraint.x, constraint.y


def _exceeds(longer: tuple[int, bool] | None, shorter: tuple[int, bool] | None) -> bool:
    if longer is None or shorter is None or longer[1] != shorter[1]:
        return False
    return longer[0] > shorter[0]
