"""RETURN: what a match puts into its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.tokens import Token
from piestream.language.cursor import Reader
from piestream.language.model import Aggregate, DurationOf, Endpoint, RelationOf, Return
from piestream.language.printer import alias_of

__all__ = ["AGGREGATES", "Names", "read_returns"]

AGGREGATES = ("FIRST", "LAST", "MIN", "MAX", "SUM", "AVG", "COUNT", "STDDEV")
FUNCTIONS = (*AGGREGATES, "DURATION", "RELATION")

_OTHER_SPELLINGS = {"MEAN": "AVG", "STD": "STDDEV", "STDDEV_SAMP": "STDDEV"}


@dataclass(frozen=True, slots=True)
class Names:
    """What names can stand for in RETURN: an error says which of these a name is."""

    symbols: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    order_by: str | None = None

    @property
    def example(self) -> str:
        """A symbol to show how something is written."""
        return self.symbols[0] if self.symbols else "a"


def read_returns(
    reader: Reader, column_spans: dict[tuple[str, ...], Span], names: Names
) -> list[tuple[Return, Span | None]]:
    """The items of a RETURN clause with their places; faults go to the reader's list."""
    if reader.at_end:
        reader.fault(reader.peek(), "RETURN is empty", "leave it out, or write RETURN a.ts, a.te")
        return []
    found: list[tuple[Return, Span | None]] = []
    for item in reader.parts(","):
        if not item.tokens:
            reader.fault(item.end, "something to return is missing here")
            continue
        read = _item(item, column_spans, names)
        if read is not None:
            found.append((read, item.span()))
    return found


def _item(item: Reader, column_spans: dict[tuple[str, ...], Span], names: Names) -> Return | None:
    first = item.peek()
    if first.is_sign("*"):
        item.fault(first, "RETURN does not know *", "leave RETURN out to get every ts and te")
        return None
    if item.peek(1).is_sign("("):
        return _call(item, column_spans, names)
    symbol = item.name("a symbol")
    if symbol is None:
        return None
    if not item.sign("."):
        item.fault(symbol, *_bare(symbol.text, names))
        return None
    which = item.name("ts or te")
    if which is None:
        return None
    end = which.text.lower()
    if end not in ("ts", "te"):
        operand = f"{symbol.text}.{which.text}"
        item.fault(
            symbol.span.joined(which.span),
            f"an interval has many values of {which.text}: one must be chosen",
            f"write FIRST({operand}), LAST({operand}), AVG({operand}) or another of "
            + ", ".join(AGGREGATES),
        )
        return None
    alias = _alias(item, f"{symbol.text}_{end}")
    return None if alias is None else Endpoint(symbol.text, end, alias)


def _bare(name: str, names: Names) -> tuple[str, str]:
    """What is wrong with a name that stands alone, and what to write."""
    one = names.example
    if name in names.symbols:
        return (
            f"{name} is an interval: what of it?",
            f"write {name}.ts, {name}.te, DURATION({name}), or an aggregate such as "
            f"AVG({name}.column)",
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
    near = did_you_mean(name, names.symbols)
    return (
        f"there is no symbol {name}",
        near
        or f"a column is returned through a symbol, as FIRST({one}.{name}) or "
        f"AVG({one}.{name}); the symbols are {', '.join(names.symbols)}",
    )


def _call(item: Reader, column_spans: dict[tuple[str, ...], Span], names: Names) -> Return | None:
    function = item.take()
    name = function.upper
    if name not in FUNCTIONS:
        meant = _OTHER_SPELLINGS.get(name)
        near = f"did you mean {meant}?" if meant else did_you_mean(name, FUNCTIONS)
        hint = near or f"the functions are {', '.join(FUNCTIONS)}"
        item.fault(function, f"RETURN has no function {function.text}", hint)
        return None
    item.sign("(")
    symbol = item.name("a symbol")
    if symbol is None:
        return None
    column: Token | None = None
    other: Token | None = None
    if name == "RELATION":
        if not item.sign(","):
            item.fault(item.peek(), "RELATION takes two symbols", "write RELATION(a, b)")
            return None
        other = item.name("a symbol")
        if other is None:
            return None
    elif item.sign("."):
        column = item.name("a column")
        if column is None:
            return None
        if name == "DURATION":
            item.fault(column, "DURATION takes a symbol", f"write DURATION({symbol.text})")
            return None
    elif name not in ("DURATION", "COUNT"):
        if symbol.text in names.symbols:
            message = f"{name} needs a column of {symbol.text}'s events"
            hint = f"write for example {name}({symbol.text}.speed)"
        else:
            message = f"{name}({symbol.text}) does not say over the events of which symbol"
            hint = f"write {name}({names.example}.{symbol.text})"
        item.fault(symbol, message, hint)
        return None
    if not item.sign(")"):
        item.fault(item.peek(), ") is missing here")
        return None
    operand = column or other
    default = alias_of(name, symbol.text, operand.text if operand else None)
    alias = _alias(item, default)
    if alias is None:
        return None
    if column is not None:
        column_spans.setdefault(("column", alias), symbol.span.joined(column.span))
    if name == "DURATION":
        return DurationOf(symbol.text, alias)
    if other is not None:
        return RelationOf(symbol.text, other.text, alias)
    return Aggregate(name, symbol.text, column.text if column else None, alias)


def _alias(item: Reader, default: str) -> str | None:
    alias: str | None = default
    if item.word("AS"):
        token = item.name("the name of a column")
        alias = None if token is None else token.text
    if alias is not None:
        more = item.peek()
        if more.is_sign("+", "-", "*", "/", "%"):
            item.fault(
                more, "RETURN does not calculate", "calculate with the columns of the result"
            )
            return None
        item.nothing_more("this")
    return alias
