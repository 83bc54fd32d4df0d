"""The alternatives of one constraint in words: ``a meets; overlaps b``, ``a meets b; b during a``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.tokens import RESERVED, Kind
from piestream.language.cursor import Cursor
from piestream.language.draft import ConstraintSpec
from piestream.relations import ALL_NAMES, SETS, Relation, relations_named

__all__ = ["Word", "read_alternatives", "words_of"]

#: Hints for signs that stand between symbols in other languages.
_SIGN_HINTS = {
    "->": "the order of two intervals is a relation: a before b",
    "{": "alternatives are separated by ;, without brackets: a meets; overlaps b",
    "(": "a relation stands between its symbols: a meets b",
    "[": "a relation stands without a distance; WITHIN bounds the whole match",
    **dict.fromkeys(["+", "*", "?"], "an interval is a whole run of events already"),
}
#: Words of other languages, and the relation that is probably meant.
_FOREIGN_WORDS = {
    **dict.fromkeys(["then", "next", "seq", "sequence"], "followed-by"),
    **dict.fromkeys(["while"], "during"),
    **dict.fromkeys(["touches"], "meets"),
}


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a constraint; ``followed-by`` is one word though it is three tokens."""

    text: str
    span: Span
    is_quoted: bool


def words_of(cursor: Cursor) -> list[Word] | None:
    """The words of one alternative; None if anything but words stands in it."""
    found: list[Word] = []
    tokens = cursor.tokens
    index = 0
    while index < len(tokens):
        token = tokens[index]
        span, text = token.span, token.text
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            hint = _SIGN_HINTS.get(token.text)
            if token.kind is Kind.NUMBER:
                hint = "how far two lie apart is a constraint of its own: AND b.ts - a.te <= 10 s"
            cursor.report(token, f"{token.text} does not belong in PATTERN", hint)
            return None
        if token.upper in RESERVED - {"BY"}:
            hint = f'to use it as a name, write "{text}"'
            cursor.report(token, f"{text} is a reserved word", hint)
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
        found.append(Word(text, span, token.kind is Kind.QUOTED))
    return found


@dataclass(frozen=True, slots=True)
class _Alternative:
    """An alternative in which a symbol may be missing: then its neighbours have it."""

    x: Word | None
    relation: Relation
    y: Word | None

    def known_symbols(self, symbols: Sequence[str]) -> int:
        """How many of its symbols are defined, less those that are not."""
        written = [word for word in (self.x, self.y) if word is not None]
        return sum(1 if word.text in symbols else -1 for word in written)


def _candidates(words: list[Word]) -> list[_Alternative]:
    """Every way to understand the words: a symbol may stand first, last, both, or neither."""
    found = []
    for has_x in (True, False):
        for has_y in (True, False):
            middle = words[has_x : len(words) - has_y]
            if not middle or len(middle) > 2 or any(word.is_quoted for word in middle):
                continue
            relation = _relation(middle)
            if relation is not None:
                x, y = words[0] if has_x else None, words[-1] if has_y else None
                found.append(_Alternative(x, relation, y))
    return found


def _relation(words: list[Word]) -> Relation | None:
    return relations_named(" ".join(word.text for word in words))


def _span(words: list[Word]) -> Span:
    return words[0].span.joined(words[-1].span)


def read_alternatives(
    segments: list[list[Word]], symbols: Sequence[str], cursor: Cursor
) -> list[ConstraintSpec]:
    """Each alternative with both its symbols: the first to its left, the next to its right."""
    chosen: list[_Alternative] = []
    for position, words in enumerate(segments):
        is_first, is_last = position == 0, position == len(segments) - 1
        candidates = [
            candidate
            for candidate in _candidates(words)
            if (candidate.x or not is_first) and (candidate.y or not is_last)
        ]
        if not candidates:
            _report_unreadable(words, is_first, is_last, symbols, cursor)
            return []
        chosen.append(max(candidates, key=lambda candidate: candidate.known_symbols(symbols)))
    constraints = []
    for position, alternative in enumerate(chosen):
        x = next(a.x for a in reversed(chosen[: position + 1]) if a.x is not None)
        y = next(a.y for a in chosen[position:] if a.y is not None)
        span = _span(segments[position])
        constraints.append(
            ConstraintSpec(x.text, y.text, alternative.relation, span, x.span, y.span)
        )
    return constraints


def _report_unreadable(
    words: list[Word], is_first: bool, is_last: bool, symbols: Sequence[str], cursor: Cursor
) -> None:
    """Report what is wrong with an alternative that has no relation where one should stand."""
    if len(words) > 1 and all(word.text in symbols for word in words):
        first, second = words[0].text, words[1].text
        message = f"a relation is missing between {first} and {second}"
        cursor.report(_span(words), message, f"write for example: {first} meets {second}")
        return
    whole = _whole_constraint(words, symbols)
    if whole:
        more = words[whole:]
        message = f"{more[0].text} does not belong after a whole constraint"
        hint = "constraints join with AND, alternatives with ;"
        cursor.report(_span(more), message, hint)
        return
    start = 1 if is_first or (len(words) > 1 and words[0].text in symbols) else 0
    stop = len(words)
    if len(words) - start > 1 and (is_last or words[-1].text in symbols):
        stop -= 1
    middle = words[start:stop]
    if middle and is_last and stop == len(words) and _relation(middle[-1:]) is not None:
        cursor.report(cursor.end, "a symbol is missing after the relation")
    elif not middle:
        cursor.report(_span(words), "this is not a constraint", "write: a meets b")
    elif _relation(middle) is not None:
        cursor.report(_span(words), "this constraint lacks a symbol", "write: a meets b")
    else:
        _report_unknown_relation(middle, cursor)


def _report_unknown_relation(words: list[Word], cursor: Cursor) -> None:
    text = " ".join(word.text for word in words)
    spelt = text.lower().replace("_", "-").replace(" ", "-")
    if spelt in _FOREIGN_WORDS:
        hint = f"did you mean {_FOREIGN_WORDS[spelt]}?"
    else:
        hint = (
            did_you_mean(spelt, [*ALL_NAMES, *SETS]) or f"the relations are {', '.join(ALL_NAMES)}"
        )
    cursor.report(_span(words), f"there is no relation {text}", hint)


def _whole_constraint(words: list[Word], symbols: Sequence[str]) -> int:
    """How many of the first words are a constraint, if more follow; else 0."""
    for length in (3, 4):
        head = words[:length]
        ends = head[0].text in symbols and head[-1].text in symbols
        if ends and _relation(head[1:-1]) is not None and length < len(words):
            return length
    return 0
