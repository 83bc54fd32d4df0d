"""PATTERN: constraints between symbols, however they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.tokens import RESERVED, Kind, Token
from piestream.language.cursor import Reader
from piestream.language.endpoints import COMPARISONS, relations_where
from piestream.relations import ALL_NAMES, ALLEN, Relation, inverse, names, relation_named

__all__ = ["ConstraintSpec", "read_pattern"]


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One constraint as the text states it, before pairs are put together.

    A pattern of a single symbol states that with ``y`` None.
    """

    x: str
    y: str | None
    relations: Relation
    span: Span | None
    x_span: Span | None
    y_span: Span | None


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a constraint; ``followed-by`` is one word though it is three tokens."""

    text: str
    span: Span
    is_quoted: bool


def read_pattern(reader: Reader, symbols: Sequence[str]) -> list[ConstraintSpec]:
    """The constraints of a PATTERN clause; faults go to the reader's list."""
    if reader.at_end:
        reader.fault(reader.peek(), "PATTERN is empty", "write PATTERN a meets b")
        return []
    stated: list[ConstraintSpec] = []
    for conjunct in _conjuncts(reader):
        stated += _conjunct(conjunct, symbols)
    return stated


def _conjuncts(reader: Reader) -> list[Reader]:
    found: list[Reader] = []
    current: list[Token] = []
    for token in [*reader.tokens, reader.end]:
        if (token.kind is Kind.END and token is reader.end) or token.upper == "AND":
            part = Reader(current, token.span, reader.diagnostics)
            if not current:
                reader.fault(token, "a constraint is missing here", "write: a meets b")
            else:
                found.append(part)
            current = []
        elif token.upper == "OR" or token.is_sign(","):
            is_or = token.upper == "OR"
            hint = "alternatives are separated by ; or |" if is_or else "constraints join with AND"
            reader.fault(token, f"{token.text} does not belong in PATTERN", hint)
            if current:
                found.append(Reader(current, token.span, reader.diagnostics))
            current = []
        else:
            current.append(token)
    return found


def _conjunct(reader: Reader, symbols: Sequence[str]) -> list[ConstraintSpec]:
    while (
        len(reader.tokens) > 2 and reader.tokens[0].is_sign("(") and reader.tokens[-1].is_sign(")")
    ):
        reader = Reader(reader.tokens[1:-1], reader.tokens[-1].span, reader.diagnostics)
    if any(token.upper == "NOT" or token.is_sign("!") for token in reader.tokens[:2]):
        _refuse_negation(reader, symbols)
        return []
    segments = list(reader.parts(";", "|"))
    for segment in segments:
        if not segment.tokens:
            reader.fault(segment.end, "an alternative is missing here")
            return []
    if any(t.is_sign(*COMPARISONS) for segment in segments for t in segment.tokens):
        return _with_comparisons(segments, symbols, reader)
    words = [_words(segment) for segment in segments]
    if any(w is None for w in words):
        return []
    listed = [w for w in words if w]
    if len(listed) == 1 and len(listed[0]) == 1:
        only = listed[0][0]
        if only.is_quoted or only.text in symbols or relation_named(only.text) is None:
            return [ConstraintSpec(only.text, None, Relation(0), only.span, only.span, only.span)]
    return _united(_resolved(listed, symbols, reader), reader)


def _refuse_negation(reader: Reader, symbols: Sequence[str]) -> None:
    """NOT is no constraint; say how to write what was probably meant by it."""
    sign = next(t for t in reader.tokens if t.upper == "NOT" or t.is_sign("!"))
    rest = [token for token in reader.tokens if token is not sign]
    negated = Reader(rest, reader.end.span, [])
    stated = _conjunct(negated, symbols) if rest else []
    hint = "write the relations that may hold: a meets; overlaps b"
    if len(stated) == 1 and stated[0].y is None:
        name = stated[0].x
        hint = f"where {name} does not hold is a symbol too: DEFINE not_{name} AS NOT (...)"
    elif len(stated) == 1 and not negated.diagnostics:
        left = Relation(sum(ALLEN)) & ~stated[0].relations
        if left and not stated[0].relations & ~sum(ALLEN):
            others = "; ".join(names(left))
            hint = f"write the relations that may hold: {stated[0].x} {others} {stated[0].y}"
    reader.fault(sign, "a constraint says which relations may hold, without NOT", hint)


#: What stands between symbols in other languages, and how it is said here.
_SIGNS = {
    "->": "the order of two intervals is a relation: a before b",
    "{": "alternatives are separated by ;, without brackets: a meets; overlaps b",
    "(": "a relation stands between its symbols: a meets b",
    "[": "a relation stands without a distance; WITHIN bounds the whole match",
    **dict.fromkeys(["+", "*", "?"], "an interval is a whole run of events already"),
}
_WORDS = {
    **dict.fromkeys(["then", "next", "seq", "sequence"], "followed-by"),
    **dict.fromkeys(["precedes"], "before"),
    **dict.fromkeys(["inside", "while"], "during"),
    **dict.fromkeys(["intersects"], "overlaps"),
    **dict.fromkeys(["touches"], "meets"),
}


def _words(reader: Reader) -> list[_Word] | None:
    found: list[_Word] = []
    tokens = reader.tokens
    index = 0
    while index < len(tokens):
        token = tokens[index]
        span, text = token.span, token.text
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            hint = _SIGNS.get(token.text)
            reader.fault(token, f"{token.text} does not belong in PATTERN", hint)
            return None
        if token.upper in RESERVED - {"BY"}:
            hint = f'to use it as a name, write "{text}"'
            reader.fault(token, f"{text} is a reserved word", hint)
            return None
        index += 1
        while (  # followed-by: a hyphen joins words that touch it
            token.kind is Kind.WORD
            and index + 1 < len(tokens)
            and tokens[index].is_sign("-")
            and tokens[index + 1].kind is Kind.WORD
        ):
            text += "-" + tokens[index + 1].text
            span = span.joined(tokens[index + 1].span)
            index += 2
        found.append(_Word(text, span, token.kind is Kind.QUOTED))
    return found


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to read an alternative; None is what the neighbours must supply."""

    x: _Word | None
    relation: Relation
    y: _Word | None


def _readings(words: list[_Word]) -> list[_Reading]:
    found = []
    for has_x in (True, False):
        for has_y in (True, False):
            middle = words[has_x : len(words) - has_y]
            if not middle or len(middle) > 2 or any(w.is_quoted for w in middle):
                continue
            relation = relation_named(" ".join(w.text for w in middle))
            if relation is not None:
                found.append(
                    _Reading(words[0] if has_x else None, relation, words[-1] if has_y else None)
                )
    return found


def _resolved(
    segments: list[list[_Word]], symbols: Sequence[str], reader: Reader
) -> list[ConstraintSpec]:
    """Each alternative with both its symbols: the first to its left, the next to its right."""
    chosen: list[_Reading] = []
    for position, words in enumerate(segments):
        readings = _readings(words)
        is_first, is_last = position == 0, position == len(segments) - 1
        readings = [r for r in readings if (r.x or not is_first) and (r.y or not is_last)]
        if not readings:
            _unread(words, is_first, is_last, symbols, reader)
            return []

        def fitness(reading: _Reading) -> int:
            named = [w for w in (reading.x, reading.y) if w is not None]
            return sum(1 if w.text in symbols else -1 for w in named)

        chosen.append(max(readings, key=fitness))
    stated = []
    for position, reading in enumerate(chosen):
        x = next(r.x for r in reversed(chosen[: position + 1]) if r.x is not None)
        y = next(r.y for r in chosen[position:] if r.y is not None)
        span = segments[position][0].span.joined(segments[position][-1].span)
        stated.append(ConstraintSpec(x.text, y.text, reading.relation, span, x.span, y.span))
    return stated


def _unread(
    words: list[_Word],
    is_first: bool,
    is_last: bool,
    symbols: Sequence[str],
    reader: Reader,
) -> None:
    if len(words) > 1 and all(word.text in symbols for word in words):
        apart = " and ".join(word.text for word in words[:2])
        span = words[0].span.joined(words[-1].span)
        reader.fault(
            span, f"a relation is missing between {apart}",
            f"write for example: {words[0].text} meets {words[1].text}",
        )  # fmt: skip
        return
    whole = _whole_constraint(words, symbols)
    if whole:
        more = words[whole:]
        reader.fault(
            more[0].span.joined(more[-1].span),
            f"{more[0].text} does not belong after a whole constraint",
            "constraints join with AND, alternatives with ;",
        )
        return
    start = 1 if is_first or (len(words) > 1 and words[0].text in symbols) else 0
    stop = len(words)
    if len(words) - start > 1 and (is_last or words[-1].text in symbols):
        stop -= 1
    middle = words[start:stop]
    span = words[0].span.joined(words[-1].span)
    if middle and is_last and stop == len(words) and relation_named(middle[-1].text) is not None:
        reader.fault(reader.end, "a symbol is missing after the relation")
        return
    if not middle:
        reader.fault(span, "this is not a constraint", "write: a meets b")
        return
    if relation_named(" ".join(w.text for w in middle)) is not None:
        reader.fault(span, "this constraint lacks a symbol", "write: a meets b")
        return
    text = " ".join(word.text for word in middle)
    span = middle[0].span.joined(middle[-1].span)
    spelt = text.lower().replace("_", "-").replace(" ", "-")
    near = f"did you mean {_WORDS[spelt]}?" if spelt in _WORDS else did_you_mean(spelt, ALL_NAMES)
    hint = near or f"the relations are {', '.join(ALL_NAMES)}"
    reader.fault(span, f"there is no relation {text}", hint)


def _whole_constraint(words: list[_Word], symbols: Sequence[str]) -> int:
    """How many of the first words say a constraint, if more follow; else 0."""
    for length in (3, 4):
        head = words[:length]
        ends = head[0].text in symbols and head[-1].text in symbols
        relation = relation_named(" ".join(word.text for word in head[1:-1]))
        if ends and relation is not None and length < len(words):
            return length
    return 0


def _united(alternatives: list[ConstraintSpec], reader: Reader) -> list[ConstraintSpec]:
    """Alternatives on one pair as one constraint."""
    if not alternatives:
        return []
    first = alternatives[0]
    assert first.y is not None
    relations, span = first.relations, first.span
    for other in alternatives[1:]:
        if (other.x, other.y) == (first.x, first.y):
            relations |= other.relations
        elif (other.y, other.x) == (first.x, first.y):
            relations |= inverse(other.relations)
        else:
            assert other.span is not None
            reader.fault(
                other.span,
                f"this alternative is about {other.x} and {other.y}, "
                f"the first about {first.x} and {first.y}",
                "alternatives are about one pair; join different pairs with AND",
            )
        if span is not None and other.span is not None:
            span = span.joined(other.span)
    return [ConstraintSpec(first.x, first.y, relations, span, first.x_span, first.y_span)]


def _with_comparisons(
    segments: list[Reader], symbols: Sequence[str], reader: Reader
) -> list[ConstraintSpec]:
    """Alternatives of which at least one compares endpoints."""
    if len(segments) == 1:
        return _chain(segments[0])
    alternatives: list[ConstraintSpec] = []
    for segment in segments:
        if any(t.is_sign(*COMPARISONS) for t in segment.tokens):
            links = _chain(segment)
            if len(links) > 1:
                segment.fault(
                    segment.span(),
                    "one alternative compares two endpoints",
                    "write a chain of comparisons as a constraint of its own, joined with AND",
                )
                return []
            alternatives += links
        else:
            words = _words(segment)
            if words is None:
                return []
            alternatives += _resolved([words], symbols, reader)
    return _united(alternatives, reader)


def _chain(reader: Reader) -> list[ConstraintSpec]:
    """``a.ts < b.ts <= a.te``: every neighbouring pair is a constraint."""
    stated: list[ConstraintSpec] = []
    left = _endpoint(reader)
    while left is not None and not reader.at_end:
        sign = reader.take()
        if not sign.is_sign(*COMPARISONS):
            reader.fault(sign, f"{sign.text} is not a comparison of endpoints")
            return stated
        right = _endpoint(reader)
        if right is None:
            return stated
        (x, x_which, x_span), (y, y_which, y_span) = left, right
        span = x_span.joined(y_span)
        if x == y:
            reader.fault(span, f"this compares {x} with itself", "compare two different symbols")
        else:
            relations = relations_where(x_which, sign.text, y_which)
            stated.append(ConstraintSpec(x, y, relations, span, x_span, y_span))
        left = right
    return stated


def _endpoint(reader: Reader) -> tuple[str, str, Span] | None:
    symbol = reader.name("a symbol")
    if symbol is None:
        return None
    if not reader.sign("."):
        reader.fault(symbol, f"{symbol.text} is not an endpoint", f"write {symbol.text}.ts or .te")
        return None
    which = reader.take()
    if which.text.lower() not in ("ts", "te"):
        reader.fault(which, f"an interval has no {which.text or 'such end'}", "write .ts or .te")
        return None
    return symbol.text, which.text.lower(), symbol.span.joined(which.span)
