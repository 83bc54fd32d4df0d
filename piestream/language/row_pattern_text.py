"""``PATTERN (A B+? | PERMUTE(C, D))``: a regular expression over the names of variables."""

from __future__ import annotations

from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor
from piestream.language.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    PatternNode,
    Permutation,
    Repetition,
    Variable,
)

__all__ = ["MOST_REPETITIONS", "read_row_pattern", "row_pattern_text"]

#: The largest number in ``{n,m}``.
MOST_REPETITIONS = 1000
#: Patterns may be nested so deep.
_MOST_DEPTH = 100
_ONES = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def read_row_pattern(cursor: Cursor) -> PatternNode | None:
    """The pattern in brackets that comes next; faults go to the cursor's list."""
    if not cursor.take_sign("("):
        cursor.report(cursor.peek(), "PATTERN stands in brackets", "write PATTERN (A B+)")
        return None
    before = len(cursor.diagnostics)
    node = _alternatives(cursor, 0)
    if len(cursor.diagnostics) == before and not cursor.take_sign(")"):
        odd = cursor.peek()
        cursor.report(odd, f"{odd.text or 'the end'} does not belong into a pattern")
    cursor.expect_end("PATTERN") if len(cursor.diagnostics) == before else None
    return node if len(cursor.diagnostics) == before else None


def _alternatives(cursor: Cursor, depth: int) -> PatternNode:
    if depth > _MOST_DEPTH:
        cursor.report(cursor.peek(), "the pattern is nested too deeply")
        cursor.position = len(cursor.tokens)
        return Concatenation(())
    parts = [_sequence(cursor, depth)]
    while cursor.take_sign("|"):
        parts.append(_sequence(cursor, depth))
    return parts[0] if len(parts) == 1 else Alternation(tuple(parts))


def _sequence(cursor: Cursor, depth: int) -> PatternNode:
    parts: list[PatternNode] = []
    while not cursor.at_end and not cursor.peek().is_sign(")", "|"):
        if _ends_exclusion(cursor) or cursor.peek().is_sign(","):
            break
        before = cursor.position
        part = _factor(cursor, depth)
        if part is None or cursor.position == before:
            cursor.position = len(cursor.tokens)
            break
        parts.append(part)
    return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))


def _ends_exclusion(cursor: Cursor) -> bool:
    return cursor.peek().is_sign("-") and cursor.peek(1).is_sign("}")


def _factor(cursor: Cursor, depth: int) -> PatternNode | None:
    part = _primary(cursor, depth)
    if part is None:
        return None
    first = cursor.peek()
    bounds = _bounds(cursor)
    if bounds is None:
        return part
    least, most = bounds
    if isinstance(part, Anchor):
        cursor.report(first, "^ and $ cannot be repeated")
        return None
    if most is not None and (most < least or most == 0):
        cursor.report(first, f"nothing can be repeated from {least} to {most} times")
        return None
    if max(least, most or 0) > MOST_REPETITIONS:
        cursor.report(first, f"a part can be repeated {MOST_REPETITIONS} times at most by number")
        return None
    is_greedy = not cursor.take_sign("?")
    again = cursor.peek()
    if again.is_sign("*", "+", "?") or (again.is_sign("{") and not cursor.peek(1).is_sign("-")):
        cursor.report(again, "a part has one quantifier", "put brackets around it")
        return None
    return Repetition(part, least, most, is_greedy)


def _bounds(cursor: Cursor) -> tuple[int, int | None] | None:
    """The numbers of a quantifier, if one comes next."""
    for sign, numbers in _ONES.items():
        if cursor.take_sign(sign):
            return numbers
    if not cursor.peek().is_sign("{") or cursor.peek(1).is_sign("-"):
        return None
    opened = cursor.take()
    least = _number(cursor)
    if not cursor.take_sign(","):
        exact = least
        if exact is None:
            cursor.report(cursor.peek(), "a number is missing in {}", "write {2}, {2,} or {2,5}")
            return None
        most: int | None = exact
    else:
        most = _number(cursor)
        exact = least or 0
    if not cursor.take_sign("}"):
        cursor.report(opened, "this { is never closed with }", "write {2}, {2,} or {2,5}")
        return None
    return exact, most


def _number(cursor: Cursor) -> int | None:
    token = cursor.peek()
    if token.kind is Kind.PARAMETER and type(token.value) is int and token.value >= 0:
        cursor.take()
        return token.value
    if token.kind is not Kind.NUMBER or not token.text.isdigit():
        return None
    cursor.take()
    return int(token.text)


def _primary(cursor: Cursor, depth: int) -> PatternNode | None:
    token = cursor.peek()
    if cursor.take_sign("("):
        inside = _alternatives(cursor, depth + 1)
        return inside if _closed(cursor, token, ")") else None
    if token.is_sign("{") and cursor.peek(1).is_sign("-"):
        cursor.position += 2
        inside = _alternatives(cursor, depth + 1)
        if not cursor.take_sign("-") or not cursor.take_sign("}"):
            cursor.report(token, "this {- is never closed with -}")
            return None
        return Exclusion(inside)
    if cursor.take_sign("^"):
        return Anchor(at_start=True)
    if cursor.take_sign("$"):
        return Anchor(at_start=False)
    if token.upper == "PERMUTE" and cursor.peek(1).is_sign("("):
        return _permutation(cursor, depth)
    name = cursor.take_name("a variable")
    return None if name is None else Variable(name.text)


def _permutation(cursor: Cursor, depth: int) -> PatternNode | None:
    word, opened = cursor.take(), cursor.take()
    parts = [_alternatives(cursor, depth + 1)]
    while cursor.take_sign(","):
        parts.append(_alternatives(cursor, depth + 1))
    if not _closed(cursor, opened, ")"):
        return None
    if len(parts) > 6:
        cursor.report(word, f"PERMUTE takes 6 parts at most, and these are {len(parts)}")
        return None
    return Permutation(tuple(parts))


def _closed(cursor: Cursor, opened: Token, sign: str) -> bool:
    if cursor.take_sign(sign):
        return True
    if not cursor.diagnostics or cursor.diagnostics[-1].span != opened.span:
        cursor.report(opened, f"this bracket is never closed with {sign}")
    return False


def row_pattern_text(node: PatternNode) -> str:
    """The canonical text of a pattern, without the brackets around it.

    >>> row_pattern_text(Repetition(Concatenation((Variable("A"), Variable("B"))), 1, None, False))
    '(A B)+?'
    """
    from piestream.language.printer import name as plain

    match node:
        case Variable(variable):
            return plain(variable)
        case Concatenation(parts):
            return " ".join(_grouped(part, Alternation) for part in parts) or "()"
        case Alternation(parts):
            return " | ".join(_grouped(part, Alternation) for part in parts)
        case Permutation(parts):
            return f"PERMUTE({', '.join(map(row_pattern_text, parts))})"
        case Exclusion(part):
            return "{- " + row_pattern_text(part) + " -}"
        case Anchor(at_start):
            return "^" if at_start else "$"
        case Repetition(part, least, most, is_greedy):
            inside = _grouped(part, Alternation, Concatenation, Repetition)
            return inside + _quantifier(least, most) + ("" if is_greedy else "?")


def _grouped(part: PatternNode, *kinds: type) -> str:
    text = row_pattern_text(part)
    loose = isinstance(part, kinds) or (isinstance(part, Concatenation) and len(part.parts) > 1)
    if isinstance(part, Concatenation) and not part.parts:
        return text
    return f"({text})" if loose else text


def _quantifier(least: int, most: int | None) -> str:
    for sign, numbers in _ONES.items():
        if (least, most) == numbers:
            return sign
    if most is None:
        return f"{{{least},}}"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"
