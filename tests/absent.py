"""Until when could some interval still satisfy all of ``NOT (…)``: systems of differences of endpoints.

Everything that may still come is a choice: when open intervals end, and where an interval of the absent
symbol starts and ends that has not begun. Time is dense, so each choice of a relation for every pair
makes a system of inequalities on differences, which has a solution unless it has a negative cycle; the
shortest path to "now" says how long it has one. ``tests/absence_grid.py`` tries futures instead.

Where several events have one time, orders compare instants and differences measure times: an instant is
a pair of a time and a place among those of that time, and differences of pairs are compared as pairs are. A
distance says nothing of places, so that it leaves them any difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

__all__ = [
    "CERTAIN", "HALF", "NEVER", "NOW", "ORIGIN", "Asked", "Moment", "Sequenced", "Span", "ToCome",
    "last_instant",
]  # fmt: skip

#: ``(symbol, "ts" or "te")``, or NOW, or the origin of time.
Node = tuple[str, str]
ORIGIN, NOW = ("", "origin"), ("", "now")
#: ``left - right <= amount``, or less (the last is how much more than the amount, in units of its own).
Inequality = tuple[Node, Node, int, int]

#: What each relation of ``x=[xs, xe)`` to ``y=[ys, ye)`` says of their endpoints.
RELATIONS = {
    "before": (("xe", "<", "ys"),),
    "meets": (("xe", "=", "ys"),),
    "overlaps": (("xs", "<", "ys"), ("ys", "<", "xe"), ("xe", "<", "ye")),
    "finished-by": (("xs", "<", "ys"), ("xe", "=", "ye")),
    "contains": (("xs", "<", "ys"), ("ye", "<", "xe")),
    "starts": (("xs", "=", "ys"), ("xe", "<", "ye")),
    "equals": (("xs", "=", "ys"), ("xe", "=", "ye")),
    "started-by": (("xs", "=", "ys"), ("ye", "<", "xe")),
    "during": (("ys", "<", "xs"), ("xe", "<", "ye")),
    "finishes": (("ys", "<", "xs"), ("xe", "=", "ye")),
    "overlapped-by": (("ys", "<", "xs"), ("xs", "<", "ye"), ("ye", "<", "xe")),
    "met-by": (("ye", "=", "xs"),),
    "after": (("ye", "<", "xs"),),
}

#: There is always a future in which the group is satisfied.
NEVER = 10**30
#: It is satisfied, whatever comes.
CERTAIN = NEVER + 1
# An amount has so many of these units. A time that is less is so by one of them; where places do not matter,
# the difference of instants may be greater by one of the next; an instant that is earlier is so by one of the
# last. There are fewer inequalities than one of each has of the next.
_FINE = 1 << 60
_EARLIER, _ANYWHERE, _BEFORE = -(1 << 40), 1 << 20, -1

#: Where several events have one time: behind all that have it.
HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class Sequenced:
    """Where several events of a partition have one time."""

    #: All events of the time that is now are over, so that what is to come has a later one.
    is_behind: bool
    #: The place that is now: known endpoints behind it are those of rows, before all events of their times.
    place: Fraction | int = 10**30


@dataclass(frozen=True, slots=True)
class Span:
    """An interval; of one that is open it is known that its end is later than now."""

    start: int
    end: int | None
    #: It is interrupted (BRIDGING), so it goes on before this instant, or it has ended.
    goes_on_before: int | None = None
    #: It ends because the input does: behind what ends, or begins, with the last event.
    is_closed: bool = False
    #: The places of both among all instants, where several have one time.
    places: tuple[Fraction | int, Fraction | int | None] = (0, None)


@dataclass(frozen=True, slots=True)
class ToCome:
    """An interval of the absent symbol that is not known yet: it begins later than now, or becomes known later."""

    #: The present symbols that are runs of the same predicate, with how far apart two runs are at least (None:
    #: they do not touch).
    apart: Mapping[str, int | None] = field(default_factory=dict)
    #: It begins later than so long after an endpoint.
    not_before: tuple[Node, int] | None = None
    #: Which of its endpoints is later than now.
    known_by: str = "ts"
    #: It becomes known later than now, and so long after it began ("ts") at most, or less after it ended ("te");
    #: counted from its start, it is no longer than that.
    late: tuple[str, int] | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Its endpoints of which nothing is known, though they may have been."""
        if self.known_by == "ts":
            return ()
        return ("ts",) if self.late is None else ("ts", "te")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a NOT says of its absent symbol."""

    absent: str
    relations: Mapping[str, Collection[str]]  # to each present symbol, that are allowed
    lengths: tuple[int, int | None]
    distances: Sequence[tuple[Node, Node, str, int]]
    longer_than: int | None = None  # of a silence


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of now."""

    time: int
    closes: bool = False  # the input ends
    sequenced: Sequenced | None = None  # where several events have one time


def last_instant(
    asked: Asked, now: Moment, present: Mapping[str, Span], one: Span | ToCome = ToCome()
) -> Fraction | int | None:
    """From when on an interval can satisfy the group no longer; None if it cannot now.

    Where events are sequenced, that may be behind all events of a time (HALF).

    NEVER: it may always; CERTAIN: it does.
    """
    absent, relations, sequenced = asked.absent, asked.relations, now.sequenced
    spans = {**present, absent: one} if isinstance(one, Span) else dict(present)
    given = [
        *_known(spans, now.time, sequenced),
        *_lengths(absent, asked.lengths, sequenced),
        *_distances(asked.distances, sequenced),
    ]
    if asked.longer_than is not None:
        given.append(((absent, "ts"), (absent, "te"), -asked.longer_than, _EARLIER))
    delayed = set(_delayed(absent, spans, now.closes))
    hidden: set[Node] = set()
    if isinstance(one, ToCome):
        given += _unknown(absent, one, now)
        hidden = {(absent, which) for which in one.hidden}
        if one.late is not None:
            delayed -= {(absent, "ts"), (absent, "te")}
    found: Fraction | int | None = None
    names = [name for name, allowed in relations.items() if len(allowed) < len(RELATIONS)]
    for chosen in product(*(relations[name] for name in names)):
        orders: list[Inequality] = []
        for name, relation in zip(names, chosen, strict=True):
            if sequenced is None:
                orders += _ordered(absent, name, relation, delayed)
            else:
                orders += _ordered_places(absent, name, relation, spans, sequenced.place, hidden)
        until = _latest_now([*given, *orders], sequenced)
        if until is not None and (found is None or until > found):
            found = until
        if until == NEVER:
            break
    is_there = isinstance(one, Span) and all(span.end is not None for span in spans.values())
    return CERTAIN if found == NEVER and is_there else found


def _unknown(absent: str, one: ToCome, now: Moment) -> Iterator[Inequality]:
    """What is known of an interval that is to come."""
    later = _EARLIER if now.sequenced is None else _BEFORE  # of two instants
    if one.late is None:
        yield from _to_come((absent, one.known_by), now.time, now.sequenced)
        yield (absent, "ts"), (absent, "te"), 0, later
    else:
        yield from _known_late(absent, *one.late)
        yield (absent, "ts"), (absent, "te"), 0, _EARLIER  # two times, before all events of these
    if one.not_before is not None:
        yield one.not_before[0], (absent, "ts"), -one.not_before[1], _EARLIER
    for name, length in one.apart.items():
        strictly = later if length is None else _EARLIER
        yield (name, "te"), (absent, "ts"), -(length or 0), strictly


def _known(
    spans: Mapping[str, Span], now: int, sequenced: Sequenced | None
) -> Iterator[Inequality]:
    later = _EARLIER if sequenced is None else _BEFORE
    yield ORIGIN, NOW, -now, 0
    for name, span in spans.items():
        start, end = (name, "ts"), (name, "te")
        yield from _is(start, span.start)
        if (
            span.goes_on_before is not None
        ):  # with the last event of that time, if there are several
            goes_on = _EARLIER if sequenced is None else _ANYWHERE
            yield NOW, ORIGIN, span.goes_on_before, goes_on
        if span.end is None:
            yield start, end, 0, later
            yield from _to_come(end, now, sequenced)
        else:
            yield from _is(end, span.end)


def _to_come(endpoint: Node, now: int, sequenced: Sequenced | None) -> Iterator[Inequality]:
    """An endpoint is later than now, as an instant."""
    yield NOW, endpoint, 0, _EARLIER if sequenced is None else _BEFORE
    if sequenced is not None and sequenced.is_behind:
        yield ORIGIN, endpoint, -now, _EARLIER


def _known_late(absent: str, which: str, length: int) -> Iterator[Inequality]:
    """An interval that becomes known later than now, so long after its start, or less after its end."""
    yield NOW, (absent, which), length, _EARLIER
    if which == "ts":
        yield (absent, "te"), (absent, "ts"), length, 0


def _is(node: Node, time: int) -> Iterator[Inequality]:
    yield node, ORIGIN, time, 0
    yield ORIGIN, node, -time, 0


def _lengths(
    absent: str, lengths: tuple[int, int | None], sequenced: Sequenced | None
) -> Iterator[Inequality]:
    least, most = lengths
    anywhere = 0 if sequenced is None else _ANYWHERE
    yield (absent, "ts"), (absent, "te"), -least, anywhere
    if most is not None:
        yield (absent, "te"), (absent, "ts"), most, anywhere


def _distances(
    distances: Iterable[tuple[Node, Node, str, int]], sequenced: Sequenced | None
) -> Iterator[Inequality]:
    for end, since, comparison, amount in distances:
        anywhere = 0 if sequenced is None else _ANYWHERE
        if comparison in ("<", ">"):
            anywhere = _EARLIER
        if comparison in ("<", "<="):
            yield end, since, amount, anywhere
        else:
            yield since, end, -amount, anywhere


def _delayed(absent: str, spans: Mapping[str, Span], closes: bool) -> Iterator[Node]:
    """The endpoints that lie a tick behind where they are shown, once the input is closed (SPEC 2)."""
    for name, span in spans.items():
        if span.is_closed or (closes and span.end is None):
            yield name, "te"
    if closes and absent not in spans:
        yield from ((absent, "ts"), (absent, "te"))


def _ordered(x: str, y: str, relation: str, delayed: Collection[Node]) -> Iterator[Inequality]:
    """The orders of endpoints that are a relation of x to y, as the table of SPEC 3 has them."""
    for left, sign, right in RELATIONS[relation]:
        one, other = _end(left, x, y), _end(right, x, y)
        later = (other in delayed) - (one in delayed)
        yield one, other, later, _EARLIER if sign == "<" else 0
        if sign == "=":
            yield other, one, -later, 0


def _ordered_places(
    x: str,
    y: str,
    relation: str,
    spans: Mapping[str, Span],
    now: Fraction | int,
    hidden: Collection[Node],
) -> Iterator[Inequality]:
    """The same of instants, of which some have one time: what is to come is behind all that has come.

    Where the start of an absent row is ``hidden``, it may have been; so may the end, if it becomes known late.
    """
    for left, sign, right in RELATIONS[relation]:
        one, other = _end(left, x, y), _end(right, x, y)
        places = [_place(spans, one), _place(spans, other)]
        if one in hidden or other in hidden:
            yield from _ordered_hidden(one, sign, other, places, one in hidden)
        elif all(place is None or place > now for place in places):
            is_row = places[1] is not None  # which is before all events of its time
            yield one, other, 0, (_EARLIER if is_row else _BEFORE) if sign == "<" else 0
            if sign == "=":
                yield other, one, 0, 0
        else:
            first, second = (_LAST_PLACE if place is None else place for place in places)
            if (first != second) if sign == "=" else (first >= second):
                yield _IMPOSSIBLE


def _ordered_hidden(
    one: Node,
    sign: str,
    other: Node,
    places: Sequence[Fraction | int | None],
    is_one: bool,
) -> Iterator[Inequality]:
    """The same where the first of both, or the other, may have been, and lies before all events of its time."""
    place = places[1] if is_one else places[0]
    is_within = place is not None and place % 1 != 0  # at an event that has a place in its time
    if sign == "=":
        yield one, other, 0, 0
        yield other, one, 0, 0
        if is_within:
            yield _IMPOSSIBLE
    elif not is_one or (place is not None and not is_within):
        yield one, other, 0, _EARLIER
    else:
        yield one, other, 0, 0 if is_within else _BEFORE


#: Behind all places, and what cannot be.
_LAST_PLACE = NEVER
_IMPOSSIBLE: Inequality = (ORIGIN, ORIGIN, -1, 0)


def _place(spans: Mapping[str, Span], endpoint: Node) -> Fraction | int | None:
    """The place of an endpoint among all instants; None if it is to come."""
    span = spans.get(endpoint[0])
    return None if span is None else span.places[endpoint[1] == "te"]


def _end(word: str, x: str, y: str) -> Node:
    return (x if word[0] == "x" else y), ("ts" if word[1] == "s" else "te")


def _latest_now(given: Iterable[Inequality], sequenced: Sequenced | None) -> Fraction | int | None:
    """The supremum of now for which the inequalities have a solution; None if they have none."""
    edges = [(right, left, amount * _FINE + more) for left, right, amount, more in given]
    nodes = {node for edge in edges for node in edge[:2]} | {ORIGIN, NOW}
    far = NEVER * _FINE
    # From a source that reaches everything: a negative cycle is seen wherever it lies.
    potential = dict.fromkeys(nodes, 0)
    for _ in nodes:
        changed = False
        for since, end, amount in edges:
            if potential[since] + amount < potential[end]:
                potential[end], changed = potential[since] + amount, True
        if not changed:
            break
    else:
        return None
    distance = dict.fromkeys(nodes, far)
    distance[ORIGIN] = 0
    changed = True
    while changed:
        changed = False
        for since, end, amount in edges:
            if distance[since] < far and distance[since] + amount < distance[end]:
                distance[end], changed = distance[since] + amount, True
    latest = distance[NOW]
    if latest >= far:
        return NEVER
    time, more = divmod(latest + _FINE // 2, _FINE)
    is_reached = sequenced is not None and more > _FINE // 2  # by some event of that time
    return time + HALF if is_reached else time
