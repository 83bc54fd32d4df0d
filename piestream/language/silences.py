"""``SILENCE OF stream LONGER THAN 30 s``: the silences of a stream of events as intervals of a symbol.

Such an interval is from an event to the next one of its stream and partition, where that comes later
than so long after it. It is known from the instant on at which it is too late for the next event.
"""

from __future__ import annotations

from collections.abc import Sequence

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.durations import unit_named
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor
from piestream.language.draft import StreamDraft, SymbolSpec
from piestream.language.parts import Silence, Where
from piestream.language.validation import Validation

__all__ = ["begins_silence", "read_silence", "validate_silence"]

_EXAMPLE = "write quiet AS SILENCE LONGER THAN 30 s"


def begins_silence(tokens: Sequence[Token]) -> bool:
    """Whether a definition is of silences; ``silence`` may also be a column."""
    words = [token.upper if token.kind is Kind.WORD else "" for token in tokens[:4]]
    if words[:1] != ["SILENCE"]:
        return False
    if words[1:2] in (["LONGER"], ["OF"]) or (len(tokens) > 1 and tokens[1].kind is Kind.NUMBER):
        return True
    # SILENCE > 30 s: with a unit, it is no comparison with a column.
    compared = len(tokens) > 3 and tokens[1].is_sign(">", ">=") and tokens[2].kind is Kind.NUMBER
    return compared and unit_named(tokens[3].text) is not None


def read_silence(
    cursor: Cursor, symbol: str, streams: Sequence[StreamDraft], spans: dict[Where, Span]
) -> Silence | None:
    """The silence that comes next; its stream is one of those that have been read."""
    first = cursor.take()
    spans.setdefault(("predicate", symbol), first.span)
    of: int | None = 0
    if cursor.take_word("OF"):
        name = cursor.take_name("the name of a stream")
        of = None if name is None else _stream_named(cursor, name, streams)
        if of is None:
            return None
    if not (cursor.take_word("LONGER") and cursor.take_word("THAN")):
        cursor.report(cursor.peek(), "LONGER THAN is missing behind SILENCE", _EXAMPLE)
        return None
    start = cursor.position
    length = cursor.take_duration("LONGER THAN")
    if length is None or of is None:
        return None
    last = cursor.tokens[cursor.position - 1].span
    spans.setdefault(("silence", symbol), cursor.tokens[start].span.joined(last))
    spans["predicate", symbol] = first.span.joined(last)
    return Silence(of, length)


def _stream_named(cursor: Cursor, name: Token, streams: Sequence[StreamDraft]) -> int | None:
    """The number of the stream that a name stands for."""
    for number, stream in enumerate(streams):
        if name.text in stream.qualifiers:
            return number
    known = [qualifier for stream in streams for qualifier in stream.qualifiers]
    hint = did_you_mean(name.text, known) or f"the streams are {', '.join(known)}"
    cursor.report(name, f"there is no stream {name.text}", hint)
    return None


def validate_silence(validation: Validation, spec: SymbolSpec) -> None:
    """Report what is wrong with a symbol that is the silences of a stream."""
    length = spec.silence
    assert length is not None
    silence = validation.draft.streams[spec.stream].silence
    stream = validation.draft.streams[spec.stream if silence is None else silence.of]
    where = ("silence", spec.name)
    if stream.is_ready_made:
        message = f"{spec.name} is a silence of {stream.name}, which has intervals and no events"
        validation.report_at(("predicate", spec.name), message, "name a stream of events behind OF")
    if length.amount == 0:
        validation.report_at(where, f"{spec.name} must be a silence longer than 0")
    most = spec.at_most
    longer = None if most is None else validation.difference(most, length)
    if longer is not None and longer <= 0:
        validation.report_at(
            ("at_most", spec.name),
            f"{spec.name} lasts longer than {length} and at most {most}, which no silence can",
        )
    if spec.at_least_events is not None or spec.at_most_events is not None:
        counts = "at_least_events" if spec.at_most_events is None else "at_most_events"
        message = f"{spec.name} is a silence, which has no events to count"
        validation.report_at((counts, spec.name), message)
    if spec.bridging is not None:
        message = f"{spec.name} is a silence: there are no runs to bridge"
        validation.report_at(("bridging", spec.name), message)
