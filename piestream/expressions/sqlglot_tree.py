"""What reading needs of sqlglot's trees: places in the text, runs of operands, arguments."""

from __future__ import annotations

from typing import Any

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.expressions.limits import MOST_LEVELS
from piestream.expressions.syntax import Literal, Node

__all__ = ["TreeReading", "cover", "is_too_deep"]

#: Arguments that sqlglot sets by itself and that change nothing here.
_HARMLESS = {"safe", "coalesce", "ignore_nulls", "big_int", "_type"}


class TreeReading:
    """A walk over one tree of sqlglot; diagnostics are collected."""

    def __init__(self, places: list[int], whole: Span) -> None:
        self.places = places
        self.whole = whole
        self.diagnostics: list[Diagnostic] = []
        self._covered: dict[int, tuple[Any, Span | None]] = {}  # the trees are kept, so are ids

    def span(self, tree: Any) -> Span:
        """What a subtree covers: sqlglot knows the places of its names and literals."""
        covered = self._covered
        for part in reversed(list(tree.walk(prune=lambda part: id(part) in covered))):
            if id(part) not in covered:
                below = (covered[id(child)][1] for child in part.iter_expressions())
                found = self._own_place(part)
                for here in below:
                    if here is not None:
                        found = here if found is None else found.joined(here)
                covered[id(part)] = part, found
        return covered[id(tree)][1] or self.whole

    def _own_place(self, part: Any) -> Span | None:
        start, end = part.meta.get("start"), part.meta.get("end")
        if start is None or end is None:
            return None
        return Span(self.places[start], self.places[end] + 1)

    def fault(self, tree: Any, message: str, hint: str | None = None) -> Literal:
        """Report what is wrong at a subtree; the result takes its place."""
        self.diagnostics.append(Diagnostic(self.span(tree), message, hint))
        return Literal(None)

    def only(self, tree: Any, *allowed: str) -> bool:
        """Whether sqlglot read nothing more than we do; anything else would change the meaning."""
        extra = [k for k, v in tree.args.items() if v and k not in allowed and k not in _HARMLESS]
        if extra:
            self.fault(tree, f"{extra[0].upper()} is not allowed in a predicate")
        return not extra

    def chain(self, tree: Any) -> list[Any]:
        """The operands of a run of ANDs or ORs, without recursion: runs may be long."""
        kind, operands, pending = type(tree), [], [tree]
        while pending:
            part = pending.pop()
            while type(part).__name__ == "Paren" and type(part.this) is kind:
                part = part.this
            if type(part) is kind:
                pending += [part.expression, part.this]
            else:
                operands.append(part)
        return operands

    def arguments(
        self, tree: Any, names: tuple[str, ...], function: str, arity: tuple[int, int | None]
    ) -> list[Any] | None:
        """The arguments of a function in the order in which they are written; None if wrong."""
        found: list[Any] = []
        if type(tree).__name__ == "Anonymous":
            found = list(tree.expressions)
        elif not self.only(tree, *names):
            return None
        else:
            for name in names:
                value = tree.args.get(name)
                if value is not None:
                    found += value if isinstance(value, list) else [value]
        least, most = arity
        if len(found) < least or (most is not None and len(found) > most):
            self.fault(tree, f"{function} does not take {len(found)} arguments")
            return None
        return found


def is_too_deep(tree: Any) -> bool:
    """Whether operations stand inside each other too often; brackets have a limit of their own."""
    pending = [(tree, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > MOST_LEVELS:
            return True
        kind = type(part).__name__
        for child in part.iter_expressions():
            goes_on = kind == "Paren" or (kind in ("And", "Or") and type(child) is type(part))
            pending.append((child, depth if goes_on else depth + 1))
    return False


def cover(nodes: tuple[Node, ...]) -> Span:
    """From the first of some nodes to the last."""
    span = nodes[0].span
    for node in nodes[1:]:
        span = span.joined(node.span)
    return span
