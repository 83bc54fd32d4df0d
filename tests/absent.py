"""Until when could some interval still satisfy all of ``NOT (…)``: systems of differences of endpoints.

Everything that may still come is a choice: when open intervals end, and where an interval of the absent
symbol starts and ends that has not begun. Time is dense, so each choice of a relation for every pair
makes a system of inequalities on differences, which has a solution unless it has a negative cycle; the
shortest path to "now" says how long it has one. ``tests/absence_oracle.py`` tries futures instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

__all__ = ["CERTAIN", "NEVER", "NOW", "ORIGIN", "Span", "last_instant"]

#: ``(symbol, "ts" or "te")``, or NOW, or the origin of time.
Node = tuple[str, str]
ORIGIN, NOW = ("", "origin"), ("", "now")
#: ``left - right <= amount``, or less.
Inequality = tuple[Node, Node, int, bool]

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
#: Strict inequalities are less by one of these; there are fewer of them than one amount has.
_FINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Span:
    """An interval; of one that is open it is known that its end is later than now."""

    start: int
    end: int | None
    #: It is interrupted (BRIDGING), so it goes on before this instant, or it has ended.
    goes_on_before: int | None = None
    #: It ends because the input does: behind what ends, or begins, with the last event.
    is_closed: bool = False


def last_instant(
    absent: str,
    now: int,
    present: Mapping[str, Span],
    span: Span | None,
    relations: Mapping[str, Collection[str]],
    lengths: tuple[int, int | None],
    distances: Sequence[tuple[Node, Node, str, int]],
    apart: Mapping[str, int] = MappingProxyType({}),
    not_before: tuple[Node, int] = (NOW, 0),
    known_by: str = "ts",
    longer_than: int | None = None,
    closes: bool = False,
) -> int | None:
    """From when on an interval can satisfy the group no longer; None if it cannot now.

    NEVER: it may always; CERTAIN: it does. It is there already, or (``span`` None) begins later than
    now, or ends later where it is ``known_by`` its "te". ``relations`` has those to each present symbol that
    are allowed, and ``apart`` the present ones that are runs of the same predicate, with how far apart two runs are. One
    that has not begun begins so long after an instant (``not_before``), or later. A silence lasts ``longer_than``.
    """
    spans = dict(present)
    if span is not None:
        spans[absent] = span
    given = [*_known(spans, now), *_lengths(absent, lengths), *_distances(distances)]
    if longer_than is not None:
        given.append(((absent, "ts"), (absent, "te"), -longer_than, True))
    if span is None:
        given.append((NOW, (absent, known_by), 0, True))
        given.append(((absent, "ts"), (absent, "te"), 0, True))
        if known_by == "ts":
            given.append((not_before[0], (absent, "ts"), -not_before[1], True))
        given += (((name, "te"), (absent, "ts"), -length, True) for name, length in apart.items())
    found: int | None = None
    delayed = set(_delayed(absent, spans, closes))
    names = [name for name, allowed in relations.items() if len(allowed) < len(RELATIONS)]
    for chosen in product(*(relations[name] for name in names)):
        orders = [
            one
            for name, relation in zip(names, chosen, strict=True)
            for one in _ordered(absent, name, relation, delayed)
        ]
        until = _latest_now([*given, *orders])
        if until is not None and (found is None or until > found):
            found = until
        if until == NEVER:
            break
    if found == NEVER and all(one.end is not None for one in spans.values()) and span is not None:
        return CERTAIN
    return found


def _known(spans: Mapping[str, Span], now: int) -> Iterator[Inequality]:
    yield ORIGIN, NOW, -now, False
    for name, span in spans.items():
        start, end = (name, "ts"), (name, "te")
        yield from _is(start, span.start)
        yield start, end, 0, True
        if span.goes_on_before is not None:
            yield NOW, ORIGIN, span.goes_on_before, True
        if span.end is None:
            yield NOW, end, 0, True
        else:
            yield from _is(end, span.end)


def _is(node: Node, time: int) -> Iterator[Inequality]:
    yield node, ORIGIN, time, False
    yield ORIGIN, node, -time, False


def _lengths(absent: str, lengths: tuple[int, int | None]) -> Iterator[Inequality]:
    least, most = lengths
    yield (absent, "ts"), (absent, "te"), -least, False
    if most is not None:
        yield (absent, "te"), (absent, "ts"), most, False


def _distances(distances: Iterable[tuple[Node, Node, str, int]]) -> Iterator[Inequality]:
    for end, since, comparison, amount in distances:
        if comparison in ("<", "<="):
            yield end, since, amount, comparison == "<"
        else:
            yield since, end, -amount, comparison == ">"


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
        yield one, other, later, sign == "<"
        if sign == "=":
            yield other, one, -later, False


def _end(word: str, x: str, y: str) -> Node:
    return (x if word[0] == "x" else y), ("ts" if word[1] == "s" else "te")


def _latest_now(given: Iterable[Inequality]) -> int | None:
    """The supremum of now for which the inequalities have a solution; None if they have none."""
    edges = [(right, left, amount * _FINE - strict) for left, right, amount, strict in given]
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
    return NEVER if latest >= far else -(-latest // _FINE)
