"""The join gives the pairs that the definitions say, in the order that is promised."""

from __future__ import annotations

import piestream as ps
from tests.interval_tables import brute
from tests.interval_tables.cases import frame_of, random_case


def _check(seed: int) -> None:
    case = random_case(seed)
    found = ps.join(
        frame_of(case.xs), frame_of(case.ys), case.relations, on="k", where=case.where,
        nearest=case.nearest, relation="how",
    )  # fmt: skip
    expected = brute.join(case.xs, case.ys, case.names, case.distances, case.nearest)
    assert found.select("row_x", "row_y", "how").rows() == expected, f"seed {seed}: {case}"


def test_random_joins_agree_with_brute_force(seeds: list[int]) -> None:
    for seed in seeds:
        _check(seed)
