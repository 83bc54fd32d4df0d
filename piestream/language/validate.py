"""What a query must satisfy beyond its grammar; the parser and the builder both end here."""

from __future__ import annotations

from piestream.expressions.diagnostics import Diagnostic, Origin, Span
from piestream.expressions.durations import Duration
from piestream.expressions.limits import length_fault, token_fault
from piestream.expressions.tokens import tokenize
from piestream.language.draft import QueryDraft, SymbolSpec
from piestream.language.lets import names_in
from piestream.language.model import Query
from piestream.language.parts import Aggregate, Calculated, Emit, RelationOf, Return, Symbol, Value
from piestream.language.printer import canonical_text, default_returns
from piestream.language.silences import validate_silence
from piestream.language.validate_absences import (
    report_endless,
    report_needless,
    validated_absences,
)
from piestream.language.validate_pattern import report_unsatisfiable, validated_constraints
from piestream.language.validate_streams import validate_streams
from piestream.language.validate_windows import report_unbounded, validate_windows
from piestream.language.validation import RESERVED_COLUMNS, Validation
from piestream.language.windows import NO_WINDOW, all_windows

__all__ = ["MOST_SYMBOLS", "validated"]

#: One bit of a 64-bit mask for each symbol.
MOST_SYMBOLS = 64


def validated(draft: QueryDraft, diagnostics: list[Diagnostic]) -> Query | None:
    """The query of a draft; None if anything is wrong, which is then in ``diagnostics``."""
    draft.add_silences()
    validation = Validation(draft, diagnostics)
    validate_streams(validation)
    _validate_definitions(validation)
    _validate_lets(validation)
    constraints = validated_constraints(validation)
    absences = validated_absences(validation)
    validate_windows(validation)
    _validate_durations(validation)
    _validate_partition_columns(validation)
    _validate_returns(validation)
    if draft.where is not None:
        for item in draft.where.items:
            _validate_item(validation, item, draft.spans.get(("where", item.alias)))
    _validate_limits(validation)
    if not diagnostics:
        report_unsatisfiable(validation, constraints)
    if not diagnostics:
        report_unbounded(validation, constraints)
    if not diagnostics:
        report_needless(validation, constraints, absences)
    if not diagnostics:
        report_endless(validation, constraints, absences)
    if diagnostics:
        return None
    symbols = tuple(
        Symbol(
            spec.name,
            spec.predicate,
            spec.at_least,
            spec.at_most,
            spec.stream,
            spec.at_least_events,
            spec.at_most_events,
            spec.bridging,
        )
        for spec in draft.symbols
        if spec.predicate is not None
    )
    predicates = [symbol.predicate for symbol in symbols]
    query = Query(
        symbols=symbols,
        constraints=constraints,
        within=draft.within or NO_WINDOW,
        returns=tuple(item for item, _ in draft.returns)
        or default_returns(tuple(s for s in symbols if s.name not in validation.absent)),
        streams=tuple(stream.source() for stream in draft.streams),
        partition_by=tuple(draft.partition_by),
        emit=draft.emit,
        where=draft.where,
        limits=draft.limits,
        windows=draft.windows,
        absences=absences,
        origin=None if draft.text is None else Origin(draft.text, dict(draft.spans)),
    )
    if not any(predicate.is_polars for predicate in predicates):
        canonical = canonical_text(query)
        beyond = length_fault(canonical, "a query") or token_fault(
            tokenize(canonical)[0], "a query"
        )
        if beyond is not None:
            message = f"the canonical text of this query is too long: {beyond.message}"
            validation.report(None, message)
            return None
    return query


def _validate_definitions(validation: Validation) -> None:
    symbols = validation.draft.symbols
    defined: set[str] = set()
    for spec in symbols:
        if spec.name in defined:
            validation.report(spec.span, f"the symbol {spec.name} is defined twice")
        defined.add(spec.name)
    if len(symbols) > MOST_SYMBOLS:
        message = f"a query has at most {MOST_SYMBOLS} symbols, this has {len(symbols)}"
        validation.report(symbols[MOST_SYMBOLS].span, message)
    for spec in symbols:
        is_short = spec.at_most is not None and spec.at_most.amount == 0
        if is_short and not validation.draft.is_sequenced:
            validation.report_at(
                ("at_most", spec.name), f"no interval of {spec.name} can be as short as 0"
            )
        elif spec.at_least and spec.at_most and _exceeds(validation, spec.at_least, spec.at_most):
            validation.report_at(
                ("at_most", spec.name),
                f"{spec.name} must last at least {spec.at_least} and at most "
                f"{spec.at_most}, which no interval can",
            )
        if spec.silence is not None:
            validate_silence(validation, spec)
            continue
        if spec.bridging is not None:
            _validate_bridging(validation, spec)
        least, most = spec.at_least_events, spec.at_most_events
        counts = "at_least_events" if most is None else "at_most_events"
        has_counts = least is not None or most is not None
        if has_counts and validation.draft.streams[spec.stream].is_ready_made:
            validation.report_at(
                (counts, spec.name),
                f"the intervals of {spec.name} come ready-made and have no events to count",
            )
        elif most == 0:
            validation.report_at(
                ("at_most_events", spec.name), f"every interval of {spec.name} has an event"
            )
        elif least is not None and most is not None and least > most:
            validation.report_at(
                ("at_most_events", spec.name),
                f"{spec.name} must have at least {least} events and at most {most}, which no "
                "interval can",
            )


def _validate_bridging(validation: Validation, spec: SymbolSpec) -> None:
    """Only runs of a predicate are bridged."""
    where, draft = ("bridging", spec.name), validation.draft
    if draft.streams[spec.stream].is_ready_made:
        message = f"the intervals of {spec.name} come ready-made: there are no runs to bridge"
        validation.report_at(where, message)
    elif spec.bridging is not None and not spec.bridging.amount and not draft.is_sequenced:
        message = f"runs of {spec.name} always lie more than 0 apart"
        validation.report_at(where, message, "write BRIDGING 5 s, or leave it out")


def _validate_lets(validation: Validation) -> None:
    """Each name stands for one expression, and is used."""
    draft = validation.draft
    predicates = [spec.predicate for spec in draft.symbols]
    trees = [p.tree for p in predicates if p is not None and p.tree is not None]
    used = names_in(trees)
    for name, values in used.items():
        if len(values) > 1:
            validation.report(None, f"{name} names two different expressions", "rename one of them")
    if None in predicates:
        return  # what it would have used is not known
    for name, span in draft.lets.items():
        if name not in used:
            hint = "use it in a predicate, or leave it out"
            validation.report(span, f"no predicate uses {name}, which LET names", hint)


def _validate_durations(validation: Validation) -> None:
    draft = validation.draft
    specs = {spec.name: spec for spec in validation.present}
    for window, _ in all_windows(specs, draft.within or NO_WINDOW, draft.windows):
        spec = specs.get(window.symbol)
        if spec is None or (
            draft.streams[spec.stream].known_at_start and draft.emit is not Emit.COMPLETION
        ):
            continue  # what is known at its start is reported before it has lasted so long
        for least in (spec.at_least, spec.silence):
            if least is None or not _exceeds(validation, least, window.length):
                continue
            where = ("within", spec.name)
            validation.report_at(
                where if where in draft.spans else ("within",),
                f"the window of {window.length} is shorter than {spec.name} must last: {least}",
            )


def _exceeds(validation: Validation, longer: Duration, shorter: Duration) -> bool:
    """Whether a duration is longer than another; False where they cannot be compared yet."""
    return (validation.difference(longer, shorter) or 0) > 0


def _validate_limits(validation: Validation) -> None:
    draft = validation.draft
    once = draft.limits.once_per
    for symbol in dict.fromkeys(once):
        is_defined = validation.is_in_match(symbol, draft.spans.get(("once_per", symbol)))
        if is_defined and once.count(symbol) > 1:
            validation.report_at(("once_per", symbol), f"{symbol} is in ONCE PER twice")
    if draft.limits and draft.where is not None and draft.emit is Emit.BOTH:
        validation.report_at(
            ("where",),
            "with EMIT ON BOTH, WHERE cannot be combined with ONCE PER, NO OVERLAP, COOLDOWN or LIMIT",
            "choose EMIT ON TRIGGER or EMIT ON COMPLETION",
        )


def _validate_partition_columns(validation: Validation) -> None:
    draft = validation.draft
    listed: set[str] = set()
    for column in draft.partition_by:
        if column in RESERVED_COLUMNS:
            message = f"{column} is the name of an output column, so it cannot be in PARTITION BY"
            validation.report_at(("partition_by", column), message, "rename it in the rows")
        elif column in listed:
            validation.report_at(("partition_by", column), f"{column} is in PARTITION BY twice")
        listed.add(column)


def _validate_returns(validation: Validation) -> None:
    draft = validation.draft
    taken = dict.fromkeys(draft.partition_by, "from PARTITION BY")
    taken |= dict.fromkeys(RESERVED_COLUMNS, "which is reserved")
    for item, span in _returns(validation):
        _validate_item(validation, item, span)
        if item.alias in taken:
            validation.report(
                span,
                f"the output already has a column {item.alias}, {taken[item.alias]}",
                "name it differently with AS",
            )
        taken.setdefault(item.alias, "from RETURN")
        if span is not None:
            draft.spans.setdefault(("return", item.alias), span)
            if isinstance(item, Aggregate | Value) and item.column is not None:
                draft.spans.setdefault(("column", item.alias), span)


def _validate_item(validation: Validation, item: Return, span: Span | None) -> None:
    """Its symbols are defined, and what is asked of them is there."""
    if isinstance(item, Calculated):
        for part in item.items:
            place = validation.draft.spans.get(("return", part.alias), span)
            _validate_item(validation, part, place)
        return
    for symbol in (item.x, item.y) if isinstance(item, RelationOf) else (item.symbol,):
        validation.is_in_match(symbol, span)
    if isinstance(item, Aggregate | Value) and _is_silence(validation, item.symbol):
        validation.report(
            span,
            f"{item.symbol} is a silence, which has no events to take values of",
            f"take {item.symbol}.ts, {item.symbol}.te or DURATION({item.symbol})",
        )
    elif isinstance(item, Value):
        _validate_value(validation, item, span)
    if isinstance(item, RelationOf) and item.x == item.y:
        message = f"RELATION needs two different symbols, not {item.x} twice"
        validation.report(span, message)


def _is_silence(validation: Validation, symbol: str) -> bool:
    """Whether a symbol is the silences of a stream."""
    return any(spec.name == symbol and spec.silence for spec in validation.draft.symbols)


def _validate_value(validation: Validation, item: Value, span: Span | None) -> None:
    """``s.column`` is a value of an interval's own row; a run has many."""
    draft = validation.draft
    for spec in draft.symbols:
        if spec.name == item.symbol and not draft.streams[spec.stream].is_ready_made:
            operand = f"{item.symbol}.{item.column}"
            message = f"an interval has many values of {item.column}: one must be chosen"
            validation.report(span, message, f"take FIRST({operand}), LAST({operand}) or another")


def _returns(validation: Validation) -> list[tuple[Return, Span | None]]:
    """What RETURN lists, or its default for the symbols that could be read."""
    if validation.draft.returns:
        return validation.draft.returns
    symbols = {s.name: Symbol(s.name, s.predicate) for s in validation.present if s.predicate}
    return [(item, None) for item in default_returns(tuple(symbols.values()))]
