"""Coverage, depth and unions are those of the definitions, instant by instant."""

from __future__ import annotations

from random import Random

import piestream as ps
from tests.interval_tables import brute
from tests.interval_tables.cases import frame_of, random_case


def test_random_coverage_agrees_with_brute_force(seeds: list[int]) -> None:
    for seed in seeds:
        case = random_case(seed)
        found = ps.coverage(frame_of(case.xs), frame_of(case.ys), on="k")
        expected = brute.coverage(case.xs, case.ys)
        assert found.select("covered", "covering").rows() == expected, f"seed {seed}: {case}"
        shares = [
            covered / (x.te - x.ts) for x, (covered, _) in zip(case.xs, expected, strict=True)
        ]
        assert found["covered_share"].to_list() == shares
        assert found["row"].to_list() == list(range(len(case.xs)))


def test_random_depth_agrees_with_brute_force(seeds: list[int]) -> None:
    for seed in seeds:
        rows = random_case(seed).xs
        assert ps.depth(frame_of(rows), on="k").rows() == brute.depth(rows), f"seed {seed}: {rows}"


def test_random_unions_agree_with_brute_force(seeds: list[int]) -> None:
    for seed in seeds:
        rows, gap = random_case(seed).xs, Random(seed).choice([0, 0, 1, 3])
        found = ps.merge(frame_of(rows), on="k", gap=gap)
        assert found.rows() == brute.merge(rows, gap), f"seed {seed}: {rows}, gap {gap}"
