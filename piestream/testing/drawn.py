"""A random query: the text of its clauses, drawn one after another."""

from __future__ import annotations

from typing import Any

from piestream.language.model import Query
from piestream.relations import ALL_NAMES, SETS, names, relation_of

__all__ = ["drawn_query"]

Span = tuple[int, int]
#: Relations that say that nothing lies between: rows and silences that are known late have none.
_PRECISE = ("followed-by", "follows")
_ENDS = ("ts", "te")


def drawn_query(
    draw: Any,
    symbols: tuple[str, ...],
    streams: tuple[str, ...],
    key: str | None,
    sequence: str | None,
    using: frozenset[str],
) -> Query:
    """A query that can be satisfied: all that it says is true of intervals that are planted."""
    from piestream.language import parse

    return parse(_Drawing(draw, symbols, streams, sequence, using).text(key))


class _Drawing:
    """What has been drawn of a query so far."""

    def __init__(
        self,
        draw: Any,
        symbols: tuple[str, ...],
        streams: tuple[str, ...],
        sequence: str | None,
        using: frozenset[str],
    ) -> None:
        self.draw, self.symbols, self.streams, self.sequence = draw, symbols, streams, sequence
        self.using = using
        self.spans: dict[str, Span] = {}
        for name in symbols:
            start = self.number(0, 6)
            self.spans[name] = start, self.number(start + 1, 8)
        self.silent = self.symbol() if self.takes("SILENCE") else None

    # What chance decides

    def number(self, least: int, most: int) -> int:
        from hypothesis import strategies as st

        found: int = self.draw(st.integers(least, most))
        return found

    def one_of(self, *of: Any) -> Any:
        from hypothesis import strategies as st

        return self.draw(st.sampled_from(of))

    def takes(self, thing: str, is_possible: bool = True) -> bool:
        """Whether a thing is in the query."""
        return thing in self.using and is_possible and bool(self.one_of(False, False, True))

    def symbol(self) -> str:
        return str(self.one_of(*self.symbols))

    # The clauses

    def text(self, key: str | None) -> str:
        """The query."""
        definitions, pattern = [self._definition(name) for name in self.symbols], self._pattern()
        if self.takes("NOT", self._may_be_absent(definitions)):
            definitions.append(f"{self._absent} AS {self._column(self._other(self.silent))}")
            pattern += f" AND {self._absence()}"
        lines = [
            self._from(),
            "" if key is None else f"PARTITION BY {key}",
            "DEFINE " + ", ".join(definitions),
            f"PATTERN {pattern}",
            self._windows(),
            *self._emission(),
        ]
        return "\n".join(line for line in lines if line)

    def _from(self) -> str:
        order = "t" if self.sequence is None else f"t, {self.sequence}"
        heads = []
        for name in self.streams:
            gap = f" MAX GAP {self.number(1, 9)}" if self.takes("MAX GAP") else ""
            heads.append(f"{name} ORDER BY {order}{gap}")
        return "FROM " + " WITH ".join(heads)

    def _stream_of(self, symbol: str) -> str:
        return self.streams[self.symbols.index(symbol) % len(self.streams)]

    def _column(self, symbol: str) -> str:
        name = f'"{symbol}"'
        return name if len(self.streams) == 1 else f"{self._stream_of(symbol)}.{name}"

    def _definition(self, symbol: str) -> str:
        if symbol == self.silent:
            of = f" OF {self._stream_of(symbol)}" if len(self.streams) > 1 else ""
            return f'"{symbol}" AS SILENCE{of} LONGER THAN {self.number(1, 3)}'
        column, more = self._column(symbol), ""
        predicate = column
        if self.takes("UNTIL"):
            predicate = f"{column} UNTIL NOT {column} AND PREV(NOT {column})"
        elif self.takes("OVER"):
            length = self.one_of("3", "2 EVENTS")
            predicate = f"{column} AND COUNT({column}) OVER {length} > 1"
        start, end = self.spans[symbol]
        if self.takes("AT LEAST"):
            more += f" AT LEAST {self.number(0, end - start)}"
        if self.takes("EVENTS"):
            more += f" {self.one_of('AT LEAST', 'AT MOST')} {self.number(1, 3)} EVENTS"
        if self.takes("BRIDGING"):
            more += f" BRIDGING {self.number(1, 3)}"
        return f'"{symbol}" AS {predicate}{more}'

    def _pattern(self) -> str:
        from hypothesis import strategies as st

        clauses = []
        for place in range(1, len(self.symbols)):
            x, y = self.symbols[self.number(0, place - 1)], self.symbols[place]
            planted = relation_of(*self.spans[x], *self.spans[y])
            allowed = {*names(planted), *self.draw(st.sets(st.sampled_from(ALL_NAMES), min_size=3))}
            if self.silent in (x, y):
                allowed -= {*_PRECISE}
            listed = [name for name, of in SETS.items() if of & planted and self.number(0, 9) == 0]
            clauses.append(f'"{x}" {"; ".join([*sorted(allowed), *listed])} "{y}"')
            if self.takes("distances"):
                clauses.append(self._distance(x, y, self.spans))
        return " AND ".join(clauses) or f'"{self.symbols[0]}"'

    def _distance(self, x: str, y: str, spans: dict[str, Span]) -> str:
        of_x, of_y = self.one_of(0, 1), self.one_of(0, 1)
        holds, slack = spans[y][of_y] - spans[x][of_x], self.number(0, 12)
        sign, bound = self.one_of(("<=", holds + slack), (">=", holds - slack))
        return f'"{y}".{_ENDS[of_y]} - "{x}".{_ENDS[of_x]} {sign} {bound}'

    @property
    def _absent(self) -> str:
        return '"' + max(self.symbols, key=len) + '_absent"'

    def _may_be_absent(self, definitions: list[str]) -> bool:
        """Whether the language takes a NOT beside what has been drawn."""
        has_runs = any(name != self.silent for name in self.symbols)
        is_bridged = any(" BRIDGING " in one for one in definitions)
        return has_runs and not is_bridged

    def _other(self, than: str | None) -> str:
        return next(name for name in self.symbols if name != than)

    def _absence(self) -> str:
        """Nothing of the absent symbol for some time after one that is there, or before it."""
        of = self.symbol()
        length = self.number(1, 9)
        where = self.one_of(
            f'{self._absent} after "{of}" AND {self._absent}.ts - "{of}".te <= {length}',
            f'{self._absent} before "{of}" AND "{of}".ts - {self._absent}.te <= {length}',
        )
        return f"NOT ({where})"

    def _windows(self) -> str:
        needs = max(end for _, end in self.spans.values())
        windows = [str(self.number(max(needs, 4), 60))]
        if self.takes("WITHIN OF"):
            windows.append(f'{self.number(max(needs, 4), 60)} OF "{self.symbol()}"')
        return f"WITHIN {', '.join(windows)}"

    def _emission(self) -> list[str]:
        emit = self.one_of("TRIGGER", "COMPLETION", "BOTH")
        lines = [f"EMIT ON {emit}"]
        has_where = self.takes("WHERE")
        if has_where:
            value = self.one_of(f'DURATION("{self.symbol()}")', f'"{self.symbol()}".te')
            lines.insert(0, f"WHERE {value} <> {self.number(0, 9)}")
        if self.takes("limits", not (has_where and emit == "BOTH")):
            limit = self.one_of(
                f'ONCE PER "{self.symbol()}"',
                "NO OVERLAP",
                f"COOLDOWN {self.number(0, 9)}",
                "LIMIT 2",
            )
            lines.append(str(limit))
        return lines
