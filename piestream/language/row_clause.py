"""``FROM t MATCH_RECOGNIZE ( … )``: the clauses in its brackets, read into a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from piestream.expressions.diagnostics import Diagnostic, Origin, Span, did_you_mean
from piestream.expressions.durations import Duration
from piestream.expressions.parameters import values_of
from piestream.expressions.predicate import EVERY_INTERVAL, Predicate
from piestream.expressions.reading import Names
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor, depths
from piestream.language.draft import StreamDraft
from piestream.language.model import Query
from piestream.language.parts import Symbol, Where
from piestream.language.row_conditions import needs_memory, read_condition
from piestream.language.row_measures import RowNames, read_measures
from piestream.language.row_pattern_text import read_row_pattern
from piestream.language.row_patterns import (
    EmptyMatches,
    MatchMode,
    Measure,
    PatternNode,
    RowCondition,
    RowPattern,
    Skip,
    SkipMode,
)
from piestream.language.row_validation import validate_rows
from piestream.language.streams import SEQUENCE_HINT, read_sequence, read_unit
from piestream.language.windows import NO_WINDOW

__all__ = ["read_row_query"]

#: The clauses in the brackets, each by the words with which it begins.
_CLAUSES = (
    ("PARTITION", "BY"),
    ("ORDER", "BY"),
    ("MEASURES",),
    ("ONE", "ROW", "PER", "MATCH"),
    ("ALL", "ROWS", "PER", "MATCH"),
    ("AFTER", "MATCH"),
    ("INCREMENTAL", "MATCH"),
    ("MAXIMAL", "MATCH"),
    ("PATTERN",),
    ("SUBSET",),
    ("WITHIN",),
    ("DEFINE",),
)
_EMPTY = {
    ("SHOW", "EMPTY", "MATCHES"): EmptyMatches.SHOW,
    ("OMIT", "EMPTY", "MATCHES"): EmptyMatches.OMIT,
    ("WITH", "UNMATCHED", "ROWS"): EmptyMatches.WITH_UNMATCHED,
}
_TO_ROW = "PAST LAST ROW, TO NEXT ROW, TO FIRST A or TO LAST A"


def read_row_query(
    cursor: Cursor, text: str, source: StreamDraft, partition_by: Sequence[str] = ()
) -> Query | None:
    """The query of the clauses in the brackets over a stream; faults go to the cursor's list.

    ``partition_by`` are the columns where the brackets have no PARTITION BY.
    """
    before = len(cursor.diagnostics)
    reader = _Reader(cursor, text, replace(source))
    reader.read()
    if ("partition",) not in reader.spans:
        reader.partition_by.extend(partition_by)
    if len(cursor.diagnostics) > before or reader.pattern is None:
        return None
    return reader.query()


@dataclass
class _Reader:
    """Reads each clause into what it says; a method a clause."""

    cursor: Cursor
    text: str
    source: StreamDraft
    partition_by: list[str] = field(default_factory=list)
    measures: tuple[Measure, ...] = ()
    all_rows: bool = False
    empty_matches: EmptyMatches = EmptyMatches.SHOW
    skip: Skip = field(default_factory=Skip)
    pattern: PatternNode | None = None
    within: Duration | None = None
    subsets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    definitions: dict[str, Predicate] = field(default_factory=dict)
    conditions: dict[str, RowCondition] = field(default_factory=dict)
    mode: MatchMode = MatchMode.PREFERRED
    spans: dict[Where, Span] = field(default_factory=dict)

    def read(self) -> None:
        clauses = _split(self.cursor)
        order = ["PATTERN", "SUBSET", "PARTITION", "ORDER", "ONE", "ALL", "AFTER", "WITHIN"]
        order += ["INCREMENTAL", "MAXIMAL", "DEFINE", "MEASURES"]
        handlers: dict[str, Callable[[Cursor], None]] = {
            "PATTERN": self._pattern,
            "SUBSET": self._subset,
            "PARTITION": self._partition_by,
            "ORDER": self._order_by,
            "ONE": lambda c: c.expect_end("ONE ROW PER MATCH"),
            "ALL": self._all_rows,
            "AFTER": self._after,
            "WITHIN": self._within,
            "INCREMENTAL": partial(self._match_mode, MatchMode.INCREMENTAL),
            "MAXIMAL": partial(self._match_mode, MatchMode.MAXIMAL),
            "DEFINE": self._define,
            "MEASURES": self._measures,
        }
        for word in order:
            if word in clauses:
                self.spans.setdefault((word.lower(),), clauses[word].span())
                handlers[word](clauses[word])
        end = self.cursor.end
        if "ONE" in clauses and "ALL" in clauses:
            self.cursor.report(clauses["ALL"].span(), "ONE ROW and ALL ROWS exclude each other")
        for word, example in (("PATTERN", "PATTERN (A B+)"), ("DEFINE", "DEFINE A AS x > 1")):
            if word not in clauses:
                self.cursor.report(end, f"{word} is missing", f"write for example {example}")
        if "MEASURES" not in clauses and not self.all_rows:
            hint = "write for example MEASURES FIRST(A.ts) AS started"
            self.cursor.report(end, "MEASURES is missing", hint)

    def query(self) -> Query | None:
        """The query, unless what was read does not go together."""
        assert self.pattern is not None
        variables = self._variables()
        rows = RowPattern(
            self.pattern,
            self.measures,
            tuple(self.subsets.items()),
            self.all_rows,
            self.empty_matches,
            self.skip,
            self.within,
            tuple(self.conditions[name] for name in variables if name in self.conditions),
            self.mode,
        )
        facts = [fact for condition in rows.conditions for fact in condition.facts]
        symbols = tuple(
            Symbol(name, self.definitions.get(name, EVERY_INTERVAL)) for name in variables
        ) + tuple(Symbol(name, predicate) for name, predicate in facts)
        before = len(self.cursor.diagnostics)
        validate_rows(rows, self.partition_by, self.source, self.cursor, self.spans)
        if len(self.cursor.diagnostics) > before:
            return None
        return Query(
            symbols=symbols,
            constraints=(),
            within=self.within or NO_WINDOW,
            returns=(),
            streams=(self.source.source(),),
            partition_by=tuple(self.partition_by),
            rows=rows,
            origin=Origin(self.text, dict(self.spans)),
        )

    # -- the clauses ------------------------------------------------------------------------------

    def _partition_by(self, cursor: Cursor) -> None:
        for part in cursor.split(","):
            name = self._own_column(part)
            if name is None:
                continue
            part.expect_end("a column")
            if name in self.partition_by:
                part.report(part.span(), f"{name} is in PARTITION BY twice")
            self.partition_by.append(name)
            self.spans["partition_by", name] = part.span()

    def _own_column(self, cursor: Cursor) -> str | None:
        name = cursor.take_name("a column")
        if name is not None and cursor.peek().is_sign("."):
            if name.text not in self.source.qualifiers:
                hint = did_you_mean(name.text, self.source.qualifiers)
                cursor.report(name, f"{name.text} is not the stream of this row pattern", hint)
            cursor.take()
            name = cursor.take_name("a column")
        return None if name is None else name.text

    def _order_by(self, cursor: Cursor) -> None:
        self.source.order_by = self._own_column(cursor)
        self.spans["order_by",] = cursor.span()
        if self.source.order_by is None:
            return
        self.source.time_unit = read_unit(cursor, ("time_unit",), self.spans)
        cursor.take_word("ASC")
        read_sequence(cursor, self.source, self._own_column)
        hint = None
        if cursor.peek().upper == "DESC":
            hint = "events are always processed in order of time"
        elif cursor.peek().is_sign(","):
            hint = SEQUENCE_HINT
        cursor.expect_end("ORDER BY", hint)

    def _all_rows(self, cursor: Cursor) -> None:
        self.all_rows = True
        if cursor.at_end:
            return
        words = tuple(token.upper for token in cursor.tokens)
        if words in _EMPTY:
            self.empty_matches = _EMPTY[words]
            return
        message = "this does not belong after ALL ROWS PER MATCH"
        cursor.report(cursor.span(), message, "write " + ", ".join(" ".join(w) for w in _EMPTY))

    def _after(self, cursor: Cursor) -> None:
        if not cursor.take_word("SKIP"):
            cursor.report(cursor.peek(), "SKIP is missing after AFTER MATCH", f"write {_TO_ROW}")
            return
        words = tuple(token.upper for token in cursor.tokens[cursor.position :])
        if words == ("PAST", "LAST", "ROW"):
            return
        if words == ("TO", "NEXT", "ROW"):
            self.skip = Skip(SkipMode.TO_NEXT_ROW)
            return
        if not cursor.take_word("TO"):
            cursor.report(cursor.span(), "this is not where to skip to", f"write {_TO_ROW}")
            return
        mode = SkipMode.TO_LAST
        if cursor.peek().upper in ("FIRST", "LAST") and cursor.peek(1).text:
            mode = SkipMode.TO_FIRST if cursor.take().upper == "FIRST" else SkipMode.TO_LAST
        name = cursor.take_name("a variable")
        if name is not None:
            self.skip = Skip(mode, name.text)
            self.spans["skip",] = name.span
            cursor.expect_end("AFTER MATCH SKIP")

    def _match_mode(self, mode: MatchMode, cursor: Cursor) -> None:
        if self.mode is not MatchMode.PREFERRED:
            cursor.report(cursor.span(), "INCREMENTAL and MAXIMAL MATCH exclude each other")
        self.mode = mode
        cursor.expect_end(mode.value)

    def _pattern(self, cursor: Cursor) -> None:
        self.pattern = read_row_pattern(cursor)

    def _subset(self, cursor: Cursor) -> None:
        for part in cursor.split(","):
            name = part.take_name("the name of a subset")
            if name is None:
                continue
            if not part.take_sign("=") or not part.take_sign("("):
                part.report(part.peek(), "a subset is a list", f"write {name.text} = (A, B)")
                continue
            members = []
            for token in part.tokens[part.position :]:
                if token.kind in (Kind.WORD, Kind.QUOTED):
                    members.append(token)
            known = self._variables()
            for member in members:
                if member.text not in known:
                    hint = did_you_mean(member.text, known)
                    part.report(member, f"{member.text} is not in the pattern", hint)
            if name.text in known or name.text in self.subsets:
                part.report(name, f"{name.text} is the name of something else too")
            if not members or not part.tokens[-1].is_sign(")"):
                part.report(part.span(), "a subset is a list", f"write {name.text} = (A, B)")
            self.subsets[name.text] = tuple(dict.fromkeys(m.text for m in members))

    def _variables(self) -> tuple[str, ...]:
        return () if self.pattern is None else RowPattern(self.pattern, ()).variables

    def _within(self, cursor: Cursor) -> None:
        self.within = cursor.take_duration("WITHIN")
        cursor.expect_end("WITHIN")

    def _measures(self, cursor: Cursor) -> None:
        if self.pattern is None:
            return
        variables = (*self._variables(), *self.subsets)
        names = RowNames(variables, self.all_rows, self.source.qualifiers)
        self.measures = read_measures(cursor, self.text, names, self.spans)

    def _define(self, cursor: Cursor) -> None:
        if self.pattern is None:
            return
        known = self._variables()
        for item in cursor.split(","):
            name = item.take_name("the name of a variable")
            if name is None:
                continue
            if name.text not in known:
                hint = did_you_mean(name.text, known)
                item.report(name, f"the variable {name.text} is not in PATTERN", hint)
            if name.text in self.definitions:
                item.report(name, f"the variable {name.text} is defined twice")
            if not item.take_word("AS"):
                item.report(item.peek(), f"AS is missing after {name.text}")
                continue
            predicate = self._condition(name.text, item)
            if predicate is not None:
                self.definitions[name.text] = predicate
                self.spans["symbol", name.text] = name.span

    def _condition(self, variable: str, item: Cursor) -> Predicate | None:
        written = item.tokens[item.position :]
        if not written:
            item.report(item.peek(), f"the condition of {variable} is missing")
            return None
        names = (*self._variables(), *self.subsets)
        if needs_memory(written, variable, names):
            return self._with_memory(variable, Cursor(written, item.end.span, item.diagnostics))
        start, end = written[0].span.start, written[-1].span.end
        qualifiers = (variable, *self.source.qualifiers)
        predicate, faults = Predicate.read(
            self.text[start:end], self.text, start, Names(qualifiers), values_of(written)
        )
        whole = Span(start, end)
        self.spans["predicate", variable] = whole
        item.diagnostics.extend(Diagnostic(f.span or whole, f.message, f.hint) for f in faults)
        return predicate

    def _with_memory(self, variable: str, written: Cursor) -> Predicate | None:
        """A condition that reads other rows of the match; gives what it says of its own."""
        assert self.pattern is not None
        names = (*self._variables(), *self.subsets)
        members = RowPattern(self.pattern, (), tuple(self.subsets.items())).members
        found = read_condition(
            variable, written, self.text,
            RowNames(names, False, self.source.qualifiers, in_condition=True), members, self.spans,
        )  # fmt: skip
        self.spans["predicate", variable] = written.span()
        if found is None:
            return None
        predicate, condition = found
        if condition is not None:
            self.conditions[variable] = condition
        return predicate


def _split(cursor: Cursor) -> dict[str, Cursor]:
    """The clauses in the brackets by their first words."""
    tokens = cursor.tokens
    depth = depths(tokens)
    starts: list[tuple[int, tuple[str, ...]]] = []
    index = 0
    while index < len(tokens):
        clause = _clause_at(tokens, index) if depth[index] == 0 else None
        if clause is None:
            index += 1
            continue
        starts.append((index, clause))
        index += len(clause)
    if not starts or starts[0][0] > 0:
        first = tokens[0] if tokens else cursor.end
        listed = ", ".join(" ".join(words) for words in _CLAUSES)
        cursor.report(first, "this is not a clause of MATCH_RECOGNIZE", f"its clauses are {listed}")
    found: dict[str, Cursor] = {}
    for (start, words), following in zip(starts, [*starts[1:], None], strict=True):
        stop = len(tokens) if following is None else following[0]
        end = cursor.end.span if following is None else tokens[stop].span
        if words[0] in found:
            cursor.report(tokens[start], f"{' '.join(words)} is given twice")
        inside = Cursor(tokens[start + len(words) : stop], end, cursor.diagnostics)
        found.setdefault(words[0], inside)
    return found


def _clause_at(tokens: list[Token], index: int) -> tuple[str, ...] | None:
    if index and tokens[index - 1].upper == "AS":
        return None
    for words in _CLAUSES:
        if tuple(token.upper for token in tokens[index : index + len(words)]) == words:
            return words
    return None
