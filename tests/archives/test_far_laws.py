"""What is found in a part of an archive is what all rows give, of queries that look far beyond their matches."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.archives.far import KINDS, check, drawn
from tests.archives.streams import selecting

#: How many seeds are tried of each kind; more by ``python -m tests.archives.far FIRST LAST``.
_SEEDS = int(os.environ.get("PIESTREAM_ARCHIVE_LAWS", "21"))


@pytest.fixture(autouse=True)
def _select() -> Iterator[None]:
    with selecting():
        yield


@pytest.mark.filterwarnings("ignore::piestream.errors.ResultWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_are_those_of_the_whole_as_frames(kind: str) -> None:
    done: Counter[str] = Counter()
    first = _SEEDS if kind == "gaps" else 0  # of the first ones few have results
    for seed in range(first, first + _SEEDS):
        done += check(drawn(seed, (kind,)), Random(f"archives of {seed}"))
    assert done[f"{kind} in part with results"] > 0, done
