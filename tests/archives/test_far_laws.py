"""What is found in a part of an archive is what all rows give, of queries that look far beyond their matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest

from tests.archives.far import KINDS, check, drawn
from tests.archives.streams import selecting

#: So many seeds are tried of each kind; more by ``python -m tests.archives.far FIRST LAST``.
_SEEDS = 20


@pytest.fixture(autouse=True)
def _select() -> Iterator[None]:
    with selecting():
        yield


@pytest.mark.filterwarnings("ignore::piestream.errors.ResultWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_those_of_the_whole_as_frames(
    kind: str, seeds_in_all: Callable[[int], list[int]]
) -> None:
    done: Counter[str] = Counter()
    first = 21 if kind == "gaps" else 0  # of the first ones few have results
    for number in seeds_in_all(_SEEDS):
        seed = first + number
        done += check(drawn(seed, (kind,)), Random(f"archives of {seed}"))
    assert done[f"{kind} in part with results"] > 0, done
