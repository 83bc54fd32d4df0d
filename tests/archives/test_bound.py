"""However much statistics promise, and however much rows need: a query decodes hardly more than a scan does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

import piestream as ps
from experiments.archives.adversarial import CASES, counted, decoded, misleading
from experiments.archives.common import archived
from piestream.archives import costs, planning
from piestream.archives import decoded as decoded_pages
from piestream.archives.decoded import DecodedPages
from tests.archives.cars import assert_same

_PAGE_ROWS = 50


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is large beside pages of these archives is as large beside theirs as elsewhere."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    for name in ("_READ", "_PAGE", "_PLAN", "_PLAN_OF_PAGE", "_RUN", "_RUN_BY_KEY"):
        monkeypatch.setattr(costs, name, getattr(costs, name) * _PAGE_ROWS / 16_384)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return misleading(20_000, _PAGE_ROWS, 20)


@dataclass
class Scanned:
    """What queries over these archives give, and how much a scan decodes for them."""

    frame: pl.DataFrame
    lakes: dict[str | None, ps.Archive]
    known: dict[str, tuple[pl.DataFrame, int]] = field(default_factory=dict)

    def share_of(self, name: str) -> float:
        """How much a query decodes beside a scan; its rows are those of the frame."""
        case = CASES[name]
        query, lake = ps.query(case.text), self.lakes[case.key]
        if name not in self.known:
            given = self.frame if not case.inputs else dict.fromkeys(case.inputs, self.frame)
            expected = query.run(given, at_end=case.at_end)
            self.known[name] = expected, decoded(query, case, lake, False).values
        expected, of_a_scan = self.known[name]
        assert of_a_scan > 0
        with counted() as own:
            found = query.run(case.given(lake), at_end=case.at_end)
        assert_same(found, expected)
        return own.values / of_a_scan


@pytest.fixture(scope="module")
def scanned(frame: pl.DataFrame) -> Iterator[Scanned]:
    with (
        archived([frame], _PAGE_ROWS, file_rows=5_000) as plain,
        archived([frame], _PAGE_ROWS, file_rows=5_000, key="car") as by_key,
    ):
        yield Scanned(frame, {None: plain, "car": by_key})


def test_no_more_is_decoded_than_by_a_scan(scanned: Scanned) -> None:
    shares = {name: scanned.share_of(name) for name in CASES}
    assert max(shares.values()) <= 1.05, shares
    assert sum(share > 0.99 for share in shares.values()) > 5  # it is given up
    assert sum(share < 0.7 for share in shares.values()) > 5  # and it is not


@pytest.mark.parametrize("looked_at", [1 / 32, 0.5])
def test_nor_where_more_is_spent_before_it_is_given_up(
    looked_at: float, scanned: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "LOOKED_AT", looked_at)
    monkeypatch.setattr(costs, "TRIED", 0.3)
    monkeypatch.setattr(costs, "_MARGIN", 3.0)
    shares = {name: scanned.share_of(name) for name in CASES}
    assert max(shares.values()) <= 1.05, shares


def test_nor_where_there_is_no_room_for_it(
    scanned: Scanned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_pages, "_MOST_KEPT", 0)
    monkeypatch.setattr(costs, "TRIED", 0.3)
    monkeypatch.setattr(costs, "_MARGIN", 9.0)
    names = ["UNTIL, of a few", "both and UNTIL", "close by two keys", "two streams and UNTIL"]
    shares = {name: scanned.share_of(name) for name in names}
    assert max(shares.values()) <= 1.05, shares
    monkeypatch.setattr(DecodedPages, "has_room", lambda *_: True)
    assert max(scanned.share_of(name) for name in names) > 1.05  # it is noticed


@pytest.mark.parametrize("seed", range(20))
def test_pages_are_decoded_once_and_given_as_they_are(seed: int, scanned: Scanned) -> None:
    draw = np.random.default_rng(seed)
    pages, frame = scanned.lakes[None].pages, scanned.frame
    kept = DecodedPages(pages, ["ts", "x", "heat", "car"])
    with counted() as count:
        for _ in range(draw.integers(1, 9)):
            wanted = np.flatnonzero(draw.random(len(pages)) < draw.choice([0.01, 0.1, 0.5, 1.0]))
            columns = draw.permutation(kept.columns)[: draw.integers(1, 5)].tolist()
            halves = np.array_split(wanted, 2)
            found = kept.read_parts([(half, columns) for half in halves])
            rows = pl.concat([pl.DataFrame(schema={n: pages.schema[n] for n in columns}), *found])
            is_wanted = np.isin(frame["ts"].to_numpy() // _PAGE_ROWS, wanted)
            assert rows.equals(frame.filter(pl.Series(is_wanted)).select(columns))
    assert count.values == kept.values <= 1.05 * len(frame) * 4
