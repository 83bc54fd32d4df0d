"""MEASURES: expressions over what a match of a row pattern gives.

Each navigation, aggregate and function of the match is an item; the expression around them is one of
the language of predicates, which reads items as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.durations import Duration
from piestream.expressions.keywords import is_name
from piestream.expressions.parameters import values_of
from piestream.expressions.tokens import Kind, Token
from piestream.expressions.values import ValueExpression
from piestream.language.aggregates import AGGREGATES
from piestream.language.cursor import Cursor
from piestream.language.lengths import begins_length, take_length
from piestream.language.parts import Where
from piestream.language.printer import name as written
from piestream.language.row_expressions import read_row_expression
from piestream.language.row_patterns import Measure, RowItem

__all__ = [
    "ROW_AGGREGATES",
    "FoundItems",
    "RowNames",
    "is_over",
    "item_text",
    "read_items",
    "read_measures",
]

#: The aggregates over the rows of a match.
ROW_AGGREGATES = tuple(name for name in AGGREGATES if name not in ("FIRST", "LAST"))
_NAVIGATIONS = ("FIRST", "LAST", "PREV", "NEXT")
_OF_MATCH = ("CLASSIFIER", "MATCH_NUMBER")
#: The largest offset of a navigation.
_MOST_OFFSET = 1 << 20


@dataclass(frozen=True, slots=True)
class RowNames:
    """The names that measures may qualify columns by, and whether they are final by default."""

    variables: tuple[str, ...]  # and subsets
    all_rows: bool
    row_prefixes: tuple[str, ...] = ()  # names of the stream, which say nothing
    in_condition: bool = False  # of DEFINE, which knows of no row behind its own


def read_measures(
    cursor: Cursor, text: str, names: RowNames, spans: dict[Where, Span]
) -> tuple[Measure, ...]:
    """The measures of a MEASURES clause; faults go to the cursor's list."""
    found: dict[str, Measure] = {}
    for part in cursor.split(","):
        measure = _read_measure(part, text, names, spans)
        if measure is None:
            continue
        if measure.alias in found:
            part.report(part.span(), f"there are two measures {measure.alias}")
        found[measure.alias] = measure
    return tuple(found.values())


def _read_measure(
    part: Cursor, text: str, names: RowNames, spans: dict[Where, Span]
) -> Measure | None:
    tokens = part.tokens
    if not tokens:
        part.report(part.peek(), "a measure is missing", "write MEASURES LAST(A.x) AS x")
        return None
    if len(tokens) < 3 or tokens[-2].upper != "AS":
        part.report(part.span(), "a measure needs a name", "write LAST(A.price) AS last_price")
        return None
    alias = Cursor([tokens[-1]], part.end.span, part.diagnostics).take_name("the name of a measure")
    inner = Cursor(tokens[:-2], tokens[-2].span, part.diagnostics)
    before = len(part.diagnostics)
    items = read_items(inner, names, text)
    if alias is None or len(part.diagnostics) > before:
        return None
    whole = inner.span()
    leaves = items.leaves_from(whole.start)
    expression, faults = ValueExpression.read(
        text[whole.start : whole.end],
        text,
        whole.start,
        leaves,
        values_of(inner.tokens),
        "MEASURES",
    )
    part.diagnostics.extend(Diagnostic(f.span or whole, f.message, f.hint) for f in faults)
    if expression is None:
        return None
    for item, span in items.places:
        spans.setdefault(("column", item_text(item)), span)
    spans[("return", alias.text)] = part.span()
    used = {name: items.items[name] for name in expression.names}
    return Measure(alias.text, expression, tuple(used.items()))


@dataclass(slots=True)
class FoundItems:
    """The items of one expression: by their texts, and where each stands."""

    items: dict[str, RowItem] = field(default_factory=dict)
    leaves: list[Token] = field(default_factory=list)
    places: list[tuple[RowItem, Span]] = field(default_factory=list)
    lengths: dict[str, Duration] = field(default_factory=dict)
    others: list[Token] = field(default_factory=list)  # tokens that are of no item or length

    def leaves_from(self, start: int) -> list[Token]:
        """The items as tokens of a text that begins at ``start``."""
        return [
            replace(t, span=Span(t.span.start - start, t.span.end - start)) for t in self.leaves
        ]


def read_items(cursor: Cursor, names: RowNames, text: str) -> FoundItems:
    """The items of an expression of the ``text``; faults go to the cursor's list."""
    reader = _Items(cursor, names, text)
    reader.read_all()
    return reader.found


@dataclass(slots=True)
class _Items:
    """The items of one expression, as they come up."""

    cursor: Cursor
    names: RowNames
    text: str
    found: FoundItems = field(default_factory=FoundItems)

    def read_all(self) -> None:
        cursor = self.cursor
        while not cursor.at_end:
            first = cursor.position
            if begins_length(cursor) and self._length():
                continue
            item = self._next() if cursor.position == first else None
            if item is None:
                if cursor.position == first:
                    cursor.take()
                self.found.others += cursor.tokens[first : cursor.position]
                continue
            span = cursor.tokens[first].span.joined(cursor.tokens[cursor.position - 1].span)
            text = item_text(item)
            self.found.items[text] = item
            self.found.places.append((item, span))
            self.found.leaves.append(Token(Kind.WORD, text, span))

    def _length(self) -> bool:
        """Read a length of time; whether it is one."""
        if not self.names.in_condition:
            return self._refuse_length()
        found = take_length(self.cursor, "DEFINE")
        if found is None:
            return False
        length, span = found
        self.found.lengths[str(length)] = length
        self.found.leaves.append(Token(Kind.WORD, str(length), span))
        return True

    def _refuse_length(self) -> bool:
        """Say that a measure has no lengths of time, where one with a unit is written."""
        first = self.cursor.peek()
        length = Cursor(self.cursor.tokens[self.cursor.position :], self.cursor.end.span, [])
        if take_length(length, "MEASURES") is None:
            return False
        self.cursor.position += length.position
        hint = "give the difference of the times, and compare the column of the result"
        self.cursor.report(first, "a measure has no lengths of time", hint)
        return True

    def _next(self) -> RowItem | None:
        """The item that comes next, if one does."""
        cursor = self.cursor
        token, after = cursor.peek(), cursor.peek(1)
        if self.names.in_condition and self._is_window(token, after):
            return None
        if token.upper in ("RUNNING", "FINAL") and after.kind is Kind.WORD:
            cursor.take()
            is_final = self._is_final(token)
            if cursor.peek().upper not in (*_NAVIGATIONS[:2], *ROW_AGGREGATES, "CLASSIFIER"):
                cursor.report(token, f"{token.upper} stands before FIRST, LAST or an aggregate")
                return None
            return self._call(is_final)
        if token.kind is Kind.WORD and after.is_sign("("):
            known = (*_NAVIGATIONS, *ROW_AGGREGATES, *_OF_MATCH)
            return self._call(False) if token.upper in known else None
        if token.kind is Kind.QUOTED or (
            token.kind is Kind.WORD and is_name([*cursor.tokens, cursor.end], cursor.position)
        ):
            return self._column(False)
        return None

    def _is_window(self, token: Token, after: Token) -> bool:
        """Whether an aggregate OVER so many events begins here; its operand is read by itself."""
        cursor = self.cursor
        if token.upper in ROW_AGGREGATES and after.is_sign("("):
            return is_over(cursor.tokens[cursor.position + 1 :])
        if token.upper == "OVER" and cursor.peek(-1).is_sign(")"):
            cursor.position += 3  # and the length: a number and its unit
            return True
        return False

    def _is_final(self, token: Token) -> bool:
        """Whether RUNNING or FINAL is the latter, and says something."""
        if token.upper == "FINAL" and self.names.in_condition:
            message = "a condition of DEFINE is RUNNING: the rows behind its own are not known yet"
            self.cursor.report(token, message, "leave FINAL out")
        return token.upper == "FINAL" and self.names.all_rows

    def _column(self, is_final: bool) -> RowItem | None:
        """``A.price`` or ``price``: the value at the last row so far."""
        operand = self._operand()
        return None if operand is None else RowItem("LAST", *operand, is_final=is_final)

    def _operand(self) -> tuple[str | None, str] | None:
        cursor = self.cursor
        name = cursor.take_name("a column")
        if name is None:
            return None
        if not cursor.take_sign("."):
            return None, name.text
        if name.text in self.names.row_prefixes and name.text not in self.names.variables:
            column = cursor.take_name("a column")
            return None if column is None else (None, column.text)
        if name.text not in self.names.variables:
            hint = did_you_mean(name.text, self.names.variables)
            cursor.report(name, f"{name.text} is not a variable of the pattern", hint)
            return None
        column = cursor.take_name("a column")
        return None if column is None else (name.text, column.text)

    def _call(self, is_final: bool) -> RowItem | None:
        cursor = self.cursor
        word, opened = cursor.take(), cursor.take()
        function = word.upper
        item: RowItem | None
        if function in _OF_MATCH:
            kind = "LAST" if function == "CLASSIFIER" else "MATCH_NUMBER"
            variable = self._classified() if function == "CLASSIFIER" else None
            item = RowItem(kind, variable, is_final=is_final)
        elif function in ROW_AGGREGATES:
            item = self._aggregate(function, is_final)
        elif function in ("FIRST", "LAST"):
            item = self._navigation(function, is_final)
        else:
            item = self._shifted(function, is_final)
        if item is None:
            return None
        if not cursor.take_sign(")"):
            what = cursor.peek()
            cursor.report(what if what.text else opened, f"{function} is not closed here with )")
            return None
        return item

    def _classified(self) -> str | None:
        """The variable of ``CLASSIFIER(A)``, if there is one."""
        cursor = self.cursor
        token = cursor.peek()
        if token.is_sign(")"):
            return None
        cursor.take()
        if token.text not in self.names.variables:
            cursor.report(token, f"{token.text} is not a variable of the pattern")
        return token.text

    def _aggregate(self, function: str, is_final: bool) -> RowItem | None:
        cursor = self.cursor
        if cursor.take_sign("*"):
            if function != "COUNT":
                cursor.report(cursor.peek(-1), f"only COUNT takes *, not {function}")
                return None
            return RowItem("COUNT", is_final=is_final)
        if cursor.peek().upper == "DISTINCT":
            what = "a condition of DEFINE" if self.names.in_condition else "a measure"
            hint = "give ALL ROWS PER MATCH, and count the values of each match in the result"
            if self.names.in_condition:
                hint = "a condition of its own can say that a value differs: x <> PREV(x)"
            cursor.report(cursor.peek(), f"{what} does not take DISTINCT", hint)
            return None
        if cursor.peek(1).is_sign(".") and cursor.peek(2).is_sign("*"):
            name = cursor.take()
            cursor.position += 2
            if name.text not in self.names.variables:
                cursor.report(name, f"{name.text} is not a variable of the pattern")
                return None
            if function != "COUNT":
                cursor.report(name, f"only COUNT takes *, not {function}")
                return None
            return RowItem("COUNT", name.text, is_final=is_final)
        item = self._of_row(function)
        return None if item is None else replace(item, is_final=is_final)

    def _of_row(self, function: str) -> RowItem | None:
        """The operand of a function: a column, or an expression of one row, as an item."""
        cursor = self.cursor
        written = _operand_tokens(cursor)
        if len(written) in (0, 1, 3) and not (len(written) == 3 and not written[1].is_sign(".")):
            operand = self._operand()
            return None if operand is None else RowItem(function, *operand)
        cursor.position += len(written)
        found = read_row_expression(
            Cursor(written, written[-1].span, cursor.diagnostics), self.text, self.names.variables,
            self.names.row_prefixes, function,
        )  # fmt: skip
        if found is None:
            return None
        variable, expression = found
        if expression.only_name is not None:  # in brackets
            return RowItem(function, variable, expression.only_name)
        return RowItem(function, variable, str(expression), expression=expression)

    def _navigation(self, function: str, is_final: bool) -> RowItem | None:
        cursor = self.cursor
        if cursor.peek().upper == "CLASSIFIER" and cursor.peek(1).is_sign("("):
            cursor.position += 2
            variable = self._classified()
            if not cursor.take_sign(")"):
                cursor.report(cursor.peek(), "CLASSIFIER is not closed here with )")
                return None
            item: RowItem | None = RowItem(function, variable)
        else:
            item = self._of_row(function)
        if item is None:
            return None
        offset = self._offset(function, 0)
        if offset is None:
            return None
        return replace(item, is_final=is_final, offset=offset)

    def _shifted(self, function: str, is_final: bool) -> RowItem | None:
        """``PREV(LAST(A.x), 2)`` or ``NEXT(A.x)``."""
        cursor = self.cursor
        inner: RowItem | None
        if cursor.peek().upper in ("RUNNING", "FINAL") and cursor.peek(1).upper in _NAVIGATIONS[:2]:
            is_final = self._is_final(cursor.take())
        first = cursor.peek()
        if first.upper in ("FIRST", "LAST") and cursor.peek(1).is_sign("("):
            inner = self._call(is_final)
        elif first.upper == "CLASSIFIER" and cursor.peek(1).is_sign("("):
            inner = RowItem("LAST")
        else:
            inner = self._of_row("LAST")
        if inner is None:
            return None
        if inner.column is None:
            cursor.report(first, f"{function} takes a column, not CLASSIFIER")
            return None
        count = self._offset(function, 1)
        if count is None:
            return None
        shift = -count if function == "PREV" else count
        return replace(inner, is_final=is_final or inner.is_final, shift=shift)

    def _offset(self, function: str, default: int) -> int | None:
        cursor = self.cursor
        if not cursor.take_sign(","):
            return default
        number = cursor.take()
        value = number.value if number.kind is Kind.PARAMETER else None
        text = str(value) if type(value) is int else number.text
        if not text.isdigit() or int(text) > _MOST_OFFSET:
            cursor.report(number, f"{function} takes a whole number behind the comma")
            return None
        return int(text)


def _operand_tokens(cursor: Cursor) -> list[Token]:
    """The tokens up to the comma or the bracket behind an operand."""
    depth = 0
    for count, token in enumerate(cursor.tokens[cursor.position :]):
        if depth == 0 and token.is_sign(")", ","):
            return cursor.tokens[cursor.position : cursor.position + count]
        depth += token.is_sign("(") - token.is_sign(")")
    return cursor.tokens[cursor.position :]


def is_over(tokens: Sequence[Token]) -> bool:
    """Whether OVER follows the bracket that closes the first one."""
    depth = 0
    for token, following in pairwise(tokens):
        depth += token.is_sign("(") - token.is_sign(")")
        if not depth:
            return following.upper == "OVER"
    return False


def item_text(item: RowItem) -> str:
    """The canonical text of an item.

    >>> item_text(RowItem("LAST", "A", "price", shift=-1))
    'PREV(LAST(A.price), 1)'
    """
    if item.function == "MATCH_NUMBER":
        return "MATCH_NUMBER()"
    operand = _operand_text(item)
    if item.function in ROW_AGGREGATES:
        text = f"{item.function}({operand})"
    else:
        offset = f", {item.offset}" if item.offset else ""
        text = f"{item.function}({operand}{offset})"
    if item.is_final:
        text = f"FINAL {text}"
    if item.shift:
        text = f"{'PREV' if item.shift < 0 else 'NEXT'}({text}, {abs(item.shift)})"
    return text


def _operand_text(item: RowItem) -> str:
    variable = None if item.variable is None else written(item.variable)
    if item.function == "COUNT" and item.column is None:
        return "*" if variable is None else f"{variable}.*"
    if item.column is None:
        return f"CLASSIFIER({variable or ''})"
    if item.expression is not None:
        return canonical_text(item.expression.tree, item.variable)
    return written(item.column) if variable is None else f"{variable}.{written(item.column)}"
