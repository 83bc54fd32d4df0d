"""ISEQ over intervals that come as rows, those of one type overlapping: every form by enumeration."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from experiments.peers.iseq import FORMS
from experiments.peers.iseq_rows import arrivals, matcher
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Pattern, Result, sorted_matches
from piestream.relations import ALLEN, Relation
from tests.experiments import brute

Spans = list[tuple[int, int, int]]


def found(form: str, pattern: Pattern, spans: Spans) -> Result:
    """What a form finds of intervals: symbol, start, end."""
    columns = (np.array([span[k] for span in spans], np.int64) for k in range(3))
    return matcher(pattern, form)(arrivals(*columns, punctuated=form == "ibp"))


def expected(pattern: Pattern, spans: Spans) -> list[tuple[int, ...]]:
    """All combinations in allowed relations, by their numbers, with their last ends."""
    of = [[k for k, span in enumerate(spans) if span[0] == s] for s in range(pattern.n_symbols)]
    rows = []
    for chosen in product(*of):
        starts, ends = ([spans[k][side] for k in chosen] for side in (1, 2))
        if max(ends) - min(starts) > pattern.window:
            continue
        if all(
            brute.related(starts[x], ends[x], starts[y], ends[y]) & relations
            for x, y, relations in pattern.constraints
        ):
            rows.append((max(ends), *chosen))
    return sorted(rows)


def test_all_forms_find_what_there_is() -> None:
    seen = 0
    for seed in range(300):
        rng = Random(seed)
        symbols = rng.choice((1, 2, 3, 3, 4))
        pattern = brute.pattern(rng, symbols)
        spans = []
        for _ in range(rng.randint(4, 22)):
            start = rng.randint(0, 40)
            spans.append((rng.randrange(-1, symbols), start, start + rng.choice((1, 2, 4, 9, 15))))
        wanted = expected(pattern, spans)
        for form in FORMS:
            rows = sorted_matches(found(form, pattern, spans).matches)
            assert [tuple(row) for row in rows.tolist()] == wanted, (seed, form, pattern)
        seen += len(wanted)
    assert seen > 400


def test_buffers_grow_and_scans_stay_short() -> None:
    rng = Random(1)
    spans = [(rng.randrange(3), t, t + rng.randint(1, 30)) for t in range(0, 2_000, 2)]
    pattern = Pattern(3, ((0, 1, Relation.OVERLAPS), (1, 2, Relation.CONTAINS)), 600)
    results = {form: found(form, pattern, spans) for form in FORMS}
    assert len({result.count for result in results.values()}) == 1
    assert results["ibp"].count > 300
    probes = [results[form].counters["probes"] for form in ("naive", "ordered", "indexed", "ibp")]
    assert probes[0] > 3 * probes[1]
    assert probes[1] >= probes[2] >= probes[3]


# -- the worked examples of the paper --------------------------------------------------------------
#: b3|6, d6|10, b9|11, c4|12, a7|14, d9|15, a8|16, e20|35: symbols are numbers, e is no symbol.
_TRACE = [
    (1, 3, 6), (3, 6, 10), (1, 9, 11), (2, 4, 12), (0, 7, 14), (3, 9, 15), (0, 8, 16), (-1, 20, 35),
]  # fmt: skip


def _set_of(sign: str, of_x: int, of_y: int) -> Relation:
    """The relations that a comparison of two endpoints allows."""
    allowed = Relation(0)
    for relation in ALLEN:
        signs = {(x, y): s for x, y, s in comparisons(relation)}
        if signs[of_x, of_y] in sign:
            allowed |= relation
    return allowed


EXAMPLE = Pattern(
    4, ((0, 1, _set_of("<", 0, 1)), (1, 2, _set_of("<", 1, 1)), (2, 3, _set_of("<", 1, 1))), 29
)


@pytest.mark.parametrize(
    ("form", "dropped", "peak"), [("ordered", 1, 6), ("indexed", 1, 6), ("ibp", 2, None)]
)
def test_examples_2_and_3(form: str, dropped: int, peak: int | None) -> None:
    """``A.ts < B.te < C.te < D.te``: the first d is dropped, with punctuations also the first b."""
    result = found(form, EXAMPLE, _TRACE)
    assert result.matches.tolist() == [[15, 4, 2, 3, 5], [16, 6, 2, 3, 5]]
    assert result.counters["dropped"] + result.counters["dropped_starts"] == dropped
    if peak is not None:
        assert result.counters["peak_stored"] == peak


@pytest.mark.parametrize("form", FORMS)
def test_what_points_at_an_entry_that_left_the_window_may_stay(form: str) -> None:
    """The newest a leaves before the one below it: the literal cascade would take b along."""
    chain = ((0, 1, _set_of("<", 1, 1)), (1, 2, _set_of("<", 1, 1)))
    spans = [(0, 5, 10), (0, 1, 12), (1, 11, 13), (2, 20, 30)]
    assert found(form, Pattern(3, chain, 27), spans).matches.tolist() == [[30, 0, 2, 3]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("first", [0, 1])
def test_intervals_that_end_together_are_matched(form: str, first: int) -> None:
    spans = [(0, 1, 5), (1, 2, 5)] if first == 0 else [(1, 2, 5), (0, 1, 5)]
    assert found(form, Pattern(2, ((0, 1, _set_of("=", 1, 1)),), 29), spans).count == 1
