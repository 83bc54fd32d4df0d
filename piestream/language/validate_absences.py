"""``NOT (…)`` in a pattern: which symbol is absent, whether it can be there, and how long that is open."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod

from piestream.language.absences import Absence
from piestream.language.draft import AbsenceSpec
from piestream.language.lateness import why_unbounded
from piestream.language.parts import Constraint
from piestream.language.validate_pattern import Pairs, clash_of
from piestream.language.validation import Validation
from piestream.language.windows import NO_WINDOW
from piestream.relations import ANY, convex_parts, names

#: Choices of relations, of which each is judged by itself, that one NOT may leave.
_MOST_CHOICES = 512

__all__ = ["report_endless", "report_needless", "validated_absences"]


def validated_absences(validation: Validation) -> tuple[Absence, ...]:
    """The absences of a pattern, in the order in which their symbols are defined."""
    draft = validation.draft
    if not draft.absences:
        return ()
    present = {name for c in draft.constraints for name in (c.x, c.y) if name is not None}
    if not present:
        if draft.pattern_words is None:
            validation.report(
                draft.absences[0].span,
                "this pattern only says what may not be there",
                "say what must be there, too: PATTERN a AND NOT (c after a AND …)",
            )
        return ()
    found: dict[str, Absence] = {}
    for spec in draft.absences:
        constraints = _constraints(validation, spec)
        symbol = None if constraints is None else _absent_symbol(validation, spec, present)
        if constraints is None or symbol is None:
            continue
        if symbol in found:
            validation.report(
                spec.span,
                f"{symbol} is absent in two NOTs",
                "define a second symbol with the same predicate",
            )
        elif (
            _speak_of(validation, spec, symbol)
            and not _is_too_fine(validation, spec, symbol)
            and not _leaves_too_many(validation, spec, symbol, constraints)
        ):
            found[symbol] = Absence(symbol, constraints)
            if spec.span is not None:
                draft.spans["absence", symbol] = spec.span
    validation.absent = frozenset(found)
    return tuple(found[name] for name in sorted(found, key=validation.position.__getitem__))


def _constraints(validation: Validation, spec: AbsenceSpec) -> tuple[Constraint, ...] | None:
    """The constraints of a NOT, one a pair; None if something is wrong with them."""
    before = len(validation.diagnostics)
    for one in spec.constraints:
        if one.y is None and validation.is_defined(one.x, one.x_span):
            hint = f"relate it to a symbol of the match, as in NOT ({one.x} during a)"
            validation.report(one.span, f"NOT (…) says nothing of when {one.x} may not be", hint)
    pairs = Pairs(validation, [one for one in spec.constraints if one.y is not None])
    return pairs.constraints() if len(validation.diagnostics) == before else None


def _names(spec: AbsenceSpec) -> Iterator[str]:
    """The symbols of a NOT, each once."""
    named = (name for one in spec.constraints for name in (one.x, one.y) if name is not None)
    yield from dict.fromkeys(named)


def _absent_symbol(
    validation: Validation, spec: AbsenceSpec, present: Collection[str]
) -> str | None:
    """The one symbol that stands nowhere outside; None if there is not one."""
    found = [name for name in _names(spec) if name not in present]
    if len(found) == 1:
        return found[0]
    if not found:
        hint = "a symbol that is absent stands nowhere else: define one with the same predicate"
        only = spec.constraints[0]
        others = ANY & ~only.relations
        if len(spec.constraints) == 1 and not only.distances and others:
            written = f"{only.x} {'; '.join(names(others))} {only.y}"
            hint = f"write the relations that may hold: {written}"
        named = " and ".join(_names(spec))
        validation.report(spec.span, f"{named} are in the match, so none of them is absent", hint)
        return None
    if validation.draft.pattern_words is None:
        validation.report(
            spec.span,
            f"of {' and '.join(found)}, only one can be absent, and the others must be in the match",
            "join what is there with AND outside of NOT (…); each NOT has one absent symbol",
        )
    return None


def _speak_of(validation: Validation, spec: AbsenceSpec, symbol: str) -> bool:
    """Whether each constraint of a NOT is about the symbol that is absent."""
    others = [one for one in spec.constraints if symbol not in (one.x, one.y)]
    for one in others:
        message = f"this says nothing of {symbol}, which is absent"
        validation.report(one.span, message, "join it with AND outside of NOT (…)")
    return not others


def _is_too_fine(validation: Validation, spec: AbsenceSpec, symbol: str) -> bool:
    """Whether a NOT asks what is not looked after yet; reports it."""
    before = len(validation.diagnostics)
    streams = {one.name: validation.draft.streams[one.stream] for one in validation.draft.symbols}
    for definition in validation.draft.symbols:
        if definition.name != symbol:
            continue
        source = streams[symbol].source()
        if source.is_known_late and source.lateness is None:
            assert source.query is not None
            why, hint = why_unbounded(source.query) or ("", "")
            message = f"nothing bounds how late {symbol}, which is absent, becomes known: {why}"
            validation.report(spec.span, message, hint)
    return len(validation.diagnostics) > before


def _leaves_too_many(
    validation: Validation, spec: AbsenceSpec, symbol: str, constraints: tuple[Constraint, ...]
) -> bool:
    """Whether a NOT leaves more choices of relations than can be judged; reports it."""
    choices = prod(len(convex_parts(constraint.relations)) for constraint in constraints)
    if choices > _MOST_CHOICES:
        validation.report(
            spec.span,
            f"this NOT (…) leaves {choices} ways in which {symbol} may lie to the others, and at most "
            f"{_MOST_CHOICES} can be judged",
            f"relate {symbol} to fewer symbols, or by relations that are one range, as intersects or before",
        )
    return choices > _MOST_CHOICES


def report_needless(
    validation: Validation,
    constraints: tuple[Constraint, ...],
    absences: tuple[Absence, ...],
) -> None:
    """Report a NOT that nothing could ever satisfy, so that it always holds."""
    specs = {spec.name: spec for spec in validation.draft.symbols}
    for absence in absences:
        found = clash_of(validation, (*constraints, *absence.constraints), (specs[absence.symbol],))
        if found is not None:
            because = found.message or f"nothing can satisfy together: {found.listed}"
            validation.report_at(
                ("absence", absence.symbol),
                f"no interval of {absence.symbol} can be what this NOT (…) speaks of, so it always "
                f"holds: {because}",
                "leave it out, or correct it",
            )


def report_endless(
    validation: Validation,
    constraints: tuple[Constraint, ...],
    absences: tuple[Absence, ...],
) -> None:
    """Report a NOT that would be waited for without an end, or for which intervals are kept for ever."""
    from piestream.language.difference_bounds import absence_bounds, too_long

    draft = validation.draft
    unit = next((stream.time_unit for stream in draft.streams if stream.time_unit), None)
    specs = {spec.name: spec for spec in draft.symbols}
    within = draft.within or NO_WINDOW
    for absence in absences:
        symbol, where = absence.symbol, ("absence", absence.symbol)
        source = draft.streams[specs[symbol].stream].source()
        found = absence_bounds(
            validation.present, specs[symbol], constraints, absence, within, draft.windows,
            draft.emit, unit, source.known_by, draft.is_sequenced, source.lateness,
        )  # fmt: skip
        known_by = source.known_by
        if source.lateness is not None and not source.lateness.may_come_at_end:
            known_by = source.lateness.which
        length = draft.within or draft.windows[0].length
        if not found.latest:
            which = "begin" if known_by == "ts" else "end, as it may come at its end only"
            bound = f"{symbol}.{known_by} - {absence.present[0]}.ts <= {length}"
            validation.report_at(
                where,
                f"nothing bounds how long the absence of {symbol} must be waited for",
                too_long(absence.constraints, (), unit)
                or f"bound how late it may {which}: {bound}",
            )
        elif found.kept is None:
            window = next(iter(draft.windows), None)
            since = absence.present[0] if window is None else window.symbol
            validation.report_at(
                where,
                f"nothing bounds how long {symbol} must be kept after its end",
                too_long(absence.constraints, draft.windows, unit)
                or f"bound how early it may end: {since}.ts - {symbol}.te <= {length}",
            )
