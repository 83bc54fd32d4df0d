"""Random absences: ``NOT (…)`` that some interval could satisfy, and that is not waited for for ever.

An interval of the absent symbol is planted beside the match, and all that the group says is true of
it, so a parser that refuses one as needless is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

from piestream.relations import relation_of
from tests.oracle.questions import RELATIONS
from tests.scenario import Clause, Definition, Scenario
from tests.truth import Expression, binary, column, literal

__all__ = ["with_absences"]

_NAMES = ("gone", "no1", "Void", "z")
#: Of these signs of ``y - x``, those that bound it from above, and from below.
_UPPER, _LOWER = ("<", "<=", "=", "BETWEEN"), (">", ">=", "=", "BETWEEN")

_PRECISE = {"before": "followed-by", "after": "follows"}

_BEFORE, _AFTER = _PRECISE.items()

Planted = Mapping[str, tuple[int, int]]


def with_absences(rng: Random, drawn: Scenario, planted: Planted, share: float) -> Scenario:
    """The scenario, so often with symbols that may not be there; runs are bridged as often as ever."""
    rng = Random(f"{rng.random()} absences")  # whatever else chance decides by the same draws
    if rng.random() < 1 - share or not _is_possible(drawn, planted):
        return drawn
    definitions = list(drawn.definitions)
    lengths = {one.predicate.text: one.bridging for one in definitions}
    bridges = any(lengths.values()) or rng.random() < 0.2
    absences = []
    for name in rng.sample(_NAMES, rng.choice((1, 1, 1, 2))):
        predicate = _predicate(rng, drawn)
        start = rng.randint(0, 9)
        end = start + rng.choice((1, 1, 2, 3, 5))
        same = [planted[d.name] for d in drawn.definitions if d.predicate == predicate]
        if any(start <= last and first <= end for first, last in same):
            continue
        least, most = rng.choices(
            ((None, None), (rng.randint(0, end - start), None), (None, end - start + 1)), (6, 2, 1)
        )[0]
        fewest = rng.choice((None, None, None, None, 1, 2))
        largest = rng.choice((None, None, None, None, 1, 2, 3))
        if largest is not None and largest < max(fewest or 0, end - start):
            largest = None
        bridging = lengths.get(predicate.text)
        if bridges and (predicate.text not in lengths or rng.random() < 0.1):
            bridging = rng.choice((None, 1, 2, 3, 5))
        of = Definition(
            name,
            predicate,
            least,
            most,
            at_least_events=fewest,
            at_most_events=largest,
            bridging=bridging,
        )
        definitions.insert(rng.randint(0, len(definitions)), of)
        absences.append((name, _group(rng, drawn, {**planted, name: (start, end)}, name)))
    return drawn.having(definitions=tuple(definitions), absences=tuple(absences))


def _is_possible(drawn: Scenario, planted: Planted) -> bool:
    """Whether the planted match keeps all lengths and windows of the query."""
    for one in drawn.definitions:
        length = planted[one.name][1] - planted[one.name][0]
        if not (one.at_least or 0) <= length <= (length if one.at_most is None else one.at_most):
            return False
    last = max(planted[name][1] for name in drawn.symbols)
    windows = [*drawn.windows, *((name, drawn.within) for name in drawn.symbols)]
    return all(length is None or last - planted[name][0] <= length for name, length in windows)


def _predicate(rng: Random, drawn: Scenario) -> Expression:
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(drawn.definitions).predicate
    if kind < 0.8:
        return column(rng.choice(("b0", "b1", "b2", "b3", "b4", "b5")))
    return binary(rng.choice((">", "=")), column(rng.choice(("n0", "n1"))), literal(2))


def _group(rng: Random, drawn: Scenario, planted: Planted, name: str) -> tuple[Clause, ...]:
    found: list[Clause] = []
    for other in rng.sample(drawn.symbols, min(len(drawn.symbols), rng.choice((1, 1, 2)))):
        x, y = rng.choice(((name, other), (other, name)))
        if rng.random() < 0.75:
            found.append(_related(rng, planted, x, y))
        if rng.random() < 0.4:
            found.append(_distant(rng, planted, x, y, rng.choice((*_UPPER, *_LOWER))))
    if not _starts_in_time(found, name):
        other = rng.choice(drawn.symbols)
        found.append(_distant(rng, planted, other, name, rng.choice(("<", "<=", "<="))))
    windowed = [n for n, _ in drawn.windows] or list(drawn.symbols)
    if drawn.within is not None:
        windowed = list(drawn.symbols)
    if not _is_kept_for_a_time(found, name, windowed):
        found.append(_distant(rng, planted, name, rng.choice(windowed), "<="))
    return tuple(found)


def _related(rng: Random, planted: Planted, x: str, y: str) -> Clause:
    flag = relation_of(*planted[x], *planted[y])
    names = {one for one in RELATIONS if _flag(one) & flag}
    names.update(rng.sample(sorted(RELATIONS), rng.choice((0, 0, 1, 2, 5, 9))))
    listed = rng.sample(sorted(names), len(names))
    turned = rng.random() < 0.2
    return Clause(x, y, tuple(_more_precisely(listed, (x, y, planted[x]))), turned=turned)


def _more_precisely(listed: list[str], seed: object) -> list[str]:
    """The same relations, now and then one that may be so only if nothing lies between."""
    rng = Random(f"{listed} {seed}")
    if rng.random() < 0.6:
        return listed
    precise = {wide: p for wide, p in _PRECISE.items() if wide in listed and rng.random() < 0.7}
    more = [p for wide, p in _PRECISE.items() if wide not in listed and rng.random() < 0.1]
    return [precise.get(name, name) for name in listed] + more


def _flag(name: str) -> int:
    from piestream.relations import ALL_NAMES

    return 1 << ALL_NAMES.index(name)


def _distant(rng: Random, planted: Planted, x: str, y: str, sign: str) -> Clause:
    of_x, of_y = rng.choice(("ts", "te")), rng.choice(("ts", "te"))
    holds = planted[y][of_y == "te"] - planted[x][of_x == "te"]
    slack = rng.choice((0, 1, 1, 3, 8))
    beats = {
        "<": (holds + slack + 1,),
        "<=": (holds + slack,),
        ">": (holds - slack - 1,),
        ">=": (holds - slack,),
        "=": (holds,),
        "BETWEEN": (holds - slack, holds + rng.choice((1, 3))),
    }[sign]
    return Clause(
        x, y, distance=(of_x, of_y, sign, beats), written=rng.choice(("; ", "full")),
        turned=rng.random() < 0.3,
    )  # fmt: skip


def _starts_in_time(clauses: Iterable[Clause], name: str) -> bool:
    """Whether a clause says that the absent interval begins not long after an endpoint."""
    for one in clauses:
        if one.distance is not None:
            if one.distance[2] in (_UPPER if one.y == name else _LOWER):
                return True
        elif not {*(_AFTER if one.x == name else _BEFORE)} & {*one.names}:
            return True
    return False


def _is_kept_for_a_time(clauses: Iterable[Clause], name: str, windowed: Iterable[str]) -> bool:
    """Whether a clause says that it ends not long before an interval with a window."""
    for one in clauses:
        if one.x not in windowed and one.y not in windowed:
            continue
        if one.distance is not None:
            if one.distance[2] in (_UPPER if one.x == name else _LOWER):
                return True
        elif not {*(_BEFORE if one.x == name else _AFTER)} & {*one.names}:
            return True
    return False
