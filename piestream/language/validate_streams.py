"""What the streams of a query must satisfy: their names, their columns, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping

from piestream.expressions.diagnostics import Span
from piestream.language.draft import StreamDraft, SymbolSpec
from piestream.language.model import Query
from piestream.language.parts import Where, part_of
from piestream.language.row_pattern_text import row_pattern_text
from piestream.language.row_validation import endless_part
from piestream.language.validation import Validation

__all__ = ["validate_streams"]


def validate_streams(validation: Validation) -> None:
    """Report what is wrong with FROM, WITH and the clauses that belong to them."""
    draft = validation.draft
    names: set[str] = set()
    for number, stream in enumerate(draft.streams):
        if stream.silence is not None:
            continue
        for name in dict.fromkeys(stream.qualifiers):
            if name in names:
                message = f"two streams are named {name}"
                validation.report(stream.span, message, "give one of them another name with AS")
            names.add(name)
        _validate_parts(validation, number, stream)
        if stream.query is not None:
            _validate_partition(validation, stream)
            if stream.query.rows is not None:
                _validate_row_pattern(validation, stream, stream.query)
    _validate_units(validation)
    if sum(stream.silence is None for stream in draft.streams) > 1:
        _report_unread(validation)
    for spec in draft.symbols:
        _validate_symbol(validation, spec)


def _validate_parts(validation: Validation, number: int, stream: StreamDraft) -> None:
    def where(part: str) -> tuple[str, ...]:
        return part_of(number, stream.name, part)

    if stream.max_gap is not None and stream.max_gap.amount == 0:
        validation.report_at(where("max_gap"), "MAX GAP must be longer than 0")
    if stream.sequence is not None and stream.sequence in validation.draft.partition_by:
        message = f"{stream.sequence} is in PARTITION BY and in ORDER BY"
        validation.report_at(where("order_by"), message)
    if stream.start is not None and stream.start == stream.end:
        message = f"intervals start and end in one column, {stream.start}"
        validation.report_at(where("end"), message, "a row of intervals has a column for each")
    if stream.known_at_start and stream.id is not None:
        message = "KNOWN AT START is for complete rows, and ID finds the ends of those that begin"
        validation.report_at(where("id"), message, "leave one of them out")
    times = {"ORDER BY": (stream.order_by, "order_by"), "FROM": (stream.start, "start")}
    times["TO"] = stream.end, "end"
    for clause, (column, part) in times.items():
        if column is not None and column in validation.draft.partition_by:
            message = f"{column} is in PARTITION BY and in {clause}"
            validation.report_at(where(part), message)


def _validate_partition(validation: Validation, stream: StreamDraft) -> None:
    """A query's rows are partitioned by columns that it has."""
    query = stream.query
    assert query is not None
    columns = {*query.partition_by, *(item.alias for item in query.returns)}
    if query.rows is not None:
        columns |= {measure.alias for measure in query.rows.measures}
    for column in validation.draft.partition_by:
        if column not in columns:
            validation.report(
                stream.span,
                f"the query {stream.name} has no column {column}, by which all streams are "
                "partitioned",
                f"partition it by {column} too",
            )


def _validate_row_pattern(validation: Validation, stream: StreamDraft, query: Query) -> None:
    """A match of a row pattern is one interval, and it is known some time whether it is there."""
    rows, origin = query.rows, query.origin
    assert rows is not None
    spans: Mapping[Where, Span] = {}
    if origin is not None and origin.text == validation.draft.text:
        spans = origin.spans
    if rows.all_rows:
        message = f"ALL ROWS PER MATCH gives more than one row, and a match of {stream.name} is one"
        validation.report(spans.get(("all",), stream.span), message, "leave it out")
    endless = endless_part(rows.pattern)
    if rows.within is None and endless is not None:
        validation.report(
            spans.get(("pattern",), stream.span),
            f"nothing bounds how long a match of {stream.name} may stay open: "
            f"{row_pattern_text(endless)} can go on for ever",
            "write WITHIN 5 minutes in the brackets of MATCH_RECOGNIZE, or a number, as in A{1,20}",
        )


def _validate_units(validation: Validation) -> None:
    """One clock counts for all streams."""
    units: dict[str, StreamDraft] = {}
    for number, stream in enumerate(validation.draft.streams):
        if stream.time_unit is not None:
            units.setdefault(stream.time_unit, stream)
            if len(units) > 1:
                first, second = list(units)[:2]
                message = f"the times of one stream count {first}, of another {second}"
                where = part_of(number, stream.name, "time_unit")
                hint = "all streams of a query have one clock: convert one of the columns"
                validation.report_at(where, message, hint)
                return


def _report_unread(validation: Validation) -> None:
    draft = validation.draft
    if any(spec.predicate is None for spec in draft.symbols):
        return  # which stream it was to read is not known
    read = {spec.stream for spec in draft.symbols}
    read |= {stream.silence.of for stream in draft.streams if stream.silence is not None}
    for number, stream in enumerate(draft.streams):
        if number not in read and stream.name is not None:
            validation.report(
                stream.span,
                f"no symbol reads the stream {stream.name}",
                f"qualify its columns in DEFINE, as {stream.name}.column, or leave it out",
            )


def _validate_symbol(validation: Validation, spec: SymbolSpec) -> None:
    """A symbol of intervals that come ready-made has neither events nor events before them."""
    stream = validation.draft.streams[spec.stream]
    predicate = spec.predicate
    if predicate is None:
        return
    if stream.is_ready_made and predicate.reads_the_past:
        validation.report_at(
            ("predicate", spec.name),
            f"PREV, OVER and UNTIL look at the events before, and {stream.name} has intervals",
        )
    if spec.stream and not stream.is_ready_made and not predicate.columns:
        validation.report_at(
            ("predicate", spec.name),
            f"the predicate of {spec.name} names no column, so it does not say that it is "
            f"of {stream.name}",
        )
