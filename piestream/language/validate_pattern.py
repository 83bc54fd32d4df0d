"""The constraints of a pattern: one a pair, connecting all symbols, and possible to satisfy."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from piestream.expressions.diagnostics import Span
from piestream.language.distances import Distance, normalized
from piestream.language.draft import ConstraintSpec, SymbolSpec
from piestream.language.parts import Constraint, Emit, Where
from piestream.language.validation import Validation
from piestream.language.windows import NO_WINDOW
from piestream.relations import ANY, PRECISE_FORM, Relation, intersect, inverse, names

__all__ = ["Clash", "Pairs", "clash_of", "report_unsatisfiable", "validated_constraints"]

Pair = tuple[str, str]

#: Two runs of one predicate never touch, and two symbols never bind the same run.
_APART = Relation(sum(PRECISE_FORM) | sum(PRECISE_FORM.values()))


def validated_constraints(validation: Validation) -> tuple[Constraint, ...]:
    """The constraints, one a pair, the symbol that is defined first as x."""
    draft = validation.draft
    pairs = Pairs(validation, draft.constraints)
    # A constraint with a misspelt symbol hides what is used and connected.
    unread = draft.pattern_words
    if pairs.all_defined and (draft.constraints or unread is not None):
        in_absences = {
            name
            for absence in draft.absences
            for c in absence.constraints
            for name in (c.x, c.y)
            if name is not None
        }
        _report_unused(validation, pairs.used | in_absences | (unread or frozenset()))
    if pairs.all_defined and unread is None and not pairs.relates_to_itself:
        _report_unconnected(validation, pairs.used, pairs.relations)
    return pairs.constraints()


class Pairs:
    """The relations of each pair of symbols, as more and more constraints are intersected."""

    def __init__(self, validation: Validation, given: Iterable[ConstraintSpec]) -> None:
        self.validation = validation
        self.relations: dict[Pair, Relation] = {}
        self.spans: dict[Pair, Span | None] = {}  # of the first constraint on the pair
        self.distances: dict[Pair, list[Distance]] = {}
        self.used: set[str] = set()
        self.all_defined = True
        self.relates_to_itself = False
        for spec in given:
            self._add(spec)
        for (x, y), span in self.spans.items():
            if span is not None:
                validation.draft.spans[("constraint", x, y)] = span

    def constraints(self) -> tuple[Constraint, ...]:
        """One a pair, in the order of the definitions."""
        position = self.validation.position
        ordered = sorted(self.relations, key=lambda pair: (position[pair[0]], position[pair[1]]))
        return tuple(
            Constraint(x, y, self.relations[x, y], normalized(x, y, self.distances.get((x, y), ())))
            for x, y in ordered
        )

    def _add(self, spec: ConstraintSpec) -> None:
        is_defined = self._use(spec.x, spec.x_span)
        if spec.y is None:
            return
        is_defined &= self._use(spec.y, spec.y_span)
        if not is_defined:
            return
        if spec.x == spec.y:
            message = f"{spec.x} is related to itself"
            hint = "define a second symbol with the same predicate"
            self.validation.report(spec.span, message, hint)
            self.relates_to_itself = True
            return
        _report_unknown_gap(self.validation, spec)
        position = self.validation.position
        if position[spec.x] < position[spec.y]:
            pair, relations = (spec.x, spec.y), spec.relations
        else:
            pair, relations = (spec.y, spec.x), inverse(spec.relations)
        self._intersect(pair, relations, spec.span)
        if spec.distances:
            self.distances.setdefault(pair, []).extend(spec.distances)
            if spec.span is not None:
                self.validation.draft.spans.setdefault(("distance", *pair), spec.span)

    def _use(self, name: str, span: Span | None) -> bool:
        is_defined = self.validation.is_defined(name, span)
        self.all_defined &= is_defined
        self.used.add(name)
        return is_defined

    def _intersect(self, pair: Pair, relations: Relation, span: Span | None) -> None:
        x, y = pair
        earlier = self.relations.get(pair)
        both = relations if earlier is None else intersect(earlier, relations)
        if not relations:
            self.validation.report(span, f"no relation of {x} to {y} satisfies this")
        elif not both and earlier and self.validation.draft.pattern_words is None:
            self.validation.report(
                span,
                f"this leaves no relation of {x} to {y}: an earlier constraint allows "
                f"only {', '.join(names(earlier))}, this one {', '.join(names(relations))}",
            )
        self.relations[pair] = both
        self.spans.setdefault(pair, span)


def _report_unknown_gap(validation: Validation, spec: ConstraintSpec) -> None:
    """Whether nothing touches a gap is never known where rows may become known at their ends only."""
    if not spec.relations & (Relation.FOLLOWED_BY | Relation.FOLLOWS):
        return
    draft = validation.draft
    for symbol in draft.symbols:
        stream = draft.streams[symbol.stream]
        if symbol.name not in (spec.x, spec.y) or not stream.is_ready_made:
            continue
        if not stream.known_at_start:
            message = (
                f"{spec.x} and {spec.y}: whether an interval of {symbol.name} lies between is not "
                f"known while rows of {stream.name} may come at their ends"
            )
            hint = "take before or after"
            if stream.silence is not None:
                message = (
                    f"{spec.x} and {spec.y}: whether {symbol.name} lies between is not known at "
                    "once, because a silence becomes known later than it begins"
                )
            elif not stream.is_query:
                hint += ", or KNOWN AT START if the rows come at their starts"
            validation.report(spec.span, message, hint)
            return


def _report_unused(validation: Validation, used: Collection[str]) -> None:
    for spec in validation.draft.symbols:
        if spec.name not in used:
            validation.report(
                spec.span,
                f"the symbol {spec.name} is defined but not used in PATTERN",
                f"relate it to another symbol, or leave {spec.name} out",
            )


def _report_unconnected(
    validation: Validation, used: Collection[str], pairs: Iterable[Pair]
) -> None:
    parent = {name: name for name in validation.position if name in used}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for x, y in pairs:
        parent[root(y)] = root(x)
    groups: dict[str, list[str]] = {}
    for name in parent:
        groups.setdefault(root(name), []).append(name)
    if len(groups) < 2:
        return
    first, *others = groups.values()
    span = next((c.span for c in validation.draft.constraints if c.x in others[0]), None)
    apart = "; ".join(", ".join(group) for group in others)
    validation.report(
        span,
        f"no constraint connects {', '.join(first)} with {apart}",
        "every symbol must be related, directly or through others",
    )


def report_unsatisfiable(validation: Validation, constraints: tuple[Constraint, ...]) -> None:
    """Report constraints that no intervals can satisfy together, found by path consistency."""
    found = clash_of(validation, constraints)
    if found is not None:
        message = found.message or f"no intervals can satisfy together: {found.listed}"
        validation.report_at(found.where, message)


@dataclass(frozen=True, slots=True)
class Clash:
    """Parts of a pattern that contradict each other, and where the last of them stands."""

    listed: str
    where: Where
    message: str | None = None  # where more is to be said than the parts


def clash_of(
    validation: Validation,
    constraints: Iterable[Constraint],
    absent: Collection[SymbolSpec] = (),
) -> Clash | None:
    """Constraints that no intervals of these symbols can satisfy together, None if none are found."""
    from piestream.automata.consistency import clash

    draft = validation.draft
    constraints = tuple(constraints)
    specs = [spec for spec in draft.symbols if spec in absent or spec in validation.present]
    network: dict[Pair, Relation] = {(c.x, c.y): c.relations for c in constraints}
    same_predicate = _same_predicate_pairs(validation, specs)
    for pair in same_predicate:
        allowed = intersect(network.get(pair, _APART), _APART)
        if not allowed:
            earlier, later = pair
            return Clash(
                "",
                ("constraint", *pair),
                f"{earlier} and {later} have the same predicate, so one of "
                f"them ends before the other begins: never {', '.join(names(network[pair]))}",
            )
        network[pair] = allowed
    clashing: Sequence[Hashable] | None = clash([spec.name for spec in specs], network)
    if clashing is None:
        clashing = _clash_of_lengths(validation, constraints, network, absent)
    if clashing is None:
        return None
    listed = []
    for part in clashing:
        if part in network:
            x, y = part
            text = f"({x} {'; '.join(names(network[x, y]))} {y})"
            listed.append(text + " [same predicate]" * (part in same_predicate))
        else:
            listed.append(f"({part})")
    of: dict[Hashable, Where] = {
        str(d): ("distance", c.x, c.y) for c in constraints for d in c.distances
    }
    of |= {pair: ("constraint", *pair) for pair in network}
    written = [of[part] for part in clashing if part in of and of[part] in draft.spans]
    return Clash(" and ".join(listed), written[-1] if written else ("pattern",))


def _clash_of_lengths(
    validation: Validation,
    constraints: Iterable[Constraint],
    network: Mapping[Pair, Relation],
    absent: Collection[SymbolSpec],
) -> Sequence[Hashable] | None:
    """Parts of a query that clash, of which some speak of lengths; None if none are found."""
    from piestream.automata.differences import clashing_parts
    from piestream.language.difference_bounds import bounds_of, known_at_report, silent_for

    draft, present = validation.draft, validation.present
    within = draft.within or NO_WINDOW
    unit = next((stream.time_unit for stream in draft.streams if stream.time_unit), None)
    known = {pair: relations for pair, relations in network.items() if relations != ANY}
    lasting = [spec for spec in present if not draft.streams[spec.stream].known_at_start]
    more = [*known_at_report(lasting, within, draft.windows)] * (draft.emit is not Emit.COMPLETION)
    more += [silent_for(s.name, s.silence) for s in (*present, *absent) if s.silence is not None]
    for in_ticks in (False, True):
        bounds = bounds_of(
            present, constraints, within, draft.windows, draft.emit, unit, in_ticks, absent, more
        )
        symbols = [spec.name for spec in (*present, *absent)]
        found = clashing_parts(symbols, known, bounds, draft.is_sequenced)
        if found is not None:
            return found
    return None


def _same_predicate_pairs(validation: Validation, symbols: Sequence[SymbolSpec]) -> list[Pair]:
    streams = validation.draft.streams
    return [
        (earlier.name, later.name)
        for position, later in enumerate(symbols)
        for earlier in symbols[:position]
        if (earlier.predicate, earlier.stream, earlier.bridging)
        == (later.predicate, later.stream, later.bridging)
        and not streams[later.stream].is_ready_made  # whose intervals may overlap
    ]
