"""What a join asks of a pair, as it is written: relations, and distances between endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from piestream.expressions.diagnostics import QueryError, Span, did_you_mean, located
from piestream.expressions.durations import NANOSECONDS, Duration
from piestream.expressions.tokens import Kind, Token, tokenize
from piestream.language.cursor import Cursor
from piestream.language.endpoints import COMPARISONS
from piestream.plan.columns import TimeColumn
from piestream.relations import ALL_NAMES, SETS, Relation, relations_named

__all__ = ["Distance", "RelationsLike", "read_distances", "read_relations"]

#: Relations as users give them: ``"overlaps; during"``, ``"intersects"``, or flags.
RelationsLike = Union[str, Relation]

_EXAMPLE = "write it like y.ts - x.te <= 10 s"


@dataclass(frozen=True, slots=True)
class Distance:
    """``least <= y.<y_which> - x.<x_which> <= most``, in ticks; None where there is no bound."""

    y_which: str
    x_which: str
    least: int | None
    most: int | None


def read_relations(given: RelationsLike) -> Relation:
    """The relations of a text, in which ``;`` or ``|`` stands between names.

    >>> from piestream.relations import names
    >>> names(read_relations("overlaps; finished by"))
    ('overlaps', 'finished-by')
    """
    if isinstance(given, Relation):
        if not given:
            raise QueryError("the set of relations is empty: no pair would be in it")
        return given
    if not isinstance(given, str):
        raise TypeError(
            f"relations are text such as 'overlaps; during', not {type(given).__name__}"
        )
    tokens, diagnostics = tokenize(given)
    cursor = Cursor(tokens[:-1], tokens[-1].span, diagnostics)
    found = Relation(0)
    for part in cursor.split(";", "|", ","):
        if not part.tokens:
            part.report(part.end, "a relation is missing here", "write: overlaps; during")
            continue
        span = part.span()
        name = given[span.start : span.end]
        relations = relations_named(name)
        if relations is None:
            near = did_you_mean(name, [*ALL_NAMES, *SETS])
            known = f"the relations are {', '.join(ALL_NAMES)}; sets are {', '.join(SETS)}"
            part.report(span, f"there is no relation {name}", near or known)
            continue
        found |= relations
    _raise(cursor, given)
    return found


def _raise(cursor: Cursor, source: str) -> None:
    if cursor.diagnostics:
        raise QueryError([located(fault, source) for fault in cursor.diagnostics], source)


@dataclass(frozen=True)
class _Reader:
    """Reads distances: what the endpoints are called, and the ticks of the times."""

    cursor: Cursor
    endpoints: Mapping[str, Mapping[str, str]]  # "x" and "y": "ts" or "te" by name
    scale: TimeColumn

    def conditions(self) -> list[Distance]:
        found: list[Distance] = []
        while not self.cursor.diagnostics:
            found += self._condition()
            if self.cursor.at_end or self.cursor.diagnostics:
                break
            if not self.cursor.take_word("AND"):
                token = self.cursor.peek()
                self.cursor.report(
                    token, f"{token.text} does not belong here", "conditions join with AND"
                )
        return found

    def _condition(self) -> list[Distance]:
        left = self._endpoint()
        if left is None:
            return []
        right: tuple[str, str, Span] | None = None
        if self.cursor.take_sign("-"):
            right = self._endpoint()
            if right is None:
                return []
        if self.cursor.take_word("BETWEEN"):
            return self._between(left, right)
        sign = self.cursor.take()
        if not sign.is_sign(*COMPARISONS):
            what = f"{sign.text} is no comparison" if sign.text else "a comparison is missing"
            self.cursor.report(sign, what, _EXAMPLE)
            return []
        if sign.is_sign("!=", "<>"):
            hint = "join once for each side, or filter the result"
            self.cursor.report(sign, "a distance has one least and one greatest value", hint)
            return []
        if right is not None:
            ticks = self._length()
        else:
            right = self._endpoint()
            ticks = 0
        if right is None or ticks is None:
            return []
        orders = COMPARISONS[sign.text]
        least = None if -1 in orders else ticks if 0 in orders else ticks + 1
        most = None if 1 in orders else ticks if 0 in orders else ticks - 1
        return self._distance(left, right, least, most)

    def _between(
        self, left: tuple[str, str, Span], right: tuple[str, str, Span] | None
    ) -> list[Distance]:
        if right is None:
            self.cursor.report(self.cursor.peek(), "BETWEEN needs a difference", _EXAMPLE)
            return []
        least = self._length()
        if least is None:
            return []
        if not self.cursor.take_word("AND"):
            self.cursor.report(
                self.cursor.peek(), "AND is missing here", "write BETWEEN 1 s AND 5 s"
            )
            return []
        most = self._length()
        if most is None:
            return []
        return self._distance(left, right, least, most)

    def _distance(
        self,
        left: tuple[str, str, Span],
        right: tuple[str, str, Span],
        least: int | None,
        most: int | None,
    ) -> list[Distance]:
        if left[0] == right[0]:
            span = left[2].joined(right[2])
            message = f"both endpoints are those of {left[0]}"
            hint = f"a condition on the rows of {left[0]} alone: filter that frame before the join"
            self.cursor.report(span, message, hint)
            return []
        if left[0] == "y":
            return [Distance(left[1], right[1], least, most)]
        negated = [None if ticks is None else -ticks for ticks in (most, least)]
        return [Distance(right[1], left[1], *negated)]

    def _endpoint(self) -> tuple[str, str, Span] | None:
        """The side, ``ts`` or ``te``, and where it stands."""
        symbol = self.cursor.take_name("an endpoint of x or of y")
        if symbol is None:
            return None
        side = symbol.text.lower()
        if side not in self.endpoints:
            message = f"the two frames are x and y here; there is no {symbol.text}"
            self.cursor.report(symbol, message, _EXAMPLE)
            return None
        if not self.cursor.take_sign("."):
            hint = f"write {side}.ts or {side}.te"
            self.cursor.report(symbol, f"{symbol.text} is not an endpoint", hint)
            return None
        which = self.cursor.take()
        known = self.endpoints[side]
        name = which.text if which.text in known else which.text.lower()
        if which.kind not in (Kind.WORD, Kind.QUOTED) or name not in known:
            hint = f"write {side}.ts or {side}.te; filter the result for conditions on values"
            self.cursor.report(which, f"{side} has no endpoint {which.text}".rstrip(), hint)
            return None
        return side, known[name], symbol.span.joined(which.span)

    def _length(self) -> int | None:
        """A duration in ticks, which may have a sign."""
        is_negative = self.cursor.take_sign("-")
        token = self.cursor.peek()
        duration = self.cursor.take_duration("a distance")
        if duration is None:
            return None
        ticks = self._ticks(duration, token)
        return None if ticks is None else -ticks if is_negative else ticks

    def _ticks(self, duration: Duration, token: Token) -> int | None:
        try:
            ticks = in_ticks(duration, self.scale, "the distance")
        except QueryError as error:
            self.cursor.report(token, error.faults[0].message, error.faults[0].hint)
            return None
        return ticks


def in_ticks(duration: Duration, scale: TimeColumn, what: str) -> int:
    """A duration in ticks of the time columns: a bare number of integers, a unit of other times."""
    is_integer = scale.nanoseconds_per_tick is None
    if is_integer and not duration.in_ticks:
        raise QueryError(
            f"{what} is {duration}, but the times are integers, which have no unit: "
            "write a bare number of ticks"
        )
    if not is_integer and duration.in_ticks and duration.amount:
        raise QueryError(
            f"{what} is {duration} without a unit, and the times are of type {scale.dtype}: "
            f"write a unit, one of {', '.join(NANOSECONDS)}"
        )
    ticks = duration.ticks(scale.nanoseconds_per_tick, what)
    if ticks >= 1 << 62:
        raise QueryError(f"{what}, {duration}, is longer than any two times are apart")
    return ticks


def read_distances(
    text: str | None, endpoints: Mapping[str, Mapping[str, str]], scale: TimeColumn
) -> tuple[Distance, ...]:
    """The conditions of a text such as ``y.ts - x.te <= 10 s AND x.ts < y.ts``.

    ``endpoints`` says for x and for y which names mean ``ts`` and which ``te``.
    """
    if text is None:
        return ()
    if not isinstance(text, str):
        raise TypeError(f"where is text such as 'y.ts - x.te <= 10 s', not {type(text).__name__}")
    tokens, diagnostics = tokenize(text)
    cursor = Cursor(tokens[:-1], tokens[-1].span, diagnostics)
    if cursor.at_end:
        cursor.report(cursor.end, "where is empty", _EXAMPLE)
    distances = tuple(_Reader(cursor, endpoints, scale).conditions())
    _raise(cursor, text)
    return distances
