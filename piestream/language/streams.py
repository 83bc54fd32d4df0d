"""FROM and WITH: the streams that a query reads, and what their names stand for.

A stream is named, or is the path of files, or a query in brackets. A query in brackets knows the
names of the streams around it: what such a name stands for is then a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.durations import NANOSECONDS, tick_unit
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor, depths
from piestream.language.draft import StreamDraft
from piestream.language.model import Query
from piestream.language.parts import Source, Where, name_of_archive, part_of

__all__ = [
    "SEQUENCE_HINT",
    "NestedQuery",
    "Scope",
    "read_sequence",
    "read_stream",
    "read_unit",
    "stream_of_tokens",
]

#: What ORDER BY is, where more is written than it takes.
SEQUENCE_HINT = "ORDER BY has the time, and one column (or ROW) that orders events of one time"


class NestedQuery:
    """The tokens of a query in brackets, and where it ends.

    Of a row pattern they are those of its clauses, and ``source`` is the stream that it is over.
    """

    def __init__(self, tokens: list[Token], end: Span, source: StreamDraft | None = None) -> None:
        self.tokens = tokens
        self.end = end
        self.source = source


class Scope:
    """What the names of streams stand for inside a query: its own streams, then those around it.

    ``read`` reads the query in brackets with that number; it is called once, when its matches are
    needed first, so that queries may be written in any order.
    """

    def __init__(
        self,
        streams: Sequence[StreamDraft],
        partition_by: Sequence[str],
        read: Callable[[int], Query | None],
        outer: Scope | None = None,
    ) -> None:
        self.streams = streams
        self.partition_by = partition_by
        self.outer = outer
        self._read = read
        #: The streams that queries in brackets read.
        self.read_inside: set[int] = set()
        self._reading: list[int] = []
        self._done: set[int] = set()

    def read_queries(self) -> None:
        """Read the queries in brackets that nothing has asked for."""
        for number, stream in enumerate(self.streams):
            if stream.is_query and stream.query is None:
                self._query(number)

    def resolve(self, name: str, place: Span | None, cursor: Cursor) -> Source | None:
        """The stream that a name stands for in a query in brackets; None if it is no one's."""
        for number, stream in enumerate(self.streams):
            if stream.name != name or stream.archive:
                continue
            if number in self._reading:
                around = [str(self.streams[n].name) for n in self._reading]
                self.read_inside.add(number)
                way = " reads ".join([*around[around.index(name) :], name])
                message = f"the stream {name} is made of itself: {way}"
                cursor.report(place or cursor.span(), message, "a query reads other streams")
                return None
            if stream.is_query:
                self._query(number)
            self.read_inside.add(number)
            return stream.source()
        return None if self.outer is None else self.outer.resolve(name, place, cursor)

    def _query(self, number: int) -> None:
        if number in self._done:
            return
        self._done.add(number)
        self._reading.append(number)
        self.streams[number].query = self._read(number)
        self._reading.pop()


def _path_hint(cursor: Cursor, name: str | None, keyword: str) -> str | None:
    """A path without quotes, with them, if what is left over goes on as one."""
    if name is None or not cursor.peek().is_sign("-", ".", "/", "*"):
        return None
    rest = "".join(token.text for token in cursor.tokens[cursor.position :])
    return f"a path stands in quotes: {keyword} '{name}{rest}'"


def read_stream(
    cursor: Cursor, number: int, keyword: str, spans: dict[Where, Span]
) -> tuple[StreamDraft, NestedQuery | None]:
    """The stream of a FROM or WITH clause, and the tokens of its query if it is one."""
    stream = StreamDraft(span=cursor.span() if cursor.tokens else None)
    nested = None
    if cursor.peek().upper == "ARCHIVE" and cursor.peek(1).kind is Kind.STRING:
        cursor.take()
        stream.archive = True
    first = cursor.peek()
    if first.kind is Kind.STRING:
        stream.path = cursor.take().text
        if not stream.path:
            cursor.report(first, f"the path of {keyword} is empty")
    elif first.is_sign("("):
        nested = _nested(cursor)
        stream.is_query = True
    else:
        name = cursor.take_name("the name of a stream, or a path in quotes,")
        if name is None:
            return stream, None
        stream.name = name.text
        stream.span = name.span
        _check_archive(cursor, name, keyword)
    _alias(cursor, stream)
    if stream.archive and stream.name is None and stream.path:
        stream.name = name_of_archive(stream.path)
    if cursor.peek().upper == "MATCH_RECOGNIZE" and cursor.peek(1).is_sign("("):
        stream, nested = _row_pattern(cursor, stream, nested)
    is_row_pattern = nested is not None and nested.source is not None
    if cursor.take_word("FROM"):
        _endpoints(cursor, stream, number, spans)
        if cursor.peek().upper == "AS" and stream.alias is None:
            _alias(cursor, stream)
    if stream.name is None and (stream.is_query or number > 0) and not is_row_pattern:
        what = "query" if stream.is_query else "file"
        message = f"the stream of this {what} has no name"
        cursor.report(first, message, f"write {keyword} … AS name")
    cursor.expect_end(keyword, _path_hint(cursor, stream.name, keyword))
    if stream.is_query and stream.start is not None:
        message = "the matches of a query have their own starts and ends"
        cursor.report(first, message, "leave FROM … TO … out")
    if cursor.tokens:
        spans[part_of(number, stream.name, "source")] = cursor.span()
    return stream, nested


def _check_archive(cursor: Cursor, name: Token, keyword: str) -> None:
    """Refuse ``ARCHIVE trades``, which would be a stream ARCHIVE with another name."""
    token = cursor.peek()
    is_name = token.kind in (Kind.WORD, Kind.QUOTED)
    if name.upper == "ARCHIVE" and is_name and token.upper not in ("AS", "FROM", "MATCH_RECOGNIZE"):
        hint = (
            f"{keyword} ARCHIVE '{token.text}'; another name of a stream that is called {name.text} "
            f"stands behind AS: {keyword} {name.text} AS {token.text}"
        )
        cursor.report(token, "the path of an archive stands in quotes", hint)


def _alias(cursor: Cursor, stream: StreamDraft) -> None:
    """``AS t``, or ``t`` alone, if it comes next."""
    is_announced = cursor.take_word("AS")
    token = cursor.peek()
    if token.kind not in (Kind.WORD, Kind.QUOTED) or token.upper in ("FROM", "MATCH_RECOGNIZE"):
        if is_announced:
            instead = "write AS i" + ", or leave AS out" * (stream.name is not None)
            cursor.report(token, "a name is missing after AS", instead)
        return
    alias = cursor.take_name("another name for the stream")
    if alias is not None and stream.name is None:
        stream.name, stream.span = alias.text, alias.span
    elif alias is not None:
        stream.alias = alias.text


def _row_pattern(
    cursor: Cursor, source: StreamDraft, query: NestedQuery | None
) -> tuple[StreamDraft, NestedQuery]:
    """``MATCH_RECOGNIZE ( … ) AS name`` behind a stream: the stream of its matches."""
    word = cursor.take()
    if query is not None:
        hint = "MATCH_RECOGNIZE stands behind the name of a stream of events, or its files"
        cursor.report(word, "a row pattern over the matches of a query is not supported yet", hint)
    found = _nested(cursor)
    stream = StreamDraft(is_query=True, span=source.span)
    _alias(cursor, stream)
    return stream, NestedQuery(found.tokens, found.end, source)


def _nested(cursor: Cursor) -> NestedQuery:
    """The tokens between the bracket that comes next and the one that closes it."""
    rest = cursor.tokens[cursor.position :]
    depth = depths(rest)
    close = next((i for i in range(1, len(rest)) if depth[i] == 0 and rest[i].is_sign(")")), None)
    if close is None:
        cursor.report(rest[0], "this bracket is never closed with )")
        cursor.position = len(cursor.tokens)
        return NestedQuery(rest[1:], cursor.end.span)
    cursor.position += close + 1
    return NestedQuery(rest[1:close], rest[close].span)


def _endpoints(cursor: Cursor, stream: StreamDraft, number: int, spans: dict[Where, Span]) -> None:
    """``FROM start TO end UNIT ms ID column KNOWN AT START``, behind FROM."""

    def column(part: str, what: str) -> str | None:
        name = cursor.take_name(what)
        if name is None:
            return None
        spans[part_of(number, stream.name, part)] = name.span
        return name.text

    stream.start = column("start", "the column in which intervals start")
    if not cursor.take_word("TO"):
        cursor.report(cursor.peek(), "TO is missing", "write FROM start TO end")
        return
    stream.end = column("end", "the column in which intervals end")
    while not cursor.at_end:
        if cursor.peek().upper == "UNIT":
            stream.time_unit = read_unit(cursor, part_of(number, stream.name, "time_unit"), spans)
        elif cursor.take_word("ID"):
            stream.id = column("id", "the column that identifies intervals")
        elif cursor.take_word("KNOWN"):
            if not (cursor.take_word("AT") and cursor.take_word("START")):
                cursor.report(cursor.peek(), "this is not KNOWN AT START")
            stream.known_at_start = True
        else:
            break


def read_unit(cursor: Cursor, where: Where, spans: dict[Where, Span]) -> str | None:
    """``UNIT ms`` or ``UNIT 20 ms`` of a time column of integers, if it comes next."""
    if not cursor.take_word("UNIT"):
        return None
    if cursor.peek().kind in (Kind.NUMBER, Kind.PARAMETER):
        return _read_tick(cursor, where, spans)
    unit = cursor.take()
    name = tick_unit(unit.text) if unit.kind is Kind.WORD else None
    if name is None:
        hint = did_you_mean(unit.text, NANOSECONDS)
        message = f"{unit.text or 'nothing'} is not the unit of a time column"
        cursor.report(unit, message, hint or f"the units are {', '.join(NANOSECONDS)}")
    else:
        spans[where] = unit.span
    return name


def read_sequence(
    cursor: Cursor, stream: StreamDraft, column: Callable[[Cursor], str | None]
) -> None:
    """``, seq`` or ``, ROW``, which orders events of one time, if it comes next."""
    if not cursor.take_sign(","):
        return
    token = cursor.peek()
    if token.kind is Kind.WORD and token.upper == "ROW":
        cursor.take()
        stream.row_order = True
    else:
        stream.sequence = column(cursor)
        if stream.sequence is None:
            return
        if stream.sequence == stream.order_by:
            message = f"{stream.order_by} is in ORDER BY twice"
            cursor.report(token, message, "behind the time stands what orders events of one time")
    if cursor.peek().upper in ("ASC", "DESC"):
        direction = cursor.take()
        if direction.upper == "DESC":
            message = "events of one time are processed in ascending order"
            cursor.report(direction, message, f"leave {direction.text} out")


def _read_tick(cursor: Cursor, where: Where, spans: dict[Where, Span]) -> str | None:
    """``20 ms``: how long a tick lasts."""
    first = cursor.peek()
    length = cursor.take_duration("UNIT")
    if length is None:
        return None
    span = first.span.joined(cursor.tokens[cursor.position - 1].span)
    name = tick_unit(str(length))
    if name is None:
        message = f"a tick cannot last {length}"
        hint = "a tick is a whole number of microseconds, or a whole part of one: UNIT 20 ms"
        if length.in_ticks and length.amount:
            message = f"{length} is not the unit of a time column"
            hint = f"say what it counts, as in UNIT {length} ms"
        cursor.report(span, message, hint)
    else:
        spans[where] = span
    return name


def stream_of_tokens(
    tokens: Sequence[Token],
    streams: Sequence[StreamDraft],
    cursor: Cursor,
    known: Iterable[tuple[int, Token]] = (),
) -> int | None:
    """The stream whose name qualifies columns among these tokens, else the first.

    ``known`` are streams that some of the tokens read besides. None where they are of several
    streams, which is reported.
    """
    found: dict[int, Token] = {}
    for number, token in known:
        found.setdefault(number, token)
    for index, token in enumerate(tokens[:-2]):
        if token.kind not in (Kind.WORD, Kind.QUOTED) or not tokens[index + 1].is_sign("."):
            continue
        if index and tokens[index - 1].is_sign("."):
            continue
        for number, stream in enumerate(streams):
            if token.text in stream.qualifiers:
                found.setdefault(number, token)
    if len(found) > 1:
        (_, first), (_, other) = list(found.items())[:2]
        cursor.report(
            other,
            f"a predicate reads one stream, and this reads {first.text} and {other.text}",
            "define a symbol for each, and relate them in PATTERN",
        )
        return None
    return next(iter(found), 0)


def inherited(stream: StreamDraft, source: Source) -> StreamDraft:
    """A stream that is known outside by its name, with what is said of it here."""
    known = StreamDraft.of(source)
    if stream.order_by is not None:  # the clause is written anew, whatever it is outside
        known = replace(known, sequence=None, row_order=False)
    written = {
        part: value
        for part in (
            "alias", "order_by", "sequence", "time_unit", "max_gap", "start", "end", "id", "span",
        )
        if (value := getattr(stream, part)) is not None
    }  # fmt: skip
    if stream.row_order:
        written["row_order"] = True
    if stream.known_at_start:
        written["known_at_start"] = True
    return replace(known, name=stream.name, **written)
