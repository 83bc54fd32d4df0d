"""LET: names for expressions, which predicates use as columns are used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, located
from piestream.expressions.parameters import values_of
from piestream.expressions.parse import read_value
from piestream.expressions.reading import Names
from piestream.expressions.syntax import Named, Node, children, columns_of
from piestream.expressions.tokens import Token
from piestream.language.cursor import Cursor
from piestream.language.draft import StreamDraft
from piestream.language.streams import stream_of_tokens

__all__ = ["Lets", "let_hint", "lets_of_texts", "names_in", "read_lets"]

_EXAMPLE = "write LET smooth = AVG(watts) OVER 30 s"


@dataclass(frozen=True, slots=True)
class Let:
    """A name, what it stands for, where the text of that begins, and the stream that it reads."""

    value: Node
    offset: int
    stream: int | None
    span: Span | None = None


@dataclass
class Lets:
    """The names that LET gave so far."""

    known: dict[str, Let] = field(default_factory=dict)
    #: Of expressions that could not be read: what uses them is not judged.
    broken: set[str] = field(default_factory=set)

    @property
    def values(self) -> dict[str, tuple[Node, int]]:
        """What the names stand for, as predicates take it."""
        return {name: (let.value, let.offset) for name, let in self.known.items()}

    def streams_in(self, tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
        """The streams that names among some tokens read."""
        for index, token in enumerate(tokens):
            let = self.known.get(token.text)
            is_column = index and tokens[index - 1].is_sign(".")
            if let is not None and let.stream is not None and not is_column:
                yield let.stream, token

    def mentions_broken(self, tokens: Sequence[Token]) -> bool:
        """Whether some tokens use a name whose expression could not be read."""
        return any(token.text in self.broken for token in tokens)


def read_lets(
    cursors: Sequence[Cursor], text: str, streams: Sequence[StreamDraft], symbols: tuple[str, ...]
) -> Lets:
    """The names of all LET clauses, in order; faults go to the cursors' list."""
    found = Lets()
    items = [item for cursor in cursors for item in cursor.split(",")]
    names = [item.tokens[0].text if item.tokens else "" for item in items]
    for number, item in enumerate(items):
        name = item.take_name("a name for an expression")
        if name is None:
            continue
        if not item.take_sign("="):
            item.report(item.peek(), f"= is missing after {name.text}", _EXAMPLE)
            found.broken.add(name.text)
            continue
        if name.text in names[:number]:
            item.report(name, f"{name.text} is named by LET twice", "give it another name")
            continue
        if name.text in symbols:
            item.report(
                name, f"{name.text} is the name of a symbol too", "name one of them otherwise"
            )
        let = _let(item, name, text, streams, found, tuple(names[number:]))
        if let is None:
            found.broken.add(name.text)
        else:
            found.known[name.text] = let
    return found


def _let(
    item: Cursor,
    name: Token,
    text: str,
    streams: Sequence[StreamDraft],
    known: Lets,
    later: tuple[str, ...],
) -> Let | None:
    written = item.tokens[item.position :]
    if not written:
        item.report(item.end, f"the expression of {name.text} is missing", _EXAMPLE)
        return None
    stream = stream_of_tokens(written, streams, item, known.streams_in(written))
    if stream is None or known.mentions_broken(written):
        return None
    start, end = written[0].span.start, written[-1].span.end
    qualifiers = tuple(name for stream in streams for name in stream.qualifiers)
    names = Names(qualifiers, (), known.values, later)
    node, diagnostics = read_value(text[start:end], names, values_of(written), start)
    item.diagnostics.extend(
        Diagnostic((d.span or Span(0, end - start)).moved(start), d.message, d.hint)
        for d in diagnostics
    )
    if node is None:
        return None
    reads = next(columns_of(node), None) is not None
    return Let(node, start, stream if reads else None, name.span)


def lets_of_texts(texts: Mapping[str, str], parameters: Mapping[str, Any] | None) -> Names:
    """The names of some texts, of which each may use those before it.

    >>> names = lets_of_texts({"d": "x - PREV(x)", "m": "AVG(d) OVER 5 EVENTS"}, None)
    >>> [name for name in names.lets]
    ['d', 'm']
    """
    values: dict[str, tuple[Node, int]] = {}
    listed = list(texts)
    for number, (name, text) in enumerate(texts.items()):
        if not isinstance(name, str) or not isinstance(text, str) or not name:
            raise QueryError(f"let maps names to texts, not {name!r} to {text!r}")
        names = Names(lets=dict(values), later=tuple(listed[number:]))
        node, diagnostics = read_value(text, names, parameters)
        if node is None:
            raise QueryError([located(d, text) for d in diagnostics], text)
        values[name] = node, 0
    return Names(lets=values)


def let_hint(name: str, symbol: str) -> str:
    """What to write where a name of LET stands for a column of a match.

    >>> let_hint("smooth", "hot")
    'RETURN and WHERE read columns: add smooth to the rows before, and write FIRST(hot.smooth)'
    """
    return f"RETURN and WHERE read columns: add {name} to the rows before, and write FIRST({symbol}.{name})"


def names_in(trees: Sequence[Node]) -> dict[str, list[Node]]:
    """The names in some trees, each behind those that it uses, and what each stands for."""
    found: dict[str, list[Node]] = {}
    seen: set[int] = set()

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in children(node):
            visit(child)
        if isinstance(node, Named):
            values = found.setdefault(node.name, [])
            if node.value not in values:
                values.append(node.value)

    for tree in trees:
        visit(tree)
    return found
