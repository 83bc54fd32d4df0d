"""The instant until which some interval may still satisfy all of a ``NOT (…)``, as far as is known at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tests.oracle.enumeration import FINE, Futures
from tests.oracle.questions import (
    CERTAIN,
    HALF,
    NEVER,
    ORIGIN,
    Asked,
    Distance,
    Moment,
    Sequenced,
    Span,
    ToCome,
)

__all__ = ["last_instant"]


def last_instant(
    asked: Asked, now: Moment, present: Mapping[str, Span], one: Span | ToCome
) -> Fraction | int | None:
    """The instant from which an interval can satisfy the group no longer; None if it cannot now.

    Where events are sequenced, that may be behind all events of a time (HALF).

    NEVER: it may always; CERTAIN: it does.
    """
    spans = dict(sorted(present.items()))
    if isinstance(one, Span):
        spans[asked.absent] = one
    order = _order_of_places(spans.values(), now.sequenced)
    told = tuple((name, _since(span, now.time, order)) for name, span in spans.items())
    sequenced = now.sequenced
    if sequenced is not None:
        sequenced = replace(sequenced, place=order[sequenced.place])
    relations = tuple((name, frozenset(asked.relations[name])) for name in sorted(asked.relations))
    question = (
        asked.absent, relations, asked.lengths, tuple(asked.distances), asked.longer_than,
        now.closes, sequenced, told, None if isinstance(one, Span) else _asked_of(one, now.time),
    )  # fmt: skip
    until = _possible_until(*question)
    if until is None or until >= NEVER:
        return until
    return now.time + until


def _order_of_places(
    spans: Iterable[Span], sequenced: Sequenced | None
) -> dict[Fraction | int | None, Fraction | int]:
    """Small numbers for places, in their order: those of rows are whole."""
    if sequenced is None:
        return {}
    places = {place for span in spans for place in span.places if place is not None}
    ordered = sorted({*places, sequenced.place})
    return {at: n + HALF * (at % 1 != 0) for n, at in enumerate(ordered)}


def _since(span: Span, now: int, order: Mapping[Any, Fraction | int]) -> Span:
    """An interval with times since now, and small places."""
    start, end = span.places
    return Span(
        span.start - now,
        None if span.end is None else span.end - now,
        None if span.goes_on_before is None else span.goes_on_before - now,
        span.is_closed,
        (order.get(start, 0), None if end is None else order.get(end, 0)),
    )


def _asked_of(one: ToCome, now: int) -> tuple[Any, ...]:
    """All that is known of an interval to come, with times since now."""
    not_before = one.not_before
    if not_before is not None and not_before[0] == ORIGIN:
        not_before = ORIGIN, not_before[1] - now
    return tuple(sorted(one.apart.items())), not_before, one.known_by, one.late


@lru_cache(maxsize=1 << 17)
def _possible_until(
    absent: str,
    relations: tuple[tuple[str, frozenset[str]], ...],
    lengths: tuple[int, int | None],
    distances: tuple[Distance, ...],
    longer_than: int | None,
    closes: bool,
    sequenced: Sequenced | None,
    told: tuple[tuple[str, Span], ...],
    to_come: tuple[Any, ...] | None,
) -> Fraction | int | None:
    """The last instant, where now is at 0."""
    spans = dict(told)
    one: Span | ToCome
    one = spans.pop(absent) if to_come is None else ToCome(dict(to_come[0]), *to_come[1:])
    asked = Asked(absent, dict(relations), lengths, distances, longer_than)
    futures = Futures(asked, Moment(0, closes, sequenced), spans, one)
    until = futures.possible_until()
    if until is None:
        return None
    if until >= futures.far // 2 * futures.ranks:
        is_there = to_come is None and all(span.end is not None for _, span in told)
        return CERTAIN if is_there else NEVER
    time, rank = divmod(until, futures.ranks)
    last = -(-time // FINE)
    return last + HALF if rank and time % FINE == 0 else last
