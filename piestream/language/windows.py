"""How long a match may take: ``WITHIN 1 h``, ``WITHIN 30 min OF low, 12 h OF fast``.

A window is from the start of an interval to the report of the match: that of all symbols counts from
the earliest start, which is the same as a window of each. An interval of a symbol without one is kept
after its end for as long as windows of others, with relations and distances, let it be in a match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import MOST_TICKS, Duration
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor
from piestream.language.emission import EMISSION_CLAUSES

__all__ = ["NO_WINDOW", "Window", "all_windows", "read_windows", "windows_text"]

#: Where there is no window of all symbols: more ticks than a window can have.
NO_WINDOW = Duration(MOST_TICKS, in_ticks=True)


@dataclass(frozen=True, slots=True)
class Window:
    """How long a match may take from the start of a symbol's interval to its report.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 9 OF b")
    >>> query.windows
    (Window(symbol='b', length=Duration(amount=9, in_ticks=True)),)
    """

    symbol: str
    length: Duration


def read_windows(
    cursor: Cursor, spans: dict[tuple[str, ...], Span]
) -> tuple[Duration | None, tuple[Window, ...]]:
    """The window of all symbols, if there is one, and those of some; notes where each stands."""
    of_all: Duration | None = None
    found: dict[str, Window] = {}
    while True:
        first = cursor.peek()
        length = cursor.take_duration("WITHIN")
        if length is None:
            return of_all, tuple(found.values())
        if cursor.take_word("OF"):
            for name in _names(cursor):
                if name.text in found:
                    cursor.report(name, f"{name.text} has two windows", "leave one of them out")
                spans["within", name.text] = name.span
                found.setdefault(name.text, Window(name.text, length))
        elif of_all is not None:
            hint = "write the symbols that it is of, as in WITHIN 1 h, 30 min OF low"
            cursor.report(first, "there are two windows of all symbols", hint)
        else:
            of_all = length
        if not cursor.take_sign(","):
            break
    cursor.expect_end("WITHIN", _hint(cursor.peek()))
    return of_all, tuple(found.values())


def _hint(left: Token) -> str | None:
    """What was probably meant by a word behind the windows."""
    if left.kind is not Kind.WORD:
        return None
    meant = [name for name in EMISSION_CLAUSES if name.split()[0] == left.upper]
    if meant:
        return f"did you mean {meant[0]}?"
    return "write the symbols of a window behind OF, as in WITHIN 30 min OF low"


def _names(cursor: Cursor) -> Iterator[Token]:
    """The symbols behind OF: a number behind a comma begins another window."""
    while True:
        name = cursor.take_name("a symbol")
        if name is None:
            return
        yield name
        if not cursor.peek().is_sign(",") or cursor.peek(1).kind in (Kind.NUMBER, Kind.PARAMETER):
            return
        cursor.take()


def windows_text(
    of_all: Duration, windows: Iterable[Window], name: Callable[[str], str] = str
) -> str:
    """The windows as they are written; ``name`` is how a symbol is.

    >>> hour = Duration(3600 * 10**9)
    >>> windows_text(NO_WINDOW, [Window("low", hour), Window("fast", hour)])
    '1 h OF low, fast'
    """
    by_length: dict[Duration, list[str]] = {}
    for window in windows:
        by_length.setdefault(window.length, []).append(name(window.symbol))
    parts = [] if of_all == NO_WINDOW else [str(of_all)]
    parts += [f"{length} OF {', '.join(names)}" for length, names in by_length.items()]
    return ", ".join(parts)


def all_windows(
    symbols: Iterable[str], of_all: Duration, windows: Iterable[Window]
) -> Iterator[tuple[Window, str]]:
    """The window of each symbol that has one, and the clause that says so.

    >>> [clause for _, clause in all_windows("ab", NO_WINDOW, [Window("b", Duration(9, True))])]
    ['WITHIN 9 OF b']
    """
    if of_all != NO_WINDOW:
        yield from ((Window(symbol, of_all), f"WITHIN {of_all}") for symbol in symbols)
    for window in windows:
        yield window, f"WITHIN {window.length} OF {window.symbol}"
