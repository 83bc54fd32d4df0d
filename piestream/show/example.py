"""An example of a pattern as a drawn time line, and one that just fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cmp_to_key
from itertools import pairwise

from piestream.automata import closure
from piestream.automata.differences import close
from piestream.language.difference_bounds import bounds_of
from piestream.language.model import Query
from piestream.relations import ANY, ENDPOINT_ORDER, Relation, names

__all__ = ["drawn_examples", "example", "possible_relations"]

Pair = tuple[str, str]
#: An endpoint: the symbol, and whether it is the end.
_Endpoint = tuple[str, bool]
#: Characters between one instant of an example and the next.
_STEP = 6
#: Of more symbols than so many no example is looked for: nobody reads it.
_MOST_SYMBOLS = 12


def example(query: Query, allowed: Mapping[Pair, Relation]) -> dict[Pair, Relation] | None:
    """One relation for each pair of symbols that intervals can have together, or None."""
    symbols = [symbol.name for symbol in query.present]
    left = closure(symbols, allowed)
    if left is None:
        return None
    for pair, relations in left.items():
        several = [r for r in ENDPOINT_ORDER if r & _in_general(relations)]
        if len(several) > 1 or relations != several[0]:
            for relation in several:
                found = example(query, {**left, pair: relation})
                if found is not None:
                    return found
            return None
    return left


def possible_relations(query: Query, allowed: Mapping[Pair, Relation]) -> Mapping[Pair, Relation]:
    """What these relations leave possible between every two symbols, with the query's distances.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1, b AS y > 1 PATTERN b.ts - a.te > 5 WITHIN 9")
    >>> names(possible_relations(query, {})["a", "b"])
    ('before',)
    """
    symbols = [symbol.name for symbol in query.present]
    found = closure(symbols, allowed) or {}
    if not any(constraint.distances for constraint in query.constraints):
        return found
    unit = next((stream.time_unit for stream in query.streams if stream.time_unit), None)
    for in_ticks in (False, True):
        closed = close(
            symbols,
            found,
            bounds_of(
                query.present,
                query.constraints,
                query.within,
                query.windows,
                query.emit,
                unit,
                in_ticks,
            ),
            query.is_sequenced,
        )
        if closed is not None:
            found = {
                pair: Relation(
                    sum(r for r in Relation if r & had and _in_general(r) & closed.relations[pair])
                )
                for pair, had in found.items()
            }
    return found


def _in_general(relations: Relation) -> Relation:
    """A set in Allen's terms: what follows immediately is before or after."""
    wide = Relation(0)
    if relations & Relation.FOLLOWED_BY:
        wide |= Relation.BEFORE
    if relations & Relation.FOLLOWS:
        wide |= Relation.AFTER
    return (relations | wide) & ANY


def _drawn(query: Query, chosen: Mapping[Pair, Relation]) -> Iterator[str]:
    """A line for each symbol."""

    def order(one: _Endpoint, other: _Endpoint) -> int:
        if one[0] == other[0]:
            return int(one[1]) - int(other[1])
        if (one[0], other[0]) not in chosen:
            return -order(other, one)
        signs = ENDPOINT_ORDER[chosen[one[0], other[0]]]
        return (signs.te_te if other[1] else signs.te_ts) if one[1] else (
            signs.ts_te if other[1] else signs.ts_ts
        )  # fmt: skip

    symbols = [symbol.name for symbol in query.present]
    endpoints = sorted(((s, end) for s in symbols for end in (False, True)), key=cmp_to_key(order))
    place, at = {endpoints[0]: 0}, 0
    for before, endpoint in pairwise(endpoints):
        at += _STEP * (order(before, endpoint) != 0)
        place[endpoint] = at
    width = max(map(len, symbols))
    for name in symbols:
        start, end = place[name, False], place[name, True]
        yield f"{name:<{width}}  {' ' * start}├{'─' * (end - start - 1)}┤"


def drawn_examples(query: Query) -> str | None:
    """An example that satisfies the pattern, and one that just fails; None if there is none to draw.

    The second differs from the first in as few comparisons of endpoints as it can.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 9")
    >>> print(drawn_examples(query))
    this satisfies the pattern
      a  ├─────┤
      b        ├─────┤
    this just fails: a before b, which has to be meets
      a  ├─────┤
      b              ├─────┤
    """
    if not 2 <= len(query.present) <= _MOST_SYMBOLS:
        return None
    written = {(c.x, c.y): c.relations for c in query.constraints}
    possible = possible_relations(query, written)
    allowed = {
        (c.x, c.y): _in_general(possible.get((c.x, c.y), c.relations)) for c in query.constraints
    }
    apart = Relation.BEFORE | Relation.AFTER
    for at, x in enumerate(query.present):
        for y in query.present[at + 1 :]:
            if query.same_predicate(x, y):
                allowed[x.name, y.name] = allowed.get((x.name, y.name), ANY) & apart
    found = example(query, allowed)
    if found is None:
        return None
    lines = ["this satisfies the pattern", *(f"  {line}" for line in _drawn(query, found))]
    failing = _just_failing(query, allowed, found)
    if failing is not None:
        (x_name, y_name), chosen = failing
        held = names(chosen[x_name, y_name])[0]
        needed = "; ".join(names(allowed[x_name, y_name]))
        lines.append(f"this just fails: {x_name} {held} {y_name}, which has to be {needed}")
        lines += [f"  {line}" for line in _drawn(query, chosen)]
    return "\n".join(lines)


def _just_failing(
    query: Query, allowed: Mapping[Pair, Relation], found: Mapping[Pair, Relation]
) -> tuple[Pair, dict[Pair, Relation]] | None:
    """A pair that has another relation than it may, and the relations of an example of that."""
    candidates = [
        (_difference(relation, found[c.x, c.y]), number, (c.x, c.y), relation)
        for number, c in enumerate(query.constraints)
        for relation in ENDPOINT_ORDER
        if not relation & allowed[c.x, c.y]
    ]
    for _, _, pair, relation in sorted(candidates, key=lambda candidate: candidate[:2]):
        x, y = (query.symbol(name) for name in pair)
        if query.same_predicate(x, y) and not relation & (Relation.BEFORE | Relation.AFTER):
            continue
        chosen = example(query, {**allowed, pair: relation})
        if chosen is not None:
            return pair, chosen
    return None


def _difference(one: Relation, other: Relation) -> int:
    """How far the orders of the endpoints of two relations are apart."""
    pairs = zip(ENDPOINT_ORDER[one], ENDPOINT_ORDER[other], strict=True)
    return sum(abs(a - b) for a, b in pairs)
