"""The parser: recursive descent, clause by clause, that collects every fault it finds."""

from __future__ import annotations

from pathlib import PurePath

from piestream.expressions.diagnostics import (
    Diagnostic,
    QueryError,
    Span,
    did_you_mean,
    located,
    plain,
)
from piestream.expressions.durations import NANOSECONDS, unit_named
from piestream.expressions.tokens import Kind, tokenize
from piestream.language.clauses import CLAUSES, Clause, clauses_of
from piestream.language.cursor import Reader
from piestream.language.definitions import read_definitions
from piestream.language.model import Emit, Query
from piestream.language.patterns import read_pattern
from piestream.language.returns import Names, read_returns
from piestream.language.validate import QueryDraft, checked

__all__ = ["parse"]


def parse(text: str) -> Query:
    """The query that a text says; `QueryError` lists all that is wrong with it.

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
            [plain(f"{path} is a path and no query", f"write ps.query(Path({path!r}).read_text())")]
        )
    if not isinstance(text, str):
        raise TypeError(f"a query is a text, not {type(text).__name__}")
    tokens, diagnostics = tokenize(text)
    is_whole = not diagnostics
    clauses = clauses_of(tokens, diagnostics)
    query = _Parser(text, clauses, diagnostics, is_whole).query()
    if query is None:
        unique = dict.fromkeys(diagnostics)
        ordered = sorted(unique, key=lambda f: (f.span.start, f.span.end) if f.span else (0, 0))
        raise QueryError([located(diagnostic, text) for diagnostic in ordered], text)
    return query


def _is_path(text: str) -> bool:
    """Whether a text is the name of a query's file; no query is one word."""
    return len(text.split()) == 1 and text.lower().endswith((".sql", ".txt"))


class _Parser:
    def __init__(
        self, text: str, clauses: list[Clause], diagnostics: list[Diagnostic], is_whole: bool
    ) -> None:
        self.text = text
        self.diagnostics = diagnostics
        self.parts = QueryDraft(text=text)
        self.clauses: dict[str, Clause] = {}
        for clause in clauses:
            if clause.keyword in self.clauses:
                diagnostics.append(
                    Diagnostic(clause.span, f"{clause.keyword} is here a second time")
                )
            self.clauses.setdefault(clause.keyword, clause)
        end = len(text.rstrip())
        self.end = Span(end, end + 1)
        self.qualifiers: tuple[str, ...] = ()
        # A string or comment that never ends swallows the clauses after it.
        self.is_whole = is_whole

    def query(self) -> Query | None:
        """The checked query, None when there are findings."""
        # FROM comes first: predicates may be qualified by its name.
        readers = {
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
                readers[keyword](clause.reader)
        for keyword, example in _REQUIRED.items():
            if keyword not in self.clauses and self.is_whole:
                self.diagnostics.append(
                    Diagnostic(self.end, f"{keyword} is missing", f"write for example {example}")
                )
        return checked(self.parts, self.diagnostics)

    def mark(self, reader: Reader, *where: str) -> None:
        if reader.tokens:
            self.parts.spans[where] = reader.span()

    def source(self, reader: Reader) -> None:
        self.mark(reader, "source")
        if reader.peek().kind is Kind.STRING:
            path = reader.take()
            self.parts.source, self.parts.source_is_path = path.text, True
            if not path.text:
                reader.fault(path, "the path of FROM is empty")
        else:
            name = reader.name("the name of a stream, or a path in quotes,")
            if name is None:
                return
            self.parts.source = name.text
            self.qualifiers = (name.text,)
        reader.word("AS")
        if not reader.at_end and reader.peek().kind in (Kind.WORD, Kind.QUOTED):
            alias = reader.name("another name for the stream")
            if alias is not None:
                self.qualifiers += (alias.text,)
        reader.nothing_more("FROM")

    def column(self, reader: Reader) -> str | None:
        """A column, which may be qualified by the name of the stream."""
        name = reader.name("a column")
        if name is not None and reader.sign("."):
            if name.text not in self.qualifiers:
                hint = did_you_mean(name.text, self.qualifiers)
                reader.fault(name, f"{name.text} is not the stream of this query", hint)
            name = reader.name("a column")
        return None if name is None else name.text

    def partition_by(self, reader: Reader) -> None:
        for part in reader.parts(","):
            column = self.column(part)
            if column is not None:
                part.nothing_more("a column")
                self.parts.partition_by.append(column)
                self.mark(part, "partition_by", column)

    def order_by(self, reader: Reader) -> None:
        self.parts.order_by = self.column(reader)
        self.mark(reader, "order_by")
        if self.parts.order_by is None:
            return
        if reader.word("UNIT"):
            unit = reader.take()
            nanoseconds = unit_named(unit.text) if unit.kind is Kind.WORD else None
            named = [name for name, length in NANOSECONDS.items() if length == nanoseconds]
            if not named:
                hint = did_you_mean(unit.text, NANOSECONDS)
                message = f"{unit.text or 'nothing'} is not the unit of a time column"
                reader.fault(unit, message, hint or f"the units are {', '.join(NANOSECONDS)}")
            else:
                self.parts.time_unit = named[0]
                self.parts.spans[("time_unit",)] = unit.span
        if reader.peek().upper in ("ASC", "DESC"):
            reader.fault(reader.take(), "events are always worked on in order of time")
        reader.nothing_more("ORDER BY")

    def max_gap(self, reader: Reader) -> None:
        self.mark(reader, "max_gap")
        self.parts.max_gap = reader.duration("MAX GAP")
        if self.parts.max_gap is not None:
            reader.nothing_more("MAX GAP")

    def define(self, reader: Reader) -> None:
        self.parts.symbols = read_definitions(reader, self.text, self.qualifiers, self.parts.spans)

    def pattern(self, reader: Reader) -> None:
        self.mark(reader, "pattern")
        symbols = [part.name for part in self.parts.symbols]
        before = len(self.diagnostics)
        self.parts.stated = read_pattern(reader, symbols)
        if len(self.diagnostics) > before:
            self.parts.pattern_words = frozenset(token.text for token in reader.tokens)

    def within(self, reader: Reader) -> None:
        self.mark(reader, "within")
        self.parts.within = reader.duration("WITHIN")
        if self.parts.within is not None:
            reader.nothing_more("WITHIN")

    def emit(self, reader: Reader) -> None:
        self.mark(reader, "emit")
        if not reader.word("ON"):
            reader.fault(reader.peek(), "ON is missing after EMIT", "write EMIT ON TRIGGER")
            return
        when = reader.take()
        moments = [moment.value for moment in Emit]
        if when.upper not in moments:
            hint = did_you_mean(when.text, moments) or f"write {', '.join(moments)}"
            reader.fault(when, f"EMIT ON does not know {when.text or 'nothing'}", hint)
            return
        self.parts.emit = Emit(when.upper)
        reader.nothing_more("EMIT")

    def returns(self, reader: Reader) -> None:
        parts = self.parts
        symbols = [part.name for part in parts.symbols]
        names = Names(symbols, parts.partition_by, parts.order_by)
        parts.returns = read_returns(reader, parts.spans, names)


_REQUIRED = {
    "FROM": "FROM CarSensors",
    "DEFINE": "DEFINE a AS speed > 70",
    "PATTERN": "PATTERN a meets b",
    "WITHIN": "WITHIN 5 minutes",
}
