"""What diagnoses say of queries in which everything is mixed is true; `tests.diagnosis.laws` tries more."""

from __future__ import annotations

from random import Random

import pytest

from piestream.expressions.diagnostics import QueryError
from tests.diagnosis.laws import faults, is_long, stream_faults
from tests.mixed import mixed
from tests.mixed_streams import mixed_streams


@pytest.mark.parametrize("of", ["one stream", "several"])
def test_reasons_are_true_and_near_misses_match(of: str, fewest_seeds: list[int]) -> None:
    for seed in fewest_seeds[:8]:
        rng = Random(f"diagnoses {seed}")
        try:
            if of == "several":
                said = list(stream_faults(mixed_streams(seed), rng))
            else:
                drawn = mixed(seed)
                said = [] if is_long(drawn) else list(faults(drawn, rng))
        except QueryError as error:
            if " yet" not in str(error):
                raise
            continue
        assert not said, f"seed {seed}: {said[0]}"
