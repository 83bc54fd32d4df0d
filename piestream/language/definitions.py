"""DEFINE: symbols, their predicates and the bounds of their durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from piestream.expressions import syntax as tree
from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.durations import Duration
from piestream.expressions.parameters import values_of
from piestream.expressions.predicate import EVERY_INTERVAL, Predicate
from piestream.expressions.reading import Names
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor, depths
from piestream.language.draft import StreamDraft, SymbolSpec
from piestream.language.lets import Lets
from piestream.language.parts import Where
from piestream.language.silences import begins_silence, read_silence
from piestream.language.streams import stream_of_tokens

__all__ = ["read_definitions"]


def read_definitions(
    cursor: Cursor,
    text: str,
    streams: Sequence[StreamDraft],
    spans: dict[Where, Span],
    lets: Lets,
) -> list[SymbolSpec]:
    """The definitions of a DEFINE clause; faults go to the cursor's list."""
    if cursor.at_end:
        cursor.report(cursor.peek(), "DEFINE is empty", "write DEFINE a AS speed > 70")
        return []
    items = [part for item in cursor.split(",") for part in _split_at_missing_commas(item)]
    symbols = tuple(
        item.tokens[0].text for item in items if item.tokens and item.peek(1).upper == "AS"
    )
    qualifiers = tuple(name for stream in streams for name in stream.qualifiers)
    names = Names(qualifiers, symbols, lets.values)
    found = []
    for item in items:
        if not item.tokens:
            cursor.report(item.end, "a definition is missing here", "write a AS speed > 70")
            continue
        spec = _definition(item, text, streams, names, lets, spans)
        if spec is not None:
            found.append(spec)
    return found


def _split_at_missing_commas(item: Cursor) -> list[Cursor]:
    """An item with a second ``name AS`` in it lacks a comma before that."""
    tokens, depth = item.tokens, depths(item.tokens)
    parts: list[Cursor] = []
    start = 0
    for index in range(2, len(tokens) - 1):
        begins = (
            depth[index] == 0
            and tokens[index + 1].upper == "AS"
            and tokens[index].kind in (Kind.WORD, Kind.QUOTED)
            and index - start > 2
        )
        if begins:
            item.report(tokens[index], f"a comma is missing before {tokens[index].text}")
            parts.append(Cursor(tokens[start:index], tokens[index].span, item.diagnostics))
            start = index
    parts.append(Cursor(tokens[start:], item.end.span, item.diagnostics))
    return parts


def _definition(
    item: Cursor,
    text: str,
    streams: Sequence[StreamDraft],
    names: Names,
    lets: Lets,
    spans: dict[Where, Span],
) -> SymbolSpec | None:
    name = item.take_name("the name of a symbol")
    if name is None:
        return None
    if name.upper == "LET" and (named := item.peek()).kind is Kind.WORD and named.upper != "AS":
        hint = f"write LET {named.text} = ... before DEFINE"
        item.report(name, "LET does not stand in DEFINE", hint)
        return None
    spans.setdefault(("symbol", name.text), name.span)
    if not item.take_word("AS"):
        item.report(item.peek(), f"AS is missing after {name.text}", f"write {name.text} AS x > 1")
        return SymbolSpec(name.text, None, span=name.span)
    rest = item.tokens[item.position :]
    if begins_silence(rest):
        return _silence(item, name, streams, spans)

    def is_condition(tokens: list[Token]) -> bool:
        return _whole_stream(tokens, streams) is not None or _is_condition(tokens, text, names)

    cut = _bounds_begin(rest, is_condition)
    written = rest[:cut]
    bounds = Cursor(rest[cut:], item.end.span, item.diagnostics)
    found = _bounds(bounds, name.text, spans)
    predicate = None
    stream: int | None = 0
    if not written:
        place = rest[0] if rest else item.end
        item.report(place, f"the predicate of {name.text} is missing")
    elif (whole := _whole_stream(written, streams)) is not None:
        predicate, stream = EVERY_INTERVAL, whole
    else:
        stream = stream_of_tokens(written, streams, item, lets.streams_in(written))
        if stream is not None and not lets.mentions_broken(written):
            predicate = _predicate(written, item, text, names)
    if written:
        span = written[0].span.joined(written[-1].span)
        spans.setdefault(("predicate", name.text), span)
    return SymbolSpec(
        name.text,
        predicate,
        found.lengths.get("at_least"),
        found.lengths.get("at_most"),
        name.span,
        stream or 0,
        found.counts.get("at_least_events"),
        found.counts.get("at_most_events"),
        found.lengths.get("bridging"),
    )


def _silence(
    item: Cursor, name: Token, streams: Sequence[StreamDraft], spans: dict[Where, Span]
) -> SymbolSpec:
    """``name AS SILENCE OF stream LONGER THAN 30 s``."""
    silence = read_silence(item, name.text, streams, spans)
    rest = Cursor(item.tokens[item.position :], item.end.span, item.diagnostics)
    found = _bounds(rest, name.text, spans) if silence is not None else _Bounds()
    return SymbolSpec(
        name.text,
        None if silence is None else EVERY_INTERVAL,
        found.lengths.get("at_least"),
        found.lengths.get("at_most"),
        name.span,
        0 if silence is None else silence.of,
        found.counts.get("at_least_events"),
        found.counts.get("at_most_events"),
        found.lengths.get("bridging"),
        None if silence is None else silence.longer_than,
    )


def _whole_stream(written: list[Token], streams: Sequence[StreamDraft]) -> int | None:
    """The stream of intervals that ``a AS infusions`` takes whole; None if it is a condition."""
    if len(written) != 1 or written[0].kind not in (Kind.WORD, Kind.QUOTED):
        return None
    for number, stream in enumerate(streams):
        if stream.is_ready_made and written[0].text in stream.qualifiers:
            return number
    return None


def _predicate(written: list[Token], item: Cursor, text: str, names: Names) -> Predicate | None:
    start, end = written[0].span.start, written[-1].span.end
    if written[0].is_sign("<") and len(written) > 1 and written[1].upper == "POLARS":
        hint = "only the builder takes Polars expressions"
        item.report(Span(start, end), "a Polars expression cannot be written in text", hint)
        return None
    predicate, diagnostics = Predicate.read(text[start:end], text, start, names, values_of(written))
    item.diagnostics.extend(
        Diagnostic(d.span or Span(start, end), d.message, d.hint) for d in diagnostics
    )
    return predicate


#: One for the duration, one for the events; a third is reported as given twice, and what stands
#: before it need not be read again and again.
_MOST_BETWEEN = 3


def _bounds_begin(tokens: list[Token], is_condition: Callable[[list[Token]], bool]) -> int:
    """Where the bounds of the duration begin behind the predicate; whether some tokens are one is asked."""
    depth = depths(tokens)
    end = len(tokens)
    for index, token in enumerate(tokens):
        following = tokens[index + 1].upper if index + 1 < len(tokens) else ""
        if index and not depth[index] and _is_bridging(tokens, index):
            end = index
            break
        if not index or depth[index] or token.upper != "AT":
            continue
        if following in ("LEAST", "MOST") or did_you_mean(following, ("LEAST", "MOST")):
            end = index
            break
    for _ in range(_MOST_BETWEEN):
        start = _between(tokens[:end], depth, is_condition)
        if start is None:
            break
        end = start
    return end


def _is_bridging(tokens: list[Token], index: int) -> bool:
    """Whether BRIDGING begins here, and no column of that name stands there."""
    if tokens[index].upper != "BRIDGING" or index + 1 == len(tokens):
        return False
    following = tokens[index + 1]
    amounts = (Kind.NUMBER, Kind.PARAMETER, Kind.STRING)
    return following.kind in amounts or following.upper == "INTERVAL"


def _between(
    tokens: list[Token], depth: list[int], is_condition: Callable[[list[Token]], bool]
) -> int | None:
    """Where ``BETWEEN d1 AND d2`` bounds the duration, if it is not a part of the predicate.

    With a unit it always bounds the duration. Bare numbers are ticks after a condition
    (``speed > 70 BETWEEN 4 AND 30``) and SQL's BETWEEN after a value (``speed BETWEEN 4 AND 30``). Behind
    another bound (``BETWEEN 2 AND 3 EVENTS``) they are ticks, too.
    """
    at = [i for i, t in enumerate(tokens) if t.upper == "BETWEEN" and depth[i] == 0]
    if not at or not at[-1]:
        return None
    start = at[-1]
    if tokens[start + 1 : start + 2] and tokens[start + 1].upper == "INTERVAL":
        return start  # reported where the duration is read
    shape = [t.kind for t in tokens[start + 1 :]]
    joins = [i for i, t in enumerate(tokens) if t.upper == "AND" and i > start]
    amounts = (Kind.NUMBER, Kind.PARAMETER)
    if len(joins) != 1 or any(kind not in (*amounts, Kind.WORD) for kind in shape):
        return None
    low, high = tokens[start + 1 : joins[0]], tokens[joins[0] + 1 :]
    for side in (low, high):
        if not 1 <= len(side) <= 2 or side[0].kind not in amounts:
            return None
    if len(low) == 2 or len(high) == 2 or isinstance(low[0].value, timedelta):
        return start
    if _ends_with_bound(tokens[:start]):
        return start
    return start if is_condition(tokens[:start]) else None


def _ends_with_bound(tokens: list[Token]) -> bool:
    """Whether tokens end with ``BETWEEN d1 AND d2`` with a unit, as that of events."""
    amounts = (Kind.NUMBER, Kind.PARAMETER)
    for count in (5, 6):  # the first unit may be left out
        last = tokens[-count:]
        if len(last) < count or (last[0].upper, last[-3].upper) != ("BETWEEN", "AND"):
            continue
        if last[-1].kind is Kind.WORD and last[1].kind in amounts and last[-2].kind in amounts:
            return True
    return False


def _is_condition(tokens: list[Token], text: str, names: Names) -> bool:
    """Whether an expression ends with something true or false: a comparison, IN, LIKE and so on."""
    from piestream.expressions.parse import read_predicate

    written = text[tokens[0].span.start : tokens[-1].span.end]
    last, _ = read_predicate(written, names, values_of(tokens))
    while isinstance(last, (tree.And, tree.Or, tree.Not, tree.Until, tree.Named)):
        if isinstance(last, tree.Until):
            last = last.stop
        elif isinstance(last, tree.Named):
            last = last.value
        else:
            last = last.operand if isinstance(last, tree.Not) else last.operands[-1]
    return isinstance(last, (tree.Comparison, tree.Between, tree.OneOf, tree.Like, tree.Is))


@dataclass(slots=True)
class _Bounds:
    """The bounds of one definition, by their names; None where one could not be read."""

    lengths: dict[str, Duration | None] = field(default_factory=dict)
    counts: dict[str, int | None] = field(default_factory=dict)


def _is_event_count(cursor: Cursor) -> bool:
    """Whether ``5 EVENTS`` is written where a length belongs, which is reported."""
    if not cursor.counts_events():
        return False
    hint = "write BRIDGING 5 s, or a bare number of an integer time column's ticks"
    message = "BRIDGING takes a length of time, and no number of events"
    cursor.report(cursor.peek(), message, hint)
    return True


def _bounds(cursor: Cursor, symbol: str, spans: dict[Where, Span]) -> _Bounds:
    """``AT LEAST d``, ``AT MOST d``, both, or ``BETWEEN d AND d``; the same ``EVENTS``; ``BRIDGING d``."""
    found = _Bounds()

    def bound(which: str, what: str, counts: bool) -> bool:
        given: dict[str, Duration | None] | dict[str, int | None] = found.lengths
        if counts:
            given, which = found.counts, f"{which}_events"
        if which in given:
            cursor.report(cursor.peek(), f"{what} is given twice for {symbol}")
        start = cursor.position
        if counts:
            found.counts[which] = cursor.take_event_count(what)
        else:
            found.lengths[which] = cursor.take_duration(what)
        if cursor.position > start:
            span = cursor.tokens[start].span.joined(cursor.tokens[cursor.position - 1].span)
            spans.setdefault((which, symbol), span)
        return given[which] is not None

    while not cursor.at_end:
        if cursor.take_word("BETWEEN"):
            counts = cursor.counts_events()
            good = bound("at_least", "BETWEEN", counts)
            if good and not cursor.take_word("AND"):
                cursor.report(cursor.peek(), "AND is missing", "write BETWEEN 4 s AND 30 s")
                good = False
            if not (good and bound("at_most", "BETWEEN", counts)):
                break
        elif cursor.take_word("BRIDGING"):
            if _is_event_count(cursor):
                break
            is_given = cursor.peek().kind is Kind.PARAMETER
            if not bound("bridging", "BRIDGING", False):
                break
            length = found.lengths["bridging"]
            if is_given and length is not None and not length.amount:
                found.lengths["bridging"] = None  # what a sweep compares others with
        elif cursor.take_word("AT"):
            which = cursor.take()
            if which.upper not in ("LEAST", "MOST"):
                hint = did_you_mean(which.text, ("LEAST", "MOST"))
                cursor.report(which, f"AT {which.text} is not a bound", hint)
                break
            name = f"at_{which.upper.lower()}"
            if not bound(name, f"AT {which.upper}", cursor.counts_events()):
                break
        else:
            cursor.expect_end("a duration")
    return found
