"""The items of RETURN and WHERE: what a match gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.tokens import Token
from piestream.language.aggregates import AGGREGATES, AggregateFunction
from piestream.language.cursor import Cursor
from piestream.language.draft import QueryDraft
from piestream.language.lets import let_hint
from piestream.language.parts import Aggregate, DurationOf, Endpoint, MatchItem, RelationOf, Value
from piestream.language.printer import alias_of, item_text

__all__ = ["FUNCTIONS", "Names", "bare_name_fault", "names_of", "read_item"]

FUNCTIONS = (*AGGREGATES, "DURATION", "RELATION")

#: Aggregates that are none of these, though their names are near.
_NOT_HERE = frozenset({"MEDIAN", "MODE"})

#: Other words for the ends of an interval.
_ENDS = {"start": "ts", "begin": "ts", "beginning": "ts", "end": "te", "stop": "te", "finish": "te"}
#: Other words for how long an interval is.
_LENGTHS = frozenset({"duration", "length"})
_OTHER_SPELLINGS = {
    spelling: function.name
    for function in AGGREGATES.values()
    for spelling in function.other_spellings
}


@dataclass(frozen=True, slots=True)
class Names:
    """What names can stand for in RETURN and WHERE: an error says which of these a name is."""

    symbols: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    order_by: str | None = None
    ready_made: Sequence[str] = ()  # symbols whose intervals are rows of their own
    clause: str = "RETURN"
    returned: Mapping[str, str] = field(default_factory=dict)  # in WHERE: what columns are of
    lets: Collection[str] = ()  # the names that LET gives

    @property
    def example(self) -> str:
        """A symbol to show how something is written."""
        return self.symbols[0] if self.symbols else "a"


def names_of(draft: QueryDraft) -> Names:
    """What names stand for in a query, as far as it has been read."""
    symbols = [spec.name for spec in draft.symbols]
    endpoints = [Endpoint(name, end, f"{name}_{end}") for name in symbols for end in ("ts", "te")]
    returned = [item for item, _ in draft.returns] or endpoints
    return Names(
        symbols=symbols,
        partition_by=draft.partition_by,
        order_by=draft.streams[0].order_by,
        ready_made=draft.ready_made,
        returned={item.alias: item_text(item) for item in returned},
        lets=draft.lets,
    )


def read_item(
    item: Cursor, column_spans: dict[tuple[str, ...], Span], names: Names
) -> MatchItem | None:
    """One item; what is wrong with it goes to the cursor's list."""
    first = item.peek()
    if first.is_sign("*"):
        item.report(first, "RETURN takes no *", "leave RETURN out to get every ts and te")
        return None
    if item.peek(1).is_sign("("):
        return _call(item, column_spans, names)
    symbol = item.take_name("a symbol")
    if symbol is None:
        return None
    if not item.take_sign("."):
        item.report(symbol, *bare_name_fault(symbol.text, names))
        return None
    which = item.take_name("ts or te")
    if which is None:
        return None
    end = which.text.lower()
    if end not in ("ts", "te") and symbol.text in names.ready_made:
        alias = _alias(item, f"{symbol.text}_{which.text}")
        if alias is None:
            return None
        column_spans.setdefault(("column", alias), symbol.span.joined(which.span))
        return Value(symbol.text, which.text, alias)
    if end not in ("ts", "te"):
        operand = f"{symbol.text}.{which.text}"
        meant = f"{symbol.text}.{_ENDS[end]}" if end in _ENDS else None
        if end in _LENGTHS:
            meant = f"DURATION({symbol.text})"
        of_interval = f"the {end} of the interval is {meant}; of a column " if meant else ""
        item.report(
            symbol.span.joined(which.span),
            f"an interval has many values of {which.text}: one must be chosen",
            f"{of_interval}write FIRST({operand}), LAST({operand}), AVG({operand}) or another of "
            + ", ".join(AGGREGATES),
        )
        return None
    alias = _alias(item, f"{symbol.text}_{end}")
    return None if alias is None else Endpoint(symbol.text, end, alias)


def bare_name_fault(name: str, names: Names) -> tuple[str, str]:
    """What is wrong with a name that stands alone, and what to write."""
    one = names.example
    if name in names.symbols:
        return (
            f"{name} is an interval, not a value",
            f"write {name}.ts, {name}.te, DURATION({name}), or an aggregate such as "
            f"AVG({name}.column)",
        )
    if name in names.returned:
        return (
            f"{name} is the name of a column of RETURN",
            f"write what it is of: {names.returned[name]}",
        )
    if name in names.partition_by and names.clause == "WHERE":
        return (
            f"{name} is a column of PARTITION BY, not a value of a match",
            f"write FIRST({one}.{name})",
        )
    if name in names.partition_by:
        return (
            f"{name} is a column of PARTITION BY, which every row has already",
            f"leave it out, or write FIRST({one}.{name}) AS another_name",
        )
    if name == names.order_by:
        return (
            f"{name} is the time column, and a match has many times",
            f"write {one}.ts or {one}.te; every row has the time of its report",
        )
    if name in names.lets:
        return (f"{name} is a name of LET, which predicates alone use", let_hint(name, one))
    near = did_you_mean(name, names.symbols)
    if near is None and names.clause == "WHERE":
        near = (
            f"a column is read through a symbol, as FIRST({one}.{name}) or AVG({one}.{name}); a "
            f"condition on events is a part of a predicate: {one} AS speed > 70 AND {name} > 2"
        )
    return (
        f"there is no symbol {name}",
        near
        or f"a column is returned through a symbol, as FIRST({one}.{name}) or "
        f"AVG({one}.{name}); the symbols are {', '.join(names.symbols)}",
    )


def _call(
    item: Cursor, column_spans: dict[tuple[str, ...], Span], names: Names
) -> MatchItem | None:
    function = item.take()
    name = function.upper
    if name not in FUNCTIONS:
        meant = _OTHER_SPELLINGS.get(name)
        near = f"did you mean {meant}?" if meant else did_you_mean(name, FUNCTIONS)
        known = None if name in _NOT_HERE else near
        hint = known or f"the functions are {', '.join(FUNCTIONS)}"
        item.report(function, f"{names.clause} has no function {function.text}", hint)
        return None
    item.take_sign("(")
    if item.peek().is_sign("*"):
        item.report(item.peek(), f"{name} takes no *", f"write COUNT({names.example}), its events")
        return None
    symbol = item.take_name("a symbol")
    if symbol is None:
        return None
    if name == "RELATION":
        return _relation(item, symbol.text)
    if name == "DURATION":
        return _duration(item, symbol.text)
    return _aggregate(item, AGGREGATES[name], symbol, column_spans, names)


def _relation(item: Cursor, x: str) -> RelationOf | None:
    """RELATION behind its first symbol."""
    if not item.take_sign(","):
        item.report(item.peek(), "RELATION takes two symbols", "write RELATION(a, b)")
        return None
    y = item.take_name("a symbol")
    if y is None:
        return None
    alias = _closed(item, alias_of("RELATION", x, y.text))
    return None if alias is None else RelationOf(x, y.text, alias)


def _duration(item: Cursor, symbol: str) -> DurationOf | None:
    """DURATION behind its symbol."""
    if item.take_sign("."):
        column = item.take_name("a column")
        if column is not None:
            item.report(column, "DURATION takes a symbol", f"write DURATION({symbol})")
        return None
    alias = _closed(item, alias_of("DURATION", symbol))
    return None if alias is None else DurationOf(symbol, alias)


def _aggregate(
    item: Cursor,
    function: AggregateFunction,
    symbol: Token,
    column_spans: dict[tuple[str, ...], Span],
    names: Names,
) -> Aggregate | None:
    """An aggregate behind its symbol."""
    column: Token | None = None
    if item.take_sign("."):
        column = item.take_name("a column")
        if column is None:
            return None
    elif item.peek().is_sign("("):
        item.report(symbol, *_of_expression(function.name))
        return None
    elif function.needs_column:
        item.report(symbol, *_without_column(function.name, symbol.text, names))
        return None
    operand = column.text if column else None
    if item.peek().is_sign("+", "-", "*", "/", "%", "||"):
        item.report(item.peek(), *_of_expression(function.name))
        return None
    alias = _closed(item, alias_of(function.name, symbol.text, operand))
    if alias is None:
        return None
    if column is not None:
        column_spans.setdefault(("column", alias), symbol.span.joined(column.span))
    return Aggregate(function.name, symbol.text, operand, alias)


def _of_expression(function: str) -> tuple[str, str]:
    """What is wrong with an aggregate of more than a column, and what to write."""
    message = f"{function} takes one column, and no calculation with it"
    return (
        message,
        "make a column of it first, or calculate with what is aggregated: AVG(a.x) * 2 AS y",
    )


def _without_column(function: str, operand: str, names: Names) -> tuple[str, str]:
    """What is wrong with an aggregate of one name, and what to write."""
    if operand in names.symbols:
        message = f"{function} needs a column of {operand}'s events"
        return message, f"write for example {function}({operand}.speed)"
    message = f"{function}({operand}) needs a symbol, over whose events it is taken"
    return message, f"write {function}({names.example}.{operand})"


def _closed(item: Cursor, default: str) -> str | None:
    """The closing bracket, and the name of the item."""
    if item.take_sign(")"):
        return _alias(item, default)
    item.report(item.peek(), ") is missing here")
    return None


def _alias(item: Cursor, default: str) -> str | None:
    alias: str | None = default
    if item.take_word("AS"):
        token = item.take_name("the name of a column")
        alias = None if token is None else token.text
    if alias is not None:
        item.expect_end("this")
    return alias
