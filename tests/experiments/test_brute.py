"""The enumeration that the methods are held against agrees with the library's own oracle."""

from __future__ import annotations

from random import Random

from experiments.peers.pattern import Ints, Pattern
from piestream.expressions.durations import Duration
from piestream.language.model import Query
from piestream.language.parts import Constraint, Emit, Endpoint, Symbol
from tests import oracle
from tests.experiments import brute
from tests.truth import column

NAMES = "abcd"


def as_query(given: Pattern, emit: Emit = Emit.TRIGGER) -> Query:
    def ticks(count: int | None) -> Duration | None:
        return None if count is None else Duration(count, in_ticks=True)

    names = NAMES[: given.n_symbols]
    return Query(
        symbols=tuple(
            Symbol(name, None, ticks(given.at_least[at]), ticks(given.at_most[at]))  # type: ignore[arg-type]
            for at, name in enumerate(names)
        ),
        constraints=tuple(Constraint(names[x], names[y], r) for x, y, r in given.constraints),
        within=Duration(given.window, in_ticks=True),
        returns=tuple(Endpoint(name, "ts", f"{name}_ts") for name in names),
        emit=emit,
    )


def by_oracle(
    given: Pattern, times: Ints, masks: Ints, emit: Emit = Emit.TRIGGER
) -> list[tuple[int, ...]]:
    names = NAMES[: given.n_symbols]
    rows = [
        {"ts": int(t)} | {name: bool(mask >> at & 1) for at, name in enumerate(names)}
        for t, mask in zip(times, masks, strict=True)
    ]
    report = "completed_at" if emit is Emit.COMPLETION else "detected_at"
    found = oracle.matches(as_query(given, emit), rows, {name: column(name) for name in names})
    return sorted((row[report], *(row[f"{name}_ts"] for name in names)) for row in found)


def test_it_agrees_with_the_oracle_on_triggers_and_completions() -> None:
    seen = 0
    for seed in range(120):
        rng = Random(seed)
        symbols = rng.choice((2, 2, 3))
        given = brute.pattern(rng, symbols, durations=seed % 3 == 0, precise=seed % 2 == 0)
        times, masks = brute.stream(rng, symbols, 14)
        expected = by_oracle(given, times, masks)
        assert brute.matches(given, times, masks) == expected, (seed, given)
        seen += len(expected)
        if not given.has_durations:  # a completion is then the last end, whatever was valid when
            completed = by_oracle(given, times, masks, Emit.COMPLETION)
            assert brute.matches(given, times, masks, "completion") == completed, (seed, given)
    assert seen > 60


def test_deciding_relation_by_relation_is_never_earlier_and_sometimes_later() -> None:
    later = 0
    for seed in range(60):
        rng = Random(seed)
        given = brute.pattern(rng, 2)
        times, masks = brute.stream(rng, 2, 30)
        given = Pattern(2, given.constraints, 10_000)
        sets = {m[1:]: m[0] for m in brute.matches(given, times, masks)}
        alone = {m[1:]: m[0] for m in brute.matches(given, times, masks, "alone")}
        assert alone.keys() <= sets.keys()
        assert all(sets[starts] <= alone[starts] for starts in alone)
        later += sum(sets[starts] < alone[starts] for starts in alone)
    assert later > 20
