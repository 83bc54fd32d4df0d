"""The parser: recursive descent, clause by clause, that collects every fault it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath
from typing import Any

from piestream.expressions.diagnostics import (
    MOST_FAULTS,
    Diagnostic,
    QueryError,
    Span,
    did_you_mean,
    located,
)
from piestream.expressions.limits import length_fault, token_fault
from piestream.expressions.parameters import with_values
from piestream.expressions.tokens import Kind, Token, tokenize
from piestream.language.clauses import Clause, clauses_of
from piestream.language.conditions import read_condition
from piestream.language.cursor import Cursor
from piestream.language.definitions import read_definitions
from piestream.language.draft import QueryDraft, StreamDraft
from piestream.language.emission import read_limit, read_no_overlap, read_once_per
from piestream.language.lets import Lets, read_lets
from piestream.language.model import Query
from piestream.language.parts import Emit, part_of
from piestream.language.patterns import read_pattern
from piestream.language.return_clause import read_returns
from piestream.language.returns import names_of
from piestream.language.row_clause import read_row_query
from piestream.language.row_validation import beside_row_pattern
from piestream.language.streams import (
    SEQUENCE_HINT,
    NestedQuery,
    Scope,
    inherited,
    read_sequence,
    read_stream,
    read_unit,
)
from piestream.language.validate import validated
from piestream.language.windows import read_windows

__all__ = ["query"]


def query(text: str, /, **parameters: Any) -> Query:
    """The query of a text. Its ``run`` finds every match in a frame, ``open`` those of a stream.

    Parameters
    ----------
    text
        The clauses, in any order::

            FROM cars PARTITION BY car_id ORDER BY ts  -- a name, or 'files/*.parquet'
            DEFINE a AS accel > 8 AT LEAST 5 s,        -- names of what may hold for a while
                   s AS speed > 70
            PATTERN a meets; overlaps; during s        -- how they lie to each other in time
            WITHIN 5 minutes                           -- from the earliest start to the report
            RETURN AVG(s.speed) AS avg_speed, a.ts     -- left out: all starts and ends

        The page docs/query-language.md says the rest.

    parameters
        What ``:name`` in the text stands for: a number, a text, a truth value, a date or a time in
        a predicate, ``"5 s"`` or a timedelta for a duration. A value is never read as text.

    Raises
    ------
    QueryError
        The text is no query; it lists all that is wrong, with carets and what was probably meant.

    >>> import polars as pl, piestream as ps
    >>> query = ps.query("FROM cars ORDER BY t DEFINE a AS accel > 8 PATTERN a WITHIN 60")
    >>> query.run(pl.DataFrame({"t": [1, 2, 3], "accel": [0.5, 9.5, 0.5]})).rows()
    [(2, 2, None)]
    >>> session = query.open()
    >>> session.push({"t": 7, "accel": 9.5})
    [{'detected_at': 7, 'a_ts': 7, 'a_te': None}]
    >>> print(query)
    FROM cars ORDER BY t
    DEFINE a AS accel > 8
    PATTERN a
    WITHIN 60
    >>> ps.query(
    ...     "FROM cars ORDER BY t DEFINE a AS accel > :limit PATTERN a WITHIN :window",
    ...     limit=8, window=60,
    ... ) == query
    True
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
    tokens, unfilled = with_values(tokens, parameters, _USAGE)
    if unfilled:
        raise QueryError([located(diagnostic, text) for diagnostic in unfilled], text)
    clauses = clauses_of(tokens, diagnostics)
    read = _Parser(text, clauses, diagnostics, is_whole).query()
    if read is None:
        unique = dict.fromkeys(diagnostics)
        ordered = sorted(unique, key=lambda d: (d.span.start, d.span.end) if d.span else (0, 0))
        shown = [located(diagnostic, text) for diagnostic in ordered[:MOST_FAULTS]]
        raise QueryError(shown, text, len(ordered) - len(shown))
    return read


#: How a parameter is given.
#: What a clause is probably meant to say that is given a second time.
_IN_ONE = {
    "DEFINE": "one DEFINE holds all symbols: DEFINE a AS x > 1, b AS y > 2",
    "PATTERN": "one PATTERN holds all constraints: PATTERN a before b AND b before c",
    "WITHIN": "one WITHIN holds all windows: WITHIN 1 h, 5 min OF a",
    "ORDER BY": "it names the time column; rows come in the order of their reports, and are sorted "
    "otherwise as frames: query.run(frame).sort(…)",
}
_USAGE = "give it: ps.query(text, NAME=...), on the command line --param NAME=..."


def _is_path(text: str) -> bool:
    """Whether a text is the name of a query's file; no query is one word."""
    return len(text.split()) == 1 and text.lower().endswith((".sql", ".txt"))


class _Parser:
    """Reads each clause into a draft; a method a clause.

    A query in brackets is read by a parser of its own, whose ``outer`` scope knows the streams
    around it.
    """

    def __init__(
        self,
        text: str,
        clauses: list[Clause],
        diagnostics: list[Diagnostic],
        is_whole: bool,
        outer: Scope | None = None,
        end: Span | None = None,
    ) -> None:
        self.text = text
        self.diagnostics = diagnostics
        self.draft = QueryDraft(text=text)
        self.all_clauses = clauses
        self.clauses: dict[str, Clause] = {}
        n_streams = sum(clause.keyword in _STREAMS for clause in clauses)
        for clause in clauses:
            often = clause.keyword in ("WITH", "LET")
            often |= clause.keyword in _OF_A_STREAM and n_streams > 1
            if clause.keyword in self.clauses and not often:
                message = f"{clause.keyword} is given twice"
                diagnostics.append(Diagnostic(clause.span, message, _IN_ONE.get(clause.keyword)))
            self.clauses.setdefault(clause.keyword, clause)
        stop = len(text.rstrip())
        self.end = Span(stop, stop + 1) if end is None else end
        self.outer = outer
        self.nested: dict[int, NestedQuery] = {}
        # A string or comment that never ends swallows the clauses after it.
        self.is_whole = is_whole

    def query(self) -> Query | None:
        """The validated query; None if there are faults, which are then among the diagnostics."""
        draft = self.draft
        self.streams()  # they come first: predicates may be qualified by their names
        if self.outer is not None:
            self.inherit(self.outer)
        self.scope = Scope(draft.streams, draft.partition_by, self.nested_query, self.outer)
        if self.is_row_pattern():
            rows = self.nested_query(0)
            return None if self.diagnostics else rows
        if self.clauses.keys() == {"FROM"} and self.outer is not None and self.diagnostics:
            return None  # what else is missing says nothing new
        self.scope.read_queries()
        self.lets = self.named_expressions()
        handlers = {
            "DEFINE": self.define,
            "PATTERN": self.pattern,
            "WITHIN": self.within,
            "EMIT": self.emit,
            "RETURN": self.returns,
            "WHERE": self.where,
            "ONCE PER": self.once_per,
            "NO OVERLAP": self.no_overlap,
            "COOLDOWN": self.cooldown,
            "LIMIT": self.limit,
        }
        for keyword, handler in handlers.items():
            clause = self.clauses.get(keyword)
            if clause is not None:
                handler(clause.cursor)
        misplaced = any(
            fault.message.startswith("MATCH_RECOGNIZE does") for fault in self.diagnostics
        )
        for keyword, example in _REQUIRED.items():
            if keyword not in self.clauses and self.is_whole and not misplaced:
                self.diagnostics.append(
                    Diagnostic(self.end, f"{keyword} is missing", f"write for example {example}")
                )
        if self.outer is not None:
            draft.emit = Emit.COMPLETION
        self.leave_out_streams()
        return validated(draft, self.diagnostics)

    def is_row_pattern(self) -> bool:
        """Whether the query is nothing but ``FROM t MATCH_RECOGNIZE ( … )``."""
        rows = {number for number, nested in self.nested.items() if nested.source is not None}
        if rows and self.clauses.keys() == {"FROM"}:
            return True
        is_alone = self.outer is None and not self.clauses.keys() & {"WITH", "DEFINE", "PATTERN"}
        if rows and is_alone:
            beside = list(beside_row_pattern(self.all_clauses))
            placed = {fault.span for fault in beside}
            self.diagnostics[:] = [d for d in self.diagnostics if d.span not in placed] + beside
            return True
        for number in sorted(rows):
            stream = self.draft.streams[number]
            if stream.name is None:
                message = "the matches of this row pattern have no name"
                hint = "write MATCH_RECOGNIZE ( … ) AS name, by which DEFINE reads them"
                self.diagnostics.append(Diagnostic(stream.span, message, hint))
        return False

    def row_query(self, nested: NestedQuery) -> Query | None:
        """The query of a row pattern, which knows the names of the streams around it."""
        source = nested.source
        assert source is not None
        cursor = Cursor(nested.tokens, nested.end, self.diagnostics)
        scope = self.outer if self.is_row_pattern() else self.scope
        if scope is not None and source.name is not None and source.path is None:
            known = scope.resolve(source.name, source.span, cursor)
            source = source if known is None else inherited(source, known)
        if source.is_ready_made:
            message = "a row pattern reads rows of events, and this is a stream of intervals"
            self.diagnostics.append(Diagnostic(source.span, message))
            return None
        source = replace(source, max_gap=None)  # a silence ends no row
        return read_row_query(
            cursor, self.text, source, () if scope is None else scope.partition_by
        )

    def mark(self, cursor: Cursor, *where: str) -> None:
        if cursor.tokens:
            self.draft.spans[where] = cursor.span()

    # -- streams ----------------------------------------------------------------------------------

    def streams(self) -> None:
        """FROM, WITH, and the clauses that belong to the stream that they follow."""
        draft = self.draft
        given: dict[int, int] = {}  # the number of the stream of each FROM and WITH
        heads = [clause for clause in self.all_clauses if clause.keyword in _STREAMS]
        for clause in sorted(heads, key=lambda clause: clause.keyword != "FROM"):
            if clause.keyword == "FROM" and clause is not self.clauses["FROM"]:
                continue  # given twice
            number = 0 if clause.keyword == "FROM" else len(draft.streams)
            stream, nested = read_stream(clause.cursor, number, clause.keyword, draft.spans)
            given[id(clause)] = number
            draft.streams[number:] = [stream]
            if nested is not None:
                self.nested[number] = nested
        number = 0
        taken: set[tuple[int, str]] = set()
        handlers = {"ORDER BY": self.order_by, "MAX GAP": self.max_gap}
        for clause in self.all_clauses:
            number = given.get(id(clause), number)
            if clause.keyword not in handlers:
                continue
            if (number, clause.keyword) in taken and clause is not self.clauses[clause.keyword]:
                if len(draft.streams) > 1:  # else that has been said
                    message = f"{clause.keyword} is given twice for one stream"
                    self.diagnostics.append(Diagnostic(clause.span, message))
            elif draft.streams[number].is_ready_made:
                what = f"{clause.keyword} is for streams of events, and this is one of intervals"
                self.diagnostics.append(Diagnostic(clause.span, what))
            else:
                handlers[clause.keyword](clause.cursor, number)
            taken.add((number, clause.keyword))
        if "PARTITION BY" in self.clauses:
            self.partition_by(self.clauses["PARTITION BY"].cursor)

    def leave_out_streams(self) -> None:
        """Leave out the streams that only queries in brackets read: they are parts of these."""
        draft = self.draft
        read = {spec.stream for spec in draft.symbols}
        kept = [
            n for n in range(len(draft.streams)) if n in read or n not in self.scope.read_inside
        ]
        if not read or len(kept) == len(draft.streams):
            return
        draft.symbols = [replace(spec, stream=kept.index(spec.stream)) for spec in draft.symbols]
        draft.streams = [draft.streams[number] for number in kept]
        first = draft.streams[0].name
        for where, span in list(draft.spans.items()):
            if kept[0] and where[1:] == (first,) and where[0] not in _OF_SYMBOLS:
                draft.spans[where[:1]] = span

    def inherit(self, outer: Scope) -> None:
        """What a query in brackets has of the one around it."""
        draft = self.draft
        if "PARTITION BY" not in self.clauses:
            draft.partition_by.extend(outer.partition_by)
        for number, stream in enumerate(draft.streams):
            if stream.is_query or stream.path is not None or stream.name is None:
                continue
            clause = self.clauses["FROM" if number == 0 else "WITH"]
            source = outer.resolve(stream.name, stream.span, clause.cursor)
            if source is not None:
                draft.streams[number] = inherited(stream, source)

    def nested_query(self, number: int) -> Query | None:
        """The query in brackets that is the stream of that number."""
        nested = self.nested.get(number)
        if nested is None:
            return None
        before = len(self.diagnostics)
        if nested.source is not None:
            rows = self.row_query(nested)
            return rows if len(self.diagnostics) == before else None
        end = Token(Kind.END, "", nested.end)
        clauses = clauses_of([*nested.tokens, end], self.diagnostics)
        parser = _Parser(
            self.text, clauses, self.diagnostics, self.is_whole, self.scope, nested.end
        )
        query = parser.query()
        return query if len(self.diagnostics) == before else None

    def column(self, cursor: Cursor, streams: Sequence[StreamDraft]) -> str | None:
        """A column, which may be qualified by the name of a stream."""
        qualifiers = [name for stream in streams for name in stream.qualifiers]
        name = cursor.take_name("a column")
        if name is not None and cursor.take_sign("."):
            if name.text not in qualifiers:
                hint = did_you_mean(name.text, qualifiers)
                cursor.report(name, f"{name.text} is not the stream of this query", hint)
            name = cursor.take_name("a column")
        return None if name is None else name.text

    def partition_by(self, cursor: Cursor) -> None:
        for part in cursor.split(","):
            column = self.column(part, self.draft.streams)
            if column is not None:
                part.expect_end("a column")
                self.draft.partition_by.append(column)
                self.mark(part, "partition_by", column)

    def order_by(self, cursor: Cursor, number: int) -> None:
        stream = self.draft.streams[number]
        stream.order_by = self.column(cursor, [stream])
        self.mark(cursor, *part_of(number, stream.name, "order_by"))
        if stream.order_by is None:
            return
        where = part_of(number, stream.name, "time_unit")
        stream.time_unit = read_unit(cursor, where, self.draft.spans)
        if cursor.peek().upper in ("ASC", "DESC"):
            direction = cursor.take()
            message = "events are always processed in order of time"
            cursor.report(direction, message, f"leave {direction.text} out")
        read_sequence(cursor, stream, lambda cursor: self.column(cursor, [stream]))
        cursor.expect_end("ORDER BY", SEQUENCE_HINT if cursor.peek().is_sign(",") else None)

    def max_gap(self, cursor: Cursor, number: int) -> None:
        stream = self.draft.streams[number]
        self.mark(cursor, *part_of(number, stream.name, "max_gap"))
        stream.max_gap = cursor.take_duration("MAX GAP")
        if stream.max_gap is not None:
            cursor.expect_end("MAX GAP")

    # -- what is sought ---------------------------------------------------------------------------

    def named_expressions(self) -> Lets:
        """What the LET clauses name."""
        cursors = [clause.cursor for clause in self.all_clauses if clause.keyword == "LET"]
        define = self.clauses.get("DEFINE")
        tokens = [] if define is None else define.cursor.tokens
        symbols = tuple(a.text for a, b in pairwise(tokens) if b.upper == "AS")
        lets = read_lets(cursors, self.text, self.draft.streams, symbols)
        self.draft.lets = {name: let.span for name, let in lets.known.items()}
        for name, span in self.draft.lets.items():
            if span is not None:
                self.draft.spans["let", name] = span
        return lets

    def define(self, cursor: Cursor) -> None:
        self.draft.symbols = read_definitions(
            cursor, self.text, self.draft.streams, self.draft.spans, self.lets
        )

    def pattern(self, cursor: Cursor) -> None:
        self.mark(cursor, "pattern")
        symbols = [spec.name for spec in self.draft.symbols]
        before = len(self.diagnostics)
        self.draft.constraints, self.draft.absences = read_pattern(cursor, symbols)
        if len(self.diagnostics) > before:
            self.draft.pattern_words = frozenset(token.text for token in cursor.tokens)

    def within(self, cursor: Cursor) -> None:
        self.mark(cursor, "within")
        self.draft.within, self.draft.windows = read_windows(cursor, self.draft.spans)

    def emit(self, cursor: Cursor) -> None:
        self.mark(cursor, "emit")
        if not cursor.take_word("ON"):
            moment = cursor.peek().upper
            meant = moment if moment in [each.value for each in Emit] else Emit.TRIGGER.value
            cursor.report(cursor.peek(), "ON is missing after EMIT", f"write EMIT ON {meant}")
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
        if self.outer is not None and self.draft.emit is not Emit.COMPLETION:
            message = "the matches of a query in brackets are known at their completion"
            cursor.report(when, message, "leave EMIT out")
        is_once = cursor.peek().upper == "ONCE"
        cursor.expect_end("EMIT", "write ONCE PER and the name of a symbol" if is_once else None)

    def limited(self, **limit: Any) -> None:
        """Add one of the limits on what is emitted."""
        self.draft.limits = replace(self.draft.limits, **limit)

    def once_per(self, cursor: Cursor) -> None:
        self.limited(once_per=read_once_per(cursor, self.draft.spans))

    def no_overlap(self, cursor: Cursor) -> None:
        self.limited(no_overlap=read_no_overlap(cursor))

    def cooldown(self, cursor: Cursor) -> None:
        self.mark(cursor, "cooldown")
        self.limited(cooldown=cursor.take_duration("COOLDOWN"))
        if self.draft.limits.cooldown is not None:
            cursor.expect_end("COOLDOWN")

    def limit(self, cursor: Cursor) -> None:
        self.mark(cursor, "limit")
        self.limited(limit=read_limit(cursor))

    def where(self, cursor: Cursor) -> None:
        self.mark(cursor, "where")
        self.draft.where = read_condition(cursor, self.text, names_of(self.draft), self.draft.spans)

    def returns(self, cursor: Cursor) -> None:
        draft = self.draft
        draft.returns = read_returns(cursor, self.text, draft.spans, names_of(draft))


#: Clauses that name a stream, and those that belong to the one that they follow.
_STREAMS = frozenset({"FROM", "WITH"})
_OF_A_STREAM = frozenset({"ORDER BY", "MAX GAP"})
#: Parts of a query whose places are named after symbols or columns, not after streams.
_OF_SYMBOLS = frozenset({"symbol", "predicate", "at_least", "at_most", "partition_by", "return"})

_REQUIRED = {
    "FROM": "FROM CarSensors",
    "DEFINE": "DEFINE a AS speed > 70",
    "PATTERN": "PATTERN a meets b",
    "WITHIN": "WITHIN 5 minutes",
}
