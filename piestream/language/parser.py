"""The parser: recursive descent, clause by clause, that collects every fault it finds."""

from __future__ import annotations

from pathlib import PurePath

from piestream.expressions.diagnostics import (
    MOST_FAULTS,
    Diagnostic,
    QueryError,
    Span,
    did_you_mean,
    located,
)
from piestream.expressions.durations import NANOSECONDS, tick_unit
from piestream.expressions.limits import length_fault, token_fault
from piestream.expressions.tokens import Kind, tokenize
from piestream.language.clauses import CLAUSES, Clause, clauses_of
from piestream.language.cursor import Cursor
from piestream.language.definitions import read_definitions
from piestream.language.draft import QueryDraft
from piestream.language.model import Emit, Query
from piestream.language.patterns import read_pattern
from piestream.language.returns import Names, read_returns
from piestream.language.validate import validated

__all__ = ["parse"]


def parse(text: str) -> Query:
    """The query of a text; `QueryError` lists all that is wrong with it.

    >>> query = parse("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 300 s")
    >>> print(query)
    FROM cars
    DEFINE a AS accel > 8
    PATTERN a
    WITHIN 5 min
    """
    if isinstance(text, PurePath) or (isinstance(text, str) and _is_path(text)):
        path = str(text)
        raise QueryError(
            [
                Diagnostic(
                    None,
                    f"{path} is a path and no query",
                    f"write ps.query(Path({path!r}).read_text())",
                )
            ]
        )
    if not isinstance(text, str):
        raise TypeError(f"a query is a text, not {type(text).__name__}")
    too_long = length_fault(text, "a query")
    if too_long is not None:
        raise QueryError([too_long])
    tokens, diagnostics = tokenize(text)
    too_many = token_fault(tokens, "a query")
    if too_many is not None:
        raise QueryError([located(too_many, text)], text)
    is_whole = not diagnostics
    clauses = clauses_of(tokens, diagnostics)
    query = _Parser(text, clauses, diagnostics, is_whole).query()
    if query is None:
        unique = dict.fromkeys(diagnostics)
        ordered = sorted(unique, key=lambda d: (d.span.start, d.span.end) if d.span else (0, 0))
        shown = [located(diagnostic, text) for diagnostic in ordered[:MOST_FAULTS]]
        raise QueryError(shown, text, len(ordered) - len(shown))
    return query


def _is_path(text: str) -> bool:
    """Whether a text is the name of a query's file; no query is one word."""
    return len(text.split()) == 1 and text.lower().endswith((".sql", ".txt"))


class _Parser:
    """Reads each clause into a draft; a method a clause."""

    def __init__(
        self, text: str, clauses: list[Clause], diagnostics: list[Diagnostic], is_whole: bool
    ) -> None:
        self.text = text
        self.diagnostics = diagnostics
        self.draft = QueryDraft(text=text)
        self.clauses: dict[str, Clause] = {}
        for clause in clauses:
            if clause.keyword in self.clauses:
                diagnostics.append(Diagnostic(clause.span, f"{clause.keyword} is given twice"))
            self.clauses.setdefault(clause.keyword, clause)
        end = len(text.rstrip())
        self.end = Span(end, end + 1)
        self.qualifiers: tuple[str, ...] = ()
        # A string or comment that never ends swallows the clauses after it.
        self.is_whole = is_whole

    def query(self) -> Query | None:
        """The validated query; None if there are faults, which are then among the diagnostics."""
        # FROM comes first: predicates may be qualified by its name.
        handlers = {
            "FROM": self.source,
            "PARTITION BY": self.partition_by,
            "ORDER BY": self.order_by,
            "MAX GAP": self.max_gap,
            "DEFINE": self.define,
            "PATTERN": self.pattern,
            "WITHIN": self.within,
            "EMIT": self.emit,
            "RETURN": self.returns,
        }
        for keyword in CLAUSES:
            clause = self.clauses.get(keyword)
            if clause is not None:
                handlers[keyword](clause.cursor)
        for keyword, example in _REQUIRED.items():
            if keyword not in self.clauses and self.is_whole:
                self.diagnostics.append(
                    Diagnostic(self.end, f"{keyword} is missing", f"write for example {example}")
                )
        return validated(self.draft, self.diagnostics)

    def mark(self, cursor: Cursor, *where: str) -> None:
        if cursor.tokens:
            self.draft.spans[where] = cursor.span()

    def source(self, cursor: Cursor) -> None:
        self.mark(cursor, "source")
        if cursor.peek().kind is Kind.STRING:
            path = cursor.take()
            self.draft.source, self.draft.source_is_path = path.text, True
            if not path.text:
                cursor.report(path, "the path of FROM is empty")
        else:
            name = cursor.take_name("the name of a stream, or a path in quotes,")
            if name is None:
                return
            self.draft.source = name.text
            self.qualifiers = (name.text,)
        cursor.take_word("AS")
        if not cursor.at_end and cursor.peek().kind in (Kind.WORD, Kind.QUOTED):
            alias = cursor.take_name("another name for the stream")
            if alias is not None:
                self.qualifiers += (alias.text,)
        cursor.expect_end("FROM")

    def column(self, cursor: Cursor) -> str | None:
        """A column, which may be qualified by the name of the stream."""
        name = cursor.take_name("a column")
        if name is not None and cursor.take_sign("."):
            if name.text not in self.qualifiers:
                hint = did_you_mean(name.text, self.qualifiers)
                cursor.report(name, f"{name.text} is not the stream of this query", hint)
            name = cursor.take_name("a column")
        return None if name is None else name.text

    def partition_by(self, cursor: Cursor) -> None:
        for part in cursor.split(","):
            column = self.column(part)
            if column is not None:
                part.expect_end("a column")
                self.draft.partition_by.append(column)
                self.mark(part, "partition_by", column)

    def order_by(self, cursor: Cursor) -> None:
        self.draft.order_by = self.column(cursor)
        self.mark(cursor, "order_by")
        if self.draft.order_by is None:
            return
        if cursor.take_word("UNIT"):
            unit = cursor.take()
            name = tick_unit(unit.text) if unit.kind is Kind.WORD else None
            if name is None:
                hint = did_you_mean(unit.text, NANOSECONDS)
                message = f"{unit.text or 'nothing'} is not the unit of a time column"
                cursor.report(unit, message, hint or f"the units are {', '.join(NANOSECONDS)}")
            else:
                self.draft.time_unit = name
                self.draft.spans[("time_unit",)] = unit.span
        if cursor.peek().upper in ("ASC", "DESC"):
            cursor.report(cursor.take(), "events are always processed in order of time")
        cursor.expect_end("ORDER BY")

    def max_gap(self, cursor: Cursor) -> None:
        self.mark(cursor, "max_gap")
        self.draft.max_gap = cursor.take_duration("MAX GAP")
        if self.draft.max_gap is not None:
            cursor.expect_end("MAX GAP")

    def define(self, cursor: Cursor) -> None:
        self.draft.symbols = read_definitions(cursor, self.text, self.qualifiers, self.draft.spans)

    def pattern(self, cursor: Cursor) -> None:
        self.mark(cursor, "pattern")
        symbols = [spec.name for spec in self.draft.symbols]
        before = len(self.diagnostics)
        self.draft.constraints = read_pattern(cursor, symbols)
        if len(self.diagnostics) > before:
            self.draft.pattern_words = frozenset(token.text for token in cursor.tokens)

    def within(self, cursor: Cursor) -> None:
        self.mark(cursor, "within")
        self.draft.within = cursor.take_duration("WITHIN")
        if self.draft.within is not None:
            cursor.expect_end("WITHIN")

    def emit(self, cursor: Cursor) -> None:
        self.mark(cursor, "emit")
        if not cursor.take_word("ON"):
            cursor.report(cursor.peek(), "ON is missing after EMIT", "write EMIT ON TRIGGER")
            return
        when = cursor.take()
        moments = [moment.value for moment in Emit]
        if when.upper not in moments:
            hint = did_you_mean(when.text, moments) or f"write {', '.join(moments)}"
            message = (
                f"there is no EMIT ON {when.text}"
                if when.text
                else "the moment is missing after EMIT ON"
            )
            cursor.report(when, message, hint)
            return
        self.draft.emit = Emit(when.upper)
        cursor.expect_end("EMIT")

    def returns(self, cursor: Cursor) -> None:
        draft = self.draft
        symbols = [spec.name for spec in draft.symbols]
        names = Names(symbols, draft.partition_by, draft.order_by)
        draft.returns = read_returns(cursor, draft.spans, names)


_REQUIRED = {
    "FROM": "FROM CarSensors",
    "DEFINE": "DEFINE a AS speed > 70",
    "PATTERN": "PATTERN a meets b",
    "WITHIN": "WITHIN 5 minutes",
}
